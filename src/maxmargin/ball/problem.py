r"""The smallest ball around all rows, or around all but a few: :math:`\min_x \max_i |x - a_i|`.

The bound of a certificate: for weights p on the simplex, no ball around all rows has a smaller radius than
:math:`\sqrt{\sum_i p_i |a_i|^2 - |\sum_i p_i a_i|^2}`. The reason is that the weighted mean of the squared distances
from x is the expression under the root plus :math:`|x - \sum_i p_i a_i|^2`, and the largest squared distance is at
least the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
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

ORIGIN_ROWS = 16  # evenly spaced rows whose mean is the origin from which distances are measured
CAP_ROUNDING = 1 + 1e-12  # a weight that exceeds its cap by at most this factor counts as equal to the cap


@dataclass(frozen=True)
class BallEvaluation(Evaluation):
    """A centre evaluated on all rows.

    Attributes
    ----------
    w : array of shape (d,)
        The centre.
    value : float
        The square root of the mean of the nu n largest squared distances; without `nu`, the radius.
    wet : array of shape (n,)
        The dual point that w suggests: all weight on the farthest rows.
    sq_distances : array of shape (n,)
        The squared distance of each row from the centre.
    radius : float
        R: the distance of the nearest row that has a weight in `wet`.
    """

    sq_distances: Vector
    radius: float


class MinimumEnclosingBall(RowProblem):
    r"""The smallest ball around rows :math:`a_i`.

    With `nu`, some rows may stay outside (support vector data description, Tax and Duin 2004):

    .. math:: \min_{x, R, \xi \ge 0} R^2 + \frac{1}{\nu n} \sum_i \xi_i, \qquad |x - a_i|^2 \le R^2 + \xi_i .

    At a given x, the minimum is the mean of the :math:`\nu n` largest squared distances, and :math:`R^2` is the
    smallest of these. The value of the problem is the square root of that mean, a length. Dual weights are at most
    :math:`1 / (\nu n)`. If :math:`\nu n \le 1`, the value is the largest distance, and the ball encloses all rows.

    Parameters
    ----------
    X : array, np.memmap, CSR or CSC matrix, Matrix or KernelMatrix of shape (n, d)
        The rows. The rows of a KernelMatrix are points in the kernel's space, and x is then an :class:`Expansion`.
    nu : float, default=0
        The share of the rows that may stay outside, from 0 to 1.
    sq_norms : array of shape (n,) or None
        :math:`|a_i|^2`, if they are known, so that the data need not be read for them.

    Notes
    -----
    Distances in a kernel's space and distances of sparse rows are computed from products,
    :math:`|a_i|^2 - 2\langle a_i, x\rangle + |x|^2`. This loses digits if the rows are much farther from zero than from
    each other; the certificate then says so. Distances of dense rows lose no digits.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import MinimumEnclosingBall
    >>> problem = MinimumEnclosingBall(np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.5]]))
    >>> print(problem.certify(np.array([0.0, 0.0]), np.array([0.5, 0.5, 0.0])))
    the radius 1 is within ... % of the least possible
    >>> problem.evaluate(np.array([0.0, 0.5])).sq_distances
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
            self._sq_norms = _checked_sq_norms(sq_norms, n)

    # What the loop calls

    def evaluate(self, w: Point) -> BallEvaluation:
        """Evaluate the ball around the centre w, in one pass over the data."""
        sq_distances = self.X.sq_distances(w)
        if not np.isfinite(sq_distances).all():
            self.sq_norms()  # raises an error that says what is wrong with the data
        sq_distances = np.maximum(0.0, sq_distances)
        wet, sq_radius = self.farthest(sq_distances)
        value, radius = math.sqrt(wet @ sq_distances), math.sqrt(sq_radius)
        return BallEvaluation(w, value, wet, sq_distances=sq_distances, radius=radius)

    def prepare(self, tol: float) -> None:
        """Choose the precision of cached kernel rows, from the largest squared norm: the weights sum to 1."""
        if is_kernel(self.X):
            self.X.choose_precision(1 / (float(self.sq_norms().max()) or 1.0), tol)

    @cached_property
    def _origin_and_sq_distances(self) -> tuple[Point | None, Vector]:
        """An origin near the rows and the squared distance of each row from it; None stands for the origin zero.

        Distances of dense rows keep their digits if the origin is near. Other distances are computed from norms in any
        case.
        """
        if self._sq_norms is not None or not self._is_dense:
            return None, self.sq_norms()
        rows = self.evenly_spaced_rows(ORIGIN_ROWS)
        with self.X.ledger.on("scale"):
            origin = self.X.dot_transposed(np.full(rows.size, 1 / rows.size), rows)
            sq_distances = self.X.sq_distances(origin)
        if not np.isfinite(sq_distances).all():
            self.sq_norms()  # raises an error that says what is wrong with the data
        return origin, sq_distances

    @property
    def _is_dense(self) -> bool:
        return is_features(self.X) and self.X.n_stored == self.X.shape[0] * self.X.shape[1]

    @property
    def spread(self) -> float:
        """The largest squared distance of a row from an origin near the rows, or from zero."""
        return float(self._origin_and_sq_distances[1].max())

    def farthest(self, sq_distances: Vector) -> tuple[Vector, float]:
        """Dual weights that are all on the farthest rows, and the smallest squared distance of a row with a weight."""
        count = math.ceil(1 / self.cap - 1e-9)
        weights = np.zeros(sq_distances.size)
        if count == 1:
            nearest = int(np.argmax(sq_distances))
        else:
            rows = np.argpartition(-sq_distances, count - 1)[:count]
            weights[rows] = self.cap
            nearest = int(rows[np.argmin(sq_distances[rows])])
        weights[nearest] = 1 - (count - 1) * self.cap
        return weights, float(sq_distances[nearest])

    # The dual

    def dual_point(self, p: Vector, v: Point | None = None) -> Dual:
        """p scaled to the simplex (or the nearest point of it whose weights are at most the cap), and sum p_i a_i."""
        total = p.sum()
        p = p / total
        if p.max() > self.cap * CAP_ROUNDING:
            p, v = _onto_capped_simplex(p, self.cap), None
        return p, self.X.dot_transposed(p) if v is None else v / total

    def least_radius(self, p: Vector, v: Point) -> float:
        """A lower bound of the radius of every ball, from a dual point."""
        origin, sq_distances = self._origin_and_sq_distances
        return math.sqrt(max(0.0, float(sq_distances @ p) - _sq_distance(v, origin)))

    _bound = least_radius

    def _best_mixture(self, one: Dual, other: Dual) -> Dual:
        """The maximum of a parabola: the squared bound is quadratic on the segment between the two points."""
        (p, v), (other_p, other_v) = one, other
        change, v_change = other_p - p, other_v - v
        curvature = v_change @ v_change
        origin, sq_distances = self._origin_and_sq_distances
        slope = sq_distances @ change - 2 * ((v if origin is None else v - origin) @ v_change)
        t = float(np.clip(slope / (2 * curvature), 0.0, 1.0)) if curvature > 0 else 0.0
        return p + t * change, v + t * v_change

    # Rounding

    def rounding(self, at: BallEvaluation, dual: Dual) -> tuple[float, float]:
        p, v = dual
        origin, sq_distances = self._origin_and_sq_distances
        n, d = self.X.shape
        sums = relative_error(n + d + SUM_ROUNDINGS)
        # Errors of the squared value and of the squared bound.
        if self.sums_are_cheap:
            products = 0.0 if self._is_dense else 2 * (float(self.sq_norms().max()) + float(at.w @ at.w))
            value_error = sums * (float(at.sq_distances.max()) + products)
            norms = np.sqrt(sq_distances) + (0.0 if origin is None else length(origin))
            v_error = relative_error(n + SUM_ROUNDINGS) * float(p @ norms)
            distance = math.sqrt(_sq_distance(v, origin))
            bound_error = 2 * distance * v_error + v_error**2
        else:
            each, w = self.X.dot_rounding(at.w, self._norms), Expansion.of(at.w)
            value_error = 2 * float(each.max()) + float(np.abs(w.beta) @ each)
            value_error += sums * float(sq_distances.max() + w @ w)
            bound_error = self.square_rounding(p, v)
        bound_error += sums * float(sq_distances @ p)
        value, bound = at.value, self.least_radius(p, v)
        return math.sqrt(value**2 + value_error) - value, bound - math.sqrt(max(0.0, bound**2 - bound_error))

    # What solvers call

    def evenly_spaced_rows(self, count: int) -> Indices:
        """The indices of `count` rows that are evenly spaced over the data; all rows if there are fewer."""
        n = self.X.shape[0]
        return np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.int64))

    def products(self, some: Indices, others: Indices, centre: Point, f: Vector) -> Vector:
        """<a_i - x, a_j - x> of some rows with others, for a centre x; f holds the products of x with all rows.

        Each pair takes one kernel evaluation, or reads one row; f is used only with a kernel.
        """
        if is_kernel(self.X):
            block = np.asarray(self.X.block(some, others, np.empty((some.size, others.size))))
            return np.asarray(block - f[some][:, None] - f[others] + centre @ centre)
        rows = (self.X.dot_transposed(np.ones(1), np.array([i])) - centre for i in some)
        return np.array([self.X.dot(row, others) - row @ centre for row in rows]).reshape(some.size, others.size)


def _sq_distance(v: Point, origin: Point | None) -> float:
    """|v - origin|^2, where None stands for the origin zero."""
    return float(v @ v) if origin is None else float((v - origin) @ (v - origin))


def _checked_sq_norms(given: ArrayLike, n: int) -> Vector:
    sq_norms = np.array(given, dtype=np.float64)
    if sq_norms.shape != (n,):
        raise ValueError(f"X has {n} rows, but sq_norms has shape {sq_norms.shape}; expected ({n},)")
    if not (np.isfinite(sq_norms) & (sq_norms >= 0)).all():
        raise ValueError(
            f"sq_norms must be finite and >= 0; got {sq_norms[~(np.isfinite(sq_norms) & (sq_norms >= 0))][0]}. "
            "They are the squares of the rows' norms."
        )
    return sq_norms


def _onto_capped_simplex(p: Vector, cap: float) -> Vector:
    """The weights nearest to p that sum to 1 and lie between 0 and the cap: p minus a constant, clipped."""
    if p.size * cap <= CAP_ROUNDING:
        return np.full(p.size, 1 / p.size)

    def clipped(shift: float) -> Vector:
        return np.clip(p - shift, 0.0, cap)

    shift = brentq(lambda shift: clipped(shift).sum() - 1, -cap, p.max(), xtol=1e-300, rtol=1e-15, maxiter=1000)
    nearest = clipped(shift)
    return np.asarray(np.minimum(nearest / nearest.sum(), cap))


def _sentence(value: str) -> Callable[[Certificate], str]:
    """The sentence of a certificate; `value` names the value, with {} for the number."""

    def sentence(certificate: Certificate) -> str:
        reached = value.format(f"{certificate.primal:.4g}")
        if certificate.primal == 0:
            return f"{reached} is the least possible"
        if certificate.dual <= 0:
            return f"{reached} was reached; nothing is known of the least possible"
        return f"{reached} is within {100 * certificate.relative_gap:.2g} % of the least possible"

    return sentence


Form("radius", False, _sentence("the radius {}"))
Form("farthest rows", False, _sentence("the root mean square distance of the farthest rows, {},"))
