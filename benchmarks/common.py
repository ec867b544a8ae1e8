"""What the benchmarks share: curves and what they reach, tables, and data sets that several of them read."""

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
    """A parser with the option that all benchmarks have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, **options
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw figures there")
    return parser


# How many threads: benchmarks measure what a user gets, and beside it what one thread takes.

AS_A_USER = 0
LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def parse_with_threads(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of a benchmark in one process, with `--one-thread` among them; the setting is printed."""
    parser.add_argument("--one-thread", action="store_true", help="one thread, not what a user gets by default")
    chosen = parser.parse_args()
    if chosen.one_thread:
        threadpool_limits(1)  # which n_jobs=None respects
    print(f"{setting(int(chosen.one_thread))}\n")
    return chosen


def add_threads(parser: argparse.ArgumentParser) -> None:
    """The option of a benchmark whose competitors have processes of their own."""
    parser.add_argument(
        "--threads",
        type=int,
        nargs="+",
        default=[AS_A_USER, 1],
        metavar="N",
        help="0: as a user has it; else so many threads, pinned to as many cores; each has a table, default: 0 1",
    )


def settings(chosen: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """The options with one number of threads each."""
    for threads in chosen.threads:
        yield argparse.Namespace(**{**vars(chosen), "threads": threads})


def measured(threads: int) -> str:
    """What is compared: CPU seconds of one thread, else wall seconds."""
    return "cpu" if threads == 1 else "wall"


def setting(threads: int) -> str:
    """What a table says of the threads behind it."""
    if threads == AS_A_USER:
        return "default environment and n_jobs: as many threads as pay"
    return "one thread" if threads == 1 else f"{threads} threads"


def environment(threads: int = AS_A_USER) -> dict[str, str]:
    """The variables of a new process with so many threads."""
    own = {name: value for name, value in os.environ.items() if name not in LIMITS}
    return own | dict.fromkeys(LIMITS, str(threads)) if threads != AS_A_USER else own


def cores_for(threads: int, cores: Sequence[int] | None) -> list[int]:
    """The cores that a process with so many threads is pinned to: the last ones; none for that of a user."""
    if threads == AS_A_USER:
        return []
    return list(cores or sorted(os.sched_getaffinity(0))[-threads:])[:threads]


def entries_until(trace: Trace, level: float, staying: float | None = None) -> float:
    """Entries read, or kernel evaluations, at the check from which on the error is at most `level`, see `check_at`."""
    k = check_at(trace.column("holdout_error"), level, staying)
    return math.nan if k is None else float(trace[k].cost)


def check_at(errors: Any, level: float, staying: float | None = None) -> int | None:
    """The number of the first check with an error of at most `level`; None if there is none.

    It counts if the next check is at or below the level too or, where `staying` is given, if so large a share of
    all checks from there on is.
    """
    below = np.asarray(errors) <= level
    for k in np.flatnonzero(below):
        following = below[k:] if staying is not None else below[k : k + 2]
        if following.size > 1 and following.mean() >= (staying if staying is not None else 1.0):
            return int(k)
    return None


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


def append_json(path: Path | None, figures: Any) -> None:
    """One more line of JSON."""
    if path is not None:
        with path.open("a") as lines:
            lines.write(json.dumps(figures) + "\n")


def first_at_most(at: Any, values: Any, level: float) -> float:
    """Where a curve comes down to a level for the first time; NaN if it never does."""
    below = np.flatnonzero(np.asarray(values) <= level)
    return float(at[below[0]]) if below.size else math.nan


def value_at(at: Any, values: Any, where: float) -> float:
    """What a curve that is known at some points had come to by then; NaN before the first of them."""
    before = int(np.searchsorted(at, where, side="right"))
    return float(values[before - 1]) if before else math.nan


def exponent(sizes: Any, seconds: Any) -> float:
    """b of the power law seconds = a sizes^b that fits best, by logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def mnist_digits(part: str) -> tuple[Any, Any]:
    """Images, pixels scaled to [0, 1], and their digits; the part is "train" or "t10k"."""
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
