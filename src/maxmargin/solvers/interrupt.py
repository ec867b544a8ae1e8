"""Ctrl-C as a request to finish, not as a crash."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the user has asked to stop."""

    def __init__(self) -> None:
        self.asked = False


_current: Interrupt | None = None


@contextmanager
def listen_for_interrupt() -> Iterator[Interrupt]:
    """Turn the first Ctrl-C inside the block into `interrupt.asked`; the second one raises KeyboardInterrupt.

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
        if interrupt.asked:
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
