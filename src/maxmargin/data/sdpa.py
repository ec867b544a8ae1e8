r"""SDPA sparse files, `.dat-s`: semidefinite programs with one entry per line.

A file holds numbers :math:`c_i` and symmetric block-diagonal matrices :math:`F_0, \dots, F_m`. They define a pair of
programs, each the dual of the other:

.. math::
    \text{(P)}\; \min_x \textstyle\sum_i c_i x_i \;\text{ s.t. } \sum_i x_i F_i - F_0 \succeq 0, \qquad
    \text{(D)}\; \max_Y F_0 \bullet Y \;\text{ s.t. } F_i \bullet Y = c_i,\; Y \succeq 0.

(D) has the form used in this package: C is F_0, A_i is F_i, b is c, and every constraint is an equality. A block of
negative size holds diagonal matrices: its part of Y is a vector of nonnegative numbers, such as slack variables.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from maxmargin.data.streams import FileFormatError, InputStream, open_to_read, open_to_write, report_damage

_PUNCTUATION = str.maketrans(",(){}", "     ")
_WHOLE = re.compile(r"[+-]?\d+")


class SdpaError(FileFormatError):
    """The error that an SDPA file cannot be read, with the file, the line, what was found and what was expected."""


@dataclass(frozen=True)
class ProgramArrays:
    r"""A semidefinite program in plain arrays: max C.X with A_i.X >=, <= or = b_i, X positive semidefinite.

    Attributes
    ----------
    C : array or CSR of shape (n, n)
        The objective.
    A : array of shape (m, n, n), or CSR of shape (m, n * n)
        The constraints, one in each row.
    b : array of shape (m,)
        The right-hand sides.
    sense : array of shape (m,)
        The sense of each constraint: ">=", "<=" or "=".
    trace_bound : float or None
        The largest possible trace of X, if the file gives one.
    trace : str
        Whether X has "at most" this trace, or "exactly".
    blocks : tuple of int
        The sizes of the diagonal blocks. A negative size means a diagonal matrix, as in SDPA.
    """

    C: Any
    A: Any
    b: NDArray[np.float64]
    sense: NDArray[np.str_]
    trace_bound: float | None = None
    trace: str = "at most"
    blocks: tuple[int, ...] = ()


def read_sdpa(path: str | os.PathLike[str]) -> ProgramArrays:
    """Read an SDPA sparse file as the program (D), whose constraints are all equalities.

    The first lines may be comments, which start with `"` or `*`. Then the file gives m, the number of blocks, their
    sizes, and c; `, ( ) { }` count as spaces, and text after a `=` is ignored. Each further line has the form `matrix
    block row column value`. Matrices (except F_0), blocks, rows and columns are counted from 1. An entry is given on
    only one side of the diagonal.

    Parameters
    ----------
    path : str or path
        The file, which may be compressed by gzip, bzip2 or xz; "-" is standard input.

    Returns
    -------
    ProgramArrays
        The program, with C and A in CSR, and without a trace bound, which these files do not have.

    Raises
    ------
    SdpaError
        If the file is malformed, with the line, what was found there and what was expected.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from maxmargin.data import read_sdpa
    >>> path = Path(tempfile.mkdtemp()) / "small.dat-s"
    >>> _ = path.write_text("1 = m\\n1 = blocks\\n2\\n{1.0}\\n0 1 1 2 0.5\\n1 1 1 1 1\\n1 1 2 2 1\\n")
    >>> program = read_sdpa(path)
    >>> program.C.toarray()
    array([[0. , 0.5],
           [0.5, 0. ]])
    >>> program.A.toarray().reshape(1, 2, 2), program.b
    (array([[[1., 0.],
            [0., 1.]]]), array([1.]))
    """
    with open_to_read(path) as stream:
        return parse_sdpa(stream)


def parse_sdpa(stream: InputStream) -> ProgramArrays:
    """Read an open SDPA sparse file; see :func:`read_sdpa`."""
    return _Reader(stream.name, stream).program()


def write_sdpa(
    path: str | os.PathLike[str],
    C: Any,
    A: Any,
    b: ArrayLike,
    sense: str | Sequence[str] = "=",
    *,
    blocks: Sequence[int] | None = None,
    comment: str = "",
) -> None:
    """Write a program as an SDPA sparse file, completely or not at all.

    These files support only equalities. Inequalities are written with an additional diagonal block that holds one slack
    variable for each, so X gets one additional row for each inequality.

    Parameters
    ----------
    path : str or path
        The file. If its name ends in .gz, .bz2 or .xz, it is compressed.
    C, A, b, sense : arrays
        The program, as in :class:`ProgramArrays`. A single sense applies to all constraints.
    blocks : sequence of int or None, default=None
        The sizes of the blocks; None means one block. All entries must lie inside the blocks.
    comment : str, default=""
        A comment to write at the top of the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from maxmargin.data import write_sdpa
    >>> path = Path(tempfile.mkdtemp()) / "small.dat-s"
    >>> write_sdpa(path, np.ones((2, 2)), np.eye(2)[None], [1.0], "<=")
    >>> print(path.read_text(), end="")
    1
    2
    2 -1
    1
    0 1 1 1 1
    0 1 1 2 1
    0 1 2 2 1
    1 1 1 1 1
    1 1 2 2 1
    1 2 1 1 1
    """
    b = np.asarray(b, dtype=np.float64)
    m, n = b.size, np.shape(C)[0]
    C, A = sp.csr_array(C), sp.csr_array(A if sp.issparse(A) else np.reshape(A, (m, -1)))
    if C.shape != (n, n) or A.shape != (m, n * n):
        raise ValueError(
            f"C has shape {C.shape} and b has {b.size} numbers, so A must hold {m} matrices of {n} rows and columns; "
            f"it has {A.shape[0]} matrices of {A.shape[1]} entries"
        )
    for name, values in ("C", C.data), ("A", A.data), ("b", b):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} holds NaN or infinity; an SDPA file has finite numbers")
    sizes = [n] if blocks is None else [int(size) for size in blocks]
    if sum(map(abs, sizes)) != n or 0 in sizes:
        raise ValueError(
            f"the absolute sizes of blocks must be at least 1 and add up to the {n} rows of C; got {sizes}"
        )
    senses = np.broadcast_to(np.asarray(sense), m)
    slacks = np.flatnonzero(senses != "=")
    with open_to_write(path) as file:
        for line in comment.splitlines():
            file.write(f"* {line}\n".encode())
        shape = [*sizes, -slacks.size] if slacks.size else sizes
        head = (str(m), str(len(shape)), " ".join(map(str, shape)), " ".join(map(_digits, b)))
        file.write(("\n".join(head) + "\n").encode())
        file.writelines(f"{line}\n".encode() for line in _entries(C, A, sizes, senses, slacks))


def _entries(C: Any, A: Any, sizes: list[int], senses: NDArray[Any], slacks: NDArray[np.intp]) -> Iterator[str]:
    """Yield the lines of all entries; the entries of a constraint are followed by its slack variable, if any."""
    n = C.shape[0]
    block, first = _block_of_row(sizes)
    slack_of = {int(i): k + 1 for k, i in enumerate(slacks)}
    for number in range(A.shape[0] + 1):
        F = C.tocoo() if number == 0 else A[[number - 1]].reshape((n, n)).tocoo()
        upper = F.row <= F.col
        for i, j, value in sorted(
            zip(F.row[upper].tolist(), F.col[upper].tolist(), F.data[upper].tolist(), strict=True)
        ):
            if value == 0:
                continue
            if block[i] != block[j] or (sizes[block[i]] < 0 and i != j):
                raise ValueError(f"entry ({i}, {j}) of {_name(number)} is outside the blocks {sizes}")
            yield f"{number} {block[i] + 1} {i - first[i] + 1} {j - first[j] + 1} {_digits(value)}"
        if k := slack_of.get(number - 1):
            yield f"{number} {len(sizes) + 1} {k} {k} {-1 if senses[number - 1] == '>=' else 1}"


def _block_of_row(sizes: Sequence[int]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return, for each row of the matrix, the number of its block and the first row of that block."""
    lengths = np.abs(sizes)
    block = np.repeat(np.arange(lengths.size), lengths)
    return block, (np.cumsum(lengths) - lengths)[block]


def _digits(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def _name(number: int) -> str:
    return "C" if number == 0 else f"A_{number}"


class _Reader:
    """Reads one file into arrays."""

    def __init__(self, path: str | os.PathLike[str], file: Any) -> None:
        self.path, self.line = path, 0
        self.lines = self._lines(file)

    def program(self) -> ProgramArrays:
        m = self._count("the number of constraints, m")
        blocks = [
            self._whole(token, "the size of a block")
            for token in self._tokens(self._count("the number of blocks"), "sizes of blocks")
        ]
        if 0 in blocks:
            self._fail("found a block of size 0", "sizes of at least 1, or at most -1 for a diagonal block")
        b = np.array([self._number(token, "a number of c") for token in self._tokens(m, "numbers of c")])
        n = sum(map(abs, blocks))
        number, row, column, value = self._entries(m, blocks)
        both = row != column
        rows, columns = np.concatenate([row, column[both]]), np.concatenate([column, row[both]])
        F = sp.csr_array(
            (np.concatenate([value, value[both]]), (np.concatenate([number, number[both]]), rows * n + columns)),
            shape=(m + 1, n * n),
        )
        return ProgramArrays(F[[0]].reshape((n, n)).tocsr(), F[1:], b, np.full(m, "="), blocks=tuple(blocks))

    # The head of the file

    def _count(self, what: str) -> int:
        count = self._whole(self._tokens(1, what)[0], what)
        if count < 1:
            self._fail(f"found {count}", f"{what}, at least 1")
        return count

    def _tokens(self, count: int, what: str) -> list[str]:
        """Read exactly `count` words from as many whole lines as necessary."""
        found: list[str] = []
        while len(found) < count:
            line = next(self.lines, None)
            if line is None:
                self._fail(f"the file ends after {len(found)} of them", f"{count} {what}" if count > 1 else what)
            found += line.partition("=")[0].split()
        if len(found) > count:
            self._fail(f"found {len(found)} words, up to {found[-1]!r}", f"{count} {what}" if count > 1 else what)
        return found

    # The entries

    def _entries(
        self, m: int, blocks: list[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Read the number of the matrix, row, column and value of each entry, in the upper triangle."""
        sizes = np.abs(blocks)
        start = np.cumsum(sizes) - sizes
        places: list[tuple[int, int, int, int]] = []
        values: list[float] = []
        for line in self.lines:
            words = line.split()
            if len(words) != 5:
                self._fail(
                    f"found {len(words)} words, {line.strip()[:60]!r}", "five: matrix, block, row, column, value"
                )
            number, block, i, j = (
                self._whole(word, what)
                for word, what in zip(words, ("a matrix", "a block", "a row", "a column"), strict=False)
            )
            if not 0 <= number <= m:
                self._fail(f"found the matrix {number}", f"0 for the objective, or 1 to {m}")
            if not 1 <= block <= len(blocks):
                self._fail(f"found the block {block}", f"1 to {len(blocks)}")
            size = blocks[block - 1]
            for what, index in ("row", i), ("column", j):
                if not 1 <= index <= abs(size):
                    self._fail(f"found the {what} {index}", f"1 to {abs(size)}, the size of block {block}")
            if size < 0 and i != j:
                self._fail(
                    f"found the entry ({i}, {j})", f"an entry of the diagonal, as block {block} is a diagonal one"
                )
            values.append(self._number(words[4], "a value"))
            places.append(
                (number, int(start[block - 1]) + min(i, j) - 1, int(start[block - 1]) + max(i, j) - 1, self.line)
            )
        found = np.array(places, dtype=np.int64).reshape(-1, 4)
        self._refuse_repeats(found)
        return found[:, 0], found[:, 1], found[:, 2], np.array(values)

    def _refuse_repeats(self, places: NDArray[np.int64]) -> None:
        order = np.lexsort(places.T[::-1])
        same = np.flatnonzero((np.diff(places[order, :3], axis=0) == 0).all(axis=1))
        if same.size:
            earlier, later = places[order[same[0]], 3], places[order[same[0] + 1], 3]
            self.line = int(later)
            self._fail(
                f"found an entry that line {earlier} has already", "each entry once, on one side of the diagonal"
            )

    # Lines and words

    def _lines(self, file: Any) -> Iterator[str]:
        """Yield the lines that are not empty, without the comments at the start of the file."""
        head = True
        with report_damage(lambda why: SdpaError(self.path, self.line + 1, None, why)):
            for raw in file:
                self.line += 1
                text = raw.decode("utf-8", errors="replace")
                head = head and text.lstrip()[:1] in ("", '"', "*")
                text = text.translate(_PUNCTUATION)
                if not head and text.strip():
                    yield text

    def _whole(self, word: str, what: str) -> int:
        if not _WHOLE.fullmatch(word):
            self._fail(f"found {word[:60]!r}", f"{what}, a whole number")
        return int(word)

    def _number(self, word: str, what: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self._fail(f"found {word[:60]!r}", f"{what}, a finite decimal number")
        return value

    def _fail(self, found: str, expected: str) -> NoReturn:
        raise SdpaError(self.path, self.line, None, f"{found}; expected {expected}")
