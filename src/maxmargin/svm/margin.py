"""The base class of the max-margin problems: samples with labels, weights and a bias."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core.rounding import UNIT
from maxmargin.core.types import Point, Vector
from maxmargin.engine.problem import Evaluation, Solution
from maxmargin.engine.row_problem import RowProblem

BALANCED = 1e-12  # classes count as balanced if their dual weights differ by at most this share of the sum (rounding)


@dataclass(frozen=True)
class LossSums:
    """Sums over the samples of an evaluated predictor, and extremes.

    Attributes
    ----------
    losses : float
        The weighted losses.
    rise : float
        How much the losses can rise by rounding of the responses; for rows of a kernel, rounding is measured
        separately.
    shortfall : float
        The amounts by which margins fall short of 1, weighted by the sample weights.
    least, largest : float
        The smallest and the largest decision value of samples with positive weight.
    """

    losses: float
    rise: float
    shortfall: float
    least: float
    largest: float


@dataclass(frozen=True)
class MarginEvaluation(Evaluation):
    """A linear predictor evaluated on all samples.

    Attributes
    ----------
    w : array of shape (d,)
        The direction; in the slack form, stretched to the unit sphere if that raises the value.
    value : float
        The value of the problem at w with its best bias: the margin in the slack form, else the objective.
    wet : array of shape (n,)
        The dual point that w suggests: weights on the samples that fall short of the margin.
    responses : array of shape (n,)
        y_i <w, x_i>, without the bias.
    b : float
        The best bias for w (0 in a problem without one).
    sums : LossSums or None
        The sums of the regularised form; None in the slack form.
    """

    responses: Vector
    b: float
    sums: LossSums | None = None

    def solution(self, p: Vector | None, v: Point | None) -> Solution:
        return Solution(self.w, self.b, p, v)


class MarginProblem(RowProblem):
    r"""Samples :math:`x_i` with labels :math:`y_i = \pm 1` and weights :math:`s_i`, for a problem of either form.

    A dual point p stands for the vector :math:`\sum_i p_i y_i x_i`.

    Attributes
    ----------
    X : Rows
    y, s : arrays of shape (n,)
        Labels, and sample weights (1 if none were given).
    bias : bool
        Whether there is a bias b.
    scale : float
        Rows are read as x_i / scale.
    part : bool
        Whether these are only some of the samples, for an online solver: one class may be missing.
    """

    def __init__(
        self, X: object, y: ArrayLike, *, bias: bool, sample_weight: ArrayLike | None, part: bool = False
    ) -> None:
        super().__init__(X)
        self.part = part
        self._label(y, sample_weight)
        self.bias = bool(bias)

    # Implemented by each problem

    @abstractmethod
    def evaluate(self, w: Point, b: float | None = None) -> MarginEvaluation:
        """The value at w with its best bias, or the given one, and dual weights derived from the responses."""

    # Common to both problems

    @property
    def free_bias(self) -> bool:
        """Whether there is a bias without a penalty: then the weights of a dual point balance between the classes."""
        return self.bias

    @property
    def n_samples(self) -> int:
        return int(np.count_nonzero(self.s))

    def responses(self, w: Point) -> Vector:
        """y_i <w, x_i> for every i, by one pass over the data."""
        return self.y * self.X.dot(w) / self.scale

    def evaluate_solution(self, solution: Solution, *, keep_bias: bool) -> MarginEvaluation:
        return self.evaluate(solution.w, solution.b if keep_bias else None)

    def relabelled(self, y: ArrayLike, sample_weight: ArrayLike | None) -> Self:
        """The same problem with other labels and weights, sharing data, ledger and the norms of the rows."""
        other = copy.copy(self)
        other._label(y, sample_weight)
        return other

    def imbalance(self, p: Vector) -> float:
        """An upper bound of |sum p_i y_i| in exact arithmetic."""
        some = np.flatnonzero(p)
        return abs(math.fsum((p[some] * self.y[some]).tolist())) + UNIT * float(p.sum())

    def _label(self, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        self.y: Vector = _labels(y, self.X.shape[0])
        self.s: Vector = _weights(sample_weight, self.X.shape[0])
        used = self.s > 0
        if not self.part and not ((used & (self.y > 0)).any() and (used & (self.y < 0)).any()):
            raise ValueError(
                "the samples are of one class, those of weight 0 left out; a separating direction needs both classes"
            )


def _labels(y: ArrayLike, n: int) -> Vector:
    labels = np.asarray(y, dtype=np.float64)
    if labels.shape != (n,):
        raise ValueError(f"X has {n} rows, but y has shape {labels.shape}; expected ({n},)")
    if not (np.abs(labels) == 1).all():
        raise ValueError(f"labels must be -1 and +1; got {np.unique(labels)[:5]}")
    return labels


def _weights(sample_weight: ArrayLike | None, n: int) -> Vector:
    if sample_weight is None:
        return np.ones(n)
    s = np.asarray(sample_weight, dtype=np.float64)
    if s.shape != (n,):
        raise ValueError(f"X has {n} rows, but sample_weight has shape {s.shape}; expected ({n},)")
    if not np.isfinite(s).all() or (s < 0).any():
        raise ValueError(f"sample_weight must be finite and >= 0; got {s[~(np.isfinite(s) & (s >= 0))][0]}")
    if not (s > 0).any():
        raise ValueError("sample_weight is zero for every sample; at least one of each class must count")
    return s
