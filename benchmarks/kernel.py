"""Kernel SVMs trained to their optimum by maxmargin, scikit-learn-intelex, scikit-learn and LIBSVM, all with a bias.

    python benchmarks/kernel.py --peers-python PEERS/bin/python --json kernel.jsonl
    python benchmarks/kernel.py --threads 2 --sets mnist adult --competitors maxmargin intelex-float32

All competitors minimise 1/2|w|^2 + C sum [1 - y_i(<w, phi(x_i)> + b)]_+ with a Gaussian kernel, on

- mnist, mnist-C1000: 8 against the rest, 60,000 digits, gamma = 0.02, C = 1 and 1000;
- adult: 32,561 rows, gamma = 0.05, C = 1;
- covtype: 50,000 rows drawn at random, class 2 against the rest, columns in [0, 1], gamma = 1, C = 1;
- forest-100k, forest-500k: 100,000 and 500,000 rows of the same set, with columns as they are in the file and the
  parameters of Table 2 of the SBP paper, gamma = 1e-4 and C = 10,000.

maxmargin stops at a relative gap of `--tol`, the peers at their own tolerance of 1e-3; each may cache `--cache`
megabytes of the kernel. Each fit runs in a new process; the competitors take turns, and the best time counts. There are
two tables: with the default environment and `n_jobs`, on any core, which is what a user gets; and with one thread,
pinned to a core. With `--threads 2` there are two threads on two cores. Only the call that fits is timed; LIBSVM has
the data in its own format already. maxmargin gets float32, as CSR if the set is sparse (Adult); scikit-learn-intelex
gets dense arrays; scikit-learn gets float64, as CSR if the set is sparse; LIBSVM only has sparse rows. A fit of more
than `--cap` wall seconds is killed and shown as "> 600"; maxmargin stops itself just before that and returns its model.

Only support vectors, coefficients and the intercept are taken from a fit. Objectives, their gap (P - D) / P and the
test error are computed from these, in float64, once for each competitor. The peak memory is that of the whole process,
with interpreter, libraries and data. "evaluations" are kernel evaluations, which only maxmargin counts, as a multiple
of (support vectors) x (rows). The ratio is the competitor's time divided by maxmargin's, CPU time with one thread,
otherwise wall time.

Peers run in the Python that `--peers-python` names, by default this one. There, run
`pip install scikit-learn-intelex libsvm-official`; peers that are not installed are skipped.
"""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kernel_worker
import linear_worker
import numpy as np
from common import (
    add_threads,
    append_json,
    arguments,
    cores_for,
    environment,
    markdown,
    measured,
    setting,
    settings,
)
from kernel_quality import Function, error_on_test, quality
from kernel_sets import CASES, Data, drawn

OURS = ("maxmargin", "maxmargin-float64", "solver")
ENOUGH = 0.9  # share of the cap after which maxmargin stops and returns its model; peers have no such rule
COMPETITORS = ("maxmargin", "intelex-float32", "intelex-float64", "scikit-learn", "libsvm")


def main() -> None:
    parser = race_arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--n", type=int, help="draw only this many rows of each set")
    for at in settings(parser.parse_args()):
        compare(at)


def compare(chosen: Any) -> None:
    """Print a table of all competitors on all sets, for one number of threads."""
    rows, waited = [], []
    for name in chosen.sets:
        try:
            data = drawn(CASES[name].load(), chosen.n or CASES[name].n)
        except FileNotFoundError as missing:
            print(f"{name} skipped: {missing}")
            continue
        own = race(name, data, {"gamma": CASES[name].gamma, "C": CASES[name].C}, chosen)
        rows += own
        waited += [row["wall"] / row["cpu"] for row in own if chosen.threads == 1 and "cpu" in row]
        print(f"{name}: done", file=sys.stderr, flush=True)
    print(f"\n{setting(chosen.threads)}; ratio: {measured(chosen.threads)} time divided by maxmargin's\n")
    print(table(rows, measured(chosen.threads)))
    if waited:
        print(f"\nwall / CPU time of fits: {np.mean(waited):.2f} (well above 1: the machine was busy)")


def race_arguments(description: str | None) -> Any:
    """A parser with the options that all races have."""
    parser = arguments(description)
    parser.add_argument(
        "--competitors", nargs="+", choices=[name for name in kernel_worker.ENTRANTS if name != "solver"],
        default=list(COMPETITORS),
    )  # fmt: skip
    add_threads(parser)
    parser.add_argument("--cores", type=int, nargs="+", help="cores for the fits, default: the last ones")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--error-only", action="store_true", help="do not compute objectives (slow on Forest)")
    parser.add_argument("--cap", type=float, default=600, help="limit of a fit in wall seconds")
    parser.add_argument("--tol", type=float, default=2e-4, help="relative gap at which maxmargin stops")
    parser.add_argument("--cache", type=float, default=2000, help="megabytes of the kernel that each may cache")
    parser.add_argument("--peers-python", default=sys.executable, metavar="PYTHON", help="Python that has the peers")
    return parser


def race(name: str, data: Data, parameters: Mapping[str, Any], chosen: Any) -> list[dict[str, Any]]:
    """Let all competitors fit, in turns; return a row with the best times of each, and append it to the JSON file."""
    runs: dict[str, list[dict[str, Any]]] = {competitor: [] for competitor in chosen.competitors}
    models: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        linear_worker.save(path, data.X, data.y)
        for repeat in range(chosen.repeats):
            for competitor, own in runs.items():
                if own and "stopped" in own[-1]:
                    continue
                run, model = fit(competitor, path, parameters, chosen)
                own.append(run)
                models.setdefault(competitor, model)
                append_json(chosen.json, {"set": name, "repeat": repeat, "competitor": competitor} | run)
    rows = []
    for competitor, own in runs.items():
        row = {"set": name, "n": data.y.size, **parameters, "threads": chosen.threads, "competitor": competitor}
        row |= best(own) | judged(models[competitor], data, parameters, objectives=not chosen.error_only)
        rows.append(row)
        append_json(chosen.json, row)
    return rows


def fit(
    competitor: str, data: Path, parameters: Mapping[str, Any], chosen: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One fit in a new process: what it took, or why it was "stopped", and its model."""
    ours = competitor in OURS
    rules = {"tol": chosen.tol, "max_time": ENOUGH * chosen.cap} if ours else {}
    given = {"cache_size": chosen.cache} | rules | dict(parameters)
    cores = cores_for(chosen.threads, chosen.cores)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.npz"
        command = [sys.executable if ours else chosen.peers_python, kernel_worker.__file__, competitor, data, model]
        command += ["--parameters", json.dumps(given), "--threads", chosen.threads, "--cap", chosen.cap]
        command += ["--cores", *cores]
        done = subprocess.run(
            [*map(str, command)], capture_output=True, text=True, check=False, env=environment(chosen.threads)
        )
        answer = json.loads(done.stdout or "{}")
        if "missing" in answer:
            print(f"{competitor} skipped: {answer['missing']}")
            return {"stopped": "-"}, {}
        if done.returncode == -signal.SIGALRM:
            return {"stopped": f"> {chosen.cap:g}"}, {}
        if done.returncode != 0:
            print(f"{competitor} failed: {done.stderr.strip()}", file=sys.stderr)
            return {"stopped": "failed"}, {}
        with np.load(model) as stored:
            return answer, dict(stored)


def best(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The least seconds of all runs, and the largest peak memory."""
    ended = [run for run in runs if "cpu" in run]
    if not ended:
        return dict(runs[-1])
    return {key: min(run[key] for run in ended) for key in ("cpu", "wall")} | {"peak": max(r["peak"] for r in ended)}


def judged(
    model: Mapping[str, Any], data: Data, parameters: Mapping[str, Any], objectives: bool = True
) -> dict[str, Any]:
    """The objectives, the test error and the size of a model."""
    if not model:
        return {}
    k = Function(**{name: value for name, value in parameters.items() if name in Function.__dataclass_fields__})
    support, coef, intercept = model["support"], model["coef"].astype(np.float64), float(model["intercept"])
    row: dict[str, Any] = {"support": support.size, "dual": math.nan, "gap": math.nan}
    if objectives:
        found = quality(k, data.X, data.y, parameters["C"], support, coef, intercept, parameters.get("bias", True))
        row |= {"primal": found.primal, "dual": found.dual, "gap": found.gap, "slack": found.slack}
    row["error"] = float(error_on_test(k, data, support, coef, intercept))
    if "evaluations" in model:
        row["evaluations"], row["saved"] = int(model["evaluations"]), int(model["saved"])
        row["evaluations_share"] = row["evaluations"] / (support.size * data.y.size)
    return row


def table(rows: Sequence[Mapping[str, Any]], measure: str) -> str:
    """A table with one line for each competitor."""
    ours = {row["set"]: row[measure] for row in rows if row["competitor"] == OURS[0] and measure in row}
    header = ["set", "n", "C", "competitor", "CPU s", "wall s", "ratio", "peak MB", "support vectors", "dual", "gap"]
    header += ["test error", "evaluations"]
    lines = []
    for row in rows:
        case = [row["set"], f"{row['n']:,}", f"{row['C']:g}", row["competitor"]]
        if "stopped" in row:
            lines.append([*case, "", row["stopped"], *[""] * 7])
            continue
        ratio = f"{row[measure] / ours[row['set']]:.2f}" if row["set"] in ours else ""
        took = [f"{row['cpu']:#.3g}", f"{row['wall']:#.3g}", ratio, f"{row['peak'] / 1e6:.0f}"]
        worth = [f"{row['support']:,}", f"{row['dual']:.7g}", f"{row['gap']:.1e}", f"{100 * row['error']:.2f} %"]
        lines.append([*case, *took, *worth, f"{row['evaluations_share']:.2f}" if "evaluations" in row else ""])
    return markdown(header, lines)


if __name__ == "__main__":
    main()
