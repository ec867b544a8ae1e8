"""The matrix, its second copy by columns, and the labels in a Zarr or HDF5 group.

A group holds

- the matrix `X`: a dense array or the group of a sparse matrix (see :mod:`maxmargin.data.stores.compressed`); if
  nothing has this name, the only matrix in the group;
- optionally, a second copy `X_by_column`: for a dense matrix, an array of the same shape with high and narrow chunks;
  for a CSR matrix, a CSC matrix;
- optionally, the labels: `y` or `labels`.

This applies to groups of h5py and of Zarr, whose mappings have the same methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.data.stores.arrays import StoredArray, check_axes, read_entries
from maxmargin.data.stores.blocks import BlockSize, StoredMatrix, dense_matrix
from maxmargin.data.stores.compressed import CompressedArrays, sparse_matrix
from maxmargin.data.streams import FileFormatError

MATRIX = "X"
BY_COLUMN = "X_by_column"
LABELS = ("y", "labels")


def open_matrix(node: Any, name: str, wrap: Callable[[Any], StoredArray], size: BlockSize) -> StoredMatrix:
    """Open the matrix of an array or a group; `wrap` makes a StoredArray from an array of this kind of store."""
    second = None
    if is_matrix(node):
        matrix = node
    else:
        matrix = node[_matrix_in(node, name)]
        second = node.get(BY_COLUMN)
    if second is not None and is_array(matrix) != is_array(second):
        raise FileFormatError(name, None, None, f"{MATRIX} and {BY_COLUMN} must both be dense or both be sparse")
    if is_array(matrix):
        by_column = None if second is None else wrap(second)
        source = dense_matrix(wrap(matrix), size, by_column)
        shape = source.shape if by_column is None else by_column.shape
    else:
        other_way = None if second is None else CompressedArrays(f"{name}, {BY_COLUMN}", second, wrap)
        source = sparse_matrix(CompressedArrays(name, matrix, wrap), size, other_way)
        shape = source.shape if other_way is None else other_way.shape
    if shape != source.shape:
        raise FileFormatError(name, None, None, f"{MATRIX} has the shape {source.shape}, {BY_COLUMN} {shape}")
    return source


def read_labels(group: Any, key: str, wrap: Callable[[Any], StoredArray]) -> NDArray[Any]:
    """Read an array of labels, or a categorical column in AnnData's layout: a group of `codes` and `categories`."""
    node = group[key]
    if not is_array(node):
        codes, categories = (read_labels(node, part, wrap) for part in ("codes", "categories"))
        if (codes < 0).any():
            raise FileFormatError(key, None, None, f"the label of row {int(np.argmax(codes < 0))} is missing")
        labels: NDArray[Any] = categories[codes]
        return labels
    array = wrap(node)
    check_axes(array.name, array.shape, 1)
    labels = read_entries(array, slice(0, array.shape[0]))
    if labels.dtype.kind in "OT":  # strings of any length; h5py returns bytes
        return np.array([label.decode() if isinstance(label, bytes) else str(label) for label in labels.tolist()])
    return labels


def label_key(group: Any) -> str | None:
    """Return the name of the labels in a group; None if there are none."""
    return next((key for key in LABELS if key in group), None)


def is_array(node: Any) -> bool:
    """Whether this is an array and not a group of arrays."""
    return hasattr(node, "shape")


def is_matrix(node: Any) -> bool:
    """Whether this is an array or the group of a sparse matrix, and not a group that may hold several."""
    return is_array(node) or _is_compressed(node)


def _is_compressed(group: Any) -> bool:
    return all(key in group for key in ("data", "indices", "indptr"))


def _matrix_in(group: Any, name: str) -> str:
    if MATRIX in group:
        return MATRIX
    nodes = {key: group[key] for key in group if key != BY_COLUMN}
    matrices: list[str] = [
        key for key, node in nodes.items() if (len(node.shape) == 2 if is_array(node) else _is_compressed(node))
    ]
    if len(matrices) != 1:
        raise FileFormatError(
            name,
            None,
            None,
            f"expected a matrix named {MATRIX}, or only one matrix; it holds {', '.join(nodes) or 'nothing'}. Name the "
            f"matrix: {name.split('::')[0]}::/path/to/it",
        )
    return matrices[0]
