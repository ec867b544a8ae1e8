"""The slack form, solved exactly by solvers of the form with C."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from slack_cases import best_value

from maxmargin.engine.stop_rules import StopRules
from maxmargin.kernels.functions import Rbf
from maxmargin.problems import KernelMatrix, SlackSVM
from maxmargin.solvers import Decomposition, Newton, Sdca, solve_for_slack
from maxmargin.svm.search_for_C import LEAST_MARGIN


def overlapping(seed, n=120, d=6, shift=0.7):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, -1.0, 1.0)
    return rng.normal(size=(n, d)) + shift * y[:, None], y


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("slack", [0.003, 0.03, 0.1, 0.3])
@pytest.mark.parametrize("solver", [Newton(), Sdca()])
def test_the_value_is_that_of_a_convex_solver(solver, slack, bias):
    X, y = overlapping(0)
    problem, result = solve_for_slack(SlackSVM(X, y, slack, bias=bias), solver, random_state=0)
    best = best_value(X, y, slack, bias=bias)
    assert result.certificate.relative_gap <= 1e-3
    if problem.slack == slack:
        assert best * (1 - 1.1e-3) <= result.certificate.primal <= best * (1 + 1e-7)
        assert best <= result.certificate.dual * (1 + 1e-7)
    else:  # too little slack for any model: the value is in proportion to the slack
        assert result.certificate.primal * slack / problem.slack == pytest.approx(best, rel=3e-3)


def test_weights_are_repeated_rows():
    X, y = overlapping(1, n=60)
    times = np.random.default_rng(0).integers(1, 4, size=y.size)
    _, weighted = solve_for_slack(SlackSVM(X, y, 0.05, sample_weight=times.astype(float)), Newton(), random_state=0)
    _, repeated = solve_for_slack(
        SlackSVM(np.repeat(X, times, axis=0), np.repeat(y, times), 0.05), Newton(), random_state=0
    )
    assert weighted.certificate.relative_gap <= 1e-3 >= repeated.certificate.relative_gap
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=1e-3)


@pytest.mark.parametrize("slack", [0.0, 0.001, 0.01, 0.1, 0.3])
def test_kernels(slack):
    X, y = overlapping(2, n=200)
    K = KernelMatrix(X, Rbf(gamma=0.2))
    problem, result = solve_for_slack(SlackSVM(K, y, slack), Decomposition(), random_state=0)
    assert problem.slack == slack
    assert result.certificate.relative_gap <= 1e-3
    assert result.status == "tol"


def test_sparse_rows_give_the_same_value():
    X, y = overlapping(3)
    X[np.abs(X) < 0.5] = 0
    values = [
        solve_for_slack(SlackSVM(A, y, 0.02), Newton(), random_state=0)[1].certificate.primal for A in (X, csr_array(X))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-3)


def test_no_slack_on_separable_data_is_the_hard_margin():
    X, y = overlapping(4, shift=3.0)
    _, result = solve_for_slack(SlackSVM(X, y, 0.0), Newton(), random_state=0)
    assert result.certificate.relative_gap <= 1e-3
    assert result.certificate.primal == pytest.approx(best_value(X, y, 0.0, bias=True), rel=1.1e-3)


def test_no_slack_on_overlapping_classes_gives_the_least_slack_and_says_so():
    X, y = overlapping(5, shift=0.2)
    problem, result = solve_for_slack(SlackSVM(X, y, 0.0), Newton(), random_state=0)
    assert problem.slack > 0
    assert result.certificate.relative_gap <= 1e-3
    assert np.linalg.norm(result.solution.w) == pytest.approx(1.0, rel=1e-2)
    # A bound proves that nothing separates the classes.
    assert SlackSVM(X, y, 0.0).bound(result.solution.p) < 10 * LEAST_MARGIN


def test_limits_hold_for_all_solves_together():
    X, y = overlapping(6)
    _, result = solve_for_slack(SlackSVM(X, y, 0.001), Newton(), random_state=0)
    few = result.n_iter - 1
    _, short = solve_for_slack(SlackSVM(X, y, 0.001), Newton(), StopRules(max_iter=few), random_state=0)
    assert short.n_iter <= few
    assert short.status == "max_iter"
    assert short.certificate


def test_the_trace_has_values_of_the_slack_form():
    X, y = overlapping(7)
    _, result = solve_for_slack(SlackSVM(X, y, 0.05), Newton(), random_state=0)
    measured = [row for row in result.trace if not math.isnan(row.gap)]
    assert measured
    for row in measured:
        assert row.primal <= row.dual
        assert row.primal <= result.certificate.dual
        assert row.dual >= result.certificate.primal
    assert [row.iteration for row in result.trace] == sorted(row.iteration for row in result.trace)


def test_a_result_can_be_gone_on_from_though_an_earlier_solve_was_the_best():
    """The state is that of the last solve. With seed 69 the best one comes before it."""
    rng = np.random.default_rng(69)
    y = np.where(rng.random(60) < 0.5, -1.0, 1.0)
    X = rng.normal(size=(60, 4)) + 0.5 * y[:, None]
    _, first = solve_for_slack(SlackSVM(X, y, slack=0.3), Newton(), random_state=0)
    assert first.best_iter < first.n_iter
    _, second = solve_for_slack(SlackSVM(X, y, slack=0.35), Newton(), random_state=0, warm=first.resume)
    assert second.certificate.relative_gap <= 1e-3
