"""Choosing C and gamma: paths and searches, compared with the single fits and grid searches that they replace.

    python benchmarks/choosing.py --parts path --sets adult          # or 20news, news20
    python benchmarks/choosing.py --parts linear --sets 20news       # or news20
    python benchmarks/choosing.py --parts small --sets digits wine "breast cancer"
    python benchmarks/choosing.py --parts kernel
    python benchmarks/choosing.py --parts peer --peers-python PYTHON  # after kernel, with the same --folder

path    20 points of `slack_path`; its time in multiples of the hardest single fit at the same values of C
linear  `LinearSVCCV` with ten values of C; its time in multiples of the slowest single fit at these values
small   `SVCCV()` with all defaults, alone and after a StandardScaler, and scikit-learn's grid search over 5 x 5 values
        after a StandardScaler: seconds, and the error of nested cross-validation
kernel  `SVCCV` with a grid of 5 x 10 cells on Adult
peer    scikit-learn-intelex on nine cells of that grid, with small, middle and large gamma and C, and on the cell that
        SVCCV chose, one fold each. The whole grid would take too long. Its time is estimated as the mean of the nine
        cells times the 250 fits of the grid; the last fit of GridSearchCV is left out

Single fits have all defaults and run in order of falling C, the hardest first, until one takes less than half the time
of the hardest; smaller values of C are not measured. Times are wall seconds of a single run in the default environment.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.svm
from common import arguments, markdown, write_json
from linear import text
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCCV, LinearSVC, LinearSVCCV, slack_path
from maxmargin.data import load_adult

GAMMAS = 0.01 * np.array([1 / 25, 1 / 5, 1.0, 5.0, 25.0])  # around the value for Adult in Table 2 of the SBP paper
CS = np.logspace(-2, 2.5, 10)
MEASURED = [(g, c) for g in (0, 2, 4) for c in (1, 5, 9)]  # cells on which the peer is timed
FOLDS = 5

PEER = """
import json, sys, time
import numpy as np
from sklearnex.svm import SVC
given = np.load(sys.argv[1])
X, y, train, test = given["X"], given["y"], given["train"], given["test"]
for gamma, C in json.loads(sys.argv[2]):
    before = time.perf_counter()
    score = SVC(gamma=gamma, C=C).fit(X[train], y[train]).score(X[test], y[test])
    print(json.dumps([gamma, C, time.perf_counter() - before, score]), flush=True)
"""

Row = list[str]


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    before = time.perf_counter()
    result = call()
    return time.perf_counter() - before, result


def adult() -> tuple[Any, Any]:
    return load_adult()[:2]


def hardest(fit: Callable[[float], Any], values: Iterable[float]) -> float:
    """The seconds of the hardest fit: C falls from its largest value until a fit takes less than half of that time."""
    longest = 0.0
    for C in sorted(values, reverse=True):
        took, model = seconds(lambda: fit(C))  # noqa: B023
        print(f"  single fit, C={C:.4g}: {took:.2f} s, {model.stopped_}", flush=True)
        longest = max(longest, took)
        if took < 0.5 * longest:
            break
    return longest


def path(name: str, folder: Path, python: str | None) -> list[Row]:
    X, y = adult() if name == "adult" else text(name)
    if name == "adult":
        took, found = seconds(lambda: slack_path(X, y, kernel="rbf", gamma=0.01, random_state=0))
    else:
        took, found = seconds(lambda: slack_path(X, y, random_state=0))
    print(f"  {found}: {took:.2f} s", flush=True)

    def single(C: float) -> Any:
        if name == "adult":
            return SVC(C=C, gamma=0.01, random_state=0).fit(X, y)
        return LinearSVC(C=C, loss="hinge", random_state=0).fit(X, y)

    longest, gap = hardest(single, found.column("C")), float(found.column("gap").max())
    return [[name, str(len(found)), f"{took:.2f}", f"{longest:.2f}", f"{took / longest:.2f}", f"{gap:.1e}"]]


def linear(name: str, folder: Path, python: str | None) -> list[Row]:
    X, y = text(name)
    took, model = seconds(lambda: LinearSVCCV(random_state=0, verbose=1).fit(X, y))
    print(f"  LinearSVCCV: {took:.2f} s", flush=True)
    longest = hardest(lambda C: LinearSVC(C=C, random_state=0).fit(X, y), model.Cs_)
    left = int(model.cv_results_["left_early"].sum())
    return [[name, f"{took:.2f}", f"{longest:.2f}", f"{took / longest:.2f}", f"{model.C_:.3g}", str(left)]]


def small(name: str, folder: Path, python: str | None) -> list[Row]:
    load = {"digits": load_digits, "wine": load_wine, "breast cancer": load_breast_cancer}[name]
    X, y = load(return_X_y=True)
    grid = {"svc__C": np.logspace(-2, 2, 5), "svc__gamma": np.logspace(-4, 0, 5)}
    rows = []
    for label, model in (
        ("SVCCV()", SVCCV()),
        ("StandardScaler, SVCCV()", make_pipeline(StandardScaler(), SVCCV())),
        ("GridSearchCV, 5 x 5", GridSearchCV(make_pipeline(StandardScaler(), sklearn.svm.SVC()), grid)),
    ):
        took, _ = seconds(lambda: model.fit(X, y))  # noqa: B023
        error = 1 - float(cross_val_score(model, X, y).mean())
        print(f"  {label}: {took:.2f} s", flush=True)
        rows.append([name, label, f"{took:.2f}", f"{100 * error:.2f} %"])
    return rows


def kernel(name: str, folder: Path, python: str | None) -> list[Row]:
    X, y = adult()
    X = np.asarray(X.toarray(), dtype=np.float64)
    model = SVCCV(Cs=CS, gammas=GAMMAS, cv=FOLDS, verbose=1, random_state=0)
    took, _ = seconds(lambda: model.fit(X, y))
    left = int(model.cv_results_["left_early"].sum())
    (folder / "search.json").write_text(json.dumps([took, model.gamma_, model.C_]))
    best = f"gamma {model.gamma_:.3g}, C {model.C_:.3g}, {100 * model.best_score_:.2f} %"
    return [["SVCCV", f"{took:.0f}", best, f"{left} of {CS.size * GAMMAS.size} cells left early"]]


def peer(name: str, folder: Path, python: str | None) -> list[Row]:
    if python is None:
        raise SystemExit("the part peer needs --peers-python, a Python with scikit-learn-intelex")
    X, y = adult()
    X = np.asarray(X.toarray(), dtype=np.float64)
    ours, gamma, C = json.loads((folder / "search.json").read_text())
    train, test = next(StratifiedKFold(FOLDS).split(X, y))
    np.savez(folder / "adult.npz", X=X, y=y, train=train, test=test)
    cells = [[float(GAMMAS[g]), float(CS[c])] for g, c in MEASURED]
    command = [python, "-c", PEER, str(folder / "adult.npz"), json.dumps([*cells, [gamma, C]])]
    found = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("["):
                found.append(json.loads(line))
                print("  gamma {:.3g}, C {:.3g}: {:.1f} s, {:.4f}".format(*found[-1]), flush=True)
    mean = float(np.mean([row[2] for row in found[: len(cells)]]))
    whole, top, chosen = mean * FOLDS * CS.size * GAMMAS.size, max(found, key=lambda row: row[3]), found[-1]
    error = math.sqrt(top[3] * (1 - top[3]) / test.size)
    return [
        [
            "intelex, GridSearchCV",
            f"about {whole:.0f}: {mean:.1f} a fit, {whole / ours:.1f} x SVCCV",
            f"gamma {top[0]:.3g}, C {top[1]:.3g}, {100 * top[3]:.2f} % of one fold",
            f"the cell that SVCCV chose: {100 * chosen[3]:.2f} %, standard error {100 * error:.2f} %",
        ]
    ]


PARTS: dict[str, tuple[Callable[[str, Path, str | None], list[Row]], Row, Row]] = {
    "path": (path, ["adult", "20news", "news20"], ["set", "points", "path, s", "hardest fit, s", "ratio", "gap"]),
    "linear": (linear, ["20news", "news20"], ["set", "LinearSVCCV, s", "slowest fit, s", "ratio", "C", "left early"]),
    "small": (small, ["digits", "wine", "breast cancer"], ["set", "what", "fit, s", "nested error"]),
    "kernel": (kernel, ["adult"], ["what", "s", "best", "note"]),
    "peer": (peer, ["adult"], ["what", "s", "best", "note"]),
}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=["path", "linear", "small", "kernel"])
    parser.add_argument("--sets", nargs="+", help="only these data sets of each part; default: all")
    parser.add_argument("--peers-python", help="a Python with scikit-learn-intelex")
    parser.add_argument("--folder", type=Path, default=Path("/tmp"), help="folder for data that the parts share")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    figures: dict[str, Any] = {}
    for part in chosen.parts:
        run, sets, head = PARTS[part]
        rows: list[Row] = []
        for name in sets if chosen.sets is None else [name for name in sets if name in chosen.sets]:
            print(f"{part}, {name}", flush=True)
            rows += run(name, chosen.folder, chosen.peers_python)
        figures[part] = rows
        print(f"\n{part}\n{markdown(head, rows)}\n", flush=True)
    write_json(chosen.json, figures)


if __name__ == "__main__":
    sys.exit(main())
