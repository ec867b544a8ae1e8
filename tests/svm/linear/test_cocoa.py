"""CoCoA+: what holds with several units of the data, which the common tests of all solvers do not have."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.core import Matrix
from maxmargin.engine.parts import LocalRows
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.problems import RegularizedSVM
from maxmargin.solvers import Checkpoint, Cocoa, Newton, solve
from maxmargin.svm.linear import cocoa

LOSSES = ["hinge", "squared_hinge"]
BIASES = {"free": {}, "none": {"bias": False}, "penalised": {"intercept_scaling": 2.0}}
each_loss = pytest.mark.parametrize("loss", LOSSES)
each_bias = pytest.mark.parametrize("bias", BIASES.values(), ids=BIASES)


@pytest.fixture(autouse=True)
def units(monkeypatch):
    """Data in units of 50 rows."""
    monkeypatch.setattr(cocoa, "in_parts", lambda X: LocalRows(X, X.shape[0], unit_rows=50))


def sparse_rows(n=330, d=40, seed=0):
    """Sparse rows, of which two are zero, with labels that a plane explains but for some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2)
    X[[5, 100]] = 0
    scores = X @ rng.normal(size=d) + 0.5
    return sp.csr_array(X), np.where(scores + rng.normal(size=n) > 0, 1.0, -1.0)


def rounds(problem, count, state=None):
    """States after each of so many rounds."""
    solver = Cocoa()
    state = solver.start(problem, np.random.default_rng(0)) if state is None else state
    for _ in range(count):
        solver.step(problem, state, 1, UNLIMITED)
        yield state


@each_loss
@each_bias
def test_the_optimum_is_that_of_newton(loss, bias):
    X, y = sparse_rows()
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], size=y.size)
    for C in (0.01, 1.0):
        problem = RegularizedSVM(X, y, C, loss=loss, sample_weight=weights, **bias)
        best = solve(problem, Newton(), tol=1e-8, max_iter=200, random_state=0).certificate
        found = solve(problem, Cocoa(), tol=1e-4, max_iter=2000, random_state=0)
        assert found.status == "tol"
        assert found.certificate.dual <= best.primal * (1 + 1e-7)
        assert best.dual <= found.certificate.primal * (1 + 1e-7)
        assert found.certificate.primal == pytest.approx(best.primal, rel=1e-4)


@each_loss
@each_bias
def test_numbers_that_are_kept_up(loss, bias, monkeypatch):
    """v and the sums over the dual variables, before they are computed anew and after."""
    monkeypatch.setattr(cocoa, "REFRESH", 9)
    X, y = sparse_rows()
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], size=y.size)
    problem = RegularizedSVM(X, y, 0.3, loss=loss, sample_weight=weights, **bias)
    _, q = problem.loss.dual_box(problem.u)
    for state in rounds(problem, 20):
        alpha = np.concatenate(state.parts.collect("dual_variables"))
        assert ((alpha >= 0) & (alpha <= problem.loss.dual_box(problem.u)[0])).all()
        assert not alpha[weights == 0].any()
        np.testing.assert_allclose(state.v, X.T @ (alpha * y), rtol=1e-10, atol=1e-10)
        expected = alpha.sum() - 0.5 * q @ alpha**2
        assert (state.separable, state.imbalance) == pytest.approx((expected, alpha @ y), rel=1e-10, abs=1e-10)
        # The units have what the driver has, to the bit, but for what it tells them in the next round.
        for part in state.parts.objects:
            v = part.v.copy()
            state.change.add_to(v)
            np.testing.assert_array_equal(v, state.v)
            np.testing.assert_array_equal(part.z + state.share * (v - part.z), state.z)
        # The f of all units, and their g, have the sum 0 once they are told of the last round.
        f = sum(part.f for part in state.parts.objects) - state.change.dense()
        g = sum(part.g for part in state.parts.objects) - state.imbalance_change
        np.testing.assert_allclose(state.recall * f, 0, atol=1e-10)
        assert state.recall * g == pytest.approx(0, abs=1e-10)


@each_loss
def test_a_sigma_of_the_number_of_units_gives_cocoa(loss, monkeypatch):
    """Then units begin at v, and the dual never decreases."""
    for name in ("FIRST_SIGMA", "LEAST_SIGMA", "RELAXATION"):
        monkeypatch.setattr(cocoa, name, 1.0)
    X, y = sparse_rows()
    problem = RegularizedSVM(X, y, 10.0, loss=loss, bias=False)
    duals = [0.0]
    for state in rounds(problem, 60):
        assert state.sigma == state.units
        assert state.recall == 0
        assert state.dual >= duals[-1] - 1e-12 * abs(duals[-1])
        duals.append(state.dual)
    assert duals[-1] > 0


@pytest.mark.parametrize(
    ("loss", "C", "unit_rows", "most"),
    [
        ("hinge", 0.1, 50, 60),
        ("hinge", 0.1, 20, 60),
        ("hinge", 10.0, 50, 140),
        ("hinge", 10.0, 20, 200),
        ("squared_hinge", 0.1, 50, 35),
        ("squared_hinge", 0.1, 20, 40),
        ("squared_hinge", 10.0, 50, 65),
        ("squared_hinge", 10.0, 20, 95),
    ],
)
def test_rounds_to_a_gap_of_a_thousandth(loss, C, unit_rows, most, monkeypatch):
    """Rows of which some features are frequent and most are rare, as in text, in 8 or 20 units."""
    monkeypatch.setattr(cocoa, "in_parts", lambda X: LocalRows(X, X.shape[0], unit_rows=unit_rows))
    rng = np.random.default_rng(0)
    n, d = 400, 3000
    counts = rng.random((n, d)) < 0.5 / np.arange(1, d + 1) ** 0.8
    X = sp.csr_array(counts / np.sqrt(np.maximum(1, counts.sum(axis=1, keepdims=True))))
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    result = solve(RegularizedSVM(X, y, C, loss=loss), Cocoa(), tol=1e-3, max_iter=500, random_state=0)
    assert result.status == "tol"
    assert result.n_iter <= most


@each_bias
def test_the_dual_is_that_of_the_problem(bias):
    X, y = sparse_rows()
    problem = RegularizedSVM(X, y, 0.1, **bias)
    result = solve(problem, Cocoa(), tol=1e-6, max_iter=3000, random_state=0)
    assert result.state.dual == pytest.approx(result.certificate.dual, rel=1e-5)
    assert result.state.b == pytest.approx(result.solution.b, abs=1e-2)


def test_sigma_follows_the_residuals(monkeypatch):
    """It stays between its bounds, falls where units disagree and C is large, and is 1 for a single unit."""
    X, y = sparse_rows()
    sigmas = [state.sigma for state in rounds(RegularizedSVM(X, y, 100.0, bias=False), 20)]
    units = -(-y.size // 50)
    assert all(cocoa.LEAST_SIGMA * units <= sigma <= units for sigma in sigmas)
    assert sigmas[-1] < cocoa.FIRST_SIGMA * units
    monkeypatch.setattr(cocoa, "in_parts", lambda X: LocalRows(X, X.shape[0], unit_rows=y.size))
    assert {state.sigma for state in rounds(RegularizedSVM(X, y, 100.0), 5)} == {1.0}


@each_loss
def test_estimates_of_the_gap(loss):
    """While all samples are active, the estimate is the gap of w before the round and the dual point after it."""
    X, y = sparse_rows()
    problem, solver = RegularizedSVM(X, y, 0.1, loss=loss, bias=False), Cocoa()
    w = np.zeros(X.shape[1])
    for state in rounds(problem, 12):
        value = problem.evaluate(w).value
        assert solver.estimated_gap(problem, state) == pytest.approx((value - state.dual) / value, rel=1e-9)
        w, state.all_active = solver.solution(problem, state).w, True


def test_changes_are_sent_as_sparse_vectors():
    """Rows of few features out of many: the messages in both directions are as small."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(sp.random_array((100, 20_000), density=2e-4, rng=rng))
    y = np.where(rng.random(100) < 0.5, 1.0, -1.0)
    *_, state = rounds(RegularizedSVM(X, y, 1.0, loss="hinge"), 5)
    assert 0 < state.change.nbytes <= 12 * np.unique(X.indices).size
    for part in state.parts.objects:
        delta = part.round(5, state.change, 0.5, 0.0, 1.0, 2, 0.0, 0.0, 0.0, 1, True)[0]
        assert delta.nbytes <= 12 * np.unique(X[part.rows.own].indices).size


@each_loss
def test_the_same_bits_for_any_number_of_threads(loss):
    X, y = sparse_rows(n=500)
    one, two = (
        solve(RegularizedSVM(Matrix(X, threads), y, loss=loss), Cocoa(), tol=1e-3, random_state=0) for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.solution.w, two.solution.w)
    np.testing.assert_array_equal(one.solution.p, two.solution.p)
    assert one.solution.b == two.solution.b
    assert one.n_iter == two.n_iter


@each_loss
def test_a_warm_start_at_another_C_takes_fewer_rounds(loss):
    X, y = sparse_rows()
    problem = RegularizedSVM(X, y, 1.0, loss=loss)
    cold = solve(problem, Cocoa(), tol=1e-3, random_state=0)
    near = solve(problem.with_C(0.9), Cocoa(), tol=1e-3, random_state=0)
    warm = solve(problem, Cocoa(), tol=1e-3, random_state=0, warm=near.state)
    again = solve(problem, Cocoa(), tol=1e-3, random_state=0, warm=cold.solution)
    assert warm.status == again.status == "tol"
    assert again.n_iter < 0.5 * cold.n_iter
    assert warm.n_iter < cold.n_iter


class Killed(BaseException):
    """Stands for the death of the process."""


def test_a_checkpoint_of_several_units(tmp_path):
    X, y = sparse_rows()
    rules = {"max_iter": 90, "tol": 1e-12, "certify": False, "random_state": 0}
    whole = solve(RegularizedSVM(X, y), Cocoa(), **rules)

    def killed_at_40(progress):
        if progress.row.iteration == 40:
            raise Killed

    rules["checkpoint"] = Checkpoint(tmp_path / "run", every_seconds=0)
    with pytest.raises(Killed):
        solve(RegularizedSVM(X, y), Cocoa(), callback=killed_at_40, **rules)
    on = solve(RegularizedSVM(X, y), Cocoa(), **rules)
    np.testing.assert_array_equal(on.solution.w, whole.solution.w)
    np.testing.assert_array_equal(on.solution.p, whole.solution.p)
    assert on.solution.b == whole.solution.b
    assert on.n_iter == whole.n_iter
