"""What Newton's method keeps of the samples of a part, and does with them. Symbols as in `newton.py`."""

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
Flags = NDArray[np.uint8]  # 1 for the samples that something holds of, else 0

DENSE_ENTRIES = 1 << 16  # entries of a dense block whose products a thread adds to the Hessian at a time
DENSE_ROWS = 256  # rows of such a block, at least: with fewer, adding to the Hessian takes longer than their products
SHIFT_ROWS = 64  # rows of each part, at most, whose mean is subtracted from rows to keep the digits of their products
MOST_ACTIVE = 0.6  # if more than this share of the samples are active, all margins are recomputed


class NewtonPart:
    """The samples of a part that are in use, their dual variables and their margins.

    A sample at a bound is inactive as long as w has moved too little, since all margins were last known, to change its
    dual variable: its margin need not be known. This is the tighter bound of `shrinking.py`, applied to both bounds.

    Parameters
    ----------
    rows : PartRows
    y, s, sq_norms : arrays
        Labels -1 and +1, weights and squared norms of the rows.
    C, loss, bias, free_bias :
        Those of the problem.
    sparse : bool
        Whether the Hessian is built from outer products of sparse rows.
    seed : int
        Decides, with the number of the part, in which order its samples come into use.
    centre : array or None
        Dual variables to begin at, for all samples of the part.
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
        self.places: Indices = np.zeros(0, dtype=np.int64)  # of the samples in use, in the part
        self.numbers: Indices = self.places  # of their rows in the matrix
        self.y = self.upper = self.q = self.norms = nothing
        self.centre, self.softness = nothing, 0.0  # alpha and tau
        self.c, self.a = nothing, nothing  # margins, valid where `known`, and dual variables
        self.known: Flags = nowhere  # whether c_i is the margin at the present (w, b): so it is for active samples
        self.reach = nothing  # distance of (w, b) from `reference` up to which an inactive dual variable is fixed
        self.reference = nothing  # (w, b) when all margins were last known
        self.inside: Flags = nowhere  # the samples strictly between the bounds that the products sum over
        self.shift = nothing  # the mean of some rows, or zeros
        self.active: Indices | None = None  # the samples whose dual variable the step at hand may change; None: all
        self.along = nothing  # the change of their margins by the whole step

    # The samples in use

    def count(self) -> Sums:
        """The number of samples that count, and their weight."""
        return self.order.size, float(self.s.sum())

    def take(self, size: int, n: int) -> Sums:
        """Take the share size / n of the samples into use. Nothing is read.

        Returned: how many they are, their weight, the sum of their |x_i|^2, and the number of their stored entries.
        """
        self.places = np.sort(self.order[: -(-self.order.size * size // n)])
        self.numbers, self.y = self.rows.rows(self.places), self.all_y[self.places]
        weight, square = self.s[self.places].sum(), self.sq_norms[self.places].sum()
        return self.places.size, float(weight), float(square), int(self.rows.X.row_sizes(self.numbers).sum())

    def begin(self, w: Vector, b: float, share: float, kink_share: float) -> Sums:
        """Compute the margins, with losses that are scaled up from this share of the weight to all samples.

        Returned: the sums of m and of the upper bounds; the number of samples times the distance of a margin from 1
        within which the share `kink_share` of them lie; and the sum of a few rows, and how many they are: none, unless
        the products need a shift.
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
        """The first dual variables, with this share of the upper bounds as the centre, or with the given centre.

        The shift is what is subtracted from rows in the products.
        """
        self.shift = shift
        if self.first_centre is not None:
            self.centre = np.clip(self.first_centre[self.places], 0.0, self.upper)
        else:
            self.centre = centre_share * self.upper if centre_share else np.zeros(self.places.size)
        self.softness = softness
        return self._weigh_anew()

    def recentre(self, softness: float, at_zero: bool) -> Sums:
        """Let the dual variables be the next centre, or zero, and set the softness.

        Inactive samples stay at their bounds.
        """
        self.centre = np.zeros(self.a.size) if at_zero else self.a.copy()
        self.softness = softness
        active = None if self.known.all() else np.flatnonzero(self.known)
        change = _newton.weigh(active, self.c, *self._parameters, self.a)
        return self._sums(self._sum_of_rows(change * _some(self.y, active), active), 0)

    def refresh(self, w: Vector, b: float) -> Sums:
        """Compute margins, dual variables and their sum of rows anew."""
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

        Or else its change since the last call, by the samples that came between their bounds or left.
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

        Returned: the sum of a_i times that change, before the step and after the whole of it; and how many samples are
        inactive.
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
        """What the driver needs to know after the dual variables changed, as `newton.DualSums` has it."""
        return v, *_newton.dual_sums(self.c, self.a, self.y, *self._parameters, self.known, self.inside), crossed

    def _activate(self, s: Vector, s_b: float, w: Vector, b: float) -> Indices | None:
        """The samples whose dual variable a step could change, None for all; their margins are computed."""
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
        """What maps margins to dual variables."""
        return self.centre, self.upper, self.q, self.softness, self.loss.smooth

    # The answer

    def dual_variables(self) -> Vector:
        """The dual variables of all samples of the part."""
        p = np.zeros(self.all_y.size)
        p[self.places] = self.a
        return p

    def dual_shares(self) -> Vector:
        """The same in units of the upper bounds, for the hinge."""
        p = np.zeros(self.all_y.size)
        p[self.places] = self.a / self.upper
        return p


def _some(values: NDArray[T], some: Indices | None) -> NDArray[T]:
    return values if some is None else values[some]
