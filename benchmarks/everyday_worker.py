"""One estimator in a process of its own, run by the Python of any environment that has the library.

    PYTHON benchmarks/everyday_worker.py scikit-learn-intelex

The first line that the script writes is {"ready": version}, or {"missing": reason}. It then reads lines of JSON,
["load", {"train": ..., "test": ..., "estimator": ..., "parameters": ...}], ["offers", ...], ["fit"], ["predict"],
["one"] and ["labels"], and answers each with a line: {"wall": ..., "cpu": ...} in seconds, or the predicted labels.
benchmarks/everyday.py uses the same class for the competitors in its own process.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from typing import Any

import linear_worker
import numpy as np

LIBRARIES = {"maxmargin": "maxmargin", "scikit-learn": "sklearn", "scikit-learn-intelex": "sklearnex"}


class Competitor:
    """An estimator of a library, and the seconds that its calls take.

    Parameters
    ----------
    library : str
        A key of `LIBRARIES`.
    """

    def __init__(self, library: str) -> None:
        self.module = __import__(LIBRARIES[library])
        if library == "maxmargin":
            self.estimators = self.module
        else:
            self.estimators = __import__(f"{LIBRARIES[library]}.svm", fromlist=["SVC"])
        self.version = getattr(self.module, "__version__", "?")

    def offers(self, estimator: str) -> bool:
        # scikit-learn-intelex has a LinearSVC, which is scikit-learn's.
        return hasattr(self.estimators, estimator)

    def load(self, X: Any, y: Any, test: Any, estimator: str, parameters: dict[str, Any]) -> None:
        self.X, self.y, self.test, self.row = X, y, test, test[:1]
        self.make = lambda: getattr(self.estimators, estimator)(**parameters)

    def fit(self) -> dict[str, float]:
        model = self.make()
        seconds = timed(lambda: model.fit(self.X, self.y))
        self.model = model
        return seconds

    def predict(self) -> dict[str, float]:
        return timed(lambda: self.model.predict(self.test))

    def one(self) -> dict[str, float]:
        return timed(lambda: self.model.predict(self.row))

    def labels(self) -> list[Any]:
        return np.asarray(self.model.predict(self.test)).tolist()


def timed(call: Any) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not get into the answers
    warnings.simplefilter("ignore")

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    try:
        competitor = Competitor(sys.argv[1])
    except ImportError as reason:
        answer({"missing": f"{type(reason).__name__}: {reason}"})
        return
    answer({"ready": competitor.version})
    for line in sys.stdin:
        command, *given = json.loads(line)
        if command == "load":
            (task,) = given
            (X, y), (test, _) = (linear_worker.load(task[part]) for part in ("train", "test"))
            competitor.load(X, y, test, task["estimator"], task["parameters"])
            answer({})
        elif command == "offers":
            answer(competitor.offers(*given))
        else:
            answer(getattr(competitor, command)())


if __name__ == "__main__":
    main()
