"""What Newton's method keeps of the samples of a part, and does with them. Symbols as in `newton.py`."""

from __future__ import annotations

import math

import numpy as np

from maxmargin.core.types import Indices, Mask, Vector
from maxmargin.engine.parts import ALL, PartRows, Places, Sums
from maxmargin.svm.linear._newton import add_dense_products, add_outer_products, dual_sums, reach, weigh
from maxmargin.svm.losses import Loss

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
        nothing, nowhere = np.zeros(0), np.zeros(0, dtype=bool)
        self.places: Indices = np.zeros(0, dtype=np.int64)
        self.y = self.upper = self.q = self.m = self.norms = nothing  # m is q for the squared hinge, 1 for the hinge
        self.centre, self.soft = nothing, nothing  # alpha, and the softness times m
        self.c, self.a = nothing, nothing  # margins, valid where `known`, and dual variables
        self.known: Mask = nowhere  # whether c_i is the margin at the present (w, b): so it is for active samples
        self.reach = nothing  # distance of (w, b) from `reference` up to which an inactive dual variable is fixed
        self.reference = nothing  # (w, b) when all margins were last known
        self.inside: Mask = nowhere  # the samples strictly between the bounds that the products sum over
        self.shift = nothing  # the mean of some rows, or zeros
        self.active: Places = ALL  # the samples whose dual variable the step at hand may change
        self.along: Vector | None = None  # the change of their margins by the whole step

    # The samples in use

    def count(self) -> Sums:
        """The number of samples that count, and their weight."""
        return self.order.size, float(self.s.sum())

    def take(self, size: int, n: int) -> Sums:
        """Take the share size / n of the samples into use. Nothing is read.

        Returned: how many they are, their weight, the sum of their |x_i|^2, and the number of their stored entries.
        """
        self.places = np.sort(self.order[: -(-self.order.size * size // n)])
        self.y = self.all_y[self.places]
        weight, square = self.s[self.places].sum(), self.sq_norms[self.places].sum()
        return self.places.size, float(weight), float(square), int(self.rows.row_sizes(self.places).sum())

    def sum_of_some(self) -> Sums:
        """The sum of a few rows in use, and how many they are: none, unless the products need a shift."""
        some = self.places[:: 1 + self.places.size // SHIFT_ROWS] if self.shifted else self.places[:0]
        return self.rows.dense(some).sum(axis=0), some.size

    def begin(self, w: Vector, b: float, share: float, shift: Vector, kink_share: float) -> Sums:
        """Compute the margins, with losses that are scaled up from this share of the weight to all samples.

        Returned: the sums of m and of the upper bounds, and the number of samples times the distance of a margin from 1
        within which the share `kink_share` of them lie.
        """
        size = self.places.size
        self.upper, self.q = self.loss.dual_box(self.u[self.places] / share)
        self.m = self.q if self.loss.smooth else np.ones(size)
        self.norms = np.sqrt(self.sq_norms[self.places] + self.bias)
        self.known, self.reach = np.ones(size, dtype=bool), np.zeros(size)
        self.inside, self.shift = np.zeros(size, dtype=bool), shift
        self.reference = np.append(w, b)
        self.c = self._margins(w, b, ALL)
        width = 0.0
        if size and not self.loss.smooth:
            enough = min(size - 1, int(kink_share * size))
            width = float(np.partition(np.abs(1 - self.c), enough)[enough])
        return float(self.m.sum()), 0.0 if self.loss.smooth else float(self.upper.sum()), size * width

    def soften(self, softness: float, centre_share: float) -> Sums:
        """The first dual variables, with this share of the upper bounds as the centre, or with the given centre."""
        if self.first_centre is not None:
            self.centre = np.clip(self.first_centre[self.places], 0.0, self.upper)
        else:
            self.centre = centre_share * self.upper if centre_share else np.zeros(self.places.size)
        self.soft = softness * self.m
        self.a = weigh(self.c, *self._parameters(ALL))
        return self._sums(self._sum_of_rows(self.a, ALL), 0)

    def recentre(self, softness: float, at_zero: bool) -> Sums:
        """Let the dual variables be the next centre, or zero, and set the softness.

        Inactive samples stay at their bounds.
        """
        self.centre = np.zeros(self.a.size) if at_zero else self.a.copy()
        self.soft = softness * self.m
        active = np.flatnonzero(self.known)
        before, self.a[active] = self.a[active], weigh(self.c[active], *self._parameters(active))
        return self._sums(self._sum_of_rows(self.a[active] - before, active), 0)

    def refresh(self, w: Vector, b: float) -> Sums:
        """Compute margins, dual variables and their sum of rows anew."""
        self.known[:] = True
        self.c = self._margins(w, b, ALL)
        self.a = weigh(self.c, *self._parameters(ALL))
        return self._sums(self._sum_of_rows(self.a, ALL), 0)

    # A step

    def products(self, anew: bool) -> Sums:
        """The sum of (x_i - shift, 1)(x_i - shift, 1)^T / m_i over the samples strictly between their bounds.

        Or else its change since the last call, by the samples that came between their bounds or left.
        """
        inside = self._between(self.a)
        changed = np.flatnonzero(inside if anew else inside != self.inside)
        signs = np.where(inside[changed], 1.0, -1.0)
        self.inside = inside
        if not changed.size:
            return (0.0,)
        weights, d = signs / self.m[changed], self.rows.X.shape[1]
        H = np.zeros((d + 1, d + 1))
        if self.sparse:
            places = self.places[changed]
            add_outer_products(self.rows.X, self.rows.rows(places), weights, H)
            if self.bias:
                H[d, :d] += self.rows.dot_transposed(weights, places)
                H[d, d] += weights.sum()
            return (H,)
        height = max(DENSE_ROWS, DENSE_ENTRIES // (d + 1))
        for start in range(0, changed.size, height):
            block = slice(start, start + height)
            Z = np.empty((changed[block].size, d + 1))
            np.subtract(self.rows.dense(self.places[changed[block]]), self.shift, out=Z[:, :d])
            Z[:, d] = self.bias
            Z *= np.sqrt(np.abs(weights[block]))[:, None]
            for sign in (1.0, -1.0):
                rows = signs[block] == sign
                if rows.any():
                    add_dense_products(Z if rows.all() else Z[rows], sign, H)
        return (H,)

    def look(self, s: Vector, s_b: float, w: Vector, b: float) -> Sums:
        """Find the samples whose dual variable a step (s, s_b) could change, and the change of their margins.

        Returned: the sum of a_i times that change, before the step and after the whole of it; and how many samples are
        inactive.
        """
        self.active = self._activate(s, s_b, w, b)
        self.along = self.y[self.active] * (self.rows.dot(s, self._of(self.active)) + s_b)
        inactive = 0 if isinstance(self.active, slice) else self.places.size - self.active.size
        return float(self.a[self.active] @ self.along), *self.slope(1.0), inactive

    def slope(self, t: float) -> Sums:
        """The sum of a_i times the change of the margin, after the share t of the step."""
        assert self.along is not None
        c = self.c[self.active] + t * self.along
        return (float(weigh(c, *self._parameters(self.active)) @ self.along),)

    def move(self, t: float) -> Sums:
        """Make the share t of the step."""
        assert self.along is not None
        active, before = self.active, self.a[self.active].copy()
        c = self.c[active] + t * self.along
        a = weigh(c, *self._parameters(active))
        self.c[active], self.a[active], self.along = c, a, None
        upper = self.upper[active]
        crossed = int(np.count_nonzero(_between(a, upper) != _between(before, upper)))
        return self._sums(self._sum_of_rows(a - before, active), crossed)

    def _sums(self, v: Vector, crossed: int) -> Sums:
        """What the driver needs to know after the dual variables changed, as `newton.DualSums` has it."""
        known, inside = self.known.view(np.uint8), self.inside.view(np.uint8)
        return v, *dual_sums(self.c, self.a, self.y, *self._parameters(ALL), self.m, known, inside), crossed

    def _activate(self, s: Vector, s_b: float, w: Vector, b: float) -> Places:
        """The samples whose dual variable a step could change; their margins are computed."""
        here, step = np.append(w, b), math.hypot(float(np.linalg.norm(s)), s_b)
        most = MOST_ACTIVE * self.places.size
        active = np.flatnonzero(self.known | (self.reach <= float(np.linalg.norm(here - self.reference)) + step))
        recompute_all = active.size > most
        unknown = np.flatnonzero(~self.known) if recompute_all else active[~self.known[active]]
        self.c[unknown] = self._margins(w, b, unknown)
        self.known[unknown] = True
        if not recompute_all:
            return active
        self.reference = here
        self.reach = reach(self.c, *self._parameters(ALL), self.norms)
        # Samples that this step cannot move become inactive at once, if they are many.
        active = np.flatnonzero(self.reach <= step)
        if active.size > most:
            return ALL
        self.known[:] = False
        self.known[active] = True
        return active

    # Samples in use, by their position among them

    def _of(self, some: Places) -> Indices:
        """The places of some samples in the part."""
        return self.places[some]

    def _margins(self, w: Vector, b: float, some: Places) -> Vector:
        return self.y[some] * (self.rows.dot(w, self._of(some)) + b)

    def _sum_of_rows(self, p: Vector, some: Places) -> Vector:
        """The sum of p_i y_i x_i. Rows with p_i = 0 are not read."""
        return self.rows.dot_transposed(p * self.y[some], self._of(some))

    def _parameters(self, some: Places) -> tuple[Vector, Vector, Vector, Vector]:
        """centre, upper, q and soft of some samples: they map a margin to a dual variable."""
        return self.centre[some], self.upper[some], self.q[some], self.soft[some]

    def _between(self, a: Vector) -> Mask:
        return _between(a, self.upper)

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


def _between(a: Vector, upper: Vector) -> Mask:
    """Which dual variables are strictly between their bounds."""
    return (a > 0) & (a < upper)
