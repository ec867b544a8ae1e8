"""Peak memory during a fit, as a multiple of the memory of the input, for float32 CSR data. Linux only.

    python benchmarks/memory.py --json memory.json

LinearSVC(C=1) of maxmargin and of scikit-learn, with the hinge and the squared hinge loss, without an intercept, is
fitted to news20 (rebuilt; four fifths of the rows, as in linear.py) and to random rows. Each fit has a new process,
which loads the data, fits a small problem so that all code is in memory, and then asks the system for its peak resident
memory during the fit. The table shows (input + peak during the fit - memory before the fit) / input, where the input is
the memory of the three arrays of X.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import linear_worker
import numpy as np
import scipy.sparse as sp
from common import arguments, markdown, write_json
from linear import LOSSES, SETS

LIBRARIES = ("maxmargin", "sklearn.svm")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the random data")
    parser.add_argument("--max-time", type=float, default=30, help="limit of our fit in seconds")
    parser.add_argument("--one", nargs=3, metavar=("DATA", "LIBRARY", "LOSS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(*chosen.one, chosen.max_time)))
        return
    rows, figures = [], []
    for name, load in {"news20": SETS["news20"], "random": lambda: random_rows(chosen.rows)}.items():
        try:
            X, y = load()
        except FileNotFoundError as missing:
            print(f"{name} skipped: {missing}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data.npz"
            linear_worker.save(data, X, y)
            for loss in LOSSES:
                for library in LIBRARIES:
                    command = [sys.executable, __file__, "--one", data, library, loss]
                    command += ["--max-time", str(chosen.max_time)]
                    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                    figures.append({"set": name, "library": library, "loss": loss} | json.loads(answer.stdout))
                    size, extra = figures[-1]["input"], figures[-1]["extra"]
                    cells = [f"{X.shape[0]} x {X.shape[1]}", f"{size / 1e6:.0f}", f"{extra / 1e6:.0f}"]
                    rows.append([name, *cells, loss, library, f"{1 + extra / size:.2f}"])
    write_json(chosen.json, figures)
    print(markdown(["set", "size", "input, MB", "more during the fit, MB", "loss", "library", "multiple"], rows))


def measure(data: str, library: str, loss: str, max_time: float) -> dict[str, int]:
    """Bytes of the input, and bytes at the peak of the fit beyond those before the fit."""
    warnings.simplefilter("ignore")
    X, y = linear_worker.load(data)
    options: dict[str, Any] = {"C": 1.0, "loss": loss, "fit_intercept": False, "random_state": 0}
    if library == "maxmargin":
        from maxmargin import LinearSVC

        options["max_time"] = max_time
    else:
        from sklearn.svm import LinearSVC
    LinearSVC(**options).fit(X[:50, :50], y[:50])
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = resident("VmRSS")
    LinearSVC(**options).fit(X, y)
    return {"input": X.data.nbytes + X.indices.nbytes + X.indptr.nbytes, "extra": resident("VmHWM") - before}


def resident(field: str) -> int:
    """Resident bytes now (VmRSS) or at the peak (VmHWM)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[field].split()[0])


def random_rows(rows: int, columns: int = 100_000, stored: int = 100) -> tuple[Any, Any]:
    """Rows with `stored` numbers each, in random columns."""
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(columns, size=(rows, stored), dtype=np.int32), axis=1).ravel()
    indptr = np.arange(0, rows * stored + 1, stored, dtype=np.int32)
    X = sp.csr_array((rng.random(rows * stored, dtype=np.float32), indices, indptr), shape=(rows, columns))
    X.sum_duplicates()
    return X, np.where(X @ rng.normal(size=columns) + rng.normal(size=rows) > 0, 1.0, -1.0)


if __name__ == "__main__":
    main()
