"""What it takes a method to reach an error that is known exactly, and the parameter with which it takes least."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from common import check_at
from numpy.typing import NDArray
from scipy.special import ndtr

from maxmargin import solve
from maxmargin.solvers import Progress

COARSE, FINE = 10.0, math.sqrt(10)  # the factors between neighbouring parameters: of a grid, and around its best
MOST_VALUES = 8  # of the coarse grid; one whose best value is still at its end then is left so


@dataclass(frozen=True)
class Group:
    """Samples of one kind, times their labels: their share of all, and mean and variance of each feature."""

    share: float
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """A distribution, in the place of a holdout. Features are independent within a group.

    Products with w are taken to be normal: exactly so where features are, and nearly so where many features that are
    often zero add up.
    """

    groups: Sequence[Group]

    def error_of(self, w: NDArray[np.float64]) -> float:
        """The share of the distribution that a direction without a bias gets wrong."""
        if not w.any():
            return 0.5
        parts = ((g.share, w @ g.mean, (w * w) @ g.variance) for g in self.groups)
        return float(sum(share * ndtr(-mean / math.sqrt(variance)) for share, mean, variance in parts))

    def error(self, solution: Any, scale: float) -> float:
        """What :class:`maxmargin.solvers.Holdout` measures on samples."""
        return self.error_of(np.asarray(solution.w))


class Reached(NamedTuple):
    """Accesses until the error stays at a level; NaN where it does not within the budget."""

    stored: float
    dense: float  # if zeros were stored, too
    last_error: float


def accesses_until(problem: Any, solver: Any, truth: Any, level: float, budget: float, seed: int) -> Reached:
    """Of one run, which ends as soon as two checks in a row are at the level or below."""
    ledger = problem.X.ledger
    stored, dense, looks = ledger.entries_read, ledger.dense_count, []

    def look(progress: Progress) -> bool:
        looks.append((ledger.entries_read - stored, ledger.dense_count - dense, progress.row.holdout_error))
        return check_at([error for _, _, error in looks[-2:]], level) is not None

    solve(problem, solver, budget=int(budget), holdout=truth, certify=False, callback=look, random_state=seed)
    k = check_at([error for _, _, error in looks], level)
    there = (math.nan, math.nan) if k is None else looks[k][:2]
    return Reached(float(there[0]), float(there[1]), looks[-1][2])


def widened(measure: Callable[[float], Any], score: Callable[[Any], Any], start: Sequence[float]) -> dict[float, Any]:
    """What was measured at each value of a grid that grows while its best value, of the least score, is at an end.

    The values beside the best one are then measured, too. A value of 0 is an end that nothing lies beyond.
    """
    found = {value: measure(value) for value in start}

    def best() -> float:
        return min(found, key=lambda value: score(found[value]))

    while len(found) < MOST_VALUES and (best() == max(found) or best() == min(found) > 0):
        value = best() * COARSE if best() == max(found) else best() / COARSE
        found[value] = measure(value)
    middle = best()
    for value in (middle * FINE, middle / FINE):
        if value > 0:
            found[value] = measure(value)
    return found
