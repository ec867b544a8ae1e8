"""The fit of a kernel classifier on few samples, which solves all its binary problems in a few compiled calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from maxmargin.core import Ledger
from maxmargin.core.rounding import UNIT
from maxmargin.core.threads import thread_count
from maxmargin.core.types import Indices, Vector
from maxmargin.engine.row_problem import INDEFINITE, SEMIDEFINITE
from maxmargin.estimators.fit import Fit, FitRules
from maxmargin.estimators.model_table import ModelTable
from maxmargin.estimators.multiclass import MulticlassStrategy
from maxmargin.estimators.small_rows import SmallRows, weights_are_safe
from maxmargin.estimators.training_rows import KernelRows
from maxmargin.kernels._row_sources import RowSource, WholeMatrix
from maxmargin.kernels.packed_rows import in_safe_range
from maxmargin.problems import Kernel, KernelMatrix, MarginProblem
from maxmargin.solvers import Smo
from maxmargin.svm.kernel.many_problems import BinaryRanges, ClassOrder, SampleTerms, solve_many
from maxmargin.svm.many_problems import SolvedProblems, Stop, Targets

# Up to this many bytes of kernel rows of one problem, rows are computed one at a time and kept until it is solved. A
# larger problem gains more from blocks of rows, which are matrix products, than it loses in the work between blocks.
MOST_ROW_BYTES = 200e6
# Maximum bytes of the samples of one problem: more do not fit in the processor's cache, so each row waits for memory.
MOST_SAMPLE_BYTES = 4e6
# Up to this many bytes, the kernel matrix of all samples is computed at once, if rows are not computed one by one.
MOST_MATRIX_BYTES = 128e6
# Approximate multiply-adds of a problem per pair of its samples; used to decide whether several threads pay off.
OPERATIONS_PER_PAIR = 4.0


class SmallKernelRows(SmallRows):
    """The samples of a fit, sorted by class, and the source of their kernel rows.

    Parameters
    ----------
    order : ClassOrder
        The order of the samples by class.
    source : RowSource
        The source of the kernel rows.
    kernel : Kernel
        The kernel function.
    diagonal, sq_norms : arrays of shape (n_filled,)
        The kernel of each sample with itself, and the squared norm that its rounding depends on.
    width : int
        The number of features.
    inner_product : bool or None
        Whether the kernel is an inner product; None if not known.
    ledger : Ledger
        Counts kernel evaluations.
    cache_bytes : float
        Memory for kernel rows. It limits the number of threads: each needs room for the rows of one problem.
    general : callable
        Makes the rows of the general path.
    samples : array of shape (n_filled, d) or None
        The dense samples from which the source computes rows; None if it has the whole kernel matrix.
    """

    def __init__(
        self,
        order: ClassOrder,
        source: RowSource,
        kernel: Kernel,
        diagonal: Vector,
        sq_norms: Vector,
        width: int,
        inner_product: bool | None,
        ledger: Ledger,
        cache_bytes: float,
        general: Callable[[], KernelRows],
        samples: Vector | None = None,
    ) -> None:
        self.order, self.source, self.kernel, self.diagonal, self.ledger = order, source, kernel, diagonal, ledger
        self.inner_product = inner_product
        self.g, self.h = kernel.rounding(sq_norms, width, UNIT)
        self.saved, self.cache_bytes, self._general, self.samples = 0, cache_bytes, general, samples

    def expect_more_fits(self, n_jobs: int | None) -> None:
        """Compute the whole kernel matrix at once, unless it has more bytes than a fit alone may keep rows.

        Each fit alone would compute most rows anew.
        """
        if self.samples is None or 8 * self.order.samples.size**2 > min(MOST_ROW_BYTES, self.cache_bytes):
            return
        source = _whole_matrix(self.kernel, self.samples, n_jobs, self.ledger)
        if source is not None:
            self.source, self.samples = source, None

    def auto_solver(
        self, form: type[MarginProblem], budget: float | None, C: float, slack: float | None, loss: str
    ) -> Smo:
        return Smo()

    def sq_norms(self) -> Vector:
        return self.diagonal

    def general(self) -> KernelRows:
        return self._general()

    def _prepare(self, fit: Fit[Self]) -> None:
        self.ranges: BinaryRanges = fit.strategy.ranges(self.order, fit.class_weights)
        self.s: Vector = self.order.spread(fit.weights)

    def _room(self, fit: Fit[Self]) -> SolvedProblems:
        return SolvedProblems.empty(self.ranges.samples.size, np.zeros((fit.strategy.coefficient_rows, self.s.size)))

    def _finish(self, fit: Fit[Self], found: SolvedProblems) -> None:
        evaluations, used = int(found.kernel_evaluations.sum()), int(found.iterations @ self.ranges.samples)
        self.ledger.count(evaluations)
        self.saved = max(0, (2 if fit.recipe.bias else 1) * used - evaluations)

    def _solve(
        self, fit: Fit[Self], rules: FitRules, targets: Targets, results: SolvedProblems, which: Indices, stop: Stop
    ) -> SolvedProblems:
        ranges = self.ranges
        return solve_many(
            self.source,
            ranges,
            SampleTerms(self.s, self.diagonal, self.g, self.h),
            targets,
            results,
            which=which,
            free_bias=fit.recipe.bias,
            max_passes=rules.stop.max_iter,
            threads=min(self._threads(fit, rules), max(1, int(self.cache_bytes / (8 * ranges.samples.max() ** 2)))),
            stop=stop,
        )

    def _needs_general_path(self, fit: Fit[Self], models: ModelTable) -> bool:
        return fit.recipe.slack is not None and super()._needs_general_path(fit, models)

    def _operations(self, fit: Fit[Self]) -> float:
        return OPERATIONS_PER_PAIR * float((self.ranges.samples.astype(np.float64) ** 2).sum())

    def _coefficients(self, found: SolvedProblems) -> Vector:
        order = self.order
        coefficients = np.zeros((len(found.coefficients), order.places.size))
        coefficients[:, order.samples[order.places]] = found.coefficients[:, order.places]
        return coefficients

    def _total_weights(self, fit: Fit[Self]) -> Vector:
        return self.ranges.total_weights(self.s)

    def _multiply(self, results: SolvedProblems, factors: Vector) -> None:
        self.ranges.multiply(results.coefficients, factors)

    def _n_iter(self, fit: Fit[Self], found: SolvedProblems) -> Vector:
        """Return the number of passes over the samples; a step is on two samples, or on one if there is no bias."""
        samples = self.ranges.samples
        return np.asarray(np.ceil(found.iterations / (np.ceil(samples / 2) if fit.recipe.bias else samples)))

    def _proof_terms(self, found: SolvedProblems) -> dict[str, str]:
        imaginary = self.inner_product is None and bool((found.sq_norm < 0).any())
        return {
            "provided": SEMIDEFINITE if self.inner_product is None else "",
            "why_not": INDEFINITE if self.inner_product is False or imaginary else "",
        }


def small_kernel_rows(
    X: Any,
    kernel: Kernel,
    label: Indices,
    u: Vector,
    strategy: MulticlassStrategy,
    *,
    cache_bytes: float,
    n_jobs: int | None,
    general: Callable[[], KernelRows],
) -> SmallKernelRows | None:
    """Make the rows of few samples; None if there are too many samples, or their values require the general path.

    `u` is C times the weight of each sample, and `general` makes the rows of the general path.
    """
    sizes = np.bincount(label, minlength=strategy.classes.size)
    longest = int(np.sort(sizes)[-2:].sum()) if strategy.own_samples else label.size
    if 8 * longest**2 > min(MOST_ROW_BYTES, cache_bytes):
        return None
    if not weights_are_safe(u, label, sizes.size):
        return None
    order = ClassOrder.of(label, sizes.size)
    found = None
    if kernel.of_products and not issparse(X):
        few = 8 * longest * X.shape[1] <= MOST_SAMPLE_BYTES
        if few or _matrix_fits(order, cache_bytes):
            found = _rows_of_samples(X, kernel, order, few, cache_bytes, n_jobs, general)
    return found or _rows_of_matrix(X, kernel, order, cache_bytes, n_jobs, general)


def _matrix_fits(order: ClassOrder, cache_bytes: float) -> bool:
    return 8 * order.samples.size**2 <= min(MOST_MATRIX_BYTES, cache_bytes)


def _rows_of_samples(
    X: Any,
    kernel: Kernel,
    order: ClassOrder,
    one_by_one: bool,
    cache_bytes: float,
    n_jobs: int | None,
    general: Callable[[], KernelRows],
) -> SmallKernelRows | None:
    """Make rows that are computed from dense samples, each when a step needs it, or all of them now."""
    Z = np.asarray(X, dtype=np.float64)[order.samples]
    if kernel.of_differences:
        Z -= Z[order.places].mean(axis=0)
    sq_norms = np.einsum("ij,ij->i", Z, Z)
    largest = float(sq_norms.max())
    if largest == 0 and Z.any():
        return None
    if not (largest == 0 or in_safe_range([largest, *kernel.magnitudes(largest)], Z.itemsize)):
        return None
    if not math.isfinite(largest):
        return None
    ledger = Ledger()
    source: RowSource | None
    source = kernel.dense_rows(Z) if one_by_one else _whole_matrix(kernel, Z, n_jobs, ledger)
    if source is None:
        return None
    diagonal, samples = kernel.diagonal(Z), Z if one_by_one else None
    return SmallKernelRows(
        order,
        source,
        kernel,
        diagonal,
        sq_norms,
        X.shape[1],
        kernel.inner_product,
        ledger,
        cache_bytes,
        general,
        samples,
    )


def _whole_matrix(kernel: Kernel, Z: Vector, n_jobs: int | None, ledger: Ledger) -> WholeMatrix | None:
    """Compute the kernel matrix of dense samples; None if the kernel cannot compute it at once."""
    matrix = kernel.dense_matrix(Z, thread_count(n_jobs, 0.5 * len(Z) * Z.size))
    if matrix is None:
        return None
    ledger.count(len(Z) * (len(Z) + 1) // 2)  # it is symmetric
    return WholeMatrix(matrix)


def _rows_of_matrix(
    X: Any,
    kernel: Kernel,
    order: ClassOrder,
    cache_bytes: float,
    n_jobs: int | None,
    general: Callable[[], KernelRows],
) -> SmallKernelRows | None:
    """Make rows from the kernel matrix of all samples, for sparse data and for callable kernels."""
    if not _matrix_fits(order, cache_bytes):
        return None
    n = order.samples.size
    K = KernelMatrix(X, kernel, cache_size=cache_bytes / 1e6, threads=thread_count(n_jobs))
    matrix = K.block(order.samples, order.samples, np.empty((n, n)))
    diagonal, sq_norms = K.row_sq_norms()[order.samples], K.packed.sq_norms[order.samples]
    return SmallKernelRows(
        order,
        WholeMatrix(matrix),
        kernel,
        diagonal,
        sq_norms,
        K.packed.d,
        K.inner_product,
        K.ledger,
        cache_bytes,
        general,
    )
