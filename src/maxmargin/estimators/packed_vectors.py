"""Support vectors packed for predictions, and rows to predict taken a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.threads import run_parallel, thread_count
from maxmargin.kernels.packed_rows import PackedRows
from maxmargin.problems import Kernel

CHUNK = 256  # rows that are predicted at a time: enough for matrix products at full speed


class PackedVectors:
    """The support vectors of a model, packed by the first prediction for all that follow.

    Copies and pickles begin without the packed rows.
    """

    _packed: tuple[Any, PackedRows] | None = None  # the vectors, and what was packed of them

    def pack(self, vectors: Any, kernel: Kernel) -> Self:
        """Pack these vectors, unless they are packed already: to be called before threads share the work."""
        if self._packed is None or self._packed[0] is not vectors:
            self._packed = vectors, PackedRows(vectors, kernel)
        return self

    def block(self, X: Any) -> NDArray[np.float64]:
        """The kernel of each row of X, a few of any, with each of the packed vectors."""
        assert self._packed is not None
        vectors, rows = self._packed
        block = np.empty((X.shape[0], vectors.shape[0]), dtype=X.dtype)
        rows.block(X, block)
        return block.astype(np.float64, copy=False)  # sums of many kernels are taken in float64

    def __getstate__(self) -> dict[str, Any]:
        return {}


def by_chunks(
    work: Callable[[slice], None], n: int, *, operations: float, n_jobs: int | None, size: int = CHUNK
) -> None:
    """Call `work` for each chunk of n rows, each of which takes so many multiply-adds, in several threads."""
    if n <= size:
        work(slice(0, n))
        return
    chunks = [partial(work, slice(start, start + size)) for start in range(0, n, size)]
    run_parallel(chunks, thread_count(n_jobs, n * operations))
