"""Rows with their labels, as readers return them, and the position of the labels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.data.streams import FileFormatError


@dataclass(frozen=True)
class Table:
    """The rows of a file, and their labels.

    Attributes
    ----------
    X : array, memory map, CSR array or Source of shape (n, d)
        The rows. The rows of a store are a :class:`maxmargin.core.source.Source`, which is read block by block.
    y : array of shape (n,) or None
        The labels; None if the file has none.
    labels_in : str
        The column that held the labels, in words; empty if they were not in a column.
    names : list of str or None
        The names of the features, if they have names.
    missing_label : tuple of int or None
        The line and the cell of the first missing label in a CSV file; None if no label is missing.
    """

    X: Any
    y: NDArray[Any] | None
    labels_in: str = ""
    names: list[str] | None = None
    missing_label: tuple[int, int] | None = None


def required_labels(path: str | os.PathLike[str], table: Table) -> NDArray[Any]:
    """Return the labels of a table, and raise an error if there are none, or if a row has none.

    Parameters
    ----------
    path : str or path
        The file, for the error.
    table : Table
        What was read from it.

    Returns
    -------
    array of shape (n,)
        The labels.

    Raises
    ------
    FileFormatError
        If there are no labels, or a label is missing.
    """
    refuse_missing_label(path, table.missing_label)
    if table.y is None:
        raise FileFormatError(
            path,
            None,
            None,
            f"{table.X.shape[1]} features and no labels. Give labels in an additional column; for an .npz file, Zarr "
            "or HDF5 as the array y; or in a separate file with labels=... (--labels)",
        )
    return table.y


def refuse_missing_label(path: str | os.PathLike[str], place: tuple[int, int] | None) -> None:
    """Raise an error if a label is missing, at this line and cell."""
    if place is not None:
        raise FileFormatError(
            path,
            *place,
            "the label is missing. Give each row a label, or leave out the rows without one. If the labels are in "
            "another column, say which with label_column=... (--label-column)",
        )


def label_position(
    path: str, label_column: str | int | None, names: list[str] | None, width: int, n_features: int | None
) -> int | None:
    """Return the position of the label column; None if all columns are features."""
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


def column_in_words(position: int, names: list[str] | None, width: int) -> str:
    name = f", named {names[position]!r}" if names is not None else ""
    ends = {0: "the first", width - 1: "the last"}
    return f"{ends.get(position, f'number {position + 1}')} of {width} columns{name}"


def is_missing(cell: str) -> bool:
    """Whether a cell is empty, or "nan" as programs write a missing value.

    >>> is_missing(" "), is_missing("NaN"), is_missing("0")
    (True, True, False)
    """
    return cell.strip().lower() in ("", "nan")


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def numbers_or_strings(labels: list[str]) -> NDArray[Any]:
    """Convert labels to numbers if all of them are numbers; otherwise keep strings."""
    if all(map(is_number, labels)):
        return np.array(labels, dtype=np.float64)
    return np.array([label.strip() for label in labels])
