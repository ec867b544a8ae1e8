"""Speed of reading a LIBSVM file, compared with scikit-learn's reader.

    python benchmarks/read_libsvm.py

Both readers read news20, if it is found, and generated rows. They take turns, and the best of several rounds counts.
"""

from __future__ import annotations

import bz2
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import arguments, write_json
from sklearn.datasets import load_svmlight_file

from maxmargin.data import find_dataset, read_libsvm, write_libsvm


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds, of which the best counts")
    chosen = parser.parse_args()
    figures: dict[str, dict[str, tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, make in ("news20", news20), ("17 digits", made_up):
            path = Path(folder) / "rows.libsvm"
            try:
                make(path)
            except FileNotFoundError as missing:
                print(f"{name}: skipped. {missing}")
                continue
            figures[name] = compare(name, path, chosen.rounds)
            write_json(chosen.json, figures)


def news20(path: Path) -> None:
    """Short numbers: 9 million entries, 6 digits each."""
    (source,) = find_dataset("news20").glob("*.bz2")
    with bz2.open(source) as compressed, path.open("wb") as plain:
        shutil.copyfileobj(compressed, plain, 1 << 20)


def made_up(path: Path) -> None:
    """Long numbers: a million entries with all the digits of a double."""
    rng = np.random.default_rng(0)
    X = sp.random_array((10_000, 10_000), density=0.01, format="csr", rng=rng, data_sampler=rng.standard_normal)
    write_libsvm(path, X, rng.choice([-1, 1], size=10_000))


def compare(name: str, path: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """CPU and wall seconds of each reader."""
    readers: dict[str, Callable[[Path], Any]] = {
        "scikit-learn": lambda path: load_svmlight_file(str(path)),
        "maxmargin": read_libsvm,
    }
    best = dict.fromkeys(readers, (np.inf, np.inf))
    for _ in range(rounds):
        for reader, read in readers.items():
            wall, cpu = time.perf_counter(), time.process_time()
            X = read(path)[0]
            best[reader] = min(best[reader], (time.process_time() - cpu, time.perf_counter() - wall))
    megabytes = path.stat().st_size / 1e6
    print(f"{name}: {megabytes:.0f} MB, {X.shape[0]:,} rows, {X.nnz:,} entries; best of {rounds}")
    for reader, (cpu, wall) in best.items():
        print(f"  {reader:12}  cpu {cpu:7.3f} s  wall {wall:7.3f} s  {megabytes / wall:6.0f} MB/s")
    print(f"  ratio         cpu {best['scikit-learn'][0] / best['maxmargin'][0]:7.1f}    "
          f"wall {best['scikit-learn'][1] / best['maxmargin'][1]:7.1f}")  # fmt: skip
    return best


if __name__ == "__main__":
    main()
