"""A given C with a solver of the slack form: the root over the slack, each try going on from the last."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from maxmargin.problems import SlackSVM, equivalent_slack
from maxmargin.solvers.base import Progress, Result, Solver, certified, solve

# The slack is set anew after these shares of the work. Where a direction tells nothing of the classes, no slack is too
# large for it: tries stay below a part of the slack at which the centroid has every example inside the margin.
TRIES = ((0.0, 0.25), (0.1, 0.5), (0.25, 1.0), (0.5, 1.0))


def solve_for_C(
    problem: SlackSVM,
    solver: Solver,
    C: float,
    *,
    certify: bool | str = True,
    callback: Callable[[Progress], bool | None] | None = None,
    **options: Any,
) -> tuple[SlackSVM, Result]:
    r"""Solve the regularised form :math:`\frac12|w|^2 + C\sum_i s_i\,\text{hinge}_i` by a solver of the slack form.

    The slack that fits C is read off the best direction so far, at first the centroid of the data, and set anew after a
    tenth, a quarter and a half of the work, and at the end. Where the direction is near its optimum, so is the slack.

    Parameters
    ----------
    problem : SlackSVM
        Data, bias and weights; its slack is replaced.
    solver : Solver
        A solver of the slack form.
    C : float
        The weight of the hinge losses, in the units of the data as given (not scaled).
    certify, callback, **options
        As in :func:`maxmargin.solvers.solve`.

    Returns
    -------
    problem : SlackSVM
        The slack form that was solved in the end.
    result : Result
    """
    stopped_by_user = False
    due = 1.0

    def stop_to_set_slack(progress: Progress) -> bool:
        nonlocal stopped_by_user
        stopped_by_user = callback is not None and bool(callback(progress))
        return stopped_by_user or due <= progress.done < 1

    largest = problem.largest_slack()
    with problem.X.ledger.on("slack for C"):
        at = problem.evaluate(problem.centroid())
    result: Result | None = None
    for k, (_, part) in enumerate(TRIES):
        due = TRIES[k + 1][0] if k + 1 < len(TRIES) else math.inf
        problem = problem.with_slack(min(equivalent_slack(problem, at, C), part * largest))
        each = certify if certify == "checks" else False
        result = solve(problem, solver, certify=each, callback=stop_to_set_slack, warm=result, **options)
        with problem.X.ledger.on("slack for C"):
            at = problem.evaluate(result.solution.w)
        if stopped_by_user or result.status != "callback":
            break
    assert result is not None
    problem = problem.with_slack(equivalent_slack(problem, at, C))
    result = replace(result, evaluation=problem.evaluate_responses(at.w, at.responses))
    return problem, certified(problem, result) if certify else replace(result, evaluation=None)
