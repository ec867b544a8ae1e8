"""The smallest enclosing ball: core sets and the sublinear algorithm, by entries read and by CPU seconds.

    python benchmarks/ball.py                                   # all parts
    python benchmarks/ball.py --parts dense wide --rows 20000 --columns 200    # two parts, on smaller data

dense    cost of a radius within 1 % of the least, on a float32 matrix of --rows x --columns
wide     the same on few rows of many columns, where reading columns is cheap
mnist    the same on 60,000 digits
soft     balls with nu, without and with a Gaussian kernel (gamma = 0.02), around 20,000 digits, to a gap of 0.1 %, and
         scikit-learn's OneClassSVM, which has the same optimum with this kernel
promise  the error of the sublinear algorithm as a share of eps, over the seeds
growth   entries that the sublinear algorithm reads as n, d and eps change: fitted exponents and those of the theorem

The generated data is no easier than it looks: Gaussian rows of norm 0.5, and a small share of far rows, of norm 1 in
one of five directions, which alone determine the ball. A ball around the mean of all rows is 12 % too large, no matter
how many rows are read to find the mean.

A method is stopped when its radius is within 1 % of the least. The radius is measured at each check on all rows; these
reads are not counted. The sublinear algorithm needs the norms of the rows and, by default, their distances to a mean.
The column "scale" shows the passes over the data that this takes. A problem that is given the norms does not need them.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import numpy as np
from common import arguments, exponent, markdown, mnist_digits, parse_with_threads, write_json
from sklearn.svm import OneClassSVM

import maxmargin
from maxmargin import solve
from maxmargin.problems import MinimumEnclosingBall
from maxmargin.solvers import CoreSet, Progress, Solver, SublinearBall

PARTS = ("dense", "wide", "mnist", "soft", "promise", "growth")
FAR, DIRECTIONS = 0.002, 5
WITHIN = 0.01
BLOCK = 1000  # rows generated at a time


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the part dense")
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--wide", type=int, nargs=2, default=(2_000, 50_000), help="rows and columns of the part wide")
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds of promise and growth")
    parser.add_argument("--digits", type=int, default=20_000, help="rows of the part soft")
    parser.add_argument("--passes", type=float, default=20.0, help="maximum number of passes over the data")
    chosen = parse_with_threads(parser)
    figures: dict[str, Any] = {}
    for part in chosen.parts:
        print(f"\n## {part}\n", flush=True)
        if part == "dense":
            figures[part] = race(made(chosen.rows, chosen.columns), chosen.passes)
        elif part == "wide":
            figures[part] = race(made(*chosen.wide), chosen.passes)
        elif part in ("mnist", "soft"):
            try:
                X = mnist_digits("train")[0]
            except FileNotFoundError as missing:
                print(missing, file=sys.stderr)
                continue
            figures[part] = race(X, chosen.passes) if part == "mnist" else soft(X[: chosen.digits])
        elif part == "promise":
            figures[part] = promise(chosen.seeds)
        else:
            figures[part] = growth(chosen.seeds)
    write_json(chosen.json, figures)


def made(n: int, d: int, seed: int = 0) -> Any:
    """Gaussian rows of norm 0.5, and a few far rows of norm 1."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, d), dtype=np.float32)
    for start in range(0, n, BLOCK):
        some = X[start : start + BLOCK]
        rng.standard_normal(out=some, dtype=np.float32)
        some *= 0.5 / math.sqrt(d)
    far = rng.choice(n, max(2 * DIRECTIONS, round(FAR * n)), replace=False)
    X[far] *= 0.1
    X[far, np.arange(far.size) % DIRECTIONS] += 1.0
    return X


# Radius within 1 %


def race(X: Any, passes: float) -> list[dict[str, Any]]:
    exact = solve(MinimumEnclosingBall(X), CoreSet(), tol=1e-6)
    least = exact.certificate.dual
    mean = MinimumEnclosingBall(X).evaluate(X.mean(axis=0, dtype=np.float64)).value
    print(
        f"{X.shape[0]:,} x {X.shape[1]:,}: least radius {least:.6g} ({exact.n_iter} iterations of core_set to a gap of "
        f"1e-6); a ball around the mean of all rows is {mean / least - 1:.1%} larger\n"
    )
    methods: dict[str, Solver] = {
        "core_set": CoreSet(),
        "core_set, Badoiu and Clarkson": CoreSet(method="paper"),
        "sublinear_ball": SublinearBall(),
        "sublinear_ball, 8 columns": SublinearBall(columns=8),
        "sublinear_ball, origin 0": SublinearBall(centred=False),
    }
    runs = [{"method": name, **reach(X, solver, least, passes)} for name, solver in methods.items()]
    cells = [
        [
            run["method"],
            f"{run['reached']:.2%}",
            f"{run['share']:.1%}" if run["reached"] <= WITHIN else f"> {run['share']:.1%}",
            f"{run['scale']:.1%}",
            f"{run['seconds']:.2f}",
            f"{run['iterations']:,}",
        ]
        for run in runs
    ]
    print(markdown(["method", "above the least", "read to learn", "scale", "CPU seconds", "iterations"], cells))
    return runs


def reach(X: Any, solver: Solver, least: float, passes: float) -> dict[str, Any]:
    """Run until the radius is within 1 % of the least, or until `passes` passes over the data were read."""
    problem, watch = MinimumEnclosingBall(X), Watch(least)
    watch.problem = problem
    started = time.process_time()
    result = solve(
        problem,
        solver,
        tol=0.0 if isinstance(solver, CoreSet) else None,
        budget=round(passes * X.size),
        certify=False,
        callback=watch,
        random_state=0,
    )
    seconds = time.process_time() - started - watch.seconds
    reads = result.reads
    return {
        "reached": watch.above,
        "share": reads["learning"] / X.size,
        "scale": reads.get("scale", 0) / X.size,
        "seconds": seconds,
        "iterations": result.n_iter,
    }


class Watch:
    """Stops a run whose radius is within 1 % of the least; the cost of measuring the radius is not counted."""

    problem: MinimumEnclosingBall

    def __init__(self, least: float) -> None:
        self.least, self.above, self.seconds = least, math.inf, 0.0

    def __call__(self, progress: Progress) -> bool:
        started = time.process_time()
        with self.problem.ledger.on("benchmark"):
            self.above = self.problem.evaluate(progress.solution().w).value / self.least - 1
        self.seconds += time.process_time() - started
        return self.above <= WITHIN


# Soft balls and kernels


def soft(X: Any) -> list[dict[str, Any]]:
    n, gamma = X.shape[0], 0.02
    runs = []
    for kernel in (None, "rbf"):
        for nu in (0.0, 0.01, 0.1):
            started = time.process_time()
            ball = maxmargin.EnclosingBall(nu, kernel=kernel, gamma=gamma, tol=1e-3, n_jobs=1).fit(X)
            seconds = time.process_time() - started
            read = ball.entries_read_ / X.size if kernel is None else ball.kernel_evaluations_ / n**2
            runs.append(
                {
                    "method": f"nu = {nu:g}" + (", Gaussian kernel" if kernel else ""),
                    "seconds": seconds,
                    "rows with a weight": ball.support_.size,
                    "read": f"{read:.1f} times the data" if kernel is None else f"{read:.1%} of the kernel matrix",
                }
            )
            if kernel is not None and nu > 0:
                started = time.process_time()
                peer = OneClassSVM(nu=nu, gamma=gamma).fit(X)
                seconds = time.process_time() - started
                name = "the same by OneClassSVM"
                runs.append({"method": name, "seconds": seconds, "rows with a weight": peer.support_.size, "read": ""})
    print(f"{n:,} digits\n")
    cells = [[f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in run.values()] for run in runs]
    print(markdown(["", "CPU seconds", "rows with a weight", "read, or evaluated"], cells))
    return runs


# The theorem


def promise(seeds: int) -> list[dict[str, Any]]:
    """The error of the squared radius as a share of eps, in units of the largest squared distance from the origin."""
    X = made(500, 50)
    problem = MinimumEnclosingBall(X)
    least, largest = solve(problem, CoreSet(), tol=1e-8).certificate.dual, math.sqrt(problem.sq_norms().max())
    runs = []
    for constant in (1.0, 3.0):
        for eps in (0.4, 0.2, 0.1):
            solver = SublinearBall(eps=eps, constant=constant, centred=False)
            values = [
                solve(MinimumEnclosingBall(X), solver, random_state=seed).certificate.primal for seed in range(seeds)
            ]
            errors = [(value**2 - least**2) / largest**2 / eps for value in values]
            runs.append({"constant": constant, "eps": eps, "T": solver.rounds(problem), "errors": errors})
    print(f"500 x 50, {seeds} seeds; the theorem promises a share below 1 in half of the runs, with a constant of 23\n")
    cells = [
        [
            f"{run['constant']:g}",
            f"{run['eps']:g}",
            f"{run['T']:,}",
            f"{np.median(run['errors']):.3f}",
            f"{max(run['errors']):.3f}",
            f"{np.mean(np.array(run['errors']) <= 1):.0%}",
        ]
        for run in runs
    ]
    print(markdown(["constant", "eps", "T", "median error / eps", "largest", "within eps"], cells))
    return runs


def growth(seeds: int) -> dict[str, Any]:
    """Entries read in columns and in rows, at a constant of 1."""
    sizes = {
        "n": [(n, 8000, 0.2) for n in (50, 100, 200, 400, 800)],
        "d": [(100, d, 0.2) for d in (1000, 2000, 4000, 8000)],
        "eps": [(100, 4000, eps) for eps in (0.4, 0.2, 0.1, 0.05)],
    }
    theory = {"n": ("1, and a logarithm", "0, and a logarithm"), "d": ("0", "1"), "eps": ("-2", "-1, and a logarithm")}
    fits, cells = {}, []
    for name, cases in sizes.items():
        reads = [read(*case, min(seeds, 3)) for case in cases]
        at = [case[("n", "d", "eps").index(name)] for case in cases]
        fits[name] = {part: exponent(at, [r[part] for r in reads]) for part in ("columns", "rows")}
        cells.append([name, *(f"{fits[name][part]:.2f}" for part in ("columns", "rows")), *theory[name]])
    print(markdown(["in", "columns: exponent", "rows: exponent", "theorem, columns", "theorem, rows"], cells))
    return fits


def read(n: int, d: int, eps: float, seeds: int) -> dict[str, float]:
    X, columns, rows = made(n, d), [], []
    for seed in range(seeds):
        result = solve(MinimumEnclosingBall(X), SublinearBall(eps=eps, constant=1.0), certify=False, random_state=seed)
        rows.append(d * result.state.run.draws)
        columns.append(result.reads["learning"] - rows[-1])
    return {"columns": float(np.mean(columns)), "rows": float(np.mean(rows))}


if __name__ == "__main__":
    main()
