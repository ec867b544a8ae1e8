"""The matrix of the kernel of every two rows, read by blocks of its rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core import Ledger, empty_by_pages
from maxmargin.core.rounding import UNIT, relative_error, unit_roundoff
from maxmargin.kernels.expansion import ROUNDING, Expansion
from maxmargin.kernels.functions import SYMMETRIC, Kernel
from maxmargin.kernels.packed_rows import RANGES, Rows

Vector = NDArray[np.float64]
Numbers = NDArray[np.int64]
Block = NDArray[Any]  # float32 or float64

BLOCK = 512  # rows that are computed at a time: enough for products at full speed
FEWEST = 64  # rows that must fit the cache
# Rows are kept in float64 where rounding them to float32 may change a decision value by more than this many times the
# relative gap asked for, if all samples had the weight C. In fact few have, and solvers compute decision values anew in
# float64. So where float64 is expensive, as the cache then holds half as many rows of all that there are, more is
# allowed: MNIST at C = 1,000 converges in float32 at a factor of 73, small sets at C = 1,000 do not always at 100.
ROUGH, ROUGH_WHERE_MEMORY_IS_SHORT = 20.0, 500.0
FINEST_TOL = 1e-6  # a smaller gap is not asked of float32 rows in any case
MEASURED = 64  # products that are computed anew in float64 to tell what rounding did to all of them
SMALLEST = float(np.finfo(np.float64).tiny)
SUMS = 16  # roundings of a sum of rows beside those of its terms
FEW_ROWS = 32  # rows between which a kernel of the user's is checked to be symmetric
PROBED = 256  # rows among which a negative eigenvalue is looked for


class KernelMatrix:
    r"""K, the kernel of every two rows of X: blocks of its rows are computed when they are asked for, and kept.

    It can stand where a problem takes a matrix: its rows are then those of the kernel's space, and w is an
    :class:`Expansion`. The ledger counts kernel evaluations, exactly.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        The rows, in float32 or float64: blocks are computed in the same, and kept in float32 unless that would lose too
        much, see `choose_precision`.
    kernel : Kernel
        What to compute.
    cache_size : float
        How many megabytes of rows of K to keep; at least 64 rows.
    threads : int
        How many threads compute a block side by side.
    rows : array of int or None
        Which rows of X these are, in this order; None: all.
    centred : bool or None
        Whether the mean of the rows is subtracted first, so that a linear kernel loses fewer digits. With a free bias
        that moves the bias only, by `shift`. None: where it changes nothing, that is for kernels of differences.

    Attributes
    ----------
    ledger : Ledger
        Kernel evaluations by purpose.
    saved : int
        Entries of rows that were asked for and had not to be computed, as they were kept.
    kept : array of shape (places, n)
        The rows that are kept; row i, if it is, at `kept[place[i]]`, its first entries, `width[place[i]]` of them.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.kernels.functions import Rbf
    >>> K = KernelMatrix(np.array([[0.0], [1.0], [3.0]]), Rbf(gamma=1.0))
    >>> K.rows(np.array([0])).round(2)
    array([[1.  , 0.37, 0.  ]], dtype=float32)
    >>> K.ledger.stored, K.saved
    (3, 0)
    """

    def __init__(
        self,
        X: Any,
        kernel: Kernel,
        *,
        cache_size: float = 200.0,
        threads: int = 1,
        rows: Numbers | None = None,
        centred: bool | None = None,
    ) -> None:
        # More than any matrix needs is as good as no limit.
        self.kernel, self.threads, self.cache_bytes = kernel, threads, round(1e6 * float(min(cache_size, 1e12)))
        self.dtype: Any = np.dtype(np.float32)
        self._lay_down: Callable[[Any], Rows] = lambda dtype: Rows(
            X, kernel, threads, rows, dtype=dtype, centred=centred
        )
        self._begin(self.laid.n)
        if not kernel.of_products and kernel.inner_product is None:
            self._refuse_asymmetric()

    def _refuse_asymmetric(self) -> None:
        """Look at the kernels between a few rows, which must not depend on which of two comes first."""
        some = np.unique(np.linspace(0, self.shape[0] - 1, FEW_ROWS).astype(np.int64))
        with self.ledger.on("validation"):
            block = self.block(some, some, np.empty((some.size, some.size)))
        apart = np.abs(block - block.T)
        if apart.max() > SYMMETRIC * np.abs(block).max():
            i, j = np.unravel_index(apart.argmax(), apart.shape)
            raise ValueError(
                f"the kernel is not symmetric: k(x, z) of rows {some[i]} and {some[j]} is {block[i, j]:.6g}, but "
                f"k(z, x) is {block[j, i]:.6g}. No model can be fitted to it; give (k(x, z) + k(z, x)) / 2 instead"
            )

    def _begin(self, n: int) -> None:
        self.shape, self.stored = (n, n), n * n
        self.ledger, self.saved = Ledger(), 0
        self._diagonal: Vector | None = None
        self._measured: tuple[Expansion, Vector] | None = None  # the last vector whose rounding was measured, and that
        self._empty_cache()

    def _empty_cache(self) -> None:
        n = self.shape[0]
        places, needed = min(n, self.cache_bytes // (self.dtype.itemsize * n)), min(n, FEWEST)
        if places < needed:
            raise ValueError(
                f"cache_size={self.cache_bytes / 1e6:g} megabytes hold {places} rows of {n:,} entries, but {needed} "
                f"are needed at a time; give at least {np.ceil(1e-5 * self.dtype.itemsize * n * needed) / 10:.1f}"
            )
        self.kept: Block = empty_by_pages((places, n), self.dtype)
        self.place = np.full(n, -1)
        self.owner = np.full(places, -1)  # which row is kept in each place,
        self.width = np.zeros(places, dtype=np.int64)  # how many of its entries,
        self.used = np.zeros(places, dtype=np.int64)  # and when it was asked for last
        self.filled = 0  # places that ever had an owner: the first ones
        self.time = 0

    def part(self, numbers: Numbers) -> KernelMatrix:
        """The matrix of some of the rows, with a ledger and a cache of its own, which begins with what is kept here."""
        other = copy(self)
        other.__dict__.pop("laid", None)  # it may not be there yet
        other._lay_down = lambda dtype: self.laid.part(numbers)
        other._begin(len(numbers))
        other._diagonal = None if self._diagonal is None else self._diagonal[numbers]
        places = self.place[numbers]
        known = np.flatnonzero((places >= 0) & (self.width[places] == self.shape[0]))[: len(other.kept)]
        other.kept[: known.size] = self.kept[np.ix_(places[known], numbers)]
        other.place[known], other.owner[: known.size] = np.arange(known.size), known
        other.width[: known.size], other.used[: known.size], other.filled = len(numbers), 1, known.size
        other.time = 1
        return other

    @cached_property
    def laid(self) -> Rows:
        """The rows that kernels are computed from; those of a part are laid down when one is not known yet."""
        return self._lay_down(None)

    def choose_precision(self, weight: float, tol: float) -> None:
        """Keep rows in float64 from now on if float32 would not do; what was kept is then computed anew.

        Parameters
        ----------
        weight : float
            How much the rounding of an entry may change a decision value: the size of a typical sum of coefficients
            whose roundings are as often up as down.
        tol : float
            The relative gap that is to be reached.
        """
        largest = float(np.abs(self.row_sq_norms()).max(initial=0.0))
        least, most = RANGES[4]
        fits = largest == 0 or least < largest < most
        all_fit = 8 * self.stored <= self.cache_bytes
        rough = (ROUGH if all_fit else ROUGH_WHERE_MEMORY_IS_SHORT) * max(tol, FINEST_TOL)
        if self.dtype == np.float32 and not (fits and unit_roundoff(np.float32) * largest * weight <= rough):
            self.dtype = np.dtype(np.float64)
            if self.laid.dtype != self.dtype:
                self.laid = self.laid.in_precision(self.dtype)
            self._empty_cache()

    def shift(self, beta: Vector) -> float:
        """What centring takes from each decision value of the vector with these coefficients, which sum to about 0."""
        if not self._moved:
            return 0.0
        centre = self.laid.columns.whole_centre
        return float(self._explicit(beta) @ centre + math.fsum(beta) * (centre @ centre))

    @property
    def _moved(self) -> bool:
        """Whether centring changes products."""
        return self.kernel.explicit and self.laid.columns.centre is not None

    def _explicit(self, beta: Vector) -> Vector:
        """The vector with these coefficients itself, where the kernel's space is that of the rows."""
        w, those = np.zeros(self.laid.d), np.flatnonzero(beta)
        for start in range(0, those.size, BLOCK):
            some = those[start : start + BLOCK]
            w += beta[some] @ self.laid.centred(some)
        return w

    @property
    def holds_all_rows(self) -> bool:
        """Whether the cache has room for all rows at once."""
        return len(self.kept) == self.shape[0]

    def rows(self, numbers: Numbers) -> Block:
        """K[numbers], for a few of them; rows that are kept are not computed again."""
        return self.kept[self.fetch(numbers)]

    def fetch(self, numbers: Numbers, width: int | None = None) -> Numbers:
        """The places in `kept` of these rows, no more than there are; what was not there is computed.

        Rows are wanted whole, or their first entries only, as many as `width`.
        """
        width = self.shape[0] if width is None else width
        self.time += 1
        there = numbers[self.place[numbers] >= 0]
        self.used[self.place[there]] = self.time
        self.saved += int(np.minimum(self.width[self.place[there]], width).sum())
        self._make_room(np.unique(numbers[self.place[numbers] < 0]))
        places = self.place[numbers]
        short = np.unique(places[self.width[places] < width])
        for known in np.unique(self.width[short]):
            alike = short[self.width[short] == known]
            for start in range(0, alike.size, BLOCK):
                self._widen(alike[start : start + BLOCK], int(known), width)
        return places

    def missing(self, numbers: Numbers) -> Numbers:
        """How many entries of each of these rows it would take to compute for it to be there as a whole."""
        places = self.place[numbers]
        return np.asarray(self.shape[0] - np.where(places >= 0, self.width[places], 0))

    def release(self, numbers: Numbers) -> None:
        """Say that these rows are not needed soon: theirs are the first places to be used again."""
        self.used[self.place[numbers[self.place[numbers] >= 0]]] = 0

    def _make_room(self, missing: Numbers) -> None:
        """Give these rows places: those that were released, those that never had an owner, and then the oldest.

        Memory that was never used is dear: the system has to find it, and to clear it.
        """
        if not missing.size:
            return
        asked = missing.size + int(np.count_nonzero(self.used == self.time))
        if asked > len(self.kept):
            raise ValueError(f"{asked} rows asked for at once, but only {len(self.kept)} fit the cache")
        released = np.flatnonzero(self.used[: self.filled] == 0)[: missing.size]
        fresh = np.arange(self.filled, min(len(self.kept), self.filled + missing.size - released.size))
        left = missing.size - released.size - fresh.size
        places = np.concatenate([released, fresh])
        if left:
            self.used[released] = self.time  # they are taken
            places = np.concatenate([places, np.argpartition(self.used[: self.filled], left - 1)[:left]])
        places = np.sort(places)
        self.filled += fresh.size
        self.place[self.owner[places[self.owner[places] >= 0]]] = -1
        self.place[missing], self.owner[places] = places, missing
        self.used[places], self.width[places] = self.time, 0

    def _widen(self, places: Numbers, known: int, width: int) -> None:
        """Compute the entries of the rows in these places, of which so many are known, up to a width."""
        columns = slice(known, width)
        self.laid.block_of(self.owner[places], columns, self.kept[:, columns], places)
        self.ledger.count(places.size * (width - known))
        self.width[places] = width

    def block(self, numbers: Numbers, columns: Numbers | slice | None = None, out: Block | None = None) -> Block:
        """K[numbers][:, columns], computed anew and not kept; into `out` where it is given, in its precision."""
        if out is None:
            out = np.empty((len(numbers), self.place[slice(None) if columns is None else columns].size), self.dtype)
        self.laid.block_of(numbers, columns, out)
        self.ledger.count(out.size)
        return out

    def dot_precisely(self, beta: Vector, rows: Numbers) -> Vector:
        """The products of the vector with these coefficients with some rows, computed anew and in float64."""
        if not self.kernel.explicit:
            return self._dot_anew(beta, rows, np.float64)
        w, f = self._explicit(beta), np.empty(rows.size)
        for start in range(0, rows.size, BLOCK):
            f[start : start + BLOCK] = self.laid.centred(rows[start : start + BLOCK]) @ w
        self.ledger.count(int(rows.size + np.count_nonzero(beta)))
        return f

    def rounding(self, beta: Vector, dtype: Any) -> Vector:
        """How far products of the vector with these coefficients can be from the exact ones, by rounding.

        Blocks are computed and summed up in this precision; where that is float32, sums are in float64.
        """
        laid, size = self.laid, np.abs(beta)
        used = int(np.count_nonzero(beta))
        g, h = self.kernel.rounding(laid.sq_norms, laid.d, unit_roundoff(dtype))
        kept = np.sqrt(np.abs(self.row_sq_norms()))
        stored = unit_roundoff(dtype) + relative_error(used + SUMS)
        error = g * (g @ size) + 0.5 * (h * size.sum() + h @ size) + stored * kept * (kept @ size)
        if self._moved:
            # What is published is not centred: the coefficients sum to 0 but for rounding, and the bias is moved.
            centre, norms = float(np.linalg.norm(laid.columns.whole_centre)), np.sqrt(laid.sq_norms)
            unbalanced, longest = abs(math.fsum(beta)), float(norms @ size)
            terms = relative_error(used + laid.d + SUMS)
            error = error + unbalanced * centre * norms + terms * centre * (longest + unbalanced * centre)
            error += unbalanced * centre * (2 * longest + unbalanced * centre) / max(float(size.sum()), UNIT)
        return np.asarray(error)

    def measured_rounding(self, w: Expansion) -> Vector:
        """How far each product that w knows can be from the exact one, by what some of them differ from it.

        A few products are computed anew in float64. Sums that were kept up for long may have lost more than one that is
        computed at once: all are taken to be off by twice as much as the worst of the few.
        """
        if self._measured is not None:
            before, found = self._measured
            times = _multiple(w, before)
            if times is not None:
                return np.asarray(times * found)
        those = np.flatnonzero(np.isfinite(w.f))
        some = those[:: max(1, those.size // MEASURED)]
        fine, found = self.rounding(w.beta, np.float64), self.rounding(w.beta, self.dtype)
        off = np.abs(self.dot_precisely(w.beta, some) - w.f[some]) + fine[some]
        if some.size == those.size:
            found[some] = off
        else:
            found *= max(1.0, 2 * float(np.max(off / np.maximum(found[some], SMALLEST), initial=0.0)))
        self._measured = w, found
        return found

    def _dot_anew(self, beta: Vector, rows: Numbers, precision: Any) -> Vector:
        f, those = np.zeros(rows.size), np.flatnonzero(beta)
        for first in range(0, rows.size, 4 * BLOCK):
            columns = rows[first : first + 4 * BLOCK]
            for start in range(0, those.size, BLOCK):
                some = those[start : start + BLOCK]
                block = self.block(some, columns, np.empty((some.size, columns.size), precision))
                f[first : first + 4 * BLOCK] += beta[some] @ block
        return f

    @cached_property
    def inner_product(self) -> bool | None:
        """Whether K is positive semidefinite. None: nobody knows, and a part of it showed no negative eigenvalue."""
        if self.kernel.inner_product is not None:
            return self.kernel.inner_product
        some = np.unique(np.linspace(0, self.shape[0] - 1, PROBED).astype(np.int64))
        values = np.linalg.eigvalsh(self.block(some, some).astype(np.float64))
        return False if values[0] < -ROUNDING * np.abs(values).max() else None

    # What a problem asks of a matrix

    def row_sq_norms(self) -> Vector:
        """k(x_i, x_i) for every i."""
        if self._diagonal is None:
            self._diagonal = self.laid.diagonal()
        return self._diagonal

    def sq_distances(self, w: Expansion) -> Vector:
        """The square of the distance of each row from w."""
        return np.asarray(self.row_sq_norms() - 2 * self.dot(w) + w @ w)

    def dot(self, w: Expansion, rows: Numbers | None = None) -> Vector:
        """The products of w with the rows; those that it does not know are computed, and it knows them from then on."""
        unknown = np.isnan(w.f)
        unknown = np.flatnonzero(unknown if rows is None else unknown[rows])
        if unknown.size:
            unknown = np.unique(unknown if rows is None else rows[unknown])
            w.f[unknown] = self._dot_anew(w.beta, unknown, self.dtype)
        return w.f if rows is None else w.f[rows]

    def dot_transposed(self, p: Vector, rows: Numbers | None = None) -> Expansion:
        """The sum of the rows with these coefficients."""
        beta = p
        if rows is not None:
            beta = np.zeros(self.shape[0])
            np.add.at(beta, rows, p)
        f, those = np.zeros(self.shape[0]), np.flatnonzero(beta)
        block = min(BLOCK, len(self.kept))
        for start in range(0, those.size, block):
            some = those[start : start + block]
            f += beta[some] @ self.rows(some)
        return Expansion(np.array(beta, dtype=np.float64), f)


def _multiple(w: Expansion, other: Expansion) -> float | None:
    """How many times the other vector w is, but for its sign; None where it is no multiple of it."""
    largest = int(np.argmax(np.abs(other.beta)))
    if other.beta[largest] == 0:
        return None
    times = float(w.beta[largest] / other.beta[largest])
    for one, many in ((w.beta, other.beta), (w.f, other.f)):
        if not np.allclose(one, times * many, rtol=1e-12, atol=0.0, equal_nan=True):
            return None
    return abs(times) * (1 + 1e-9)
