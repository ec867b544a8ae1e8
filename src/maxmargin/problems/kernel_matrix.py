"""The matrix of the kernel of every two rows, read by blocks of its rows."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core import Ledger, empty_by_pages
from maxmargin.problems.expansion import ROUNDING, Expansion
from maxmargin.problems.kernel_rows import Rows
from maxmargin.problems.kernels import Kernel

Vector = NDArray[np.float64]
Numbers = NDArray[np.int64]
Block = NDArray[Any]  # float32 or float64

BLOCK = 512  # rows that are computed at a time: enough for products at full speed
FEWEST = 64  # rows that must fit the cache
PROBED = 256  # rows among which a negative eigenvalue is looked for


class KernelMatrix:
    r"""K, the kernel of every two rows of X: blocks of its rows are computed when they are asked for, and kept.

    It can stand where a problem takes a matrix: its rows are then those of the kernel's space, and w is an
    :class:`Expansion`. The ledger counts kernel evaluations, exactly.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        The rows, in float32 or float64: blocks are computed in the same, and kept in float32.
    kernel : Kernel
        What to compute.
    cache_size : float
        How many megabytes of rows of K to keep; at least 64 rows.
    threads : int
        How many threads compute a block side by side.
    rows : array of int or None
        Which rows of X these are, in this order; None: all.

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
    >>> from maxmargin.problems.kernels import Rbf
    >>> K = KernelMatrix(np.array([[0.0], [1.0], [3.0]]), Rbf(gamma=1.0))
    >>> K.rows(np.array([0])).round(2)
    array([[1.  , 0.37, 0.  ]], dtype=float32)
    >>> K.ledger.stored, K.saved
    (3, 0)
    """

    def __init__(
        self, X: Any, kernel: Kernel, *, cache_size: float = 200.0, threads: int = 1, rows: Numbers | None = None
    ) -> None:
        self.kernel, self.threads, self.cache_bytes = kernel, threads, round(1e6 * cache_size)
        self._lay_down: Callable[[], Rows] = lambda: Rows(X, kernel, threads, rows)
        self._begin(self.laid.n)

    def _begin(self, n: int) -> None:
        self.shape, self.stored = (n, n), n * n
        self.ledger, self.saved = Ledger(), 0
        places, needed = min(n, self.cache_bytes // (4 * n)), min(n, FEWEST)
        if places < needed:
            raise ValueError(
                f"cache_size={self.cache_bytes / 1e6:g} megabytes hold {places} rows of {n:,} entries, but {needed} "
                f"are needed at a time; give at least {np.ceil(4e-5 * n * needed) / 10:.1f}"
            )
        self.kept: Block = empty_by_pages((places, n), np.float32)
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
        other._lay_down = lambda: self.laid.part(numbers)
        other._begin(len(numbers))
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
        return self._lay_down()

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
            out = np.empty((len(numbers), self.place[slice(None) if columns is None else columns].size), np.float32)
        self.laid.block_of(numbers, columns, out)
        self.ledger.count(out.size)
        return out

    def dot_precisely(self, beta: Vector, rows: Numbers) -> Vector:
        """The products of the vector with these coefficients with some rows, computed anew and in float64."""
        return self._dot_anew(beta, rows, np.float64)

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
        return self.laid.diagonal()

    def dot(self, w: Expansion, rows: Numbers | None = None) -> Vector:
        """The products of w with the rows; those that it does not know are computed, and it knows them from then on."""
        unknown = np.isnan(w.f)
        unknown = np.flatnonzero(unknown if rows is None else unknown[rows])
        if unknown.size:
            unknown = np.unique(unknown if rows is None else rows[unknown])
            w.f[unknown] = self._dot_anew(w.beta, unknown, np.float32)
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
