"""What all experiments share: tasks whose results are kept in a CSV file, and pages made from that file."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import results
from common import markdown
from results import QUICK, Measured, Row, draw_svg, how, read
from scipy.stats import t as student

PAPERS = {  # by the number that the names of the experiments begin with
    "000": "Hazan, Koren, Srebro (2011), *Beating SGD: Learning SVMs in Sublinear Time*",
    "001": "Irpan, Kwan (2015), *Sublinear Algorithms for Optimization and Machine Learning*",
    "002": "Cotter, Shalev-Shwartz, Srebro (2012), *The Kernelized Stochastic Batch Perceptron*",
    "003": "Shalev-Shwartz, Singer, Srebro (2007), *Pegasos: Primal Estimated sub-GrAdient SOlver for SVM*",
    "004": "Schmidt, Joulin (2012), *Hybrid Deterministic-Stochastic Methods*, addendum on the hinge loss",
}
REPRODUCED, PARTLY, NOT_REPRODUCED = "reproduced", "partly reproduced", "not reproduced"
NOT_RUN = "not run"


@dataclass(frozen=True)
class Verdict:
    """Whether the claim holds: a word, the result in one sentence, the numbers behind it, and the reason."""

    word: str
    found: str
    figures: Sequence[str]
    why: str


class Experiment(ABC):
    """One figure, table or theorem of a paper.

    The rows that `run` returns are kept in the CSV file; `tables`, `verdict` and `draw` use nothing but these rows.

    Attributes
    ----------
    name : str
        The name on the command line and of all files.
    paper, what : str
        The title of the page: authors and year, then the figure, table or theorem.
    claim : str
        What the paper claims, with the section, figure, table or theorem.
    measurement : str
        What is measured to test the claim, in one or two sentences.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    what: ClassVar[str]
    claim: ClassVar[str]
    measurement: ClassVar[str]

    @abstractmethod
    def setting(self, mode: str) -> str:
        """Data, parameters and repetitions, in sentences; in quick mode also what is smaller than in the paper."""

    @abstractmethod
    def tasks(self, mode: str) -> list[str]:
        """Names of the tasks, each independent of the others: an interrupted run continues with the next one."""

    @abstractmethod
    def run(self, task: str, mode: str) -> list[dict[str, Any]]:
        """Measure one task. A missing data set raises FileNotFoundError."""

    @abstractmethod
    def verdict(self, rows: Sequence[Row]) -> Verdict: ...

    @abstractmethod
    def tables(self, rows: Sequence[Row]) -> str:
        """The measured numbers as Markdown tables."""

    @abstractmethod
    def draw(self, rows: Sequence[Row], figure: Any) -> None:
        """Add panels to an empty matplotlib figure."""


def measure(experiment: Experiment, mode: str, folder: Path, fresh: bool = False) -> Path:
    """Run the tasks that are not in the CSV file yet; return the file."""
    file = folder / f"{experiment.name}.csv"
    run = partial(experiment.run, mode=mode)
    return results.measure(file, experiment.tasks(mode), run, how(mode), fresh=fresh)


# Pages


def write_page(experiment: Experiment, folder: Path) -> None:
    """Write the picture and the page of an experiment, from its CSV file alone."""
    measured = read(folder / f"{experiment.name}.csv")
    draw_svg(partial(experiment.draw, measured.rows), folder / f"{experiment.name}.svg")
    (folder / f"{experiment.name}.md").write_text(page(experiment, measured))


def page(experiment: Experiment, measured: Measured) -> str:
    verdict = experiment.verdict(measured.rows)
    figures = "\n".join(f"- {figure}" for figure in verdict.figures)
    quick, options = (" (quick run)", " --quick --out docs/papers") if measured.mode == QUICK else ("", "")
    return f"""# {experiment.paper}: {experiment.what}

**Claim:** {experiment.claim}

**Measured:** {experiment.measurement}

**Result:** {verdict.found}

**Verdict: {verdict.word}{quick}.** {verdict.why}

{figures}

![{experiment.what}]({experiment.name}.svg)

{experiment.tables(measured.rows)}

## How it was measured
{experiment.setting(measured.mode)}

`python -m benchmarks.papers {experiment.name}{options}` took {measured.seconds:,.0f} CPU seconds
on {measured.made["date"]} ({measured.made["machine"]}). The numbers on this page come from
[{experiment.name}.csv]({experiment.name}.csv).
"""


def index(experiments: Sequence[Experiment], folder: Path) -> str:
    """The table of verdicts; an experiment without a file is marked as not run."""
    lines = []
    for experiment in experiments:
        file = folder / f"{experiment.name}.csv"
        if not file.exists():
            lines.append([experiment.paper, experiment.what, experiment.claim, "", NOT_RUN, ""])
            continue
        measured = read(file)
        verdict = experiment.verdict(measured.rows)
        link = f"[{experiment.what}]({experiment.name}.md)"
        lines.append([experiment.paper, link, experiment.claim, verdict.found, f"**{verdict.word}**", measured.mode])
    papers = "\n".join(f"- {number}: {reference}" for number, reference in PAPERS.items())
    return f"""# The papers, reproduced

We repeat experiments and test theorems of five papers. Each page states the claim, what we measured, and whether the
result supports the claim. `make papers` runs all experiments in full, and `make papers QUICK=1` runs smaller versions
in minutes. The last column says which of the two was run. A quick run has fewer rows or repetitions than the paper, as
its page describes. `python -m benchmarks.papers --pages` writes these pages.

{markdown(["paper", "experiment", "claim", "result", "verdict", "run"], lines)}

The papers, with the numbers that the names of the files begin with:

{papers}
"""


def ticks_at(panel: Any, places: Sequence[float]) -> None:
    """Label these places of a horizontal axis with a log scale, and no others."""
    panel.set_xticks(places, [f"{place:.3g}" for place in places])
    panel.set_xticks([], minor=True)


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def points(difference: float) -> str:
    """A difference of two shares."""
    value = 100 * difference
    return f"{value:g} percentage point{'' if value == 1 else 's'}"


def shown(value: float, how: str, otherwise: str = "never") -> str:
    """A formatted number, or a word where it is infinite or NaN."""
    return format(value, how) if math.isfinite(value) else otherwise


def share_of(found: Sequence[bool], what: str) -> str:
    """For how many things something is true: "2 of 3 sets"; `what` is a plural."""
    return f"{sum(found)} of {len(found)} {what if len(found) != 1 else what.removesuffix('s')}"


# Statistics


class PowerLaw(NamedTuple):
    """An exponent and its 95 % interval."""

    exponent: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.exponent:.2f} ({self.low:.2f} to {self.high:.2f})"

    def may_be_at_most(self, exponent: float) -> bool:
        """Whether the interval does not lie wholly above an exponent; False if too few points give no interval."""
        return math.isfinite(self.low) and self.low <= exponent + ROUNDING

    def may_be_at_least(self, exponent: float) -> bool:
        """Whether the interval does not lie wholly below an exponent; False if too few points give no interval."""
        return math.isfinite(self.high) and self.high >= exponent - ROUNDING


ROUNDING = 0.005  # exponents are printed to 0.01: one that prints like the claimed exponent does not exceed it


def power_law(at: Sequence[float], values: Sequence[float]) -> PowerLaw:
    """Fit values = a at^b by least squares of the logarithms; the interval assumes independent errors of equal size.

    With fewer than three points the interval is infinite, with fewer than two there is no exponent either.
    """
    if len(at) < 2:
        return PowerLaw(math.nan, -math.inf, math.inf)
    x, y = np.log(np.asarray(at, float)), np.log(np.asarray(values, float))
    slope, offset = np.polyfit(x, y, 1)
    spread = float(((x - x.mean()) ** 2).sum())
    if x.size < 3 or spread == 0:
        return PowerLaw(float(slope), -math.inf, math.inf)
    error = math.sqrt(float(((y - slope * x - offset) ** 2).sum()) / (x.size - 2) / spread)
    half = float(student.ppf(0.975, x.size - 2)) * error
    return PowerLaw(float(slope), float(slope) - half, float(slope) + half)


def overall(kept: Sequence[bool]) -> str:
    """The word of a verdict on several parts: all of them hold, some, or none."""
    return NOT_REPRODUCED if not any(kept) else REPRODUCED if all(kept) else PARTLY


def staying(values: Any, level: float) -> int | None:
    """The first index from which on all values are at most a level; None if the last value is above it."""
    above = np.flatnonzero(np.asarray(values) > level)
    first = int(above[-1]) + 1 if above.size else 0
    return first if first < len(values) else None
