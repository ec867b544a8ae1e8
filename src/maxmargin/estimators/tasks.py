"""scikit-learn's callbacks (progress bars, monitors) fed from the solvers' checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from maxmargin.solvers import Progress

PARTS = 100  # a fit is shown to callbacks as this many equal tasks


class ProgressTasks:
    """Tells the callbacks of an estimator how far one run of a solver has come.

    Parameters
    ----------
    context : sklearn.callback.CallbackContext
        The task that this run is, with `PARTS` subtasks.
    estimator : estimator
        The one that is being fitted.
    data : dict
        X, y and metadata, as the hooks take them.
    attributes : callable
        From the current solution to the fitted attributes with which the estimator could predict.
    verbose : int
        1: print a line whenever the iterations have doubled; more: at each check.
    """

    def __init__(
        self,
        context: Any,
        estimator: Any,
        data: dict[str, Any],
        attributes: Callable[[Any], dict[str, Any]],
        verbose: int = 0,
    ) -> None:
        self.context, self.estimator, self.data, self.attributes = context, estimator, data, attributes
        self.verbose = verbose
        self.told = 0
        self.printed = 0

    def __call__(self, progress: Progress) -> bool:
        """Report the parts that were finished since the last call; whether a callback asks to stop."""
        if self.verbose > 1 or (self.verbose and (progress.row.iteration >= 2 * self.printed or progress.done == 1)):
            self.printed = progress.row.iteration
            print(progress.row.line(), flush=True)
        done = 0 if math.isnan(progress.done) else math.floor(PARTS * progress.done)
        stop = False
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
        hook = dict(estimator=self.estimator, **self.data, reconstruction_attributes=attributes)
        task.call_on_fit_task_begin(**hook)
        return bool(task.call_on_fit_task_end(**hook))


@contextmanager
def binary_task(root: Any, many: bool, estimator: Any, data: dict[str, Any]) -> Iterator[Any]:
    """The task that fits one binary model: the whole fit where there is one only, else a subtask of it."""
    if not many:
        yield root
        return
    task = root.subcontext(task_name="class", max_subtasks=PARTS)
    task.call_on_fit_task_begin(estimator=estimator, **data)
    yield task
    task.call_on_fit_task_end(estimator=estimator, **data)
