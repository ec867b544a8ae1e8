"""Rows and labels from LIBSVM, CSV, .npy and .npz files."""

from __future__ import annotations

import csv
import io
import itertools
import math
import os
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from maxmargin.data.libsvm import read_libsvm
from maxmargin.data.signatures import foreign_format
from maxmargin.data.streams import (
    HEAD_BYTES,
    FileFormatError,
    InputStream,
    open_to_read,
    plain_suffix,
    random_access,
    report_damage,
)

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


@dataclass(frozen=True)
class Table:
    """The rows of a file, and their labels.

    Attributes
    ----------
    X : array, memory map or CSR array of shape (n, d)
        The rows.
    y : array of shape (n,) or None
        Their labels; None if the file has none.
    labels_in : str
        The column that held the labels, in words; empty if they were not in a column.
    """

    X: Any
    y: NDArray[Any] | None
    labels_in: str = ""


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
) -> tuple[Any, NDArray[Any]]:
    """Read rows and their labels from a file in any format that the command takes.

    ========== ====================================== ==============================================================
    format     file                                   rows and labels
    ========== ====================================== ==============================================================
    "libsvm"   .libsvm, .svm, .svmlight               see :func:`read_libsvm`; labels are numbers
    "csv"      .csv, .tsv                             cells between commas, semicolons or tabs; all but the labels
                                                      are finite numbers. Labels are numbers if all of them are, else
                                                      strings.
    "npy"      .npy                                   a matrix whose first or last column holds the labels, or all of
                                                      it the rows if `labels` names another file; mapped, not read,
                                                      where it is a file that is not compressed
    "npz"      .npz                                   arrays X and y, or what `scipy.sparse.save_npz` writes, with y
                                                      among the arrays or in the file `labels`
    ========== ====================================== ==============================================================

    .npy and .npz files, and files compressed by gzip, bzip2 or xz, are recognised by their first bytes, whatever their
    names; LIBSVM and CSV by the name, or if that does not tell, by the first lines. All of them may come from a pipe.

    Parameters
    ----------
    path : str or path
        The file, or "-" for standard input.
    format : str
        The format of the file; "auto": recognised by its first bytes, its name, then its first lines.
    label_column : str or int
        Where the labels are in CSV and .npy files: "first", "last", a name in the header, or a position counted from
        0 (from the end if negative). A name in the header comes before the words "first" and "last".
    labels : str or path, optional
        A .npy file, or a text file with one label a line, for .npy and .npz files that hold none.
    header : bool or "auto"
        Whether a CSV file starts with a line of names; "auto": if no cell of its first line is a number.
    dtype : float64 or float32
        Type of X where text is read or integers are converted. Floating point arrays stay as they are.
    n_features : int, optional
        The number of features, if it is known; see :func:`read_libsvm`.
    zero_based : bool or "auto"
        For LIBSVM files, see :func:`read_libsvm`.

    Returns
    -------
    X : array, memory map or CSR array of shape (n, d)
    y : array of shape (n,)

    Raises
    ------
    FileFormatError
        If the file is malformed; for a text file, with the line, and the column or the number of the cell.

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
) -> Table:
    """Read rows, and labels if there are any; parameters are those of :func:`read_table`.

    All columns of a CSV or .npy file are features if `label_column` is None, or if there are `n_features` columns.
    """
    if format not in ("auto", "libsvm", "csv", "npy", "npz"):
        raise ValueError(f"format is {format!r}; expected 'auto', 'libsvm', 'csv', 'npy' or 'npz'")
    kind = np.dtype(dtype)
    with open_to_read(path) as stream:
        with _report_damage_of(stream):
            empty = not stream.peek(1)
        if empty:
            raise FileFormatError(stream.name, None, None, "no rows: there is nothing in it")
        if format == "auto":
            format = _format_of(stream)
        if labels is not None and format not in ("npy", "npz"):
            raise ValueError(
                f"labels={os.fspath(labels)!r} was given, but {stream.name} has its own: it is a {format} file"
            )
        match format:
            case "libsvm":
                table = Table(*read_libsvm(stream, n_features=n_features, dtype=kind, zero_based=zero_based))
            case "csv":
                table = _read_csv(stream, label_column, header, kind, n_features)
            case "npy":
                table = _checked(stream.name, _read_npy(stream, label_column, labels, n_features), kind)
            case _:
                table = _checked(stream.name, _read_npz(stream, labels), kind)
    if table.X.shape[0] == 0:
        raise FileFormatError(stream.name, None, None, "no rows")
    return table


def required_labels(path: str | os.PathLike[str], table: Table) -> NDArray[Any]:
    """The labels; an error if there are none."""
    if table.y is None:
        raise FileFormatError(
            path,
            None,
            None,
            f"{table.X.shape[1]} features and no labels. Give labels in one more column; for an .npz file as the array "
            "y; or, in Python, in a file of their own with labels=...",
        )
    return table.y


def _format_of(stream: InputStream) -> Format:
    """The format by the first bytes, then by the name, then by the first line that tells LIBSVM from CSV."""
    head = stream.head
    if head.startswith(_NPY):
        return "npy"
    if head.startswith(b"PK"):
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
                "expected LIBSVM (label index:value ...) or CSV (cells between commas, semicolons or tabs); its first "
                f"line that tells is {line[:60].decode(errors='backslashreplace')!r}. Or, in Python, say format=...",
            )
    # A label on each line and nothing else: rows without entries.
    return "libsvm"


# CSV


def _read_csv(
    stream: InputStream,
    label_column: str | int | None,
    header: bool | Literal["auto"],
    dtype: np.dtype[Any],
    n_features: int | None,
) -> Table:
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"dtype is {dtype}; expected float32 or float64")
    largest = float(np.finfo(dtype).max)
    numbers, labels = array("d"), list[str]()
    names: list[str] | None = None
    n = width = 0
    label_position: int | None = None
    for line, row in _csv_rows(stream):
        if not width:
            width = len(row)
            if header is True or (header == "auto" and not any(map(_is_number, row))):
                names = [cell.strip() for cell in row]
            label_position = _label_position(stream.name, label_column, names, width, n_features)
            if names is not None:
                continue
        if len(row) != width:
            raise FileFormatError(stream.name, line, None, f"{len(row)} cells, but the first line has {width}")
        label = [] if label_position is None else [row.pop(label_position)]
        try:
            values = list(map(float, row))
        except ValueError:
            values = [math.nan]
        # False for NaN too. If only the sum is too large, and no value is, _check_cells raises nothing.
        if not sum(map(abs, values)) <= largest:
            cells = [*row[:label_position], *label, *row[label_position:]] if label else row
            _check_cells(stream.name, line, cells, label_position, names, largest)
        numbers.extend(values)
        labels.extend(label)
        n += 1
        if n == 2 and names is None and header == "auto" and label:
            _refuse_doubtful_header(stream.name, *labels)
    X = np.frombuffer(numbers, dtype=np.float64).astype(dtype, copy=False).reshape(n, -1 if n else 0)
    if label_position is None:
        return Table(X, None)
    return Table(X, _numbers_or_strings(labels), _column_in_words(label_position, names, width))


def _csv_rows(stream: InputStream) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with the number of its last line."""
    line = 0
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    with report_damage(lambda why: FileFormatError(stream.name, line + 1, None, why)):
        try:
            first = text.readline()
            separator = "\t" if plain_suffix(stream.name) == ".tsv" else max(",;\t", key=first.count)
            reader = csv.reader(itertools.chain([first], text), delimiter=separator)
            for row in reader:
                line = reader.line_num
                if row:
                    yield line, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise FileFormatError(stream.name, line + 1, None, f"not a CSV file in UTF-8 ({error})") from error


def _label_position(
    path: str, label_column: str | int | None, names: list[str] | None, width: int, n_features: int | None
) -> int | None:
    """The position of the label column; None if all columns are features."""
    if label_column is None or width == n_features:
        return None
    if names is not None and label_column in names:
        return names.index(str(label_column))
    position = (
        {"first": 0, "last": -1}.get(label_column, label_column) if isinstance(label_column, str) else label_column
    )
    if isinstance(position, str):
        has = "no header, so no names" if names is None else f"the columns {', '.join(names)}"
        raise ValueError(
            f"{path} has no column named {label_column!r}: it has {has}. Choose another label column, by name, by "
            "position from 0, or as first or last."
        )
    if not -width <= position < width:
        raise ValueError(
            f"{path} has no column {label_column}: it has {width} columns, which are counted from 0. Choose another "
            "label column."
        )
    return position % width


def _column_in_words(position: int, names: list[str] | None, width: int) -> str:
    name = f", named {names[position]!r}" if names is not None else ""
    ends = {0: "the first", width - 1: "the last"}
    return f"{ends.get(position, f'number {position + 1}')} of {width} columns{name}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _check_cells(
    path: str, line: int, cells: list[str], label_position: int | None, names: list[str] | None, largest: float
) -> None:
    """Raise an error for the first cell, other than the label, that is not a finite number."""
    for column, cell in enumerate(cells):
        if column == label_position or (_is_number(cell) and abs(float(cell)) <= largest):
            continue
        name = f" of the column {names[column]!r}" if names is not None else ""
        limit = f" of at most {largest:.2g}" if _is_number(cell) and math.isfinite(float(cell)) else ""
        hint = ""
        if cell.strip() and not _is_number(cell):
            where = names[column] if names is not None else "first" if column == 0 else column
            hint = f" If the labels are in this column, say label_column={where!r} (--label-column {where})."
        if line == 1:
            hint += " If the first line holds names, say header=True (--header)."
        raise FileFormatError(
            path,
            line,
            column + 1,
            f"the cell{name} holds {cell!r}; expected a finite number{limit}.{hint}",
        )


def _refuse_doubtful_header(path: str, first: str, second: str) -> None:
    """Refuse to guess about a header if the first line has numbers, but its label, unlike the second, is a word."""
    if _is_number(second) and not _is_number(first):
        raise FileFormatError(
            path,
            1,
            None,
            f"the label is {first!r}, that of the next row {second!r}: if the first line holds names, say header=True "
            "(--header), else header=False (--no-header)",
        )


def _numbers_or_strings(labels: list[str]) -> NDArray[Any]:
    """Labels as numbers if all of them are numbers, else as strings."""
    if all(map(_is_number, labels)):
        return np.array(labels, dtype=np.float64)
    return np.array([label.strip() for label in labels])


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
    position = _label_position(stream.name, label_column, None, width, n_features)
    if position is None:
        return Table(table, None)
    if position == 0:
        return Table(table[:, 1:], np.array(table[:, 0]), _column_in_words(position, None, width))
    if position == width - 1:
        return Table(table[:, :-1], np.array(table[:, -1]), _column_in_words(position, None, width))
    raise ValueError(
        f"label_column is {label_column}, but the labels of {stream.name} must be in the first or the last column, so "
        "that the rest can be read in place. Or save them apart, and give that file as labels=..."
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
    """A description of a zip archive that does not hold the expected arrays."""
    if "model.json" in names:
        return "a model file of maxmargin; expected data"
    if "xl/workbook.xml" in names:
        return "an Excel workbook, which is not read here; export it as CSV"
    return f"expected arrays X and y; found {', '.join(names[:10]) or 'none'}"


def _read_labels(path: str | os.PathLike[str]) -> NDArray[Any]:
    with open_to_read(path) as stream, _report_damage_of(stream):
        if stream.head.startswith(_NPY):
            return np.array(_read_array(stream))
        text = io.TextIOWrapper(stream, encoding="utf-8-sig")
        return _numbers_or_strings([line.strip() for line in text if line.strip()])


def _read_array(stream: InputStream) -> Any:
    """The array in a .npy file; memory-mapped if possible."""
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
