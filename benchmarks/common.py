"""Shared by all benchmarks: options, numbers of threads, curves and the levels they reach, tables, and data sets."""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from maxmargin.data import find_dataset
from maxmargin.solvers import Trace


def arguments(description: str | None, **options: Any) -> argparse.ArgumentParser:
    """A parser with the option that all benchmarks have, `--json`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, **options
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw figures to FILE")
    return parser


# Numbers of threads: benchmarks measure what a user gets by default and, for comparison, one thread.

AS_A_USER = 0
LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def parse_with_threads(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the options of a benchmark that runs in one process, add `--one-thread`, and print the setting."""
    parser.add_argument("--one-thread", action="store_true", help="use one thread, not the default number")
    chosen = parser.parse_args()
    if chosen.one_thread:
        threadpool_limits(1)  # n_jobs=None respects this limit
    print(f"{setting(int(chosen.one_thread))}\n")
    return chosen


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Add the option of a benchmark whose competitors run in processes of their own."""
    parser.add_argument(
        "--threads",
        type=int,
        nargs="+",
        default=[AS_A_USER, 1],
        metavar="N",
        help="0: the default environment; otherwise N threads, pinned to N cores; a table for each N, default: 0 1",
    )


def settings(chosen: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """The options, once for each number of threads."""
    for threads in chosen.threads:
        yield argparse.Namespace(**{**vars(chosen), "threads": threads})


def measured(threads: int) -> str:
    """The time that is compared: CPU seconds with one thread, otherwise wall seconds."""
    return "cpu" if threads == 1 else "wall"


def setting(threads: int) -> str:
    """The title of a table that says how many threads were used."""
    if threads == AS_A_USER:
        return "default environment and n_jobs: as many threads as are useful"
    return "one thread" if threads == 1 else f"{threads} threads"


def environment(threads: int = AS_A_USER) -> dict[str, str]:
    """The environment variables of a new process with this number of threads."""
    own = {name: value for name, value in os.environ.items() if name not in LIMITS}
    return own | dict.fromkeys(LIMITS, str(threads)) if threads != AS_A_USER else own


def cores_for(threads: int, cores: Sequence[int] | None) -> list[int]:
    """The cores to which a process with `threads` threads is pinned: the last ones; none in the default environment."""
    if threads == AS_A_USER:
        return []
    return list(cores or sorted(os.sched_getaffinity(0))[-threads:])[:threads]


def entries_until(trace: Trace, level: float, staying: float | None = None) -> float:
    """Entries read, or kernel evaluations, at the first check with an error of at most `level`; see `check_at`."""
    k = check_at(trace.column("holdout_error"), level, staying)
    return math.nan if k is None else float(trace[k].cost)


def check_at(errors: Any, level: float, staying: float | None = None) -> int | None:
    """The number of the first check with an error of at most `level`; None if there is none.

    The check counts only if the next one is at or below the level too or, if `staying` is given, if at least this share
    of all checks from there on is.
    """
    below = np.asarray(errors) <= level
    for k in np.flatnonzero(below):
        following = below[k:] if staying is not None else below[k : k + 2]
        if following.size > 1 and following.mean() >= (staying if staying is not None else 1.0):
            return int(k)
    return None


def mean_of(reached: Sequence[float], budget: float) -> float:
    """The mean over the seeds; a run that does not reach the level counts with its budget, which is a lower bound."""
    return float(np.mean([budget if math.isnan(value) else value for value in reached]))


def described(reached: Sequence[float], budget: float, unit: float, digits: int) -> str:
    """The mean in units of `unit`, and how many seeds reached the level if not all did."""
    count = sum(not math.isnan(value) for value in reached)
    if count == 0:
        return f"> {budget / unit:.{digits}f} (0/{len(reached)})"
    mean = f"{mean_of(reached, budget) / unit:.{digits}f}"
    return mean if count == len(reached) else f"> {mean} ({count}/{len(reached)})"


def markdown(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def write_json(path: Path | None, figures: Any) -> None:
    if path is not None:
        path.write_text(json.dumps(figures, indent=1))


def append_json(path: Path | None, figures: Any) -> None:
    """Append a line of JSON to a file."""
    if path is not None:
        with path.open("a") as lines:
            lines.write(json.dumps(figures) + "\n")


def first_at_most(at: Any, values: Any, level: float) -> float:
    """The point at which a curve first reaches a level from above; NaN if it never does."""
    below = np.flatnonzero(np.asarray(values) <= level)
    return float(at[below[0]]) if below.size else math.nan


def value_at(at: Any, values: Any, where: float) -> float:
    """The last known value of a curve at or before a point; NaN if there is none."""
    before = int(np.searchsorted(at, where, side="right"))
    return float(values[before - 1]) if before else math.nan


def exponent(sizes: Any, seconds: Any) -> float:
    """The exponent b of the power law seconds = a sizes^b that fits best, in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def mnist_digits(part: str) -> tuple[Any, Any]:
    """Images with pixels scaled to [0, 1], and their digits; `part` is "train" or "t10k"."""
    images, digits = (
        np.frombuffer(gzip.decompress(find_dataset(f"mnist/{part}-{kind}.gz").read_bytes()), np.uint8, offset=offset)
        for kind, offset in (("images-idx3-ubyte", 16), ("labels-idx1-ubyte", 8))
    )
    return images.reshape(-1, 784).astype(np.float32) / 255, digits


def covtype_rows(scaled: bool, classes: bool = False) -> tuple[Any, Any]:
    """All rows, each column scaled to [0, 1] or as in the file; class 2 against the rest, or all seven classes."""
    values = np.loadtxt(find_dataset("covtype/covtype.data.gz"), delimiter=",", dtype=np.float32)
    X, y = values[:, :-1], values[:, -1]
    y = y.astype(np.int64) if classes else np.where(y == 2, 1.0, -1.0)
    if scaled:
        low, high = X.min(axis=0), X.max(axis=0)
        X = (X - low) / (high - low)
    return np.ascontiguousarray(X), y
