"""Algorithm 2 of Irpan and Kwan (2015) against its theorem, against its fast twin, and in the common loop."""

import math
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from maxmargin import SlackSVM, solve
from maxmargin.core import l1_sample, l2_sample
from maxmargin.engine.solver import Solver, Step
from maxmargin.game.sets import Ball, Simplex
from maxmargin.problems import MaxMin, Solution
from maxmargin.solvers import (
    OTHER_SOLVERS,
    BatchPerceptron,
    ExponentiatedGradient,
    LazyGradient,
    Player,
    PrimalDual,
    SublinearPerceptron,
)

UNLIMITED = 2**62


def matrix_game(seed=0, n=10, d=8):
    """Each chooses a row, or a column, of a matrix of payments between -1 and 1."""
    A = np.random.default_rng(seed).uniform(-1, 1, size=(n, d))
    problem = MaxMin(
        n,
        sample=lambda x, rng: A[:, l1_sample(x, rng.random())],
        gradient=lambda i, x: A[i],
        values=lambda x: A @ x,
        bound=lambda p: Simplex(d).support(A.T @ p),
        reads=(n, d, n * d),
    )
    best = -linprog(
        np.r_[np.zeros(d), -1.0],
        A_ub=np.column_stack([-A, np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=[np.r_[np.ones(d), 0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * d + [(None, None)],
    ).fun
    return problem, ExponentiatedGradient(d), best


def perceptron_of(A):
    """The largest margin of the rows of A: one column estimates all products with x."""
    n, d = A.shape

    def sample(x, rng):
        if not x.any():  # nothing is drawn, as in the sublinear perceptron
            return np.zeros(n)
        j, factor = l2_sample(x, rng.random())
        return A[:, j] * factor

    return MaxMin(
        n,
        sample=sample,
        gradient=lambda i, x: A[i],
        values=lambda x: A @ x,
        bound=lambda p: Ball(d).support(A.T @ p),
        reads=(n, d, n * d),
    )


def separable(seed=0, n=12, d=6):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) < n // 2, -1.0, 1.0)
    X = rng.normal(size=(n, d)) + 1.5 * y[:, None]
    return X / np.linalg.norm(X, axis=1).max(), y


def perceptron():
    X, y = separable()
    return perceptron_of(y[:, None] * X), LazyGradient(Ball(X.shape[1])), largest_margin()


@cache
def largest_margin():
    X, y = separable()
    return solve(SlackSVM(X, y, 0.0, bias=False, scale=1.0), BatchPerceptron(), max_iter=20_000).certificate.dual


PROBLEMS = {"matrix game": matrix_game, "perceptron": perceptron}


@pytest.fixture(params=PROBLEMS)
def told(request):
    return PROBLEMS[request.param]()


# The theorem


def test_eps_is_reached_with_the_promised_probability(told):
    """Each of 16 seeds has a chance of 1/2 at least: fewer than 3 that get there have one of 0.21 % at most."""
    problem, player, best = told
    solver = PrimalDual(player, eps=0.5)
    results = [solve(problem, solver, random_state=seed) for seed in range(16)]
    for result in results:
        assert result.status == "finished"
        assert result.promise == {"eps": 0.5, "failure_probability": 0.5}
        assert result.n_iter == solver.rounds(problem)
        assert result.certificate.primal <= best + 1e-6 <= result.certificate.dual + 2e-6
    assert sum(result.certificate.primal >= best - 0.5 for result in results) >= 3


def test_the_mean_comes_near_the_best_value(told):
    """With far fewer rounds than the theorem asks for. 5 seeds, and an error five times as small as what is usual."""
    problem, player, best = told
    for seed in range(5):
        result = solve(problem, PrimalDual(player, eps=0.1, constant=1.0), random_state=seed)
        assert result.certificate.primal >= best - 0.1
        assert result.certificate.dual <= best + 0.1


@settings(max_examples=50, deadline=None)
@given(eps=st.floats(0.01, 0.99), constant=st.floats(0.5, 30), n=st.integers(1, 10**6), radius=st.floats(0.01, 10))
def test_T_is_the_least_at_which_both_regrets_are_small(eps, constant, n, radius):
    problem = MaxMin(n, sample=None, gradient=None, values=None)
    player = LazyGradient(Ball(2, radius=radius))
    solver = PrimalDual(player, eps=eps, constant=constant)
    T = solver.rounds(problem)

    def left(T):
        return constant * math.sqrt(math.log(max(n, 6)) / T) + player.regret(T) / T

    assert left(T) <= eps
    assert T == 1 or left(T - 1) > eps
    assert solver.iterations(problem) == T


def test_the_constant_of_the_theorem():
    """What the weights cost, by the lemmas with their best constants: see docs/primal_dual.md.

    With a in Bernstein's inequality the chance is exp(-a^2 log n / 2(1 + a V eta / 3)) for deviations by a eta T.
    """

    def deviation(V):
        return next(a for a in np.arange(0, 10, 1e-4) if a**2 / (2 * (1 + a * V / 3)) >= 2)

    eta = 1 / 23  # eps / 23 at most
    weights_regret, second_moment, clip = 1, 4 * 2, 2
    estimates = deviation(2) + clip  # |v - E v| <= 2 / eta, so that V eta = 2
    total = weights_regret + second_moment + 2 * estimates + deviation(2 * eta)
    assert total <= 23
    for n in range(1, 1000):  # n sums of estimates, one of p'v, one of the draws; 1/4 is Markov's
        assert (n + 2) * max(n, 6) ** -2.0 <= 1 / 4


# Repeats


@pytest.mark.parametrize(("confidence", "runs"), [(0.1, 1), (0.5, 1), (0.51, 2), (0.75, 2), (0.9, 4), (0.999, 10)])
def test_runs_for_a_confidence(confidence, runs):
    solver = PrimalDual(LazyGradient(Ball(2)), confidence=confidence)
    assert solver.runs == runs
    assert solver.promise(None)["failure_probability"] == 0.5**runs <= 1 - confidence or runs == 1


def test_the_best_of_several_runs_is_kept(told):
    problem, player, _ = told
    one, four = (PrimalDual(player, eps=0.9, constant=0.5, confidence=c) for c in (0.5, 0.9))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        alone = [solve(problem, one, random_state=rng) for _ in range(4)]
        best = solve(problem, four, random_state=seed)
        assert best.n_iter == 4 * one.rounds(problem)
        assert best.certificate.primal == max(result.certificate.primal for result in alone)
        assert best.certificate.dual == pytest.approx(min(result.certificate.dual for result in alone))
        assert best.promise == {}  # by that constant


def test_choosing_is_booked_apart():
    problem, player, _ = matrix_game()
    result = solve(problem, PrimalDual(player, eps=0.9, confidence=0.9), random_state=0)
    assert result.reads["learning"] == result.n_iter * (10 + 8)
    # Three runs end before the last; the value and the bound of each read all of the matrix.
    assert result.reads["choosing"] == 3 * 2 * 80


def test_a_finished_run_goes_on_for_a_higher_confidence():
    problem, player, _ = matrix_game()
    low, high = (PrimalDual(player, eps=0.9, constant=1.0, confidence=c) for c in (0.5, 0.9))
    first = solve(problem, low, random_state=0)
    both = solve(problem, high, warm=first)
    whole = solve(problem, high, random_state=0)
    np.testing.assert_array_equal(both.solution.w, whole.solution.w)
    assert both.n_iter == whole.n_iter == 4 * first.n_iter


# The twin


@pytest.mark.parametrize("kind", [np.array, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("seed", range(3))
def test_the_sublinear_perceptron_is_a_twin(kind, seed):
    """The compiled game draws as this does, with the rows of one label before those of the other: all is the same."""
    X, y = separable(seed, n=23, d=7)
    problem = SlackSVM(kind(X), y, 0.0, bias=False, scale=1.0)
    game = SublinearPerceptron(eps=0.5).start(problem, np.random.default_rng(seed))
    told, player, T = perceptron_of(y[:, None] * X), LazyGradient(Ball(7)), game.horizon
    same_T = (0.5 - player.regret(T) / T) / math.sqrt(math.log(23) / T) * (1 - 1e-12)
    solver = PrimalDual(player, eps=0.5, constant=same_T)
    assert solver.rounds(told) == T
    state = solver.start(told, np.random.default_rng(seed))
    for rounds in (1, 1, 5, 300, 1500):
        game.run(rounds, UNLIMITED)
        solver.step(told, state, rounds, UNLIMITED)
        # Log weights of the game are kept to multiples of 2^-40.
        np.testing.assert_allclose(state.run.weights.p, game.probabilities(), atol=1e-8)
        np.testing.assert_allclose(solver.solution(told, state).w, game.answer()[0], atol=1e-9)
    assert game.rng.random() == state.rng.random()  # as many were drawn


# The loop


def test_however_rounds_are_cut_into_chunks(told):
    problem, player, _ = told
    solver = PrimalDual(player, eps=0.9, constant=0.7, confidence=0.8)
    found = []
    for chunks in ([90], [1] * 90, [7, 1, 60, 22]):
        state = solver.start(problem, np.random.default_rng(0))
        for chunk in chunks:
            assert solver.step(problem, state, chunk, UNLIMITED).iterations == chunk
            solver.solution(problem, state)  # it changes nothing
        found.append((solver.solution(problem, state), state.run.sum_x, state.run.weights.p))
    for one in found[1:]:
        np.testing.assert_array_equal(one[0].w, found[0][0].w)
        np.testing.assert_array_equal(one[0].p, found[0][0].p)
        np.testing.assert_array_equal(one[1], found[0][1])
        np.testing.assert_array_equal(one[2], found[0][2])


def test_a_warm_start_goes_on(told):
    problem, player, _ = told
    solver = PrimalDual(player, eps=0.5)
    whole = solve(problem, solver, max_iter=100, random_state=0)
    first = solve(problem, solver, max_iter=30, random_state=0)
    both = solve(problem, solver, max_iter=100, warm=first)
    np.testing.assert_array_equal(both.solution.w, whole.solution.w)
    assert both.n_iter == 100
    assert not both.promise  # it was stopped before its end


@pytest.mark.parametrize("budget", [18, 100, 1000])
def test_the_budget_is_never_exceeded(budget):
    problem, player, _ = matrix_game()
    result = solve(problem, PrimalDual(player), budget=budget, random_state=0)
    assert result.status == "budget"
    assert result.reads["learning"] == 18 * result.n_iter <= budget
    assert result.n_iter == budget // 18
    assert result.trace[-1].entries_read == result.reads["learning"]


def test_a_budget_too_small_for_a_round():
    problem, player, _ = matrix_game()
    with pytest.raises(ValueError, match="a budget of 17 entries is too small for one iteration of 'primal_dual'"):
        solve(problem, PrimalDual(player), budget=17, random_state=0)


def test_certified_at_every_check(told):
    problem, player, best = told
    result = solve(problem, PrimalDual(player, eps=0.5), max_iter=500, certify="checks", random_state=0)
    trace = result.trace
    assert (trace.column("gap") >= 0).all()
    assert (trace.column("primal") <= best + 1e-6).all()
    assert (trace.column("dual") >= best - 1e-6).all()
    assert result.certificate.primal == trace.column("primal").max()


def test_tol_ends_it():
    problem, player, _ = perceptron()
    result = solve(problem, PrimalDual(player, eps=0.1, constant=2.0), tol=0.2, random_state=0)
    assert result.status == "tol"
    assert result.certificate.relative_gap <= 0.2


def test_without_a_bound():
    A = np.eye(3)
    problem = MaxMin(3, sample=lambda x, rng: A @ x, gradient=lambda i, x: A[i], values=lambda x: A @ x)
    result = solve(
        problem, PrimalDual(ExponentiatedGradient(3), eps=0.3, constant=1.0, confidence=0.8), tol=0.01, random_state=0
    )
    assert result.status == "finished"
    assert "has no `bound`" in str(result.certificate)
    assert result.certificate.primal == pytest.approx(1 / 3, abs=0.3)
    assert result.reads == {"learning": 0, "learning, dense count": 0, "choosing": 0, "solution": 0, "certificate": 0}


# Players of one's own


@dataclass(frozen=True)
class FollowTheLeader(Player):
    """Goes to the column that would have been the best so far: whole numbers, changed in place."""

    d: int
    share: float = 0.0  # of T rounds, which its regret is

    def start(self, T):
        return SimpleNamespace(x=np.eye(1, self.d, dtype=np.int64)[0], total=np.zeros(self.d))

    def update(self, state, g):
        state.total += g
        state.x[:] = 0
        state.x[np.argmax(state.total)] = 1

    def regret(self, T):
        return self.share * T


def test_a_player_may_change_its_point_in_place():
    problem, _, _ = matrix_game()
    seen, sample = [], problem._sample
    problem._sample = lambda x, rng: (seen.append(x.copy()), sample(x, rng))[1]
    result = solve(problem, PrimalDual(FollowTheLeader(8)), max_iter=50, random_state=0)
    np.testing.assert_allclose(result.solution.w, np.mean(seen, axis=0))
    assert len({tuple(x) for x in seen}) > 1


def test_a_regret_that_never_becomes_small():
    problem, _, _ = matrix_game()
    with pytest.raises(ValueError, match=r"the regret of FollowTheLeader.* in T rounds is never below eps"):
        solve(problem, PrimalDual(FollowTheLeader(8, share=1.0)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eps": 0.0}, "eps must be between 0 and 1"),
        ({"eps": 1.0}, "eps must be between 0 and 1"),
        ({"eps": math.nan}, "eps must be between 0 and 1"),
        ({"confidence": 0.0}, "confidence must be between 0 and 1, and cannot be 1"),
        ({"confidence": 1.0}, "confidence must be between 0 and 1, and cannot be 1"),
        ({"constant": 0.0}, "constant must be positive"),
    ],
)
def test_parameters_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        PrimalDual(LazyGradient(Ball(2)), **options)


def test_other_problems_are_refused():
    X, y = separable()
    with pytest.raises(TypeError, match="solver 'primal_dual' solves a MaxMin; got a SlackSVM"):
        solve(SlackSVM(X, y, 0.0), PrimalDual(LazyGradient(Ball(2))))
    assert OTHER_SOLVERS["primal_dual"] is PrimalDual


class TwoAnswers(Solver):
    """First a good x with poor weights, then a poor x with good weights."""

    solves = MaxMin
    requires = frozenset()

    def start(self, problem, rng, warm=None):
        return {"done": 0}

    def step(self, problem, state, iterations, budget):
        state["done"] += 1
        return Step(1)

    def solution(self, problem, state):
        good, poor = np.array([0.5, 0.5]), np.array([1.0, 0.0])
        return Solution(good, 0.0, poor) if state["done"] == 1 else Solution(poor, 0.0, good)


def test_an_answer_comes_with_the_weights_that_prove_its_bound():
    """Though another check found them."""
    problem = MaxMin(2, sample=None, gradient=None, values=lambda x: x, bound=lambda p: float(p.max()))
    result = solve(problem, TwoAnswers(), max_iter=2, certify="checks")
    assert (result.certificate.primal, result.certificate.dual) == (0.5, 0.5)
    np.testing.assert_array_equal(result.solution.w, [0.5, 0.5])
    np.testing.assert_array_equal(result.solution.p, [0.5, 0.5])
