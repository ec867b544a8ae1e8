"""A step on all free variables: the maximum where no bound is met, and else a gain within the bounds."""

import numpy as np
import pytest

from maxmargin.svm.kernel._free_step import maximise_from_zero


def problem(n, seed=0, rank=None):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, rank or n))
    return A @ A.T + 0.1 * np.eye(n), rng.normal(size=n)


@pytest.mark.parametrize("n", [1, 4, 7, 90])
@pytest.mark.parametrize("balanced", [False, True])
def test_without_bounds_it_is_the_maximum(n, balanced):
    Q, g = problem(n)
    far = np.full(n, 1e9)
    found = maximise_from_zero(Q, g, -far, far, balanced)
    system = np.block([[Q, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]]) if balanced else Q
    expected = np.linalg.solve(system, np.append(g, 0.0) if balanced else g)[:n]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("balanced", [False, True])
def test_variables_that_come_to_a_bound_stay_and_the_others_are_at_their_maximum(seed, balanced):
    Q, g = problem(40, seed)
    far = np.full(40, 1e9)
    largest = np.sort(abs(maximise_from_zero(Q, g, -far, far, balanced)))[-4:]
    lower, upper = np.full(40, -largest.mean()), np.full(40, largest.mean())
    found = maximise_from_zero(Q, g, lower, upper, balanced)
    at_bound = (found == lower) | (found == upper)
    assert 0 < at_bound.sum() < 10  # the path has not ended early
    assert ((found >= lower) & (found <= upper)).all()
    slope = (g - Q @ found)[~at_bound]
    np.testing.assert_allclose(slope, slope.mean() if balanced else 0.0, atol=1e-9)
    assert not balanced or abs(found.sum()) < 1e-12


@pytest.mark.parametrize("balanced", [False, True])
def test_where_most_variables_meet_a_bound_there_is_still_a_gain(balanced):
    Q, g = problem(60, 1, rank=3)
    found = maximise_from_zero(Q, g, np.full(60, -1e-3), np.full(60, 1e-3), balanced)
    assert abs(found).max() <= 1e-3
    assert g @ found - 0.5 * found @ Q @ found > 0


def test_a_matrix_that_is_not_positive_definite_is_refused():
    with pytest.raises(np.linalg.LinAlgError):
        maximise_from_zero(-np.eye(3), np.ones(3), -np.ones(3), np.ones(3), False)
