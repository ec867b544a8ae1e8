"""Decomposition against LIBSVM: the same optimum, whatever the C, the weights, the parts and the room for rows."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from maxmargin.kernels.functions import Linear, Poly, Rbf
from maxmargin.problems import KernelMatrix, RegularizedSVM
from maxmargin.solvers import Holdout, Resume, Sdca, solve
from maxmargin.svm.kernel.decomposition import PATIENCE, Decomposition


def moons(n=600, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, -1.0, 1.0)
    turn = np.pi * rng.random(n)
    X = np.column_stack([y * np.cos(turn) + (y > 0), y * np.sin(turn) + 0.5 * (y < 0)])
    return X + rng.normal(size=X.shape) * 0.3, y


@pytest.mark.parametrize("C", [0.1, 1.0, 1000.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("kernel", "name", "parameters"),
    [
        (Rbf(gamma=2.0), "rbf", {"gamma": 2.0}),
        (Poly(gamma=0.5, coef0=1.0, degree=3), "poly", {"gamma": 0.5, "coef0": 1.0, "degree": 3}),
    ],
    ids=["rbf", "poly"],
)
@pytest.mark.parametrize(
    "solver", [Decomposition(), Decomposition(first=60, growth=2.0, block=16)], ids=["whole", "parts"]
)
def test_the_optimum_is_that_of_LIBSVM(C, weighted, kernel, name, parameters, solver):
    X, y = moons()
    s = np.random.default_rng(1).random(600) * 2 if weighted else None
    svc = SVC(C=C, kernel=name, tol=1e-6, **parameters).fit(X, y, s)
    K = KernelMatrix(X, kernel)
    result = solve(RegularizedSVM(K, y, C, sample_weight=s), solver, tol=1e-6, random_state=0)
    assert result.status == "tol"
    beta = np.zeros(600)
    beta[svc.support_] = svc.dual_coef_[0]
    reference = np.abs(beta).sum() - 0.5 * beta @ K.block(np.arange(600)).astype(np.float64) @ beta
    assert result.certificate.dual == pytest.approx(reference, rel=1e-4)
    decision = result.solution.w.f + result.solution.b
    clear = np.abs(svc.decision_function(X)) > 1e-2
    np.testing.assert_array_equal(np.sign(decision[clear]), svc.predict(X)[clear])


def test_without_a_bias():
    X, y = moons()
    X = np.column_stack([X, np.ones(600)])
    result = solve(RegularizedSVM(KernelMatrix(X, Linear()), y, 0.5, bias=False), Decomposition(block=32), tol=1e-5)
    plain = solve(RegularizedSVM(X, y, 0.5, bias=False), Sdca(), tol=1e-7, random_state=0)
    assert result.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-5)
    np.testing.assert_allclose(result.solution.p @ (y[:, None] * X), plain.solution.w, atol=0.02)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("first", [350, 6000])
def test_little_room(seed, first):
    """Rows that do not fit give way to others, before the data grows and after; responses stay those of the weights."""
    X, y = moons(n=1500, seed=seed)
    K = KernelMatrix(X, Rbf(gamma=2.0), cache_size=0.5)
    solver = Decomposition(first=first, growth=2.0, block=32)
    result = solve(RegularizedSVM(K, y, 0.1), solver, tol=1e-3, max_iter=2000, random_state=seed)
    assert K.cached_rows < 0.2 * np.count_nonzero(result.solution.p)
    w = result.solution.w
    np.testing.assert_allclose(w.f, K.block(np.arange(1500)).astype(np.float64) @ w.beta, atol=1e-4)
    assert result.status == "tol"


def test_evaluations_are_counted_and_a_budget_is_kept():
    X, y = moons()
    K = KernelMatrix(X, Rbf(gamma=2.0))
    result = solve(RegularizedSVM(K, y), Decomposition(block=32), tol=1e-6, budget=40_000, random_state=0)
    assert result.status == "budget"
    assert result.reads["learning"] <= 40_000


@pytest.mark.parametrize("C", [0.5, 5.0, 50.0])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cache_size", [2000.0, 0.4], ids=["room", "little room"])
def test_it_goes_on_with_other_weights(C, bias, cache_size):
    """From one fold to the next, with another C too: the same optimum, and responses that belong to alpha."""
    X, y = moons()
    folds = [np.where(np.arange(600) % 3 == k, 0.0, 1.0 + np.arange(600) % 2) for k in range(2)]
    K = KernelMatrix(X, Rbf(gamma=2.0), cache_size=cache_size)
    one, other = (RegularizedSVM(K, y, 5.0, bias=bias, sample_weight=s) for s in folds)
    solver = Decomposition(block=32)
    state = solve(one, solver, tol=1e-4, random_state=0).resume.take()
    target = other.with_C(C)
    target.prepare(1e-4)  # a larger C may need rows of a higher precision
    assert solver.start(target, np.random.default_rng(0), state) is state
    assert (state.alpha >= 0).all()
    assert (state.alpha <= target.u).all()
    if bias:
        assert state.alpha @ y == pytest.approx(0.0, abs=1e-9 * state.alpha.sum())
    exact = K.block(np.arange(600)).astype(np.float64) @ (state.alpha * y)
    np.testing.assert_allclose(state.f, exact, atol=1e-4 * state.alpha.sum())
    assert (folds[1][state.W] > 0).all()
    warm = solve(target, solver, tol=1e-4, random_state=0, warm=Resume(state))
    cold = solve(target, Decomposition(), tol=1e-4, random_state=0)
    assert warm.status == "tol"
    assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_it_goes_on_from_a_solution(bias):
    """Also from that of another C; from the answer itself, nothing is left to do."""
    X, y = moons()
    problem = RegularizedSVM(KernelMatrix(X, Rbf(gamma=2.0)), y, 5.0, bias=bias)
    cold = solve(problem, Decomposition(), tol=1e-5)
    again = solve(problem, Decomposition(), tol=1e-4, warm=cold.solution)
    assert again.n_iter == 1
    other = solve(problem.with_C(0.5), Decomposition(), tol=1e-5)
    warm = solve(problem.with_C(0.5), Decomposition(), tol=1e-5, warm=cold.solution)
    assert warm.status == "tol"
    assert warm.certificate.dual == pytest.approx(other.certificate.dual, rel=1e-5)


def test_examples_without_a_weight():
    """They say nothing, wherever they are, and their responses are known at the end."""
    X, y = moons()
    s = (np.random.default_rng(0).random(600) < 0.5).astype(float)
    K = KernelMatrix(X, Rbf(gamma=2.0))
    result = solve(RegularizedSVM(K, y, sample_weight=s), Decomposition(first=50, block=16), tol=1e-5)
    used = s > 0
    alone = solve(RegularizedSVM(KernelMatrix(X[used], Rbf(gamma=2.0)), y[used]), Decomposition(), tol=1e-5)
    assert result.certificate.dual == pytest.approx(alone.certificate.dual, rel=1e-4)
    w = result.solution.w
    np.testing.assert_allclose(w.f, K.block(np.arange(600)).astype(np.float64) @ w.beta, atol=1e-4)


def test_examples_in_order_of_their_class():
    X, y = moons()
    order = np.argsort(y)
    result = solve(RegularizedSVM(KernelMatrix(X[order], Rbf(gamma=2.0)), y[order]), Decomposition(first=50), tol=1e-5)
    assert result.status == "tol"


def held_out(n=600):
    X, y = moons(n)
    held = np.arange(60)
    s = np.ones(n)
    s[held] = 0.0
    K = KernelMatrix(X, Rbf(gamma=2.0))
    return RegularizedSVM(K, y, sample_weight=s), Holdout(K, y[held], held)


def test_a_holdout_does_not_keep_it_from_ending_at_the_gap():
    problem, holdout = held_out()
    result = solve(problem, Decomposition(block=16), tol=1e-4, holdout=holdout)
    assert result.status == "tol"


def test_early_stopping_waits_until_it_is_near_the_optimum_and_a_few_iterations_more():
    problem, holdout = held_out()
    result = solve(problem, Decomposition(first=100, block=16), tol=1e-12, holdout=holdout, early_stopping=True)
    assert result.status == "early_stopping"
    assert result.state.whole
    assert result.n_iter == max(result.best_iter, result.state.near_at) + PATIENCE
    errors = [row.holdout_error for row in result.trace]
    assert min(errors) == errors[result.best_iter - 1]


@pytest.mark.parametrize("kernel", [Rbf(0.1), Poly(gamma=0.1, coef0=1.0, degree=3)], ids=["rbf", "poly"])
def test_the_gap_holds_in_float64_though_rows_are_float32(kernel):
    """With a large C the rounding of rows would be more than the gap, where responses were not computed anew."""
    X, y = load_digits(return_X_y=True)
    X, y = (X / 16).astype(np.float32), np.where(y == 8, 1.0, -1.0)
    result = solve(RegularizedSVM(KernelMatrix(X, kernel), y, C=1000.0), Decomposition(), tol=5e-5)
    alpha, b = result.solution.p, result.solution.b
    K = KernelMatrix(X.astype(np.float64), kernel)
    f = K.block(np.arange(y.size), out=np.empty(K.shape)) @ (alpha * y)
    square = (alpha * y) @ f
    dual, primal = alpha.sum() - 0.5 * square, 0.5 * square + 1000 * np.maximum(0, 1 - y * (f + b)).sum()
    assert result.status == "tol"
    assert 1 - dual / primal < 6e-5


def overlapping(n=1500):
    """With a small gamma and a large C, most support vectors are at C."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    return X, np.where(X[:, 0] + X[:, 1] ** 2 - 1 + rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("C", [1e3, 1e4])
def test_errors_of_float32_rows_do_not_keep_it_from_its_tolerance(C):
    """There are more support vectors than responses to estimate the errors from, and the estimate exceeds the gap."""
    X, y = overlapping()
    K = KernelMatrix(X, Rbf(0.001), cache_size=10.0)  # float64 would not fit
    result = solve(RegularizedSVM(K, y, C), Decomposition(), tol=1e-4, max_iter=100)
    assert K.dtype == np.float32
    assert result.status == "tol"
    exact = KernelMatrix(X, Rbf(0.001)).block(np.arange(y.size), out=np.empty(K.shape))
    beta, alpha = result.solution.w.beta, result.solution.p
    value = 0.5 * beta @ exact @ beta + C * np.maximum(0, 1 - y * (exact @ beta + result.solution.b)).sum()
    assert value <= result.certificate.primal * (1 + 1e-9)
    assert alpha.sum() - 0.5 * (alpha * y) @ exact @ (alpha * y) >= result.certificate.dual * (1 - 1e-9)


@pytest.mark.parametrize("C", [1.0, 1e3])
def test_it_ends_when_rounding_is_all_that_is_left(C):
    X, y = overlapping(600)
    result = solve(RegularizedSVM(KernelMatrix(X, Rbf(0.01)), y, C), Decomposition(), tol=-1.0, max_iter=1000)
    assert result.status == "finished"
    assert result.certificate.relative_gap < 1e-5


@pytest.mark.parametrize("kernel", [Linear(), Poly(gamma=0.5, coef0=1.0, degree=3), Rbf(gamma=2.0)], ids=repr)
@pytest.mark.parametrize("cache_size", [0.2, 0.5, 1.0])
def test_a_small_cache_is_never_asked_for_more_rows_than_it_holds(kernel, cache_size):
    X, y = moons(n=700)
    small = solve(RegularizedSVM(KernelMatrix(X, kernel, cache_size=cache_size), y, 1.0), Decomposition(), tol=1e-3)
    large = solve(RegularizedSVM(KernelMatrix(X, kernel), y, 1.0), Decomposition(), tol=1e-3)
    assert small.status == "tol"
    assert small.certificate.dual == pytest.approx(large.certificate.dual, rel=2e-3)


def scattered(n, seed=0):
    """Samples over a wide area, where most kernels of a narrow Gaussian are negligible, and half of all are noise."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 40, size=(n, 2)), rng.random((n, 3)) < 0.1])
    return X.astype(np.float32), np.where(np.sin(X[:, 0]) + rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("bias", [True, False])
def test_rows_that_do_not_fit_are_recomputed_and_the_optimum_is_the_same(bias):
    X, y = scattered(2500)
    X = X.astype(np.float64)
    problem = RegularizedSVM(KernelMatrix(X, Rbf(gamma=1.0), cache_size=2.0), y, 10.0, bias=bias)
    result = solve(problem, Decomposition(first=300, block=64), tol=1e-3, max_iter=2000)
    assert result.status == "tol"
    assert result.state.recomputes
    whole = solve(RegularizedSVM(KernelMatrix(X, Rbf(gamma=1.0)), y, 10.0, bias=bias), Decomposition(), tol=1e-3)
    assert not whole.state.recomputes
    assert result.certificate.dual == pytest.approx(whole.certificate.dual, rel=2e-3)
    state = result.state
    exact = KernelMatrix(X, Rbf(gamma=1.0)).block(np.arange(2500), None, np.empty((2500, 2500)))
    np.testing.assert_allclose(state.f, exact @ (state.alpha * y), atol=1e-4)
    np.testing.assert_allclose(state.inner.entries, exact[np.ix_(state.W, state.W)], atol=1e-5)


@pytest.mark.parametrize("cache_size", [2.0, 100.0])
def test_the_same_bits_for_any_number_of_threads(cache_size, monkeypatch):
    monkeypatch.setattr("maxmargin.core.threads.LEAST_WORK", 1)
    X, y = scattered(2500)
    models = []
    for threads in (1, 2, 3):
        K = KernelMatrix(X, Rbf(gamma=1.0), cache_size=cache_size, threads=threads)
        models.append(solve(RegularizedSVM(K, y, 10.0), Decomposition(first=300, block=64), tol=1e-2, max_iter=500))
        assert models[-1].reads == models[0].reads
        np.testing.assert_array_equal(models[-1].solution.p, models[0].solution.p)
        np.testing.assert_array_equal(models[-1].solution.w.f, models[0].solution.w.f)


def test_a_budget_is_kept_while_rows_are_recomputed():
    X, y = scattered(2500)
    K = KernelMatrix(X, Rbf(gamma=1.0), cache_size=2.0)
    result = solve(RegularizedSVM(K, y, 10.0), Decomposition(first=300, block=64), tol=1e-6, budget=4_000_000)
    assert result.status == "budget"
    assert result.state.recomputes
    assert result.reads["learning"] <= 4_000_000
