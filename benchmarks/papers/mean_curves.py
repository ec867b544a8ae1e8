"""Mean test error of SIMBA and Pegasos against feature accesses, at each parameter value: the curves of Figure 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from common import check_at
from numpy.typing import NDArray
from results import Row, values_of, where

SIMBA, PEGASOS = "SIMBA", "Pegasos"
COUNTS = {"stored": "stored entries", "dense": "all entries, with zeros"}
NEAR = 0.001  # an error at most this much above another counts as having reached it
POINTS = 80  # of a curve, equally far apart on a log scale


@dataclass(frozen=True)
class Curve:
    """All runs with one parameter value: for each way of counting, accesses, mean error and standard deviation."""

    parameter: float
    points: dict[str, tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]
    last_error: float

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Curve:
        runs = [where(rows, seed=seed) for seed in values_of(rows, "seed")]
        points = {}
        for count in COUNTS:
            at = np.geomspace(max(run[0][count] for run in runs), max(run[-1][count] for run in runs), POINTS)
            errors = [np.interp(at, [row[count] for row in run], [row["error"] for row in run]) for run in runs]
            points[count] = at, np.mean(errors, axis=0), np.std(errors, axis=0)
        return cls(rows[0]["parameter"], points, float(np.mean([run[-1]["error"] for run in runs])))

    def until(self, level: float, count: str) -> float:
        """Accesses until the mean error is at most `level` at two points in a row; infinite if it never is."""
        at, mean, _ = self.points[count]
        k = check_at(mean, level)
        return math.inf if k is None else float(at[k])

    def stall(self) -> tuple[float, float]:
        """The lowest mean error plus `NEAR`, and the stored entries after which the mean first reaches that level."""
        at, mean, _ = self.points["stored"]
        level = float(mean.min()) + NEAR
        return level, float(at[np.flatnonzero(mean <= level)[0]])


class Curves:
    """All curves of the rows of a file."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.names = values_of(rows, "set")
        self.grids = {
            (name, method): [Curve.of(where(own, parameter=value)) for value in values_of(own, "parameter")]
            for name in self.names
            for method in (SIMBA, PEGASOS)
            if (own := where(rows, set=name, method=method))
        }

    def best(self, name: str, method: str) -> Curve:
        """The curve of the parameter value with the lowest mean error at the end."""
        return min(self.grids[name, method], key=lambda curve: curve.last_error)

    def at_an_edge(self, name: str, method: str) -> bool:
        """Whether the best parameter value is the smallest or the largest of its grid."""
        grid = [curve.parameter for curve in self.grids[name, method]]
        return self.best(name, method).parameter in (min(grid), max(grid))

    def target(self, name: str) -> float:
        """The error with which Pegasos ends, plus `NEAR`."""
        return self.best(name, PEGASOS).last_error + NEAR

    def ratio(self, name: str, count: str) -> tuple[float, bool]:
        """Accesses of Pegasos to its target divided by those of SIMBA, and whether SIMBA reaches the target.

        If it does not, all accesses of SIMBA count, and the ratio is an upper bound.
        """
        ours = self.best(name, SIMBA)
        theirs, reached = (curve.until(self.target(name), count) for curve in (self.best(name, PEGASOS), ours))
        there = math.isfinite(reached)
        return theirs / (reached if there else float(ours.points[count][0][-1])), there

    def cheapest(self, name: str, method: str, level: float, count: str) -> tuple[float, float]:
        """The fewest accesses to a level, and the parameter value; infinite if no value reaches it."""
        return min((curve.until(level, count), curve.parameter) for curve in self.grids[name, method])

    def times_fewer(self, name: str, level: float, theirs: str, ours: str) -> float:
        """Accesses of Pegasos, counted as `theirs`, divided by those of SIMBA, counted as `ours`.

        NaN unless both reach the level.
        """
        costs = [self.cheapest(name, method, level, count)[0] for method, count in ((PEGASOS, theirs), (SIMBA, ours))]
        return costs[0] / costs[1] if all(map(math.isfinite, costs)) else math.nan

    def times_fewer_than(self, name: str, curve: Curve) -> float:
        """Stored entries after which a curve of Pegasos stalls, divided by those that SIMBA needs to the same level.

        NaN if SIMBA does not reach it.
        """
        level, stalls = curve.stall()
        ours = self.cheapest(name, SIMBA, level, "stored")[0]
        return stalls / ours if math.isfinite(ours) else math.nan
