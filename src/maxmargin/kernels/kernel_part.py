"""The columns of a kernel matrix that belong to the samples of one worker: computed, kept and added up on the worker.

An object keeps between calls only what can be computed again: rows of K in a cache, and samples of other workers. The
driver (:class:`maxmargin.kernels.parted_matrix.PartedKernelMatrix`) decides what the object keeps, and each call states
what it relies on. An object that was lost and made again lacks samples that it needs: it answers with their numbers
(:class:`Missing`) and is called again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.core import empty_by_pages
from maxmargin.core.types import Block, Indices, Vector
from maxmargin.engine.parts import PartRows
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.mixed_rows import ColumnLayout, Floats, Samples, Selection, as_dense
from maxmargin.kernels.nearby import NearbyTiles
from maxmargin.kernels.packed_rows import PackedRows
from maxmargin.kernels.row_cache import BATCH, RowView
from maxmargin.kernels.row_store import RowStore, Sent

T = TypeVar("T")


@dataclass(frozen=True)
class Mode:
    """How rows of K are kept; whenever the mode changes, the cache is emptied.

    Attributes
    ----------
    generation : int
        The number of times that the cache was emptied.
    capacity : int
        The largest number of rows that are kept.
    kept : str
        The data type of the rows that are kept.
    computed : str
        The data type in which kernels are computed; empty: the type that the samples of the unit require.
    """

    generation: int
    capacity: int
    kept: str
    computed: str = ""


@dataclass(frozen=True)
class Fill:
    """Rows of K whose first `stop` columns are to be held in slots of the cache."""

    rows: Indices
    slots: Indices
    stop: int


@dataclass(frozen=True)
class Request:
    """What a call relies on: how rows are kept, further samples to keep, and rows that must be in the cache."""

    mode: Mode
    sent: Sent
    fills: tuple[Fill, ...] = ()


@dataclass(frozen=True)
class Missing:
    """The rows whose samples a unit has not received, or has lost."""

    rows: Indices


@dataclass(frozen=True)
class Columns:
    """Some columns of K, with the tiles to which they belong if kernels of far samples are left out.

    Attributes
    ----------
    which : slice or array of int
        The columns; a slice must have a start and a stop.
    tiles : array of int or None
        The tile of each of these columns. None if `which` is a slice: tiles are then given for the unit's own columns.
    low, high : arrays or None
        The corners of the box around each tile.
    """

    which: Selection
    tiles: NDArray[np.int64] | None = None
    low: Floats | None = None
    high: Floats | None = None


class KernelPart:
    """The columns of K that belong to the samples of one unit, in ascending order of their positions in K.

    Parameters
    ----------
    rows : PartRows
        The rows of the unit.
    positions : array
        The position of each row of the unit in K; negative if the sample is not in K.
    kernel : Kernel
        The kernel function.
    layout : ColumnLayout or None
        How samples are packed, if the kernel is a function of products.
    n : int
        The number of all samples of K.
    threads : int
        The number of threads that compute; 0: as many as the matrix that holds the rows uses.
    """

    def __init__(
        self, rows: PartRows, positions: Vector, kernel: Kernel, layout: ColumnLayout | None, n: int, threads: int
    ) -> None:
        own = np.asarray(positions).astype(np.int64)  # sending them to a worker has turned them into floats
        order = np.argsort(own)[np.count_nonzero(own < 0) :]
        self.positions, self.kernel, self.layout = own[order], kernel, layout
        self._X, self._order, self._threads = rows.X[rows.own], order, threads or rows.X.threads
        self._packed: PackedRows | None = None
        self._mode: Mode | None = None
        self._store = RowStore(n)

    # Samples

    def samples(self, rows: Indices) -> Samples:
        """The samples at these positions in K, as far as they are in this unit."""
        return self._X[self._order[self._own(rows)]]

    def precision(self) -> str:
        """The precision in which the samples of this unit require kernels to be computed."""
        return self._pack("").dtype.str

    def diagonal(self, mode: Mode) -> Vector:
        """k(x, x) of each sample."""
        return self._pack(mode.computed).diagonal() if self.positions.size else np.empty(0)

    def sq_norms(self, mode: Mode) -> Vector:
        """The squared norm of each sample as packed."""
        return self._pack(mode.computed).sq_norms

    def coordinates(self, columns: Indices) -> Floats:
        """Some columns of the data."""
        return np.ascontiguousarray(as_dense(self._X[:, columns])[self._order], dtype=np.float64)

    # Rows of K in the cache

    def sums(self, request: Request, slots: Indices, factors: Vector, columns: slice) -> Vector | Missing:
        """sum_k factors[k] * row k of K, for the unit's own columns among some."""

        def add() -> Vector:
            own = self._between(columns)
            f = np.zeros(own.stop - own.start)
            RowView(self._rows, slots).columns(own).add_to(f, factors, self._threads)
            return f

        return self._after(request, add)

    def copies(self, request: Request, slots: Indices, columns: slice) -> Block | Missing:
        """The unit's own columns, among some, of rows of K."""

        def copy() -> Block:
            return self._rows[slots, self._between(columns)]

        return self._after(request, copy)

    def hold(self, request: Request) -> Missing | None:
        """Compute what the request requires in the cache, and nothing else."""
        return self._after(request, lambda: None)

    # Kernels that are not kept

    def block(self, request: Request, rows: Indices, columns: slice, dtype: str) -> Block | Missing:
        """The kernels of some rows with the unit's own columns among some."""

        def compute() -> Block:
            own = self._between(columns)
            out = np.empty((rows.size, own.stop - own.start), np.dtype(dtype))
            packed = self._pack(request.mode.computed)
            if packed.dtype.itemsize < out.dtype.itemsize:
                packed = packed.in_precision(dtype)
            packed.block(self._store.take(rows), out, own)
            return out

        return self._with_samples(request, rows, compute)

    def products(
        self,
        request: Request,
        rows: Indices,
        points: Floats,
        factors: Vector,
        columns: Columns,
        own_tiles: Vector | None,
        begun: Vector | None,
        dtype: str,
    ) -> tuple[Vector, int] | Missing:
        """The sum of factors[k] times the kernels of row k with the unit's own columns among some; and evaluations.

        `own_tiles` holds the tiles, and `begun` sums over other rows to which these are added, both by row of the unit.
        """

        def add() -> tuple[Vector, int]:
            which = columns.which
            own: Selection = self._between(which) if isinstance(which, slice) else self._own(which)
            samples = np.arange(self.positions.size)[own]
            f = np.zeros(samples.size) if begun is None else begun[self._order[samples]]
            if not (samples.size and rows.size):
                return f, 0
            nearby = self._tiles(columns, samples, own_tiles)
            packed = self._pack(request.mode.computed)
            return f, packed.add_products_of(self._store.take(rows), points, factors, own, nearby, f, dtype)

        return self._with_samples(request, rows, add)

    def _tiles(self, columns: Columns, samples: Indices, own_tiles: Vector | None) -> NearbyTiles:
        """The tiles of the unit's own columns among some, given by their places."""
        which, tiles = columns.which, columns.tiles
        if columns.low is None or columns.high is None:
            return NearbyTiles.of(np.empty((samples.size, 0)))
        if tiles is not None and not isinstance(which, slice):
            return _grouped(tiles[self._among(which)], columns.low, columns.high)
        assert own_tiles is not None
        return _grouped(own_tiles[self._order[samples]].astype(np.int64), columns.low, columns.high)

    def precise_kernels(self, request: Request, which: Indices, rows: Indices) -> Block | Missing:
        """The kernels of the samples `which`, as far as they are in this unit, with each of some rows, in float64."""

        def compute() -> Block:
            return self._pack(request.mode.computed).precise_block(self._own(which), self._store.take(rows))

        return self._with_samples(request, rows, compute)

    # What calls have in common

    def _pack(self, computed: str) -> PackedRows:
        """The samples packed, in this precision if it is given."""
        if self._packed is None:
            self._packed = PackedRows(self._X, self.kernel, self._threads, self._order, layout=self.layout)
        if computed and self.kernel.of_products and np.dtype(computed).itemsize > self._packed.dtype.itemsize:
            self._packed = self._packed.in_precision(computed)
        return self._packed

    def _adopt(self, request: Request) -> None:
        """Keep what the driver wants this unit to keep."""
        sent = request.sent
        if sent.kept is not None:
            self._store.keep(sent.kept)
        if sent.X is not None:
            self._store.add(sent.rows, sent.X)
        if request.mode == self._mode:
            return
        self._mode, capacity = request.mode, request.mode.capacity
        self._rows: Block = empty_by_pages((capacity, self.positions.size), request.mode.kept)
        self._row_in = np.full(capacity, -1)
        self._width = np.zeros(capacity, dtype=np.int64)  # the number of the unit's own columns that are known

    def _after(self, request: Request, answer: Callable[[], T]) -> T | Missing:
        """The answer after all rows are in the cache; or the samples that are missing for that."""
        self._adopt(request)
        lacking = [self._lacking(fill) for fill in request.fills]
        missing = self._store.missing(np.concatenate([np.empty(0, dtype=np.int64), *lacking]))
        if missing.size:
            return Missing(missing)
        for fill in request.fills:
            self._fill(fill)
        return answer()

    def _with_samples(self, request: Request, rows: Indices, answer: Callable[[], T]) -> T | Missing:
        """The answer, if the samples of these rows were sent."""
        self._adopt(request)
        missing = self._store.missing(rows)
        return Missing(missing) if missing.size else answer()

    def _widths(self, fill: Fill) -> tuple[Indices, int]:
        """How many of the unit's own columns of these rows are known, and how many are needed."""
        known = np.where(self._row_in[fill.slots] == fill.rows, self._width[fill.slots], 0)
        return known, int(np.searchsorted(self.positions, fill.stop))

    def _lacking(self, fill: Fill) -> Indices:
        known, width = self._widths(fill)
        return fill.rows[known < width]

    def _fill(self, fill: Fill) -> None:
        """Compute what is not known yet of these rows."""
        known, width = self._widths(fill)
        short = np.flatnonzero(known < width)
        self._width[fill.slots] = known
        self._row_in[fill.slots] = fill.rows
        for first in np.unique(known[short]):
            alike, columns = short[known[short] == first], slice(int(first), width)
            for start in range(0, alike.size, BATCH):
                some = alike[start : start + BATCH]
                slots, X = fill.slots[some], self._store.take(fill.rows[some])
                assert self._mode is not None
                self._pack(self._mode.computed).block(X, self._rows[:, columns], columns, slots)
                self._width[slots] = width

    def _between(self, columns: slice) -> slice:
        """The unit's own columns among these, by their places."""
        start, stop = np.searchsorted(self.positions, [columns.start, columns.stop])
        return slice(int(start), int(stop))

    def _among(self, positions: Indices) -> NDArray[np.bool_]:
        """Which of some samples are in this unit."""
        places = np.searchsorted(self.positions, positions)
        return np.asarray(np.append(self.positions, -1)[places] == positions)

    def _own(self, positions: Indices) -> Indices:
        """The places of the samples at these positions, as far as they are in this unit."""
        return np.searchsorted(self.positions, positions[self._among(positions)])


def _grouped(tiles: Indices, low: Floats, high: Floats) -> NearbyTiles:
    """The tiles that contain samples, given the tile of each sample."""
    order = np.argsort(tiles, kind="stable")
    used, starts = np.unique(tiles[order], return_index=True)
    return NearbyTiles(np.split(order, starts[1:]), low[used], high[used])
