"""What a run returns, what its callback is told on the way, and the certificate of its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from maxmargin.core.types import Point, Vector
from maxmargin.engine.certificate import Certificate
from maxmargin.engine.problem import CLOSE_ENOUGH, Evaluation, Problem, Solution
from maxmargin.engine.trace import Row, Trace

TIGHTENING_ROUNDS = 4  # of the final certificate; each reads the data twice
OUT_OF_TIME = ("interrupted", "max_time")  # ends after which nobody should be kept waiting

Proof = tuple[Vector | None, Point | None]  # weights of the dual and their sum of rows, where they are known


class Resume:
    """The state of a solver at the end of a run, which one later run may go on from: it changes the state in place.

    Parameters
    ----------
    state : object
        The state.
    problem : Problem or None
        The problem that it is of.
    """

    def __init__(self, state: object, problem: Problem | None = None) -> None:
        self.state, self.problem = state, problem

    def take(self) -> object:
        """The state, which is gone from here afterwards."""
        if self.state is None:
            raise ValueError(
                "this result was gone on from already, which used up its state; pass the later result as warm"
            )
        state, self.state = self.state, None
        return state


@dataclass(frozen=True)
class Result:
    """What :func:`solve` returns, for every solver.

    Attributes
    ----------
    solution : Solution
        The answer: direction, bias, and dual weights where there are any.
    certificate : Certificate
        How good it provably is.
    evaluation : Evaluation or None
        What the certificate's pass over the data saw; None without a certificate.
    trace : Trace
        One row a check.
    status : str
        Why it stopped: "tol", "max_iter", "max_time", "budget", "early_stopping", "callback", "interrupted", or
        "finished" where the algorithm itself came to its end.
    n_iter : int
        Iterations made.
    best_iter : int
        The iteration that the solution is from.
    reads : dict
        Entries read, by purpose, as :meth:`maxmargin.core.Ledger.summary` gives them.
    promise : dict
        What the algorithm's theorem promises for this run; empty where it was stopped before its end.
    resume : Resume
        Holds the solver's own state, from which a warm start goes on, once.
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
        """The solver's own state; None once a later run has gone on from it."""
        return self.resume.state


@dataclass(frozen=True)
class Progress:
    """What a callback of :func:`solve` is told at each check.

    Attributes
    ----------
    row : Row
        The new row of the trace.
    done : float
        The share of the work that is done, between 0 and 1, by the stop rule that is nearest; NaN if none tells. The
        way from the first known gap to `tol` is measured in powers of ten, as gaps fall by about equal factors.
    gap, tol : float
        The relative duality gap, measured or estimated by the solver, and the gap to stop at; NaN where there is none.
    solution : callable
        Gives the current solution.
    """

    row: Row
    done: float
    gap: float
    tol: float
    solution: Callable[[], Solution]


def best_proof(new: Certificate, dual: Proof, known: Certificate, proof: Proof) -> tuple[Certificate, Proof]:
    """The new certificate with the better of two bounds, and the weights that prove it."""
    best = new.tightened(known)
    return best, proof if new and known and best.dual != new.dual else dual


def certified(problem: Problem, result: Result, *, keep_bias: bool = False, tighten: bool = True) -> Result:
    """The same result with a certificate on the full data; its evaluation is used where there is one already.

    The bias becomes the best one for w, unless it is to be kept: a model chosen by its error on a holdout must stay it.
    The bound is tightened unless the time is up or what may be read is limited: that takes further passes.
    """
    if result.evaluation is not None and result.certificate.relative_gap <= CLOSE_ENOUGH:
        return replace(result, reads=problem.ledger.summary())  # the last check has done it all
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
