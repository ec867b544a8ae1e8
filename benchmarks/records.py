"""CSV files of measurements: lines with command, date and machine, then a table; see `.ci/figures.py`."""

from __future__ import annotations

import csv
import json
import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOCAL = {"--peers-python": "PYTHON", "--folder": "FOLDER"}  # options whose value is a path on this machine
UNTOLD = ("--csv", "--json", "--from")  # options that do not change what is measured


@dataclass(frozen=True)
class Record:
    """How a table was measured, and its rows."""

    made: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]


def read(file: Path) -> Record:
    """Read a file; all values are strings, as in the file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    head = [line for line in lines if line.startswith("# ")]
    return Record(dict(line[2:].split(": ", 1) for line in head), list(csv.DictReader(lines[len(head) :])))


def write(file: Path, record: Record) -> None:
    columns = list(dict.fromkeys(name for row in record.rows for name in row))
    with file.open("w", newline="", encoding="utf-8") as lines:
        lines.writelines(f"# {name}: {value}\n" for name, value in record.made.items())
        table = csv.DictWriter(lines, columns, lineterminator="\n")
        table.writeheader()
        table.writerows(record.rows)


def day(at: datetime) -> str:
    return at.strftime("%Y-%m-%d")


def machine() -> str:
    """Processor, number of cores, widest vector instructions (on x86) and operating system."""
    information = Path("/proc/cpuinfo")
    flags = information.read_text(encoding="utf-8").split() if information.exists() else []
    wide = [", AVX-512"] if "avx512f" in flags else [", AVX2"] if "avx2" in flags else [""]
    return f"{platform.machine()}, {os.cpu_count()} cores{wide[0]}, {platform.system()}"


def command(words: Sequence[str]) -> str:
    """The command line without paths of this machine and without options for the results."""
    told = [f"benchmarks/{Path(words[0]).name}"]
    rest = iter(words[1:])
    for word in rest:
        if word in UNTOLD:
            next(rest, None)
        else:
            told += [word, LOCAL[word]] if word in LOCAL else [word]
            if word in LOCAL:
                next(rest, None)
    return " ".join(f'"{word}"' if " " in word else word for word in told)


# For benchmarks that keep their tables


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the tables to FILE, e.g. in docs/figures")
    parser.add_argument(
        "--from", type=Path, dest="kept", metavar="FILE", help="do not measure, use the content of a --json file"
    )


def kept(chosen: Namespace, **own: Any) -> list[dict[str, Any]]:
    """The entries of the file of `--from` that have these values."""
    figures = json.loads(chosen.kept.read_text(encoding="utf-8"))
    return [each for each in figures if own.items() <= {name: each[name] for name in own}.items()]


def keep(chosen: Namespace, rows: Sequence[Mapping[str, Any]], name: str = "") -> None:
    """Write a table to the file of `--csv`; `name` is added to the file name if a benchmark has several tables."""
    if chosen.csv is None:
        return
    at = datetime.fromtimestamp(chosen.kept.stat().st_mtime, UTC) if chosen.kept else datetime.now(UTC)
    made = {"command": command(sys.argv), "date": day(at), "machine": machine()}
    write(chosen.csv.with_stem(chosen.csv.stem + name), Record(made, rows))
