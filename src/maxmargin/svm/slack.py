r"""The slack-constrained SVM, problem (3) of Hazan, Koren and Srebro (2011).

.. math::

    \max_{|w| \le 1,\ b,\ \xi \ge 0}\ \min_i\ y_i(\langle w, x_i\rangle + b) + \xi_i
    \quad\text{such that}\quad \sum_i s_i \xi_i \le \nu \sum_i s_i

with rows x_i in the unit ball, labels y_i and sample weights s_i (all 1 if none are given, so that their sum is n). For
fixed w and b, the best value is the water level over the margins y_i(<w, x_i> + b); a sample below it is wet.
"""

from __future__ import annotations

import copy
import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.core import best_factor, pour, water_level
from maxmargin.core.line_search import least
from maxmargin.core.rounding import SUM_ROUNDINGS, is_finite, relative_error
from maxmargin.core.types import Indices, Point, Vector
from maxmargin.engine.problem import Dual, Trait, length
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.rows import is_kernel
from maxmargin.svm.margin import BALANCED, MarginEvaluation, MarginProblem
from maxmargin.svm.measured_rounding import measure_rounding

SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-100, 1e100  # sample weights outside of these are refused: sums would overflow
LARGEST_SLACK = 2.0  # largest difference of responses of rows in the unit ball; a larger slack changes no model
LEAST_SHARE = 1e-3  # share of the largest slack; for smaller slacks, C is guessed as for this one
CENTROID_SAMPLES = 64  # samples of each class in the centroid of a kernel problem; each costs a row of K


@dataclass(frozen=True)
class SlackRange:
    """The range of slacks at which the model changes.

    Attributes
    ----------
    largest : float
        The largest such slack, at which every sample is inside the margin of the centroid.
    C : float
        The C that corresponds to `largest`; infinite if it cannot be computed from the centroid.
    """

    largest: float
    C: float

    def C_of(self, slack: float) -> float:
        """A guess of the C of a slack: their product hardly changes from the largest slack to nearly the smallest."""
        return self.C * self.largest / max(slack, LEAST_SHARE * self.largest)


@dataclass(frozen=True)
class Basin:
    """The samples of a group: where they are in an array of all samples, and their weights (None: all 1)."""

    where: Indices | slice
    weights: Vector | None


class SlackSVM(MarginProblem):
    r"""The slack-constrained SVM: the largest margin at a given mean slack.

    Parameters
    ----------
    X : array, np.memmap, CSR or CSC matrix of shape (n, d), or Matrix
        The samples, read through :func:`maxmargin.data.as_matrix` and never copied.
    y : array of shape (n,)
        Labels -1 and +1.
    slack : float
        The mean slack :math:`\nu \ge 0`, in the units of the scaled data.
    bias : bool
        Whether there is a bias b, free and unregularised.
    sample_weight : array of shape (n,) or None
        Sample weights: a weight of 2 is the same as the row twice, a weight of 0 the same as no row.
    scale : float or None
        Rows are read as x_i / scale, which must bring them into the unit ball. None: the largest row norm, which
        costs a pass over the data (counted in the ledger under "scale").
    part : bool
        Whether these are only some of the samples, for an online solver: one class may be missing.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import SlackSVM
    >>> problem = SlackSVM(np.array([[1.0], [-1.0]]), [1, -1], slack=0.0)
    >>> print(problem.certify(np.array([1.0])))
    the margin is within ... % of the best possible at this slack
    """

    form: str = "slack"

    def __init__(
        self,
        X: object,
        y: ArrayLike,
        slack: float,
        *,
        bias: bool = True,
        sample_weight: ArrayLike | None = None,
        scale: float | None = None,
        part: bool = False,
    ) -> None:
        super().__init__(X, y, bias=bias, sample_weight=sample_weight, part=part)
        self.slack = _nonnegative(slack)
        self.scale = (float(np.sqrt(self.sq_norms().max())) or 1.0) if scale is None else checked_scale(scale)

    @property
    def traits(self) -> frozenset[Trait]:
        return super().traits | (frozenset() if self.slack > 0 else {Trait.SEPARABLE})

    def instead_of(self, trait: Trait) -> str:
        return f"slack={self.slack:.6g}" if trait is Trait.SEPARABLE else super().instead_of(trait)

    @property
    def volume(self) -> float:
        """The total slack, nu times the sum of the sample weights: the volume under the water level."""
        return float(self.s.sum()) * self.slack

    @property
    def groups(self) -> list[NDArray[np.bool_]]:
        """The basins, as masks of the samples with a positive weight: one per label with a bias, else one for all."""
        used = self.s > 0
        return [used & (self.y > 0), used & (self.y < 0)] if self.bias else [used]

    def cap(self, p: Vector) -> float:
        """The largest p_i / s_i, which the dual bound multiplies by the volume."""
        used = self.s > 0
        return float((p[used] / self.s[used]).max())

    def with_slack(self, slack: float) -> SlackSVM:
        """The same problem at another slack, sharing data, scale and ledger."""
        other = copy.copy(self)
        other.slack = _nonnegative(slack)
        return other

    def _label(self, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        super()._label(y, sample_weight)
        self._slack_range: SlackRange | None = None
        self._basins: list[Basin] | None = None

    @property
    def basins(self) -> list[Basin]:
        """The groups as index arrays or slices, from which responses are taken fast; computed once."""
        if self._basins is None:
            self._basins = [
                Basin(
                    slice(None) if group.all() else np.flatnonzero(group),
                    None if (self.s[group] == 1).all() else self.s[group],
                )
                for group in self.groups
            ]
        return self._basins

    # Evaluation of a point

    def evaluate(self, w: Point, b: float | None = None) -> MarginEvaluation:
        """The value at w with its best bias, or the given one, and the minimax dual weights."""
        c, norm = self.responses(w), length(w)
        at = self.evaluate_responses(w, c, b)
        if norm in (0, 1):
            return at
        on_sphere = self.evaluate_responses(w / norm, c / norm, None if b is None else b / norm)
        # A point outside of the unit ball is infeasible: it is projected onto the sphere.
        return on_sphere if norm > 1 or on_sphere.value > at.value else at

    def evaluate_direction(self, w: Point, c: Vector) -> MarginEvaluation:
        """The value at the best multiple of w in the unit ball, for a w whose responses c are known.

        The best multiple lies on the sphere, unless there is too little slack for the errors of this direction.
        """
        norm = length(w)
        if norm == 0:
            return self.evaluate_responses(w, c)
        unit, along = w / norm, c / norm
        on_sphere = self.evaluate_responses(unit, along)
        if float(on_sphere.wet @ along) >= 0:  # the slope in the length, in which the value is concave
            return on_sphere
        groups = self.groups
        t = best_factor([along[group] for group in groups], self.volume, [self.s[group] for group in groups])
        return self.evaluate_responses(unit * t, along * t)

    def evaluate_responses(self, w: Point, c: Vector, b: float | None = None) -> MarginEvaluation:
        """As `evaluate`, for a w whose responses c are known: no data is read."""
        levels, wet = self.pour(c)
        margin = sum(levels) / len(levels)
        if not self.bias:
            b = 0.0
        elif b is None:
            b = (levels[1] - levels[0]) / 2
        else:
            used = self.s > 0
            margin = water_level((c + self.y * b)[used], self.volume, self.s[used])
        return MarginEvaluation(w, float(margin), self.on_simplex(self.s * wet), responses=c, b=float(b))

    def pour(self, c: Vector) -> tuple[list[float], Vector]:
        """The water levels of the groups over these responses, with the best bias, and the wet share of each sample.

        On the simplex, s times the wet shares are the minimax dual weights p*: a super-gradient of the value is
        sum p*_i y_i x_i.
        """
        basins, wet = self.basins, np.zeros(c.size)
        water = pour([c[basin.where] for basin in basins], self.volume, [basin.weights for basin in basins])
        for basin, share in zip(basins, water.wet, strict=True):
            wet[basin.where] = share
        return water.levels, wet

    # The centroid, a model without a solver

    def centroid(self) -> Point:
        """The unit vector between the class means; without a bias, along the mean of y_i x_i.

        On a kernel matrix, where each sample costs a row, the means are over some samples of each class.
        """
        weights = self.s if self.sums_are_cheap else self._weights_of_some(CENTROID_SAMPLES)
        weights = self.on_simplex(weights)
        v: Point = self.X.dot_transposed(weights * self.y) / self.scale
        size = length(v)
        direction: Point = v / size if size > 0 else 0.0 * v
        return direction

    def largest_slack(self, c: Vector | None = None) -> float:
        """The slack at which every sample is inside the margin of the centroid: more slack changes nothing.

        `c` holds the responses to the centroid, if they are known.
        """
        return self.slack_range().largest if c is None else float(covering_slack(c, self.s, self.groups))

    def slack_range(self) -> SlackRange:
        """The range of slacks that matter; the first call computes it from the centroid."""
        if self._slack_range is None:
            with self.X.ledger.on("slack range"):
                c = self.responses(self.centroid())
            # At the largest slack all dual weights are at their bound: this is `equivalent_C` of the centroid there.
            p = self.on_simplex(self.s)
            level = float(np.mean([c[group].max() for group in self.groups]))
            pull = level * float(p @ c)
            C = self.cap(p) / pull / self.scale**2 if level > 0 and pull > 0 else math.inf
            self._slack_range = SlackRange(self.largest_slack(c), C)
        return self._slack_range

    # The dual and the effect of rounding

    def _weights_of_some(self, count: int) -> Vector:
        """The weights of `count` samples of each class, evenly spaced over the data; zero for the others."""
        some = np.zeros(self.s.size)
        for label in (1, -1):
            those = np.flatnonzero((self.s > 0) & (self.y == label))
            those = those[np.linspace(0, those.size - 1, min(count, those.size)).astype(int)]
            some[those] = self.s[those]
        return some

    def on_simplex(self, p: Vector) -> Vector:
        """p scaled to sum to 1; with a bias, to 1/2 in each class."""
        if not self.bias:
            return np.asarray(p / p.sum())
        up = self.y > 0
        return np.asarray(p / np.where(up, 2 * p[up].sum(), 2 * p[~up].sum()))

    def dual_point(self, p: Vector, v: Point | None = None) -> Dual:
        """p on the simplex (balanced, with a bias), and sum p_i y_i x_i.

        If all weights of a class are zero, the sample weights are added to p first.
        """
        sums = [float(p[k].sum()) for k in self.groups]
        total = sum(sums)
        if v is not None and max(sums) - min(sums) <= BALANCED * total and not p[self.s == 0].any():
            return p / total, v / total
        p = np.where(self.s > 0, p, 0.0)
        if min(sums) <= 0:
            raised = self.s if self.sums_are_cheap else self._weights_of_some(1)
            p = p + raised / raised.sum()
        p = self.on_simplex(p)
        return p, self.X.dot_transposed(p * self.y) / self.scale

    def _best_mixture(self, one: Dual, other: Dual) -> Dual:
        """The point on the line between two dual points with the least bound, which is convex along it."""

        def at(t: float) -> Dual:
            return (1 - t) * one[0] + t * other[0], (1 - t) * one[1] + t * other[1]

        return at(least(lambda t: self._bound(*at(t)), 0.0, 1.0)[0])

    def _bound(self, p: Vector, v: Point) -> float:
        r""":math:`|v| + \nu \sum_i s_i \max_i p_i / s_i`."""
        return length(v) + self.volume * self.cap(p)

    def prepare(self, tol: float) -> None:
        """Refuse sample weights that would overflow, and choose the precision of cached kernel rows.

        The precision depends on the range of the kernel alone, as the dual weights sum to 1.
        """
        s = self.s[self.s > 0]
        if not (s.min() > SMALLEST_WEIGHT and s.max() < LARGEST_WEIGHT):
            raise ValueError(
                f"the weights of samples are {s.min():.3g} to {s.max():.3g}; beyond {SMALLEST_WEIGHT:g} to "
                f"{LARGEST_WEIGHT:g} sums of such numbers would overflow or vanish. Divide sample_weight and "
                "class_weight by a constant (a weight of 0 leaves a sample out)"
            )
        if is_kernel(self.X):
            self.X.choose_precision(1 / self.scale**2, tol)

    def rounding(self, at: MarginEvaluation, dual: Dual) -> tuple[float, float]:
        p, v = dual
        used = self.s > 0
        sums = relative_error(2 * self.y.size + SUM_ROUNDINGS)
        size = length(v)
        if is_kernel(self.X):
            off = measure_rounding(
                self.X,
                self.y,
                at,
                Expansion.of(v),
                weights=self.s,
                loss=lambda margins: np.maximum(0.0, at.value - margins),
                margin=at.value,
                scale=self.scale,
            )
            value, longer, square = self._fall_of_level(at, off.losses), off.square, off.dual_square
        else:
            # The error of the margin is at most that of any response.
            value = float(self.response_rounding(at.w)[used].max())
            longer, square = self.largest_square(at.w) - length(at.w) ** 2, self.square_rounding(p, v)
        # If |w| exceeds 1 by rounding, w and the margin must be shortened.
        value += abs(at.value) * max(0.0, length(at.w) ** 2 + longer - 1) + sums * (abs(at.value) + abs(at.b))
        bound = math.sqrt(size**2 + max(0.0, square)) - size + sums * self._bound(p, v)
        if self.bias:  # the best bias is at most the largest response plus the margin, each at most 1
            bound += 2 * self.imbalance(p)
        return value, float(bound)

    def _fall_of_level(self, at: MarginEvaluation, losses: float) -> float:
        """How far the level falls if the water in it is more than the volume by `losses`."""
        margins = at.responses + self.y * at.b
        # The water is convex in the level: below, it falls by at least the mass of samples that are still wet.
        lower = at.value
        for _ in range(2):
            mass = float(self.s[(self.s > 0) & (margins < lower)].sum())
            lower = at.value - max(0.0, losses) / max(mass, float(self.s[self.s > 0].min()))
        return at.value - lower

    def largest_square(self, w: Point) -> float:
        """An upper bound of |w|^2 in exact arithmetic."""
        square = length(w) ** 2
        more = relative_error(w.size) * square if self.sums_are_cheap else self.square_rounding(np.zeros(0), w)
        return square + more

    def _of_dual(self, dual: Dual) -> MarginEvaluation:
        return self.evaluate(dual[1] / length(dual[1]))


def covering_slack(c: Vector, s: Vector, groups: Sequence[NDArray[np.bool_]]) -> Vector:
    """The mean slack that brings every sample to the largest response of its group.

    Parameters
    ----------
    c, s : arrays of shape (..., n)
        The responses and the weights of the samples, of one problem or of several.
    groups : list of arrays of bool of shape (..., n)
        See :attr:`SlackSVM.groups`.
    """
    tops = [np.where(group, c, -np.inf).max(axis=-1, keepdims=True) for group in groups]
    shortfalls = (np.where(group, s * (top - c), 0.0).sum(axis=-1) for group, top in zip(groups, tops, strict=True))
    return np.asarray(sum(shortfalls) / s.sum(axis=-1))


def checked_scale(scale: float) -> float:
    """The scale given by the user, which is refused unless it is a positive number."""
    if not (is_finite(scale) and scale > 0):
        raise ValueError(f"scale must be a positive number; got {reprlib.repr(scale)}")
    return float(scale)


def _nonnegative(slack: float) -> float:
    if not (is_finite(slack) and slack >= 0):
        raise ValueError(f"slack must be a number >= 0; got {reprlib.repr(slack)}")
    return float(slack)
