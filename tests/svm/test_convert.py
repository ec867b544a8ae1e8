import itertools
import math

import numpy as np
import pytest

from maxmargin.problems import SlackSVM, certify_C, equivalent_C, equivalent_slack

biases = pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
weightings = pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])


def weights_of(weighted, n):
    return np.random.default_rng(5).choice([0.5, 1.0, 3.0], size=n) if weighted else np.ones(n)


@biases
@weightings
@pytest.mark.parametrize("C", [0.03, 1.0])
def test_from_C_to_slack(exact, blobs, bias, weighted, C):
    """At the optimum for C, the slack found has the same optimum."""
    X, y = blobs(60, 3, 2.0)
    s = weights_of(weighted, 60)
    best = exact.C_form(X, y, C, bias, s)
    norm = np.linalg.norm(best.w)
    problem = SlackSVM(X, y, 0.0, bias=bias, sample_weight=s)
    slack = equivalent_slack(problem, problem.evaluate(best.w / norm), C)
    # Lemma 2.1, in the units of the scaled data.
    assert slack == pytest.approx(s @ best.hinge / s.sum() / (norm * problem.scale), rel=1e-3)
    same = exact.slack_form(X / problem.scale, y, slack, bias, s)
    np.testing.assert_allclose(same.w, best.w / norm, atol=1e-3)
    assert 1 / (same.value * problem.scale) == pytest.approx(norm, rel=1e-3)


@biases
@weightings
@pytest.mark.parametrize("slack", [0.2, 0.3])
def test_from_slack_to_C(exact, blobs, bias, weighted, slack):
    """At the optimum for a slack, the C found has the same optimum."""
    X, y = blobs(60, 3, 3.0)
    s = weights_of(weighted, 60)
    problem = SlackSVM(X, y, slack, bias=bias, sample_weight=s)
    best = exact.slack_form(X / problem.scale, y, slack, bias, s)
    assert best.value > 0
    at = problem.evaluate(best.w)
    C = equivalent_C(problem, at, best.p)
    same = exact.C_form(X, y, C, bias, s)
    np.testing.assert_allclose(same.w / np.linalg.norm(same.w), best.w, atol=1e-4)
    assert equivalent_slack(problem, at, C) == pytest.approx(slack, rel=1e-3)
    # Without p, of the few samples at the margin all count or none.
    assert equivalent_C(problem, at) == pytest.approx(C, rel=0.3)


@biases
@pytest.mark.parametrize("slack", [0.1, 0.15, 0.2])
def test_there_and_back_along_any_direction(blobs, bias, slack):
    X, y = blobs(60, 3, 4.0)
    problem = SlackSVM(X, y, slack, bias=bias)
    at = problem.evaluate(problem.centroid())
    C = equivalent_C(problem, at)
    assert 0 < C < math.inf
    assert equivalent_slack(problem, at, C) == pytest.approx(slack, rel=1e-3)


def test_units_of_the_data(blobs):
    X, y = blobs(60, 3, 2.0)
    found = []
    for times in (1.0, 10.0):
        problem = SlackSVM(times * X, y, 0.1)
        found.append(equivalent_C(problem, problem.evaluate(problem.centroid())))
    assert found[0] == pytest.approx(100 * found[1])


def test_no_C_without_a_positive_margin(blobs):
    X, y = blobs(60, 3, 2.0)
    problem = SlackSVM(X, y, 0.0)
    assert equivalent_C(problem, problem.evaluate(-problem.centroid())) == math.inf


def test_a_larger_C_allows_less_slack(blobs):
    X, y = blobs(60, 3, 2.0)
    problem = SlackSVM(X, y, 0.0)
    at = problem.evaluate(problem.centroid())
    slacks = [equivalent_slack(problem, at, C) for C in (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)]
    assert all(a >= b * (1 - 1e-3) for a, b in itertools.pairwise(slacks))


@biases
@weightings
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_certificate_for_C_brackets_the_best_objective(exact, blobs, bias, weighted, C):
    """Whatever the direction and the dual weights are, the best objective lies between the two values."""
    X, y = blobs(60, 3, 2.0)
    s = weights_of(weighted, 60)
    best = exact.C_form(X, y, C, bias, s)
    objective = 0.5 * best.w @ best.w + C * s @ best.hinge
    problem = SlackSVM(X, y, 0.1, bias=bias, sample_weight=s)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        w = best.w / np.linalg.norm(best.w) + (seed / 5) * rng.normal(size=3)
        at = problem.evaluate(w / np.linalg.norm(w))
        fitting = problem.with_slack(equivalent_slack(problem, at, C))
        at = fitting.evaluate_responses(at.w, at.responses)
        certificate = certify_C(fitting, at, rng.random(60), C)
        assert certificate.form == "C"
        assert certificate.primal >= objective * (1 - 1e-5)
        assert certificate.dual <= objective * (1 + 1e-5)
        # The best direction has the best objective.
        assert seed > 0 or certificate.primal == pytest.approx(objective, rel=1e-3)
