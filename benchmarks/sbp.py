"""Test error against kernel evaluations, for the stochastic batch perceptron and the other methods of its paper.

    python benchmarks/sbp.py --json sbp.jsonl --plot sbp.png
    python benchmarks/sbp.py --against libsvm --peers-python PEERS/bin/python

The first command makes the curves of Figure 2 of Cotter, Shalev-Shwartz and Srebro (2012) with the parameters of its
Table 2, without a bias. A kernel evaluation counts when it is asked for, whether it is computed or cached; with
`--count computed`, only computed evaluations count, and `--cache` megabytes of rows are cached. A run ends after n
iterations or n^2 evaluations, each times `--epochs`, whichever comes first; perceptrons on Adult have ten times as
many. The table shows the median over the seeds, and the number of evaluations after which it is first within 0.1 % of
the error of the exact solution. The kernel of each pair of rows is computed once, and all runs read it from memory:
14 GB for MNIST.

The second command compares seconds, with a bias and the parameters of Table 2 for this case: LIBSVM (or
`--against scikit-learn`) to its own end, and the error of the stochastic batch perceptron in a quarter of that time.
The fits run as in kernel.py. The slack of Table 2 is that of the optimum, "known to us", as the paper says; the time to
find it is not counted.

Methods without a registered solver are skipped.
"""

from __future__ import annotations

import math
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import linear_worker
import numpy as np
import scipy.sparse as sp
from common import add_threads, append_json, arguments, first_at_most, markdown, setting, settings, value_at
from kernel import fit
from kernel_error import curve_errors, errors, without_pauses
from kernel_quality import Function, error_on_test
from kernel_sets import WITH_BIAS, WITHOUT_BIAS, Case, Data, drawn
from numpy.typing import NDArray

from maxmargin.core.threads import limit_blas, thread_count
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.kernels.functions import Kernel, Rbf
from maxmargin.problems import KernelMatrix, RegularizedSVM
from maxmargin.solvers import KERNEL_SOLVERS, Reason, Step, solve

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "SBP, as written": ("sbp", {"method": "paper"}),
    "SBP": ("sbp", {}),
    "Pegasos": ("pegasos", {"order": "iid", "average": None}),
    "SDCA": ("sdca", {"order": "iid"}),
    "SMO": ("smo", {}),
    "Perceptron": ("perceptron", {"average": False}),
    "Perceptron, averaged": ("perceptron", {}),
}
BLOCK = 512  # rows of the table computed at a time
GROWTH = 1.1  # growth of evaluations and of iterations from one point of a curve to the next
MOST_AHEAD = 2000  # largest number of iterations between two checks of the evaluations
AT = (1e6, 1e7, 1e8, 1e9, 1e10)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=WITHOUT_BIAS, default=list(WITHOUT_BIAS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument("--n", type=int, help="draw only this many rows of each set")
    parser.add_argument("--count", choices=["asked", "computed"], default="asked")
    parser.add_argument("--cache", type=float, default=2000, help="megabytes of the kernel to cache")
    add_threads(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the curves to FILE")
    parser.add_argument(
        "--against", choices=["libsvm", "scikit-learn"], help="compare seconds with this peer, with a bias"
    )
    parser.add_argument("--peers-python", default=sys.executable, metavar="PYTHON", help="Python that has the peer")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, with --against")
    parser.add_argument("--cap", type=float, default=3600, help="limit of a fit in wall seconds")
    parser.add_argument("--cores", type=int, nargs="+", help="cores for the fits, default: the last ones")
    chosen = parser.parse_args()
    cases = WITH_BIAS if chosen.against else WITHOUT_BIAS
    figures: dict[str, Any] = {}
    seconds: dict[int, dict[str, Any]] = {threads: {} for threads in chosen.threads}
    for name in chosen.sets:
        if name not in cases:
            continue
        try:
            data = drawn(cases[name].load(), chosen.n)
        except FileNotFoundError as missing:
            print(f"{name} skipped: {missing}")
            continue
        if chosen.against:
            for at in settings(chosen):
                found = timed(data, cases[name], at)
                seconds[at.threads][name] = found
                append_json(chosen.json, {"set": name, "threads": at.threads} | found)
        else:
            figures[name] = figure_2(name, data, cases[name], chosen)
        print(f"{name}: done", file=sys.stderr, flush=True)
    for threads, own in seconds.items() if chosen.against else ():
        print(f"\n{setting(threads)}\n\n{table_of_seconds(own, chosen.against)}")
    for name, found in figures.items():
        print(
            f"\n{name}: {found['n']:,} rows, exact solution {100 * found['exact']:.2f} %; evaluations {chosen.count}\n"
        )
        print(table(found))
    if chosen.plot is not None and figures:
        draw(figures, chosen)


def known(methods: Sequence[str]) -> dict[str, Any]:
    """The solvers of the methods that are registered."""
    solvers = {}
    for method in methods:
        name, options = METHODS[method]
        if name in KERNEL_SOLVERS:
            solvers[method] = KERNEL_SOLVERS[name](**options)
        else:
            print(f"{method} skipped: there is no solver {name!r} for kernels, only {', '.join(KERNEL_SOLVERS)}")
    return solvers


# Test error against kernel evaluations


def figure_2(name: str, data: Data, case: Case, chosen: Any) -> dict[str, Any]:
    """The curves of all methods and seeds, and the error of the exact solution."""
    n, k = data.y.size, Function("rbf", case.gamma)
    exact = RegularizedSVM(matrix(data, case, chosen), data.y, case.C, bias=False)
    w: Any = solve(exact, KERNEL_SOLVERS["decomposition"](), tol=1e-3, random_state=0).solution.w
    support = np.flatnonzero(w.beta)
    found: dict[str, Any] = {
        "n": n,
        "exact": float(error_on_test(k, data, support, w.beta[support], 0.0)),
        "curves": {},
    }
    table = Table.of(matrix(data, case, chosen))
    for method, solver in known(chosen.methods).items():
        epochs = chosen.epochs * (10 if name == "adult" and method.startswith("Perceptron") else 1)
        runs = [list(points(solver, table.matrix(chosen), data.y, case, seed, epochs)) for seed in range(chosen.seeds)]
        betas = sp.csr_matrix(sp.vstack([point.pop("beta") for run in runs for point in run]))
        model = {f"curve_{part}": getattr(betas, part) for part in ("data", "indices", "indptr")}
        wrong = iter(curve_errors(model | {"curve_intercept": 0.0}, data, k).tolist())
        found["curves"][method] = [[point | {"error": next(wrong)} for point in run] for run in runs]
        append_json(
            chosen.json,
            {"set": name, "n": n, "exact": found["exact"], "method": method, "runs": found["curves"][method]},
        )
        print(f"{name}, {method}: done", file=sys.stderr, flush=True)
    found["median"] = {method: median(runs, chosen.count) for method, runs in found["curves"].items()}
    return found


def matrix(data: Data, case: Case, chosen: Any) -> KernelMatrix:
    return KernelMatrix(data.X, Rbf(case.gamma), cache_size=chosen.cache, threads=thread_count(None))


@dataclass(frozen=True)
class Table(Kernel):
    """Kernels that were computed once and are looked up by row numbers, for runs that only count evaluations."""

    values: NDArray[np.float32]

    @classmethod
    def of(cls, K: KernelMatrix) -> Table:
        values = np.empty(K.shape, dtype=np.float32)
        for start in range(0, len(values), BLOCK):
            K.block(np.arange(start, min(start + BLOCK, len(values))), out=values[start : start + BLOCK])
        return cls(values)

    def matrix(self, chosen: Any) -> KernelMatrix:
        """A new kernel matrix, with nothing counted and nothing cached."""
        return TableMatrix(np.arange(len(self.values))[:, None], self, cache_size=chosen.cache)

    def copy_row(self, row: int, columns: slice, out: Any) -> None:
        """Copy the kernels of a row with some columns to `out`."""
        out[...] = self.values[row, columns]

    @property
    def inner_product(self) -> bool:
        return True

    def block(self, left: Any, right: Any, out: Any) -> None:
        first, last = right[0, 0], right[-1, 0]
        if last - first == len(right) - 1:  # columns that follow each other
            out[...] = self.values[left[:, 0], first : last + 1]
        else:
            out[...] = self.values[left, right.T]

    def diagonal(self, X: Any) -> Any:
        return self.values.diagonal().astype(np.float64)


class TableMatrix(KernelMatrix):
    """A kernel matrix whose rows are copied from a table, whole and not by tiles."""

    def _compute(self, rows: Any, columns: slice, out: Any, positions: Any) -> None:
        for row, position in zip(rows, positions, strict=True):
            self.kernel.copy_row(row, columns, out[position, columns])
        self.ledger.count(positions.size * (columns.stop - columns.start))


def points(solver: Any, K: KernelMatrix, y: Any, case: Case, seed: int, epochs: float) -> Iterator[dict[str, Any]]:
    """Iterations, evaluations and coefficients of a run, each time the evaluations have grown by a tenth."""
    at = {"C": case.C} if solver.solves is RegularizedSVM else {"slack": case.slack}
    problem = solver.solves(K, y, bias=False, **at)
    state = solver.start(problem, np.random.default_rng(seed))
    n, iteration, shown, step = y.size, 0, 0.0, Step(0)
    while step.reason is Reason.DONE and iteration < epochs * n and K.ledger.entries_read + K.saved < epochs * n * n:
        ahead = min(MOST_AHEAD, max(1, int((GROWTH - 1) * iteration)))
        with limit_blas():  # as `solve` does: threads would cost more than they save
            step = solver.step(problem, state, ahead, UNLIMITED)
        iteration += step.iterations
        computed, asked = K.ledger.entries_read, K.ledger.entries_read + K.saved
        if asked > 0 and (asked >= GROWTH * shown or step.reason is not Reason.DONE):
            saved, shown = K.saved, asked
            with K.ledger.on("curve"):
                beta = sp.csr_matrix(solver.solution(problem, state).w.beta, dtype=np.float32)
            K.saved = saved
            yield {"iteration": iteration, "asked": asked, "computed": computed, "beta": beta}


def median(runs: Sequence[Sequence[Mapping[str, Any]]], count: str) -> dict[str, Any]:
    """The median of the errors of all runs, at evaluations that grow by a constant factor."""
    counts = [[point[count] for point in run] for run in runs]
    at = np.geomspace(max(own[0] for own in counts), max(own[-1] for own in counts), 100)
    values = [
        [value_at(own, [point["error"] for point in run], x) for x in at] for own, run in zip(counts, runs, strict=True)
    ]
    return {"at": at.tolist(), "error": np.median(values, axis=0).tolist()}


def table(found: Mapping[str, Any]) -> str:
    """A table with one line for each method: its median error after given numbers of evaluations."""
    lines = []
    for method, curve in found["median"].items():
        cells = [value_at(curve["at"], curve["error"], at) if at <= curve["at"][-1] else math.nan for at in AT]
        there = first_at_most(curve["at"], curve["error"], found["exact"] + 0.001)
        lines.append(
            [
                method,
                *("-" if math.isnan(error) else f"{100 * error:.2f}" for error in cells),
                f"{100 * curve['error'][-1]:.2f} ({curve['at'][-1]:.1e})",
                "never" if math.isnan(there) else f"{there:.1e}",
            ]
        )
    header = ["test error, % at", *(f"{at:.0e}" for at in AT), "at the end", "evaluations to exact + 0.1 %"]
    return markdown(header, lines)


def draw(figures: Mapping[str, Any], chosen: Any) -> None:
    """Draw a panel for each set; perceptrons are dashed after their first pass."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(figures), squeeze=False, figsize=(6 * len(figures), 4.5), layout="constrained")
    for panel, (name, found) in zip(axes[0], figures.items(), strict=True):
        for number, (method, curve) in enumerate(found["median"].items()):
            at, error = np.array(curve["at"]), 100 * np.array(curve["error"])
            passed = at > first_pass(found["curves"][method], found["n"], chosen.count)
            solid = ~passed if method.startswith("Perceptron") else np.ones(at.size, dtype=bool)
            panel.plot(at[solid], error[solid], color=f"C{number}", label=method)
            panel.plot(at[~solid], error[~solid], "--", color=f"C{number}")
        panel.axhline(100 * found["exact"], color="grey", linestyle=":")
        panel.set(title=name, xlabel=f"kernel evaluations {chosen.count}", ylabel="test error, %")
        panel.set(xscale="log", yscale="log", ylim=(max(0.01, 80 * found["exact"]), 60))
        panel.grid(alpha=0.3)
        panel.legend()
    figure.savefig(chosen.plot, dpi=110)


def first_pass(runs: Sequence[Sequence[Mapping[str, Any]]], n: int, count: str) -> float:
    """The median number of evaluations after n iterations."""
    ends = [[point[count] for point in run if point["iteration"] <= n] for run in runs]
    return float(np.median([own[-1] if own else 0 for own in ends]))


# Seconds, with a bias


def timed(data: Data, case: Case, chosen: Any) -> dict[str, Any]:
    """The peer's seconds and error, and the curve of the stochastic batch perceptron in the same time."""
    parameters = {"gamma": case.gamma, "C": case.C}
    options = Namespace(**vars(chosen) | {"tol": None})
    found: dict[str, Any] = {"n": data.y.size}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        linear_worker.save(path, data.X, data.y)
        for _ in range(chosen.repeats):
            run, model = fit(chosen.against, path, parameters, options)
            if "stopped" in run:
                return found | {"peer": run}
            if "peer" not in found or run["cpu"] < found["peer"]["cpu"]:
                found["peer"] = run | errors(model, data, case.gamma)
            ours = parameters | {"solver": "sbp", "slack": case.slack, "curve": True, "certify": False}
            run, model = fit("solver", path, ours | {"max_time": found["peer"]["wall"]}, options)
            run = without_pauses(run, model)
            if "sbp" not in found or run.get("cpu", math.inf) < found["sbp"].get("cpu", math.inf):
                found["sbp"] = run | errors(model, data, case.gamma)
    return found


def table_of_seconds(figures: Mapping[str, Any], peer: str) -> str:
    """A table with one line for each set."""
    lines = []
    for name, found in figures.items():
        reference = found["peer"]
        if "stopped" in reference:
            lines.append([name, f"{found['n']:,}", reference["stopped"], *[""] * 4])
            continue
        cells = [name, f"{found['n']:,}", f"{reference['cpu']:#.3g}", f"{100 * reference['error']:.2f} %"]
        curve = found["sbp"].get("curve")
        if curve is None:
            lines.append([*cells, found["sbp"]["stopped"], "", ""])
            continue
        at = [value_at(curve["cpu"], curve["error"], share * reference["cpu"]) for share in (0.25, 0.5)]
        first = first_at_most(curve["cpu"], curve["error"], reference["error"] + 0.001)
        there = "never" if math.isnan(first) else f"{first:#.3g} ({first / reference['cpu']:.2f})"
        lines.append([*cells, *(f"{100 * error:.2f} %" for error in at), there])
    header = ["set", "n", f"{peer}, CPU s", "test error", "SBP in a quarter of that", "in a half"]
    return markdown([*header, "within 0.1 % after, CPU s (share)"], lines)


if __name__ == "__main__":
    main()
