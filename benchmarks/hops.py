"""The number of our functions that a fit enters before the first iteration of its solver: what a reader must follow.

    python benchmarks/hops.py

The table shows the number of calls of Python functions of this package between the call of `fit` and the first call of
`step`, and the number of different functions among them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import markdown
from sklearn.datasets import make_classification

import maxmargin
from maxmargin import SVC, LinearSVC

HOME = str(Path(maxmargin.__file__).parent)


def hops(model: Any, X: Any, y: Any) -> tuple[int, int]:
    """The number of calls of our functions before the first iteration, and of different functions among them."""
    entered: list[str] = []
    iterating = False

    def look(frame: FrameType, event: str, argument: object) -> None:
        nonlocal iterating
        code = frame.f_code
        if event != "call" or iterating or not code.co_filename.startswith(HOME):
            return
        iterating = code.co_name == "step"
        if not iterating and code.co_name not in ("<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"):
            entered.append(code.co_qualname)

    sys.setprofile(look)
    try:
        model.fit(X, y)
    finally:
        sys.setprofile(None)
    return len(entered), len(set(entered))


def main() -> None:
    lines = []
    for classes in (2, 4):
        X, y = make_classification(400, 20, n_informative=10, n_classes=classes, random_state=0)
        for name, model, data in (
            ("LinearSVC, CSR", LinearSVC(n_jobs=1), sp.csr_array(X)),
            ("SVC", SVC(n_jobs=1), X.astype(np.float64)),
        ):
            model.fit(data, y)  # one-time imports and lookups do not count
            calls, functions = hops(model, data, y)
            lines.append([f"{name}, {classes} classes", str(calls), str(functions)])
    print(markdown(["fit", "calls", "functions"], lines))


if __name__ == "__main__":
    main()
