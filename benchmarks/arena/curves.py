"""What follows from the rows of the arena's file: suboptimality, time to an accuracy, Pareto curves and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from results import TASK, Row, where

from benchmarks.arena.entrants import OURS
from benchmarks.arena.race import CASE, FIT, MISSING, SEARCH, STOPPED

TARGETS = (1e-3, 1e-4, 1e-6)  # relative suboptimality
PRIMAL, DUAL = "primal", "dual"
CLOCKS = ("wall", "cpu")
LEAST = 1e-4  # seconds; the CPU clock of a process may not advance during a shorter fit


class Point(NamedTuple):
    """A fit: its seconds, and the distance of its model from the optimum."""

    seconds: float
    distance: float


@dataclass(frozen=True)
class Problem:
    """One case of a set: the row that describes it, and the rows of all fits."""

    set: str
    case: str
    about: Row
    rows: Sequence[Row]

    @property
    def family(self) -> str:
        return str(self.about["family"])

    @property
    def name(self) -> str:
        return self.set if self.family == SEARCH else f"{self.set}, {self.case}"

    @property
    def measure(self) -> str:
        """The objective to compare: the dual for kernels, which all entrants maximise, else the primal."""
        return DUAL if self.family == "kernel" else PRIMAL

    @property
    def entrants(self) -> list[str]:
        """The entrants that ran, maxmargin first."""
        found = list(dict.fromkeys(row["entrant"] for row in self.rows))
        return sorted(found, key=lambda title: title != OURS)

    def optimum(self, measure: str) -> float:
        """The best value that any entrant or the reference reached."""
        found = [row[measure] for row in (self.about, *where(self.rows, kind=FIT)) if row[measure] is not None]
        values = [value for value in found if math.isfinite(value)]  # some methods diverge
        return min(values) if measure == PRIMAL else max(values)

    def known_within(self) -> float:
        """The relative difference of the best primal and the best dual value, which bounds the error of the optimum."""
        return self.optimum(PRIMAL) / self.optimum(DUAL) - 1

    def distance(self, row: Row, measure: str) -> float:
        """Relative suboptimality of a fit, or the test error of a search."""
        if self.family == SEARCH:
            return row["error"]
        best = self.optimum(measure)
        return abs(row[measure] - best) / abs(best)

    def points(self, title: str, clock: str, measure: str = "") -> list[Point]:
        """All fits of an entrant, sorted by seconds."""
        fits = [row for row in self.rows if row["entrant"] == title and row["kind"] in (FIT, SEARCH)]
        points = [Point(max(row[clock], LEAST), self.distance(row, measure or self.measure)) for row in fits]
        return sorted(point for point in points if math.isfinite(point.distance))

    def seconds_to(self, title: str, target: float, clock: str, measure: str = "") -> float:
        """The seconds of the fastest fit that reaches the target; infinite if none does."""
        good = [at.seconds for at in self.points(title, clock, measure) if at.distance <= target]
        return min(good, default=math.inf)

    def error_target(self) -> float:
        """The target of a search: the lowest test error of all entrants plus its standard error."""
        least = min(row["error"] for row in where(self.rows, kind=SEARCH))
        return least + math.sqrt(max(least * (1 - least), 0) / self.about["tested"])

    def note(self, title: str) -> str:
        """At which setting an entrant was stopped, and why; empty if it was not."""
        return "; ".join(f"at {row['rung']:g}: {row['note']}" for row in where(self.rows, entrant=title, kind=STOPPED))


def pareto(points: Sequence[Point]) -> list[Point]:
    """The points that are better than all points that took less time."""
    found: list[Point] = []
    for point in sorted(points):
        if not found or point.distance < found[-1].distance:
            found.append(point)
    return found


def problems(rows: Sequence[Row]) -> Iterator[Problem]:
    """All problems, in the order of the file."""
    for about in where(rows, kind=CASE):
        same = where(rows, **{TASK: about[TASK], "case": about["case"]})
        fits = [row for row in same if row["kind"] in (FIT, SEARCH, STOPPED)]
        yield Problem(about[TASK], about["case"], about, fits)


def left_out(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Missing entrants and sets, by reason."""
    found: dict[str, list[str]] = {}
    for row in where(rows, kind=MISSING):
        names = found.setdefault(str(row["note"]), [])
        name = str(row.get("entrant") or row[TASK])
        if name not in names:
            names.append(name)
    return found


@dataclass(frozen=True)
class Verdict:
    """Seconds of maxmargin and of the best peer to the same accuracy; infinite where it was not reached."""

    problem: Problem
    target: float
    ours: float
    peer: float
    who: str

    @property
    def ratio(self) -> float:
        """The time of the best peer divided by that of maxmargin; NaN if neither reaches the target."""
        return math.nan if math.isinf(self.ours) and math.isinf(self.peer) else self.peer / self.ours


def verdict(problem: Problem, target: float, clock: str = "wall", measure: str = "") -> Verdict | None:
    """Compare maxmargin with its best peer; None if maxmargin or all peers did not take part."""
    titles = problem.entrants
    if OURS not in titles or len(titles) == 1:
        return None
    seconds = {title: problem.seconds_to(title, target, clock, measure) for title in titles}
    ours = seconds.pop(OURS)
    who = min(seconds, key=seconds.__getitem__)
    return Verdict(problem, target, ours, seconds[who], who)
