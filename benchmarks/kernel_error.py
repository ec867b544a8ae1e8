"""Seconds to the test error of a peer, for our solvers with early stopping by a holdout, and the curves of these fits.

    python benchmarks/kernel_error.py --peers-python PEERS/bin/python --json error.jsonl --plot error.png

The sets, and how the fits run, are as in kernel.py, whose docstring describes them. The peers train on all rows and run
to their own end; their time and test error are one point. Our solvers hold out a tenth of the rows and stop when the
holdout error no longer improves, or, for the exact solver, at the optimum. They return the best model by the holdout,
and never see the test set. "stopped" describes this model: its time, its error, and whether the error is within
`--margin` of the first peer's. The curve shows the test error of the best model by the holdout so far, computed
afterwards; the clock stands still while a model is recorded. "first there" is the time at which the curve comes within
the margin. Shares are shares of the first peer's time.

A solver of the slack form gets the slack of the first peer's model, its mean hinge loss divided by |w|.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kernel_worker
import linear_worker
import numpy as np
import scipy.sparse as sp
from common import append_json, first_at_most, markdown, measured, setting, settings
from kernel import OURS, fit, judged, race_arguments
from kernel_quality import Function, error_on_test
from kernel_sets import CASES, Data, drawn

from maxmargin.solvers import KERNEL_SOLVERS


def main() -> None:
    parser = race_arguments(__doc__)
    parser.set_defaults(competitors=["intelex-float32"])
    parser.add_argument("--sets", nargs="+", choices=CASES, default=["mnist", "adult", "covtype"])
    parser.add_argument("--n", type=int, help="draw only this many rows of each set")
    parser.add_argument("--methods", nargs="+", default=["decomposition", "sbp"], help="our solvers")
    parser.add_argument("--holdout", type=float, default=0.1, help="share of the rows that our solvers hold out")
    parser.add_argument("--margin", type=float, default=0.001, help="allowed distance from the peer's error")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the curves to FILE")
    for at in settings(parser.parse_args()):
        compare(at)


def compare(chosen: Any) -> None:
    """Print a table of all competitors and methods on all sets, for one number of threads, and draw the curves."""
    methods = known(chosen.methods)
    rows = []
    for name in chosen.sets:
        try:
            data = drawn(CASES[name].load(), chosen.n or CASES[name].n)
        except FileNotFoundError as missing:
            print(f"{name} skipped: {missing}")
            continue
        rows += [{"set": name} | row for row in race(data, CASES[name].gamma, CASES[name].C, methods, chosen)]
        for row in rows:
            if row["set"] == name:
                append_json(chosen.json, row)
        print(f"{name}: done", file=sys.stderr, flush=True)
    measure = measured(chosen.threads)
    print(
        f"\n{setting(chosen.threads)}; {measure} seconds; near enough: {100 * chosen.margin:g} % above the first peer\n"
    )
    print(table(rows, measure, chosen.margin))
    if chosen.plot is not None and rows:
        named = f"{chosen.plot.stem}-{chosen.threads}-threads" if chosen.threads else chosen.plot.stem
        draw(rows, measure, chosen.margin, chosen.plot.with_stem(named))


def known(methods: Sequence[str]) -> list[str]:
    """The methods that are registered solvers."""
    for method in methods:
        if method not in KERNEL_SOLVERS:
            print(f"{method} skipped: there is no such solver for kernels, only {', '.join(KERNEL_SOLVERS)}")
    return [method for method in methods if method in KERNEL_SOLVERS]


def race(data: Data, gamma: float, C: float, methods: Sequence[str], chosen: Any) -> list[dict[str, Any]]:
    """Run all peers, then all our methods, in turns; return a row for the fastest run of each."""
    measure, slack = measured(chosen.threads), None
    fastest: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        linear_worker.save(path, data.X, data.y)
        for _ in range(chosen.repeats):
            for name in [*chosen.competitors, *methods]:
                if "stopped" in fastest.get(name, ({}, {}))[0]:
                    continue
                parameters: dict[str, Any] = {"gamma": gamma, "C": C}
                if name in methods:
                    if slack is None and KERNEL_SOLVERS[name].solves.form == "slack":
                        print(f"{name} skipped: no peer has a model from which to compute the slack")
                        continue
                    parameters |= {"solver": name, "slack": slack, "holdout": chosen.holdout, "tol": None}
                    parameters |= {"curve": True, "certify": False}
                run, model = fit("solver" if name in methods else name, path, parameters, chosen)
                run = without_pauses(run, model)
                if slack is None and model and name not in OURS:
                    slack = judged(model, data, parameters)["slack"]
                if name not in fastest or run.get(measure, math.inf) < fastest[name][0][measure]:
                    fastest[name] = run, model
    return [{"method": name} | run | errors(model, data, gamma) for name, (run, model) in fastest.items()]


def without_pauses(run: dict[str, Any], model: Mapping[str, Any]) -> dict[str, Any]:
    """A run without the seconds during which the clock stood still."""
    if "paused" not in model:
        return run
    wall, cpu = model["paused"]
    return run | {"wall": run["wall"] - wall, "cpu": run["cpu"] - cpu}


def errors(model: Mapping[str, Any], data: Data, gamma: float) -> dict[str, Any]:
    """The test errors of a model and of the intermediate models."""
    if not model:
        return {}
    k = Function("rbf", gamma)
    found = {"error": float(error_on_test(k, data, model["support"], model["coef"], float(model["intercept"])))}
    if "curve_wall" not in model:
        return found
    return found | {
        "status": str(model["status"]),
        "curve": {
            "wall": model["curve_wall"].tolist(),
            "cpu": model["curve_cpu"].tolist(),
            "holdout_error": model["curve_holdout_error"].tolist(),
            "error": curve_errors(model, data, k).tolist(),
        },
    }


def curve_errors(model: Mapping[str, Any], data: Data, k: Function) -> Any:
    """The test error at each point of a curve; kernels of the support vectors of all points are computed once."""
    parts = tuple(model[f"curve_{name}"] for name in ("data", "indices", "indptr"))
    betas = sp.csc_matrix(sp.csr_matrix(parts, shape=(parts[2].size - 1, data.y.size)))
    support = np.flatnonzero(np.diff(betas.indptr))
    return error_on_test(k, data, support, betas[:, support].T.toarray(), model["curve_intercept"])


def table(rows: Sequence[Mapping[str, Any]], measure: str, margin: float) -> str:
    """A table with one line for each method."""
    lines = []
    for row in rows:
        peer = first_peer(rows, row["set"])
        if "stopped" in row:
            lines.append([row["set"], row["method"], row["stopped"], *[""] * 5])
            continue
        cells = [row["set"], row["method"], f"{row[measure]:#.3g}", f"{100 * row['error']:.2f} %"]
        if peer is None or row["method"] in kernel_worker.ENTRANTS:
            lines.append([*cells, *[""] * 4])
            continue
        level, seconds = peer["error"] + margin, peer[measure]
        first = first_at_most(row["curve"][measure], row["curve"]["error"], level)
        there = f"{first:#.3g} ({first / seconds:.2f})" if not math.isnan(first) else "never"
        cells += [row["status"], f"{row[measure] / seconds:.2f}", "yes" if row["error"] <= level else "no", there]
        lines.append(cells)
    header = ["set", "method", "stopped, s", "test error", "by", "share of the peer's time", "near enough"]
    return markdown([*header, "first there, s (share)"], lines)


def first_peer(rows: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    peers = [row for row in rows if row["set"] == name and row["method"] in kernel_worker.ENTRANTS and "error" in row]
    return peers[0] if peers else None


def draw(rows: Sequence[Mapping[str, Any]], measure: str, margin: float, path: Path) -> None:
    """Draw a panel for each set: the error of our solvers against seconds, and the points at which the peers end."""
    import matplotlib.pyplot as plt

    sets = list(dict.fromkeys(row["set"] for row in rows))
    figure, axes = plt.subplots(1, len(sets), squeeze=False, figsize=(6 * len(sets), 4.5), layout="constrained")
    for panel, name in zip(axes[0], sets, strict=True):
        peer = first_peer(rows, name)
        for k, row in enumerate(row for row in rows if row["set"] == name and "error" in row):
            if "curve" in row:
                panel.plot(row["curve"][measure], 100 * np.array(row["curve"]["error"]), color=f"C{k}")
            marker = "s" if "curve" in row else "*"
            panel.plot(row[measure], 100 * row["error"], marker, markersize=9, color=f"C{k}", label=row["method"])
        if peer:
            panel.axhline(100 * (peer["error"] + margin), color="grey", linestyle=":")
            panel.set_ylim(top=100 * 3 * peer["error"])
        panel.set(title=name, xscale="log", xlabel=f"{measure} seconds", ylabel="test error, %")
        panel.grid(alpha=0.3)
        panel.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
