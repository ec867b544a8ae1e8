"""SMO against LIBSVM: the same optimum, whatever the C, the kernel, the weights and the room for rows."""

import numpy as np
import pytest
from sklearn.svm import SVC

from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.kernels.functions import Linear, Poly, Rbf
from maxmargin.problems import KernelMatrix, RegularizedSVM
from maxmargin.solvers import Sdca, Smo, solve

KERNELS = {
    "rbf": (Rbf(gamma=2.0), {"gamma": 2.0}),
    "poly": (Poly(gamma=0.5, coef0=1.0, degree=3), {"gamma": 0.5, "coef0": 1.0, "degree": 3}),
    "linear": (Linear(), {}),
}


def moons(n=400, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, -1.0, 1.0)
    turn = np.pi * rng.random(n)
    X = np.column_stack([y * np.cos(turn) + (y > 0), y * np.sin(turn) + 0.5 * (y < 0)])
    return X + rng.normal(size=X.shape) * 0.3, y


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_the_optimum_is_that_of_LIBSVM(C, weighted, name):
    X, y = moons()
    kernel, parameters = KERNELS[name]
    s = np.random.default_rng(1).random(400) * 2 if weighted else None
    svc = SVC(C=C, kernel=name, tol=1e-5, **parameters).fit(X, y, s)
    K = KernelMatrix(X, kernel)
    # Far from separable, a linear kernel at a large C is a long way for steps on pairs, for LIBSVM too.
    result = solve(RegularizedSVM(K, y, C, sample_weight=s), Smo(), tol=3e-5, max_iter=3_000_000)
    assert result.status == "tol"
    beta = np.zeros(400)
    beta[svc.support_] = svc.dual_coef_[0]
    reference = np.abs(beta).sum() - 0.5 * beta @ K.block(np.arange(400)).astype(np.float64) @ beta
    assert result.certificate.dual == pytest.approx(reference, rel=1e-4)
    decision = result.solution.w.f + result.solution.b
    clear = np.abs(svc.decision_function(X)) > 0.02
    np.testing.assert_array_equal(np.sign(decision[clear]), svc.predict(X)[clear])


@pytest.mark.parametrize("bias", [{"bias": False}, {"intercept_scaling": 3.0}], ids=["none", "penalised"])
def test_steps_on_one_weight(bias):
    X, y = moons()
    result = solve(RegularizedSVM(KernelMatrix(X, Linear()), y, 0.5, **bias), Smo(), tol=1e-6)
    plain = solve(RegularizedSVM(X, y, 0.5, **bias), Sdca(), tol=1e-8, random_state=0)
    assert result.certificate.primal == pytest.approx(plain.certificate.primal, rel=1e-5)
    assert result.solution.b == pytest.approx(plain.solution.b, abs=0.01)


def one_step(K, y, upper, alpha):
    """A step as Fan, Chen and Lin write it, all anew: the pair, and where it goes."""
    e = y - K @ (alpha * y)
    rises, falls = (np.where(y * sign > 0, alpha < upper, alpha > 0) for sign in (1, -1))
    i = np.argmax(np.where(rises, e, -np.inf))
    a = np.maximum(1e-12, K[i, i] + np.diagonal(K) - 2 * K[i])
    j = np.argmax(np.where(falls & (e < e[i]), (e[i] - e) ** 2 / a, -np.inf))
    room = [upper[i] - alpha[i] if y[i] > 0 else alpha[i], alpha[j] if y[j] > 0 else upper[j] - alpha[j]]
    step = min((e[i] - e[j]) / a[j], *room)
    alpha = alpha.copy()
    alpha[i] += y[i] * step
    alpha[j] -= y[j] * step
    return alpha


def test_step_by_step():
    X, y = moons(n=80)
    K = KernelMatrix(X, Rbf(gamma=2.0))
    exact, problem = K.block(np.arange(80)).astype(np.float64), RegularizedSVM(K, y, 2.0)
    solver, alpha = Smo(shrink=False), np.zeros(80)
    state = solver.start(problem, np.random.default_rng(0))
    for _ in range(120):
        alpha = one_step(exact, y, problem.u, alpha)
        assert solver.step(problem, state, 1, UNLIMITED).iterations == 1
        np.testing.assert_allclose(state.alpha, alpha, atol=1e-5)
    assert (state.alpha == 2.0).any()  # bounds are reached to the bit


@pytest.mark.parametrize("bias", [{}, {"bias": False}, {"intercept_scaling": 1.0}], ids=["free", "none", "penalised"])
@pytest.mark.parametrize("cache_size", [0.2, 2.0], ids=["few rows are kept", "all rows are kept"])
def test_what_is_kept_up_while_some_samples_are_inactive(bias, cache_size):
    """Responses of inactive samples are right when asked for; the dual value and the gap are those of the weights."""
    X, y = moons(n=500)
    weights = np.where(np.arange(500) % 10 == 0, 0.0, 1.0)
    K = KernelMatrix(X, Rbf(gamma=2.0), cache_size=cache_size)
    exact = K.block(np.arange(500)).astype(np.float64)
    problem = RegularizedSVM(K, y, 50.0, sample_weight=weights, **bias)
    solver, fewest, caught_up = Smo(), 500, 0
    state = solver.start(problem, np.random.default_rng(0))
    for _ in range(60):
        solver.step(problem, state, 250, UNLIMITED)
        fewest = min(fewest, state.active.size)
        solution = solver.solution(problem, state)
        beta, f = solution.w.beta, solution.w.f
        np.testing.assert_allclose(f, exact @ beta, atol=2e-3)
        square = beta @ exact @ beta + state.rho * beta.sum() ** 2
        assert state.dual == pytest.approx(state.alpha.sum() - 0.5 * square, rel=1e-4, abs=1e-3)
        if state.whole:
            caught_up += 1
            primal = 0.5 * square + problem.u @ np.maximum(0, 1 - y * (exact @ beta + state.bias()))
            assert state.gap() == pytest.approx(primal - state.dual, rel=1e-3, abs=0.05)
        # Of weight 0, yet always known.
        assert np.isin(np.flatnonzero(weights == 0), state.active).all()
    assert fewest < 400
    assert caught_up > 1
    assert abs(beta.sum()) < 1e-9 * np.abs(beta).sum() or not problem.free_bias


def test_rows_are_read_once_while_they_are_kept():
    X, y = moons()
    K = KernelMatrix(X, Rbf(gamma=2.0))
    result = solve(RegularizedSVM(K, y, 10.0), Smo(), tol=1e-4, certify=False)
    rows = np.count_nonzero(K.missing(np.arange(K.shape[0])) == 0)
    assert result.reads["learning"] == 400 * rows
    assert np.count_nonzero(result.solution.p) <= rows < 400
    # Two rows a step were asked for; those of catching up are not steps.
    steps = (K.saved + K.ledger.entries_read) / 800
    assert steps == int(steps)
    assert 0.99 * result.n_iter <= steps <= result.n_iter


def test_it_ends_when_no_step_is_left():
    K = KernelMatrix(np.array([[0.0], [3.0]]), Rbf(gamma=1.0))
    result = solve(RegularizedSVM(K, [1, -1], 10.0), Smo(), tol=-1.0, max_iter=1000)
    assert result.status == "finished"
    assert result.n_iter == 1
    assert result.certificate.relative_gap < 1e-6


def test_the_squared_hinge_is_refused():
    X, y = moons()
    with pytest.raises(ValueError, match="smo has the hinge loss; got 'squared_hinge'"):
        solve(RegularizedSVM(KernelMatrix(X, Linear()), y, loss="squared_hinge"), Smo())


@pytest.mark.parametrize("bias", [{}, {"bias": False}, {"intercept_scaling": 3.0}], ids=["free", "none", "penalised"])
@pytest.mark.parametrize("shrink", [True, False])
def test_it_ends_when_rounding_is_all_that_is_left(bias, shrink):
    X, y = moons()
    problem = RegularizedSVM(KernelMatrix(X, Rbf(gamma=2.0)), y, 1.0, **bias)
    result = solve(problem, Smo(shrink=shrink), tol=-1.0, max_iter=100_000)
    assert result.status == "finished"
    assert result.certificate.relative_gap < 1e-5
