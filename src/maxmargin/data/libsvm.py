"""LIBSVM (SVMlight) files, with one row per line: `label index:value index:value ...`, without the zeros."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import IO, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from maxmargin.data._libsvm import Progress, parse
from maxmargin.data.streams import FileFormatError, open_to_read, open_to_write, report_damage

_BLOCK_BYTES = 1 << 22  # number of bytes to read and parse at a time
_BLOCK_ROWS = 1000  # number of rows to write at a time
_LARGEST_INDEX = 10**18 - 1  # it has 18 digits, the maximum that the parser supports


class LibsvmError(FileFormatError):
    """The error that a LIBSVM file cannot be read, with the file, the line, the column and the text found there."""


def read_libsvm(
    path_or_file: str | os.PathLike[str] | IO[bytes],
    *,
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    zero_based: bool | Literal["auto"] = "auto",
) -> tuple[Any, NDArray[np.float64]]:
    """Read a LIBSVM file.

    A line has the form `label index:value index:value ...`. Text after a `#` is a comment, and lines without a label
    are skipped. Line ends may be LF or CRLF. Values are plain decimal numbers, rounded exactly as Python's `float`
    does. A `qid:n` after the label, as in ranking files, is checked and dropped.

    The file is read in blocks of 4 MB. The peak memory is at most one and a half times the size of the result.

    Parameters
    ----------
    path_or_file : str, path or binary file
        The file, which may be compressed by gzip, bzip2 or xz if a path is given; "-" is standard input.
    n_features : int, default=None
        The number of columns. None means the smallest number that the largest index allows.
    dtype : float64 or float32, default=float64
        The type of the values of X.
    zero_based : bool or "auto", default="auto"
        Whether the index of the first column is 0 or 1. "auto" assumes zero-based if and only if the index 0 occurs in
        the file, as scikit-learn does. This misreads a zero-based file whose first column is all zeros, so give the
        value if you know it, and always for a part of a larger file.

    Returns
    -------
    X : scipy.sparse.csr_array of shape (n, d)
        The rows. Indices are sorted within each row, and int32 if they fit. Explicit zeros stay stored. (The result is
        a sparse array, not a `csr_matrix`: scikit-learn accepts both, but SciPy develops only sparse arrays further.)
    y : float64 array of shape (n,)
        The labels.

    Raises
    ------
    LibsvmError
        If the file is malformed, with the line, the column and the text found there. Infinite and NaN values, an index
        that occurs twice in a row, and several labels on a line are also errors.

    Examples
    --------
    >>> import io
    >>> from maxmargin.data import read_libsvm
    >>> X, y = read_libsvm(io.BytesIO(b"+1 1:0.5 3:2  # a comment\\n-1 2:25e-2\\n"))
    >>> X.toarray()
    array([[0.5 , 0.  , 2.  ],
           [0.  , 0.25, 0.  ]])
    >>> y
    array([ 1., -1.])
    """
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"dtype is {dtype}; expected float32 or float64")
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based is {zero_based!r}; expected True, False or 'auto'")
    if n_features is not None and n_features < 0:
        raise ValueError(f"n_features is {n_features}; expected a number of columns, or None to find it")
    if isinstance(path_or_file, (str, os.PathLike)):
        name, opened = os.fspath(path_or_file), open_to_read(path_or_file)
    else:
        # A file that was given open stays open.
        name, opened = getattr(path_or_file, "name", "<file>"), nullcontext(path_or_file)  # type: ignore[assignment]
    with opened as file:
        return _Reader(str(name), n_features, dtype, zero_based).read(file)


def write_libsvm(path: str | os.PathLike[str], X: Any, y: ArrayLike, *, zero_based: bool = False) -> None:
    """Write a LIBSVM file that `read_libsvm` reads back to the same bits.

    Each number is written with the fewest digits that reproduce it. The file is written completely or not at all: after
    an error or an interrupt, an existing file is unchanged.

    Parameters
    ----------
    path : str or path
        The file. If its name ends in .gz, .bz2 or .xz, it is compressed.
    X : array or sparse matrix of shape (n, d)
        The rows, in float32 or float64. The stored entries of a sparse matrix, or the nonzero entries of an array, are
        written.
    y : array of shape (n,)
        The labels, which must be finite numbers.
    zero_based : bool, default=False
        Whether the index of the first column is 0 or, as most programs expect, 1.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from maxmargin.data import write_libsvm
    >>> path = Path(tempfile.mkdtemp()) / "rows.libsvm"
    >>> write_libsvm(path, np.array([[0.1, 0.0], [0.0, 2.0]]), [1, -1])
    >>> print(path.read_text(), end="")
    1 1:0.1
    -1 2:2
    """
    rows = X.tocsr() if sp.issparse(X) else np.asarray(X)
    labels = np.asarray(y)
    _check_writable(rows, labels)
    blocks = (rows[start : start + _BLOCK_ROWS] for start in range(0, rows.shape[0], _BLOCK_ROWS))
    write_libsvm_blocks(path, blocks, labels, zero_based=zero_based)


def write_libsvm_blocks(
    path: str | os.PathLike[str], blocks: Iterable[Any], y: NDArray[Any], *, zero_based: bool = False
) -> None:
    """Write rows given in blocks (arrays or CSR matrices); parameters are those of :func:`write_libsvm`."""
    with open_to_write(path) as file:
        start = 0
        for rows in blocks:
            block = sp.csr_array(rows, copy=True)
            block.sum_duplicates()
            labels = y[start : start + block.shape[0]]
            file.write(_text_of(block, labels, start, 0 if zero_based else 1))
            start += block.shape[0]


def _check_writable(rows: Any, labels: NDArray[Any]) -> None:
    if rows.dtype not in (np.float32, np.float64):
        raise TypeError(f"X holds {rows.dtype}; expected float32 or float64. Convert it with X.astype(np.float64).")
    if rows.ndim != 2:
        raise ValueError(f"expected a matrix of shape (n, d); got an array of shape {rows.shape}")
    if labels.shape != rows.shape[:1]:
        raise ValueError(f"X has {rows.shape[0]} rows, but y has shape {labels.shape}")
    if labels.dtype.kind not in "biuf":
        raise TypeError(f"y holds {labels.dtype}; labels in a LIBSVM file are numbers. Number the classes first.")


class LibsvmBlocks:
    """A LIBSVM file in blocks of rows, with bounded memory.

    The file is read once for its width and labels, and again in each pass. Parameters are those of :func:`read_libsvm`.

    Attributes
    ----------
    shape : tuple
        The numbers of rows and columns.
    labels : float64 array of shape (n,)
        The labels.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_features: int | None = None,
        dtype: DTypeLike = np.float64,
        zero_based: bool | Literal["auto"] = "auto",
    ) -> None:
        self._path, self.dtype = os.fspath(path), np.dtype(dtype)
        reader = _Reader(self._path, n_features, self.dtype, zero_based)
        with open_to_read(path) as file:
            labels = [np.empty(0), *(y for _, y in reader.read_in_blocks(file))]
        self.labels = np.concatenate(labels)
        self.shape = self.labels.size, reader.width
        self._zero_based = reader.progress.first == 0

    def __iter__(self) -> Iterator[Any]:
        reader = _Reader(self._path, self.shape[1], self.dtype, self._zero_based)
        with open_to_read(self._path) as file:
            for X, _ in reader.read_in_blocks(file):
                yield X


class _Reader:
    """Reads one file into arrays, which grow before each block by the maximum that the block can hold."""

    def __init__(
        self, name: str, n_features: int | None, dtype: np.dtype[Any], zero_based: bool | Literal["auto"]
    ) -> None:
        self.name, self.n_features, self.zero_based = name, n_features, zero_based
        # "auto" means one-based until the first index 0 is found.
        self.progress = Progress(*self._bounds(zero_based is True))
        self.labels, self.ends = np.empty(0), np.empty(0, dtype=np.int64)
        self.indices: NDArray[Any] = np.empty(0, dtype=np.int32)
        self.values = np.empty(0, dtype=dtype)

    def read(self, file: IO[bytes]) -> tuple[Any, NDArray[np.float64]]:
        for block in self._blocks(file):
            self._parse(block)
        return self._result()

    def read_in_blocks(self, file: IO[bytes]) -> Iterator[tuple[Any, NDArray[np.float64]]]:
        """Yield rows and labels in blocks. The width and the first column may be unknown until the last block."""
        for block in self._blocks(file):
            self._parse(block)
            rows, entries = self.progress.rows, self.progress.entries
            d = self.width
            index = np.int32 if max(entries, d) <= np.iinfo(np.int32).max else np.int64
            arrays = (
                self.values[:entries].copy(),
                self.indices[:entries].astype(index) - self.progress.first,
                np.concatenate([[0], self.ends[:rows]]).astype(index),
            )
            self.progress.forget_rows()
            X = sp.csr_array(arrays, shape=(rows, d))
            X.sort_indices()
            yield X, self.labels[:rows].copy()

    @property
    def width(self) -> int:
        """The number of columns, as far as known."""
        return max(self.progress.highest + 1 - self.progress.first, 0) if self.n_features is None else self.n_features

    def _parse(self, block: bytes) -> None:
        rows = self.progress.rows + len(block) // 2
        entries = self.progress.entries + len(block) // 4
        for array, size in (self.labels, rows), (self.ends, rows), (self.indices, entries), (self.values, entries):
            if len(array) < size:
                _resize(array, max(size, len(array) * 3 // 2))
        start = 0
        while start < len(block):
            start = parse(block, start, self.progress, self.labels, self.ends, self.indices, self.values)
            if start < len(block):
                self._adapt_or_raise(block[start : block.index(b"\n", start)])

    def _blocks(self, file: IO[bytes]) -> Iterator[bytes]:
        """Yield blocks of whole lines; the last line gets a newline if the file does not end in one."""
        with report_damage(lambda why: LibsvmError(self.name, self.progress.lines + 1, None, why)):
            while block := file.read(_BLOCK_BYTES):
                if not isinstance(block, bytes):
                    raise TypeError(f"{self.name} is open as text; open it in binary mode, with 'rb'")
                block += file.readline()
                yield block if block.endswith(b"\n") else block + b"\n"

    def _adapt_or_raise(self, line: bytes) -> None:
        """Widen the index type or change "auto" to zero-based if the line requires it; otherwise raise an error."""
        progress = self.progress
        if progress.stopped == "low" and self.zero_based == "auto" and progress.first == 1:
            progress.first, progress.last = self._bounds(zero_based=True)
            if progress.highest <= progress.last:
                return
        elif progress.stopped == "high" and self.indices.dtype == np.int32 and progress.last > np.iinfo(np.int32).max:
            self.indices = self.indices.astype(np.int64)
            return
        column, token, why = _first_fault(line, progress, self.values.dtype)
        shown = token.decode(errors="backslashreplace")
        raise LibsvmError(
            self.name, progress.lines + 1, column, f"{why}; got {shown[:60]!r}{'...' if len(shown) > 60 else ''}"
        )

    def _bounds(self, zero_based: bool) -> tuple[int, int]:
        """Return the smallest and the largest index that the file may contain."""
        if self.n_features is None:
            return (0, _LARGEST_INDEX - 1) if zero_based else (1, _LARGEST_INDEX)
        return (0, self.n_features - 1) if zero_based else (1, self.n_features)

    def _result(self) -> tuple[Any, NDArray[np.float64]]:
        rows, entries, first = self.progress.rows, self.progress.entries, self.progress.first
        for array, size in (self.labels, rows), (self.ends, rows), (self.indices, entries), (self.values, entries):
            _resize(array, size)
        d = self.width
        index = np.int32 if max(entries, d) <= np.iinfo(np.int32).max else np.int64
        indices = self.indices.astype(index, copy=False)
        np.subtract(indices, first, out=indices)
        indptr = np.concatenate([[0], self.ends]).astype(index, copy=False)
        X = sp.csr_array((self.values, indices, indptr), shape=(rows, d))
        if not self.progress.ordered:
            X.has_sorted_indices = False
            X.sort_indices()
        # The parser has refused duplicates, and the indices are sorted, so SciPy need not check them again.
        X.has_canonical_format = True
        return X, self.labels


def _resize(array: NDArray[Any], size: int) -> None:
    # In place, without a second copy. Nothing else uses these arrays, although their reference counts may exceed 1.
    array.resize(size, refcheck=False)


_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _first_fault(line: bytes, progress: Progress, dtype: np.dtype[Any]) -> tuple[int, bytes, str]:
    """Return the column of the first wrong token of a line, its text, and what is wrong with it."""
    tokens = list(re.finditer(rb"[^ \t\r\v\f]+", line.partition(b"#")[0]))
    label, pairs = tokens[0], tokens[1:]
    if why := _label_fault(label[0]):
        return label.start() + 1, label[0], why
    if pairs and re.fullmatch(rb"qid:\d+", pairs[0][0]):
        pairs = pairs[1:]
    seen = set()
    for pair in pairs:
        index, colon, value = pair[0].partition(b":")
        why = ""
        if not colon:
            why = "expected index:value, but the colon is missing"
        elif re.fullmatch(rb"-\d+", index):
            why = "the index is negative"
        elif not index.isdigit():
            why = "expected index:value, but the text before the colon is not a whole number"
        elif not value:
            why = "expected index:value, but the value is missing (is the file cut off here?)"
        elif fault := _number_fault(value, dtype):
            why = f"the value {fault}"
        elif len(index) > 18 or int(index) > _LARGEST_INDEX:
            why = "the index has more than 18 digits"
        elif int(index) < progress.first:
            why = "index 0 in a file read as one-based: read it with zero_based=True"
        elif int(index) > progress.last:
            why = f"the index is too large for n_features={progress.last + 1 - progress.first}"
        elif int(index) in seen:
            why = "the index occurs twice in this row"
        elif int(index) == 0 and progress.highest > progress.last:
            why = (
                f"index 0, so the file is zero-based, but the index {progress.highest} before this line is then "
                f"too large for n_features={progress.last + 1}"
            )
        if why:
            return pair.start() + 1, pair[0], why
        seen.add(int(index))
    raise AssertionError(f"the line {line!r} was refused for an unknown reason")


def _label_fault(token: bytes) -> str:
    if b":" in token:
        return "expected a label at the start of the line"
    if b"," in token:
        return "expected one label; files with several labels per row are not supported"
    fault = _number_fault(token, np.dtype(np.float64))
    return fault and f"the label {fault}"


def _number_fault(token: bytes, dtype: np.dtype[Any]) -> str:
    """Return what is wrong with a number; empty if nothing is."""
    if re.fullmatch(rb"[+-]?(inf|infinity|nan)", token, re.IGNORECASE):
        return "is not finite"
    if not _NUMBER.fullmatch(token):
        return "is not a number"
    with np.errstate(over="ignore"):
        return "" if np.isfinite(dtype.type(float(token))) else f"is too large for {dtype}"


def _text_of(X: Any, y: NDArray[Any], start: int, first: int) -> bytes:
    """Format a block of rows; `start` is the position of its first row in X, and `first` the index of column 0."""
    for values, rows, name in ((X.data, np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), "X"), (y, None, "y")):
        if not np.isfinite(values).all():
            k = int(np.argmin(np.isfinite(values)))
            raise ValueError(f"{name} holds {values[k]} in row {start + (k if rows is None else rows[k])}")
    pairs = [f"{index}:{value}" for index, value in zip((X.indices + first).tolist(), _digits(X.data), strict=True)]
    ends = X.indptr.tolist()
    return "".join(
        " ".join([label, *pairs[begin:end]]) + "\n"
        for label, begin, end in zip(_digits(y), ends[:-1], ends[1:], strict=True)
    ).encode("ascii")


def _digits(values: NDArray[Any]) -> list[str]:
    """Format each number with the fewest digits that reproduce it."""
    if values.dtype != np.float32:
        return [repr(value).removesuffix(".0") for value in values.astype(np.float64).tolist()]
    texts = values.astype("U32")
    # A few in a billion float32 numbers change when their shortest digits are read as float64 and rounded again.
    back = texts.astype(np.float64).astype(np.float32)
    exact = back.view(np.uint32) == values.view(np.uint32)
    texts[~exact] = values[~exact].astype(np.float64).astype("U32")
    return [text.removesuffix(".0") for text in texts.tolist()]
