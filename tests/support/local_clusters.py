"""Clusters of processes on this machine, workers that are killed, and models that are compared."""

import logging
import os
import signal
import time

import numpy as np
from distributed.core import Status

from maxmargin.dask.local_cluster import local_cluster


def start(workers):
    """A cluster of processes of one thread each."""
    return local_cluster(workers, silence_logs=logging.CRITICAL)


def kill_one(client):
    """Kill the process of a worker, and wait until it is dead; its nanny starts another one."""
    address, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGKILL)
    return address


def wait_for_all(client):
    """Wait until every worker that was killed is there again.

    Its nanny must know it, too: one whose worker is killed while it starts does not start another.
    """
    nannies = list(client.cluster.workers.values())
    client.wait_for_workers(len(nannies))
    while any(nanny.process is None or nanny.process.status != Status.running for nanny in nannies):
        time.sleep(0.01)


def same(model, other):
    """Two models are equal to the bit."""
    np.testing.assert_array_equal(model.coef_, other.coef_)
    np.testing.assert_array_equal(model.intercept_, other.intercept_)
