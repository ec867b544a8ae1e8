"""CPU time per iteration as n and d grow while rows and columns keep their lengths, and per entry on news20.

    python benchmarks/iteration_cost.py --json iteration_cost.json

The first table uses generated sparse data with 100 entries in each row and in each column, n = d = 20,000 times 1, 2, 4
and 8. The second uses 8,000 rows of news20, if the data set is found. Times are CPU seconds of the solver alone, after
a warm-up. The methods take turns for several rounds, so that a busy machine affects them alike, and the best round
counts.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import arguments, markdown, parse_with_threads, write_json

from maxmargin import SlackSVM
from maxmargin.data import as_matrix, find_dataset, read_libsvm
from maxmargin.solvers import Simba, Solver

METHODS = [
    ("default, slack 0", Simba(), 0.0),
    ("default, slack 0.001", Simba(), 1e-3),
    ("paper, slack 0", Simba(method="paper"), 0.0),
    ("paper, slack 0.001", Simba(method="paper"), 1e-3),
    ("paper, slack 0.001, tolerance 0.1", Simba(method="paper", tolerance=0.1), 1e-3),
]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--size", type=int, default=20_000, help="rows and columns of the smallest matrix")
    parser.add_argument("--line", type=int, default=100, help="entries per row and per column")
    parser.add_argument("--factors", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--iterations", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parse_with_threads(parser)
    problems = {f"{factor}x": made_up(factor * chosen.size, chosen.line) for factor in chosen.factors}
    figures = measure(problems, chosen.iterations, chosen.rounds)
    print(f"\nn = d = {chosen.size:,} times 1x, ...; {chosen.line} entries in each row and column\n")
    rows = []
    for name, _, _ in METHODS:
        own = [figure for figure in figures if figure["method"] == name]
        costs = [figure["ns_an_entry"] for figure in own]
        cells = [f"{figure['us_an_iteration']:.1f} / {figure['ns_an_entry']:.1f}" for figure in own]
        rows.append([name, f"{own[0]['entries_an_iteration']:.0f}", *cells, f"{max(costs) / min(costs):.2f}"])
    print(markdown(["µs an iteration / ns an entry", "entries an iteration", *problems, "largest / smallest"], rows))
    try:
        problems = {"news20": news20()}
    except FileNotFoundError as missing:
        print(f"\nnews20: skipped. {missing}")
    else:
        on_text = measure(problems, chosen.iterations, chosen.rounds)
        figures += on_text
        cells = ("entries_an_iteration", "us_an_iteration", "ns_an_entry")
        print()
        print(
            markdown(
                ["news20", "entries an iteration", "µs an iteration", "ns an entry"],
                [[figure["method"], *(f"{figure[cell]:.1f}" for cell in cells)] for figure in on_text],
            )
        )
    write_json(chosen.json, figures)


def measure(problems: dict[str, SlackSVM], iterations: int, rounds: int) -> list[dict[str, Any]]:
    """The best of several rounds for each method and each problem."""
    best = {(method[0], label): (math.inf, 0.0) for method in METHODS for label in problems}
    for seed in range(rounds):
        for name, solver, slack in METHODS:
            for label, problem in problems.items():
                figure = cost(problem.with_slack(slack), solver, iterations, seed)
                best[name, label] = min(best[name, label], figure)
    return [
        {
            "method": name,
            "data": label,
            "ns_an_entry": 1e9 * an_entry,
            "entries_an_iteration": entries,
            "us_an_iteration": 1e6 * an_entry * entries,
        }
        for (name, label), (an_entry, entries) in best.items()
    ]


def cost(problem: SlackSVM, solver: Solver, iterations: int, seed: int) -> tuple[float, float]:
    """CPU seconds per entry read, and entries read per iteration."""
    state = solver.start(problem, np.random.default_rng(seed))
    unlimited = 2**62
    solver.step(problem, state, iterations // 10, unlimited)
    before, read = time.process_time(), problem.X.ledger.entries_read
    solver.step(problem, state, iterations, unlimited)
    entries = problem.X.ledger.entries_read - read
    return (time.process_time() - before) / entries, entries / iterations


def made_up(size: int, line: int) -> SlackSVM:
    """Generated data with `line` entries in every row and in every column, labelled by a hidden direction."""
    rng = np.random.default_rng(size)
    # Row i has entries in the columns place[i] + step, modulo the size; each step covers each column once.
    place, steps = rng.permutation(size), rng.choice(size, size=line, replace=False)
    indices = np.sort((place[:, None] + steps) % size, axis=1).astype(np.int32)
    values = rng.standard_normal(size * line) / math.sqrt(line)
    indptr = np.arange(0, size * line + 1, line, dtype=np.int32)
    X = sp.csr_array((values, indices.ravel(), indptr), shape=(size, size))
    y = np.where(X @ rng.standard_normal(size) > 0, 1.0, -1.0)
    return SlackSVM(as_matrix(X), y, 0.0, bias=False)


def news20() -> SlackSVM:
    (source,) = find_dataset("news20").glob("*.bz2")
    X, y = read_libsvm(source, dtype=np.float32)
    rows = np.random.default_rng(0).permutation(y.size)[:8_000]
    return SlackSVM(as_matrix(X[rows]), y[rows], 0.0, bias=False)


if __name__ == "__main__":
    main()
