"""The rows of data in any supported format, block after block, with bounded memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.core.source import is_source
from maxmargin.data.csv_files import CsvReader
from maxmargin.data.files import format_of, load_table
from maxmargin.data.libsvm import LibsvmBlocks
from maxmargin.data.stores import store_kind
from maxmargin.data.stores.arrays import AbsentChunks
from maxmargin.data.streams import FileFormatError, open_to_read, plain_suffix
from maxmargin.data.table import Table, numbers_or_strings, refuse_missing_label

# Number of bytes of rows to read at a time. The cache of a store is 8 times as large, and its small chunks are combined
# to blocks of a quarter of this size.
BLOCK_BYTES = 1 << 24


@dataclass(frozen=True)
class RowStream:
    """The rows of a matrix, block after block.

    Attributes
    ----------
    name : str
        The name in messages.
    shape : tuple
        The numbers of rows and columns.
    dtype : dtype
        float32 or float64.
    sparse : bool
        Whether blocks are CSR arrays and not dense arrays.
    y : array of shape (n,) or None
        The labels.
    names : list of str or None
        The names of the features, if they have names.
    blocks : callable
        A function that returns an iterator over blocks of consecutive rows, from the first to the last.
    """

    name: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    sparse: bool
    y: NDArray[Any] | None
    names: list[str] | None
    blocks: Callable[[], Iterator[Any]]


@contextmanager
def open_rows(
    path: str | os.PathLike[str],
    *,
    label_column: str | int | None = "last",
    labels: str | os.PathLike[str] | None = None,
    header: bool | Literal["auto"] = "auto",
    absent_chunks: AbsentChunks = "error",
) -> Iterator[RowStream]:
    """Open data in any format that :func:`maxmargin.data.read_table` reads; parameters are the same.

    LIBSVM and CSV files are read twice, first for their width and labels. Therefore data from a pipe is copied to a
    temporary file. Arrays of an .npz file, and integers of a .npy file, are loaded completely.
    """
    if store_kind(path) is None:
        with _file_of(path) as file, open_to_read(file) as stream:
            if not stream.head:
                raise FileFormatError(stream.name, None, None, "no rows: the file is empty")
            format = format_of(stream)
            if labels is None and format in ("libsvm", "csv"):
                rows = _libsvm_rows(file) if format == "libsvm" else _csv_rows(file, label_column, header)
            else:
                rows = _rows_of(file, load_table(file, label_column=label_column, labels=labels, header=header))
            if rows.shape[0] == 0:
                raise FileFormatError(stream.name, None, None, "no rows")
            yield rows
    else:
        table = load_table(
            path,
            label_column=label_column,
            labels=labels,
            absent_chunks=absent_chunks,
            cache_size=8 * BLOCK_BYTES,
            block_size=BLOCK_BYTES // 4,
        )
        yield _rows_of(path, table)


def in_bands(blocks: Iterator[Any], height: int) -> Iterator[Any]:
    """Yield the same rows in blocks of `height` rows; the last block may have fewer."""
    kept: list[Any] = []
    rows = 0
    for block in blocks:
        while rows + block.shape[0] >= height:
            taken = height - rows
            yield _stacked([*kept, block[:taken]])
            kept, rows, block = [], 0, block[taken:]
        if block.shape[0]:
            kept.append(block)
            rows += block.shape[0]
    if rows:
        yield _stacked(kept)


def as_dense(block: Any) -> NDArray[Any]:
    """Convert a block to a dense array in C order."""
    return np.ascontiguousarray(block.toarray() if sp.issparse(block) else block)


def rows_within(size: int, row: int) -> int:
    """Return how many rows of `row` bytes fit in `size` bytes, but at least 1."""
    return max(1, size // max(row, 1))


def _stacked(blocks: list[Any]) -> Any:
    if len(blocks) == 1:
        return blocks[0]
    return sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)


@contextmanager
def _file_of(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Provide a file that can be read more than once: the given file, or a copy of data from a pipe."""
    if os.path.isfile(path):
        yield Path(path)
        return
    with open_to_read(path) as stream, tempfile.TemporaryDirectory() as folder:
        # The copy keeps the suffix of the name, by which formats are recognised.
        copy = Path(folder, f"standard input{plain_suffix(path)}")
        with copy.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
        yield copy


def _libsvm_rows(path: Path) -> RowStream:
    rows = LibsvmBlocks(path)
    return RowStream(str(path), rows.shape, rows.dtype, True, rows.labels, None, lambda: iter(rows))


def _csv_rows(path: Path, label_column: str | int | None, header: bool | Literal["auto"]) -> RowStream:
    dtype = np.dtype(np.float64)

    @contextmanager
    def opened() -> Iterator[CsvReader]:
        with open_to_read(path) as stream:
            yield CsvReader(stream, label_column, header, dtype, None)

    def blocks() -> Iterator[Any]:
        with opened() as reader:
            yield from reader.blocks(BLOCK_BYTES // dtype.itemsize)

    with opened() as reader:
        n = sum(block.shape[0] for block in reader.blocks(BLOCK_BYTES // dtype.itemsize))
    refuse_missing_label(path, reader.missing_label)
    y = None if reader.label_position is None else numbers_or_strings(reader.labels)
    d = reader.width - (y is not None)
    return RowStream(str(path), (n, d), dtype, False, y, reader.features, blocks)


def _rows_of(path: str | os.PathLike[str], table: Table) -> RowStream:
    """Return the rows of a table, in the blocks of a store, or in slices of arrays and memory maps."""
    X = table.X
    if is_source(X):
        sparse, numbers = X.rows.sizes is not None, range(len(X.rows.starts) - 1)

        def blocks() -> Iterator[Any]:
            return (X.rows.read(k).lines for k in numbers)
    else:
        sparse = sp.issparse(X)
        height = rows_within(BLOCK_BYTES, X.dtype.itemsize * (-(-X.size // X.shape[0]) if X.shape[0] else 0))

        def blocks() -> Iterator[Any]:
            return (X[start : start + height] for start in range(0, X.shape[0], height))

    return RowStream(os.fspath(path), X.shape, np.dtype(X.dtype), sparse, table.y, table.names, blocks)
