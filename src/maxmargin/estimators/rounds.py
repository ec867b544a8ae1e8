"""The binary problems of a fit with several classes, solved in rounds.

The first rounds use a small part of the samples, and the last round uses all samples. So a fit that is stopped early,
by Ctrl-C or `max_time`, has a reasonable model of every binary problem, not just good models of the first few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.threads import run_parallel
from maxmargin.core.types import Indices
from maxmargin.engine.result import OUT_OF_TIME
from maxmargin.estimators.advice import warn_of_an_early_end
from maxmargin.estimators.binary import BinaryModel
from maxmargin.estimators.fit import Fit, FitRules
from maxmargin.estimators.limits import Deadline
from maxmargin.problems import MarginProblem, Solution
from maxmargin.solvers import Holdout, Learned, NoModelYet, Resume, listen_for_interrupt

if TYPE_CHECKING:
    from maxmargin.engine.stop_rules import StopRules
    from maxmargin.estimators.fit_checkpoint import FitCheckpoint
    from maxmargin.estimators.training_rows import RowsOfProblems

SHRINK = 32  # a round uses this many times fewer samples than the next one, and takes at most about 3 % of its time
FEWEST_SAMPLES = 1000  # rounds on fewer samples are skipped: the next round takes only a few seconds without them
FEWEST_OF_A_CLASS = 20  # minimum samples of each class in a preliminary round; smaller classes are used completely
PRELIMINARY_TOL = 1e-2  # relative gap at which a preliminary round stops, unless the user's tolerance is larger
LAST_SECONDS = 5.0  # after an early end, seconds for preliminary models of binary problems that have no model yet
COMPARED = 1000  # samples for comparing a preliminary with an unfinished model: enough to tell 30 % of errors from 33 %


def round_sizes(n: int) -> list[int]:
    """Return the numbers of samples of the rounds before the last round, which uses all n samples.

    Examples
    --------
    >>> from maxmargin.estimators.rounds import round_sizes
    >>> round_sizes(20_000), round_sizes(60_000), round_sizes(5_000_000)
    ([], [1875], [4882, 156250])
    """
    sizes: list[int] = []
    while (n := n // SHRINK) >= FEWEST_SAMPLES:
        sizes.insert(0, n)
    return sizes


def sample_of_each_class(label: Indices, usable: NDArray[np.bool_], size: int) -> Indices:
    """Draw about `size` of the usable samples: from each class its share, but at least a few; in ascending order.

    The draw is the same each time: only preliminary models depend on it, and it must not change the seed of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.estimators.rounds import sample_of_each_class
    >>> label = np.array([0] * 900 + [1] * 100)
    >>> np.bincount(label[sample_of_each_class(label, np.ones(1000, dtype=bool), 100)]).tolist()
    [90, 20]
    """
    rng, chosen = np.random.default_rng(0), []
    for k in range(int(label.max()) + 1):
        own = np.flatnonzero((label == k) & usable)
        wanted = max(size * own.size // max(1, int(usable.sum())), FEWEST_OF_A_CLASS)
        chosen.append(rng.permutation(own)[:wanted])
    return np.sort(np.concatenate(chosen))


def better_model(problem: MarginProblem, preliminary: BinaryModel, unfinished: BinaryModel) -> BinaryModel:
    """Return the better of two models of a binary problem: one found on a part of its samples, or one stopped early.

    Their errors are compared on a few samples that the preliminary model was not fitted on. If they are equal, the
    unfinished model is returned, because it is closer to the optimum.
    """
    seen = np.zeros(problem.y.size, dtype=bool)
    seen[preliminary.positions] = True
    others = np.flatnonzero(~seen & (problem.s > 0))
    rows = np.sort(np.random.default_rng(0).permutation(others)[:COMPARED])

    def error(model: BinaryModel) -> float:
        with problem.ledger.on("holdout"):
            decisions = problem.X.dot(model.coef, rows) + model.intercept
        return float(problem.s[rows] @ (problem.y[rows] * decisions <= 0))

    return preliminary if rows.size and error(preliminary) < error(unfinished) else unfinished


@dataclass(frozen=True)
class Start:
    """What one binary problem starts from.

    Attributes
    ----------
    warm : Solution, Learned, Resume or None
        The solution to start from, what an online solver has learned, or the end of a run with other parameters; None
        means from scratch.
    seed : int
        The seed of its random generator.
    budget : int or None
        The maximum number of entries or kernel evaluations; None means no limit.
    """

    warm: Solution | Learned | Resume | None
    seed: int
    budget: float | None


class Rounds:
    """Solves the binary problems of a fit: first on parts of the samples if there are many, then on all samples.

    Parameters
    ----------
    fit : Fit
        The fit on all samples.
    rules : FitRules
        Its stop rules, callbacks and starting points.
    threads : int
        The number of binary problems that are solved at the same time.
    """

    def __init__(self, fit: Fit[RowsOfProblems], rules: FitRules, threads: int) -> None:
        self.fit, self.threads, self.starts = fit, threads, rules.starts()
        self.stop, self.certify, self.callbacks = rules.stop, rules.certify, rules.callbacks
        self.deadline, self.predictor, self.checkpoint = rules.deadline, rules.predictor, rules.checkpoint
        self.models: list[BinaryModel | None] = [None] * len(self.starts)  # the best model of each problem so far

    def run(self) -> list[BinaryModel]:
        """Solve all binary problems and return their models."""
        every = range(len(self.models))
        with listen_for_interrupt() as self.interrupt:
            for size in self._preliminary_sizes():
                self._solve_on_a_part(every, size)
            self._solve_each(self.fit, every, self._keep)
            if self.checkpoint is not None:
                self.checkpoint.end(len(self.models))
            interrupted = self.interrupt.answer()
            missing = [k for k in every if self.models[k] is None]
            if missing:
                if len(every) == 1:
                    raise NoModelYet("the fit was interrupted before its first iteration: there is no model to keep")
                self.deadline = Deadline(LAST_SECONDS)
                self._solve_on_a_part(missing, FEWEST_SAMPLES)
        models = [model for model in self.models if model is not None]
        if len(models) < len(self.models):
            raise KeyboardInterrupt(f"only {len(models)} of {len(self.models)} binary problems have a model yet")
        stopped = "interrupted" if interrupted else "max_time"
        names = [self.fit.strategy.name(k) for k, model in enumerate(models) if model.preliminary]
        warn_of_an_early_end(names, len(models), stopped, "a preliminary model only, found on a few of their samples")
        return [replace(model, stopped=stopped) if model.preliminary else model for model in models]

    def _preliminary_sizes(self) -> list[int]:
        """Return the numbers of samples of the preliminary rounds.

        There are no preliminary rounds for a single problem, which has a model after its first iteration; after a warm
        start, which begins with models; and with a budget, which should not be spent on reading samples twice.
        """
        alone = len(self.starts) == 1
        if alone or any(start.warm is not None or start.budget is not None for start in self.starts):
            return []
        return [size for size in round_sizes(self.fit.label.size) if size <= self.fit.rows.most_preliminary]

    def _solve_on_a_part(self, which: Iterable[int], size: int) -> None:
        fit, part = self.fit, self.fit.part(sample_of_each_class(self.fit.label, self.fit.usable, size))

        def keep(k: int, model: BinaryModel) -> None:
            self.models[k] = model.of_all_samples(part.positions_in(fit, k), fit.problems[k].size)

        self.callbacks.progress.preliminary = True
        self._solve_each(part, which, keep)
        self.callbacks.progress.preliminary = False
        fit.rows.add_reads(part.rows.matrix)

    def _keep(self, k: int, model: BinaryModel) -> None:
        self.models[k] = model
        if not model.preliminary:
            self.callbacks.solved(k)

    def _solve_each(
        self, fit: Fit[RowsOfProblems], which: Iterable[int], keep: Callable[[int, BinaryModel], None]
    ) -> None:
        sizes = {k: fit.problems[k].size for k in which}
        # Largest first keeps all threads busy to the end; smallest first leaves the time they save to the largest.
        order = sorted(sizes, key=lambda k: sizes[k], reverse=self.deadline.never)

        def solve(position: int, k: int) -> None:
            # A single problem makes its first iteration even after the deadline, so that there is a model.
            if self.interrupt.asked or (self.deadline.passed and len(self.models) > 1):
                return
            try:
                waiting = sum(sizes[other] for other in order[position:])
                keep(k, self._solve(fit, k, self.deadline.share(sizes[k], waiting, self.threads)))
            except NoModelYet:  # Ctrl-C before the first iteration: an earlier model of this problem is kept
                pass
            except BaseException:
                self.callbacks.failed = True
                raise

        run_parallel([partial(solve, position, k) for position, k in enumerate(order)], self.threads)

    def _solve(self, fit: Fit[RowsOfProblems], k: int, max_time: float | None) -> BinaryModel:
        """Return the model of binary problem k on the samples of `fit`, found within `max_time` seconds."""
        whole = fit is self.fit
        stop = replace(self.stop, max_time=max_time, budget=self.starts[k].budget)
        if not whole:
            stop = replace(stop, tol=max(PRELIMINARY_TOL, stop.tol or 0.0), early_stopping=False)
        problem = fit.problem(k)
        checkpoint = self.checkpoint if whole else None  # a preliminary round is short enough to be repeated
        model = None if checkpoint is None else checkpoint.model_of(k, problem, fit.rows)
        if model is None:
            model = self._found(fit, k, problem, stop, checkpoint)
        with self.callbacks.lock:
            fit.rows.add_reads(problem.X)
        return model

    def _found(
        self,
        fit: Fit[RowsOfProblems],
        k: int,
        problem: MarginProblem,
        stop: StopRules,
        checkpoint: FitCheckpoint | None,
    ) -> BinaryModel:
        """Run the solver and return the model that it finds."""
        whole, start, held_out = fit is self.fit, self.starts[k], fit.problems[k].held_out
        model = fit.recipe.fit(
            problem,
            fit.scale,
            start.warm if whole else None,
            stop=stop,
            holdout=Holdout(problem.X, problem.y[held_out], held_out) if held_out.size else None,
            certify=self.certify,
            random_state=start.seed,
            checkpoint=None if checkpoint is None else checkpoint.run_of(k),
            callback=(
                self.callbacks.listener(k, partial(self._attributes_so_far, k, problem.scale))
                if whole
                else lambda progress: self.callbacks.failed
            ),
        )
        known = self.models[k]
        if whole and known is not None and model.stopped in OUT_OF_TIME:
            model = better_model(problem, known, model)
        if checkpoint is not None and model.stopped != "interrupted":
            checkpoint.keep(k, model, problem, fit.rows)
        return model

    def _attributes_so_far(self, k: int, scale: float, solution: Solution) -> dict[str, Any]:
        """Return the attributes with which the estimator could predict if problem k ended now with this solution."""
        models = list(self.models)
        models[k] = BinaryModel(solution.w / scale, solution.b)
        fit, n = self.fit, self.fit.label.size
        zeros = (fit.rows.zero(problem) for problem in fit.problems)
        every = [model or BinaryModel.unreached(zero, n) for model, zero in zip(models, zeros, strict=True)]
        return self.predictor(fit, fit.table(every))
