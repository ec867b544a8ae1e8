"""Runs that are killed at random moments and resumed from checkpoints, and the cost of saving checkpoints.

Every registered solver gets a problem that takes it about half a second. A process solves the problem with a checkpoint
after each step, and is killed (SIGKILL) after a random time. The next process resumes the run, and so on until a
process finishes. Its result must have the bits of a run that was never killed, and no kill may leave a torn file.

The cost is the share of a run's time that saving takes, including the save at the end. It is measured at the default
interval of ten seconds and, more strictly, at an interval of 0.1 s, which the 2 % rule then has to stretch.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments
from numpy.typing import NDArray

from maxmargin.engine.checkpoint_file import CheckpointError, read_checkpoint
from maxmargin.engine.problem import Problem, Trait
from maxmargin.engine.solver import AnySolver
from maxmargin.game.players import LazyGradient
from maxmargin.game.sets import Ball
from maxmargin.kernels.functions import Rbf
from maxmargin.problems import (
    KernelMatrix,
    MaxMin,
    MinimumEnclosingBall,
    RegularizedSVM,
    SemidefiniteFeasibility,
    SlackSVM,
)
from maxmargin.solvers import (
    KERNEL_SOLVERS,
    OTHER_SOLVERS,
    SOLVERS,
    Checkpoint,
    PrimalDual,
    Result,
    Sdca,
    Simba,
    SublinearSdp,
    solve,
)

SECONDS = 0.5  # approximate length of a run; starting a process and reading a checkpoint take a tenth of it
LONGEST = 1.5  # the latest moment of a kill, in units of the length of a run


@dataclass(frozen=True)
class Case:
    """A solver and a problem for it."""

    name: str
    solver: AnySolver
    problem: Callable[[], Problem]

    def run(self, **options: Any) -> Result:
        return solve(self.problem(), self.solver, tol=-1.0, certify=False, random_state=0, **options)


def clouds(n: int, d: int, distance: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    return rng.normal(size=(n, d)) + distance / 2 / np.sqrt(d) * y[:, None], y


def svm(solver: AnySolver, n: int, d: int) -> Callable[[], Problem]:
    """A support vector machine for a solver; a kernel gets float32 data, whose kernel rows depend on the cache."""
    separable, kernel = Trait.SEPARABLE in solver.requires, Trait.KERNEL in solver.requires
    X, y = clouds(n, d, distance=12.0 if separable else 1.0)

    def make() -> Problem:
        rows = KernelMatrix(X.astype(np.float32), Rbf(gamma=1 / d), cache_size=4e-6 * n * n / 2) if kernel else X
        if solver.solves is SlackSVM:
            return SlackSVM(rows, y, 0.0 if separable else 0.1)
        return RegularizedSVM(rows, y, loss="squared_hinge" if Trait.SMOOTH_LOSS in solver.requires else "hinge")

    return make


def other(kind: type[AnySolver]) -> tuple[AnySolver, Callable[[], Problem]]:
    X, _ = clouds(3000, 30)
    A = X[:300] / np.linalg.norm(X[:300], axis=1)[:, None]
    matrices = np.random.default_rng(0).normal(size=(40, 12, 12)) / 30
    if kind is SublinearSdp:
        return SublinearSdp(eps=0.02), lambda: SemidefiniteFeasibility(matrices + matrices.transpose(0, 2, 1))
    if kind is PrimalDual:
        game = PrimalDual(LazyGradient(Ball(30)), eps=0.02)
        return game, lambda: MaxMin(
            300,
            sample=lambda x, rng: A @ x + 0.1 * rng.normal(size=300),
            gradient=lambda i, x: A[i],
            values=lambda x: A @ x,
        )
    return kind(), lambda: MinimumEnclosingBall(X)


def cases() -> Iterator[Case]:
    for table, n, name in ((SOLVERS, 4000, ""), (KERNEL_SOLVERS, 800, "kernel ")):
        for solver in (kind() for kind in table.values()):
            yield Case(name + solver.name, solver, svm(solver, n, 20))
    for kind in OTHER_SOLVERS.values():
        yield Case(kind.name, *other(kind))


def digest(result: Result) -> str:
    """A digest of all bits of a result except the seconds."""
    bits = hashlib.blake2b()
    solution = result.solution
    for point in (solution.w, solution.p, solution.v):
        for numbers in (getattr(point, "beta", point), getattr(point, "f", None)):
            bits.update(b"none" if numbers is None else np.ascontiguousarray(numbers).tobytes())
    trace = [(row.iteration, row.entries_read, row.kernel_evaluations) for row in result.trace]
    bits.update(repr((solution.b, result.n_iter, result.best_iter, result.status, result.reads, trace)).encode())
    return bits.hexdigest()


@contextmanager
def child(work: Callable[[], Any]) -> Iterator[tuple[int, int]]:
    """A process that runs `work` and writes the pickled answer into a pipe; yields its process id and the pipe."""
    reader, writer = os.pipe()
    number = os.fork()
    if number == 0:
        try:
            os.write(writer, pickle.dumps(work()))
        except BaseException as error:  # the parent must get every error
            os.write(writer, pickle.dumps(error))
        finally:
            os._exit(0)
    os.close(writer)
    yield number, reader
    os.close(reader)


def answer_of(work: Callable[[], Any]) -> Any:
    """The answer of a process that runs `work` and is not killed."""
    with child(work) as (number, reader):
        os.waitpid(number, 0)
        return loaded(reader)


def loaded(reader: int) -> Any:
    found = pickle.loads(os.read(reader, 1 << 16))  # written by our own child
    if isinstance(found, BaseException):
        raise found
    return found


class EachStep(Checkpoint):
    """A checkpoint after every step."""

    @property
    def due(self) -> bool:
        return True

    def affords(self, size: int) -> bool:
        return True


def iterations_of(case: Case) -> int:
    return case.run(max_time=SECONDS).n_iter


def timed(case: Case, iterations: int) -> tuple[float, str]:
    started = time.perf_counter()
    result = case.run(max_iter=iterations)
    return time.perf_counter() - started, digest(result)


@dataclass
class Tally:
    """Counts over the runs of one solver."""

    runs: int = 0
    kills: int = 0
    torn: int = 0
    wrong: int = 0


def one_run(case: Case, iterations: int, seconds: float, wanted: str, rng: np.random.Generator, tally: Tally) -> None:
    """Solve a problem in processes that are killed, until one of them finishes."""
    tally.runs += 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.ckpt"
        while True:
            patience = float(rng.uniform(0, LONGEST * seconds))
            with child(lambda: digest(case.run(max_iter=iterations, checkpoint=EachStep(path)))) as (number, reader):
                if not ended(number, patience):
                    os.kill(number, signal.SIGKILL)
                    os.waitpid(number, 0)
                    tally.kills += 1
                    try:
                        if path.exists():
                            read_checkpoint(path)
                    except CheckpointError:
                        tally.torn += 1
                    continue
                tally.wrong += loaded(reader) != wanted
                return


def kill(every: list[Case], kills: int, seed: int) -> dict[str, Tally]:
    """Kill processes of all solvers in turn, at least `kills` in total; print and return the counts for each solver."""
    rng, tallies = np.random.default_rng(seed), {case.name: Tally() for case in every}
    known: dict[str, tuple[int, float, str]] = {}
    for case in every:
        iterations = answer_of(lambda case=case: iterations_of(case))
        known[case.name] = iterations, *answer_of(lambda case=case, most=iterations: timed(case, most))
    while sum(tally.kills for tally in tallies.values()) < kills:
        for case in every:
            one_run(case, *known[case.name], rng, tallies[case.name])
    print(f"{'solver':<30}{'seconds':>8}{'runs':>6}{'kills':>7}{'torn files':>12}{'bits differ':>12}")
    for name, tally in tallies.items():
        row = f"{known[name][1]:>8.2f}{tally.runs:>6}{tally.kills:>7}{tally.torn:>12}{tally.wrong:>12}"
        print(f"{name:<30}{row}")
    found, torn, wrong = (
        sum(getattr(tally, name) for tally in tallies.values()) for name in ("kills", "torn", "wrong")
    )
    print(f"{found} kills over {len(every)} solvers: {torn} torn files, {wrong} runs with different bits\n")
    return tallies


def ended(number: int, patience: float) -> bool:
    """Whether a process ends within `patience` seconds."""
    until = time.perf_counter() + patience
    while time.perf_counter() < until:
        if os.waitpid(number, os.WNOHANG)[0]:
            return True
        time.sleep(0.001)
    return False


class Timed(Checkpoint):
    """A checkpoint that records the time spent on saving, the number of saves, and the size of the largest file."""

    seconds, saves, largest = 0.0, 0, 0

    def save(self, *parts: Any) -> None:
        started = time.perf_counter()
        super().save(*parts)
        self.seconds += time.perf_counter() - started

    @contextmanager
    def saving(self, *given: Any, **options: Any) -> Iterator[None]:
        with super().saving(*given, **options):
            yield
        self.saves, self.largest = self.saves + 1, max(self.largest, self.path.stat().st_size)


def large_cases() -> Iterator[Case]:
    """Long runs with states of many megabytes; the kernel solvers have a cache of 200 MB."""
    X, y = clouds(200_000, 50)
    yield Case("sdca", Sdca(), lambda: RegularizedSVM(X, y, 100.0))
    yield Case("simba", Simba(), lambda: SlackSVM(X, y, 0.1))
    for solver in (kind() for kind in KERNEL_SOLVERS.values()):
        if Trait.SEPARABLE not in solver.requires:
            yield Case(f"kernel {solver.name}", solver, partial(large_kernel_problem, solver))


def large_kernel_problem(solver: AnySolver) -> Problem:
    X, y = clouds(20_000, 20)
    K = KernelMatrix(X.astype(np.float32), Rbf(gamma=0.05), cache_size=200.0)
    if solver.solves is SlackSVM:
        return SlackSVM(K, y, 0.1)
    return RegularizedSVM(K, y, 100.0, loss="squared_hinge" if Trait.SMOOTH_LOSS in solver.requires else "hinge")


def costs(seconds: float, names: list[str]) -> list[dict[str, Any]]:
    """The share of time spent on saving, in runs of `seconds` seconds."""
    found = []
    for case in chosen_among(large_cases(), names):
        for every in (10.0, 0.1):
            with tempfile.TemporaryDirectory() as folder:
                checkpoint = Timed(Path(folder) / "run.ckpt", every_seconds=every)
                started = time.perf_counter()
                case.run(max_time=seconds, checkpoint=checkpoint)
                share = checkpoint.seconds / (time.perf_counter() - started)
            saves, size = checkpoint.saves, checkpoint.largest / 1e6
            found.append({"run": case.name, "every": every, "saves": saves, "MB": size, "share": share})
            print(
                f"{case.name:<30} every {every:>4} s: {saves:>4} saves of up to {size:6.1f} MB, {share:.2%}", flush=True
            )
    return found


def chosen_among(every: Iterable[Case], names: list[str]) -> list[Case]:
    """The cases whose names begin with one of `names`; all cases if `names` is empty."""
    return [case for case in every if not names or case.name.startswith(tuple(names))]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="number of processes to kill, over all solvers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solvers", nargs="*", default=[], help='beginnings of names, e.g. "kernel"; default: all')
    parser.add_argument("--cost-seconds", type=float, default=30.0, help="seconds of each run for the cost; 0: no runs")
    chosen = parser.parse_args()
    tallies = kill(chosen_among(cases(), chosen.solvers), chosen.kills, chosen.seed) if chosen.kills else {}
    measured = costs(chosen.cost_seconds, chosen.solvers) if chosen.cost_seconds else []
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({"kills": {n: vars(t) for n, t in tallies.items()}, "costs": measured}))
    if any(tally.torn or tally.wrong for tally in tallies.values()):
        sys.exit("a checkpoint failed")


if __name__ == "__main__":
    main()
