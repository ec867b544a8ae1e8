"""The interface of data that a Matrix reads from elsewhere: from a store on disk, or from a function that computes it.

Such data is read in blocks of consecutive lines, where a line is a row or a column. A :class:`Source` has two
:class:`LineBlocks`, one for its rows and one for its columns. A :class:`maxmargin.core.block_cache.BlockCache` keeps
blocks that were read, so that the source itself keeps none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np

from maxmargin.core.types import Indices, Vector


@dataclass(frozen=True)
class Block:
    """Consecutive lines in memory, and what was read to fetch them.

    Attributes
    ----------
    lines : array of shape (lines, width), or CSR array
        The entries, with one line per row; a block of columns is transposed. In float32 or float64. A dense array is
        C-contiguous; a CSR array has int32 or int64 indices of one type and no duplicate entries.
    chunks : int
        The number of chunks of the store that were read, wholly or in part.
    bytes : int
        The uncompressed size of these chunks.
    """

    lines: Any
    chunks: int
    bytes: int


class LineBlocks(Protocol):
    """The rows of a matrix, or its columns, in blocks of consecutive lines.

    Attributes
    ----------
    starts : array of int64 of shape (blocks + 1,)
        The first line of each block; the last item is the number of lines.
    sizes : array of int64 of shape (lines,) or None
        The number of stored entries of each line; None if all entries are stored.
    prices : array of float64 of shape (lines,) or None
        What reading each line now would take from the budget. A source that computes entries changes this array in
        place as entries become known. None: the price of a line is the number of its stored entries.
    read_ahead : bool
        Whether blocks may be read before they are asked for, so that some may be read in vain.
    """

    starts: Indices
    sizes: Indices | None
    prices: Vector | None
    read_ahead: bool

    def nbytes(self, block: int) -> int:
        """The memory that a block takes after it has been read, in bytes."""

    def read(self, block: int) -> Block:
        """Read a block. It may be called from any thread, and from several threads at the same time."""


class Source(Protocol):
    """A matrix that lies elsewhere.

    Attributes
    ----------
    name : str
        The name in messages, e.g. a path.
    shape : tuple
        The numbers of rows and columns.
    dtype : dtype
        The type of all blocks, float32 or float64.
    n_stored : int
        The number of stored entries.
    cache_size : int
        The number of bytes that blocks in memory may take.
    rows, columns : LineBlocks
        The blocks of rows and of columns; no block takes more than an eighth of `cache_size`. The first access to
        `columns` may take a pass over the data, if their sizes must be counted.
    """

    name: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    n_stored: int
    cache_size: int

    @property
    def rows(self) -> LineBlocks: ...
    @property
    def columns(self) -> LineBlocks: ...


def remembers(X: object) -> bool:
    """Whether X is a source of entries that are paid for once, and that checkpoints keep by `kept` and `take`."""
    return is_source(X) and hasattr(type(X), "kept")


def is_source(X: object) -> TypeGuard[Source]:
    """Whether X is a matrix that lies elsewhere."""
    return all(hasattr(type(X), name) for name in ("rows", "columns")) and hasattr(X, "cache_size")
