"""Rows and labels from the kinds of files that people have."""

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
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from maxmargin.data.libsvm import read_libsvm
from maxmargin.data.streams import FileFormatError, naming_damage, open_to_read, plain_suffix

_FORMATS = {
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".csv": "csv",
    ".tsv": "csv",
    ".npy": "npy",
    ".npz": "npz",
}


def read_table(
    path: str | os.PathLike[str],
    *,
    format: Literal["auto", "libsvm", "csv", "npy", "npz"] = "auto",
    label_column: str | int = "last",
    labels: str | os.PathLike[str] | None = None,
    header: bool | Literal["auto"] = "auto",
    dtype: DTypeLike = np.float64,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
) -> tuple[Any, NDArray[Any]]:
    """Read rows and their labels from a file of any kind that the command takes.

    ========== ====================================== ==============================================================
    format     file                                   rows and labels
    ========== ====================================== ==============================================================
    "libsvm"   .libsvm, .svm, .svmlight               see :func:`read_libsvm`; labels are numbers
    "csv"      .csv, .tsv                             cells between commas, semicolons or tabs; all but the labels
                                                      are finite numbers. Labels are numbers if all of them are, else
                                                      strings.
    "npy"      .npy                                   a matrix whose first or last column holds the labels, or all of
                                                      it the rows if `labels` names another file; mapped, not read
    "npz"      .npz                                   arrays X and y, or what `scipy.sparse.save_npz` writes, with y
                                                      among the arrays or in the file `labels`
    ========== ====================================== ==============================================================

    Any other name is judged by the file's first lines: LIBSVM or CSV. LIBSVM and CSV files may be compressed: .gz,
    .bz2, .xz.

    Parameters
    ----------
    path : str or path
        The file.
    format : str
        What the file is; "auto" goes by its name, then by its first lines.
    label_column : str or int
        Where the labels are in CSV and .npy files: "first", "last", a name in the header, or a position counted from
        0 (from the end if negative). A name in the header comes before the words "first" and "last".
    labels : str or path, optional
        A .npy file, or a text file with one label a line, for .npy and .npz files that hold none.
    header : bool or "auto"
        Whether a CSV file starts with a line of names; "auto": if no cell of its first line is a number.
    dtype : float64 or float32
        Type of X where text is read or integers are converted. Floating point arrays stay as they are.
    n_features, zero_based
        For LIBSVM files, see :func:`read_libsvm`.

    Returns
    -------
    X : array, memory map or CSR array of shape (n, d)
    y : array of shape (n,)

    Raises
    ------
    FileFormatError
        If the file is malformed; of a text file with the line, and the column or the number of the cell.

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
    if format == "auto":
        format = _FORMATS.get(plain_suffix(path)) or _guess(path)  # type: ignore[assignment]
    if labels is not None and format not in ("npy", "npz"):
        raise ValueError(f"labels={os.fspath(labels)!r} was given, but {path} has its own: it is a {format} file")
    match format:
        case "libsvm":
            return read_libsvm(path, n_features=n_features, dtype=dtype, zero_based=zero_based)
        case "csv":
            return _read_csv(path, label_column, header, np.dtype(dtype))
        case "npy":
            return _checked(path, *_read_npy(path, label_column, labels), np.dtype(dtype))
        case "npz":
            return _checked(path, *_read_npz(path, labels), np.dtype(dtype))
    raise ValueError(f"format is {format!r}; expected 'auto', 'libsvm', 'csv', 'npy' or 'npz'")


def _guess(path: str | os.PathLike[str]) -> str:
    """LIBSVM or CSV, by the first line that tells."""
    with open_to_read(path) as file, naming_damage(lambda why: FileFormatError(path, None, None, why)):
        for _ in range(100):
            line = file.readline(1 << 16).partition(b"#")[0]
            _, *pairs = line.split() or [b""]
            if pairs and all(b":" in pair for pair in pairs):
                return "libsvm"
            if any(separator in line.strip() for separator in (b",", b";", b"\t")):
                return "csv"
            if pairs:
                raise FileFormatError(
                    path, None, None, "neither LIBSVM (label index:value ...) nor CSV; say which it is with format=..."
                )
    # A label on each line and nothing else: rows without entries.
    return "libsvm"


# CSV


def _read_csv(
    path: str | os.PathLike[str], label_column: str | int, header: bool | Literal["auto"], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"dtype is {dtype}; expected float32 or float64")
    largest = float(np.finfo(dtype).max)
    numbers, labels = array("d"), list[str]()
    names: list[str] | None = None
    width = at = 0
    with io.TextIOWrapper(open_to_read(path), encoding="utf-8-sig", newline="") as file:
        for line, row in _csv_rows(path, file):
            if not width:
                width = len(row)
                if header is True or (header == "auto" and not any(map(_is_number, row))):
                    names = [cell.strip() for cell in row]
                at = _label_position(path, label_column, names, width)
                if names is not None:
                    continue
            if len(row) != width:
                raise FileFormatError(path, line, None, f"{len(row)} cells, but the first line has {width}")
            label = row.pop(at)
            try:
                values = list(map(float, row))
            except ValueError:
                values = [math.nan]
            # False for NaN too. A sum that is too large though each of its terms is not passes the closer look.
            if not sum(map(abs, values)) <= largest:
                _check_cells(path, line, [*row[:at], label, *row[at:]], at, names, largest)
            numbers.extend(values)
            labels.append(label)
    if not labels:
        raise FileFormatError(path, None, None, "no rows")
    X = np.frombuffer(numbers, dtype=np.float64).astype(dtype, copy=False)
    return X.reshape(len(labels), width - 1), _plain_labels(labels)


def _csv_rows(path: str | os.PathLike[str], file: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, with the number of the line each ends on."""
    line = 0
    with naming_damage(lambda why: FileFormatError(path, line + 1, None, why)):
        try:
            first = file.readline()
            separator = "\t" if plain_suffix(path) == ".tsv" else max(",;\t", key=first.count)
            reader = csv.reader(itertools.chain([first], file), delimiter=separator)
            for row in reader:
                line = reader.line_num
                if row:
                    yield line, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise FileFormatError(path, line + 1, None, f"not a CSV file in UTF-8 ({error})") from error


def _label_position(path: str | os.PathLike[str], label_column: str | int, names: list[str] | None, width: int) -> int:
    if names is not None and label_column in names:
        return names.index(str(label_column))
    position = (
        {"first": 0, "last": -1}.get(label_column, label_column) if isinstance(label_column, str) else label_column
    )
    if isinstance(position, str):
        has = "no header" if names is None else f"the columns {', '.join(names)}"
        raise ValueError(f"label_column is {label_column!r}, but {path} has {has}; give one of them, or a position")
    if not -width <= position < width:
        raise ValueError(f"label_column is {label_column}, but {path} has {width} columns")
    return position % width


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _check_cells(
    path: str | os.PathLike[str], line: int, cells: list[str], at: int, names: list[str] | None, largest: float
) -> None:
    """Raise for the first cell, other than the label at `at`, that is not a finite number."""
    for column, cell in enumerate(cells):
        if column == at or (_is_number(cell) and abs(float(cell)) <= largest):
            continue
        name = f" of the column {names[column]!r}" if names is not None else ""
        hint = " If the first line holds names, say header=True." if line == 1 else ""
        raise FileFormatError(
            path,
            line,
            column + 1,
            f"the cell{name} holds {cell!r}; expected a finite number (at most {largest:.2g}).{hint}",
        )


def _plain_labels(labels: list[str]) -> NDArray[Any]:
    """Numbers if all of them are, else strings."""
    if all(map(_is_number, labels)):
        return np.array(labels, dtype=np.float64)
    return np.array([label.strip() for label in labels])


# NumPy's files


def _read_npy(
    path: str | os.PathLike[str], label_column: str | int, labels: str | os.PathLike[str] | None
) -> tuple[Any, Any]:
    table = _mapped(path)
    if labels is not None:
        return table, _read_labels(labels)
    if table.ndim != 2 or table.shape[1] < 2:
        raise FileFormatError(
            path, None, None, f"expected a matrix, one column of it labels; its shape is {table.shape}"
        )
    at = _label_position(path, label_column, None, table.shape[1])
    if at == 0:
        return table[:, 1:], np.array(table[:, 0])
    if at == table.shape[1] - 1:
        return table[:, :-1], np.array(table[:, -1])
    raise ValueError(
        f"label_column is {label_column}, but the labels of {path} must be in the first or the last column, so that "
        "the rest can be read in place. Or save them apart, and give that file as labels=..."
    )


def _read_npz(path: str | os.PathLike[str], labels: str | os.PathLike[str] | None) -> tuple[Any, Any]:
    with _naming_other_files(path), open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
        if "X" in arrays:
            X = arrays["X"]
        elif {"data", "shape"} <= set(arrays):
            X = sp.load_npz(path).tocsr()
        else:
            raise FileFormatError(path, None, None, f"expected arrays X and y; found {', '.join(arrays) or 'none'}")
        if labels is not None:
            return X, _read_labels(labels)
        if "y" in arrays:
            return X, arrays["y"]
    raise FileFormatError(path, None, None, "no labels: save them as the array y, or give their file as labels=...")


def _read_labels(path: str | os.PathLike[str]) -> NDArray[Any]:
    if plain_suffix(path) == ".npy":
        return np.array(_mapped(path))
    with (
        io.TextIOWrapper(open_to_read(path), encoding="utf-8-sig") as file,
        naming_damage(lambda why: FileFormatError(path, None, None, why)),
    ):
        return _plain_labels([line.strip() for line in file if line.strip()])


def _mapped(path: str | os.PathLike[str]) -> Any:
    with _naming_other_files(path):
        return np.lib.format.open_memmap(path, mode="r")


@contextmanager
def _naming_other_files(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what NumPy raises for a file that it cannot read, or refuses because it holds a pickle, into our error."""
    try:
        yield
    except FileFormatError:
        raise
    except (EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise FileFormatError(path, None, None, f"not a file of plain arrays that NumPy can read ({error})") from error


def _checked(path: str | os.PathLike[str], X: Any, y: NDArray[Any], dtype: np.dtype[Any]) -> tuple[Any, NDArray[Any]]:
    if X.ndim != 2:
        raise FileFormatError(path, None, None, f"expected rows of shape (n, d); got shape {X.shape}")
    if y.shape != X.shape[:1]:
        raise FileFormatError(path, None, None, f"{X.shape[0]} rows, but labels of shape {y.shape}")
    if X.dtype.kind not in "biuf":
        raise FileFormatError(path, None, None, f"expected numbers; X holds {X.dtype}")
    return X if X.dtype in (np.float32, np.float64) else X.astype(dtype), y
