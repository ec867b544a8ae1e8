"""A cost model of fits on a cluster, measured on this machine, checked on this machine, and applied to larger clusters.

    python benchmarks/cluster_cost.py --json cluster_cost.json
    python benchmarks/cluster_cost.py --quick

The model predicts the time of a linear fit by Newton's method, of n rows on W workers of one thread each, as

    seconds = calls (call + W per_worker + U per_unit + 4 latency)    messages; U units of rows, see engine/parts.py
            + rows_of_the_busiest_worker worker_row                   passes over the data, in parallel
            + n driver_row                                            vectors over the rows, in the driver
            + bytes / bandwidth                                       between the driver and the workers

`call`, `per_worker` and `per_unit` are fitted to calls that do nothing, on 1, 2 and 4 workers, with few and with many
units. `worker_row` and `driver_row` are CPU seconds per row in the workers and in the driver, the slopes between two
fits on one worker. The same two fits give the number of calls, which grows with log n, and the bytes, which grow with
n. A call takes four messages, one after another: the task, the message that it is done, the request for its answer, and
the answer. On this machine, the latency is taken as 0 and the bandwidth as infinite, since all processes are here; for
larger clusters, both are assumed (--latency, --bandwidth). If there are more workers than processors on this machine,
they share the processors; the prediction allows for that.

A call of the decomposition solver with a kernel computes B new rows of the kernel matrix:

    seconds = call + W per_worker + W per_unit + 4 latency + B n / W evaluation
            + (W B d 4 + 8 n) (1 / bandwidth + per_byte) + between

Here `evaluation` is the worker's CPU seconds for one kernel evaluation with d features, `per_byte` the seconds to pack,
send and unpack a byte, and `between` the time until the next call, in which the driver solves the working set. The
samples are HIGGS-like, with 28 float32 features, as in cluster_linear.py. The constants come from fits on one worker
with the first numbers of rows (two linear fits, one kernel fit). All other fits are predictions; the table compares
them with the measurements. On a machine with fewer processors than workers, per_worker is an upper bound.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import clusters
import numpy as np
import records
from common import arguments, markdown, write_json
from scipy.optimize import nnls

from maxmargin.engine.parts import rows_per_unit

D = clusters.FEATURES
CALLS = 50  # number of empty calls; their median counts
FEW_ROWS = 40_000  # rows that make three units
PAYLOAD = 1 << 25  # bytes that are sent to a worker and back to measure per_byte
LARGER_WORKERS = (4, 16, 64, 256)
LARGER_ROWS = (10**7, 10**8, 10**9)
KERNEL_ROWS = (10**5, 10**6, 10**7)


@dataclass(frozen=True)
class Constants:
    """The measured constants of the model, in seconds and bytes."""

    call: float
    per_worker: float
    per_unit: float
    per_byte: float
    worker_row: float
    driver_row: float
    first_calls: float  # a fit of n rows makes first_calls + more_calls log n calls
    more_calls: float
    first_bytes: float  # its messages between driver and workers have first_bytes + row_bytes n bytes
    row_bytes: float
    evaluation: float  # for one kernel evaluation
    new_rows: float  # rows of the kernel matrix that a call of the decomposition solver asks for
    between: float = 0.0  # between two calls of the decomposition solver

    def empty_call(self, workers: int, units: int) -> float:
        return self.call + workers * self.per_worker + units * self.per_unit

    def calls(self, n: int) -> float:
        return self.first_calls + self.more_calls * math.log(n)

    def bytes(self, n: int) -> float:
        return self.first_bytes + self.row_bytes * n


@dataclass(frozen=True)
class Network:
    """The network of a cluster: seconds per message one way, bytes per second, and the number of all processors."""

    latency: float
    bandwidth: float
    processors: float = math.inf


HERE = Network(0.0, math.inf, len(os.sched_getaffinity(0)))  # all processes are on this machine


def units_of(n: int) -> int:
    """The number of units that n rows are divided into."""
    return -(-n // rows_per_unit(n))


def linear_seconds(found: Constants, n: int, workers: int, network: Network) -> dict[str, float]:
    """The predicted time of a linear fit, split by what takes the time."""
    units = units_of(n)
    busiest = min(n, -(-units // workers) * rows_per_unit(n))
    crowded = max(1.0, min(workers, units) / network.processors)
    return {
        "calls": found.calls(n) * (found.empty_call(workers, units) + 4 * network.latency),
        "workers": busiest * found.worker_row * crowded,
        "driver": n * found.driver_row,
        "network": found.bytes(n) / network.bandwidth,
    }


def kernel_seconds(found: Constants, n: int, workers: int, network: Network) -> float:
    """The predicted time of a call of the decomposition solver."""
    moved = workers * found.new_rows * D * 4 + 8 * n
    crowded = max(1.0, workers / network.processors)
    compute = found.new_rows * n / workers * found.evaluation * crowded
    messages = found.empty_call(workers, workers) + 4 * network.latency
    return messages + compute + moved * (1 / network.bandwidth + found.per_byte) + found.between


# Measurements; each number of workers has a process of its own


def measure_alone(
    workers: int, rows: Sequence[int], kernel_rows: Sequence[int], repeats: int, C: float, loss: str, tol: float
) -> dict[str, Any]:
    """Measure empty calls, a payload, and fits on a cluster of `workers` workers."""
    from maxmargin.dask import SVC, LinearSVC

    with clusters.cluster_of(workers) as client:
        answer: dict[str, Any] = {"empty": [empty_call(client, n) for n in (FEW_ROWS, max(rows))]}
        answer["per_byte"] = payload_seconds(client)
        linear = partial(LinearSVC, C=C, loss=loss, tol=tol, random_state=0, client=client)
        answer["linear"] = [fit(client, linear, n, repeats) for n in rows]
        kernel = partial(SVC, C=1.0, gamma=1 / D, client=client)
        answer["kernel"] = [fit(client, kernel, n, repeats) for n in kernel_rows]
        return answer


def empty_call(client: Any, n: int) -> dict[str, float]:
    """The median time of calls of all units that do nothing: each unit returns its rows of an empty list."""
    import time

    from maxmargin.dask.inputs import place

    rows = place(client, clusters.on_workers(client, [partial(only_rows, load) for load in partitions(n)]))
    nothing, parts, seconds = np.empty(0, dtype=np.int64), rows._products, []
    for _ in range(CALLS):
        start = time.perf_counter()
        parts.collect("some", nothing)
        seconds.append(time.perf_counter() - start)
    return {"units": len(rows.units.futures), "seconds": float(np.median(seconds))}


def only_rows(load: Any) -> Any:
    """The rows of a partition without their labels."""
    return load()[0]


def payload_seconds(client: Any) -> float:
    """Seconds per byte one way: half of the time of a trip to a worker and back."""
    import time

    payload, address = np.random.default_rng(0).random(PAYLOAD // 8), min(client.nthreads())
    took = []
    for _ in range(3):
        start = time.perf_counter()
        client.gather(client.scatter(payload, workers=[address], hash=False))
        took.append(time.perf_counter() - start)
    return min(took) / (2 * PAYLOAD)


def partitions(n: int) -> list[Any]:
    """HIGGS-like samples in at least four partitions."""
    size = min(clusters.PARTITION, -(-n // 4))
    return [partial(clusters.higgs_partition, k, min(size, n - start)) for k, start in enumerate(range(0, n, size))]


def fit(client: Any, make: Any, n: int, repeats: int) -> dict[str, Any]:
    """The fastest of several fits on data that the workers hold: what it used, its calls and its reads."""
    pairs = clusters.on_workers(client, partitions(n))
    runs = []
    for _ in range(repeats):
        with counted_calls() as calls:
            model, run = clusters.measure(client, lambda: make().fit(pairs, None))
        moved = sum(run["sent_workers"]) + sum(run["received_workers"])
        evaluations = getattr(model, "kernel_evaluations_", 0)
        about = {"rows": n, "calls": len(calls), "bytes": moved, "evaluations": evaluations}
        runs.append(run | about | {"iterations": int(np.max(model.n_iter_)), "entries": sum(model.reads_.values())})
    return min(runs, key=lambda run: run["wall"])


@contextmanager
def counted_calls() -> Iterator[list[str]]:
    """Yields a list that records the names of the methods that the driver calls on all units."""
    from maxmargin.dask.parts import ClusterParts

    ask, calls = ClusterParts._ask, []

    def counting(self: Any, method: str, args: Any, **options: Any) -> Any:
        calls.append(method)
        return ask(self, method, args, **options)

    ClusterParts._ask = counting  # type: ignore[method-assign]
    try:
        yield calls
    finally:
        ClusterParts._ask = ask  # type: ignore[method-assign]


# The model


def constants_of(measured: dict[int, dict[str, Any]]) -> Constants:
    """The constants from all empty calls, and from the first two linear fits and the first kernel fit on one worker."""
    empty = [(1, workers, each["units"], each["seconds"]) for workers, m in measured.items() for each in m["empty"]]
    known, seconds = np.array(empty)[:, :3], np.array(empty)[:, 3]
    call, per_worker, per_unit = nnls(known, seconds)[0]
    one = measured[1]
    small, large = one["linear"][:2]
    more = large["rows"] - small["rows"]
    kernel = one["kernel"][0]
    more_calls = (large["calls"] - small["calls"]) / math.log(large["rows"] / small["rows"])
    row_bytes = (large["bytes"] - small["bytes"]) / more
    found = Constants(
        call=float(call),
        per_worker=float(per_worker),
        per_unit=float(per_unit),
        per_byte=min(m["per_byte"] for m in measured.values()),
        worker_row=(sum(large["cpu_workers"]) - sum(small["cpu_workers"])) / more,
        driver_row=(large["cpu_driver"] - small["cpu_driver"]) / more,
        first_calls=large["calls"] - more_calls * math.log(large["rows"]),
        more_calls=more_calls,
        first_bytes=large["bytes"] - row_bytes * large["rows"],
        row_bytes=row_bytes,
        evaluation=sum(kernel["cpu_workers"]) / kernel["evaluations"],
        new_rows=kernel["evaluations"] / kernel["rows"] / kernel["calls"],
    )
    rest = kernel["wall"] / kernel["calls"] - kernel_seconds(found, kernel["rows"], 1, HERE)
    return replace(found, between=max(0.0, rest))


def check(found: Constants, measured: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Predictions and measurements of all fits on this machine."""
    checks = []
    for workers, each in measured.items():
        for k, run in enumerate(each["linear"]):
            told = sum(linear_seconds(found, run["rows"], workers, HERE).values())
            used = workers == 1 and k < 2
            checks.append(compared("linear fit", workers, run["rows"], told, run["wall"], used))
        for k, run in enumerate(each["kernel"]):
            told = kernel_seconds(found, run["rows"], workers, HERE)
            used = workers == 1 and k == 0
            checks.append(compared("kernel call", workers, run["rows"], told, run["wall"] / run["calls"], used))
    return checks


def compared(what: str, workers: int, n: int, told: float, took: float, used: bool) -> dict[str, Any]:
    seconds = {"predicted": told, "measured": took, "error": told / took - 1}
    return {"what": what, "workers": workers, "rows": n, **seconds, "used": used}


# Tables


def report(found: Constants, checks: Sequence[dict[str, Any]], network: Network) -> dict[str, list[dict[str, Any]]]:
    """Print the tables, and return them by their names."""
    link = f"{1e3 * network.latency:g} ms a message and {8 * network.bandwidth / 1e9:g} Gbit/s"
    titles = {
        "constants": "Measured constants",
        "checks": "Predictions and measurements on this machine",
        "linear": f"Predicted with {link}: seconds of a linear fit with {D} features (share of the driver's own work)",
        "kernel": f"Predicted seconds of a call of the decomposition solver for {found.new_rows:.0f} kernel rows",
    }
    tables = {
        "constants": [{"constant": name, "value": f"{value:.4g}"} for name, value in asdict(found).items()],
        "checks": [check_row(each) for each in checks],
        "linear": larger(LARGER_ROWS, lambda n, workers: driver_share(linear_seconds(found, n, workers, network))),
        "kernel": larger(KERNEL_ROWS, lambda n, workers: f"{kernel_seconds(found, n, workers, network):#.3g}"),
    }
    for name, rows in tables.items():
        print(f"\n{titles[name]}:\n")
        print(markdown(list(rows[0]), [list(row.values()) for row in rows]), flush=True)
    return tables


def check_row(check: dict[str, Any]) -> dict[str, str]:
    return {
        "what": check["what"],
        "workers": str(check["workers"]),
        "rows": f"{check['rows']:,}",
        "predicted s": f"{check['predicted']:#.3g}",
        "measured s": f"{check['measured']:#.3g}",
        "measured / predicted": f"{check['measured'] / check['predicted']:.2f}",
        "used for the constants": "yes" if check["used"] else "no",
    }


def larger(sizes: Sequence[int], cell: Callable[[int, int], str]) -> list[dict[str, str]]:
    """A line for each number of rows, a column for each number of workers."""
    return [
        {"rows": f"10^{math.log10(n):.0f}"} | {f"{workers} workers": cell(n, workers) for workers in LARGER_WORKERS}
        for n in sizes
    ]


def driver_share(parts: dict[str, float]) -> str:
    total = sum(parts.values())
    return f"{total:#.3g} ({100 * parts['driver'] / total:.0f} %)"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[500_000, 1_000_000, 2_000_000, 4_000_000])
    parser.add_argument("--kernel-rows", type=int, nargs="+", default=[20_000, 40_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--loss", default="squared_hinge")
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--latency", type=float, default=1e-4, help="seconds per message one way, default: 0.1 ms")
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes/s of the driver, default: 10 Gbit/s")
    parser.add_argument("--quick", action="store_true", help="few rows and one repeat, to test the script")
    records.add_options(parser)
    clusters.add_alone(parser)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure_alone(**chosen.one)))
        return
    if chosen.quick:
        chosen.rows, chosen.kernel_rows, chosen.repeats = [100_000, 200_000, 400_000], [3000, 6000], 1
    if chosen.workers[0] != 1 or len(chosen.rows) < 2:
        parser.error("--workers must begin with 1 and --rows must have two numbers or more, to measure the constants")
    network = Network(chosen.latency, chosen.bandwidth)
    if chosen.kept:
        figures = json.loads(chosen.kept.read_text(encoding="utf-8"))
        found, checks = Constants(**figures["constants"]), figures["checks"]
    else:
        same = {name: getattr(chosen, name) for name in ("rows", "kernel_rows", "repeats", "C", "loss", "tol")}
        measured = {
            workers: clusters.alone(__file__, {"workers": workers} | same, one_thread=True)
            for workers in chosen.workers
        }
        found = constants_of(measured)
        checks = check(found, measured)
        write_json(chosen.json, {"constants": asdict(found), "checks": checks, "measured": measured})
    for name, rows in report(found, checks, network).items():
        records.keep(chosen, rows, f"_{name}")


if __name__ == "__main__":
    main()
