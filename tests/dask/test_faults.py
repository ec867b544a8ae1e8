"""Workers that are killed, added or slow, lost data, and a lost scheduler: the same bits, or an error that says why."""

import os
import signal
import threading

import dask
import pytest
from cluster_data import CHUNK, Deadly, N, die, partition
from distributed import Client
from local_clusters import joining, kill_one, same, start, threads

from maxmargin.dask import LinearSVC
from maxmargin.dask.client import ClusterError
from maxmargin.dask.inputs import place
from maxmargin.dask.parts import Units
from maxmargin.solvers import Checkpoint

PARTITIONS = range(-(-N // CHUNK))


def from_source():
    """Data that Dask can compute again."""
    return [dask.delayed(partition)(k) for k in PARTITIONS]


def fit(client, *data, **options):
    return LinearSVC(random_state=0, client=client).fit(*data, **options)


def kill_all(client):
    for pid in client.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("number", "after"), [(1, False), (9, False), (15, True)])
def test_a_worker_is_killed(both, whole, at_call, number, after):
    at_call(number, lambda: kill_one(both), after=after)
    same(fit(both, from_source()), whole)


def test_all_workers_are_killed_at_once(both, whole, at_call):
    at_call(12, lambda: kill_all(both))
    same(fit(both, from_source()), whole)


def test_rows_of_this_process_are_sent_again(both, data, whole, at_call):
    at_call(12, lambda: kill_one(both))
    same(fit(both, *data), whole)


def test_data_that_is_lost_for_good(both, data, at_call):
    parts = both.scatter([data[0][k * CHUNK : (k + 1) * CHUNK] for k in PARTITIONS], hash=False)
    at_call(8, lambda: kill_all(both))  # whichever of them holds the rows
    with pytest.raises(ClusterError, match=r"partitions? \d.* of X was lost with its worker.*give data that"):
        fit(both, parts, data[1])


def test_workers_that_are_added_take_part(both, whole, at_call, monkeypatch):
    asked, submit = [], Units._submit

    def recorded(self, request, own, address):
        asked.append(address)
        return submit(self, request, own, address)

    monkeypatch.setattr(Units, "_submit", recorded)
    monkeypatch.setattr("maxmargin.dask.parts.SPREAD_SECONDS", 0.0)
    with joining(both) as join:
        at_call(10, join)
        same(fit(both, from_source()), whole)
    assert len(set(asked[:9])) <= 2
    assert len(set(asked)) == len(PARTITIONS)  # as many as there are units of rows


def test_a_slow_worker(both, whole, at_call):
    def pause():
        pid = next(iter(both.run(os.getpid).values()))
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(0.5, os.kill, (pid, signal.SIGCONT)).start()

    at_call(10, pause)
    same(fit(both, from_source()), whole)


def test_a_partition_that_kills_its_worker(both, monkeypatch):
    monkeypatch.setattr(both.cluster.scheduler, "allowed_failures", 1)
    with pytest.raises(ClusterError, match=r"partition 1 of X could not be computed: KilledWorker"):
        fit(both, [dask.delayed(partition)(0), dask.delayed(die)()])


def test_retries_are_bounded(both, monkeypatch):
    """A step of a fit that ends every worker, as one that needs too much memory does."""
    monkeypatch.setattr(both.cluster.scheduler, "allowed_failures", 1)
    rows = place(both, [dask.delayed(partition)(0)[0], dask.delayed(partition)(1)[0]])
    with pytest.raises(ClusterError, match=r"worked on partitions? .*1 of X were lost again and again.*memory"):
        rows.place(Deadly, units=True).collect("work")


def test_a_scheduler_that_is_lost(client, whole, at_call, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "affords", lambda self, size: True)  # saved at each check
    checkpoint = Checkpoint(tmp_path / "fit", every_seconds=0)
    with threads(1) as cluster, Client(cluster, set_as_default=False) as other:
        calls = at_call(20, cluster.close)
        with pytest.raises(ClusterError, match=r"connection to the scheduler was lost.*checkpoint="):
            fit(other, from_source(), checkpoint=checkpoint)
    before = len(calls)
    same(fit(client, from_source(), checkpoint=checkpoint), whole)
    assert "count" not in calls[before:]  # it went on where it was saved


def test_the_environment_of_this_process_stays_as_it_is(client, monkeypatch):
    """Dask would let all later fits in this process use one thread."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with start(1):
        assert "OMP_NUM_THREADS" not in os.environ
