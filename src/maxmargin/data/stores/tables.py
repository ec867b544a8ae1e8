"""Stores with labels: the labels are read, but the matrix is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from maxmargin.core.source import Source
from maxmargin.data.stores import INSIDE, Kind, array_reader, node_in, open_node, open_root, split_inside, store_kind
from maxmargin.data.stores.arrays import AbsentChunks
from maxmargin.data.stores.blocks import BlockSize
from maxmargin.data.stores.columns import read_column, table_matrix
from maxmargin.data.stores.groups import is_array, is_matrix, label_key, open_matrix, read_labels
from maxmargin.data.streams import FileFormatError
from maxmargin.data.table import Table, column_in_words, label_position


def load_from_store(
    path: str | os.PathLike[str],
    kind: Kind,
    *,
    size: BlockSize,
    absent_chunks: AbsentChunks,
    label_column: str | int | None,
    labels: str | os.PathLike[str] | None,
    n_features: int | None,
    read_file: Callable[[str | os.PathLike[str]], NDArray[Any]],
) -> Table:
    """Open the matrix of a store as a Source, and read its labels, if there are any.

    Parameters are those of :func:`maxmargin.data.read_table`. `size` gives the limits of block sizes, and `read_file`
    reads labels from a file that is not a store.
    """
    if kind in ("parquet", "arrow"):
        parts = open_node(path, kind)
        names: list[str] = parts.schema.names
        place = None if labels is not None else label_position(parts.name, label_column, names, len(names), n_features)
        features = [name for k, name in enumerate(names) if k != place]
        X: Source = table_matrix(parts, size, features)
        if place is not None:
            return Table(X, read_column(parts, names[place]), column_in_words(place, names, len(names)), features)
        return _checked(Table(X, None if labels is None else _labels_elsewhere(labels, read_file), "", features))
    root = open_root(path, kind)
    _, inside = split_inside(path)
    node = node_in(root, path, inside)
    wrap = array_reader(kind, absent_chunks)
    X = open_matrix(node, os.fspath(path), wrap, size)
    # The labels are next to the matrix: in the given group, or in the group of the given array.
    parent = inside.strip("/").rpartition("/")[0]
    group = node_in(root, path, parent) if is_matrix(node) else node
    if labels is None:
        key = None if is_array(group) else label_key(group)
        y = None if key is None else read_labels(group, key, wrap)
    else:
        place_in_store = os.fspath(labels).strip("/")
        holders = [holder for holder in (group, root) if not is_array(holder) and place_in_store in holder]
        y = read_labels(holders[0], place_in_store, wrap) if holders else _labels_elsewhere(labels, read_file)
    return _checked(Table(X, y))


def _labels_elsewhere(
    labels: str | os.PathLike[str], read_file: Callable[[str | os.PathLike[str]], NDArray[Any]]
) -> NDArray[Any]:
    """Read labels from another store, such as `file.h5::/y`, or from a file."""
    where, inside = split_inside(labels)
    kind = store_kind(where)
    if kind in ("zarr", "hdf5"):
        root = open_root(where, kind)
        return read_labels({INSIDE: node_in(root, where, inside)}, INSIDE, array_reader(kind, "error"))
    return read_file(labels)


def _checked(table: Table) -> Table:
    if table.y is not None and table.y.shape != table.X.shape[:1]:
        message = f"{table.X.shape[0]} rows, but labels of shape {table.y.shape}"
        raise FileFormatError(table.X.name, None, None, message)
    return table
