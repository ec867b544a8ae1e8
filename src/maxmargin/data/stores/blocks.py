"""Rows and columns of a dense matrix in a store, in blocks that follow its chunks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.source import Block, LineBlocks
from maxmargin.core.types import Indices, Vector
from maxmargin.data.stores.arrays import (
    DEFAULT_BLOCK_SIZE,
    StoredArray,
    check_axes,
    count_chunks,
    dtype_in_memory,
    read_entries,
)

# Number of bytes of the parts in which a block of columns is read and transposed.
PART_BYTES = 1 << 23
SHARE = 8  # a block takes at most 1 / SHARE of the cache, as `maxmargin.core.source.Source` requires
LINE_NAMES = ("row", "column")


@dataclass(frozen=True)
class BlockSize:
    """The limits of the sizes of blocks, in bytes.

    Attributes
    ----------
    cache_size : int
        The maximum size of all blocks in memory.
    least : int
        The minimum size of a block of combined chunks.
    """

    cache_size: int
    least: int = DEFAULT_BLOCK_SIZE

    @property
    def most(self) -> int:
        """The maximum size of a block."""
        return self.cache_size // SHARE


class StoredMatrix:
    """A matrix in a store; implements :class:`maxmargin.core.source.Source`.

    Attributes
    ----------
    name, shape, dtype, n_stored, cache_size
        See :class:`maxmargin.core.source.Source`.
    rows, columns : LineBlocks
        The rows and the columns in blocks; made on first use.
    feature_names : sequence of str or None
        The names of the columns, if they have names.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        n_stored: int,
        cache_size: int,
        lines: Callable[[int], LineBlocks],
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.feature_names = feature_names
        self.name, self.shape, self.dtype, self.n_stored, self.cache_size = name, shape, dtype, n_stored, cache_size
        self._make, self._lock = lines, threading.Lock()
        self._lines: dict[int, LineBlocks] = {}

    @property
    def rows(self) -> LineBlocks:
        return self._along(0)

    @property
    def columns(self) -> LineBlocks:
        return self._along(1)

    def _along(self, axis: int) -> LineBlocks:
        with self._lock:
            if axis not in self._lines:
                self._lines[axis] = self._make(axis)
            return self._lines[axis]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, shape={self.shape}, dtype={self.dtype})"


def dense_matrix(
    array: StoredArray,
    size: BlockSize,
    by_column: StoredArray | None = None,
    feature_names: Sequence[str] | None = None,
) -> StoredMatrix:
    """Make a dense matrix in a store; columns are read from the second copy `by_column` if there is one."""
    check_axes(array.name, array.shape, 2)
    n, d = array.shape
    copies = array, array if by_column is None else by_column
    dtype = dtype_in_memory(array.name, array.dtype)
    return StoredMatrix(
        array.name,
        (n, d),
        dtype,
        n * d,
        size.cache_size,
        lambda axis: DenseLines(copies[axis], axis, dtype, size),
        feature_names,
    )


class DenseLines:
    """The rows of a dense matrix (`axis` 0), or its columns (`axis` 1), in blocks.

    A block is one chunk high. It is several chunks or whole shards high if these are smaller than a block should be,
    and a part of a chunk if a whole one takes too much memory; then the chunk is read and counted once for each part.
    In the other direction, a block reads all chunks. So a block of columns of a matrix that is chunked by rows reads
    the whole matrix, and is made as wide as memory allows.
    """

    sizes: Indices | None = None
    prices: Vector | None = None
    read_ahead = True

    def __init__(self, array: StoredArray, axis: int, dtype: np.dtype[Any], size: BlockSize) -> None:
        self._array, self._axis, self._dtype = array, axis, dtype
        self._width = array.shape[1 - axis]
        line = self._width * dtype.itemsize
        check_line(array.name, LINE_NAMES[axis], line, size.cache_size)
        shards = None if array.shard_edges is None else array.shard_edges[axis]
        self.starts = _put_together(array.edges[axis], line, size.least, size.most, shards)

    def nbytes(self, block: int) -> int:
        return int(self.starts[block + 1] - self.starts[block]) * self._width * self._dtype.itemsize

    def read(self, block: int) -> Block:
        lines = slice(int(self.starts[block]), int(self.starts[block + 1]))
        if self._axis == 0:
            where = lines, slice(0, self._width)
            entries = np.ascontiguousarray(read_entries(self._array, *where), dtype=self._dtype)
        else:
            where = slice(0, self._width), lines
            entries = self._transposed(lines)
        return Block(entries, *count_chunks(self._array, *where))

    def _transposed(self, columns: slice) -> NDArray[Any]:
        """Read columns as rows, in parts, so that no second array of the same size is needed."""
        d = columns.stop - columns.start
        entries = np.empty((d, self._width), dtype=self._dtype)
        starts = _put_together(self._array.edges[0], d * self._dtype.itemsize, PART_BYTES, None).tolist()
        for start, stop in pairwise(starts):
            entries[:, start:stop] = read_entries(self._array, slice(start, stop), columns).T
        return entries


def check_line(name: str, kind: str, line: int, cache_size: int) -> None:
    """Refuse a cache that is too small for a block of one line."""
    if line > cache_size // SHARE:
        raise ValueError(
            f"{name}: a {kind} takes {line:,} bytes, but a block may take at most 1/{SHARE} of cache_size="
            f"{cache_size:,}; give cache_size={SHARE * line} or more"
        )


def _put_together(edges: Indices, line: int, least: int, most: int | None, shards: Indices | None = None) -> Indices:
    """Return the positions where blocks begin, followed by the number of lines.

    Chunks are combined until they take `least` bytes, and a chunk of more than `most` bytes is cut into equal parts;
    `line` is the number of bytes of a line. Blocks end where shards end; a shard of up to twice `least` is one block.
    """
    line = max(line, 1)
    ends: Indices = np.empty(0, dtype=np.int64)
    if shards is not None:
        shard = int(np.diff(shards).max(initial=0)) * line
        if shard <= min(2 * least, most or shard):
            edges = shards
        else:
            ends = shards
    at_ends = np.isin(edges[1:], ends).tolist()
    starts = [0]
    for (begin, end), at_end in zip(pairwise(edges.tolist()), at_ends, strict=True):
        if most is not None and (end - starts[-1]) * line > most:
            if starts[-1] < begin:
                starts.append(begin)
            parts = -(-(end - begin) // (most // line))
            starts.extend(begin + (end - begin) * part // parts for part in range(1, parts + 1))
        elif at_end or (end - starts[-1]) * line >= least:
            starts.append(end)
    if starts[-1] < edges[-1]:
        starts.append(int(edges[-1]))
    return np.array(starts, dtype=np.int64)
