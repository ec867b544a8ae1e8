"""Stop rules, as one object or one by one."""

import numpy as np
import pytest

from maxmargin.problems import MinimumEnclosingBall, RegularizedSVM
from maxmargin.solvers import CoreSet, Sdca, StopRules, solve


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60) < 0.5, -1.0, 1.0)
    return RegularizedSVM(rng.normal(size=(60, 4)) + y[:, None], y)


def test_one_object_is_the_same_as_its_rules_one_by_one(problem):
    whole = solve(problem, Sdca(), StopRules(max_iter=90, tol=1e-9), random_state=0)
    apart = solve(problem, Sdca(), max_iter=90, tol=1e-9, random_state=0)
    assert (whole.status, whole.n_iter) == (apart.status, apart.n_iter) == ("max_iter", 90)
    np.testing.assert_array_equal(whole.solution.w, apart.solution.w)


def test_not_both(problem):
    with pytest.raises(TypeError, match="as one object or one by one, not both"):
        solve(problem, Sdca(), StopRules(max_iter=90), tol=1e-3)


@pytest.mark.parametrize("name", ["max_iter", "max_time", "budget"])
@pytest.mark.parametrize("value", [0, -1])
def test_limits_are_positive(name, value):
    with pytest.raises(ValueError, match=f"{name} must be positive or None; got {value}"):
        StopRules(**{name: value})


def test_a_solver_that_has_settled_reports_no_iterations_that_it_did_not_make():
    X = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.1]])
    result = solve(MinimumEnclosingBall(X), CoreSet(), max_iter=10_000, tol=0.0)
    assert result.status == "finished"
    assert result.n_iter < 100
    assert result.n_iter == result.state.t
