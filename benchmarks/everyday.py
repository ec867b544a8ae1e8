"""Fit, predict and one-row predict at everyday sizes, compared with scikit-learn and scikit-learn-intelex.

    python benchmarks/everyday.py --peers-python PYTHON --json everyday.json
    python benchmarks/everyday.py --quick --sets iris digits
    python benchmarks/everyday.py --grid

The sizes begin at 150 x 4. Parameters are the defaults, except those that a set names, and the environment is the
default one. Our estimators and those of scikit-learn run in this process, scikit-learn-intelex in a process of its own,
with the Python that `--peers-python` names (`pip install scikit-learn-intelex`). All of them take turns; the best of
several calls counts, in wall and in CPU seconds. Ratios are our time divided by the time of the faster peer, for each
clock. Generated sets have the shape of the set after which they are named. Sets that are not found and peers that
cannot be imported are skipped and listed. `--peers` can exclude a peer, for sets on which it takes minutes.

Targets for these ratios: at most 0.5 from 500 rows on, and at most 1.0 everywhere; for one row, at most 0.5 from 4,000
support vectors on, and at most 1.0 everywhere. Missed targets are listed at the end.

`--grid` times grid searches instead: 5 x 5 values of C and gamma, five folds.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import linear_worker
import numpy as np
import scipy.sparse as sp
from common import arguments, covtype_rows, environment, markdown, mnist_digits, setting, write_json
from everyday_worker import Competitor, timed
from sklearn import datasets
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import maxmargin
from maxmargin.data import find_dataset, load_adult, read_libsvm

OURS, HERE, WORKER = "maxmargin", "scikit-learn", "scikit-learn-intelex"
OPERATIONS = {"fit": "fit", "predict": "predict", "one": "one-row predict"}
QUICK_ROWS = 2000  # sets with more rows are left out of a quick run
MANY_ROWS, MANY_VECTORS = 500, 4000  # from these sizes on, the target is half of the faster peer's time
TEST_ROWS = 1000  # number of rows to predict of generated and of large sets


@dataclass
class Task:
    """An estimator and its data; if there are no test rows, the training rows are predicted."""

    X: Any
    y: Any
    test: tuple[Any, Any] = ()  # type: ignore[assignment]
    estimator: str = "SVC"
    parameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.test = self.test or (self.X, self.y)

    def shape(self) -> str:
        parameters = "".join(f", {name}={value}" for name, value in self.parameters.items())
        sparse = ", sparse" if sp.issparse(self.X) else ""
        n, d = self.X.shape
        return f"{n:,} x {d:,}{sparse}, {np.unique(self.y).size} classes, {self.estimator}{parameters}"


# Sets


def bundled(load: Callable[..., Any], estimator: str = "SVC") -> Task:
    X, y = load(return_X_y=True)
    return Task(X, y, estimator=estimator)


def noisy(rows: int, columns: int, classes: int = 2, estimator: str = "SVC", **parameters: Any) -> Task:
    """Normal features; the class depends on linear functions of them, with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows + TEST_ROWS, columns))
    scores = X @ rng.normal(size=(columns, classes))
    y = (scores + 0.5 * np.sqrt(columns) * rng.normal(size=scores.shape)).argmax(axis=1)
    return Task(X[:rows], y[:rows], (X[rows:], y[rows:]), estimator, parameters)


def clusters(rows: int, columns: int, classes: int, spread: float = 0.5, each: int = 4, **parameters: Any) -> Task:
    """Several clusters for each class, as in handwriting; few errors remain."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(classes, each, columns))
    y = np.arange(rows + TEST_ROWS) % classes
    X = centres[y, rng.integers(each, size=y.size)] + spread * rng.normal(size=(y.size, columns))
    return Task(X[:rows], y[:rows], (X[rows:], y[rows:]), "SVC", parameters)


def sparse(rows: int, columns: int, stored: int, estimator: str, **parameters: Any) -> Task:
    """Rows with `stored` entries, most of them in few columns, like words in texts; two classes."""
    rng = np.random.default_rng(0)
    n = rows + TEST_ROWS
    which = np.minimum((columns * rng.random((n, stored)) ** 3).astype(np.int64), columns - 1)
    starts = np.arange(0, n * stored + 1, stored)
    X = sp.csr_matrix((rng.random(n * stored), which.ravel(), starts), shape=(n, columns))
    X.sum_duplicates()
    scores = X @ rng.normal(size=columns)
    y = (scores + 0.3 * scores.std() * rng.normal(size=n) > np.median(scores)).astype(int)
    return Task(X[:rows], y[:rows], (X[rows:], y[rows:]), estimator, parameters)


def adult(estimator: str, **parameters: Any) -> Task:
    X, y, X_test, y_test = load_adult()
    X, X_test = (sp.csr_matrix(part) for part in (X, X_test))
    return Task(X, y, (X_test[:TEST_ROWS], y_test[:TEST_ROWS]), estimator, parameters)


def mnist(rows: int, estimator: str, **parameters: Any) -> Task:
    X, y = mnist_digits("train")
    X_test, y_test = mnist_digits("t10k")
    return Task(X[:rows], y[:rows], (X_test[:TEST_ROWS], y_test[:TEST_ROWS]), estimator, parameters)


def covtype(rows: int, **parameters: Any) -> Task:
    X, y = covtype_rows(scaled=True)
    chosen = np.random.default_rng(0).permutation(len(y))[: rows + TEST_ROWS]
    X, y = X[chosen], y[chosen]
    return Task(X[:rows], y[:rows], (X[rows:], y[rows:]), "SVC", parameters)


def spambase(estimator: str = "SVC") -> Task:
    values = np.loadtxt(find_dataset("spambase/spambase.data.gz"), delimiter=",")
    return Task(StandardScaler().fit_transform(values[:, :-1]), values[:, -1].astype(int), estimator=estimator)


def small(name: str) -> Task:
    X, y = read_libsvm(find_dataset(f"small/{name}.gz"))
    X = X.toarray()
    return Task(X if "scale" in name else StandardScaler().fit_transform(X), y.astype(int))


SETS: dict[str, tuple[int, Callable[[], Task]]] = {  # the number of rows, for the choice of a quick run, and the task
    "iris": (150, lambda: bundled(datasets.load_iris)),
    "iris linear": (150, lambda: bundled(datasets.load_iris, "LinearSVC")),
    "wine": (178, lambda: bundled(datasets.load_wine)),
    "wine linear": (178, lambda: bundled(datasets.load_wine, "LinearSVC")),
    "200x10 of 5 classes": (200, lambda: noisy(200, 10, 5)),
    "breast cancer": (569, lambda: bundled(datasets.load_breast_cancer)),
    "breast cancer linear": (569, lambda: bundled(datasets.load_breast_cancer, "LinearSVC")),
    "german": (1000, lambda: small("german.numer_scale")),
    "1,000x20": (1000, lambda: noisy(1000, 20)),
    "1,000x20 linear kernel": (1000, lambda: noisy(1000, 20, kernel="linear")),
    "1,000x20 linear": (1000, lambda: noisy(1000, 20, estimator="LinearSVC")),
    "300 classes of 5": (1500, lambda: clusters(1500, 20, 300, each=1)),
    "digits": (1797, lambda: bundled(datasets.load_digits)),
    "digits linear": (1797, lambda: bundled(datasets.load_digits, "LinearSVC")),
    "100 classes of 20": (2000, lambda: clusters(2000, 20, 100, each=1)),
    "2,000x500": (2000, lambda: noisy(2000, 500)),
    "splice": (3175, lambda: small("splice")),
    "spambase": (4601, spambase),
    "spambase linear": (4601, lambda: spambase("LinearSVC")),
    "5,000x50": (5000, lambda: noisy(5000, 50)),
    "5,000x50 linear": (5000, lambda: noisy(5000, 50, estimator="LinearSVC")),
    "text": (5000, lambda: sparse(5000, 20_000, 80, "SVC", kernel="linear")),
    "text linear": (5000, lambda: sparse(5000, 20_000, 80, "LinearSVC")),
    "usps-like": (7291, lambda: clusters(7291, 256, 10, spread=1.0)),
    "pendigits-like": (7494, lambda: clusters(7494, 16, 10, C=10)),
    "mushrooms": (8124, lambda: small("mushrooms")),
    "letters-like": (15_000, lambda: clusters(15_000, 16, 26, C=10)),
    "adult": (32_561, lambda: adult("SVC", gamma=0.05)),
    "adult linear": (32_561, lambda: adult("LinearSVC")),
    "37,000x300 with 12 entries a row": (37_000, lambda: sparse(37_000, 300, 12, "SVC")),
    "37,000x300 with 12 entries a row, linear": (37_000, lambda: sparse(37_000, 300, 12, "LinearSVC")),
    "covtype 50k": (50_000, lambda: covtype(50_000, gamma=1.0)),
    "mnist 10k": (10_000, lambda: mnist(10_000, "SVC", C=5)),
    "mnist": (60_000, lambda: mnist(60_000, "SVC", C=5)),
    "mnist linear": (60_000, lambda: mnist(60_000, "LinearSVC")),
}


# Competitors


class WorkerProcess:
    """A competitor in a process of its own, with the methods of `Competitor`; LookupError if it is missing."""

    def __init__(self, library: str, python: str) -> None:
        script = Path(__file__).with_name("everyday_worker.py")
        try:
            self.process = subprocess.Popen(
                [python, str(script), library],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment(),
            )
        except OSError as error:
            raise LookupError(str(error)) from error
        first = self._answer()
        if "ready" not in first:
            self.close()
            raise LookupError(first.get("missing", "it does not start"))
        self.version = first["ready"]

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"missing": "the process has ended"}

    def ask(self, *command: Any) -> Any:
        assert self.process.stdin is not None
        print(json.dumps(command), file=self.process.stdin, flush=True)
        return self._answer()

    def offers(self, estimator: str) -> bool:
        # It passes LinearSVC on to scikit-learn, which is measured itself.
        return estimator != "LinearSVC" and bool(self.ask("offers", estimator))

    def load(self, X: Any, y: Any, test: Any, estimator: str, parameters: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            files = {part: f"{folder}/{part}.npz" for part in ("train", "test")}
            linear_worker.save(files["train"], X, y)
            linear_worker.save(files["test"], test, np.zeros(test.shape[0]))
            self.ask("load", {**files, "estimator": estimator, "parameters": parameters})

    def fit(self) -> Any:
        return self.ask("fit")

    def predict(self) -> Any:
        return self.ask("predict")

    def one(self) -> Any:
        return self.ask("one")

    def labels(self) -> Any:
        return self.ask("labels")

    def close(self) -> None:
        self.process.communicate()


def competitors(peers: Sequence[str], python: str | None) -> tuple[dict[str, Any], list[str]]:
    """Our estimators and the available peers, and a line for each peer that is missing."""
    found: dict[str, Any] = {name: Competitor(name) for name in (OURS, HERE) if name in (OURS, *peers)}
    if WORKER not in peers:
        return found, []
    if python is None:
        return found, [f"{WORKER} is skipped: pass a Python that has it, --peers-python PYTHON"]
    try:
        found[WORKER] = WorkerProcess(WORKER, python)
    except LookupError as reason:
        return found, [f"{WORKER} is skipped: {reason}"]
    return found, []


# Measuring


def best_of(calls: dict[str, Callable[[], dict[str, float]]], seconds: float, most: int) -> dict[str, dict[str, float]]:
    """The least wall and CPU seconds of each call; they take turns, for `seconds` seconds or `most` runs of each.

    If the first run of a call takes longer than that, only the others are repeated, each for its own time.
    """
    best = {name: {"wall": math.inf, "cpu": math.inf} for name in calls}
    spent, count = dict.fromkeys(calls, 0.0), dict.fromkeys(calls, 0)
    while waiting := [name for name in calls if count[name] < most and (spent[name] < seconds or not count[name])]:
        for name in waiting:
            took = calls[name]()
            spent[name], count[name] = spent[name] + took["wall"], count[name] + 1
            best[name] = {clock: min(best[name][clock], took[clock]) for clock in ("wall", "cpu")}
    return best


def measure(task: Task, found: dict[str, Any], seconds: float, most: int) -> dict[str, Any]:
    """The figures of one set."""
    taking = {name: one for name, one in found.items() if one.offers(task.estimator)}
    for one in taking.values():
        one.load(task.X, task.y, task.test[0], task.estimator, task.parameters)
    figures: dict[str, Any] = {
        operation: best_of({name: getattr(one, operation) for name, one in taking.items()}, seconds, most)
        for operation in OPERATIONS
    }
    labels = {name: np.asarray(one.labels()) for name, one in taking.items()}
    peer = next(name for name in taking if name != OURS)
    return figures | {
        "rows": task.X.shape[0],
        "shape": task.shape(),
        "error": {name: float(np.mean(own != task.test[1])) for name, own in labels.items()},
        "agreement": float(np.mean(labels[OURS] == labels[peer])),
        "support": getattr(found[OURS].model, "support_", np.zeros(0)).size,
        "gap": worst_gap(found[OURS].model.certificate_),
    }


def worst_gap(certificate: Any) -> float:
    """The largest relative duality gap of the binary models."""
    return float(max(each.relative_gap for each in getattr(certificate, "values", lambda: [certificate])()))


def ratio(figures: dict[str, Any], operation: str, clock: str) -> float:
    """Our time divided by the time of the faster peer."""
    took = figures[operation]
    return float(took[OURS][clock] / min(took[name][clock] for name in took if name != OURS))


def aim(figures: dict[str, Any], operation: str) -> float:
    """The target: the largest ratio that counts as fast enough."""
    large = figures["support"] >= MANY_VECTORS if operation == "one" else figures["rows"] >= MANY_ROWS
    return 0.5 if large else 1.0


def exceptions(results: dict[str, dict[str, Any]]) -> list[str]:
    """The missed targets, by either clock."""
    return [
        f"{name}, {title}: {ratio(figures, operation, clock):.2f} of the faster peer's {clock} time, "
        f"target {aim(figures, operation)}"
        for name, figures in results.items()
        for operation, title in OPERATIONS.items()
        for clock in ("wall", "cpu")
        if ratio(figures, operation, clock) > aim(figures, operation)
    ]


# Tables


def tables(results: dict[str, dict[str, Any]], names: Iterable[str]) -> str:
    parts, names = [], list(names)
    for operation, title in OPERATIONS.items():
        head = ["set", *[f"{name} ms" for name in names], "wall ratio", "CPU ratio"]
        lines = []
        for name, figures in results.items():
            took = [milliseconds(figures[operation].get(each)) for each in names]
            lines.append([name, *took, *[f"{ratio(figures, operation, clock):.2f}" for clock in ("wall", "cpu")]])
        parts.append(f"## {title}, best of several\n\n{markdown(head, lines)}")
    head = ["set", "what", *[f"error of {name}" for name in names], "same labels", "our largest gap"]
    lines = [
        [
            name,
            figures["shape"],
            *[percent(figures["error"].get(each)) for each in names],
            percent(figures["agreement"]),
            f"{figures['gap']:.1e}",
        ]
        for name, figures in results.items()
    ]
    parts.append(f"## Errors on the predicted rows, and certificates\n\n{markdown(head, lines)}")
    missed = exceptions(results)
    parts.append("## Missed targets\n\n" + ("\n".join(f"- {line}" for line in missed) or "None."))
    return "\n\n".join(parts)


def milliseconds(took: dict[str, float] | None) -> str:
    return "-" if took is None else f"{1e3 * took['wall']:.4g}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"


# Grid search


def grid_search(repeats: int) -> str:
    """Seconds of whole grid searches, and whether both libraries choose the same parameters."""
    values = {"svc__C": np.logspace(-1, 3, 5), "svc__gamma": np.logspace(-4, 0, 5)}
    lines = []
    for name, load in (
        ("digits", datasets.load_digits),
        ("breast cancer", datasets.load_breast_cancer),
        ("wine", datasets.load_wine),
    ):
        X, y = load(return_X_y=True)
        for n_jobs in (None, 2):
            searches = {
                library: GridSearchCV(make_pipeline(StandardScaler(), estimator), values, cv=5, n_jobs=n_jobs)
                for library, estimator in ((OURS, maxmargin.SVC()), (HERE, SVC()))
            }
            calls = {library: partial(timed, partial(search.fit, X, y)) for library, search in searches.items()}
            best = best_of(calls, math.inf, repeats)
            scores = [f"{100 * search.best_score_:.2f} %" for search in searches.values()]
            same = searches[OURS].best_params_ == searches[HERE].best_params_
            took = [f"{best[library]['wall']:.2f}" for library in searches]
            quotient = best[OURS]["wall"] / best[HERE]["wall"]
            lines.append([name, n_jobs, *took, f"{quotient:.2f}", *scores, "yes" if same else "no"])
    head = ["set", "n_jobs", f"{OURS} s", f"{HERE} s", "ratio", "our best score", "their best score", "same parameters"]
    return f"## Grid search: 5 x 5 values of C and gamma, five folds\n\n{markdown(head, lines)}"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), metavar="SET", help=f"any of: {', '.join(SETS)}")
    parser.add_argument("--quick", action="store_true", help=f"sets of up to {QUICK_ROWS:,} rows, and fewer calls")
    parser.add_argument("--peers", nargs="+", choices=(HERE, WORKER), default=[HERE, WORKER], help="default: both")
    parser.add_argument("--peers-python", metavar="PYTHON", help=f"a Python that has {WORKER}")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds for each competitor and operation")
    parser.add_argument("--calls", type=int, default=200, help="maximum for each competitor and operation")
    parser.add_argument("--grid", action="store_true", help="time grid searches instead of single fits")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{setting(0)}; {time.strftime('%Y-%m-%d')}\n")
    if chosen.grid:
        print(grid_search(1 if chosen.quick else 3))
        return
    seconds = min(chosen.seconds, 0.3) if chosen.quick else chosen.seconds
    found, missing = competitors(chosen.peers, chosen.peers_python)
    print(", ".join(f"{name} {one.version}" for name, one in found.items()) + "\n")
    results: dict[str, dict[str, Any]] = {}
    for name in chosen.sets or [name for name, (rows, _) in SETS.items() if rows <= QUICK_ROWS or not chosen.quick]:
        try:
            task = SETS[name][1]()
        except FileNotFoundError as reason:
            missing.append(f"{name} is skipped: {reason}")
            continue
        if not any(one.offers(task.estimator) for peer, one in found.items() if peer != OURS):
            missing.append(f"{name} is skipped: no peer has {task.estimator}")
            continue
        print(f"{name}: {task.shape()}", file=sys.stderr)
        results[name] = measure(task, found, seconds, chosen.calls)
        write_json(chosen.json, results)
    for line in missing:
        print(f"{line}\n")
    print(tables(results, found))
    if WORKER in found:
        found[WORKER].close()


if __name__ == "__main__":
    main()
