"""Hazan, Koren, Srebro (2011), Figure 1: test error against feature accesses, SIMBA and Pegasos as written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from common import markdown
from results import Row, values_of, where

from benchmarks.papers.frame import NOT_REPRODUCED, PARTLY, REPRODUCED, Experiment, Verdict
from maxmargin import RegularizedSVM, SlackSVM, solve
from maxmargin.data import as_matrix, find_dataset, read_libsvm
from maxmargin.solvers import Holdout, Pegasos, Simba

LEARNED = 8_000
SETS = {"quick": ("news20",), "full": ("news20", "20news")}
SEEDS = {"quick": 2, "full": 10}
SLACKS = {"quick": (3e-4, 1e-3, 3e-3), "full": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)}
LAMBDAS = {"quick": (3e-6, 1e-5, 3e-5), "full": (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4)}
BUDGETS = {"quick": (40_000_000, 40_000_000), "full": (100_000_000, 400_000_000)}  # of SIMBA, of Pegasos
NEAR = 0.001  # of the error of Pegasos at its end, where a method counts as having reached it
SIMBA, PEGASOS = "SIMBA", "Pegasos"
COUNTS = {"stored": "stored entries", "dense": "all entries, zeros too"}


class SimbaFigure1(Experiment):
    name = "000-figure-1"
    paper = "000 SIMBA"
    what = "Figure 1: test error against feature accesses"
    claim = "SIMBA reaches the test error that Pegasos has at its optimum with about 100 times fewer feature accesses."

    def setting(self, mode: str) -> str:
        return (
            f"{' and '.join(SETS[mode])}, {LEARNED:,} rows to learn from and the others to test on, split anew "
            f"each run; no "
            f"bias. SIMBA as written with the adaptive rates of section 6, one row and one column a round; "
            f"Pegasos as written "
            f"(rows drawn from all, projection, last iterate). The slack ({', '.join(map(str, SLACKS[mode]))}) "
            f"and lambda "
            f"({', '.join(map(str, LAMBDAS[mode]))}) with the lowest mean error at the end of the run are taken, "
            f"chosen on "
            f"the test set as in the paper. {SEEDS[mode]} runs (the paper: 10); SIMBA reads "
            f"{BUDGETS[mode][0]:.0e} entries, "
            f"Pegasos {BUDGETS[mode][1]:.0e}. Two ways of counting: the entries that are stored, and the entries "
            f"of the "
            f"dense matrix, zeros too (d for a row, n for a column). news20 was rebuilt from its source and is not the "
            f"paper's file bit by bit; real-sim is not at hand, and 20news stands in for it in the full run only."
        )

    def tasks(self, mode: str) -> list[str]:
        return [f"{name}, seed {seed}" for name in SETS[mode] for seed in range(SEEDS[mode])]

    def run(self, task: str, mode: str) -> list[dict[str, Any]]:
        name, _, seed = task.replace(",", "").split()
        X, y = text(name)
        order = np.random.default_rng(int(seed)).permutation(y.size)
        learned, tested = order[:LEARNED], order[LEARNED:]
        matrix, labels = as_matrix(X[learned]), y[learned]
        n, d = X[learned].shape
        holdout = Holdout(as_matrix(X[tested]), y[tested])
        runs: list[tuple[str, float, Any, Any, int, int]] = [
            (SIMBA, slack, SlackSVM(matrix, labels, slack, bias=False), Simba(method="paper"), BUDGETS[mode][0], n + d)
            for slack in SLACKS[mode]
        ] + [
            (
                PEGASOS,
                value,
                RegularizedSVM(matrix, labels, 1 / (value * n), bias=False),
                Pegasos(order="iid", average=None),
                BUDGETS[mode][1],
                d,
            )
            for value in LAMBDAS[mode]
        ]
        rows = []
        for method, parameter, problem, solver, budget, dense in runs:
            result = solve(problem, solver, budget=budget, holdout=holdout, certify=False, random_state=int(seed))
            rows += [
                {
                    "set": name,
                    "seed": int(seed),
                    "method": method,
                    "parameter": parameter,
                    "stored": look.entries_read,
                    "dense": look.iteration * dense,
                    "error": look.holdout_error,
                }
                for look in result.trace
                if not math.isnan(look.holdout_error) and look.entries_read > 1e4
            ]
        return rows

    def best(self, rows: Sequence[Row], name: str, method: str) -> float:
        """The parameter with the lowest mean error at the end."""
        own = where(rows, set=name, method=method)
        return float(min(values_of(own, "parameter"), key=lambda value: last_error(where(own, parameter=value))))

    def reached(self, rows: Sequence[Row], name: str, method: str, level: float, count: str) -> list[float]:
        """Accesses of each run at its best parameter to the level, where it stays for another look; else NaN."""
        own = where(rows, set=name, method=method, parameter=self.best(rows, name, method))
        found = []
        for seed in values_of(own, "seed"):
            curve = where(own, seed=seed)
            below = [row["error"] <= level for row in curve]
            stays = [k for k in range(len(below) - 1) if below[k] and below[k + 1]]
            found.append(curve[stays[0]][count] if stays else math.nan)
        return found

    def target(self, rows: Sequence[Row], name: str) -> float:
        own = where(rows, set=name, method=PEGASOS, parameter=self.best(rows, name, PEGASOS))
        return last_error(own) + NEAR

    def ratio(self, rows: Sequence[Row], name: str, count: str) -> tuple[float, bool]:
        """Accesses of Pegasos by those of SIMBA, and whether SIMBA got there; if not, the ratio is at most this."""
        level, means, there = self.target(rows, name), [], True
        for method in (PEGASOS, SIMBA):
            own = where(rows, set=name, method=method, parameter=self.best(rows, name, method))
            reached = self.reached(rows, name, method, level, count)
            last = [where(own, seed=seed)[-1][count] for seed in values_of(own, "seed")]
            means.append(np.mean([b if math.isnan(a) else a for a, b in zip(reached, last, strict=True)]))
            there = not any(math.isnan(value) for value in reached)
        return float(means[0] / means[1]), there

    def verdict(self, rows: Sequence[Row]) -> Verdict:
        figures, ratios = [], []
        for name in values_of(rows, "set"):
            for count, meaning in COUNTS.items():
                ratio, there = self.ratio(rows, name, count)
                ratios.append(ratio if there else 0.0)  # a bound from above is no evidence for the claim
                short = "" if there else " at most, as SIMBA did not get there"
                figures.append(f"{name}, {meaning}: {ratio:.2g} times fewer{short}")
        word = REPRODUCED if min(ratios) >= 50 else PARTLY if max(ratios) >= 2 else NOT_REPRODUCED
        edges = [
            f"{method} on {name}"
            for name in values_of(rows, "set")
            for method in (SIMBA, PEGASOS)
            if self.best(rows, name, method) in ends(values_of(where(rows, set=name, method=method), "parameter"))
        ]
        edge = f" The best parameter is at the edge of the grid for {', '.join(edges)}." if edges else ""
        why = (
            "Counted as the ratio of accesses to the error that Pegasos ends with, plus 0.1 %, the mean over the "
            "runs; one that does not get there counts with all that it read. Below 1, SIMBA "
            "needs more "
            "accesses than Pegasos. A round of SIMBA reads a row, as one of Pegasos does, and a column besides: "
            "on data "
            "with more features than rows it can only win by needing fewer rounds." + edge
        )
        return Verdict(word, "; ".join(figures) + ".", why)

    def tables(self, rows: Sequence[Row]) -> str:
        lines = []
        for name in values_of(rows, "set"):
            level = self.target(rows, name)
            for method in (SIMBA, PEGASOS):
                parameter = self.best(rows, name, method)
                own = where(rows, set=name, method=method, parameter=parameter)
                cells = []
                for count in COUNTS:
                    there = self.reached(rows, name, method, level, count)
                    reached = [value for value in there if not math.isnan(value)]
                    mean = f"{np.mean(reached):.2e}" if reached else "-"
                    cells.append(f"{mean} ({len(reached)} of {len(there)} runs)")
                lines.append([name, f"{method} [{parameter:g}]", f"{last_error(own):.2%}", f"{level:.2%}", *cells])
        header = ["set", "method [slack or lambda]", "error at the end", "level", *COUNTS.values()]
        return "Accesses to the level, mean over the runs that reach it:\n\n" + markdown(header, lines)

    def draw(self, rows: Sequence[Row], figure: Any) -> None:
        names = values_of(rows, "set")
        for line, name in zip(figure.subplots(len(names), 2, squeeze=False), names, strict=True):
            for panel, (count, meaning) in zip(line, COUNTS.items(), strict=True):
                for number, method in enumerate((SIMBA, PEGASOS)):
                    parameter = self.best(rows, name, method)
                    own = where(rows, set=name, method=method, parameter=parameter)
                    runs = [where(own, seed=seed) for seed in values_of(own, "seed")]
                    low = max(run[0][count] for run in runs)
                    at = np.geomspace(low, min(run[-1][count] for run in runs), 60)
                    errors = [np.interp(at, [r[count] for r in run], [100 * r["error"] for r in run]) for run in runs]
                    mean, deviation = np.mean(errors, axis=0), np.std(errors, axis=0)
                    panel.plot(at, mean, color=f"C{number}", label=f"{method} [{parameter:g}]")
                    panel.fill_between(at, mean - deviation, mean + deviation, color=f"C{number}", alpha=0.25)
                panel.set(xscale="log", xlabel=f"feature accesses: {meaning}", ylabel="test error, %", title=name)
                panel.set_ylim(0, 30)
                panel.grid(alpha=0.3)
            line[0].legend()


@cache
def text(name: str) -> tuple[Any, Any]:
    (source,) = find_dataset(name).glob("*.bz2")
    return read_libsvm(source, dtype=np.float32)


def ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def last_error(rows: Sequence[Row]) -> float:
    """The mean over the seeds at the end."""
    return float(np.mean([where(rows, seed=seed)[-1]["error"] for seed in values_of(rows, "seed")]))
