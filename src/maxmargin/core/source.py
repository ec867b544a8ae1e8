"""What a Matrix asks of data that lies elsewhere: in a store on disk, or behind a function that computes it.

Such data is read a block of consecutive lines at a time, where a line is a row or a column. A :class:`Source` has two
:class:`LineBlocks`, one for its rows and one for its columns. Blocks that were read are kept in a
:class:`maxmargin.core.block_cache.BlockCache`, so that a source itself keeps none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np

from maxmargin.core.types import Indices, Vector


@dataclass(frozen=True)
class Block:
    """Consecutive lines in memory, and what it took to fetch them.

    Attributes
    ----------
    lines : array of shape (lines, width), or CSR array
        The entries, a line a row: of columns, the transposed block. In float32 or float64; a dense array is
        C-contiguous, a CSR array has int32 or int64 indices of one type and no duplicate entries.
    chunks : int
        How many chunks of the store were read, whole or in part.
    bytes : int
        The size of these chunks, not compressed.
    """

    lines: Any
    chunks: int
    bytes: int


class LineBlocks(Protocol):
    """The rows of a matrix, or its columns, in blocks of consecutive lines.

    Attributes
    ----------
    starts : array of int64 of shape (blocks + 1,)
        The first line of each block, and at the end the number of lines.
    sizes : array of int64 of shape (lines,) or None
        The number of stored entries of each line; None where all are stored.
    prices : array of float64 of shape (lines,) or None
        What reading each line now would take from the budget; a source that computes entries changes this array in
        place as they become known. None where the price of a line is the number of its stored entries.
    read_ahead : bool
        Whether blocks may be read before they are asked for, so that some may be read for nothing.
    """

    starts: Indices
    sizes: Indices | None
    prices: Vector | None
    read_ahead: bool

    def nbytes(self, block: int) -> int:
        """The memory that the block takes when it has been read."""

    def read(self, block: int) -> Block:
        """Read a block. May be called from any thread, and from several at the same time."""


class Source(Protocol):
    """A matrix that lies elsewhere.

    Attributes
    ----------
    name : str
        What messages call it: a path, for instance.
    shape : tuple
        The numbers of rows and columns.
    dtype : dtype
        float32 or float64, which all blocks have.
    n_stored : int
        The number of stored entries.
    cache_size : int
        The number of bytes that blocks kept in memory may take.
    rows, columns : LineBlocks
        Where they are read; no block takes more than an eighth of `cache_size`. To ask for `columns` may take a pass
        over the data, where their sizes must be counted first.
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
    """Whether X is a source of entries that are paid for once, and that a checkpoint keeps by `kept` and `take`."""
    return is_source(X) and hasattr(type(X), "kept")


def is_source(X: object) -> TypeGuard[Source]:
    """Whether X is a matrix that lies elsewhere."""
    return all(hasattr(type(X), name) for name in ("rows", "columns")) and hasattr(X, "cache_size")
