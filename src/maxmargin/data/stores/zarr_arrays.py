"""Zarr arrays (zarr-python 3, formats 3 and 2) in a folder, in memory, or in any other store of Zarr.

In a folder, each chunk, or each shard of several chunks, is a file. The sizes and modification times of the files are
recorded when the array is opened and checked at each read, which takes 16 bytes of memory and a few microseconds per
file. A file that is missing or has changed is an error. In other stores, such as archives and remote stores, only the
number of chunks is checked, once. A missing chunk inside a shard cannot be detected: it holds the fill value.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices
from maxmargin.data.stores.arrays import (
    AbsentChunks,
    FileStamp,
    absent_chunk,
    changed,
    regular_edges,
)

_METADATA = ("zarr.json", ".zarray")  # the file that describes an array, in formats 3 and 2
_ABSENT = -1  # the size recorded for a file that does not exist


def is_zarr(folder: Path) -> bool:
    """Whether a folder holds a Zarr array or group."""
    return any((folder / name).is_file() for name in (*_METADATA, ".zgroup"))


class ZarrArray:
    """A Zarr array; implements :class:`maxmargin.data.stores.arrays.StoredArray`."""

    def __init__(self, array: Any, absent_chunks: AbsentChunks = "error") -> None:
        folder = _folder_of(array)
        self.name = f"{array.store}{array.name}" if folder is None else str(folder)
        self.shape, self.dtype = tuple(map(int, array.shape)), np.dtype(array.dtype)
        self.edges = tuple(regular_edges(n, step) for n, step in zip(self.shape, array.chunks, strict=True))
        self.shard_edges: tuple[Indices, ...] | None = None
        if array.shards is not None:
            self.shard_edges = tuple(regular_edges(n, step) for n, step in zip(self.shape, array.shards, strict=True))
        self._array, self._files = array, None
        if folder is not None:
            self._files = _ChunkFiles(folder, array, absent_chunks)
        elif absent_chunks == "error" and array.nchunks_initialized < array.nchunks:
            count = array.nchunks - array.nchunks_initialized
            raise absent_chunk(self.name, f"{count} of {array.nchunks} chunks", array.fill_value)

    def read(self, *where: slice) -> NDArray[Any]:
        return np.asarray(self._array[where])

    def check_unchanged(self, *where: slice) -> None:
        if self._files is not None:
            self._files.check(where)


class _ChunkFiles:
    """The files of an array in a folder: one for each chunk or shard, and one that describes the array."""

    def __init__(self, folder: Path, array: Any, absent_chunks: AbsentChunks) -> None:
        self._folder, self._key = folder, array.metadata.encode_chunk_key
        self._steps = array.shards or array.chunks
        grid = tuple(-(-n // step) for n, step in zip(array.shape, self._steps, strict=True))
        self._description = FileStamp(next(folder / name for name in _METADATA if (folder / name).is_file()))
        # The size in bytes and the modification time in nanoseconds of each file.
        self._noted = np.empty((*grid, 2), dtype=np.int64)
        for numbers in np.ndindex(*grid):
            self._noted[numbers] = self._look(numbers)
            if absent_chunks == "error" and self._noted[numbers][0] == _ABSENT:
                kind = "shard" if array.shards else "chunk"
                raise absent_chunk(str(folder), f"the {kind} {self._key(numbers)}", array.fill_value)

    def _look(self, numbers: tuple[int, ...]) -> tuple[int, int]:
        try:
            status = os.stat(f"{self._folder}/{self._key(numbers)}")
        except FileNotFoundError:
            return _ABSENT, 0
        return status.st_size, status.st_mtime_ns

    def check(self, where: tuple[slice, ...]) -> None:
        self._description.check()
        files = [range(p.start // step, -(-p.stop // step)) for p, step in zip(where, self._steps, strict=True)]
        for numbers in itertools.product(*files):
            now = self._look(numbers)
            if now != tuple(self._noted[numbers]):
                path = f"{self._folder}/{self._key(numbers)}"
                raise changed(path, "it no longer exists") if now[0] == _ABSENT else changed(path)


def _folder_of(array: Any) -> Path | None:
    """Return the folder of an array on this machine; None if it is in another kind of store."""
    root = getattr(array.store, "root", None)
    return root / array.path if isinstance(root, Path) else None
