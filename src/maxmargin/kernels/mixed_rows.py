"""Rows packed for matrix products: common columns, which many rows use, as a dense matrix, rare ones as sparse rows.

Pixels at the border of a picture, or rare values of a category, are zero in nearly all rows. A product of dense
matrices spends as much time on such a column as on any other; in sparse rows, the column costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from maxmargin.core.memory import empty_in_file
from maxmargin.core.types import Indices, Vector
from maxmargin.kernels._blocks import sparse_products
from maxmargin.kernels.dense_products import entry_product

Floats = NDArray[Any]  # float32 or float64
Selection = Indices | slice
Samples = Any  # an array or a CSR matrix, whose types scipy does not publish

# Costs of a product of two rows; the unit is one column of a dense product.
SPARSE_ENTRY_COST = 3.0  # cost of one stored entry of a sparse row
PASS_COST = 25.0  # cost of a pass over the block of products; a dense and a sparse part take one each
RARE_SHARE = 0.2  # columns that are nonzero in less than this share of the rows are candidates for the sparse part
# A linear kernel is centred if the mean of the rows is farther from zero than this many times the distance of rows from
# the mean.
FAR_FROM_ZERO = 10.0
SAMPLED_ROWS = 1000  # rows from which the shares of nonzero entries and the mean are estimated


@dataclass(frozen=True)
class ColumnLayout:
    """Which columns of the data are packed as a dense matrix, and which as sparse rows.

    Parameters
    ----------
    common, rare : arrays of int
        The columns of the dense part, and those of the sparse part, in ascending order.
    centre : array or None
        The vector that is subtracted from the common columns of each row: rows around zero lose least to rounding.
    reproducible : bool
        Whether products of rows in float32 have the same bits in every block in which they are computed, even if that
        takes longer. Products in float64 always have. See :mod:`maxmargin.kernels.dense_products`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels.mixed_rows import ColumnLayout
    >>> X = np.hstack([np.ones((100, 60)), np.eye(100)])
    >>> ColumnLayout.of(X).common.size
    60
    """

    common: Indices
    rare: Indices
    centre: Floats | None = None
    reproducible: bool = False

    @classmethod
    def of(cls, X: Samples, centred: bool = False, *, reproducible: bool = False) -> ColumnLayout:
        """The cheapest layout for the columns of X, estimated from some of its rows."""
        return cls.for_rows_like(some_rows(X, SAMPLED_ROWS), centred, reproducible=reproducible)

    @classmethod
    def for_rows_like(cls, some: Samples, centred: bool, *, reproducible: bool) -> ColumnLayout:
        """The cheapest layout for a set of rows, of which `some` are given."""
        used = (
            np.bincount(some.indices, minlength=some.shape[1]) if sp.issparse(some) else np.count_nonzero(some, axis=0)
        )
        shares = used / some.shape[0]
        candidates = (shares < limit for limit in (0, RARE_SHARE, np.inf))  # candidates: none, the rare columns, all
        rare = min(candidates, key=lambda rare: _cost(shares, rare))
        common = np.flatnonzero(~rare)
        centre = None
        if centred:
            means = as_dense(_some_columns(some, common)).mean(axis=0, dtype=np.float64)
            centre = np.where(np.isfinite(means), means, 0.0).astype(some.dtype)
        return cls(common, np.flatnonzero(rare), centre, reproducible)

    @property
    def full_centre(self) -> Vector:
        """The number that is subtracted from each column; zero for rare columns."""
        centre = np.zeros(self.common.size + self.rare.size)
        if self.centre is not None:
            centre[self.common] = self.centre
        return centre

    def pack(self, X: Samples) -> MixedRows:
        """The rows of X in this layout."""
        common = as_dense(_some_columns(X, self.common))
        if self.centre is not None:
            common = common - self.centre
        return MixedRows(common, SparseRows.of(_some_columns(X, self.rare)), reproducible=self.reproducible)


@dataclass(frozen=True)
class MixedRows:
    """Rows in two parts: a dense matrix of common columns, and sparse rows of rare columns.

    Parameters
    ----------
    common : array of shape (n, columns)
        The dense part.
    rare : SparseRows
        The sparse part.
    extra : int
        The number of columns that a kernel has appended. They are the last ones of the dense part, or of the sparse
        part if there is no dense part.
    reproducible : bool
        See :class:`ColumnLayout`.
    """

    common: Floats
    rare: SparseRows
    extra: int = 0
    reproducible: bool = False

    @classmethod
    def stacked(cls, n: int, parts: Iterable[MixedRows], *, in_file: bool = False) -> MixedRows:
        """The n rows of all parts, which may come from a generator so that they need not be in memory together.

        The dense part is kept in memory, or in a temporary file.
        """
        common, rare, start = np.empty((0, 0)), [], 0
        for part in parts:
            if not start:
                common = (empty_in_file if in_file else np.empty)((n, part.common.shape[1]), part.dtype)
            common[start : start + len(part.common)] = part.common
            rare.append(part.rare)
            start += len(part.common)
        return cls(common, SparseRows.stacked(rare), part.extra, part.reproducible)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.common.dtype

    def __getitem__(self, which: Selection) -> MixedRows:
        return replace(self, common=self.common[which], rare=self.rare[which])

    def astype(self, dtype: DTypeLike) -> MixedRows:
        """The rows in another precision."""
        return replace(self, common=self.common.astype(dtype), rare=self.rare.astype(dtype))

    def scaled(self, factor: float) -> MixedRows:
        """The rows times a factor."""
        return replace(self, common=factor * self.common, rare=self.rare.scaled(factor))

    def with_columns(self, columns: Vector) -> MixedRows:
        """The rows with these columns appended."""
        if not columns.shape[1]:
            return self
        columns = columns.astype(self.dtype)
        if self.common.shape[1]:
            return replace(self, common=np.hstack([self.common, columns]), extra=columns.shape[1])
        return replace(self, rare=self.rare.with_columns(columns), extra=columns.shape[1])

    @property
    def without_extra(self) -> MixedRows:
        """The rows without the columns that a kernel has appended."""
        if not self.extra:
            return self
        width = self.common.shape[1] - self.extra
        if width >= 0:
            return replace(self, common=self.common[:, :width], extra=0)
        return replace(self, rare=self.rare.without_columns(self.extra), extra=0)

    @cached_property
    def sq_norms(self) -> Vector:
        """The squared norm of each row."""
        return np.asarray(np.einsum("ij,ij->i", self.common, self.common, dtype=np.float64) + self.rare.sq_norms())

    def products(self, left: MixedRows, out: Floats) -> None:
        """out <- the products of each row on the left with each of these rows."""
        dense = self.common.shape[1] > 0
        if dense:
            entry_product(left.common, self.common, out, reproducible=self.reproducible or self.dtype == np.float64)
        if self.rare.width or not dense:
            self.rare.products(left.rare, out, add=dense)


@dataclass(frozen=True)
class SparseRows:
    """Some rows of a CSR matrix, in types that compiled loops read; selecting other rows needs no copy.

    Parameters
    ----------
    data, indices, indptr : arrays
        The CSR matrix.
    width : int
        Its number of columns.
    selected : array of int
        The selected rows of the matrix, in this order.
    """

    data: Floats
    indices: NDArray[np.int32]
    indptr: Indices
    width: int
    selected: Indices

    @classmethod
    def of(cls, X: Samples) -> SparseRows:
        """All rows of X, a CSR matrix or a dense array."""
        if not sp.issparse(X):
            nonzero = X != 0
            where = np.flatnonzero(nonzero)
            indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(nonzero, axis=1))])
            indices = (where - np.repeat(np.arange(len(X)) * X.shape[1], np.diff(indptr))).astype(np.int32)
            return cls(X.ravel()[where], indices, indptr, X.shape[1], np.arange(len(X)))
        indices, indptr = (a.astype(kind, copy=False) for a, kind in ((X.indices, np.int32), (X.indptr, np.int64)))
        return cls(X.data, indices, indptr, X.shape[1], np.arange(X.shape[0]))

    @classmethod
    def stacked(cls, parts: list[SparseRows]) -> SparseRows:
        """The rows of all parts, one part after another."""
        parts = [part._compacted() for part in parts]
        sizes = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)])
        data, indices = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices"))
        return cls(data, indices, np.cumsum(sizes), parts[0].width, np.arange(len(sizes) - 1))

    def __getitem__(self, which: Selection) -> SparseRows:
        return replace(self, selected=self.selected[which])

    def astype(self, dtype: DTypeLike) -> SparseRows:
        """The rows in another precision."""
        rows = self._compacted()
        return replace(rows, data=rows.data.astype(dtype))

    def scaled(self, factor: float) -> SparseRows:
        """The rows times a factor."""
        rows = self._compacted()
        return replace(rows, data=factor * rows.data)

    def with_columns(self, columns: Floats) -> SparseRows:
        """The rows with these columns appended; all of their entries are stored."""
        rows, (n, extra) = self._compacted(), columns.shape
        ends = np.repeat(rows.indptr[1:], extra)
        indices = np.insert(rows.indices, ends, np.tile(np.arange(self.width, self.width + extra), n))
        indptr = rows.indptr + extra * np.arange(n + 1)
        return SparseRows(
            np.insert(rows.data, ends, columns.ravel()), indices, indptr, self.width + extra, rows.selected
        )

    def without_columns(self, extra: int) -> SparseRows:
        """The rows without the last `extra` columns, which `with_columns` has appended."""
        rows = self._compacted()
        kept, indptr = rows.indices < self.width - extra, rows.indptr - extra * np.arange(len(rows.indptr))
        return SparseRows(rows.data[kept], rows.indices[kept], indptr, self.width - extra, rows.selected)

    def sq_norms(self) -> Vector:
        """The squared norm of each row."""
        rows = self._compacted()
        row_of_entry = np.repeat(rows.selected, np.diff(rows.indptr))
        squares = np.square(rows.data, dtype=np.float64)
        return np.asarray(np.bincount(row_of_entry, squares, len(rows.selected)), np.float64)

    def products(self, left: SparseRows, out: Floats, add: bool) -> None:
        """out <- the products of each row on the left with each of these rows, or out += that."""
        x, z = ((rows.data, rows.indices, rows.indptr, np.ascontiguousarray(rows.selected)) for rows in (left, self))
        sparse_products(*x, *z, self.width, add, out)

    def _compacted(self) -> SparseRows:
        """The selected rows as a new matrix, in the order of the selection."""
        starts = self.indptr[self.selected]
        sizes = self.indptr[self.selected + 1] - starts
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        which = np.repeat(starts - indptr[:-1], sizes) + np.arange(indptr[-1])
        return SparseRows(self.data[which], self.indices[which], indptr, self.width, np.arange(len(sizes)))


def far_from_zero(X: Samples) -> bool:
    """Whether products of dense rows lose digits that products of differences from the mean would keep."""
    some = some_rows(X, SAMPLED_ROWS).astype(np.float64)
    mean = some.mean(axis=0)
    return bool(mean @ mean > FAR_FROM_ZERO**2 * float(np.square(some - mean).sum(axis=1).mean()))


def some_rows(X: Samples, count: int) -> Samples:
    """Evenly spaced rows of the data, from which properties of all rows are estimated."""
    return X[np.unique(np.linspace(0, X.shape[0] - 1, count).astype(np.int64))]


def _cost(shares: Vector, rare: NDArray[np.bool_]) -> float:
    """The cost of a product of two rows if the `rare` columns are sparse; unit: one column of a dense product."""
    dense, sparse = np.count_nonzero(~rare), SPARSE_ENTRY_COST * float(shares[rare].sum())
    return (PASS_COST + dense if dense else 0.0) + (PASS_COST + sparse if rare.any() else 0.0)


def _some_columns(X: Samples, columns: Indices) -> Samples:
    """Some columns of a matrix, given in ascending order; no copy is made if these are all columns."""
    if columns.size == X.shape[1]:
        return X
    return X[:, columns] if sp.issparse(X) else np.take(X, columns, axis=1)


def as_dense(X: Samples) -> Floats:
    """X as a dense array."""
    return np.asarray(X.toarray() if sp.issparse(X) else X)
