"""The samples of a search, in memory if there is room for them and for the copies that folds make.

Each comparison of a search copies its samples, and each fold copies its test samples. Of data outside memory, or in a
mapped file, a comparison copies a part only if there is room for it, and a fold reads its test samples when they are
needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from sklearn.utils import _safe_indexing

from maxmargin.core import Matrix
from maxmargin.core.matrix import rows_at_hand
from maxmargin.core.memory import in_file
from maxmargin.core.selected_rows import INDEX_BYTES
from maxmargin.core.types import Indices
from maxmargin.data.matrices import as_matrix
from maxmargin.data.stores import DEFAULT_CACHE_SIZE
from maxmargin.engine.parts import RowsInParts
from maxmargin.estimators.validation import FLOATS, RowsToPredict

COPIES = 2  # copies of the samples in memory: the samples, and the test samples of all folds, which are as many
PART_SHARE = 0.5  # share of the cache for a comparison on a part; the rest is for the blocks from which it is read


class SearchSamples:
    """The samples of a search, or a part of them.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Matrix
        The samples, as :meth:`read` returns them.

    Attributes
    ----------
    matrix : Matrix or None
        The matrix of samples that are read when they are needed; None if all are in memory.
    """

    def __init__(self, X: Any) -> None:
        self.X = X
        mapped = in_file(X) and X.ndim == 2 and X.dtype in FLOATS
        self.matrix: Matrix | None = as_matrix(X) if mapped or isinstance(X, Matrix) else None
        if isinstance(X, RowsInParts):  # samples on a cluster stay there
            self.matrix = cast("Matrix", X)

    @staticmethod
    def read(matrix: Matrix, *, blocks: bool) -> Any:
        """Return the samples of a search on data outside memory, read into memory if there is room for them.

        If there is no room, the samples stay where they are if the solver reads `blocks` of them; otherwise they are
        copied to a temporary file (a sparse matrix: into memory).
        """
        size, room = _size(matrix, matrix.shape[0]), matrix.cache_size
        if room is None or COPIES * size <= room:
            return matrix[:]
        return matrix if blocks else rows_at_hand(matrix, most_bytes=0)

    def has_room_for(self, n: int) -> bool:
        """Whether n of the samples may be copied into memory."""
        return self.matrix is None or COPIES * _size(self.matrix, n) <= PART_SHARE * _room(self.matrix)

    @contextmanager
    def part(self, rows: Indices) -> Iterator[SearchSamples]:
        """Read some of the samples into memory; for a store, fewer blocks are cached meanwhile."""
        if self.matrix is None:
            yield SearchSamples(_safe_indexing(self.X, rows))
        else:
            with self.matrix.leave_room(COPIES * _size(self.matrix, rows.size)):
                yield SearchSamples(self.matrix[rows])

    def held_out(self, rows: Indices) -> Any:
        """Return the test samples of a fold, for predictions."""
        return _safe_indexing(self.X, rows) if self.matrix is None else RowsToPredict(self.matrix, rows)


def _size(matrix: Matrix, n: int) -> int:
    """Return the average bytes of n rows in memory."""
    entry = matrix.dtype.itemsize + (INDEX_BYTES if matrix.sparse else 0)
    return matrix.n_stored * entry * n // max(matrix.shape[0], 1)


def _room(matrix: Matrix) -> int:
    return DEFAULT_CACHE_SIZE if matrix.cache_size is None else matrix.cache_size
