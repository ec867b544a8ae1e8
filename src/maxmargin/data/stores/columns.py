"""Tables whose columns are features, stored by columns in parts: Parquet files and Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices
from maxmargin.data.stores.arrays import UNCHUNKED_BYTES, dtype_in_memory, regular_edges
from maxmargin.data.stores.blocks import BlockSize, StoredMatrix, dense_matrix
from maxmargin.data.streams import FileFormatError

# Number of bytes of columns that are decoded at a time, in addition to the block to which they are copied.
_DECODED_BYTES = 1 << 24
# Minimum number of bytes to read of a column that can be read in parts: a page of memory.
_PAGE_BYTES = 1 << 12


class TableParts(Protocol):
    """A table in parts of consecutive rows: the row groups of Parquet files, or the batches of an Arrow table.

    Attributes
    ----------
    name : str
        The name in messages.
    schema : pyarrow.Schema
        The names and types of the columns.
    starts : array of int64
        The first row of each part, followed by the number of rows.
    sliceable : bool
        Whether some rows of a part can be read without the others.
    """

    name: str
    schema: Any
    starts: Indices
    sliceable: bool

    def read(self, part: int, names: list[str]) -> Any:
        """Read some columns of a part, as a table or a batch of pyarrow."""

    def check_unchanged(self, part: int) -> None:
        """Raise a FileFormatError if the file of a part has changed since it was opened."""


def table_matrix(parts: TableParts, size: BlockSize, names: Sequence[str] | None = None) -> StoredMatrix:
    """Make a matrix from columns of a table (default: all), with the column names as feature names."""
    array = ColumnArray(parts, names)
    return dense_matrix(array, size, feature_names=array.names)


class ColumnArray:
    """Columns of a table as a matrix; implements :class:`maxmargin.data.stores.arrays.StoredArray`.

    A chunk is one column of one part. Missing values (null) become NaN.
    """

    shard_edges: tuple[Indices, ...] | None = None

    def __init__(self, parts: TableParts, names: Sequence[str] | None = None) -> None:
        self._parts = parts
        self.names = list(parts.schema.names if names is None else names)
        self.name = parts.name
        self.shape: tuple[int, ...] = int(parts.starts[-1]), len(self.names)
        self.dtype = np.result_type(np.float32, *(self._dtype_of(name) for name in self.names))
        rows = parts.starts
        if parts.sliceable:
            step = max(_PAGE_BYTES, UNCHUNKED_BYTES // max(self.shape[1], 1)) // self.dtype.itemsize
            rows = np.unique(np.concatenate([rows, regular_edges(self.shape[0], step)]))
        self.edges: tuple[Indices, ...] = rows, np.arange(self.shape[1] + 1, dtype=np.int64)

    def read(self, *where: slice) -> NDArray[Any]:
        rows, columns = where
        names = self.names[columns]
        entries = np.empty((rows.stop - rows.start, len(names)), dtype=self.dtype)
        for part in _overlapping(self._parts.starts, rows):
            first, end = self._parts.starts[part : part + 2].tolist()
            taken = slice(max(rows.start, first), min(rows.stop, end))
            target = entries[taken.start - rows.start : taken.stop - rows.start]
            # A part that can be sliced is not decoded.
            decoded = 1 if self._parts.sliceable else (end - first) * self.dtype.itemsize
            bunch = max(1, _DECODED_BYTES // decoded)
            for start in range(0, len(names), bunch):
                some = names[start : start + bunch]
                table = self._parts.read(part, some).slice(taken.start - first, taken.stop - taken.start)
                for k, name in enumerate(some, start):
                    target[:, k] = _numbers(table.column(name))
        return entries

    def check_unchanged(self, *where: slice) -> None:
        for part in _overlapping(self._parts.starts, where[0]):
            self._parts.check_unchanged(part)

    def _dtype_of(self, name: str) -> np.dtype[Any]:
        places = self._parts.schema.get_all_field_indices(name)
        if len(places) != 1:
            listed = ", ".join(map(str, self._parts.schema.names[:20]))
            count = "no column" if not places else f"{len(places)} columns"
            raise FileFormatError(self.name, None, None, f"{count} named {name!r}; expected one. It has {listed}")
        kind = self._parts.schema.field(places[0]).type
        try:
            return dtype_in_memory(self.name, np.dtype(kind.to_pandas_dtype()))
        except (FileFormatError, NotImplementedError):
            raise FileFormatError(
                self.name,
                None,
                None,
                f"the column {name!r} holds {kind}; expected numbers. If it holds the labels, give its name as "
                "label_column; otherwise leave it out or encode it as numbers",
            ) from None


def read_column(parts: TableParts, name: str) -> NDArray[Any]:
    """Read a whole column for labels, as numbers or strings."""
    import pyarrow as pa

    values = []
    for part in range(len(parts.starts) - 1):
        column = parts.read(part, [name]).column(name)
        if column.null_count:
            row = int(parts.starts[part]) + column.is_null().to_pylist().index(True)
            raise FileFormatError(parts.name, None, None, f"the label of row {row}, column {name!r}, is missing (null)")
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        values.append(column.to_numpy(zero_copy_only=False))
        parts.check_unchanged(part)
    joined = np.concatenate(values) if values else np.empty(0)
    return joined.astype(str) if joined.dtype == object else joined


def _overlapping(starts: Indices, rows: slice) -> Iterator[int]:
    """Return the parts that hold some of these rows."""
    first = int(np.searchsorted(starts, rows.start, side="right")) - 1
    return iter(range(first, int(np.searchsorted(starts, rows.stop, side="left"))))


def _numbers(column: Any) -> NDArray[Any]:
    """Convert a column to numbers; missing values become NaN."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    # For a chunked column of a table, `zero_copy_only` must be False: it is always copied.
    return np.asarray(column.to_numpy(zero_copy_only=False))
