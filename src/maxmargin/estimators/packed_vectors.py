"""Support vectors laid down to predict with, and rows to predict taken a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.threads import run_parallel, thread_count
from maxmargin.kernels.packed_rows import PackedRows
from maxmargin.problems import Kernel

CHUNK = 256  # rows that are predicted at a time: enough for products at full speed


class Laid:
    """The support vectors laid down for predictions, from the first one on. Copies and pickles begin without."""

    vectors: Any = None
    laid: PackedRows | None = None

    def block(self, X: Any, vectors: Any, kernel: Kernel) -> NDArray[np.float64]:
        """The kernel of each row of X, a few of any, with each of these vectors."""
        laid = self.laid if self.vectors is vectors else None
        if laid is None:
            laid = PackedRows(vectors, kernel)
            self.vectors, self.laid = vectors, laid
        block = np.empty((X.shape[0], vectors.shape[0]), dtype=X.dtype)
        laid.block(X, block)
        return block.astype(np.float64, copy=False)  # sums of many are taken in float64

    def __getstate__(self) -> dict[str, Any]:
        return {}


def by_chunks(
    work: Callable[[slice], None], n: int, *, operations: float, n_jobs: int | None, size: int = CHUNK
) -> None:
    """Call `work` for each chunk of n rows, each of which takes so many multiply-adds, in several threads."""
    chunks = [partial(work, slice(start, start + size)) for start in range(0, n, size)]
    run_parallel(chunks, thread_count(n_jobs, n * operations))
