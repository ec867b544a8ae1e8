"""The result of a run, what its callback is given, and the certificate of its solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from maxmargin.core.types import Point, Vector
from maxmargin.engine.certificate import Certificate
from maxmargin.engine.problem import CLOSE_ENOUGH, Evaluation, Problem, Solution
from maxmargin.engine.trace import Row, Trace

TIGHTENING_ROUNDS = 4  # rounds that improve the bound of the final certificate; each reads the data twice
OUT_OF_TIME = ("interrupted", "max_time")  # statuses after which the user should not have to wait

Proof = tuple[Vector | None, Point | None]  # dual weights and their weighted sum of the rows, each None if unknown


class Resume:
    """The state of a solver at the end of a run. One later run can continue from it, and changes it in place.

    Parameters
    ----------
    state : object
        The state of the solver.
    problem : Problem or None
        The problem that was solved.
    """

    def __init__(self, state: object, problem: Problem | None = None) -> None:
        self.state, self.problem = state, problem

    def take(self) -> object:
        """Return the state and forget it, so that it is used once."""
        if self.state is None:
            raise ValueError(
                "another run has already continued from this result and used up its state; "
                "pass the result of that run as warm"
            )
        state, self.state = self.state, None
        return state


@dataclass(frozen=True)
class Result:
    """What :func:`solve` returns, for every solver.

    Attributes
    ----------
    solution : Solution
        Direction, bias, and the dual weights if the solver has any.
    certificate : Certificate
        How good the solution provably is.
    evaluation : Evaluation or None
        The solution evaluated on all samples, for the certificate; None without a certificate.
    trace : Trace
        One row for each check.
    status : str
        Why the run stopped: "tol", "max_iter", "max_time", "budget", "early_stopping", "callback", "interrupted", or
        "finished" if the algorithm reached its own end.
    n_iter : int
        Iterations made.
    best_iter : int
        The iteration at which the solution was found.
    reads : dict
        Entries read, by purpose, as :meth:`maxmargin.core.Ledger.summary` gives them.
    promise : dict
        What the algorithm's theorem promises for this run; empty if the run was stopped before the algorithm's end.
    resume : Resume
        The solver's own state, from which one later run can continue.
    """

    solution: Solution
    certificate: Certificate
    evaluation: Evaluation | None
    trace: Trace
    status: str
    n_iter: int
    best_iter: int
    reads: dict[str, int | float]
    promise: dict[str, float] = field(default_factory=dict)
    resume: Resume = field(default_factory=lambda: Resume(None), repr=False)

    @property
    def state(self) -> Any:
        """The solver's own state; None after a later run has continued from it."""
        return self.resume.state


@dataclass(frozen=True)
class Progress:
    """The argument of the callback of :func:`solve`, at each check.

    Attributes
    ----------
    row : Row
        The new row of the trace.
    done : float
        The estimated share of the work that is done, from 0 to 1, by the stop rule that is nearest to being met; NaN if
        no rule allows an estimate. Progress from the first known gap to `tol` is measured on a logarithmic scale,
        because gaps fall by about equal factors.
    gap, tol : float
        The relative duality gap, measured or estimated by the solver, and the gap at which to stop; NaN if there is
        none.
    solution : callable
        Returns the best solution so far.
    """

    row: Row
    done: float
    gap: float
    tol: float
    solution: Callable[[], Solution]


def best_proof(new: Certificate, dual: Proof, known: Certificate, proof: Proof) -> tuple[Certificate, Proof]:
    """The certificate `new` with the better bound of `new` and `known`, and the dual weights that prove that bound."""
    best = new.tightened(known)
    return best, proof if new and known and best.dual != new.dual else dual


def certified(problem: Problem, result: Result, *, keep_bias: bool = False, tighten: bool = True) -> Result:
    """The same result with a certificate on the full data; an evaluation that the result already has is used.

    The bias is replaced by the best one for w unless `keep_bias`: a model that was chosen by its error on a holdout
    must not change. `tighten` improves the bound in further passes over the data, unless the time is up; with a budget
    it should be off.
    """
    if result.evaluation is not None and result.certificate.relative_gap <= CLOSE_ENOUGH:
        return replace(result, reads=problem.ledger.summary())  # the last check has certified it
    rounds = TIGHTENING_ROUNDS if tighten and result.status not in OUT_OF_TIME else 0
    with problem.ledger.on("certificate"):
        at = result.evaluation or problem.evaluate_solution(result.solution, keep_bias=keep_bias)
        certificate, dual = problem.certify_evaluated(at, result.solution.p, result.solution.v, rounds=rounds)
    certificate, proof = best_proof(certificate, dual, result.certificate, (result.solution.p, result.solution.v))
    trace = result.trace
    if trace[-1].iteration == result.best_iter:
        last = replace(trace[-1], primal=certificate.primal, dual=certificate.dual, gap=certificate.gap)
        trace = Trace([*trace[:-1], last], trace.tol)
    return replace(
        result,
        solution=at.solution(*proof),
        certificate=certificate,
        evaluation=at,
        trace=trace,
        reads=problem.ledger.summary(),
    )
