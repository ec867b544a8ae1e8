"""The Dask client of a fit: the given one, the current one, or one of a new local cluster."""

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

LOST = ("cancelled", "lost")  # status of futures whose result is gone; Dask computes some of them again
LOOK_SECONDS = 1.0  # time without an answer after which the driver looks whether there are workers left
MOST_LOOKS = 60  # times in a row that it finds none before it gives up
SECONDS_FOR_A_WORKER = 60.0  # time to wait for the first worker of a cluster that has none


class ClusterError(RuntimeError):
    """A fit on a cluster cannot go on: data was lost for good, there are no workers, or the scheduler is gone."""


def client_of(client: Client | None) -> Client:
    """The client to use; where none is given or current, a local cluster is started, and a warning says so.

    Parameters
    ----------
    client : distributed.Client or None
        As the user gave it.
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
            "client is asynchronous, and fit waits for its answers; make one with Client(..., asynchronous=False)"
        )
    if client.status != "running":
        raise ValueError(f"client is {client.status}: its connection to the scheduler has ended; make a new one")
    shield_from_ctrl_c(client)
    return client


def _local_client() -> Client:
    """A client of a new cluster on this machine, a process for each processor; it ends with this process."""
    count = allowed_processors()
    client = Client(local_cluster(count))
    warnings.warn(
        f"no Dask client was given and none is current: started a cluster of {count} processes on this machine, at "
        f"{client.scheduler.address}, which ends with this process. Make a Client yourself to choose another one",
        UserWarning,
        stacklevel=4,
    )
    return client


def workers_of(client: Client) -> dict[str, int]:
    """As :func:`worker_threads`, once there is a worker; an error if none comes."""
    if not worker_threads(client):
        try:
            client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
        except TimeoutError as error:
            raise ClusterError(
                f"the cluster at {client.scheduler.address} has no workers, and none has come in "
                f"{SECONDS_FOR_A_WORKER:g} seconds; start some, for instance with cluster.scale(4) or `dask worker "
                f"{client.scheduler.address}`"
            ) from error
    return worker_threads(client)


def worker_threads(client: Client) -> dict[str, int]:
    """The addresses of the workers that are there now, and how many threads each has."""
    threads: dict[str, Any] = client.nthreads()
    return dict(sorted(threads.items()))


def finished(client: Client, tasks: Sequence[Future]) -> bool:
    """Wait for tasks, as long as there are workers; False if what they need was lost."""
    looks = 0
    while True:
        error: BaseException | None = None
        try:
            with client.as_current():  # `wait` asks the current client, which may be another one
                wait(list(tasks), timeout=LOOK_SECONDS)
            return not any(task.status in LOST for task in tasks)
        except TimeoutError as timeout:
            # The frames that it went through hold the tasks, and so their results, until garbage is collected.
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
                "again: a fit with checkpoint= goes on where it was saved last"
            )


def results_of(client: Client, tasks: Sequence[Future]) -> list[Any]:
    """The results of tasks that are finished.

    They come straight from the workers where the client can certainly reach them, which halves the bytes that pass
    through the driver: if it is the client of a cluster of this machine, or was made with ``direct_to_workers=True``.
    Elsewhere they come by way of the scheduler.
    """
    direct = True if isinstance(client.cluster, LocalCluster) else None
    found: list[Any] = client.gather(list(tasks), direct=direct)
    return found


def _let_others_do_it(dask_scheduler: Any) -> None:
    """Runs on the scheduler: tasks that wait for workers which are gone, and that others may do, are done by others.

    When all workers are lost at once, Dask gives such tasks to none of those that come later.
    """
    for task in list(dask_scheduler.unrunnable):
        if task.loose_restrictions and not dask_scheduler.valid_workers(task):
            dask_scheduler.set_restrictions(worker={task.key: []})
    for worker in list(dask_scheduler.running)[:1]:
        ready = dask_scheduler.bulk_schedule_unrunnable_after_adding_worker(worker)
        dask_scheduler.transitions(ready, stimulus_id="maxmargin-workers-lost")


def lost_for_good(client: Client, futures: Sequence[Future]) -> list[int]:
    """The positions of those of some futures that are lost, and that Dask does not compute again."""
    lost = [k for k, future in enumerate(futures) if future.status in LOST]
    known = client.run_on_scheduler(_known, [futures[k].key for k in lost]) if lost else []
    return [k for k, is_known in zip(lost, known, strict=True) if not is_known]


def _known(keys: Sequence[Any], dask_scheduler: Any) -> list[bool]:
    """Runs on the scheduler: which of some tasks it knows. Data that was scattered, and lost, it has forgotten."""
    return [key in dask_scheduler.tasks for key in keys]


@contextmanager
def connected(client: Client) -> Iterator[None]:
    """Whatever fails inside because the scheduler has ended ends in an error that says so."""
    try:
        yield
    except ClusterError:
        raise
    except Exception as error:
        if client.status == "running":
            raise
        raise scheduler_gone(error) from error


def scheduler_gone(error: BaseException | None) -> ClusterError:
    """The error of a fit whose scheduler has ended."""
    return ClusterError(
        f"the connection to the scheduler was lost{'' if error is None else f' ({error})'}, and with it the data on "
        "the workers. Make a client of the new scheduler and fit again: a fit with checkpoint= goes on where it was "
        "saved last"
    )
