"""The kernel matrix of samples that are spread over the workers of a cluster, each of which has its own columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.core import Ledger
from maxmargin.core.rounding import unit_roundoff
from maxmargin.core.types import Block, Indices, Vector
from maxmargin.engine.parts import Scattered
from maxmargin.kernels._blocks import add_rows
from maxmargin.kernels.functions import Kernel, Precomputed
from maxmargin.kernels.kernel_part import Columns, Fill, KernelPart, Missing, Mode, Request
from maxmargin.kernels.kernel_products import SUMMED_ROWS, KernelProducts
from maxmargin.kernels.matrix import MAX_CACHE_SIZE
from maxmargin.kernels.mixed_rows import ColumnLayout, Floats, Samples, Selection, as_dense, some_rows
from maxmargin.kernels.nearby import FEWEST_SAMPLES as FEWEST_FOR_TILES
from maxmargin.kernels.nearby import SAMPLED_ROWS as SAMPLED_FOR_TILES
from maxmargin.kernels.nearby import NearbyTiles, widest_columns
from maxmargin.kernels.packed_rows import PackedRows
from maxmargin.kernels.parted_rows import PartedRows
from maxmargin.kernels.parted_samples import PartedSamples, PartedSizes, assembled
from maxmargin.kernels.row_cache import BATCH, RowLookup, RowSlots, RowsView, capacity_of
from maxmargin.kernels.row_store import SentSamples
from maxmargin.kernels.rows import KernelRows

# Bytes of samples that the driver and each worker keep, apart from the worker's own samples, to compute kernels with
# them: the samples of the working set of a solver, most of which are needed again. If more are needed at once, they are
# sent in several turns.
MOST_SAMPLE_BYTES = 1 << 26
FEWEST_SAMPLES = 2 * BATCH  # smallest number of samples that are kept, however large they are
# Number of kernels, in float64, that workers send at a time if the driver adds them up.
MOST_KERNELS = 1 << 21


class PartedKernelMatrix(KernelProducts):
    r"""The kernel matrix K of samples that are spread over workers; it can be used in place of a KernelMatrix.

    Each worker computes and keeps the columns of K that belong to its own samples. The driver (this object) knows which
    rows they keep, sends them the samples of rows that must be computed, and adds up only vectors. Kernels have the
    same bits for any number of workers, and so has everything that is computed from them. The kernels of a
    ``KernelMatrix(..., reproducible=True)`` with a cache of the same size are the same.

    Parameters
    ----------
    samples : PartedSamples
        The samples.
    kernel : Kernel
        The kernel function, which is sent to workers.
    cache_size : float
        How many megabytes of rows of K all workers together keep; each worker keeps the columns of its own samples.
        Solvers choose the size of a working set from this number, so that it does not depend on the cluster.
    threads : int
        The number of threads of the driver.
    worker_threads : int
        The number of threads that compute for each unit; 0: as many as read its rows.
    rows : array of int or None
        The rows of the data that are the samples, in this order; None: all.
    centred : bool or None
        As for a :class:`KernelMatrix`.

    Attributes
    ----------
    cache_bytes : int
        The largest number of bytes that the caches of all workers take together.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import as_matrix
    >>> from maxmargin.engine.parts import LocalRows
    >>> from maxmargin.kernels.functions import Rbf
    >>> from maxmargin.kernels.parted_matrix import PartedKernelMatrix
    >>> from maxmargin.kernels.parted_samples import PartedSamples
    >>> samples = PartedSamples(LocalRows(as_matrix(np.array([[0.0], [1.0], [3.0]])), 3, unit_rows=2))
    >>> K = PartedKernelMatrix(samples, Rbf(gamma=1.0))
    >>> K.rows(np.array([0])).round(2)
    array([[1.  , 0.37, 0.  ]], dtype=float32)
    >>> K.ledger.entries_read, K.saved
    (3, 0)
    """

    def __init__(
        self,
        samples: PartedSamples,
        kernel: Kernel,
        *,
        cache_size: float = 200.0,
        threads: int = 1,
        worker_threads: int = 0,
        rows: Indices | None = None,
        centred: bool | None = None,
    ) -> None:
        if isinstance(kernel, Precomputed):
            raise ValueError("kernel='precomputed' needs the whole matrix in one place; fit it on one machine")
        if centred and kernel.explicit and samples.sparse:
            raise TypeError("a linear kernel can be centred for dense data only; got a sparse matrix")
        self.samples, self.kernel, self.threads, self.worker_threads = samples, kernel, threads, worker_threads
        self.cache_bytes = round(1e6 * float(min(cache_size, MAX_CACHE_SIZE)))
        self.dtype, self._keeps_released = np.dtype(np.float32), False
        self.layout: ColumnLayout | None = None
        if kernel.of_products:
            centred = kernel.of_differences if centred is None else centred
            self.layout = ColumnLayout.for_rows_like(samples.sampled, centred, reproducible=True)
        self._place(np.arange(samples.shape[0]) if rows is None else np.asarray(rows, dtype=np.int64), "")
        if not kernel.of_products and kernel.inner_product is None:
            self._refuse_asymmetric()

    def _place(self, order: Indices, computed: str) -> None:
        """Give each unit the columns of the rows that it holds among these, with empty caches."""
        n = order.size
        self.order, self.shape, self.n_stored, self.ledger = order, (n, n), n * n, Ledger()
        positions = np.full(self.samples.shape[0], -1)
        positions[order] = np.arange(n)
        self._columns = [np.sort(own[own >= 0]) for own in (positions[rows] for rows in self.samples.slices)]
        self._unit_of = np.empty(n, dtype=np.int64)
        for unit, own in enumerate(self._columns):
            self._unit_of[own] = unit
        self._parts = self.samples.rows.place(
            KernelPart, Scattered(positions), self.kernel, self.layout, n, self.worker_threads, units=True
        )
        self._diagonal, self._measured = None, None
        self._sq_norms: Vector | None = None
        self._points: Floats | None = None  # coordinates of the samples, see `nearby`
        self._tiles: tuple[slice, NearbyTiles] | None = None
        self._generation, self._computed = 0, computed or max(self._parts.collect("precision"), key=_itemsize)
        most = max(FEWEST_SAMPLES, int(MOST_SAMPLE_BYTES / max(1.0, self.samples.bytes_per_row)))
        self._sent = SentSamples(n, self.rows_of, most)
        self._empty_cache()

    def _empty_cache(self) -> None:
        self._generation += 1
        capacity = capacity_of(self.shape[0], self.cache_bytes, self.dtype)
        self._slots = RowSlots(self.shape[0], capacity, keeps_released=self._keeps_released)
        self._mode = Mode(self._generation, capacity, self.dtype.str, self._computed)
        self._waiting: list[Fill] = []  # rows that the next call computes

    def part(self, indices: Indices) -> PartedKernelMatrix:
        """The matrix of some samples, with its own ledger and its own empty cache."""
        other = object.__new__(type(self))
        shared = ("samples", "kernel", "threads", "worker_threads", "cache_bytes", "dtype", "layout", "_keeps_released")
        vars(other).update({name: vars(self)[name] for name in shared})
        other._place(self.order[indices], self._computed)
        other._diagonal = None if self._diagonal is None else self._diagonal[indices]
        return other

    @property
    def source(self) -> Samples:
        """Raises TypeError, because the samples are spread over workers and need not fit in one place."""
        raise TypeError("the samples are spread over workers, but the solver wants them in one place")

    def rows_of(self, indices: Indices) -> Samples:
        """Some samples as given, dense or CSR, fetched from the workers that hold them."""
        return assembled(self._parts.collect("samples", indices), self._unit_of[indices])

    @property
    def saved(self) -> int:
        return self._slots.saved

    @saved.setter
    def saved(self, entries: int) -> None:
        self._slots.saved = entries

    def signature(self) -> dict[str, Any]:
        """What distinguishes this matrix from others: sizes of samples, as the samples themselves are elsewhere."""
        return {"kernel": self.kernel, "squares": self.row_sq_norms(), "samples": self.sizes.sq_norms}

    def kept(self) -> dict[str, Any]:
        """For a checkpoint: what was computed and is not computed again; rows are computed again."""
        return {"dtype": self.dtype, "known": self._known(), "saved": self.saved}

    kept_without_cache = kept

    def take(self, kept: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        if kept["dtype"] != self.dtype:
            self._change_precision(kept["dtype"])
        self.forget_rows()
        self.saved = kept["saved"]
        self._take_known(kept["known"])

    # Rows, through the caches of the workers

    @property
    def cached_rows(self) -> int:
        """The number of rows that the caches can hold."""
        return self._slots.capacity

    @property
    def holds_all_rows(self) -> bool:
        """Whether the caches can hold all rows at once."""
        return self._slots.capacity == self.shape[0]

    def fetch(self, indices: Indices, width: int | None = None) -> RowsView:
        """K[indices], or the first `width` entries of these rows, at most `cached_rows` rows.

        Workers compute missing entries when a method of the view needs them; the view is valid until the next `fetch`.
        """
        width = self.shape[0] if width is None else width

        def compute_later(rows: Indices, columns: slice, slots: Indices) -> None:
            self._waiting.append(Fill(rows, slots, columns.stop))
            self.ledger.count(rows.size * (columns.stop - columns.start))

        return PartedRows(self, indices, self._slots.request(indices, width, compute_later), slice(0, width))

    def peek(self, indices: Indices) -> RowsView:
        """Rows that the caches hold completely; nothing is computed or counted."""
        if self._slots.missing(indices, self.shape[0]).any():
            raise ValueError("only rows that are held as a whole can be peeked at; call `fetch` to compute others")
        return PartedRows(self, indices, self._slots.slots_of(indices), slice(0, self.shape[0]))

    def missing(self, indices: Indices, width: int | None = None) -> Indices:
        """How many entries of each row `fetch` would have to compute."""
        return self._slots.missing(indices, self.shape[0] if width is None else width)

    def release(self, indices: Indices) -> None:
        """Note that these rows are not needed soon, so that their memory is reused first."""
        self._slots.release(indices)

    def keep_released_rows(self) -> None:
        """Keep released rows as long as there is memory for others, because later problems will need them."""
        self._keeps_released = self._slots.keeps_released = True

    def forget_rows(self) -> None:
        """Empty the caches; the workers free their memory at the next call."""
        saved = self.saved
        self._empty_cache()
        self.saved = saved

    def lookup(self) -> RowLookup:
        """Raises TypeError: compiled code cannot read rows that are elsewhere."""
        raise TypeError(
            "this solver reads rows of the kernel one by one, but they are spread over workers; choose "
            "solver='decomposition'"
        )

    def count_hits(self, rows: int) -> None:
        """Count this many whole rows as saved."""
        self.saved += rows * self.shape[0]

    def prefetch(self, indices: Indices) -> None:
        """Raises TypeError, as :meth:`lookup` does."""
        self.lookup()

    # Kernels that are not kept

    def block(
        self,
        indices: Indices,
        columns: Selection | None = None,
        out: Block | None = None,
        positions: Indices | None = None,
    ) -> Block:
        """K[indices][:, columns], computed without the cache; into `out` if it is given, in its precision.

        If `positions` are given, only these rows of `out` are written. An array of columns should be short, because the
        driver computes its kernels.
        """
        if columns is None or isinstance(columns, slice):
            start, stop, _ = (columns or slice(None)).indices(self.shape[0])
            columns, width = slice(start, stop), stop - start
        else:
            width = columns.size
        out = np.empty((len(indices), width), self.dtype) if out is None else out
        self.ledger.count(len(indices) * width)
        if not isinstance(columns, slice):
            self.compute_block(indices, columns, out, positions)
            return out
        places = np.arange(len(indices)) if positions is None else positions
        for some in self._turns(len(indices)):
            rows = indices[some]
            parts = self.ask("block", rows, rows, columns, out.dtype.str)
            for own, part in zip(self.columns_between(columns), parts, strict=True):
                out[places[some, None], own] = part
        return out

    def compute_block(self, indices: Indices, columns: Indices, out: Block, positions: Indices | None = None) -> None:
        """out <- K[indices][:, columns], computed by the driver."""
        if not (indices.size and columns.size):
            return
        rows = np.union1d(indices, columns)
        if rows.size <= self._sent.most:
            self._sent.gather(rows)
        dtype = max(np.dtype(self._computed), out.dtype, key=_itemsize)
        packed = PackedRows(self._sent.take(columns), self.kernel, self.threads, layout=self.layout, dtype=dtype)
        packed.block(self._sent.take(indices), out, positions=positions)

    def dot_precisely(self, beta: Vector, rows: Indices) -> Vector:
        """The products of some rows with the vector of these coefficients, computed in float64.

        If rows are few, it is cheaper to send their samples to all workers and to receive kernels than to send the
        samples of all coefficients.
        """
        few = 8 * rows.size <= self.samples.bytes_per_row * len(self._columns)
        few = few and rows.size <= min(BATCH, self._sent.most)
        if self.kernel.explicit or not few:
            return super().dot_precisely(beta, rows)
        f, nonzero, points = np.zeros(rows.size), np.flatnonzero(beta), self._coordinates()
        nearby, sq_reach = NearbyTiles.of(points[rows]), self.kernel.sq_reach(unit_roundoff(np.float64))
        turn = SUMMED_ROWS * max(1, MOST_KERNELS // max(1, rows.size) // SUMMED_ROWS)
        for start in range(0, nonzero.size, turn):
            which = nonzero[start : start + turn]
            kernels = np.empty((which.size, rows.size))
            for unit, part in enumerate(self.ask("precise_kernels", rows, which, rows)):
                kernels[self._unit_of[which] == unit] = part
            for first in range(0, which.size, SUMMED_ROWS):
                some, block = which[first : first + SUMMED_ROWS], kernels[first : first + SUMMED_ROWS]
                for tile, members in enumerate(nearby.members):
                    near, total = nearby.near(points[some], tile, sq_reach), np.zeros(members.size)
                    add_rows(np.ascontiguousarray(block[:, members]), near, beta[some[near]], total)
                    f[members] += total
                    self.ledger.count(near.size * members.size)
        return f

    def _add_products(self, indices: Indices, factors: Vector, columns: Selection, f: Vector, dtype: DTypeLike) -> int:
        if not (indices.size and f.size):
            return 0
        points, evaluations, total = self._coordinates(), 0, np.zeros(f.size)
        given, own_tiles = self._with_tiles(columns, points)
        for turn, some in enumerate(self._turns(indices.size)):
            rows = indices[some]
            begun = self._by_row(columns, total) if turn else None
            parts = self.ask(
                "products", rows, rows, points[rows], factors[some], given, own_tiles, begun, np.dtype(dtype).str
            )
            for unit, (part, count) in enumerate(parts):
                own = self._own_of(columns, unit)
                total[own] = part
                evaluations += count
        f += total
        return evaluations

    def _turns(self, count: int) -> list[slice]:
        """The rows whose samples are sent in each turn."""
        most = min(SUMMED_ROWS, self._sent.most)
        return [slice(start, min(start + most, count)) for start in range(0, count, most)]

    # Samples themselves

    def _weighted_sum(self, beta: Vector) -> Vector:
        w, nonzero = np.zeros(self.samples.shape[1]), np.flatnonzero(beta)
        for turn in range(0, nonzero.size, SUMMED_ROWS):
            rows = nonzero[turn : turn + SUMMED_ROWS]
            X = self._centred(rows)
            for start in range(0, rows.size, BATCH):
                w += beta[rows[start : start + BATCH]] @ X[start : start + BATCH]
        return w

    def _centred_products(self, rows: Indices, w: Vector) -> Vector:
        f = np.empty(rows.size)
        for turn in range(0, rows.size, SUMMED_ROWS):
            X = self._centred(rows[turn : turn + SUMMED_ROWS])
            for start in range(0, X.shape[0], BATCH):
                f[turn + start : turn + start + BATCH] = X[start : start + BATCH] @ w
        return f

    def _centred(self, rows: Indices) -> Samples:
        """Some samples in float64, less the centre if there is one."""
        X = self._sent.take(rows).astype(np.float64, copy=False)
        return X if self.layout is None or self.layout.centre is None else X - self.layout.full_centre

    def _coordinates(self) -> Floats:
        """Some coordinates of each sample, as in `nearby.coordinates`; the driver has them, because they are few."""
        if self._points is None:
            n, sq_reach = self.shape[0], self.kernel.sq_reach(unit_roundoff(np.dtype(self._computed)))
            self._points = np.empty((n, 0))
            if n >= FEWEST_FOR_TILES and np.isfinite(sq_reach):
                some = as_dense(self.rows_of(some_rows(np.arange(n), SAMPLED_FOR_TILES))).astype(np.float64)
                widest = widest_columns(some, sq_reach)
                if widest.size:
                    self._points = self._gathered("coordinates", widest)
        return self._points

    def _with_tiles(self, columns: Selection, points: Floats) -> tuple[Columns, Scattered | None]:
        """Columns with their tiles, if any; the tiles of a slice are scattered over the units."""
        if not points.shape[1]:
            return Columns(columns), None
        if not isinstance(columns, slice):
            nearby = NearbyTiles.of(points[columns])
            return Columns(columns, _tile_of(nearby, columns.size), nearby.low, nearby.high), None
        if self._tiles is None or self._tiles[0] != columns:
            self._tiles = columns, NearbyTiles.of(points[columns])
        nearby = self._tiles[1]
        tiles = _tile_of(nearby, columns.stop - columns.start)
        return Columns(columns, None, nearby.low, nearby.high), self._by_row(columns, tiles)

    def _by_row(self, columns: Selection, values: Vector | Indices) -> Scattered:
        """A number for each column, scattered over the units."""
        by_row = np.zeros(self.samples.shape[0])
        by_row[self.order[columns]] = values
        return Scattered(by_row)

    # Sizes and precision

    @property
    def sizes(self) -> PartedSizes:
        sq_norms: Vector = self._gathered("sq_norms", self._mode) if self._sq_norms is None else self._sq_norms
        self._sq_norms = sq_norms
        centred = self.kernel.explicit and self.layout is not None and self.layout.centre is not None
        centre = self.layout.full_centre if centred and self.layout is not None else None
        return PartedSizes(self.kernel, self.samples.shape[1], sq_norms, centre)

    def _compute_diagonal(self) -> Vector:
        diagonal: Vector = self._gathered("diagonal", self._mode)
        return diagonal

    def _change_precision(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        if self.kernel.of_products and _itemsize(self._computed) < dtype.itemsize:
            self._computed, self._sq_norms, self._points, self._tiles = dtype.str, None, None, None
        self.forget_rows()

    # Calls

    def ask(self, method: str, rows: Indices, *args: Any, fills: tuple[Fill, ...] = ()) -> list[Any]:
        """The answers of a method of all units, which are given the samples of these rows, and rows of K in caches.

        Rows that are waiting are computed first. A unit that has lost samples receives them again.
        """
        while sum(fill.rows.size for fill in self._waiting) + rows.size > self._sent.most:
            first, *self._waiting = self._waiting  # of at most BATCH rows, for which there is room
            self._call("hold", first.rows, (first,))
        waiting = tuple(self._waiting)
        needed = np.concatenate([rows, *(fill.rows for fill in waiting)])
        answers = self._call(method, needed, (*waiting, *fills), *args)
        self._waiting = []
        return answers

    def _call(self, method: str, rows: Indices, fills: tuple[Fill, ...], *args: Any) -> list[Any]:
        """Call all units until none of them lacks samples."""
        again = rows[:0]
        while True:
            self._sent.gather(rows)
            request = Request(self._mode, self._sent.message(again), fills)
            answers = self._parts.collect(method, request, *args)
            self._sent.delivered()
            missing = [answer.rows for answer in answers if isinstance(answer, Missing)]
            if not missing:
                return answers
            again = np.unique(np.concatenate(missing))
            while np.union1d(rows, again).size > self._sent.most:  # lost rows of K are computed in turns
                some, again = again[:BATCH], again[BATCH:]
                lost = [
                    Fill(fill.rows[own], fill.slots[own], fill.stop)
                    for fill in fills
                    if (own := np.flatnonzero(np.isin(fill.rows, some))).size
                ]
                self._call("hold", some, tuple(lost))
            rows = np.union1d(rows, again)

    def _gathered(self, method: str, *args: Any) -> Any:
        """Numbers for all samples, from the numbers that each unit returns for its own samples."""
        parts = self._parts.collect(method, *args)
        gathered = np.empty((self.shape[0], *parts[0].shape[1:]), parts[0].dtype)
        for own, part in zip(self._columns, parts, strict=True):
            gathered[own] = part
        return gathered

    def columns_between(self, columns: slice) -> list[Indices]:
        """The columns of each unit among these, counted from the first of these columns."""
        ends = [np.searchsorted(own, [columns.start, columns.stop]) for own in self._columns]
        return [own[first:last] - columns.start for own, (first, last) in zip(self._columns, ends, strict=True)]

    def _own_of(self, columns: Selection, unit: int) -> Indices:
        """The places of a unit's own columns among these."""
        return np.flatnonzero(self._unit_of[columns] == unit)


def _itemsize(dtype: DTypeLike) -> int:
    return int(np.dtype(dtype).itemsize)


def _tile_of(nearby: NearbyTiles, size: int) -> Indices:
    """The tile of each of `size` samples."""
    tiles = np.empty(size, dtype=np.int64)
    for tile, members in enumerate(nearby.members):
        tiles[members] = tile
    return tiles


if TYPE_CHECKING:
    # Here a type checker verifies that the class has all that problems and solvers require of kernel rows.
    _complete: type[KernelRows] = PartedKernelMatrix
