"""Ctrl-C for the tests of the loop."""

import os
import signal

import pytest


@pytest.fixture
def ctrl_c():
    """Ctrl-C as a terminal gives it: the test runner may have another handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)
