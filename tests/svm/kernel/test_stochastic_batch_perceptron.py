"""The Stochastic Batch Perceptron: as the paper writes it, and in the form that makes the most of kept rows."""

import math
from functools import cache

import numpy as np
import pytest
from covering import every_pair
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from maxmargin.core import water_level
from maxmargin.engine.stop_rules import UNLIMITED, StopRules
from maxmargin.kernels.functions import Poly, Rbf
from maxmargin.problems import KernelMatrix, SlackSVM, equivalent_slack
from maxmargin.solvers import Holdout, solve, solve_for_C
from maxmargin.svm.kernel import stochastic_batch_perceptron
from maxmargin.svm.kernel._stochastic_batch_perceptron import pour_below
from maxmargin.svm.kernel.stochastic_batch_perceptron import StochasticBatchPerceptron, _best_step, _sample

METHODS = [StochasticBatchPerceptron(), StochasticBatchPerceptron(method="paper")]
each_method = pytest.mark.parametrize("solver", METHODS, ids=lambda solver: solver.method)
each_bias = pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])


def rings(n=80, noise=0.1, seed=0):
    """A disc and the ring around it, with a gap between them that noise fills."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    radius, turn = np.where(y > 0, 0.7, 1.6) + noise * rng.normal(size=n), 2 * np.pi * rng.random(n)
    return np.column_stack([radius * np.cos(turn), radius * np.sin(turn)]), y


def make_problem(slack=0.05, bias=True, n=80, noise=0.1, kernel=None, cache_size=200.0, **options):
    X, y = rings(n, noise)
    K = KernelMatrix(X, kernel or Rbf(gamma=1.0), cache_size=cache_size)
    return SlackSVM(K, y, slack, bias=bias, **options)


def whole(problem):
    """K, in float64, not counted."""
    n = problem.y.size
    out = np.empty((n, n), dtype=np.float32)
    problem.X.packed.block_of(np.arange(n), None, out)
    return out.astype(np.float64)


def features(K):
    """Rows whose inner products are K."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0))


# As written


def transcription(K, y, slack, bias, T, rng):
    """Section 3.4 of the paper by brute force: alpha and c of the mean iterate."""
    n = y.size
    alpha, c, sum_alpha, sum_c = np.zeros((4, n))
    basins = [np.flatnonzero(y > 0), np.flatnonzero(y < 0)] if bias else [np.arange(n)]
    for t in range(1, T + 1):
        lowest = [np.sort(c[basin]) for basin in basins]
        k = np.arange(1, min(map(len, lowest)) + 1)
        height = sum(basin[: k.size] for basin in lowest)
        used = k * height - np.cumsum(height)  # the volume at which the k-th points are just covered
        wet = max(1, np.count_nonzero(used < n * slack))
        p = np.zeros(n)
        for basin in basins:
            p[basin[np.argsort(c[basin], kind="stable")[:wet]]] = 1 / len(basins) / wet
        if t == 1:  # all are the same: wet are all of them
            for basin in basins:
                p[basin] = 1 / len(basins) / basin.size
        j = rng.choice(n, p=p)
        alpha[j] += 1 / np.sqrt(t)
        c = y * (K @ (alpha * y))
        shrink = min(1, 1 / np.sqrt(alpha @ c))
        alpha, c = shrink * alpha, shrink * c
        sum_alpha, sum_c = sum_alpha + alpha, sum_c + c
    return sum_alpha / T, sum_c / T


@each_bias
@pytest.mark.parametrize("slack", [0.0, 0.02, 0.1])
def test_as_written(bias, slack):
    problem = make_problem(slack, bias)
    result = solve(problem, StochasticBatchPerceptron(method="paper"), max_iter=150, certify=False, random_state=3)
    alpha, c = transcription(whole(problem), problem.y, slack, bias, 150, np.random.default_rng(3))
    w = result.solution.w
    np.testing.assert_allclose(w.beta * problem.y, alpha, atol=1e-9)
    np.testing.assert_allclose(problem.responses(w), c, atol=1e-6)
    assert math.sqrt(w @ w) <= 1 + 1e-9
    assert problem.X.ledger.entries_read == 80 * np.count_nonzero(alpha)  # a row for each point that was drawn


@each_bias
def test_the_lemma(bias, exact):
    """SGD with |g| <= 1 on the unit ball at 1/sqrt(t) is within 3/sqrt(T) on average; five seeds, all far inside."""
    problem = make_problem(0.02, bias)
    best = exact.slack_form(features(whole(problem)), problem.y, 0.02, bias).value
    for T in (100, 500):
        found = [
            solve(problem, StochasticBatchPerceptron(method="paper"), max_iter=T, random_state=seed).certificate
            for seed in range(5)
        ]
        assert np.mean([best - certificate.primal for certificate in found]) <= 3 / math.sqrt(T)
        assert all(certificate.primal - 1e-6 <= best <= certificate.dual + 1e-6 for certificate in found)


# The optimum


KERNELS = [Rbf(gamma=1.0), Poly(gamma=1.0, coef0=0.5, degree=2)]


@pytest.mark.parametrize(
    ("kernel", "bias", "slack", "weighted"),
    every_pair(KERNELS, [True, False], [0.0, 0.02, 0.1], [False, True]),
    ids=lambda value: getattr(value, "name", None),
)
def test_the_optimum_is_the_exact_one(kernel, bias, slack, weighted, exact):
    s = np.random.default_rng(1).choice([0.5, 1.0, 3.0], size=80) if weighted else None
    problem = make_problem(slack, bias, kernel=kernel, sample_weight=s)
    best = exact.slack_form(features(whole(problem)) / problem.scale, problem.y, slack, bias, s).value
    result = solve(problem, StochasticBatchPerceptron(), tol=0.01, random_state=0)
    assert result.status == "tol"
    assert result.certificate.primal - 1e-6 <= best <= result.certificate.dual + 1e-6


@each_method
@each_bias
def test_a_weight_of_two_is_the_row_twice(solver, bias):
    X, y = rings()
    twice = np.random.default_rng(2).random(80) < 0.5
    one = SlackSVM(KernelMatrix(X, Rbf(gamma=1.0)), y, 0.05, bias=bias, sample_weight=1.0 + twice)
    double = KernelMatrix(np.vstack([X, X[twice]]), Rbf(gamma=1.0))
    other = SlackSVM(double, np.concatenate([y, y[twice]]), 0.05, bias=bias)
    found, wanted = (
        solve(problem, solver, tol=1e-3, max_iter=2000, random_state=0).certificate for problem in (one, other)
    )
    near = 0.002 if solver.method == "kept" else 0.1
    assert found.primal == pytest.approx(wanted.primal, rel=near)
    assert found.dual >= wanted.primal - 1e-6


@each_method
def test_a_point_that_is_covered_in_part_has_a_part_of_its_weight(solver):
    """Of the wet mass of 5 in each class, the last point has 4 of its 9."""
    problem = SlackSVM(KernelMatrix(np.eye(3), Rbf(gamma=1.0)), [1.0, -1.0, -1.0], 0.1, sample_weight=[5.0, 1.0, 9.0])
    at = problem.evaluate_responses(np.zeros(3), np.array([0.0, 0.0, 0.1]))
    np.testing.assert_allclose(at.wet, [0.5, 0.1, 0.4])
    assert at.value == pytest.approx(at.wet @ at.responses + problem.volume * problem.cap(at.wet))
    state = solver.start(problem, np.random.default_rng(0))
    assert state.iterate(problem, UNLIMITED)
    if solver.method == "kept":
        np.testing.assert_allclose(state.alpha, [0.5, 0.05, 0.45])  # at first, all responses are the same


@settings(max_examples=100, deadline=None)
@given(
    c=st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=12),
    slack=st.sampled_from([0.0, 0.1, 0.7, 5.0]),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_weights_on_wet_samples_prove_the_value(c, slack, bias, seed):
    """Whatever the ties and weights, zero ones too: p* is on the simplex, and its bound is the value."""
    n, rng = len(c), np.random.default_rng(seed)
    s, y = rng.choice([0.0, 1.0, 2.0, 0.3], size=n), rng.choice([-1.0, 1.0], size=n)
    s[:2], y[:2] = 1.0, [1.0, -1.0]
    problem = SlackSVM(np.eye(n), y, slack, bias=bias, sample_weight=s)
    at = problem.evaluate_responses(np.zeros(n), np.array(c))
    assert (at.wet >= 0).all()
    assert not at.wet[s == 0].any()
    assert at.wet.sum() == pytest.approx(1, abs=1e-12)
    if bias:
        assert at.wet @ y == pytest.approx(0, abs=1e-12)
    assert at.wet @ c + problem.volume * problem.cap(at.wet) == pytest.approx(at.value, abs=1e-9)


@pytest.mark.parametrize("duplicated", [False, True], ids=["weights", "rows repeated"])
@pytest.mark.parametrize("seed", range(3))
def test_a_rare_class_of_the_same_mass_reaches_the_tolerance(duplicated, seed):
    """A few samples of a large weight, or the same rows many times: the water covers some of them in part."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(60) < 6, 1.0, -1.0)
    X, s = rng.normal(size=(60, 3)) + 0.8 * (y > 0)[:, None], np.where(y > 0, 9.0, 1.0)
    if duplicated:
        X, y, s = np.repeat(X, s.astype(int), axis=0), np.repeat(y, s.astype(int)), None
    problem = SlackSVM(KernelMatrix(X, Rbf(gamma=0.3)), y, 0.05, sample_weight=s)
    result = solve(problem, StochasticBatchPerceptron(), random_state=0)
    assert result.status == "tol"
    assert result.certificate.relative_gap < 0.01


def test_draws_stand_for_what_they_are_drawn_from():
    """The mean of g over many blocks is the super-gradient, whatever the weights.

    A point is drawn or not, with a known probability: by the binomial distributions of the points, one of them is off
    by seven deviations in three of a billion runs.
    """
    s = np.random.default_rng(1).choice([0.0, 1.0, 4.0, 40.0], size=400, p=[0.1, 0.5, 0.3, 0.1])
    problem = make_problem(0.05, n=400, noise=0.4, sample_weight=s)
    state = StochasticBatchPerceptron(block=16).start(problem, np.random.default_rng(0))
    for _ in range(3):
        assert state.iterate(problem, UNLIMITED)
    _, wet = problem.pour(problem.y * state.h / math.sqrt(state.sq_norm))
    p, _ = state.minimax(problem, wet)
    unknown = np.where(state.known(problem.X, np.arange(400)), 0.0, p)
    assert np.count_nonzero(unknown) > 100
    drawn, repeats = np.array([state.draw(unknown) for _ in range(2000)]), 2000
    assert (np.count_nonzero(drawn, axis=1) == 16).all()
    for group in problem.groups:
        np.testing.assert_allclose(drawn[:, group].sum(axis=1), unknown[group].sum())
    most = drawn.max(axis=0)
    deviation = np.sqrt(np.maximum(0.0, unknown * (most - unknown)) / repeats)
    assert (np.abs(drawn.mean(axis=0) - unknown) <= 7 * deviation + 1e-12).all()
    certain = (drawn > 0).all(axis=0)
    np.testing.assert_allclose(drawn[:, certain], np.tile(unknown[certain], (repeats, 1)))


def test_one_heavy_point_is_always_drawn_with_its_own_weight():
    drawn = np.array([_sample(np.random.default_rng(seed), np.array([100.0, 1.0, 1.0]), 2) for seed in range(400)])
    assert (drawn[:, 0] == 100).all()
    assert (drawn[:, 1:].sum(axis=1) == 2).all()
    assert abs(drawn[:, 1].mean() - 1) < 6 / math.sqrt(400)  # six deviations: one run in a billion


# What is kept up


@each_bias
@pytest.mark.parametrize("slack", [0.0, 0.05])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal weights", "weighted"])
@pytest.mark.parametrize("cache_size", [200.0, 4e-6 * 600 * 64], ids=["much room", "little room"])
def test_what_is_kept_up(bias, slack, weighted, cache_size):
    s = np.random.default_rng(1).choice([0.0, 1.0, 2.5], size=600) if weighted else None
    problem = make_problem(slack, bias, n=600, noise=0.4, cache_size=cache_size, sample_weight=s)
    state = StochasticBatchPerceptron().start(problem, np.random.default_rng(0))
    computed, block_of = [], problem.X.packed.block_of
    problem.X.packed.block_of = lambda numbers, *rest: (computed.append(len(numbers)), block_of(numbers, *rest))[1]
    for _ in range(120):
        assert state.iterate(problem, UNLIMITED)
    assert problem.X.ledger.entries_read == 600 * sum(computed)
    K, y = whole(problem), problem.y
    np.testing.assert_allclose(state.h, K @ (state.alpha * y), atol=1e-6)
    assert state.sq_norm == pytest.approx(state.alpha @ (y * state.h), rel=1e-9)
    np.testing.assert_allclose(state.sum_h, K @ (state.sum_alpha * y), atol=1e-6 * state.sum_alpha.sum())
    for basin, total in zip(state.basins, state.sums, strict=True):
        inside = basin[state.inside[basin]]
        np.testing.assert_allclose(total, K[:, inside] @ (problem.s * y)[inside], atol=1e-6)
    assert state.alpha.sum() == pytest.approx(1)
    assert (state.alpha >= 0).all()
    assert not state.alpha[problem.s == 0].any()
    if bias:
        assert state.alpha @ y == pytest.approx(0, abs=1e-12)
    solution = StochasticBatchPerceptron().solution(problem, state)
    before = problem.X.ledger.entries_read
    p, v = problem.dual_point(solution.p, solution.v)
    np.testing.assert_allclose(v.f, K @ (p * y), atol=1e-6)
    assert problem.X.ledger.entries_read == before


@each_method
def test_however_iterations_are_cut_into_chunks(solver):
    found = []
    for chunks in ([60], [1] * 60, [7, 13, 1, 30, 9]):
        problem = make_problem(n=300, noise=0.4, cache_size=4e-6 * 300 * 64)
        state = solver.start(problem, np.random.default_rng(0))
        for chunk in chunks:
            assert solver.step(problem, state, chunk, UNLIMITED).iterations == chunk
            solver.solution(problem, state)  # looking changes nothing
            solver.estimated_gap(problem, state)
        found.append((solver.solution(problem, state), problem.X.ledger.entries_read))
    for solution, evaluations in found[1:]:
        np.testing.assert_array_equal(solution.w.beta, found[0][0].w.beta)
        np.testing.assert_array_equal(solution.w.f, found[0][0].w.f)
        np.testing.assert_array_equal(solution.p, found[0][0].p)
        assert (solution.b, evaluations) == (found[0][0].b, found[0][1])


ROOM = [200.0, 4e-6 * 300 * 64]  # megabytes, for all rows and for 64 of them


@pytest.mark.parametrize(
    ("solver", "budget", "cache_size"), every_pair(METHODS, [16 * 300, 20_000, 54_321], ROOM), ids=str
)
def test_the_budget_is_never_exceeded(solver, budget, cache_size):
    problem = make_problem(n=300, noise=0.4, cache_size=cache_size)
    result = solve(problem, solver, budget=budget, tol=0.0, max_iter=300, random_state=0)
    assert result.status in ("budget", "max_iter")
    assert result.reads["learning"] <= budget
    assert result.reads["certificate"] <= 2 * 75 * 300  # a few responses are computed anew to tell the rounding
    # What was drawn waits for more: going on is the same as never having stopped.
    more = solve(problem, solver, max_iter=result.n_iter + 20, tol=0.0, certify=False, warm=result)
    fresh = make_problem(n=300, noise=0.4, cache_size=cache_size)
    at_once = solve(fresh, solver, max_iter=result.n_iter + 20, tol=0.0, certify=False, random_state=0)
    np.testing.assert_array_equal(more.solution.w.beta, at_once.solution.w.beta)


def test_a_budget_alone_ends(monkeypatch):
    """Where all rows that are needed are kept, iterations cost nothing: 20 times the default number ends them."""
    problem, solver = make_problem(0.0, n=30, noise=0.3), StochasticBatchPerceptron()
    assert solver.default_iterations(problem) == 1000
    monkeypatch.setattr(StochasticBatchPerceptron, "default_iterations", lambda self, problem: 50)
    result = solve(problem, solver, budget=30 * 30, tol=1e-9, certify=False, random_state=0)
    assert (result.status, result.n_iter) == ("max_iter", 20 * 50)


def test_a_budget_too_small_for_one_iteration():
    with pytest.raises(ValueError, match="budget of 2 entries is too small for one iteration of 'sbp'"):
        solve(make_problem(), StochasticBatchPerceptron(), budget=2)


# Stop rules


@each_method
@each_bias
def test_certificates_cost_few_evaluations(solver, bias):
    problem = make_problem(bias=bias)
    result = solve(problem, solver, max_iter=200, certify="checks", random_state=0)
    assert result.certificate.gap >= 0
    # To tell the rounding, up to all 80 responses of w and of what proves its bound, from up to 80 rows each.
    assert result.reads["certificate"] <= (2 * 80 * 80 + 80) * len(result.trace)
    gaps = result.trace.column("gap")
    assert (gaps >= 0).all()
    assert gaps[-1] < gaps[0]


@each_method
@each_bias
def test_held_out_rows_stop_it(solver, bias):
    problem = make_problem(n=400, noise=0.4, bias=bias)
    held = np.arange(0, 400, 4)
    s = np.ones(400)
    s[held] = 0
    problem = SlackSVM(problem.X, problem.y, 0.1, bias=bias, sample_weight=s)
    holdout = Holdout(problem.X, problem.y[held], held)
    rules = {"holdout": holdout, "early_stopping": True, "max_iter": 5000, "tol": 0.0}
    result = solve(problem, solver, **rules, random_state=0)
    errors = result.trace.column("holdout_error")
    assert result.status == "early_stopping"
    assert holdout.error(result.solution, problem.scale) == errors.min() < 0.25
    assert not result.solution.p[held].any()
    assert result.reads.get("holdout", 0) == 0  # their responses are known


@each_method
def test_another_slack_half_way(solver):
    problem = make_problem(0.02)
    first = solve(problem, solver, max_iter=300, random_state=0)
    second = solve(problem.with_slack(0.1), solver, max_iter=1500, warm=first)
    fresh = solve(problem.with_slack(0.1), solver, max_iter=1500, random_state=0)
    assert second.certificate.primal == pytest.approx(fresh.certificate.primal, rel=0.05)
    assert second.certificate.primal > first.certificate.primal


@pytest.mark.parametrize(
    ("C", "rule"),
    [(0.1, {"tol": 0.02}), (1.0, {"tol": 0.02}), (1.0, {"budget": 60_000}), (10.0, {"max_iter": 2000, "tol": 0.0})],
    ids=str,
)
def test_a_given_C(C, rule):
    X, y = rings(n=300, noise=0.4)
    K = KernelMatrix(X, Rbf(gamma=1.0))
    found, result = solve_for_C(SlackSVM(K, y, 0.0), StochasticBatchPerceptron(), C, StopRules(**rule), random_state=0)
    # Nothing but the rows of a few samples to begin with.
    assert result.reads["slack for C"] <= 128 * 300
    assert result.reads.get("slack range", 0) == 0
    assert equivalent_slack(found, result.evaluation, C) == pytest.approx(found.slack, rel=2e-3)
    svc = SVC(C=C, gamma=1.0, tol=1e-6).fit(X, y)
    beta = np.zeros(300)
    beta[svc.support_] = svc.dual_coef_[0]
    best = np.abs(beta).sum() - 0.5 * beta @ whole(found) @ beta
    assert result.certificate.dual <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= result.certificate.primal <= 1.1 * best


# In private


@settings(max_examples=200)
@given(
    u=st.tuples(*[st.floats(-1, 1)] * 2),
    g=st.tuples(*[st.floats(-1, 1)] * 2),
    slope=st.sampled_from([-3, -0.3, 0, 0.2, 1]),
)
def test_the_best_step(u, g, slope):
    u, g = np.array(u), np.array(g)

    def value(theta):
        return np.linalg.norm(u + np.multiply.outer(theta, g - u), axis=-1) + slope * theta

    theta = _best_step(u @ u, u @ g, g @ g, slope)
    assert 0 <= theta <= 1
    assert value(theta) <= value(np.linspace(0, 1, 1001)).min() + 1e-6


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "magic"}, "method must be one of kept, paper; got 'magic'"),
        ({"block": 0}, "block must be a whole number from 1 to 64; got 0"),
        ({"block": 2.5}, "block must be a whole number"),
        ({"average": -1}, "average must be at least 0; got -1"),
    ],
    ids=str,
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        StochasticBatchPerceptron(**parameters)


# Without rows: nearly no slack, and few rows that fit

SUBSET = 600  # samples of the first subset in these tests


def nearly_no_slack(slack=1e-9, noise=0.3, threads=1, **options):
    """A problem of which too few rows fit in the cache."""
    X, y = rings(2500, noise)
    return SlackSVM(KernelMatrix(X, Rbf(gamma=30.0), cache_size=0.65, threads=threads), y, slack, **options)


@pytest.fixture
def small_subsets(monkeypatch):
    """Let the first subset be small: the others follow within a test."""
    monkeypatch.setattr(stochastic_batch_perceptron, "FIRST", SUBSET)


def run(problem, **rules):
    return solve(problem, StochasticBatchPerceptron(), **{"tol": 1e-9, "random_state": 0, **rules})


@each_bias
@pytest.mark.parametrize("weighted", [False, True], ids=["equal weights", "weighted"])
def test_what_is_kept_up_without_rows(bias, weighted, small_subsets):
    s = np.random.default_rng(1).choice([0.0, 1.0, 2.5], size=2500) if weighted else None
    problem = nearly_no_slack(bias=bias, sample_weight=s)
    K, y, sizes, bounds = whole(problem), problem.y, [], []
    state = StochasticBatchPerceptron().start(problem, np.random.default_rng(0))
    for _ in range(120):
        assert state.iterate(problem, UNLIMITED)
        if state.without_rows is not None:
            sizes.append(state.without_rows.m)
            bounds.append(state.without_rows.sq_norm)
    state = state.without_rows
    assert SUBSET <= sizes[0] < sizes[-1] == 2500
    assert sizes == sorted(sizes)
    assert bounds == sorted(bounds, reverse=True)  # each step lowers the dual bound, whose other term is negligible
    np.testing.assert_allclose(state.h, K @ (state.alpha * y), atol=1e-6)
    np.testing.assert_allclose(state.sum_h, K @ (state.sum_alpha * y), atol=1e-6 * state.sum_alpha.sum())
    assert state.sq_norm == pytest.approx(state.alpha @ (y * state.h), rel=1e-9)
    assert state.alpha.sum() == pytest.approx(1)
    assert (state.alpha >= 0).all()
    assert not state.alpha[problem.s == 0].any()
    if bias:
        assert state.alpha @ y == pytest.approx(0, abs=1e-12)


@cache
def after_600_iterations(bias):
    """The certificate of a run that is close to the optimum."""
    return run(nearly_no_slack(slack=1e-4, bias=bias), max_iter=600).certificate


@each_bias
@pytest.mark.parametrize("max_iter", [12, 60], ids=["on a subset", "on all samples"])
def test_certificates_without_rows_hold(bias, max_iter, small_subsets):
    problem = nearly_no_slack(slack=1e-4, bias=bias)
    result = run(problem, max_iter=max_iter)
    state = result.state.without_rows
    assert (state.m < 2500) == (max_iter == 12)
    assert math.isinf(StochasticBatchPerceptron().estimated_gap(problem, result.state)) == (state.m < 2500)
    best = after_600_iterations(bias)
    assert result.certificate.primal <= best.dual
    assert best.primal <= result.certificate.dual
    # The bound is that of the weights alone, whatever is known of the responses.
    beta = state.alpha * problem.y
    bound = math.sqrt(beta @ whole(problem) @ beta) + problem.volume * problem.cap(state.alpha)
    assert best.primal <= bound <= result.certificate.dual * (1 + 1e-4)


@each_bias
@pytest.mark.parametrize(("slack", "noise", "gap"), [(1e-9, 0.1, 0.02), (1e-4, 0.3, 1.2)], ids=["separable", "noisy"])
def test_the_smoothing_vanishes_with_the_gap(bias, slack, noise, gap, small_subsets):
    """The gap closes at the slack asked for, slowly where the classes overlap."""
    problem, solver = nearly_no_slack(slack, noise, bias=bias), StochasticBatchPerceptron()
    first, last = (solver.estimated_gap(problem, run(problem, max_iter=T, certify=False).state) for T in (50, 400))
    assert last < min(gap, 0.9 * first)


def test_any_number_of_threads_gives_the_same_bits(small_subsets):
    one, two = (run(nearly_no_slack(threads=threads), max_iter=60, certify=False) for threads in (1, 2))
    np.testing.assert_array_equal(one.solution.w.beta, two.solution.w.beta)
    np.testing.assert_array_equal(one.solution.w.f, two.solution.w.f)
    assert one.solution.b == two.solution.b


@cache
def run_of_60_iterations(bias):
    return run(nearly_no_slack(bias=bias), max_iter=60, certify=False)


@each_bias
@pytest.mark.parametrize("share", [0.02, 0.2, 0.7])
def test_budgets_are_kept_and_runs_go_on_without_rows(bias, share, small_subsets):
    whole_run = run_of_60_iterations(bias)
    problem, budget = nearly_no_slack(bias=bias), round(share * whole_run.reads["learning"])
    less = run(problem, budget=budget, certify=False)
    assert less.status == "budget"
    assert less.reads["learning"] <= budget
    assert less.solution.w.any()
    more = run(problem, max_iter=60, certify=False, warm=less)
    np.testing.assert_array_equal(more.solution.w.beta, whole_run.solution.w.beta)
    assert more.solution.b == whole_run.solution.b


@settings(max_examples=100)
@given(p=st.lists(st.sampled_from([0.0, 0.1, 0.5, 3.0]), min_size=1, max_size=12), count=st.integers(1, 12))
def test_samples_have_the_right_mean(p, count):
    """At equal distances from p, a point is drawn as often as it should be, up to one more or less."""
    p = np.array(p)
    weights = _sample(np.random.default_rng(0), p, count)
    assert weights.sum() == pytest.approx(p.sum())
    if np.count_nonzero(p) <= count:
        np.testing.assert_array_equal(weights, p)
    else:
        unit = p.sum() / count
        assert (np.abs(weights - p) < unit * (1 + 1e-9)).all()
        starts = [_sample(np.random.default_rng(seed), p, count) for seed in range(400)]
        assert np.abs(np.mean(starts, axis=0) - p).max() < 0.2 * unit  # off by eight deviations, at most 1/2 a draw


@each_bias
def test_sums_of_wet_points_are_kept_where_there_is_slack(bias):
    problem = make_problem(slack=0.02, bias=bias, n=2500, noise=0.3, cache_size=0.65)
    result = solve(problem, StochasticBatchPerceptron(), tol=0.05, random_state=0)
    assert result.status == "tol"
    assert result.state.without_rows is None


@given(
    f=st.lists(st.floats(-100, 100), min_size=1, max_size=60),
    volume=st.floats(0, 1000),
    above=st.floats(-50, 50),
    seed=st.integers(0, 1000),
)
def test_wet_points_are_those_of_the_water_level(f, volume, above, seed):
    rng = np.random.default_rng(seed)
    f = np.array(f)
    y, s = rng.choice([-1.0, 1.0], f.size), rng.random(f.size) * (rng.random(f.size) < 0.8)
    s[0] = 0.5
    c, points = y * f, np.empty(f.size, dtype=np.int64)
    level = water_level(c[s > 0], volume, s[s > 0])
    wet, found = pour_below(y, f, s, volume, level + above, points)
    if above < -1e-9:
        assert wet == 0
    elif above > 1e-9:
        assert found == pytest.approx(level, rel=1e-9, abs=1e-9)
        dry = np.setdiff1d(np.flatnonzero(s > 0), points[:wet])
        assert c[points[:wet]].max() <= level + 1e-9
        assert c[dry].min(initial=np.inf) >= level - 1e-9
