"""Sparse matrices in a store: groups of arrays `data`, `indices` and `indptr`, in the layout of AnnData.

The attribute `encoding-type` of the group is "csr_matrix" or "csc_matrix", and `shape` holds the numbers of rows and
columns; older files of AnnData call them `h5sparse_format` and `h5sparse_shape`. `indptr` is kept in memory, with 8
bytes per line. The rows of a CSR matrix are read directly. A block of its columns takes a pass over the whole matrix,
and one more pass counts the entries of columns. For a CSC matrix, it is the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.core.source import Block, LineBlocks
from maxmargin.core.types import Indices, Vector
from maxmargin.data.stores.arrays import StoredArray, check_axes, count_chunks, dtype_in_memory, read_entries
from maxmargin.data.stores.blocks import LINE_NAMES, BlockSize, StoredMatrix, check_line
from maxmargin.data.streams import FileFormatError

# Lines do not end where chunks end, so two adjacent blocks share a chunk, which is read twice. Blocks of this many
# chunks read a tenth more than necessary; larger blocks would read more in vain when single lines are requested.
_CHUNKS_A_BLOCK = 10


class CompressedArrays:
    """The arrays of a sparse matrix in a store, and the axis along which it is compressed."""

    def __init__(self, name: str, group: Any, wrap: Callable[[Any], StoredArray]) -> None:
        self.name = name
        self.data, self.indices, pointers = (wrap(group[key]) for key in ("data", "indices", "indptr"))
        for array in (self.data, self.indices, pointers):
            check_axes(array.name, array.shape, 1)
        for array in (self.indices, pointers):
            if array.dtype.kind not in "iu":
                raise FileFormatError(array.name, None, None, f"expected integers; it holds {array.dtype}")
        self.indptr = read_entries(pointers, slice(0, pointers.shape[0])).astype(np.int64)
        attributes = dict(group.attrs)
        shape = attributes.get("shape", attributes.get("h5sparse_shape"))
        if shape is None:
            raise FileFormatError(name, None, None, "it has no attribute `shape`, the numbers of rows and columns")
        self.shape = int(shape[0]), int(shape[1])
        self.axis = self._compressed_axis(attributes)  # 0: CSR, 1: CSC
        self.dtype = dtype_in_memory(self.data.name, self.data.dtype)
        stored = min(self.data.shape[0], self.indices.shape[0])
        ends, lines = self.indptr, self.shape[self.axis]
        if len(ends) != lines + 1 or ends[0] != 0 or ends[-1] > stored or (ends[1:] < ends[:-1]).any():
            raise FileFormatError(
                name, None, None, f"indptr does not divide {stored} stored entries among {lines} {self.line_name}s"
            )

    @property
    def line_name(self) -> str:
        return LINE_NAMES[self.axis]

    def _compressed_axis(self, attributes: dict[str, Any]) -> int:
        format = str(attributes.get("encoding-type", attributes.get("h5sparse_format", "")))
        for axis, name in enumerate(("csr", "csc")):
            if format in (name, f"{name}_matrix"):
                return axis
        fits = [axis for axis in (0, 1) if len(self.indptr) == self.shape[axis] + 1]
        if format or len(fits) != 1:
            raise FileFormatError(
                self.name, None, None, f"its attribute `encoding-type` is {format!r}; expected csr_matrix or csc_matrix"
            )
        return fits[0]


def sparse_matrix(arrays: CompressedArrays, size: BlockSize, other_way: CompressedArrays | None = None) -> StoredMatrix:
    """Make a sparse matrix in a store; `other_way` is a second copy, compressed along the other axis."""
    if other_way is not None and other_way.axis == arrays.axis:
        raise FileFormatError(
            other_way.name, None, None, f"it is compressed by {arrays.line_name}s, like {arrays.name}"
        )

    def lines(axis: int) -> LineBlocks:
        for copy in (arrays, other_way):
            if copy is not None and copy.axis == axis:
                return CompressedLines(copy, size)
        return TurnedLines(CompressedLines(arrays, size), arrays, size)

    return StoredMatrix(arrays.name, arrays.shape, arrays.dtype, int(arrays.indptr[-1]), size.cache_size, lines)


class CompressedLines:
    """The rows of a CSR matrix, or the columns of a CSC matrix, in blocks of about ten chunks."""

    prices: Vector | None = None
    read_ahead = True

    def __init__(self, arrays: CompressedArrays, size: BlockSize) -> None:
        self._arrays = arrays
        self._width = arrays.shape[1 - arrays.axis]
        self._sizes = np.diff(arrays.indptr)
        self.sizes: Indices | None = self._sizes
        self._memory = _Memory(arrays.dtype, self._width, size)
        chunk = int(np.diff(arrays.data.edges[0]).max(initial=0))
        target = max(_CHUNKS_A_BLOCK * chunk * self._memory.entry, size.least)
        self.starts = self._memory.starts(self._sizes, target, arrays.name, arrays.line_name)

    def nbytes(self, block: int) -> int:
        return self._memory.of(self._sizes[self.starts[block] : self.starts[block + 1]])

    def read(self, block: int) -> Block:
        arrays, ends = self._arrays, self._arrays.indptr
        first, stop = self.starts[block : block + 2].tolist()
        where = self.entries(block)
        data = read_entries(arrays.data, where).astype(arrays.dtype, copy=False)
        indices = self.read_indices(block)
        kind = self._memory.index
        lines = sp.csr_array(
            (data, indices.astype(kind, copy=False), (ends[first : stop + 1] - where.start).astype(kind, copy=False)),
            shape=(stop - first, self._width),
        )
        if not lines.has_sorted_indices:
            lines.sort_indices()
        if not lines.has_canonical_format:
            line = _first_with_duplicates(lines) + first
            raise FileFormatError(arrays.name, None, None, f"{arrays.line_name} {line} stores an entry twice")
        counts = [count_chunks(array, where) for array in (arrays.data, arrays.indices)]
        return Block(lines, sum(chunks for chunks, _ in counts), sum(size for _, size in counts))

    def entries(self, block: int) -> slice:
        """Return the range of the entries of a block among all stored entries."""
        return slice(*self._arrays.indptr[self.starts[block : block + 2]].tolist())

    def read_indices(self, block: int) -> NDArray[Any]:
        """Read the indices of the entries of a block, and check that all of them are inside the matrix."""
        array, where = self._arrays.indices, self.entries(block)
        indices = read_entries(array, where)
        if len(indices) and not (indices.min() >= 0 and indices.max() < self._width):
            raise FileFormatError(
                array.name,
                None,
                None,
                f"entries {where.start} to {where.stop - 1} range from {indices.min()} to {indices.max()}, but must be "
                f"from 0 to {self._width - 1}",
            )
        return indices


class TurnedLines:
    """The columns of a CSR matrix, or the rows of a CSC matrix; each block takes a pass over the whole matrix."""

    prices: Vector | None = None
    # A pass for a block that may never be requested is too expensive.
    read_ahead = False

    def __init__(self, along: CompressedLines, arrays: CompressedArrays, size: BlockSize) -> None:
        self._along, self._dtype = along, arrays.dtype
        self._width = arrays.shape[arrays.axis]
        # Chunks and bytes read in the pass that counts entries; they are added to those of the first block.
        self._fetched, self._lock = (0, 0), Lock()
        self._sizes = np.zeros(arrays.shape[1 - arrays.axis], dtype=np.int64)
        for block in range(len(along.starts) - 1):
            self._sizes += np.bincount(along.read_indices(block), minlength=len(self._sizes))
            chunks, fetched = count_chunks(arrays.indices, along.entries(block))
            self._fetched = self._fetched[0] + chunks, self._fetched[1] + fetched
        self.sizes: Indices | None = self._sizes
        self._memory = _Memory(arrays.dtype, self._width, size)
        name = LINE_NAMES[1 - arrays.axis]
        self.starts = self._memory.starts(self._sizes, self._memory.limit, arrays.name, name)

    def nbytes(self, block: int) -> int:
        return self._memory.of(self._sizes[self.starts[block] : self.starts[block + 1]])

    def read(self, block: int) -> Block:
        first, stop = self.starts[block : block + 2].tolist()
        ends = np.concatenate([[0], np.cumsum(self._sizes[first:stop])])
        kind = self._memory.index
        data, indices = np.empty(ends[-1], dtype=self._dtype), np.empty(ends[-1], dtype=kind)
        filled = ends[:-1].copy()  # for each line, the position of its next entry
        with self._lock:
            (chunks, size), self._fetched = self._fetched, (0, 0)
        for k, start in enumerate(self._along.starts[:-1].tolist()):
            read = self._along.read(k)
            chunks, size = chunks + read.chunks, size + read.bytes
            part = read.lines[:, first:stop].tocsc()
            counts = np.diff(part.indptr)
            target = np.repeat(filled - part.indptr[:-1], counts) + np.arange(part.nnz)
            data[target], indices[target] = part.data, part.indices + start
            filled += counts
        lines = sp.csr_array((data, indices, ends.astype(kind)), shape=(stop - first, self._width))
        return Block(lines, chunks, size)


class _Memory:
    """Computes the memory of blocks of lines, and the division into blocks that fit."""

    def __init__(self, dtype: np.dtype[Any], width: int, size: BlockSize) -> None:
        self.limit, self._cache_size = size.most, size.cache_size
        # A block has fewer entries than bytes, so this type also holds the positions of all entries.
        self.index = np.dtype(np.int32 if max(width, self.limit) <= np.iinfo(np.int32).max else np.int64)
        self.entry = dtype.itemsize + self.index.itemsize

    def starts(self, sizes: Indices, target: int, name: str, kind: str) -> Indices:
        """Return where blocks of at most `target` bytes, or of one line, begin, followed by the number of lines."""
        taken = np.concatenate([[0], np.cumsum(sizes * self.entry + self.index.itemsize)])
        check_line(name, kind, int(np.diff(taken).max(initial=0)) + self.index.itemsize, self._cache_size)
        starts = [0]
        while starts[-1] < len(sizes):
            most = taken[starts[-1]] + min(target, self.limit) - self.index.itemsize
            starts.append(max(int(np.searchsorted(taken, most, side="right")) - 1, starts[-1] + 1))
        return np.array(starts, dtype=np.int64)

    def of(self, sizes: Indices) -> int:
        """Return the bytes of a block of lines of these sizes."""
        return int(sizes.sum()) * self.entry + (len(sizes) + 1) * self.index.itemsize


def _first_with_duplicates(lines: Any) -> int:
    """Return the first row that stores an entry twice; indices are sorted."""
    rows = np.repeat(np.arange(lines.shape[0]), np.diff(lines.indptr))
    return int(rows[np.argmax((np.diff(lines.indices) == 0) & (np.diff(rows) == 0))])
