"""Run entrants at their series of settings on one problem, in turns: the time and the accuracy of each fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from results import FULL, QUICK
from workers import Stopped, WorkerProcess

from benchmarks.arena.entrants import Entrant
from benchmarks.arena.environments import Installed

# Kinds of rows: a problem, a fit, the end of an entrant's series, a search, a missing entrant or set, and the wall
# seconds of a whole set.
CASE, FIT, STOPPED, SEARCH, MISSING, TOOK = "case", "fit", "stopped", "search", "missing", "took"
SEARCH_PATIENCE = 10  # a search may take this many times as long as a fit
BEST = 1e-6  # relative suboptimality at which the series of an entrant ends
FAR_BEHIND = 10  # the series also ends with a fit that takes this many times as long as one that reached BEST

Judge = Callable[[Mapping[str, Any]], dict[str, Any]]


class Limits(NamedTuple):
    """How long a run may take, and how often fits are repeated."""

    cap: float  # CPU seconds per core for a fit
    repeats: int  # how often a fit runs at most
    enough: float  # a fit is not repeated once its runs have taken this many wall seconds together
    reference: float  # wall seconds to find the optimum


LIMITS = {QUICK: Limits(cap=2, repeats=2, enough=0.2, reference=10), FULL: Limits(60, 3, 20, 600)}


@dataclass
class Ring:
    """The mode of a run, the installed packages, and why others are missing."""

    mode: str
    installed: Mapping[str, Installed]
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        return LIMITS[self.mode]

    def processes(
        self, entrants: Sequence[Entrant], start: Callable[[Entrant, str], WorkerProcess]
    ) -> tuple[dict[str, WorkerProcess], list[dict[str, Any]]]:
        """A process for each available entrant, and a row for each missing one."""
        started = {
            entrant.title: start(entrant, self.installed[entrant.package].python)
            for entrant in entrants
            if entrant.package in self.installed
        }
        found: dict[str, WorkerProcess] = {}
        rows = []
        for entrant in entrants:
            process = started.get(entrant.title)
            if process is not None and not process.missing:
                found[entrant.title] = process
                continue
            if process is not None:
                process.end()
            why = process.missing if process else self.reasons.get(entrant.package, "it is not installed")
            rows.append({"kind": MISSING, "entrant": entrant.title, "note": why})
        return found, rows


@dataclass(frozen=True)
class Contestant:
    """An entrant, its process, and the request for a rung of its ladder."""

    entrant: Entrant
    process: WorkerProcess
    request: Callable[[float], dict[str, Any]]


def race(kind: str, contestants: Sequence[Contestant], judge: Judge, limits: Limits) -> list[dict[str, Any]]:
    """Let all entrants climb their ladders in turns, then repeat quick fits; each rung has a row with its best times.

    `judge` returns columns that say how good a model is; a true value of "done", which is not a column, ends the climb.
    An entrant that is far behind one that is done also ends its climb, because tighter settings only take longer.
    """
    rows: dict[tuple[str, float], dict[str, Any]] = {}
    spent: dict[tuple[str, float], float] = {}
    stopped: list[dict[str, Any]] = []
    going = list(contestants)
    least, leader = math.inf, ""  # wall seconds and entrant of the quickest fit that is done
    height = max((len(each.entrant.ladder) for each in contestants), default=0)
    for step in range(height):
        for each in list(going):
            if step >= len(each.entrant.ladder):
                going.remove(each)
                continue
            rung, title = each.entrant.ladder[step], each.entrant.title
            try:
                model, cpu, wall = each.process.ask(each.request(rung), limits.cap)
            except Stopped as reason:
                note = f"{reason} s on each core" if str(reason).startswith(">") else str(reason)
                stopped.append({"kind": STOPPED, "entrant": title, "rung": rung, "note": note})
                going.remove(each)
                continue
            worth = judge(model)
            if worth.pop("done", False):
                going.remove(each)
                least, leader = min((least, leader), (wall, title))
            elif wall > FAR_BEHIND * least:
                note = f"takes more than {FAR_BEHIND} times as long as {leader} to {BEST:g}"
                stopped.append({"kind": STOPPED, "entrant": title, "rung": rung, "note": note})
                going.remove(each)
            rows[title, rung] = {
                "kind": kind, "entrant": title, "rung": rung, "wall": wall, "cpu": cpu, "runs": 1, **worth
            }  # fmt: skip
            spent[title, rung] = wall
    for _ in range(limits.repeats - 1):
        for each in contestants:
            for rung in each.entrant.ladder:
                key = each.entrant.title, rung
                if key in rows and spent[key] < limits.enough:
                    try:
                        _, cpu, wall = each.process.ask(each.request(rung), 2 * limits.cap)
                    except Stopped:  # the times of the earlier runs stay
                        spent[key] = math.inf
                        continue
                    spent[key] += wall
                    best = rows[key]
                    best |= {"wall": min(best["wall"], wall), "cpu": min(best["cpu"], cpu), "runs": best["runs"] + 1}
    return [*rows.values(), *stopped]


def digits(value: float) -> str:
    """An objective as the file keeps it, with enough digits for small suboptimalities."""
    return f"{value:.12g}"
