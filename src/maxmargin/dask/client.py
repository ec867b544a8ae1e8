"""The Dask client of a fit: the given client, the current client, or the client of a new local cluster."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from distributed import Client, Future, LocalCluster, get_client, wait
from distributed.comm import CommClosedError

from maxmargin.core.threads import allowed_processors
from maxmargin.dask.local_cluster import local_cluster, shield_from_ctrl_c

LOST = ("cancelled", "lost")  # status of futures whose result is lost; Dask recomputes some of them
LOOK_SECONDS = 1.0  # after this time without an answer, the driver checks whether there are workers left
MOST_LOOKS = 60  # it gives up after this many checks in a row without any worker
SECONDS_FOR_A_WORKER = 60.0  # maximum time to wait for the first worker of a cluster


class ClusterError(RuntimeError):
    """The error that a fit on a cluster cannot continue.

    The reason is that data is permanently lost, there are no workers, or the scheduler is gone.
    """


def client_of(client: Client | None) -> Client:
    """Return the client to use; if there is no given or current client, start a local cluster, with a warning.

    Parameters
    ----------
    client : distributed.Client or None
        The client that the user gave.
    """
    if client is None:
        try:
            client = get_client()
        except ValueError:
            client = _local_client()
    if not isinstance(client, Client):
        raise TypeError(
            f"client must be a dask.distributed.Client or None; got a {type(client).__name__}. Make one with "
            "dask.distributed.Client(scheduler_address), or Client() for a cluster on this machine"
        )
    if client.asynchronous:
        raise ValueError(
            "client is asynchronous, but fit needs a synchronous one; make one with Client(..., asynchronous=False)"
        )
    if client.status != "running":
        raise ValueError(f"client is {client.status}: its connection to the scheduler has ended; make a new one")
    shield_from_ctrl_c(client)
    return client


def _local_client() -> Client:
    """Start a cluster on this machine with one process per processor, which ends with this process."""
    count = allowed_processors()
    client = Client(local_cluster(count))
    warnings.warn(
        f"no Dask client was given and none is current: started a cluster of {count} processes on this machine, at "
        f"{client.scheduler.address}, which ends with this process. To use another cluster, make a Client first",
        UserWarning,
        stacklevel=4,
    )
    return client


def workers_of(client: Client) -> dict[str, int]:
    """Return :func:`worker_threads` as soon as there is a worker; raise an error if none joins in time."""
    if not worker_threads(client):
        try:
            client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
        except TimeoutError as error:
            raise ClusterError(
                f"the cluster at {client.scheduler.address} has no workers, and none has joined in "
                f"{SECONDS_FOR_A_WORKER:g} seconds; start some, for example with cluster.scale(4) or `dask worker "
                f"{client.scheduler.address}`"
            ) from error
    return worker_threads(client)


def worker_threads(client: Client) -> dict[str, int]:
    """Return the addresses of the current workers and the number of threads of each."""
    threads: dict[str, Any] = client.nthreads()
    return dict(sorted(threads.items()))


def finished(client: Client, tasks: Sequence[Future]) -> bool:
    """Wait for tasks as long as there are workers; return False if what they need was lost."""
    looks = 0
    while True:
        error: BaseException | None = None
        try:
            with client.as_current():  # `wait` uses the current client, which may be a different one
                wait(list(tasks), timeout=LOOK_SECONDS)
            return not any(task.status in LOST for task in tasks)
        except TimeoutError as timeout:
            # The frames in its traceback would hold the tasks, and so their results, until garbage is collected.
            timeout.__traceback__ = timeout.__context__ = timeout.__cause__ = None
        except (CancelledError, CommClosedError, OSError) as failure:
            error = failure
        if client.status != "running":
            raise scheduler_gone(error) from error
        if error is not None:
            return False
        if worker_threads(client):
            looks = 0
            client.run_on_scheduler(_let_others_do_it)
        else:
            looks += 1
        if looks >= MOST_LOOKS:
            raise ClusterError(
                f"the cluster has had no worker for {LOOK_SECONDS * MOST_LOOKS:.0f} seconds. Start workers and fit "
                "again: a fit with checkpoint= continues from its last save"
            )


def results_of(client: Client, tasks: Sequence[Future]) -> list[Any]:
    """Return the results of finished tasks.

    They come directly from the workers if the client can certainly reach them, which halves the bytes that pass through
    the driver. This is so for a client of a cluster on this machine, and for one made with ``direct_to_workers=True``.
    Otherwise, they come through the scheduler.
    """
    direct = True if isinstance(client.cluster, LocalCluster) else None
    found: list[Any] = client.gather(list(tasks), direct=direct)
    return found


def _let_others_do_it(dask_scheduler: Any) -> None:
    """Let other workers run tasks that wait for lost workers, if the tasks allow it; runs on the scheduler.

    When all workers are lost at once, Dask does not give such tasks to workers that join later.
    """
    for task in list(dask_scheduler.unrunnable):
        if task.loose_restrictions and not dask_scheduler.valid_workers(task):
            dask_scheduler.set_restrictions(worker={task.key: []})
    for worker in list(dask_scheduler.running)[:1]:
        ready = dask_scheduler.bulk_schedule_unrunnable_after_adding_worker(worker)
        dask_scheduler.transitions(ready, stimulus_id="maxmargin-workers-lost")


def lost_for_good(client: Client, futures: Sequence[Future]) -> list[int]:
    """Return the positions of the futures that are lost and that Dask does not recompute."""
    lost = [k for k, future in enumerate(futures) if future.status in LOST]
    known = client.run_on_scheduler(_known, [futures[k].key for k in lost]) if lost else []
    return [k for k, is_known in zip(lost, known, strict=True) if not is_known]


def _known(keys: Sequence[Any], dask_scheduler: Any) -> list[bool]:
    """Return which tasks the scheduler knows; runs on it. It has forgotten scattered data that was lost."""
    return [key in dask_scheduler.tasks for key in keys]


@contextmanager
def connected(client: Client) -> Iterator[None]:
    """Context in which any failure caused by the end of the scheduler becomes an error that says so."""
    try:
        yield
    except ClusterError:
        raise
    except Exception as error:
        if client.status == "running":
            raise
        raise scheduler_gone(error) from error


def scheduler_gone(error: BaseException | None) -> ClusterError:
    """Return the error for a fit whose scheduler has ended."""
    return ClusterError(
        f"the connection to the scheduler was lost{'' if error is None else f' ({error})'}, and with it the data on "
        "the workers. Make a client of the new scheduler and fit again: a fit with checkpoint= continues from its last "
        "save"
    )
