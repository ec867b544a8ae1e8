"""Runs of many tasks: each task runs once, its rows are kept in a CSV file, and pages are made from that file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import records

from maxmargin.engine.interrupt import listen_for_interrupt

QUICK, FULL = "quick", "full"
TASK, SECONDS = "task", "cpu_seconds"  # columns that are added to the measured rows
DIGITS = 6  # significant digits that the files keep

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Measured(records.Record):
    """The content of a CSV file: how it was made, and the rows, with numbers as floats and empty cells as None."""

    @property
    def mode(self) -> str:
        return self.made["mode"]

    @property
    def seconds(self) -> float:
        """CPU seconds of all tasks."""
        return sum({row[TASK]: row[SECONDS] for row in self.rows}.values())


def how(mode: str) -> dict[str, str]:
    """The head of a file: mode, today's date and this machine."""
    return {"mode": mode, "date": records.day(datetime.now(UTC)), "machine": records.machine()}


def measure(
    file: Path,
    tasks: Sequence[str],
    run: Callable[[str], Iterable[Row]],
    made: Mapping[str, str],
    *,
    chosen: Sequence[str] | None = None,
    fresh: bool = False,
) -> Path:
    """Run the chosen tasks (default: all) that are not in the file yet; return the file that holds them.

    Until all tasks are done, it is `NAME.partial.csv`. Results of another mode are not used, and a partial file of
    another mode is overwritten. With `fresh`, the chosen tasks are measured again.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    partial, wanted = partial_of(file), tasks if chosen is None else chosen
    rows: list[Row] = []
    for source in (file, partial):
        if source.exists() and read(source).mode == made["mode"]:
            rows = [row for row in read(source).rows if row[TASK] in tasks and not (fresh and row[TASK] in wanted)]
    finished = {row[TASK] for row in rows}
    for task in wanted:
        if task in finished:
            continue
        before = cpu_seconds()
        with listen_for_interrupt() as interrupt:
            found = list(run(task))
        if interrupt.asked:  # a solver has stopped early: its result is not one of the experiment
            raise KeyboardInterrupt(f"{file.stem}, {task}")
        seconds = cpu_seconds() - before
        rows += [{TASK: task, SECONDS: seconds, **row} for row in found]
        finished.add(task)
        write(partial, Measured(made, rows))
        print(f"{file.stem}, {task}: {seconds:.1f} CPU s", flush=True)
    if partial.exists() and finished.issuperset(tasks):
        partial.replace(file)
    return partial if partial.exists() else file


def partial_of(file: Path) -> Path:
    """The file of the results until all tasks are done."""
    return file.with_suffix(".partial.csv")


def cpu_seconds() -> float:
    """CPU seconds of this process and of its finished child processes."""
    return sum(os.times()[:4])


def write(file: Path, measured: Measured) -> None:
    """Write a file as a whole: an interrupted call leaves the file as it was."""
    rows = [{name: as_text(value) for name, value in row.items()} for row in measured.rows]
    unfinished = file.with_name(f"{file.name}.unfinished")
    records.write(unfinished, records.Record(measured.made, rows))
    unfinished.replace(file)


def read(file: Path) -> Measured:
    record = records.read(file)
    rows = [{name: text if name == TASK else as_value(text) for name, text in row.items()} for row in record.rows]
    return Measured(record.made, rows)


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


def as_value(text: str) -> Any:
    """A number if the text is one, None if it is empty (or "None", as resumed runs used to write)."""
    if text in ("", "None"):
        return None
    try:
        return float(text)
    except ValueError:
        return text


def where(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def values_of(rows: Iterable[Row], name: str) -> list[Any]:
    """The distinct values of a column, in the order of the rows."""
    return list(dict.fromkeys(row[name] for row in rows))


def draw_svg(draw: Callable[[Any], None], file: Path, size: tuple[float, float] = (11, 4.2), **style: Any) -> None:
    """Write a matplotlib figure that `draw` fills as an SVG; the same data give the same file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    own = {"svg.fonttype": "none", "svg.hashsalt": file.stem, "path.simplify_threshold": 0.5}
    with mpl.rc_context(own | style):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        written = StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    file.write_text(smaller(written.getvalue()))


def smaller(svg: str) -> str:
    """The same drawing without indentation and comments, with coordinates to a hundredth of a point."""
    svg = re.sub(r"<!--.*?-->", "", svg)
    short = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(?<=\.\d\d)\d+", "", tag[0]), svg)  # no text between tags
    return "\n".join(line for line in map(str.strip, short.splitlines()) if line) + "\n"
