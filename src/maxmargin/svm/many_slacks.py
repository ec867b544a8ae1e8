r"""The slack form of many small binary problems, in few rounds that solve the form with C of all unsolved problems.

Problem: the slack form, for each of several binary problems. Given: compiled code that solves their forms with C, each
at a C of its own. Returned: for each problem its solution, with value and bound of the slack form. The method uses
Lemma 2.1 of Hazan, Koren and Srebro (2011) and the same search for C as `for_slack.py`, which solves one problem with
any solver.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin.core.types import Indices, Vector
from maxmargin.svm.many_problems import EXHAUSTED, TOL, UNFINISHED, SolvedProblems, Stop, Targets
from maxmargin.svm.search_for_C import MOST_SOLVES, PathPoints, SearchForC

# C scale^2 times the sum of the weights times the slack, at which the search begins. At the solution it is 2 to 30 on
# the data sets of benchmarks/exact_slack.py and on generated ones, unless the slack is smaller than that of any model.
FIRST_STRENGTH = 10.0
LEAST_STRENGTH, LARGEST_STRENGTH = 1e-3, 10.0  # limits of C scale^2 at the beginning


def first_strength(slack: float, total_weights: Vector | np.float64) -> Vector:
    """A guess of C times the squared scale for a slack, from the sum of the sample weights."""
    with np.errstate(divide="ignore"):
        return np.clip(FIRST_STRENGTH / (slack * total_weights), LEAST_STRENGTH, LARGEST_STRENGTH)


def solve_for_slacks(
    solve: Callable[[Targets, Indices, Stop], object],
    results: SolvedProblems,
    search: SearchForC,
    total_weights: Vector,
    scale: float,
    stop: Stop,
) -> Vector:
    """Solve the slack form of all problems.

    Parameters
    ----------
    solve : callable
        Solves the forms with C of some problems, given by their numbers, and writes to `results`.
    results : SolvedProblems
    search : SearchForC
        The search, which the call continues until it has ended.
    total_weights : array of shape (n_problems,)
        The sum of the weights of the samples of each problem.
    scale : float
        The unit of the slacks.
    stop : callable
        Called with the problems that are finished; see :data:`maxmargin.svm.many_problems.Stop`.

    Returns
    -------
    array of shape (n_problems,)
        The C of the results.
    """
    which, last_C = np.arange(search.C.size), np.zeros(search.C.size)
    stopped = False

    def look(solved: object, results: SolvedProblems) -> bool:
        nonlocal stopped
        stopped = stop([], results) or stopped
        return stopped

    for _ in range(MOST_SOLVES):
        C = search.C[which]
        solve(Targets(search.C, search.accuracy, scale * search.slack, last_C), which, look)
        last_C[which] = C
        found = PathPoints.of_solutions(
            C,
            results.largest_share[which],
            results.sq_norm[which],
            results.losses[which],
            total_weights[which],
            scale,
        )
        nowhere = ~(results.sq_norm[which] > 0)
        results.status[which[nowhere]] = EXHAUSTED
        left = (relative_gaps(results)[which] > search.tol) & (results.status[which] == TOL)
        bound = (results.bound + results.bound_rounding)[which] / scale
        search.settle(which[left], found[left], bound[left])
        left[left] = ~search.nowhere[which[left]]
        results.status[which[search.nowhere[which]]] = EXHAUSTED
        search.move(which[left], found[left])
        stopped = stop(which[~left].tolist(), results) or stopped
        which = which[left]
        if stopped or not which.size:
            break
    results.status[which] = UNFINISHED if stopped else EXHAUSTED
    return last_C


def relative_gaps(results: SolvedProblems) -> Vector:
    """The relative gap of the slack form of each problem, as in its certificate."""
    value, bound = results.value - results.value_rounding, results.bound + results.bound_rounding
    with np.errstate(invalid="ignore"):
        return np.asarray((bound - value) / np.maximum(np.abs(value), np.abs(bound)))
