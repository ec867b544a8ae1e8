"""Some rows of a source, copied together, so that they can be read repeatedly without the blocks that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.core.block_cache import BlockCache
from maxmargin.core.source import Block, Source
from maxmargin.core.types import Indices, Vector

SHARE = 16  # a block of copies takes about 1 / SHARE of the cache
INDEX_BYTES = 8  # largest number of bytes of the index of an entry of a sparse row


class SelectedRows:
    """Some rows of a source. The object is a source itself, and its own `rows`; it has no columns.

    A block is copied from blocks of the source when it is first read, and again if the cache had to remove it. No two
    blocks hold rows of the same block of the source.

    Parameters
    ----------
    source : Source
        The source that holds the rows.
    cache : BlockCache
        The cache of the source, which also keeps the copies.
    rows : array of int64
        The selected rows, in increasing order.

    Attributes
    ----------
    nbytes_of_all : int
        The memory that all copies take.
    """

    prices: Vector | None = None
    read_ahead = False  # a copy would wait for the thread that reads blocks of the source ahead

    def __init__(self, source: Source, cache: BlockCache, rows: Indices) -> None:
        self._source, self._cache, self._rows = source, cache, rows
        self.name, self.dtype, self.cache_size = source.name, source.dtype, source.cache_size
        self.shape = rows.size, source.shape[1]
        blocks = source.rows
        self.sizes: Indices | None = None if blocks.sizes is None else blocks.sizes[rows]
        itemsize = source.dtype.itemsize
        bytes_of_rows: Indices = (
            np.full(rows.size, source.shape[1] * itemsize)
            if self.sizes is None
            else self.sizes * (itemsize + INDEX_BYTES) + INDEX_BYTES
        )
        self.n_stored = int(rows.size * source.shape[1] if self.sizes is None else self.sizes.sum())
        self._ends: Indices = np.concatenate([[0], np.cumsum(bytes_of_rows)])
        self.nbytes_of_all = int(self._ends[-1])
        of_block = np.searchsorted(rows, blocks.starts)  # for each block of the source, its first row among these
        ends = of_block[1:][np.diff(of_block) > 0]
        sizes = np.diff(self._ends[np.concatenate([[0], ends])])
        self.starts: Indices = np.concatenate([[0], ends[last_of_parts(sizes.tolist(), source.cache_size / SHARE)]])

    @property
    def rows(self) -> SelectedRows:
        return self

    @property
    def columns(self) -> Any:
        raise AttributeError("columns of selected rows are not read")

    def nbytes(self, block: int) -> int:
        return int(self._ends[self.starts[block + 1]] - self._ends[self.starts[block]])

    def read(self, block: int) -> Block:
        rows = self._rows[self.starts[block] : self.starts[block + 1]]
        # The cache counts what is fetched for the block.
        return Block(self._cache.gather(self._source.rows, rows, self.shape[1], self.dtype, keep=False), 0, 0)

    def __del__(self) -> None:
        self._cache.forget_source(self)


def last_of_parts(sizes: Sequence[int], most: float) -> Indices:
    """Divide a sequence into parts of consecutive items, and return the position of the last item of each part.

    The sizes of the items of a part add up to at most `most`, unless the part is a single item.
    """
    last, held = [], 0
    for k, size in enumerate(sizes):
        if k and held + size > most:
            last.append(k - 1)
            held = 0
        held += size
    return np.array([*last, len(sizes) - 1] if sizes else [], dtype=np.int64)
