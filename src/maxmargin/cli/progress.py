"""How far a fit has come: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TimeElapsedColumn
from rich.text import Text

from maxmargin.cli.common import say
from maxmargin.estimators.callbacks import FitProgress

FIRST_LINE = 2.0  # seconds after which a log gets its first line: shorter fits need none


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
        """The fit begins: from now on its progress is shown, whether or not it moves."""
        self.started, self.progress = time.perf_counter(), FitProgress(1)
        self.ended, self.log, self.bar = threading.Event(), None, None
        console = Console(stderr=True)
        if console.is_terminal:
            first, last = _Column(self._move_bar), _Column(lambda task: self.now())
            columns = first, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), last
            self.bar = Progress(*columns, console=console, transient=True)
            self.bar.add_task("", total=1.0)
            self.bar.start()
        else:
            self.log = threading.Thread(target=self._write_log, daemon=True)
            self.log.start()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """The fit itself, or a part of it, begins: the fit's own context knows how far it has come."""
        self.progress = getattr(context, "progress", self.progress)

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """A part of the fit is done; the display looks for itself."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """The fit has ended, in whatever way."""
        self.ended.set()
        if self.bar is not None:
            self.bar.stop()
        if self.log is not None:
            self.log.join()

    def now(self) -> str:
        """Where the fit stands, and how long it may still take."""
        left = self.progress.seconds_left(time.perf_counter() - self.started)
        parts = [self.progress.sentence(), "" if math.isnan(left) else f"about {_duration(left)} left"]
        return ", ".join(part for part in parts if part)

    def _move_bar(self, task: Any) -> str:
        task.completed = self.progress.share
        return "training"

    def _write_log(self) -> None:
        wait = min(FIRST_LINE, self.seconds)
        while not self.ended.wait(wait):
            say(f"training for {_duration(time.perf_counter() - self.started)}; {self.now()}".removesuffix("; "))
            wait = self.seconds


class _Column(ProgressColumn):  # type: ignore[misc]
    """A column of the bar that shows what a function says."""

    def __init__(self, say: Callable[[Any], str]) -> None:
        super().__init__()
        self.say = say

    def render(self, task: Any) -> Text:
        return Text(self.say(task))


def _duration(seconds: float) -> str:
    """A time as people say it.

    >>> _duration(8.25), _duration(200), _duration(7300)
    ('8 s', '3 min', '2.0 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
