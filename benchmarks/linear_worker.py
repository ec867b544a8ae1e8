"""One entrant of linear.py in a process of its own.

The process can be stopped in the middle of a fit, be pinned to a core, and be run by the Python of another environment,
where maxmargin is not installed.

    python benchmarks/linear_worker.py ENTRANT DATA.npz --layout csr32 --cores 1 --threads 1

The data is converted to the entrant's layout first, which is not timed. Then the script writes a line
{"missing": null}, or {"missing": reason} if there is no such entrant. Each line of the standard input asks for a fit,
{"loss": "hinge", "C": 1.0, "rung": 0.1, "seconds": 60}. The answer is a line {"cpu": ..., "wall": ..., "bytes": ...}
with the seconds of the fit alone and the size of what follows: w in float64, with a row for each class if there are
more than two, as the only array of an .npz file. A fit that needs more CPU seconds than it was given ends the process.
Other workers share `serve`, which implements all this.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import json
import math
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

# loss, C and rung (a tolerance or a number of epochs) -> w, or a function that returns w and is not timed
Fit = Callable[[str, float, float], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entrant", choices=sorted(ENTRANTS))
    parser.add_argument("data", help="a file written by `save` of this module")
    parser.add_argument("--layout", choices=sorted(LAYOUTS), default="csr64")
    parser.add_argument("--cores", type=int, nargs="*", help="cores to which the process is pinned")
    parser.add_argument("--threads", type=int, default=1, help="0: the library's default")
    chosen = parser.parse_args()
    if chosen.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, chosen.cores)
    tempfile.tempdir = str(Path(chosen.data).parent)  # its owner removes it, even if this process is killed

    def prepare() -> Callable[..., Callable[[], dict[str, Any]]]:
        X, y = load(chosen.data)
        fit = ENTRANTS[chosen.entrant](LAYOUTS[chosen.layout](X), y, chosen.threads)
        return lambda loss, C, rung: lambda: {"w": fit(loss, C, rung)}

    serve(prepare)


def serve(prepare: Callable[[], Callable[..., Callable[[], dict[str, Any]]]]) -> None:
    """Answer each request on the standard input with the seconds of a fit and the arrays of its model.

    `prepare` returns a function that makes a fit from a request; only the fit is timed. An array of the model may be a
    function that returns the array and is not timed.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an entrant prints must not get into the answers
    warnings.simplefilter("ignore")  # warnings about loose tolerances
    try:
        asked = prepare()
    except (ImportError, LookupError) as reason:
        send(answers, {"missing": f"{type(reason).__name__}: {reason}"})
        return
    send(answers, {"missing": None})
    for line in sys.stdin:
        request = json.loads(line)
        limit_cpu(request.pop("seconds"))
        fit = asked(**request)
        wall, cpu = time.perf_counter(), time.process_time()
        model = fit()
        took = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        file = io.BytesIO()
        np.savez(file, **{name: value() if callable(value) else value for name, value in model.items()})
        send(answers, took | {"bytes": file.tell()}, file.getvalue())


def send(answers: Any, line: dict[str, Any], content: bytes = b"") -> None:
    answers.write(json.dumps(line).encode() + b"\n" + content)
    answers.flush()


def limit_cpu(seconds: float) -> None:
    """End the process after `seconds` more CPU seconds, at most one later; compiled loops cannot be asked to stop."""
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


# csr_matrix, because LIBLINEAR, snapml and lightning do not take csr_array.
LAYOUTS = {
    "csr32": lambda X: sp.csr_matrix(X, dtype=np.float32),
    "csr64": lambda X: sp.csr_matrix(X, dtype=np.float64),
    "dense32": lambda X: dense(X, np.float32),
    "dense64": lambda X: dense(X, np.float64),
}


def maxmargin(name: str | None = None, most_features: float = math.inf) -> Callable[[Any, Any, int], Fit]:
    """Our solver of this name, or the one that `auto` chooses if there is no name; the rung is the relative gap."""

    def prepare(X: Any, y: Any, threads: int) -> Fit:
        from maxmargin.core.threads import thread_count
        from maxmargin.data import as_matrix
        from maxmargin.problems import RegularizedSVM
        from maxmargin.solvers import SOLVERS, auto_solver, solve

        if X.shape[1] > most_features:
            raise LookupError(f"it is for at most {most_features:,} features")
        data = as_matrix(X, threads or thread_count(None))  # the first call imports a lot, which must not count

        def fit(loss: str, C: float, rung: float) -> Any:
            problem = RegularizedSVM(data.fork(), y, C=C, loss=loss, bias=False)
            solver = SOLVERS[name]() if name else auto_solver(RegularizedSVM, problem.X, C=C, loss=loss)
            return solve(problem, solver, tol=rung, random_state=0).solution.w

        return fit

    return prepare


def maxmargin_estimator(X: Any, y: Any, threads: int) -> Fit:
    """Our estimator, with checks of the input and for any number of classes; the rung is `tol`."""
    from maxmargin import LinearSVC

    def fit(loss: str, C: float, rung: float) -> Any:
        model = LinearSVC(loss=loss, C=C, tol=rung, fit_intercept=False, n_jobs=threads or None, random_state=0)
        return model.fit(X, y).coef_

    return fit


def liblinear(primal: bool) -> Callable[[Any, Any, int], Fit]:
    """LIBLINEAR through its own Python package: dual coordinate descent, or TRON on the primal; the rung is -e."""

    def prepare(X: Any, y: Any, threads: int) -> Fit:
        from liblinear.liblinear import liblinear as library
        from liblinear.liblinear import parameter, problem

        data, c = problem(y, X), ctypes.CDLL(None)

        def fit(loss: str, C: float, rung: float) -> Any:
            solver = 3 if loss == "hinge" else 2 if primal else 1
            c.srand(1)  # as in a new process, because it draws with rand()
            model = library.train(data, parameter(f"-s {solver} -c {C} -e {rung} -q"))
            labels = model.contents.label[: model.contents.nr_class]
            if len(labels) == 2:
                w = np.ctypeslib.as_array(model.contents.w, (data.n,)) * labels[0]
            else:  # a column for each class, in the order in which they first occur
                w = np.ctypeslib.as_array(model.contents.w, (data.n, len(labels))).T[np.argsort(labels)]
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


def skglm(X: Any, y: Any, threads: int) -> Fit:
    """skglm's LinearSVC; the rung is its `tol`. It is compiled at its first use, which is not timed."""
    from skglm.estimators import LinearSVC

    def fit(loss: str, C: float, rung: float) -> Any:
        return LinearSVC(C=C, tol=rung, fit_intercept=False).fit(X, y).coef_

    rows = np.concatenate([np.flatnonzero(y == label)[:2] for label in np.unique(y)])
    LinearSVC(fit_intercept=False).fit(X[rows], y[rows])
    return fit


def cyanure(X: Any, y: Any, threads: int) -> Fit:
    """Cyanure's LinearSVC, whose loss is the squared hinge; the rung is its `tol`."""
    from cyanure.estimators import LinearSVC

    def fit(loss: str, C: float, rung: float) -> Any:
        options = {"n_threads": threads} if threads else {}
        model = LinearSVC(
            lambda_1=0.5 / (y.size * C), tol=rung, fit_intercept=False, max_iter=100_000, random_state=0, **options
        )
        return model.fit(X, y).coef_.T  # a column for each class if there are several

    return fit


def vowpal_wabbit(options: str = "") -> Callable[[Any, Any, int], Fit]:
    """Vowpal Wabbit, with the data in its cache file before the fit; the rung is the number of passes.

    It trains on all rows; by default it would hold out one row in ten to decide when to stop.
    """

    def prepare(X: Any, y: Any, threads: int) -> Fit:
        from vowpalwabbit import Workspace

        labels, codes = np.unique(y, return_inverse=True)
        several = labels.size > 2
        rows, d = sp.csr_matrix(X), X.shape[1]
        text, cache = (str(Path(tempfile.mkdtemp()) / name) for name in ("rows", "cache"))
        with open(text, "w") as lines:
            for i, label in enumerate(codes + 1 if several else 2 * codes - 1):
                own = slice(rows.indptr[i], rows.indptr[i + 1])
                entries = zip(rows.indices[own].tolist(), rows.data[own].tolist(), strict=True)
                lines.write(f"{label} | {' '.join(f'{j}:{value!r}' for j, value in entries)}\n")
        # Features whose names are numbers are not hashed, so they do not collide.
        bits = max(18, d.bit_length())
        common = f"-d {text} --cache_file {cache} -b {bits} --loss_function hinge --noconstant --quiet"
        if several:
            common += f" --oaa {labels.size}"
        Workspace(f"{common} -k").finish()
        os.remove(text)

        def fit(loss: str, C: float, rung: float) -> Any:
            asked = f"{common} --l2 {1 / (y.size * C)} --passes {int(rung)} --holdout_off {options}"
            model = Workspace(asked)
            return partial(weights, model)

        def weights(model: Any) -> Any:
            # With l2, the weights of a trained model lack a factor that is common to all of them; a model that is
            # loaded from a file has applied it.
            saved = str(Path(cache).with_name("model"))
            model.save(saved)
            model.finish()
            loaded = Workspace(f"-i {saved} -t --quiet")
            classes = range(labels.size if several else 1)
            return np.array([[loaded.get_weight(j, k) for j in range(d)] for k in classes])

        return fit

    return prepare


ENTRANTS: dict[str, Callable[[Any, Any, int], Fit]] = {
    "maxmargin": maxmargin(),
    "maxmargin-estimator": maxmargin_estimator,
    "maxmargin-sdca": maxmargin("sdca"),
    "maxmargin-newton": maxmargin("newton", most_features=2_000),
    "liblinear": liblinear(primal=False),
    "liblinear-tron": liblinear(primal=True),
    "LinearSVC": linear_svc(primal=False),
    "LinearSVC-primal": linear_svc(primal=True),
    "SGDClassifier": sgd_classifier,
    "lightning": lightning,
    "snapml": snapml,
    "skglm": skglm,
    "cyanure": cyanure,
    "vowpal-wabbit": vowpal_wabbit(),
    "vowpal-wabbit-sgd": vowpal_wabbit("--sgd"),
}

if __name__ == "__main__":
    main()
