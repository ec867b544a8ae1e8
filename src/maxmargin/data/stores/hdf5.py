"""Datasets of HDF5 files (h5py).

The size and the modification time of the file are recorded when a dataset is opened, and checked at each read. A chunk
that was never written is an error when the dataset is opened. A dataset without chunks is counted as if it had chunks
of 64 KB.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices
from maxmargin.data.stores.arrays import (
    AbsentChunks,
    FileStamp,
    absent_chunk,
    regular_edges,
    row_edges,
)


class Hdf5Array:
    """A dataset of an HDF5 file; implements :class:`maxmargin.data.stores.arrays.StoredArray`.

    `watched` says whether a change of the file is an error; it is False while the library itself writes to the file.
    """

    shard_edges: tuple[Indices, ...] | None = None

    def __init__(self, dataset: Any, absent_chunks: AbsentChunks = "error", *, watched: bool = True) -> None:
        path = dataset.file.filename
        self.name = f"{path}::{dataset.name}"
        self.shape, self.dtype = tuple(map(int, dataset.shape)), np.dtype(dataset.dtype)
        if dataset.chunks is None:
            self.edges = row_edges(self.shape, self.dtype)
        else:
            self.edges = tuple(regular_edges(n, step) for n, step in zip(self.shape, dataset.chunks, strict=True))
        self._dataset = dataset
        if dataset.file.mode != "r":
            dataset.file.flush()  # otherwise a later write of this data looks like a change by another program
        # A file of h5py may also be in memory, or an open Python file object.
        self._file = FileStamp(path) if watched and os.path.isfile(path) else None
        if absent_chunks == "error":
            self._refuse_absent_chunks()

    def read(self, *where: slice) -> NDArray[Any]:
        return np.asarray(self._dataset[where])

    def check_unchanged(self, *where: slice) -> None:
        if self._file is not None:
            self._file.check()

    def _refuse_absent_chunks(self) -> None:
        dataset = self._dataset
        if dataset.chunks is None:
            # Compact, external and virtual datasets do not allocate storage in the file.
            if dataset.size and dataset.id.get_storage_size() == 0 and not dataset.external and not dataset.is_virtual:
                raise absent_chunk(self.name, "all of it", dataset.fillvalue)
            return
        counts = tuple(len(edges) - 1 for edges in self.edges)
        if dataset.id.get_num_chunks() == np.prod(counts):
            return
        for numbers in np.ndindex(*counts):
            corner = tuple(int(edges[k]) for edges, k in zip(self.edges, numbers, strict=True))
            if dataset.id.get_chunk_info_by_coord(corner).byte_offset is None:
                raise absent_chunk(self.name, f"chunk {', '.join(map(str, numbers))}", dataset.fillvalue)
