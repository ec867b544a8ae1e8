"""Runs that are cut off and go on from a checkpoint: the same bits as if they had never been."""

import math
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import checkpointed_fit
import numpy as np
import pytest
import scipy.sparse as sp
from block_sources import InBlocks
from solver_cases import CASES, FEW_CASES, Case, clouds, each_case, same, untimed

import maxmargin
from maxmargin.data import OnDemand
from maxmargin.engine import checkpoint as module
from maxmargin.engine import checkpoint_file, loop
from maxmargin.engine.checkpoint_file import MAGIC, read_checkpoint, write_checkpoint
from maxmargin.engine.snapshot import CannotKeep, Snapshot
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
    Solution,
)
from maxmargin.solvers import (
    KERNEL_SOLVERS,
    OTHER_SOLVERS,
    SOLVERS,
    Checkpoint,
    CheckpointError,
    CoreSet,
    Decomposition,
    Holdout,
    Newton,
    PrimalDual,
    Sdca,
    SdcaThenNewton,
    Simba,
    Smo,
    Solver,
    Step,
    SublinearBall,
    SublinearSdp,
    solve,
)

A = np.array([[0.6, 0.8], [0.8, -0.6], [0.0, 1.0]])


def symmetric(m=5, n=4, seed=0):
    matrices = np.random.default_rng(seed).normal(size=(m, n, n))
    return 0.1 * (matrices + matrices.transpose(0, 2, 1))


def sample(x, rng):
    return A @ x + 0.1 * rng.normal(size=3)


def gradient(i, x):
    return A[i]


def values(x):
    return A @ x


def bound(p):
    return Ball(2).support(A.T @ p)


class OtherCase(Case):
    """A solver of another problem than a support vector machine."""

    def __init__(self, solver, problem):
        super().__init__(solver)
        object.__setattr__(self, "problem", problem)

    def last(self, problem, iterations):
        return min(iterations, self.solver.iterations(problem) or iterations)


OTHERS = {
    "core set": OtherCase(CoreSet(block=2), lambda: MinimumEnclosingBall(clouds()[0])),
    "core set, paper": OtherCase(CoreSet(method="paper"), lambda: MinimumEnclosingBall(clouds()[0])),
    "core set on a kernel": OtherCase(
        CoreSet(block=2), lambda: MinimumEnclosingBall(KernelMatrix(clouds()[0], Rbf(gamma=0.1)), nu=0.2)
    ),
    "sublinear ball": OtherCase(SublinearBall(), lambda: MinimumEnclosingBall(clouds()[0])),
    "sublinear ball, runs": OtherCase(
        SublinearBall(eps=0.7, constant=0.3, confidence=0.9), lambda: MinimumEnclosingBall(clouds()[0])
    ),
    "sublinear sdp": OtherCase(SublinearSdp(eps=0.3, constant=1), lambda: SemidefiniteFeasibility(symmetric())),
    "sublinear sdp, eigenvector": OtherCase(
        SublinearSdp(eps=0.3, constant=1, method="eigenvector"), lambda: SemidefiniteFeasibility(symmetric())
    ),
    "primal dual": OtherCase(
        PrimalDual(LazyGradient(Ball(2)), eps=0.3, constant=1, confidence=0.9),
        lambda: MaxMin(3, sample=sample, gradient=gradient, values=values, bound=bound),
    ),
}
ALL = CASES | OTHERS | {"sdca_newton, early": Case(SdcaThenNewton(newton_passes=0.5), "hinge")}
object.__setattr__(
    ALL["sdca_newton, early"], "problem", lambda: RegularizedSVM(*clouds(distance=1.0), 100.0, loss="hinge")
)


class Killed(BaseException):
    """Stands for the death of the process."""


class Mortal(Checkpoint):
    """A checkpoint after every step, whose process dies after so many of them."""

    def __init__(self, path, saves=math.inf):
        super().__init__(path, every_seconds=0)
        self.saves = saves

    @property
    def due(self):
        return True

    def affords(self, size):
        return True

    def save(self, *parts):
        super().save(*parts)
        self.saves -= 1
        if self.saves <= 0:
            raise Killed


def same_results(one, other):
    same(one.solution, other.solution)
    assert untimed(one.trace) == untimed(other.trace)
    assert (one.n_iter, one.best_iter, one.status, one.reads) == (
        other.n_iter,
        other.best_iter,
        other.status,
        other.reads,
    )
    assert repr(one.certificate) == repr(other.certificate)


@pytest.fixture
def quick(monkeypatch):
    """One iteration a step, and no waiting for the disk: many checkpoints in little time."""
    monkeypatch.setattr(loop, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(os, "fsync", lambda file: None)


def go_on(path, make):
    """Call `make` again and again, each time until it is killed, until one comes to its end."""
    rng, deaths = np.random.default_rng(0), 0
    while True:
        try:
            return make(checkpoint=Mortal(path, int(rng.integers(1, 25)) if deaths else 2)), deaths
        except Killed:
            deaths += 1


def test_every_solver_is_here():
    covered = {type(case.solver) for case in ALL.values()}
    for table in (SOLVERS, KERNEL_SOLVERS, OTHER_SOLVERS):
        assert set(table.values()) <= covered


@each_case(ALL)
def test_killed_again_and_again(case, tmp_path, quick):
    options = {"max_iter": 40, "certify": "checks", "random_state": 3}
    whole = case.solve(**options)
    found, deaths = go_on(tmp_path / "run", lambda **more: case.solve(**options, **more))
    assert deaths > 0
    same_results(found, whole)
    again = case.solve(**options, checkpoint=Mortal(tmp_path / "run", 1))  # it is at its end: nothing is saved
    same_results(again, whole)


@each_case(ALL)
def test_saving_changes_no_bits(case, tmp_path, quick):
    options = {"max_iter": 30, "certify": False, "random_state": 1}
    same_results(case.solve(**options, checkpoint=Mortal(tmp_path / "run")), case.solve(**options))


def test_rows_in_the_cache_of_float32_data(tmp_path, quick):
    """Computed again in other blocks, rows of such data differ in their last bits: the checkpoint holds them."""
    X, y = clouds(n=300, d=20, distance=1.0)
    cache_size = 70 * 4 * 300 / 1e6  # 70 of the 300 rows

    def run(**more):
        K = KernelMatrix(X.astype(np.float32), Rbf(gamma=0.05), cache_size=cache_size)
        problem = RegularizedSVM(K, y, 10.0)
        return solve(problem, Smo(), max_iter=400, random_state=0, tol=-1.0, **more), K.saved

    (found, saved), deaths = go_on(tmp_path / "run", run)
    whole, saved_by_whole = run()
    assert deaths > 10
    same_results(found, whole)
    assert saved == saved_by_whole


@pytest.mark.parametrize("convert", [sp.csr_array, sp.csc_array, np.float32], ids=["CSR", "CSC", "float32"])
def test_other_data(convert, tmp_path, quick):
    """An index of the other axis is counted once, though it is built again."""
    X, y = clouds()

    def run(**more):
        return solve(SlackSVM(convert(X), y, slack=0.05), Simba(), max_iter=60, random_state=0, **more)

    found, deaths = go_on(tmp_path / "run", run)
    assert deaths > 1
    same_results(found, run())


STORED = {
    "simba": (Simba(), lambda X, y: SlackSVM(X, y, slack=0.05), 60),
    "sdca": (Sdca(), lambda X, y: RegularizedSVM(X, y, 0.1), 40),
    "newton": (Newton(), lambda X, y: RegularizedSVM(X, y, 0.1, loss="squared_hinge"), 8),
}


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("name", STORED)
def test_on_a_store(name, convert, tmp_path, quick):
    """Blocks that were in the cache are read again, which changes the count of chunks and nothing else."""
    X, y = clouds()
    solver, problem, iterations = STORED[name]

    def run(**more):
        source = InBlocks(convert(X))
        return solve(problem(source, y), solver, max_iter=iterations, tol=-1.0, random_state=0, **more)

    found, deaths = go_on(tmp_path / "run", run)
    assert deaths > 0
    same_results(without_fetched(found), without_fetched(run()))
    X[0, 0] += 1
    with pytest.raises(CheckpointError, match=r"X\.entries="):
        run(checkpoint=tmp_path / "run")


def without_fetched(result):
    reads = {name: count for name, count in result.reads.items() if "fetched" not in name}
    return replace(result, reads=reads)


class Bought:
    """Features with prices, and how often each was computed, by all processes together."""

    def __init__(self, folder, *, log, functions=("entries",)):
        self.X, self.y = clouds(n=80, d=30, distance=1.0)
        self.costs = np.random.default_rng(1).choice([0.1, 0.7, 3.0], size=30)
        self.rules = {"budget": 0.5 * 80 * self.costs.sum(), "max_iter": 150, "random_state": 0}
        self.times, self.folder, self.log, self.functions = np.zeros(self.X.shape, dtype=int), folder, log, functions

    def entries(self, i, j):
        np.add.at(self.times, (i, j), 1)
        return self.X[i, j]

    def rows(self, i):
        self.times[i] += 1
        return self.X[i]

    def columns(self, j):
        self.times[:, j] += 1
        return self.X[:, j]

    def source(self):
        functions = {name: getattr(self, name) for name in self.functions}
        memory = self.folder / "features.log" if self.log else None
        return OnDemand(*self.X.shape, **functions, cost=self.costs, memory=memory)

    def solve(self, source, **more):
        return solve(SlackSVM(source, self.y, slack=0.1, scale=10.0), Simba(), **self.rules, **more)

    def run(self, **more):
        with self.source() as source:
            return self.solve(source, **more)


@pytest.mark.parametrize("functions", [("entries",), ("rows", "columns"), ("entries", "rows", "columns")], ids=str)
@pytest.mark.parametrize("log", [False, True], ids=["no log", "log"])
def test_features_with_prices(log, functions, tmp_path, quick):
    """SIMBA chooses by prices, so these go on from the checkpoint too; with a log no entry is paid for twice."""
    whole = Bought(tmp_path, log=False, functions=functions)
    expected = whole.run()
    bought = Bought(tmp_path, log=log, functions=functions)
    found, deaths = go_on(tmp_path / "run", bought.run)
    assert deaths > 1
    same_results(without_fetched(found), without_fetched(expected))
    if log:
        np.testing.assert_array_equal(bought.times, whole.times)


def test_features_with_prices_bought_after_the_last_checkpoint(tmp_path, quick):
    """They are in the log, and are not bought again; the run that goes on counts what they cost."""
    whole, bought = Bought(tmp_path, log=False), Bought(tmp_path, log=True)
    expected = whole.run()
    with pytest.raises(Killed):
        bought.run(checkpoint=Mortal(tmp_path / "run", 5))
    early = (tmp_path / "run").read_bytes()
    with pytest.raises(Killed):
        bought.run(checkpoint=Mortal(tmp_path / "run", 20))
    (tmp_path / "run").write_bytes(early)
    known = bought.times.sum()
    same_results(without_fetched(bought.run(checkpoint=Mortal(tmp_path / "run"))), without_fetched(expected))
    assert known < bought.times.sum()
    np.testing.assert_array_equal(bought.times, whole.times)


def test_features_with_prices_after_ctrl_c(tmp_path, ctrl_c, quick):
    """The same source goes on, though it may know more than it did when the checkpoint was written."""
    whole, bought = Bought(tmp_path, log=False), Bought(tmp_path, log=False)
    expected, path = whole.run(), Checkpoint(tmp_path / "run")
    with bought.source() as source:
        cut = bought.solve(source, checkpoint=path, callback=lambda at: ctrl_c() if at.row.iteration >= 5 else None)
        assert cut.status == "interrupted"
        source.block(np.arange(3), np.arange(30))
        found = bought.solve(source, checkpoint=path)
    same_results(without_fetched(found), without_fetched(expected))
    assert (bought.times <= 1).all()


@each_case(FEW_CASES)
def test_with_a_holdout_and_early_stopping(case, tmp_path, quick):
    def run(**more):
        rules = {"max_iter": 100, "early_stopping": True, "random_state": 0}
        problem = case.problem()
        held_out = Holdout(problem.X, problem.y[:20], np.arange(20))
        return case.solve(problem, holdout=held_out, **rules, **more)

    found, deaths = go_on(tmp_path / "run", run)
    assert deaths > 1
    same_results(found, run())


@each_case(FEW_CASES)
def test_a_generator_of_the_user(case, tmp_path, quick):
    """It is set to where it was, so that what the user draws next is the same too."""
    generators = []

    def run(**more):
        generators.append(np.random.default_rng(5))
        return case.solve(max_iter=60, random_state=generators[-1], **more)

    found, _ = go_on(tmp_path / "run", run)
    same_results(found, run())
    assert generators[-1].random() == generators[-2].random()


@each_case(FEW_CASES)
def test_goes_on_after_ctrl_c(case, tmp_path, ctrl_c, quick):
    options = {"max_iter": 200, "random_state": 0, "checkpoint": Checkpoint(tmp_path / "run")}
    cut = case.solve(callback=lambda progress: ctrl_c() if progress.row.iteration >= 5 else None, **options)
    assert cut.status == "interrupted"
    assert cut.n_iter < 200
    assert (tmp_path / "run").exists()
    same_results(case.solve(**options), case.solve(max_iter=200, random_state=0))


def test_a_short_run_leaves_no_file(tmp_path):
    FEW_CASES["simba"].solve(max_iter=10, random_state=0, checkpoint=tmp_path / "run")
    assert not any(tmp_path.iterdir())


def finished(path, **changes):
    """A call that is saved at its end; other parameters may be given."""
    X, y = clouds()
    given = {"X": X, "y": y, "C": 1.0, "sample_weight": None, "loss": "hinge", "extrapolate": 12} | changes
    options = {name: given[name] for name in ("loss", "sample_weight")}
    problem = RegularizedSVM(given["X"], given["y"], given["C"], **options)
    rules = {"tol": 1e-3, "max_iter": 1000, "random_state": 0, "certify": True}
    rules |= {name: value for name, value in changes.items() if name in (*rules, "max_time", "budget", "warm")}
    return solve(problem, Sdca(extrapolate=given["extrapolate"]), checkpoint=Mortal(path), **rules)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"C": 2.0}, r"written for problem\.C=1\.0, this call has problem\.C=2\.0: delete the checkpoint"),
        ({"X": clouds(seed=1)[0]}, r"X\.entries="),
        ({"X": clouds()[0].astype(np.float32)}, r"X\.dtype='float64', this call has X\.dtype='float32'"),
        ({"X": clouds(n=61)[0], "y": clouds(n=61)[1]}, r"problem\.y=.*X\.shape"),
        ({"y": -clouds()[1]}, r"problem\.y="),
        ({"sample_weight": np.linspace(1, 2, 60)}, r"problem\.s="),
        ({"loss": "squared_hinge"}, r"problem\.loss"),
        ({"extrapolate": 3}, r"solver\.parameters\.extrapolate=12, this call has solver\.parameters\.extrapolate=3"),
        ({"tol": 1e-4}, r"stop\.tol=0\.001, this call has stop\.tol=0\.0001"),
        ({"max_iter": 2000}, r"stop\.max_iter"),
        ({"max_time": 5.0}, r"stop\.max_time=None, this call has stop\.max_time=5\.0"),
        ({"budget": 10**6}, r"stop\.budget"),
        ({"random_state": 1}, r"random_state=0, this call has random_state=1"),
        ({"random_state": None}, r"random_state=0, this call has random_state=None"),
        ({"certify": False}, r"certify=True, this call has certify=False"),
    ],
)
def test_refuses_another_run(changes, message, tmp_path):
    finished(tmp_path / "run")
    with pytest.raises(CheckpointError, match=message):
        finished(tmp_path / "run", **changes)


def test_refuses_another_solver(tmp_path):
    finished(tmp_path / "run")
    X, y = clouds()
    with pytest.raises(CheckpointError, match=r"solver\.name='sdca', this call has solver\.name='newton'"):
        solve(RegularizedSVM(X, y), Newton(), tol=1e-3, max_iter=1000, random_state=0, checkpoint=tmp_path / "run")


def test_refuses_another_version(tmp_path, monkeypatch):
    finished(tmp_path / "run")
    monkeypatch.setattr(module, "__version__", "9.9")
    with pytest.raises(CheckpointError, match=r"written by maxmargin 0\.1\.0, this is 9\.9"):
        finished(tmp_path / "run")


def test_refuses_a_damaged_file(tmp_path):
    path = tmp_path / "run"
    finished(path)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(200):
        at = int(rng.integers(len(good)))
        flipped = bytearray(good)
        flipped[at] ^= 1 << int(rng.integers(8))
        for bad in (bytes(flipped), good[:at]):
            path.write_bytes(bad)
            with pytest.raises(CheckpointError, match="is damaged or cut off" if at > len(MAGIC) else "is not a check"):
                read_checkpoint(path)
    path.write_bytes(good)
    same_results(finished(path), finished(tmp_path / "other"))


def test_what_a_killed_process_has_left_is_removed(tmp_path):
    """It had not renamed its file yet."""
    finished(tmp_path / "run")
    (tmp_path / ".run.0123456789abcdef.tmp").write_bytes(b"half")
    finished(tmp_path / "run")
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_refuses_other_files(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are not a checkpoint")
    with pytest.raises(CheckpointError, match=r"notes\.txt is not a checkpoint of maxmargin"):
        finished(path)


def test_saving_takes_a_small_share(tmp_path, monkeypatch):
    """The next checkpoint waits for fifty times as long as the last one took, and for the interval."""
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    checkpoint = Checkpoint(tmp_path / "run", every_seconds=10)

    def write(path, content, arrays):
        now[0] += 3.0

    monkeypatch.setattr(module, "write_checkpoint", write)
    assert not checkpoint.due
    now[0] = 10.0
    assert checkpoint.due
    checkpoint.save({}, {}, {})
    now[0] += 149.0
    assert not checkpoint.due
    now[0] += 1.0
    assert checkpoint.due


def test_the_first_save_waits_as_long_as_it_is_large(tmp_path, monkeypatch):
    """So does a later one that is larger than the one before; Ctrl-C and the end of a run do not wait."""
    now, sizes = [0.0], []
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(module, "write_checkpoint", lambda path, content, arrays: sizes.append(arrays[0].nbytes))
    monkeypatch.setattr(module, "EXPECTED_RATE", 1e6)
    checkpoint = Checkpoint(tmp_path / "run", every_seconds=10)

    def save(megabytes, can_wait=True):
        checkpoint.save({"state": np.zeros(megabytes * 1_000_000, dtype=np.uint8)}, {}, {}, None, can_wait)
        return len(sizes)

    now[0] = 10.0
    assert checkpoint.due
    assert save(1) == 0
    now[0] = 49.0
    assert not checkpoint.due
    now[0] = 51.0
    assert checkpoint.due
    assert save(1) == 1
    now[0] += 10.0
    assert checkpoint.due  # writing took no time at all
    assert save(2) == 1
    assert not checkpoint.due
    assert save(2, can_wait=False) == 2


def test_the_end_of_a_run_is_saved_without_kernel_rows(tmp_path):
    """A later run can go on from there all the same, and comes to the optimum."""
    X, y = clouds(n=300, d=20, distance=1.0)
    path = tmp_path / "run"

    def run(C=10.0, tol=1e-3, **more):
        K = KernelMatrix(X.astype(np.float32), Rbf(gamma=0.05))
        return solve(RegularizedSVM(K, y, C), Decomposition(), tol=tol, **more)

    for C in (10.0, 20.0):
        ended = run(checkpoint=Mortal(path))
        assert path.stat().st_size < 4 * 300 * 300 / 2
        found = run(checkpoint=Mortal(path))
        same_results(found, ended)
        further, expected = run(C, 1e-6, warm=found), run(C, 1e-6)
        assert further.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-5)


def test_an_array_is_written_in_pieces(tmp_path, monkeypatch):
    """Also one that is a part of another: no copy of all of it is made."""
    monkeypatch.setattr(checkpoint_file, "PIECE", 64)
    whole = np.arange(7 * 40, dtype=np.float32).reshape(7, 40)
    arrays = [whole[:, :13], whole.T[:5], whole[2:2], whole[:, :0], np.array(3.0), whole.reshape(7, 4, 10)[:, 1:3]]
    write_checkpoint(tmp_path / "run", {}, arrays)
    for found, expected in zip(read_checkpoint(tmp_path / "run")[1], arrays, strict=True):
        np.testing.assert_array_equal(found, expected)


@dataclass
class CountState:
    rng: np.random.Generator
    total: object


@dataclass(frozen=True)
class OfUser(Solver[SlackSVM, CountState]):
    """A solver that somebody else has written, as in the guide: nothing is to be done for its checkpoints."""

    name = ""
    solves = SlackSVM
    function: object = None

    def start(self, problem, rng, warm=None):
        return CountState(rng, self.function or np.zeros(problem.X.shape[1]))

    def step(self, problem, state, iterations, budget):
        for _ in range(iterations):
            i = int(state.rng.integers(problem.y.size))
            if self.function is None:
                problem.features.add_row(i, problem.y[i] / problem.scale, state.total)
        return Step(iterations)

    def solution(self, problem, state):
        return Solution(np.array(state.total, dtype=float) if self.function is None else np.ones(problem.X.shape[1]))


def test_a_solver_of_the_user(tmp_path, quick):
    def run(solver, **more):
        return solve(SlackSVM(*clouds(), slack=0.05), solver, max_iter=50, random_state=0, **more)

    found, deaths = go_on(tmp_path / "run", lambda **more: run(OfUser(), **more))
    assert deaths > 1
    same_results(found, run(OfUser()))
    with pytest.raises(CannotKeep, match=r"run\['state'\]\.total is <function .*, which a checkpoint cannot hold"):
        run(OfUser(lambda: None), checkpoint=Mortal(tmp_path / "other"))


@each_case(ALL)
def test_no_two_arrays_of_a_state_overlap(case):
    """They would be two after a checkpoint, and a change of one would not change the other."""
    result = case.solve(max_iter=40, certify=False, random_state=0)
    problem = case.problem()
    shot = Snapshot({"X": result.resume.problem.X, "ledger": result.resume.problem.ledger, "problem": problem})
    shot.plain(result.state)
    arrays = [array for array in shot.arrays if array.size]
    for k, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in arrays[:k])


STATES = {
    "svm/linear/_game.pyx": {"Game"},
    "svm/linear/_simba.pyx": {"Tracker"},
    "svm/linear/_sdca.pyx": {"Descent"},
    "svm/linear/_online.pyx": {"Learner", "Mistakes", "Descent"},
}


@pytest.mark.parametrize("path", STATES)
def test_all_fields_of_compiled_states_are_public(path):
    """A checkpoint holds public fields; those that are not must be pointers, which `attach` finds again."""
    source = (Path(maxmargin.__file__).parent / path).read_text()
    classes = re.findall(r"^cdef class (\w+).*:\n((?:(?: .*)?\n)+)", source, re.MULTILINE)
    assert {name for name, _ in classes} == STATES[path]
    for _, body in classes:
        fields = [line.split("#")[0] for line in re.findall(r"^    cdef (?!class)(.*)$", body, re.MULTILINE)]
        private = [line for line in fields if "(" not in line and not line.startswith("public ")]
        assert all("*" in line for line in private), private


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the kernel machine ends at its limit
@pytest.mark.parametrize("kind", ["linear", "kernel"])
def test_kill_9(kind, tmp_path):
    """A process that is killed as soon as it has saved something else, twice; the next one may end."""
    path, target = tmp_path / "run.ckpt", tmp_path / "model.npz"

    def start():
        return subprocess.Popen([sys.executable, checkpointed_fit.__file__, path, kind, target])

    for _ in range(2):
        before = contents(path)
        child = start()
        while contents(path) == before and child.poll() is None:
            time.sleep(1e-3)  # the processor is for the child
        child.kill()
        child.wait()
        assert target.exists() or contents(path) != before
    assert start().wait() == 0
    found, whole = np.load(target), checkpointed_fit.fit(kind)
    np.testing.assert_array_equal(found["coef"], whole["coef"])
    np.testing.assert_array_equal(found["reads"], whole["reads"])


def contents(folder):
    """When each file of a checkpoint was written."""
    return {file.name: file.stat().st_mtime_ns for file in sorted(folder.glob("*.ckpt"))}
