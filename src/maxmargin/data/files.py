"""Reading rows and labels from LIBSVM, CSV, .npy and .npz files, and from stores."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from maxmargin.data.csv_files import CsvReader
from maxmargin.data.libsvm import read_libsvm
from maxmargin.data.signatures import EXPORT_SHEET, SPREADSHEETS, foreign_format
from maxmargin.data.stores import DEFAULT_CACHE_SIZE, store_kind
from maxmargin.data.stores.arrays import DEFAULT_BLOCK_SIZE, AbsentChunks
from maxmargin.data.stores.blocks import BlockSize
from maxmargin.data.stores.tables import load_from_store
from maxmargin.data.streams import (
    HEAD_BYTES,
    FileFormatError,
    InputStream,
    open_to_read,
    plain_suffix,
    random_access,
    report_damage,
)
from maxmargin.data.table import Table, column_in_words, label_position, numbers_or_strings, required_labels

Format = Literal["auto", "libsvm", "csv", "npy", "npz"]

_FORMATS = {
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".csv": "csv",
    ".tsv": "csv",
    ".npy": "npy",
    ".npz": "npz",
}
_NPY = b"\x93NUMPY"  # the first bytes of a .npy file


def read_table(
    path: str | os.PathLike[str],
    *,
    format: Format = "auto",
    label_column: str | int = "last",
    labels: str | os.PathLike[str] | None = None,
    header: bool | Literal["auto"] = "auto",
    dtype: DTypeLike = np.float64,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    cache_size: int = DEFAULT_CACHE_SIZE,
    block_size: int = DEFAULT_BLOCK_SIZE,
    absent_chunks: AbsentChunks = "error",
) -> tuple[Any, NDArray[Any]]:
    """Read rows and their labels from a file in any format that the command supports.

    ========== ====================================== ==============================================================
    format     file                                   rows and labels
    ========== ====================================== ==============================================================
    "libsvm"   .libsvm, .svm, .svmlight               see :func:`read_libsvm`; labels are numbers
    "csv"      .csv, .tsv                             cells between commas, semicolons or tabs; all cells except labels
                                                      are finite numbers. Labels are numbers if all of them are,
                                                      otherwise strings.
    "npy"      .npy                                   a matrix whose first or last column holds the labels; if `labels`
                                                      names another file, all columns are features. The file is
                                                      memory-mapped if it is not compressed.
    "npz"      .npz                                   arrays X and y, or a file of `scipy.sparse.save_npz`, with y
                                                      among the arrays or in the file `labels`
    "auto"     .parquet, .arrow, .feather, a folder   a store (see :func:`maxmargin.data.open_store`): X is a Source,
               of .parquet files                      which is not read into memory; the labels are in a column
    "auto"     .zarr, .h5, .hdf5, .h5ad               also a store; the labels are the array `y` or `labels` next to X,
                                                      or where the argument `labels` says
    ========== ====================================== ==============================================================

    .npy, .npz, HDF5, Parquet and Arrow files, and files compressed by gzip, bzip2 or xz, are recognised by their first
    bytes, regardless of their names. LIBSVM and CSV files are recognised by the name, or otherwise by the first lines.
    All formats except stores may come from a pipe.

    Parameters
    ----------
    path : str or path
        The file, or "-" for standard input.
    format : {"auto", "libsvm", "csv", "npy", "npz"}, default="auto"
        The format of the file. "auto" recognises it by its first bytes, its name, or its first lines.
    label_column : str or int, default="last"
        The column of the labels in CSV, .npy, Parquet and Arrow files: "first", "last", a name in the header, or a
        position counted from 0 (from the end if negative). A column that is named "first" or "last" takes precedence
        over these words.
    labels : str or path, default=None
        A .npy file, or a text file with one label per line, for .npy and .npz files and stores without labels. For Zarr
        and HDF5, also an array in the same store, such as `obs/kind`, or in another store, such as `other.h5::/y`.
    header : bool or "auto", default="auto"
        Whether a CSV file starts with a line of names. "auto" assumes so if no cell of its first line is a number.
    dtype : float64 or float32, default=float64
        The type of X if text is read or integers are converted. Floating point arrays are not converted.
    n_features : int, default=None
        The number of features, if known; see :func:`read_libsvm`.
    zero_based : bool or "auto", default="auto"
        For LIBSVM files, see :func:`read_libsvm`.
    cache_size, block_size, absent_chunks
        For stores, see :func:`maxmargin.data.open_store`.

    Returns
    -------
    X : array, memory map, CSR array or Source of shape (n, d)
        The rows.
    y : array of shape (n,)
        The labels.

    Raises
    ------
    FileFormatError
        If the file is malformed. For a text file, the error gives the line, and the column or the number of the cell.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from maxmargin.data import read_table
    >>> path = Path(tempfile.mkdtemp()) / "flowers.csv"
    >>> _ = path.write_text("length,width,kind\\n5.1,3.5,setosa\\n6.2,2.9,virginica\\n")
    >>> X, y = read_table(path, label_column="kind")
    >>> X
    array([[5.1, 3.5],
           [6.2, 2.9]])
    >>> y.tolist()
    ['setosa', 'virginica']
    """
    table = load_table(
        path,
        format=format,
        label_column=label_column,
        labels=labels,
        header=header,
        dtype=dtype,
        n_features=n_features,
        zero_based=zero_based,
        cache_size=cache_size,
        block_size=block_size,
        absent_chunks=absent_chunks,
    )
    return table.X, required_labels(path, table)


def load_table(
    path: str | os.PathLike[str],
    *,
    format: Format = "auto",
    label_column: str | int | None = "last",
    labels: str | os.PathLike[str] | None = None,
    header: bool | Literal["auto"] = "auto",
    dtype: DTypeLike = np.float64,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    cache_size: int = DEFAULT_CACHE_SIZE,
    block_size: int = DEFAULT_BLOCK_SIZE,
    absent_chunks: AbsentChunks = "error",
) -> Table:
    """Read rows, and labels if there are any.

    The parameters are those of :func:`read_table`. All columns of a CSV or .npy file are features if `label_column` is
    None, or if there are `n_features` columns.

    Returns
    -------
    Table
        The rows, the labels if there are any, and the names of the features.
    """
    if format not in ("auto", "libsvm", "csv", "npy", "npz"):
        raise ValueError(f"format is {format!r}; expected 'auto', 'libsvm', 'csv', 'npy' or 'npz'")
    store = store_kind(path) if format == "auto" else None
    if store is not None:
        return load_from_store(
            path,
            store,
            size=BlockSize(cache_size, block_size),
            absent_chunks=absent_chunks,
            label_column=label_column,
            labels=labels,
            n_features=n_features,
            read_file=_read_labels,
        )
    kind = np.dtype(dtype)
    with open_to_read(path) as stream:
        with _report_damage_of(stream):
            empty = not stream.peek(1)
        if empty:
            raise FileFormatError(stream.name, None, None, "no rows: the file is empty")
        if format == "auto":
            format = format_of(stream)
        if labels is not None and format not in ("npy", "npz"):
            raise ValueError(
                f"labels={os.fspath(labels)!r} was given, but {stream.name} is a {format} file, which contains labels"
            )
        match format:
            case "libsvm":
                table = Table(*read_libsvm(stream, n_features=n_features, dtype=kind, zero_based=zero_based))
            case "csv":
                table = CsvReader(stream, label_column, header, kind, n_features).read()
            case "npy":
                table = _checked(stream.name, _read_npy(stream, label_column, labels, n_features), kind)
            case _:
                table = _checked(stream.name, _read_npz(stream, labels), kind)
    if table.X.shape[0] == 0:
        raise FileFormatError(stream.name, None, None, "no rows")
    return table


def format_of(stream: InputStream) -> Format:
    """Recognise the format by the first bytes, then by the name, then by a line that distinguishes LIBSVM from CSV."""
    head = stream.head
    if head.startswith(_NPY):
        return "npy"
    if head.startswith(b"PK"):
        if (suffix := plain_suffix(stream.name)) in SPREADSHEETS:
            raise FileFormatError(stream.name, None, None, f"{SPREADSHEETS[suffix]}; {EXPORT_SHEET}")
        return "npz"
    if foreign := foreign_format(head):
        raise FileFormatError(stream.name, None, None, foreign)
    if known := _FORMATS.get(plain_suffix(stream.name)):
        return known  # type: ignore[return-value]
    lines = head.split(b"\n")
    if len(head) == HEAD_BYTES:  # the bytes read ahead may end within a word
        lines[-1] = lines[-1].rpartition(b" ")[0] or lines[-1]
    for line in lines[:100]:
        line = line.partition(b"#")[0]
        _, *pairs = line.split() or [b""]
        if pairs and all(b":" in pair for pair in pairs):
            return "libsvm"
        if any(separator in line.strip() for separator in (b",", b";", b"\t")):
            return "csv"
        if pairs:
            raise FileFormatError(
                stream.name,
                None,
                None,
                "expected LIBSVM (label index:value ...) or CSV (cells between commas, semicolons or tabs), but one of "
                f"its first lines is {line[:60].decode(errors='backslashreplace')!r}. Or, in Python, give format=...",
            )
    # Each line holds only a label: rows without entries.
    return "libsvm"


# NumPy's files


def _read_npy(
    stream: InputStream, label_column: str | int | None, labels: str | os.PathLike[str] | None, n_features: int | None
) -> Table:
    table = _read_array(stream)
    if labels is not None:
        return Table(table, _read_labels(labels))
    if table.ndim != 2:
        raise FileFormatError(stream.name, None, None, f"expected a matrix; its shape is {table.shape}")
    width = table.shape[1]
    position = label_position(stream.name, label_column, None, width, n_features)
    if position is None:
        return Table(table, None)
    if position == 0:
        return Table(table[:, 1:], np.array(table[:, 0]), column_in_words(position, None, width))
    if position == width - 1:
        return Table(table[:, :-1], np.array(table[:, -1]), column_in_words(position, None, width))
    raise ValueError(
        f"label_column is {label_column}, but the labels of {stream.name} must be in the first or the last column, so "
        "that the rest can be read in place. Or save the labels in a separate file and give it as labels=..."
    )


def _read_npz(stream: InputStream, labels: str | os.PathLike[str] | None) -> Table:
    with (
        _report_damage_of(stream),
        random_access(stream) as file,
        _report_unreadable(stream.name),
        np.load(file, allow_pickle=False) as arrays,
    ):
        if "X" in arrays:
            X = arrays["X"]
        elif {"data", "shape"} <= set(arrays):
            file.seek(0)
            X = sp.load_npz(file).tocsr()
        else:
            raise FileFormatError(stream.name, None, None, _other_archive(list(arrays)))
        return Table(X, _read_labels(labels) if labels is not None else arrays.get("y"))


def _other_archive(names: list[str]) -> str:
    """Describe a zip archive that does not hold the expected arrays."""
    if "model.json" in names:
        return "a model file of maxmargin; expected data"
    if "xl/workbook.xml" in names:
        return f"an Excel workbook; {EXPORT_SHEET}"
    return f"expected arrays X and y; found {', '.join(names[:10]) or 'none'}"


def _read_labels(path: str | os.PathLike[str]) -> NDArray[Any]:
    with open_to_read(path) as stream, _report_damage_of(stream):
        if stream.head.startswith(_NPY):
            return np.array(_read_array(stream))
        text = io.TextIOWrapper(stream, encoding="utf-8-sig")
        return numbers_or_strings([line.strip() for line in text if line.strip()])


def _read_array(stream: InputStream) -> Any:
    """Read the array in a .npy file; memory-map it if possible."""
    with _report_damage_of(stream), _report_unreadable(stream.name):
        if stream.path is not None:
            return np.lib.format.open_memmap(stream.path, mode="r")
        return np.lib.format.read_array(stream, allow_pickle=False)


def _report_damage_of(stream: InputStream) -> AbstractContextManager[None]:
    return report_damage(lambda why: FileFormatError(stream.name, None, None, why))


@contextmanager
def _report_unreadable(path: str) -> Iterator[None]:
    """Turn NumPy's errors for files that it cannot read, or that hold pickles, into a FileFormatError."""
    try:
        yield
    except FileFormatError:
        raise
    except (EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise FileFormatError(path, None, None, f"not a file of plain arrays that NumPy can read ({error})") from error


def _checked(path: str, table: Table, dtype: np.dtype[Any]) -> Table:
    X, y = table.X, table.y
    if X.ndim != 2:
        raise FileFormatError(path, None, None, f"expected rows of shape (n, d); got shape {X.shape}")
    if y is not None and y.shape != X.shape[:1]:
        raise FileFormatError(path, None, None, f"{X.shape[0]} rows, but labels of shape {y.shape}")
    if X.dtype.kind not in "biuf":
        raise FileFormatError(path, None, None, f"expected numbers; X holds {X.dtype}")
    return table if X.dtype in (np.float32, np.float64) else replace(table, X=X.astype(dtype))
