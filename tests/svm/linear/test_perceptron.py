"""The perceptron and the batch perceptron against their plain forms and their theorems."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.problems import SlackSVM
from maxmargin.solvers import BatchPerceptron, Perceptron, solve

UNLIMITED = 2**62


def separable(seed, n=40, d=4, gap=0.1, offset=0.0):
    """Rows that some direction of norm 1 separates, none nearer than a part of the largest distance."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=d)
    u /= np.linalg.norm(u)
    X = rng.normal(size=(n, d))
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    y[:2] = [1.0, -1.0]
    X += (y * (gap + rng.random(n)) - X @ u + offset)[:, None] * u
    return X, y, u


def signed_rows(problem):
    """y_i x_i / scale, with the feature that a bias is the weight of."""
    X = problem.X.dot(np.eye(problem.X.shape[1])) / problem.scale
    return problem.y[:, None] * np.column_stack([X, np.full(len(X), float(problem.bias))])


# The online perceptron


@pytest.mark.parametrize("order", ["given", "permuted", "iid"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_line_by_line(order, bias, kind):
    X, y, _ = separable(0, gap=0.0)
    problem = SlackSVM(kind(X), y, 0.1, bias=bias, sample_weight=np.arange(40) % 4)
    rows = signed_rows(problem)
    for solver in (Perceptron(order=order), Perceptron(order=order, average=False)):
        state = solver.start(problem, np.random.default_rng(1))
        w, alpha, mistakes, iterates = np.zeros(5), np.zeros(40), 0, []
        for _ in range(120):
            solver.step(problem, state, 1, UNLIMITED)
            (i,) = state.last_rows
            if rows[i] @ w <= 0:
                w, mistakes = w + rows[i], mistakes + 1
                alpha[i] += 1
            iterates.append((w, alpha.copy()))
        assert state.mistakes == mistakes > 0
        last_w, last_b = state.last()
        np.testing.assert_allclose([*last_w, last_b], w, rtol=1e-9, atol=1e-12)
        assert state.norm2 == pytest.approx(w @ w)
        if solver.average:
            w, alpha = (np.mean([iterate[part] for iterate in iterates], axis=0) for part in range(2))
        answer = solver.solution(problem, state)
        size = np.linalg.norm(w[:-1])
        np.testing.assert_allclose([*answer.w, answer.b], w / size, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(answer.p, alpha, rtol=1e-9, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.02, 0.2]), st.sampled_from([0.0, 0.5]), st.booleans())
def test_the_mistake_bound(seed, gap, offset, permuted):
    """At most R^2 / gamma^2 mistakes, in any order and however many passes, and none after the last."""
    X, y, u = separable(seed, gap=gap, offset=offset)
    problem = SlackSVM(X, y, 0.0, bias=offset > 0)
    rows = signed_rows(problem)
    best = np.append(u, -offset / problem.scale)
    gamma = (rows @ best).min() / np.linalg.norm(best)
    assert gamma > 0
    bound = (rows**2).sum(axis=1).max() / gamma**2
    solver = Perceptron(passes=None, order="permuted" if permuted else "given", average=False)
    # A pass without a mistake is the last that can make one: there are as many passes as mistakes, and that one.
    state = solver.start(problem, np.random.default_rng(seed))
    before = -1
    while state.mistakes > before:
        before = state.mistakes
        solver.step(problem, state, 40, UNLIMITED)
        assert state.mistakes <= bound
    w, b = state.last()
    assert (rows @ [*w, b] > 0).all()


def test_passes():
    X, y, _ = separable(0)
    for solver, rules, wanted in (
        (Perceptron(), {}, (30, "max_iter")),
        (Perceptron(passes=3), {}, (90, "finished")),
        (Perceptron(passes=3), {"max_iter": 50}, (50, "max_iter")),
        (Perceptron(), {"max_iter": 1000}, (1000, "max_iter")),
    ):
        problem = SlackSVM(X, y, 0.1, sample_weight=np.r_[np.zeros(10), np.ones(30)])
        result = solve(problem, solver, **rules)
        assert (result.n_iter, result.status) == wanted
        assert result.reads["learning"] == 4 * result.n_iter
    with pytest.raises(ValueError, match="passes must be a whole number of at least 1, or None; got 0"):
        Perceptron(passes=0)


def test_the_average_is_steadier_than_the_last():
    """Labels with noise, 20 seeds: the mean of the w of all visits errs less than the last w, on new rows."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(3000) < 0.5, -1.0, 1.0)
    X = rng.normal(size=(3000, 20)) + 0.35 * y[:, None]
    problem = SlackSVM(X[:1000], y[:1000], 0.1)

    def error(solver, seed):
        answer = solve(problem, solver, certify=False, random_state=seed).solution
        return np.mean(y[1000:] * (X[1000:] @ answer.w / problem.scale + answer.b) <= 0)

    errors = {average: [error(Perceptron(average=average), seed) for seed in range(20)] for average in (True, False)}
    assert np.max(errors[True]) < np.mean(errors[False])


# The batch perceptron


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_batch_line_by_line(bias, kind):
    X, y, _ = separable(3, offset=0.3 * bias)
    problem = SlackSVM(kind(X), y, 0.0, bias=bias, sample_weight=np.r_[np.zeros(5), np.ones(35)])
    rows = signed_rows(problem)[:, :-1]
    used = problem.s > 0
    groups = [used & (y > 0), used & (y < 0)] if bias else [used]
    solver = BatchPerceptron()
    state = solver.start(problem, np.random.default_rng(0))
    w, iterates = np.zeros(4), []
    for t in range(1, 201):
        solver.step(problem, state, 1, UNLIMITED)
        c = rows @ w
        step = sum(rows[np.flatnonzero(group)[np.argmin(c[group])]] for group in groups) / len(groups)
        w = w + step / math.sqrt(t)
        w = w / max(1.0, np.linalg.norm(w))
        iterates.append(w)
        # What is kept up by steps
        now = state.now
        np.testing.assert_allclose(now.w, w, atol=1e-10)
        np.testing.assert_allclose(now.c, rows @ w, atol=1e-10)
        np.testing.assert_allclose(now.alpha @ rows, w, atol=1e-10)
    answer = solver.solution(problem, state)
    np.testing.assert_allclose(answer.w, np.mean(iterates, axis=0), atol=1e-10)
    np.testing.assert_allclose(answer.p @ rows, answer.w, atol=1e-10)
    at = problem.evaluate_responses(answer.w, problem.responses(answer.w))
    assert answer.b == pytest.approx(at.b, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_batch_convergence(exact, seed, bias, gap):
    """Super-gradient ascent: f of the mean iterate is within 3 / sqrt(T) of the best (the ball's diameter is 2)."""
    X, y, _ = separable(seed, gap=gap)
    problem = SlackSVM(X, y, 0.0, bias=bias)
    best = exact.slack_form(X / problem.scale, y, 0.0, bias).value
    for T in (10, 100, 1000):
        result = solve(problem, BatchPerceptron(), max_iter=T, certify=False)
        # w_1 = 0 is not in the mean, but one more is.
        value = problem.evaluate_responses(result.solution.w, problem.responses(result.solution.w)).value
        assert value >= best - 3 * math.sqrt(T + 1) / T


def test_batch_finds_the_largest_margin():
    X, y, _ = separable(0, gap=0.5, offset=1.0)
    result = solve(SlackSVM(X, y, 0.0), BatchPerceptron(), max_iter=20_000)
    assert result.certificate.relative_gap < 0.01
    assert not np.any(y * (X @ result.solution.w / np.linalg.norm(X, axis=1).max() + result.solution.b) <= 0)


def test_batch_is_for_separable_data():
    X, y, _ = separable(0)
    with pytest.raises(ValueError, match=r"needs slack 0, for separable data; got slack=0\.1"):
        solve(SlackSVM(X, y, 0.1), BatchPerceptron())
