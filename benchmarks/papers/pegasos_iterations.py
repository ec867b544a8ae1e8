"""Shalev-Shwartz, Singer, Srebro (2007): iterations to an accuracy against lambda, epsilon and batch size."""

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
    PowerLaw,
    Verdict,
    power_law,
    share_of,
    shown,
    staying,
)
from maxmargin import RegularizedSVM, solve
from maxmargin.data import as_matrix, load_adult
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.solvers import Pegasos, Sdca

LAMBDAS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
ACCURACIES = (0.1, 0.05, 0.02, 0.01, 0.005)
ALL = 32_561  # rows of Adult
BATCHES = {"quick": (1, 10, 100, 1_000), "full": (1, 10, 100, 1_000, 10_000, ALL)}
BATCH_LAMBDA = 1e-3  # lambda at which batch sizes and accuracies are compared
FIXED_EPSILON = 0.01  # accuracy at which values of lambda are compared
GROWTH = 1.05  # factor by which the iterations grow from one check of the objective to the next
PATIENCE = 4.0  # a run ends after this many times 1 / (lambda epsilon) iterations,
MOST_VISITS = {"quick": 1e7, "full": 1e8}  # or after this many visits of a sample if that is earlier
MOST_OF_ALL = 1e9  # the same if each iteration visits all samples
SEEDS = {"quick": 2, "full": 10}


class PegasosIterations(Experiment):
    name = "003-iterations"
    paper = "Shalev-Shwartz et al. 2007 (Pegasos)"
    what = "Section 1, iterations to an accuracy"
    claim = (
        "Pegasos finds a solution of accuracy epsilon in O~(1 / (lambda epsilon)) iterations if each uses all samples "
        "(k = m), and with probability 1 - delta in O~(1 / (delta lambda epsilon)) if each uses one sample (k = 1) "
        "(abstract and section 1)."
    )
    measurement = (
        "Iterations until f(w) - f(w*) stays at most epsilon on Adult. We fit the exponents with which their mean "
        "grows as lambda and epsilon shrink, with one sample and with all samples in each iteration."
    )

    def setting(self, mode: str) -> str:
        return (
            f"Data: Adult, which comes with the package ({ALL:,} rows); linear kernel, no bias. Pegasos is as "
            f"published: samples drawn from all rows, projection, last iterate. With k = {ALL:,} each iteration uses "
            f"all samples, so the run is deterministic and made once; all others are means of {SEEDS[mode]} runs. "
            "f(w*) comes from dual coordinate ascent to a relative duality gap of 1e-6. We check f(w) whenever the "
            f"iterations have grown by {100 * (GROWTH - 1):.0f} %, and count the iterations at the first check from "
            f"which on all checks are at most epsilon. A run ends after {PATIENCE:g} / (lambda epsilon) iterations for "
            f"the smallest epsilon, or after {MOST_VISITS[mode]:.0e} visits of a sample ({MOST_OF_ALL:.0e} with all "
            f"samples). The exponent of lambda is fitted at epsilon = {FIXED_EPSILON:g}, that of epsilon at lambda = "
            f"{BATCH_LAMBDA:g}, through the means of all points where every run reaches epsilon. The claim of 5 "
            "seconds has [its own page](003-seconds.md)."
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
            kept += [law.may_be_at_least(-1) for law in (in_lambda, in_epsilon)]
            figures.append(
                f"With k = {k:,.0f}, the mean number of iterations grows as lambda to the power {in_lambda} and as "
                f"epsilon to the power {in_epsilon}, with 95 % intervals"
            )
        small, large = (
            mean_iterations(where(rows, **{"lambda": BATCH_LAMBDA, "k": k, "epsilon": FIXED_EPSILON}))
            for k in (1.0, most)
        )
        figures.append(
            f"At lambda = {BATCH_LAMBDA:g}, epsilon = {FIXED_EPSILON:g} takes {shown(small, ',.0f')} iterations of 1 "
            f"sample or {shown(large, ',.0f')} iterations of {most:,.0f} samples"
        )
        why = (
            "The bound is reproduced if no 95 % interval lies wholly below -1, the exponent of the bound; with a few "
            "points for each fit, a sharper test is not possible."
        )
        if not whole:
            why += f" The largest batch here has {most:,.0f} samples, so the claim for all samples is not tested."
        word = NOT_REPRODUCED if not all(kept) else REPRODUCED if whole else PARTLY
        found = (
            "The number of iterations grows no faster than 1 / lambda and 1 / epsilon, within the accuracy of the fit, "
            f"in {share_of(kept, 'fits')}."
        )
        return Verdict(word, found, figures, why)

    def laws(self, rows: Sequence[Row], k: float) -> tuple[PowerLaw, PowerLaw]:
        """Exponents of the mean iterations in lambda and in epsilon, through the points that every run reaches."""
        own = where(rows, k=k)
        found = []
        for over, at, fixed in (("lambda", FIXED_EPSILON, "epsilon"), ("epsilon", BATCH_LAMBDA, "lambda")):
            those = where(own, **{fixed: at})
            points = [(value, mean_iterations(where(those, **{over: value}))) for value in values_of(those, over)]
            points = [point for point in points if math.isfinite(point[1])]
            found.append(power_law([value for value, _ in points], [mean for _, mean in points]))
        return found[0], found[1]

    def tables(self, rows: Sequence[Row]) -> str:
        single, batches, of_all = where(rows, k=1.0), where(rows, **{"lambda": BATCH_LAMBDA}), where(rows, k=float(ALL))
        return (
            'Mean iterations until f(w) - f(w*) stays at most epsilon ("-": some run did not reach it). One sample in '
            "each iteration (k = 1), by lambda:\n\n"
            + table(single, "lambda")
            + f"\n\nAt lambda = {BATCH_LAMBDA:g}, by the number k of samples in each iteration:\n\n"
            + table(batches, "k")
            + (f"\n\nAll {ALL:,} samples in each iteration, by lambda:\n\n" + table(of_all, "lambda") if of_all else "")
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
        right.set(xlabel="k, samples per iteration", title=f"lambda = {BATCH_LAMBDA:g}")
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
    """Iterations after which f(w) - f(w*) stays at most each epsilon; NaN if the run ends before."""
    solver = Pegasos(batch=k if k < problem.y.size else None, order="iid", average=None)
    state, iteration = solver.start(problem, np.random.default_rng(seed)), 0
    limit = min(PATIENCE / (value * ACCURACIES[-1]), visits / k)
    checks: list[tuple[int, float]] = []
    while iteration < limit:
        iteration += solver.step(problem, state, max(1, int((GROWTH - 1) * iteration)), UNLIMITED).iterations
        with problem.X.ledger.on("curve"):
            checks.append((iteration, value * problem.evaluate(solver.solution(problem, state).w).value - best))
    at, errors = np.array(checks).T
    firsts = {epsilon: staying(errors, epsilon) for epsilon in ACCURACIES}
    return {epsilon: math.nan if first is None else float(at[first]) for epsilon, first in firsts.items()}


def mean_iterations(rows: Sequence[Row]) -> float:
    """The mean over the runs; NaN if there is none or one did not reach the accuracy."""
    return float(np.mean([row["iterations"] for row in rows])) if rows else math.nan


def table(rows: Sequence[Row], over: str) -> str:
    epsilons = values_of(rows, "epsilon")
    lines = [
        [
            f"{value:g}",
            *(
                shown(mean_iterations(where(rows, **{over: value, "epsilon": epsilon})), ",.0f", "-")
                for epsilon in epsilons
            ),
        ]
        for value in values_of(rows, over)
    ]
    return markdown([over, *(f"epsilon {epsilon:g}" for epsilon in epsilons)], lines)


def plot(panel: Any, rows: Sequence[Row], over: str, label: str) -> None:
    at = sorted(values_of(rows, over))
    runs = [[row["iterations"] for row in where(rows, **{over: value})] for value in at]
    # The runs are not an array: the deterministic k = n has one, other k have many.
    means, deviations = [np.mean(run) for run in runs], [np.std(run) for run in runs]
    panel.errorbar(at, means, deviations, fmt="o-", ms=3, capsize=2, label=label)
