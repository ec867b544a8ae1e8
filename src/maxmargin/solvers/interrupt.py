"""Ctrl-C as a request to finish, not as a crash."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the user has asked to stop."""

    def __init__(self) -> None:
        self.asked = False


IMPATIENCE = 2.0

_current: Interrupt | None = None
_last = -math.inf  # when Ctrl-C was last pressed


@contextmanager
def listen_for_interrupt() -> Iterator[Interrupt]:
    """Turn the first Ctrl-C inside the block into `interrupt.asked`; the second one raises KeyboardInterrupt.

    So does one within `IMPATIENCE` seconds of the last, though another block had that: who presses twice means the
    whole program, a grid search say, and not one fit of it.

    Work in small pieces can then stop between two of them with nothing half done. Inner blocks share the answer of the
    outermost one. Outside of the main thread Python hands signals to nobody else, so nothing is listened for there.
    """
    global _current
    if _current is not None:
        yield _current
        return
    if threading.current_thread() is not threading.main_thread():
        yield Interrupt()
        return

    interrupt = Interrupt()

    def on_signal(signum: int, frame: FrameType | None) -> None:
        global _last
        before, _last = _last, time.monotonic()
        if interrupt.asked or _last - before < IMPATIENCE:
            raise KeyboardInterrupt
        interrupt.asked = True

    before = signal.getsignal(signal.SIGINT)
    # A program that ignores Ctrl-C, or handles it in its own way, has its reasons.
    if before is not signal.default_int_handler:
        yield interrupt
        return
    signal.signal(signal.SIGINT, on_signal)
    _current = interrupt
    try:
        yield interrupt
    finally:
        _current = None
        signal.signal(signal.SIGINT, before)
