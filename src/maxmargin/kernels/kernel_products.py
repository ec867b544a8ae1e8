"""Products of vectors of a kernel's space with the rows of a kernel matrix, independent of where its samples are."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.core import Ledger
from maxmargin.core.types import Block, Indices, Point, Vector
from maxmargin.kernels.expansion import NEGATIVE_SQUARE, Expansion
from maxmargin.kernels.functions import ASYMMETRY, Kernel
from maxmargin.kernels.mixed_rows import Selection
from maxmargin.kernels.rounding import SampleSizes, factor_between, float32_suffices, product_error_bound
from maxmargin.kernels.row_cache import BATCH, RowsView

SUMMED_ROWS = 16 * BATCH  # samples that are packed at a time to add up their kernels, which are not kept
RECOMPUTED = 64  # products recomputed in float64 to measure the rounding errors of all products
SMALLEST = float(np.finfo(np.float64).tiny)
SYMMETRY_SAMPLES = 32  # samples for which a function given by the user is checked to be symmetric
EIGENVALUE_SAMPLES = 256  # samples whose kernel matrix is checked for a negative eigenvalue


class KernelProducts(ABC):
    """What problems require of the rows of the kernel matrix K, implemented by a few operations on rows.

    Attributes
    ----------
    kernel : Kernel
    shape : (n, n)
    ledger : Ledger
        Kernel evaluations by purpose.
    dtype : data type
        The precision in which rows are kept.
    cache_bytes : int
        The largest number of bytes of the cache.
    threads : int
        The number of threads that compute.
    """

    sums_are_cheap = False  # a sum over many rows takes as many kernel rows

    kernel: Kernel
    shape: tuple[int, int]
    n_stored: int
    ledger: Ledger
    dtype: np.dtype[Any]
    cache_bytes: int
    threads: int
    _diagonal: Vector | None
    _measured: tuple[Expansion, Vector] | None  # the last vector whose rounding was measured, and its errors

    # Operations that depend on where the samples are

    @property
    @abstractmethod
    def cached_rows(self) -> int:
        """The number of rows that the cache can hold."""

    @abstractmethod
    def fetch(self, indices: Indices, width: int | None = None) -> RowsView:
        """K[indices], or the first `width` entries of these rows; at most `cached_rows` rows."""

    @abstractmethod
    def block(
        self,
        indices: Indices,
        columns: Selection | None = None,
        out: Block | None = None,
        positions: Indices | None = None,
    ) -> Block:
        """K[indices][:, columns], computed without the cache."""

    @abstractmethod
    def forget_rows(self) -> None:
        """Empty the cache and free its memory."""

    @property
    @abstractmethod
    def sizes(self) -> SampleSizes:
        """The norms of the samples, and the other quantities on which bounds of rounding errors depend."""

    @abstractmethod
    def _compute_diagonal(self) -> Vector:
        """k(x_i, x_i) for every i."""

    @abstractmethod
    def _weighted_sum(self, beta: Vector) -> Vector:
        """The sum of the centred samples with these coefficients, if the feature space is that of the samples."""

    @abstractmethod
    def _centred_products(self, rows: Indices, w: Vector) -> Vector:
        """The products of some centred samples with w, if the feature space is that of the samples."""

    @abstractmethod
    def _add_products(self, indices: Indices, factors: Vector, columns: Selection, f: Vector, dtype: DTypeLike) -> int:
        """f <- f + factors @ K[indices][:, columns], in at least this precision; returns the number of evaluations."""

    @abstractmethod
    def _change_precision(self, dtype: np.dtype[Any]) -> None:
        """Keep rows in another precision; the cache is then empty."""

    # Kernels that are not kept

    def rows(self, indices: Indices) -> Block:
        """A copy of K[indices], at most as many rows as the cache can hold; rows that it holds are not recomputed."""
        return self.fetch(indices).copy()

    def add_products(self, indices: Indices, factors: Vector, columns: slice, f: Vector) -> None:
        """f <- f + factors @ K[indices][:, columns], computed without the cache; negligible kernels are left out."""
        self.ledger.count(self._add_products(indices, factors, columns, f, np.float32))

    def dot_precisely(self, beta: Vector, rows: Indices) -> Vector:
        """The products of some rows with the vector of these coefficients, computed in float64."""
        if not self.kernel.explicit:
            return self._dot_by_blocks(beta, rows, np.float64)
        f = self._centred_products(rows, self._weighted_sum(beta))
        self.ledger.count(int(rows.size + np.count_nonzero(beta)))
        return f

    def _dot_by_blocks(self, beta: Vector, rows: Indices, dtype: DTypeLike) -> Vector:
        f, nonzero = np.zeros(rows.size), np.flatnonzero(beta)
        for start in range(0, nonzero.size, SUMMED_ROWS):
            some = nonzero[start : start + SUMMED_ROWS]
            self.ledger.count(self._add_products(some, beta[some], rows, f, dtype))
        return f

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

    # Precision

    def choose_precision(self, weight: float, tol: float) -> None:
        """Keep rows in float64 from now on if float32 is not precise enough; the cache is then empty again.

        Parameters
        ----------
        weight : float
            How much the rounding of an entry may change a decision value: the size of a typical sum of coefficients if
            entries are rounded up and down equally often.
        tol : float
            The relative gap to be reached.
        """
        largest = float(np.abs(self.row_sq_norms()).max(initial=0.0))
        float64_fits = 8 * self.n_stored <= self.cache_bytes
        if self.dtype == np.float64 or float32_suffices(largest, weight, tol, float64_fits=float64_fits):
            return
        self._change_precision(np.dtype(np.float64))

    def shift(self, beta: Vector) -> float:
        """What centring subtracts from each decision value, given the coefficients of w, which sum to about 0."""
        centre = self.sizes.centre
        if centre is None:
            return 0.0
        return float(self._weighted_sum(beta) @ centre + math.fsum(beta) * (centre @ centre))

    def rounding(self, beta: Vector, dtype: DTypeLike) -> Vector:
        """A bound on the rounding error of the product of each row with the vector of these coefficients.

        Kernels are computed in this precision, and summed up in float64.
        """
        return product_error_bound(self.sizes, self.row_sq_norms(), beta, dtype)

    def measured_rounding(self, w: Point) -> Vector:
        """The error of each product that w knows, estimated from some products that are recomputed in float64.

        Sums that were updated many times may have lost more digits than sums that are computed at once. So the bound
        for the latter is enlarged, for all products, to twice the largest error among the recomputed products.
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

    # What a checkpoint holds

    def _known(self) -> dict[str, Any]:
        """What was computed and need not be recomputed, except rows."""
        return {name: vars(self)[name] for name in ("inner_product", "_diagonal", "_measured") if name in vars(self)}

    def _take_known(self, known: Mapping[str, Any]) -> None:
        vars(self).update(known)

    # What problems require of any rows, see `maxmargin.core.types.Rows`

    def products_are_inner(self, *points: Point) -> bool | None:
        """Whether K is positive semidefinite; it is not if the square of one of these vectors is negative."""
        if self.inner_product is None and any(Expansion.of(w).imaginary for w in points):
            return False
        return self.inner_product

    def dot_cost(self, w: Point) -> int:
        """The kernel evaluations that the products of w with all rows take."""
        w = Expansion.of(w)
        return int(np.count_nonzero(np.isnan(w.f)) * np.count_nonzero(w.beta))

    def dot_rounding(self, w: Point, norms: Callable[[], Vector]) -> Vector:
        """The measured error of each product that w knows."""
        return self.measured_rounding(w)

    def square_rounding(self, p: Vector, v: Point, norms: Callable[[], Vector], scale: float) -> float:
        """How much the exact square of v can exceed the computed one, as measured."""
        return float(np.abs(Expansion.of(v).beta) @ self.measured_rounding(v))

    @cached_property
    def inner_product(self) -> bool | None:
        """Whether K is positive semidefinite. None: unknown, but no eigenvalue for some of the samples is negative."""
        if self.kernel.inner_product is not None:
            return self.kernel.inner_product
        some = np.unique(np.linspace(0, self.shape[0] - 1, EIGENVALUE_SAMPLES).astype(np.int64))
        values = np.linalg.eigvalsh(self.block(some, some).astype(np.float64))
        return False if values[0] < -NEGATIVE_SQUARE * np.abs(values).max() else None

    def row_sq_norms(self) -> Vector:
        """k(x_i, x_i) for every i."""
        if self._diagonal is None:
            self._diagonal = self._compute_diagonal()
        return self._diagonal

    def sq_distances(self, w: Point) -> Vector:
        """The squared distance of each row from w."""
        return np.asarray(self.row_sq_norms() - 2 * self.dot(w) + w @ w)

    def dot(self, w: Point, rows: Indices | None = None) -> Vector:
        """The products of w with the rows; products that w does not know are computed and stored in w."""
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
            self.fetch(some).add_to(f, beta[some], self.threads)
        return Expansion(np.array(beta, dtype=np.float64), f)
