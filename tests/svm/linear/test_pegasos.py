"""Pegasos against the paper, line by line, and what it keeps up to date by steps, computed from scratch."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.problems import RegularizedSVM
from maxmargin.solvers import Learned, Pegasos, Sdca, solve

UNLIMITED = 2**62


def make_problem(n=40, d=6, C=0.5, loss="hinge", weighted=False, sparse=False, seed=0, **options):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d)) + 0.5 * y[:, None] + 0.3
    if sparse:
        X[rng.random((n, d)) < 0.7] = 0
    s = rng.choice([0.0, 0.5, 1.0, 4.0], size=n) if weighted else None
    return RegularizedSVM(sp.csr_array(X) if sparse else X, y, C, loss=loss, sample_weight=s, **options)


def dense(problem):
    """The rows, with the constant feature if the bias is the weight of one."""
    X = problem.X.dot(np.eye(problem.X.shape[1]))
    return np.column_stack([X, np.full(len(X), problem.bias_feature)])


def plain(problem, solver, draws):
    """Section 2 of the paper on given draws A_1, ..., A_T, with everything written out and nothing kept up by steps."""
    X, y, squared = dense(problem), problem.y, problem.loss.smooth
    free = (solver.free_bias or ("step" if solver.batch else "batch")) if problem.free_bias else None
    lam = 1 / (problem.C * problem.s.sum())
    used = problem.s > 0
    share = problem.s / problem.s.sum()
    L = 2 * share @ (X**2).sum(axis=1) if squared else 0.0
    w, b, alpha, iterates = np.zeros(X.shape[1]), 0.0, np.zeros(len(X)), []
    for t, A in enumerate(draws, 1):
        share_of = share[A] if len(A) == used.sum() else np.full(len(A), 1 / len(A))
        eta = 1 / (lam * t + L)
        eta_b = min(eta, 1 / math.sqrt(t)) if free == "step" else 0.0
        margins = y[A] * (X[A] @ w)
        if free == "batch":
            b, pull = best_in_batch(margins, y[A], share_of, squared)
        else:
            pull = problem.loss.slope(margins + y[A] * b)
        if squared:
            pull = pull / np.maximum(1, 2 * (eta * (X[A] ** 2).sum(axis=1) + eta_b))
        pull = pull * share_of
        w = (1 - eta * lam) * w + eta * (pull * y[A]) @ X[A]
        alpha *= 1 - eta * lam
        np.add.at(alpha, A, eta * pull)
        b += eta_b * float(pull @ y[A])
        radius = math.sqrt((0.5 if squared else 1.0) / lam)
        if solver.project and np.linalg.norm(w) > radius:
            alpha *= radius / np.linalg.norm(w)
            w = w * radius / np.linalg.norm(w)
        iterates.append((w, b, alpha.copy()))
    return iterates


def best_in_batch(margins, y, f, squared):
    """The best b for some rows, and pulls that balance there; of rows at the same place the first are passed first."""
    kinks = y * (1 - margins)
    if squared:
        low, high = min(kinks), max(kinks)
        for _ in range(200):
            b = (low + high) / 2
            low, high = (b, high) if f @ (y * np.maximum(0, 1 - margins - y * b)) > 0 else (low, b)
        return high, 2 * np.maximum(0, 1 - margins - y * high)
    order = np.argsort(kinks, kind="stable")
    slopes = np.cumsum([-sum(f[y > 0]), *f[order]])  # of the loss in b, before and after each kink
    place = next((k for k in range(len(y)) if slopes[k + 1] >= 0), len(y) - 1)
    pull = np.zeros(len(y))
    pull[order[:place]] = y[order[:place]] < 0
    pull[order[place + 1 :]] = y[order[place + 1 :]] > 0
    at = order[place]
    pull[at] = max(0.0, slopes[place + 1] if y[at] > 0 else -slopes[place]) / f[at]
    return kinks[at], pull


def run(problem, solver, iterations, seed=0):
    state, draws = solver.start(problem, np.random.default_rng(seed)), []
    for _ in range(iterations):
        assert solver.step(problem, state, 1, UNLIMITED).iterations == 1
        draws.append(state.last_rows)
    return state, draws


VARIANTS = [
    Pegasos(order="iid", average=None),
    Pegasos(),
    Pegasos(average=0.0, project=False),
    Pegasos(order="given", average=1.0, free_bias="feature"),
    Pegasos(batch=7),
    Pegasos(batch=7, order="iid", average=None, free_bias="batch"),
    Pegasos(batch=None),
    Pegasos(batch=None, average=None, project=False, free_bias="step"),
]


@pytest.mark.parametrize("solver", VARIANTS, ids=str)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias", [{"bias": False}, {"bias": True}, {"intercept_scaling": 2.0}], ids=str)
@pytest.mark.parametrize("kind", [{}, {"weighted": True}, {"sparse": True}, {"n": 9, "d": 40, "sparse": True}], ids=str)
def test_line_by_line(solver, loss, bias, kind):
    kind = {"loss": loss, "C": 0.5 + math.pi / 1000, **kind}  # with round numbers rounding decides who is at the margin
    problem = make_problem(**bias, **kind)
    reference = problem
    if solver.free_bias == "feature" and problem.free_bias:
        reference = make_problem(intercept_scaling=1.0, **kind)
    state, draws = run(problem, solver, 90)
    iterates = plain(reference, solver, draws)
    w, b, _ = iterates[-1]
    found_w, found_b = state.last()
    np.testing.assert_allclose(found_w, w[:-1], rtol=1e-8, atol=1e-9)
    assert found_b == pytest.approx(b + reference.bias_feature * w[-1], rel=1e-8, abs=1e-9)
    # The triple: w = a v with nu = |w|^2.
    assert state.norm2 == pytest.approx(w @ w, rel=1e-8)
    # The answer, its dual weights, and the sum that these stand for.
    answer = solver.solution(problem, state)
    weights = np.arange(1.0, 91) ** (solver.average or 0)
    if solver.average is None:
        weights[:-1] = 0
    mean_w, mean_b, mean_alpha = (np.average([i[part] for i in iterates], axis=0, weights=weights) for part in range(3))
    np.testing.assert_allclose(answer.w, mean_w[:-1], rtol=1e-8, atol=1e-9)
    assert answer.b == pytest.approx(mean_b + reference.bias_feature * mean_w[-1], rel=1e-8, abs=1e-9)
    np.testing.assert_allclose(answer.p, mean_alpha, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(answer.v, problem.X.dot_transposed(answer.p * problem.y), rtol=1e-8, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["hinge", "squared_hinge"]), st.booleans(), st.booleans())
def test_the_best_bias_in_the_batch_is_the_best(seed, loss, weighted, ties):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 12)), 2
    X = rng.integers(-2, 3, (n, d)).astype(float) if ties else rng.normal(size=(n, d))
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    y[:2] = [1, -1]
    s = rng.choice([0.5, 1.0, 3.0], size=n) if weighted else None
    problem = RegularizedSVM(X, y, 1.0, loss=loss, sample_weight=s)
    w = rng.normal(size=d)
    solver = Pegasos(batch=None, average=None, project=False)
    state = solver.start(problem, np.random.default_rng(0), Learned(3, w, 0.0, w, 0.0, 0.0))
    solver.step(problem, state, 1, UNLIMITED)
    at_b, best = problem.evaluate(w, state.b), problem.evaluate(w)
    assert at_b.value == pytest.approx(best.value, rel=1e-9)
    # What it moved by is a sub-gradient: the classes pull alike (unless rows were held back from the squared loss).
    assert loss == "squared_hinge" or state.dual_weights() @ y == pytest.approx(
        0, abs=1e-12 + 1e-9 * state.dual_weights().sum()
    )


@pytest.mark.parametrize("order", ["permuted", "given"])
def test_a_pass_visits_every_row_once(order):
    problem = make_problem(n=50, bias=False)
    _, draws = run(problem, Pegasos(order=order), 150)
    passes = np.concatenate(draws).reshape(3, 50)
    for rows in passes:
        np.testing.assert_array_equal(np.sort(rows), np.arange(50))
    assert (passes[0] != passes[1]).any() == (order == "permuted")
    # However the rows are cut into batches.
    _, draws = run(problem, Pegasos(order=order, batch=20), 5)
    np.testing.assert_array_equal(np.concatenate(draws)[:50], passes[0])


@pytest.mark.parametrize("order", ["permuted", "given", "iid"])
def test_rows_come_as_often_as_they_weigh(order):
    problem = make_problem(n=50, weighted=True)
    T = 1000 * np.count_nonzero(problem.s)
    state, counts = Pegasos(order=order).start(problem, np.random.default_rng(0)), np.zeros(50)
    for _ in range(T):
        state.run(1, UNLIMITED)
        counts[state.last_rows] += 1
    wanted = T * problem.s / problem.s.sum()
    # Drawn from all, or rounded at random in each of 1000 passes, a count is off by five deviations with chance 6e-7.
    room = {"iid": 5 * np.sqrt(wanted), "permuted": 5 * 0.5 * math.sqrt(1000), "given": 10}[order]
    assert (np.abs(counts - wanted) <= room).all()
    assert (counts[problem.s == 0] == 0).all()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("batch", [1, 10, None])
def test_the_projection_keeps_w_in_the_ball_and_the_optimum_lies_in_it(loss, batch):
    for bias in ({"bias": False}, {"bias": True}, {"intercept_scaling": 1.0}):
        problem = make_problem(loss=loss, C=10.0, **bias)
        solver = Pegasos(batch=batch, average=None)
        state = solver.start(problem, np.random.default_rng(0))
        assert state.radius == pytest.approx(math.sqrt({"hinge": 1, "squared_hinge": 0.5}[loss] * 10.0 * 40))
        for _ in range(100):
            solver.step(problem, state, 1, UNLIMITED)
            w, b = state.last()
            feature = b / problem.bias_feature if problem.bias_feature else 0.0
            assert math.hypot(np.linalg.norm(w), feature) <= state.radius * (1 + 1e-9)
        best = solve(problem, Sdca(), tol=1e-6, random_state=0).solution
        feature = best.b / problem.bias_feature if problem.bias_feature else 0.0
        assert math.hypot(np.linalg.norm(best.w), feature) <= state.radius


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 5, None]), st.sampled_from([0.01, 1.0, 100.0]))
def test_the_regret_bound(seed, batch, C):
    """sum_t f(w_t; A_t) - f(u; A_t) <= (sqrt(lambda) + R)^2 (1 + ln T) / (2 lambda), whatever is drawn, for any u.

    R is the length of the longest row; the convergence theorem follows from it.
    """
    problem = make_problem(C=C, bias=False, seed=seed)
    X, y, lam = dense(problem), problem.y, 1 / (C * 40)
    _, draws = run(problem, Pegasos(batch=batch, order="iid", average=None), 200, seed)
    iterates = plain(problem, Pegasos(batch=batch, average=None), draws)
    before = [np.zeros(X.shape[1]), *(w for w, _, _ in iterates[:-1])]

    def f(w, A):
        return lam / 2 * w @ w + np.maximum(0, 1 - y[A] * (X[A] @ w)).mean()

    best = np.append(solve(problem, Sdca(), tol=1e-6, random_state=0).solution.w, 0.0)
    regret = sum(f(w, A) - f(best, A) for w, A in zip(before, draws, strict=True))
    R = np.linalg.norm(X, axis=1).max()
    assert regret <= (math.sqrt(lam) + R) ** 2 / (2 * lam) * (1 + math.log(200))


def test_all_rows_converge_at_the_rate_of_the_theorem():
    """k = m: the mean of the iterates is within (sqrt(lambda) + R)^2 (1 + ln T) / (2 lambda T), by convexity."""
    problem = make_problem(C=1.0, bias=False)
    lam, R = 1 / 40, math.sqrt(problem.sq_norms().max())
    best = solve(problem, Sdca(), tol=1e-7, random_state=0).certificate.primal
    for T in (10, 100, 1000):
        value = solve(problem, Pegasos(batch=None, average=0.0), max_iter=T).certificate.primal
        # In units of C m. One more iterate, for w_1 is not in the mean.
        assert (value - best) / 40 <= (math.sqrt(lam) + R) ** 2 * (1 + math.log(T + 1)) / (2 * lam * T)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias", [{"bias": False}, {"bias": True}, {"intercept_scaling": 1.0}], ids=str)
def test_the_optimum_is_that_of_dual_coordinate_ascent(loss, bias):
    problem = make_problem(n=200, C=0.1, loss=loss, **bias)
    best = solve(problem, Sdca(), tol=1e-6, random_state=0).certificate.primal
    for solver in (Pegasos(), Pegasos(order="iid", average=None), Pegasos(free_bias="search"), Pegasos(batch=None)):
        result = solve(problem, solver, max_iter=100 * 200 // (1 if solver.batch else 10), random_state=0)
        assert result.certificate.primal <= 1.02 * best
        assert result.certificate.relative_gap <= 0.05


def test_a_bias_far_away_is_found():
    """Steps of 1 / (lambda t) for b would not come back from where the first ones throw it."""
    problem = make_problem(n=300, C=1.0)
    X = problem.X.dot(np.eye(6)) + 3.0
    problem = RegularizedSVM(X, problem.y, 0.1)
    best = solve(problem, Sdca(), tol=1e-5, random_state=0).certificate.primal
    for solver in (Pegasos(), Pegasos(free_bias="search"), Pegasos(batch=100, free_bias="batch")):
        result = solve(problem, solver, max_iter=300 * 300 // solver.batch, random_state=0)
        assert result.certificate.primal <= 1.15 * best, solver


def test_norms_do_not_drift():
    for sparse in (False, True):
        problem = make_problem(n=200, d=30, C=100.0, sparse=sparse)
        for solver in (Pegasos(average=None), Pegasos(batch=3, average=None)):
            state = solver.start(problem, np.random.default_rng(0))
            solver.step(problem, state, 100_000, UNLIMITED)
            w, _ = state.last()
            assert state.norm2 == pytest.approx(w @ w, rel=1e-9)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_factor_that_becomes_too_small_is_multiplied_in(batch):
    """Rows of 1e60 with both labels: each projection divides a by about as much."""
    X = np.array([[1e60, 1.0], [1e60, -1.0], [-1e60, 2.0], [3.0, 1e50]])
    problem = RegularizedSVM(X, [1, -1, -1, 1], 1.0, bias=False)
    solver = Pegasos(batch=batch, average=0.0)
    state, draws = run(problem, solver, 60)
    iterates = plain(problem, solver, draws)
    np.testing.assert_allclose(state.last()[0], iterates[-1][0][:-1], rtol=1e-7)
    answer = solver.solution(problem, state)
    np.testing.assert_allclose(answer.w, np.mean([w[:-1] for w, _, _ in iterates], axis=0), rtol=1e-7)
    np.testing.assert_allclose(answer.p, np.mean([alpha for _, _, alpha in iterates], axis=0), rtol=1e-7, atol=1e-300)


def test_an_iteration_reads_its_rows_once_and_all_rows_at_most_twice():
    problem = make_problem(sparse=True)
    sizes = np.array([problem.X.row(i)[0].size for i in range(40)])
    for solver in (Pegasos(), Pegasos(batch=7), Pegasos(batch=7, free_bias="batch")):
        state = solver.start(problem, np.random.default_rng(0))
        for _ in range(30):
            before = problem.X.ledger.entries_read
            solver.step(problem, state, 1, UNLIMITED)
            assert problem.X.ledger.entries_read - before == sizes[state.last_rows].sum()
    state = Pegasos(batch=None).start(problem, np.random.default_rng(0))
    before = problem.X.ledger.entries_read
    state.run(10, UNLIMITED)
    assert 10 * sizes.sum() <= problem.X.ledger.entries_read - before <= 20 * sizes.sum()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"batch": 0}, "batch must be a whole number of at least 1, or None for all rows; got 0"),
        ({"order": "sorted"}, "order must be one of permuted, given, iid; got 'sorted'"),
        ({"average": -1}, "average must be at least 0, or None for the last iterate; got -1"),
        ({"free_bias": "magic"}, "free_bias must be None or one of step, batch, search, feature; got 'magic'"),
        ({"free_bias": "batch"}, "cannot tell the best bias from a batch of one row"),
    ],
    ids=str,
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        Pegasos(**parameters)
