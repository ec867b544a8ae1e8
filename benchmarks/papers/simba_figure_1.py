"""Hazan, Koren, Srebro (2011), Figure 1: test error against feature accesses of SIMBA and Pegasos as published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from common import markdown
from results import Row

from benchmarks.papers.frame import NOT_REPRODUCED, PARTLY, REPRODUCED, Experiment, Verdict, percent, points, shown
from benchmarks.papers.mean_curves import COUNTS, NEAR, PEGASOS, POINTS, SIMBA, Curves
from maxmargin import RegularizedSVM, SlackSVM, solve
from maxmargin.data import as_matrix, find_dataset, read_libsvm
from maxmargin.solvers import Holdout, Pegasos, Simba

LEARNED = 8_000
SETS = {"quick": ("news20",), "full": ("news20", "20news")}
SEEDS = {"quick": 2, "full": 10}
# Wide enough that the best value is not at an end; the smallest lambda of each grid is far too small.
SLACKS = {"news20": (1e-4, 3e-4, 1e-3), "20news": (3e-4, 1e-3, 3e-3, 1e-2)}
LAMBDAS = {"news20": (1e-7, 3e-6, 1e-5, 3e-5, 1e-4), "20news": (1e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)}
# Stored entries that each run may read. In the full run Pegasos stalls before.
BUDGETS = {"quick": {"news20": 40_000_000}, "full": {"news20": 120_000_000, "20news": 40_000_000}}
LEVELS = (0.08, 0.07, 0.06, 0.055, 0.05, 0.0475, 0.045, 0.0425, 0.04, 0.0375)
FIRST, GROWTH = 3e5, 1.2  # the file keeps a check after FIRST entries, and one whenever they have grown by GROWTH
ENOUGH, SOME = 50.0, 2.0  # factors for the verdicts "reproduced" (on all sets) and "partly reproduced" (on one)


class SimbaFigure1(Experiment):
    name = "000-figure-1"
    paper = "Hazan et al. 2011 (SIMBA)"
    what = "Figure 1, test error against feature accesses"
    claim = (
        'On news20 and real-vs-simulated, SIMBA "obtains the same test error as Pegasos achieves at the optimum, using '
        'about 100 times less feature accesses" (section 6, Figure 1).'
    )
    measurement = (
        "Feature accesses of both algorithms, as published, until the test error (mean of the runs) is at most "
        f"{points(NEAR)} above the error with which Pegasos ends. news20 was rebuilt from its source; 20news stands in "
        "for real-vs-simulated, which we do not have."
    )

    def setting(self, mode: str) -> str:
        budgets = " and ".join(
            f"{count / 1e6:g} million stored entries of {name}" for name, count in BUDGETS[mode].items()
        )
        left_out = "" if "20news" in SETS[mode] else " The quick run leaves out 20news."
        return (
            f"Data: {' and '.join(SETS[mode])}; {LEARNED:,} rows for training and the others for testing, split anew "
            "for each run; no bias. news20 was rebuilt from its source and is not identical to the paper's file."
            f"{left_out} SIMBA is Algorithm 1 with the adaptive rates of section 6: each round reads one row and one "
            "column. Pegasos draws each row from all rows, projects, and returns the last iterate. Slack and lambda "
            "are the ones with the lowest mean test error at the end of the runs; like the paper, we choose them on "
            f"the test set. There are {SEEDS[mode]} runs (the paper: 10), each of which reads {budgets}. We count "
            "accesses in two ways: stored entries only, and all entries of the dense matrix including zeros (d for a "
            "row, n for a column). The test error is recorded whenever the accesses have grown by "
            f"{percent(GROWTH - 1)}. The mean over the runs is interpolated at {POINTS} points, equally far apart on a "
            "log scale; a level is reached where the mean is at or below it at two points in a row."
        )

    def tasks(self, mode: str) -> list[str]:
        return [
            f"{name}, seed {seed}, {method} {parameter:g}"
            for seed in range(SEEDS[mode])
            for name in SETS[mode]
            for method, grid in ((SIMBA, SLACKS), (PEGASOS, LAMBDAS))
            for parameter in grid[name]
        ]

    def run(self, task: str, mode: str) -> list[dict[str, Any]]:
        name, _, number, method, value = task.replace(",", "").split()
        seed, parameter = int(number), float(value)
        X, y = text(name)
        order = np.random.default_rng(seed).permutation(y.size)
        learned, tested = order[:LEARNED], order[LEARNED:]
        matrix, labels = as_matrix(X[learned]), y[learned]
        n, d = matrix.shape
        problem, solver, dense = (
            (SlackSVM(matrix, labels, parameter, bias=False), Simba(method="paper"), n + d)
            if method == SIMBA
            else (
                RegularizedSVM(matrix, labels, 1 / (parameter * n), bias=False),
                Pegasos(order="iid", average=None),
                d,
            )
        )
        holdout = Holdout(as_matrix(X[tested]), y[tested])
        result: Any = solve(
            problem, solver, budget=BUDGETS[mode][name], holdout=holdout, certify=False, random_state=seed
        )
        return [
            {
                "set": name,
                "seed": seed,
                "method": method,
                "parameter": parameter,
                "stored": look.entries_read,
                "dense": look.iteration * dense,
                "error": look.holdout_error,
            }
            for look in thinned(result.trace)
        ]

    def verdict(self, rows: Sequence[Row]) -> Verdict:
        curves, figures, mixed = Curves(rows), [], []
        ratios: list[float] = []  # accesses of Pegasos / accesses of SIMBA, or an upper bound
        shown_by: list[float] = []  # the same, but 0 for an upper bound, which is no evidence for the claim
        missed = []
        for name in curves.names:
            for count, meaning in COUNTS.items():
                ratio, there = curves.ratio(name, count)
                ratios.append(ratio)
                shown_by.append(ratio if there else 0.0)
                least = "" if there else "at least "
                figures.append(f"{name}, {meaning}: SIMBA needs {least}{1 / ratio:.2g} times as many as Pegasos")
                if not there and name not in missed:
                    missed.append(name)
            factors = {level: curves.times_fewer(name, level, "dense", "stored") for level in LEVELS}
            known = [level for level, factor in factors.items() if not math.isnan(factor)]
            if known:
                mixed.append(f"{factors[min(known)]:,.0f} on {name} (at an error of {percent(min(known), 2)})")
        word = REPRODUCED if min(shown_by) >= ENOUGH else PARTLY if max(shown_by) >= SOME else NOT_REPRODUCED
        alike = [
            curves.times_fewer(name, level, count, count)
            for name in curves.names
            for level in LEVELS
            for count in COUNTS
        ]
        slow = [curves.times_fewer_than(name, curve) for name in curves.names for curve in curves.grids[name, PEGASOS]]
        edges = [f"{method} on {name}" for name, method in curves.grids if curves.at_an_edge(name, method)]
        figures += [
            "At equal errors (second table), the accesses of Pegasos divided by those of SIMBA are "
            f"{np.nanmin(alike):.2g} to {np.nanmax(alike):.2g}",
            f"If zeros count for Pegasos but not for SIMBA, this ratio is {' and '.join(mixed)}; the paper does not "
            "say how it counts",
            "If lambda is chosen badly, Pegasos stalls at a higher error, and the ratio to that error is "
            f"{np.nanmin(slow):.2g} to {np.nanmax(slow):.2g} (third table)",
            "[The map of generated data](000-regime-map.md) shows on which data reading columns pays",
        ]
        if edges:
            figures.append(f"The best parameter is at the edge of the grid for {', '.join(edges)}")
        why = (
            "Each round of SIMBA reads a row, as an iteration of Pegasos does, and also a column, so SIMBA can win "
            f'only by needing far fewer rounds. The verdict would be "{REPRODUCED}" if SIMBA needed at least '
            f'{ENOUGH:g} times fewer accesses on all sets by both ways of counting zeros, and "{PARTLY}" if it needed '
            f"at least {SOME:g} times fewer on one set by one way of counting."
        )
        bound = (
            f" On {' and '.join(missed)} SIMBA did not reach the error within its budget, so its number there is a "
            "lower bound."
            if missed
            else ""
        )
        found = (
            f"SIMBA needs {1 / max(ratios):.2g} to {1 / min(ratios):.2g} times as many feature accesses as Pegasos, so "
            f"the claimed factor of 100 is {word}.{bound}"
        )
        return Verdict(word, found, figures, why)

    def tables(self, rows: Sequence[Row]) -> str:
        curves = Curves(rows)
        return "\n\n".join(
            (
                "Accesses until the test error stays at the target, which is the error with which Pegasos ends plus "
                f"{points(NEAR)}:",
                table_of_target(curves),
                "Stored entries until an error is reached, each method with the best parameter for that error [in "
                "brackets], and the accesses of Pegasos divided by those of SIMBA. The last column counts zeros for "
                "Pegasos but not for SIMBA:",
                table_of_levels(curves),
                "Where the mean of the runs stalls: its last value, its lowest value, and the stored entries after "
                f"which it is first within {points(NEAR)} of the lowest. The last column divides these entries by "
                "those that SIMBA, with its best slack, needs to the same error:",
                table_of_stalls(curves),
            )
        )

    def draw(self, rows: Sequence[Row], figure: Any) -> None:
        curves = Curves(rows)
        figure.set_size_inches(11, 4.2 * len(curves.names))
        panels = figure.subplots(len(curves.names), len(COUNTS), squeeze=False)
        for line, name in zip(panels, curves.names, strict=True):
            for panel, (count, meaning) in zip(line, COUNTS.items(), strict=True):
                for number, method in enumerate((SIMBA, PEGASOS)):
                    curve = curves.best(name, method)
                    at, mean, deviation = curve.points[count]
                    panel.plot(at, 100 * mean, color=f"C{number}", label=f"{method} [{curve.parameter:g}]")
                    low, high = 100 * (mean - deviation), 100 * (mean + deviation)
                    panel.fill_between(at, low, high, color=f"C{number}", alpha=0.25)
                panel.axhline(100 * curves.target(name), color="grey", lw=0.8, ls=":")
                panel.set(xscale="log", xlabel=f"feature accesses: {meaning}", ylabel="test error, %", title=name)
                panel.set_ylim(0, 30)
                panel.grid(alpha=0.3)
            line[0].legend()


@cache
def text(name: str) -> tuple[Any, Any]:
    (source,) = find_dataset(name).glob("*.bz2")
    return read_libsvm(source, dtype=np.float32)


def thinned(trace: Any) -> list[Any]:
    """The checks that the file keeps."""
    kept: list[Any] = []
    for look in trace:
        if not math.isnan(look.holdout_error) and look.entries_read >= (
            GROWTH * kept[-1].entries_read if kept else FIRST
        ):
            kept.append(look)
    return kept


def table_of_target(curves: Curves) -> str:
    lines = []
    for name, method in curves.grids:
        curve, level = curves.best(name, method), curves.target(name)
        cells = [shown(curve.until(level, count), ".2e", "not reached") for count in COUNTS]
        errors = [percent(error, 2) for error in (curve.last_error, level)]
        lines.append([name, f"{method} [{curve.parameter:g}]", *errors, *cells])
    return markdown(["set", "method [slack or lambda]", "last error", "target", *COUNTS.values()], lines)


def table_of_levels(curves: Curves) -> str:
    lines = []
    for name in curves.names:
        for level in LEVELS:
            found = [curves.cheapest(name, method, level, "stored") for method in (SIMBA, PEGASOS)]
            if all(math.isinf(cost) for cost, _ in found):
                continue
            cells = [
                f"{cost:.1e} [{parameter:g}]" if math.isfinite(cost) else "not reached" for cost, parameter in found
            ]
            counts = (("stored", "stored"), ("dense", "dense"), ("dense", "stored"))
            ratios = [shown(curves.times_fewer(name, level, *pair), ".2g", "-") for pair in counts]
            lines.append([name, percent(level, 2), *cells, *ratios])
    ratio = f"{PEGASOS} / {SIMBA}"
    header = ["set", "error", SIMBA, PEGASOS, f"{ratio}, stored", f"{ratio}, with zeros", f"{ratio}, mixed"]
    return markdown(header, lines)


def table_of_stalls(curves: Curves) -> str:
    lines = []
    for (name, method), grid in curves.grids.items():
        for curve in grid:
            level, stalls = curve.stall()
            ratio = shown(curves.times_fewer_than(name, curve), ".2g", "-") if method == PEGASOS else ""
            cells = [percent(curve.last_error, 2), percent(level - NEAR, 2), f"{stalls:.1e}", ratio]
            lines.append([name, f"{method} [{curve.parameter:g}]", *cells])
    header = ["set", "method [slack or lambda]", "last error", "lowest error", "stalls after", f"{PEGASOS} / {SIMBA}"]
    return markdown(header, lines)
