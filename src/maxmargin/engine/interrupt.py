"""Ctrl-C as a request to finish, not as a crash.

A fit that a person started ends at the first Ctrl-C and keeps its best model so far. A fit that is one of many, in a
grid search or a worker process, must not do so: there, Ctrl-C is meant for the whole search, which would take the
half-trained model for a finished one and continue. The call stack tells the two cases apart; see
:func:`part_of_a_larger_job`.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the user has asked to stop.

    Attributes
    ----------
    asked : bool
        Whether the user has asked since the last :meth:`answer`.
    ever_asked : bool
        Whether the user has ever asked. If many fits follow each other, the fit that answers need not be the last.
    """

    def __init__(self) -> None:
        self.asked = self.ever_asked = False

    def answer(self) -> bool:
        """Whether the user has asked to stop since the last answer; resets `asked`, so that work can continue."""
        asked, self.asked = self.asked, False
        return asked


class NoModelYet(KeyboardInterrupt):
    """Ctrl-C came before the first iteration: there is no model to keep."""


IMPATIENCE = 2.0  # seconds within which a second Ctrl-C ends the whole program, not only the current fit

JOB_RUNNERS = {
    *("concurrent", "dask", "dask_ml", "distributed", "hyperopt", "imblearn", "joblib"),
    *("mlxtend", "multiprocessing", "optuna", "ray", "sklearn", "skopt"),
}
"""Packages that call `fit` many times on behalf of the user."""

PASSED_THROUGH = ("sklearn.base", "sklearn.callback", "sklearn.compose", "sklearn.pipeline", "sklearn.utils")
"""Modules of those packages that pass one call of `fit` on, as a pipeline does: the fit is still the user's own."""

_current: Interrupt | None = None
_last = -math.inf  # when Ctrl-C was last pressed, by time.monotonic


def part_of_a_larger_job() -> bool:
    """Whether a search, an ensemble, a pool of workers or a similar job is among the callers.

    Examples
    --------
    >>> from maxmargin.engine.interrupt import part_of_a_larger_job
    >>> part_of_a_larger_job()
    False
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in JOB_RUNNERS and not module.startswith(PASSED_THROUGH):
            return True
        frame = frame.f_back
    return False


@contextmanager
def listen_for_interrupt() -> Iterator[Interrupt]:
    """Turn the first Ctrl-C inside the block into `interrupt.asked`; the second one raises KeyboardInterrupt.

    A Ctrl-C within `IMPATIENCE` seconds of the previous one raises KeyboardInterrupt too, even if another block
    received the previous one: a user who presses twice means the whole program, such as a loop over many fits, and not
    one fit. In a part of a larger job, and if the program handles Ctrl-C in its own way, the first Ctrl-C raises.

    Work that is done in small pieces can stop between two pieces. Inner blocks share the `Interrupt` of the outermost
    one. Python delivers signals only to the main thread, so that a block in another thread does not listen.
    """
    global _current
    if _current is not None:
        yield _current
        return
    interrupt = Interrupt()
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        or part_of_a_larger_job()
    ):
        yield interrupt
        return

    def on_signal(signum: int, frame: FrameType | None) -> None:
        global _last
        before, _last = _last, time.monotonic()
        if interrupt.asked or _last - before < IMPATIENCE:
            raise KeyboardInterrupt
        interrupt.asked = interrupt.ever_asked = True

    signal.signal(signal.SIGINT, on_signal)
    _current = interrupt
    try:
        yield interrupt
    finally:
        _current = None
        signal.signal(signal.SIGINT, signal.default_int_handler)
