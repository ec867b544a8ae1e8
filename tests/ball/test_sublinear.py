"""The sublinear ball: the same game as the generic one, estimates right in the mean, and the promise kept."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.game.primal_dual import THEOREM_CONSTANT
from maxmargin.kernels.functions import Linear
from maxmargin.problems import KernelMatrix, MaxMin, MinimumEnclosingBall
from maxmargin.solvers import CoreSet, PrimalDual, RunningMean, SublinearBall, solve

UNLIMITED = 2**62


def cloud(n=40, d=6, seed=0):
    """In the unit ball, with a row on its sphere: the scale is 1."""
    X = np.random.default_rng(seed).normal(size=(n, d)) + 0.3
    return X / np.linalg.norm(X, axis=1).max()


def far_points(n=50, d=8, seed=0):
    """A small cluster and two rows far from it: the mean of any few rows is the centre of nothing."""
    X = 0.05 * np.random.default_rng(seed).normal(size=(n, d))
    X[7, 0] += 1.0
    X[n - 5, 1] += 1.0
    return X


def as_max_min(X, columns):
    """c_i(x) = 1 - |x - a_i|^2 / 2, for the generic algorithm."""
    sq = (X**2).sum(axis=1)

    def sample(x, rng):
        squares = np.cumsum(x**2)
        total = squares[-1]
        z = np.zeros(len(X))
        if total > 0:
            for u in rng.random(columns):
                j = np.searchsorted(squares, u * total, side="right")
                z += X[:, j] * total / (x[j] * columns)
        return 1 - (sq + total) / 2 + z

    return MaxMin(
        len(X),
        sample=sample,
        gradient=lambda i, x: X[i] - x,
        values=lambda x: 1 - ((X - x) ** 2).sum(axis=1) / 2,
        bound=lambda p: 1 - (p @ sq - (X.T @ p) @ (X.T @ p)) / 2,
    )


@pytest.mark.parametrize("columns", [1, 3])
def test_it_is_the_generic_algorithm(columns):
    """With a row drawn each round: the same x, weights and answer from the same draws, and the same T."""
    X, eps, constant = cloud(), 0.4, 1.0
    problem, game = MinimumEnclosingBall(X), as_max_min(X, columns)
    fast = SublinearBall(eps=eps, constant=constant, columns=columns, update=1.0, centred=False)
    generic = PrimalDual(RunningMean(X.shape[1]), eps=eps / 2, constant=constant)
    assert fast.iterations(problem) == generic.iterations(game)
    one, other = (s.start(p, np.random.default_rng(5)) for s, p in ((fast, problem), (generic, game)))
    for _ in range(200):
        fast.step(problem, one, 1, UNLIMITED)
        generic.step(game, other, 1, UNLIMITED)
        np.testing.assert_allclose(one.run.x, other.run.player.x, atol=1e-12)
        np.testing.assert_allclose(one.run.weights.log_w, other.run.weights.log_w, atol=1e-9)
    np.testing.assert_allclose(fast.solution(problem, one).w, generic.solution(game, other).w, atol=1e-12)


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=50, deadline=None)
def test_estimates_are_right_in_the_mean_and_vary_by_at_most_one(seed, centred):
    """Over all columns, by their probabilities: a sum, nothing drawn."""
    X = cloud(seed=seed)
    problem, solver = MinimumEnclosingBall(X), SublinearBall(centred=centred, update=1.0)
    state = solver.start(problem, np.random.default_rng(seed))
    solver.step(problem, state, 5, UNLIMITED)
    run = state.run
    own = (X - state.origin) / state.scale
    assert np.linalg.norm(own, axis=1).max() == pytest.approx(1)
    np.testing.assert_allclose(state.sq_norms, (own**2).sum(axis=1), atol=1e-12)
    wanted = 1 - ((own - run.x) ** 2).sum(axis=1) / 2
    assert np.abs(wanted).max() <= 1
    mean, square = np.zeros(len(X)), np.zeros(len(X))
    for j, share in enumerate(run.x**2 / run.sq_x):
        v = 1 - 0.5 * (state.sq_norms + run.sq_x)
        state.rng = Fixed((run.cumulative_squares[j] - run.x[j] ** 2 / 2) / run.sq_x)
        solver._add_products(problem, state, run.cumulative_squares, v)
        mean += share * v
        square += share * (v - wanted) ** 2
    np.testing.assert_allclose(mean, wanted, atol=1e-9)
    assert square.max() <= 1 + 1e-9


class Fixed:
    """Draws what it was told."""

    def __init__(self, value):
        self.value = value

    def random(self, count):
        return np.full(count, self.value)


@pytest.mark.parametrize("solver", [SublinearBall(), SublinearBall(eps=0.3, constant=1.0, columns=2)])
def test_what_is_kept_up_is_right(solver):
    X = cloud()
    problem = MinimumEnclosingBall(X)
    state, seen = solver.start(problem, np.random.default_rng(1)), []
    for _ in range(150):
        seen.append(state.run.x.copy())
        solver.step(problem, state, 1, UNLIMITED)
        run, answer = state.run, solver.solution(problem, state)
        assert run.sq_x == pytest.approx(run.x @ run.x)
        mean = state.origin + state.scale * np.mean(seen, axis=0)
        np.testing.assert_allclose(answer.w, mean, atol=1e-12)
        if answer.p is not None:
            assert answer.p.sum() == pytest.approx(1)
            np.testing.assert_allclose(answer.v, X.T @ answer.p, atol=1e-12)
    assert run.draws > 5
    assert run.total_weight == pytest.approx(run.row_weights.sum())


@pytest.mark.parametrize("centred", [True, False])
def test_the_error_is_below_eps(centred):
    """Each run may fail with probability 1/2: fewer than 4 good ones of 20 have a chance of 0.13 %."""
    X = far_points()
    problem, eps = MinimumEnclosingBall(X), 0.2
    least = solve(MinimumEnclosingBall(X), CoreSet(), tol=1e-8).certificate.primal
    scale = np.sqrt(problem.sq_norms().max())
    trivial = problem.evaluate(X.mean(axis=0)).value
    assert trivial**2 > least**2 + eps * scale**2
    good = 0
    for seed in range(20):
        result = solve(problem, SublinearBall(eps=eps, constant=1.5, centred=centred), random_state=seed)
        assert result.status == "finished"
        assert result.certificate.dual <= least * (1 + 1e-6) <= result.certificate.primal * (1 + 2e-6)
        good += result.certificate.primal**2 <= least**2 + eps * scale**2
    assert good >= 4


def test_several_runs_are_made_to_be_confident():
    X = far_points()
    problem, solver = MinimumEnclosingBall(X), SublinearBall(eps=0.5, constant=1.0, confidence=0.9)
    T = solver.rounds(problem)
    assert solver.runs == 4
    result = solve(problem, solver, random_state=0)
    assert (result.status, result.n_iter) == ("finished", 4 * T)
    assert result.reads["choosing"] == 4 * X.size
    assert result.certificate.dual > 0
    one = solve(MinimumEnclosingBall(X), SublinearBall(eps=0.5, constant=1.0), random_state=0)
    assert result.certificate.primal <= one.certificate.primal


def test_what_is_promised():
    X = cloud(5, 40)
    proper, hopeful = SublinearBall(eps=0.9, confidence=0.7), SublinearBall(eps=0.9, constant=1.0, update=1.0)
    always = SublinearBall(eps=0.9, confidence=0.7, update=1.0)
    assert always.promise(MinimumEnclosingBall(X)) == {"eps": 0.9, "failure_probability": 0.25}
    assert hopeful.promise(MinimumEnclosingBall(X)) == SublinearBall().promise(MinimumEnclosingBall(X)) == {}
    assert proper.promise(MinimumEnclosingBall(X)) == {}  # most rounds draw no row
    n, T = 6, proper.rounds(MinimumEnclosingBall(X))  # fewer rows count as 6
    regret, alpha = 2 * (1 + math.log(T)), 2 * (1 + math.log(T)) / math.sqrt(T * math.log(n))
    assert alpha < 1
    assert THEOREM_CONSTANT * math.sqrt(math.log(n) / T) + regret / (alpha * T) <= 0.45
    assert pytest.approx((2 * (THEOREM_CONSTANT + 1) / 0.9) ** 2 * math.log(n), rel=1e-3) == T


@pytest.mark.parametrize("columns", [1, 4])
def test_what_is_read(columns):
    n, d, rounds = 30, 300, 500
    X = cloud(n, d)
    result = solve(MinimumEnclosingBall(X), SublinearBall(columns=columns), max_iter=rounds, random_state=0)
    rows = result.state.run.draws
    assert result.reads["scale"] == 2 * X.size + 16 * d
    assert result.reads["learning"] <= columns * n * (rounds - 1) + rows * d  # none while x is 0
    assert result.reads["learning"] >= columns * n * (rounds - 20) + rows * d
    assert rows < rounds
    told = solve(
        MinimumEnclosingBall(X, sq_norms=(X**2).sum(axis=1)),
        SublinearBall(centred=False),
        max_iter=rounds,
        random_state=0,
    )
    assert "scale" not in told.reads


@given(st.integers(1, 20_000))
@settings(max_examples=20, deadline=None)
def test_a_budget_is_kept(budget):
    problem = MinimumEnclosingBall(cloud())
    if budget < 2 * 40 + 6:  # two columns and a row
        with pytest.raises(ValueError, match="too small for one iteration"):
            solve(problem, SublinearBall(columns=2), budget=budget, random_state=0)
    else:
        assert solve(problem, SublinearBall(columns=2), budget=budget, random_state=0).status == "budget"
    assert problem.ledger.entries_read <= budget


def test_the_same_seed_gives_the_same_bits():
    X, solver = cloud(), SublinearBall()
    one, other = (solve(MinimumEnclosingBall(X), solver, max_iter=300, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.solution.w, other.solution.w)
    half = solve(MinimumEnclosingBall(X), solver, max_iter=150, random_state=3)
    both = solve(MinimumEnclosingBall(X), solver, max_iter=300, warm=half)
    np.testing.assert_array_equal(both.solution.w, one.solution.w)
    assert (solve(MinimumEnclosingBall(X), solver, max_iter=300, random_state=4).solution.w != one.solution.w).any()


def test_every_storage_gives_the_same(storages):
    X = cloud()
    X[X < 0] = 0
    wanted = solve(MinimumEnclosingBall(X), SublinearBall(), max_iter=200, random_state=0).solution.w
    for name, stored in storages(X).items():
        found = solve(MinimumEnclosingBall(stored), SublinearBall(), max_iter=200, random_state=0).solution.w
        np.testing.assert_allclose(found, wanted, atol=1e-9, err_msg=name)


def test_the_ball_moves_with_the_rows():
    X = cloud()
    before = solve(MinimumEnclosingBall(X), SublinearBall(), max_iter=300, random_state=0)
    for factor, shift in ((1.0, 50.0), (1e-5, 0.0), (1e5, -3.0)):
        after = solve(MinimumEnclosingBall(factor * X + shift), SublinearBall(), max_iter=300, random_state=0)
        assert after.certificate.primal == pytest.approx(factor * before.certificate.primal, rel=1e-6)


@pytest.mark.parametrize("X", [np.ones((1, 1)), np.ones((5, 2)), np.zeros((3, 2)), np.array([[-1.0], [2.0], [0.0]])])
def test_small_cases(X):
    result = solve(MinimumEnclosingBall(X), SublinearBall(), max_iter=2000, random_state=0)
    wanted = np.ptp(X, axis=0).max() / 2
    assert result.certificate.primal == pytest.approx(wanted, abs=0.2)
    assert result.certificate.dual <= wanted + 1e-9


def test_bad_input():
    for eps in (0.0, 1.0, -0.5, np.nan):
        with pytest.raises(ValueError, match="eps must be between 0 and 1"):
            SublinearBall(eps=eps)
    for wrong in ({"confidence": 1.0}, {"constant": 0.0}, {"columns": 0}, {"update": 0.0}, {"update": 1.5}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            SublinearBall(**wrong)
    X = cloud()
    with pytest.raises(ValueError, match=r"encloses all rows, nu = 0; got nu=0\.5"):
        solve(MinimumEnclosingBall(X, nu=0.5), SublinearBall())
    with pytest.raises(TypeError, match=r"needs rows of features, a Matrix; got a KernelMatrix\. .*: core_set"):
        solve(MinimumEnclosingBall(KernelMatrix(X, Linear())), SublinearBall())
    X[2, 1] = np.inf
    with pytest.raises(ValueError, match=r"infinity \(inf\) at row 2, column 1"):
        solve(MinimumEnclosingBall(sp.csr_array(X)), SublinearBall())


@given(st.integers(0, 10**6), st.integers(1, 200), st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_the_running_mean_keeps_its_regret(seed, T, d):
    """Against any points of the unit ball: at random, or on the other side of x whenever it moves."""
    rng = np.random.default_rng(seed)
    player = RunningMean(d)
    state, points, loss = player.start(T), [], 0.0
    for _ in range(T):
        a = rng.normal(size=d) if rng.random() < 0.5 or not state.x.any() else -state.x
        a /= max(1.0, np.linalg.norm(a)) if rng.random() < 0.5 else np.linalg.norm(a)
        points.append(a)
        loss += 0.5 * (a - state.x) @ (a - state.x)
        player.update(state, a - state.x)
    mean = np.mean(points, axis=0)
    np.testing.assert_allclose(state.x, mean, atol=1e-12)
    assert loss - 0.5 * ((np.array(points) - mean) ** 2).sum() <= player.regret(T)
