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
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core import rounding
from maxmargin.core.rounding import is_finite
from maxmargin.core.types import Point, Vector
from maxmargin.engine.certificate import Certificate
from maxmargin.engine.parts import PART_ROWS, Parts, Scattered, SinglePart, SqNorms, in_parts
from maxmargin.engine.problem import Dual, Solution, Trait
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.rows import is_kernel
from maxmargin.svm import best_bias
from maxmargin.svm._proof import bound_on_responses
from maxmargin.svm.losses import Loss, loss_of
from maxmargin.svm.margin import BALANCED, LossSums, MarginEvaluation, MarginProblem
from maxmargin.svm.measured_rounding import measure_rounding
from maxmargin.svm.proof_part import ProofPart

# C times a sample weight must lie between the first two, and its product with any |x_i|^2 below the third. Other
# problems are refused, because sums could overflow or underflow.
SMALLEST_WEIGHT, LARGEST_WEIGHT, LARGEST_PRODUCT = 1e-100, 1e120, 1e290


@dataclass(frozen=True)
class ClassSums:
    """Sums over a dual point p, in pairs: over the positive and over the negative samples.

    Attributes
    ----------
    totals : pair of float
        The sums of p_i.
    curvatures : pair of float
        The sums of q_i p_i^2.
    lengths : pair of float
        The sums of p_i |x_i|.
    clipped : int
        The number of p_i outside of the box. The sums are over p clipped to the box.
    """

    totals: tuple[float, float]
    curvatures: tuple[float, float]
    lengths: tuple[float, float]
    clipped: int

    @property
    def total(self) -> float:
        """The sum of p_i."""
        return self.totals[0] + self.totals[1]

    @property
    def imbalance(self) -> float:
        """The sum of p_i y_i."""
        return self.totals[0] - self.totals[1]

    def balancing_factors(self) -> tuple[float, float]:
        """Factors for the two classes that make their sums equal.

        The factors are at most 1, so that p stays in the box, and exactly 1 for the class with the smaller sum.
        """
        small, large = sorted(self.totals)
        if large - small <= BALANCED * large:
            return 1.0, 1.0
        up, down = (small / own if own > 0 else 0.0 for own in self.totals)
        return up, down

    def scaled(self, up: float, down: float) -> ClassSums:
        """The sums after p is multiplied by these factors in the two classes."""
        return ClassSums(
            (up * self.totals[0], down * self.totals[1]),
            (up**2 * self.curvatures[0], down**2 * self.curvatures[1]),
            (up * self.lengths[0], down * self.lengths[1]),
            0,
        )


class EvaluationInParts(MarginEvaluation):
    """An evaluated predictor whose responses stay where the samples are until they are asked for."""

    samples: Parts  # of ProofPart

    def __init__(self, samples: Parts, w: Point, value: float, b: float, sums: LossSums, **known: Vector) -> None:
        vars(self).update(samples=samples, w=w, value=value, b=b, sums=sums, **known)  # its class forbids assignments

    @cached_property
    def responses(self) -> Vector:
        """y_i <w, x_i>, without the bias."""
        return np.concatenate(self.samples.collect("responses", self.w))

    @cached_property
    def wet(self) -> Vector:
        """The dual variables that the margins suggest."""
        return np.concatenate(self.samples.collect("suggested_dual", Scattered(self.responses), self.b))

    def kept(self) -> dict[str, Any]:
        """What a checkpoint keeps: the numbers, without the samples."""
        return {name: getattr(self, name) for name in ("w", "value", "wet", "responses", "b", "sums")}

    @classmethod
    def of_kept(cls, kept: Mapping[str, Any]) -> MarginEvaluation:
        """The evaluation from a checkpoint."""
        return MarginEvaluation(**kept)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).of_kept, (self.kept(),)


class RegularizedSVM(MarginProblem):
    r"""The regularised SVM: minimise :math:`\frac12|w|^2 + C\sum_i s_i \ell(y_i(\langle w, x_i\rangle + b))`.

    Parameters
    ----------
    X : array, np.memmap, CSR or CSC matrix of shape (n, d), or Matrix
        The samples, read through :func:`maxmargin.data.as_matrix` and never copied.
    y : array of shape (n,)
        Labels -1 and +1.
    C : float
        The weight of the losses, in scikit-learn's scaling.
    loss : {"hinge", "squared_hinge"} or Loss
        The loss as a function of the margin.
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
    made_again: ClassVar[frozenset[str]] = frozenset({"_placed", "_summed"})

    _placed: Parts | None = None  # the objects with the samples, for proofs
    _summed: tuple[Vector, ClassSums] | None = None  # the last dual point, and sums over it

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
        """All of the dual except the rows: two problems on one matrix with equal signatures have the same dual."""
        return (*self.loss.dual_box(self.u), self.y, self.bias, self.bias_feature)

    def with_C(self, C: float) -> RegularizedSVM:
        """The same problem at another C, sharing data and ledger."""
        other = copy.copy(self)
        other.C = _positive("C", C)
        other._placed = other._summed = None
        return other

    # The samples

    @property
    def _samples(self) -> Parts:
        """The objects with the samples, for proofs, which live where the rows are."""
        if self._placed is None:
            given = Scattered(self.y), Scattered(self.s)
            if self.sums_are_cheap:
                sq_norms = SqNorms(self._sq_norms_for_proof())
                self._placed = in_parts(self.X).place(ProofPart, *given, sq_norms, self.C, self.loss)
            else:
                nothing = np.zeros(self.y.size)  # rounding is measured, not bounded by norms
                self._placed = SinglePart(ProofPart(None, self.y, self.s, nothing, self.C, self.loss, self.X.dot))
        return self._placed

    def _label(self, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        super()._label(y, sample_weight)
        self._placed = self._summed = None

    # The primal

    def objective(self, w: Point, c: Vector) -> float:
        """The objective at w with the margins c_i = y_i (<w, x_i> + b), without the penalty of b."""
        return 0.5 * float(w @ w) + float(self.u @ self.loss.value(c))

    def evaluate(self, w: Point, b: float | None = None, near: float = 0.0) -> EvaluationInParts:
        """The objective at w with the given bias, or with the best one, which is searched from `near`."""
        known = {}
        if self.traits & {Trait.FEATURES, Trait.KERNEL}:  # in this process, where it costs nothing to keep them
            known["responses"] = np.concatenate(self._samples.collect("responses", w))
        if not self.bias:
            b = 0.0
        elif b is None:
            b = self.best_bias(w, near)
        per_norm = 0.0 if is_kernel(self.X) else rounding.of_product(self.X.shape[1], w)
        losses, rise, shortfall, least, largest = self._samples.total("loss_sums", w, b, per_norm)
        value = 0.5 * float(w @ w) + losses
        if self.bias_feature:
            value += 0.5 * (b / self.bias_feature) ** 2
        sums = LossSums(losses, rise, shortfall, -float(least), float(largest))
        return EvaluationInParts(self._samples, w, value, float(b), sums, **known)

    def evaluate_solution(self, solution: Solution, *, keep_bias: bool) -> EvaluationInParts:
        return self.evaluate(solution.w, solution.b if keep_bias else None, near=solution.b)

    def best_bias(self, w: Point, near: float = 0.0) -> float:
        """The bias with the smallest objective for w, searched from `near`; the middle one if there are several."""
        stiffness = 1 / self.bias_feature**2 if self.bias_feature else 0.0
        if self.loss.smooth:
            return best_bias.of_smooth_loss(self._samples, w, self.free_bias, stiffness, near)
        return best_bias.of_hinge(self._samples, w, self.y.size, self.C, stiffness, near)

    # The dual

    def dual_point(self, p: Vector, v: Point | None = None) -> Dual:
        """alpha, which is p clipped to the box and, with a free bias, balanced; and v = sum alpha_i y_i x_i.

        To balance the classes, the dual variables of the class with the larger sum are scaled down.
        """
        sums_of_rows: list[Point] = []
        if v is None and self.sums_are_cheap:
            *sums_of_rows, sums = self._class_sums("class_sums_of_rows", p)
        else:
            (sums,) = self._class_sums("class_sums", p)
        up, down = sums.balancing_factors() if self.free_bias else (1.0, 1.0)
        alpha = p
        if sums.clipped:
            alpha = np.clip(alpha, 0.0, self.loss.dual_box(self.u)[0])
        if (up, down) != (1.0, 1.0):
            alpha = alpha * np.where(self.y > 0, up, down)
        if sums_of_rows:
            v = up * sums_of_rows[0] - down * sums_of_rows[1]
        elif v is None or alpha is not p:
            v = self.X.dot_transposed(alpha * self.y)
        self._summed = alpha, sums.scaled(up, down)
        return alpha, v

    def _class_sums(self, method: str, p: Vector) -> list[Any]:
        found = self._samples.total(method, Scattered(np.asarray(p, dtype=np.float64)))
        *sums_of_rows, total, curvature, length, other_total, other_curvature, other_length, clipped = found
        totals, curvatures = (total, other_total), (curvature, other_curvature)
        return [*sums_of_rows, ClassSums(totals, curvatures, (length, other_length), int(clipped))]

    def _sums_of(self, p: Vector) -> ClassSums:
        """The sums over a dual point; the sums over the last one are remembered."""
        if self._summed is None or self._summed[0] is not p:
            (sums,) = self._class_sums("class_sums", p)
            self._summed = p, sums
        return self._summed[1]

    def _bound(self, p: Vector, v: Point) -> float:
        sums = self._sums_of(p)
        penalty = self.bias_feature * sums.imbalance
        return float(sums.total - 0.5 * sum(sums.curvatures) - 0.5 * (v @ v) - 0.5 * penalty**2)

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
        n, sums, gap = self.y.size, self._sums_of(p), at.value - self._bound(p, v)
        if is_kernel(self.X):
            off = measure_rounding(
                self.X,
                self.y,
                at,
                Expansion.of(v),
                weights=self.u,
                loss=self.loss.value,
                margin=1.0,
                gap=gap,
            )
            value, bound = 0.5 * off.square + off.losses, 0.5 * off.dual_square
        else:
            assert at.sums is not None
            value, bound = at.sums.rise, 0.5 * rounding.of_square(v, sum(sums.lengths), 1.0, n)
        value += rounding.relative_error(2 * n + rounding.SUM_ROUNDINGS) * at.value
        bound += rounding.relative_error(2 * n + rounding.SUM_ROUNDINGS) * float(
            sums.total + 0.5 * sum(sums.curvatures) + (self.bias_feature * sums.imbalance) ** 2
        )
        if self.free_bias:
            # The bound loses sum alpha_i y_i times the best bias, which is at most the largest response plus 1.
            # The sum of each part is rounded once; adding parts, the factors and adding classes round again.
            roundings = 4 + (n // PART_ROWS).bit_length()
            imbalance = abs(sums.imbalance) + roundings * rounding.UNIT * sums.total
            norm = math.sqrt(max(0.0, float(v @ v) + 2 * bound))
            largest = float(self.sq_norms().max())
            bound += imbalance * (1 + bound_on_responses(at.value, gap + value + bound, norm, imbalance, largest))
        return float(value), float(bound)


def _positive(name: str, value: float) -> float:
    if not (is_finite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {reprlib.repr(value)}")
    return float(value)
