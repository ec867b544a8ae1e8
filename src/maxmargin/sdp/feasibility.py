r"""Semidefinite feasibility: is there an :math:`X \succeq 0`, not 0, with :math:`A_i \bullet X \ge 0` for all i?

The problem of section 4.1 of Irpan and Kwan (2015), except for the trace.

As a max-min problem, it is :math:`\sigma = \max_X \min_i A_i \bullet X` over positive semidefinite X of trace 1. The
trace decides what can be proved:

- With trace 1, :math:`\sigma = \min_p \lambda_{\max}(\sum_i p_i A_i)` over weights p on the simplex. Its sign decides:
  :math:`\sigma \ge 0` if the program is feasible, and :math:`\sigma < 0` if not. Weights p with
  :math:`\lambda_{\max}(\sum_i p_i A_i) < 0` prove infeasibility: any :math:`X \succeq 0` of trace 1 has
  :math:`\sum_i p_i A_i \bullet X < 0`, so that some :math:`A_i \bullet X` is below 0.
- With a trace of at most 1, the survey's set, X = 0 is allowed: the value is :math:`\max(0, \sigma)`, every program is
  feasible to within any eps, and nothing can be proved infeasible.

So values and bounds here are for trace 1: a given X is scaled to trace 1 before it is measured.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Point, Vector
from maxmargin.data.symmetric_matrices import SymmetricMatrices, as_symmetric_matrices
from maxmargin.engine.certificate import Certificate, Form
from maxmargin.engine.problem import Dual, Evaluation
from maxmargin.game.max_min import MaxMin
from maxmargin.sdp.eigen import largest_eigenvalue, refuse_indefinite

Square = NDArray[np.float64]

SCALE_ROUNDING = 1 + 1e-9  # a norm that exceeds the scale by at most this factor counts as equal to the scale


class SemidefiniteFeasibility(MaxMin):
    r""":math:`\sigma = \max_X \min_i A_i \bullet X` over :math:`X \succeq 0` of trace 1, with :math:`|A_i|_F \le 1`.

    Parameters
    ----------
    A : SymmetricMatrices, or what :func:`maxmargin.data.as_symmetric_matrices` takes
        m symmetric matrices with n rows each.
    scale : float or None
        The divisor of all :math:`A_i`, at least the largest Frobenius norm. None: the largest Frobenius norm, for which
        all entries are read once, counted under "scale". A given scale is checked in the same way, except for matrices
        by entry access, for which it is trusted.

    Attributes
    ----------
    X : SymmetricMatrices
        The matrices, with the ledger of the entries that were read.
    n : int
        The number of matrices (m in the survey).
    scale : float
        The divisor of all matrices: values and bounds are for :math:`A_i / \text{scale}`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import SemidefiniteFeasibility
    >>> problem = SemidefiniteFeasibility(np.array([np.diag([1.0, -0.5]), np.diag([-0.5, 1.0])]), scale=2.0)
    >>> print(problem.certify(np.eye(2), np.array([0.5, 0.5])))
    feasible: every A_i.X is at least 0.125, and no X does better than 0.125
    >>> problem = SemidefiniteFeasibility(np.array([np.diag([1.0, -2.0]), np.diag([-2.0, 1.0])]), scale=4.0)
    >>> print(problem.certify(np.eye(2), np.array([0.5, 0.5])))
    infeasible: proved by weights p, by which the mean of A_i.X is at most -0.125
    """

    form: str = "feasibility"

    def __init__(self, A: Any, *, scale: float | None = None) -> None:
        self.X: SymmetricMatrices = as_symmetric_matrices(A)
        self.n = self.X.shape[0]
        self.scale = self._scale(scale)
        self._least, self._weights = math.inf, np.zeros(self.n)  # the smallest bound so far, and its weights

    def _scale(self, scale: float | None) -> float:
        if scale is not None and not (np.isfinite(scale) and scale > 0):
            raise ValueError(f"scale must be a positive number or None; got {scale!r}")
        if scale is not None and not self.X.is_stored:
            return float(scale)
        with self.ledger.on("scale"):
            norms = self.X.frobenius()
        largest = int(np.argmax(norms))
        if norms[largest] == 0:
            raise ValueError("every matrix is 0: any X is feasible, and there is nothing to solve")
        if scale is not None and norms[largest] > scale * SCALE_ROUNDING:
            raise ValueError(
                f"matrix {largest} has a Frobenius norm of {norms[largest]:.6g}, above the scale {scale:.6g}; give a "
                "scale of at least the largest norm, or None"
            )
        return float(norms[largest] if scale is None else scale)

    @property
    def round_reads(self) -> int:
        """The largest number of entries that a round reads: one entry of every matrix, and one matrix."""
        return self.X.most_per_entry + self.X.most_per_matrix

    def sample(self, x: Square, rng: np.random.Generator) -> Vector:
        r"""An l2-sample: :math:`(j, l) \sim X_{jl}^2 / |X|^2`, and :math:`A_i(j, l) |X|^2 / X_{jl}` for every i.

        The sample is unbiased, with a variance of at most :math:`|A_i|^2 |X|^2 \le 1`. It draws one random number.
        """
        drawn = rng.random()
        by_row = np.einsum("jl,jl->j", x, x)
        total = float(by_row.sum())
        if total == 0:
            return np.zeros(self.n)
        j, rest = _locate(by_row, drawn * total)
        l, _ = _locate(x[j] ** 2, rest)
        return np.asarray(self.X.entries(j, l) * (total / (x[j, l] * self.scale)))

    def gradient(self, i: int, x: Square) -> Square:
        r""":math:`A_i`."""
        return self.X.matrix(i) / self.scale

    def values(self, x: Square) -> Vector:
        r"""Every :math:`A_i \bullet X`, for X as it is given."""
        return self.X.products(x) / self.scale

    def bound(self, p: Vector) -> float:
        r""":math:`\lambda_{\max}(\sum_i p_i A_i)`: an upper bound for every X of trace 1. Below 0: infeasible."""
        return largest_eigenvalue(self.X.combination(p)) / self.scale

    def evaluate(self, w: Any) -> Evaluation:
        r"""The smallest :math:`A_i \bullet X`, with X scaled to trace 1; X = 0 is replaced by I/n."""
        return super().evaluate(self.of_trace_one(w))

    def certify_evaluated(
        self, at: Evaluation, p: Vector | None = None, v: Point | None = None, *, rounds: int = 0
    ) -> tuple[Certificate, Dual]:
        """The value of X with the smallest bound that any call has proved, and the weights that prove that bound."""
        certificate, (weights, _) = super().certify_evaluated(at, p, v, rounds=rounds)
        if certificate.dual < self._least:
            self._least, self._weights = certificate.dual, weights
        return Certificate.proved(at.value, self._least, self.form), (self._weights, np.empty(0))

    def of_trace_one(self, X: Any) -> Square:
        """A positive semidefinite X scaled to trace 1, or I/n for X = 0; any other X raises a ValueError."""
        n = self.X.shape[1]
        whole = np.asarray(X, dtype=np.float64)
        if whole.shape != (n, n):
            raise ValueError(f"X has shape {whole.shape}; expected ({n}, {n})")
        if not np.isfinite(whole).all() or not np.allclose(whole, whole.T, rtol=0, atol=1e-9 * abs(whole).max()):
            raise ValueError("X must be a symmetric matrix of finite numbers")
        if not whole.any():
            return np.eye(n) / n
        refuse_indefinite(whole)
        return np.asarray(whole / np.trace(whole))


def _locate(weights: Vector, position: float) -> tuple[int, float]:
    """The index of the interval that contains a position, among adjacent intervals of these lengths; and the offset."""
    ends = np.cumsum(weights)
    # Rounding may put the position beyond the last interval.
    index = min(int(np.searchsorted(ends, position, side="right")), int(np.flatnonzero(weights)[-1]))
    return index, max(0.0, float(position - (ends[index] - weights[index])))


def _sentence(certificate: Certificate) -> str:
    value, bound = certificate.primal, certificate.dual
    if bound < 0:
        return f"infeasible: proved by weights p, by which the mean of A_i.X is at most {bound:.3g}"
    if value >= 0:
        return f"feasible: every A_i.X is at least {value:.3g}, and no X does better than {bound:.3g}"
    return f"not decided: the best is between {value:.3g} and {bound:.3g}; feasible to within {-value:.3g}"


Form("feasibility", True, _sentence)
