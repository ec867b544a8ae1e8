"""CSV files: cells between commas, semicolons or tabs."""

from __future__ import annotations

import csv
import io
import itertools
import math
from array import array
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maxmargin.data.streams import FileFormatError, InputStream, plain_suffix, report_damage
from maxmargin.data.table import Table, column_in_words, is_missing, is_number, label_position, numbers_or_strings

# Cells, in lower case, that count as missing values: the error advises filling them in, not encoding them.
MISSING = ("", "nan", "na", "n/a", "null", "none", "?")


class CsvReader:
    """Reads a CSV file, at once or in blocks of rows; parameters are those of :func:`maxmargin.data.read_table`.

    Attributes
    ----------
    names : list of str or None
        The names of the columns, if there is a header.
    labels : list of str
        The labels of the rows read so far.
    width : int
        The number of columns.
    label_position : int or None
        The position of the label column; None if all columns are features.
    missing_label : tuple of int or None
        The line and the cell of the first missing label in the rows read so far.
    """

    def __init__(
        self,
        stream: InputStream,
        label_column: str | int | None,
        header: bool | Literal["auto"],
        dtype: np.dtype[Any],
        n_features: int | None,
    ) -> None:
        if dtype not in (np.float32, np.float64):
            raise TypeError(f"dtype is {dtype}; expected float32 or float64")
        self._stream, self._label_column, self._header = stream, label_column, header
        self._dtype, self._n_features = dtype, n_features
        self.names: list[str] | None = None
        self.labels: list[str] = []
        self.width = 0
        self.label_position: int | None = None
        self.missing_label: tuple[int, int] | None = None

    def read(self) -> Table:
        [X] = self.blocks(math.inf)
        if self.label_position is None:
            return Table(X, None, names=self.features)
        place = column_in_words(self.label_position, self.names, self.width)
        return Table(X, numbers_or_strings(self.labels), place, self.features, self.missing_label)

    @property
    def features(self) -> list[str] | None:
        """The names of the features, if there is a header."""
        return self.names and [name for k, name in enumerate(self.names) if k != self.label_position]

    def blocks(self, entries: float) -> Iterator[NDArray[Any]]:
        """Yield blocks of rows, each with at least this many entries except the last."""
        path, largest = self._stream.name, float(np.finfo(self._dtype).max)
        numbers, rows = array("d"), 0
        for line, row in _csv_rows(self._stream):
            if not self.width and self._is_header(row):
                continue
            if len(row) != self.width:
                raise FileFormatError(path, line, None, f"{len(row)} cells, but the first line has {self.width}")
            place = self.label_position
            label = [] if place is None else [row.pop(place)]
            try:
                values = list(map(float, row))
            except ValueError:
                values = [math.nan]
            # The condition is also false for NaN. If only the sum is too large but no value is, _check_cells passes.
            if not sum(map(abs, values)) <= largest:
                cells = [*row[:place], *label, *row[place:]] if label else row
                _check_cells(path, line, cells, place, self.names, largest, self._label_column not in (None, "last"))
            numbers.extend(values)
            self.labels.extend(label)
            rows += 1
            if place is not None and self.missing_label is None and is_missing(label[0]):
                self.missing_label = line, place + 1
            if len(self.labels) == 2 and self.names is None and self._header == "auto":
                _refuse_doubtful_header(path, *self.labels)
            if len(numbers) >= entries:
                yield self._matrix(numbers, rows)
                numbers, rows = array("d"), 0
        yield self._matrix(numbers, rows)

    def _is_header(self, row: list[str]) -> bool:
        """Whether the first row holds names; also set the names and the position of the labels."""
        self.width = len(row)
        if self._header is True or (self._header == "auto" and not any(map(is_number, row))):
            self.names = [cell.strip() for cell in row]
        self.label_position = label_position(
            self._stream.name, self._label_column, self.names, self.width, self._n_features
        )
        return self.names is not None

    def _matrix(self, numbers: array[float], rows: int) -> NDArray[Any]:
        X = np.frombuffer(numbers, dtype=np.float64).astype(self._dtype, copy=False)
        return X.reshape(rows, -1 if rows else 0)


def _csv_rows(stream: InputStream) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with the number of its last line."""
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


def _check_cells(
    path: str,
    line: int,
    cells: list[str],
    label_position: int | None,
    names: list[str] | None,
    largest: float,
    labels_given: bool,
) -> None:
    """Raise an error for the first cell, other than the label, that is not a finite number."""
    for column, cell in enumerate(cells):
        if column == label_position or (is_number(cell) and abs(float(cell)) <= largest):
            continue
        name = f" of the column {names[column]!r}" if names is not None else ""
        limit = f" of at most {largest:.2g}" if is_number(cell) and math.isfinite(float(cell)) else ""
        hint = ""
        if cell.strip().lower() in MISSING:
            hint = " Leave out rows or columns with missing values, or fill them in, for example with SimpleImputer of"
            hint += " scikit-learn in Python."
        elif not is_number(cell):
            if not labels_given:
                where = names[column] if names is not None else "first" if column == 0 else column
                hint = f" If the labels are in this column, say label_column={where!r} (--label-column {where})."
            hint += " Leave out columns that are not features, such as the number of a customer, and encode other"
            hint += " text as numbers first, for example with OneHotEncoder of scikit-learn in Python."
        if line == 1:
            hint += " If the first line holds names, say header=True (--header)."
        raise FileFormatError(
            path,
            line,
            column + 1,
            f"the cell{name} holds {cell!r}; expected a finite number{limit}.{hint}",
        )


def _refuse_doubtful_header(path: str, first: str, second: str) -> None:
    """Refuse to guess about a header if the first line has numbers but its label, unlike the second one, is a word."""
    if is_number(second) and not (is_number(first) or is_missing(first)):
        raise FileFormatError(
            path,
            1,
            None,
            f"the label is {first!r}, but the label of the next row is {second!r}: if the first line holds names, give "
            "header=True (--header), otherwise header=False (--no-header)",
        )
