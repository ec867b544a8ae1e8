"""The cache of kernel rows: a fixed amount of memory for the rows used last, each whole or only its first entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from maxmargin.core import empty_by_pages
from maxmargin.core.threads import run_tiles
from maxmargin.core.types import Block, Indices, Vector
from maxmargin.kernels._blocks import add_rows, gather

MIN_ROWS = 64  # smallest number of rows that the cache must hold (or all rows, if fewer); less memory is refused
BATCH = 512  # rows computed at a time: enough for matrix products at full speed
COPIED_ROWS = 64  # rows of a square block that a thread copies at a time
COPY_COST = 4  # cost of copying an entry from one place in memory to another; unit: one multiply-add
TILE = 4096  # entries of a sum updated at a time: few enough to stay in the processor's cache while rows are added


class ComputeEntries(Protocol):
    """Computes some columns of some rows of the matrix into `out[positions]`."""

    def __call__(self, rows: Indices, columns: slice, out: Block, positions: Indices) -> None: ...


class RowsView(Protocol):
    """Some rows of a matrix, without a copy: a :class:`RowView` of rows in this process, or of rows elsewhere."""

    def __getitem__(self, which: Indices | slice, /) -> RowsView: ...
    def columns(self, columns: slice) -> RowsView:
        """The same rows, restricted to some columns."""

    def copy(self) -> Block:
        """The rows as an array of their own."""

    def copy_columns(self, columns: Indices, out: Block, threads: int = 1) -> None:
        """out <- these columns of the rows."""

    def add_to(self, f: Vector, factors: Vector, threads: int = 1) -> None:
        """f <- f + sum_k factors[k] * row k, of each row as many leading entries as f has."""


@dataclass(frozen=True)
class RowView:
    """Some rows of an array, given by their positions, without a copy.

    The view of rows in a cache is valid until the next `fetch`, which may overwrite them.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels.row_cache import RowView
    >>> rows, f = RowView(np.arange(6.0).reshape(3, 2), np.array([2, 0])), np.zeros(2)
    >>> rows.copy()
    array([[4., 5.],
           [0., 1.]])
    >>> rows.add_to(f, np.array([1.0, 10.0]))
    >>> f
    array([ 4., 15.])
    """

    array: Block
    positions: Indices

    @classmethod
    def of(cls, array: Block) -> RowView:
        """All rows of an array."""
        return cls(array, np.arange(len(array)))

    def __getitem__(self, which: Indices | slice) -> RowView:
        return replace(self, positions=self.positions[which])

    def columns(self, columns: slice) -> RowView:
        """The same rows, restricted to some columns."""
        return replace(self, array=self.array[:, columns])

    def copy(self) -> Block:
        """The rows as an array of their own."""
        return self.array[self.positions]

    def copy_columns(self, columns: Indices, out: Block, threads: int = 1) -> None:
        """out <- these columns of the rows."""
        order = np.argsort(columns)
        ascending = columns[order]

        def copy(tiles: Iterator[slice]) -> None:
            for tile in tiles:
                gather(self.array, self.positions[tile], ascending, order, out[tile])

        run_tiles(copy, self.positions.size, COPIED_ROWS, operations=COPY_COST * out.size, threads=threads)

    def add_to(self, f: Vector, factors: Vector, threads: int = 1) -> None:
        """f <- f + sum_k factors[k] * row k, of each row as many leading entries as f has."""

        def add(tiles: Iterator[slice]) -> None:
            for tile in tiles:
                total = np.zeros(tile.stop - tile.start)  # added up apart from f, as for rows that are elsewhere
                add_rows(self.array[:, tile], self.positions, factors, total)
                f[tile] += total

        run_tiles(add, f.size, TILE, operations=self.positions.size * f.size, threads=threads)


@dataclass(frozen=True)
class RowLookup:
    """The arrays of a cache, for compiled code that reads rows without calling Python.

    Row i lies in ``rows[slots[i]]`` if ``slots[i] >= 0``; its first ``widths[slots[i]]`` entries are known. Compiled
    code that reads a row increases ``clock[0]`` by one and writes it into ``last_used`` at the slot of the row; it
    changes nothing else.
    """

    rows: Block
    slots: Indices
    widths: Indices
    last_used: Indices
    clock: Indices


def capacity_of(n: int, max_bytes: int, dtype: np.dtype[Any]) -> int:
    """How many of n rows with n entries fit into the memory; refuses too little memory."""
    capacity, needed = min(n, max_bytes // (dtype.itemsize * n)), min(n, MIN_ROWS)
    if capacity < needed:
        raise ValueError(
            f"cache_size={max_bytes / 1e6:g} megabytes hold {capacity} rows of {n:,} entries, but {needed} "
            f"are needed at a time; give at least {np.ceil(1e-5 * dtype.itemsize * n * needed) / 10:.1f}"
        )
    return capacity


class RowSlots:
    """The slots of a cache and the rows of a matrix of shape (n, n) in them; the least recently used rows make room.

    Parameters
    ----------
    n : int
        The number of rows, and of entries of a row.
    capacity : int
        The number of slots.
    keeps_released : bool
        Whether rows that were released stay as long as there is memory that no row was ever in. By default they do not,
        as the system must find and clear memory at its first use; of use where later problems need the same rows.

    Attributes
    ----------
    saved : int
        Entries that were requested and had not to be computed.
    """

    def __init__(self, n: int, capacity: int, *, keeps_released: bool = False) -> None:
        self.n, self.capacity, self.saved, self.keeps_released = n, capacity, 0, keeps_released
        self._slot_of = np.full(n, -1)  # the slot of each row, -1 if the row is not held
        self._row_in = np.full(capacity, -1)  # the row in each slot, -1 if the slot is empty
        self._width = np.zeros(capacity, dtype=np.int64)  # how many leading entries of the row in each slot are known
        self._last_used = np.zeros(capacity, dtype=np.int64)  # on the clock; 0 if the row was released
        self._filled = 0  # the number of slots that ever held a row; these are the first ones
        self._clock = np.zeros(1, dtype=np.int64)  # the number of requests; an array, because compiled code advances it

    def request(self, indices: Indices, width: int, compute: Callable[[Indices, slice, Indices], None]) -> Indices:
        """The slots of these rows, which are at most `capacity`; `compute` computes missing ones of `width` entries.

        `compute` is called with rows, columns and slots, for some rows at a time.
        """
        self._clock += 1
        held = self._slot_of[indices[self._slot_of[indices] >= 0]]
        self._last_used[held] = self._clock[0]
        self.saved += int(np.minimum(self._width[held], width).sum())
        self._make_room(np.unique(indices[self._slot_of[indices] < 0]))
        slots = self._slot_of[indices]
        short = np.unique(slots[self._width[slots] < width])
        for known in np.unique(self._width[short]):
            alike, columns = short[self._width[short] == known], slice(int(known), width)
            for start in range(0, alike.size, BATCH):
                some = alike[start : start + BATCH]
                compute(self._row_in[some], columns, some)
                self._width[some] = width
        return slots

    def missing(self, indices: Indices, width: int) -> Indices:
        """How many of the first `width` entries of each row a request would have to compute."""
        slots = self._slot_of[indices]
        return np.asarray(np.maximum(width - np.where(slots >= 0, self._width[slots], 0), 0))

    def slots_of(self, indices: Indices) -> Indices:
        """The slots of these rows, -1 if they are not held."""
        return self._slot_of[indices]

    def release(self, indices: Indices) -> None:
        """Note that these rows are not needed soon, so that their slots are reused first."""
        self._last_used[self._slot_of[indices[self._slot_of[indices] >= 0]]] = 0

    def _make_room(self, missing: Indices) -> None:
        """Give these rows slots: first released slots, then slots that were never used, then the least recently used.

        If released rows are kept, slots that were never used come first.
        """
        if not missing.size:
            return
        now = self._clock[0]
        requested = missing.size + int(np.count_nonzero(self._last_used == now))
        if requested > self.capacity:
            raise ValueError(f"{requested} rows asked for at once, but only {self.capacity} fit the cache")
        released = np.flatnonzero(self._last_used[: self._filled] == 0)
        if self.keeps_released:
            released = released[: max(0, missing.size - (self.capacity - self._filled))]
        released = released[: missing.size]
        fresh = np.arange(self._filled, min(self.capacity, self._filled + missing.size - released.size))
        left = missing.size - released.size - fresh.size
        slots = np.concatenate([released, fresh])
        if left:
            self._last_used[released] = now  # so that they are not chosen twice
            slots = np.concatenate([slots, np.argpartition(self._last_used[: self._filled], left - 1)[:left]])
        slots = np.sort(slots)
        self._filled += fresh.size
        self._slot_of[self._row_in[slots[self._row_in[slots] >= 0]]] = -1
        self._slot_of[missing], self._row_in[slots] = slots, missing
        self._last_used[slots], self._width[slots] = now, 0


class RowCache(RowSlots):
    """As many rows of a matrix of shape (n, n) as fit the memory; the least recently used rows make room for others.

    Parameters
    ----------
    n : int
        The number of rows, and of entries of a row.
    max_bytes : int
        The largest number of bytes of the rows; at least 64 rows must fit, or all rows.
    dtype : data type
        float32 or float64.
    keeps_released : bool
        Whether rows that were released stay as long as there is memory that no row was ever in. By default they do not,
        as the system must find and clear memory at its first use; of use where later problems need the same rows.

    Attributes
    ----------
    saved : int
        Entries that were requested and had not to be computed.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels.row_cache import RowCache
    >>> cache, matrix = RowCache(3, 1000, np.dtype(np.float64)), np.arange(9.0).reshape(3, 3)
    >>> def compute(rows, columns, out, positions):
    ...     out[positions] = matrix[rows, columns]
    >>> cache.fetch(np.array([1]), 3, compute).copy()
    array([[3., 4., 5.]])
    >>> cache.missing(np.array([0, 1]), 3), cache.fetch(np.array([1]), 2, compute).copy(), cache.saved
    (array([3, 0]), array([[3., 4., 5.]]), 2)
    """

    def __init__(self, n: int, max_bytes: int, dtype: np.dtype[Any], *, keeps_released: bool = False) -> None:
        super().__init__(n, capacity_of(n, max_bytes, dtype), keeps_released=keeps_released)
        self._rows: Block = empty_by_pages((self.capacity, n), dtype)

    def fetch(self, indices: Indices, width: int, compute: ComputeEntries) -> RowView:
        """The first `width` entries of these rows, at most `capacity` rows; missing entries are computed."""

        def compute_missing(rows: Indices, columns: slice, slots: Indices) -> None:
            compute(rows, columns, self._rows[:, columns], slots)

        return RowView(self._rows, self.request(indices, width, compute_missing))

    def peek(self, indices: Indices) -> RowView:
        """Rows that are held completely; nothing is computed or counted, and the rows do not count as used."""
        if self.missing(indices, self.n).any():
            raise ValueError("only rows that are held as a whole can be peeked at; call `fetch` to compute others")
        return RowView(self._rows, self._slot_of[indices])

    def prefetch(self, indices: Indices, compute: ComputeEntries) -> None:
        """Compute rows that compiled code will read through `lookup` and report to `count_hits`."""
        self.fetch(indices, self.n, compute)
        self.saved -= indices.size * self.n  # `count_hits` will count these rows as saved, although they were computed

    def count_hits(self, rows: int) -> None:
        """Count this many whole rows, which compiled code has found through `lookup`, as saved."""
        self.saved += rows * self.n

    def lookup(self) -> RowLookup:
        """The arrays of the cache, for compiled code."""
        return RowLookup(self._rows, self._slot_of, self._width, self._last_used, self._clock)

    def kept(self) -> dict[str, Any]:
        """The rows that are held, for a checkpoint: their last bits depend on the blocks of their computation."""
        filled, widest = self._filled, int(self._width.max(initial=0))
        return {
            "rows": self._rows[:filled, :widest],
            "row_in": self._row_in[:filled],
            "width": self._width[:filled],
            "last_used": self._last_used[:filled],
            "clock": int(self._clock[0]),
        }

    def take(self, kept: Mapping[str, Any]) -> None:
        """Take the rows of a checkpoint; this cache must be empty and as large as the one that held them."""
        self._filled = filled = len(kept["rows"])
        self._rows[:filled, : kept["rows"].shape[1]] = kept["rows"]
        self._row_in[:filled], self._width[:filled] = kept["row_in"], kept["width"]
        self._last_used[:filled], self._clock[0] = kept["last_used"], kept["clock"]
        slots = np.flatnonzero(self._row_in >= 0)
        self._slot_of[self._row_in[slots]] = slots

    def take_from(self, other: RowCache, indices: Indices) -> None:
        """Copy rows from the cache of a larger matrix, of which this matrix is the part with these indices.

        This cache must be empty, as when it is made. Rows that the other cache holds only in part are left out.
        """
        held = np.flatnonzero(other.missing(indices, other.n) == 0)[: self.capacity]
        filled = slice(0, held.size)
        self._rows[filled] = other._rows[np.ix_(other._slot_of[indices[held]], indices)]
        self._slot_of[held], self._row_in[filled] = np.arange(held.size), held
        self._width[filled], self._last_used[filled] = self.n, 1
        self._filled, self._clock[0] = held.size, 1
