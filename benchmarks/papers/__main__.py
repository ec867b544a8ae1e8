"""The command: `python -m benchmarks.papers --help`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from results import FULL, QUICK

from benchmarks import papers
from benchmarks.papers.experiments import EXPERIMENTS
from benchmarks.papers.frame import index, measure, write_page

ROOT = Path(__file__).parents[2]
FOLDERS = {FULL: ROOT / "docs" / "papers", QUICK: ROOT / "build" / "papers"}


def main() -> None:
    parser = argparse.ArgumentParser(description=papers.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [experiment.name for experiment in EXPERIMENTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all experiments, {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="use fewer rows and repetitions")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: docs/papers; with --quick: build/papers")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where to find data sets that are not bundled")
    parser.add_argument("--fresh", action="store_true", help="measure again even what the files already hold")
    parser.add_argument("--pages", action="store_true", help="measure nothing, only rewrite the pages")
    chosen = parser.parse_args()
    if unknown := sorted(set(chosen.names) - set(names)):
        parser.error(f"unknown experiment: {', '.join(unknown)}; the experiments are {', '.join(names)}")
    if chosen.data is not None:
        os.environ["MAXMARGIN_DATA"] = str(chosen.data)
    mode = QUICK if chosen.quick else FULL
    folder = chosen.out or (FOLDERS[FULL] if chosen.pages else FOLDERS[mode])
    for experiment in EXPERIMENTS:
        if chosen.names and experiment.name not in chosen.names:
            continue
        if not chosen.pages:
            try:
                measure(experiment, mode, folder, chosen.fresh)
            except FileNotFoundError as missing:
                print(f"{experiment.name} skipped: {missing}")
                continue
        if (folder / f"{experiment.name}.csv").exists():
            write_page(experiment, folder)
    (folder / "index.md").write_text(index(EXPERIMENTS, folder))
    print(f"wrote the pages in {folder}")


if __name__ == "__main__":
    main()
