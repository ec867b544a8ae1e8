"""Cotter, Shalev-Shwartz, Srebro (2012), Figure 1: water poured on sorted responses, drawn from real runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from common import markdown
from kernel_sets import WITHOUT_BIAS, drawn
from results import Row, values_of, where

from benchmarks.papers.frame import NOT_REPRODUCED, REPRODUCED, Experiment, Verdict, share_of
from maxmargin import SlackSVM
from maxmargin.core.threads import limit_blas
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.kernels.functions import Rbf
from maxmargin.problems import KernelMatrix
from maxmargin.solvers import StochasticBatchPerceptron

SETS = ("reuters", "adult")
ROWS = {"quick": 3_000, "full": None}
ITERATIONS = {"quick": 1_000, "full": 2_000}
BLOCKS = 500  # of consecutive ranks below the level and above it each, that the file keeps
ROUNDING = 1e-4  # relative, of the file's six digits and of float32 responses


class SbpFigure1(Experiment):
    name = "002-figure-1"
    paper = "002 SBP"
    what = "Figure 1: the water level over the responses"
    claim = (
        "The slack fills the lowest responses to a common level gamma; p* is uniform below the level and zero above."
    )

    def setting(self, mode: str) -> str:
        rows = f"{ROWS[mode]:,} rows each" if ROWS[mode] else "all rows"
        return (
            f"The paper's figure is a sketch; this one is drawn from the responses of real models, on {rows} of "
            f"{' and '.join(SETS)} with the kernel and the nu of Table 2, after {ITERATIONS[mode]:,} iterations of SBP "
            f"as written. The file has blocks of consecutive ranks, {BLOCKS} below the level and {BLOCKS} above it at "
            f"most, with the least response, the sum of the slack, and the least and the largest p of each."
        )

    def tasks(self, mode: str) -> list[str]:
        return list(SETS)

    def run(self, task: str, mode: str) -> list[dict[str, Any]]:
        case = WITHOUT_BIAS[task]
        data = drawn(case.load(), ROWS[mode])
        problem = SlackSVM(KernelMatrix(data.X, Rbf(case.gamma)), data.y, case.slack, bias=False)
        solver = StochasticBatchPerceptron(method="paper")
        state = solver.start(problem, np.random.default_rng(0))
        with limit_blas():
            solver.step(problem, state, ITERATIONS[mode], UNLIMITED)
        w = solver.solution(problem, state).w
        found = problem.evaluate_responses(w, problem.responses(w))
        return [
            {"set": task, "nu": case.slack, "level": found.value, **block}
            for block in blocks(found.responses, found.wet, found.value)
        ]

    def check(self, rows: Sequence[Row]) -> dict[str, float]:
        """Of one set: nu, the level, the mean slack, and how p is spread, all from the file."""
        level, n = rows[0]["level"], sum(row["rows"] for row in rows)
        wet = [row for row in rows if row["response"] < level]
        return {
            "n": n,
            "nu": rows[0]["nu"],
            "level": level,
            "slack": sum(row["slack"] for row in rows) / n,
            "wet": sum(row["rows"] for row in wet),
            "least": min(row["p_least"] for row in wet),
            "largest": max(row["p_largest"] for row in wet),
            "dry": max(row["p_largest"] for row in rows if row["response"] > level),
        }

    def checks(self, rows: Sequence[Row]) -> dict[str, dict[str, float]]:
        return {name: self.check(where(rows, set=name)) for name in values_of(rows, "set")}

    def verdict(self, rows: Sequence[Row]) -> Verdict:
        kept, figures = [], []
        for name, found in self.checks(rows).items():
            used = abs(found["slack"] / found["nu"] - 1) < ROUNDING
            uniform = found["largest"] - found["least"] <= ROUNDING * found["largest"]
            kept.append(used and uniform and found["dry"] == 0)
            figures.append(
                f"{name}: level {found['level']:.4g} over {found['wet']:,.0f} wet of {found['n']:,.0f} rows, mean "
                f"slack {found['slack']:.6g} for nu = {found['nu']:g}; p between {found['least']:.4g} and "
                f"{found['largest']:.4g} on the wet rows and at most {found['dry']:g} on the dry ones"
            )
        word = REPRODUCED if all(kept) else NOT_REPRODUCED
        return Verdict(
            word,
            f"All slack is used, and p* is uniform below the level and zero above it, on {share_of(kept, 'sets')}.",
            figures,
            f"Recomputed from the file, to a relative {ROUNDING:g}.",
        )

    def tables(self, rows: Sequence[Row]) -> str:
        lines = [
            [
                f"{name}, {found['n']:,.0f} rows",
                f"{found['nu']:g}",
                f"{found['slack']:.6g}",
                f"{found['level']:.5g}",
                f"{found['wet']:,.0f}",
                f"{found['least']:.5g}",
                f"{found['largest']:.5g}",
            ]
            for name, found in self.checks(rows).items()
        ]
        return markdown(["set", "nu", "mean slack", "level", "wet rows", "p, least", "p, largest"], lines)

    def draw(self, rows: Sequence[Row], figure: Any) -> None:
        names = values_of(rows, "set")
        panels = figure.subplots(2, len(names), sharex="col", squeeze=False, height_ratios=[2, 1])
        for (upper, lower), name in zip(panels.T, names, strict=True):
            own = where(rows, set=name)
            level, rank = own[0]["level"], np.cumsum([0, *(row["rows"] for row in own[:-1])])
            c = np.array([row["response"] for row in own])
            upper.plot(rank, c, color="C3", label="responses, sorted")
            upper.fill_between(rank, c, np.maximum(c, level), color="C0", alpha=0.4, label="slack")
            upper.axhline(level, color="C0", linestyle="--", label="level")
            upper.set(title=name, ylabel="c")
            lower.step(rank, [row["p_largest"] for row in own], color="C2", where="post")
            lower.set(xlabel="rank", ylabel="p*")
        panels[0, 0].legend(fontsize="small")


def blocks(c: Any, p: Any, level: float) -> Iterator[dict[str, Any]]:
    """Consecutive ranks of the sorted responses, none of them on both sides of the level."""
    order = np.argsort(c)
    for side in (c[order] < level, c[order] == level, c[order] > level):
        own = order[side]
        for i in np.array_split(own, min(BLOCKS, own.size)) if own.size else ():
            slack = np.maximum(0.0, level - c[i]).sum()
            yield {"rows": i.size, "response": c[i[0]], "slack": slack, "p_least": p[i].min(), "p_largest": p[i].max()}
