"""What SIMBA keeps up to date by steps, computed from scratch."""

import numpy as np
import pytest
import scipy.sparse as sp
from covering import every_pair
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.problems import SlackSVM
from maxmargin.solvers import Simba, SublinearPerceptron, solve
from maxmargin.svm.linear._simba import Tracker

UNLIMITED = 2**62


def make_problem(n=150, d=40, slack=0.05, bias=True, weighted=False, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d)) + 0.3 * y[:, None]
    if sparse:
        X[rng.random((n, d)) < 0.8] = 0
        X[5] = 0
    s = rng.choice([0.0, 0.5, 1.0, 4.0], size=n) if weighted else None
    return SlackSVM(sp.csr_array(X) if sparse else X, y, slack, bias=bias, sample_weight=s)


def signed_rows(problem):
    return problem.y[:, None] * problem.X.dot(np.eye(problem.X.shape[1])) / problem.scale


KINDS = [{}, {"weighted": True}, {"sparse": True}, {"n": 12, "d": 300}]


@pytest.mark.parametrize(("bias", "slack", "kind"), every_pair([True, False], [0.0, 0.1], KINDS), ids=str)
def test_what_is_tracked(bias, slack, kind):
    problem = make_problem(slack=slack, bias=bias, **kind)
    tracker = Tracker(problem, np.random.default_rng(1), columns=1.0, average=2.0)
    X = signed_rows(problem)
    mean, lengths, steps2, last = 0.0, 0.0, 0.0, 0.0
    found, wanted = [], []  # the length after each step
    for t in range(1, 1501):
        assert tracker.run(1, UNLIMITED) == 1
        u = tracker.tracking[0].copy()
        steps2, last = steps2 + (u - last) @ (u - last), u
        length = np.sqrt(max(u @ u, steps2))
        mean, lengths = mean + t**2.0 * u, lengths + t**2.0 * length
        found.append(tracker.length)
        wanted.append(length)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    u, z, r, u_norm2, z_norm2, distance2 = tracker.tracking
    alpha = tracker.dual_weights()
    assert tracker.t == 1500
    np.testing.assert_allclose(u, alpha @ X, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(r, X @ z, rtol=1e-9, atol=1e-9)
    assert u_norm2 == pytest.approx(u @ u, rel=1e-9)
    assert z_norm2 == pytest.approx(z @ z, rel=1e-9)
    assert distance2 == pytest.approx((u - z) @ (u - z), rel=1e-9, abs=1e-9 * u_norm2)
    w, _ = tracker.answer()
    np.testing.assert_allclose(w, mean / lengths, rtol=1e-9, atol=1e-9)
    assert (alpha >= 0).all()
    assert not alpha[problem.s == 0].any()
    if bias:
        assert alpha @ problem.y == pytest.approx(0, abs=1e-9 * alpha.sum())


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=40), st.booleans())
def test_no_call_reads_more_than_its_budget(budgets, sparse):
    problem = make_problem(sparse=sparse)
    tracker = Tracker(problem, np.random.default_rng(1), columns=1.0, average=2.0)
    for budget in budgets:
        before = problem.X.ledger.entries_read
        tracker.run(100, budget)
        assert problem.X.ledger.entries_read - before <= budget


@settings(max_examples=25, deadline=None)
@given(
    budgets=st.lists(st.integers(0, 300), min_size=1, max_size=60),
    columns=st.sampled_from([0.5, 1.0, 8.0]),
    sparse=st.booleans(),
)
def test_cut_anywhere_by_the_budget_it_goes_on_as_if_never_cut(budgets, columns, sparse):
    whole, cut = (
        Tracker(make_problem(sparse=sparse), np.random.default_rng(1), columns=columns, average=2.0) for _ in range(2)
    )
    whole.run(200, UNLIMITED)
    made = 0
    for budget in [*budgets, UNLIMITED]:
        made += cut.run(200 - made, budget)
    assert made == 200
    for one, other in zip(cut.tracking, whole.tracking, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(cut.answer()[0], whole.answer()[0])
    assert cut.X.ledger.entries_read == whole.X.ledger.entries_read


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_cut_by_budgets_once_z_is_close_to_u(bias):
    whole, cut = (
        Tracker(make_problem(bias=bias, slack=0.01), np.random.default_rng(1), columns=1.0, average=2.0)
        for _ in range(2)
    )
    whole.run(6000, UNLIMITED)
    rng, made = np.random.default_rng(2), 0
    while made < 6000:
        made += cut.run(min(6000 - made, int(rng.integers(1, 200))), int(rng.integers(0, 3000)))
    assert whole.tracking[5] < whole.length**2 / 16
    for one, other in zip(cut.tracking, whole.tracking, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(cut.answer()[0], whole.answer()[0])
    assert cut.X.ledger.entries_read == whole.X.ledger.entries_read


def test_columns_are_read_about_as_much_as_rows():
    problem = make_problem(n=400, d=400)
    tracker = Tracker(problem, np.random.default_rng(1), columns=1.0, average=2.0)
    tracker.run(2000, UNLIMITED)
    rows = 2000 * 400
    assert rows < problem.X.ledger.entries_read <= 2 * rows + 400


def test_reads_on_sparse_data_are_a_few_rows_and_columns():
    """Over a run, entries in columns are bounded by entries in rows: nothing of size n or d is read in a step."""
    problem = make_problem(n=2000, d=3000, sparse=True, slack=0.02)
    tracker = Tracker(problem, np.random.default_rng(1), columns=1.0, average=2.0)
    longest = max(problem.X.row(i)[0].size for i in range(2000))
    before = problem.X.ledger.entries_read
    tracker.run(300, UNLIMITED)
    assert problem.X.ledger.entries_read - before <= 2 * 300 * longest


@pytest.mark.parametrize("method", ["tracked", "paper"])
def test_it_learns_from_a_part_of_the_data(method):
    """A tenth of the entries, five seeds; what either method was seen to reach stands below with room to spare."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(1000) < 0.5, -1.0, 1.0)
    X = rng.normal(size=(1000, 1000)) + 0.3 * y[:, None]
    for seed in range(5):
        result = solve(
            SlackSVM(X, y, slack=0.01), Simba(method=method), budget=X.size // 10, certify=False, random_state=seed
        )
        assert result.reads["learning"] <= X.size // 10
        assert np.mean(np.sign(X @ result.solution.w) != y) < 0.05


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "magic"}, "method must be one of tracked, paper; got 'magic'"),
        ({"eps": 0.1}, 'eps goes with method="paper"'),
        ({"method": "paper", "eps": 1.5}, "between 0 and 1; got 1.5"),
        ({"method": "paper", "rows": 0}, "rows must be a whole number of at least 1.*got 0"),
        ({"rows": 2}, "rows must be a whole number"),
        ({"columns": 0}, "columns must be positive.*got 0"),
        ({"method": "paper", "columns": 1.5}, "columns must be positive, and whole"),
        ({"average": -1}, "average must be at least 0; got -1"),
        ({"lagged": True}, 'lagged goes with method="paper"'),
    ],
    ids=str,
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        Simba(**parameters)


def test_rounds_of_the_paper():
    """T = 100^2 eps^-2 log n, where rows of weight zero do not count."""
    problem = make_problem()
    assert Simba(method="paper", eps=0.5).iterations(problem) == int(np.ceil(100**2 / 0.5**2 * np.log(150)))
    weighted = make_problem(weighted=True)
    counting = np.count_nonzero(weighted.s)
    assert Simba(method="paper", eps=0.5).iterations(weighted) == int(np.ceil(100**2 / 0.5**2 * np.log(counting)))


def test_lagged_at_slack_0_is_the_sublinear_perceptron():
    """Algorithms 1 and 4 of the survey differ in slack and T alone, and 30 and 100 times eps give the same T."""
    problem = make_problem(slack=0.0, bias=False)
    simba = solve(problem, Simba(method="paper", lagged=True, eps=0.9), max_iter=3000, random_state=3)
    perceptron = solve(problem, SublinearPerceptron(eps=0.9, constant=100), max_iter=3000, random_state=3)
    np.testing.assert_array_equal(simba.solution.w, perceptron.solution.w)
    early = solve(problem, Simba(method="paper", eps=0.9), max_iter=3000, random_state=3)
    assert (early.solution.w != simba.solution.w).any()


@pytest.mark.parametrize("lagged", [False, True])
def test_the_mean_slack_goes_with_the_mean_direction(exact, lagged):
    """It uses up the slack, and with it the mean of w_t has nearly the value that the theorem is about."""
    problem = make_problem(n=60, d=5, slack=0.3, bias=False)
    result = solve(problem, Simba(method="paper", lagged=lagged), max_iter=30_000, random_state=0)
    xi = result.state.mean_slack()
    assert xi.sum() == pytest.approx(problem.volume)
    assert ((xi >= 0) & (xi <= 2)).all()
    best = exact.slack_form(signed_rows(problem), np.ones(60), 0.3, False).value
    value = (signed_rows(problem) @ result.state.answer()[0] + xi).min()
    assert best - 0.1 < value <= result.certificate.primal + 1e-9 <= best + 2e-9


# Convergence

ENTRIES = 500 * 300 * 20  # 75,000 rows, and as many entries in columns


def noisy_problem(flipped, slack, bias, weighted):
    """300 x 20 with flipped labels, for which the best w is inside the unit ball."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(300) < 0.5, -1.0, 1.0)
    X = rng.normal(size=(300, 20)) + 0.3 * y[:, None]
    y = np.where(rng.random(300) < flipped, -y, y)
    s = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], size=300) if weighted else None
    X /= np.linalg.norm(X, axis=1).max()
    return X, s, SlackSVM(X, y, slack, bias=bias, sample_weight=s, scale=1.0)


@pytest.mark.parametrize(
    ("flipped", "slack", "bias", "weighted"),
    [(0.02, 0.01, False, False), (0.05, 0.02, True, False), (0.05, 0.02, False, True), (0.05, 0.02, True, True)],
    ids=["no bias", "bias", "weights", "bias and weights"],
)
def test_within_one_per_cent_of_the_optimum_on_noisy_data(exact, flipped, slack, bias, weighted):
    """Over 25 seeds the shortfall was 0.21 to 0.64 % in the mean, with standard deviations of at most 0.03 %.

    1 % is more than ten of these above the mean: less than 1e-9 of all runs would fail if shortfalls were normal.
    """
    X, s, problem = noisy_problem(flipped, slack, bias, weighted)
    best = exact.slack_form(X, problem.y, slack, bias, s)
    assert np.linalg.norm(best.w) < 0.9
    for seed in range(2):
        result = solve(problem, Simba(), budget=ENTRIES, random_state=seed)
        assert 0.99 * best.value <= result.certificate.primal <= best.value * (1 + 1e-9)


@pytest.mark.parametrize("slack", [0.0, 0.01], ids=["slack 0", "slack"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_the_gap_goes_on_closing(exact, bias, slack):
    """From 40 to 400 passes the shortfall falls to less than 40 %, and to less than 0.3 %.

    Over ten seeds it fell to 17 % at most, and to 0.15 % at most with a standard deviation below 0.01 %.
    """
    rng = np.random.default_rng(2)
    y = np.where(rng.random(200) < 0.5, -1.0, 1.0)
    X = rng.normal(size=(200, 30)) + 0.6 * y[:, None]
    problem = SlackSVM(X, y, slack, bias=bias)
    best = exact.slack_form(X / problem.scale, y, slack, bias).value
    for seed in range(2):
        early = solve(problem, Simba(), budget=40 * X.size, random_state=seed)
        late = solve(problem, Simba(), budget=400 * X.size, warm=early)
        shortfall = [1 - result.certificate.primal / best for result in (early, late)]
        assert shortfall[1] < min(0.4 * shortfall[0], 0.003)
