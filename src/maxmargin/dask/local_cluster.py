"""Workers on this machine: how they are started, and what they do when a user presses Ctrl-C in their terminal."""

from __future__ import annotations

import signal
import threading
from typing import Any

import dask
from distributed import Client, LocalCluster, WorkerPlugin

# Dask sets these variables in the environment of this process, for the workers that it starts, and leaves them there:
# all later fits in this process, on no cluster, would use one thread. So each worker is given them for itself alone.
MOVED = "distributed.nanny.pre-spawn-environ"


def local_cluster(workers: int, **options: Any) -> LocalCluster:
    """A cluster of so many processes of one thread each; its dashboard is served at any free port."""
    environment = {name: str(value) for name, value in dask.config.get(MOVED, {}).items()}
    address = "127.0.0.1:0"
    with dask.config.set({MOVED: {}}):
        return LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=address, env=environment, **options
        )


class IgnoreCtrlC(WorkerPlugin):  # type: ignore[misc]
    """Lets the process of a worker go on at Ctrl-C, also one that is started later.

    A terminal sends Ctrl-C to all of its processes. The driver answers it by ending the fit with the model that it has
    found so far, for which it needs the workers.
    """

    name = "maxmargin-ignore-ctrl-c"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Called by each worker; one that is a thread of the driver's process leaves its signals alone."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def shield_from_ctrl_c(client: Client) -> None:
    """Let the workers of a cluster that this process has started go on at Ctrl-C."""
    if isinstance(client.cluster, LocalCluster):
        client.register_plugin(IgnoreCtrlC())
