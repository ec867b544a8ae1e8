"""The decision values of a kernel model. Everything that depends only on the model is computed once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from maxmargin.core.matrix import as_matrix
from maxmargin.core.rounding import unit_roundoff
from maxmargin.core.threads import BLAS_THREADS_FROM, limit_blas
from maxmargin.core.types import Vector
from maxmargin.estimators._decisions import DenseKernels
from maxmargin.estimators.multiclass import MulticlassStrategy
from maxmargin.estimators.packed_vectors import CHUNK, PackedVectors, by_chunks
from maxmargin.kernels._row_sources import SAMPLES_PER_BLOCK
from maxmargin.kernels.functions import Kernel, Precomputed
from maxmargin.kernels.mixed_rows import Floats, far_from_zero
from maxmargin.kernels.packed_rows import in_safe_range

# Up to this many multiply-adds, compiled code predicts row by row: a matrix product may be twice as fast, but starts
# 0.15 ms later. Chosen with benchmarks/everyday.py.
FEW_OPERATIONS = 8e6
# Up to this many sparse rows, each is multiplied with the support vectors separately. More rows share the tables that
# `sparse_products` makes of the support vectors, which take as long as about ten such products.
FEW_SPARSE_ROWS = 8
# If more than this share of the rows of a chunk had to be recomputed in float64, the model stops using float32, which
# would take half the time.
LARGEST_UNSURE_SHARE = 0.5
CHUNK_VALUES = 500_000  # maximum decision values of a chunk of rows, 4 MB: with many classes, chunks have fewer rows


class KernelDecisions:
    """Computes the decision values of all binary models for rows.

    Parameters
    ----------
    vectors : array or CSR matrix of shape (n, d)
        The support vectors, grouped by class; of shape (0, n_samples) for a precomputed kernel.
    support : array of shape (n,)
        The positions of the support vectors among the training samples.
    coefficients : array of shape (rows, n)
        Their coefficients in the layout of LIBSVM.
    n_support : array of shape (n_classes,)
        The number of support vectors of each class.
    intercept : array of shape (n_models,)
        The intercepts of the binary models.
    kernel : Kernel
        The kernel function.
    strategy : MulticlassStrategy
        The multiclass strategy.
    """

    def __init__(
        self,
        vectors: Any,
        support: NDArray[np.int32],
        coefficients: Vector,
        n_support: NDArray[np.int32],
        intercept: Vector,
        kernel: Kernel,
        strategy: MulticlassStrategy,
    ) -> None:
        self.vectors, self.support, self.coefficients, self.n_support = vectors, support, coefficients, n_support
        self.intercept, self.kernel, self.strategy = intercept, kernel, strategy

    def __call__(
        self, X: Any, n_jobs: int | None, outcome: Callable[[Vector], NDArray[Any]], *, only_classes: bool = False
    ) -> NDArray[Any]:
        """Apply `outcome` to the decision values of validated rows X, of shape (some rows, n_models).

        With many classes, decision values take far more memory than their outcome, so they exist only for a few rows at
        a time. With `only_classes`, the outcome is that of `predict` of the strategy, which depends on the signs of
        most values but not on their last digits.
        """
        if issparse(self.vectors) and not issparse(X):
            X = csr_array(X)
        m = X.shape[0]
        if self.kernel.explicit:
            decide, operations = self.by_weights, self.intercept.size * self.kernel.operations(X)
        else:
            operations = self.support.size * (self.kernel.operations(X) + len(self.coefficients))
            few = m <= FEW_SPARSE_ROWS if issparse(self.vectors) else m * operations <= FEW_OPERATIONS
            if few and issparse(X) == issparse(self.vectors) and self.by_rows is not None:
                return outcome(self.by_rows(X))
            decide = self.for_classes if only_classes and self.in_float32 is not None else self.by_blocks
        if m == 1 and operations < BLAS_THREADS_FROM:
            return outcome(decide(X))
        parts: dict[int, NDArray[Any]] = {}

        def decide_some(rows: Any, where: slice) -> None:
            parts[where.start] = outcome(decide(rows))

        with limit_blas():
            size = max(1, min(CHUNK, CHUNK_VALUES // self.intercept.size))
            by_chunks(decide_some, X, operations=operations, n_jobs=n_jobs if self.kernel.parallel else 1, size=size)
        return np.concatenate([parts[start] for start in sorted(parts)])

    @cached_property
    def sums(self) -> Callable[[Floats], Vector]:
        """Function from a block of kernels with all support vectors to decision values without intercepts."""
        return self.strategy.decision_sums(self.coefficients, self.n_support)

    @cached_property
    def centred_vectors(self) -> tuple[Vector, Vector] | None:
        """The support vectors minus a centre, in float64, padded to whole blocks; and the centre.

        None if they are sparse, or if their size requires packed rows.
        """
        if not (self.kernel.of_products and self.support.size) or issparse(self.vectors):
            return None
        n, d = self.vectors.shape
        centre = self.vectors.mean(axis=0, dtype=np.float64) if self.kernel.of_differences else np.zeros(d)
        vectors = np.zeros((-(-n // SAMPLES_PER_BLOCK) * SAMPLES_PER_BLOCK, d))
        np.subtract(self.vectors, centre, out=vectors[:n])
        largest = float(np.einsum("ij,ij->i", vectors, vectors).max())
        safe = in_safe_range([largest, *self.kernel.magnitudes(largest)], vectors.itemsize)
        return (vectors, centre) if safe else None

    @cached_property
    def by_rows(self) -> Callable[[Any], Vector] | None:
        """Function that predicts one row at a time; None if packed rows are required or the kernel is not compiled."""
        kernels = self._sparse_kernels() if issparse(self.vectors) else self._dense_kernels()
        return None if kernels is None else lambda X: np.asarray(self.sums(kernels(X)) + self.intercept)

    def _dense_kernels(self) -> Callable[[Any], Vector] | None:
        if self.centred_vectors is None:
            return None
        vectors, centre = self.centred_vectors
        rows = self.kernel.dense_rows(vectors)
        if rows is None:
            return None
        at_zero, at_one = self.kernel.shift(np.array([0.0, 1.0])).tolist()
        return DenseKernels(rows, self.support.size, centre, (at_zero, at_one - at_zero))

    def _sparse_kernels(self) -> Callable[[Any], Vector] | None:
        if not (self.kernel.of_products and self.support.size):
            return None
        vectors = as_matrix(self.vectors)
        sq_norms = vectors.row_sq_norms()
        largest = float(sq_norms.max())
        # Sparse rows are not centred: far from zero, their products may lose the digits in which they differ.
        _, lost = self.kernel.rounding(np.array([largest]), self.vectors.shape[1], unit_roundoff(np.float64))
        safe = in_safe_range([largest, *self.kernel.magnitudes(largest)], 8)
        if not safe or lost[0] > unit_roundoff(np.float32):
            return None

        def kernels(X: Any) -> Vector:
            rows, own = as_matrix(X), vectors.fork()  # the user may predict in several threads at the same time
            K = np.array([own.dot(rows.dense(np.array([i]))[0]) for i in range(X.shape[0])])
            self.kernel.from_products(K, rows.row_sq_norms(), sq_norms)
            return K

        return kernels

    @cached_property
    def by_blocks(self) -> Callable[[Any], Vector]:
        """Function that predicts a few rows from a block of their kernels with all support vectors; thread-safe."""
        block, sums = self._blocks(), self.sums
        return lambda X: np.asarray(sums(block(X)) + self.intercept)

    def for_classes(self, X: Any) -> Vector:
        """Predict a few rows as precisely as their classes require: in float32, and in float64 if that is unsure."""
        decide = self.in_float32
        if decide is None:
            return self.by_blocks(X)
        values, errors = decide(X)
        unsure = ~self.strategy.certain(values, errors)
        if unsure.any():
            values[unsure] = self.by_blocks(X[unsure])
            if np.count_nonzero(unsure) > LARGEST_UNSURE_SHARE * unsure.size:
                self.in_float32 = None
        return values

    @cached_property
    def in_float32(self) -> Callable[[Vector], tuple[Vector, Vector]] | None:
        """Function that predicts a few float64 rows in float32 and returns their values and error bounds.

        Sums are computed in float64, so the only errors are those of the kernels, which `Kernel.rounding` bounds. None
        if float32 is not precise enough for the support vectors.
        """
        if self.vectors.dtype != np.float64 or self.centred_vectors is None:
            return None
        n, d = self.vectors.shape
        vectors, centre = self.centred_vectors[0][:n], self.centred_vectors[1]
        sq_norms = np.einsum("ij,ij->i", vectors, vectors)
        block = self.kernel.dense_blocks(vectors, np.float32)
        if block is None or not in_safe_range(self.kernel.magnitudes(float(sq_norms.max())), 4):
            return None
        unit, sizes = unit_roundoff(np.float32), np.abs(self.coefficients)
        absolute, relative = self.kernel.rounding(sq_norms, d, unit)
        if relative.max() >= 1:
            return None
        # |error of k_ij| <= a_i a_j + (r_i + r_j) k_ij / 2, and r_i + r_j <= max(r_i, r) (1 + r_j / r) for any r > 0.
        typical = float(relative.mean()) or 1.0
        of_absolute = self.strategy.decision_sums(sizes, self.n_support)(absolute[None])
        of_relative = self.strategy.decision_sums(sizes * (1 + relative / typical), self.n_support)

        def decide(X: Vector) -> tuple[Vector, Vector]:
            X = X - centre
            with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite are never certain
                K = block(X)
                own_absolute, own_relative = self.kernel.rounding(np.einsum("ij,ij->i", X, X), d, unit)
                errors = own_absolute[:, None] * of_absolute
                if relative.any():
                    errors = errors + 0.5 * np.maximum(own_relative, typical)[:, None] * of_relative(K)
                errors[own_relative >= 1] = np.inf
                return self.sums(K) + self.intercept, errors

        return decide

    def _blocks(self) -> Callable[[Any], Floats]:
        """Return a function that computes the kernels of a few rows with all support vectors."""
        if isinstance(self.kernel, Precomputed):
            return lambda X: np.ascontiguousarray(X[:, self.support], dtype=np.float64)
        if self.vectors.dtype == np.float64 and self.centred_vectors is not None:
            vectors, centre = self.centred_vectors
            block = self.kernel.dense_blocks(vectors[: self.support.size])
            if block is not None:
                return lambda X: block(X - centre)
        return PackedVectors().pack(self.vectors, self.kernel).block

    @cached_property
    def by_weights(self) -> Callable[[Any], Vector]:
        """Function that predicts rows from the weights of the features, for the linear kernel.

        Far from zero, sums of products of rows would lose the digits in which rows differ. Then the mean of the support
        vectors is subtracted from rows and support vectors.
        """
        models, vectors = self.strategy.coefficients_by_model(self.coefficients, self.n_support), self.vectors
        if issparse(vectors):
            sparse_weights = (models @ vectors).T
            return lambda X: np.asarray((X @ sparse_weights).toarray() + self.intercept)
        if not (len(vectors) and far_from_zero(vectors)):
            weights = np.asarray(models @ vectors).T
            return lambda X: np.asarray(X @ weights + self.intercept)
        centre = vectors.mean(axis=0, dtype=np.float64)
        # The coefficients of a model may sum to almost zero, and the sum is multiplied by the squared centre, which is
        # large: so the sum must be exact to the last digit.
        sums = [math.fsum(models.data[start:end]) for start, end in pairwise(models.indptr)]
        weights = np.asarray(models @ (vectors - centre)).T + np.outer(centre, sums)
        intercepts = self.intercept + centre @ weights
        return lambda X: np.asarray((X - centre) @ weights + intercepts)


class DecisionCache:
    """Caches the `KernelDecisions` of a model from its first prediction on; copies and pickles start empty."""

    _kept: tuple[tuple[Any, ...], KernelDecisions] | None = None  # their arguments, and the decisions

    def of(
        self,
        vectors: Any,
        support: NDArray[np.int32],
        coefficients: Vector,
        n_support: NDArray[np.int32],
        intercept: Vector,
        kernel: Kernel,
        strategy: Callable[[], MulticlassStrategy],
    ) -> KernelDecisions:
        """Return the decisions made of exactly these objects; `strategy` is called only if they are not cached."""
        parts = vectors, support, coefficients, n_support, intercept, kernel
        if self._kept is None or not all(map(is_, self._kept[0], parts)):
            self._kept = parts, KernelDecisions(*parts, strategy())
        return self._kept[1]

    def __getstate__(self) -> dict[str, Any]:
        return {}
