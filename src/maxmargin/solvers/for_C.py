"""A given C with a solver of the slack form: the root over the slack, each try going on from the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maxmargin.problems import SlackSVM, equivalent_slack
from maxmargin.solvers.base import Progress, Result, Solver, solve

FIRST_SLACK = 0.25  # of the slack at which the centroid has every example inside the margin, at most
SHARES = (0.1, 0.25, 0.5)  # of the work, after which the slack is set anew


def solve_for_C(
    problem: SlackSVM,
    solver: Solver,
    C: float,
    *,
    callback: Callable[[Progress], bool | None] | None = None,
    **options: Any,
) -> tuple[SlackSVM, Result]:
    r"""Solve the regularised form :math:`\frac12|w|^2 + C\sum_i s_i\,\text{hinge}_i` by a solver of the slack form.

    The slack that fits C is read off the best direction so far, at first the centroid of the data, and set anew after a
    tenth, a quarter and a half of the work. Where the direction is near its optimum, so is the slack.

    Parameters
    ----------
    problem : SlackSVM
        Data, bias and weights; its slack is replaced.
    solver : Solver
        A solver of the slack form.
    C : float
        The weight of the hinge losses, in the units of the data as given (not scaled).
    callback, **options
        As in :func:`maxmargin.solvers.solve`.

    Returns
    -------
    problem : SlackSVM
        The slack form that was solved in the end.
    result : Result
    """
    shares = list(SHARES)
    stopped_by_user = False

    def stop_to_set_slack(progress: Progress) -> bool:
        nonlocal stopped_by_user
        stopped_by_user = callback is not None and bool(callback(progress))
        due = [share for share in shares if progress.done >= share]
        del shares[: len(due)]
        return stopped_by_user or bool(due)

    with problem.X.ledger.on("slack for C"):
        at = problem.evaluate(problem.centroid())
    # Where the centroid tells nothing of the classes no C is too large for it; the first try must not be led astray.
    problem = problem.with_slack(min(equivalent_slack(problem, at, C), FIRST_SLACK * problem.largest_slack()))
    result: Result | None = None
    while True:
        last = not shares
        result = solve(problem, solver, callback=stop_to_set_slack, warm=result, **options)
        if last or stopped_by_user or result.status != "callback":
            return problem, result
        if result.evaluation is not None:
            at = result.evaluation
        else:
            with problem.X.ledger.on("slack for C"):
                at = problem.evaluate(result.solution.w)
        problem = problem.with_slack(equivalent_slack(problem, at, C))
