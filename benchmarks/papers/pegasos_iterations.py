"""Shalev-Shwartz, Singer, Srebro (2007): iterations to an accuracy against lambda, epsilon and the batch k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from common import markdown
from results import Row, values_of, where

from benchmarks.papers.frame import (
    NOT_REPRODUCED,
    PARTLY,
    REPRODUCED,
    Experiment,
    Verdict,
    interval,
    power_law,
    share_of,
)
from maxmargin import RegularizedSVM, solve
from maxmargin.data import as_matrix, load_adult
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.solvers import Pegasos, Sdca

LAMBDAS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
ACCURACIES = (0.1, 0.05, 0.02, 0.01, 0.005)
ALL = 32_561  # rows of Adult
BATCHES = {"quick": (1, 10, 100, 1_000), "full": (1, 10, 100, 1_000, 10_000, ALL)}
BATCH_LAMBDA = 1e-3  # where batches are compared
GROWTH = 1.05  # of the iterations from one look at the objective to the next
PATIENCE = 4.0  # a run ends after so many times 1 / (lambda epsilon) iterations, or
MOST_VISITS = {"quick": 1e7, "full": 1e8}  # after so many visits of a sample,
MOST_OF_ALL = 1e9  # or so many where each iteration visits all
SEEDS = {"quick": 2, "full": 10}


class PegasosIterations(Experiment):
    name = "003-iterations"
    paper = "003 Pegasos"
    what = "iterations to an accuracy"
    claim = "O(1 / (lambda epsilon)) iterations, with one sample each; that many with all samples each, too."

    def setting(self, mode: str) -> str:
        return (
            f"The Adult data that come with the package ({ALL:,} rows, linear, no bias), the paper's algorithm: "
            f"rows drawn from all, with the projection, last iterate; k = {ALL:,} is A_t = S, which draws nothing and "
            f"runs once. Mean of {SEEDS[mode]} runs. Accuracy is f(w) - f(w*), with "
            f"w* by dual coordinate ascent to a gap of 1e-6; counted is the first look (each 5 % of the "
            f"iterations) from "
            f"which on all later looks are at most epsilon. A run ends after {PATIENCE:g} / (lambda epsilon) "
            f"iterations "
            f"for the smallest epsilon or {MOST_VISITS[mode]:.0e} visits of a sample "
            f"({MOST_OF_ALL:.0e} with all samples). Batches are compared at lambda = "
            f"{BATCH_LAMBDA:g}. The claim of 5 seconds has a [page](003-seconds.md) of its own."
        )

    def tasks(self, mode: str) -> list[str]:
        by_lambda = [f"lambda {value:g}, k 1" for value in LAMBDAS]
        by_batch = [f"lambda {BATCH_LAMBDA:g}, k {k}" for k in BATCHES[mode] if 1 < k < ALL]
        of_all = [f"lambda {value:g}, k {ALL}" for value in LAMBDAS if ALL in BATCHES[mode]]
        return by_lambda + by_batch + of_all

    def run(self, task: str, mode: str) -> list[dict[str, Any]]:
        _, text, _, k = task.replace(",", "").split()
        value, batch = float(text), int(k)
        X, y = adult()
        problem = RegularizedSVM(X, y, 1 / (value * y.size), bias=False)
        best = value * solve(problem, Sdca(), tol=1e-6, random_state=0).certificate.dual
        seeds, visits = (1, MOST_OF_ALL) if batch == ALL else (SEEDS[mode], MOST_VISITS[mode])
        return [
            {"lambda": value, "k": batch, "seed": seed, "epsilon": epsilon, "iterations": iterations}
            for seed in range(seeds)
            for epsilon, iterations in iterations_to(problem, value, batch, seed, best, visits).items()
        ]

    def verdict(self, rows: Sequence[Row]) -> Verdict:
        most = max(values_of(rows, "k"))
        whole = most == ALL
        figures, kept = [], []
        for k in (1.0, most) if whole else (1.0,):
            in_lambda, in_epsilon = self.laws(rows, k)
            kept += [law[2] >= -1 for law in (in_lambda, in_epsilon)]
            figures.append(
                f"with k = {k:,.0f}, iterations grow as lambda to the power of {interval(in_lambda)} and epsilon to "
                f"the power of {interval(in_epsilon)} (95 % intervals)"
            )
        small, large = (
            mean_iterations(where(rows, **{"lambda": BATCH_LAMBDA, "k": k, "epsilon": 0.01})) for k in (1.0, most)
        )
        figures.append(
            f"{small:,.0f} iterations of 1 sample and {large:,.0f} of {most:,.0f} reach epsilon = 0.01 at lambda = "
            f"{BATCH_LAMBDA:g}"
        )
        rule = "The rule: no interval may lie wholly below the bound's -1; a few points of a curve fit no closer."
        batches = (
            "" if whole else f" Batches end at {most:,.0f} samples here, so the claim for all samples is not tested."
        )
        word = NOT_REPRODUCED if not all(kept) else REPRODUCED if whole else PARTLY
        found = f"The exponents of lambda and epsilon are not below -1 in {share_of(kept, 'fits')}."
        return Verdict(word, found, figures, rule + batches)

    def laws(self, rows: Sequence[Row], k: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """Exponents of the mean iterations in lambda at epsilon = 0.01, and in epsilon at lambda = 1e-3."""
        own = where(rows, k=k)
        found = []
        for over, at, fixed in (("lambda", 0.01, "epsilon"), ("epsilon", BATCH_LAMBDA, "lambda")):
            those = where(own, **{fixed: at})
            points = [(value, mean_iterations(where(those, **{over: value}))) for value in values_of(those, over)]
            points = [point for point in points if math.isfinite(point[1])]
            found.append(power_law(*zip(*points, strict=True)))
        return found[0], found[1]

    def tables(self, rows: Sequence[Row]) -> str:
        single, batches, of_all = where(rows, k=1.0), where(rows, **{"lambda": BATCH_LAMBDA}), where(rows, k=float(ALL))
        return (
            "Mean iterations until f(w) - f(w*) stays at most epsilon; k = 1, by lambda:\n\n"
            + table(single, "lambda")
            + f"\n\nAt lambda = {BATCH_LAMBDA:g}, by the samples k of an iteration:\n\n"
            + table(batches, "k")
            + (f"\n\nk = {ALL:,}, all samples, by lambda:\n\n" + table(of_all, "lambda") if of_all else "")
        )

    def draw(self, rows: Sequence[Row], figure: Any) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        single = where(rows, k=1.0)
        for epsilon in values_of(rows, "epsilon"):
            plot(left, where(single, epsilon=epsilon), "lambda", f"epsilon {epsilon:g}")
            plot(right, where(rows, **{"lambda": BATCH_LAMBDA, "epsilon": epsilon}), "k", f"epsilon {epsilon:g}")
        at = np.array([min(LAMBDAS), max(LAMBDAS)])
        left.plot(at, 10 / at, ":", color="grey", label="slope -1")
        left.set(xlabel="lambda", ylabel="iterations", title="k = 1")
        right.set(xlabel="k, samples an iteration", title=f"lambda = {BATCH_LAMBDA:g}")
        for panel in (left, right):
            panel.set(xscale="log", yscale="log")
            panel.grid(alpha=0.3)
        left.legend(fontsize="small")


@cache
def adult() -> tuple[Any, Any]:
    X, y, _, _ = load_adult()
    return as_matrix(X), y


def iterations_to(
    problem: RegularizedSVM, value: float, k: int, seed: int, best: float, visits: float
) -> dict[float, float]:
    """Iterations after which the accuracy stays within each of the epsilons; NaN where the run was too short."""
    solver = Pegasos(batch=k if k < problem.y.size else None, order="iid", average=None)
    state, iteration = solver.start(problem, np.random.default_rng(seed)), 0
    limit = min(PATIENCE / (value * ACCURACIES[-1]), visits / k)
    looks: list[tuple[int, float]] = []
    while iteration < limit:
        iteration += solver.step(problem, state, max(1, int((GROWTH - 1) * iteration)), UNLIMITED).iterations
        with problem.X.ledger.on("curve"):
            looks.append((iteration, value * problem.evaluate(solver.solution(problem, state).w).value - best))
    at, errors = np.array(looks).T
    reached = {}
    for epsilon in ACCURACIES:
        above = np.flatnonzero(errors > epsilon)
        first = above[-1] + 1 if above.size else 0
        reached[epsilon] = float(at[first]) if first < at.size else math.nan
    return reached


def mean_iterations(rows: Sequence[Row]) -> float:
    return float(np.mean([row["iterations"] for row in rows])) if rows else math.nan


def table(rows: Sequence[Row], over: str) -> str:
    epsilons = values_of(rows, "epsilon")
    lines = [
        [f"{value:g}", *(described(where(rows, **{over: value, "epsilon": epsilon})) for epsilon in epsilons)]
        for value in values_of(rows, over)
    ]
    return markdown([over, *(f"epsilon {epsilon:g}" for epsilon in epsilons)], lines)


def described(rows: Sequence[Row]) -> str:
    mean = mean_iterations(rows)
    return "-" if math.isnan(mean) else f"{mean:,.0f}"


def plot(panel: Any, rows: Sequence[Row], over: str, label: str) -> None:
    at = sorted(values_of(rows, over))
    runs = [[row["iterations"] for row in where(rows, **{over: value})] for value in at]
    # The runs are not an array: the deterministic k = n has one, other k have many.
    means, deviations = [np.mean(run) for run in runs], [np.std(run) for run in runs]
    panel.errorbar(at, means, deviations, fmt="o-", ms=3, capsize=2, label=label)
