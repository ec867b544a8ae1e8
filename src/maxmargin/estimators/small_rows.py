"""Fits on few samples, in which all binary problems are solved together in a few compiled calls."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.threads import thread_count
from maxmargin.core.types import Indices, Vector
from maxmargin.engine.certificate import Certificate, CertificateColumns
from maxmargin.engine.trace import TraceColumns
from maxmargin.estimators.advice import warn_of_an_early_end
from maxmargin.estimators.fit import Fit, FitRules
from maxmargin.estimators.model_table import ModelTable
from maxmargin.estimators.training_rows import RowsOfProblems, TrainingRows
from maxmargin.solvers import listen_for_interrupt
from maxmargin.svm.many_problems import MAX_ITER, UNFINISHED, SolvedProblems, Stop, Targets
from maxmargin.svm.many_slacks import first_strength, solve_for_slacks
from maxmargin.svm.search_for_C import SearchForC

if TYPE_CHECKING:
    from maxmargin.engine.checkpoint import Checkpoint

SAFE_WEIGHTS = 1e-50, 1e50  # range of C times the weight of a sample
# Indexed by the status codes of `svm/many_problems.py`; the status of an unfinished problem is what stopped the fit.
STATUS = ("tol", "max_iter", "finished")


@dataclass(frozen=True)
class SolvedTogether:
    """The models of all binary problems.

    Attributes
    ----------
    results : SolvedProblems
        The results of the compiled calls.
    margin, slack, C : arrays of shape (n_problems,)
        The values of each model, see :class:`maxmargin.LinearSVC`.
    """

    results: SolvedProblems
    margin: Vector
    slack: Vector
    C: Vector


class SolvedSoFar:
    """The solved binary problems in a checkpoint. The problems do not depend on each other.

    Attributes
    ----------
    together : SolvedTogether or None
        The models, if the saved fit is complete.
    results : SolvedProblems or None
        The results, if the saved fit was cut off; the results of unsolved problems are arbitrary.
    solved : array of bool
        Mask of the solved problems.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint, found = checkpoint, checkpoint.run({}, {}) or {}
        self.together: SolvedTogether | None = found.get("together")
        self.results: SolvedProblems | None = found.get("results")
        self.solved: NDArray[np.bool_] = found.get("solved", np.zeros(0, dtype=bool))

    def add(self, solved: Sequence[int], results: SolvedProblems) -> None:
        """Record that these problems are solved, and save all results if it is time."""
        if not self.solved.size:
            self.solved = np.zeros(len(results.table), dtype=bool)
        self.solved[solved] = True
        if self.checkpoint.due:
            self.checkpoint.save({"results": results, "solved": self.solved}, {}, {})

    def end(self, together: SolvedTogether, seconds: float) -> None:
        """Save the models, unless they are already saved or took too few seconds to be worth saving."""
        if self.together is None and self.checkpoint.worth_saving(seconds):
            self.checkpoint.save({"together": together}, {}, {})


class SmallRows(TrainingRows):
    """The samples of a fit, few enough for all binary problems to be solved together.

    A subclass defines how they are solved (`_solve`), and what follows for the ledger and the table of models.
    """

    C_times_slack: Vector | None = None  # this product of each binary problem at the end of the last fit with a slack

    def kept(self) -> dict[str, Any]:
        return {"C_times_slack": self.C_times_slack}

    def take(self, kept: Mapping[str, Any]) -> None:
        self.C_times_slack = kept["C_times_slack"]

    @abstractmethod
    def general(self) -> RowsOfProblems:
        """Return the same samples as rows from which each binary problem is made separately."""

    @abstractmethod
    def _room(self, fit: Fit[Self]) -> SolvedProblems:
        """Return empty arrays for the results of all binary problems."""

    @abstractmethod
    def _solve(
        self, fit: Fit[Self], rules: FitRules, targets: Targets, results: SolvedProblems, which: Indices, stop: Stop
    ) -> SolvedProblems:
        """Solve some of the binary problems; `stop` is called from time to time."""

    @abstractmethod
    def _operations(self, fit: Fit[Self]) -> float:
        """Estimate the multiply-adds for all binary problems, to decide whether several threads pay off."""

    @abstractmethod
    def _coefficients(self, found: SolvedProblems) -> Vector:
        """Return the coefficients of all binary models; coefficients of samples are in the order of X."""

    @abstractmethod
    def _total_weights(self, fit: Fit[Self]) -> Vector:
        """Return the sum of the sample weights of each binary problem."""

    @abstractmethod
    def _multiply(self, results: SolvedProblems, factors: Vector) -> None:
        """Multiply the coefficients of each binary model by its factor."""

    @abstractmethod
    def _n_iter(self, fit: Fit[Self], found: SolvedProblems) -> Vector:
        """Return the iterations of each binary problem, counted as `max_iter` counts them."""

    @abstractmethod
    def _proof_terms(self, found: SolvedProblems) -> dict[str, str]:
        """Return what the certificates of the results say about the kernel."""

    @abstractmethod
    def _prepare(self, fit: Fit[Self]) -> None:
        """Compute what several of the other methods need; called first."""

    @abstractmethod
    def _finish(self, fit: Fit[Self], found: SolvedProblems) -> None:
        """Process the results of all binary problems; called once, at the end."""

    def _limit_blas(self) -> AbstractContextManager[object]:
        """Return the context in which the samples are prepared and all binary problems are solved."""
        return nullcontext()

    def solve(self, fit: Fit[Self], rules: FitRules) -> ModelTable:
        """Solve all binary problems. If one misses its tolerance, also try the general path, and use the better one."""
        with self._limit_blas():
            models = self._solve_together(fit, rules)
        if rules.stop.max_iter is not None or not self._needs_general_path(fit, models):
            return models
        rows = self.general()
        others = rows.solve(fit.on(rows), rules)
        return min(models, others, key=_loosest_gap)

    def _needs_general_path(self, fit: Fit[Self], models: ModelTable) -> bool:
        """Whether a problem ended before it reached its tolerance, for a reason that may not stop the general path."""
        return bool({"max_iter", "finished"}.intersection(models.stopped))

    def _solve_together(self, fit: Fit[Self], rules: FitRules) -> ModelTable:
        self._prepare(fit)
        strategy, given = fit.strategy, rules.stop.tol
        tol = fit.recipe.solver.default_tol if given is None else given
        assert tol is not None
        began, seconds, lock, why = time.perf_counter(), np.zeros(strategy.n_models), Lock(), ""
        saved = None if rules.checkpoint is None else SolvedSoFar(rules.checkpoint.run_of("together", with_end=True))

        def stop_now(solved: Sequence[int], results: SolvedProblems) -> bool:
            nonlocal why
            with lock:
                seconds[solved] = time.perf_counter() - began
                if saved is not None and fit.recipe.slack is None:
                    saved.add(solved, results)
                asked = rules.callbacks.solved_together(solved, lambda: self._traces(fit, results, seconds, tol))
                if interrupt.asked:
                    why = "interrupted"
                elif not why and (asked or rules.deadline.passed):
                    why = "callback" if asked else "max_time"
            return bool(why)

        with listen_for_interrupt() as interrupt:
            together = self._find(fit, rules, tol, stop_now, saved)
            if interrupt.answer():
                why = "interrupted"
        if saved is not None and not why:
            saved.end(together, time.perf_counter() - began)
        found, n = together.results, strategy.n_models
        self._finish(fit, found)
        unfinished = found.status == UNFINISHED
        seconds[unfinished] = time.perf_counter() - began
        if n > 1:
            names = [strategy.name(k) for k in np.flatnonzero(unfinished).tolist()]
            warn_of_an_early_end(names, n, why, "an unfinished model only")
        status, statuses = found.status.astype(np.int64), (*STATUS, why)
        short = (status == MAX_ITER) & (np.abs(found.value - found.bound) > tol * np.abs(found.value))
        return ModelTable(
            self._coefficients(found),
            found.bias.copy(),
            together.margin,
            together.slack,
            together.C,
            self._n_iter(fit, found).astype(np.int64),
            [statuses[code] for code in status.tolist()],
            self._certificates(fit, found) if rules.certify else [Certificate.missing("certify=False")] * n,
            self._traces(fit, found, seconds, tol),
            np.where(short, tol, math.nan),
            np.column_stack([found.least_decision, found.largest_decision]),
            [{}] * n,
            found.alpha,
        )

    def _find(
        self, fit: Fit[Self], rules: FitRules, tol: float, stop: Stop, saved: SolvedSoFar | None
    ) -> SolvedTogether:
        """Find the models of all binary problems."""
        results, recipe, weights = self._room(fit), fit.recipe, self._total_weights(fit)
        which = np.arange(weights.size)
        if saved is not None and saved.together is not None:
            return saved.together
        if saved is not None and saved.results is not None:
            results, which = saved.results, np.flatnonzero(~saved.solved)
            # Unsolved problems must not start from what they had written when the fit was cut off.
            self._multiply(results, saved.solved.astype(np.float64))
            results.table[which] = 0.0
        if recipe.slack is None:
            assert recipe.C is not None
            targets = Targets.of_all(weights.size, recipe.C, tol)
            self._solve(fit, rules, targets, results, which, stop)
            with np.errstate(divide="ignore"):
                margin = 1 / np.sqrt(np.maximum(results.sq_norm, 0.0))
            slack = results.losses / (targets.C * weights) * margin / fit.scale
            return SolvedTogether(results, margin, slack, targets.C)
        slack = np.full(weights.size, recipe.slack)
        first_C = first_strength(recipe.slack, weights) / fit.scale**2
        if self.C_times_slack is not None and recipe.slack > 0:  # this product is similar at other slacks
            first_C = self.C_times_slack / recipe.slack
        search = SearchForC(slack, first_C, tol)

        def solve(targets: Targets, which: Indices, stop: Stop) -> None:
            self._solve(fit, rules, targets, results, which, stop)

        C = solve_for_slacks(solve, results, search, weights, fit.scale, stop)
        product = C * search.slack
        self.C_times_slack = product if product.min() > 0 else None
        C = self._scale_to_margin(results, C, fit.scale)
        return SolvedTogether(results, results.value.copy(), search.slack, C)

    def _scale_to_margin(self, results: SolvedProblems, C: Vector, scale: float) -> Vector:
        """Scale models that were found with these C to the margin at their slack, by Lemma 2.1; return the new C.

        A model whose margin is not positive is scaled to the length 1.
        """
        norm = np.sqrt(np.maximum(results.sq_norm, 0.0))
        level = results.value * norm
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = np.where(level > 0, 1 / level, np.where(norm > 0, 1 / (norm * scale), 1.0))
            C = np.where(level > 0, C * results.largest_share / level, math.inf)
        self._multiply(results, factors)
        for column in (results.bias, results.least_decision, results.largest_decision):
            column *= factors
        return C

    def _threads(self, fit: Fit[Self], rules: FitRules) -> int:
        return 1 if fit.strategy.n_models == 1 else thread_count(rules.n_jobs, self._operations(fit))

    def _certificates(self, fit: Fit[Self], found: SolvedProblems) -> CertificateColumns:
        terms = self._proof_terms(found)
        if fit.recipe.slack is None:
            return CertificateColumns.of_objectives(found, **terms)
        value, bound = found.value / fit.scale, found.bound / fit.scale
        worse, looser = found.value_rounding / fit.scale, found.bound_rounding / fit.scale
        return CertificateColumns(value, bound, worse, looser, form="slack", **terms)

    def _traces(self, fit: Fit[Self], found: SolvedProblems, seconds: Vector, tol: float) -> TraceColumns:
        return TraceColumns(found.iterations, seconds, found.kernel_evaluations, self._certificates(fit, found), tol)


def _loosest_gap(models: ModelTable) -> float:
    """Return the largest relative gap of the models; infinity if a model is not certified."""
    return max(proof.relative_gap if proof else math.inf for proof in models.certificates)


def weights_are_safe(u: Vector, label: Indices, n_classes: int) -> bool:
    """Whether each class has a sample of positive weight, and all weights times C are in a numerically safe range.

    For other weights, the general path raises an error that gives the reason.
    """
    heaviest = np.zeros(n_classes)
    np.maximum.at(heaviest, label, u)
    return bool(heaviest.min() > 0 and u[u > 0].min() > SAFE_WEIGHTS[0] and u.max() < SAFE_WEIGHTS[1])
