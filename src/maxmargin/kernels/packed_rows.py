"""Samples packed for blocks of kernels, the kernels of a few samples with all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from maxmargin.core.matrix import as_matrix
from maxmargin.core.memory import in_file
from maxmargin.core.rounding import unit_roundoff
from maxmargin.core.threads import limit_blas, run_parallel, run_tiles, threads_for
from maxmargin.core.types import Block, Indices, Vector
from maxmargin.kernels._blocks import add_rows
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.mixed_rows import ColumnLayout, Floats, MixedRows, Samples, Selection
from maxmargin.kernels.nearby import TILE as NEARBY_TILE
from maxmargin.kernels.nearby import NearbyTiles, coordinates

BATCH = 512  # samples that are packed, or added up, at a time
BATCHES_PER_THREAD = 8  # batches that each thread packs before they are copied into the final arrays
PACKING_COST = 2  # cost of packing an entry of the data; unit: one multiply-add
# The range of sizes of numbers whose products neither underflow nor overflow, by the bytes of the precision: the square
# roots of its smallest and largest number, narrowed by some orders of magnitude because products are added up.
SAFE_RANGE = {4: (1e-30, 1e30), 8: (1e-280, 1e280)}
# If memory-mapped dense samples take more bytes than this, the packed samples are kept in a file too. Smaller ones fit
# into memory beside the cache of kernel rows.
MOST_IN_MEMORY = 1 << 27
TILE = 1024  # columns of a block computed at a time: few enough to stay in the processor's cache for the function


def in_safe_range(sizes: Iterable[float], itemsize: int) -> bool:
    """Whether numbers of these sizes are safe in a precision of `itemsize` bytes; zeros always are."""
    least, most = SAFE_RANGE[itemsize]
    return all(least < size < most for size in sizes if size != 0)


class _OutOfRange(Exception):
    """Intermediate numbers of a kernel overflow or underflow in the precision of the computation."""


class PackedRows:
    """Samples packed for blocks of kernels, the kernels of a few samples with all of them.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        The samples, in float32 or float64.
    kernel : Kernel
        The kernel function.
    threads : int
        The number of threads that compute a block.
    rows : array of int or None
        The rows of X to pack, in this order; None: all.
    dtype : data type or None
        The precision of the computation. None: the precision of X, or float64 if squares of float32 data would overflow
        or underflow in float32.
    centred : bool or None
        Whether the mean of the samples is subtracted first. None: only if that changes nothing except rounding.
    layout : ColumnLayout or None
        How the samples are packed, if they are some of the samples for which the layout was chosen; None: chosen for X.
    reproducible : bool
        Whether kernels in float32 have the same bits in every block in which they are computed; see
        :class:`ColumnLayout`.

    Attributes
    ----------
    sq_norms : array of shape (n,)
        The squared norms of the samples as packed; zeros if the kernel is not a function of products.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels.packed_rows import PackedRows
    >>> from maxmargin.kernels.functions import Linear
    >>> rows, out = PackedRows(np.array([[1.0, 0.0], [1.0, 1.0]]), Linear()), np.empty((1, 2), dtype=np.float32)
    >>> rows.block(np.array([[3.0, 4.0]]), out)
    >>> out
    array([[3., 7.]], dtype=float32)
    """

    def __init__(
        self,
        X: Samples,
        kernel: Kernel,
        threads: int = 1,
        rows: Indices | None = None,
        *,
        dtype: DTypeLike | None = None,
        centred: bool | None = None,
        layout: ColumnLayout | None = None,
        reproducible: bool = False,
    ) -> None:
        self.kernel, self.threads = kernel, threads if kernel.parallel else 1
        self.n, self.d = X.shape[0] if rows is None else len(rows), X.shape[1]
        self._multiply_adds = kernel.operations(X)  # multiply-adds of one evaluation
        self.sq_norms: Vector = np.zeros(self.n)
        self._right: Any = None  # the samples as the right-hand side of blocks, see `Kernel.right`
        if kernel.of_products:
            X = _dense_or_csr(X)
            if centred and kernel.explicit and sp.issparse(X):
                raise TypeError("a linear kernel can be centred for dense data only; got a sparse matrix")
            centred = kernel.of_differences if centred is None else centred
            self.layout = layout or ColumnLayout.of(X, centred, reproducible=reproducible)
            self._pack(X, rows, X.dtype if dtype is None else np.dtype(dtype))
        else:
            self._left = X if rows is None else kernel.part(X, rows)
            self._right, self.d = kernel.right(self._left), self._left.shape[1]
        self._X, self._rows = X, rows
        self._nearby: tuple[slice, NearbyTiles] | None = None  # tiles of the samples that were asked for last

    def _pack(self, X: Samples, rows: Indices | None, dtype: np.dtype[Any]) -> None:
        try:
            batches = self._batches(partial(self._packed_batch, X, rows, dtype), self.n)
            too_large = self.n * self.d * dtype.itemsize > MOST_IN_MEMORY
            self._right = MixedRows.stacked(self.n, batches, in_file=too_large and in_file(X))
        except _OutOfRange as error:
            if dtype == np.float64:
                raise ValueError(str(error)) from None
            self._pack(X, rows, np.dtype(np.float64))

    def _packed_batch(self, X: Samples, rows: Indices | None, dtype: np.dtype[Any], some: slice) -> MixedRows:
        """A batch of the right-hand side; refuses samples that are not finite, or too large."""
        batch = self.layout.pack(X[some if rows is None else rows[some]].astype(dtype, copy=False))
        if not np.isfinite(batch.sq_norms).all():
            row = some.start + int(np.argmin(np.isfinite(batch.sq_norms)))
            raise ValueError(
                f"row {row if rows is None else rows[row]} of X holds NaN, infinity or values so large that its "
                "norm is not finite; remove or impute such entries first, or divide X by a constant"
            )
        self._check_range(batch)
        self.sq_norms[some] = batch.sq_norms
        right: MixedRows = self.kernel.right(batch)
        return right

    def _batches(self, pack: Callable[[slice], MixedRows], n: int) -> Iterator[MixedRows]:
        """Batches of n samples, packed in several threads; only a few batches are in memory at a time."""
        starts, threads = range(0, max(n, 1), BATCH), threads_for(PACKING_COST * n * self.d, self.threads)
        for k in range(0, len(starts), BATCHES_PER_THREAD * threads):
            some = starts[k : k + BATCHES_PER_THREAD * threads]
            yield from run_parallel([partial(pack, slice(start, start + BATCH)) for start in some], threads)

    def _check_range(self, batch: MixedRows) -> None:
        """Raise `_OutOfRange` if intermediate numbers of the kernels of these samples overflow or underflow."""
        largest = float(batch.sq_norms.max(initial=0.0))
        least, most = SAFE_RANGE[batch.dtype.itemsize]
        vanishes = largest == 0 and (batch.common.any() or batch.rare.data.any())
        if vanishes or not in_safe_range(self.kernel.magnitudes(largest), batch.dtype.itemsize):
            raise _OutOfRange(
                f"the {self.kernel.name} kernel of X cannot be computed: a row has the squared norm {largest:.3g}, and "
                f"numbers on the way to the kernel leave the range of {least:g} to {most:g} of {batch.dtype}. Scale X, "
                "for instance with sklearn.preprocessing.StandardScaler, or choose other parameters of the kernel"
            )

    def in_precision(self, dtype: DTypeLike) -> PackedRows:
        """The same samples packed in another precision, from the data as given."""
        if not self.kernel.of_products:
            return self
        other = copy(self)
        other.sq_norms = np.zeros(self.n)
        other._pack(self._X, self._rows, np.dtype(dtype))
        other._forget_coordinates()  # the reach of a kernel depends on the precision
        return other

    def part(self, indices: Indices) -> PackedRows:
        """Some of the samples."""
        if not self.kernel.of_products:
            return PackedRows(self._left, self.kernel, self.threads, indices)
        other = copy(self)
        other.n, other._rows = len(indices), indices if self._rows is None else self._rows[indices]
        other._right, other.sq_norms = self._right[indices], self.sq_norms[indices]
        other._forget_coordinates()
        return other

    def _forget_coordinates(self) -> None:
        self._nearby = None
        self.__dict__.pop("_coordinates", None)

    @property
    def source(self) -> Samples:
        """The samples as given, dense or CSR."""
        return self._X if self._rows is None else self.kernel.part(self._X, self._rows)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision in which kernels are computed."""
        return self._right.dtype if self.kernel.of_products else np.dtype(np.float64)

    # The samples themselves, for kernels whose feature space is that of the samples

    @property
    def centre(self) -> Vector | None:
        """The vector that is subtracted from each sample, if that changes kernels and so decision values; else None."""
        return self.layout.full_centre if self.kernel.explicit and self.layout.centre is not None else None

    def centred(self, which: Selection) -> Samples:
        """Some samples in float64, less the centre if there is one."""
        samples = self._as_given(which)
        return samples if self.layout.centre is None else samples - self.layout.full_centre

    def weighted_sum(self, beta: Vector) -> Vector:
        """The sum of the centred samples with these coefficients, in float64."""
        w, nonzero = np.zeros(self.d), np.flatnonzero(beta)
        for start in range(0, nonzero.size, BATCH):
            some = nonzero[start : start + BATCH]
            w += beta[some] @ self.centred(some)
        return w

    # Kernels

    def diagonal(self) -> Vector:
        """k(x, x) of each sample."""
        with limit_blas():  # a function given by the user may use it
            values = self.kernel.diagonal(self._unpacked_right(slice(None)))
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise ValueError(f"the kernel of row {row} with itself is not finite; divide X by a constant")
        return values

    def block_of(
        self, indices: Indices, columns: Selection | None, out: Block, positions: Indices | None = None
    ) -> None:
        """Compute the kernels of some of these samples (rows of the block) with others (columns; None: all).

        The block is written into ``out[positions]``, or into all of `out`. If `out` has a higher precision than the
        packed samples, the block is computed in that precision, from the samples as given.
        """
        if out.dtype.itemsize > self.dtype.itemsize:
            right = self.kernel.right(self._packed_in_float64(slice(None) if columns is None else columns))
            left, columns = self._packed_in_float64(indices), None
        else:
            left, right = self._unpacked_right(indices), self._right
            if isinstance(columns, slice):
                right, columns = right[columns], None
        self._fill(self.kernel.left(left), right, columns, out, positions)

    def block(self, X: Samples, out: Block, columns: slice = slice(None), positions: Indices | None = None) -> None:
        """out <- the kernels of each row of X (a few samples of any kind) with all of these samples, or with some.

        If `positions` are given, only these rows of `out` are written.
        """
        if X.shape[1] != self.d:
            raise ValueError(f"the packed samples have {self.d} features; got samples with {X.shape[1]}")
        right = self._right if columns == slice(None) else self._right[columns]
        self._fill(self.kernel.left(self._prepared(X, self.dtype)), right, None, out, positions)

    def _prepared(self, X: Samples, dtype: np.dtype[Any]) -> Any:
        """Any samples in a precision, as input of `Kernel.left` or `Kernel.right`."""
        return self.layout.pack(_dense_or_csr(X.astype(dtype, copy=False))) if self.kernel.of_products else X

    def precise_block(self, which: Indices, X: Samples) -> Block:
        """The kernels of some samples of this set (rows of the block) with those of X (columns), in float64."""
        block = np.empty((which.size, X.shape[0]))
        right = self.kernel.right(self._prepared(X, np.dtype(np.float64)))
        own = self._packed_in_float64(which) if self.kernel.of_products else self._left[which]
        self._fill(self.kernel.left(own), right, None, block, None)
        return block

    def add_products(
        self, indices: Indices, factors: Vector, columns: Selection, f: Vector, dtype: DTypeLike = np.float32
    ) -> int:
        """f <- f + sum_k factors[k] * the kernels of sample indices[k] with some samples; returns the evaluations.

        Kernels are computed tile by tile and not kept. Kernels of samples out of the kernel's reach are taken to be 0
        and not computed; see `nearby`. If `dtype` is a higher precision than that of the packed samples, kernels are
        computed in that precision, from the samples as given.
        """
        if not (indices.size and f.size):
            return 0
        kind = self._kind(dtype)
        left = self._packed_in_float64(indices) if kind != self.dtype else self._unpacked_right(indices)
        total, nearby = np.zeros(f.size), self._nearby_tiles(columns)
        evaluations = self._add(left, self._coordinates[indices], factors, columns, nearby, total, kind)
        f += total
        return evaluations

    def add_products_of(
        self,
        X: Samples,
        points: Floats,
        factors: Vector,
        columns: Selection,
        nearby: NearbyTiles,
        f: Vector,
        dtype: DTypeLike,
    ) -> int:
        """As `add_products`, but for any samples with coordinates `points`, and with given tiles of the columns."""
        kind = self._kind(dtype)
        return self._add(self._prepared(X, kind), points, factors, columns, nearby, f, kind)

    def _kind(self, dtype: DTypeLike) -> np.dtype[Any]:
        """The precision of kernels that are summed up: `dtype`, or that of the packed samples if it is higher."""
        return max(np.dtype(dtype), self.dtype, key=lambda one: one.itemsize)

    def _add(
        self,
        samples: Any,
        points: Floats,
        factors: Vector,
        columns: Selection,
        nearby: NearbyTiles,
        f: Vector,
        kind: np.dtype[Any],
    ) -> int:
        left, precise = self.kernel.left(samples), kind != self.dtype
        sq_reach = self.kernel.sq_reach(unit_roundoff(kind))
        evaluations = np.zeros(len(nearby.members), dtype=np.int64)

        def add(tiles: Iterator[slice]) -> None:
            # One memory for all blocks, because the system would have to clear new memory first.
            memory = np.empty(BATCH * NEARBY_TILE, dtype=kind)
            for tile in (some.start for some in tiles):
                members = nearby.members[tile]
                samples = members + columns.start if isinstance(columns, slice) else columns[members]
                right = self.kernel.right(self._packed_in_float64(samples)) if precise else self._right[samples]
                near, total = nearby.near(points, tile, sq_reach), f[members]
                for start in range(0, near.size, BATCH):
                    some = near[start : start + BATCH]
                    block = memory[: some.size * members.size].reshape(some.size, members.size)
                    self.kernel.block(left[some], right, block)
                    add_rows(block, np.arange(some.size), factors[some], total)
                f[members] = total
                evaluations[tile] = near.size * members.size

        with limit_blas():
            operations = self._multiply_adds * len(points) * f.size
            run_tiles(add, evaluations.size, 1, operations=operations, threads=self.threads)
        return int(evaluations.sum())

    @cached_property
    def _coordinates(self) -> Floats:
        """Some coordinates of each sample, from which `nearby` finds negligible kernels."""
        return coordinates(self._X, self._rows, self.kernel.sq_reach(unit_roundoff(self.dtype)))

    def _nearby_tiles(self, columns: Selection) -> NearbyTiles:
        """Tiles of some samples; the tiles of a slice are kept until another slice is asked for."""
        if not isinstance(columns, slice):
            return NearbyTiles.of(self._coordinates[columns])
        if self._nearby is None or self._nearby[0] != columns:
            self._nearby = columns, NearbyTiles.of(self._coordinates[columns])
        return self._nearby[1]

    def _unpacked_right(self, which: Selection) -> Any:
        """Some of the samples without what `Kernel.right` has appended, as input of `Kernel.left`."""
        return self._right[which].without_extra if self.kernel.of_products else self._left[which]

    def _as_given(self, which: Selection) -> Samples:
        """Some samples as given, in float64."""
        rows = which if self._rows is None else self._rows[which]
        return self._X[rows].astype(np.float64, copy=False)

    def _packed_in_float64(self, which: Selection) -> MixedRows:
        """Some samples, packed again in float64 from the data as given."""
        indices = np.arange(self.n)[which]

        def pack(some: slice) -> MixedRows:
            return self.layout.pack(self._as_given(indices[some]))

        return (
            pack(slice(None))
            if indices.size <= BATCH
            else MixedRows.stacked(indices.size, self._batches(pack, indices.size))
        )

    def _fill(self, left: Any, right: Any, columns: Indices | None, out: Block, positions: Indices | None) -> None:
        if positions is not None and positions.size and (np.diff(positions) == 1).all():
            out, positions = out[positions[0] : positions[-1] + 1], None  # contiguous: no copy is needed

        def fill(tiles: Iterator[slice]) -> None:
            buffer = None if positions is None else np.empty((positions.size, TILE), dtype=out.dtype)
            for tile in tiles:
                some = tile if columns is None else columns[tile]
                target = out[:, tile]
                block = target if buffer is None else buffer[:, : target.shape[1]]
                self.kernel.block(left, right[some], block)
                if positions is not None:
                    target[positions] = block

        with limit_blas():
            run_tiles(fill, out.shape[1], TILE, operations=out.size * self._multiply_adds, threads=self.threads)


def _dense_or_csr(X: Samples) -> Samples:
    """X as a dense array or a CSR matrix; refuses types that compiled loops cannot read."""
    as_matrix(X)
    return X.tocsr() if sp.issparse(X) else X
