r"""The regularised SVM, the form of scikit-learn, LIBLINEAR and LIBSVM.

.. math::

    \min_{w, b}\ \tfrac12 |w|^2 + C \sum_i s_i\, \ell(y_i(\langle w, x_i\rangle + b))

and its dual, with :math:`v = \sum_i \alpha_i y_i x_i`, and U, q from the loss (see :mod:`maxmargin.svm.losses`),

.. math::

    \max_{0 \le \alpha \le U}\ \sum_i \alpha_i - \tfrac12 q_i \alpha_i^2 - \tfrac12 |v|^2
    \quad\text{such that}\quad \sum_i \alpha_i y_i = 0 .

The constraint goes with a free bias. Without a bias there is none. A penalised bias :math:`b = B w_0`, as in LIBLINEAR,
adds :math:`\tfrac12 (b/B)^2` to the primal and subtracts :math:`\tfrac12 B^2 (\sum_i \alpha_i y_i)^2` from the dual.
"""

from __future__ import annotations

import copy
import math
import reprlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.core.rounding import SUM_ROUNDINGS, UNIT, is_finite, relative_error
from maxmargin.core.types import Point, Vector
from maxmargin.engine.certificate import Certificate
from maxmargin.engine.problem import Dual, Trait
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.rows import KernelRows, is_kernel
from maxmargin.svm.losses import Loss, loss_of
from maxmargin.svm.margin import BALANCED, MarginEvaluation, MarginProblem

# Beyond these, C times the weight of a sample, or that times the squared norm of a row, makes sums overflow, or vanish.
SMALLEST_WEIGHT, LARGEST_WEIGHT, LARGEST_PRODUCT = 1e-100, 1e120, 1e290
MEASURED = 64  # responses that are computed anew in float64 to tell what rounding did to the objective
DEVIATIONS = 6.0  # standard errors that are added to what a sample of them tells


class RegularizedSVM(MarginProblem):
    r"""The least :math:`\frac12|w|^2 + C\sum_i s_i \ell(y_i(\langle w, x_i\rangle + b))`.

    Parameters
    ----------
    X : array, np.memmap, CSR or CSC matrix of shape (n, d), or Matrix
        The examples; read through :func:`maxmargin.data.as_matrix`, never copied.
    y : array of shape (n,)
        Labels -1 and +1.
    C : float
        The weight of the losses, in scikit-learn's scaling.
    loss : {"hinge", "squared_hinge"} or Loss
        The loss of the margin.
    bias : bool
        Whether there is a bias b.
    intercept_scaling : float or None
        None: the bias is free. A number B: it is penalised as the weight of one more feature of the value B, as in
        LIBLINEAR and in scikit-learn's LinearSVC.
    sample_weight : array of shape (n,) or None
        Weights of the examples: a weight of 2 is the same as the row twice, a weight of 0 the same as no row.
    part : bool
        Whether these are a part of the examples only, to learn from by an online solver: a class may be missing.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import RegularizedSVM
    >>> problem = RegularizedSVM(np.array([[1.0], [-1.0]]), [1, -1], C=10.0)
    >>> print(problem.certify(np.array([1.0]), p=np.array([0.5, 0.5])))
    the objective is within ... % of the best possible at this C
    """

    form: str = "C"

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
        """Whether there is a bias without a penalty, which asks a dual point to balance the classes."""
        return self.bias and self.intercept_scaling is None

    @property
    def bias_feature(self) -> float:
        """B, the value of the feature that a penalised bias is the weight of; 0 where there is none."""
        return self.intercept_scaling if self.bias and self.intercept_scaling is not None else 0.0

    @property
    def u(self) -> Vector:
        """C s_i, the weight of each loss."""
        return self.C * self.s

    @property
    def rules(self) -> tuple[Any, ...]:
        """All that the dual is made of but the rows: two problems on one matrix with the same rules are the same."""
        return (*self.loss.dual_box(self.u), self.y, self.bias, self.bias_feature)

    def with_C(self, C: float) -> RegularizedSVM:
        """The same problem at another C, sharing data and ledger."""
        other = copy.copy(self)
        other.C = _positive("C", C)
        return other

    # The primal

    def objective(self, w: Point, c: Vector) -> float:
        """The value at w where its margins c = y (<w, x> + b) are known; the penalty of b, if any, left out."""
        return 0.5 * float(w @ w) + float(self.u @ self.loss.value(c))

    def evaluate_responses(self, w: Point, c: Vector, b: float | None = None) -> MarginEvaluation:
        """The value at a w whose responses c are known, with its best bias or the given one: no data is read."""
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
        """The bias at which the objective is least, for responses c; of equally good ones the middle."""
        if self.loss.smooth:
            return self._best_bias_newton(c)
        return self._best_bias_sorted(c)

    # The dual

    def dual_point(self, p: Vector, v: Point | None = None) -> Dual:
        """alpha: p cut to the box and, with a free bias, the heavier class scaled down; and sum alpha_i y_i x_i."""
        upper, _ = self.loss.dual_box(self.u)
        alpha = np.clip(p, 0.0, upper)
        if self.free_bias:
            up = self.y > 0
            sums = alpha[up].sum(), alpha[~up].sum()
            if max(sums) - min(sums) > BALANCED * max(sums):
                # A factor of at most 1, and of exactly 1 for the lighter class: nothing leaves the box.
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
        """The bound is a parabola along the way, open below: three of its values give its top."""

        def at(t: float) -> Dual:
            return (1 - t) * one[0] + t * other[0], (1 - t) * one[1] + t * other[1]

        start, middle, end = (self._bound(*at(t)) for t in (0.0, 0.5, 1.0))
        bend = start - 2 * middle + end
        top = 0.25 * (3 * start - 4 * middle + end) / bend if bend < 0 else float(end > start)
        return at(min(1.0, max(0.0, top)))

    # Rounding

    def prepare(self, tol: float) -> None:
        """Refuse numbers beyond what can be computed with, and choose the precision that kernel rows are kept in."""
        u = self.u[self.s > 0]
        largest = float(u.max()) * max(1.0, float(self.sq_norms().max()))
        if not (u.min() > SMALLEST_WEIGHT and u.max() < LARGEST_WEIGHT and largest < LARGEST_PRODUCT):
            raise ValueError(
                f"C times the weight of a sample is {u.min():.3g} to {u.max():.3g}, and times the squared norm of a "
                f"row up to {largest:.3g}; beyond {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}, and {LARGEST_PRODUCT:g}, "
                "sums of such numbers would overflow or vanish. Choose a C nearer to 1, divide sample_weight and "
                "class_weight by a constant (a weight of 0 leaves a sample out), or divide X by a constant"
            )
        if is_kernel(self.X):  # coefficients are at most C s_i
            self.X.choose_precision(float(np.linalg.norm(self.u)), tol)

    def proof(self, value: float, bound: float, form: str, *sums: Point, rounding: tuple[float, float]) -> Certificate:
        """No objective is below 0, which is the bound of the weights alpha = 0: there is never need for a worse one."""
        if not bound - rounding[1] > 0:
            bound, rounding = 0.0, (rounding[0], 0.0)
        return super().proof(value, bound, form, *sums, rounding=rounding)

    def rounding(self, at: MarginEvaluation, dual: Dual) -> tuple[float, float]:
        p, v = dual
        n = self.y.size
        _, q = self.loss.dual_box(self.u)
        if is_kernel(self.X):
            value, bound = self._measured_rounding(self.X, at, Expansion.of(v))
        else:
            off = self.response_rounding(at.w)
            value, bound = self._off_by(at, off), 0.5 * self.square_rounding(p, v)
        value += relative_error(2 * n + SUM_ROUNDINGS) * at.value
        bound += relative_error(2 * n + SUM_ROUNDINGS) * float(
            p.sum() + 0.5 * (q @ p**2) + self.bias_feature**2 * (p @ self.y) ** 2
        )
        if self.free_bias:
            # Classes that do not quite balance cost the bound their difference times the best bias, which is at most
            # the largest response, and a margin more.
            longest = math.sqrt(max(0.0, 2 * at.value * float(self.sq_norms().max())))
            bound += self.imbalance(p) * (1 + longest)
        return float(value), float(bound)

    def _off_by(self, at: MarginEvaluation, off: Vector) -> float:
        """By how much the losses rise if each response is off by so much, in the direction that costs most."""
        margins = at.responses + self.y * at.b
        off = off + 4 * UNIT * (np.abs(at.responses) + abs(at.b))
        return float(self.u @ (self.loss.value(margins - off) - self.loss.value(margins)))

    def _measured_rounding(self, K: KernelRows, at: MarginEvaluation, v: Expansion) -> tuple[float, float]:
        """What kernel rows in float32 did to value and bound, from responses that are computed anew in float64.

        Bounds that hold for any roundings would be too coarse: the roundings of many entries go up and down, and hardly
        add up. So what they did is measured, on all responses that count where these are few. Otherwise it is estimated
        from a sample of them, drawn by how much each may add, with six standard errors on top.
        """
        w = Expansion.of(at.w)
        reach, signed = K.rounding(w.beta, K.dtype), self.y * at.b
        margins = at.responses + signed
        close = margins < 1 + 10 * reach
        weights = (np.abs(w.beta) + np.abs(v.beta) + self.u * close) * np.maximum(reach, reach.mean())
        rows, share = _sample(weights / (weights.max() or 1.0), MEASURED)
        off = self.y[rows] * K.dot_precisely(w.beta, rows) - at.responses[rows]
        losses = self.u[rows] * (self.loss.value(margins[rows] + off) - self.loss.value(margins[rows]))
        value = 0.5 * w.beta[rows] * self.y[rows] * off + losses
        same = v is w or np.array_equal(v.beta, w.beta)
        anew = self.y[rows] * off + w.f[rows] if same else K.dot_precisely(v.beta, rows)
        bound = 0.5 * v.beta[rows] * (anew - v.f[rows])
        fine = K.rounding(w.beta, np.float64) + 4 * UNIT * (np.abs(at.responses) + abs(at.b))
        certain = 0.5 * float(np.abs(w.beta) @ fine) + self._off_by(at, np.where(close, fine, 0.0))
        return (
            _estimate(value, share) + certain,
            _estimate(bound, share) + 0.5 * float(np.abs(v.beta) @ K.rounding(v.beta, np.float64)),
        )

    # In private

    def _best_bias_newton(self, c: Vector) -> float:
        """A piecewise quadratic in b: Newton's steps, kept inside of where the slope changes its sign."""
        stiffness = 1 / self.bias_feature**2 if self.bias_feature else 0.0
        used = self.s > 0
        c, y, u = c[used], self.y[used], self.u[used]
        at_one = y * (1 - c)  # the bias at which each example is at the margin
        enough, too_much = float(at_one[y > 0].max()), float(at_one[y < 0].min())
        if self.free_bias and enough <= too_much:  # no example falls short in between
            return 0.5 * (enough + too_much)
        low, high = min(float(at_one.min()), 0.0), max(float(at_one.max()), 0.0)
        b = 0.0
        for _ in range(100):
            short = 1 - c - y * b
            wet = short > 0
            pulls = 2 * (u * short)[wet]
            slope = stiffness * b - float(pulls @ y[wet])
            curvature = stiffness + 2 * float(u[wet].sum())
            if abs(slope) <= 1e-15 * (stiffness * abs(b) + float(pulls.sum())):  # no more than rounding
                break
            low, high = (b, high) if slope < 0 else (low, b)
            after = b - slope / curvature
            # A step to an end of the bracket could come back from there, for ever.
            if not low < after < high:
                after = 0.5 * (low + high)
            if after == b or high - low <= 1e-15 * max(abs(low), abs(high)):
                break
            b = after
        return b

    def _best_bias_sorted(self, c: Vector) -> float:
        """The slope in b rises by u_i where example i comes to the margin, and with b / B^2: find where it is zero."""
        at_one = self.y * (1 - c)
        order = np.argsort(at_one)
        kinks, u = at_one[order], self.u[order]
        # Below all kinks the positives pull up, and no negative pulls.
        after = np.cumsum(u) - float(self.u[self.y > 0].sum())
        before = after - u
        if not self.bias_feature:
            # Rounding must not decide between the two ends of a flat valley.
            flat = 1e-12 * float(u.sum())
            left, right = (int(np.searchsorted(after, level)) for level in (-flat, flat))
            last = kinks.size - 1
            return float(0.5 * (kinks[min(left, last)] + kinks[min(right, last)]))
        stiffness = 1 / self.bias_feature**2
        k = int(np.searchsorted(after + stiffness * kinks, 0.0))  # the first kink after which the slope is not negative
        if k == kinks.size:
            return float(-after[-1] / stiffness)
        if before[k] + stiffness * kinks[k] <= 0:
            return float(kinks[k])
        return float(-before[k] / stiffness)


def _sample(weights: Vector, most: int) -> tuple[NDArray[np.int64], Vector | None]:
    """All numbers that have a weight, or so many drawn by their weights; then the share of each in all of them."""
    those = np.flatnonzero(weights)
    if those.size <= most:
        return those, None
    shares = weights / weights.sum()
    drawn = np.random.default_rng(0).choice(weights.size, size=most, p=shares)
    return drawn, shares[drawn]


def _estimate(terms: Vector, shares: Vector | None) -> float:
    """The sum of all terms, or from a sample of them what it is not above but by a chance of about 1 in 10^9."""
    if shares is None:
        return float(terms.sum())
    each = terms / shares
    return float(each.mean() + DEVIATIONS * each.std() / math.sqrt(each.size))


def _positive(name: str, value: float) -> float:
    if not (is_finite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {reprlib.repr(value)}")
    return float(value)
