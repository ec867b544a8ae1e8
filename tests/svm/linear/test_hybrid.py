"""The hybrid method, its shrinking, and the stochastic method beside it."""

import math
from collections import deque

import numpy as np
import pytest
import scipy.sparse as sp
from covering import every_pair
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.problems import RegularizedSVM
from maxmargin.solvers import Hybrid, StochasticGradient, solve
from maxmargin.svm.linear.hybrid import ARMIJO, SHRINKING, Pair, _times_inverse_hessian

BIASES = {"no bias": {"bias": False}, "free": {}, "penalised": {"intercept_scaling": 2.0}}
biases = pytest.mark.parametrize("bias", BIASES)
shrinkings = pytest.mark.parametrize("shrinking", SHRINKING)
SOLVERS = [
    Hybrid(),
    Hybrid("sum"),
    Hybrid("none"),
    Hybrid(points=2, memory=2, growth=1.5),
    Hybrid(growth=math.inf),
    StochasticGradient(),
]
solvers = pytest.mark.parametrize("solver", SOLVERS, ids=str)


def clouds(n=120, d=6, distance=2.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    return rng.normal(size=(n, d)) + distance / 2 * y[:, None] / np.sqrt(d) + 0.3, y


def problem_for(bias="no bias", X=None, y=None, C=1.0, **options):
    if X is None:
        X, y = clouds()
    return RegularizedSVM(X, y, C, loss="squared_hinge", **BIASES[bias], **options)


def weights(n):
    return np.random.default_rng(5).choice([0.0, 0.5, 1.0, 3.0], size=n)


# The optimum


@biases
@shrinkings
@pytest.mark.parametrize("growth", [1.1, math.inf], ids=["hybrid", "deterministic"])
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_it_proves_that_it_found_the_optimum(bias, shrinking, growth, C):
    problem = problem_for(bias, C=C, sample_weight=weights(120))
    result = solve(problem, Hybrid(shrinking, growth), tol=1e-9, max_iter=2000, random_state=0)
    assert result.status == "tol"
    assert result.certificate.relative_gap <= 1e-9


@pytest.mark.parametrize("bias", ["no bias", "penalised"])
def test_it_is_the_optimum_of_liblinear(bias):
    X, y = clouds()
    peer = LinearSVC(C=0.5, dual=False, tol=1e-10, fit_intercept=bias != "no bias", intercept_scaling=2.0).fit(X, y)
    problem = problem_for(bias, X, y, C=0.5)
    result = solve(problem, Hybrid(), tol=1e-12, max_iter=2000, random_state=0)
    np.testing.assert_allclose(result.solution.w, peer.coef_[0], atol=1e-5)
    assert result.solution.b == pytest.approx(float(np.ravel(peer.intercept_)[0]) if problem.bias else 0.0, abs=1e-5)


@biases
def test_weight_two_is_the_row_twice(bias):
    X, y = clouds()
    s = np.where(np.arange(120) < 30, 2, np.where(np.arange(120) < 50, 0, 1))
    one = solve(problem_for(bias, X, y, sample_weight=s), Hybrid(), tol=1e-10, random_state=0)
    twice = problem_for(bias, np.repeat(X, s, axis=0), np.repeat(y, s))
    other = solve(twice, Hybrid(), tol=1e-10, random_state=0)
    assert one.certificate.primal == pytest.approx(other.certificate.primal)
    np.testing.assert_allclose(one.solution.w, other.solution.w, atol=1e-4)


@biases
def test_the_dual_point_and_its_sum_are_those_of_the_margins(bias):
    problem = problem_for(bias, sample_weight=weights(120))
    solver = Hybrid()
    state = solver.start(problem, np.random.default_rng(0))
    solver.step(problem, state, 70, UNLIMITED)
    found = solver.solution(problem, state)
    c = problem.y * (problem.X.dot(found.w) + found.b)
    np.testing.assert_allclose(found.p, 2 * problem.C * problem.s * np.maximum(0, 1 - c), atol=1e-9)
    np.testing.assert_allclose(found.v, problem.X.dot_transposed(found.p * problem.y), atol=1e-9)


def test_the_gap_is_known_without_a_look_at_the_data():
    problem, solver = problem_for(), Hybrid()
    state = solver.start(problem, np.random.default_rng(0))
    assert solver.estimated_gap(problem, state) == math.inf
    for iterations in (60, 5, 5):
        solver.step(problem, state, iterations, UNLIMITED)
        found = solver.solution(problem, state)
        before = problem.X.ledger.entries_read
        estimate = solver.estimated_gap(problem, state)
        assert problem.X.ledger.entries_read == before
        value = problem.evaluate(found.w).value
        assert estimate == pytest.approx((value - problem.bound(found.p)) / value, rel=1e-6, abs=1e-12)


# Shrinking


class Watched(Hybrid):
    """Looks at every sample that is skipped."""

    name = ""
    skipped = 0

    def _needed(self, problem, state, point):
        needed = super()._needed(problem, state, point)
        skipped = np.setdiff1d(state.batch, needed)
        d = problem.X.shape[1]
        feature = 1.0 if problem.free_bias else problem.bias_feature
        b = feature * point[d] if problem.bias else 0.0
        margins = np.array([problem.y[i] * problem.X.dot_row(i, point[:d]) for i in skipped])
        # To the last bit: neither a loss nor a pull.
        assert not problem.loss.value(margins + problem.y[skipped] * b).any()
        type(self).skipped += skipped.size
        return needed


@st.composite
def runs(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d = draw(st.integers(2, 40)), draw(st.integers(1, 8))
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    y[:2] = 1.0, -1.0
    X = rng.normal(size=(n, d)) + draw(st.sampled_from([0.0, 0.5, 3.0])) * y[:, None]
    X *= rng.choice([0.1, 1.0, 10.0], size=(n, 1)) * (rng.random((n, d)) < 0.9)
    s = rng.choice([0.0, 0.5, 1.0, 3.0], size=n)
    s[:2] = 1.0
    bias, C = draw(st.sampled_from(list(BIASES))), draw(st.sampled_from([1e-3, 0.1, 10.0, 1e4]))
    kind = draw(st.sampled_from([np.array, sp.csr_array]))
    return problem_for(bias, kind(X), y, C=C, sample_weight=s)


@settings(max_examples=150, deadline=None)
@given(
    runs(),
    st.sampled_from(["sum", "tight"]),
    st.sampled_from([1.1, 2.0, math.inf]),
    st.integers(1, 5),
    st.integers(0, 2**32),
)
def test_no_skipped_example_would_have_contributed(problem, shrinking, growth, points, seed):
    solver = Watched(shrinking, growth, points=points)
    state = solver.start(problem, np.random.default_rng(seed))
    solver.step(problem, state, 60, UNLIMITED)


@biases
@pytest.mark.parametrize("shrinking", ["sum", "tight"])
def test_examples_are_skipped_and_it_changes_nothing(bias, shrinking):
    Watched.skipped = 0
    X, y = clouds(n=300, distance=4.0)
    shrunk, whole = problem_for(bias, X, y), problem_for(bias, X, y)
    solver, plain = Watched(shrinking), Hybrid("none")
    states = solver.start(shrunk, np.random.default_rng(0)), plain.start(whole, np.random.default_rng(0))
    for _ in range(50):
        solver.step(shrunk, states[0], 1, UNLIMITED)
        plain.step(whole, states[1], 1, UNLIMITED)
        np.testing.assert_allclose(states[0].point, states[1].point, rtol=1e-6, atol=1e-9)
    assert states[0].evaluations + Watched.skipped == states[1].evaluations
    assert Watched.skipped > 0.3 * states[1].evaluations


def test_the_tight_bound_reads_less():
    X, y = clouds(n=1000, distance=4.0)
    evaluations = {}
    for shrinking in SHRINKING:
        result = solve(problem_for("free", X, y), Hybrid(shrinking), tol=1e-9, random_state=0)
        evaluations[shrinking] = result.state.evaluations
    assert evaluations["tight"] < evaluations["sum"] < 0.8 * evaluations["none"]


def test_a_bias_is_known_and_needs_no_bound():
    """With the same w a new b changes margins by an amount that is known: samples can be skipped on either side."""
    problem, solver = problem_for("free", np.array([[1.0], [-1.0]]), np.array([1.0, -1.0])), Hybrid(growth=math.inf)
    state = solver.start(problem, np.random.default_rng(0))
    solver.step(problem, state, 1, UNLIMITED)
    assert solver._needed(problem, state, np.array([0.0, 1e9])).tolist() == [1]
    assert solver._needed(problem, state, np.array([0.0, -1e9])).tolist() == [0]


# What is kept up step by step, from scratch


@biases
@shrinkings
def test_sums_over_the_batch(bias, shrinking):
    problem, solver = problem_for(bias, sample_weight=weights(120)), Hybrid(shrinking)
    state = solver.start(problem, np.random.default_rng(0))
    feature = {"no bias": [], "free": [1.0], "penalised": [2.0]}[bias]
    for _ in range(60):
        solver.step(problem, state, 1, UNLIMITED)
        found = solver.solution(problem, state)
        B = state.batch
        short = np.maximum(0, 1 - problem.y[B] * (problem.X.dot(found.w) + found.b)[B])
        pulls = np.zeros(120)
        pulls[B] = 2 * problem.s[B] * short
        assert state.at.loss == pytest.approx(problem.s[B] @ short**2, rel=1e-9)
        wanted = np.append(problem.X.dot_transposed(pulls * problem.y), np.multiply(feature, pulls @ problem.y))
        np.testing.assert_allclose(state.at.pull, wanted, atol=1e-9)
        np.testing.assert_allclose(found.p, state.factor * pulls, atol=1e-9)


def test_the_batch_grows_as_in_the_paper():
    problem, solver = problem_for(sample_weight=weights(120)), Hybrid("none")
    used = int(np.count_nonzero(problem.s))
    state, size, reads = solver.start(problem, np.random.default_rng(0)), 0, 0
    for _ in range(60):
        solver.step(problem, state, 1, UNLIMITED)
        larger = math.ceil(min(1.1 * size + 1, used))
        reads, size = reads + (larger - size), larger
        assert state.batch.size == size
        assert set(state.batch) == set(state.order[:size])
        assert (state.evaluations - reads) % size == 0  # the new ones once, and the batch once a try
        reads = state.evaluations
        assert problem.X.ledger.entries_read == 6 * state.evaluations
    assert size == used
    assert (problem.s[state.batch] > 0).all()


class Before(Hybrid):
    """Notes value and gradient of the batch before each step."""

    name = ""

    def _direction(self, problem, state):
        type(self).value = state.value(problem, state.point, state.at)
        type(self).gradient = state.gradient(problem, state.point, state.at)
        return super()._direction(problem, state)


def test_every_step_goes_down_enough():
    problem, solver = problem_for("free"), Before()
    state = solver.start(problem, np.random.default_rng(0))
    for _ in range(60):
        point, pairs = state.point, len(state.pairs)
        solver.step(problem, state, 1, UNLIMITED)
        fall = Before.value - state.value(problem, state.point, state.at)
        assert fall >= -ARMIJO * Before.gradient @ (state.point - point) - 1e-12 * Before.value
        assert len(state.pairs) <= min(pairs + 1, solver.memory)
        assert all(0 < pair.product == pair.s @ pair.y for pair in state.pairs)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 6))
def test_two_loops_are_the_product_with_the_inverse_hessian(seed, count):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(5, 5))
    hessian = root @ root.T + np.eye(5)
    pairs = deque(Pair(s, hessian @ s, s @ hessian @ s) for s in rng.normal(size=(count, 5)))
    inverse = np.eye(5) / 7.0
    if count:
        y = pairs[-1].y
        inverse = np.eye(5) * pairs[-1].product / (y @ y)
    for pair in pairs:  # the update of BFGS as it is written down
        left = np.eye(5) - np.outer(pair.s, pair.y) / pair.product
        inverse = left @ inverse @ left.T + np.outer(pair.s, pair.s) / pair.product
    gradient = rng.normal(size=5)
    np.testing.assert_allclose(_times_inverse_hessian(pairs, gradient, 7.0), inverse @ gradient, rtol=1e-6, atol=1e-9)


# The rules of the loop


@pytest.mark.parametrize(("solver", "bias", "budget"), every_pair(SOLVERS, BIASES, [6, 50, 1000, 6 * 130]), ids=str)
def test_budgets_cut_nothing(solver, bias, budget):
    """However little may be read at a time: nothing is read twice, nothing is lost, nothing goes over.

    Every pair of a solver, a bias and a budget.
    """
    whole, cut = problem_for(bias), problem_for(bias)
    one, other = (solver.start(problem, np.random.default_rng(0)) for problem in (whole, cut))
    assert solver.step(whole, one, 40, UNLIMITED).iterations == 40
    done, allowed = 0, 0
    while done < 40:
        allowed += budget
        done += solver.step(cut, other, 40 - done, allowed - cut.X.ledger.entries_read).iterations
        assert cut.X.ledger.entries_read <= allowed
        solver.solution(cut, other)  # looking changes nothing
    assert cut.X.ledger.entries_read == whole.X.ledger.entries_read == 6 * one.evaluations
    assert one.evaluations == other.evaluations
    np.testing.assert_array_equal(solver.solution(cut, other).w, solver.solution(whole, one).w)
    assert solver.solution(cut, other).b == solver.solution(whole, one).b


@solvers
def test_sparse_budgets_are_exact(solver):
    X, y = clouds()
    X[np.random.default_rng(1).random(X.shape) < 0.5] = 0
    problem = problem_for("free", sp.csr_array(X), y)
    result = solve(problem, solver, tol=0.0, budget=5000, max_iter=10**5, random_state=0)
    assert result.status == "budget"
    assert 5000 - 2 * X.size < result.reads["learning"] <= 5000


@solvers
@biases
def test_storage_does_not_matter(solver, bias, storages):
    X, y = clouds()
    wanted = solve(problem_for(bias, X, y), solver, max_iter=60, certify=False, random_state=0)
    for name, stored in storages(X).items():
        found = solve(problem_for(bias, stored, y), solver, max_iter=60, certify=False, random_state=0)
        np.testing.assert_allclose(found.solution.w, wanted.solution.w, rtol=1e-6, atol=1e-9, err_msg=name)
        assert found.solution.b == pytest.approx(wanted.solution.b, rel=1e-6, abs=1e-9), name
    single = solve(problem_for(bias, X.astype(np.float32), y), solver, max_iter=60, certify=False, random_state=0)
    np.testing.assert_allclose(single.solution.w, wanted.solution.w, atol=1e-4)


@solvers
def test_a_warm_start_goes_on_and_takes_another_C(solver):
    problem = problem_for("free")
    whole = solve(problem, solver, tol=0.0, max_iter=60, certify=False, random_state=0)
    first = solve(problem, solver, tol=0.0, max_iter=25, certify=False, random_state=0)
    both = solve(problem, solver, tol=0.0, max_iter=60, certify=False, warm=first)
    np.testing.assert_array_equal(both.solution.w, whole.solution.w)
    elsewhere = problem_for("free", C=0.01)  # the same data, read on another ledger
    before = problem.X.ledger.entries_read
    other = solve(elsewhere, solver, max_iter=5000, tol=1e-3, warm=both)
    assert other.certificate.relative_gap < 0.02
    assert elsewhere.X.ledger.entries_read > 0
    assert problem.X.ledger.entries_read == before


def test_a_warm_start_pays():
    X, y = clouds(n=1000)
    problem = problem_for("free", X, y)
    first = solve(problem, Hybrid(), tol=1e-6, random_state=0)
    before = first.state.evaluations
    again = solve(problem.with_C(1.1), Hybrid(), tol=1e-6, max_iter=1000, warm=first)
    assert again.status == "tol"
    assert again.state.evaluations - before < 0.5 * before


AWKWARD = {
    "all zero": (np.zeros((4, 3)), [1, -1, 1, -1]),
    "the same point": (np.array([[1.0], [1.0]]), [1, -1]),
    "zero rows": (np.array([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]), [1, 1, -1, -1]),
    "one against 30": (np.vstack([np.ones((30, 2)), [[5.0, -5.0]]]), [1] * 30 + [-1]),
    "tiny": (np.array([[1e-150, 0.0], [0.0, 1e-150]]), [1, -1]),
    "uneven": (np.array([[1e100, 0.0], [0.0, 1.0]]), [1, -1]),
    "n < d": (np.eye(3, 40), [1, -1, 1]),
}


@pytest.mark.parametrize(
    ("solver", "bias", "data", "storage"), every_pair(SOLVERS, BIASES, AWKWARD, ["dense", "sparse"]), ids=str
)
def test_awkward_data(solver, bias, data, storage):
    """Every pair of a solver, a bias, a kind of data and a storage."""
    X, y = AWKWARD[data]
    problem = problem_for(bias, X if storage == "dense" else sp.csr_array(X), np.array(y, dtype=float))
    result = solve(problem, solver, max_iter=100, certify="checks", random_state=0)
    assert np.isfinite([*result.solution.w, result.solution.b]).all()
    assert np.isfinite(result.trace.column("primal")).all()
    assert (result.trace.column("gap") >= 0).all()


@solvers
def test_rows_of_weight_zero_are_never_read(solver):
    X, y = clouds()
    s = np.where(np.arange(120) < 40, 0.0, 1.0)
    garbage = X.copy()
    garbage[:40] = 1e6
    one, other = (
        solve(problem_for("free", data, y, sample_weight=s), solver, max_iter=80, certify=False, random_state=0)
        for data in (X, garbage)
    )
    np.testing.assert_array_equal(one.solution.w, other.solution.w)
    assert one.solution.p is None or not one.solution.p[:40].any()


# Messages


@pytest.mark.parametrize("solver", [Hybrid(), StochasticGradient()], ids=["hybrid", "stochastic_gradient"])
def test_a_loss_with_a_kink_is_refused(solver):
    X, y = clouds()
    message = rf"solver '{solver.name}' needs a smooth loss.*got 'hinge'. Solvers that take this problem: .*newton"
    with pytest.raises(ValueError, match=message):
        solve(RegularizedSVM(X, y), solver)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shrinking": "all"}, "shrinking must be one of tight, sum, none; got 'all'"),
        ({"growth": 1.0}, r"growth must be above 1 .*got 1.0"),
        ({"growth": math.nan}, r"growth must be above 1 .*got nan"),
        ({"memory": 0}, "memory must be a whole number of at least 1; got 0"),
        ({"points": 2.5}, "points must be a whole number of at least 1; got 2.5"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(ValueError, match=message):
        Hybrid(**change)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_bad_rates(rate):
    with pytest.raises(ValueError, match=f"rate must be a positive number, such as 0.1; got {rate!r}"):
        StochasticGradient(rate)


# The stochastic method


@biases
@pytest.mark.parametrize("C", [1e-4, 1.0])
def test_stochastic_steps_are_those_that_are_written_down(bias, C):
    problem = problem_for(bias, C=C, sample_weight=weights(120))
    solver = StochasticGradient(rate=0.5)
    state = solver.start(problem, np.random.default_rng(0))
    X, y, s = clouds()[0], problem.y, problem.s
    feature = {"no bias": 0.0, "free": 1.0, "penalised": 2.0}[bias]
    penalised = np.append(np.ones(6), bias != "free")
    widened = np.column_stack([X, np.full(120, feature)])
    regularization = 1 / (C * s.sum())
    length = 0.5 / (s @ (2 * (widened**2).sum(axis=1)) / s.sum() + regularization)
    point = np.zeros(7)
    solver.step(problem, state, 1, UNLIMITED)
    drawn = [int(np.searchsorted(np.cumsum(s), s.sum() * (1 - np.random.default_rng(0).random())))]
    drawn += state.drawn.tolist()
    solver.step(problem, state, 299, UNLIMITED)
    for i in drawn[:300]:
        short = max(0.0, 1 - y[i] * (widened[i] @ point))
        point += length * (2 * short * y[i] * widened[i] - regularization * penalised * point)
    found = solver.solution(problem, state)
    np.testing.assert_allclose(found.w, point[:6], rtol=1e-8, atol=1e-12)
    assert found.b == pytest.approx(feature * point[6], rel=1e-8)
    assert not np.isin(drawn, np.flatnonzero(s == 0)).any()


def test_the_shorter_the_steps_the_nearer_in_the_end():
    """Over 10 seeds; the mean errors differ about tenfold."""
    problem = problem_for("free")
    best = solve(problem, Hybrid(), tol=1e-9, random_state=0).certificate.dual
    errors = []
    for rate in (0.5, 0.05):
        values = [solve(problem, StochasticGradient(rate), max_iter=20_000, random_state=k) for k in range(10)]
        errors.append(np.mean([result.certificate.primal for result in values]) / best - 1)
    assert 1e-4 < errors[1] < 0.3 * errors[0] < 0.3


def test_steps_that_run_away():
    problem = problem_for("no bias", np.ones((2, 1)), np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="the iterates diverged; give a rate below the 10 that was given"):
        solve(problem, StochasticGradient(rate=10.0), max_iter=10_000, random_state=0)
