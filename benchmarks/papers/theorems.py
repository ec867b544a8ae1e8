"""Suboptimality against rounds, with fitted exponents, for theorems of three papers.

Hazan, Koren, Srebro (2011), Theorem 4.3; Irpan, Kwan (2015), Theorems 2.8 and 3.1; Cotter, Shalev-Shwartz, Srebro
(2012), Lemma 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from common import markdown
from results import Row, values_of, where
from simba_convergence import Setting, optimum
from sublinear import clouds, game, value_of_game

from benchmarks.papers.frame import Experiment, PowerLaw, Verdict, overall, power_law, share_of
from maxmargin import SlackSVM, solve
from maxmargin.kernels.functions import Linear
from maxmargin.problems import KernelMatrix
from maxmargin.solvers import (
    ExponentiatedGradient,
    PrimalDual,
    Simba,
    StochasticBatchPerceptron,
    SublinearPerceptron,
)

ROUNDS = {"quick": (100, 400, 1_600, 6_400, 25_600), "full": (100, 400, 1_600, 6_400, 25_600, 102_400, 409_600)}
SBP_ROUNDS = {"quick": (100, 300, 1_000, 3_000), "full": (100, 300, 1_000, 3_000, 10_000, 30_000)}
SEEDS = {"quick": 5, "full": 20}
PROMISED = -0.5
LATE = 4  # the last points of a curve, whose exponent is also shown
SETTING = Setting(300, 20, 0.3, 0.02, 0.01, bias=False)


@dataclass(frozen=True)
class Rate:
    """A theorem, the optimal value of its problem, and the value that one run reaches after each number of rounds."""

    theorem: str
    best: Callable[[], float]
    values: Callable[[tuple[int, ...], int], list[float]]
    rounds: dict[str, tuple[int, ...]]


def continued(problem: Any, solver: Any, rounds: tuple[int, ...], seed: int) -> list[float]:
    """Values on the way of a single run, for solvers whose rates do not depend on the number of rounds."""
    found, result = [], None
    for T in rounds:
        result = solve(problem, solver, max_iter=T, random_state=seed, warm=result)
        found.append(float(result.certificate.primal))
    return found


def anew(problem: Any, make: Callable[[float], Any], rounds: tuple[int, ...], seed: int) -> list[float]:
    """Values of separate runs, for solvers whose rates depend on the number of rounds."""
    return [
        float(solve(problem, make(eps_for(problem, make, T)), random_state=seed).certificate.primal) for T in rounds
    ]


def eps_for(problem: Any, make: Callable[[float], Any], T: int) -> float:
    """The largest eps for which a solver makes at least T rounds, by bisection; it makes T of them or hardly more."""
    low, high = 1e-4, 0.999
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if make(middle).iterations(problem) >= T else (low, middle)
    return low


@cache
def the_game() -> Any:
    return game(200, 100, 0)


@cache
def the_clouds() -> Any:
    return clouds(300, 60, 0)


def kernel_problem() -> SlackSVM:
    problem = SETTING.problem()
    X = problem.X.dot(np.eye(problem.X.shape[1]))
    return SlackSVM(KernelMatrix(X, Linear()), problem.y, SETTING.slack, bias=False, scale=1.0)


RATES = {
    "SIMBA": Rate(
        "000 Theorem 4.3",  # such names are in the files; `cited` turns them into citations
        lambda: optimum(SETTING.problem())[0],
        lambda rounds, seed: continued(SETTING.problem(), Simba(method="paper"), rounds, seed),
        ROUNDS,
    ),
    "sublinear perceptron": Rate(
        "001 Theorem 2.8",
        lambda: optimum(the_clouds())[0],
        lambda rounds, seed: anew(the_clouds(), lambda eps: SublinearPerceptron(eps=eps, constant=1.0), rounds, seed),
        ROUNDS,
    ),
    "generic primal-dual, matrix game": Rate(
        "001 Theorem 3.1",
        lambda: value_of_game(the_game()),
        lambda rounds, seed: anew(
            the_game(), lambda eps: PrimalDual(ExponentiatedGradient(100), eps=eps, constant=1.0), rounds, seed
        ),
        ROUNDS,
    ),
    "SBP, average iterate": Rate(
        "002 Lemma 3.2",
        lambda: optimum(SETTING.problem())[0],
        lambda rounds, seed: continued(
            kernel_problem(), StochasticBatchPerceptron(method="paper", average=0.0), rounds, seed
        ),
        SBP_ROUNDS,
    ),
}


class Theorems(Experiment):
    name = "theorems-rates"
    paper = "Hazan et al. 2011, Irpan and Kwan 2015, Cotter et al. 2012"
    what = "Suboptimality against rounds"
    claim = (
        "After T rounds the value is within O(sqrt(log(n) / T)) of the optimum with probability at least 1/2: SIMBA "
        "(Hazan et al., Theorem 4.3), the sublinear perceptron and the generic primal-dual algorithm (Irpan and Kwan, "
        "Theorems 2.8 and 3.1). The average iterate of SBP is within O(sqrt(log(1 / delta) / T)) with probability 1 - "
        "delta (Cotter et al., Lemma 3.2). The exponent of T is -1/2 in each."
    )
    measurement = (
        "Optimal value minus the value after T rounds, mean of the runs, on one generated problem for each method. We "
        "fit the exponent of T."
    )

    def setting(self, mode: str) -> str:
        return (
            f"Generated problems: {SETTING} for SIMBA (adaptive rates) and SBP (linear kernel), 300 x 60 separable "
            "clouds for the sublinear perceptron, and a random 200 x 100 matrix game for the generic primal-dual "
            f"algorithm. Each method has {SEEDS[mode]} runs. The points of SIMBA and SBP are checks on the way of one "
            "run, so their errors are not independent; the others have a separate run for each T. The exponent is that "
            "of the power law through the mean errors, by least squares of logarithms, with its 95 % interval. The "
            "constants of the theorems are not tested. The dependence on n, B and epsilon at a fixed generalisation "
            "error is on [another page](cost-at-fixed-error.md), and so are [semidefinite "
            "programs](001-semidefinite.md)."
        )

    def tasks(self, mode: str) -> list[str]:
        return list(RATES)

    def run(self, task: str, mode: str) -> list[dict[str, Any]]:
        rate = RATES[task]
        best, rounds = rate.best(), rate.rounds[mode]
        return [
            {"method": task, "theorem": rate.theorem, "seed": seed, "T": T, "best": best, "error": best - value}
            for seed in range(SEEDS[mode])
            for T, value in zip(rounds, rate.values(rounds, seed), strict=True)
        ]

    def means(self, rows: Sequence[Row], method: str) -> tuple[list[float], list[float]]:
        """Numbers of rounds, and the mean error after each."""
        own = where(rows, method=method)
        at = values_of(own, "T")
        return at, [float(np.mean([row["error"] for row in where(own, T=T)])) for T in at]

    def laws(self, rows: Sequence[Row], last: int = 0) -> dict[str, PowerLaw]:
        """The exponent of each method, fitted through the `last` points of its curve (0: all)."""
        means = {method: self.means(rows, method) for method in values_of(rows, "method")}
        return {method: power_law(at[-last:], errors[-last:]) for method, (at, errors) in means.items()}

    def verdict(self, rows: Sequence[Row]) -> Verdict:
        laws = self.laws(rows)
        kept = [law.may_be_at_most(PROMISED) for law in laws.values()]
        late = self.laws(rows, LATE)
        figures = [
            f"{method}: exponent {law} over the whole curve, {late[method]} over the last {LATE} points"
            for method, law in laws.items()
        ]
        slower = [method for method, good in zip(laws, kept, strict=True) if not good]
        exceptions = f"Too flat: {', '.join(slower)}. " if slower else ""
        why = (
            f"{exceptions}A rate counts as shown if the 95 % interval of the exponent over the whole curve does not "
            "lie wholly above -1/2. A flatter curve does not contradict its theorem, which is an upper bound with a "
            "constant of its own, but it does not show the rate either. If the curve is flat only at first, the last "
            "points show the rate."
        )
        found = f"The error falls at least as fast as T to the power -1/2 for {share_of(kept, 'methods')}."
        return Verdict(overall(kept), found, figures, why)

    def tables(self, rows: Sequence[Row]) -> str:
        lines = []
        for method, law in self.laws(rows).items():
            at, errors = self.means(rows, method)
            shown = ", ".join(f"{T:,.0f}: {error:.2g}" for T, error in zip(at, errors, strict=True))
            lines.append([cited(where(rows, method=method)[0]["theorem"]), method, shown, law, f"{PROMISED:g}"])
        return markdown(["theorem", "method", "T: mean error", "exponent (95 % interval)", "claimed, at most"], lines)

    def draw(self, rows: Sequence[Row], figure: Any) -> None:
        panel = figure.subplots()
        for number, method in enumerate(values_of(rows, "method")):
            own = where(rows, method=method)
            at, errors = self.means(rows, method)
            deviations = [float(np.std([row["error"] for row in where(own, T=T)])) for T in at]
            panel.errorbar(at, errors, deviations, fmt="o-", ms=3, capsize=2, color=f"C{number}", label=method)
        ends = np.array([min(values_of(rows, "T")), max(values_of(rows, "T"))])
        panel.plot(ends, 3 / np.sqrt(ends), ":", color="grey", label="slope -1/2")
        panel.set(xscale="log", yscale="log", xlabel="rounds T", ylabel="optimum - value")
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small")


CITED = {"000": "Hazan et al.", "001": "Irpan and Kwan", "002": "Cotter et al."}


def cited(theorem: str) -> str:
    """The citation of a theorem that the file names by the number of its paper."""
    paper, place = theorem.split(" ", 1)
    return f"{CITED[paper]}, {place}"
