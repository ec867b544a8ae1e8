"""Wrapping of arrays, sparse matrices and stores as a Matrix; stores are opened first."""

from __future__ import annotations

from maxmargin.core import Matrix
from maxmargin.core.matrix import as_matrix as wrapped
from maxmargin.data.stores import DEFAULT_CACHE_SIZE, is_store, open_store


def as_matrix(X: object, threads: int = 1, *, cache_size: int = DEFAULT_CACHE_SIZE) -> Matrix:
    """Wrap an array, a sparse matrix or a store for reading, without copying, converting or loading it.

    Parameters
    ----------
    X : array, np.memmap, CSR or CSC matrix of shape (n, d), store, Source or Matrix
        The data. Dense arrays may have any strides (C order, Fortran order, views). Values are float32 or float64, and
        sparse indices are int32 or int64. A store is an object that :func:`maxmargin.data.open_store` accepts, such as
        a `zarr.Array` or an `h5py.Dataset`; for a path, give what `open_store` returns. A Matrix is returned unchanged,
        with its ledger.
    threads : int, default=1
        The number of threads that may read X at the same time, in products with all rows and in some solvers.
    cache_size : int, default=2**30
        The maximum number of bytes of a store that are kept in memory.

    Returns
    -------
    Matrix
        Access to rows, columns, entries and products of X, with a ledger of what was read.

    Notes
    -----
    A sparse matrix with duplicate entries is copied, and its duplicates are summed.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import as_matrix
    >>> X = as_matrix(np.array([[1.0, 0.0], [2.0, 3.0]]))
    >>> X.dot([1.0, 1.0])
    array([1., 5.])
    >>> X.ledger.entries_read
    4
    """
    return wrapped(open_store(X, cache_size=cache_size) if is_store(X) else X, threads)
