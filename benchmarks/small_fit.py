"""Time of a small problem: a fit of 1,000 x 20, and the import.

    python benchmarks/small_fit.py --json small_fit.json

LinearSVC(C=1) of maxmargin and of scikit-learn, with default parameters otherwise, are fitted in turns. The table shows
the time of the first fit, and the best and the median of many later ones. The import is the time of `import maxmargin`
in a new process that has already imported scikit-learn's LinearSVC: the best and the median of several processes.
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from common import arguments, markdown, parse_with_threads, write_json
from sklearn.svm import LinearSVC

import maxmargin

IMPORT = """
import time
from sklearn.svm import LinearSVC
start = time.perf_counter()
import maxmargin
maxmargin.LinearSVC
print(time.perf_counter() - start)
"""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--imports", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--columns", type=int, default=20)
    chosen = parse_with_threads(parser)
    X, y = noisy(chosen.rows, chosen.columns)
    models = {"maxmargin": maxmargin.LinearSVC(C=1.0), "scikit-learn": LinearSVC(C=1.0)}
    fits = timed_fits(models, X, y, chosen.fits)
    imports = [imported() for _ in range(chosen.imports)]
    write_json(chosen.json, {"rows": chosen.rows, "columns": chosen.columns, "fits": fits, "imports": imports})
    print(f"milliseconds, LinearSVC(C=1), {chosen.rows} x {chosen.columns}\n")
    lines = [[name, ms(own[0]), ms(min(own[1:])), ms(np.median(own[1:]))] for name, own in fits.items()]
    lines.append(["import maxmargin after scikit-learn", "-", ms(min(imports)), ms(np.median(imports))])
    print(markdown(["", "first", "best", "median"], lines))


def noisy(rows: int, columns: int) -> tuple[Any, Any]:
    """Normal features; a tenth of the labels are wrong."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    return X, np.where(rng.random(rows) < 0.1, -1.0, 1.0) * np.sign(X @ rng.normal(size=columns))


def timed_fits(models: dict[str, Any], X: Any, y: Any, count: int) -> dict[str, list[float]]:
    """Seconds of each fit, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in models}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            for name, model in models.items():
                start = time.perf_counter()
                model.fit(X, y)
                seconds[name].append(time.perf_counter() - start)
    return seconds


def imported() -> float:
    answer = subprocess.run([sys.executable, "-c", IMPORT], stdout=subprocess.PIPE, text=True, check=True)
    return float(answer.stdout)


def ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}"


if __name__ == "__main__":
    main()
