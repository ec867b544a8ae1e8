"""Reports of the progress of a fit to scikit-learn's callbacks (progress bars, monitors), to displays and as lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

from maxmargin.solvers import Progress, Trace

PARTS = 100  # number of tasks of equal size into which a fit is divided for callbacks
SAYABLE_SHARE = 0.1  # the remaining time is not estimated before this share of the work is done


class Progressing:
    """Interface that displays use to show progress: the share of the work that is done, and a sentence about it."""

    share: float

    def sentence(self) -> str:
        """Describe the current state for a person."""
        raise NotImplementedError

    def seconds_left(self, seconds: float) -> float:
        """Estimate the remaining time from the seconds so far; NaN if too little is done for an estimate."""
        return seconds * (1 - self.share) / self.share if self.share >= SAYABLE_SHARE else math.nan


@dataclass
class FitProgress(Progressing):
    """The progress of a fit. Displays find it as `progress` of the fit's callback context.

    Attributes
    ----------
    problems, solved : int
        The number of binary problems, and of those that are solved.
    preliminary : bool
        Whether the fit is in a preliminary round on a part of the samples.
    name : str
        The binary problem that reported last; empty if there is only one.
    gap, tol : float
        The relative duality gap of that problem and the gap to stop at; NaN if they are not known.
    holdout_error : float
        The error of that problem on the held-out samples; NaN if there are none.
    share : float
        The share of all work that is done, between 0 and 1, measured by the stop rule that is nearest.
    """

    problems: int
    solved: int = 0
    preliminary: bool = False
    name: str = ""
    gap: float = math.nan
    tol: float = math.nan
    holdout_error: float = math.nan
    share: float = 0.0

    def sentence(self) -> str:
        """Describe the state of the fit for a person.

        Examples
        --------
        >>> from maxmargin.estimators.callbacks import FitProgress
        >>> FitProgress(45, 12, name="3 against 5", gap=0.004, tol=0.001).sentence()
        '12 of 45 binary problems solved; 3 against 5: gap 0.4 %, stops at 0.1 %'
        """
        parts = []
        if not math.isnan(self.gap):
            aim = f", stops at {100 * self.tol:.2g} %" if self.tol > 0 else ""
            parts.append(f"gap {100 * self.gap:.2g} %{aim}")
        if not math.isnan(self.holdout_error):
            parts.append(f"holdout error {100 * self.holdout_error:.2f} %")
        now = ", ".join(parts)
        if self.problems == 1:
            return now
        if self.preliminary:
            return f"a first model of each of {self.problems} binary problems, on a part of the samples"
        done = f"{self.solved} of {self.problems} binary problems solved"
        return f"{done}; {self.name}: {now}" if now else done


@dataclass
class SearchProgress(Progressing):
    """The progress of a search. Displays find it as `progress` of the fit's callback context.

    Attributes
    ----------
    cells, scored : int
        The number of cells in the current comparison, and of those that have a score.
    n_samples : int
        The number of samples of the current comparison.
    best : str
        The best cell so far, in words; empty if there is none yet.
    share : float
        The share of all work that is done, between 0 and 1.
    refit : str
        The cell that is being fitted on all samples, in words; empty during the search.
    stopped : str
        What ended the search early: "max_time" or "interrupted"; empty if it was complete or has not ended.
    """

    cells: int = 0
    scored: int = 0
    n_samples: int = 0
    best: str = ""
    share: float = 0.0
    refit: str = ""
    stopped: str = ""

    def sentence(self) -> str:
        """Describe the state of the search for a person.

        Examples
        --------
        >>> from maxmargin.estimators.callbacks import SearchProgress
        >>> SearchProgress(50, 12, 3000, "C=1: 0.9512").sentence()
        '12 of 50 cells compared on 3,000 samples; best so far: C=1: 0.9512'
        """
        if self.refit:
            return f"fitting {self.refit} on all {self.n_samples:,} samples"
        if not self.cells:
            return ""
        done = f"{self.scored} of {self.cells} cells compared on {self.n_samples:,} samples"
        return f"{done}; best so far: {self.best}" if self.best else done

    def seconds_left(self, seconds: float) -> float:
        """Estimate the remaining time of the search; NaN for the fit on all samples, which follows it."""
        return math.nan if self.refit else super().seconds_left(seconds)


class FitCallbacks:
    """The callbacks of a fit, shared by its binary problems. Only one thread at a time calls them.

    Parameters
    ----------
    estimator : estimator
        The estimator that is being fitted.
    names : sequence of str
        The names of its binary problems.
    data : dict
        X, y and metadata, as the hooks of the callbacks take them.
    """

    def __init__(self, estimator: Any, names: Sequence[str], data: dict[str, Any]) -> None:
        self.estimator, self.names, self.data = estimator, names, data
        self.lock = RLock()
        self.failed = False  # whether one of the problems has failed; the others then stop
        self.shares = [0.0] * len(names)  # for each problem, the share of its work that is done
        self.progress = FitProgress(len(names))
        # A context takes as long as a small fit, so it is made only if this fit or an enclosing one has callbacks.
        self.heard = bool(getattr(estimator, "_skl_callbacks", None))
        self.root: Any = None
        if self.heard or hasattr(estimator, "_parent_callback_ctx"):
            self.root = estimator._init_callback_context(max_subtasks=PARTS)
            self.root.progress = self.progress
            self.root.call_on_fit_task_begin(estimator=estimator, **data)
        # Reporting a hundred tasks takes a millisecond, which is saved if there are no callbacks.
        self.reported = 0 if self.heard else PARTS

    def listener(self, k: int, attributes: Callable[[Any], dict[str, Any]]) -> ProblemListener:
        """Return the callback of :func:`maxmargin.solvers.solve` for problem k.

        `attributes` turns the current solution into the fitted attributes with which the estimator could predict.
        """
        return ProblemListener(self, k, attributes)

    def solved(self, k: int) -> None:
        """Report that problem k is solved."""
        with self.lock:
            self.progress.solved += 1
            self.advance(k, 1.0, None)

    def solved_together(self, which: Sequence[int], traces_of_all: Callable[[], Sequence[Trace]]) -> bool:
        """Report problems that were solved in one call with one check each; return whether a callback asks to stop."""
        verbose = self.estimator.verbose
        if not (self.heard or verbose) or not which:
            return False
        traces = traces_of_all()
        with self.lock:
            self.progress.solved += len(which)
            for k in which:
                self.shares[k] = 1.0
                if verbose:
                    line = traces[k][0].line()
                    print(f"{self.names[k]}: {line}" if self.names[k] else line, flush=True)
            last, now = traces[which[-1]], self.progress
            now.name, now.gap = self.names[which[-1]], last[0].relative_gap
            now.tol = math.nan if last.tol is None else last.tol
            return self.advance(which[-1], 1.0, None)

    def advance(self, k: int, share: float, attributes: Callable[[], dict[str, Any]] | None) -> bool:
        """Report the progress since the last call to the callbacks; return whether one of them asks to stop."""
        self.shares[k] = max(self.shares[k], 0.0 if math.isnan(share) else share)
        self.progress.share = sum(self.shares) / len(self.shares)
        stop = False
        # The last task ends only with the fit, so that a full progress bar means that the fit has ended.
        while self.reported < min(math.floor(PARTS * self.progress.share), PARTS - 1) and not stop:
            stop = self._report(attributes)
        return stop

    def finish(self, attributes: Callable[[], dict[str, Any]]) -> None:
        """Report the end of the whole fit, which may come before its limits."""
        while self.reported < PARTS:
            self._report(None)
        if self.root is not None:
            self.root.call_on_fit_task_end(estimator=self.estimator, **self.data, reconstruction_attributes=attributes)

    def _report(self, attributes: Callable[[], dict[str, Any]] | None) -> bool:
        self.reported += 1
        task = self.root.subcontext(task_name="part")
        hook = dict(estimator=self.estimator, **self.data, reconstruction_attributes=attributes)
        task.call_on_fit_task_begin(**hook)
        return bool(task.call_on_fit_task_end(**hook))


class ProblemListener:
    """Reports the progress of one run of a solver to the callbacks, to a display, and as printed lines.

    Parameters
    ----------
    fit : FitCallbacks
        The fit to which the run belongs.
    k : int
        The number of its binary problem.
    attributes : callable
        See :meth:`FitCallbacks.listener`.
    """

    def __init__(self, fit: FitCallbacks, k: int, attributes: Callable[[Any], dict[str, Any]]) -> None:
        self.fit, self.k, self.attributes = fit, k, attributes
        self.printed = 0  # the iteration of the last printed line

    def __call__(self, progress: Progress) -> bool:
        """Report a check; return whether the run should stop."""
        fit, row, verbose = self.fit, progress.row, self.fit.estimator.verbose
        with fit.lock:
            name = fit.names[self.k]
            if verbose > 1 or (verbose and (row.iteration >= 2 * self.printed or progress.done == 1)):
                self.printed = row.iteration
                print(f"{name}: {row.line()}" if name else row.line(), flush=True)
            now = fit.progress
            now.name, now.gap, now.tol, now.holdout_error = name, progress.gap, progress.tol, row.holdout_error
            return fit.failed or fit.advance(self.k, progress.done, lambda: self.attributes(progress.solution()))
