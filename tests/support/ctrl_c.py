"""Ctrl-C at a moment that does not depend on the clock."""

import signal
import time
from contextlib import contextmanager


@contextmanager
def ctrl_c_at_look(monkeypatch, number):
    """Press Ctrl-C when the clock is read for the `number`-th time."""
    before, looks, clock = signal.signal(signal.SIGINT, signal.default_int_handler), 0, time.perf_counter

    def pressing():
        nonlocal looks
        looks += 1
        if looks == number:
            signal.raise_signal(signal.SIGINT)
        return clock()

    monkeypatch.setattr(time, "perf_counter", pressing)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
