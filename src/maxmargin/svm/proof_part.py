"""What a proof needs of the samples of a part: sums over them. Symbols as in `regularized.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin.core.types import Point, Vector
from maxmargin.engine.parts import Largest, PartRows, Sums
from maxmargin.svm import _proof
from maxmargin.svm.losses import Loss


class ProofPart:
    """The samples of a part as a proof sees them. Calls change nothing, but responses to one w are kept for the next.

    Parameters
    ----------
    rows : PartRows or None
        None: rows of a kernel, of which `products` are given and no sum is asked for.
    y, s, sq_norms : arrays
        Labels -1 and +1, weights and squared norms of the rows.
    C, loss :
        Those of the problem.
    products : function of a point, or None
        The products of a point with the rows; None: those of `rows`.
    """

    def __init__(
        self,
        rows: PartRows | None,
        y: Vector,
        s: Vector,
        sq_norms: Vector,
        C: float,
        loss: Loss,
        products: Callable[[Point], Vector] | None = None,
    ) -> None:
        self.rows, self.y, self.s, self.products = rows, y, s, products
        self.norms = np.sqrt(sq_norms)
        self.upper, self.q = loss.dual_box(C * s)
        self.w: Point | None = None
        self.c: Vector = np.zeros(0)  # the responses to w

    # The primal

    def responses(self, w: Point) -> Vector:
        """y_i <w, x_i>, which are kept until `loss_sums` has ended the evaluation of w."""
        same = w is self.w or (
            isinstance(w, np.ndarray) and isinstance(self.w, np.ndarray) and np.array_equal(w, self.w)
        )
        if not same:
            self.c, self.w = self.y * self._products(w), w
        return self.c

    def _products(self, w: Point) -> Vector:
        if self.products is not None:
            return self.products(w)
        assert self.rows is not None
        return self.rows.dot(np.asarray(w))

    def loss_sums(self, w: Point, b: float, per_norm: float) -> Sums:
        """Sums as in `margin.LossSums`, for responses that are wrong by at most `per_norm` times the norms."""
        *sums, least, largest = _proof.loss_sums(
            self.responses(w), self.y, b, self.s, self.upper, self.q, self.norms, per_norm
        )
        self.w, self.c = None, np.zeros(0)
        return *sums, Largest(-least), Largest(largest)

    def suggested_dual(self, c: Vector, b: float) -> Vector:
        """The dual variables that the responses c and the bias suggest."""
        return _proof.suggested_dual(c, self.y, b, self.upper, self.q)

    # The best bias

    def bias_sums(self, w: Point, b: float) -> Sums:
        """The slope of the losses in b, the sum of the absolute values of its terms, and its own slope.

        Then the extremes of the bias at which a sample has margin 1: the largest of positive samples, minus the least
        of negative ones, minus the least and the largest of all.
        """
        slope, size, curvature, enough, too_much, least, largest = _proof.bias_sums(
            self.responses(w), self.y, b, self.s, self.upper, self.q
        )
        return slope, size, curvature, Largest(enough), Largest(-too_much), Largest(-least), Largest(largest)

    def class_weights(self) -> Sums:
        """The weights of the positive and of the negative samples."""
        return float(self.s[self.y > 0].sum()), float(self.s[self.y < 0].sum())

    def count_kinks(self, w: Point, edges: Vector) -> Sums:
        """The weight and the number of kinks y_i (1 - c_i) up to each edge, above the one before; then of the rest."""
        weight, count = np.zeros(edges.size + 1), np.zeros(edges.size + 1, dtype=np.int64)
        _proof.count_kinks(self.responses(w), self.y, self.s, edges, weight, count)
        return weight, count

    def kinks_between(self, w: Point, low: float, high: float) -> tuple[Vector, Vector]:
        """The kinks above one edge, up to another one, and the weights of their samples."""
        kinks = self.y * (1 - self.responses(w))
        some = np.flatnonzero((kinks > low) & (kinks <= high) & (self.s > 0))
        return kinks[some], self.s[some]

    # The dual

    def class_sums(self, p: Vector) -> Sums:
        """For p clipped to the box, of either class: the sums as in `regularized.ClassSums`; how many were clipped."""
        return self._class_sums(p, np.empty(p.size), np.empty(p.size))

    def class_sums_of_rows(self, p: Vector) -> Sums:
        """The same, and first, of either class, the sum of p_i x_i."""
        assert self.rows is not None
        positive, negative = np.empty(p.size), np.empty(p.size)
        sums = self._class_sums(p, positive, negative)
        return self.rows.dot_transposed(positive), self.rows.dot_transposed(negative), *sums

    def _class_sums(self, p: Vector, positive: Vector, negative: Vector) -> Sums:
        *sums, clipped = _proof.class_sums(p, self.y, 1.0, self.upper, self.q, self.norms, positive)
        *others, also = _proof.class_sums(p, self.y, -1.0, self.upper, self.q, self.norms, negative)
        return *sums, *others, clipped + also


def _are_equal_arrays(one: object, other: object) -> bool:
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.array_equal(one, other)
