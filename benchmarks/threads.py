"""Cost of the threads of the BLAS: every solver and every predict, in the default environment and with one BLAS thread.

    python benchmarks/threads.py --json threads.json
    python benchmarks/threads.py --quick

A BLAS library uses all processors unless an environment variable says otherwise. Each case runs in new processes with
the default environment and with OPENBLAS_NUM_THREADS=1 (and the same for MKL), in turns, `--repeats` times each; the
least CPU and wall seconds count. In the first table, all cases have n_jobs=1, so only the BLAS differs: the ratio of
CPU seconds, default to one BLAS thread, should be at most 1.1. Only the fit or the predict is timed, after a small fit
that loads all code; a case that takes less than `--least` seconds is repeated within its process.

The second table shows whole fits as a user runs them, with n_jobs=None and the default environment; then with n_jobs=1;
then by scikit-learn's LinearSVC, if it solves the same problem. Sets that are missing are skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import arguments, environment, markdown, mnist_digits, write_json
from sublinear import game

from maxmargin import SVC, EnclosingBall, LinearSVC, solve
from maxmargin.data import find_dataset, read_libsvm
from maxmargin.engine.problem import Trait
from maxmargin.problems import SemidefiniteFeasibility
from maxmargin.solvers import KERNEL_SOLVERS, OTHER_SOLVERS, SOLVERS, ExponentiatedGradient, PrimalDual, SublinearSdp

MOST = 1.1  # the largest accepted ratio of CPU seconds
SETTINGS = {"default": {}, "one BLAS thread": {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}}

Run = Callable[[], Any]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--cases", nargs="+", metavar="CASE", help="only cases whose names begin with one of these")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--least", type=float, default=0.5, help="minimum of measured seconds")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one repeat, no real data")
    parser.add_argument("--one", metavar="CASE", help="run this case in this process, and print its seconds")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure({**SOLVER_CASES, **REAL_CASES}[chosen.one], chosen.quick, chosen.least)))
        return
    if chosen.quick:
        chosen.repeats, chosen.least = 1, 0.05

    def wanted(name: str) -> bool:
        return not chosen.cases or name.startswith(tuple(chosen.cases))

    figures: dict[str, Any] = {}
    lines, above = [], []
    for name in filter(wanted, SOLVER_CASES):
        figures[name] = default, single = best(name, chosen)
        ratio = default["cpu"] / single["cpu"]
        fine = ratio <= MOST
        above += [] if fine else [name]
        took = [f"{run[key]:#.3g}" for run in (default, single) for key in ("cpu", "wall")]
        lines.append([name, *took, f"{ratio:.2f}", "yes" if fine else "NO"])
        print(f"{name}: done", file=sys.stderr, flush=True)
        write_json(chosen.json, figures)
    header = ["case, n_jobs=1", "CPU s", "wall s", "CPU s, one BLAS thread", "wall s, one BLAS thread", "ratio of CPU"]
    print(markdown([*header, f"at most {MOST}"], lines))
    print(f"\nabove {MOST}: {', '.join(above) or 'none'}")
    lines = []
    for name in filter(wanted, () if chosen.quick else REAL_CASES):
        figures[name] = best(name, chosen)
        if "missing" in figures[name][0]:
            print(f"{name} skipped: {figures[name][0]['missing']}")
            continue
        lines.append([name, *(f"{run[key]:#.3g}" for run in figures[name] for key in ("cpu", "wall"))])
        print(f"{name}: done", file=sys.stderr, flush=True)
        write_json(chosen.json, figures)
    if lines:
        header = ["fit", "CPU s", "wall s", "CPU s, one BLAS thread", "wall s, one BLAS thread"]
        print("\n" + markdown(header, lines))


def best(name: str, chosen: Any) -> list[dict[str, Any]]:
    """The least seconds of a case over several new processes, for each setting."""
    command = [sys.executable, __file__, "--one", name, "--least", str(chosen.least)]
    command += ["--quick"] if chosen.quick else []
    runs: list[list[dict[str, Any]]] = [[] for _ in SETTINGS]
    for _ in range(chosen.repeats):
        for own, variables in zip(runs, SETTINGS.values(), strict=True):
            env = environment() | variables
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
            own.append(json.loads(done.stdout.splitlines()[-1]))
            if "missing" in own[0]:
                return [own[0]]
    return [{key: min(run[key] for run in own) for key in ("cpu", "wall")} for own in runs]


def measure(case: Callable[[bool], Run], quick: bool, least: float) -> dict[str, Any]:
    """CPU and wall seconds of a case in this process."""
    warnings.simplefilter("ignore")
    try:
        run = case(quick)
    except FileNotFoundError as missing:
        return {"missing": str(missing)}
    LinearSVC().fit(np.eye(20), np.arange(20) % 2)  # code that is loaded at first use does not count
    time.sleep(1)  # the threads of the BLAS spin for a moment after the data is made
    times, wall, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < least or not times:
        run()
        times += 1
    return {"cpu": (time.process_time() - cpu) / times, "wall": (time.perf_counter() - wall) / times}


def noisy(rows: int, columns: int, quick: bool, flipped: float = 0.05) -> tuple[Any, Any]:
    """Normal features, in float32; a share of the labels are wrong."""
    rng = np.random.default_rng(0)
    n = rows // 10 if quick else rows
    X = rng.normal(size=(n, columns)).astype(np.float32) / np.sqrt(columns)
    y = np.sign(X @ rng.normal(size=columns)) * np.where(rng.random(n) < flipped, -1, 1)
    return X, y.astype(int)


def apart(rows: int, columns: int, quick: bool) -> tuple[Any, Any]:
    """The same data with a margin."""
    X, y = noisy(rows, columns, quick, flipped=0.0)
    return X + 0.2 * y[:, None].astype(np.float32) / np.sqrt(columns), y


# A case makes its data and returns the function that is timed.


def linear(solver: str, quick: bool) -> Run:
    kind = SOLVERS[solver]
    X, y = (apart if Trait.SEPARABLE in kind.requires else noisy)(20_000, 300, quick)
    options: dict[str, Any] = {"slack": 0.0} if Trait.SEPARABLE in kind.requires else {}
    most = {"max_iter": 2} if kind.default_tol is None else {}
    return lambda: LinearSVC(solver=solver, n_jobs=1, random_state=0, **options, **most).fit(X, y)


def kernel(solver: str, quick: bool) -> Run:
    kind = KERNEL_SOLVERS[solver]
    X, y = (apart if Trait.SEPARABLE in kind.requires else noisy)(4_000, 300, quick)
    options: dict[str, Any] = {"slack": 0.0} if Trait.SEPARABLE in kind.requires else {}
    most = {"max_iter": 2} if solver not in ("decomposition", "smo", "sdca") else {}
    return lambda: SVC(solver=solver, n_jobs=1, random_state=0, **options, **most).fit(X, y)


def ball(solver: str, quick: bool) -> Run:
    X, _ = noisy(20_000, 300, quick)
    most = {"max_iter": 2_000} if solver == "sublinear_ball" else {}
    return lambda: EnclosingBall(solver=solver, n_jobs=1, random_state=0, **most).fit(X)


def matrix_game(quick: bool) -> Run:
    n = 200 if quick else 2_000
    problem = game(n, n, 0)
    return lambda: solve(problem, PrimalDual(ExponentiatedGradient(n), eps=0.2, constant=0.5), random_state=0)


def semidefinite(quick: bool) -> Run:
    rng = np.random.default_rng(0)
    n = 30 if quick else 100
    A = rng.normal(size=(n, n, n))
    problem = SemidefiniteFeasibility(A + A.transpose(0, 2, 1))
    return lambda: solve(problem, SublinearSdp(eps=0.3), max_iter=2_000, random_state=0)


def two_classes_predicted(estimator: Any, rows: int, quick: bool) -> Run:
    X, y = noisy(rows, 300, quick)
    model = estimator.fit(X[:2_000], y[:2_000])
    return lambda: model.predict(X)


def sparse_newton(quick: bool, n_jobs: int | None = 1) -> Run:
    X, y = sparse_rows()
    return lambda: LinearSVC(loss="hinge", solver="newton", n_jobs=n_jobs, random_state=0).fit(X, y)


def sparse_rows() -> tuple[Any, Any]:
    """37,000 x 300, with 12 nonzero entries per row."""
    rng = np.random.default_rng(0)
    rows, columns, each = 37_000, 300, 12
    where = np.argsort(rng.random((rows, columns)), axis=1)[:, :each]
    values = rng.normal(size=(rows, each))
    X = sp.csr_matrix((values.ravel(), where.ravel(), each * np.arange(rows + 1)), (rows, columns))
    return X, np.sign(X @ rng.normal(size=columns) + rng.normal(size=rows)).astype(int)


def named(solver: str) -> Callable[[bool], Run]:
    """The case of a solver in OTHER_SOLVERS."""
    return {"primal_dual": matrix_game, "sublinear_sdp": semidefinite}.get(solver) or partial(ball, solver)


SOLVER_CASES: dict[str, Callable[[bool], Run]] = {
    **{f"LinearSVC {name}": partial(linear, name) for name in SOLVERS},
    "LinearSVC newton, sparse": sparse_newton,
    **{f"SVC {name}": partial(kernel, name) for name in KERNEL_SOLVERS},
    **{f"toolbox {name}": named(name) for name in OTHER_SOLVERS},
    "LinearSVC predict": partial(two_classes_predicted, LinearSVC(n_jobs=1), 100_000),
    "SVC predict": partial(two_classes_predicted, SVC(n_jobs=1), 20_000),
    "EnclosingBall predict": partial(two_classes_predicted, EnclosingBall(kernel="rbf", n_jobs=1), 20_000),
}


# As a user runs it


def ten_digits() -> tuple[Any, Any]:
    return mnist_digits("train")


def text() -> tuple[Any, Any]:
    (source,) = find_dataset("20news").glob("*.bz2")
    return read_libsvm(source)


def fitted(load: Callable[[], tuple[Any, Any]], estimator: Callable[[], Any], quick: bool) -> Run:
    X, y = load()
    return lambda: estimator().fit(X, y)


def peer(**parameters: Any) -> Callable[[], Any]:
    from sklearn.svm import LinearSVC as Peer

    return lambda: Peer(**parameters)


REAL_CASES: dict[str, Callable[[bool], Run]] = {
    "LinearSVC(C=0.1), MNIST, ten classes": partial(fitted, ten_digits, lambda: LinearSVC(C=0.1)),
    "... n_jobs=1": partial(fitted, ten_digits, lambda: LinearSVC(C=0.1, n_jobs=1)),
    "... scikit-learn": partial(fitted, ten_digits, peer(C=0.1)),
    "LinearSVC(C=1), 20news": partial(fitted, text, LinearSVC),
    "... n_jobs=1 ": partial(fitted, text, lambda: LinearSVC(n_jobs=1)),
    "... scikit-learn ": partial(fitted, text, peer()),
    "LinearSVC(loss='hinge', solver='newton'), sparse 37,000 x 300": partial(sparse_newton, n_jobs=None),
    "... n_jobs=1  ": sparse_newton,
    "... scikit-learn  ": partial(fitted, sparse_rows, peer(loss="hinge")),
    "SVC(), MNIST, ten classes": partial(fitted, ten_digits, SVC),
    "... n_jobs=1   ": partial(fitted, ten_digits, lambda: SVC(n_jobs=1)),
}

if __name__ == "__main__":
    main()
