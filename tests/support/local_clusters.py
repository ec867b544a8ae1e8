"""Clusters of processes on this machine, workers that are killed, and models that are compared."""

import logging
import os
import signal

import numpy as np
from distributed import LocalCluster


def start(workers):
    """A cluster of processes of one thread each; its web server takes any free port, as other tests may have one."""
    quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    return LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, **quiet)


def kill_one(client):
    """Kill the process of a worker, and wait until it is dead; its nanny starts another one."""
    address, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGKILL)
    return address


def same(model, other):
    """Two models are equal to the bit."""
    np.testing.assert_array_equal(model.coef_, other.coef_)
    np.testing.assert_array_equal(model.intercept_, other.intercept_)
