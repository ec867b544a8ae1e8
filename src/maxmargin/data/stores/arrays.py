"""Arrays in a store, which are read by chunks: the interface of each kind of store, and the reporting of faults."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices
from maxmargin.data.streams import FileFormatError

AbsentChunks = Literal["error", "fill"]

# Chunks are combined to blocks of at least this many bytes, because a call of a store takes a few tenths of a
# millisecond. Larger blocks would read more in vain when single rows are requested.
DEFAULT_BLOCK_SIZE = 1 << 16

# Data without chunks is counted and divided into blocks as if it had chunks of this many bytes: small enough that a
# single row costs little, and large enough that calls do not slow down a sequential pass.
UNCHUNKED_BYTES = 1 << 16


class StoredArray(Protocol):
    """An array with one or two axes in a store.

    Attributes
    ----------
    name : str
        The name in messages: the path of the store, and the place in it.
    shape : tuple of int
        The length of each axis.
    dtype : dtype
        The type of the entries in the store.
    edges : tuple of arrays of int64
        For each axis, the positions where chunks begin, followed by the length of the axis.
    shard_edges : tuple of arrays of int64 or None
        The same for shards, which are files of several chunks that are read faster as a whole; None without shards.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    edges: tuple[Indices, ...]
    shard_edges: tuple[Indices, ...] | None

    def read(self, *where: slice) -> NDArray[Any]:
        """Return the entries in a range of each axis. Several threads may call this at the same time."""

    def check_unchanged(self, *where: slice) -> None:
        """Raise a FileFormatError if files with these entries have changed since the store was opened."""


def read_entries(array: StoredArray, *where: slice) -> NDArray[Any]:
    """Read a range of each axis; an error gives the store, the chunk and its position."""
    try:
        entries = array.read(*where)
    except (FileFormatError, MemoryError):
        raise
    except Exception as cause:  # every codec and every library raises its own errors
        array.check_unchanged(*where)
        raise _fault(array, where, cause) from cause
    # Check only after reading: anything that has changed these entries has changed the file before.
    array.check_unchanged(*where)
    return entries


def count_chunks(array: StoredArray, *where: slice) -> tuple[int, int]:
    """Return the number of chunks that hold these entries, and their uncompressed size in bytes."""
    ranges = [_chunk_range(edges, part) for edges, part in zip(array.edges, where, strict=True)]
    lengths = [int(edges[last] - edges[first]) for edges, (first, last) in zip(array.edges, ranges, strict=True)]
    return math.prod(last - first for first, last in ranges), math.prod(lengths) * array.dtype.itemsize


def regular_edges(length: int, step: int) -> Indices:
    """Return the positions where chunks of equal size begin, followed by the length of the axis.

    >>> regular_edges(10, 4)
    array([ 0,  4,  8, 10])
    """
    return np.append(np.arange(0, length, max(step, 1), dtype=np.int64), length)


def row_edges(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Indices, ...]:
    """Return edges for entries stored row after row without chunks: whole rows of about `UNCHUNKED_BYTES` together."""
    row = math.prod(shape[1:]) * dtype.itemsize
    return regular_edges(shape[0], UNCHUNKED_BYTES // max(row, 1)), *(np.array([0, length]) for length in shape[1:])


def dtype_in_memory(name: str, stored: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type, float32 or float64, to which entries are converted block by block.

    float32 and float64 are not converted. float16, bool and integers of at most 16 bits become float32, which is exact.
    Other integers become float64, which rounds integers beyond 2 ** 53.
    """
    if stored.kind not in "biuf" or stored.itemsize > 8:
        raise FileFormatError(name, None, None, f"expected numbers of at most 64 bits; it holds {stored}")
    exact = stored.itemsize <= (4 if stored.kind == "f" else 2)
    return np.dtype(np.float32 if exact else np.float64)


def check_axes(name: str, shape: tuple[int, ...], axes: int) -> None:
    """Refuse an array that is not a matrix, or, for labels, not a vector."""
    if len(shape) != axes:
        expected = "a matrix of shape (n, d)" if axes == 2 else "an array with one axis"
        raise FileFormatError(name, None, None, f"expected {expected}; its shape is {shape}")


def absent_chunk(name: str, chunk: str, fill_value: object, parameter: str = "absent_chunks='fill'") -> FileFormatError:
    """Make the error for a chunk that is not in the store."""
    return FileFormatError(
        name,
        None,
        None,
        f"{chunk} is not in the store: it was lost or never written. If it was left out because all its entries equal "
        f"the fill value {fill_value}, give {parameter}",
    )


class FileStamp:
    """The size and the modification time of a file when it was opened."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._noted = _stamp(self.path)

    def check(self) -> None:
        """Raise a FileFormatError if the file has changed since then."""
        try:
            now = _stamp(self.path)
        except OSError as error:
            raise changed(self.path, f"it can no longer be found ({error.strerror})") from error
        if now != self._noted:
            raise changed(self.path)


def changed(path: str, how: str = "its size or modification time is different") -> FileFormatError:
    """Make the error for a file that changed after it was opened."""
    return FileFormatError(
        path, None, None, f"the file has changed since it was opened: {how}. Start again when nothing writes to it."
    )


def _stamp(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _chunk_range(edges: Indices, part: slice) -> tuple[int, int]:
    """Return the first chunk that holds entries of a range, and the chunk after the last one."""
    if part.stop <= part.start:
        return 0, 0
    first = int(np.searchsorted(edges, part.start, side="right")) - 1
    return first, int(np.searchsorted(edges, part.stop, side="left"))


def _chunks(array: StoredArray, where: tuple[slice, ...]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Yield the numbers and the positions of the chunks that hold these entries."""
    ranges = [range(*_chunk_range(edges, part)) for edges, part in zip(array.edges, where, strict=True)]
    for numbers in itertools.product(*ranges):
        yield numbers, tuple(slice(int(e[k]), int(e[k + 1])) for e, k in zip(array.edges, numbers, strict=True))


def _fault(array: StoredArray, where: tuple[slice, ...], cause: Exception) -> FileFormatError:
    """Make the error for entries that could not be read; it names the first unreadable chunk."""
    chunk, place = "the chunks", where
    for numbers, alone in _chunks(array, where):
        try:
            array.read(*alone)
        except Exception as error:
            chunk, place, cause = f"chunk {', '.join(map(str, numbers))}", alone, error
            break
    names = ("rows", "columns") if len(place) == 2 else ("entries",)
    ranges = ", ".join(f"{name} {p.start} to {p.stop - 1}" for name, p in zip(names, place, strict=True))
    return FileFormatError(
        array.name, None, None, f"{chunk} ({ranges}) cannot be read: {cause or type(cause).__name__}"
    )
