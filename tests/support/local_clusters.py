"""Helpers for tests on clusters of this machine: start clusters, kill workers, compare models."""

import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
from distributed import LocalCluster
from distributed.core import Status

from maxmargin.dask.local_cluster import local_cluster


def start(workers):
    """A cluster of processes of one thread each."""
    return local_cluster(workers, silence_logs=logging.CRITICAL)


def threads(workers):
    """A cluster whose workers are threads of this process; it starts faster."""
    options = {"processes": False, "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    return LocalCluster(n_workers=workers, threads_per_worker=1, **options)


@contextmanager
def joining(client):
    """Yields a function that adds a worker to a cluster until the end of the context."""
    before, processes = len(client.nthreads()), []

    def join():
        command = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address]
        options = ["--no-nanny", "--no-dashboard", "--nthreads", "1"]
        processes.append(subprocess.Popen(command + options, stderr=subprocess.DEVNULL))
        client.wait_for_workers(before + 1)

    try:
        yield join
    finally:
        for process in processes:
            process.kill()
            process.wait()
        while len(client.nthreads()) > before:
            time.sleep(0.01)


def kill_one(client):
    """Kill the process of a worker and return its address; its nanny starts another one."""
    address, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGKILL)
    return address


def wait_for_all(client):
    """Wait until every worker that was killed has come back.

    Its nanny must know it too: if a worker is killed while it starts, its nanny does not start another one. A cluster
    drops workers that take long to come back, for instance on a busy machine, and is told here to start others.
    """
    cluster, count = client.cluster, len(client.cluster.worker_spec)

    def all_are_running():
        nannies = list(cluster.workers.values())
        running = [nanny.process is not None and nanny.process.status == Status.running for nanny in nannies]
        return len(client.nthreads()) == count == sum(running)

    while not all_are_running():
        cluster.scale(count)
        time.sleep(0.1)


def same(model, other):
    """Two models are equal to the bit."""
    np.testing.assert_array_equal(model.coef_, other.coef_)
    np.testing.assert_array_equal(model.intercept_, other.intercept_)
