"""The command: `python -m benchmarks.arena --help`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from results import FULL, QUICK, how, measure, partial_of, read

from benchmarks import arena
from benchmarks.arena.entrants import OURS
from benchmarks.arena.environments import PACKAGES, installed, pythons_in, reasons_in
from benchmarks.arena.pages import NAME, write_pages
from benchmarks.arena.race import MISSING, TOOK, Ring
from benchmarks.arena.sets import SETS, Set, sets_of

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "arena"
FOLDERS = {FULL: PUBLISHED, QUICK: ROOT / "build" / "arena"}
PEERS = ROOT / ".venv-peers"


def main() -> None:
    parser = argparse.ArgumentParser(description=arena.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="use small sets and fewer repeats: four minutes")
    parser.add_argument(
        "--sets", nargs="+", metavar="SET", help=f"default: all sets, {', '.join(each.name for each in SETS)}"
    )
    parser.add_argument(
        "--peers-python", nargs="+", metavar="PYTHON", help="interpreters that have the peers, default: .venv-peers"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: docs/arena; with --quick: build/arena")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where to find data sets that are not bundled")
    parser.add_argument("--fresh", action="store_true", help="measure again even what the file already holds")
    parser.add_argument("--pages", action="store_true", help="measure nothing, only rewrite the pages")
    chosen = parser.parse_args()
    mode = QUICK if chosen.quick else FULL
    folder = chosen.out or (PUBLISHED if chosen.pages else FOLDERS[mode])
    file = folder / f"{NAME}.csv"
    if chosen.pages:
        file = partial_of(file) if partial_of(file).exists() else file
        if not file.exists():
            parser.error(f"cannot make pages: there is no file {file}")
    else:
        names = [each.name for each in sets_of(mode)]
        if unknown := sorted(set(chosen.sets or ()) - set(names)):
            parser.error(f"unknown set: {', '.join(unknown)}; the sets of a {mode} run are {', '.join(names)}")
        if chosen.data is not None:
            os.environ["MAXMARGIN_DATA"] = str(chosen.data)
        ring = Ring(mode, *peers(chosen.peers_python))
        made = head(ring)
        for source in (file, partial_of(file)):
            changed = differences(source, made)
            if changed and not (chosen.fresh and not chosen.sets):
                parser.error(
                    f"{source} was measured with other versions ({'; '.join(changed)}): --fresh measures all sets again"
                )
        file = run(file, ring, made, sets_of(mode), chosen.sets, chosen.fresh)
    picture = ROOT / "docs" / "pictures" / f"{NAME}.svg" if folder == PUBLISHED else folder / "summary.svg"
    write_pages(file, folder, picture, [each.name for each in sets_of(read(file).mode)])
    print(f"wrote the pages in {folder}")


def peers(pythons: Sequence[str] | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Where maxmargin and the installed peers are, and why the other peers are missing."""
    found = installed([*(pythons or pythons_in(PEERS)), sys.executable], PACKAGES)
    return installed([sys.executable], [OURS]) | found, {} if pythons else reasons_in(PEERS)


def head(ring: Ring) -> dict[str, str]:
    """The head of the file: mode, date, machine and versions."""
    return how(ring.mode) | {package: found.version for package, found in ring.installed.items()}


def differences(source: Path, made: dict[str, str]) -> list[str]:
    """What differs from the head of a file of the same mode, apart from the date."""
    if not source.exists() or read(source).mode != made["mode"]:
        return []
    before = read(source).made
    names = [name for name in {**before, **made} if name != "date" and before.get(name) != made.get(name)]
    return [f"{name} {before.get(name, 'missing')}, now {made.get(name, 'missing')}" for name in names]


def run(
    file: Path, ring: Ring, made: dict[str, str], sets: Sequence[Set], names: Sequence[str] | None, fresh: bool
) -> Path:
    """Run the named sets, by default all. A row has the wall seconds of a set, another why it is missing."""
    by_name = {each.name: each for each in sets}

    def one(name: str) -> list[dict[str, Any]]:
        print(f"{name} ...", flush=True)
        before = time.perf_counter()
        try:
            rows = by_name[name].run(ring)
        except FileNotFoundError as missing:
            rows = [{"kind": MISSING, "note": str(missing)}]
        return [*rows, {"kind": TOOK, "wall": time.perf_counter() - before}]

    return measure(file, list(by_name), one, made, chosen=names, fresh=fresh)


if __name__ == "__main__":
    main()
