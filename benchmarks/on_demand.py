"""Cost of learning from features that are computed on demand: SIMBA by cost, row readers, and a filter.

    python benchmarks/on_demand.py --json on_demand.json

Every entry has a price, which is paid once. The table shows what a method has paid, as a share of the price of all
entries, when it first reaches the target error and is still there at its next check. The target is the test error of
the model that has bought everything (LinearSVC), plus 10 % of it and 0.1 points. A method that does not reach the
target counts with the price of everything, as a bound. Prices are equal, or drawn from 1, 10 and 100.

SIMBA reads rows and columns. "SIMBA, blind" is told that all prices are equal, and pays the real ones. Row readers buy
whole rows in a random order: the averaged perceptron, Pegasos, and "exact on rows", which trains LinearSVC on the rows
bought so far. The filter buys some rows, scores each feature on them (the F statistic divided by its price), buys the
best k features of all rows and trains LinearSVC on these. The parameters of a method (slack, regularization, rows and k
of the filter) are chosen from a small grid, for each line, by the least mean over the seeds.

Sets: 5,000 x 5,000 dense points, of which a share h is hard (benchmarks/rare_points.py, without noise), where the error
is exact, and the target is the best possible error plus 0.1 points; MNIST, 8 against the rest, 10,000 images; 20
Newsgroups, 8,000 texts and the 2,000 most frequent words, where a word that is not in a text costs as much as one that
is. Sets that are missing are skipped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from baselines import Pegasos, Perceptron
from common import arguments, markdown, mean_of, mnist_digits, parse_with_threads, write_json
from predict_by_need import news
from rare_points import Distribution, Points
from sklearn.feature_selection import f_classif

from maxmargin import LinearSVC, SlackSVM, solve
from maxmargin.data import OnDemand, as_matrix
from maxmargin.problems import Solution
from maxmargin.solvers import Simba

SLACKS = (1e-3, 1e-2, 3e-2)
REGULARIZATIONS = (1e-4, 1e-3)
ROWS_OF_FILTER = (100, 500)
GROWTH = 1.5  # of the number of rows, or features, from one model to the next
MOST = 1.0  # the price of all entries
PASSES = 1  # limit of the iterations of a method, in multiples of the number of rows


@dataclass
class Task:
    """Data with a price for each feature, and a function that computes the error of a model."""

    X: Any
    y: Any
    costs: Any
    test: Callable[[Any, float], float]
    scale: float
    C: float
    level: float | None = None  # the target error, if it does not depend on the model that has bought everything

    @property
    def total(self) -> float:
        return float(self.X.shape[0] * self.costs.sum())

    def source(self, costs: Any) -> OnDemand:
        X = self.X
        return OnDemand(
            *X.shape,
            entries=lambda i, j: X[i, j],
            rows=lambda i: X[i],
            columns=lambda j: X[:, j],
            cost=costs,
            dtype=X.dtype,
        )

    def fitted(self, rows: Any, columns: Any) -> float:
        """The error of LinearSVC on some rows and columns."""
        if np.unique(self.y[rows]).size < 2:
            return 0.5
        part = self.X[np.ix_(rows, columns)] if columns is not None else self.X[rows]
        model = LinearSVC(C=self.C, fit_intercept=False).fit(part, self.y[rows])
        w = np.zeros(self.X.shape[1])
        w[slice(None) if columns is None else columns] = model.coef_[0]
        return self.test(w, 0.0)


@dataclass(frozen=True)
class Tested:
    """Used as a holdout: records the price of the known entries, and the error, at each check."""

    task: Task
    source: OnDemand
    paid: list[float]
    errors: list[float]

    def error(self, solution: Solution, scale: float) -> float:
        known = self.task.X.shape[0] - self.source._known.unknown[1]
        self.paid.append(float(known @ self.task.costs))
        self.errors.append(self.task.test(solution.w, solution.b))
        return self.errors[-1]

    def reached(self, level: float) -> bool:
        return len(self.errors) > 1 and max(self.errors[-2:]) <= level


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", help="only methods whose name contains one of these")
    chosen = parse_with_threads(parser)
    runs, started = [], time.perf_counter()
    for name in chosen.sets:
        for seed in chosen.seeds:
            try:
                task = SETS[name](seed)
            except FileNotFoundError as missing:
                print(f"{name}: skipped, {missing}")
                break
            full = task.fitted(np.arange(task.y.size), None)
            level = 1.1 * full + 0.001 if task.level is None else task.level
            for kind, costs in prices(task.X.shape[1], seed):
                task.costs = costs
                for method, value, reach in methods(task, seed):
                    if chosen.methods is None or any(part in method for part in chosen.methods):
                        share = reach(level) / task.total
                        line = {"set": name, "seed": seed, "prices": kind, "method": method, "value": value}
                        runs.append(line | {"share": share, "full": full})
            print(f"{name}, seed {seed}: {time.perf_counter() - started:.0f} s", flush=True)
    write_json(chosen.json, runs)
    print(f"\ncost in % of the price of all entries, mean of {len(chosen.seeds)} seeds [parameters]\n")
    print(table(runs))


def prices(d: int, seed: int) -> list[tuple[str, Any]]:
    return [("equal", np.ones(d)), ("1, 10, 100", np.random.default_rng(seed).choice([1.0, 10.0, 100.0], size=d))]


def methods(task: Task, seed: int) -> Iterator[tuple[str, Any, Callable[[float], float]]]:
    """Name, parameters, and a function that returns the cost to reach a level, NaN if the level is not reached."""
    for slack in SLACKS:
        yield "SIMBA", slack, by_solver(task, Simba(), slack, seed, task.costs)
        if np.ptp(task.costs):
            yield "SIMBA, blind", slack, by_solver(task, Simba(), slack, seed, np.ones_like(task.costs))
    yield "perceptron on rows", 0, by_solver(task, Perceptron(average=0), 0.0, seed, task.costs)
    for regularization in REGULARIZATIONS:
        solver = Pegasos(regularization=regularization, average=1)
        yield "Pegasos on rows", regularization, by_solver(task, solver, 0.0, seed, task.costs)
    yield "exact on rows", task.C, by_rows(task, seed)
    for rows in ROWS_OF_FILTER:
        yield "filter", rows, by_filter(task, rows, seed)


def by_solver(task: Task, solver: Any, slack: float, seed: int, told: Any) -> Callable[[float], float]:
    def reach(level: float) -> float:
        source = task.source(told)
        tested = Tested(task, source, [], [])
        problem = SlackSVM(as_matrix(source), task.y, slack, bias=False, scale=task.scale)
        solve(
            problem,
            solver,
            budget=source.rows.prices.sum(),
            max_iter=PASSES * task.y.size,
            certify=False,
            holdout=tested,
            callback=lambda _: tested.reached(level),
            random_state=seed,
        )
        return tested.paid[-2] if tested.reached(level) else math.nan

    return reach


def by_rows(task: Task, seed: int) -> Callable[[float], float]:
    def reach(level: float) -> float:
        order = np.random.default_rng(seed).permutation(task.y.size)
        for count in counts(20, task.y.size):
            if task.fitted(order[:count], None) <= level:
                return float(count * task.costs.sum())
        return math.nan

    return reach


def by_filter(task: Task, rows: int, seed: int) -> Callable[[float], float]:
    def reach(level: float) -> float:
        n, d = task.X.shape
        bought = np.random.default_rng(seed).permutation(n)[:rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.nan_to_num(f_classif(task.X[bought], task.y[bought])[0], posinf=0.0)
        order = np.argsort(-score / task.costs, kind="stable")
        for k in counts(5, d):
            if task.fitted(np.arange(n), np.sort(order[:k])) <= level:
                return float(rows * task.costs.sum() + (n - rows) * task.costs[order[:k]].sum())
        return math.nan

    return reach


def counts(first: int, last: int) -> list[int]:
    steps = int(math.log(last / first) / math.log(GROWTH)) + 1
    return [int(first * GROWTH**step) for step in range(steps)] + [last]


def table(runs: list[Any]) -> str:
    names = list(dict.fromkeys(run["method"] for run in runs))
    rows = []
    for name, kind in dict.fromkeys((run["set"], run["prices"]) for run in runs):
        own = [run for run in runs if (run["set"], run["prices"]) == (name, kind)]
        full = np.mean([run["full"] for run in own])
        rows.append([name, kind, f"{full:.2%}", *(best([run for run in own if run["method"] == one]) for one in names)])
    return markdown(["set", "prices", "full model's error", *names], rows)


def best(runs: list[Any]) -> str:
    """The mean over the seeds at the best parameters."""
    if not runs:
        return "-"
    by_value: dict[Any, list[float]] = {}
    for run in runs:
        by_value.setdefault(run["value"], []).append(run["share"])
    value, shares = min(by_value.items(), key=lambda item: mean_of(item[1], MOST))
    count = sum(not math.isnan(share) for share in shares)
    if count == 0:
        return "not reached"
    reached = "" if count == len(shares) else f" ({count}/{len(shares)})"
    return f"{'> ' if reached else ''}{100 * mean_of(shares, MOST):.1f}{reached} [{value:g}]"


def rare(h: float) -> Callable[[int], Task]:
    def load(seed: int, size: int = 5000) -> Task:
        with Points.made(size, seed + 20, None) as points:
            points.make_hard(h)
        truth = Distribution(points, h)
        return Task(
            points.source,
            points.labels(0.0),
            None,
            lambda w, b: truth.error(Solution(w, b), 1.0),
            scale=1.0,
            C=1000.0,
            level=truth.best_error() + 1e-3,
        )

    return load


def mnist(seed: int) -> Task:
    (X, y), (X_test, y_test) = mnist_digits("train"), mnist_digits("t10k")
    rows = np.random.default_rng(seed).permutation(y.size)[:10_000]
    y, y_test = (np.where(digits == 8, 1.0, -1.0) for digits in (y[rows], y_test))
    return Task(X[rows], y, None, held_out(X_test, y_test), scale=20.0, C=0.1)


def text(seed: int) -> Task:
    X, y, X_test, y_test = news(seed)
    frequent = np.sort(np.argsort(-np.diff(X.tocsc().indptr), kind="stable")[:2000])
    return Task(
        X[:, frequent].toarray(), y.astype(float), None, held_out(X_test[:, frequent].tocsr(), y_test), scale=1.0, C=1.0
    )


def held_out(X: Any, y: Any) -> Callable[[Any, float], float]:
    return lambda w, b: float(np.mean(np.where(X @ w + b > 0, 1.0, -1.0) != y))


SETS: dict[str, Callable[[int], Task]] = {
    "rare points, h = 2 %": rare(0.02),
    "rare points, h = 0.5 %": rare(0.005),
    "MNIST pixels": mnist,
    "20 Newsgroups, 2,000 words": text,
}


if __name__ == "__main__":
    main()
