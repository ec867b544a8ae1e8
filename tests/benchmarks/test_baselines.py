"""The methods that benchmarks compare with, against the same steps on plain vectors."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import SlackSVM
from maxmargin.solvers import SOLVERS

PATH = Path(__file__).parents[2] / "benchmarks" / "baselines.py"
if not PATH.exists():
    pytest.skip("benchmarks come with a checkout only", allow_module_level=True)
spec = importlib.util.spec_from_file_location("baselines", PATH)
baselines = sys.modules["baselines"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(baselines)

n, d, T = 30, 12, 75


def pegasos(w, x, t, regularization, project):
    step = x / (regularization * t) if w @ x < 1 else 0
    w = (1 - 1 / t) * w + step
    return w * min(1.0, 1 / np.sqrt(regularization) / np.linalg.norm(w)) if project and w.any() else w


CASES = [
    (baselines.Pegasos(regularization=0.1), lambda w, x, t: pegasos(w, x, t, 0.1, False)),
    (baselines.Pegasos(average=1, regularization=0.1, project=True), lambda w, x, t: pegasos(w, x, t, 0.1, True)),
    (baselines.Pegasos("iid", 1, regularization=0.01), lambda w, x, t: pegasos(w, x, t, 0.01, False)),
    (baselines.Perceptron(average=0), lambda w, x, t: w + x * (w @ x <= 0)),
    (baselines.PassiveAggressive(average=3), lambda w, x, t: w + x * min(1, max(0, 1 - w @ x) / max(x @ x, 1e-300))),
    (baselines.Centroid(), lambda w, x, t: w + x),
]


@pytest.mark.parametrize(("solver", "step"), CASES, ids=lambda case: getattr(case, "__name__", repr(case)))
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_steps_and_averages(solver, step, store):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    problem = SlackSVM(store(X), y, 0.0, bias=False)
    state = solver.start(problem, np.random.default_rng(5))
    solver.step(problem, state, 40, 10**9)
    solver.step(problem, state, T - 40, 10**9)

    rng, w, total, read = np.random.default_rng(5), np.zeros(d), np.zeros(d), 0
    order = rng.permutation(n)
    for t in range(1, T + 1):
        if t > 1 and (t - 1) % n == 0 and solver.order == "permuted":
            order = rng.permutation(n)
        i = rng.integers(n) if solver.order == "iid" else order[(t - 1) % n]
        w = step(w, y[i] * X[i] / problem.scale, t)
        total += w * t ** (solver.average or 0)
        read += np.count_nonzero(X[i]) if store is sp.csr_array else d
    expected = w if solver.average is None else total
    np.testing.assert_allclose(solver.solution(problem, state).w, expected / np.linalg.norm(expected), atol=1e-12)
    assert state.norm2 == pytest.approx(w @ w)
    assert problem.X.ledger.entries_read == read


def test_nothing_is_registered():
    assert not any(solver.__module__ == "baselines" for solver in SOLVERS.values())
