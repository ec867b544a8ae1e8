"""Linear SVMs on a Dask cluster, in one process and on Spark: seconds, CPU seconds, bytes, memory, same bits.

    python benchmarks/cluster_linear.py --peers-python PYTHON --json cluster_linear.json
    python benchmarks/cluster_linear.py --sets small
    python benchmarks/cluster_linear.py --from cluster_linear.json --csv docs/figures/cluster_linear.csv
    python benchmarks/cluster_linear.py --quick

All entrants minimise P(w, b) = 1/2|w|^2 + C sum l(y_i (<w, x_i> + b)) with C = 1, the default of LinearSVC, and the
squared hinge or the hinge loss; `tol` is a relative duality gap of 1e-4. Sets: `higgs`, HIGGS-like float32 samples of
28 features (see clusters.py), which the workers draw in partitions of 100,000; `covtype`, class 2 against the rest,
columns scaled to [0, 1], from files of 50,000 rows; `small`, 10,000 x 50 samples, for which a cluster only costs time.

Entrants: `local` is maxmargin.LinearSVC in one process, with the default number of threads and with one; `cluster` is
maxmargin.dask.LinearSVC with workers of one thread, each a process that talks over TCP; `spark` is pyspark's LinearSVC
in local[2], in an environment of its own (`python -m venv VENV; VENV/bin/pip install pyspark numpy`; it needs Java 17),
which reads Parquet files written before. Spark has only the hinge loss; the table shows it next to both of our losses.
With standardization=False and regParam = 1 / (C n), its objective is P / (C n). It runs with its own defaults (100
iterations, tol 1e-6), and with the number of iterations that brings it within 1e-4 of the optimum. A run of at most
`--spark-iterations` counts these iterations; then a run of exactly as many is timed.

"fit s" is the time of the call of fit with the data in memory (of the process, of the workers as futures, or in Spark's
cache). "with loading s" includes drawing or reading the data, within the call or before it. "CPU s" counts all
processes: driver, scheduler, workers and the JVM. "MB sent by workers" counts bytes of Dask's messages (clusters.py
says how); for Spark, it counts the results of its tasks, which stay within one process in local mode. "peak MB" is the
largest resident set during the fit. P and the gap are computed here in float64, from w and b alone, over all samples.
For the squared hinge loss, the dual point is a_i = 2 C (1 - margin_i)_+, balanced between the classes; for the hinge
loss, the dual value is the highest that any of our fits has certified, including one to 1e-7. "same bits" means that
coef_ and intercept_ equal those of `local` with one thread. A warm-up fit comes first, so imports are not counted. The
table shows the best of `--repeats` fits, by wall time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cluster_spark
import clusters
import numpy as np
import records
from clusters import Load
from common import arguments, environment, markdown, write_json

SETS = ("higgs", "covtype", "small")
ENTRANTS = ("local", "cluster", "spark")
LOSSES = ("squared_hinge", "hinge")
QUICK_ROWS = 200_000


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["higgs", "covtype", "small"])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of higgs; limit for covtype")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--entrants", nargs="+", choices=ENTRANTS, default=list(ENTRANTS))
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--peers-python", metavar="PYTHON", help="a Python that has pyspark; without it Spark is skipped"
    )
    parser.add_argument("--spark-memory", default="12g", help="heap size of Spark's JVM")
    parser.add_argument("--spark-iterations", type=int, default=500, help="maximum number of iterations of Spark")
    parser.add_argument("--folder", type=Path, help="folder for the data, default: a temporary folder")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows and one fit each")
    records.add_options(parser)
    clusters.add_alone(parser)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(fit_alone(**chosen.one)))
        return
    if chosen.quick:
        chosen.rows, chosen.repeats = min(chosen.rows, QUICK_ROWS), 1
        chosen.spark_iterations = min(chosen.spark_iterations, 100)
    print(" ".join(["python", *sys.argv]), "\n")
    figures: list[dict[str, Any]] = []
    table: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen.sets:
            folder = (chosen.folder or Path(temporary)).resolve()
            found = records.kept(chosen, set=name) if chosen.kept else compare(name, chosen, folder)
            figures += found
            write_json(chosen.json, figures)
            table += report(found)
    records.keep(chosen, table)


def compare(name: str, chosen: Any, folder: Path) -> list[dict[str, Any]]:
    """Run all entrants on one set."""
    loads = clusters.linear_loads(name, chosen.rows, folder)
    shape = sum(len(load()[1]) for load in loads), loads[0]()[0].shape[1]
    print(f"{name}: {shape[0]:,} x {shape[1]}, {len(loads)} partitions, C = {chosen.C:g}, tol = {chosen.tol:g}\n")
    request = {"name": name, "rows": chosen.rows, "folder": str(folder), "C": chosen.C, "tol": chosen.tol}
    request["repeats"] = chosen.repeats
    found = []
    for loss in chosen.losses:
        runs = []
        if "local" in chosen.entrants:
            runs += [("local", 0, 1), ("local", 0, None)]
        if "cluster" in chosen.entrants:
            runs += [("cluster", count, 1) for count in chosen.workers]
        for entrant, count, threads in runs:
            own = {"entrant": entrant, "workers": count, "threads": threads, "loss": loss}
            print(f"{name}, {described(own)} ...", file=sys.stderr, flush=True)
            found.append(own | clusters.alone(__file__, request | own))
    spark = "spark" in chosen.entrants and name != "small"
    best = -np.inf
    if "hinge" in chosen.losses or spark:  # a dual value close to the optimum
        print(f"{name}, to 1e-7 ...", file=sys.stderr, flush=True)
        tight = request | {"entrant": "local", "workers": 0, "threads": None, "loss": "hinge", "tol": 1e-7}
        best = clusters.alone(__file__, tight | {"repeats": 1})["dual"]
    if spark:
        found += spark_runs(name, chosen, folder, loads, shape, best)
    recompute(found, loads, chosen.C, best)
    return [{"set": name, "rows": shape[0], "features": shape[1]} | each for each in found]


# Ours


def fit_alone(
    name: str,
    rows: int,
    folder: str,
    entrant: str,
    workers: int,
    threads: int | None,
    loss: str,
    C: float,
    tol: float,
    repeats: int,
) -> dict[str, Any]:
    """Run the fits of one entrant in this process."""
    loads = clusters.linear_loads(name, rows, Path(folder))
    options = {"C": C, "loss": loss, "tol": tol, "random_state": 0}
    if entrant == "cluster":
        with clusters.cluster_of(workers) as client:
            return cluster_fits(client, loads, options, repeats)
    return local_fits(loads, options | {"n_jobs": threads}, repeats)


def local_fits(loads: Sequence[Load], options: dict[str, Any], repeats: int) -> dict[str, Any]:
    from maxmargin import LinearSVC

    LinearSVC(**options).fit(*clusters.gaussian_partition(0, 5000, 5))
    (X, y), loading = clusters.measure(None, lambda: clusters.together(loads))
    runs = []
    for _ in range(repeats):
        model, run = clusters.measure(None, lambda: LinearSVC(**options).fit(X, y))
        runs.append(run | summary(model))
    return clusters.best_of(runs) | {"loading": loading["wall"]}


def cluster_fits(client: Any, loads: Sequence[Load], options: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Fits with the data on the workers, and one fit that loads the data within the call."""
    from maxmargin.dask import LinearSVC

    def fit(pairs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        model, run = clusters.measure(client, lambda: LinearSVC(**options, client=client).fit(pairs, None))
        return summary(model), run

    runs = []
    pairs = clusters.on_workers(client, loads)
    for _ in range(repeats):
        model, run = fit(pairs)
        runs.append(run | model)
    del pairs
    model, lazy = fit(clusters.delayed_loads(loads))
    assert model["bits"] == runs[0]["bits"], "the fit that loads its data has different bits"
    return clusters.best_of(runs) | {"with_loading": lazy}


def summary(model: Any) -> dict[str, Any]:
    """The properties of a model that are compared."""
    return {
        "bits": clusters.bits(model.coef_, model.intercept_),
        "coef": np.ravel(model.coef_).tolist(),
        "intercept": float(np.ravel(model.intercept_)[0]),
        "certified_gap": model.certificate_.relative_gap,
        "dual": model.certificate_.dual,
        "iterations": int(np.max(model.n_iter_)),
        "solver": model.solver_,
    }


# Spark


def spark_runs(
    name: str, chosen: Any, folder: Path, loads: Sequence[Load], shape: tuple[int, int], best: float
) -> list[dict[str, Any]]:
    """Run Spark with its own defaults, and with the number of iterations that it needs."""
    if not chosen.peers_python:
        print("spark skipped: pass a Python that has pyspark, --peers-python PYTHON")
        return []
    files = folder / f"{name}-{shape[0]}-parquet"
    if not files.exists():
        write_parquet(loads, files)
    print(f"{name}, spark ...", file=sys.stderr, flush=True)
    command = [chosen.peers_python, cluster_spark.__file__, str(files), "--memory", chosen.spark_memory]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if not sys.stderr else subprocess.DEVNULL,
        text=True,
        env=environment() | {"PYSPARK_PYTHON": chosen.peers_python},
    ) as process:

        def fit(label: str, **options: Any) -> dict[str, Any]:
            process.stdin.write(json.dumps({"regParam": 1 / (chosen.C * shape[0]), **options}) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            answer["history"] = [value * chosen.C * shape[0] for value in answer["history"]]
            return {"entrant": "spark", "label": label, "loss": "hinge", "loading": loaded["wall"]} | answer

        started = process.stdout.readline()
        if not started:
            print(f"spark skipped: {chosen.peers_python} could not run it; try {' '.join(command)}")
            return []
        loaded = json.loads(started)
        assert loaded["rows"] == shape[0], f"Spark read {loaded['rows']} rows of {shape[0]}"
        fit("warm-up", maxIter=2)
        runs = [min((fit("defaults") for _ in range(chosen.repeats)), key=lambda run: run["wall"])]
        long = runs[0]
        if needed(long["history"], best, chosen.tol) is None:
            long = fit(f"{chosen.spark_iterations} iterations at most", maxIter=chosen.spark_iterations, tol=1e-12)
            runs.append(long)
        count = needed(long["history"], best, chosen.tol)
        if count is not None:
            again = (fit(f"to {chosen.tol:g}", maxIter=count, tol=1e-12) for _ in range(chosen.repeats))
            runs.append(min(again, key=lambda run: run["wall"]))
        process.stdin.close()
    return runs


def needed(history: Sequence[float], best: float, tol: float) -> int | None:
    """The number of iterations until the objective is within `tol` of the optimum; `history` begins at iteration 0."""
    near = [k for k, value in enumerate(history) if value - best <= tol * value]
    return max(1, near[0]) if near else None


def write_parquet(loads: Sequence[Load], folder: Path) -> None:
    """Write a file for each partition: columns of floats, and labels 0 and 1."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for k, load in enumerate(loads):
        X, y = load()
        columns = {f"f{j}": np.ascontiguousarray(column) for j, column in enumerate(X.T)}
        pq.write_table(pa.table(columns | {"label": (y > 0).astype(np.float64)}), folder / f"{k:05d}.parquet")


# Objectives and gaps, computed from w and b alone


def recompute(found: Sequence[dict[str, Any]], loads: Sequence[Load], C: float, hinge_dual: float) -> None:
    """Add "primal" and "gap" to all runs, in one pass over the data."""
    if not found:
        return
    began = time.perf_counter()
    W = np.array([each["coef"] for each in found]).T
    b = np.array([each["intercept"] for each in found])
    count, d = W.shape[1], W.shape[0]
    losses = np.zeros((2, count))  # sums of hinges, and of their squares
    wrong = np.zeros(count)
    sums, vectors = np.zeros((2, 2, count)), np.zeros((2, d, count))  # by class: sums of slack, slack^2; of slack x
    rows = 0
    for load in loads:
        X, y = load()
        X, rows = X.astype(np.float64), rows + len(y)
        margins = y[:, None] * (X @ W + b)
        slack = np.maximum(1 - margins, 0)
        losses += slack.sum(axis=0), (slack**2).sum(axis=0)
        wrong += (margins <= 0).sum(axis=0)
        for k, own in enumerate((y > 0, y < 0)):
            sums[k] += slack[own].sum(axis=0), (slack[own] ** 2).sum(axis=0)
            vectors[k] += X[own].T @ slack[own]
    squares = 0.5 * (W**2).sum(axis=0)
    for k, each in enumerate(found):
        squared = each["loss"] == "squared_hinge"
        each["primal"] = float(squares[k] + C * losses[int(squared), k])
        each["train_error"] = float(wrong[k] / rows)
        if squared:
            totals = sums[:, 0, k]
            scale = 2 * C * totals.min() / np.maximum(totals, 1e-300)  # a_i = scale slack_i, so sum a_i y_i = 0
            v = scale[0] * vectors[0, :, k] - scale[1] * vectors[1, :, k]
            dual = scale @ totals - (scale**2 @ sums[:, 1, k]) / (4 * C) - 0.5 * v @ v
        else:
            dual = max(
                [hinge_dual, *(other["dual"] for other in found if other["loss"] == "hinge" and "dual" in other)]
            )
        each["gap"] = float((each["primal"] - dual) / each["primal"])
    print(f"objectives recomputed in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


# The table


def described(run: dict[str, Any]) -> str:
    """The name of an entrant in the table."""
    if run["entrant"] == "local":
        return "local, one thread" if run["threads"] == 1 else "local"
    if run["entrant"] == "cluster":
        return f"cluster, {run['workers']} worker{'s' * (run['workers'] > 1)}"
    return f"Spark local[2], {run['label']}"


def report(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print a table with one line for each entrant and loss, and return its rows."""
    header = ["set", "loss", "entrant", "fit s", "with loading s", "CPU s", "x local's CPU", "iterations", "P", "gap"]
    header += ["MB sent by workers", "MB received by them", "MB sent by driver", "MB received by it"]
    header += ["peak MB driver", "peak MB of each worker", "same bits"]
    rows = []
    for run in found:
        local = next(
            (o for o in found if o["entrant"] == "local" and o["threads"] == 1 and o["loss"] == run["loss"]), {}
        )
        spark, cluster = run["entrant"] == "spark", run["entrant"] == "cluster"
        loading = run["with_loading"]["wall"] if cluster else run["wall"] + run["loading"]
        moved = ["-"] * 4
        if cluster:
            moved = [sum(run["sent_workers"]), sum(run["received_workers"]), run["sent_driver"], run["received_driver"]]
            moved = [clusters.megabytes(count) for count in moved]
        elif spark:
            moved[0] = clusters.megabytes(run["result_bytes"])
        rows.append(
            [
                run["set"],
                run["loss"].replace("_", " "),
                described(run),
                f"{run['wall']:#.3g}",
                f"{loading:#.3g}",
                f"{run['cpu']:#.3g}",
                f"{run['cpu'] / local['cpu']:.2f}" if local else "-",
                run["iterations"],
                f"{run['primal']:.10g}",
                f"{run['gap']:.1e}",
                *moved,
                f"{run['peak' if spark else 'peak_driver']:,.0f}",
                clusters.listed(run.get("peak_workers", [])),
                "-" if spark or not local else "yes" if run["bits"] == local["bits"] else "NO",
            ]
        )
    print("\n" + markdown(header, rows) + "\n", flush=True)
    return [dict(zip(header, row, strict=True)) for row in rows]


if __name__ == "__main__":
    main()
