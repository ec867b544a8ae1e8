"""Forest as in the SBP paper: test error of kernel solvers against minutes.

    python benchmarks/forest.py --solver decomposition sbp --max-time 180 --csv forest.csv --plot forest.svg
    python benchmarks/forest.py --solver intelex --max-time 600 --peers-python PEERS/bin/python --csv intelex.csv
    python benchmarks/forest.py --curves forest.csv intelex.csv --plot forest.svg
    python benchmarks/forest.py --solver sbp --rows 50000 --max-time 60

The problem is class 2 of covtype against the rest, with columns as they are in the file, the kernel
exp(-gamma |x - z|^2) with gamma = 1e-4, a free bias, and C = 10,000, or the corresponding slack 7.62e-10 (Table 2 of
Cotter, Shalev-Shwartz and Srebro 2012, where LIBSVM takes 35 hours to an error of 1.8 %). The rows are permuted with
seed 0. The first 522,910 are training rows (`--rows` takes the first rows of a permutation of these), the other 58,102
are test rows.

Each line of the table describes an intermediate model: wall and CPU seconds since the kernel matrix was made, without
the seconds for recording the models; kernel evaluations; support vectors; and the test error, which is computed
afterwards. The peak memory is that of the whole process until the solver ends, including the interpreter, libraries,
data, and whatever earlier solvers left behind.

scikit-learn-intelex ("intelex") yields no intermediate models. So it trains on the first 10,000 rows, then on twice as
many, and so on, each time in a new process; a line shows the time of one such fit, and its error. The first fit that
takes longer than `--max-time` is killed and ends the series. The fits run in the Python that `--peers-python` names.

`--curves` draws several tables that `--csv` stored in one picture, without a run.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import linear_worker
import numpy as np
import scipy.sparse as sp
from common import AS_A_USER, arguments, markdown, write_json
from kernel import fit
from kernel_sets import Data, drawn, forest
from kernel_worker import Curve, peak

from maxmargin.core.threads import thread_count
from maxmargin.kernels.functions import Rbf
from maxmargin.problems import KernelMatrix
from maxmargin.solvers import KERNEL_SOLVERS, solve

GAMMA, C, SLACK = 1e-4, 10_000.0, 7.62e-10
COLUMNS = ("solver", "rows", "wall", "cpu", "evaluations", "support vectors", "error")
PEER = "intelex"
FIRST_ROWS, GROWTH = 10_000, 2  # rows of the peer's first fit, and the factor by which they grow
# From the paper: minutes and error in %. The last number is the height of the label above its star, in points.
PUBLISHED = {"LIBSVM (2012)": (35 * 60, 1.8, 9), "SBP (2012)": (35 * 60 / 4, 1.6, -26)}
STYLES = ("o-", "s--", "^-.", "D:", "v-")  # of the curves, to distinguish them without colours
GREY = "#808080"  # colour of text and axes, readable on white and on black

Row = tuple[str, int, float, float, float, int, float]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--solver", nargs="+", choices=[*sorted(KERNEL_SOLVERS), PEER], help="default: decomposition")
    parser.add_argument("--curves", nargs="+", type=Path, metavar="FILE", help="also draw these tables from --csv")
    parser.add_argument("--rows", type=int, help="train on this many rows only")
    parser.add_argument("--max-time", type=float, default=180.0, help="seconds of each solver, default: 180")
    parser.add_argument("--cache-size", type=float, default=3000.0, help="megabytes, default: 3000")
    parser.add_argument("--threads", type=int, help="default: the number that the library chooses")
    parser.add_argument("--peers-python", default=sys.executable, metavar="PYTHON", help="Python that has the peer")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw error against minutes, as .svg or .png")
    chosen = parser.parse_args()
    stored = [row for path in chosen.curves or () for row in read(path)]
    table: list[Row] = []
    solvers = chosen.solver or ([] if stored else ["decomposition"])
    if solvers:
        data = drawn(forest(), chosen.rows)
    summaries = {}
    for solver in solvers:
        found, summaries[solver] = (run_peer if solver == PEER else run)(solver, data, chosen)
        print(markdown(COLUMNS, [[solver, *(f"{value:.4g}" for value in row[1:])] for row in found]))
        print(f"\n{solver}: {summaries[solver]}\n", flush=True)
        table += found
    write_json(chosen.json, {"columns": COLUMNS, "table": table, "summaries": summaries})
    if chosen.csv:
        with chosen.csv.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *table])
    if chosen.plot:
        plot([*stored, *table], chosen.plot)


def run(name: str, data: Data, chosen: Namespace) -> tuple[list[Row], dict[str, Any]]:
    """A line for each intermediate model of one of our solvers, and a summary of the run."""
    threads = chosen.threads or thread_count(None)
    K = KernelMatrix(data.X, Rbf(gamma=GAMMA), cache_size=chosen.cache_size, threads=threads)
    curve = Curve(K)
    solver = KERNEL_SOLVERS[name]()
    at = {"slack": SLACK} if solver.solves.__name__ == "SlackSVM" else {"C": C}
    problem = solver.solves(K, data.y, **at)
    result = solve(problem, solver, max_time=chosen.max_time, certify=False, callback=curve, random_state=0)
    summary = {"status": result.status, "n_iter": result.n_iter, "peak GB": peak() / 1e9}
    summary["relative gap"] = solver.estimated_gap(problem, result.state)
    table, error_of = [], TestError(data, threads)
    for point, beta in zip(curve.points, curve.betas, strict=True):
        error = error_of(beta, point["intercept"] * problem.scale)
        table.append((name, data.y.size, point["wall"], point["cpu"], point["evaluations"], beta.nnz, error))
    return table, summary


def run_peer(name: str, data: Data, chosen: Namespace) -> tuple[list[Row], dict[str, Any]]:
    """A line for each number of rows that scikit-learn-intelex can train on within the time limit, and a summary."""
    options = {"threads": chosen.threads or AS_A_USER, "cores": None, "cap": chosen.max_time}
    options |= {"cache": chosen.cache_size, "peers_python": chosen.peers_python}
    table: list[Row] = []
    error_of = TestError(data, chosen.threads or thread_count(None))
    for rows in sizes(data.y.size):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.npz"
            linear_worker.save(path, data.X[:rows], data.y[:rows])
            took, model = fit("intelex-float32", path, {"gamma": GAMMA, "C": C}, Namespace(**options))
        if not model:
            return table, {"stopped": took["stopped"], "rows": rows}
        coef = model["coef"].astype(np.float64)
        beta = sp.csr_matrix((coef, (np.zeros(coef.size, dtype=int), model["support"])), (1, data.y.size))
        error = error_of(beta, float(model["intercept"]))
        table.append((name, rows, took["wall"], took["cpu"], np.nan, coef.size, error))
    return table, {"stopped": "all rows"}


def sizes(n: int) -> Iterator[int]:
    """The numbers of rows on which the peer trains, in order."""
    rows = FIRST_ROWS
    while rows < n:
        yield rows
        rows *= GROWTH
    yield n


class TestError:
    """The share of test rows that a model gets wrong, given its coefficients."""

    def __init__(self, data: Data, threads: int) -> None:
        self.n, self.y = data.y.size, data.y_test
        self.K = KernelMatrix(np.concatenate([data.X, data.X_test]), Rbf(gamma=GAMMA), threads=threads)

    def __call__(self, beta: Any, b: float) -> float:
        f = np.zeros(self.y.size)
        self.K.add_products(beta.indices.astype(np.int64), beta.data, slice(self.n, self.n + self.y.size), f)
        return float(np.mean(np.sign(f + b) != self.y))


def read(path: Path) -> Iterator[Row]:
    """The lines of a table that `--csv` has written."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            solver, rows, wall, cpu, evaluations, support, error = (row[column] for column in COLUMNS)
            yield solver, int(rows), float(wall), float(cpu), float(evaluations), int(support), float(error)


def plot(table: Iterable[Row], path: Path) -> None:
    """Draw test error against minutes: a curve for each solver, and the results that the paper reports."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    curves: dict[str, list[Row]] = {}
    for row in table:
        curves.setdefault(row[0], []).append(row)
    text = {"text.color": GREY, "axes.labelcolor": GREY, "axes.edgecolor": GREY, "xtick.color": GREY}
    text |= {"ytick.color": GREY, "svg.fonttype": "none", "svg.hashsalt": "forest", "legend.framealpha": 0.0}
    with mpl.rc_context(text):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.add_subplot()
        for number, (solver, rows) in enumerate(curves.items()):
            label = f"{solver}, on 10,000 rows and more" if solver == PEER else solver
            at, error = [row[2] / 60 for row in rows], [100 * row[-1] for row in rows]
            axes.plot(
                at,
                error,
                STYLES[number % len(STYLES)],
                color=f"C{number}",
                markersize=3,
                label=f"{label}: {error[-1]:.2f} %",
            )
        for name, (minutes, share, above) in PUBLISHED.items():
            axes.plot(minutes, share, "*", color=GREY, markersize=9)
            label = f"{name}\n{share} %, {minutes / 60:.3g} h"
            axes.annotate(label, (minutes, share), (0, above), textcoords="offset points", ha="center", fontsize=8)
        axes.axhline(PUBLISHED["LIBSVM (2012)"][1], color=GREY, linestyle=":", linewidth=1)
        axes.set(xlabel="minutes", ylabel="test error, %", xscale="log", yscale="log", yticks=[1, 2, 5, 10, 20, 50])
        axes.set(xlim=(None, 10_000), ylim=(1, None))
        axes.set_yticklabels(["1", "2", "5", "10", "20", "50"])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend()
        figure.savefig(path, transparent=True, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
