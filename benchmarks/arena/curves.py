"""What the rows of the arena's file say: suboptimality, time to an accuracy, Pareto curves, and verdicts."""

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
LEAST = 1e-4  # seconds: the clock of a process may stand still during a shorter fit


class Point(NamedTuple):
    """A fit: its seconds, and how far from the best its model is."""

    seconds: float
    distance: float


@dataclass(frozen=True)
class Problem:
    """One case of a set: what is known of it, and the rows of all fits."""

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
        """What is compared: the dual objective where all entrants maximise that one, else the primal one."""
        return DUAL if self.family == "kernel" else PRIMAL

    @property
    def entrants(self) -> list[str]:
        """Those that ran, ours first."""
        found = list(dict.fromkeys(row["entrant"] for row in self.rows))
        return sorted(found, key=lambda title: title != OURS)

    def optimum(self, measure: str) -> float:
        """The best that anyone reached."""
        found = [row[measure] for row in (self.about, *where(self.rows, kind=FIT)) if row[measure] is not None]
        values = [value for value in found if math.isfinite(value)]  # some methods diverge
        return min(values) if measure == PRIMAL else max(values)

    def known_within(self) -> float:
        """The relative difference of the best primal and the best dual value: no optimum is farther."""
        return self.optimum(PRIMAL) / self.optimum(DUAL) - 1

    def distance(self, row: Row, measure: str) -> float:
        """Relative suboptimality of a fit, or the test error of a search."""
        if self.family == SEARCH:
            return row["error"]
        best = self.optimum(measure)
        return abs(row[measure] - best) / abs(best)

    def points(self, title: str, clock: str, measure: str = "") -> list[Point]:
        """All fits of an entrant, by their seconds."""
        fits = [row for row in self.rows if row["entrant"] == title and row["kind"] in (FIT, SEARCH)]
        points = [Point(max(row[clock], LEAST), self.distance(row, measure or self.measure)) for row in fits]
        return sorted(point for point in points if math.isfinite(point.distance))

    def seconds_to(self, title: str, target: float, clock: str, measure: str = "") -> float:
        """The least seconds of a fit that is good enough; infinite if there is none."""
        good = [at.seconds for at in self.points(title, clock, measure) if at.distance <= target]
        return min(good, default=math.inf)

    def error_target(self) -> float:
        """Of a search: the least test error that anyone has, and one standard error more."""
        least = min(row["error"] for row in where(self.rows, kind=SEARCH))
        return least + math.sqrt(max(least * (1 - least), 0) / self.about["tested"])

    def note(self, title: str) -> str:
        """Why an entrant went no farther, if it was stopped."""
        return "; ".join(f"{row['note']} at {row['rung']:g}" for row in where(self.rows, entrant=title, kind=STOPPED))


def pareto(points: Sequence[Point]) -> list[Point]:
    """Those that are better than all that took less time."""
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
    """Entrants and sets that are not there, by reason."""
    found: dict[str, list[str]] = {}
    for row in where(rows, kind=MISSING):
        names = found.setdefault(str(row["note"]), [])
        name = str(row.get("entrant") or row[TASK])
        if name not in names:
            names.append(name)
    return found


@dataclass(frozen=True)
class Verdict:
    """Our seconds and those of the best peer to the same accuracy; infinite where it was not reached."""

    problem: Problem
    target: float
    ours: float
    peer: float
    who: str

    @property
    def ratio(self) -> float:
        """The best peer's time to ours; NaN if neither gets there."""
        return math.nan if math.isinf(self.ours) and math.isinf(self.peer) else self.peer / self.ours


def verdict(problem: Problem, target: float, clock: str = "wall", measure: str = "") -> Verdict | None:
    """None where ours or all peers did not take part."""
    titles = problem.entrants
    if OURS not in titles or len(titles) == 1:
        return None
    seconds = {title: problem.seconds_to(title, target, clock, measure) for title in titles}
    ours = seconds.pop(OURS)
    who = min(seconds, key=seconds.__getitem__)
    return Verdict(problem, target, ours, seconds[who], who)
