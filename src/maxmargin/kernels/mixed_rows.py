"""Rows laid down for products: columns that many rows use in a dense matrix, those that few use sparse.

Pixels at the border of a picture, or rare values of a category, are zero in nearly all rows. A product of dense
matrices spends as much on such a column as on any other; as sparse rows it costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.kernels._blocks import sparse_products

Vector = NDArray[np.float64]
Numbers = NDArray[np.int64]
Floats = NDArray[Any]  # float32 or float64

# In columns of a product of dense matrices:
ENTRY = 3.0  # what an entry of a sparse row costs,
PASS = 25.0  # and another pass over the products
RARE = 0.2  # the share of rows below which a column is rare
FAR = 10.0  # how many times farther the mean is from zero than rows are from it where a linear kernel is centred
PROBED = 1000  # rows by which the shares are told


@dataclass(frozen=True)
class Columns:
    """Which columns many rows use, and which ones few do.

    Parameters
    ----------
    common, rare : arrays of int
        The one and the other.
    centre : array or None
        What is taken from the common columns of each row: rows around zero lose least to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels.mixed_rows import Columns
    >>> X = np.hstack([np.ones((100, 60)), np.eye(100)])
    >>> Columns.of(X).common.size
    60
    """

    common: Numbers
    rare: Numbers
    centre: Floats | None = None

    @classmethod
    def of(cls, X: Any, centred: bool = False) -> Columns:
        """The columns of X, by some of its rows; with a centre where one is wanted."""
        some = _a_few(X)
        used = np.bincount(some.indices, minlength=X.shape[1]) if sp.issparse(some) else np.count_nonzero(some, axis=0)
        shares = used / some.shape[0]
        rare = min((shares < limit for limit in (0, RARE, np.inf)), key=lambda rare: _cost(shares, rare))
        common = np.flatnonzero(~rare)
        centre = None
        if centred:
            means = _dense(_some_columns(some, common)).mean(axis=0, dtype=np.float64)
            centre = np.where(np.isfinite(means), means, 0.0).astype(X.dtype)
        return cls(common, np.flatnonzero(rare), centre)

    @property
    def whole_centre(self) -> Vector:
        """What is taken from each column, the rare ones included: of those, nothing."""
        centre = np.zeros(self.common.size + self.rare.size)
        if self.centre is not None:
            centre[self.common] = self.centre
        return centre

    def lay(self, X: Any) -> Mixed:
        """These rows, in two parts."""
        common = _dense(_some_columns(X, self.common))
        if self.centre is not None:
            common = common - self.centre
        return Mixed(common, Sparse.of(_some_columns(X, self.rare)))


@dataclass(frozen=True)
class Mixed:
    """Rows in two parts, their common columns and the rare ones, with a few columns more that a kernel wants.

    These stand at the end of the common ones, or of the rare ones where there are no others.
    """

    common: Floats
    rare: Sparse
    more: int = 0

    @classmethod
    def stacked(cls, n: int, parts: Iterable[Mixed]) -> Mixed:
        """The n rows of all parts, which are made as they are needed: not all of them are there twice."""
        common, rare, start = np.empty((0, 0)), [], 0
        for part in parts:
            if not start:
                common = np.empty((n, part.common.shape[1]), part.dtype)
            common[start : start + len(part.common)] = part.common
            rare.append(part.rare)
            start += len(part.common)
        return cls(common, Sparse.stacked(rare), part.more)

    @property
    def dtype(self) -> Any:
        return self.common.dtype

    def __getitem__(self, which: Any) -> Mixed:
        return replace(self, common=self.common[which], rare=self.rare[which])

    def astype(self, dtype: Any) -> Mixed:
        """The rows in another precision."""
        return replace(self, common=self.common.astype(dtype), rare=self.rare.astype(dtype))

    def times(self, factor: float) -> Mixed:
        """The rows, multiplied."""
        return replace(self, common=factor * self.common, rare=self.rare.times(factor))

    def beside(self, columns: Vector) -> Mixed:
        """The rows with more columns."""
        if not columns.shape[1]:
            return self
        columns, wide = columns.astype(self.dtype), self.common.shape[1] > 0
        common, rare = (
            (np.hstack([self.common, columns]), self.rare) if wide else (self.common, self.rare.beside(columns))
        )
        return Mixed(common, rare, columns.shape[1])

    @property
    def bare(self) -> Mixed:
        """The rows without them."""
        if not self.more:
            return self
        wide = self.common.shape[1] - self.more
        return (
            Mixed(self.common[:, :wide], self.rare) if wide >= 0 else Mixed(self.common, self.rare.without(self.more))
        )

    @cached_property
    def sq_norms(self) -> Vector:
        """The square of the length of each row."""
        return np.asarray(np.einsum("ij,ij->i", self.common, self.common, dtype=np.float64) + self.rare.sq_norms())

    def products(self, asking: Mixed, out: Floats) -> None:
        """<x, z> for all rows x that ask, and these z."""
        dense = self.common.shape[1] > 0
        if dense:
            np.matmul(asking.common, self.common.T, out=out)
        if self.rare.width or not dense:
            self.rare.products(asking.rare, out, add=dense)


@dataclass(frozen=True)
class Sparse:
    """Some rows of a CSR matrix, as compiled loops read them: which ones is changed without a copy."""

    data: Floats
    indices: NDArray[np.int32]
    indptr: Numbers
    width: int
    numbers: Numbers

    @classmethod
    def of(cls, X: Any) -> Sparse:
        """All rows of X, a CSR matrix or a dense one."""
        if not sp.issparse(X):
            used = X != 0
            where = np.flatnonzero(used)
            indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(used, axis=1))])
            indices = (where - np.repeat(np.arange(len(X)) * X.shape[1], np.diff(indptr))).astype(np.int32)
            return cls(X.ravel()[where], indices, indptr, X.shape[1], np.arange(len(X)))
        indices, indptr = (a.astype(kind, copy=False) for a, kind in ((X.indices, np.int32), (X.indptr, np.int64)))
        return cls(X.data, indices, indptr, X.shape[1], np.arange(X.shape[0]))

    @classmethod
    def stacked(cls, parts: list[Sparse]) -> Sparse:
        """All rows of all of them."""
        parts = [part._apart() for part in parts]
        sizes = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)])
        data, indices = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices"))
        return cls(data, indices, np.cumsum(sizes), parts[0].width, np.arange(len(sizes) - 1))

    def __getitem__(self, which: Any) -> Sparse:
        return replace(self, numbers=self.numbers[which])

    def astype(self, dtype: Any) -> Sparse:
        """The rows in another precision."""
        these = self._apart()
        return replace(these, data=these.data.astype(dtype))

    def times(self, factor: float) -> Sparse:
        """The rows, multiplied."""
        these = self._apart()
        return replace(these, data=factor * these.data)

    def beside(self, columns: Floats) -> Sparse:
        """The rows with more columns at the end."""
        these, (n, more) = self._apart(), columns.shape
        ends = np.repeat(these.indptr[1:], more)
        indices = np.insert(these.indices, ends, np.tile(np.arange(self.width, self.width + more), n))
        indptr = these.indptr + more * np.arange(n + 1)
        return Sparse(np.insert(these.data, ends, columns.ravel()), indices, indptr, self.width + more, these.numbers)

    def without(self, more: int) -> Sparse:
        """The rows without so many columns at the end, each of which every row uses."""
        these = self._apart()
        kept, indptr = these.indices < self.width - more, these.indptr - more * np.arange(len(these.indptr))
        return Sparse(these.data[kept], these.indices[kept], indptr, self.width - more, these.numbers)

    def sq_norms(self) -> Vector:
        """The square of the length of each row."""
        these = self._apart()
        owner = np.repeat(these.numbers, np.diff(these.indptr))
        return np.asarray(np.bincount(owner, np.square(these.data, dtype=np.float64), len(these.numbers)), np.float64)

    def products(self, asking: Sparse, out: Floats, add: bool) -> None:
        """<x, z> for all rows x of the matrix that asks and these z, or that added to what is there."""
        x, z = ((rows.data, rows.indices, rows.indptr) for rows in (asking, self))
        sparse_products(*x, *z, np.ascontiguousarray(self.numbers), self.width, add, out)

    def _apart(self) -> Sparse:
        """These rows alone, in this order."""
        starts = self.indptr[self.numbers]
        sizes = self.indptr[self.numbers + 1] - starts
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        which = np.repeat(starts - indptr[:-1], sizes) + np.arange(indptr[-1])
        return Sparse(self.data[which], self.indices[which], indptr, self.width, np.arange(len(sizes)))


def far_from_zero(X: Any) -> bool:
    """Whether products of dense rows lose digits that those of their differences from the mean would not lose."""
    some = _a_few(X).astype(np.float64)
    mean = some.mean(axis=0)
    return bool(mean @ mean > FAR**2 * float(np.square(some - mean).sum(axis=1).mean()))


def _a_few(X: Any) -> Any:
    """Rows spread over the data, by which it is told what the others are like."""
    return X[np.unique(np.linspace(0, X.shape[0] - 1, PROBED).astype(np.int64))]


def _cost(shares: Vector, rare: NDArray[np.bool_]) -> float:
    """Of products, if these columns are sparse: in columns of a dense matrix."""
    dense, sparse = np.count_nonzero(~rare), ENTRY * float(shares[rare].sum())
    return (PASS + dense if dense else 0.0) + (PASS + sparse if rare.any() else 0.0)


def _some_columns(X: Any, columns: Numbers) -> Any:
    """Some columns of a matrix, in ascending order; no copy where these are all."""
    if columns.size == X.shape[1]:
        return X
    return X[:, columns] if sp.issparse(X) else np.take(X, columns, axis=1)


def _dense(X: Any) -> Floats:
    return np.asarray(X.toarray() if sp.issparse(X) else X)
