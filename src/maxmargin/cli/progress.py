"""The progress of a fit or of other work, as a bar on a terminal or as lines in a log."""

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
from maxmargin.engine.interrupt import IMPATIENCE
from maxmargin.estimators.callbacks import FitProgress, Progressing, SearchProgress

FIRST_LINE = 2.0  # seconds before the first line of a log; shorter fits write none


class ShowProgress:
    """A callback of scikit-learn that shows the progress of a fit on standard error.

    Parameters
    ----------
    shown : bool
        Whether to show it. If not, only a search that is interrupted is reported.
    seconds : float
        The time between two lines in a log.
    """

    def __init__(self, *, shown: bool = True, seconds: float = 10.0) -> None:
        self.shown, self.seconds = shown, seconds

    def setup(self, estimator: Any, context: Any) -> None:
        """Start the bar, or the thread that writes the log; called when the fit begins."""
        self.started = time.perf_counter()
        self.progress: Progressing = FitProgress(1)
        self.ended, self.log, self.bar = threading.Event(), None, None
        if not self.shown:
            return
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
        """Called when the fit or a part of it begins: the context of the fit holds its progress."""
        self.progress = getattr(context, "progress", self.progress)
        now = self.progress
        if isinstance(now, SearchProgress) and now.refit and now.stopped == "interrupted":
            say(
                f"interrupted: the search has ended; fitting the best cell so far, {now.refit}, on all "
                f"{now.n_samples:,} rows. Ctrl-C again ends this fit too, or within {IMPATIENCE:g} s the whole command"
            )

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Do nothing when a part of the fit ends, because the display reads the progress by itself."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Stop the display; called when the fit has ended, also by an error."""
        self.ended.set()
        if self.bar is not None:
            self.bar.stop()
        if self.log is not None:
            self.log.join()

    def now(self) -> str:
        """Describe the progress, with an estimate of the remaining time."""
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


class RowProgress:
    """Context that shows the progress of work on rows, as a bar on a terminal or as lines in a log.

    Parameters
    ----------
    doing : str
        The name of the work.
    shown : bool
        Whether to show anything.
    seconds : float
        The time between two lines in a log.
    """

    def __init__(self, doing: str, *, shown: bool = True, seconds: float = 10.0) -> None:
        self.doing, self.shown, self.seconds = doing, shown, seconds
        self.bar: Progress | None = None

    def __enter__(self) -> RowProgress:
        console = Console(stderr=True)
        if self.shown and console.is_terminal:
            columns = _Column(lambda task: self.doing), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
            self.bar = Progress(*columns, console=console, transient=True)
            self.bar.add_task("", total=1.0)
            self.bar.start()
        self.next_line = time.perf_counter() + min(FIRST_LINE, self.seconds)
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, done: int, total: int) -> None:
        """Show that `done` of `total` rows are done."""
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=done, total=total)
        elif self.shown and time.perf_counter() >= self.next_line:
            say(f"{self.doing}: {done:,} of {total:,} rows")
            self.next_line = time.perf_counter() + self.seconds


class _Column(ProgressColumn):  # type: ignore[misc]
    """A column of the bar with the text that a function returns."""

    def __init__(self, text: Callable[[Any], str]) -> None:
        super().__init__()
        self.text = text

    def render(self, task: Any) -> Text:
        return Text(self.text(task))


def _duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours.

    >>> _duration(8.25), _duration(200), _duration(7300)
    ('8 s', '3 min', '2.0 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
