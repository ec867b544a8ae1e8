"""The effect of kernel rows in float32 on values and bounds, measured by recomputing responses in float64.

A worst-case bound would be too loose: the rounding errors of many entries mostly cancel. So the errors are measured on
all responses that matter, if these are few. Otherwise they are estimated from responses drawn with probability
proportional to the error that each may add, plus six standard errors. If the estimate is too large to certify what the
solver has reached, the errors are measured on all responses after all, which leaves the rounding of float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from maxmargin.core.rounding import UNIT
from maxmargin.core.types import Indices, Vector
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.rows import KernelRows
from maxmargin.svm.margin import MarginEvaluation

REMEASURED_RESPONSES = 64  # largest number of responses that are recomputed in float64
STANDARD_ERRORS = 6.0  # standard errors that are added to an estimate from random responses
CLOSE = 10.0  # responses within this many expected rounding errors of the margin count as close to it


@dataclass(frozen=True)
class MeasuredRounding:
    """How much exact sums may exceed the computed ones.

    Attributes
    ----------
    losses : float
        The sum of the weighted losses.
    square, dual_square : float
        |w|^2, and |v|^2 of the dual point.
    """

    losses: float
    square: float
    dual_square: float

    @property
    def total(self) -> float:
        """How much the gap of the regularised form may grow."""
        return self.losses + 0.5 * (self.square + self.dual_square)


def measure_rounding(
    K: KernelRows,
    y: Vector,
    at: MarginEvaluation,
    v: Expansion,
    *,
    weights: Vector,
    loss: Callable[[Vector], Vector],
    margin: float,
    scale: float = 1.0,
    gap: float = math.inf,
) -> MeasuredRounding:
    """Measure what rounding did to the losses of an evaluated point, and to the squares of w and of v.

    `weights` weight the losses, `loss` is a function of y_i (<w, x_i> + b) that is zero above `margin`, and rows are
    x_i / scale in `at` and in v. All responses that matter are recomputed if an estimate of the total exceeds the gap,
    unless most of it is the rounding of float64.
    """
    w = Expansion.of(at.w)
    reach = K.rounding(w.beta, K.dtype) / scale
    margins = at.responses + y * at.b
    close = margins < margin + CLOSE * reach
    matters = (np.abs(w.beta) + np.abs(v.beta) + weights * close) * np.maximum(reach, reach.mean())
    same = v is w or np.array_equal(v.beta, w.beta)
    fine = K.rounding(w.beta, np.float64) / scale + 4 * UNIT * (np.abs(at.responses) + abs(at.b))
    certain = np.where(close, fine, 0.0)
    least = MeasuredRounding(
        float(weights @ (loss(margins - certain) - loss(margins))),
        scale * float(np.abs(w.beta) @ fine),
        float(np.abs(v.beta) @ K.rounding(v.beta, np.float64)),
    )

    def measured(rows: Indices, share: Vector | None) -> MeasuredRounding:
        off = y[rows] * K.dot_precisely(w.beta, rows) / scale - at.responses[rows]
        losses = weights[rows] * (loss(margins[rows] + off) - loss(margins[rows]))
        square = scale * w.beta[rows] * y[rows] * off
        recomputed = scale * y[rows] * off + w.f[rows] if same else K.dot_precisely(v.beta, rows)
        dual_square = v.beta[rows] * (recomputed - v.f[rows])
        return MeasuredRounding(
            least.losses + _estimate(losses, share),
            least.square + _estimate(square, share),
            least.dual_square + _estimate(dual_square, share),
        )

    rows, share = _choose(matters / (matters.max() or 1.0), REMEASURED_RESPONSES)
    found = measured(rows, share)
    enough = share is None or found.total <= max(gap, 2 * least.total)
    return found if enough else measured(np.flatnonzero(matters), None)


def _choose(weights: Vector, most: int) -> tuple[Indices, Vector | None]:
    """The indices with a positive weight and None, or `most` indices drawn by weight and their probabilities."""
    those = np.flatnonzero(weights)
    if those.size <= most:
        return those, None
    shares = weights / weights.sum()
    drawn = np.random.default_rng(0).choice(weights.size, size=most, p=shares)
    return drawn, shares[drawn]


def _estimate(terms: Vector, shares: Vector | None) -> float:
    """The sum of all terms, or an upper bound from drawn terms, which fails with a probability of about 1e-9."""
    if shares is None:
        return float(terms.sum())
    each = terms / shares
    return float(each.mean() + STANDARD_ERRORS * each.std() / math.sqrt(each.size))
