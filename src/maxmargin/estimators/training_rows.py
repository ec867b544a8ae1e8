"""What the binary problems of a fit read: rows of X, or rows of a kernel matrix."""

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

# Passes over the stored entries that a binary fit takes, about: tells whether several threads pay.
PASSES = 10
# The time of a multiply-add inside the matrix products that kernels are computed by; unit: one outside of them.
KERNEL_OPERATION_COST = 0.1


class TrainingRows(ABC):
    """The rows that binary problems read, and the ledger that counts what all of them have read."""

    ledger: Ledger
    shares_cache: ClassVar[bool] = False  # whether fits on these rows share a cache, which serves one thread at a time
    most_threads: int = sys.maxsize  # how many may read these rows at the same time

    @abstractmethod
    def auto_solver(
        self, form: type[MarginProblem], budget: float | None, C: float, slack: float | None, loss: str
    ) -> AnySolver:
        """The solver that is taken for a form of the problem where the user names none."""

    def largest_norm(self) -> float:
        """The largest norm of a row; 1 where all rows are zero."""
        return float(np.sqrt(np.abs(self.sq_norms()).max())) or 1.0

    @abstractmethod
    def sq_norms(self) -> Vector:
        """The squared norms of the rows."""

    @abstractmethod
    def solve(self, fit: Fit[Self], rules: FitRules) -> ModelTable:
        """The models of all binary problems of a fit on these rows."""

    def fork(self) -> Self:
        """The same rows for the fits of another thread, with what a fit keeps there for itself."""
        return copy.copy(self)

    def given_data(self) -> dict[str, object]:
        """The data that the checkpoint of several fits refers to by name."""
        return {}

    def kept(self) -> dict[str, Any]:
        """For the checkpoint of several fits on these rows, what one leaves to the next."""
        return {}

    def take(self, kept: Mapping[str, Any]) -> None:  # noqa: B027, most rows keep nothing
        """Go on from a checkpoint."""

    def expect_more_fits(self, n_jobs: int | None) -> None:  # noqa: B027, most rows have nothing to keep
        """Called before the first of several fits on these rows: keep what the later ones need again."""

    @property
    def zero_rows(self) -> int | None:
        """How many rows are all zero; None where nobody looked."""
        return None


class RowsOfProblems(TrainingRows):
    """Rows of which each binary problem is made one by one.

    Attributes
    ----------
    matrix : Matrix or KernelMatrix
        The rows of all samples.
    parallel : bool
        Whether several threads may solve binary problems at the same time.
    """

    matrix: Matrix | KernelMatrix
    parallel: bool
    most_preliminary: int = sys.maxsize  # samples of a preliminary round, at most: `part` makes a copy of them

    @property
    def ledger(self) -> Ledger:  # type: ignore[override]
        return self.matrix.ledger

    def auto_solver(
        self, form: type[MarginProblem], budget: float | None, C: float, slack: float | None, loss: str
    ) -> AnySolver:
        return auto_solver(form, self.matrix, budget, C=C, slack=slack or 0.0, loss=loss)

    @abstractmethod
    def problem(self, recipe: Recipe, samples: BinaryProblem, scale: float) -> MarginProblem:
        """A binary problem for the calling thread to solve; `scale` is what rows are divided by in the slack form."""

    @abstractmethod
    def part(self, samples: Indices) -> Self:
        """The rows of some of the samples, with a ledger of their own."""

    @abstractmethod
    def zero(self, samples: BinaryProblem) -> Point:
        """The direction w = 0 of a binary problem."""

    @abstractmethod
    def operations(self, problems: Sequence[BinaryProblem]) -> float:
        """About how many multiply-adds it takes to fit one binary model, on average."""

    @abstractmethod
    def predictors(self, problems: Sequence[BinaryProblem], models: Sequence[BinaryModel]) -> tuple[Vector, Vector]:
        """The coefficients of all binary models in one array, and their intercepts."""

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
        """What was read of the matrix of a binary problem, for a checkpoint."""
        return {"ledger": matrix.ledger.kept()}

    def take_counts(self, matrix: Rows, counts: Mapping[str, Any]) -> None:
        """Set the counts of the matrix of a binary problem to those of a checkpoint."""
        matrix.ledger.take(counts["ledger"])

    def add_reads(self, matrix: Rows) -> None:
        """Count what was read of another matrix of these rows; what was read of this one is counted already."""
        if matrix is not self.matrix:
            self.matrix.ledger.add(matrix.ledger)


class FeatureRows(RowsOfProblems):
    """Rows of X, of which each binary problem reads all.

    Parameters
    ----------
    X : array, np.memmap, CSR or CSC matrix of shape (n, d), or Matrix
    threads : int
        How many threads may read the rows of one problem at the same time.
    """

    matrix: Matrix
    parallel = True

    def __init__(self, X: Any, threads: int = 1) -> None:
        self.matrix = as_matrix(X, threads)
        if self.matrix.checks_entries:
            # It lies elsewhere: each thread has a block of it in memory. Problems that are solved at the same time
            # would take the room in the cache from each other.
            self.most_threads = 1 if self.matrix.exceeds_cache else READERS
        self.known_sq_norms: Vector | None = None

    def problem(self, recipe: Recipe, samples: BinaryProblem, scale: float, *, part: bool = False) -> MarginProblem:
        """A binary problem; `part`: on a part of the samples only, as in the problems."""
        problem = recipe.problem(self.matrix.fork(), samples.y, samples.weights, scale=scale, part=part)
        return problem if self.known_sq_norms is None else problem.with_sq_norms(self.known_sq_norms)

    def part(self, samples: Indices) -> Self:
        return type(self)(self.matrix[samples])

    def fork(self) -> Self:
        other = super().fork()
        other.matrix = self.matrix.fork()  # of data that lies elsewhere, each thread has a block at hand
        return other

    def zero(self, samples: BinaryProblem) -> Vector:
        return np.zeros(self.matrix.shape[1])

    def operations(self, problems: Sequence[BinaryProblem]) -> float:
        return PASSES * float(self.matrix.n_stored)

    def predictors(self, problems: Sequence[BinaryProblem], models: Sequence[BinaryModel]) -> tuple[Vector, Vector]:
        """The weights of the features. Those of a single model are not copied: they may be as large as the data."""
        weights = [np.asarray(model.coef) for model in models]
        intercepts = np.array([model.intercept for model in models])
        return np.stack(weights) if len(weights) > 1 else weights[0].reshape(1, -1), intercepts

    def sq_norms(self) -> Vector:
        """The squared norms of the rows: a pass over the data, the first time."""
        if self.known_sq_norms is None:
            self.known_sq_norms = super().sq_norms()
        return self.known_sq_norms

    @property
    def zero_rows(self) -> int | None:
        """How many rows are all zero; None where no norm was read."""
        return None if self.known_sq_norms is None else int(np.count_nonzero(self.known_sq_norms == 0))


class KernelRows(RowsOfProblems):
    """Rows of a kernel matrix.

    Parameters
    ----------
    K : KernelMatrix
    operations_per_evaluation : float
        How many multiply-adds one evaluation of the kernel takes.
    strategy : MulticlassStrategy
        Says which rows the binary problems share.
    ahead : bool
        Whether rows may be computed before a binary problem needs them; not where a budget limits the evaluations.
    """

    matrix: KernelMatrix
    shares_cache = True

    def __init__(
        self, K: KernelMatrix, operations_per_evaluation: float, strategy: MulticlassStrategy, *, ahead: bool
    ) -> None:
        self.matrix, self.operations_per_evaluation = K, operations_per_evaluation
        self.strategy, self.ahead = strategy, ahead
        # One cache serves one thread, and a kernel that is a function of the user may be made for one thread only.
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
        """The weights of the samples, in the layout of LIBSVM."""
        betas = [Expansion.of(model.coef).beta for model in models]
        each = zip(problems, betas, models, strict=True)
        intercepts = [model.intercept - self.shift(problem, beta) for problem, beta, model in each]
        return self.strategy.coefficients(problems, betas, self.matrix.shape[0]), np.array(intercepts)

    def shift(self, samples: BinaryProblem, beta: Vector) -> float:
        """What subtracting the mean of the rows has added to the intercept of a model with these coefficients."""
        return float(self.matrix.shift(samples.coefficients_of_all(beta, self.matrix.shape[0])))

    @property
    def kernel(self) -> Kernel:
        """The kernel function."""
        return self.matrix.kernel

    @property
    def saved(self) -> int:
        """Kernels that were needed again and found in the cache."""
        return self.matrix.saved

    def operations(self, problems: Sequence[BinaryProblem]) -> float:
        # The evaluations between all samples of a problem: some are computed twice, and some are not needed.
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
