"""The rows that the binary problems of a fit read: rows of X, or rows of a kernel matrix."""

from __future__ import annotations

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from maxmargin.core import Ledger, Matrix
from maxmargin.core.block_cache import READERS
from maxmargin.core.threads import limit_blas, thread_count
from maxmargin.core.types import Indices, Point, Rows, Vector
from maxmargin.data import as_matrix
from maxmargin.engine.row_problem import read_sq_norms
from maxmargin.engine.solver import AnySolver
from maxmargin.estimators.binary import BinaryModel
from maxmargin.estimators.fit import Fit, FitRules
from maxmargin.estimators.model_table import ModelTable
from maxmargin.estimators.multiclass import BinaryProblem, MulticlassStrategy
from maxmargin.estimators.recipe import Recipe
from maxmargin.estimators.rounds import Rounds
from maxmargin.kernels.rows import kernel_rows
from maxmargin.problems import Expansion, Kernel, KernelMatrix, MarginProblem
from maxmargin.solvers import auto_solver

# Approximate passes over the stored entries in a binary fit; used to decide whether several threads pay off.
PASSES = 10
# The time of a multiply-add in the matrix products that compute kernels; unit: a multiply-add outside of them.
KERNEL_OPERATION_COST = 0.1


class TrainingRows(ABC):
    """The rows that binary problems read, and the ledger that counts their reads."""

    ledger: Ledger
    shares_cache: ClassVar[bool] = False  # whether fits on these rows share a cache, which serves one thread at a time
    most_threads: int = sys.maxsize  # maximum number of threads that may read these rows at the same time

    @abstractmethod
    def auto_solver(
        self, form: type[MarginProblem], budget: float | None, C: float, slack: float | None, loss: str
    ) -> AnySolver:
        """Return the solver for a form of the problem if the user names none."""

    def largest_norm(self) -> float:
        """Return the largest norm of a row; 1 if all rows are zero."""
        return float(np.sqrt(np.abs(self.sq_norms()).max())) or 1.0

    @abstractmethod
    def sq_norms(self) -> Vector:
        """Return the squared norms of the rows."""

    @abstractmethod
    def solve(self, fit: Fit[Self], rules: FitRules) -> ModelTable:
        """Solve all binary problems of a fit on these rows and return their models."""

    def fork(self) -> Self:
        """Return the same rows for the fits of another thread, with separate copies of what a fit modifies."""
        return copy.copy(self)

    def given_data(self) -> dict[str, object]:
        """Return the data that the checkpoint of several fits refers to by name."""
        return {}

    def kept(self) -> dict[str, Any]:
        """Return what one of several fits on these rows leaves to the next, for their checkpoint."""
        return {}

    def take(self, kept: Mapping[str, Any]) -> None:  # noqa: B027, most rows keep nothing
        """Restore what :meth:`kept` returned, to continue from a checkpoint."""

    def expect_more_fits(self, n_jobs: int | None) -> None:  # noqa: B027, most rows have nothing to keep
        """Keep what later fits on these rows need again; called before the first of several fits."""

    @property
    def zero_rows(self) -> int | None:
        """The number of rows whose entries are all zero; None if not known."""
        return None


class RowsOfProblems(TrainingRows):
    """Rows from which each binary problem is made separately.

    Attributes
    ----------
    matrix : Matrix or KernelMatrix
        The rows of all samples.
    parallel : bool
        Whether several threads may solve binary problems at the same time.
    """

    matrix: Matrix | KernelMatrix
    parallel: bool
    most_preliminary: int = sys.maxsize  # maximum samples of a preliminary round, because `part` copies them

    @property
    def ledger(self) -> Ledger:  # type: ignore[override]
        return self.matrix.ledger

    def auto_solver(
        self, form: type[MarginProblem], budget: float | None, C: float, slack: float | None, loss: str
    ) -> AnySolver:
        return auto_solver(form, self.matrix, budget, C=C, slack=slack or 0.0, loss=loss)

    @abstractmethod
    def problem(self, recipe: Recipe, samples: BinaryProblem, scale: float) -> MarginProblem:
        """Return a binary problem for the calling thread; `scale` is the divisor of the rows in the slack form."""

    @abstractmethod
    def part(self, samples: Indices) -> Self:
        """Return the rows of some of the samples, with a separate ledger."""

    @abstractmethod
    def zero(self, samples: BinaryProblem) -> Point:
        """Return the direction w = 0 of a binary problem."""

    @abstractmethod
    def operations(self, problems: Sequence[BinaryProblem]) -> float:
        """Estimate the average number of multiply-adds to fit one binary model."""

    @abstractmethod
    def predictors(self, problems: Sequence[BinaryProblem], models: Sequence[BinaryModel]) -> tuple[Vector, Vector]:
        """Return the coefficients of all binary models in one array, and their intercepts."""

    def sq_norms(self) -> Vector:
        return read_sq_norms(self.matrix)

    def given_data(self) -> dict[str, object]:
        return {"rows": self.matrix}

    def kept(self) -> dict[str, Any]:
        return {"matrix": self.matrix.kept()}

    def take(self, kept: Mapping[str, Any]) -> None:
        self.matrix.take(kept["matrix"])

    @limit_blas()
    def solve(self, fit: Fit[Self], rules: FitRules) -> ModelTable:
        threads = thread_count(rules.n_jobs, self.operations(fit.problems)) if self.parallel else 1
        return fit.table(Rounds(fit, rules, min(threads, self.most_threads)).run())

    def counts(self, matrix: Rows) -> dict[str, Any]:
        """Return the counts of what was read of the matrix of a binary problem, for a checkpoint."""
        return {"ledger": matrix.ledger.kept()}

    def take_counts(self, matrix: Rows, counts: Mapping[str, Any]) -> None:
        """Set the counts of the matrix of a binary problem to those of a checkpoint."""
        matrix.ledger.take(counts["ledger"])

    def add_reads(self, matrix: Rows) -> None:
        """Count what was read of another matrix of these rows; reads of this matrix are counted already."""
        if matrix is not self.matrix:
            self.matrix.ledger.add(matrix.ledger)


class FeatureRows(RowsOfProblems):
    """Rows of X, all of which are read by each binary problem.

    Parameters
    ----------
    X : array, np.memmap, CSR or CSC matrix of shape (n, d), or Matrix
        The samples.
    threads : int
        The number of threads that may read the rows of one problem at the same time.
    """

    matrix: Matrix
    parallel = True

    def __init__(self, X: Any, threads: int = 1) -> None:
        self.matrix = as_matrix(X, threads)
        if self.matrix.checks_entries:
            # The data is outside memory, and each thread has a block of it in memory. Problems that are solved at the
            # same time would compete for the cache.
            self.most_threads = 1 if self.matrix.exceeds_cache else READERS
        self.known_sq_norms: Vector | None = None

    def problem(self, recipe: Recipe, samples: BinaryProblem, scale: float, *, part: bool = False) -> MarginProblem:
        """Return a binary problem; `part` says that these are only a part of the samples, as in the problems."""
        problem = recipe.problem(self.matrix.fork(), samples.y, samples.weights, scale=scale, part=part)
        return problem if self.known_sq_norms is None else problem.with_sq_norms(self.known_sq_norms)

    def part(self, samples: Indices) -> Self:
        return type(self)(self.matrix[samples])

    def fork(self) -> Self:
        other = super().fork()
        other.matrix = self.matrix.fork()  # of data outside memory, each thread has a block in memory
        return other

    def zero(self, samples: BinaryProblem) -> Vector:
        return np.zeros(self.matrix.shape[1])

    def operations(self, problems: Sequence[BinaryProblem]) -> float:
        return PASSES * float(self.matrix.n_stored)

    def predictors(self, problems: Sequence[BinaryProblem], models: Sequence[BinaryModel]) -> tuple[Vector, Vector]:
        """Return the weights of the features; those of a single model are not copied, as they may be very large."""
        weights = [np.asarray(model.coef) for model in models]
        intercepts = np.array([model.intercept for model in models])
        return np.stack(weights) if len(weights) > 1 else weights[0].reshape(1, -1), intercepts

    def sq_norms(self) -> Vector:
        """Return the squared norms of the rows, which take one pass over the data in the first call."""
        if self.known_sq_norms is None:
            self.known_sq_norms = super().sq_norms()
        return self.known_sq_norms

    @property
    def zero_rows(self) -> int | None:
        """The number of rows whose entries are all zero; None if no norms were computed."""
        return None if self.known_sq_norms is None else int(np.count_nonzero(self.known_sq_norms == 0))


class KernelRows(RowsOfProblems):
    """Rows of a kernel matrix.

    Parameters
    ----------
    K : KernelMatrix
        The kernel matrix.
    operations_per_evaluation : float
        The multiply-adds of one kernel evaluation.
    strategy : MulticlassStrategy
        The multiclass strategy, which determines the rows that binary problems share.
    ahead : bool
        Whether rows may be computed before a binary problem needs them; False if a budget limits the evaluations.
    """

    matrix: KernelMatrix
    shares_cache = True

    def __init__(
        self, K: KernelMatrix, operations_per_evaluation: float, strategy: MulticlassStrategy, *, ahead: bool
    ) -> None:
        self.matrix, self.operations_per_evaluation = K, operations_per_evaluation
        self.strategy, self.ahead = strategy, ahead
        # A cache serves one thread, and a callable kernel may not be thread-safe.
        self.parallel = strategy.own_samples and K.kernel.parallel
        if ahead:
            strategy.compute_shared_rows(K)

    def problem(self, recipe: Recipe, samples: BinaryProblem, scale: float) -> MarginProblem:
        K = self.matrix if samples.rows is None else self.matrix.part(samples.rows)
        return recipe.problem(K, samples.y, samples.weights, scale=scale)

    def expect_more_fits(self, n_jobs: int | None) -> None:
        self.matrix.keep_released_rows()

    def part(self, samples: Indices) -> Self:
        K = self.matrix.part(samples)
        return type(self)(K, self.operations_per_evaluation, self.strategy, ahead=self.ahead)

    def zero(self, samples: BinaryProblem) -> Expansion:
        nothing = np.zeros(samples.size)
        return Expansion(nothing, nothing)

    def predictors(self, problems: Sequence[BinaryProblem], models: Sequence[BinaryModel]) -> tuple[Vector, Vector]:
        """Return the weights of the samples, in the layout of LIBSVM."""
        betas = [Expansion.of(model.coef).beta for model in models]
        each = zip(problems, betas, models, strict=True)
        intercepts = [model.intercept - self.shift(problem, beta) for problem, beta, model in each]
        return self.strategy.coefficients(problems, betas, self.matrix.shape[0]), np.array(intercepts)

    def shift(self, samples: BinaryProblem, beta: Vector) -> float:
        """Return what subtracting the mean of the rows added to the intercept of a model with these coefficients."""
        return float(self.matrix.shift(samples.coefficients_of_all(beta, self.matrix.shape[0])))

    @property
    def kernel(self) -> Kernel:
        """The kernel function."""
        return self.matrix.kernel

    @property
    def saved(self) -> int:
        """The number of kernel values that were needed again and found in the cache."""
        return self.matrix.saved

    def operations(self, problems: Sequence[BinaryProblem]) -> float:
        # The number of pairs of samples of a problem; some kernels are computed twice, and some are not needed.
        evaluations = float(np.mean([problem.size**2 for problem in problems]))
        return KERNEL_OPERATION_COST * evaluations * self.operations_per_evaluation

    def counts(self, matrix: Rows) -> dict[str, Any]:
        return {**super().counts(matrix), "saved": kernel_rows(matrix).saved}

    def take_counts(self, matrix: Rows, counts: Mapping[str, Any]) -> None:
        super().take_counts(matrix, counts)
        kernel_rows(matrix).saved = counts["saved"]

    def add_reads(self, matrix: Rows) -> None:
        super().add_reads(matrix)
        if matrix is not self.matrix:
            self.matrix.saved += kernel_rows(matrix).saved
