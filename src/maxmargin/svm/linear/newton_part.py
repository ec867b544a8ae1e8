"""What Newton's method stores and computes for the samples of a part. Symbols as in `newton.py`."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices, Vector
from maxmargin.engine.parts import PartRows, Sums
from maxmargin.svm.linear import _newton
from maxmargin.svm.losses import Loss

T = TypeVar("T", bound=np.generic)
Flags = NDArray[np.uint8]  # 1 for samples with some property, else 0

DENSE_ENTRIES = 1 << 16  # entries of a dense block; a thread adds the products of one block to the Hessian at a time
DENSE_ROWS = 256  # smallest number of rows of a block; with fewer, adding to the Hessian takes longer than the products
SHIFT_ROWS = 64  # largest number of rows of each part whose mean is subtracted from rows, so that products keep digits
MOST_ACTIVE = 0.6  # if more than this share of the samples are active, all margins are recomputed


class NewtonPart:
    """The samples of a part that are in use, their dual variables and their margins.

    A sample at a bound is inactive as long as w has moved too little, since all margins were last known, to change its
    dual variable; its margin is then not needed. This is the tighter bound of `shrinking.py`, applied to both bounds.

    Parameters
    ----------
    rows : PartRows
    y, s, sq_norms : arrays
        Labels -1 and +1, weights and squared norms of the rows.
    C, loss, bias, free_bias :
        Parameters of the problem.
    sparse : bool
        Whether the Hessian is built from outer products of sparse rows.
    seed : int
        Decides, together with the number of the part, the order in which its samples come into use.
    centre : array or None
        The first dual variables, for all samples of the part; None: none are known.
    in_units_of_u : bool
        Whether `centre` is in units of the weights C s_i of the losses.
    """

    def __init__(
        self,
        rows: PartRows,
        y: Vector,
        s: Vector,
        sq_norms: Vector,
        C: float,
        loss: Loss,
        bias: bool,
        free_bias: bool,
        sparse: bool,
        seed: int,
        centre: Vector | None,
        in_units_of_u: bool,
    ) -> None:
        self.rows, self.all_y, self.s, self.sq_norms = rows, y, s, sq_norms
        self.u, self.loss, self.bias = C * s, loss, bias
        self.sparse, self.shifted = sparse, free_bias and not sparse
        self.order = np.random.default_rng([seed, rows.number]).permutation(np.flatnonzero(s))
        self.first_centre = centre if centre is None or not in_units_of_u else centre * self.u
        nothing, nowhere = np.zeros(0), np.zeros(0, dtype=np.uint8)
        self.places: Indices = np.zeros(0, dtype=np.int64)  # positions of the samples in use, in the part
        self.numbers: Indices = self.places  # numbers of their rows in the matrix
        self.y = self.upper = self.q = self.norms = nothing
        self.centre, self.softness = nothing, 0.0  # alpha and tau
        self.c, self.a = nothing, nothing  # margins, valid where `known`, and dual variables
        self.known: Flags = nowhere  # whether c_i is the margin at the present (w, b), as for active samples
        self.reach = nothing  # distance of (w, b) from `reference` up to which an inactive dual variable is fixed
        self.reference = nothing  # (w, b) when all margins were last known
        self.inside: Flags = nowhere  # the samples strictly between their bounds, over which the products sum
        self.shift = nothing  # the mean of some rows, or zeros
        self.active: Indices | None = None  # samples whose dual variable this step may change; None: all
        self.along = nothing  # the change of their margins by the whole step

    # The samples in use

    def count(self) -> Sums:
        """The number of samples with positive weight, and the sum of their weights."""
        return self.order.size, float(self.s.sum())

    def take(self, size: int, n: int) -> Sums:
        """Start to use the share size / n of the samples. Nothing is read.

        Returned: their number, their weight, the sum of their |x_i|^2, and the number of their stored entries.
        """
        self.places = np.sort(self.order[: -(-self.order.size * size // n)])
        self.numbers, self.y = self.rows.rows(self.places), self.all_y[self.places]
        weight, square = self.s[self.places].sum(), self.sq_norms[self.places].sum()
        return self.places.size, float(weight), float(square), int(self.rows.X.row_sizes(self.numbers).sum())

    def begin(self, w: Vector, b: float, share: float, kink_share: float) -> Sums:
        """Compute the margins, with losses that are scaled up from this share of the weight to all samples.

        Returned: the sums of m and of the upper bounds; the number of samples times the distance from 1 within which
        the share `kink_share` of the margins lie; the sum of a few rows, and the number of these rows, which is 0
        unless the products need a shift.
        """
        size = self.places.size
        self.upper, self.q = self.loss.dual_box(self.u[self.places] / share)
        self.norms = np.sqrt(self.sq_norms[self.places] + self.bias)
        self.known, self.reach = np.ones(size, dtype=np.uint8), np.zeros(size)
        self.inside, self.reference = np.zeros(size, dtype=np.uint8), np.append(w, b)
        self.c = self._margins(w, b)
        some = self.numbers[:: 1 + size // SHIFT_ROWS] if self.shifted else self.numbers[:0]
        rows = self.rows.X.dense(some).sum(axis=0), some.size
        if self.loss.smooth:
            return float(self.q.sum()), 0.0, 0.0, *rows
        width = 0.0
        if size:
            enough = min(size - 1, int(kink_share * size))
            width = float(np.partition(np.abs(1 - self.c), enough)[enough])
        return float(size), float(self.upper.sum()), size * width, *rows

    def soften(self, softness: float, centre_share: float, shift: Vector) -> Sums:
        """Compute the first dual variables; the centre is the given one, or this share of the upper bounds.

        The shift is subtracted from rows in the products.
        """
        self.shift = shift
        if self.first_centre is not None:
            self.centre = np.clip(self.first_centre[self.places], 0.0, self.upper)
        else:
            self.centre = centre_share * self.upper if centre_share else np.zeros(self.places.size)
        self.softness = softness
        return self._weigh_anew()

    def recentre(self, softness: float, at_zero: bool) -> Sums:
        """Let the dual variables, or zero, be the next centre, and set the softness.

        Inactive samples stay at their bounds.
        """
        self.centre = np.zeros(self.a.size) if at_zero else self.a.copy()
        self.softness = softness
        active = None if self.known.all() else np.flatnonzero(self.known)
        change = _newton.weigh(active, self.c, *self._parameters, self.a)
        return self._sums(self._sum_of_rows(change * _some(self.y, active), active), 0)

    def refresh(self, w: Vector, b: float) -> Sums:
        """Recompute the margins, the dual variables and their sum of rows."""
        self.known[:] = True
        self.c = self._margins(w, b)
        return self._weigh_anew()

    def _weigh_anew(self) -> Sums:
        self.a = np.zeros(self.c.size)
        _newton.weigh(None, self.c, *self._parameters, self.a)
        return self._sums(self._sum_of_rows(self.a * self.y), 0)

    # A step

    def products(self, anew: bool) -> Sums:
        """The sum of (x_i - shift, 1)(x_i - shift, 1)^T / m_i over the samples strictly between their bounds.

        Without `anew`: the change of this sum since the last call, by samples that came between their bounds or left
        them.
        """
        changed, weights = _newton.change_inside(self.a, self.upper, self.q, self.loss.smooth, anew, self.inside)
        if not changed.size:
            return (0.0,)
        numbers, d = self.numbers[changed], self.rows.X.shape[1]
        H = np.zeros((d + 1, d + 1))
        if self.sparse:
            _newton.add_outer_products(self.rows.X, numbers, weights, H)
            if self.bias:
                H[d, :d] += self.rows.X.sum_rows(weights, numbers)
                H[d, d] += weights.sum()
            return (H,)
        height = max(DENSE_ROWS, DENSE_ENTRIES // (d + 1))
        for sign in (1.0, -1.0):
            own = weights * sign > 0
            rows, roots = numbers[own], np.sqrt(np.abs(weights[own]))
            for start in range(0, rows.size, height):
                block = slice(start, start + height)
                Z = np.empty((rows[block].size, d + 1))
                np.subtract(self.rows.X.dense(rows[block]), self.shift, out=Z[:, :d])
                Z[:, d] = self.bias
                Z *= roots[block, None]
                _newton.add_dense_products(Z, sign, H)
        return (H,)

    def look(self, s: Vector, s_b: float, w: Vector, b: float) -> Sums:
        """Find the samples whose dual variable a step (s, s_b) could change, and the change of their margins.

        Returned: the sum of a_i times that change, before the step and after the whole step; and the number of inactive
        samples.
        """
        self.active = self._activate(s, s_b, w, b)
        self.along = self.rows.X.dot(s, _some(self.numbers, self.active))
        sums = _newton.look_along(self.active, self.along, s_b, self.y, self.c, self.a, *self._parameters)
        return *sums, self.places.size - self.along.size

    def slope(self, t: float) -> Sums:
        """The sum of a_i times the change of the margin, after the share t of the step."""
        return (_newton.slope_along(self.active, self.along, t, self.c, *self._parameters),)

    def move(self, t: float) -> Sums:
        """Make the share t of the step."""
        crossed = _newton.move_along(self.active, self.along, t, self.y, self.c, self.a, *self._parameters)
        return self._sums(self._sum_of_rows(self.along, self.active), crossed)

    def _sums(self, v: Vector, crossed: int) -> Sums:
        """The sums that the driver needs after a change of the dual variables, in the order of `newton.DualSums`."""
        return v, *_newton.dual_sums(self.c, self.a, self.y, *self._parameters, self.known, self.inside), crossed

    def _activate(self, s: Vector, s_b: float, w: Vector, b: float) -> Indices | None:
        """The samples whose dual variable a step could change; None means all. Their margins are computed."""
        here, step = np.append(w, b), math.hypot(float(np.linalg.norm(s)), s_b)
        most = MOST_ACTIVE * self.places.size
        known = self.known.view(np.bool_)
        active = np.flatnonzero(known | (self.reach <= float(np.linalg.norm(here - self.reference)) + step))
        recompute_all = active.size > most
        unknown = np.flatnonzero(~known) if recompute_all else active[~known[active]]
        if unknown.size:
            self.c[unknown] = self._margins(w, b, unknown)
            self.known[unknown] = True
        if not recompute_all:
            return active
        self.reference = here
        self.reach = _newton.reach(self.c, *self._parameters, self.norms)
        # Samples that this step cannot move become inactive at once, if they are many.
        active = np.flatnonzero(self.reach <= step)
        if active.size > most:
            return None
        self.known[:] = False
        self.known[active] = True
        return active

    # Samples in use, by their position among them; None stands for all

    def _margins(self, w: Vector, b: float, some: Indices | None = None) -> Vector:
        margins = self.rows.X.dot(w, _some(self.numbers, some))
        margins += b
        margins *= _some(self.y, some)
        return margins

    def _sum_of_rows(self, p: Vector, some: Indices | None = None) -> Vector:
        """The sum of p_i x_i. Rows with p_i = 0 are not read."""
        return self.rows.X.sum_rows(p, _some(self.numbers, some))

    @property
    def _parameters(self) -> tuple[Vector, Vector, Vector, float, bool]:
        """The parameters that map margins to dual variables."""
        return self.centre, self.upper, self.q, self.softness, self.loss.smooth

    # The solution

    def dual_variables(self) -> Vector:
        """The dual variables of all samples of the part."""
        p = np.zeros(self.all_y.size)
        p[self.places] = self.a
        return p

    def dual_shares(self) -> Vector:
        """The dual variables of all samples in units of the upper bounds, for the hinge."""
        p = np.zeros(self.all_y.size)
        p[self.places] = self.a / self.upper
        return p


def _some(values: NDArray[T], some: Indices | None) -> NDArray[T]:
    return values if some is None else values[some]
