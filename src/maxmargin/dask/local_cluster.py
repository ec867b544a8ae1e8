"""Workers on this machine: how they are started, and their protection from Ctrl-C in the user's terminal."""

from __future__ import annotations

import signal
import threading
from typing import Any

import dask
from distributed import Client, LocalCluster, WorkerPlugin

# Dask sets these variables in the environment of this process for the workers that it starts, and leaves them set, so
# that all later local fits in this process would use one thread. Therefore each worker gets them separately.
MOVED = "distributed.nanny.pre-spawn-environ"


def local_cluster(workers: int, **options: Any) -> LocalCluster:
    """Start a cluster of `workers` processes with one thread each; its dashboard uses any free port."""
    environment = {name: str(value) for name, value in dask.config.get(MOVED, {}).items()}
    address = "127.0.0.1:0"
    with dask.config.set({MOVED: {}}):
        return LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=address, env=environment, **options
        )


class IgnoreCtrlC(WorkerPlugin):  # type: ignore[misc]
    """Makes worker processes ignore Ctrl-C, including workers that are started later.

    A terminal sends Ctrl-C to all its processes. The driver responds by ending the fit with the model found so far, for
    which it needs the workers.
    """

    name = "maxmargin-ignore-ctrl-c"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Set up a worker; a worker that is a thread of the driver's process does not change the signals."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def shield_from_ctrl_c(client: Client) -> None:
    """Make the workers of a cluster that this process has started ignore Ctrl-C."""
    if isinstance(client.cluster, LocalCluster):
        client.register_plugin(IgnoreCtrlC())
