"""Entries read to reach a test error on text, by the paper's SIMBA, the default, and methods that read rows only.

    python benchmarks/news20.py --json news20.json
    python benchmarks/news20.py --set 20news --json 20news.json

8,000 rows are training rows and the others are test rows, split by a seeded permutation. The table shows how much a
method has read at its first check at or below the level, if its next check is at or below the level too. Checks are at
iterations that grow by 10 %, for every method. The slack and the regularization are chosen from a grid, for each method
and level, by the mean over the seeds; a run that does not reach the level counts with its budget. No method has a bias.

The data sets "news20" and "20news" do not come with the package; if one is missing, the message says where to get it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from baselines import PassiveAggressive, Pegasos
from common import arguments, described, entries_until, markdown, mean_of, parse_with_threads, write_json

from maxmargin import SlackSVM, solve
from maxmargin.core import Matrix
from maxmargin.data import as_matrix, find_dataset, read_libsvm
from maxmargin.problems import Solution
from maxmargin.solvers import Holdout, Simba, Solver

LEARNED = 8_000
LEVELS = {"news20": (0.06, 0.055, 0.05), "20news": (0.06, 0.05, 0.045, 0.04)}
BUDGETS = {"news20": (20_000_000, 10_000_000), "20news": (6_000_000, 3_000_000)}  # the paper's SIMBA, the others
FIRST_TESTED = {"news20": 1_000_000, "20news": 100_000}  # entries read; no method gets near the levels before
SLACKS = (3e-4, 1e-3, 3e-3)
REGULARIZATIONS = (1e-5, 3e-5, 1e-4, 3e-4)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--set", choices=sorted(LEVELS), default="news20")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--methods", nargs="+", help="only methods whose name contains one of these")
    chosen = parse_with_threads(parser)
    try:
        (source,) = find_dataset(chosen.set).glob("*.bz2")
    except FileNotFoundError as missing:
        sys.exit(f"skipped: {missing}")
    X, y = read_libsvm(source, dtype=np.float32)
    started, runs, levels = time.perf_counter(), [], LEVELS[chosen.set]
    for seed in chosen.seeds:
        order = np.random.default_rng(seed).permutation(y.size)
        learned, tested = order[:LEARNED], order[LEARNED:]
        # All methods share one matrix, so the index of its columns is built once.
        problem = SlackSVM(as_matrix(X[learned]), y[learned], 0.0, bias=False)
        holdout = LateHoldout(as_matrix(X[tested]), y[tested], learned=problem.X, start=FIRST_TESTED[chosen.set])
        for name, value, solver, budget in methods(*BUDGETS[chosen.set]):
            if chosen.methods is None or any(part in name for part in chosen.methods):
                runs.append(run(problem, solver, holdout, seed, name, value, budget, levels))
        print(f"seed {seed}: {time.perf_counter() - started:.0f} s", flush=True)
    write_json(chosen.json, {"set": chosen.set, "entries": int(problem.X.n_stored), "runs": runs})
    print(f"\nmillions of entries read (a pass is {problem.X.n_stored / 1e6:.2f}), mean of {len(chosen.seeds)} seeds\n")
    print(table(runs, levels))


def methods(budget_of_paper: int, budget: int) -> Iterator[tuple[str, float, Solver, int]]:
    """Name, grid value, solver and budget."""
    for slack in SLACKS:
        yield "SIMBA, paper", slack, Simba(method="paper"), budget_of_paper
        yield "SIMBA, paper, 4 columns", slack, Simba(method="paper", columns=4), budget_of_paper
        yield "SIMBA, default", slack, Simba(), budget
        yield "SIMBA, average=10", slack, Simba(average=10), budget
    for regularization in REGULARIZATIONS:
        for order in ("iid", "permuted"):
            yield f"Pegasos, {order}", regularization, Pegasos(order, regularization=regularization), budget
            yield f"Pegasos, {order}, averaged", regularization, Pegasos(order, 1, regularization), budget
    yield "passive-aggressive", 0.0, PassiveAggressive(), budget
    yield "passive-aggressive, averaged", 0.0, PassiveAggressive(average=3), budget


def run(
    problem: SlackSVM,
    solver: Solver,
    holdout: LateHoldout,
    seed: int,
    name: str,
    value: float,
    budget: int,
    levels: tuple[float, ...],
) -> Any:
    holdout.before = problem.X.ledger.entries_read
    at = problem.with_slack(value) if isinstance(solver, Simba) else problem
    result = solve(at, solver, budget=budget, holdout=holdout, certify=False, random_state=seed)
    return {
        "seed": seed,
        "method": name,
        "value": value,
        "budget": budget,
        "reached": [entries_until(result.trace, level) for level in levels],
        "last_error": result.trace[-1].holdout_error,
        "trace": [(row.entries_read, row.holdout_error) for row in result.trace if not math.isnan(row.holdout_error)],
    }


def table(runs: list[Any], levels: tuple[float, ...]) -> str:
    rows = []
    for name in dict.fromkeys(run["method"] for run in runs):
        own = [run for run in runs if run["method"] == name]
        budget, values = own[0]["budget"], list(dict.fromkeys(run["value"] for run in own))
        cells = []
        for k in range(len(levels)):
            reached = {value: [run["reached"][k] for run in own if run["value"] == value] for value in values}
            best = min(values, key=lambda value: mean_of(reached[value], budget))
            cells.append(f"{described(reached[best], budget, 1e6, 2)} [{best:g}]")
        errors = {value: np.mean([run["last_error"] for run in own if run["value"] == value]) for value in values}
        last = min(values, key=lambda value: errors[value])
        rows.append([name, *cells, f"{errors[last]:.2%} at {budget / 1e6:.0f} M [{last:g}]"])
    return markdown(["method [slack or regularization]", *(f"{level:.1%}" for level in levels), "at the end"], rows)


@dataclass
class LateHoldout:
    """A holdout that saves time: it is not evaluated before `start` entries were read for learning."""

    X: Matrix
    y: Any
    learned: Matrix
    start: int
    before: int = 0  # entries read in earlier runs

    def error(self, solution: Solution, scale: float) -> float:
        if self.learned.ledger.entries_read - self.before < self.start:
            return math.nan
        return Holdout(self.X, self.y).error(solution, scale)


if __name__ == "__main__":
    main()
