"""Kernel SVMs on a Dask cluster and in one process: seconds, CPU seconds, bytes, memory of each worker, same bits.

    python benchmarks/cluster_kernel.py --json cluster_kernel.json
    python benchmarks/cluster_kernel.py --sets covtype --rows 50000
    python benchmarks/cluster_kernel.py --quick

The sets are float32, the kernel is the Gaussian kernel exp(-gamma |x - z|^2), the loss is the hinge loss. `mnist` is 8
against the rest with 60,000 rows, gamma 0.02 and C 1. `covtype` is class 2 against the rest, with columns scaled to [0,
1], 200,000 rows drawn at random, gamma 1 and C 1. `tol` is the default, a relative duality gap of 1e-3.

Entrants: `local` is maxmargin.SVC with solver="decomposition" in one process, with one thread and with the default
number of threads; `cluster` is maxmargin.dask.SVC with workers of one thread, each a process that talks over TCP, and a
driver with one thread. `cache_size` is the total of all workers, so that all entrants have the same.

"fit s" is the time of the call of fit, with the data in the memory of the process, or of the workers as futures. "CPU
s" counts all processes: driver, scheduler and workers. "calls" is how often the driver calls the workers. "bound MB" is
the memory that a worker may use: its share of `cache_size`, its data and 300 MB; "peak MB" is the largest resident set
during the fit. "same bits" means that support vectors, coefficients and intercept equal those of `local` with one
thread; locally and on a cluster, kernel rows have the same bits only on processors with AVX-512, see
maxmargin.dask.SVC. A warm-up fit comes first, so imports are not counted. The table shows the best of `--repeats` fits,
by wall time.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import clusters
import numpy as np
import records
from clusters import Load
from common import arguments, markdown, write_json
from kernel_sets import CASES, drawn

ROWS = {"mnist": 60_000, "covtype": 200_000}
QUICK_ROWS = 6000
PARTITIONS = 4
ALLOWANCE = 300.0  # MB that a worker may use in addition to its share of the cache and its data


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--rows", type=int, help="maximum number of rows of each set")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cache-size", type=float, default=2000.0, help="MB of cached kernel rows, over all workers")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="folder for the data, default: a temporary folder")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows and one fit each")
    records.add_options(parser)
    clusters.add_alone(parser)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(fit_alone(**chosen.one)))
        return
    if chosen.quick:
        chosen.rows, chosen.repeats = min(chosen.rows or QUICK_ROWS, QUICK_ROWS), 1
    print(" ".join(["python", *sys.argv]), "\n")
    figures: list[dict[str, Any]] = []
    table: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen.sets:
            folder = (chosen.folder or Path(temporary)).resolve()
            found = records.kept(chosen, set=name) if chosen.kept else compare(name, chosen, folder)
            figures += found
            write_json(chosen.json, figures)
            table += report(found, chosen.cache_size)
    records.keep(chosen, table)


def compare(name: str, chosen: Any, folder: Path) -> list[dict[str, Any]]:
    """Run all entrants on one set."""
    own = saved_rows(name, chosen.rows, folder)
    rows = min(chosen.rows or ROWS[name], ROWS[name])
    case = CASES[name]
    request = {"folder": str(own), "gamma": case.gamma, "C": case.C}
    request |= {"cache_size": chosen.cache_size, "repeats": chosen.repeats}
    runs = [("local", 0, 1), ("local", 0, None), *(("cluster", count, 1) for count in chosen.workers)]
    found = []
    for entrant, count, threads in runs:
        which = {"entrant": entrant, "workers": count, "threads": threads}
        print(f"{name}, {described(which)} ...", file=sys.stderr, flush=True)
        found.append(which | clusters.alone(__file__, request | which))
    data_bytes = found[0]["data_bytes"]
    print(f"{name}: {rows:,} x {found[0]['features']}, {data_bytes / 1e6:,.0f} MB, {PARTITIONS} partitions, ", end="")
    print(f"gamma = {case.gamma:g}, C = {case.C:g}, cache_size = {chosen.cache_size:g}")
    return [{"set": name, "rows": rows} | each for each in found]


def saved_rows(name: str, rows: int | None, folder: Path) -> Path:
    """The folder with the partitions of a set, or of `rows` of its rows; writes them if they are missing."""
    rows = min(rows or ROWS[name], ROWS[name])
    own = folder / f"{name}-{rows}"
    if not own.exists():
        data = drawn(CASES[name].load(), rows)
        clusters.save_partitions(data.X.astype(np.float32), data.y, -(-len(data.y) // PARTITIONS), own)
    return own


def fit_alone(
    folder: str,
    gamma: float,
    C: float,
    cache_size: float,
    entrant: str,
    workers: int,
    threads: int | None,
    repeats: int,
) -> dict[str, Any]:
    """The fits of one entrant, in this process."""
    loads = clusters.saved_loads(Path(folder))
    options = {"gamma": gamma, "C": C, "cache_size": cache_size, "solver": "decomposition", "random_state": 0}
    options["n_jobs"] = threads
    if entrant == "cluster":
        with clusters.cluster_of(workers) as client:
            return cluster_fits(client, loads, options, repeats)
    return local_fits(loads, options, repeats)


def local_fits(loads: Sequence[Load], options: dict[str, Any], repeats: int) -> dict[str, Any]:
    from maxmargin import SVC

    X, y = clusters.together(loads)
    SVC(**options).fit(X[:2000], y[:2000])
    runs = []
    for _ in range(repeats):
        model, run = clusters.measure(None, lambda: SVC(**options).fit(X, y))
        runs.append(run | summary(model))
    return clusters.best_of(runs) | {"data_bytes": X.nbytes, "features": X.shape[1]}


def cluster_fits(client: Any, loads: Sequence[Load], options: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Fits with the data on the workers."""
    from maxmargin.dask import SVC
    from maxmargin.dask.parts import ClusterParts

    calls, ask = [0], ClusterParts._ask

    def counted(self: Any, *args: Any, **more: Any) -> Any:
        calls[0] += 1
        return ask(self, *args, **more)

    ClusterParts._ask = counted  # type: ignore[method-assign]
    X, y = loads[0]()
    SVC(**options, client=client).fit(X[:2000], y[:2000])
    del X, y
    pairs, runs = clusters.on_workers(client, loads), []
    for _ in range(repeats):
        calls[0] = 0
        model, run = clusters.measure(client, lambda: SVC(**options, client=client).fit(pairs, None))
        runs.append(run | summary(model) | {"calls": calls[0]})
    return clusters.best_of(runs)


def summary(model: Any) -> dict[str, Any]:
    """The properties of a model that are compared."""
    return {
        "bits": clusters.bits(model.support_, model.dual_coef_, model.intercept_),
        "support_vectors": int(model.support_.size),
        "certified_gap": model.certificate_.relative_gap,
        "iterations": int(np.max(model.n_iter_)),
        "evaluations": model.kernel_evaluations_,
    }


def described(run: dict[str, Any]) -> str:
    """The name of an entrant in the table."""
    if run["entrant"] == "local":
        return "local, one thread" if run["threads"] == 1 else "local"
    return f"cluster, {run['workers']} worker{'s' * (run['workers'] > 1)}"


def report(found: Sequence[dict[str, Any]], cache_size: float) -> list[dict[str, Any]]:
    """Print a table with one line for each entrant, and return its rows."""
    header = [
        "set",
        "entrant",
        "fit s",
        "x 1 worker",
        "CPU s",
        "x local's CPU",
        "of the driver",
        "iterations",
        "calls",
        "gap",
    ]
    header += ["support vectors", "MB sent by workers", "MB received by them", "peak MB driver"]
    header += ["peak MB of each worker", "bound MB", "same bits"]
    if not found:
        return []
    local, one = found[0], next((run for run in found if run["workers"] == 1), None)
    rows = []
    for run in found:
        cluster = run["entrant"] == "cluster"
        moved, bound = ["-", "-"], "-"
        if cluster:
            moved = [clusters.megabytes(sum(run[f"{kind}_workers"])) for kind in ("sent", "received")]
            bound = f"{(cache_size + local['data_bytes'] / 1e6) / run['workers'] + ALLOWANCE:,.0f}"
        rows.append(
            [
                run["set"],
                described(run),
                f"{run['wall']:#.3g}",
                f"{run['wall'] / one['wall']:.2f}" if one else "-",
                f"{run['cpu']:#.3g}",
                f"{run['cpu'] / local['cpu']:.2f}",
                f"{run['cpu_driver']:#.3g}",
                run["iterations"],
                run.get("calls", "-"),
                f"{run['certified_gap']:.1e}",
                run["support_vectors"],
                *moved,
                f"{run['peak_driver']:,.0f}",
                clusters.listed(run.get("peak_workers", [])),
                bound,
                "yes" if run["bits"] == local["bits"] else "NO",
            ]
        )
    print("\n" + markdown(header, rows) + "\n", flush=True)
    return [dict(zip(header, row, strict=True)) for row in rows]


if __name__ == "__main__":
    main()
