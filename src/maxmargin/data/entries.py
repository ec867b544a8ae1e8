"""Access to single entries of any data, in blocks of samples, and the ranges of features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from maxmargin.core import Matrix
from maxmargin.core.source import is_source
from maxmargin.core.types import Indices, Vector
from maxmargin.data.matrices import as_matrix
from maxmargin.data.stores import is_store

BLOCK_ENTRIES = 2**26
"""The maximum number of entries of a block of samples, counting all features: 512 MB of float64, of which a reader
requests a sixteenth at a time."""
BLOCK_SAMPLES = 4096  # maximum samples in a block: enough that the work per block does not matter


@runtime_checkable
class EntrySource(Protocol):
    """Data whose entries can be read one by one, at a cost that depends on the feature."""

    shape: tuple[int, int]
    costs: Vector

    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        """Return the entries at all of these rows and columns, of shape (rows, columns)."""


class SampleBlock(NamedTuple):
    """A block of consecutive samples.

    Attributes
    ----------
    start, size : int
        The position of the first sample, and the number of samples.
    read : function of (rows, columns)
        Returns the entries at all of these rows, counted from `start`, and columns, as a dense array.
    """

    start: int
    size: int
    read: Callable[[Indices, Indices], NDArray[Any]]


def sample_blocks(X: Any) -> Iterator[SampleBlock]:
    """Yield the samples of an array, a sparse matrix, a store, a Source or a Matrix, in blocks."""
    if isinstance(X, EntrySource):
        for start, count in _parts(X.shape):
            yield SampleBlock(start, count, partial(_read_from, X, start))
    elif _lies_elsewhere(X):
        for first, lines in as_matrix(X).blocks():
            for start, count, read in sample_blocks(lines):
                yield SampleBlock(first + start, count, read)
    else:
        for start, count in _parts(X.shape):
            yield SampleBlock(start, count, _reader(X[start : start + count]))


def _lies_elsewhere(X: Any) -> bool:
    return isinstance(X, Matrix) or is_source(X) or is_store(X)


def _parts(shape: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the first row and the number of rows of each block."""
    n, d = shape
    size = max(1, min(BLOCK_SAMPLES, BLOCK_ENTRIES // max(1, d)))
    for start in range(0, n, size):
        yield start, min(size, n - start)


def _reader(part: Any) -> Callable[[Indices, Indices], NDArray[Any]]:
    if issparse(part):
        by_column = part.tocsc()
        return lambda i, j: np.asarray(by_column[:, j].toarray()[i])
    return lambda i, j: np.asarray(part[np.ix_(i, j)])


def _read_from(X: EntrySource, start: int, rows: Indices, columns: Indices) -> NDArray[Any]:
    return X.block(start + rows, columns)


def _rows(X: Any) -> Iterator[Any]:
    """Yield all rows in blocks, each an array or a sparse matrix."""
    if _lies_elsewhere(X):
        yield from (lines for _, lines in as_matrix(X).blocks())
    else:
        yield from (X[start : start + count] for start, count in _parts(X.shape))


class FeatureRanges(NamedTuple):
    """The known ranges of features that have not been read.

    Attributes
    ----------
    low, high : arrays of shape (d,)
        The smallest and the largest value of each feature.
    typical : array of shape (d,)
        The value to assume for each feature before it is read, for example its mean.
    """

    low: Vector
    high: Vector
    typical: Vector


def feature_ranges(X: Any) -> FeatureRanges:
    """Compute the smallest value, the largest value and the mean of each feature, in one pass over the data.

    Parameters
    ----------
    X : array, sparse matrix, store, Source or Matrix of shape (n, d)
        The samples, which are read in blocks. Entries of a sparse matrix that are not stored count as zeros.

    Returns
    -------
    FeatureRanges
        The ranges, for the argument `ranges` of :meth:`maxmargin.LinearSVC.decide`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import feature_ranges
    >>> feature_ranges(np.array([[1.0, 5.0], [2.0, -5.0]]))
    FeatureRanges(low=array([ 1., -5.]), high=array([2., 5.]), typical=array([1.5, 0. ]))
    """
    n, d = X.shape
    low, high, total = np.full(d, np.inf), np.full(d, -np.inf), np.zeros(d)
    for rows in _rows(X):
        least, largest = rows.min(axis=0), rows.max(axis=0)
        if issparse(rows):
            least, largest = (values.toarray().ravel() for values in (least, largest))
        low, high = np.minimum(low, least), np.maximum(high, largest)
        total += np.asarray(rows.sum(axis=0, dtype=np.float64)).ravel()
    strange = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
    if strange.size:
        raise ValueError(
            f"column {strange[0]} holds NaN or infinity, or there are no rows; every feature must have a finite range"
        )
    # The mean is rounded, so the mean of equal values may differ slightly from them.
    return FeatureRanges(low, high, np.clip(total / n, low, high))


def feature_costs(cost: Any, n_features: int) -> Vector:
    """Return the cost of an entry of each feature, from a number, an array or a function of the features."""
    given = cost(np.arange(n_features)) if callable(cost) else cost
    costs = np.asarray(given, dtype=np.float64)
    if costs.shape not in ((), (n_features,)):
        raise ValueError(f"cost has shape {costs.shape}; expected one number, or one for each of {n_features} features")
    costs = np.broadcast_to(costs, n_features).copy()
    wrong = costs[~((costs >= 0) & np.isfinite(costs))]
    if wrong.size:
        raise ValueError(f"costs must be finite and at least 0; got {wrong[0]}")
    return costs
