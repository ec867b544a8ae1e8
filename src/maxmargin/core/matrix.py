"""Wraps arrays, sparse matrices and sources as a Matrix, after checking that they can be read."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp

from maxmargin.core import Matrix
from maxmargin.core._matrix import not_finite_at
from maxmargin.core.memory import empty_in_file
from maxmargin.core.source import is_source
from maxmargin.core.types import Rows


def as_matrix(X: object, threads: int = 1) -> Matrix:
    """Wrap an array, a sparse matrix or a Source; see :func:`maxmargin.data.as_matrix`, which opens stores too."""
    if isinstance(X, Matrix):
        return X
    if threads < 1:
        raise ValueError(f"threads must be a whole number of at least 1; got {threads!r}")
    if is_source(X):
        return Matrix(X, threads)
    if sp.issparse(X):
        return Matrix(_readable_sparse(X), threads)
    if not isinstance(X, np.ndarray) or isinstance(X, np.ma.MaskedArray):
        raise TypeError(
            f"expected a NumPy array, a CSR or a CSC matrix; got {type(X).__name__}. Convert it with np.asarray(X), or "
            "open a store with maxmargin.data.as_matrix(X)."
        )
    if X.ndim != 2:
        raise ValueError(f"expected a matrix of shape (n, d); got an array of shape {X.shape}")
    _check_dtype(X.dtype)
    if any(stride % X.itemsize for stride in X.strides) or not X.flags.aligned:
        raise ValueError(
            "the array's rows do not start at whole items (a view into a structured array?). "
            "Copy it with np.ascontiguousarray(X)."
        )
    return Matrix(X, threads)


def as_rows(X: object, threads: int = 1) -> Rows:
    """The rows that a problem reads: X itself if it has rows already, e.g. of a kernel; else :func:`as_matrix` of X."""
    return X if _are_rows(X) else as_matrix(X, threads)


def _are_rows(X: object) -> TypeGuard[Rows]:
    return hasattr(X, "dot_transposed")


def rows_at_hand(X: Matrix, most_bytes: float) -> Any:
    """All rows, for algorithms that ask for any of them at any time: an array or a CSR matrix.

    Dense rows of more than `most_bytes` are copied into a temporary file, which is memory-mapped.
    """
    n, d = X.shape
    if X.sparse or n * d * X.dtype.itemsize <= most_bytes:
        return X[:]
    rows = empty_in_file((n, d), X.dtype)
    for first, block in X.blocks():
        rows[first : first + len(block)] = block
    return rows


def refuse_not_finite(X: Matrix, first_row: int = 0) -> None:
    """Raise a ValueError that names the place if an entry is NaN or infinite; the ledger counts it as "validation".

    Row 0 of X is row `first_row` of a larger matrix, whose row numbers the message uses.
    """
    with X.ledger.on("validation"):
        place = X.first_not_finite()
    if place is not None:
        raise not_finite_at(first_row + place[0], place[1], X.entry(*place))


def _readable_sparse(X: Any) -> Any:
    if X.format not in ("csr", "csc"):
        raise TypeError(
            f"expected CSR or CSC; got a sparse matrix in {X.format.upper()} format. Convert it with X.tocsr()."
        )
    if X.ndim != 2:
        raise ValueError(f"expected a matrix of shape (n, d); got a sparse array of shape {X.shape}")
    _check_dtype(X.dtype)
    if X.indices.dtype != X.indptr.dtype or X.indices.dtype not in (np.int32, np.int64):
        raise TypeError(
            f"expected int32 or int64 indices and indptr of one type; got {X.indices.dtype} and {X.indptr.dtype}"
        )
    _check_structure(X)
    if _has_duplicates(X):
        X = X.copy()
        X.sum_duplicates()
    return X


def _check_structure(X: Any) -> None:
    """Refuse arrays whose indices point outside of the matrix, which SciPy accepts: reading them would be unsafe."""
    for name in ("data", "indices", "indptr"):
        flags = getattr(X, name).flags
        if not (flags.c_contiguous and flags.aligned):
            raise ValueError(
                f"the array X.{name} is not contiguous and aligned (a view?). Copy the matrix with X.copy()."
            )
    lines, width = X.shape if X.format == "csr" else X.shape[::-1]
    ends, stored = X.indptr, min(len(X.data), len(X.indices))
    where = X.indices[: ends[-1]]
    if len(ends) != lines + 1 or ends[0] != 0 or ends[-1] > stored or (ends[1:] < ends[:-1]).any():
        raise ValueError(f"X.indptr does not divide {stored} stored entries among {lines} lines; build the matrix anew")
    if len(where) and not (where.min() >= 0 and where.max() < width):
        raise ValueError(f"X.indices holds {where.min()} to {where.max()}, but must lie in 0 to {width - 1}")


def _has_duplicates(X: Any) -> bool:
    """Whether an entry is stored more than once."""
    if X.has_canonical_format:
        return False
    # Only a copy of the structure is sorted, so that the caller's matrix does not change and values are not copied.
    structure = type(X)((np.empty(X.indices.shape[0], dtype=np.int8), X.indices.copy(), X.indptr), shape=X.shape)
    structure.sort_indices()
    return not structure.has_canonical_format


def _check_dtype(dtype: np.dtype[Any]) -> None:
    if dtype not in (np.float32, np.float64) or not dtype.isnative:
        raise TypeError(
            f"expected float32 or float64 in native byte order; got {dtype}. "
            "Convert it with X.astype(np.float32) or X.astype(np.float64)."
        )
