"""The matrices of a semidefinite program, with one interface to dense arrays, sparse matrices and entry functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from maxmargin.core import Ledger, Matrix
from maxmargin.core.matrix import as_matrix
from maxmargin.core.types import Vector

Square = NDArray[np.float64]  # a matrix of n rows and n columns

ENTRIES_AT_ONCE = 1 << 22  # maximum number of entries of a block in which matrices are read
ASYMMETRY_UNITS = 100  # mirrored entries may differ by this many units in the last place of the largest entry


def as_symmetric_matrices(A: Any) -> SymmetricMatrices:
    """Wrap the matrices of a semidefinite program for reading. Arrays and CSR matrices are not copied.

    Parameters
    ----------
    A : array of shape (m, n, n), sequence of m matrices, sparse matrix of shape (m, n * n), or SymmetricMatrices
        The m symmetric matrices of n rows. A sequence may contain arrays and sparse matrices. Row i of a sparse matrix
        of shape (m, n * n) holds matrix i, row after row. SymmetricMatrices are returned unchanged, with their ledger.

    Returns
    -------
    SymmetricMatrices
        The matrices, which were checked to be symmetric and finite. The ledger counts the reads of this check under
        "validation".

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import as_symmetric_matrices
    >>> A = as_symmetric_matrices(np.array([[[1.0, 2.0], [2.0, 0.0]], [[0.0, 0.0], [0.0, 3.0]]]))
    >>> A.shape
    (2, 2, 2)
    >>> A.products(np.eye(2))
    array([1., 3.])
    """
    if isinstance(A, SymmetricMatrices):
        return A
    if sp.issparse(A):
        n = math.isqrt(A.shape[-1])
        if A.ndim != 2 or n * n != A.shape[-1]:
            raise ValueError(
                f"expected a sparse matrix of shape (m, n * n) with one matrix in each row; got shape {A.shape}. Give "
                "a single sparse matrix of n rows as a list: [A]"
            )
        return _checked(A.tocsr(), n)
    if not isinstance(A, np.ndarray):
        if not isinstance(A, Sequence) or isinstance(A, str):
            raise TypeError(f"expected an array, a sequence of matrices or a sparse matrix; got {type(A).__name__}")
        _refuse_mixed_shapes(A)
        if any(sp.issparse(one) for one in A):
            return _checked(_stacked(A), A[0].shape[0])
        A = np.asarray(A)
    if A.ndim != 3 or A.shape[1] != A.shape[2]:
        raise ValueError(
            f"expected m matrices of n rows and n columns, an array of shape (m, n, n); got shape {A.shape}"
            + (". Give a single matrix as A[None]" if A.ndim == 2 else "")
        )
    return _checked(A.reshape(len(A), A.shape[1] * A.shape[2]), A.shape[1])


class SymmetricMatrices:
    r"""The m symmetric matrices :math:`A_i` of n rows, which can be read by entry, by matrix, or all together.

    Use :func:`as_symmetric_matrices` to make them, or :meth:`by_entry` to make them from a function.

    Attributes
    ----------
    shape : tuple of three ints
        (m, n, n).
    ledger : Ledger
        The count of entries read; for sparse matrices, of stored entries.
    is_stored : bool
        Whether the matrices are stored, and so were checked at once; False for an entry function.
    most_per_entry, most_per_matrix : int
        The maximum number of entries read for one entry of every matrix, and for one matrix.
    """

    def __init__(self, rows: Matrix | _EntryFunction, n: int, most_per_entry: int, most_per_matrix: int) -> None:
        self.shape = (rows.shape[0], n, n)
        self.most_per_entry, self.most_per_matrix = most_per_entry, most_per_matrix
        self.is_stored = isinstance(rows, Matrix)
        self._rows = rows

    @classmethod
    def by_entry(cls, m: int, n: int, entry: Callable[[Any, Any, Any], ArrayLike]) -> SymmetricMatrices:
        """Make matrices that are not stored, whose entries a function computes.

        Parameters
        ----------
        m, n : int
            The number of matrices, and the number of rows of each.
        entry : callable
            ``entry(i, j, l)`` returns entry (j, l) of matrix i. Each argument is an integer or an array of integers;
            the shapes broadcast to the shape of the result, as in NumPy's indexing. A matrix is checked to be symmetric
            and finite when all of it is read.

        Returns
        -------
        SymmetricMatrices
            The matrices.

        Examples
        --------
        >>> import numpy as np
        >>> from maxmargin.data import SymmetricMatrices
        >>> A = SymmetricMatrices.by_entry(3, 2, lambda i, j, l: (i + 1.0) * (j == l))
        >>> A.entries(1, 1), A.ledger.entries_read
        (array([1., 2., 3.]), 3)
        """
        if not (m >= 1 and n >= 1):
            raise ValueError(f"expected at least one matrix of at least one row; got m={m!r}, n={n!r}")
        return cls(_EntryFunction(m, n, entry), n, m, n * n)

    @property
    def ledger(self) -> Ledger:
        return self._rows.ledger

    def signature(self) -> dict[str, Any]:
        """Return what distinguishes these matrices from others, see `maxmargin.engine.signature`."""
        return self._rows.signature()

    def kept(self) -> dict[str, Any]:
        """Return the state of the rows, for a checkpoint."""
        return self._rows.kept()

    def take(self, kept: Mapping[str, Any]) -> None:
        """Restore what :meth:`kept` returned, to continue from a checkpoint."""
        self._rows.take(kept)

    def entries(self, j: int, l: int) -> Vector:
        """Return entry (j, l) of every matrix.

        Parameters
        ----------
        j, l : int
            The row and the column.

        Returns
        -------
        array of shape (m,)
            The entries.
        """
        m, n, _ = self.shape
        where, values = self._rows.column(j * n + l)
        if values.size == m:
            return values
        out = np.zeros(m)
        out[where] = values
        return out

    def matrix(self, i: int) -> Square:
        """Return matrix i as a new dense array.

        Parameters
        ----------
        i : int
            The number of the matrix.

        Returns
        -------
        array of shape (n, n)
            The matrix.
        """
        n = self.shape[1]
        where, values = self._rows.row(i)
        if values.size == n * n:
            return values.reshape(n, n)
        out = np.zeros(n * n)
        out[where] = values
        return out.reshape(n, n)

    def products(self, X: ArrayLike | None = None, *, factor: ArrayLike | None = None) -> Vector:
        r"""Compute :math:`A_i \bullet X = \sum_{jl} A_i(j, l) X(j, l)` for every i.

        Parameters
        ----------
        X : array of shape (n, n) or None, default=None
            The matrix X. Give either X or its factor.
        factor : array of shape (n, r) or None, default=None
            A matrix V such that X = V V'.

        Returns
        -------
        array of shape (m,)
            The products.
        """
        n = self.shape[1]
        if (X is None) == (factor is None):
            raise ValueError("give either X or its factor")
        if factor is not None:
            V = np.asarray(factor, dtype=np.float64)
            if V.ndim != 2 or V.shape[0] != n:
                raise ValueError(f"factor has shape {V.shape}; expected ({n}, r)")
            X = V @ V.T
        whole = np.asarray(X, dtype=np.float64)
        if whole.shape != (n, n):
            raise ValueError(f"X has shape {whole.shape}; expected ({n}, {n})")
        return self._rows.dot(whole.ravel())

    def combination(self, p: ArrayLike) -> Square:
        r"""Compute :math:`\sum_i p_i A_i`. A matrix of weight 0 is not read.

        Parameters
        ----------
        p : array of shape (m,)
            The weights.

        Returns
        -------
        array of shape (n, n)
            The weighted sum.
        """
        weights = np.asarray(p, dtype=np.float64)
        if weights.shape != self.shape[:1]:
            raise ValueError(f"p has shape {weights.shape}; expected ({self.shape[0]},), one weight for each matrix")
        return self._rows.dot_transposed(weights).reshape(self.shape[1:])

    def frobenius(self) -> Vector:
        r"""Compute the Frobenius norm :math:`\sqrt{\sum_{jl} A_i(j, l)^2}` of every matrix.

        Returns
        -------
        array of shape (m,)
            The norms.
        """
        return np.sqrt(self._rows.row_sq_norms())


class _EntryFunction:
    """An entry function with the methods of a Matrix of m rows and n * n columns that SymmetricMatrices needs."""

    def __init__(self, m: int, n: int, entry: Callable[[Any, Any, Any], ArrayLike]) -> None:
        self.shape, self.n, self.entry, self.ledger = (m, n * n), n, entry, Ledger()

    def signature(self) -> dict[str, Any]:
        return {"entry": self.entry}

    def kept(self) -> dict[str, Any]:
        return {}

    def take(self, kept: Mapping[str, Any]) -> None:
        """Do nothing, because a function has no state."""

    def column(self, k: int) -> tuple[NDArray[np.int64], Vector]:
        i = np.arange(self.shape[0])
        return i, self._read(i, *divmod(k, self.n))

    def row(self, i: int) -> tuple[NDArray[np.int64], Vector]:
        return np.arange(self.shape[1]), self._matrices(np.array([i]))[0]

    def dot(self, w: Vector) -> Vector:
        return np.concatenate([block @ w for _, block in self._blocks(np.arange(self.shape[0]))])

    def dot_transposed(self, p: Vector) -> Vector:
        total = np.zeros(self.shape[1])
        for i, block in self._blocks(np.flatnonzero(p)):
            total += block.T @ p[i]
        return total

    def row_sq_norms(self) -> Vector:
        return np.concatenate([(block**2).sum(axis=1) for _, block in self._blocks(np.arange(self.shape[0]))])

    def _blocks(self, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Vector]]:
        for i in _row_blocks(rows, self.shape[1]):
            yield i, self._matrices(i)

    def _matrices(self, i: NDArray[np.int64]) -> Vector:
        """Compute whole matrices, one in each row."""
        j, l = np.divmod(np.arange(self.shape[1]), self.n)
        rows = self._read(i[:, None], j, l)
        _refuse_asymmetric(rows, self.n, i)
        return rows

    def _read(self, i: Any, j: Any, l: Any) -> Vector:
        shape = np.broadcast(i, j, l).shape
        entries = np.asarray(self.entry(i, j, l), dtype=np.float64)
        try:
            values = np.array(np.broadcast_to(entries, shape))
        except ValueError:
            raise ValueError(
                f"entry(i, j, l) returned an array of shape {entries.shape} for indices of shape {shape}; expected one "
                "number for each index"
            ) from None
        self.ledger.count(values.size)
        if not np.isfinite(values).all():
            k = int(np.argmin(np.isfinite(values).ravel()))
            i, j, l = (int(np.broadcast_to(index, shape).ravel()[k]) for index in (i, j, l))
            raise ValueError(f"entry({i}, {j}, {l}) returned {values.ravel()[k]}; every entry must be finite")
        return values


def _checked(rows: Any, n: int) -> SymmetricMatrices:
    """Wrap the matrices in the rows of an array or CSR matrix after checking that they are symmetric and finite."""
    m = rows.shape[0]
    if m == 0 or n == 0:
        raise ValueError(f"expected at least one matrix of at least one row; got {m} of {n} rows")
    if np.iscomplexobj(rows):
        raise TypeError(f"expected real symmetric matrices; got complex numbers, {rows.dtype}")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    read = as_matrix(rows)
    with read.ledger.on("validation"):
        if sp.issparse(rows):
            _refuse_asymmetric_sparse(rows, n)
            most_read = int(np.bincount(rows.indices, minlength=1).max()), int(np.diff(rows.indptr).max())
        else:
            for i in _row_blocks(np.arange(m), n * n):
                _refuse_asymmetric(rows[i[0] : i[-1] + 1], n, i)
            most_read = m, n * n
        read.ledger.count(read.n_stored)
    return SymmetricMatrices(read, n, *most_read)


def _row_blocks(rows: NDArray[np.int64], width: int) -> Iterator[NDArray[np.int64]]:
    """Yield blocks of rows with at most ENTRIES_AT_ONCE entries."""
    size = max(1, ENTRIES_AT_ONCE // width)
    for first in range(0, rows.size, size):
        yield rows[first : first + size]


def _refuse_asymmetric(rows: NDArray[Any], n: int, numbers: NDArray[np.int64]) -> None:
    matrices = rows.reshape(-1, n, n)
    if not np.isfinite(matrices).all():
        _refuse_not_finite(np.argwhere(~np.isfinite(matrices))[0], numbers)
    wrong = np.abs(matrices - matrices.transpose(0, 2, 1)) > _rounding(rows)
    if wrong.any():
        k, j, l = np.argwhere(wrong)[0]
        _refuse(numbers[k], j, l, matrices[k, j, l], matrices[k, l, j])


def _refuse_asymmetric_sparse(rows: Any, n: int) -> None:
    if not np.isfinite(rows.data).all():
        k = int(np.argmin(np.isfinite(rows.data)))
        i = int(np.searchsorted(rows.indptr, k, side="right")) - 1
        _refuse_not_finite((0, *divmod(int(rows.indices[k]), n)), np.array([i]))
    j, l = np.divmod(rows.indices, n)
    mirrored = sp.csr_matrix((rows.data, l * n + j, rows.indptr), shape=rows.shape)
    difference = (rows - mirrored).tocoo()
    wrong = np.flatnonzero(np.abs(difference.data) > _rounding(rows.data))
    if wrong.size:
        i, k = int(difference.row[wrong[0]]), int(difference.col[wrong[0]])
        row = rows[[i]].toarray().reshape(n, n)
        j, l = divmod(k, n)
        _refuse(i, j, l, row[j, l], row[l, j])


def _rounding(values: NDArray[Any]) -> float:
    return float(ASYMMETRY_UNITS * np.finfo(values.dtype).eps * np.abs(values).max(initial=0.0))


def _refuse_not_finite(place: Any, numbers: NDArray[np.int64]) -> None:
    k, j, l = (int(index) for index in place)
    raise ValueError(f"matrix {numbers[k]} has a NaN or an infinite entry at ({j}, {l}); every entry must be finite")


def _refuse(i: int, j: int, l: int, here: float, there: float) -> None:
    raise ValueError(
        f"matrix {i} is not symmetric: entry ({j}, {l}) is {here:.6g}, but ({l}, {j}) is {there:.6g}. "
        "Give (A + A.T) / 2, which has the same product with every symmetric X"
    )


def _refuse_mixed_shapes(A: Sequence[Any]) -> None:
    if len(A) == 0:
        raise ValueError("expected at least one matrix; got an empty sequence")
    shapes = [np.shape(one) for one in A]
    for i, shape in enumerate(shapes):
        if len(shape) != 2 or shape[0] != shape[1] or shape != shapes[0]:
            raise ValueError(
                f"expected square matrices of one shape; matrix 0 has shape {shapes[0]}, matrix {i} has shape {shape}"
            )


def _stacked(A: Sequence[Any]) -> Any:
    """Stack a sequence of matrices, some of which are sparse, as the rows of one CSR matrix."""
    n = A[0].shape[0]
    parts = [sp.coo_matrix(one) for one in A]
    row = np.repeat(np.arange(len(parts)), [part.nnz for part in parts])
    column = np.concatenate([part.row.astype(np.int64) * n + part.col for part in parts])
    values = np.concatenate([part.data for part in parts]).astype(np.float64)
    return sp.csr_matrix((values, (row, column)), shape=(len(parts), n * n))
