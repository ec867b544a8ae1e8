"""Rows laid down to be asked for their kernel with others, a block of those at a time."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.problems.kernels import Kernel

Vector = NDArray[np.float64]
Numbers = NDArray[np.int64]
Block = NDArray[np.float32]

TILE = 1024  # columns of a block that are computed at a time: few enough to be in the cache when they are finished
DENSE = 0.04  # the share of stored entries from which on a sparse matrix is laid down as a dense one


class Rows:
    """Rows laid down to be asked for their kernel with others, a block of those at a time.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        The rows, in float32 or float64: blocks are computed in the same.
    kernel : Kernel
        What to compute.
    threads : int
        How many threads compute a block side by side.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems.kernel_rows import Rows
    >>> from maxmargin.problems.kernels import Linear
    >>> rows, out = Rows(np.array([[1.0, 0.0], [1.0, 1.0]]), Linear()), np.empty((1, 2), dtype=np.float32)
    >>> rows.block(np.array([[3.0, 4.0]]), out)
    >>> out
    array([[3., 7.]], dtype=float32)
    """

    def __init__(self, X: Any, kernel: Kernel, threads: int = 1) -> None:
        self.kernel, self.threads = kernel, threads if kernel.parallel else 1
        self.n, self.d = X.shape
        self.dense = not sp.issparse(X) or (kernel.of_products and X.nnz >= DENSE * self.n * self.d)
        X = X.toarray() if self.dense and sp.issparse(X) else X
        self.centre: Any = 0
        if kernel.of_differences and self.dense:  # rows around zero lose least to rounding
            self.centre = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
            X = X - self.centre
        self.asked = kernel.asked(X)
        self.X = self.asked[:, : self.d] if self.dense and kernel.of_products else X  # no second copy

    def diagonal(self) -> Vector:
        """k(x, x) of each row."""
        values = self.kernel.diagonal(self.X)
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise ValueError(f"the kernel of row {row} with itself is not finite; divide X by a constant")
        return values

    def block_of(
        self, numbers: Numbers, columns: Numbers | slice | None, out: Block, places: Numbers | None = None
    ) -> None:
        """The kernel of some rows of this set with some others of it, or with all; into these rows of `out`, or all."""
        self._fill(self.kernel.asking(self.X[numbers]), columns, out, places)

    def block(self, X: Any, out: Block) -> None:
        """The kernel of each row of X, a few of any, with each row of this set."""
        if X.shape[1] != self.d:
            raise ValueError(f"rows of {self.d} entries were laid down; got rows of {X.shape[1]}")
        if self.kernel.of_products:
            X = X.astype(self.X.dtype, copy=False)
            X = (X.toarray() if sp.issparse(X) else X) - self.centre if self.dense else sp.csr_matrix(X)
        self._fill(self.kernel.asking(X), None, out, None)

    def _fill(self, asking: Any, columns: Numbers | slice | None, out: Block, places: Numbers | None) -> None:
        asked = self.asked[columns] if isinstance(columns, slice) else self.asked
        tiles = [slice(start, start + TILE) for start in range(0, out.shape[1], TILE)]

        def fill(some: Iterable[slice]) -> None:
            tile_of = np.empty((asking.shape[0], TILE), dtype=out.dtype)
            for tile in some:
                these = columns[tile] if isinstance(columns, np.ndarray) else tile
                block = tile_of[:, : out[:1, tile].size]
                self.kernel.block(asking, asked[these], block)
                out[slice(None) if places is None else places, tile] = block

        if self.threads == 1:
            fill(tiles)
            return
        from threadpoolctl import threadpool_limits  # it is there with scikit-learn

        # Each thread multiplies alone and finishes its tile while it is in the cache.
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(fill, [tiles[k :: self.threads] for k in range(self.threads)]))
