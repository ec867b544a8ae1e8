"""The pictures of the arena: accuracy against time for all entrants, and times to the same accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from results import draw_svg

from benchmarks.arena.curves import CLOCKS, PRIMAL, TARGETS, Problem, pareto, verdict
from benchmarks.arena.entrants import KERNEL, LINEAR, OURS, SEARCH, displayed
from benchmarks.arena.race import SEARCH as SEARCHES

INK = "#808080"  # readable on light and dark pages
OWN = "#d62728"
STYLE = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK) | {
    "savefig.transparent": True,
    "legend.framealpha": 0.0,
    "font.size": 9,
}
COLOURS = ("#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22", "#7f7f7f")
MARKERS = "osD^v<>PX*p"
FARTHEST, NEAREST = 3.0, 1e-9  # relative suboptimality at the ends of the axis
CLOCK_NAMES = {"wall": "wall seconds", "cpu": "CPU seconds"}


def looks(title: str) -> dict[str, Any]:
    """Line and marker of an entrant, the same in all pictures; maxmargin stands out."""
    if title == OURS:
        return {"color": OWN, "marker": "o", "linewidth": 2.4, "markersize": 5, "zorder": 5}
    for entrants in (LINEAR, KERNEL, SEARCH):
        titles = [entrant.title for entrant in entrants if entrant.title != OURS]
        if title in titles:
            at = titles.index(title)
            return {
                "color": COLOURS[at % len(COLOURS)],
                "marker": MARKERS[at % len(MARKERS)],
                "linewidth": 1.2,
                "markersize": 4,
            }
    return {"color": INK, "marker": ".", "linewidth": 1.2, "markersize": 4}


def draw_set(problems: Sequence[Problem], file: Path) -> None:
    """The curves of all problems of one set."""
    rows = len(panels(problems[0]))
    draw_svg(partial(curves, problems), file, (3.2 * len(problems) + 2.6, 2.7 * rows + 0.3), **STYLE)


def panels(problem: Problem) -> list[tuple[str, str]]:
    """Clock and objective of each row of panels; where the dual objective counts, the primal is shown too."""
    found = [(clock, problem.measure) for clock in CLOCKS]
    return found if problem.measure == PRIMAL else [*found, ("wall", PRIMAL)]


def curves(problems: Sequence[Problem], figure: Any) -> None:
    rows = panels(problems[0])
    grid = figure.subplots(len(rows), len(problems), sharey="row", squeeze=False)
    handles: dict[str, Any] = {}
    for problem, column in zip(problems, grid.T, strict=True):
        for (clock, measure), panel in zip(rows, column, strict=True):
            for title in problem.entrants:
                points = problem.points(title, clock, measure)
                look = looks(title)
                best = pareto(points)
                others = [point for point in points if point not in best]
                panel.plot(*split(others), **{**look, "linestyle": "", "alpha": 0.35})
                line = {"drawstyle": "steps-post", **look}
                (handles[title],) = panel.plot(*split(best), label=title, **line)
            panel.set(xscale="log", xlabel=CLOCK_NAMES[clock])
            if problem.family != SEARCHES:
                panel.set(yscale="log", ylim=(NEAREST, FARTHEST))
            panel.minorticks_off()
            panel.grid(alpha=0.25)
        column[0].set_title(problem.case if problem.family != SEARCHES else problem.set, fontsize=9)
    for (_, measure), panel in zip(rows, grid[:, 0], strict=True):
        what = "test error" if problems[0].family == SEARCHES else f"relative suboptimality\n({measure})"
        panel.set_ylabel(what)
    figure.legend(handles.values(), map(displayed, handles), loc="outside right upper", fontsize=8)


def split(points: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Seconds and distances; exact solutions are drawn at the lower end of the axis."""
    return [point.seconds for point in points], [max(point.distance, NEAREST) for point in points]


def draw_summary(problems: Sequence[Problem], file: Path) -> None:
    """Wall seconds to the same accuracy, a line for each problem where maxmargin and a peer reach it."""
    compared = [problem for problem in problems if reached_by(problem)]
    draw_svg(partial(summary, compared), file, (8.6, 0.34 * len(compared) + 1.4), **STYLE)


def reached_by(problem: Problem) -> dict[str, float]:
    """Seconds of the entrants that reach the accuracy; empty unless maxmargin and a peer do."""
    seconds = {title: problem.seconds_to(title, target_of(problem), "wall") for title in problem.entrants}
    there = {title: value for title, value in seconds.items() if math.isfinite(value)}
    return there if OURS in there and len(there) > 1 else {}


def target_of(problem: Problem) -> float:
    """The accuracy at which the summary compares the entrants."""
    return problem.error_target() if problem.family == SEARCHES else TARGETS[0]


def summary(problems: Sequence[Problem], figure: Any) -> None:
    panel = figure.subplots()
    for line, problem in enumerate(problems):
        found = verdict(problem, target_of(problem))
        assert found is not None
        for title, seconds in reached_by(problem).items():
            if title not in (OURS, found.who):
                panel.plot(seconds, line, "o", color=INK, markersize=3.5, alpha=0.55)
        panel.plot([found.ours, found.peer], [line, line], color=INK, linewidth=1, zorder=1)
        panel.plot(found.peer, line, "o", color=COLOURS[0], markersize=6)
        panel.plot(found.ours, line, "o", color=OWN, markersize=7)
        text, at = f"{found.ratio:.2g}×  {displayed(found.who)}", ("axes fraction", "data")
        panel.annotate(text, (1.01, line), xycoords=at, va="center", fontsize=8)
    panel.set_yticks(range(len(problems)), [problem.name for problem in problems])
    label = f"wall seconds to a relative suboptimality of {TARGETS[0]:g}"
    if any(problem.family == SEARCHES for problem in problems):
        label += "\n(searches: to the lowest test error plus one standard error)"
    panel.set(xscale="log", xlabel=label, ylim=(-0.7, len(problems) - 0.3))
    panel.invert_yaxis()
    panel.grid(axis="x", alpha=0.25)
    for title, colour in ((OURS, OWN), ("best peer, named on the right", COLOURS[0]), ("other peers", INK)):
        panel.plot([], [], "o", color=colour, label=title)
    figure.legend(loc="outside upper left", ncols=3, fontsize=8)
