"""What the benchmarks share: entries read until an error is reached, and tables."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.solvers import Trace


def arguments(description: str | None, **options: Any) -> argparse.ArgumentParser:
    """A parser with the option that all benchmarks have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, **options
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw figures there")
    return parser


def entries_until(trace: Trace, level: float, staying: float | None = None) -> float:
    """Entries read at the first check with an error of at most `level`; NaN if there is none.

    It counts if the next check is at or below the level too or, where `staying` is given, if so large a share of
    all checks from there on is.
    """
    below = trace.column("holdout_error") <= level
    for k in np.flatnonzero(below):
        following = below[k:] if staying is not None else below[k : k + 2]
        if following.size > 1 and following.mean() >= (staying if staying is not None else 1.0):
            return float(trace[k].entries_read)
    return math.nan


def mean_of(reached: Sequence[float], budget: float) -> float:
    """The mean over the seeds; a run that did not get there counts with its budget, which is too little."""
    return float(np.mean([budget if math.isnan(value) else value for value in reached]))


def described(reached: Sequence[float], budget: float, unit: float, digits: int) -> str:
    """The mean in some unit, and how many seeds got there if not all did."""
    count = sum(not math.isnan(value) for value in reached)
    if count == 0:
        return f"> {budget / unit:.{digits}f} (0/{len(reached)})"
    mean = f"{mean_of(reached, budget) / unit:.{digits}f}"
    return mean if count == len(reached) else f"> {mean} ({count}/{len(reached)})"


def markdown(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def write_json(path: Path | None, figures: Any) -> None:
    if path is not None:
        path.write_text(json.dumps(figures, indent=1))
