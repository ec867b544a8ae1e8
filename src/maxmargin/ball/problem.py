r"""The smallest ball around all rows, or around all but a few: :math:`\min_x \max_i |x - a_i|`.

For weights p on the simplex no ball around all rows has a smaller radius than
:math:`\sqrt{\sum_i p_i |a_i|^2 - |\sum_i p_i a_i|^2}`: the mean of the squared distances to x is what is under the root
plus :math:`|x - \sum_i p_i a_i|^2`, and the largest is no less than the mean. That is the bound of a certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from maxmargin.core.rounding import SUM_ROUNDINGS, relative_error
from maxmargin.core.types import Indices, Point, Vector, is_features
from maxmargin.engine.certificate import Certificate, Form
from maxmargin.engine.problem import Dual, Evaluation, length
from maxmargin.engine.row_problem import RowProblem
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.rows import is_kernel

FEW = 16  # rows, spread over the data, whose mean is the point that distances are measured from
ALLOWED = 1 + 1e-12  # by which factor rounding may have put a weight above the largest one


class EnclosingBall(RowProblem):
    r"""Rows :math:`a_i`, and the smallest ball around them.

    With `nu` a part of them may stay outside (support vector data description, Tax and Duin 2004):

    .. math:: \min_{x, R, \xi \ge 0} R^2 + \frac{1}{\nu n} \sum_i \xi_i, \qquad |x - a_i|^2 \le R^2 + \xi_i .

    At a given x that is the mean of the :math:`\nu n` largest squared distances, of which R is the least. The value of
    the problem is its root, a length; weights of the dual are then at most :math:`1 / (\nu n)`. Up to one row,
    :math:`\nu n \le 1`, the value is the largest distance, and all rows are enclosed.

    Parameters
    ----------
    X : array, np.memmap, CSR or CSC matrix, Matrix or KernelMatrix of shape (n, d)
        The rows; those of a KernelMatrix lie in the kernel's space, and x is an :class:`Expansion`.
    nu : float, default=0
        The share of the rows that may stay outside, from 0 to 1.
    sq_norms : array of shape (n,) or None
        :math:`|a_i|^2`, where somebody knows them: then the data is not read for them.

    Notes
    -----
    Distances from a kernel's vectors, and those of sparse rows, are told from products,
    :math:`|a_i|^2 - 2\langle a_i, x\rangle + |x|^2`. That loses digits if the rows are much farther from zero than from
    each other, and then the certificate says so. Distances of dense rows lose none.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import EnclosingBall
    >>> problem = EnclosingBall(np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.5]]))
    >>> print(problem.certify(np.array([0.0, 0.0]), np.array([0.5, 0.5, 0.0])))
    the radius 1 is within ... % of the least possible
    >>> problem.evaluate(np.array([0.0, 0.5])).responses
    array([1.25, 1.25, 0.  ])
    """

    form: str = "radius"

    def __init__(self, X: object, *, nu: float = 0.0, sq_norms: ArrayLike | None = None) -> None:
        super().__init__(X)
        n = self.X.shape[0]
        if not 0 <= nu <= 1:
            raise ValueError(f"nu is the share of the rows that may stay outside, from 0 to 1; got {nu!r}")
        self.nu, self.cap = float(nu), 1 / max(1.0, nu * n)
        if self.cap < 1:
            self.form = "farthest rows"
        if sq_norms is not None:
            self._sq_norms = _norms(sq_norms, n)

    # What the loop asks

    def evaluate(self, w: Point, b: float | None = None) -> Evaluation:
        """The radius around w: one pass over the data. Its `responses` are squared distances, its `b` is R."""
        squares = self.X.sq_distances(w)
        if not np.isfinite(squares).all():
            self.sq_norms()  # says what is wrong with the data
        squares = np.maximum(0.0, squares)
        wet, least = self.furthest(squares)
        return Evaluation(w, squares, math.sqrt(wet @ squares), math.sqrt(least), wet)

    def prepare(self, tol: float) -> None:
        """Choose the precision that kernel rows are kept in: only their range counts, as the weights sum to 1."""
        if is_kernel(self.X):
            self.X.choose_precision(1 / (float(self.sq_norms().max()) or 1.0), tol)

    @cached_property
    def _around(self) -> tuple[Point | None, Vector]:
        """A point near the rows, and the squared distance of each row from it.

        The point is None, which stands for zero, where that costs no digits.
        """
        if self._sq_norms is not None or not self._is_dense:
            return None, self.sq_norms()
        few = self.a_few(FEW)
        with self.X.ledger.on("scale"):
            origin = self.X.dot_transposed(np.full(few.size, 1 / few.size), few)
            squares = self.X.sq_distances(origin)
        if not np.isfinite(squares).all():
            self.sq_norms()  # says what is wrong with the data
        return origin, squares

    @property
    def _is_dense(self) -> bool:
        return is_features(self.X) and self.X.n_stored == self.X.shape[0] * self.X.shape[1]

    @property
    def spread(self) -> float:
        """The largest squared distance of a row from a point near the rows, or from zero."""
        return float(self._around[1].max())

    def furthest(self, squares: Vector) -> tuple[Vector, float]:
        """The weights of the dual that are largest on the furthest rows, and the least square with a weight."""
        few = math.ceil(1 / self.cap - 1e-9)
        wet = np.zeros(squares.size)
        if few == 1:
            last = int(np.argmax(squares))
        else:
            those = np.argpartition(-squares, few - 1)[:few]
            wet[those] = self.cap
            last = int(those[np.argmin(squares[those])])
        wet[last] = 1 - (few - 1) * self.cap
        return wet, float(squares[last])

    # The dual

    def dual_point(self, p: Vector, v: Point | None = None) -> Dual:
        """p on the simplex, nowhere above the largest weight that `nu` allows, and sum p_i a_i."""
        total = p.sum()
        p = p / total
        if p.max() > self.cap * ALLOWED:
            p, v = _onto_capped_simplex(p, self.cap), None
        return p, self.X.dot_transposed(p) if v is None else v / total

    def least_radius(self, p: Vector, v: Point) -> float:
        """What no ball can beat, from a point of the dual."""
        origin, squares = self._around
        return math.sqrt(max(0.0, float(squares @ p) - _square(v, origin)))

    _bound = least_radius

    def _best_mixture(self, one: Dual, other: Dual) -> Dual:
        """Along the way the square of the bound is a parabola."""
        change, way = other[0] - one[0], other[1] - one[1]
        square = way @ way
        origin, squares = self._around
        slope = squares @ change - 2 * ((one[1] if origin is None else one[1] - origin) @ way)
        t = float(np.clip(slope / (2 * square), 0.0, 1.0)) if square > 0 else 0.0
        return one[0] + t * change, one[1] + t * way

    # Rounding

    def rounding(self, at: Evaluation, dual: Dual) -> tuple[float, float]:
        p, v = dual
        origin, squares = self._around
        n, d = self.X.shape
        sums = relative_error(n + d + SUM_ROUNDINGS)
        if self.sums_are_cheap:
            far = 0.0 if self._is_dense else 2 * (float(self.sq_norms().max()) + float(at.w @ at.w))
            off = sums * (float(at.responses.max()) + far)
            longest = np.sqrt(squares) + (0.0 if origin is None else length(origin))
            moved = relative_error(n + SUM_ROUNDINGS) * float(p @ longest)
            apart = math.sqrt(_square(v, origin))
            lost = 2 * apart * moved + moved**2
        else:
            each, w = self.X.dot_rounding(at.w, self._norms), Expansion.of(at.w)
            off = 2 * float(each.max()) + float(np.abs(w.beta) @ each) + sums * float(squares.max() + w @ w)
            lost = self.square_rounding(p, v)
        lost += sums * float(squares @ p)
        value, bound = at.value, self.least_radius(p, v)
        return math.sqrt(value**2 + off) - value, bound - math.sqrt(max(0.0, bound**2 - lost))

    # What solvers ask

    def a_few(self, count: int) -> Indices:
        """The numbers of so many rows, or of all, spread over the data."""
        n = self.X.shape[0]
        return np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.int64))

    def products(self, some: Indices, others: Indices, centre: Point, f: Vector) -> Vector:
        """<a_i - x, a_j - x> of some rows with others, for a centre x whose products with all rows are f.

        Of a kernel that takes so many evaluations of it; else each pair reads a row.
        """
        if is_kernel(self.X):
            block = np.asarray(self.X.block(some, others, np.empty((some.size, others.size))))
            return np.asarray(block - f[some][:, None] - f[others] + centre @ centre)
        rows = (self.X.dot_transposed(np.ones(1), np.array([i])) - centre for i in some)
        return np.array([self.X.dot(row, others) - row @ centre for row in rows]).reshape(some.size, others.size)


def _square(v: Point, origin: Point | None) -> float:
    """|v - origin|^2; no origin is given where it is zero."""
    return float(v @ v) if origin is None else float((v - origin) @ (v - origin))


def _norms(given: ArrayLike, n: int) -> Vector:
    norms = np.array(given, dtype=np.float64)
    if norms.shape != (n,):
        raise ValueError(f"X has {n} rows, but sq_norms has shape {norms.shape}; expected ({n},)")
    if not (np.isfinite(norms) & (norms >= 0)).all():
        raise ValueError(
            f"sq_norms must be finite and >= 0; got {norms[~(np.isfinite(norms) & (norms >= 0))][0]}. "
            "They are the squares of the rows' norms."
        )
    return norms


def _onto_capped_simplex(p: Vector, cap: float) -> Vector:
    """The nearest weights that sum to 1 and lie between 0 and a cap: all sink, or rise, by the same."""
    if p.size * cap <= ALLOWED:
        return np.full(p.size, 1 / p.size)

    def at(t: float) -> Vector:
        return np.clip(p - t, 0.0, cap)

    near = at(brentq(lambda t: at(t).sum() - 1, -cap, p.max(), xtol=1e-300, rtol=1e-15, maxiter=1000))
    return np.asarray(np.minimum(near / near.sum(), cap))


def _sentence(value: str) -> Callable[[Certificate], str]:
    """What a certificate says of a value, which stands in these words."""

    def sentence(at: Certificate) -> str:
        reached = value.format(f"{at.primal:.4g}")
        if at.primal == 0:
            return f"{reached} is the least possible"
        if at.dual <= 0:
            return f"{reached} was reached; nothing is known of the least possible"
        return f"{reached} is within {100 * at.relative_gap:.2g} % of the least possible"

    return sentence


Form("radius", False, _sentence("the radius {}"))
Form("farthest rows", False, _sentence("the root mean square distance of the farthest rows, {},"))
