"""Workers on this machine, which are processes of the terminal that a user presses Ctrl-C in."""

from __future__ import annotations

import signal
import threading
from typing import Any

from distributed import Client, LocalCluster, WorkerPlugin


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
