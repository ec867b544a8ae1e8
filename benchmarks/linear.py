"""Seconds to the objective that LIBLINEAR reaches, for linear SVMs without a bias: maxmargin and its peers.

    python benchmarks/linear.py --json linear.json
    python benchmarks/linear.py --threads 2 --entrants maxmargin liblinear snapml

All entrants minimise P(w) = 1/2|w|^2 + C sum l(y_i <w, x_i>), with the hinge loss l(c) = (1 - c)_+ or its square. The
targets come from LIBLINEAR's dual coordinate descent (-s 3, or -s 1 for the squared hinge) at -e 0.1 and at -e 0.001: a
target is the objective that it reaches, shown as its suboptimality (P - P*) / P*. Every entrant tries a ladder of
tolerances, or of numbers of epochs, from loose to tight, until it reaches the targets. For each target, the two
cheapest rungs that reach it run again, with the entrants taking turns, and the best time of all runs counts. Objectives
are computed here, in float64 from the returned w.

Only the call that fits is timed. LIBLINEAR has the data in its own format already; for other entrants, conversions
within the call count. All entrants get CSR, even for MNIST (19 % full) and covtype (22 %): there it was clearly faster
than dense arrays or, for SGDClassifier and snapml on covtype, about as fast; `--dense` gives dense arrays. ENTRANTS
says which entrants get float32 and which get float64. Each entrant has a process of its own. There are two tables: wall
seconds with the default environment and `n_jobs`, on any core, which is what a user gets; and CPU seconds of one
thread, pinned to a core. With `--threads 2`, maxmargin and snapml use two cores, and wall times are compared. A fit may
use `--cap` CPU seconds, and `--patience` times as many as LIBLINEAR; then it is stopped and shown as "> 60". LIBLINEAR
itself may use five times the cap. "no" means that no rung reached the target, "-" that the entrant does not take part.

P* is the lowest objective seen, including one that our solver certifies to within 1e-9; `--optima` takes that one from
the --json file of an earlier run. A target that is closer to P* than `--floor` is moved to that distance. LIBLINEAR
stops after 300 iterations, sometimes far from P*: if `--ceiling` is given, a target that is farther from P* is moved to
that distance.

The ratio is the time of the best peer divided by the time of `maxmargin`, which is the solver that runs if a user names
none.

Peers that are not installed are skipped. To install them: `pip install liblinear-official snapml skglm cyanure
vowpalwabbit`. lightning needs NumPy 1 and thus an environment of its own, whose Python the variable
MAXMARGIN_LIGHTNING_PYTHON names: there, `pip install "numpy<2" "scipy<1.13" "scikit-learn<1.5" "Cython<3"
"setuptools<65" wheel`, then `pip install --no-build-isolation sklearn-contrib-lightning`.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import linear_worker
import numpy as np
import scipy.sparse as sp
from common import (
    AS_A_USER,
    add_threads,
    arguments,
    cores_for,
    covtype_rows,
    markdown,
    measured,
    mnist_digits,
    setting,
    settings,
    write_json,
)
from workers import Stopped, WorkerProcess

from maxmargin.data import find_dataset, load_adult, read_libsvm
from maxmargin.problems import RegularizedSVM
from maxmargin.solvers import Newton, Sdca, solve

LOSSES = ("hinge", "squared_hinge")
TARGETS = (0.1, 0.001)  # LIBLINEAR's -e
TOLERANCES = tuple(float(f"{digit}e-{power}") for power in range(11) for digit in (3, 1))[1:]  # 1, 0.3, 0.1, ..., 1e-10
EPOCHS = (1, 2, 3, 5, 7, *(round(digit * 10**power) for power in (1, 2, 3) for digit in (1, 1.5, 2, 3, 5, 7)))


@dataclass(frozen=True)
class Entrant:
    """How an entrant of linear_worker.py takes part."""

    layout: str  # of all sets; dense sets are passed as dense arrays only with `--dense`
    ladder: Sequence[float] = TOLERANCES
    losses: Sequence[str] = LOSSES
    threads: bool = False  # whether it can use several threads threads
    python: str | None = None  # the environment variable that names its Python, if it is not this one


ENTRANTS = {
    "maxmargin": Entrant("csr32", threads=True),
    "maxmargin-estimator": Entrant("csr32", threads=True),
    "maxmargin-sdca": Entrant("csr32", threads=True),
    "maxmargin-newton": Entrant("csr32", threads=True),
    "liblinear": Entrant("csr64", [rung for rung in TOLERANCES if rung >= min(TARGETS)]),
    "liblinear-tron": Entrant("csr64", losses=LOSSES[1:]),
    "LinearSVC": Entrant("csr64"),
    "LinearSVC-primal": Entrant("csr64", losses=LOSSES[1:]),
    "SGDClassifier": Entrant("csr64", EPOCHS),
    "lightning": Entrant("csr64", EPOCHS, python="MAXMARGIN_LIGHTNING_PYTHON"),
    "snapml": Entrant("csr32", threads=True),
    "skglm": Entrant("csr64", losses=LOSSES[:1]),
    "cyanure": Entrant("csr64", losses=LOSSES[1:], threads=True),
    "vowpal-wabbit": Entrant("csr32", EPOCHS, LOSSES[:1]),
    "vowpal-wabbit-sgd": Entrant("csr32", EPOCHS, LOSSES[:1]),
}
PEER = "liblinear"  # it sets the targets
SPARSE_ONLY = ("liblinear", "liblinear-tron", "vowpal-wabbit", "vowpal-wabbit-sgd")  # their own formats leave out zeros
OURS = "maxmargin"
NAMED = ("maxmargin-estimator", "maxmargin-sdca", "maxmargin-newton")  # also ours; they run only if they are named


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=LOSSES)
    parser.add_argument("--C", type=float, nargs="+", default=[0.1, 1, 10])
    parser.add_argument(
        "--entrants", nargs="+", choices=ENTRANTS, default=[name for name in ENTRANTS if name not in NAMED]
    )
    parser.add_argument("--dense", action="store_true", help="pass MNIST and covtype as dense arrays, not as CSR")
    parser.add_argument("--repeats", type=int, default=3, help="number of runs of the chosen rungs")
    add_threads(parser)
    parser.add_argument("--cores", type=int, nargs="+", help="cores for the fits, default: the last ones")
    parser.add_argument("--cap", type=float, default=60, help="limit of a fit in CPU seconds")
    parser.add_argument("--patience", type=float, default=4, help="limit of a fit in multiples of LIBLINEAR's")
    parser.add_argument("--floor", type=float, default=1e-9, help="smallest suboptimality of a target")
    parser.add_argument("--ceiling", type=float, default=math.inf, help="largest suboptimality of a target")
    parser.add_argument("--optima", type=Path, metavar="FILE", help="--json file of an earlier run, for P*")
    chosen = parser.parse_args()
    optima = json.loads(chosen.optima.read_text())["optima"] if chosen.optima else {}
    figures: dict[str, Any] = {"versions": versions(), "optima": optima, "rows": []}
    for at in settings(chosen):
        compare(at, figures)


def compare(chosen: Any, figures: dict[str, Any]) -> None:
    """Compare all entrants on all problems, for one number of threads; print a table and add to the figures."""
    cores, optima = cores_for(chosen.threads, chosen.cores), figures["optima"]
    measure, rows, waited = measured(chosen.threads), [], []
    for name in chosen.sets:
        try:
            X, y = SETS[name]()
        except FileNotFoundError as missing:
            print(f"{name} skipped: {missing}")
            continue
        with running(X, y, dict.fromkeys([PEER, *chosen.entrants]), cores, chosen.threads, chosen.dense) as workers:
            for loss in chosen.losses:
                for C in chosen.C:
                    case = f"{name} {loss} {C:g}"
                    known = optima.get(case) or certified_optimum(X, y, loss, C)
                    own = race(workers, X, y, loss, C, known, measure, chosen)
                    rows += [{"set": name, "threads": chosen.threads} | row for row in own]
                    if own:
                        optima[case] = own[0]["optimum"]
                    write_json(chosen.json, {**figures, "rows": figures["rows"] + rows})
                    print(f"{case}: done", file=sys.stderr, flush=True)
            waited += [worker.wall / worker.cpu for worker in workers.values() if worker.threads == 1 and worker.cpu]
    figures["rows"] += rows
    print(f"\n{setting(chosen.threads)}; {measure} seconds; ratio: best peer / maxmargin\n")
    print(table(rows, chosen.entrants, measure))
    if waited:
        print(f"\nwall / CPU time of fits with one thread: {np.mean(waited):.2f} (well above 1: the machine was busy)")


def certified_optimum(X: Any, y: Any, loss: str, C: float) -> float:
    """P* to within 1e-9, or as close as our own solver comes in two minutes."""
    return objective(X, y, reference(X, y, loss, C, 120).solution.w, loss, C)


def reference(X: Any, y: Any, loss: str, C: float, seconds: float) -> Any:
    """The result of our own solver to within 1e-9, or as close as it comes in `seconds` seconds."""
    solver = Newton() if X.shape[1] <= 2_000 else Sdca()
    problem = RegularizedSVM(X, y, C=C, loss=loss, bias=False)
    return solve(problem, solver, tol=1e-9, max_time=seconds, random_state=0)


def objective(X: Any, y: Any, w: Any, loss: str, C: float) -> float:
    """P(w) in float64, for data of any type."""
    step = 20_000  # rows converted at a time
    margins = y * np.concatenate([X[i : i + step].astype(np.float64) @ w for i in range(0, y.size, step)])
    slack = np.maximum(1 - margins, 0)
    return float(0.5 * (w @ w) + C * (slack.sum() if loss == "hinge" else slack @ slack))


@dataclass(frozen=True)
class Run:
    """One fit."""

    rung: float
    primal: float
    cpu: float
    wall: float


def race(
    workers: Mapping[str, Worker], X: Any, y: Any, loss: str, C: float, known: float, measure: str, chosen: Any
) -> list[dict[str, Any]]:
    """Let all workers reach the targets of one problem; return one row for each target.

    `known` is an upper bound of P*, `measure` is "cpu" or "wall", and `chosen` has the options `repeats`, `cap`,
    `patience`, `floor` and `ceiling`.
    """
    names = [name for name in workers if loss in ENTRANTS[name].losses]
    runs: dict[str, list[Run]] = {name: [] for name in names}
    stopped: dict[str, str] = {}

    def fit(name: str, rung: float, seconds: float) -> Run:
        w, cpu, wall = workers[name].fit(loss, C, rung, seconds)
        runs[name].append(Run(rung, objective(X, y, w, loss, C), cpu, wall))
        return runs[name][-1]

    targets = {}
    for e in TARGETS:
        try:
            targets[e] = fit(PEER, e, 5 * chosen.cap)
        except Stopped as reason:
            print(f"no target for {loss}, C = {C:g}: LIBLINEAR at -e {e:g} {reason}")
    if not targets:
        return []
    lowest = min(known, *(run.primal for run in targets.values()))
    least, most = lowest * (1 + chosen.floor), lowest * (1 + chosen.ceiling)
    goals = {e: min(max(run.primal, least), most) for e, run in targets.items()}
    limit = min(chosen.cap, chosen.patience * max(run.cpu for run in targets.values()))

    for name in names:
        try:
            for rung in ENTRANTS[name].ladder:
                if name == PEER and rung in targets:
                    continue
                if fit(name, rung, limit).primal <= min(goals.values()):
                    break
        except Stopped as reason:
            stopped[name] = str(reason)
    again = {name: {rung for goal in goals.values() for rung in cheapest(runs[name], goal, measure)} for name in names}
    for _ in range(chosen.repeats - 1):
        for name in names:
            for rung in sorted(again[name], reverse=True):
                if sum(run.cpu for run in runs[name] if run.rung == rung) < chosen.cap:
                    fit(name, rung, 5 * chosen.cap)

    optimum = min(known, *(run.primal for own in runs.values() for run in own))
    return [
        {
            "loss": loss,
            "C": C,
            "e": e,
            "optimum": optimum,
            "suboptimality": goal / optimum - 1,
            "entrants": {name: outcome(runs[name], goal, optimum, measure, stopped.get(name, "no")) for name in names},
        }
        for e, goal in goals.items()
    ]


def cheapest(runs: Sequence[Run], goal: float, measure: str, count: int = 2) -> list[float]:
    """The cheapest rungs that reach the goal."""
    good = sorted((run for run in runs if run.primal <= goal), key=lambda run: getattr(run, measure))
    return list(dict.fromkeys(run.rung for run in good))[:count]


def outcome(runs: Sequence[Run], goal: float, optimum: float, measure: str, otherwise: str) -> dict[str, Any]:
    """The best of the runs that reach the goal, or why there is none."""
    rungs = cheapest(runs, goal, measure, 1)
    if not rungs:
        reached = min((run.primal for run in runs), default=math.nan)
        return {"stopped": otherwise, "suboptimality": reached / optimum - 1}
    good = [run for run in runs if run.rung == rungs[0] and run.primal <= goal]
    return {
        "cpu": min(run.cpu for run in good),
        "wall": min(run.wall for run in good),
        "rung": rungs[0],
        "suboptimality": good[0].primal / optimum - 1,
    }


def table(rows: Sequence[Mapping[str, Any]], names: Sequence[str], measure: str) -> str:
    """A table with one line for each target."""
    lines = []
    for row in rows:
        seconds = {name: found.get(measure, math.inf) for name, found in row["entrants"].items()}
        peer = min(seconds.keys() - {OURS, *NAMED}, key=seconds.__getitem__)
        ratio = f"{seconds[peer] / seconds[OURS]:.2f} ({peer})" if OURS in seconds else "-"
        cells = []
        for name in names:
            found = row["entrants"].get(name, {"stopped": "-"})
            cells.append(f"{found[measure]:#.3g}" if measure in found else found["stopped"])
        case = [row["set"], row["loss"], f"{row['C']:g}", f"{row['e']:g}", f"{row['suboptimality']:.1e}"]
        lines.append([*case, *cells, ratio])
    return markdown(["set", "loss", "C", "-e", "target", *names, "ratio"], lines)


class Worker(WorkerProcess):
    """An entrant in a process of its own; `python` is a Python that has it, by default the one that ENTRANTS names."""

    def __init__(
        self,
        name: str,
        data: Path,
        cores: Sequence[int] = (),
        threads: int = 1,
        dense: bool = False,
        python: str | None = None,
    ) -> None:
        entrant = ENTRANTS[name]
        threads = threads if entrant.threads or threads == AS_A_USER else 1
        layout = entrant.layout.replace("csr", "dense") if dense and name not in SPARSE_ONLY else entrant.layout
        python = python or (os.environ.get(entrant.python) if entrant.python else sys.executable)
        missing = "" if python else f"set {entrant.python} to the Python of its environment"
        command = [python, linear_worker.__file__, name, data, "--layout", layout]
        command += ["--threads", threads, "--cores", *cores[:threads]]
        super().__init__(name, command, threads, missing)

    def fit(self, loss: str, C: float, rung: float, seconds: float) -> tuple[Any, float, float]:
        """Fit within `seconds` CPU seconds on each thread; return w, CPU seconds and wall seconds."""
        model, cpu, wall = self.ask({"loss": loss, "C": C, "rung": rung}, seconds)
        return np.ravel(model["w"]), cpu, wall


@contextmanager
def running(
    X: Any, y: Any, names: Iterable[str], cores: Sequence[int], threads: int, dense: bool
) -> Iterator[dict[str, Worker]]:
    """The available workers, with the data in their layouts; they end when the block is left."""
    workers = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        linear_worker.save(data, X, y)
        try:
            for name in names:
                workers[name] = Worker(name, data, cores, threads, dense and not sp.issparse(X))
                if workers[name].missing:
                    print(f"{name} skipped: {workers[name].missing}")
            if workers[PEER].missing:
                sys.exit("LIBLINEAR sets the targets: pip install liblinear-official")
            yield {name: worker for name, worker in workers.items() if not worker.missing}
        finally:
            for worker in workers.values():
                worker.end()


def text(name: str) -> tuple[Any, Any]:
    """Four fifths of the rows; the other rows are for testing."""
    (source,) = find_dataset(name).glob("*.bz2")
    X, y = read_libsvm(source, dtype=np.float32)
    learned = np.random.default_rng(0).permutation(y.size)[: round(0.8 * y.size)]
    return X[learned], y[learned]


def mnist() -> tuple[Any, Any]:
    """8 against the rest, the training digits."""
    images, digits = mnist_digits("train")
    return images, np.where(digits == 8, 1.0, -1.0)


SETS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "adult": lambda: load_adult()[:2],
    "20news": lambda: text("20news"),
    "news20": lambda: text("news20"),
    "mnist": mnist,
    "covtype": lambda: covtype_rows(scaled=True),
}


def versions() -> dict[str, str]:
    """The versions of the libraries that are installed here."""
    found = {"python": sys.version.split()[0]}
    for package in ("maxmargin", "liblinear-official", "scikit-learn", "snapml", "numpy", "scipy"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


if __name__ == "__main__":
    main()
