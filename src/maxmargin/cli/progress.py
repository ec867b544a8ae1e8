"""How far a fit has come: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from maxmargin.cli.common import say


class ShowProgress:
    """A callback of scikit-learn that shows the progress of a fit on standard error.

    Parameters
    ----------
    seconds : float
        The time between two lines in a log.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds

    def setup(self, estimator: Any, context: Any) -> None:
        """The fit begins."""
        self.done, self.started, self.next_line = 0.0, time.perf_counter(), 0.0
        columns = TextColumn("training"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()
        console = Console(stderr=True)
        self.bar = Progress(*columns, console=console, transient=True) if console.is_terminal else None
        if self.bar is not None:
            self.task = self.bar.add_task("", total=None)
            self.bar.start()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """A part of the fit begins: of no interest here."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """A part of the fit is done. Only the smallest parts count, each by its share of the whole."""
        if context.max_subtasks != 0:
            return
        share = 1.0
        while (context := context.parent) is not None:
            share /= context.max_subtasks
        self.done += share
        if self.bar is not None:
            self.bar.update(self.task, total=1.0, completed=self.done)
            return
        seconds = time.perf_counter() - self.started
        if seconds >= self.next_line:
            say(f"{100 * self.done:.0f} % of the work allowed, after {seconds:.1f} s")
            self.next_line = seconds + self.seconds

    def teardown(self, estimator: Any, context: Any) -> None:
        """The fit has ended, by whatever way."""
        if self.bar is not None:
            self.bar.stop()
