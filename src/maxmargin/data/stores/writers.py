"""Writers of rows in blocks, one for each format. Each writes to a temporary path and renames it at the end."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.data.atomic import atomic_path, atomic_write
from maxmargin.data.libsvm import write_libsvm_blocks
from maxmargin.data.stores.blocks import BlockSize
from maxmargin.data.stores.compressed import CompressedArrays, sparse_matrix
from maxmargin.data.stores.groups import BY_COLUMN, LABELS, MATRIX
from maxmargin.data.stores.hdf5 import Hdf5Array
from maxmargin.data.stores.row_streams import RowStream, as_dense, in_bands, rows_within
from maxmargin.data.stores.zarr_arrays import ZarrArray
from maxmargin.data.streams import plain_suffix

# Number of bytes of a chunk of a dense array. A few MB suit both single rows and sequential passes.
CHUNK_BYTES = 1 << 22
# Number of entries of a chunk of a sparse matrix; their values and indices also take a few MB.
CHUNK_ENTRIES = 1 << 18
# Maximum bytes of rows, or of columns, in memory when writing chunks of whole columns.
BAND_BYTES = 1 << 27
# Number of bytes of a chunk of several columns if columns are short; a block of columns to read is as large.
NARROW_BYTES = 1 << 16
# Number of bytes of the parts in which rows are transposed, so that no second array of the same size is needed.
PART_BYTES = 1 << 23
# Number of bytes of a row group of Parquet with all its columns, which are read together for rows.
GROUP_BYTES = 1 << 25
# Number of bytes of the blocks of columns in which a CSR matrix is transposed; each takes a pass over the matrix.
TRANSPOSED_BYTES = 1 << 27


@dataclass(frozen=True)
class Layout:
    """How to write the matrix: sparse or dense, in which chunks, and whether also by columns."""

    sparse: bool
    chunks: tuple[int, int] | None = None
    by_column: bool = False


def writer_for(path: Path) -> Callable[[Path, RowStream, Layout], None] | None:
    """Return the writer for the name of a file or folder; None if no format has such a name."""
    return _WRITERS.get(plain_suffix(path) if plain_suffix(path) in _TEXT else path.suffix.lower())


def holds_sparse(path: Path) -> bool | None:
    """Whether the format of this name stores zeros (False), leaves them out (True), or can do both (None)."""
    if plain_suffix(path) in _TEXT:
        return True
    return None if path.suffix.lower() in _GROUPS else False


# Zarr and HDF5


class _ZarrGroup:
    """A Zarr group to which arrays are written. All chunks are written, so that a missing chunk is an error."""

    reader = ZarrArray

    def __init__(self, group: Any) -> None:
        self.group = group

    def check(self) -> None:
        """Raise the error of a failed write; does nothing, because Zarr raises it itself."""

    def create(self, name: str, shape: tuple[int, ...], dtype: Any, chunks: tuple[int, ...]) -> Any:
        options = {"write_empty_chunks": True}
        return self.group.create_array(name, shape=shape, dtype=dtype, chunks=chunks, config=options)

    def subgroup(self, name: str) -> _ZarrGroup:
        return _ZarrGroup(self.group.create_group(name))

    def strings(self, name: str, values: NDArray[Any]) -> None:
        from zarr.dtype import VariableLengthUTF8

        array = self.create(name, values.shape, VariableLengthUTF8(), (max(len(values), 1),))
        array[:] = values.astype(object)


class _Hdf5Group:
    """A group of an HDF5 file to which arrays are written."""

    reader = partial(Hdf5Array, watched=False)

    def __init__(self, group: Any, output: _Hdf5Output) -> None:
        self.group, self._output = group, output

    def check(self) -> None:
        self._output.raise_failure()

    def create(self, name: str, shape: tuple[int, ...], dtype: Any, chunks: tuple[int, ...]) -> Any:
        return self.group.create_dataset(name, shape=shape, dtype=dtype, chunks=chunks, maxshape=(None,) * len(shape))

    def subgroup(self, name: str) -> _Hdf5Group:
        return _Hdf5Group(self.group.create_group(name), self._output)

    def strings(self, name: str, values: NDArray[Any]) -> None:
        import h5py

        self.group.create_dataset(name, data=values.astype(object), dtype=h5py.string_dtype())


@contextmanager
def _zarr_group(path: Path) -> Iterator[_ZarrGroup]:
    import zarr

    yield _ZarrGroup(zarr.open_group(path, mode="w"))


@contextmanager
def _hdf5_group(path: Path) -> Iterator[_Hdf5Group]:
    import h5py

    with _Hdf5Output(path) as output:
        with h5py.File(output, "w") as file:
            yield _Hdf5Group(file, output)
        output.raise_failure()


class _Hdf5Output(io.FileIO):
    """A file to which HDF5 writes. After a failed write, later writes are dropped, and this class reports the error.

    HDF5 keeps data that it could not write, tries again when Python exits, and crashes. So it must not see the error.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w+")
        self._failure: OSError | None = None

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left and self._failure is None:
                left = left[super().write(left) :]
        except OSError as error:
            self._failure = error
        return size

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self._failure = error
            return size or 0

    def readinto(self, buffer: Any) -> int:
        read = super().readinto(buffer) or 0
        # Dropped data reads as zeros.
        return read if self._failure is None else len(buffer)

    def raise_failure(self) -> None:
        """Raise the error of a failed write, if any."""
        if self._failure is not None:
            raise self._failure


def _write_zarr(path: Path, rows: RowStream, layout: Layout) -> None:
    with atomic_path(path, folder=True) as temporary:
        _write_group(temporary, _zarr_group, rows, layout)


def _write_hdf5(path: Path, rows: RowStream, layout: Layout) -> None:
    with atomic_path(path, folder=False) as temporary:
        _write_group(temporary, _hdf5_group, rows, layout)


def _write_group(path: Path, opened: Callable[[Path], Any], rows: RowStream, layout: Layout) -> None:
    """Write X, its second copy and y in the layout of :mod:`maxmargin.data.stores.groups`."""

    def checked(blocks: Iterator[Any]) -> Iterator[Any]:
        for block in blocks:
            yield block
            del block  # before the next one is read
            root.check()

    with opened(path) as root:
        unchecked = rows.blocks
        rows = replace(rows, blocks=lambda: checked(unchecked()))
        if layout.sparse:
            _write_sparse(root.subgroup(MATRIX), "csr_matrix", rows.shape, rows.dtype, map(sp.csr_array, rows.blocks()))
        else:
            _write_dense(root, rows, layout, path.parent)
        if layout.sparse and layout.by_column:
            arrays = CompressedArrays(str(path), root.group[MATRIX], root.reader)
            columns = sparse_matrix(arrays, BlockSize(8 * TRANSPOSED_BYTES)).columns
            blocks = checked(columns.read(k).lines for k in range(len(columns.starts) - 1))
            _write_sparse(root.subgroup(BY_COLUMN), "csc_matrix", rows.shape, rows.dtype, blocks)
        if rows.y is not None:
            _write_labels(root, rows.y)


def _write_dense(root: Any, rows: RowStream, layout: Layout, folder: Path) -> None:
    (n, d), item = rows.shape, rows.dtype.itemsize
    high, wide = layout.chunks or (min(rows_within(CHUNK_BYTES, d * item), n), min(CHUNK_BYTES // item, d))
    high, wide = max(min(high, n), 1), max(min(wide, d), 1)
    by_row = root.create(MATRIX, (n, d), rows.dtype, (high, wide))
    # Whole chunks are written at once: writing a part of a chunk would read and compress all of it again.
    band = high * rows_within(BAND_BYTES if layout.by_column else CHUNK_BYTES, high * d * item)
    with _ByColumn(root, rows, band, folder) if layout.by_column else nullcontext() as by_column:
        start = 0
        for block in in_bands(rows.blocks(), band):
            dense = as_dense(block)
            by_row[start : start + len(dense)] = dense
            if by_column is not None:
                by_column.append(start, dense)
            start += len(dense)
        if by_column is not None:
            by_column.end()


class _ByColumn:
    """The second copy of a dense matrix, in chunks of one whole column, or of several columns if they are short.

    If the rows do not fit in memory, they are written to a temporary file in `folder` in bands, each column by column.
    At the end, the parts of some columns are read from all bands and combined.
    """

    def __init__(self, root: Any, rows: RowStream, band: int, folder: Path) -> None:
        (self._n, self._d), self._dtype, self._band, self._root = rows.shape, rows.dtype, band, root
        item = self._dtype.itemsize
        # A chunk consists of whole bands; a column that is larger than a chunk should be is cut.
        self._tall = max(min(band * max(1, CHUNK_BYTES // (band * item)), self._n), 1)
        self._narrow = max(min(-(-NARROW_BYTES // (self._tall * item)), self._d), 1)
        self._array = root.create(BY_COLUMN, rows.shape, self._dtype, (self._tall, self._narrow))
        one_band = self._tall <= band
        self._bands = None if one_band else tempfile.TemporaryFile(dir=folder, prefix="maxmargin-")  # noqa: SIM115

    def __enter__(self) -> _ByColumn:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._bands is not None:
            self._bands.close()

    def append(self, start: int, band: NDArray[Any]) -> None:
        """Add a band of rows that begins at `start`."""
        if self._bands is None:
            self._array[start : start + len(band)] = band
            return
        step = rows_within(PART_BYTES, len(band) * self._dtype.itemsize)
        for first in range(0, self._d, step):
            self._bands.write(np.ascontiguousarray(band[:, first : first + step].T).data)

    def end(self) -> None:
        """Write the copy from the bands."""
        if self._bands is None:
            return
        step = self._narrow * rows_within(BAND_BYTES, self._tall * self._narrow * self._dtype.itemsize)
        for top in range(0, self._n, self._tall):
            bottom = min(top + self._tall, self._n)
            for first in range(0, self._d, step):
                stop = min(first + step, self._d)
                self._array[top:bottom, first:stop] = self._columns(top, bottom, first, stop)
                self._root.check()

    def _columns(self, top: int, bottom: int, first: int, stop: int) -> NDArray[Any]:
        """Read some rows of some columns; the rows are whole bands."""
        assert self._bands is not None
        columns = np.empty((bottom - top, stop - first), dtype=self._dtype)
        for start in range(top, bottom, self._band):
            height = min(self._band, bottom - start)
            self._bands.seek((start * self._d + first * height) * self._dtype.itemsize)
            part = np.fromfile(self._bands, self._dtype, (stop - first) * height)
            columns[start - top : start - top + height] = part.reshape(stop - first, height).T
        return columns


def _write_sparse(root: Any, kind: str, shape: tuple[int, int], dtype: Any, blocks: Iterator[Any]) -> None:
    """Write a sparse matrix in the layout of AnnData; `blocks` are CSR arrays of its rows, or of its columns."""
    width = shape[1] if kind == "csr_matrix" else shape[0]
    root.group.attrs.update({"encoding-type": kind, "encoding-version": "0.1.0", "shape": list(shape)})
    data = _Growing(root.create("data", (0,), dtype, (CHUNK_ENTRIES,)))
    indices = _Growing(
        root.create("indices", (0,), np.int32 if width <= np.iinfo(np.int32).max else np.int64, (CHUNK_ENTRIES,))
    )
    ends = [np.zeros(1, dtype=np.int64)]
    for block in blocks:
        ends.append(block.indptr[1:].astype(np.int64) + ends[-1][-1])
        data.append(block.data)
        indices.append(block.indices)
        del block  # before the next one is read
    data.end()
    indices.end()
    indptr = np.concatenate(ends)
    root.create("indptr", indptr.shape, np.int64, (min(indptr.size, CHUNK_ENTRIES),))[:] = indptr


class _Growing:
    """An array of Zarr or HDF5 that grows by whole chunks."""

    def __init__(self, array: Any) -> None:
        self._array, self._kept, self._size = array, [np.empty(0, dtype=array.dtype)], 0

    def append(self, values: NDArray[Any]) -> None:
        self._kept.append(values)
        if sum(map(len, self._kept)) >= CHUNK_ENTRIES:
            joined = np.concatenate(self._kept)
            whole = len(joined) // CHUNK_ENTRIES * CHUNK_ENTRIES
            self._write(joined[:whole])
            self._kept = [joined[whole:].copy()]  # a view would keep all of it in memory

    def end(self) -> None:
        """Write the remaining values."""
        self._write(np.concatenate(self._kept))

    def _write(self, values: NDArray[Any]) -> None:
        if values.size:
            self._array.resize((self._size + values.size,))
            self._array[self._size :] = values
            self._size += values.size


def _write_labels(root: Any, y: NDArray[Any]) -> None:
    if y.dtype.kind in "UO":
        root.strings(LABELS[0], y)
    else:
        root.create(LABELS[0], y.shape, y.dtype, (min(max(y.size, 1), CHUNK_ENTRIES),))[:] = y


# Parquet and Arrow


def _write_parquet(path: Path, rows: RowStream, layout: Layout) -> None:
    import pyarrow.parquet as pq

    with atomic_path(path, folder=False) as temporary, pq.ParquetWriter(temporary, _schema(rows)) as writer:
        for batch in _batches(rows, layout):
            writer.write_batch(batch, row_group_size=batch.num_rows)


def _write_arrow(path: Path, rows: RowStream, layout: Layout) -> None:
    import pyarrow as pa

    with (
        atomic_path(path, folder=False) as temporary,
        pa.OSFile(os.fspath(temporary), "wb") as file,
        pa.ipc.new_file(file, _schema(rows)) as writer,
    ):
        for batch in _batches(rows, layout):
            writer.write_batch(batch)


def _schema(rows: RowStream) -> Any:
    """Return the columns of a table: the features, followed by the labels."""
    import pyarrow as pa

    names = rows.names or [f"x{k}" for k in range(rows.shape[1])]
    fields = [(name, pa.from_numpy_dtype(rows.dtype)) for name in names]
    if rows.y is not None:
        kind = pa.string() if rows.y.dtype.kind in "UO" else pa.from_numpy_dtype(rows.y.dtype)
        fields.append(("y" if "y" not in names else "label", kind))
    return pa.schema(fields)


def _batches(rows: RowStream, layout: Layout) -> Iterator[Any]:
    import pyarrow as pa

    schema = _schema(rows)
    height = layout.chunks[0] if layout.chunks else rows_within(GROUP_BYTES, rows.shape[1] * rows.dtype.itemsize)
    start = 0
    for block in in_bands(rows.blocks(), height):
        # In an array in Fortran order, each column is contiguous.
        columns = list(np.asfortranarray(as_dense(block)).T)
        if rows.y is not None:
            columns.append(rows.y[start : start + block.shape[0]])
        yield pa.record_batch(
            [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)], schema
        )
        start += block.shape[0]


# NumPy's and LIBSVM's files


def _write_npy(path: Path, rows: RowStream, layout: Layout) -> None:
    """Write the rows, with the labels as the last column."""
    (n, d), y = rows.shape, rows.y
    if y is not None and (y.dtype.kind not in "biuf" or (y.astype(rows.dtype) != y).any()):
        raise ValueError(
            f"the labels of {rows.name} hold {y.dtype}; in a .npy file they are a column of {rows.dtype}. Number the "
            "classes, or write another format"
        )
    header = {"descr": rows.dtype.str, "fortran_order": False, "shape": (n, d + (y is not None))}
    with atomic_write(path) as file:
        np.lib.format.write_array_header_1_0(file, header)
        start = 0
        for block in rows.blocks():
            dense = as_dense(block)
            if y is not None:
                dense = np.column_stack([dense, y[start : start + len(dense)].astype(rows.dtype)])
            file.write(dense.data)
            start += len(dense)


def _write_libsvm(path: Path, rows: RowStream, layout: Layout) -> None:
    if rows.y is None or rows.y.dtype.kind not in "biuf":
        held = "none" if rows.y is None else f"{rows.y.dtype}"
        raise ValueError(f"a LIBSVM file needs a number as label of each row; {rows.name} has labels: {held}")
    write_libsvm_blocks(path, rows.blocks(), rows.y)


_TEXT = (".libsvm", ".svm", ".svmlight")
_GROUPS = (".zarr", ".h5", ".hdf5")
_WRITERS: dict[str, Callable[[Path, RowStream, Layout], None]] = {
    ".zarr": _write_zarr,
    ".h5": _write_hdf5,
    ".hdf5": _write_hdf5,
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".feather": _write_arrow,
    ".npy": _write_npy,
    **dict.fromkeys(_TEXT, _write_libsvm),
}
FORMATS = tuple(_WRITERS)
