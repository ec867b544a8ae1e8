"""The binary fits of an estimator: in threads, and told to scikit-learn's callbacks (progress bars, monitors)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from threading import Event, RLock
from typing import Any

from joblib import effective_n_jobs
from sklearn import config_context, get_config

from maxmargin.solvers import Progress

PARTS = 100  # a fit is shown to callbacks as this many equal tasks


class FitTasks:
    """What the binary fits of one estimator share: its callbacks, which are called by one thread at a time.

    Parameters
    ----------
    estimator : estimator
        The one that is being fitted.
    fits : int
        How many binary models it fits.
    data : dict
        X, y and metadata, as the hooks take them.
    """

    def __init__(self, estimator: Any, fits: int, data: dict[str, Any]) -> None:
        self.estimator, self.fits, self.data = estimator, fits, data
        self.lock, self.given_up = RLock(), Event()
        # Who sees a task for each class need not see them in order.
        shape = {"max_subtasks": fits, "sequential_subtasks": False} if fits > 1 else {"max_subtasks": PARTS}
        self.root = estimator._init_callback_context(**shape)
        self.root.call_on_fit_task_begin(estimator=estimator, **data)

    def run(self, fit: Callable[[int], None], n_jobs: int | None) -> None:
        """Call fit(0), fit(1), ..., in up to `n_jobs` threads; the first error ends them all."""
        threads = min(effective_n_jobs(n_jobs), self.fits)
        if threads == 1:
            for k in range(self.fits):
                fit(k)
            return
        config = get_config()  # each thread has its own

        def in_thread(k: int) -> None:
            try:
                with config_context(**config):
                    fit(k)
            except KeyboardInterrupt:  # before its first iteration: this model is missing, not the others
                if k == 0:
                    raise

        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(in_thread, k) for k in range(self.fits)]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self.given_up.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    @contextmanager
    def one(self, k: int, attributes: Callable[[Any], dict[str, Any]]) -> Iterator[ProgressTasks]:
        """The task that fits binary model k: the whole fit where it is the only one, else a subtask of it."""
        if self.fits == 1:
            parts = ProgressTasks(self, self.root, attributes)
            yield parts
            parts.finish()
            return
        with self.lock:
            task = self.root.subcontext(task_name="class", task_id=k, max_subtasks=PARTS)
            task.call_on_fit_task_begin(estimator=self.estimator, **self.data)
        parts = ProgressTasks(self, task, attributes)
        yield parts
        with self.lock:
            parts.finish()
            task.call_on_fit_task_end(estimator=self.estimator, **self.data)

    def finish(self, attributes: Callable[[], dict[str, Any]]) -> None:
        """The whole fit has ended."""
        self.root.call_on_fit_task_end(estimator=self.estimator, **self.data, reconstruction_attributes=attributes)


class ProgressTasks:
    """Tells the callbacks of an estimator how far one run of a solver has come.

    Parameters
    ----------
    fit : FitTasks
        The fit that the run is of.
    context : sklearn.callback.CallbackContext
        The task that this run is, with `PARTS` subtasks.
    attributes : callable
        From the current solution to the fitted attributes with which the estimator could predict.
    """

    def __init__(self, fit: FitTasks, context: Any, attributes: Callable[[Any], dict[str, Any]]) -> None:
        self.fit, self.context, self.attributes = fit, context, attributes
        self.verbose = fit.estimator.verbose
        # A hundred tasks take a millisecond: not where nobody listens.
        self.told = 0 if getattr(fit.estimator, "_skl_callbacks", None) else PARTS
        self.printed = 0

    def __call__(self, progress: Progress) -> bool:
        """Report the parts that were finished since the last call; whether a callback asks to stop."""
        with self.fit.lock:
            if self.verbose > 1 or (
                self.verbose and (progress.row.iteration >= 2 * self.printed or progress.done == 1)
            ):
                self.printed = progress.row.iteration
                print(progress.row.line(), flush=True)
            done = 0 if math.isnan(progress.done) else math.floor(PARTS * progress.done)
            stop = self.fit.given_up.is_set()
            while self.told < done and not stop:
                stop = self._tell(lambda: self.attributes(progress.solution()))
            return stop

    def finish(self) -> None:
        """Report all that is left: the run has ended, perhaps before its limits."""
        while self.told < PARTS:
            self._tell(None)

    def _tell(self, attributes: Callable[[], dict[str, Any]] | None) -> bool:
        self.told += 1
        task = self.context.subcontext(task_name="part")
        hook = dict(estimator=self.fit.estimator, **self.fit.data, reconstruction_attributes=attributes)
        task.call_on_fit_task_begin(**hook)
        return bool(task.call_on_fit_task_end(**hook))
