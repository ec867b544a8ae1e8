r"""The regularised SVM, the form of scikit-learn, LIBLINEAR and LIBSVM.

.. math::

    \min_{w, b}\ \tfrac12 |w|^2 + C \sum_i s_i\, \ell(y_i(\langle w, x_i\rangle + b))

and its dual, with :math:`v = \sum_i \alpha_i y_i x_i`, and the bounds U and curvatures q of the loss (see
:mod:`maxmargin.svm.losses`),

.. math::

    \max_{0 \le \alpha \le U}\ \sum_i \alpha_i - \tfrac12 q_i \alpha_i^2 - \tfrac12 |v|^2
    \quad\text{such that}\quad \sum_i \alpha_i y_i = 0 .

The constraint belongs to a free bias; without a bias it is dropped. A penalised bias :math:`b = B w_0`, as in
LIBLINEAR, adds :math:`\tfrac12 (b/B)^2` to the primal and subtracts :math:`\tfrac12 B^2 (\sum_i \alpha_i y_i)^2` from
the dual.
"""

from __future__ import annotations

import copy
import math
import reprlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core.rounding import SUM_ROUNDINGS, UNIT, is_finite, relative_error
from maxmargin.core.types import Point, Vector
from maxmargin.engine.certificate import Certificate
from maxmargin.engine.problem import Dual, Trait
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.rows import is_kernel
from maxmargin.svm.losses import Loss, loss_of
from maxmargin.svm.margin import BALANCED, MarginEvaluation, MarginProblem
from maxmargin.svm.measured_rounding import measure_rounding

# C times a sample weight must lie between the first two, and its product with any |x_i|^2 below the third: beyond them
# sums overflow or vanish, and the problem is refused.
SMALLEST_WEIGHT, LARGEST_WEIGHT, LARGEST_PRODUCT = 1e-100, 1e120, 1e290


class RegularizedSVM(MarginProblem):
    r"""The least :math:`\frac12|w|^2 + C\sum_i s_i \ell(y_i(\langle w, x_i\rangle + b))`.

    Parameters
    ----------
    X : array, np.memmap, CSR or CSC matrix of shape (n, d), or Matrix
        The samples, read through :func:`maxmargin.data.as_matrix` and never copied.
    y : array of shape (n,)
        Labels -1 and +1.
    C : float
        The weight of the losses, in scikit-learn's scaling.
    loss : {"hinge", "squared_hinge"} or Loss
        The loss of the margin.
    bias : bool
        Whether there is a bias b.
    intercept_scaling : float or None
        None: the bias is free. A number B: it is penalised as the weight of a constant feature of value B, as in
        LIBLINEAR and in scikit-learn's LinearSVC.
    sample_weight : array of shape (n,) or None
        Sample weights: a weight of 2 is the same as the row twice, a weight of 0 the same as no row.
    part : bool
        Whether these are only some of the samples, for an online solver: one class may be missing.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import RegularizedSVM
    >>> problem = RegularizedSVM(np.array([[1.0], [-1.0]]), [1, -1], C=10.0)
    >>> print(problem.certify(np.array([1.0]), p=np.array([0.5, 0.5])))
    the objective is within ... % of the best possible at this C
    """

    form: str = "C"
    reads_norms: bool = True

    def __init__(
        self,
        X: object,
        y: ArrayLike,
        C: float = 1.0,
        *,
        loss: str | Loss = "hinge",
        bias: bool = True,
        intercept_scaling: float | None = None,
        sample_weight: ArrayLike | None = None,
        part: bool = False,
    ) -> None:
        super().__init__(X, y, bias=bias, sample_weight=sample_weight, part=part)
        self.C = _positive("C", C)
        self.loss = loss_of(loss)
        B = intercept_scaling
        self.intercept_scaling = None if B is None else _positive("intercept_scaling", B)

    @property
    def traits(self) -> frozenset[Trait]:
        return super().traits | ({Trait.SMOOTH_LOSS} if self.loss.smooth else frozenset())

    def instead_of(self, trait: Trait) -> str:
        return repr(self.loss.name) if trait is Trait.SMOOTH_LOSS else super().instead_of(trait)

    @property
    def free_bias(self) -> bool:
        """Whether there is a bias without a penalty: then a dual point has sum alpha_i y_i = 0."""
        return self.bias and self.intercept_scaling is None

    @property
    def bias_feature(self) -> float:
        """B, the value of the constant feature of a penalised bias; 0 if the bias is free or there is none."""
        return self.intercept_scaling if self.bias and self.intercept_scaling is not None else 0.0

    @property
    def u(self) -> Vector:
        """C s_i, the weight of each loss."""
        return self.C * self.s

    @property
    def dual_signature(self) -> tuple[Any, ...]:
        """All of the dual but the rows: two problems on one matrix with equal signatures have the same dual."""
        return (*self.loss.dual_box(self.u), self.y, self.bias, self.bias_feature)

    def with_C(self, C: float) -> RegularizedSVM:
        """The same problem at another C, sharing data and ledger."""
        other = copy.copy(self)
        other.C = _positive("C", C)
        return other

    # The primal

    def objective(self, w: Point, c: Vector) -> float:
        """The objective at w with the margins c_i = y_i (<w, x_i> + b), without the penalty of b."""
        return 0.5 * float(w @ w) + float(self.u @ self.loss.value(c))

    def evaluate_responses(self, w: Point, c: Vector, b: float | None = None) -> MarginEvaluation:
        """As `evaluate`, for a w whose responses c are known: no data is read."""
        if not self.bias:
            b = 0.0
        elif b is None:
            b = self.best_bias(c)
        with_bias = c + self.y * b if b else c
        value = self.objective(w, with_bias)
        if self.bias_feature:
            value += 0.5 * (b / self.bias_feature) ** 2
        return MarginEvaluation(w, value, self.u * self.loss.slope(with_bias), responses=c, b=float(b))

    def best_bias(self, c: Vector) -> float:
        """The bias with the least objective for responses c; the middle one if there are several."""
        if self.loss.smooth:
            return self._best_bias_newton(c)
        return self._best_bias_sorted(c)

    # The dual

    def dual_point(self, p: Vector, v: Point | None = None) -> Dual:
        """alpha, which is p clipped to the box and, with a free bias, balanced; and v = sum alpha_i y_i x_i.

        To balance the classes, the dual variables of the class with the larger sum are scaled down.
        """
        upper, _ = self.loss.dual_box(self.u)
        alpha = np.clip(p, 0.0, upper)
        if self.free_bias:
            up = self.y > 0
            sums = alpha[up].sum(), alpha[~up].sum()
            if max(sums) - min(sums) > BALANCED * max(sums):
                # The factors are at most 1, and exactly 1 for the class with the smaller sum: alpha stays in the box.
                factors = [min(sums) / own if own > 0 else 0.0 for own in sums]
                alpha = alpha * np.where(up, *factors)
        if v is None or not np.array_equal(alpha, p):
            v = self.X.dot_transposed(alpha * self.y)
        return alpha, v

    def _bound(self, p: Vector, v: Point) -> float:
        _, q = self.loss.dual_box(self.u)
        penalty = self.bias_feature * float(p @ self.y)
        return float(p.sum() - 0.5 * (q @ p**2) - 0.5 * (v @ v) - 0.5 * penalty**2)

    def _best_mixture(self, one: Dual, other: Dual) -> Dual:
        """The best point on the line between two dual points: the bound is a concave parabola along it."""

        def at(t: float) -> Dual:
            return (1 - t) * one[0] + t * other[0], (1 - t) * one[1] + t * other[1]

        start, middle, end = (self._bound(*at(t)) for t in (0.0, 0.5, 1.0))
        bend = start - 2 * middle + end
        top = 0.25 * (3 * start - 4 * middle + end) / bend if bend < 0 else float(end > start)
        return at(min(1.0, max(0.0, top)))

    # Rounding

    def prepare(self, tol: float) -> None:
        """Refuse numbers that would overflow, and choose the precision of cached kernel rows."""
        u = self.u[self.s > 0]
        largest = float(u.max()) * max(1.0, float(self.sq_norms().max()))
        if not (u.min() > SMALLEST_WEIGHT and u.max() < LARGEST_WEIGHT and largest < LARGEST_PRODUCT):
            raise ValueError(
                f"C times the weight of a sample is {u.min():.3g} to {u.max():.3g}, and times the squared norm of a "
                f"row up to {largest:.3g}; beyond {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}, and {LARGEST_PRODUCT:g}, "
                "sums of such numbers would overflow or vanish. Choose a C nearer to 1, divide sample_weight and "
                "class_weight by a constant (a weight of 0 leaves a sample out), or divide X by a constant"
            )
        if is_kernel(self.X):  # the coefficients are at most C s_i
            self.X.choose_precision(float(np.linalg.norm(self.u)), tol)

    def proof(self, value: float, bound: float, form: str, *sums: Point, rounding: tuple[float, float]) -> Certificate:
        """The certificate; a bound below 0 is replaced by 0, the bound of alpha = 0."""
        if not bound - rounding[1] > 0:
            bound, rounding = 0.0, (rounding[0], 0.0)
        return super().proof(value, bound, form, *sums, rounding=rounding)

    def rounding(self, at: MarginEvaluation, dual: Dual) -> tuple[float, float]:
        p, v = dual
        n = self.y.size
        _, q = self.loss.dual_box(self.u)
        if is_kernel(self.X):
            off = measure_rounding(
                self.X, self.y, at, Expansion.of(v), weights=self.u, loss=self.loss.value, margin=1.0
            )
            value, bound = 0.5 * off.square + off.losses, 0.5 * off.dual_square
        else:
            value, bound = self._off_by(at, self.response_rounding(at.w)), 0.5 * self.square_rounding(p, v)
        value += relative_error(2 * n + SUM_ROUNDINGS) * at.value
        bound += relative_error(2 * n + SUM_ROUNDINGS) * float(
            p.sum() + 0.5 * (q @ p**2) + self.bias_feature**2 * (p @ self.y) ** 2
        )
        if self.free_bias:
            # The bound loses sum alpha_i y_i times the best bias, which is at most the largest response plus 1.
            longest = math.sqrt(max(0.0, 2 * at.value * float(self.sq_norms().max())))
            bound += self.imbalance(p) * (1 + longest)
        return float(value), float(bound)

    def _off_by(self, at: MarginEvaluation, off: Vector) -> float:
        """The most that the losses can rise if response i is wrong by up to off_i."""
        margins = at.responses + self.y * at.b
        off = off + 4 * UNIT * (np.abs(at.responses) + abs(at.b))
        return float(self.u @ (self.loss.value(margins - off) - self.loss.value(margins)))

    # The best bias

    def _best_bias_newton(self, c: Vector) -> float:
        """Newton's method on a piecewise quadratic in b, safeguarded by a bracket of the root of the slope."""
        stiffness = 1 / self.bias_feature**2 if self.bias_feature else 0.0
        used = self.s > 0
        c, y, u = c[used], self.y[used], self.u[used]
        at_one = y * (1 - c)  # the bias at which each sample has margin 1
        enough, too_much = float(at_one[y > 0].max()), float(at_one[y < 0].min())
        if self.free_bias and enough <= too_much:  # between them no sample has a loss
            return 0.5 * (enough + too_much)
        low, high = min(float(at_one.min()), 0.0), max(float(at_one.max()), 0.0)
        b = 0.0
        for _ in range(100):
            short = 1 - c - y * b
            wet = short > 0
            pulls = 2 * (u * short)[wet]
            slope = stiffness * b - float(pulls @ y[wet])
            curvature = stiffness + 2 * float(u[wet].sum())
            if abs(slope) <= 1e-15 * (stiffness * abs(b) + float(pulls.sum())):  # the slope is zero up to rounding
                break
            low, high = (b, high) if slope < 0 else (low, b)
            after = b - slope / curvature
            # Steps to an end of the bracket could alternate for ever: bisect instead.
            if not low < after < high:
                after = 0.5 * (low + high)
            if after == b or high - low <= 1e-15 * max(abs(low), abs(high)):
                break
            b = after
        return b

    def _best_bias_sorted(self, c: Vector) -> float:
        """The root of the slope in b, which rises by u_i where sample i has margin 1, and as b / B^2 in between."""
        at_one = self.y * (1 - c)
        order = np.argsort(at_one)
        kinks, u = at_one[order], self.u[order]
        # Below all kinks, every positive sample has a loss and no negative one has.
        after = np.cumsum(u) - float(self.u[self.y > 0].sum())
        before = after - u
        if not self.bias_feature:
            # Where the minimum is an interval, rounding must not choose one of its ends.
            flat = 1e-12 * float(u.sum())
            left, right = (int(np.searchsorted(after, level)) for level in (-flat, flat))
            last = kinks.size - 1
            return float(0.5 * (kinks[min(left, last)] + kinks[min(right, last)]))
        stiffness = 1 / self.bias_feature**2
        k = int(np.searchsorted(after + stiffness * kinks, 0.0))  # the first kink after which the slope is >= 0
        if k == kinks.size:
            return float(-after[-1] / stiffness)
        if before[k] + stiffness * kinks[k] <= 0:
            return float(kinks[k])
        return float(-before[k] / stiffness)


def _positive(name: str, value: float) -> float:
    if not (is_finite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {reprlib.repr(value)}")
    return float(value)
