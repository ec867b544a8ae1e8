"""Fits on few samples: all binary problems are solved together, in few compiled calls."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Sequence
from threading import Lock
from typing import Self

import numpy as np

from maxmargin.core.threads import thread_count
from maxmargin.core.types import Indices, Vector
from maxmargin.engine.certificate import Certificate, CertificateColumns
from maxmargin.engine.trace import TraceColumns
from maxmargin.estimators.advice import warn_of_an_early_end
from maxmargin.estimators.fit import Fit, FitRules
from maxmargin.estimators.model_table import ModelTable
from maxmargin.estimators.training_rows import TrainingRows
from maxmargin.solvers import listen_for_interrupt
from maxmargin.svm.many_problems import MAX_ITER, UNFINISHED, SolvedProblems, Stop

SAFE_WEIGHTS = 1e-50, 1e50  # C times the weight of a sample
# By the numbers of `svm/many_problems.py`; the status of a problem that is unfinished is what stopped the fit.
STATUS = ("tol", "max_iter", "finished")


class SmallRows(TrainingRows):
    """The samples of a fit that are so few that all binary problems are solved together.

    A subclass says how they are solved (`_solve`), and what follows for the ledger and the table of models.
    """

    @abstractmethod
    def _solve(self, fit: Fit[Self], rules: FitRules, tol: float, stop: Stop) -> SolvedProblems:
        """The results of all binary problems; `stop` is called now and then."""

    @abstractmethod
    def _operations(self, fit: Fit[Self]) -> float:
        """About how many multiply-adds it takes to solve all binary problems: tells whether several threads pay."""

    @abstractmethod
    def _coefficients(self, found: SolvedProblems) -> Vector:
        """The coefficients of all binary models, those of samples in the order of X."""

    @abstractmethod
    def _total_weights(self, fit: Fit[Self]) -> Vector:
        """C times the sum of the weights of the samples of each binary problem."""

    @abstractmethod
    def _n_iter(self, fit: Fit[Self], found: SolvedProblems) -> Vector:
        """Iterations as `max_iter` counts them."""

    @abstractmethod
    def _certificates(self, found: SolvedProblems) -> CertificateColumns:
        """The certificates of the results."""

    def _prepare(self, fit: Fit[Self]) -> None:
        """Called first, to compute what several of the above need."""

    def solve(self, fit: Fit[Self], rules: FitRules) -> ModelTable:
        self._prepare(fit)
        strategy, given = fit.strategy, rules.stop.tol
        tol = fit.recipe.solver.default_tol if given is None else given
        assert tol is not None
        began, seconds, lock, why = time.perf_counter(), np.zeros(strategy.n_models), Lock(), ""

        def stop_now(solved: Sequence[int], results: SolvedProblems) -> bool:
            nonlocal why
            with lock:
                seconds[solved] = time.perf_counter() - began
                asked = rules.callbacks.solved_together(solved, lambda: self._traces(results, seconds, tol))
                if interrupt.asked:
                    why = "interrupted"
                elif not why and (asked or rules.deadline.passed):
                    why = "callback" if asked else "max_time"
            return bool(why)

        with listen_for_interrupt() as interrupt:
            found = self._solve(fit, rules, tol, stop_now)
            if interrupt.answer():
                why = "interrupted"
        unfinished = found.status == UNFINISHED
        seconds[unfinished] = time.perf_counter() - began
        if strategy.n_models > 1:
            names = [strategy.name(k) for k in np.flatnonzero(unfinished).tolist()]
            warn_of_an_early_end(names, strategy.n_models, why, "an unfinished model only")
        return self._table(fit, rules, found, tol, why, seconds)

    def _threads(self, fit: Fit[Self], rules: FitRules) -> int:
        return 1 if fit.strategy.n_models == 1 else thread_count(rules.n_jobs, self._operations(fit))

    def _table(
        self, fit: Fit[Self], rules: FitRules, found: SolvedProblems, tol: float, why: str, seconds: Vector
    ) -> ModelTable:
        norm, C = np.sqrt(np.maximum(found.sq_norm, 0.0)), fit.recipe.C
        assert C is not None
        with np.errstate(divide="ignore"):
            margin, slack = 1 / norm, found.losses / self._total_weights(fit) / norm / fit.scale
        status, names = found.status.astype(np.int64), (*STATUS, why)
        short = (status == MAX_ITER) & (found.value - found.bound > tol * found.value)
        return ModelTable(
            self._coefficients(found),
            found.bias.copy(),
            margin,
            slack,
            np.full(margin.size, float(C)),
            self._n_iter(fit, found).astype(np.int64),
            [names[code] for code in status.tolist()],
            self._certificates(found) if rules.certify else [Certificate.missing("certify=False")] * margin.size,
            self._traces(found, seconds, tol),
            np.where(short, tol, math.nan),
            np.column_stack([found.least_decision, found.largest_decision]),
            [{}] * margin.size,
            found.alpha,
        )

    def _traces(self, found: SolvedProblems, seconds: Vector, tol: float) -> TraceColumns:
        return TraceColumns(found.iterations, seconds, found.kernel_evaluations, self._certificates(found), tol)


def weights_are_safe(u: Vector, label: Indices, n_classes: int) -> bool:
    """Whether each class has a sample with weight, and numbers with these weights, times C, can be computed with.

    The general path refuses what cannot, and says why.
    """
    heaviest = np.zeros(n_classes)
    np.maximum.at(heaviest, label, u)
    return bool(heaviest.min() > 0 and u[u > 0].min() > SAFE_WEIGHTS[0] and u.max() < SAFE_WEIGHTS[1])
