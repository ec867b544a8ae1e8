r"""Solves the slack form exactly by a solver of the regularised form: a search for the C that goes with a slack.

Problem: the slack form. Given: a solver of the regularised form with the hinge. Returned: the largest margin at the
slack, with the certificate of the slack form.

By Lemma 2.1 of Hazan, Koren and Srebro (2011), the optimum of the regularised form for C is that of the slack form for
the slack :math:`\nu(C)`, its mean hinge loss over |w|. :math:`\nu(C)` does not rise with C, so that the C of a given
slack is the root of a monotone function. Each solution on the way is a point of both forms: its direction has a value
at the slack asked for, and its dual variables over their sum are weights that bound the best value. The search ends
when these two are close, wherever C is; each solve begins at the solution of the last one.

There may be no such C. As C rises, :math:`\nu(C)` falls to a least slack :math:`\nu_\infty`: zero where the classes can
be separated, else that of the least total hinge loss. The best point for a smaller slack :math:`\nu` is the same model,
shortened to :math:`|w| = \nu/\nu_\infty`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from maxmargin.core.threads import limit_blas
from maxmargin.engine.loop import USUAL_TOL, Progress, Result, Resume, solve
from maxmargin.engine.problem import Solution, length
from maxmargin.engine.solver import AnySolver
from maxmargin.engine.stop_rules import StopRules
from maxmargin.engine.trace import Row, Trace
from maxmargin.svm.convert import equivalent_C, reached_slack
from maxmargin.svm.margin import MarginEvaluation
from maxmargin.svm.regularized import RegularizedSVM
from maxmargin.svm.slack import LARGEST_SLACK, SHORTEST, SlackSVM

MOST_SOLVES = 60  # solves of the regularised form, after which the result is returned though its gap is above `tol`
LARGEST_STEP = math.log(30.0)  # change of log C from one solve to the next, at most
LOOSE = 10.0  # the gap of a solve far from the right C, in units of `tol`: its solution is not the one asked for anyway
NEAR = 0.2  # distance of log slack from that of the slack asked for, below which solves are as accurate as the result
SLOPE = -1.0  # of log slack over log C, assumed before two solutions tell it
FAR_LARGER, HARDLY_LESS = math.log(3.0), 0.1  # changes of log C and of log slack: then there is no less slack to be had
LEAST_MARGIN = 1e-6  # in units of the largest norm: classes that no larger margin separates count as inseparable


@limit_blas()
def solve_for_slack(
    problem: SlackSVM,
    solver: AnySolver,
    stop: StopRules | None = None,
    *,
    callback: Callable[[Progress], bool | None] | None = None,
    random_state: int | np.random.Generator | None = None,
    warm: Resume | None = None,
) -> tuple[SlackSVM, Result]:
    r"""Solve the slack form by a solver of the regularised form, to a relative gap of `stop.tol` (default: 0.001).

    Parameters
    ----------
    problem : SlackSVM
        What to solve.
    solver : Solver
        A solver of the regularised form, for the hinge.
    stop : StopRules or None
        When to stop; limits are for all solves together.
    callback, random_state
        As in :func:`maxmargin.solvers.solve`.
    warm : Resume or None
        Where a solve of the same data, perhaps for another slack, has ended: the search begins at its C.

    Returns
    -------
    problem : SlackSVM
        The problem that the result solves: the given one; or if the least slack of any C is larger than its slack, or
        its slack is zero and the classes cannot be separated, the one with about that least slack.
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
    earlier = warm.problem if warm is not None else None
    search = _SearchForC(problem, earlier.C if isinstance(earlier, RegularizedSVM) else None)
    accuracy = LOOSE * tol
    form_with_C = RegularizedSVM(problem.X, problem.y, search.C, bias=problem.bias, sample_weight=problem.s)
    form_with_C = form_with_C.with_sq_norms(problem.sq_norms())
    solved: Result | None = None
    best: Result | None = None
    accurate: tuple[float, Result] | None = None  # the last solution that came within its tolerance, and its slack
    too_little = False  # whether no C has as little slack: then this C will do, and its slack is the one to prove
    rows: list[Row] = []
    for _ in range(MOST_SOLVES):
        at_C = form_with_C.with_C(search.C)
        solved = solve(
            at_C,
            solver,
            replace(rules, tol=accuracy),
            callback=callback,
            random_state=random_state,
            warm=solved or warm,
        )
        slack = reached_slack(at_C, _evaluation(solved)) / problem.scale
        found = _in_slack_form(problem, solved)
        best = found if best is None else _better(best, found)
        done = solved.status == "tol"
        if done or accurate is None:
            accurate = slack, solved
        in_vain = search.was_in_vain(slack) or not done
        too_little = too_little or (
            in_vain and slack > problem.slack and _has_too_little_slack(problem, best, slack, tol, stopped=not done)
        )
        if too_little:
            problem = problem.with_slack(accurate[0])
            best = found = _in_slack_form(problem, accurate[1])
        rows += [replace(row, primal=math.nan, dual=math.nan, gap=math.nan) for row in solved.trace[len(rows) :]]
        proof = found.certificate
        rows[-1] = replace(rows[-1], primal=proof.primal, dual=proof.dual, gap=proof.gap)
        on_sphere = length(best.solution.w) >= 1 - tol
        if not done or (best.certificate.relative_gap <= tol and (on_sphere or too_little)):
            break
        off = 0.0 if too_little else search.move(slack, _evaluation(found))
        near = off < NEAR or 0 < length(found.solution.w) < 1 - tol  # inside of the ball, no C comes nearer
        accuracy = min(tol / 2, accuracy / 4 if off <= tol else math.inf) if near else LOOSE * tol
    assert best is not None
    assert solved is not None
    # The state is that of the last solve: if the best one came before it, the later solves used up its own.
    trace, resume = Trace(rows, tol), solved.resume
    return problem, replace(
        best, trace=trace, status=solved.status, n_iter=solved.n_iter, reads=solved.reads, resume=resume
    )


class _SearchForC:
    """Finds the C at which the solution has the slack asked for, by secants of log slack over log C in a bracket."""

    def __init__(self, problem: SlackSVM, C: float | None) -> None:
        self.problem = problem
        if C is None:
            with problem.X.ledger.on("slack for C"):
                at = problem.evaluate(problem.centroid())
            C = self._C_of_direction(at) or 1 / problem.scale**2
        self.C = C
        self.too_small, self.too_large = 0.0, math.inf  # the bracket of C
        self.last: tuple[float, float] | None = None  # log C and log slack of the last solution

    def move(self, slack: float, at: MarginEvaluation) -> float:
        """Choose the next C after a solution with this slack; returns how far its logarithm is from the one wanted.

        `at` is the evaluation of its direction at the slack that is wanted.
        """
        wanted = self.problem.slack
        if slack > wanted:
            self.too_small = self.C
        else:
            self.too_large = self.C
        log_C, log_slack = math.log(self.C), math.log(max(slack, np.finfo(float).tiny))
        off = math.log(max(wanted, np.finfo(float).tiny)) - log_slack
        if self.last is None:
            C = self._C_of_direction(at)
            guess = math.log(C) if C else log_C + off / SLOPE
        else:
            slope = (log_slack - self.last[1]) / (log_C - self.last[0]) if log_C != self.last[0] else 0.0
            guess = log_C + off / slope if slope < 0 else math.copysign(math.inf, -off)
        self.last = log_C, log_slack
        self.C = math.exp(min(max(guess, log_C - LARGEST_STEP), log_C + LARGEST_STEP))
        if not self.too_small < self.C < self.too_large:
            if self.too_small > 0 and self.too_large < math.inf:
                self.C = math.sqrt(self.too_small * self.too_large)
            else:
                self.C = math.exp(log_C + math.copysign(LARGEST_STEP, -off))
        return abs(off)

    def was_in_vain(self, slack: float) -> bool:
        """Whether a far larger C than that of the last solution has hardly less slack."""
        if self.last is None or math.log(self.C) - self.last[0] < FAR_LARGER:
            return False
        return math.log(max(slack, np.finfo(float).tiny)) > self.last[1] - HARDLY_LESS

    def _C_of_direction(self, at: MarginEvaluation) -> float:
        """The C at which this direction would be the best one; 0 if there is none, as it has too little slack."""
        C = equivalent_C(self.problem, at) if length(at.w) >= 1 - SHORTEST else math.inf
        return C if math.isfinite(C) else 0.0


def _in_slack_form(problem: SlackSVM, solved: Result) -> Result:
    """A solution of the regularised form as one of the slack form, with its certificate there."""
    w, p, v = solved.solution.w, solved.solution.p, solved.solution.v
    at = problem.evaluate_direction(w, _evaluation(solved).responses / problem.scale)
    with problem.X.ledger.on("certificate"):
        certificate, dual = problem.certify_evaluated(at, p, None if v is None else v / problem.scale)
    return replace(solved, solution=at.solution(*dual), evaluation=at, certificate=certificate)


def _has_too_little_slack(problem: SlackSVM, best: Result, slack: float, tol: float, *, stopped: bool) -> bool:
    """Whether no C has as little slack, as far as can be told: the best w is inside of the unit ball.

    `slack` is that of the last C. If it is larger than any that matters, that C is so small that w is about 0.
    Without any slack it is 0 then, which is no model: the search goes on until no margin worth the name is possible.
    """
    if length(best.solution.w) > 1 - tol or slack > LARGEST_SLACK:
        return False
    proof = best.certificate
    return stopped or (proof.dual < LEAST_MARGIN if problem.slack == 0 else proof.relative_gap <= tol)


def _evaluation(result: Result) -> MarginEvaluation:
    assert isinstance(result.evaluation, MarginEvaluation)
    return result.evaluation


def _better(one: Result, other: Result) -> Result:
    """The result with the larger value, with the smaller of the two bounds and the weights that prove it."""
    best, second = (one, other) if one.certificate.primal > other.certificate.primal else (other, one)
    if not (second.certificate and second.certificate.dual < best.certificate.dual):
        return best
    found, proof = best.solution, second.solution
    solution = Solution(found.w, found.b, proof.p, proof.v)
    return replace(best, solution=solution, certificate=best.certificate.tightened(second.certificate))
