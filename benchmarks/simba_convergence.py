"""How far SIMBA is from the exact optimum of the slack form, by the number of entries that it has read.

    python benchmarks/simba_convergence.py --json simba_convergence.json

Samples are y (m, ..., m) plus standard normal noise, divided by the largest norm; a share of the labels is flipped. The
table shows 1 - value / optimum in per cent, as the mean over the seeds, at budgets in multiples of the number of
entries; everything above 99 is shown as "> 99", even if the value is below 0. The optimum comes from clarabel, an
interior-point method. "newton" is an exact solver, given the C that belongs to the slack: the number of times it reads
the data until its certified gap is below 0.1 %. Its value at the best length must be within 0.1 % of the optimum, which
also checks the optimum. If the best w is inside the unit ball, no C belongs to the slack, and the solver gets
C = 10,000.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
from common import arguments, markdown, parse_with_threads, write_json
from numpy.typing import NDArray

from maxmargin import RegularizedSVM, SlackSVM, solve
from maxmargin.core.line_search import least
from maxmargin.solvers import Newton, Simba
from maxmargin.svm.convert import equivalent_C

PASSES = (0.1, 0.3, 1, 3, 10, 30, 100)
LARGEST_C = 1e4
TOL = 1e-3
SOLVERS = {"default": Simba(), "paper": Simba(method="paper")}


@dataclass(frozen=True)
class Setting:
    """n x d samples with means m, flipped labels, slack and bias."""

    n: int
    d: int
    m: float
    flipped: float
    slack: float
    bias: bool

    def problem(self) -> SlackSVM:
        rng = np.random.default_rng(0)
        y = np.where(rng.random(self.n) < 0.5, -1.0, 1.0)
        X = rng.normal(size=(self.n, self.d)) + self.m * y[:, None]
        y = np.where(rng.random(self.n) < self.flipped, -y, y)
        return SlackSVM(X / np.linalg.norm(X, axis=1).max(), y, self.slack, bias=self.bias, scale=1.0)

    def __str__(self) -> str:
        bias = "bias" if self.bias else "no bias"
        return f"{self.n} x {self.d}, {self.flipped:.0%} flipped, slack {self.slack:g}, {bias}"


SETTINGS = [
    replace(Setting(n, d, m, flipped, slack, bias=False), bias=bias)
    for n, d, m in ((300, 20, 0.3), (1000, 100, 0.2), (100, 400, 0.15))
    for flipped, slack in ((0.0, 0.003), (0.02, 0.01), (0.05, 0.02))
    for bias in (False, True)
]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    chosen = parse_with_threads(parser)
    started, runs = time.perf_counter(), []
    for setting in SETTINGS:
        runs.append(run(setting, chosen.seeds))
        print(f"{setting}: {time.perf_counter() - started:.0f} s", flush=True)
    write_json(chosen.json, {"passes": PASSES, "seeds": chosen.seeds, "runs": runs})
    print(f"\n% below the optimum, by budget in multiples of the entries, mean of {len(chosen.seeds)} seeds\n")
    print(table(runs))


def run(setting: Setting, seeds: list[int]) -> Any:
    best, p, w = optimum(setting.problem())
    curves = {
        name: np.mean([shortfalls(setting.problem(), solver, seed, best) for seed in seeds], axis=0).tolist()
        for name, solver in SOLVERS.items()
    }
    length = float(np.linalg.norm(w))
    newton = passes_of_newton(setting.problem(), best, p, w)
    return {"setting": str(setting), "optimum": best, "length": length, "curves": curves, "newton": newton}


def shortfalls(problem: SlackSVM, solver: Simba, seed: int, best: float) -> list[float]:
    """1 - value / optimum at each budget, for one run that is continued from budget to budget."""
    found, result = [], None
    for passes in PASSES:
        # Entries that the earlier run has read count towards the budget.
        result = solve(problem, solver, budget=int(passes * problem.X.n_stored), random_state=seed, warm=result)
        found.append(1 - result.certificate.primal / best)
    return found


def optimum(problem: SlackSVM) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """The optimum of the slack form, dual weights and the best w, by a convex solver over (w, b, gamma, xi)."""
    n, d = problem.X.shape
    yX = problem.y[:, None] * problem.X.dot(np.eye(d)) / problem.scale
    margins = [-yX, -problem.bias * problem.y[:, None], np.ones((n, 1)), -sp.eye(n)]
    constraints = [
        sp.hstack(margins),
        sp.hstack([sp.csc_array((n, d + 2)), -sp.eye(n)]),
        sp.hstack([sp.csc_array((1, d + 2)), problem.s[None]]),
        sp.csc_array((1, d + 2 + n)),
        sp.hstack([-sp.eye(d), sp.csc_array((d, 2 + n))]),
    ]
    limits = np.concatenate([np.zeros(2 * n), [problem.volume, 1.0], np.zeros(d)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    quadratic = sp.diags(np.eye(1, d + 2 + n, d)[0] * (not problem.bias), format="csc")  # keeps b at 0
    cones = [clarabel.NonnegativeConeT(2 * n + 1), clarabel.SecondOrderConeT(d + 1)]
    q = -np.eye(1, d + 2 + n, d + 1)[0]
    found = clarabel.DefaultSolver(quadratic, q, sp.csc_matrix(sp.vstack(constraints)), limits, cones, settings).solve()
    return float(-found.obj_val), np.array(found.z[:n]), np.array(found.x[:d])


def passes_of_newton(problem: SlackSVM, best: float, p: NDArray[np.float64], w: NDArray[np.float64]) -> float:
    """How often Newton's method reads the data; NaN if its direction is not within 0.1 % of the optimum."""
    inside = np.linalg.norm(w) < 1 - 1e-4
    C = LARGEST_C if inside else equivalent_C(problem, problem.evaluate(w), p)
    result = solve(RegularizedSVM(problem.X, problem.y, C=C, bias=problem.bias), Newton(), tol=TOL, random_state=0)
    c = problem.responses(result.solution.w / np.linalg.norm(result.solution.w))

    def loss(length: float) -> float:
        return -problem.evaluate_responses(length * w, length * c).value

    _, value = least(loss, 0.0, 1.0)
    return result.trace[-1].entries_read / problem.X.n_stored if -value > 0.999 * best else math.nan


def table(runs: list[Any]) -> str:
    rows = []
    for line in runs:
        newton = "-" if math.isnan(line["newton"]) else f"{line['newton']:.0f}"
        for name, curve in line["curves"].items():
            first = (
                [line["setting"], f"{line['optimum']:.4f}", f"{line['length']:.2f}"] if name == "default" else [""] * 3
            )
            cells = ["> 99" if value > 0.99 else f"{100 * value:.2g}" for value in curve]
            rows.append([*first, name, *cells, newton if name == "default" else ""])
    return markdown(["problem", "optimum", "best length", "method", *map(str, PASSES), "newton"], rows)


if __name__ == "__main__":
    main()
