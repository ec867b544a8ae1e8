"""The sublinear game compared with its theorems: errors against eps, and cost against n, d and eps.

    python benchmarks/sublinear.py --json sublinear.json

There are three solvers: `PrimalDual` on matrix games, `SublinearPerceptron` on separable data, and its kernelised form
with the kernel (<x, z> + 1/4)^2 on two circles in two of the dimensions.

The first table shows errors at the constants of the theorems: for each eps, the share of seeds whose value is within
eps of the best (the theorems promise 1/2), and the mean and the largest error. The second table shows the cost: the
fitted exponents of the entries read and of the CPU seconds of a run in n (at a small d), in d (at a small n) and in
1 / eps, and those of the theorems. The exponents do not depend on the constant, which is 1 here. Entries of X are
counted; for the kernelised form, another column adds those that its kernel evaluations read, 2 d each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import arguments, exponent, markdown, parse_with_threads, write_json
from scipy.optimize import linprog

from maxmargin import SlackSVM, solve
from maxmargin.core import l1_sample
from maxmargin.game.sets import Simplex
from maxmargin.kernels.feature_samples import ENTRIES
from maxmargin.kernels.functions import Poly
from maxmargin.problems import KernelMatrix, MaxMin, Problem, RegularizedSVM
from maxmargin.solvers import (
    BatchPerceptron,
    ExponentiatedGradient,
    KernelSublinearPerceptron,
    PrimalDual,
    Smo,
    Solver,
    SublinearPerceptron,
)

UNLIMITED = 2**62
MEASURED = ("mean", "largest", "seconds")
KERNEL = Poly(gamma=1.0, coef0=0.25, degree=2)


@dataclass(frozen=True)
class Entrant:
    """A solver, problems for it, and the exponents of its cost in n, in d and in 1 / eps by its theorem."""

    name: str
    make: Callable[[int, int, int], Problem]  # from n, d and a seed
    best: Callable[[Problem], float]
    solver: Callable[[Problem, float, float | None], Solver]  # from an eps and a constant, None for the theorem's
    theorem: tuple[str, str, str]


def game(n: int, d: int, seed: int) -> MaxMin:
    A = np.random.default_rng(seed).uniform(-1, 1, size=(n, d))
    problem = MaxMin(
        n,
        sample=lambda x, rng: A[:, l1_sample(x, rng.random())],
        gradient=lambda i, x: A[i],
        values=lambda x: A @ x,
        bound=lambda p: Simplex(d).support(A.T @ p),
        reads=(n, d, n * d),
    )
    problem.A = A
    return problem


def value_of_game(problem: Any) -> float:
    n, d = problem.A.shape
    answer = linprog(
        np.r_[np.zeros(d), -1.0],
        A_ub=np.column_stack([-problem.A, np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=[np.r_[np.ones(d), 0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * d + [(None, None)],
    )
    return float(-answer.fun)


def clouds(n: int, d: int, seed: int) -> SlackSVM:
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    y[:2] = [1.0, -1.0]
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    X[:, 0] = 0.5 * y * (1 + rng.random(n))
    return SlackSVM(X, y, 0.0, bias=False)


def circles(n: int, d: int, seed: int) -> SlackSVM:
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    X = 0.2 * rng.normal(size=(n, d)) / math.sqrt(d)
    angle = rng.uniform(0, 2 * np.pi, size=n)
    X[:, :2] = np.where(y > 0, 1.0, 0.3)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return SlackSVM(KernelMatrix(X, KERNEL), y, 0.0, bias=False)


def largest_margin(problem: Any) -> float:
    """An upper bound on the margin that is hardly larger than the largest margin."""
    if isinstance(problem.X, KernelMatrix):  # the hard margin is 1 / |w| at a large C, in the units of the scaled data
        exact = solve(RegularizedSVM(problem.X, problem.y, 1e6, bias=False), Smo(), tol=1e-4)
        w = exact.solution.w
        return float(1 / math.sqrt(w @ w) / problem.scale)
    return solve(problem, BatchPerceptron(), max_iter=20_000).certificate.dual


ENTRANTS = [
    Entrant(
        "primal_dual, matrix game",
        game,
        value_of_game,
        lambda problem, eps, constant: PrimalDual(
            ExponentiatedGradient(problem.A.shape[1]), eps=eps, **({} if constant is None else {"constant": constant})
        ),
        ("1", "1", "2"),
    ),
    Entrant(
        "sublinear_perceptron",
        clouds,
        largest_margin,
        lambda problem, eps, constant: SublinearPerceptron(
            eps=eps, **({} if constant is None else {"constant": constant})
        ),
        ("1", "1", "2"),
    ),
    Entrant(
        "sublinear_perceptron, kernel",
        circles,
        largest_margin,
        lambda problem, eps, constant: KernelSublinearPerceptron(
            eps=eps, **({} if constant is None else {"constant": constant})
        ),
        ("1", "1", "2 (4 with evaluations)"),
    ),
]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--errors", type=int, nargs=2, default=[20, 8], metavar=("N", "D"), help="n and d for errors")
    parser.add_argument("--eps", type=float, nargs="+", default=[0.8, 0.4])
    parser.add_argument("--small", type=int, default=100, help="the fixed n or d, while the other grows")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 2_000, 4_000, 8_000], help="values of n or d")
    parser.add_argument("--cost-eps", type=float, nargs="+", default=[0.2, 0.1, 0.05, 0.025], help="eps for the cost")
    parser.add_argument("--only", nargs="+", default=[entrant.name for entrant in ENTRANTS])
    chosen = parse_with_threads(parser)
    entrants = [entrant for entrant in ENTRANTS if entrant.name in chosen.only]
    figures: dict[str, Any] = {"errors": [], "cost": []}

    print(f"Errors, n = {chosen.errors[0]}, d = {chosen.errors[1]}, {chosen.seeds} seeds, the theorem's constants\n")
    for entrant in entrants:
        for eps in chosen.eps:
            figures["errors"].append(errors(entrant, *chosen.errors, eps, chosen.seeds))
            print(f"{entrant.name}, eps {eps}: done", flush=True)
    lines = [
        [f["name"], f["eps"], f["rounds"], f"{f['within']:.0%}", *(f"{f[k]:.3f}" for k in MEASURED)]
        for f in figures["errors"]
    ]
    print("\n" + markdown(["", "eps", "rounds", "within eps", "mean error", "largest", "seconds a run"], lines))

    for entrant in entrants:
        varied = {
            "n": [(size, chosen.small, 0.1) for size in chosen.sizes],
            "d": [(chosen.small, size, 0.1) for size in chosen.sizes],
            "1 / eps": [(chosen.sizes[0], chosen.sizes[0], eps) for eps in chosen.cost_eps],
        }
        for over, cases in varied.items():
            for n, d, eps in cases:
                figures["cost"].append({"over": over, **cost(entrant, n, d, eps)})
            print(f"{entrant.name}, cost over {over}: done", flush=True)
    header = ["exponents of", "in", "entries", "with evaluations", "seconds", "theorem"]
    print("\n" + markdown(header, fitted(figures["cost"], entrants)))
    write_json(chosen.json, figures)


def errors(entrant: Entrant, n: int, d: int, eps: float, seeds: int) -> dict[str, Any]:
    """How far the answers are below the best value; each seed has a problem of its own."""
    short, started, rounds = [], 0.0, 0
    for seed in range(seeds):
        problem = entrant.make(n, d, seed)
        best = entrant.best(problem)
        before = time.process_time()
        result = solve(problem, entrant.solver(problem, eps, None), random_state=seed)
        started += time.process_time() - before
        assert result.status == "finished"
        short.append(best - result.certificate.primal)
        rounds = result.n_iter
    return {
        "name": entrant.name,
        "eps": eps,
        "rounds": rounds,
        "within": float(np.mean(np.array(short) <= eps)),
        "mean": float(np.mean(short)),
        "largest": float(np.max(short)),
        "seconds": started / seeds,
    }


def cost(entrant: Entrant, n: int, d: int, eps: float) -> dict[str, Any]:
    """Entries read and CPU seconds of a run."""
    problem: Any = entrant.make(n, d, 0)
    solver = entrant.solver(problem, eps, 1.0)
    T = solver.iterations(problem) or 0
    read, evaluated = counted(problem)
    before = time.process_time()
    solver.step(problem, solver.start(problem, np.random.default_rng(0)), T, UNLIMITED)
    seconds = time.process_time() - before
    entries, evaluations = (now - then for now, then in zip(counted(problem), (read, evaluated), strict=True))
    return {
        "name": entrant.name,
        "n": n,
        "d": d,
        "eps": eps,
        "rounds": T,
        "entries": entries,
        "with evaluations": entries + 2 * d * evaluations,
        "seconds": seconds,
    }


def counted(problem: Any) -> tuple[int, int]:
    """Entries of X read, and kernel evaluations."""
    if isinstance(problem.X, KernelMatrix):
        return problem.X.ledger.summary().get(ENTRIES, 0), problem.X.ledger.entries_read
    return problem.ledger.entries_read, 0


def fitted(figures: list[dict[str, Any]], entrants: list[Entrant]) -> list[list[str]]:
    lines = []
    for entrant in entrants:
        for over, theorem in zip(("n", "d", "1 / eps"), entrant.theorem, strict=True):
            those = [f for f in figures if (f["name"], f["over"]) == (entrant.name, over)]
            at = [1 / f["eps"] if over == "1 / eps" else f[over] for f in those]
            kinds = ("entries", "with evaluations", "seconds")
            lines.append([entrant.name, over, *(f"{exponent(at, [f[k] for f in those]):.2f}" for k in kinds), theorem])
    return lines


if __name__ == "__main__":
    main()
