"""The binary problems of a fit with several classes, solved in rounds.

The first rounds use a small part of the samples and the last one all of them, so that a fit that is stopped early, by
Ctrl-C or `max_time`, has a sensible model of every binary problem and not a good one of the first few only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from maxmargin.core.threads import run_parallel
from maxmargin.estimators.binary import BinaryModel
from maxmargin.estimators.limits import Deadline
from maxmargin.problems import MarginProblem
from maxmargin.solvers import NoModelYet, listen_for_interrupt

if TYPE_CHECKING:
    from maxmargin.estimators.base import Fit
    from maxmargin.estimators.callbacks import FitTasks

Numbers = NDArray[np.int64]

SHRINK = 32  # a round uses this many times fewer samples than the next one: it costs at most about 3 % of that
FEWEST_SAMPLES = 1000  # a round on fewer samples than this is left out: even the next one takes a few seconds at most
FEWEST_OF_A_CLASS = 20  # samples of each class in a round, where it has as many
PRELIMINARY_TOL = 1e-2  # the relative gap at which a problem on a part of the samples is solved well enough
COMPARED = 1000  # samples on which a preliminary and an unfinished model are compared: to tell 30 % of errors from 33 %
MOST_NAMES = 5  # how many binary problems a warning names


def round_sizes(n: int) -> list[int]:
    """The numbers of samples of the rounds before the last one, which uses all n.

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


def sample_of_each_class(label: Numbers, usable: NDArray[np.bool_], size: int) -> Numbers:
    """About `size` of the usable samples, in ascending order: of each class its share, but at least a few.

    The draw is the same each time: whatever depends on it is a stopgap, and must not use up the seed of the fit.

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
    """Which of two models of a binary problem errs less: one of a part of its samples, or one stopped on its way.

    Both are asked for a few samples that the preliminary model was not found on. Of equals the unfinished one is taken,
    as it is on its way to the best.
    """
    seen = np.zeros(problem.y.size, dtype=bool)
    seen[preliminary.places] = True
    others = np.flatnonzero(~seen & (problem.s > 0))
    rows = np.sort(np.random.default_rng(0).permutation(others)[:COMPARED])

    def error(model: BinaryModel) -> float:
        with problem.ledger.on("holdout"):
            decisions = problem.X.dot(model.coef, rows) + model.intercept
        return float(problem.s[rows] @ (problem.y[rows] * decisions <= 0))

    return preliminary if rows.size and error(preliminary) < error(unfinished) else unfinished


class Rounds:
    """Solves the binary problems of a fit: each on parts of the samples first, where there are many, then on all.

    Parameters
    ----------
    fit : Fit
        All samples.
    models : list of BinaryModel or None
        The best model of each problem so far is kept here.
    part : callable
        From some of the samples, by their places, to the fit of those alone.
    solve : callable
        Solves problem k of a fit within so many seconds, and returns its model.
    tasks : FitTasks
        Who is told, and the names of the problems.
    deadline : Deadline
        When the fit has to end.
    threads : int
        How many problems are solved at once.
    """

    def __init__(
        self,
        fit: Fit,
        models: list[BinaryModel | None],
        *,
        part: Callable[[Numbers], Fit],
        solve: Callable[[Fit, int, float | None], BinaryModel],
        tasks: FitTasks,
        deadline: Deadline,
        threads: int,
    ) -> None:
        self.fit, self.models, self.part, self.solve = fit, models, part, solve
        self.tasks, self.deadline, self.threads = tasks, deadline, threads

    def run(self, sizes: Sequence[int]) -> list[BinaryModel]:
        """The models of all problems, after preliminary rounds on so many samples."""
        every = range(len(self.models))
        with listen_for_interrupt() as self.interrupt:
            for size in sizes:
                self._solve_on_a_part(every, size)
            self._solve_each(self.fit, every, self._keep)
            interrupted = self.interrupt.answer()
            missing = [k for k in every if self.models[k] is None]
            if missing:
                if len(every) == 1:
                    raise KeyboardInterrupt("before the first iteration: there is no model to keep")
                self.deadline = Deadline(None)  # a moment more, for a model that is of use
                self._solve_on_a_part(missing, FEWEST_SAMPLES)
        models = [model for model in self.models if model is not None]
        if len(models) < len(self.models):
            raise KeyboardInterrupt(f"only {len(models)} of {len(self.models)} binary problems have a model yet")
        stopped = "interrupted" if interrupted else "max_time"
        self._warn_of_preliminary_models(models, stopped)
        return [replace(model, stopped=stopped) if model.preliminary else model for model in models]

    def _solve_on_a_part(self, which: Iterable[int], size: int) -> None:
        fit, part = self.fit, self.part(sample_of_each_class(self.fit.label, self.fit.usable, size))

        def keep(k: int, model: BinaryModel) -> None:
            whole, own = fit.duels[k].rows, part.duels[k].rows
            places = part.places if own is None else part.places[own]
            if whole is not None:
                place_of = np.empty(fit.label.size, dtype=np.int64)
                place_of[whole] = np.arange(whole.size)
                places = place_of[places]
            self.models[k] = model.of_all_samples(places, fit.duels[k].y.size)

        self.tasks.progress.preliminary = True
        self._solve_each(part, which, keep)
        self.tasks.progress.preliminary = False

    def _keep(self, k: int, model: BinaryModel) -> None:
        self.models[k] = model
        if not model.preliminary:
            self.tasks.solved(k)

    def _solve_each(self, fit: Fit, which: Iterable[int], keep: Callable[[int, BinaryModel], None]) -> None:
        sizes = {k: fit.duels[k].y.size for k in which}
        # Largest first keeps all threads busy to the end; smallest first leaves the time they save to the largest.
        order = sorted(sizes, key=lambda k: sizes[k], reverse=self.deadline.never)

        def solve(position: int, k: int) -> None:
            # A lone problem makes its first iteration however late it is: there must be a model.
            if self.interrupt.asked or (self.deadline.passed and len(self.models) > 1):
                return
            try:
                waiting = sum(sizes[other] for other in order[position:])
                keep(k, self.solve(fit, k, self.deadline.share(sizes[k], waiting, self.threads)))
            except NoModelYet:  # Ctrl-C came before the first iteration: what was known of this problem stays
                pass
            except BaseException:
                self.tasks.given_up = True
                raise

        run_parallel([partial(solve, position, k) for position, k in enumerate(order)], self.threads)

    def _warn_of_preliminary_models(self, models: Sequence[BinaryModel], stopped: str) -> None:
        names = [name for name, model in zip(self.tasks.names, models, strict=True) if model.preliminary]
        if not names:
            return
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        why = "the fit was interrupted" if stopped == "interrupted" else "max_time was up"
        warnings.warn(
            f"{why}: {len(names)} of {len(models)} binary problems have a preliminary model only, found on a few of "
            f"their samples ({', '.join(names[:MOST_NAMES])}{more}); with more time the model would be better",
            ConvergenceWarning,
            stacklevel=2,
        )
