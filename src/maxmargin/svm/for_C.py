"""Solves the regularised form for a given C by a solver of the slack form, adjusting the slack as it runs.

Problem: the regularised form with the hinge loss. Given: C and a solver of the slack form. Returned: the slack form
whose optimum is that of C by Lemma 2.1 of Hazan, Koren and Srebro (2011), and a result with a certificate for C.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.core.threads import limit_blas
from maxmargin.engine.certificate import Certificate
from maxmargin.engine.loop import Holdout, solve
from maxmargin.engine.result import Progress, Result, certified
from maxmargin.engine.solver import AnySolver
from maxmargin.engine.stop_rules import StopRules
from maxmargin.svm.convert import certify_C, equivalent_slack
from maxmargin.svm.margin import MarginEvaluation
from maxmargin.svm.slack import SlackSVM

if TYPE_CHECKING:
    from maxmargin.engine.checkpoint import Checkpoint

# When to adjust the slack: (share of the work done, largest slack allowed). The unit of the latter is the slack at
# which every sample is inside the margin of the centroid; without it, a poor direction asks for any slack.
ADJUSTMENTS = ((0.0, 0.25), (0.1, 0.5), (0.25, 1.0), (0.5, 1.0))
MOST_ADJUSTMENTS = 50  # largest number of runs; then the result is returned even if its gap exceeds `tol`


@limit_blas()
def solve_for_C(
    problem: SlackSVM,
    solver: AnySolver,
    C: float,
    stop: StopRules | None = None,
    *,
    holdout: Holdout | None = None,
    certify: bool | str = True,
    callback: Callable[[Progress], bool | None] | None = None,
    random_state: int | np.random.Generator | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[SlackSVM, Result]:
    r"""Solve the regularised form :math:`\frac12|w|^2 + C\sum_i s_i\,\text{hinge}_i` by a solver of the slack form.

    The slack for C is computed from the best direction so far, at first the centroid of the data. It is adjusted after
    a tenth, a quarter and a half of the work, and at the end. If the direction is near the optimum, so is the slack;
    the certificate of the regularised form shows whether it is. With a `tol` among the stop rules, the run continues
    until the gap of the regularised form is at most `tol`.

    Parameters
    ----------
    problem : SlackSVM
        Data, bias and weights; its slack is replaced.
    solver : Solver
        A solver of the slack form.
    C : float
        The weight of the hinge losses, in the units of the data as given (not scaled).
    stop : StopRules or None
        When to stop; None: the defaults of the solver.
    holdout, certify, callback, random_state
        As in :func:`maxmargin.solvers.solve`.
    checkpoint : Checkpoint or None
        The checkpoint to which the run and its current slack are saved, and from which they continue.

    Returns
    -------
    problem : SlackSVM
        The slack form with the final slack.
    result : Result
    """
    stopped_by_user = False
    due = 1.0

    def stop_to_set_slack(progress: Progress) -> bool:
        nonlocal stopped_by_user
        stopped_by_user = callback is not None and bool(callback(progress))
        return stopped_by_user or due <= progress.done < 1

    rules, keep_bias, finer = stop or StopRules(), holdout is not None, 1.0
    tol = solver.default_tol if rules.tol is None else float(rules.tol)
    if problem.X.ledger.priced and rules.budget is not None:
        raise ValueError(
            "finding the slack that belongs to C buys all entries regardless of the budget; give slack= instead of C"
        )
    with problem.X.ledger.on("slack for C"):
        at = problem.evaluate(problem.centroid())
    largest = problem.largest_slack(at.responses)
    result: Result | None = None
    first = 0
    if checkpoint is not None:
        kept = checkpoint.around(lambda: (k, at, largest, finer, result), problem)
        if kept is not None:
            first, at, largest, finer, result = kept
    for k in range(first, MOST_ADJUSTMENTS):
        _, part = ADJUSTMENTS[min(k, len(ADJUSTMENTS) - 1)]
        due = ADJUSTMENTS[k + 1][0] if k + 1 < len(ADJUSTMENTS) else math.inf
        problem = problem.with_slack(min(equivalent_slack(problem, at, C), part * largest))
        result = solve(
            problem,
            solver,
            replace(rules, tol=None if tol is None else finer * tol),
            holdout=holdout,
            certify=certify if certify == "checks" else False,
            callback=stop_to_set_slack,
            random_state=random_state,
            warm=result,
            checkpoint=checkpoint,
        )
        with problem.X.ledger.on("slack for C"):
            at = problem.evaluate(result.solution.w, result.solution.b if keep_bias else None)
            # A certificate for another slack proves nothing for the slack that belongs to C.
            fitting = problem.with_slack(equivalent_slack(problem, at, C))
            at = fitting.evaluate_responses(at.w, at.responses, at.b if keep_bias else None)
        if result.status == "tol" and tol is not None and _proof(fitting, at, result, C).relative_gap > tol:
            finer /= 2
        elif stopped_by_user or result.status != "callback":
            break
    assert result is not None
    result = replace(result, evaluation=None, certificate=Certificate.missing("certify=False"))
    if not certify:
        return fitting, result
    tightened = certified(fitting, replace(result, evaluation=at), tighten=rules.budget is None)
    best = max((_proof(fitting, at, of, C) for of in (result, tightened)), key=lambda proof: proof.dual)
    return fitting, replace(tightened, certificate=best, reads=problem.X.ledger.summary())


def _proof(problem: SlackSVM, at: MarginEvaluation, result: Result, C: float) -> Certificate:
    """The certificate for C from the dual weights of a result, which takes one pass over the data."""
    p, v = (at.wet, None) if result.solution.p is None else (result.solution.p, result.solution.v)
    with problem.X.ledger.on("certificate"):
        return certify_C(problem, at, p, C, v)
