"""The kernel solvers that visit samples one by one, against the plain loops that they stand for."""

import numpy as np
import pytest
from covering import every_pair
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.kernels.functions import Linear, Rbf
from maxmargin.problems import KernelMatrix, RegularizedSVM, SlackSVM
from maxmargin.solvers import (
    KernelPegasos,
    KernelPerceptron,
    KernelSdca,
    Pegasos,
    Perceptron,
    Sdca,
    solve,
)
from maxmargin.svm.kernel.visits import Order, Sum

N = 70


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(N) < 0.4, -1.0, 1.0)
    return rng.normal(size=(N, 3)) + 0.7 * y[:, None], y


def matrix(X, kernel=None):
    K = KernelMatrix(X, kernel or Rbf(gamma=0.5))
    with K.ledger.on("test"):
        return K, K.block(np.arange(len(X))).astype(np.float64)


def visits(weights, order, count, seed=0):
    return Order(weights, order, np.random.default_rng(seed)).ahead(count)


ORDERS = ["permuted", "given", "iid"]
BIASES = {"free": {}, "none": {"bias": False}, "penalised": {"intercept_scaling": 2.0}}


# Against plain loops


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_perceptron(data, order, average, bias):
    X, y = data
    K, exact = matrix(X)
    alpha, total, rows = np.zeros(N), np.zeros(N), set()
    products = exact + bias
    for i in visits(np.ones(N), order, 3 * N):
        if y[i] * (products[i] @ (alpha * y)) <= 0:
            alpha[i] += 1
            rows.add(i)
        total += alpha
    wanted = total / (3 * N) if average else alpha
    problem = SlackSVM(K, y, 0.1, bias=bias)
    result = solve(problem, KernelPerceptron(passes=3, order=order, average=average), certify=False, random_state=0)
    size = np.sqrt(wanted * y @ exact @ (wanted * y))
    np.testing.assert_allclose(result.solution.p, wanted, atol=1e-9)
    np.testing.assert_allclose(result.solution.w.beta, wanted * y / size, atol=1e-5)
    np.testing.assert_allclose(result.solution.w.f, exact @ (wanted * y) / size, atol=1e-5)
    assert result.solution.b == pytest.approx(bias * (wanted @ y) / size, abs=1e-5)
    assert result.state.mistakes == alpha.sum()
    assert result.reads["learning"] == N * len(rows)


@pytest.mark.parametrize(
    ("order", "average", "batch", "bias", "project"),
    every_pair(ORDERS, [None, 0.0, 3.0], [1, 4], BIASES, [False, True]),
)
def test_pegasos(data, order, average, batch, bias, project):
    X, y = data
    K, exact = matrix(X)
    problem = RegularizedSVM(K, y, 2.0, **BIASES[bias])
    T, lam, products = 300, 1 / (2.0 * N), exact + problem.bias_feature**2
    beta, b, rows, projections = np.zeros(N), 0.0, set(), 0
    total, total_b, weights = np.zeros(N), 0.0, 0.0
    drawn = visits(np.ones(N), order, T * batch).reshape(T, batch)
    for t in range(1, T + 1):
        eta = 1 / (lam * t)
        short = [i for i in drawn[t - 1] if y[i] * (products[i] @ beta + b) < 1]
        beta *= 1 - eta * lam
        for i in short:
            beta[i] += eta / batch * y[i]
            b += bool(problem.free_bias) * min(eta, 1 / np.sqrt(t)) * y[i] / batch
            rows.add(i)
        size = np.sqrt(beta @ products @ beta)
        if project and size > 1 / np.sqrt(lam):
            beta /= size * np.sqrt(lam)
            projections += 1
        if average is not None:
            total += t**average * beta
            total_b += t**average * b
            weights += t**average
    wanted, wanted_b = (beta, b) if average is None else (total / weights, total_b / weights)
    assert (projections > 3) == project
    solver = KernelPegasos(order=order, average=average, batch=batch, project=project)
    result = solve(problem, solver, max_iter=T, certify=False, random_state=0)
    np.testing.assert_allclose(result.solution.w.beta, wanted, atol=1e-5 if project else 1e-8)  # K is in float32
    np.testing.assert_allclose(result.solution.w.f, exact @ wanted, atol=1e-4)
    assert result.solution.b == pytest.approx(wanted_b + problem.bias_feature**2 * wanted.sum(), abs=1e-5)
    assert result.reads["learning"] == N * len(rows)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias", BIASES)
def test_sdca(data, order, loss, bias):
    X, y = data
    K, exact = matrix(X)
    problem = RegularizedSVM(K, y, 2.0, loss=loss, **BIASES[bias])
    upper, q = problem.loss.dual_box(problem.u)
    rho = np.diagonal(exact).mean() if problem.free_bias else problem.bias_feature**2
    alpha, centre, rows = np.zeros(N), 0.0, set()
    for t, i in enumerate(visits(np.ones(N), order, 5 * N), start=1):
        c = y[i] * (exact[i] @ (alpha * y) + centre + rho * (alpha @ y))
        best = np.clip(alpha[i] + (1 - c - q[i] * alpha[i]) / (exact[i, i] + rho + q[i]), 0, upper[i])
        if abs(best - alpha[i]) > 1e-12:
            rows.add(i)
        alpha[i] = best
        if t % N == 0 and problem.free_bias:
            centre += rho * (alpha @ y)
    result = solve(problem, KernelSdca(order=order), tol=-1.0, max_iter=5 * N, certify=False, random_state=0)
    np.testing.assert_allclose(result.solution.p, alpha, atol=1e-5)
    np.testing.assert_allclose(result.solution.w.f, exact @ (alpha * y), atol=1e-5)
    assert result.solution.b == pytest.approx(centre + rho * (alpha @ y), abs=1e-4)
    assert result.reads["learning"] == N * len(rows)
    assert result.state.imbalance == pytest.approx(alpha @ y, abs=1e-5)


# Against the same solver on rows of numbers, which the linear kernel makes of the rows


@pytest.mark.parametrize("bias", BIASES)
def test_the_linear_kernel_is_the_linear_solver(data, bias):
    X, y = data
    K, _ = matrix(X, Linear())
    options = BIASES[bias]
    pairs = [
        (KernelPegasos(order="given"), Pegasos(order="given", project=False), 0.5),
        (KernelPegasos(order="given", project=True), Pegasos(order="given"), 0.5),
        (KernelSdca(), Sdca(), 0.5),
    ]
    for kernel, linear, C in pairs:
        rules = {"max_iter": 2000} if kernel.default_tol is None else {"tol": 1e-5, "max_iter": 10**5}
        one = solve(RegularizedSVM(K, y, C, **options), kernel, random_state=0, **rules)
        other = solve(RegularizedSVM(X, y, C, **options), linear, random_state=0, **rules)
        assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-4)
        np.testing.assert_allclose(one.solution.w.beta @ X, other.solution.w, atol=0.02)


def test_perceptrons_agree(data):
    X, y = data
    one = solve(SlackSVM(matrix(X, Linear())[0], y, 0.1), KernelPerceptron(passes=3, order="given"))
    other = solve(SlackSVM(X, y, 0.1), Perceptron(passes=3, order="given"))
    assert one.state.mistakes == other.state.mistakes
    np.testing.assert_allclose(one.solution.w.beta @ X, other.solution.w, atol=1e-4)
    assert one.certificate.primal == pytest.approx(other.certificate.primal, abs=1e-4)


# What they share


@settings(max_examples=30, deadline=None)
@given(
    weights=st.lists(st.sampled_from([0.0, 0.3, 1.0, 1.0, 2.5]), min_size=1, max_size=20).filter(any),
    order=st.sampled_from(ORDERS),
    seed=st.integers(0, 99),
)
def test_an_example_comes_as_often_as_its_weight_says(weights, order, seed):
    weights, passes = np.array(weights), 400
    used = np.count_nonzero(weights)
    rows = visits(weights, order, passes * used, seed)
    share = np.bincount(rows, minlength=weights.size) / rows.size
    # Five standard deviations, whether visits are drawn or credits rounded at random: a false alarm in a million.
    few = 2 / passes if order == "given" else 5 * np.sqrt(0.25 / rows.size)
    np.testing.assert_allclose(share, weights / weights.sum(), atol=few)
    assert not share[weights == 0].any()


def test_visits_do_not_depend_on_how_they_are_asked_for():
    weights = np.array([1.0, 2.0, 0.0, 0.5])
    for kind in ORDERS:
        whole = visits(weights, kind, 50)
        order, parts = Order(weights, kind, np.random.default_rng(0)), []
        for count in (1, 0, 7, 20, 2, 20):
            parts.append(order.ahead(count + 5)[:count])
            order.advance(count)
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_sum_and_its_average(data):
    K, exact = matrix(data[0])
    rng, total, weights = np.random.default_rng(0), np.zeros(N), 0.0
    kept, beta = Sum(K, averaging=True), np.zeros(N)
    for t in range(1, 40):
        rows, change = rng.choice(N, 3, replace=False), rng.normal(size=3)
        kept.add(rows, change)
        beta[rows] += change
        if t % 7 == 0:
            kept.shrink(1e-3)
            beta *= 1e-3
        kept.count(np.array([t * 0.5]), np.array([t]))
        total += t * 0.5 * beta
        weights += t
    w = kept.answer(2.0)
    np.testing.assert_allclose(w.beta, 2 * total / weights, atol=1e-12)
    np.testing.assert_allclose(w.f, exact @ w.beta, atol=1e-5)


# Bad parameters


def test_parameters_are_checked():
    for solver in (KernelPegasos, KernelPerceptron, KernelSdca):
        with pytest.raises(ValueError, match="order must be one of permuted, given, iid; got 'sorted'"):
            solver(order="sorted")
    with pytest.raises(ValueError, match="batch must be a whole number of at least 1; got 0"):
        KernelPegasos(batch=0)
    with pytest.raises(ValueError, match="average must be at least 0, or None for the last iterate; got -1"):
        KernelPegasos(average=-1)
    with pytest.raises(ValueError, match="passes must be a whole number of at least 1, or None; got 0"):
        KernelPerceptron(passes=0)


def test_the_squared_hinge_is_not_for_pegasos(data):
    X, y = data
    with pytest.raises(ValueError, match="pegasos on a kernel has the hinge loss; got 'squared_hinge'"):
        solve(RegularizedSVM(matrix(X)[0], y, loss="squared_hinge"), KernelPegasos())


def test_a_batch_that_does_not_fit_the_cache():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), np.where(rng.random(300) < 0.5, -1.0, 1.0)
    problem = RegularizedSVM(KernelMatrix(X, Rbf(gamma=1.0), cache_size=0.1), y)
    with pytest.raises(ValueError, match="rows asked for at once, but only 83 fit the cache"):
        solve(problem, KernelPegasos(batch=200))


def test_another_problem_is_begun_anew(data):
    X, y = data
    K, _ = matrix(X)
    first = solve(RegularizedSVM(K, y, 1.0), KernelSdca(), max_iter=100, random_state=0)
    other = RegularizedSVM(K, -y, 1.0)
    state = KernelSdca().start(other, np.random.default_rng(0), first.state)
    assert state is not first.state
    assert KernelSdca().step(other, state, 10, UNLIMITED).iterations == 10
