"""What all experiments share: tasks, whose results are kept in a CSV file, and pages made from that file."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import results
from common import markdown
from results import QUICK, Measured, Row, draw_svg, how, read
from scipy.stats import t as student

PAPERS = {
    "000": "Hazan, Koren, Srebro (2011), *Beating SGD: Learning SVMs in Sublinear Time*",
    "001": "Irpan, Kwan (2015), *Sublinear Algorithms for Optimization and Machine Learning*",
    "002": "Cotter, Shalev-Shwartz, Srebro (2012), *The Kernelized Stochastic Batch Perceptron*",
    "003": "Shalev-Shwartz, Singer, Srebro (2007), *Pegasos: Primal Estimated sub-GrAdient SOlver for SVM*",
    "004": "Schmidt, Joulin (2012), *Hybrid Deterministic-Stochastic Methods*, addendum on the hinge loss",
}
REPRODUCED, PARTLY, NOT_REPRODUCED = "reproduced", "partly", "not reproduced"
LEFT_OUT = "left out"


@dataclass(frozen=True)
class Verdict:
    """Whether the claim holds: a word, what was found in one sentence, the figures behind it, and why."""

    word: str
    found: str
    figures: Sequence[str]
    why: str


class Experiment(ABC):
    """One figure, table or theorem of a paper.

    What `run` returns goes to the CSV file; `tables`, `verdict` and `draw` see nothing but the rows of that file.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    what: ClassVar[str]
    claim: ClassVar[str]

    @abstractmethod
    def setting(self, mode: str) -> str:
        """Data, parameters and repetitions, in sentences; for the quick mode, what was cut."""

    @abstractmethod
    def tasks(self, mode: str) -> list[str]:
        """Names of what is run, each independent of the others: a run that was interrupted goes on between them."""

    @abstractmethod
    def run(self, task: str, mode: str) -> list[dict[str, Any]]:
        """What one task measured. A data set that is missing raises FileNotFoundError."""

    @abstractmethod
    def verdict(self, rows: Sequence[Row]) -> Verdict: ...

    @abstractmethod
    def tables(self, rows: Sequence[Row]) -> str:
        """The figures in Markdown."""

    @abstractmethod
    def draw(self, rows: Sequence[Row], figure: Any) -> None:
        """Panels of an empty figure of matplotlib."""


def measure(experiment: Experiment, mode: str, folder: Path, fresh: bool = False) -> Path:
    """Run the tasks that are not in the file yet; the file of what was measured."""
    file = folder / f"{experiment.name}.csv"
    run = partial(experiment.run, mode=mode)
    return results.measure(file, experiment.tasks(mode), run, how(mode), fresh=fresh)


# Pages


def write_page(experiment: Experiment, folder: Path) -> None:
    """The picture and the page of an experiment, from its CSV file alone."""
    measured = read(folder / f"{experiment.name}.csv")
    draw_svg(partial(experiment.draw, measured.rows), folder / f"{experiment.name}.svg")
    (folder / f"{experiment.name}.md").write_text(page(experiment, measured))


def page(experiment: Experiment, measured: Measured) -> str:
    verdict = experiment.verdict(measured.rows)
    figures = "\n".join(f"- {figure}" for figure in verdict.figures)
    quick = " --quick --out docs/papers" if measured.mode == QUICK else ""
    return f"""# {experiment.paper}: {experiment.what}

**The paper:** {experiment.claim}

**Here:** {verdict.found}

**Verdict: {verdict.word}.** {verdict.why}

{figures}

![{experiment.what}]({experiment.name}.svg)

{experiment.tables(measured.rows)}

## How it was made
{experiment.setting(measured.mode)}

`python -m benchmarks.papers {experiment.name}{quick}`: {measured.seconds:,.0f} CPU seconds, {measured.made["date"]},
{measured.made["machine"]}. All figures on this page come from [{experiment.name}.csv]({experiment.name}.csv).
"""


def index(experiments: Sequence[Experiment], folder: Path) -> str:
    """The table of verdicts; an experiment without a file is left out, and the table says so."""
    lines = []
    for experiment in experiments:
        file = folder / f"{experiment.name}.csv"
        if not file.exists():
            lines.append([experiment.paper, experiment.what, experiment.claim, "", LEFT_OUT, ""])
            continue
        measured = read(file)
        verdict = experiment.verdict(measured.rows)
        link = f"[{experiment.what}]({experiment.name}.md)"
        lines.append([experiment.paper, link, experiment.claim, verdict.found, f"**{verdict.word}**", measured.mode])
    papers = "\n".join(f"- {number}: {reference}" for number, reference in PAPERS.items())
    return f"""# The papers, reproduced

Each experiment of the five papers beside ours, with a plain verdict. `make papers` runs them all, `make papers QUICK=1`
a smaller version of each in minutes; "quick" in the last column means fewer rows or repetitions than the paper's, and
the page of the experiment says which. These pages are generated: `python -m benchmarks.papers --pages`.

{markdown(["paper", "experiment", "the paper says", "here", "verdict", "run"], lines)}

The papers:

{papers}
"""


# Statistics


def power_law(at: Sequence[float], values: Sequence[float]) -> tuple[float, float, float]:
    """b of values = a at^b by least squares of logarithms, and the ends of its 95 % interval."""
    x, y = np.log(np.asarray(at, float)), np.log(np.asarray(values, float))
    slope, offset = np.polyfit(x, y, 1)
    spread = float(((x - x.mean()) ** 2).sum())
    if x.size < 3 or spread == 0:
        return float(slope), -math.inf, math.inf
    error = math.sqrt(float(((y - slope * x - offset) ** 2).sum()) / (x.size - 2) / spread)
    half = float(student.ppf(0.975, x.size - 2)) * error
    return float(slope), float(slope) - half, float(slope) + half


def share_of(found: Sequence[bool], what: str) -> str:
    """On how many of so many it is as it says."""
    return f"{sum(found)} of {len(found)} {what}"


def interval(law: tuple[float, float, float]) -> str:
    return f"{law[0]:.2f} ({law[1]:.2f} to {law[2]:.2f})"
