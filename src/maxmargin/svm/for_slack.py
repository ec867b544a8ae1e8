r"""Solves the slack form exactly by a solver of the regularised form: a search for the C that belongs to a slack.

Problem: the slack form. Given: a solver of the regularised form with the hinge. Returned: the largest margin at the
slack, with the certificate of the slack form.

By Lemma 2.1 of Hazan, Koren and Srebro (2011), the optimum of the regularised form for C is that of the slack form for
the slack :math:`\nu(C)`, its mean hinge loss over |w|; `search_for_C.py` finds the C of a slack. Each solution on the
way is a point of both forms: its direction has a value at the slack asked for, and its dual variables divided by their
sum are weights that bound the best value. The search ends when value and bound are close, even if C is not yet exact.
Each solve begins at the solution of the last one. Many small problems at once are solved in the same way by
`many_slacks.py`.

Such a C need not exist. As C rises, :math:`\nu(C)` falls to a smallest slack :math:`\nu_\infty`: zero if the classes
can be separated, else the slack at the smallest total hinge loss. The best point for a smaller slack :math:`\nu` is the
same model, shortened to :math:`|w| = \nu/\nu_\infty`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.core.threads import limit_blas
from maxmargin.engine.loop import USUAL_TOL, solve
from maxmargin.engine.problem import Solution, length
from maxmargin.engine.result import Progress, Result, Resume
from maxmargin.engine.solver import AnySolver
from maxmargin.engine.stop_rules import StopRules
from maxmargin.engine.trace import Row, Trace
from maxmargin.svm.margin import MarginEvaluation
from maxmargin.svm.regularized import RegularizedSVM
from maxmargin.svm.search_for_C import MOST_SOLVES, PathPoints, SearchForC
from maxmargin.svm.slack import SlackSVM

if TYPE_CHECKING:
    from maxmargin.engine.checkpoint import Checkpoint


@limit_blas()
def solve_for_slack(
    problem: SlackSVM,
    solver: AnySolver,
    stop: StopRules | None = None,
    *,
    callback: Callable[[Progress], bool | None] | None = None,
    random_state: int | np.random.Generator | None = None,
    warm: Resume | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[SlackSVM, Result]:
    r"""Solve the slack form by a solver of the regularised form, to a relative gap of `stop.tol` (default: 0.001).

    Parameters
    ----------
    problem : SlackSVM
        The problem to solve.
    solver : Solver
        A solver of the regularised form with the hinge.
    stop : StopRules or None
        When to stop; limits apply to all solves together.
    callback, random_state
        As in :func:`maxmargin.solvers.solve`.
    warm : Resume or None
        The end of an earlier solve on the same data, perhaps for another slack; the search begins at its C.
    checkpoint : Checkpoint or None
        The checkpoint to which the search and its current solve are saved, and from which they continue.

    Returns
    -------
    problem : SlackSVM
        The problem that the result solves. This is the given problem; but if no C has a slack as small as the given
        one, or if the given slack is zero and the classes cannot be separated, it is the problem with about the
        smallest possible slack.
    result : Result
        The best solution that was found, always with a certificate. Its trace has the value and the bound of the slack
        form at the end of each solve.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SlackSVM
    >>> from maxmargin.solvers import Newton, solve_for_slack
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(200) < 0.5, -1.0, 1.0)
    >>> X = rng.normal(size=(200, 5)) + y[:, None]
    >>> problem, result = solve_for_slack(SlackSVM(X, y, slack=0.05), Newton(), random_state=0)
    >>> problem.slack, result.certificate.relative_gap <= 1e-3
    (0.05, True)
    """
    rules = stop or StopRules()
    tol = USUAL_TOL if rules.tol is None else float(rules.tol)
    the_one = np.arange(1)
    search = SearchForC(np.array([problem.slack]), np.array([_first_C(problem, warm)]), tol)
    form_with_C = RegularizedSVM(problem.X, problem.y, search.C[0], bias=problem.bias, sample_weight=problem.s)
    form_with_C = form_with_C.with_sq_norms(problem.sq_norms())
    solved: Result | None = None
    best: Result | None = None
    accurate: tuple[PathPoints, Result] | None = None  # the last solution that reached its tolerance
    rows: list[Row] = []
    solves = 0
    if checkpoint is not None:
        kept = checkpoint.around(lambda: (solves, search, solved, best, accurate, rows, problem.slack), problem)
        if kept is not None:
            solves, search, solved, best, accurate, rows, slack = kept
            problem = problem.with_slack(slack)
    while solves < MOST_SOLVES:
        at_C = form_with_C.with_C(float(search.C[0]))
        solved = solve(
            at_C,
            solver,
            replace(rules, tol=float(search.accuracy[0])),
            callback=callback,
            random_state=random_state,
            warm=solved or warm,
            checkpoint=checkpoint,
        )
        found = _in_slack_form(problem, solved)
        best = found if best is None else _better(best, found)
        stopped = solved.status != "tol"
        if accurate is None or not stopped:
            accurate = _point_of_path(at_C, solved, problem.scale), solved
        inside = length(best.solution.w) < 1 - tol
        if search.settle(the_one, accurate[0], np.array([best.certificate.dual]), stopped=stopped and inside)[0]:
            problem = problem.with_slack(float(search.slack[0]))
            best = found = _in_slack_form(problem, accurate[1])
            inside = False
        rows += [replace(row, primal=math.nan, dual=math.nan, gap=math.nan) for row in solved.trace[len(rows) :]]
        proof = found.certificate
        rows[-1] = replace(rows[-1], primal=proof.primal, dual=proof.dual, gap=proof.gap)
        if stopped or (best.certificate.relative_gap <= tol and (search.nowhere[0] or not inside)):
            break
        search.move(the_one, accurate[0])
        solves += 1
    assert best is not None
    assert solved is not None
    # The state is that of the last solve; if an earlier solve was the best one, later solves have used up its state.
    trace, resume = Trace(rows, tol), solved.resume
    return problem, replace(
        best, trace=trace, status=solved.status, n_iter=solved.n_iter, reads=solved.reads, resume=resume
    )


def _first_C(problem: SlackSVM, warm: Resume | None) -> float:
    """The C at which the search begins: that of an earlier solve, or a guess from the range of slacks.

    The guess is rounded, because its last bits depend on the order of a sum, which is another one on a cluster; the
    models of the cluster and of one machine are to be the same.
    """
    if warm is not None and isinstance(warm.problem, RegularizedSVM):
        return warm.problem.C
    C = problem.slack_range().C_of(problem.slack)
    return float(f"{C:.3g}") if math.isfinite(C) else 1 / problem.scale**2


def _point_of_path(problem: RegularizedSVM, solved: Result, scale: float) -> PathPoints:
    """A solution of the form with C as a point of the regularisation path."""
    at, alpha, used = _evaluation(solved), solved.solution.p, problem.s > 0
    largest = 1.0 if alpha is None else min(1.0, float((alpha[used] / problem.u[used]).max()))
    assert at.sums is not None
    C, share, sq_norm, losses, total = np.array(
        [[problem.C], [largest], [length(at.w) ** 2], [problem.C * at.sums.shortfall], [problem.s.sum()]]
    )
    return PathPoints.of_solutions(C, share, sq_norm, losses, total, scale)


def _in_slack_form(problem: SlackSVM, solved: Result) -> Result:
    """A solution of the regularised form as one of the slack form, with its certificate there."""
    w, p, v = solved.solution.w, solved.solution.p, solved.solution.v
    at = problem.evaluate_direction(w, _evaluation(solved).responses / problem.scale)
    with problem.X.ledger.on("certificate"):
        if solved.status == "tol" and p is not None and p.any():  # then v was computed for a certificate just now
            dual = problem.dual_point(p, None if v is None else v / problem.scale)
            certificate = problem.certify_by(at, dual)
        else:
            certificate, dual = problem.certify_evaluated(at, p)
    return replace(solved, solution=at.solution(*dual), evaluation=at, certificate=certificate)


def _evaluation(result: Result) -> MarginEvaluation:
    assert isinstance(result.evaluation, MarginEvaluation)
    return result.evaluation


def _better(one: Result, other: Result) -> Result:
    """The result with the larger value, together with the smaller of the two bounds and the weights that prove it."""
    best, second = (one, other) if one.certificate.primal > other.certificate.primal else (other, one)
    if not (second.certificate and second.certificate.dual < best.certificate.dual):
        return best
    found, proof = best.solution, second.solution
    solution = Solution(found.w, found.b, proof.p, proof.v)
    return replace(best, solution=solution, certificate=best.certificate.tightened(second.certificate))
