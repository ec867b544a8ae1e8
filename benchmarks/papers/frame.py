"""What all experiments share: tasks that are run once each and kept in a CSV file, and pages made from that file."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import records
from common import markdown
from scipy.stats import t as student

from maxmargin.engine.interrupt import listen_for_interrupt

REPRODUCED, PARTLY, NOT_REPRODUCED = "reproduced", "partly", "not reproduced"
LEFT_OUT = "left out"
QUICK, FULL = "quick", "full"
TASK, SECONDS = "task", "cpu_seconds"  # columns that the frame adds to those of the experiment
DIGITS = 6  # significant ones that the files keep

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """Whether the claim holds here, our figure beside it, and why."""

    word: str
    figure: str
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


@dataclass(frozen=True)
class Measured(records.Record):
    """What the CSV file of an experiment holds, with numbers where there are numbers."""

    @property
    def mode(self) -> str:
        return self.made["mode"]

    @property
    def seconds(self) -> float:
        return sum({row[TASK]: row[SECONDS] for row in self.rows}.values())


def measure(experiment: Experiment, mode: str, folder: Path, fresh: bool = False) -> Path:
    """Run the tasks that are not in the file yet; the file of what was measured.

    Until all tasks are done the file is called `NAME.partial.csv`. Tasks of another mode are not gone on from.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done, partial = folder / f"{experiment.name}.csv", folder / f"{experiment.name}.partial.csv"
    rows: list[Row] = []
    for file in (done, partial):
        if file.exists() and not fresh and read(file).mode == mode:
            rows = list(read(file).rows)
    finished = {row[TASK] for row in rows}
    for task in experiment.tasks(mode):
        if task in finished:
            continue
        before = time.process_time()
        with listen_for_interrupt() as interrupt:
            found = experiment.run(task, mode)
        if interrupt.asked:  # a solver inside has ended early, with what it had
            raise KeyboardInterrupt(f"{experiment.name}, {task}")
        seconds = time.process_time() - before
        rows += [{TASK: task, SECONDS: seconds, **row} for row in found]
        write(partial, Measured(how(mode), rows))
        print(f"{experiment.name}, {task}: {seconds:.1f} CPU s", flush=True)
    if partial.exists():
        partial.replace(done)
    return done


def how(mode: str) -> dict[str, str]:
    return {"mode": mode, "date": records.day(datetime.now(UTC)), "machine": records.machine()}


def write(file: Path, measured: Measured) -> None:
    rows = [{name: as_text(value) for name, value in row.items()} for row in measured.rows]
    records.write(file, records.Record(measured.made, rows))


def read(file: Path) -> Measured:
    record = records.read(file)
    rows = [{name: text if name == TASK else as_value(text) for name, text in row.items()} for row in record.rows]
    return Measured(record.made, rows)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


def as_value(text: str) -> Any:
    """A number where it is one, None where there is nothing."""
    if text == "":
        return None
    try:
        return float(text)
    except ValueError:
        return text


# Pages


def write_page(experiment: Experiment, folder: Path) -> None:
    """The picture and the page of an experiment, from its CSV file alone."""
    measured = read(folder / f"{experiment.name}.csv")
    draw(experiment, measured, folder / f"{experiment.name}.svg")
    (folder / f"{experiment.name}.md").write_text(page(experiment, measured))


def draw(experiment: Experiment, measured: Measured, file: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": experiment.name, "path.simplify_threshold": 0.5}):
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        experiment.draw(measured.rows, figure)
        figure.savefig(file, metadata={"Date": None})


def page(experiment: Experiment, measured: Measured) -> str:
    found = experiment.verdict(measured.rows)
    quick = " --quick --out docs/papers" if measured.mode == QUICK else ""
    return f"""# {experiment.paper}: {experiment.what}

**The paper:** {experiment.claim}

**Here:** {found.figure}

**Verdict: {found.word}.** {found.why}

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
        found = experiment.verdict(measured.rows)
        link = f"[{experiment.what}]({experiment.name}.md)"
        lines.append([experiment.paper, link, experiment.claim, found.figure, f"**{found.word}**", measured.mode])
    return f"""# The papers, reproduced

Each experiment of the five papers beside ours, with a plain verdict. `make papers` runs them all, `make papers QUICK=1`
a smaller version of each in minutes; "quick" in the last column means fewer rows or repetitions than the paper's, and
the page of the experiment says which. These pages are generated: `python -m benchmarks.papers --pages`.

{markdown(["paper", "experiment", "the paper says", "here", "verdict", "run"], lines)}
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


def interval(law: tuple[float, float, float]) -> str:
    return f"{law[0]:.2f} ({law[1]:.2f} to {law[2]:.2f})"


def where(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def values_of(rows: Iterable[Row], name: str) -> list[Any]:
    """The values that a column has, each once, in order."""
    return list(dict.fromkeys(row[name] for row in rows))
