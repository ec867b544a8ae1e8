"""One entrant of linear.py in a process of its own: it can be stopped in the middle of a fit, be pinned to a core, and
be run by the Python of another environment, where maxmargin is not installed.

    python benchmarks/linear_worker.py ENTRANT DATA.npz --layout csr32 --cores 1 --threads 1

The data is converted to the entrant's layout first, which is not counted; then comes a line {"missing": null}, or with
the reason why there is no such entrant. Each line of the standard input asks for a fit, {"loss": "hinge", "C": 1.0,
"rung": 0.1, "seconds": 60}. The answer is a line {"cpu": ..., "wall": ..., "bytes": ...} with what the fit alone took,
and then its w in float64. A fit that needs more CPU seconds than it was given ends the process.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

Fit = Callable[[str, float, float], Any]  # loss, C and rung (a tolerance or a number of epochs) -> w


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entrant", choices=sorted(ENTRANTS))
    parser.add_argument("data", help="what `save` of this file wrote")
    parser.add_argument("--layout", choices=sorted(LAYOUTS), default="csr64")
    parser.add_argument("--cores", type=int, nargs="*", help="the cores to stay on")
    parser.add_argument("--threads", type=int, default=1, help="0: as many as each takes by default")
    chosen = parser.parse_args()
    if chosen.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, chosen.cores)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an entrant prints is no answer
    warnings.simplefilter("ignore")  # they say that a loose tolerance is loose
    X, y = load(chosen.data)
    try:
        fit = ENTRANTS[chosen.entrant](LAYOUTS[chosen.layout](X), y, chosen.threads)
    except (ImportError, LookupError) as reason:
        send(answers, {"missing": f"{type(reason).__name__}: {reason}"})
        return
    send(answers, {"missing": None})
    del X
    for line in sys.stdin:
        wanted = json.loads(line)
        limit_cpu(wanted["seconds"])
        wall, cpu = time.perf_counter(), time.process_time()
        w = fit(wanted["loss"], wanted["C"], wanted["rung"])
        took = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        content = np.ravel(w).astype(np.float64).tobytes()
        send(answers, took | {"bytes": len(content)}, content)


def send(answers: Any, line: dict[str, Any], content: bytes = b"") -> None:
    answers.write(json.dumps(line).encode() + b"\n" + content)
    answers.flush()


def limit_cpu(seconds: float) -> None:
    """Let the process end after so many CPU seconds more, at most one later: compiled loops cannot be asked to stop."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, hard))


def save(path: Any, X: Any, y: Any) -> None:
    """Write dense or CSR data as one .npz file."""
    stored = {"data": X.data, "indices": X.indices, "indptr": X.indptr} if sp.issparse(X) else {"X": X}
    np.savez(path, y=y, shape=X.shape, **stored)


def load(path: Any) -> tuple[Any, Any]:
    """Read what `save` wrote."""
    with np.load(path) as stored:
        if "X" in stored:
            return stored["X"], stored["y"]
        parts = tuple(stored[name] for name in ("data", "indices", "indptr"))
        return sp.csr_matrix(parts, shape=tuple(stored["shape"])), stored["y"]


def dense(X: Any, dtype: Any) -> Any:
    return np.ascontiguousarray(X.toarray() if sp.issparse(X) else X, dtype=dtype)


# csr_matrix, not csr_array: LIBLINEAR, snapml and lightning know that one only.
LAYOUTS = {
    "csr32": lambda X: sp.csr_matrix(X, dtype=np.float32),
    "csr64": lambda X: sp.csr_matrix(X, dtype=np.float64),
    "dense32": lambda X: dense(X, np.float32),
    "dense64": lambda X: dense(X, np.float64),
}


def maxmargin(name: str | None = None, most_features: float = math.inf) -> Callable[[Any, Any, int], Fit]:
    """Ours, the solver of this name or the one that is taken where none is named; the rung is the relative gap."""

    def prepare(X: Any, y: Any, threads: int) -> Fit:
        from maxmargin.core.threads import thread_count
        from maxmargin.data import as_matrix
        from maxmargin.problems import RegularizedSVM
        from maxmargin.solvers import SOLVERS, auto_solver, solve

        if X.shape[1] > most_features:
            raise LookupError(f"it is for at most {most_features:,} features")
        data = as_matrix(X, threads or thread_count(None))  # the first call imports much, which is not part of a fit

        def fit(loss: str, C: float, rung: float) -> Any:
            problem = RegularizedSVM(data.fork(), y, C=C, loss=loss, bias=False)
            solver = SOLVERS[name]() if name else auto_solver(RegularizedSVM, problem.X, C=C, loss=loss)
            return solve(problem, solver, tol=rung, random_state=0).solution.w

        return fit

    return prepare


def liblinear(primal: bool) -> Callable[[Any, Any, int], Fit]:
    """LIBLINEAR through its own Python package: dual coordinate descent, or TRON on the primal; the rung is -e."""

    def prepare(X: Any, y: Any, threads: int) -> Fit:
        from liblinear.liblinear import liblinear as library
        from liblinear.liblinear import parameter, problem

        data, c = problem(y, X), ctypes.CDLL(None)

        def fit(loss: str, C: float, rung: float) -> Any:
            solver = 3 if loss == "hinge" else 2 if primal else 1
            c.srand(1)  # as in a new process: it draws by rand()
            model = library.train(data, parameter(f"-s {solver} -c {C} -e {rung} -q"))
            w = np.ctypeslib.as_array(model.contents.w, (data.n,)) * model.contents.label[0]
            library.free_and_destroy_model(ctypes.byref(model))
            return w

        return fit

    return prepare


def linear_svc(primal: bool) -> Callable[[Any, Any, int], Fit]:
    """scikit-learn's LinearSVC; the rung is its `tol`."""

    def prepare(X: Any, y: Any, threads: int) -> Fit:
        from sklearn.svm import LinearSVC

        def fit(loss: str, C: float, rung: float) -> Any:
            model = LinearSVC(
                loss=loss, C=C, tol=rung, dual=not primal, fit_intercept=False, max_iter=1_000_000, random_state=0
            )
            return model.fit(X, y).coef_

        return fit

    return prepare


def sgd_classifier(X: Any, y: Any, threads: int) -> Fit:
    """scikit-learn's SGDClassifier; the rung is the number of epochs."""
    from sklearn.linear_model import SGDClassifier

    def fit(loss: str, C: float, rung: float) -> Any:
        model = SGDClassifier(
            loss=loss, alpha=1 / (y.size * C), max_iter=int(rung), tol=None, fit_intercept=False, random_state=0
        )
        return model.fit(X, y).coef_

    return fit


def lightning(X: Any, y: Any, threads: int) -> Fit:
    """lightning's SDCA; the rung is the number of epochs, as its `tol` never stops it with the squared hinge."""
    from lightning.classification import SDCAClassifier

    def fit(loss: str, C: float, rung: float) -> Any:
        model = SDCAClassifier(loss=loss, alpha=1 / (y.size * C), tol=0, max_iter=int(rung), random_state=0)
        return model.fit(X, y).coef_

    return fit


def snapml(X: Any, y: Any, threads: int) -> Fit:
    """IBM's Snap ML; the rung is its `tol`."""
    from snapml import SupportVectorMachine

    def fit(loss: str, C: float, rung: float) -> Any:
        model = SupportVectorMachine(
            loss=loss, regularizer=1 / C, tol=rung, max_iter=100_000, n_jobs=threads or 1, random_state=0
        )
        return model.fit(X, y).coef_

    return fit


ENTRANTS: dict[str, Callable[[Any, Any, int], Fit]] = {
    "maxmargin": maxmargin(),
    "maxmargin-sdca": maxmargin("sdca"),
    "maxmargin-newton": maxmargin("newton", most_features=2_000),
    "liblinear": liblinear(primal=False),
    "liblinear-tron": liblinear(primal=True),
    "LinearSVC": linear_svc(primal=False),
    "LinearSVC-primal": linear_svc(primal=True),
    "SGDClassifier": sgd_classifier,
    "lightning": lightning,
    "snapml": snapml,
}

if __name__ == "__main__":
    main()
