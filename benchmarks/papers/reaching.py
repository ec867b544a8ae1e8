"""Accesses until a method reaches an exactly known error, and a search for the parameter that needs the fewest."""

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

COARSE, FINE = 10.0, math.sqrt(10)  # factors between neighbouring values: of the grid, and around its best value
MOST_VALUES = 8  # the grid grows to this size at most, even if its best value is still at an end


@dataclass(frozen=True)
class Group:
    """Samples of one kind, multiplied by their labels: the share of the kind, and mean and variance of each feature."""

    share: float
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """A known distribution, used like a holdout. Features are independent within a group.

    Inner products with w are taken to be normal. That is exact for normal features, and a good approximation for sums
    of many features that are often zero.
    """

    groups: Sequence[Group]

    def error_of(self, w: NDArray[np.float64]) -> float:
        """The probability that w, without a bias, misclassifies a sample."""
        if not w.any():
            return 0.5
        parts = ((g.share, w @ g.mean, (w * w) @ g.variance) for g in self.groups)
        return float(sum(share * ndtr(-mean / math.sqrt(variance)) for share, mean, variance in parts))

    def error(self, solution: Any, scale: float) -> float:
        """Called like the method of :class:`maxmargin.solvers.Holdout`, which estimates the error from samples."""
        return self.error_of(np.asarray(solution.w))


class Reached(NamedTuple):
    """Accesses until the error stays at or below a level; NaN if it does not within the budget."""

    stored: float
    dense: float  # counting zeros too
    last_error: float


def accesses_until(problem: Any, solver: Any, truth: Any, level: float, budget: float, seed: int) -> Reached:
    """Run a solver until two checks in a row are at or below the level; the first of the two counts."""
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
    """Measure at each value of a grid that grows while its best value (of the lowest score) is at an end.

    Then measure at the values next to the best one. Nothing lies beyond a value of 0.
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
