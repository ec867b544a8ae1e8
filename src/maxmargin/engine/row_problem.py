"""What problems over rows share: norms that are read once, and proofs by dual weights on the rows."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Self

import numpy as np

from maxmargin.core import Matrix
from maxmargin.core.matrix import as_rows, refuse_not_finite
from maxmargin.core.types import Point, Rows, Vector, is_features
from maxmargin.engine.certificate import Certificate
from maxmargin.engine.problem import CLOSE_ENOUGH, READS, Dual, Evaluation, Problem, Trait

# Squared norms of rows outside of this range are refused: products and sums of products may underflow or overflow.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-305, 1e290
SEMIDEFINITE = "the kernel is positive semidefinite"
INDEFINITE = "the kernel is not positive semidefinite, so that better solutions may exist than any bound allows for"


class RowProblem(Problem):
    """A problem over the rows of a matrix. A dual point consists of weights on the rows.

    Attributes
    ----------
    X : Rows
        Rows of features (a Matrix) or of a kernel (such as a KernelMatrix).
    """

    X: Rows

    def __init__(self, X: object) -> None:
        self.X = as_rows(X)
        n, d = self.X.shape
        if n == 0 or d == 0:
            raise ValueError(f"the matrix is empty: it has {n} rows and {d} columns")
        self._sq_norms: Vector | None = None
        self._certificate_sq_norms: Vector | None = None

    # Defined by each problem

    @abstractmethod
    def dual_point(self, p: Vector, v: Point | None = None) -> Dual:
        """A feasible dual point near p, and its weighted sum of rows (v, if v is given and p is feasible)."""

    @abstractmethod
    def _bound(self, p: Vector, v: Point) -> float:
        """The value that no solution can beat, from a dual point and its sum of rows."""

    @abstractmethod
    def _best_mixture(self, one: Dual, other: Dual) -> Dual:
        """The convex combination of two dual points at which the bound is best."""

    # Common to all problems

    def bound(self, p: Vector) -> float:
        """The value that no solution can beat, from any weights p >= 0, which are first made a dual point."""
        return self._bound(*self.dual_point(p))

    def certify_evaluated(
        self, at: Evaluation, p: Vector | None = None, v: Point | None = None, *, rounds: int = 0
    ) -> tuple[Certificate, Dual]:
        """The certificate of an evaluated point, from the dual weights p if given, the wet samples, and mixtures.

        Each round improves the bound by a Frank-Wolfe step on the dual, which reads the data twice. The step goes
        towards the wet samples of the direction that the present weights give. Rounds end at a gap of one per cent.
        """

        if p is not None and p.sum() <= 0:
            p = None
        if self.sums_are_cheap:  # a sum that a solver has updated many times may have lost digits
            v = None
        dual = self.dual_point(at.wet) if p is None else self.dual_point(p, v)
        certificate = self.certify_by(at, dual)
        if p is not None and certificate.relative_gap > CLOSE_ENOUGH and self.sums_are_cheap:
            dual = self._best_mixture(self.dual_point(at.wet), dual)
            certificate = self.certify_by(at, dual)
        for _ in range(rounds):
            if certificate.relative_gap <= CLOSE_ENOUGH or not dual[1].any() or not self.sums_are_cheap:
                break
            dual = self._best_mixture(dual, self.dual_point(self._of_dual(dual).wet))
            certificate = self.certify_by(at, dual)
        return certificate, dual

    def certify_by(self, at: Evaluation, dual: Dual) -> Certificate:
        """The certificate of an evaluated point from a dual point; reads no data."""
        return self.proof(at.value, self._bound(*dual), self.form, at.w, dual[1], rounding=self.rounding(at, dual))

    def proof(self, value: float, bound: float, form: str, *sums: Point, rounding: tuple[float, float]) -> Certificate:
        """The certificate of a value and a bound that were computed from `sums` of rows, with allowances for rounding.

        The bound is valid only if squares of such sums are not negative. If the rows are those of a kernel that is not
        an inner product, value and bound are still equal at an optimum, but they prove nothing.
        """
        inner = self.X.products_are_inner(*sums)
        if inner is False:
            return Certificate(value, bound, INDEFINITE, form)
        return Certificate.proved(value, bound, form, SEMIDEFINITE if inner is None else "", rounding=rounding)

    # Rounding

    @abstractmethod
    def rounding(self, at: Any, dual: Dual) -> tuple[float, float]:
        """How much worse the exact value may be than the computed one, and how much looser the exact bound.

        `at` is what `evaluate` of the same problem returned.
        """

    def response_rounding(self, w: Point) -> Vector:
        """The largest possible error of the computed response of each row to w."""
        return self.X.dot_rounding(w, self._norms) / self.scale

    def square_rounding(self, p: Vector, v: Point) -> float:
        """How much the exact square of v, the sum of p_i x_i with any signs, can exceed the computed one."""
        return self.X.square_rounding(p, v, self._norms, self.scale)

    def evaluation_cost(self, w: Point) -> int:
        return self.X.dot_cost(w)

    def _norms(self) -> Vector:
        return np.sqrt(self._sq_norms_for_proof())

    def _sq_norms_for_proof(self) -> Vector:
        """The squared norms of the rows; read for the certificate if they have not been read for the scale."""
        if self._sq_norms is not None:
            return self._sq_norms
        if self._certificate_sq_norms is None:
            with self.X.ledger.on("certificate"):
                self._certificate_sq_norms = self.X.row_sq_norms()
        return self._certificate_sq_norms

    def sq_norms(self) -> Vector:
        """The squared norms of the rows of X (not of x_i / scale); the first call reads all of the data."""
        if self._sq_norms is None:
            self._sq_norms = read_sq_norms(self.X)
        return self._sq_norms

    def with_sq_norms(self, sq_norms: Vector) -> Self:
        """The same problem with squared norms of the rows of X that were read for another problem."""
        other = copy.copy(self)
        other._sq_norms = sq_norms
        return other

    @property
    def sums_are_cheap(self) -> bool:
        """Whether a sum over many rows costs one pass over the data; with a kernel, it takes as many kernel rows."""
        return self.X.sums_are_cheap

    @property
    def features(self) -> Matrix:
        """X as a matrix of features, for solvers that require `Trait.FEATURES`; raises TypeError for other rows."""
        if not is_features(self.X):
            raise TypeError(f"expected rows of features, a Matrix; got a {type(self.X).__name__}")
        return self.X

    @property
    def traits(self) -> frozenset[Trait]:
        if not self.sums_are_cheap:
            return frozenset({Trait.KERNEL})
        return frozenset({Trait.FEATURES, Trait.PARTS} if isinstance(self.X, Matrix) else {Trait.PARTS})

    def instead_of(self, trait: Trait) -> str:
        return f"a {type(self.X).__name__}" if trait in READS else super().instead_of(trait)

    @property
    def zero_rows(self) -> int | None:
        """How many rows are all zero; None if the norms have not been read."""
        return None if self._sq_norms is None else int(np.count_nonzero(self._sq_norms == 0))

    def _of_dual(self, dual: Dual) -> Evaluation:
        """The evaluation of the primal point that corresponds to a dual point."""
        return self.evaluate(dual[1])


def read_sq_norms(X: Rows) -> Vector:
    """The squared norms of the rows of a matrix: one pass over the data, counted in the ledger under "scale".

    Entries that are not finite, and norms with which sums of products would overflow or underflow, are refused.
    """
    with X.ledger.on("scale"):
        sq_norms = X.row_sq_norms()
    if is_features(X) and not np.isfinite(sq_norms).all():
        refuse_not_finite(X)
    largest = float(sq_norms.max(initial=0.0))
    if not largest < LARGEST_SQUARE:
        raise ValueError(
            f"row {int(np.argmax(sq_norms))} of X holds values so large that its squared norm is {largest:.3g}, "
            f"more than {LARGEST_SQUARE:g}, and sums of such numbers would overflow; divide X by a constant first"
        )
    if 0 < largest < SMALLEST_SQUARE or (largest == 0 and _squares_vanish(X)):
        raise ValueError(
            f"the values of X are so small that the largest squared norm of a row is {largest:.3g}, less than "
            f"{SMALLEST_SQUARE:g}, and products of such numbers would vanish; multiply X by a constant first"
        )
    return sq_norms


def _squares_vanish(X: Rows) -> bool:
    """Whether a matrix whose row norms are all zero has nonzero entries, whose squares underflow."""
    return is_features(X) and bool(X.dot_transposed(np.ones(X.shape[0])).any())
