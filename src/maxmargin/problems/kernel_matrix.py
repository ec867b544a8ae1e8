"""The matrix of the kernel of every two rows, read by blocks of its rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core import Ledger
from maxmargin.problems.expansion import ROUNDING, Expansion
from maxmargin.problems.kernel_rows import Rows
from maxmargin.problems.kernels import Kernel

Vector = NDArray[np.float64]
Numbers = NDArray[np.int64]
Block = NDArray[np.float32]

BLOCK = 256  # rows that are computed at a time: enough for products at full speed


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
        n = self.laid.n
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

    @cached_property
    def inner_product(self) -> bool | None:
        """Whether K is positive semidefinite. None: nobody knows, and a part of it showed no negative eigenvalue."""
        if self.kernel.inner_product is not None:
            return self.kernel.inner_product
        some = np.unique(np.linspace(0, self.shape[0] - 1, BLOCK).astype(np.int64))
        values = np.linalg.eigvalsh(self.block(some, some).astype(np.float64))
        return False if values[0] < -ROUNDING * np.abs(values).max() else None

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
