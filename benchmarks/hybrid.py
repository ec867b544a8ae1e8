"""Objective minus optimum against effective passes: stochastic, deterministic, hybrid, and hybrid with shrinking.

    python benchmarks/hybrid.py --json hybrid.json --plot hybrid.png

This is the experiment of Figures 1 and 2 of Schmidt and Joulin (2012), on the smooth SVM without a bias and two sets:
"spam", the corpus of SpamAssassin with one binary feature per word (the paper uses another set), and "spambase", with
each column scaled to mean 0 and variance 1. An effective pass is n visits of samples, where n is the number of samples;
a visit reads the sample once, for both its loss and its gradient. Evaluations of the objective for the curves are not
counted, nor are the norms from which the stochastic method derives its step length. Errors are (F - F*) / F*. The table
shows their geometric mean over the seeds, and the mean number of passes to an error. At the default C, the error on
held-out samples is near its minimum on both sets.

The sets "spam" and "spambase" do not come with the package. A missing set is skipped, with a message that says where to
get it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, described, markdown, parse_with_threads, write_json

from maxmargin import solve
from maxmargin.data import as_matrix, find_dataset, read_libsvm
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.problems import RegularizedSVM
from maxmargin.solvers import Hybrid, Solver, StochasticGradient

METHODS: dict[str, Solver] = {
    "stochastic, 0.3 / L": StochasticGradient(0.3),
    "stochastic, 0.1 / L": StochasticGradient(0.1),
    "stochastic, 0.03 / L": StochasticGradient(0.03),
    "deterministic": Hybrid("none", growth=math.inf),
    "hybrid": Hybrid("none"),
    "hybrid-shrink, bound (1)": Hybrid("sum"),
    "hybrid-shrink, section 2": Hybrid("tight"),
    "the same, batch doubled": Hybrid("tight", growth=2.0),
    "deterministic-shrink, section 2": Hybrid("tight", growth=math.inf),
}
AT = (1, 2, 5, 10, 20, 50)
LEVELS = (1e-2, 1e-4, 1e-6)
FLOOR = 1e-10  # relative error at which curves end
DIVERGED = 1e6  # relative error beyond which a run ends; at w = 0 it is below 100 on both sets


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=sorted(SETS), default=list(SETS))
    parser.add_argument("--C", type=float, default=0.1)
    parser.add_argument("--passes", type=float, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the curves to FILE")
    chosen = parse_with_threads(parser)
    figures: dict[str, Any] = {}
    for name in chosen.sets:
        try:
            X, y = SETS[name]()
        except FileNotFoundError as missing:
            print(f"skipped: {missing}")
            continue
        problem = RegularizedSVM(as_matrix(X), y, chosen.C, loss="squared_hinge", bias=False)
        found = solve(problem, Hybrid(growth=math.inf), tol=1e-12, max_iter=20_000)
        best, support = found.certificate, np.mean(found.evaluation.wet > 0)
        runs = {
            method: [curve(problem, solver, seed, chosen.passes, best.dual) for seed in chosen.seeds]
            for method, solver in METHODS.items()
        }
        print(
            f"\n{name}: {y.size:,} samples, C = {chosen.C:g}, optimum {best.dual:.6g} (gap {best.relative_gap:.0e}), "
            f"{support:.0%} of the samples have a loss at the optimum\n"
        )
        print(table(runs, chosen.passes))
        figures[name] = {"C": chosen.C, "optimum": best.dual, "runs": runs}
    write_json(chosen.json, figures)
    if chosen.plot is not None and figures:
        draw(figures, chosen.plot)


def spam() -> tuple[Any, Any]:
    (source,) = find_dataset("spam").glob("*.bz2")
    return read_libsvm(source, dtype=np.float32)


def spambase() -> tuple[Any, Any]:
    values = np.loadtxt(find_dataset("spambase/spambase.data.gz"), delimiter=",")
    X = values[:, :-1]
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(values[:, -1] > 0, 1.0, -1.0)


SETS = {"spam": spam, "spambase": spambase}


def curve(
    problem: RegularizedSVM, solver: Solver, seed: int, passes: float, best: float, floor: float = FLOOR
) -> list[tuple[float, float]]:
    """Effective passes and relative error after each iteration, or each tenth of a pass of the stochastic method."""
    n = problem.y.size
    chunk = n // 10 if isinstance(solver, StochasticGradient) else 1
    state, points = solver.start(problem, np.random.default_rng(seed)), []
    while not points or (points[-1][0] < passes and floor < points[-1][1] < DIVERGED):
        try:
            solver.step(problem, state, chunk, UNLIMITED)
        except ValueError:  # the step length is too large, and the weights have overflowed
            return [*points, (state.evaluations / n, math.inf)]
        with problem.X.ledger.on("curve"):
            value = problem.evaluate(solver.solution(problem, state).w).value
        points.append((state.evaluations / n, value / best - 1))
    return points


def error_at(points: list[tuple[float, float]], passes: float) -> float:
    """The last error that was measured within this number of passes; NaN if there is none."""
    before = [error for at, error in points if at <= passes]
    return max(before[-1], FLOOR) if before else math.nan


def passes_to(points: list[tuple[float, float]], level: float) -> float:
    return next((at for at, error in points if error <= level), math.nan)


def mean_curve(runs: list[list[tuple[float, float]]], at: Any) -> tuple[Any, Any]:
    """The geometric mean and the geometric standard deviation of the errors after these numbers of passes."""
    logs = np.log([[error_at(points, passes) for passes in at] for points in runs])
    return np.exp(logs.mean(axis=0)), np.exp(logs.std(axis=0))


def table(runs: dict[str, list[list[tuple[float, float]]]], most: float) -> str:
    rows = []
    for method, own in runs.items():
        errors = ["-" if math.isnan(error) else f"{error:.1e}" for error in mean_curve(own, AT)[0]]
        reached = [described([passes_to(points, level) for points in own], most, 1, 1) for level in LEVELS]
        rows.append([method, *errors, *reached])
    header = ["method", *(f"after {passes}" for passes in AT), *(f"passes to {level:g}" for level in LEVELS)]
    return markdown(header, rows)


def draw(figures: dict[str, Any], path: Path) -> None:
    """Draw a row of panels for each set: the first passes, and all passes."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(figures), 2, squeeze=False, figsize=(13, 4.5 * len(figures)), layout="constrained")
    for row, (name, found) in zip(axes, figures.items(), strict=True):
        longest = max(points[-1][0] for own in found["runs"].values() for points in own)
        for panel, last in zip(row, (20, longest), strict=True):
            at = np.linspace(0, last, 400)[1:]
            for k, (method, own) in enumerate(found["runs"].items()):
                style = "--" if method.startswith("stochastic") else ":" if method.startswith("det") else "-"
                panel.semilogy(at, mean_curve(own, at)[0], style, color=f"C{k}", label=method)
            panel.set_title(f"{name}, C = {found['C']:g}")
            panel.set_xlabel("effective passes")
            panel.grid(alpha=0.3)
        row[0].set_ylabel("(objective - optimum) / optimum")
        row[1].set_ylim(bottom=1.5 * FLOOR)
        row[1].legend(fontsize="small")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
