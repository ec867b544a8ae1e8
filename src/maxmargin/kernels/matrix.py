"""The kernel matrix of a set of samples, whose rows are computed when they are needed and kept in a cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.core import Ledger
from maxmargin.core.types import Block, Indices, Point, Vector
from maxmargin.kernels.expansion import NEGATIVE_SQUARE, Expansion
from maxmargin.kernels.functions import ASYMMETRY, Kernel
from maxmargin.kernels.mixed_rows import Samples, Selection
from maxmargin.kernels.packed_rows import PackedRows
from maxmargin.kernels.rounding import factor_between, float32_suffices, product_error_bound
from maxmargin.kernels.row_cache import BATCH, RowCache, RowLookup, RowView
from maxmargin.kernels.rows import KernelRows

SUMMED_ROWS = 16 * BATCH  # samples at a time that are packed to add up their kernels, which are not kept
MAX_CACHE_SIZE = 1e12  # megabytes; larger limits are the same as none
RECOMPUTED = 64  # products recomputed in float64 to measure what rounding did to all of them
SMALLEST = float(np.finfo(np.float64).tiny)
SYMMETRY_SAMPLES = 32  # samples between which a function given by the user is checked to be symmetric
EIGENVALUE_SAMPLES = 256  # samples whose kernel matrix is searched for a negative eigenvalue


class KernelMatrix:
    r"""K, the kernels of every two samples of X: rows are computed in blocks when they are needed, and cached.

    It can stand where a problem takes a matrix: the rows are then those of the kernel's feature space, and w is an
    :class:`Expansion`. The ledger counts kernel evaluations, exactly.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        The samples, in float32 or float64: kernels are computed in the same precision, and kept in float32 unless that
        would lose too much, see `choose_precision`.
    kernel : Kernel
        The kernel function.
    cache_size : float
        How many megabytes of rows of K to keep; at least 64 rows must fit.
    threads : int
        How many threads compute a block.
    rows : array of int or None
        Which rows of X are the samples, in this order; None: all.
    centred : bool or None
        Whether the mean of the samples is subtracted first, so that a linear kernel loses fewer digits. With a free
        bias that changes only the bias, by `shift`. None: if it changes nothing but rounding, as for kernels of
        differences.

    Attributes
    ----------
    shape : (n, n)
    ledger : Ledger
        Kernel evaluations by purpose.
    dtype : data type
        The precision in which rows are kept.
    cache_bytes : int
        How much memory the cache may take.
    saved : int
        Entries of rows that were requested and had not to be computed, as the cache held them.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.kernels.functions import Rbf
    >>> K = KernelMatrix(np.array([[0.0], [1.0], [3.0]]), Rbf(gamma=1.0))
    >>> K.rows(np.array([0])).round(2)
    array([[1.  , 0.37, 0.  ]], dtype=float32)
    >>> K.ledger.entries_read, K.saved
    (3, 0)
    """

    sums_are_cheap = False  # a sum over many rows takes as many rows of the kernel

    def __init__(
        self,
        X: Samples,
        kernel: Kernel,
        *,
        cache_size: float = 200.0,
        threads: int = 1,
        rows: Indices | None = None,
        centred: bool | None = None,
    ) -> None:
        self.kernel, self.threads = kernel, threads
        self.cache_bytes = round(1e6 * float(min(cache_size, MAX_CACHE_SIZE)))
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        self._keeps_released = False
        self._pack: Callable[[], PackedRows] = lambda: PackedRows(X, kernel, threads, rows, centred=centred)
        self._start(self.packed.n)
        if not kernel.of_products and kernel.inner_product is None:
            self._refuse_asymmetric()

    def _refuse_asymmetric(self) -> None:
        """Compare k(x, z) with k(z, x) for a few samples."""
        some = np.unique(np.linspace(0, self.shape[0] - 1, SYMMETRY_SAMPLES).astype(np.int64))
        with self.ledger.on("validation"):
            block = self.block(some, some, np.empty((some.size, some.size)))
        difference = np.abs(block - block.T)
        if difference.max() > ASYMMETRY * np.abs(block).max():
            i, j = np.unravel_index(difference.argmax(), difference.shape)
            raise ValueError(
                f"the kernel is not symmetric: k(x, z) of rows {some[i]} and {some[j]} is {block[i, j]:.6g}, but "
                f"k(z, x) is {block[j, i]:.6g}. No model can be fitted to it; give (k(x, z) + k(z, x)) / 2 instead"
            )

    def _start(self, n: int) -> None:
        """Begin with an empty cache and nothing counted."""
        self.shape, self.n_stored = (n, n), n * n
        self.ledger = Ledger()
        self._diagonal: Vector | None = None
        self._measured: tuple[Expansion, Vector] | None = None  # the last vector whose rounding was measured, and that
        self._cache = RowCache(n, self.cache_bytes, self.dtype, keeps_released=self._keeps_released)

    def part(self, indices: Indices) -> KernelMatrix:
        """The matrix of some samples, with a ledger of its own and a cache that begins with rows from this one."""
        other = copy(self)
        other.__dict__.pop("packed", None)  # if it is there already
        other._pack = lambda: self.packed.part(indices)
        other._start(len(indices))
        other._diagonal = None if self._diagonal is None else self._diagonal[indices]
        other._cache.take_from(self._cache, indices)
        return other

    @cached_property
    def packed(self) -> PackedRows:
        """The samples packed for computing kernels; those of a part are packed at the first kernel to be computed."""
        return self._pack()

    @property
    def source(self) -> Samples:
        """The samples as given, dense or CSR."""
        return self.packed.source

    @property
    def saved(self) -> int:
        return self._cache.saved

    @saved.setter
    def saved(self, entries: int) -> None:
        self._cache.saved = entries

    def signature(self) -> dict[str, Any]:
        """What tells this matrix from others, see `maxmargin.engine.signature`."""
        return {"kernel": self.kernel, "cache_bytes": self.cache_bytes, "samples": self.source}

    def kept(self) -> dict[str, Any]:
        """For a checkpoint, the cache and all else that was computed and is not computed again."""
        return {**self.kept_without_cache(), "cache": self._cache.kept()}

    def kept_without_cache(self) -> dict[str, Any]:
        """The same without the rows in the cache."""
        known = {name: vars(self)[name] for name in ("inner_product", "_diagonal", "_measured") if name in vars(self)}
        return {"dtype": self.dtype, "known": known, "saved": self.saved}

    def take(self, kept: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        if kept["dtype"] != self.dtype:
            self._change_precision(kept["dtype"])
        self.forget_rows()
        if "cache" in kept:
            self._cache.take(kept["cache"])
        self.saved = kept["saved"]
        vars(self).update(kept["known"])

    # Rows, through the cache

    @property
    def cached_rows(self) -> int:
        """How many rows the cache can hold."""
        return self._cache.capacity

    @property
    def holds_all_rows(self) -> bool:
        """Whether the cache can hold all rows at once."""
        return self._cache.capacity == self.shape[0]

    def rows(self, indices: Indices) -> Block:
        """A copy of K[indices], no more rows than the cache can hold; rows that it holds are not computed again."""
        return self.fetch(indices).copy()

    def fetch(self, indices: Indices, width: int | None = None) -> RowView:
        """K[indices] in the cache, at most `cached_rows` rows; what the cache does not hold is computed.

        Rows are fetched as a whole, or only their first `width` entries. The view is valid until the next `fetch`.
        """
        return self._cache.fetch(indices, self.shape[0] if width is None else width, self._compute)

    def peek(self, indices: Indices) -> RowView:
        """Rows that the cache holds as a whole; nothing is computed or counted."""
        return self._cache.peek(indices)

    def missing(self, indices: Indices, width: int | None = None) -> Indices:
        """How many entries of each row `fetch` would compute."""
        return self._cache.missing(indices, self.shape[0] if width is None else width)

    def release(self, indices: Indices) -> None:
        """Say that these rows are not needed soon: the cache gives their memory to others first."""
        self._cache.release(indices)

    def keep_released_rows(self) -> None:
        """Keep rows that are released as long as there is memory for others: later problems will need them."""
        self._keeps_released = self._cache.keeps_released = True

    def forget_rows(self) -> None:
        """Empty the cache and give its memory back."""
        saved = self.saved
        self._cache = RowCache(self.shape[0], self.cache_bytes, self.dtype, keeps_released=self._keeps_released)
        self.saved = saved

    def lookup(self) -> RowLookup:
        """The arrays of the cache for compiled code, which reports to `count_hits` how many whole rows it has used."""
        return self._cache.lookup()

    def count_hits(self, rows: int) -> None:
        """Count so many rows, which compiled code has found by `lookup`, as saved."""
        self._cache.count_hits(rows)

    def prefetch(self, indices: Indices) -> None:
        """Compute rows that compiled code has not found by `lookup`; it will find them, and count them, next time."""
        self._cache.prefetch(indices, self._compute)

    def _compute(self, rows: Indices, columns: slice, out: Block, positions: Indices) -> None:
        self.packed.block_of(rows, columns, out, positions)
        self.ledger.count(positions.size * (columns.stop - columns.start))

    # Kernels that are not kept

    def block(
        self,
        indices: Indices,
        columns: Selection | None = None,
        out: Block | None = None,
        positions: Indices | None = None,
    ) -> Block:
        """K[indices][:, columns], computed without the cache; into `out` if it is given, in its precision.

        If `positions` are given, these rows of `out` are written, and no others.
        """
        if out is None:
            columns = slice(None) if columns is None else columns
            width = len(range(*columns.indices(self.shape[0]))) if isinstance(columns, slice) else columns.size
            out = np.empty((len(indices), width), self.dtype)
        self.packed.block_of(indices, columns, out, positions)
        self.ledger.count(len(indices) * out.shape[1])
        return out

    def add_products(self, indices: Indices, factors: Vector, columns: slice, f: Vector) -> None:
        """f <- f + factors @ K[indices][:, columns], computed without the cache; negligible kernels are left out."""
        self.ledger.count(self.packed.add_products(indices, factors, columns, f))

    def dot_precisely(self, beta: Vector, rows: Indices) -> Vector:
        """The products of the vector with these coefficients with some rows, computed in float64."""
        if not self.kernel.explicit:
            return self._dot_by_blocks(beta, rows, np.float64)
        w, f = self.packed.weighted_sum(beta), np.empty(rows.size)
        for start in range(0, rows.size, BATCH):
            f[start : start + BATCH] = self.packed.centred(rows[start : start + BATCH]) @ w
        self.ledger.count(int(rows.size + np.count_nonzero(beta)))
        return f

    def _dot_by_blocks(self, beta: Vector, rows: Indices, dtype: DTypeLike) -> Vector:
        f, nonzero = np.zeros(rows.size), np.flatnonzero(beta)
        for start in range(0, nonzero.size, SUMMED_ROWS):
            some = nonzero[start : start + SUMMED_ROWS]
            self.ledger.count(self.packed.add_products(some, beta[some], rows, f, dtype))
        return f

    # Precision

    def choose_precision(self, weight: float, tol: float) -> None:
        """Keep rows in float64 from now on if float32 is not precise enough; the cache is then empty again.

        Parameters
        ----------
        weight : float
            How much the rounding of an entry may change a decision value: the size of a typical sum of coefficients
            whose roundings are as often up as down.
        tol : float
            The relative gap to be reached.
        """
        largest = float(np.abs(self.row_sq_norms()).max(initial=0.0))
        float64_fits = 8 * self.n_stored <= self.cache_bytes
        if self.dtype == np.float64 or float32_suffices(largest, weight, tol, float64_fits=float64_fits):
            return
        self._change_precision(np.dtype(np.float64))

    def _change_precision(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        if self.packed.dtype != self.dtype:
            self.packed = self.packed.in_precision(self.dtype)
        self.forget_rows()

    def shift(self, beta: Vector) -> float:
        """What centring subtracts from each decision value, given the coefficients of w, which sum to about 0."""
        centre = self.packed.centre
        if centre is None:
            return 0.0
        return float(self.packed.weighted_sum(beta) @ centre + math.fsum(beta) * (centre @ centre))

    def rounding(self, beta: Vector, dtype: DTypeLike) -> Vector:
        """A bound on the rounding error of each product of a row with the vector with these coefficients.

        Kernels are computed in this precision, and summed up in float64.
        """
        return product_error_bound(self.packed, self.row_sq_norms(), beta, dtype)

    def measured_rounding(self, w: Point) -> Vector:
        """The error of each product that w knows, estimated from some that are recomputed in float64.

        Sums that were updated for long may have lost more digits than sums that are computed at once. So the bound for
        the latter is enlarged, for all products, to twice the largest error among the recomputed ones.
        """
        w = Expansion.of(w)
        if self._measured is not None:
            before, error = self._measured
            factor = factor_between(w, before)
            if factor is not None:
                return np.asarray(factor * error)
        known = np.flatnonzero(np.isfinite(w.f))
        some = known[:: max(1, known.size // RECOMPUTED)]
        precise, error = self.rounding(w.beta, np.float64), self.rounding(w.beta, self.dtype)
        found = np.abs(self.dot_precisely(w.beta, some) - w.f[some]) + precise[some]
        if some.size == known.size:
            error[some] = found
        else:
            error *= max(1.0, 2 * float(np.max(found / np.maximum(error[some], SMALLEST), initial=0.0)))
        self._measured = w, error
        return error

    # What a problem asks of any rows, see `maxmargin.core.types.Rows`

    def products_are_inner(self, *points: Point) -> bool | None:
        """Whether K is positive semidefinite; it is not where the square of one of these vectors is negative."""
        if self.inner_product is None and any(Expansion.of(w).imaginary for w in points):
            return False
        return self.inner_product

    def dot_cost(self, w: Point) -> int:
        """The kernel evaluations that the products of w with all rows take."""
        w = Expansion.of(w)
        return int(np.count_nonzero(np.isnan(w.f)) * np.count_nonzero(w.beta))

    def dot_rounding(self, w: Point, norms: Callable[[], Vector]) -> Vector:
        """How far each product that w knows can be from the exact one, as measured."""
        return self.measured_rounding(w)

    def square_rounding(self, p: Vector, v: Point, norms: Callable[[], Vector], scale: float) -> float:
        """How much larger the exact square of v can be than the computed one, as measured."""
        return float(np.abs(Expansion.of(v).beta) @ self.measured_rounding(v))

    @cached_property
    def inner_product(self) -> bool | None:
        """Whether K is positive semidefinite. None: not known, and the matrix of some samples showed nothing else."""
        if self.kernel.inner_product is not None:
            return self.kernel.inner_product
        some = np.unique(np.linspace(0, self.shape[0] - 1, EIGENVALUE_SAMPLES).astype(np.int64))
        values = np.linalg.eigvalsh(self.block(some, some).astype(np.float64))
        return False if values[0] < -NEGATIVE_SQUARE * np.abs(values).max() else None

    def row_sq_norms(self) -> Vector:
        """k(x_i, x_i) for every i."""
        if self._diagonal is None:
            self._diagonal = self.packed.diagonal()
        return self._diagonal

    def sq_distances(self, w: Point) -> Vector:
        """The squared distance of each row from w."""
        return np.asarray(self.row_sq_norms() - 2 * self.dot(w) + w @ w)

    def dot(self, w: Point, rows: Indices | None = None) -> Vector:
        """The products of w with the rows; those that w does not know are computed, and written into w."""
        w = Expansion.of(w)
        unknown = np.isnan(w.f)
        unknown = np.flatnonzero(unknown if rows is None else unknown[rows])
        if unknown.size:
            unknown = np.unique(unknown if rows is None else rows[unknown])
            w.f[unknown] = self._dot_by_blocks(w.beta, unknown, self.dtype)
        return w.f if rows is None else w.f[rows]

    def dot_transposed(self, p: Vector, rows: Indices | None = None) -> Expansion:
        """The sum of the rows with these coefficients."""
        beta = p
        if rows is not None:
            beta = np.zeros(self.shape[0])
            np.add.at(beta, rows, p)
        f, nonzero = np.zeros(self.shape[0]), np.flatnonzero(beta)
        batch = min(BATCH, self.cached_rows)
        for start in range(0, nonzero.size, batch):
            some = nonzero[start : start + batch]
            f += beta[some] @ self.rows(some)
        return Expansion(np.array(beta, dtype=np.float64), f)


if TYPE_CHECKING:
    # A type checker sees here that nothing is missing of what problems and solvers ask of kernel rows.
    _complete: type[KernelRows] = KernelMatrix
