"""Fixed runs whose counts do not depend on the machine; `tests/test_guard.py` compares them with recorded counts.

    python tests/support/guarded_runs.py            # print how the counts differ from the recorded ones
    python tests/support/guarded_runs.py --record   # record them; give the reason for a change in the commit

The counts of a run are the entries read (or kernel evaluations) by purpose, and the iterations. Memory is the largest
sum of arrays alive at one time, in bytes, as tracemalloc sees it; it does not see the buffers of a BLAS and of C++.
"""

from __future__ import annotations

import argparse
import gc
import json
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin import SlackSVM, solve
from maxmargin.core import l1_sample
from maxmargin.game.sets import Simplex
from maxmargin.kernels.functions import Rbf
from maxmargin.problems import KernelMatrix, MaxMin, MinimumEnclosingBall, RegularizedSVM, SemidefiniteFeasibility
from maxmargin.solvers import (
    BatchPerceptron,
    CoreSet,
    Decomposition,
    ExponentiatedGradient,
    Hybrid,
    KernelPegasos,
    Newton,
    Pegasos,
    PrimalDual,
    Sdca,
    Simba,
    Smo,
    Solver,
    StochasticBatchPerceptron,
    SublinearBall,
    SublinearPerceptron,
    SublinearSdp,
)

RECORDED = Path(__file__).parents[1] / "guard.json"
RECORD = "python tests/support/guarded_runs.py --record"
MEMORY = "memory"

# Allowed differences that do not come from a change of the code, as shares of the recorded count.
ROUNDING = 0.05  # for runs to a gap whose path depends on the order in which a BLAS adds
FEW_ROUNDS = 0.2  # the same for runs of about a dozen rounds: one or two more or fewer
MEMORY_TOLERANCE = 0.15  # for Python's own objects, which differ between versions
EXACT = 0.0


@dataclass(frozen=True)
class Run:
    """A problem, a solver and stop rules, and by how much the counts may differ from the recorded ones."""

    problem: Callable[[], Any]
    solver: Solver[Any, Any]
    stop: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = EXACT

    def counts(self) -> dict[str, float]:
        """Reads by purpose, iterations, and the memory that the run needs in addition to the problem's data."""
        solve(self.problem(), self.solver, random_state=0, **self.stop)  # imports are not counted
        problem = self.problem()
        gc.collect()
        tracemalloc.start()
        try:
            result = solve(problem, self.solver, random_state=0, **self.stop)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return {"iterations": result.n_iter, **result.reads, MEMORY: peak}


def differences(recorded: Mapping[str, float], found: Mapping[str, float], tolerance: float) -> list[str]:
    """One line for each count that differs from the recorded one."""
    lines = []
    for name in sorted(recorded.keys() | found.keys()):
        old, new = recorded.get(name, 0), found.get(name, 0)
        allowed = (MEMORY_TOLERANCE if name == MEMORY else tolerance) * old
        if abs(new - old) > allowed:
            change = f" ({new / old - 1:+.1%})" if old else ""
            lines.append(f"{name}: {old:,} recorded, now {new:,}{change}")
    return lines


# Data


def dense(n: int = 400, d: int = 30, distance: float = 2.0, flipped: float = 0.03) -> tuple[Any, Any]:
    """Two clouds; a share of the labels is wrong."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    X = rng.normal(size=(n, d)) + distance / 2 / np.sqrt(d) * y[:, None]
    return X, np.where(rng.random(n) < flipped, -y, y)


def sparse(n: int = 1_000, d: int = 3_000, stored: int = 20) -> tuple[Any, Any]:
    """Rows with few entries in many columns, as in text: some columns are common, and some of these set the class."""
    rng = np.random.default_rng(1)
    columns = np.minimum((d * rng.random((n, stored)) ** 3).astype(np.int64), d - 1)
    rows = np.repeat(np.arange(n), stored)
    X = sp.csr_array((rng.random(n * stored) + 0.1, (rows, columns.ravel())), (n, d))
    return X, np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)


def separable() -> tuple[Any, Any]:
    return dense(distance=12.0, flipped=0.0)


def moons(n: int = 600) -> tuple[Any, Any]:
    rng = np.random.default_rng(2)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    turn = np.pi * rng.random(n)
    X = np.column_stack([y * np.cos(turn) + (y > 0), y * np.sin(turn) + 0.5 * (y < 0)])
    return X + 0.25 * rng.normal(size=X.shape), y


# Problems


def regularized(data: Callable[[], tuple[Any, Any]], C: float = 1.0, **options: Any) -> Callable[[], RegularizedSVM]:
    return lambda: RegularizedSVM(*data(), C, **options)


def slack(data: Callable[[], tuple[Any, Any]], value: float, **options: Any) -> Callable[[], SlackSVM]:
    return lambda: SlackSVM(*data(), value, **options)


def on_kernel() -> tuple[KernelMatrix, Any]:
    X, y = moons()
    return KernelMatrix(X, Rbf(gamma=1.0), cache_size=1.0), y


def game(n: int = 60, d: int = 40) -> MaxMin:
    A = np.random.default_rng(3).uniform(-1, 1, size=(n, d))
    return MaxMin(
        n,
        sample=lambda x, rng: A[:, l1_sample(x, rng.random())],
        gradient=lambda i, x: A[i],
        values=lambda x: A @ x,
        bound=lambda p: Simplex(d).support(A.T @ p),
        reads=(n, d, n * d),
    )


def ball() -> MinimumEnclosingBall:
    return MinimumEnclosingBall(dense()[0])


def semidefinite(m: int = 30, n: int = 10) -> SemidefiniteFeasibility:
    A = np.random.default_rng(4).normal(size=(m, n, n))
    A = A + A.transpose(0, 2, 1)
    return SemidefiniteFeasibility(A / np.linalg.norm(A, axis=(1, 2))[:, None, None])


RUNS = {
    "newton, hinge, dense": Run(regularized(dense), Newton(), {"tol": 1e-3}, FEW_ROUNDS),
    "newton, squared hinge, sparse": Run(
        regularized(lambda: sparse(d=300), loss="squared_hinge"), Newton(), {"tol": 1e-3}, FEW_ROUNDS
    ),
    "sdca, hinge, sparse": Run(regularized(sparse), Sdca(), {"tol": 1e-3}, ROUNDING),
    "sdca, squared hinge, dense, no bias": Run(
        regularized(dense, loss="squared_hinge", bias=False), Sdca(), {"tol": 1e-3}, ROUNDING
    ),
    "hybrid, squared hinge, dense": Run(
        regularized(dense, 0.01, loss="squared_hinge", bias=False), Hybrid(), {"tol": 1e-3}, ROUNDING
    ),
    "pegasos, sparse": Run(regularized(sparse), Pegasos(), {"max_iter": 5_000}),
    "simba, dense, budget": Run(slack(dense, 0.05), Simba(), {"budget": 200_000}, ROUNDING),
    "simba as written, sparse, budget": Run(slack(sparse, 0.01), Simba(method="paper"), {"budget": 20_000}, ROUNDING),
    "sublinear perceptron, budget": Run(
        slack(separable, 0.0, bias=False), SublinearPerceptron(eps=0.5), {"budget": 100_000}, ROUNDING
    ),
    "batch perceptron": Run(slack(separable, 0.0), BatchPerceptron(), {"max_iter": 500}),
    "decomposition, kernel": Run(
        regularized(on_kernel, 10.0), Decomposition(first=100, block=64), {"tol": 1e-3}, FEW_ROUNDS
    ),
    "smo, kernel": Run(regularized(on_kernel, 10.0), Smo(), {"tol": 1e-3}, ROUNDING),
    "sbp, kernel, budget": Run(slack(on_kernel, 0.05), StochasticBatchPerceptron(), {"budget": 200_000}, ROUNDING),
    "pegasos, kernel": Run(regularized(on_kernel, 1.0), KernelPegasos(), {"max_iter": 2_000}, ROUNDING),
    "core set, ball": Run(ball, CoreSet(), {"tol": 1e-2}, ROUNDING),
    "sublinear ball": Run(ball, SublinearBall(eps=0.3, constant=1.0), {}, ROUNDING),
    "matrix game": Run(game, PrimalDual(ExponentiatedGradient(40), eps=0.3, constant=3.0)),
    "semidefinite feasibility": Run(semidefinite, SublinearSdp(eps=0.4, constant=1.0), {}, ROUNDING),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help=f"write {RECORDED.name}")
    chosen = parser.parse_args()
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    found = {name: run.counts() for name, run in RUNS.items()}
    for name, counts in found.items():
        lines = differences(recorded.get(name, {}), counts, RUNS[name].tolerance)
        print(f"{name}: {'as recorded' if not lines else '; '.join(lines)}")
    if chosen.record:
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
