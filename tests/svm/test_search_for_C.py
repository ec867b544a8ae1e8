"""The search for the C of a slack, on functions that are known."""

import numpy as np
import pytest

from maxmargin.svm.search_for_C import PathPoints, SearchForC


def search_among(slack_at, wanted, C, tol=1e-3, solves=12):
    """The search with solutions that are exact: `slack_at` is the slack of a C, and the margin grows with it."""
    wanted = np.full(np.size(C), wanted)
    search, every = SearchForC(wanted, np.asarray(C, dtype=float), tol), np.arange(np.size(C))
    for _ in range(solves):
        slack = slack_at(search.C)
        search.settle(every, PathPoints(search.C.copy(), slack, slack), np.full(wanted.size, np.inf))
        search.move(every, PathPoints(search.C.copy(), slack, slack))
    return search


@pytest.mark.parametrize(
    "slack_at",
    [lambda C: 0.3 / C, lambda C: np.exp(-C), lambda C: 0.05 + 0.1 / C, lambda C: np.maximum(0.0, 0.3 - 0.1 * C)],
    ids=["1/C", "exp", "levels off", "falls to zero"],
)
@pytest.mark.parametrize("wanted", [0.06, 0.1, 0.2])
def test_the_slack_is_found_from_far_away_on_either_side(slack_at, wanted):
    search = search_among(slack_at, wanted, [1e-4, 1e-2, 1.0, 2.0, 100.0, 1e4])
    np.testing.assert_allclose(slack_at(search.C), wanted, rtol=1e-2)
    assert not search.too_little.any()


def test_problems_do_not_change_each_other():
    C = np.array([1e-3, 1.0, 50.0])
    together = search_among(lambda C: np.exp(-C), 0.1, C)
    for k in range(C.size):
        alone = search_among(lambda C: np.exp(-C), 0.1, C[[k]])
        assert together.C[k] == alone.C[0]


def test_solves_become_as_accurate_as_the_result_near_the_slack():
    search = search_among(lambda C: 0.3 / C, 0.1, [2.9], solves=1)
    assert search.accuracy[0] == 5e-4
    search = search_among(lambda C: 0.3 / C, 0.1, [2.5], solves=1)
    assert 5e-4 < search.accuracy[0] < 1e-2
    search = search_among(lambda C: 0.3 / C, 0.1, [100.0], solves=1)
    assert search.accuracy[0] == 1e-2


def test_at_the_right_C_solves_become_more_accurate_than_the_result():
    search, one = SearchForC(np.array([0.1]), np.array([1.0]), 1e-3), np.arange(1)
    accuracies = []
    for slack in (0.1, 0.1, 0.103, 0.1005, 0.1):
        search.move(one, PathPoints(search.C.copy(), np.array([slack]), np.array([0.5])))
        accuracies.append(search.accuracy[0])
    # At another slack, another C is tried first: once, if that is near.
    np.testing.assert_allclose(accuracies, [5e-4, 1.25e-4, 1.25e-4, 3.125e-5, 7.8125e-6])


def test_a_loose_solution_with_no_less_slack_is_made_accurate_before_C_grows():
    search, one = SearchForC(np.array([0.1]), np.array([1.0]), 1e-3), np.arange(1)
    C, accuracy = [], []
    for _ in range(4):
        C.append(search.C[0])
        accuracy.append(search.accuracy[0])
        search.move(one, PathPoints(search.C.copy(), np.array([0.31]), np.array([0.5])))
    assert accuracy == [1e-2, 1e-2, 5e-4, 5e-4]
    assert C[0] < C[1] == C[2] < C[3]


def test_a_bracket_that_a_loose_solution_has_closed_too_far_is_opened():
    """The slack of the second solve is far too small: the right C is larger than that."""
    search, one = SearchForC(np.array([0.1]), np.array([1.0]), 1e-3), np.arange(1)
    for k in range(12):
        slack = 0.02 if k == 1 else 4.0 / search.C[0]
        search.move(one, PathPoints(search.C.copy(), np.array([slack]), np.array([0.5])))
    assert search.C[0] == pytest.approx(40.0, rel=1e-2)


def test_too_little_slack_is_found_out_and_the_least_slack_taken():
    """The slack falls to 0.2 and no bound is above what the shortened solution has."""
    search, one = SearchForC(np.array([0.1]), np.array([1.0]), 1e-3), np.arange(1)
    for _ in range(4):
        slack = 0.2 + 1e-6 / search.C
        found = PathPoints(search.C.copy(), slack, np.array([0.5]))
        search.settle(one, found, 0.5 * 0.1 / slack)
        search.move(one, found)
    assert search.too_little[0]
    assert search.slack[0] == pytest.approx(0.2, rel=1e-3)
