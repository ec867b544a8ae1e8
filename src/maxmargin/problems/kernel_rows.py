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
    """

    def __init__(self, X: Any, kernel: Kernel, threads: int = 1) -> None:
        self.kernel, self.threads = kernel, threads
        X = X.toarray() if sp.issparse(X) and X.nnz >= DENSE * X.shape[0] * X.shape[1] else X
        self.centre: Any = 0
        if kernel.of_differences and not sp.issparse(X):  # rows around zero lose least to rounding
            self.centre = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
            X = X - self.centre
        self.d = X.shape[1]
        self.sq_norms = _sq_norms(X)
        self.asking, asked = kernel.columns(self.sq_norms)
        self.asked = _beside(X, asked)

    def diagonal(self) -> Vector:
        """k(x, x) of each row."""
        return self.kernel.diagonal(self.sq_norms)

    def block_of(self, numbers: Numbers, columns: Numbers | None, out: Block) -> None:
        """The kernel of some rows of this set with some others of it, or with all."""
        own = self.kernel.factor * self.asked[numbers][:, : self.d]
        self._fill(_beside(own, self.asking[numbers]), columns, out)

    def block(self, X: Any, out: Block) -> None:
        """The kernel of each row of X, a few of any, with each row of this set."""
        X = X.toarray() if sp.issparse(X) and not sp.issparse(self.asked) else X
        X = X if sp.issparse(X) else X - self.centre
        asking, _ = self.kernel.columns(_sq_norms(X))
        self._fill(_beside(self.kernel.factor * X, asking), None, out)

    def _fill(self, asking: Any, columns: Numbers | None, out: Block) -> None:
        tiles = [slice(start, start + TILE) for start in range(0, out.shape[1], TILE)]

        def fill(some: Iterable[slice]) -> None:
            for tile in some:
                products = _products(asking, self.asked[tile if columns is None else columns[tile]])
                self.kernel.finish(products)
                out[:, tile] = products

        if self.threads == 1:
            fill(tiles)
            return
        from threadpoolctl import threadpool_limits  # it is there with scikit-learn

        # Each thread multiplies alone and finishes its tile while it is in the cache.
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(fill, [tiles[k :: self.threads] for k in range(self.threads)]))


def _sq_norms(X: Any) -> Vector:
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


def _beside(X: Any, columns: Vector) -> Any:
    """X with more columns, in its own precision."""
    if not columns.shape[1]:
        return X
    if sp.issparse(X):
        return sp.csr_matrix(sp.hstack([X, columns], format="csr"), dtype=X.dtype)
    return np.hstack([X, columns.astype(X.dtype)])


def _products(asking: Any, asked: Any) -> NDArray[Any]:
    """<x, z> for every x that asks and every z."""
    if sp.issparse(asked):
        return np.asarray((asking @ asked.T).toarray())
    return np.asarray(asking @ asked.T)
