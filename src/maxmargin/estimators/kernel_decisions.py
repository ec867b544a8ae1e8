"""The decision values of a model with a kernel: what depends on the model alone is computed once."""

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

from maxmargin.core.threads import BLAS_THREADS_FROM, limit_blas
from maxmargin.core.types import Vector
from maxmargin.estimators._decisions import DenseKernels
from maxmargin.estimators.multiclass import MulticlassStrategy
from maxmargin.estimators.packed_vectors import CHUNK, PackedVectors, by_chunks
from maxmargin.kernels._row_sources import SAMPLES_PER_BLOCK
from maxmargin.kernels.functions import Kernel, Precomputed
from maxmargin.kernels.mixed_rows import far_from_zero
from maxmargin.kernels.packed_rows import in_safe_range

# Multiply-adds of a prediction, up to which its rows are decided one by one in compiled code: a matrix product may have
# twice the speed, but it begins 0.15 ms later. Chosen with benchmarks/everyday.py.
FEW_OPERATIONS = 8e6
CHUNK_VALUES = 500_000  # decision values of a chunk of rows, 4 MB: where classes are many, a chunk has fewer rows


class KernelDecisions:
    """Computes the decision values of all binary models for rows.

    Parameters
    ----------
    vectors : array or CSR matrix of shape (n, d)
        The support vectors, those of the first class first; of shape (0, n_samples) for a precomputed kernel.
    support : array of shape (n,)
        The positions of the support vectors among the training samples.
    coefficients : array of shape (rows, n)
        Their coefficients in the layout of LIBSVM.
    n_support : array of shape (n_classes,)
        How many support vectors each class has.
    intercept : array of shape (n_models,)
    kernel : Kernel
    strategy : MulticlassStrategy
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

    def __call__(self, X: Any, n_jobs: int | None, outcome: Callable[[Vector], NDArray[Any]]) -> NDArray[Any]:
        """What `outcome` makes of the decision values of rows of X, validated, of shape (some rows, n_models).

        The decision values of many classes take far more memory than their outcome: only a few rows have theirs at a
        time.
        """
        if issparse(self.vectors) and not issparse(X):
            X = csr_array(X)
        m = X.shape[0]
        if self.kernel.explicit:
            decide, operations = self.by_weights, self.intercept.size * self.kernel.operations(X)
        else:
            operations = self.support.size * (self.kernel.operations(X) + len(self.coefficients))
            if m * operations <= FEW_OPERATIONS and self.by_rows is not None and not issparse(X):
                return outcome(self.by_rows(X))
            decide = self.by_blocks
        if m == 1 and operations < BLAS_THREADS_FROM:
            return outcome(decide(X))
        parts: dict[int, NDArray[Any]] = {}

        def decide_some(rows: slice) -> None:
            parts[rows.start] = outcome(decide(X[rows]))

        with limit_blas():
            size = max(1, min(CHUNK, CHUNK_VALUES // self.intercept.size))
            by_chunks(decide_some, m, operations=operations, n_jobs=n_jobs if self.kernel.parallel else 1, size=size)
        return np.concatenate([parts[start] for start in sorted(parts)])

    @cached_property
    def sums(self) -> Callable[[Vector], Vector]:
        """Decision values, without intercepts, from a block of kernels with all support vectors."""
        return self.strategy.decision_sums(self.coefficients, self.n_support)

    @cached_property
    def centred_vectors(self) -> tuple[Vector, Vector] | None:
        """The support vectors less a centre, in float64, with fillers up to whole blocks; and the centre.

        None where they are sparse, or need the care of packed rows.
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
        """Decides a row at a time; None where that needs the care of packed rows, or kernels have no compiled form."""
        if self.centred_vectors is None:
            return None
        vectors, centre = self.centred_vectors
        rows = self.kernel.dense_rows(vectors)
        if rows is None:
            return None
        at_zero, at_one = self.kernel.shift(np.array([0.0, 1.0])).tolist()
        kernels = DenseKernels(rows, self.support.size, centre, (at_zero, at_one - at_zero))
        return lambda X: np.asarray(self.sums(kernels(X)) + self.intercept)

    @cached_property
    def by_blocks(self) -> Callable[[Any], Vector]:
        """Decides a few rows by a block of their kernels with all support vectors; threads may share it."""
        block, sums = self._blocks(), self.sums
        return lambda X: np.asarray(sums(block(X)) + self.intercept)

    def _blocks(self) -> Callable[[Any], Vector]:
        """Computes the kernels of a few rows with all support vectors."""
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
        """Decides rows by the weights of the features, where the kernel is linear.

        Far from zero, sums of products of rows would lose the digits that tell one row from another: there the mean of
        the support vectors is subtracted from rows and support vectors.
        """
        models, vectors = self.strategy.coefficients_by_model(self.coefficients, self.n_support), self.vectors
        if issparse(vectors):
            sparse_weights = (models @ vectors).T
            return lambda X: np.asarray((X @ sparse_weights).toarray() + self.intercept)
        if not (len(vectors) and far_from_zero(vectors)):
            weights = np.asarray(models @ vectors).T
            return lambda X: np.asarray(X @ weights + self.intercept)
        centre = vectors.mean(axis=0, dtype=np.float64)
        # The coefficients of a model may sum to next to nothing, which times the square of the centre is much: the sum
        # must be exact to the last digit.
        sums = [math.fsum(models.data[start:end]) for start, end in pairwise(models.indptr)]
        weights = np.asarray(models @ (vectors - centre)).T + np.outer(centre, sums)
        intercepts = self.intercept + centre @ weights
        return lambda X: np.asarray((X - centre) @ weights + intercepts)


class DecisionCache:
    """Keeps the `KernelDecisions` of a model from its first prediction on; copies and pickles begin without."""

    _kept: tuple[tuple[Any, ...], KernelDecisions] | None = None  # what they were made of, and the decisions

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
        """The decisions of these very objects; `strategy` makes the strategy where they are not kept already."""
        parts = vectors, support, coefficients, n_support, intercept, kernel
        if self._kept is None or not all(map(is_, self._kept[0], parts)):
            self._kept = parts, KernelDecisions(*parts, strategy())
        return self._kept[1]

    def __getstate__(self) -> dict[str, Any]:
        return {}
