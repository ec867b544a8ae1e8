"""One fit with a kernel in a process of its own, run by the Python of any environment that has the library.

    python benchmarks/kernel_worker.py ENTRANT DATA.npz MODEL.npz --parameters '{"gamma": 0.02, "C": 1}' --cores 1

The data is converted to the entrant's layout first, which is not timed. Then the fit runs; it is killed after `--cap`
seconds. The script writes a line {"cpu": ..., "wall": ..., "peak": ...}: the seconds of the fit alone, and the largest
resident memory of the whole process in bytes, with interpreter, libraries and data. The line is {"missing": reason} if
the entrant is missing. The model is written to a file, as `support`, `coef` (signed by label), `intercept` and what
else the entrant reports about its fit. With several classes, the file contains the models of all pairs of classes in
LIBSVM's layout: `classes` in their order, `coef` with one row fewer than there are classes, and an intercept for each
pair.

Without MODEL and --parameters, the process stays and answers requests for fits, {"parameters": {...}, "seconds": 60},
like linear_worker.py. A parameter of null stands for the library's own default.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import linear_worker
import numpy as np
import scipy.sparse as sp

Fit = Callable[[], dict[str, Any]]
DEFAULTS = {"kernel": "rbf", "coef0": 0.0, "degree": 3, "cache_size": 2000, "tol": 1e-3, "bias": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entrant", choices=sorted(ENTRANTS))
    parser.add_argument("data", help="a file written by `save` of linear_worker.py")
    parser.add_argument("model", nargs="?", help="file for the model")
    parser.add_argument("--parameters", type=json.loads, help="JSON with gamma, C and others")
    parser.add_argument("--cores", type=int, nargs="*", help="cores to which the process is pinned")
    parser.add_argument("--threads", type=int, default=1, help="0: the library's default")
    parser.add_argument("--cap", type=float, default=0.0, help="limit of the fit in seconds; 0: no limit")
    chosen = parser.parse_args()
    if chosen.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, chosen.cores)
    prepare, layout = ENTRANTS[chosen.entrant]
    X, y = linear_worker.load(chosen.data)
    X = layout(X)
    if chosen.model is None:

        def ready() -> Callable[..., Fit]:
            prepare(X, y, DEFAULTS | {"gamma": 1.0, "C": 1.0}, chosen.threads)  # reports now if something is missing
            return lambda parameters: prepare(X, y, DEFAULTS | parameters, chosen.threads)

        linear_worker.serve(ready)
        return
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an entrant prints must not get into the answers
    warnings.simplefilter("ignore")
    try:
        fit = prepare(X, y, DEFAULTS | chosen.parameters, chosen.threads)
    except (ImportError, LookupError) as reason:
        print(json.dumps({"missing": f"{type(reason).__name__}: {reason}"}), file=answers)
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # this ends the process, even within compiled code
    signal.setitimer(signal.ITIMER_REAL, chosen.cap)
    wall, cpu = time.perf_counter(), time.process_time()
    model = fit()
    took = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    signal.setitimer(signal.ITIMER_REAL, 0)
    np.savez(chosen.model, **model)
    print(json.dumps(took | {"peak": peak()}), file=answers)


def peak() -> int:
    """The largest resident memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, getrusage includes the process that started this one
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return 1024 * int(lines["VmHWM"].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def as_it_is(dtype: Any) -> Callable[[Any], Any]:
    return lambda X: sp.csr_matrix(X, dtype=dtype) if sp.issparse(X) else linear_worker.dense(X, dtype)


def maxmargin(X: Any, y: Any, p: dict[str, Any], threads: int) -> Fit:
    """Our estimator, as a user calls it."""
    from maxmargin import SVC

    def fit() -> dict[str, Any]:
        options = {"fit_intercept": p["bias"], "max_time": p.get("max_time"), "n_jobs": threads or None}
        model = SVC(random_state=0, **given(p), **options).fit(X, y)
        told = {"evaluations": evaluations(model.reads_), "saved": model.kernel_evaluations_saved_}
        return of_estimator(model) | told

    return fit


def maxmargin_solver(X: Any, y: Any, p: dict[str, Any], threads: int) -> Fit:
    """One of our solvers: `solver` is its name, `options` are its parameters; it gets `C` or `slack`, as it needs.

    With `curve`, the intermediate models are returned too, see Curve. `holdout` is the share of the rows that is held
    out for early stopping.
    """
    from maxmargin.core.threads import thread_count
    from maxmargin.problems import KernelMatrix, RegularizedSVM, make_kernel
    from maxmargin.solvers import KERNEL_SOLVERS, Holdout, solve

    if p["solver"] not in KERNEL_SOLVERS:
        raise LookupError(f"there is no solver {p['solver']!r} for kernels")
    solver = KERNEL_SOLVERS[p["solver"]](**p.get("options", {}))
    kernel = make_kernel(p["kernel"], X, gamma=p["gamma"], coef0=p["coef0"], degree=p["degree"])
    held = np.random.default_rng(1).permutation(y.size)[: round(p.get("holdout", 0) * y.size)]
    weights = np.ones(y.size)
    weights[held] = 0.0

    def fit() -> dict[str, Any]:
        K = KernelMatrix(X, kernel, cache_size=p["cache_size"], threads=threads or thread_count(None))
        at = {"C": p["C"]} if issubclass(solver.solves, RegularizedSVM) else {"slack": p["slack"]}
        problem = solver.solves(K, y, bias=p["bias"], sample_weight=weights if held.size else None, **at)
        curve = Curve(K) if p.get("curve") else None
        result = solve(
            problem,
            solver,
            tol=p["tol"],
            max_time=p.get("max_time"),
            holdout=Holdout(K, y[held], held) if held.size else None,
            early_stopping=bool(held.size),
            certify=p.get("certify", True),
            callback=curve,
            random_state=p.get("seed", 0),
        )
        beta = result.solution.w.beta
        support = np.flatnonzero(beta)
        found = {"support": support, "coef": beta[support] / problem.scale, "intercept": result.solution.b}
        found |= {"evaluations": evaluations(K.ledger.summary()), "saved": K.saved, "status": result.status}
        return found | (curve.arrays(problem.scale) if curve else {})

    return fit


def evaluations(reads: dict[str, int]) -> int:
    """All kernel evaluations of a fit, including those for the certificate."""
    return sum(count for purpose, count in reads.items() if purpose not in ("learning, dense count", "curve"))


class Curve:
    """A callback that records intermediate models, each time the seconds have grown by a few per cent.

    Seconds count from its creation. Its own seconds and its own kernel evaluations do not count.
    """

    growth = 1.03

    def __init__(self, K: Any) -> None:
        self.K = K
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        self.paused = np.zeros(2)
        self.points: list[dict[str, float]] = []
        self.betas: list[Any] = []

    def __call__(self, progress: Any) -> None:
        now = np.array([time.perf_counter(), time.process_time()])
        wall, cpu = now - (self.wall, self.cpu) - self.paused
        if not self.points or wall >= self.growth * self.points[-1]["wall"]:
            row, saved = progress.row, self.K.saved
            with self.K.ledger.on("curve"):
                solution = progress.solution()
            self.K.saved = saved
            point = {"wall": wall, "cpu": cpu, "evaluations": row.kernel_evaluations}
            self.points.append(point | {"holdout_error": row.holdout_error, "intercept": solution.b})
            self.betas.append(sp.csr_matrix(solution.w.beta))
        self.paused += np.array([time.perf_counter(), time.process_time()]) - now

    def arrays(self, scale: float = 1.0) -> dict[str, Any]:
        """The curve as arrays: the numbers of all points, their coefficients as a CSR matrix, and the pauses."""
        betas = sp.csr_matrix(sp.vstack(self.betas) / scale)
        found = {f"curve_{name}": np.array([point[name] for point in self.points]) for name in self.points[0]}
        parts = {f"curve_{name}": getattr(betas, name) for name in ("data", "indices", "indptr")}
        return found | parts | {"paused": self.paused}


def svc(module: str) -> Callable[[Any, Any, dict[str, Any], int], Fit]:
    """The SVC of scikit-learn, or of a library with the same interface."""

    def prepare(X: Any, y: Any, p: dict[str, Any], threads: int) -> Fit:
        if module == "sklearnex.svm" and threads:
            import daal4py

            daal4py.daalinit(threads)
        SVC = getattr(__import__(module, fromlist=["SVC"]), "SVC")  # noqa: B009, the module is known at run time only
        return lambda: of_estimator(SVC(**given(p)).fit(X, y))

    return prepare


def given(p: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an SVC that are not left at the library's defaults."""
    names = ("C", "kernel", "gamma", "coef0", "degree", "tol", "cache_size")
    return {name: p[name] for name in names if p[name] is not None}


def of_estimator(model: Any) -> dict[str, Any]:
    """A model from the fitted attributes, which follow scikit-learn's conventions."""
    coef = model.dual_coef_
    coef = coef.toarray() if sp.issparse(coef) else coef  # scikit-learn makes it sparse if the data is
    if len(model.classes_) == 2:
        return {"support": model.support_, "coef": np.ravel(coef), "intercept": float(model.intercept_[0])}
    return {"support": model.support_, "coef": coef, "intercept": model.intercept_, "classes": model.classes_}


def libsvm(X: Any, y: Any, p: dict[str, Any], threads: int) -> Fit:
    """LIBSVM through its own Python package; the data is already in its format."""
    import libsvm.svm as own

    data = own.svm_problem(y, sp.csr_matrix(X))
    kernel = own.kernel_names[p["kernel"].upper()].value
    flags = {"-t": kernel, "-g": p["gamma"], "-r": p["coef0"], "-d": p["degree"], "-c": p["C"], "-e": p["tol"]}
    flags |= {} if p["cache_size"] is None else {"-m": p["cache_size"]}
    asked = own.svm_parameter(" ".join(f"{flag} {value}" for flag, value in flags.items()) + " -q")

    def fit() -> dict[str, Any]:
        model = own.libsvm.svm_train(data, asked).contents
        labels, count = np.array(model.label[: model.nr_class]), model.l
        support = np.ctypeslib.as_array(model.sv_indices, (count,)) - 1
        coef = np.array([np.ctypeslib.as_array(model.sv_coef[k], (count,)) for k in range(labels.size - 1)])
        rho = np.array(model.rho[: labels.size * (labels.size - 1) // 2])
        if labels.size == 2:
            return {"support": support, "coef": labels[0] * coef[0], "intercept": -labels[0] * rho[0]}
        return {"support": support, "coef": coef, "intercept": -rho, "classes": labels}

    return fit


ENTRANTS: dict[str, tuple[Callable[[Any, Any, dict[str, Any], int], Fit], Callable[[Any], Any]]] = {
    "maxmargin": (maxmargin, as_it_is(np.float32)),
    "maxmargin-float64": (maxmargin, as_it_is(np.float64)),
    "solver": (maxmargin_solver, as_it_is(np.float32)),
    "intelex-float32": (svc("sklearnex.svm"), lambda X: linear_worker.dense(X, np.float32)),
    "intelex-float64": (svc("sklearnex.svm"), lambda X: linear_worker.dense(X, np.float64)),
    "scikit-learn": (svc("sklearn.svm"), as_it_is(np.float64)),
    "libsvm": (libsvm, as_it_is(np.float64)),
}

if __name__ == "__main__":
    main()
