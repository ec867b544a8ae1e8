"""How much of a dense matrix must be read to find rare hard points, by columns and rows and by rows alone.

    python benchmarks/rare_points.py --json rare_10000.json
    python benchmarks/rare_points.py --size 20000 --folder /tmp --json rare_20000.json

An easy sample is y 0.2 w1; a hard sample, of which there is a share h, is y (-0.1 w1 + 0.4 w2). Gaussian noise in all
directions makes |x| about 0.87. The centroid misclassifies every hard point. The table shows the share of the entries
that a method reads until its exact error on the distribution (without flipped labels) is within 0.1 % of the best
possible, or within h / 2 if that is less, and stays there at 97 % of its later checks. Checks are at iterations that
grow by 10 %, for every method. With --folder, the matrix is memory-mapped. A run that does not reach the error counts
with its budget; the mean is then printed with ">" and the number of seeds that reached it.

The slack and the regularization are chosen from a grid, for each line of the table and each method, by the mean over
the seeds. "fixed" is the default method with one slack for all h: 0 without noise, 0.001 with 2 % flipped labels.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from baselines import Centroid, PassiveAggressive, Pegasos, Perceptron
from common import arguments, described, entries_until, markdown, mean_of, parse_with_threads, write_json
from numpy.typing import NDArray
from scipy.special import ndtr

from maxmargin import SlackSVM, solve
from maxmargin.data import as_matrix
from maxmargin.problems import Solution
from maxmargin.solvers import Simba, Solver

STAYING = 0.97
BLOCK = 1000  # rows generated at a time
SLACKS = {0.0: (0.0, 1e-4, 1e-3), 0.02: (3e-4, 1e-3, 3e-3, 6e-3)}
FIXED_SLACK = {0.0: 0.0, 0.02: 1e-3}
REGULARIZATIONS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3)
# Shares of the entries, for a size of 10,000. The rows needed do not depend on the size, so the shares fall with it.
BUDGET_OF_PAPER, BUDGET_OF_DEFAULT, BUDGET_OF_ROWS_AT_1_PERCENT = 0.2, 0.1, 0.1


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--size", type=int, default=10_000, help="number of rows, and of columns")
    parser.add_argument("--folder", help="folder for a memory-mapped matrix, default: in memory")
    parser.add_argument("--hard", type=float, nargs="+", default=[0.02, 0.005, 0.001], help="shares of hard points")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.02], choices=sorted(SLACKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22, 23, 24])
    chosen = parse_with_threads(parser)
    started, runs = time.perf_counter(), []
    for seed in chosen.seeds:
        with Points.made(chosen.size, seed, chosen.folder) as points:
            for h in chosen.hard:
                points.make_hard(h)
                for noise in chosen.noise:
                    runs += [run(points, seed, h, noise, *method) for method in methods(h, noise, chosen.size)]
                    print(f"seed {seed}, h {h}, noise {noise}: {time.perf_counter() - started:.0f} s", flush=True)
    write_json(chosen.json, {"size": chosen.size, "runs": runs})
    print(f"\n% of the {chosen.size:,} x {chosen.size:,} entries, mean of {len(chosen.seeds)} seeds\n")
    print(table(runs, chosen.hard, chosen.noise))


def methods(h: float, noise: float, size: int) -> Iterator[tuple[str, float, Solver, float]]:
    """Name, grid value, solver and budget (as a share of the entries)."""
    smaller = 10_000 / size
    for slack in SLACKS[noise]:
        yield "SIMBA, paper", slack, Simba(method="paper"), BUDGET_OF_PAPER * smaller
        yield "SIMBA, default", slack, Simba(), BUDGET_OF_DEFAULT * smaller
    rows = BUDGET_OF_ROWS_AT_1_PERCENT * smaller * 0.01 / h
    for regularization in REGULARIZATIONS:
        yield "Pegasos", regularization, Pegasos(regularization=regularization), rows
        yield "Pegasos, averaged", regularization, Pegasos(regularization=regularization, average=1), rows
    yield "perceptron, averaged", 0.0, Perceptron(average=0), rows
    yield "passive-aggressive", 0.0, PassiveAggressive(), rows
    yield "centroid", 0.0, Centroid(), rows


OURS = ("SIMBA, default", "SIMBA, paper")
ROW_READERS = ("Pegasos", "Pegasos, averaged", "perceptron, averaged", "passive-aggressive", "centroid")


def run(
    points: Points, seed: int, h: float, noise: float, name: str, value: float, solver: Solver, budget: float
) -> Any:
    slack = value if isinstance(solver, Simba) else 0.0
    problem = SlackSVM(points.X, points.labels(noise), slack, bias=False, scale=1.0)
    entries = problem.X.n_stored
    truth = Distribution(points, h)
    result = solve(
        problem, solver, budget=int(budget * entries), holdout=truth, certify=False, random_state=seed + 1000
    )
    level = truth.best_error() + min(1e-3, h / 2)
    return {
        "seed": seed,
        "h": h,
        "noise": noise,
        "method": name,
        "value": value,
        "budget": budget,
        "reached": entries_until(result.trace, level, STAYING) / entries,
        "last_error": result.trace[-1].holdout_error,
    }


class Best(NamedTuple):
    """A method at the grid value with the least mean over the seeds."""

    mean: float
    value: float
    reached: list[float]
    budget: float

    @classmethod
    def of(cls, runs: list[Any]) -> Best:
        budget, reached = runs[0]["budget"], {}
        for run in runs:
            reached.setdefault(run["value"], []).append(run["reached"])
        return min(cls(mean_of(figures, budget), value, figures, budget) for value, figures in reached.items())

    def __str__(self) -> str:
        return f"{described(self.reached, self.budget, 0.01, 2)} [{self.value:g}]"

    def against(self, rival: Best) -> str:
        """How many times less than the rival; a bound, or "-", if some seeds of one of them did not reach the error."""
        if np.isnan(self.reached).any():
            return "-"
        return f"{'< ' if np.isnan(rival.reached).any() else ''}1 / {rival.mean / self.mean:.1f}"


def table(runs: list[Any], hard: list[float], noises: list[float]) -> str:
    rows = []
    for noise in noises:
        for h in hard:
            line = [run for run in runs if (run["h"], run["noise"]) == (h, noise)]
            by_name = {name: [run for run in line if run["method"] == name] for name in (*OURS, *ROW_READERS)}
            by_name["fixed"] = [run for run in by_name["SIMBA, default"] if run["value"] == FIXED_SLACK[noise]]
            best = {name: Best.of(by_name[name]) for name in ("fixed", *OURS, *ROW_READERS)}
            rival = min(best[name] for name in ROW_READERS)
            ratios = [best[name].against(rival) for name in ("fixed", "SIMBA, default")]
            rows.append([f"{h:.1%}", f"{noise:.0%}", *best.values(), *ratios])
    return markdown(["h", "noise", *best, "fixed / best of rows", "default / best of rows"], rows)


class Points:
    """A sample of easy points, some of which can be made hard."""

    def __init__(self, X: NDArray[np.float32], seed: int) -> None:
        n, d = X.shape
        rng = np.random.default_rng(seed)
        directions, _ = np.linalg.qr(rng.standard_normal((d, 2)))
        self.w1, self.w2 = directions.T
        self.sigma = math.sqrt((0.87**2 - 0.2**2) / d)
        self.y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        self.hardness, self.noisiness = rng.random(n), rng.random(n)
        for start in range(0, n, BLOCK):
            block = rng.standard_normal((min(BLOCK, n - start), d), dtype=np.float32)
            block *= np.float32(self.sigma)
            block += np.outer(0.2 * self.y[start : start + BLOCK], self.w1).astype(np.float32)
            X[start : start + BLOCK] = block
        self.source, self.X = X, as_matrix(X)
        self.easy: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None

    @classmethod
    @contextmanager
    def made(cls, size: int, seed: int, folder: str | None) -> Iterator[Points]:
        """Points in memory, or in a memory-mapped file that is deleted afterwards."""
        if folder is None:
            yield cls(np.empty((size, size), dtype=np.float32), seed)
            return
        with tempfile.TemporaryDirectory(dir=folder) as place:
            yield cls(np.memmap(f"{place}/rare_points.f32", dtype=np.float32, mode="w+", shape=(size, size)), seed)

    def make_hard(self, h: float) -> None:
        """Make a share h of all points hard, and the others easy again."""
        if self.easy is not None:
            rows, values = self.easy
            self.source[rows] = values
        rows = np.flatnonzero(self.hardness < h)
        self.easy = rows, self.source[rows].copy()
        self.source[rows] += np.outer(self.y[rows], -0.3 * self.w1 + 0.4 * self.w2).astype(np.float32)

    def labels(self, noise: float) -> NDArray[np.float64]:
        return np.where(self.noisiness < noise, -self.y, self.y)


@dataclass(frozen=True)
class Distribution:
    """The distribution of the points, used as a holdout."""

    points: Points
    h: float

    def error(self, solution: Solution, scale: float) -> float:
        """The exact share of the distribution that the solution misclassifies; solutions have no bias."""
        length = float(np.linalg.norm(solution.w))
        if length == 0:
            return 0.5
        return float(self.error_at(solution.w @ self.points.w1 / length, solution.w @ self.points.w2 / length))

    def error_at(self, a1: Any, a2: Any) -> Any:
        sigma = self.points.sigma
        return (1 - self.h) * ndtr(-0.2 * a1 / sigma) + self.h * ndtr((0.1 * a1 - 0.4 * a2) / sigma)

    def best_error(self) -> float:
        angle = np.linspace(0, np.pi / 2, 10_001)
        return float(self.error_at(np.cos(angle), np.sin(angle)).min())


if __name__ == "__main__":
    main()
