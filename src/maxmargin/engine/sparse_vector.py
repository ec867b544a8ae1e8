"""Sparse vectors, which are sent between the driver and the parts of the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Vector

# Largest share of entries for which a vector is stored sparsely, with 12 bytes for each stored entry. An array takes 8
# bytes for every entry, but is added faster.
SPARSE_SHARE = 0.5


@dataclass(frozen=True)
class SparseVector:
    """A vector, stored as its nonzero entries, or as an array if many entries are nonzero.

    It can be an item of `Sums`: the sum of two vectors is a third one, whose bits depend only on theirs.

    Attributes
    ----------
    size : int
        The number of entries, including zeros.
    values : array
        The stored entries: all that are not zero, and perhaps a few zeros.
    where : array of int or None
        The indices of the stored entries, in increasing order; None if all entries are stored.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engine.sparse_vector import SparseVector
    >>> one = SparseVector.of(np.array([0.0, 2.0, 0.0, 0.0, 0.0]))
    >>> both = one + SparseVector.of(np.array([0.0, 1.0, 0.0, 5.0, 0.0]))
    >>> both.where, both.values
    (array([1, 3], dtype=int32), array([3., 5.]))
    >>> w = np.ones(5)
    >>> both.add_to(w, 0.5)
    >>> w
    array([1. , 2.5, 1. , 3.5, 1. ])
    """

    size: int
    values: Vector
    where: NDArray[np.int32] | NDArray[np.int64] | None

    @classmethod
    def of(cls, dense: Vector) -> SparseVector:
        """A sparse vector with the entries of an array. The array must not be changed afterwards."""
        count = int(np.count_nonzero(dense))
        if count > SPARSE_SHARE * dense.size:
            return cls(dense.size, dense, None)
        where = np.flatnonzero(dense)
        return cls(dense.size, dense[where], where.astype(np.int32) if dense.size <= 2**31 else where)

    @property
    def nbytes(self) -> int:
        """The memory that it takes, in bytes."""
        return self.values.nbytes + (0 if self.where is None else self.where.nbytes)

    def __add__(self, other: SparseVector) -> SparseVector:
        if self.size != other.size:
            raise ValueError(f"vectors of {self.size} and {other.size} entries cannot be added")
        sparse = self.where is not None and other.where is not None
        if sparse and self.values.size + other.values.size <= SPARSE_SHARE * self.size:
            return self._merged(other)
        dense = self.dense()
        other.add_to(dense)
        return SparseVector.of(dense)

    def _merged(self, other: SparseVector) -> SparseVector:
        """The sum of two vectors with few entries each."""
        assert self.where is not None
        assert other.where is not None
        where = np.concatenate([self.where, other.where])
        order = np.argsort(where, kind="stable")  # a merge, as both halves are sorted
        where, values = where[order], np.concatenate([self.values, other.values])[order]
        new = np.ones(where.size, dtype=bool)
        new[1:] = where[1:] != where[:-1]
        again = np.flatnonzero(~new)
        values[again - 1] += values[again]
        return SparseVector(self.size, values[new], where[new])

    def add_to(self, dense: Vector, factor: float = 1.0) -> None:
        """Add `factor` times the vector to an array."""
        if self.where is None:
            dense += factor * self.values
        else:
            dense[self.where] += factor * self.values

    def scaled(self, factor: float) -> SparseVector:
        """The vector times `factor`."""
        return SparseVector(self.size, factor * self.values, self.where)

    def dot(self, dense: Vector) -> float:
        """The inner product with an array."""
        return float(self.values @ (dense if self.where is None else dense[self.where]))

    def square(self) -> float:
        """The squared norm."""
        return float(self.values @ self.values)

    def dense(self) -> Vector:
        """The vector as a new array."""
        if self.where is None:
            return self.values.copy()
        dense = np.zeros(self.size)
        dense[self.where] = self.values
        return dense
