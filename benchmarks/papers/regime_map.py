"""When reading columns pays: accesses of SIMBA and of the best row reader to the same error, on generated data.

Hazan, Koren, Srebro (2011) claim an advantage over all methods that read whole rows, and measure a factor of about 100
over Pegasos. Here n, d, density, margin, the share of hard samples and label noise vary around a base: one at a time,
and in two pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from baselines import Centroid, PassiveAggressive, Pegasos, Perceptron
from common import markdown, mean_of
from results import Row, values_of, where

from benchmarks.papers.frame import NOT_REPRODUCED, PARTLY, REPRODUCED, Experiment, Verdict, percent, points, ticks_at
from benchmarks.papers.mean_curves import COUNTS
from benchmarks.papers.reaching import Group, Reached, Truth, accesses_until, widened
from maxmargin import RegularizedSVM, SlackSVM, solve
from maxmargin.data import as_matrix
from maxmargin.solvers import Sdca, Simba

BLOCK = 256  # rows that are generated at a time
NORM = 0.87  # root mean square norm of easy rows, as in benchmarks/rare_points.py
NEAR = 1e-3  # level: error of the exact SVM plus this, or plus half of the share of hard samples if that is less
SEEDS = {"quick": 1, "full": 5}
PAPER, OURS = "SIMBA as written", "SIMBA, default"
PASSES = {PAPER: 4.0, OURS: 4.0, "rows": 5.0, "one pass": 1.0}  # budgets, as multiples of the stored entries
CLAIM, PAYS = 100.0, 2.0  # the factor of the paper, and the least factor at which we say that reading columns pays
NEARLY = CLAIM / 10  # the least factor, in some cell, at which the claim counts as partly reproduced


@dataclass(frozen=True)
class Cell:
    """A point of the map: one distribution of samples."""

    n: int
    d: int
    density: float = 1.0
    margin: float = 0.2
    hard: float = 0.01
    noise: float = 0.0

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:g}" for name, value in asdict(self).items())


BASE = {"quick": Cell(1_000, 1_000), "full": Cell(4_000, 4_000)}
SIZES = {"quick": (500, 1_000, 2_000), "full": (1_000, 4_000, 16_000)}
LARGEST = 64_000_000  # entries of the largest cell; 256 MB
HARD = {"quick": (0.005, 0.01, 0.1), "full": (0.0, 0.001, 0.0025, 0.01, 0.04, 0.16)}
NOISE = {"quick": (0.0, 0.05), "full": (0.0, 0.01, 0.05, 0.2)}
MARGIN = {"quick": (0.1, 0.2, 0.3), "full": (0.05, 0.1, 0.2, 0.3)}
DENSITY = {"quick": (0.1, 0.3, 1.0), "full": (0.03, 0.1, 0.3, 1.0)}
# Like text: many features, but only as many stored entries in a row as the base.
WIDE = {"quick": (), "full": ((16_000, 0.25), (64_000, 0.0625))}
# Hard rows that are so rare that the base would have hardly any.
RARE = {"quick": (), "full": (Cell(16_000, 4_000, hard=0.0025), Cell(16_000, 4_000, hard=0.001))}


def cells(mode: str) -> list[Cell]:
    base = BASE[mode]
    found = [base]
    found += [replace(base, n=n, d=d) for n in SIZES[mode] for d in SIZES[mode] if n * d <= LARGEST]
    found += [replace(base, hard=hard, noise=noise) for hard in HARD[mode] for noise in NOISE[mode]]
    found += [replace(base, margin=margin) for margin in MARGIN[mode]]
    found += [replace(base, density=density) for density in DENSITY[mode]]
    found += [replace(base, d=d, density=density) for d, density in WIDE[mode]]
    found += RARE[mode]
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Sample:
    """The rows of one seed, their distribution, and the error to reach."""

    X: Any
    y: Any
    truth: Truth
    level: float


def sample(cell: Cell, seed: int) -> Sample:
    """Easy rows are y (m w1 + noise), hard ones y (-m/2 w1 + 2 m w2 + noise); each feature is kept or 0.

    Kept features are divided by the root of the density, so that the norm of a row does not depend on it. The mean of
    <w, x> then shrinks by the root of the density: w is spread over all features, and a row with few of them has only
    part of the margin.
    """
    n, d, density, m = cell.n, cell.d, cell.density, cell.margin
    rng = np.random.default_rng(seed)
    w1, w2 = np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    means = np.array([m * w1, m * (2 * w2 - w1 / 2)])
    sigma = math.sqrt((NORM**2 - m**2) / d)
    y, kind = rng.choice([-1.0, 1.0], size=n), (rng.random(n) < cell.hard).astype(int)
    blocks = []
    for start in range(0, n, BLOCK):
        rows = slice(start, min(n, start + BLOCK))
        block = sigma * rng.standard_normal((rows.stop - start, d), dtype=np.float32)
        block += (y[rows, None] * means[kind[rows]]).astype(np.float32)
        if density < 1:
            block *= (rng.random(block.shape, dtype=np.float32) < density) / np.float32(math.sqrt(density))
        blocks.append(sp.csr_array(block) if density < 1 else block)
    X = sp.vstack(blocks).tocsr() if density < 1 else np.concatenate(blocks)
    shares = (1 - cell.hard, cell.hard)
    groups = [
        Group(share, math.sqrt(density) * mean, sigma**2 + (1 - density) * mean**2)
        for share, mean in zip(shares, means, strict=True)
        if share > 0
    ]
    y = np.where(rng.random(n) < cell.noise, -y, y)
    truth = Truth(groups)
    near = min(NEAR, cell.hard / 2) if cell.hard > 0 else NEAR
    return Sample(as_matrix(X), y, truth, exact_error(as_matrix(X), y, truth) + near)


def exact_error(X: Any, y: Any, truth: Truth) -> float:
    """The error of the exact SVM at the C with the lowest error."""

    def error(C: float) -> float:
        result = solve(RegularizedSVM(X, y, C, bias=False), Sdca(), tol=0.01, certify=False, random_state=0)
        return truth.error_of(result.solution.w)

    return min(widened(error, float, (0.1, 1.0)).values())


SLACKS = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
LAMBDAS = (1e-5, 1e-4, 1e-3, 1e-2)
CAPS = (0.1, 1.0, 10.0)
ROW_READERS = {
    "Pegasos": (lambda value: Pegasos(regularization=value), LAMBDAS, "rows"),
    "Pegasos, averaged": (lambda value: Pegasos(regularization=value, average=1), LAMBDAS, "rows"),
    "perceptron, averaged": (lambda value: Perceptron(average=0), (0.0,), "rows"),
    "SDCA, one pass": (lambda value: PassiveAggressive(cap=value), CAPS, "one pass"),
    "centroid": (lambda value: Centroid(), (0.0,), "one pass"),
}


FACTORS = tuple(asdict(BASE["quick"]))
WHY = (
    "A column costs n entries and shows for all rows at once which of them lack margin. A row reader reads on average "
    "1 / (share of hard rows) rows of d entries before it meets one from which it can learn."
)


class RegimeMap(Experiment):
    name = "000-regime-map"
    paper = "Hazan et al. 2011 (SIMBA)"
    what = "When reading columns pays, a map of generated data"
    claim = (
        'SIMBA improves on "any approach which considers entire sample vectors" if the dimension is high and the noise '
        'is low (section 5), and needs "about 100 times less feature accesses" than Pegasos in the experiments '
        "(section 6)."
    )
    measurement = (
        "Feature accesses until the generalisation error is near that of an SVM solved on the same rows, on generated "
        "data for which the error is known exactly. Each cell compares SIMBA with the best of five methods that read "
        "rows; cells differ in n, d, density, margin, share of hard rows and label noise."
    )

    def setting(self, mode: str) -> str:
        base = BASE[mode]
        return (
            "An easy row is y m w1 plus Gaussian noise, a hard row is y (-m/2 w1 + 2 m w2) plus noise. Easy rows have "
            f"a norm of about {NORM}, hard rows a little more; where hard rows are rare, the centroid misclassifies "
            f"them. The base is {base}. Cells differ from it in one factor, in n and d, or in the share of hard rows "
            "and label noise. Where the density is below 1, random features are zero and the others are larger, so "
            "that rows keep their norm; the margin, which is spread over all features, then shrinks by the root of the "
            "density. The error is computed from the distribution (products with w are taken to be normal) and does "
            "not count flipped labels. The level to reach is the error of an SVM on the same rows (tolerance 0.01, "
            f"best C) plus {points(NEAR)}, or plus half of the share of hard rows if that is less; it stands in for "
            "the error of Pegasos at its optimum. A level counts as reached at the first of two checks in a row that "
            f"are at or below it. Each cell and parameter has {SEEDS[mode]} run{'s' if SEEDS[mode] > 1 else ''}. "
            "Slack, lambda and aggressiveness are tuned for each cell and method to need the fewest accesses, on grids "
            "that grow while the best value is at an end. Budgets, in passes over the stored entries: "
            f"{PASSES[PAPER]:g} for both forms of SIMBA, {PASSES['rows']:g} for Pegasos (rows in permuted order, no "
            "projection; last iterate or average) and for the averaged perceptron, 1 for SDCA (its first pass, which "
            "is PA-I) and for the centroid of the rows read. A run that does not reach the level counts with its whole "
            "budget, and the number is marked."
        )

    def tasks(self, mode: str) -> list[str]:
        return [str(cell) for cell in cells(mode)]

    def run(self, task: str, mode: str) -> list[dict[str, Any]]:
        (cell,) = (cell for cell in cells(mode) if str(cell) == task)
        samples = [sample(cell, seed) for seed in range(SEEDS[mode])]
        stored = samples[0].X.n_stored
        methods = {
            PAPER: (Simba(method="paper"), PASSES[PAPER]),
            OURS: (Simba(), PASSES[OURS]),
        }
        rows = []
        for method, (solver, passes) in methods.items():
            rows += self.tuned(method, samples, passes * stored, SLACKS, lambda value, solver=solver: (solver, value))
        for method, (make, start, passes) in ROW_READERS.items():
            rows += self.tuned(
                method, samples, PASSES[passes] * stored, start, lambda value, make=make: (make(value), 0.0)
            )
        level = float(np.mean([one.level for one in samples]))
        return [asdict(cell) | {"level": level} | row for row in rows]

    def tuned(
        self, method: str, samples: Sequence[Sample], budget: float, start: Sequence[float], at: Any
    ) -> list[dict[str, Any]]:
        """Means over the runs for each parameter value; `at` gives the solver and the slack for a value."""

        def measure(value: float) -> list[Reached]:
            solver, slack = at(value)
            return [
                accesses_until(
                    SlackSVM(one.X, one.y, slack, bias=False), solver, one.truth, one.level, budget, seed + 1_000
                )
                for seed, one in enumerate(samples)
            ]

        def score(runs: list[Reached]) -> tuple[float, float]:
            return mean_of([run.stored for run in runs], budget), float(np.mean([run.last_error for run in runs]))

        grid = widened(measure, score, start) if len(start) > 1 else {start[0]: measure(start[0])}
        n, d = samples[0].X.shape
        whole = {"stored": budget, "dense": budget / samples[0].X.n_stored * n * d}
        return [
            {
                "method": method,
                "parameter": value,
                "runs": len(runs),
                "reached": sum(not math.isnan(run.stored) for run in runs),
                **{count: mean_of([getattr(run, count) for run in runs], whole[count]) for count in COUNTS},
                "last_error": float(np.mean([run.last_error for run in runs])),
            }
            for value, runs in grid.items()
        ]

    # What the rows say

    def least(self, rows: Sequence[Row], count: str) -> Row:
        """The method and parameter value that reaches the level in every run with the fewest accesses."""
        return min(rows, key=lambda row: (row["reached"] < row["runs"], row[count], row["last_error"]))

    def ratio(self, rows: Sequence[Row], task: str, method: str, count: str) -> tuple[float, str]:
        """Accesses of the best row reader divided by those of a method, and a mark.

        "<": an upper bound, as the method misses the level in some run; ">": a lower bound, as all row readers do; "?":
        both miss it.
        """
        cell = where(rows, task=task)
        ours = self.least(where(cell, method=method), count)
        best = self.least([row for row in cell if row["method"] in ROW_READERS], count)
        got_there = ours["reached"] == ours["runs"], best["reached"] == best["runs"]
        return best[count] / ours[count], {(True, True): "", (False, True): "<", (True, False): ">"}.get(got_there, "?")

    def pays(self, rows: Sequence[Row], method: str, count: str, times: float) -> list[str]:
        """The cells where a method reaches the level in every run with at least `times` fewer accesses."""
        found = [(task, *self.ratio(rows, task, method, count)) for task in values_of(rows, "task")]
        return [task for task, value, mark in found if mark in ("", ">") and value >= times]

    def verdict(self, rows: Sequence[Row]) -> Verdict:
        tasks, parts = values_of(rows, "task"), []
        for method in (PAPER, OURS):
            good = self.pays(rows, method, "stored", PAYS)
            most = max(good or tasks, key=lambda task, method=method: self.ratio(rows, task, method, "stored")[0])
            hundred, best = self.pays(rows, method, "stored", CLAIM), self.ratio(rows, most, method, "stored")
            parts.append(
                f"{method}: at least {PAYS:g} times fewer in {len(good)} of {len(tasks)} cells, at least {CLAIM:g} "
                f"times fewer in {len(hundred)}; the largest factor is {with_mark(best)} ({most})"
            )
        near_claim = len(self.pays(rows, PAPER, "stored", CLAIM / 2))
        word = (
            REPRODUCED
            if 2 * near_claim > len(tasks)
            else PARTLY
            if self.pays(rows, PAPER, "stored", NEARLY)
            else NOT_REPRODUCED
        )
        counts = {
            times: [len(self.pays(rows, method, "stored", times)) for method in (PAPER, OURS)]
            for times in (PAYS, CLAIM)
        }
        return Verdict(
            word,
            f"SIMBA as written reads at most half as many entries as the best row reader in {counts[PAYS][0]} of "
            f"{len(tasks)} cells, our default form of SIMBA in {counts[PAYS][1]}. A factor of {CLAIM:g} is reached in "
            f"{counts[CLAIM][0]} and {counts[CLAIM][1]} cells.",
            [*parts, *self.trends(rows)],
            f'{WHY} The verdict is about SIMBA as written: "{REPRODUCED}" asks for a factor of at least {CLAIM / 2:g} '
            f'in more than half of the cells, "{PARTLY}" for a factor of at least {NEARLY:g} in one.',
        )

    def tables(self, rows: Sequence[Row]) -> str:
        lines = []
        for task in values_of(rows, "task"):
            cell = where(rows, task=task)
            best = self.least([row for row in cell if row["method"] in ROW_READERS], "stored")
            cells = [self.cell(self.least(where(cell, method=method), "stored")) for method in (PAPER, OURS)]
            factors = [f"{cell[0][name]:g}" for name in FACTORS]
            ratios = [with_mark(self.ratio(rows, task, method, count)) for method in (PAPER, OURS) for count in COUNTS]
            level = percent(cell[0]["level"], 2)
            lines.append([*factors, level, *cells, f"{best['method']}: {self.cell(best)}", *ratios])
        header = [*FACTORS, "level", PAPER, OURS, "best row reader"]
        header += [f"{method}: factor, {meaning}" for method in (PAPER, OURS) for meaning in COUNTS.values()]
        return (
            "Stored entries read until the level is reached [slack, lambda or aggressiveness], and factors: accesses "
            'of the best row reader divided by those of SIMBA. SIMBA reads less where the factor is above 1. "<" marks '
            'an upper bound, because SIMBA misses the level in some run; ">" a lower bound, because no row '
            'reader reaches it in every run; "?" means that both are the case.\n\n' + markdown(header, lines)
        )

    def cell(self, row: Row) -> str:
        there = "" if row["reached"] == row["runs"] else f", reached in {row['reached']:.0f} of {row['runs']:.0f} runs"
        return f"{row['stored']:.2g} [{row['parameter']:.2g}]{there}"

    def draw(self, rows: Sequence[Row], figure: Any) -> None:
        figure.set_size_inches(14, 7)
        base = self.base(rows)
        panels = figure.subplots(2, 4)
        for line, method in zip(panels, (PAPER, OURS), strict=True):
            for panel, (across, down) in zip(line, (("d", "n"), ("noise", "hard")), strict=False):
                self.heat_map(panel, self.around(rows, base, (across, down)), method, across, down)
            for panel, factor in zip(line[2:], ("margin", "density"), strict=True):
                self.line(panel, self.around(rows, base, (factor,)), method, factor)
            line[0].set_ylabel(f"{method}\nn")
        panels[0, 2].legend(fontsize="small")

    def base(self, rows: Sequence[Row]) -> Row:
        return where(rows, task=values_of(rows, "task")[0])[0]

    def trends(self, rows: Sequence[Row]) -> list[str]:
        """How the ratios of both methods depend on each factor of the cells alone."""
        parts = []
        for factor in FACTORS:
            own = self.around(rows, self.base(rows), (factor,))
            tasks = sorted(values_of(own, "task"), key=lambda task: where(own, task=task)[0][factor])
            found = []
            for task in tasks:
                ratios = [with_mark(self.ratio(own, task, method, "stored")) for method in (PAPER, OURS)]
                found.append(f"{' and '.join(ratios)} at {where(own, task=task)[0][factor]:g}")
            parts.append(f"If only {factor} varies, the factors of {PAPER} and of {OURS}, are {'; '.join(found)}")
        return parts

    def around(self, rows: Sequence[Row], base: Row, factors: Sequence[str]) -> list[Row]:
        """The rows of the cells that differ from the base in these factors only."""
        return where(rows, **{name: base[name] for name in FACTORS if name not in factors})

    def heat_map(self, panel: Any, rows: Sequence[Row], method: str, across: str, down: str) -> None:
        xs, ys = sorted(values_of(rows, across)), sorted(values_of(rows, down))
        picture = np.full((len(ys), len(xs)), np.nan)
        for task in values_of(rows, "task"):
            at = where(rows, task=task)[0]
            ratio = self.ratio(rows, task, method, "stored")
            x, y = xs.index(at[across]), ys.index(at[down])
            picture[y, x] = math.log10(ratio[0])
            panel.text(x, y, with_mark(ratio), ha="center", va="center")
        panel.imshow(picture, cmap="RdBu", vmin=-2, vmax=2, origin="lower", aspect="auto")
        panel.set_xticks(range(len(xs)), [f"{value:g}" for value in xs])
        panel.set_yticks(range(len(ys)), [f"{value:g}" for value in ys])
        panel.set(xlabel=across, ylabel=down, title="row readers / SIMBA")

    def line(self, panel: Any, rows: Sequence[Row], method: str, factor: str) -> None:
        tasks = sorted(values_of(rows, "task"), key=lambda task: where(rows, task=task)[0][factor])
        at = [where(rows, task=task)[0][factor] for task in tasks]
        for number, (count, meaning) in enumerate(COUNTS.items()):
            ratios = [self.ratio(rows, task, method, count) for task in tasks]
            panel.plot(at, [value for value, _ in ratios], "os"[number] + "-:"[number], label=meaning)
            if number == 0:
                for x, (value, mark) in zip(at, ratios, strict=True):
                    panel.annotate(mark, (x, value), textcoords="offset points", xytext=(6, 6))
        panel.axhline(1, color="grey", lw=0.8)
        panel.set(xscale="log", yscale="log", xlabel=factor, title="row readers / SIMBA", ylim=(0.01, 100))
        ticks_at(panel, at)
        panel.grid(alpha=0.3)


def with_mark(ratio: tuple[float, str]) -> str:
    value, mark = ratio
    return f"{mark} {value:.2g}".strip()
