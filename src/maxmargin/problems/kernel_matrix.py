r"""The matrix of the kernel of every two rows, read by blocks of its rows, and the vectors of the kernel's space.

A vector of that space is a sum :math:`w = \sum_i \beta_i \phi(x_i)`, known by its coefficients and by its products with
all rows, :math:`f = K\beta`: then :math:`\langle w, w'\rangle = \langle \beta, f'\rangle`. Sums and multiples of such
vectors are known likewise, so that a problem need not ask whether its rows are numbers or live in such a space.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.core import Ledger
from maxmargin.problems.kernels import Kernel

Vector = NDArray[np.float64]
Numbers = NDArray[np.int64]
Block = NDArray[np.float32]

TILE = 1024  # columns of a block that are computed at a time: few enough to be in the cache when they are finished
BLOCK = 256  # rows that are computed at a time: enough for products at full speed
DENSE = 0.04  # the share of stored entries from which on a sparse matrix is laid down as a dense one


@dataclass(frozen=True)
class Expansion:
    r"""A vector :math:`w = \sum_i \beta_i \phi(x_i)`.

    Attributes
    ----------
    beta : array of shape (n,)
        Its coefficients.
    f : array of shape (n,)
        Its products with the rows, :math:`f = K\beta`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.problems.kernels import Linear
    >>> K = KernelMatrix(np.array([[1.0, 0.0], [1.0, 1.0]]), Linear())
    >>> w = K.dot_transposed(np.array([0.0, 2.0]))
    >>> w.f, w @ w, (3 * w) @ w
    (array([2., 4.]), 8.0, 24.0)
    """

    beta: Vector
    f: Vector

    __array_ufunc__ = None  # a NumPy number times an Expansion is an Expansion, not an array of them

    @property
    def size(self) -> int:
        """How many coefficients there are."""
        return self.beta.size

    def any(self) -> bool:
        """Whether any coefficient is not zero."""
        return bool(self.beta.any())

    def __add__(self, other: Expansion) -> Expansion:
        return Expansion(self.beta + other.beta, self.f + other.f)

    def __sub__(self, other: Expansion) -> Expansion:
        return Expansion(self.beta - other.beta, self.f - other.f)

    def __mul__(self, factor: float) -> Expansion:
        return Expansion(factor * self.beta, factor * self.f)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Expansion:
        return Expansion(self.beta / divisor, self.f / divisor)

    def __matmul__(self, other: Expansion) -> float:
        product = float(self.beta @ other.f)
        return max(0.0, product) if other is self else product  # rounding must not make a square negative


def length(w: Any) -> float:
    """|w|, of an array or of an Expansion."""
    return math.sqrt(w @ w) if isinstance(w, Expansion) else float(np.linalg.norm(w))


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


class KernelMatrix:
    r"""K, the kernel of every two rows of X: blocks of its rows are computed when they are asked for, and kept.

    It can stand where a problem takes a matrix: its rows are then those of the kernel's space, and w is an
    :class:`Expansion`. The ledger counts kernel evaluations, exactly.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        The rows, in float32 or float64: blocks are computed in the same, and kept in float32.
    kernel : Kernel
        What to compute.
    cache_size : float
        How many megabytes of rows of K to keep; at least a block of 256 rows.
    threads : int
        How many threads compute a block side by side.

    Attributes
    ----------
    ledger : Ledger
        Kernel evaluations by purpose.
    saved : int
        Entries of rows that were asked for and had not to be computed, as they were kept.
    kept : array of shape (places, n)
        The rows that are kept; row i, if it is, at `kept[place[i]]`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.problems.kernels import Rbf
    >>> K = KernelMatrix(np.array([[0.0], [1.0], [3.0]]), Rbf(gamma=1.0))
    >>> K.rows(np.array([0])).round(2)
    array([[1.  , 0.37, 0.  ]], dtype=float32)
    >>> K.ledger.stored, K.saved
    (3, 0)
    """

    def __init__(self, X: Any, kernel: Kernel, *, cache_size: float = 200.0, threads: int = 1) -> None:
        self.laid, self.kernel, self.threads = Rows(X, kernel, threads), kernel, threads
        n = self.laid.sq_norms.size
        self.shape, self.stored = (n, n), n * n
        self.ledger, self.saved = Ledger(), 0
        self.cache_bytes = int(1e6 * cache_size)
        places, needed = min(n, self.cache_bytes // (4 * n)), min(n, BLOCK)
        if places < needed:
            raise ValueError(
                f"cache_size={cache_size:g} megabytes hold {places} rows of {n:,} entries, but {needed} are computed "
                f"at a time; give at least {np.ceil(4e-5 * n * needed) / 10:.1f}"
            )
        self.kept: Block = np.empty((places, n), dtype=np.float32)
        self.place = np.full(n, -1)
        self.owner = np.full(places, -1)  # which row is kept in each place
        self.used = np.zeros(places, dtype=np.int64)  # and when it was asked for last
        self.time = 0

    def rows(self, numbers: Numbers) -> Block:
        """K[numbers], for a few of them; rows that are kept are not computed again."""
        return self.kept[self.fetch(numbers)]

    def fetch(self, numbers: Numbers) -> Numbers:
        """The places in `kept` of these rows, no more than there are; those that were not there are computed."""
        if len(numbers) > len(self.kept):
            raise ValueError(f"{len(numbers)} rows asked for at once, but only {len(self.kept)} fit the cache")
        self.time += 1
        there = self.place[numbers] >= 0
        self.used[self.place[numbers[there]]] = self.time
        self.saved += int(np.count_nonzero(there)) * self.shape[0]
        missing = np.unique(numbers[~there])
        for start in range(0, missing.size, BLOCK):
            some = missing[start : start + BLOCK]
            # The places that were not asked for the longest time make room.
            places = np.argpartition(self.used, some.size - 1)[: some.size]
            self.place[self.owner[places[self.owner[places] >= 0]]] = -1
            self.place[some], self.owner[places], self.used[places] = places, some, self.time
            self.kept[places] = self.block(some)
        return self.place[numbers]

    def block(self, numbers: Numbers, columns: Numbers | None = None, out: Block | None = None) -> Block:
        """K[numbers][:, columns], computed anew and not kept; into `out` where it is given."""
        if out is None:
            out = np.empty((len(numbers), self.shape[0] if columns is None else len(columns)), dtype=np.float32)
        self.laid.block_of(numbers, columns, out)
        self.ledger.count(out.size)
        return out

    # What a problem asks of a matrix

    def row_sq_norms(self) -> Vector:
        """k(x_i, x_i) for every i."""
        return self.laid.diagonal()

    def dot(self, w: Expansion, rows: Numbers | None = None) -> Vector:
        """The products of w with the rows, which it knows."""
        return w.f if rows is None else w.f[rows]

    def dot_transposed(self, p: Vector, rows: Numbers | None = None) -> Expansion:
        """The sum of the rows with these coefficients."""
        beta = p
        if rows is not None:
            beta = np.zeros(self.shape[0])
            np.add.at(beta, rows, p)
        f, those = np.zeros(self.shape[0]), np.flatnonzero(beta)
        for start in range(0, those.size, BLOCK):
            some = those[start : start + BLOCK]
            f += beta[some] @ self.rows(some)
        return Expansion(np.array(beta, dtype=np.float64), f)


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
