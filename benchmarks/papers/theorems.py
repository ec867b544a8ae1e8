"""Suboptimality against rounds, exponents fitted: 000 Theorem 4.3, 001 Theorems 2.8 and 3.1, 002 Lemma 3.2."""

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
LATE = 4  # points at the end of a curve, whose exponent is given beside that of the whole curve
SETTING = Setting(300, 20, 0.3, 0.02, 0.01, bias=False)


@dataclass(frozen=True)
class Rate:
    """A theorem, the best value of its problem, and the value reached after each number of rounds in one run."""

    theorem: str
    best: Callable[[], float]
    values: Callable[[tuple[int, ...], int], list[float]]
    rounds: dict[str, tuple[int, ...]]


def continued(problem: Any, solver: Any, rounds: tuple[int, ...], seed: int) -> list[float]:
    """Values of one run that goes on: its rates do not depend on its end."""
    found, result = [], None
    for T in rounds:
        result = solve(problem, solver, max_iter=T, random_state=seed, warm=result)
        found.append(float(result.certificate.primal))
    return found


def anew(problem: Any, make: Callable[[float], Any], rounds: tuple[int, ...], seed: int) -> list[float]:
    """Values of runs of their own, as the rates of these solvers are those for their number of rounds."""
    return [
        float(solve(problem, make(eps_for(problem, make, T)), random_state=seed).certificate.primal) for T in rounds
    ]


def eps_for(problem: Any, make: Callable[[float], Any], T: int) -> float:
    """The largest eps for which a solver makes at least T rounds, by bisection: it makes T then, or hardly more."""
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
        "000 Theorem 4.3",
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
    paper = "000, 001, 002"
    what = "000 Thm 4.3, 001 Thms 2.8 and 3.1, 002 Lemma 3.2: suboptimality against rounds"
    claim = "After T rounds the value is within O(sqrt(log n / T)) of the best: an exponent of -1/2 or below."

    def setting(self, mode: str) -> str:
        return (
            f"Generated problems: {SETTING} for SIMBA (adaptive rates) and SBP (linear kernel), 300 x 60 separable "
            f"clouds for the sublinear perceptron, a random 200 x 100 matrix game. {SEEDS[mode]} runs each. The "
            "exponent is that of the power law through the mean errors by least squares of logarithms, with its 95 % "
            "interval. Constants of the theorems are not tested here; the dependence on n, B and epsilon at a fixed "
            "generalisation error (000 Corollary 5.1, 002 Table 1) is on [a page of its "
            "own](cost-at-fixed-error.md), and so are 001 Lemma 4.1 and Theorem 4.6 ([semidefinite "
            "programs](001-semidefinite.md))."
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
        own = where(rows, method=method)
        at = values_of(own, "T")
        return at, [float(np.mean([row["error"] for row in where(own, T=T)])) for T in at]

    def laws(self, rows: Sequence[Row], last: int = 0) -> dict[str, tuple[float, float, float]]:
        """The exponent of each method, fitted through the last points (0: through all)."""
        means = {method: self.means(rows, method) for method in values_of(rows, "method")}
        return {method: power_law(at[-last:], errors[-last:]) for method, (at, errors) in means.items()}

    def verdict(self, rows: Sequence[Row]) -> Verdict:
        laws = self.laws(rows)
        kept = [law[1] <= PROMISED for law in laws.values()]
        word = REPRODUCED if all(kept) else PARTLY if any(kept) else NOT_REPRODUCED
        late = self.laws(rows, LATE)
        figures = [
            f"{method}: exponent {interval(law)}, of the last {LATE} points {interval(late[method])}"
            for method, law in laws.items()
        ]
        why = (
            "The rule: the interval of the whole curve must not lie wholly above -1/2. A flatter stretch does not "
            "contradict O(...), an upper bound with a constant of its own, but the rate is not shown there; where it "
            "comes early, the last points show it."
        )
        return Verdict(word, f"The error falls as fast as promised in {share_of(kept, 'methods')}.", figures, why)

    def tables(self, rows: Sequence[Row]) -> str:
        lines = []
        for method, law in self.laws(rows).items():
            at, errors = self.means(rows, method)
            shown = ", ".join(f"{T:,.0f}: {error:.2g}" for T, error in zip(at, errors, strict=True))
            lines.append([where(rows, method=method)[0]["theorem"], method, shown, interval(law), f"{PROMISED:g}"])
        return markdown(["theorem", "method", "T: mean error", "exponent (95 %)", "promised, at most"], lines)

    def draw(self, rows: Sequence[Row], figure: Any) -> None:
        panel = figure.subplots()
        for number, method in enumerate(values_of(rows, "method")):
            own = where(rows, method=method)
            at, errors = self.means(rows, method)
            deviations = [float(np.std([row["error"] for row in where(own, T=T)])) for T in at]
            panel.errorbar(at, errors, deviations, fmt="o-", ms=3, capsize=2, color=f"C{number}", label=method)
        ends = np.array([min(values_of(rows, "T")), max(values_of(rows, "T"))])
        panel.plot(ends, 3 / np.sqrt(ends), ":", color="grey", label="slope -1/2")
        panel.set(xscale="log", yscale="log", xlabel="rounds T", ylabel="best - value")
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small")
