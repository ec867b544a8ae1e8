"""Cotter, Shalev-Shwartz, Srebro (2012), Figure 1: water poured on the sorted responses of real models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from common import markdown
from kernel_sets import WITHOUT_BIAS, drawn
from results import Row, values_of, where

from benchmarks.papers.frame import Experiment, Verdict, overall, share_of
from maxmargin import SlackSVM
from maxmargin.core.threads import limit_blas
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.kernels.functions import Rbf
from maxmargin.problems import KernelMatrix
from maxmargin.solvers import StochasticBatchPerceptron

SETS = ("reuters", "adult")
ROWS = {"quick": 3_000, "full": None}
ITERATIONS = {"quick": 1_000, "full": 2_000}
BLOCKS = 500  # of consecutive ranks, below the level and above it, that the file keeps at most
TOLERANCE = 1e-4  # relative, for the six digits of the file and float32 responses


class SbpFigure1(Experiment):
    name = "002-figure-1"
    paper = "Cotter et al. 2012 (SBP)"
    what = "Figure 1, the water level over the responses"
    claim = (
        "The optimal slack raises the lowest responses to a common level gamma, like water poured into a basin, and "
        "the optimal p* is uniform on the samples below that level and zero above it (section 3.2, Figure 1)."
    )
    measurement = (
        "Responses, slack and p* of SBP models on Reuters and Adult. We check that the slack adds up to n nu, that p* "
        "is uniform below the level, and that it is zero above it."
    )

    def setting(self, mode: str) -> str:
        rows = f"{ROWS[mode]:,} rows of each" if ROWS[mode] else "all rows"
        return (
            f"The paper's figure is a sketch. Ours shows the responses of real models: {' and '.join(SETS)}, {rows}, "
            f"kernel and nu of Table 2, {ITERATIONS[mode]:,} iterations of SBP as written. The file keeps the samples, "
            f"sorted by response, in blocks of consecutive ranks (at most {BLOCKS} below the level and {BLOCKS} above "
            "it): the smallest response, the sum of the slack, and the smallest and largest p of each block."
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
        """For the rows of one set: nu, the level, the mean slack, and the range of p below and above the level."""
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
            used = abs(found["slack"] / found["nu"] - 1) < TOLERANCE
            uniform = found["largest"] - found["least"] <= TOLERANCE * found["largest"]
            kept.append(used and uniform and found["dry"] == 0)
            figures.append(
                f"{name}: {found['wet']:,.0f} of {found['n']:,.0f} samples are below the level of "
                f"{found['level']:.4g}; the mean slack is {found['slack']:.6g} for nu = {found['nu']:g}; p is between "
                f"{found['least']:.4g} and {found['largest']:.4g} below the level and at most {found['dry']:g} above it"
            )
        return Verdict(
            overall(kept),
            f"On {share_of(kept, 'sets')} the slack adds up to n nu, and p* is uniform below the level and zero above "
            "it.",
            figures,
            f"We recompute all three conditions from the file, to a relative accuracy of {TOLERANCE:g}, and count the "
            "sets on which all of them hold.",
        )

    def tables(self, rows: Sequence[Row]) -> str:
        lines = [
            [
                f"{name}, {found['n']:,.0f} samples",
                f"{found['nu']:g}",
                f"{found['slack']:.6g}",
                f"{found['level']:.5g}",
                f"{found['wet']:,.0f}",
                f"{found['least']:.5g}",
                f"{found['largest']:.5g}",
            ]
            for name, found in self.checks(rows).items()
        ]
        return markdown(["set", "nu", "mean slack", "level", "below it", "smallest p there", "largest p there"], lines)

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
    """Blocks of consecutive ranks of the sorted responses; no block has samples on both sides of the level."""
    order = np.argsort(c)
    for side in (c[order] < level, c[order] == level, c[order] > level):
        own = order[side]
        for i in np.array_split(own, min(BLOCKS, own.size)) if own.size else ():
            slack = np.maximum(0.0, level - c[i]).sum()
            yield {"rows": i.size, "response": c[i[0]], "slack": slack, "p_least": p[i].min(), "p_largest": p[i].max()}
