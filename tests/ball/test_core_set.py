"""Core sets: the exact ball, what is kept up on the way, and what is read."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.kernels.functions import Rbf
from maxmargin.problems import KernelMatrix, MaxMin, MinimumEnclosingBall, make_kernel
from maxmargin.solvers import CoreSet, solve

UNLIMITED = 2**62


def cloud(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) + 1.0


def ball(X, tol=1e-9, solver=None, nu=0.0, **options):
    return solve(MinimumEnclosingBall(X, nu=nu), solver or CoreSet(), tol=tol, **options)


@pytest.mark.parametrize("nu", [0.0, 0.005, 0.05, 0.3, 1.0])
@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 2), (7, 1), (40, 3), (300, 2), (300, 20), (60, 200)])
def test_it_is_the_exact_ball(exact, n, d, nu):
    X = cloud(n, d, seed=n + d)
    result = ball(X, nu=nu)
    wanted = exact.ball_form(X @ X.T, nu)
    assert result.certificate.primal == pytest.approx(wanted.value, rel=1e-5, abs=1e-5)
    assert result.certificate.relative_gap <= 1e-6 or result.certificate.primal < 1e-6
    assert result.status in ("tol", "finished")
    np.testing.assert_allclose(result.solution.w, X.T @ wanted.p, atol=1e-3)


KERNELS = {"rbf": {}, "poly": {"degree": 2, "coef0": 1.0}, "linear": {}}


@pytest.mark.parametrize("nu", [0.0, 0.2])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_it_is_the_exact_ball_of_a_kernel(exact, name, nu, storage):
    X = cloud(20, 3)
    kernel = make_kernel(name, X, **KERNELS[name])
    K = KernelMatrix(storage(X), kernel)
    full = K.block(np.arange(20), None, np.empty((20, 20)))
    result, wanted = ball(K, nu=nu, tol=1e-6), exact.ball_form(full, nu)
    assert result.certificate.primal == pytest.approx(wanted.value, rel=1e-5)
    assert result.certificate.relative_gap < 1e-5
    p = result.solution.p
    assert p @ full.diagonal() - p @ full @ p == pytest.approx(wanted.value**2, rel=1e-5)


def test_small_cases():
    assert ball(np.array([[3.0, 4.0]])).certificate.primal == 0
    assert ball(np.tile([[3.0, 4.0]], (50, 1))).certificate.primal == pytest.approx(0, abs=1e-6)
    two = ball(np.array([[0.0, 1.0], [4.0, 1.0]]))
    assert two.certificate.primal == pytest.approx(2)
    np.testing.assert_allclose(two.solution.w, [2, 1])
    np.testing.assert_allclose(ball(np.repeat([[0.0], [2.0]], 40, axis=0)).solution.w, [1])
    for d in (2, 6, 40):
        corners = ball(np.eye(d))
        assert corners.certificate.primal == pytest.approx(np.sqrt(1 - 1 / d), rel=1e-7)
        np.testing.assert_allclose(corners.solution.w, 1 / d, atol=1e-4)


@pytest.mark.parametrize("nu", [0.0, 0.1])
def test_the_ball_moves_with_the_rows(nu):
    X = cloud(200, 6)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))
    before = ball(X, nu=nu, tol=1e-10)
    for factor, shift in ((1.0, 100.0), (1e-6, 0.0), (1e6, 0.0), (3.0, -7.0)):
        after = ball(factor * (X @ turn) + shift, nu=nu, tol=1e-10)
        assert after.certificate.primal == pytest.approx(factor * before.certificate.primal, rel=1e-6)
        centre = factor * before.solution.w @ turn + shift
        np.testing.assert_allclose(after.solution.w, centre, atol=1e-3 * factor * before.certificate.primal)


@pytest.mark.parametrize("method", ["exact", "paper"])
@pytest.mark.parametrize("nu", [0.0, 0.1])
@pytest.mark.parametrize("kernel", [False, True])
def test_what_is_kept_up_is_right(method, nu, kernel):
    """Centre, products, distances, bound and the matrix of the core set, computed from scratch after each round."""
    X = cloud(400, 5)
    full = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2)) if kernel else X @ X.T
    problem = MinimumEnclosingBall(KernelMatrix(X, Rbf(gamma=0.2)) if kernel else X, nu=nu)
    solver = CoreSet(method=method, block=7)
    state = solver.start(problem, np.random.default_rng(0))
    for _ in range(60):
        solver.step(problem, state, 1, UNLIMITED)
        p = state.p
        assert p.sum() == pytest.approx(1)
        assert p.min() >= 0
        assert p.max() <= problem.cap * (1 + 1e-12)
        close = {"rtol": 1e-5, "atol": 1e-5} if kernel else {"rtol": 1e-9, "atol": 1e-9}
        if not kernel:
            np.testing.assert_allclose(state.v, X.T @ p, **close)
        np.testing.assert_allclose(problem.X.dot(state.v), full @ p, **close)
        squares = full.diagonal() - 2 * full @ p + p @ full @ p
        np.testing.assert_allclose(state.evaluation.sq_distances, squares, **close)
        assert state.bound**2 == pytest.approx(p @ full.diagonal() - p @ full @ p, rel=1e-4)
        assert state.bound <= state.evaluation.value * (1 + 1e-6)
        W = state.core
        assert np.unique(W).size == W.size
        f = problem.X.dot(state.origin)
        gram = full[np.ix_(W, W)] - f[W][:, None] - f[W] + state.origin @ state.origin
        np.testing.assert_allclose(state.gram, gram / state.unit, rtol=1e-5, atol=1e-5)
    assert state.gap < (0.2 if method == "paper" else 1e-4)


def test_badoiu_and_clarkson_as_written(exact):
    """x goes to the farthest row by 1/(t + 1), and is within 1 + 1/sqrt(t) of the least radius."""
    X = cloud(300, 8)
    problem, solver = MinimumEnclosingBall(X), CoreSet(method="paper")
    least, x = exact.ball_form(X @ X.T).value, X[0]
    state = solver.start(problem, np.random.default_rng(0))
    for t in range(1, 200):
        solver.step(problem, state, 1, UNLIMITED)
        np.testing.assert_allclose(state.v, x, atol=1e-12)
        assert state.evaluation.value <= (1 + 1 / np.sqrt(t)) * least
        x = x + (X[np.argmax(((X - x) ** 2).sum(axis=1))] - x) / (t + 1)


@pytest.mark.parametrize("nu", [0.0, 0.02])
def test_few_passes_are_enough(nu):
    X = cloud(3000, 40)
    result = ball(X, tol=1e-6, nu=nu)
    assert result.status == "tol"
    assert result.n_iter <= 40
    paper = ball(X, tol=1e-6, nu=nu, solver=CoreSet(method="paper"), max_iter=100)
    assert paper.certificate.relative_gap > 100 * result.certificate.relative_gap


@given(st.integers(1, 12_000))
@settings(max_examples=40, deadline=None)
def test_a_budget_is_kept(budget):
    X = cloud(100, 10)
    problem = MinimumEnclosingBall(sp.csr_array(X * (X > 1)))
    if kept(problem, budget):
        assert budget < 1.5 * problem.X.n_stored


@pytest.mark.parametrize("nu", [0.0, 0.1])
@pytest.mark.parametrize("budget", [3_000, 20_000, 60_000])
def test_a_budget_of_kernel_evaluations_is_kept(nu, budget):
    kept(MinimumEnclosingBall(KernelMatrix(cloud(150, 3), Rbf(gamma=0.5)), nu=nu), budget)


def kept(problem, budget):
    """Whether the budget was too small for one iteration; in any case it was kept."""
    solver = CoreSet()
    small = solver._cost(problem, solver.start(problem, np.random.default_rng(0))) > budget
    if small:
        with pytest.raises(ValueError, match="too small for one iteration"):
            solve(problem, solver, budget=budget)
    else:
        result = solve(problem, solver, tol=1e-9, budget=budget)
        assert result.status == "budget" or result.certificate.relative_gap < (1e-6 if problem.sums_are_cheap else 1e-4)
    assert problem.ledger.entries_read <= budget
    return small


@pytest.mark.parametrize("nu", [0.0, 0.1])
def test_chunks_change_nothing(nu):
    X = cloud(500, 10)
    whole = ball(X, tol=1e-12, max_iter=8, nu=nu)
    half = ball(X, tol=1e-12, max_iter=4, nu=nu)
    both = solve(MinimumEnclosingBall(X, nu=nu), CoreSet(), tol=1e-12, max_iter=8, warm=half)
    np.testing.assert_array_equal(both.solution.w, whole.solution.w)


def test_every_storage_gives_the_same(storages):
    X = cloud(80, 6)
    wanted = ball(X)
    for name, stored in storages(X).items():
        np.testing.assert_allclose(ball(stored).solution.w, wanted.solution.w, atol=1e-5, err_msg=name)
    single = ball(X.astype(np.float32), tol=1e-6)
    assert single.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-5)


def test_it_ends_where_rounding_is_all_that_is_left():
    result = ball(cloud(500, 30), tol=0.0)
    assert result.status in ("finished", "tol")
    assert result.n_iter < 200
    assert result.certificate.relative_gap < 1e-6


def test_bad_parameters():
    with pytest.raises(ValueError, match='"exact" or "paper"; got \'fast\''):
        CoreSet(method="fast")
    with pytest.raises(ValueError, match="block must be"):
        CoreSet(block=0)
    other = MaxMin(1, sample=None, gradient=None, values=None)
    with pytest.raises(TypeError, match="'core_set' solves a MinimumEnclosingBall; got a MaxMin"):
        solve(other, CoreSet())
