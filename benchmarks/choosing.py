"""Choosing C and gamma: paths and searches, next to the single fits and grid searches that they replace.

    python benchmarks/choosing.py --parts path linear small
    python benchmarks/choosing.py --parts kernel --peers-python PYTHON

path: 20 points of `slack_path` on Adult (rbf) and on text (linear), in multiples of the hardest single fit among the
values of C that it chose. linear: `LinearSVCCV` with ten values, in multiples of the slowest single fit. small:
`SVCCV()` with all defaults, alone and after a StandardScaler, next to scikit-learn's grid search over 5 x 5 values
after a StandardScaler: seconds, and the error of nested cross-validation. kernel: `SVCCV` with a grid of 5 x 10 on
Adult, next to scikit-learn-intelex, which is given one fold of some cells, as the whole grid would take hours; its time
is that of these fits, scaled up to the grid.

Seconds are wall seconds of one run each, in the default environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.svm
from common import arguments, markdown, write_json
from linear import text
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCCV, LinearSVC, LinearSVCCV, slack_path
from maxmargin.data import load_adult

PARTS = ("path", "linear", "small", "kernel")
GAMMAS = 0.01 * np.array([1 / 25, 1 / 5, 1.0, 5.0, 25.0])  # around that of Table 2 of the SBP paper for Adult
CS = np.logspace(-2, 2.5, 10)
MEASURED = [(g, c) for g in (1, 2, 3) for c in (2, 5, 8)]  # the cells of that grid that the peer is given

PEER = """
import json, sys, time
import numpy as np
from sklearnex.svm import SVC
given = np.load(sys.argv[1], allow_pickle=True)
X, y, train, test = given["X"], given["y"], given["train"], given["test"]
cells = json.loads(sys.argv[2])
out = []
for gamma, C in cells:
    before = time.perf_counter()
    score = SVC(gamma=gamma, C=C).fit(X[train], y[train]).score(X[test], y[test])
    out.append([gamma, C, time.perf_counter() - before, score])
print(json.dumps(out))
"""


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    before = time.perf_counter()
    result = call()
    return time.perf_counter() - before, result


def adult() -> tuple[Any, Any]:
    return load_adult()[:2]


def path() -> list[list[str]]:
    rows = []
    for name, load, kernel, options in (
        ("Adult, rbf", adult, "rbf", {"gamma": 0.01}),
        ("20news, linear", lambda: text("20news"), "linear", {}),
        ("news20, linear", lambda: text("news20"), "linear", {}),
    ):
        X, y = load()
        took, found = seconds(lambda: slack_path(X, y, kernel=kernel, random_state=0, **options))  # noqa: B023
        # The hardest are those with a large C; one from the middle shows that.
        values = found.column("C")[[-1, -2, -3, len(found) // 2]]
        single = [seconds(lambda C=C: _fit(kernel, C, options, X, y))[0] for C in values]  # noqa: B023
        hardest, gap = max(single), float(found.column("gap").max())
        rows.append([name, str(len(found)), f"{took:.2f}", f"{hardest:.2f}", f"{took / hardest:.2f}", f"{gap:.1e}"])
    return rows


def _fit(kernel: str, C: float, options: dict[str, Any], X: Any, y: Any) -> Any:
    if kernel == "rbf":
        return SVC(C=C, random_state=0, **options).fit(X, y)
    return LinearSVC(C=C, loss="hinge", random_state=0).fit(X, y)


def linear() -> list[list[str]]:
    rows = []
    for name in ("20news", "news20"):
        X, y = text(name)
        took, model = seconds(lambda: LinearSVCCV(random_state=0).fit(X, y))  # noqa: B023
        single = [seconds(lambda C=C: LinearSVC(C=C, random_state=0).fit(X, y))[0] for C in model.Cs_]  # noqa: B023
        left = int(model.cv_results_["left_early"].sum())
        rows.append(
            [name, f"{took:.2f}", f"{max(single):.2f}", f"{took / max(single):.2f}", f"{model.C_:.3g}", str(left)]
        )
    return rows


def small() -> list[list[str]]:
    rows = []
    grid = {"svc__C": np.logspace(-2, 2, 5), "svc__gamma": np.logspace(-4, 0, 5)}
    for name, load in (("digits", load_digits), ("wine", load_wine), ("breast cancer", load_breast_cancer)):
        X, y = load(return_X_y=True)
        for label, model in (
            ("SVCCV()", SVCCV()),
            ("StandardScaler, SVCCV()", make_pipeline(StandardScaler(), SVCCV())),
            ("GridSearchCV, 5 x 5", GridSearchCV(make_pipeline(StandardScaler(), sklearn.svm.SVC()), grid)),
        ):
            took, _ = seconds(lambda: model.fit(X, y))  # noqa: B023
            error = 1 - float(cross_val_score(model, X, y).mean())
            rows.append([name, label, f"{took:.2f}", f"{100 * error:.2f} %"])
    return rows


def kernel(python: str | None, folder: str) -> list[list[str]]:
    X, y = adult()
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    model = SVCCV(Cs=CS, gammas=GAMMAS, verbose=1, random_state=0)
    took, _ = seconds(lambda: model.fit(X, y))
    left = int(model.cv_results_["left_early"].sum())
    best = f"gamma {model.gamma_:.3g}, C {model.C_:.3g}, {100 * model.best_score_:.2f} %"
    rows = [["SVCCV", f"{took:.0f}", "50 x 5", best, str(left)]]
    if python is None:
        return rows
    from sklearn.model_selection import StratifiedKFold

    train, test = next(StratifiedKFold(5).split(X, y))
    file = f"{folder}/adult.npz"
    np.savez(file, X=X, y=y, train=train, test=test)
    cells = [[float(GAMMAS[g]), float(CS[c])] for g, c in MEASURED]
    answer = subprocess.run(
        [python, "-c", PEER, file, json.dumps(cells)], capture_output=True, text=True, check=True
    ).stdout
    measured = json.loads(answer.splitlines()[-1])
    mean = float(np.mean([row[2] for row in measured]))
    top = max(measured, key=lambda row: row[3])
    rows.append(
        [
            "intelex, GridSearchCV",
            f"about {mean * 250:.0f}",
            f"{len(measured)} x 1, {mean:.1f} s each",
            f"gamma {top[0]:.3g}, C {top[1]:.3g}, {100 * top[3]:.2f} % (one fold)",
            "",
        ]
    )
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--peers-python", help="a Python with scikit-learn-intelex")
    parser.add_argument("--folder", default="/tmp", help="where to write the data for the peer")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    figures: dict[str, Any] = {}
    heads = {
        "path": ["set", "points", "path, s", "hardest fit, s", "ratio", "largest gap"],
        "linear": ["set", "LinearSVCCV, s", "slowest fit, s", "ratio", "C", "left early"],
        "small": ["set", "what", "fit, s", "nested error"],
        "kernel": ["what", "s", "cells x folds", "best", "left early"],
    }
    for part in chosen.parts:
        rows = kernel(chosen.peers_python, chosen.folder) if part == "kernel" else globals()[part]()
        figures[part] = rows
        print(f"\n{part}\n{markdown(heads[part], rows)}", flush=True)
    write_json(chosen.json, figures)


if __name__ == "__main__":
    sys.exit(main())
