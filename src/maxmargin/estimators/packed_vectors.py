"""Support vectors packed for predictions, and predictions in chunks of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np

from maxmargin.core.threads import run_parallel, thread_count
from maxmargin.kernels.mixed_rows import Floats
from maxmargin.kernels.packed_rows import PackedRows
from maxmargin.problems import Kernel

CHUNK = 256  # rows to predict at a time: enough for matrix products at full speed


class PackedVectors:
    """The support vectors of a model, packed in the first prediction and reused in later ones.

    Copies and pickles do not contain the packed rows.
    """

    _packed: tuple[Any, PackedRows] | None = None  # the vectors and their packed rows

    def pack(self, vectors: Any, kernel: Kernel) -> Self:
        """Pack these vectors, unless they are already packed. Call this before threads share the work."""
        if self._packed is None or self._packed[0] is not vectors:
            self._packed = vectors, PackedRows(vectors, kernel)
        return self

    def block(self, X: Any) -> Floats:
        """Compute the kernels between the rows of X, a few rows, and the packed vectors, in the precision of X."""
        assert self._packed is not None
        vectors, rows = self._packed
        block = np.empty((X.shape[0], vectors.shape[0]), dtype=X.dtype)
        rows.block(X, block)
        return block

    def __getstate__(self) -> dict[str, Any]:
        return {}


def by_chunks(
    work: Callable[[Any, slice], None], X: Any, *, operations: float, n_jobs: int | None, size: int = CHUNK
) -> None:
    """Call work(rows, where) for each chunk of rows of X, in several threads.

    Parameters
    ----------
    work : callable
        Takes the rows of the chunk and their positions in X.
    X : array or CSR matrix of shape (n, d)
        The rows.
    operations : float
        The approximate number of multiply-adds per row.
    n_jobs : int or None
        See `thread_count`.
    size : int
        The number of rows of a chunk.
    """
    n = X.shape[0]
    if n <= size:
        work(X, slice(0, n))  # X[0:n] would copy a sparse matrix
        return

    def work_on(start: int) -> None:
        where = slice(start, start + size)
        work(X[where], where)

    run_parallel([partial(work_on, start) for start in range(0, n, size)], thread_count(n_jobs, n * operations))
