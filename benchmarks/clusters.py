"""Shared by the benchmarks on a cluster: data in partitions, a cluster on this machine, and what a fit on it uses.

HIGGS-like samples (`higgs_partition`) are drawn partition by partition, each with a seed of its own. So workers can
draw their own partitions, and draw them again after a worker is lost. z = y m + N(0, I) has 28 features, with |m| =
0.6. x = z A, with a fixed A, is correlated. Every fourth column of x is replaced by exp(x_j / 2), which is skewed and
positive, as momenta are. All these steps can be inverted, so the error of the best classifier is the same as for z:
27.4 %, the probability that a standard normal variable exceeds 0.6. The error of the best linear classifier is a little
larger.

A cluster is a `LocalCluster`: workers of one thread, each a process, that talk over TCP on localhost. The scheduler is
a thread of the driver's process. Bytes are counted in each process as Dask's messages are written to and read from
sockets (`distributed.comm.tcp`). Messages between the driver and the scheduler go through a socket too, and count as
sent and received by their common process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import processes
from common import covtype_rows, environment

Load = Callable[[], tuple[Any, Any]]  # returns the rows and labels of a partition

PARTITION = 100_000  # rows per partition
FEATURES = 28
DISTANCE = 0.6  # |m|; the centres of the classes are 2 |m| apart
SEED = 18


# Data in partitions


def higgs_partition(number: int, rows: int) -> tuple[Any, Any]:
    """A partition of HIGGS-like samples, float32, with labels -1 and 1; the same bits wherever it is drawn."""
    centre, mixing = _higgs_law()
    rng = np.random.default_rng([SEED, number])
    y = np.where(rng.random(rows) < 0.5, -1, 1)
    Z = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    Z += y[:, None].astype(np.float32) * centre
    # einsum adds in a fixed order; the bits of a BLAS depend on the machine and on the number of its threads.
    X = np.einsum("ij,jk->ik", Z, mixing)
    X[:, ::4] = np.exp(0.5 * X[:, ::4])
    return X, y


@cache
def _higgs_law() -> tuple[Any, Any]:
    """m, a random direction, and A, the identity plus noise, which makes correlations of about 0.1 to 0.5."""
    rng = np.random.default_rng(SEED)
    centre = rng.standard_normal(FEATURES)
    mixing = np.eye(FEATURES) + 0.15 * rng.standard_normal((FEATURES, FEATURES))
    return (DISTANCE / np.linalg.norm(centre) * centre).astype(np.float32), mixing.astype(np.float32)


def gaussian_partition(number: int, rows: int, features: int) -> tuple[Any, Any]:
    """A partition of two overlapping Gaussian classes, float64."""
    rng = np.random.default_rng([SEED, number])
    y = np.where(rng.random(rows) < 0.5, -1, 1)
    return rng.standard_normal((rows, features)) + y[:, None] * (1.0 / features**0.5), y


def saved_partition(path: str) -> tuple[Any, Any]:
    """A partition from a file."""
    with np.load(path) as stored:
        return stored["X"], stored["y"]


def save_partitions(X: Any, y: Any, rows: int, folder: Path) -> None:
    """Write data as partitions of `rows` rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, start in enumerate(range(0, len(y), rows)):
        some = slice(start, start + rows)
        np.savez(folder / f"{k:05d}.npz", X=X[some], y=y[some])


def saved_loads(folder: Path) -> list[Load]:
    """The partitions that were written to a folder."""
    return [partial(saved_partition, str(path)) for path in sorted(folder.glob("*.npz"))]


def linear_loads(name: str, rows: int, folder: Path) -> list[Load]:
    """The partitions of a linear set: HIGGS-like samples, covtype, or 10,000 x 50 samples."""
    if name == "higgs":
        return [
            partial(higgs_partition, k, min(PARTITION, rows - start))
            for k, start in enumerate(range(0, rows, PARTITION))
        ]
    if name == "small":
        return [partial(gaussian_partition, k, 2500, 50) for k in range(4)]
    own = folder / name
    if not own.exists():
        X, y = covtype_rows(scaled=True)
        order = np.random.default_rng(0).permutation(y.size)[: min(rows, y.size)]
        save_partitions(X[order], y[order].astype(np.int64), 50_000, own)
    return saved_loads(own)


def together(loads: Sequence[Load]) -> tuple[Any, Any]:
    """All partitions in this process, concatenated."""
    pieces = [load() for load in loads]
    return np.concatenate([X for X, _ in pieces]), np.concatenate([y for _, y in pieces])


# The cluster


@contextmanager
def cluster_of(workers: int) -> Iterator[Any]:
    """A client of a cluster of `workers` workers with one thread each, which have imported what fits need."""
    from distributed import Client, LocalCluster

    from maxmargin.dask import LinearSVC

    quiet = {"silence_logs": "CRITICAL", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, protocol="tcp://", **quiet) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers, timeout=120)
        count_traffic()
        client.run(count_traffic)
        for _ in range(2):  # the first fit imports modules on the workers
            loads = [partial(gaussian_partition, k, 5000, 5) for k in range(2)]
            LinearSVC(client=client).fit(on_workers(client, loads), None)
        yield client


def delayed_loads(loads: Sequence[Load]) -> list[Any]:
    """The partitions as delayed pairs; the workers load them when they need them."""
    import dask

    return [dask.delayed(load, pure=False)() for load in loads]


def on_workers(client: Any, loads: Sequence[Load]) -> list[Any]:
    """The partitions as futures of pairs that the workers have loaded; neighbours are on the same worker."""
    from distributed import wait

    addresses = sorted(client.nthreads())
    futures = [
        client.compute(item, workers=[addresses[k * len(addresses) // len(loads)]], allow_other_workers=True)
        for k, item in enumerate(delayed_loads(loads))
    ]
    wait(futures)
    return futures


def worker_pids(client: Any) -> list[int]:
    """The ids of the processes of the workers, in the order of their addresses."""
    found = client.run(os.getpid)
    return [found[address] for address in sorted(found)]


# Bytes that processes send and receive

_traffic: dict[str, int] = {}


def count_traffic() -> None:
    """From now on, count the bytes of Dask's messages in this process."""
    from distributed.comm import tcp

    if _traffic:
        return
    _traffic.update(sent=0, received=0)
    write, read = tcp.TCP.write, tcp.read_bytes_rw

    async def counting_write(self: Any, *args: Any, **options: Any) -> int:
        count: int = await write(self, *args, **options)
        _traffic["sent"] += count
        return count

    async def counting_read(stream: Any, n: int) -> Any:
        _traffic["received"] += n
        return await read(stream, n)

    tcp.TCP.write, tcp.read_bytes_rw = counting_write, counting_read


def traffic() -> dict[str, int]:
    """The bytes that this process has sent and received so far."""
    return dict(_traffic)


# What a fit uses


def measure(client: Any | None, act: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """Call `act`; return its answer and what it used: wall and CPU seconds, bytes, peak memory of driver and workers.

    `cpu` counts the driver's process and all of its descendants, that is, also the workers and the scheduler.
    """
    workers = worker_pids(client) if client else []
    pids = processes.without_helpers(processes.process_tree())
    processes.forget_peaks(pids)
    start = processes.resident(pids)
    before = _all_traffic(client) if client else {}
    cpu, wall = processes.cpu_seconds(pids), time.perf_counter()
    answer = act()
    wall, after_cpu = time.perf_counter() - wall, processes.cpu_seconds(pids)
    used = {pid: seconds - cpu[pid] for pid, seconds in after_cpu.items()}
    peaks = processes.peaks(pids)
    driver = os.getpid()
    figures = {
        "wall": wall,
        "cpu": sum(used.values()),
        "cpu_driver": used[driver],
        "cpu_workers": [used[pid] for pid in workers if pid in used],
        "peak_driver": peaks[driver],
        "peak_workers": [peaks[pid] for pid in workers if pid in peaks],
        "start_driver": start[driver],
        "start_workers": [start[pid] for pid in workers if pid in start],
    }
    if client:
        after = _all_traffic(client)
        for kind in ("sent", "received"):
            figures[f"{kind}_driver"] = after["driver"][kind] - before["driver"][kind]
            figures[f"{kind}_workers"] = [
                after[name][kind] - before[name][kind] for name in sorted(after) if name != "driver" and name in before
            ]
    return answer, figures


def _all_traffic(client: Any) -> dict[str, dict[str, int]]:
    return {**client.run(traffic), "driver": traffic()}


# A process for each entrant


def alone(script: str, request: dict[str, Any], one_thread: bool = False) -> dict[str, Any]:
    """Run a script in a process of its own, with a request as its option `--one`, and return its answer."""
    command = [sys.executable, "-W", "ignore", script, "--one", json.dumps(request)]
    found = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=environment(1 if one_thread else 0)
    )
    answer: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return answer


def add_alone(parser: Any) -> None:
    """Add the option `--one`, with which a script calls itself, see `alone`."""
    import argparse

    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)


# Bits of models


def best_of(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The fastest fit; all fits must have the same bits."""
    assert len({run["bits"] for run in runs}) == 1, "two fits of the same data have different bits"
    best = min(runs, key=lambda run: run["wall"])
    return best | {"walls": [run["wall"] for run in runs], "cpus": [run["cpu"] for run in runs]}


def bits(*arrays: Any) -> str:
    """A digest of the bits of arrays; arrays with different bits almost surely have different digests."""
    from hashlib import sha256

    digest = sha256()
    for array in arrays:
        values = np.ascontiguousarray(array)
        digest.update(f"{values.dtype} {values.shape}".encode() + values.tobytes())
    return digest.hexdigest()[:16]


def megabytes(count: float) -> str:
    """A number of bytes in MB."""
    return f"{count / 1e6:#.3g}" if count else "0"


def listed(values: Sequence[float], digits: int = 0) -> str:
    """The numbers of several workers, in one cell."""
    return " ".join(f"{value:,.{digits}f}" for value in values) or "-"
