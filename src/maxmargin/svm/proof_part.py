"""The sums over the samples of a part that proofs need. Symbols as in `regularized.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin.core.types import Point, Vector
from maxmargin.engine.parts import Largest, PartRows, Sums
from maxmargin.svm import _proof
from maxmargin.svm.losses import Loss


class ProofPart:
    """The samples of a part, for proofs. Calls change nothing, except that responses to one w are kept for the next.

    Parameters
    ----------
    rows : PartRows or None
        The rows of the part. None: rows of a kernel, for which `products` is given and sums of rows are not available.
    y, s, sq_norms : arrays
        Labels -1 and +1, weights and squared norms of the rows.
    C, loss :
        C and loss of the problem.
    products : function of a point, or None
        Gives the products of a point with the rows; None: `rows` gives them.
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

        Then extremes of the biases at which samples have margin 1: the largest of positive samples, minus the smallest
        of negative samples, minus the smallest of all, and the largest of all.
        """
        slope, size, curvature, enough, too_much, least, largest = _proof.bias_sums(
            self.responses(w), self.y, b, self.s, self.upper, self.q
        )
        return slope, size, curvature, Largest(enough), Largest(-too_much), Largest(-least), Largest(largest)

    def class_weights(self) -> Sums:
        """The weights of the positive and of the negative samples."""
        return float(self.s[self.y > 0].sum()), float(self.s[self.y < 0].sum())

    def count_kinks(self, w: Point, edges: Vector) -> Sums:
        """The weight and number of kinks y_i (1 - c_i) between neighbouring edges, the last of them above all edges."""
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
        """For p clipped to the box: the sums of `regularized.ClassSums` of each class; how many p_i were clipped."""
        return self._class_sums(p, np.empty(p.size), np.empty(p.size))

    def class_sums_of_rows(self, p: Vector) -> Sums:
        """The sum of p_i x_i over each class, followed by the values of `class_sums`."""
        assert self.rows is not None
        positive, negative = np.empty(p.size), np.empty(p.size)
        sums = self._class_sums(p, positive, negative)
        return self.rows.dot_transposed(positive), self.rows.dot_transposed(negative), *sums

    def _class_sums(self, p: Vector, positive: Vector, negative: Vector) -> Sums:
        *sums, clipped = _proof.class_sums(p, self.y, 1.0, self.upper, self.q, self.norms, positive)
        *others, also = _proof.class_sums(p, self.y, -1.0, self.upper, self.q, self.norms, negative)
        return *sums, *others, clipped + also
