"""The loop that all solvers share. It decides when to check, when to stop and which solution to keep.

The loop calls the solver for chunks of iterations. The same seed gives the same solution however the iterations are
split into chunks. So the length of a chunk can follow the clock, while checks follow the count of iterations.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core.matrix import as_rows
from maxmargin.core.threads import limit_blas
from maxmargin.core.types import Indices
from maxmargin.engine.certificate import Certificate
from maxmargin.engine.interrupt import Interrupt, NoModelYet, listen_for_interrupt
from maxmargin.engine.problem import READS, Evaluation, Problem, Solution, Trait
from maxmargin.engine.registry import online_solvers, solvers_for
from maxmargin.engine.result import OUT_OF_TIME, Progress, Proof, Result, Resume, best_proof, certified
from maxmargin.engine.solver import AnySolver, Learned, ProblemT, Reason, Solver, StateT, Step
from maxmargin.engine.stop_rules import UNLIMITED, Limits, StopRules
from maxmargin.engine.trace import Row, Trace

if TYPE_CHECKING:
    from maxmargin.engine.checkpoint import Checkpoint, RunCheckpoint

CHUNK_SECONDS = 0.05  # intended duration of a chunk, in seconds: how long Ctrl-C and max_time may have to wait
MOST_AFTER_TIME = 0.2  # entries that a certificate may read after the time limit, as a share of those read before
FREE_AFTER_TIME = 1_000_000  # entries that a certificate may always read: they take a few milliseconds
USUAL_TOL = 1e-3  # the relative gap that decides the precision of the numbers if there is no `tol`
LONGEST_WAIT = 10  # checks after which the gap is measured even if the solver's estimate is still too large
# After an estimate of the gap proved too small, the gap is measured again when the estimate has fallen to this share.
BETTER_ESTIMATE = 0.7


@dataclass(frozen=True)
class Holdout:
    """Samples that are kept out of training, to measure the error.

    Attributes
    ----------
    X : Rows or array
        A matrix that holds the samples.
    y : array
        Their labels, -1 and +1.
    rows : array or None
        The rows of X that hold the samples; None means all.
    """

    X: object
    y: ArrayLike
    rows: Indices | None = None

    def error(self, solution: Solution, scale: float) -> float:
        """The share of the samples that the solution misclassifies."""
        X = as_rows(self.X)
        with X.ledger.on("holdout"):
            products = X.dot(solution.w, self.rows)
        return float(np.mean(np.where(products / scale + solution.b > 0, 1.0, -1.0) != np.asarray(self.y)))


def solve(
    problem: ProblemT,
    solver: Solver[ProblemT, StateT],
    stop: StopRules | None = None,
    *,
    tol: float | None = None,
    max_iter: int | None = None,
    max_time: float | None = None,
    budget: float | None = None,
    early_stopping: bool = False,
    holdout: Holdout | None = None,
    certify: bool | str = True,
    callback: Callable[[Progress], bool | None] | None = None,
    random_state: int | np.random.Generator | None = None,
    warm: Result | Resume | Learned | Solution | None = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
) -> Result:
    """Run a solver on a problem until the first stop rule is met.

    Parameters
    ----------
    problem : Problem
        The problem to solve, e.g. a `SlackSVM` or a `RegularizedSVM`.
    solver : Solver
        The algorithm with its hyper-parameters.
    stop : StopRules or None
        The stop rules as one object. Instead, you can give the following five rules one by one:
    tol : float or None
        Stop when the relative duality gap is at most `tol`. A check that measures the gap reads all of the data. If
        `tol` is the only rule, a run also ends after 20 times the iterations that the solver makes without any rule.
        None: the solver's default, `solver.default_tol`, which may be None too.
    max_iter, max_time, budget : number or None
        Stop after this many iterations, seconds, or entries read for learning. The budget is never exceeded. If entries
        have prices, the budget is the sum that may be paid for them; with a kernel, it counts kernel evaluations, and
        if it is the only rule, a run also ends after 20 times the default iterations. The budget does not include
        what is read for the norms of the rows and for the certificate; `Result.reads` lists it.
    early_stopping : bool
        Stop when the error on the holdout has not improved for a while (for most solvers, while the iterations
        doubled), and return the solution with the smallest error.
    holdout : Holdout or None
        Samples on which each check measures the error.
    certify : bool or "checks"
        Whether to certify the solution on the full data; "checks": at every check.
    callback : callable or None
        Called with a :class:`Progress` at each check; it stops the run by returning True.
    random_state : int, Generator or None
        The seed or generator of all random draws.
    warm : Result, Resume, Learned, Solution or None
        Where to start. A `Result` on the same data, perhaps for another slack or C, is continued: counts, trace and
        limits include the earlier run. This uses up the result's state, so that a result can be continued once. With
        the `resume` of a result, with what an online solver has `Learned` from other rows, or with a `Solution` (for a
        solver with `resumes`), counts, trace and limits start anew.
    checkpoint : str, path, Checkpoint or None
        The file to which the run is saved, about every ten seconds. If the file exists, this call continues the run
        that it holds, and reaches the same bits as a run that was never interrupted. If that run has ended, its result
        is returned at once; delete the file to run again. A checkpoint of other data, parameters, stop rules or another
        version of the library is refused. See :class:`maxmargin.solvers.Checkpoint`.

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import SlackSVM
    >>> from maxmargin.solvers import Simba, solve
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(200) < 0.5, -1.0, 1.0)
    >>> X = rng.normal(size=(200, 20)) + y[:, None]
    >>> result = solve(SlackSVM(X, y, slack=0.01), Simba(), max_iter=500, random_state=0)
    >>> result.status
    'max_iter'
    >>> result.certificate.gap >= 0
    True
    """
    given = StopRules(tol, max_iter, max_time, budget, early_stopping)
    if stop is not None and given != StopRules():
        raise TypeError(f"give the stop rules as one object or one by one, not both; got {stop} and {given}")
    rules = given if stop is None else stop
    _refuse_mismatch(problem, solver, warm)
    if rules.early_stopping and holdout is None:
        raise ValueError("early_stopping needs a holdout to measure the error on")
    if rules.budget is not None and problem.ledger.priced and problem.reads_norms:
        raise ValueError(
            "the form with C reads the norms of all rows, which buys all entries regardless of the budget; give "
            "slack= and a solver of that form, or no budget"
        )
    limits = Limits.of(rules, problem, solver)
    earlier = warm if isinstance(warm, Result) else None
    run = _Run(problem, solver, limits, holdout, certify == "checks", earlier)
    rng = np.random.default_rng(random_state)
    with listen_for_interrupt() as interrupt, limit_blas():
        problem.prepare(USUAL_TOL if limits.tol is None else limits.tol)
        keeper = None
        if checkpoint is not None:
            keeper = _keeper(checkpoint, problem, solver, rng, random_state, rules, holdout, certify, warm)
        found = None if keeper is None else keeper.find()
        if found is not None and "result" in found:
            ended: Result = found["result"]
            return ended
        if found is None:
            resume = warm if earlier is None else earlier.resume
            state = solver.start(problem, rng, resume.take() if isinstance(resume, Resume) else resume)
        else:
            state = run.take(found)
        status = run.iterate(state, interrupt, rules.early_stopping, callback, keeper)
        if interrupt.asked and run.n_iter == 0:
            raise NoModelYet("before the first iteration: there is no model to keep")
        result = run.result("interrupted" if interrupt.asked else status, state)
        _refuse_not_finite(result.solution, solver)
        if certify:
            if problem.ledger.priced and rules.budget is not None:
                too_expensive = Certificate.missing("evaluating the model on all samples would buy all entries")
                result = replace(result, certificate=too_expensive)
            elif run.can_afford_certificate(result):
                result = certified(problem, result, keep_bias=holdout is not None, tighten=rules.budget is None)
            else:
                no_time = Certificate.missing("the time was up before the model was evaluated on all samples")
                result = replace(result, certificate=no_time)
        if keeper is not None and not interrupt.asked and keeper.checkpoint.worth_saving(run.seconds()):
            keeper.save_end(result)
        return replace(result, status="interrupted") if interrupt.asked else result


def _keeper(
    checkpoint: str | PathLike[str] | Checkpoint,
    problem: Problem,
    solver: AnySolver,
    rng: np.random.Generator,
    random_state: int | np.random.Generator | None,
    rules: StopRules,
    holdout: Holdout | None,
    certify: bool | str,
    warm: Result | Resume | Learned | Solution | None,
) -> RunCheckpoint:
    """The object that saves this run, and that recognises checkpoints of other runs."""
    from maxmargin.engine.checkpoint import Checkpoint, RunCheckpoint

    # The state of an earlier run is used up by this one, so that only its solution can be compared.
    begins_at = warm.solution if isinstance(warm, Result) else None if isinstance(warm, Resume) else warm
    held_out = None if holdout is None else {"y": holdout.y, "rows": holdout.rows}
    decisive = {"stop": rules, "holdout": held_out, "certify": certify, "warm": begins_at}
    return RunCheckpoint(Checkpoint.of(checkpoint), problem, solver, rng, random_state, **decisive)


def _refuse_mismatch(problem: Problem, solver: AnySolver, warm: Result | Resume | Learned | Solution | None) -> None:
    """Refuse a problem that the solver cannot take, or a `warm` from which it cannot start."""
    if reason := solver.why_not(problem):
        wrong_type = not isinstance(problem, solver.solves) or (solver.requires - problem.traits) & READS
        kind = TypeError if wrong_type else ValueError
        others = ", ".join(solvers_for(problem)) or "none"
        raise kind(f"solver {solver.name!r} {reason}. Solvers that take this problem: {others}")
    if isinstance(warm, Learned) and not solver.online:
        raise TypeError(f"solver {solver.name!r} cannot go on with other rows; {', '.join(online_solvers())} can")
    if isinstance(warm, Solution) and not solver.resumes:
        raise TypeError(f"solver {solver.name!r} cannot begin at a solution; give the Result of its earlier run")


class _Run(Generic[ProblemT, StateT]):
    """What changes during one call of :func:`solve`, except the state of the solver."""

    def __init__(
        self,
        problem: ProblemT,
        solver: Solver[ProblemT, StateT],
        limits: Limits,
        holdout: Holdout | None,
        every_check: bool,
        warm: Result | None,
    ) -> None:
        self.problem, self.solver, self.limits, self.holdout = problem, solver, limits, holdout
        tol = limits.tol
        # The gap is measured if the solver's own estimate is at most `measure`; None: never.
        self.measure = math.inf if every_check else tol
        self.trace = Trace(() if warm is None else warm.trace, tol)
        last = Row(0, 0.0, 0) if warm is None else warm.trace[-1]
        self.started = time.perf_counter() - last.seconds
        self.already_read = problem.ledger.entries_read - last.entries_read - last.kernel_evaluations
        self.already_spent = problem.ledger.cost - last.cost
        self.n_iter = last.iteration
        self.best: Solution | None = None  # None: the solver's current solution
        self.best_iter = 0
        self.best_score = -math.inf
        self.best_estimate = math.inf  # the solver's estimate of the relative gap of the best solution
        self.proved = Certificate.missing("no check was made")
        self.certificate = self.proved
        self.proof: Proof = (None, None)  # the dual weights of the best bound, and their sum of rows
        self.proven_gap = math.inf  # smallest certified gap, perhaps not that of the best solution on the holdout
        self.evaluation: Evaluation | None = None
        self.chunk = 1
        # The estimate of the gap when the gap was last measured, and the number of checks since then.
        self.last_estimate, self.waited = math.inf, 0
        self.gap = self.first_gap = math.nan  # the last and the first known relative gap, measured or estimated
        self.next_check: int | None = None  # the iteration of the next check; None: not known yet

    def kept(self) -> dict[str, Any]:
        """For a checkpoint: everything that changes, except the state of the solver."""
        given = ("problem", "solver", "limits", "holdout", "measure", "started")
        return {name: value for name, value in vars(self).items() if name not in given} | {"seconds": self.seconds()}

    def take(self, found: dict[str, Any]) -> StateT:
        """Continue from a checkpoint, and return the state of the solver."""
        kept = found["run"]
        self.started = time.perf_counter() - kept.pop("seconds")
        vars(self).update(kept)
        state: StateT = found["state"]
        return state

    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def entries(self) -> int:
        return self.problem.ledger.entries_read - self.already_read

    def spent(self) -> float:
        """What counts against the budget: entries read, or their prices if entries have prices."""
        return self.problem.ledger.cost - self.already_spent

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.seconds() >= self.limits.max_time

    def iterate(
        self,
        state: StateT,
        interrupt: Interrupt,
        early_stopping: bool,
        callback: Callable[[Progress], bool | None] | None,
        keeper: RunCheckpoint | None = None,
    ) -> str:
        """Iterate and check until a rule says to stop; return its name."""
        solver, problem, limits = self.solver, self.problem, self.limits
        while True:
            if self.next_check is None:
                self.next_check = max(self.n_iter + 1, solver.next_check(problem, state, self.n_iter))
            reason = self.advance(state, self.next_check, interrupt, keeper)
            if reason is Reason.BUDGET and self.n_iter == 0:
                unit = "" if problem.ledger.priced else " entries"
                raise ValueError(
                    f"a budget of {limits.budget:,}{unit} is too small for one iteration of {solver.name!r} on this "
                    f"data of {problem.X.shape[0]:,} rows and {problem.X.shape[1]:,} columns; give at least what an "
                    "iteration reads, which may be a row, a row and a column, or all of the data"
                )
            status = self._out_of_limits(reason, interrupt)
            row = self.check(state)
            tol = math.nan if limits.tol is None else limits.tol
            progress = Progress(row, self.share_done(), self.gap, tol, lambda: self.best_solution(state))
            if callback is not None and callback(progress) and not status:
                status = "callback"
            status = status or self._good_enough(state, reason, early_stopping)
            self.next_check = None
            # Ctrl-C or the time limit may have come during the check; another check would only repeat this one.
            if not status and (interrupt.asked or self.late):
                status = "interrupted" if interrupt.asked else "max_time"
                if keeper is not None and interrupt.asked:
                    keeper.save(run=self.kept(), state=state)
            if status:
                return status

    def _out_of_limits(self, reason: Reason, interrupt: Interrupt) -> str:
        """The name of the limit that ended the last steps; empty if none did."""
        if interrupt.asked:
            return "interrupted"
        if reason is Reason.BUDGET:
            return "budget"
        if self.n_iter >= self.limits.max_iter:
            return self.limits.last_status
        return "max_time" if self.late else ""

    def _good_enough(self, state: StateT, reason: Reason, early_stopping: bool) -> str:
        """The name of the rule by which the solution is good enough or cannot improve; empty if there is none."""
        if self.limits.tol is not None and self.proven_gap <= self.limits.tol:
            return "tol"
        if reason is Reason.SETTLED:
            return "finished"
        if self.limits.endless and self.solver.exhausted(self.problem, state):
            return "max_iter"
        return "early_stopping" if early_stopping and self.stale(state) else ""

    def advance(self, state: StateT, until: int, interrupt: Interrupt, keeper: RunCheckpoint | None = None) -> Reason:
        """Make iterations until the iteration `until`, a limit or Ctrl-C; return why the last step ended."""
        limits, step = self.limits, Step(0)
        until = min(until, limits.max_iter)
        # Make at least one iteration, however short the time limit: there must be a model.
        while self.n_iter < until and not interrupt.asked and not (self.late and self.n_iter > 0):
            wanted = min(self.chunk, until - self.n_iter)
            before = time.perf_counter()
            try:
                step = self.solver.step(self.problem, state, wanted, limits.budget - self.spent())
            except ArithmeticError as error:
                raise _out_of_range(self.solver) from error
            self.problem.ledger.raise_failure()
            self.n_iter += step.iterations
            if step.reason is not Reason.DONE:
                break
            # After Ctrl-C, save too: the check that follows is not part of a run that continues later.
            if keeper is not None and (keeper.due or interrupt.asked):
                keeper.save(can_wait=not interrupt.asked, run=self.kept(), state=state)
            if time.perf_counter() - before < CHUNK_SECONDS / 2:
                self.chunk = min(2 * self.chunk, UNLIMITED)
            elif time.perf_counter() - before > CHUNK_SECONDS:
                self.chunk = max(1, self.chunk // 2)
        return step.reason

    def check(self, state: StateT) -> Row:
        """Measure the current solution, append a row to the trace, and keep the best solution."""
        seconds, error, score = self.seconds(), math.nan, math.nan
        solution, evaluation, certificate = None, None, Certificate.missing("certify=False")
        estimate = self.solver.estimated_gap(self.problem, state)
        if self.worth_measuring(estimate):
            solution = self.solution(state)
            with self.problem.ledger.on("certificate"):
                evaluation = self.problem.evaluate_solution(solution, keep_bias=False)
                certificate, dual = self.problem.certify_evaluated(evaluation, solution.p, solution.v)
            certificate, self.proof = best_proof(certificate, dual, self.proved, self.proof)
            self.proved, solution = certificate, evaluation.solution(*self.proof)
            score, self.proven_gap = certificate.score, min(self.proven_gap, certificate.relative_gap)
        if self.holdout is not None:
            solution = solution or self.solution(state)
            error = self.holdout.error(solution, self.problem.scale)
            score = -error
        on_kernel = Trait.KERNEL in self.problem.traits
        row = Row(
            self.n_iter,
            seconds,
            entries_read=0 if on_kernel else self.entries(),
            kernel_evaluations=self.entries() if on_kernel else 0,
            primal=certificate.primal,
            dual=certificate.dual,
            gap=certificate.gap,
            holdout_error=error,
            estimated_gap=estimate if math.isfinite(estimate) else math.nan,
            paid=self.spent() if self.problem.ledger.priced else math.nan,
        )
        self.trace.append(row)
        self.note_gap(certificate.relative_gap if certificate else estimate)
        # Of equally good solutions, and if nothing was measured, keep the latest: it has learned more. A solution that
        # was measured is replaced by one that was not only if the solver's estimate is smaller.
        worse = score < self.best_score or (math.isnan(score) and estimate >= self.best_estimate and self.certificate)
        if not worse:
            self.best, self.best_iter, self.best_score, self.best_estimate = solution, self.n_iter, score, estimate
            self.evaluation, self.certificate = evaluation, certificate
        elif self.certificate:
            # The best solution stays, but its bound may have become tighter since it was found.
            self.certificate = self.certificate.tightened(self.proved)
            assert self.best is not None
            self.best = Solution(self.best.w, self.best.b, *self.proof)
            self.proven_gap = min(self.proven_gap, self.certificate.relative_gap)
        return row

    def note_gap(self, gap: float) -> None:
        """Remember a relative gap, if it is known."""
        if 0 < gap < math.inf:
            self.gap = gap
            self.first_gap = gap if math.isnan(self.first_gap) else self.first_gap

    def share_done(self) -> float:
        """The share of the run that is done, by the nearest stop rule; see :class:`Progress`."""
        shares, tol = self.limits.shares(self.n_iter, self.spent(), self.seconds()), self.limits.tol
        if tol is not None and 0 < tol < self.first_gap:
            shares.append(math.log(self.first_gap / self.gap) / math.log(self.first_gap / tol))
        return min(1.0, max(0.0, *shares)) if shares else math.nan

    def worth_measuring(self, estimate: float) -> bool:
        """Whether to measure the gap: the estimate is small enough, and smaller than one that proved too small."""
        if self.measure is None:
            return False
        self.waited += 1
        if estimate > self.measure or (self.waited < LONGEST_WAIT and estimate > BETTER_ESTIMATE * self.last_estimate):
            return False
        self.last_estimate, self.waited = (estimate if estimate > 0 and self.measure < math.inf else math.inf), 0
        return True

    def best_solution(self, state: StateT) -> Solution:
        """The best solution so far."""
        return self.best or self.solution(state)

    def solution(self, state: StateT) -> Solution:
        """The solver's current solution. What is read to compute it does not count as learning."""
        with self.problem.ledger.on("solution"):
            return self.solver.solution(self.problem, state)

    def stale(self, state: StateT) -> bool:
        """Whether the error on the holdout has not improved for longer than the solver's patience."""
        return self.n_iter >= self.solver.patience(self.problem, state, self.best_iter)

    def can_afford_certificate(self, result: Result) -> bool:
        """Whether there is time left, or evaluating the solution on all samples is a small part of the work so far."""
        if result.status not in OUT_OF_TIME or result.evaluation is not None:
            return True
        return self.problem.evaluation_cost(result.solution.w) <= max(FREE_AFTER_TIME, MOST_AFTER_TIME * self.entries())

    def result(self, status: str, state: StateT) -> Result:
        return Result(
            self.best_solution(state),
            self.certificate,
            self.evaluation,
            self.trace,
            status,
            self.n_iter,
            self.best_iter,
            self.problem.ledger.summary(),
            self.solver.promise(self.problem) if status == "finished" else {},
            Resume(state, self.problem),
        )


def _refuse_not_finite(solution: Solution, solver: AnySolver) -> None:
    """Refuse a solution with numbers that are not finite."""
    numbers = np.asarray(getattr(solution.w, "beta", solution.w))  # coefficients, if w is in a kernel's space
    if not (np.isfinite(numbers).all() and math.isfinite(solution.b)):
        raise _out_of_range(solver)


def _out_of_range(solver: AnySolver) -> ValueError:
    return ValueError(
        f"solver {solver.name!r} came to numbers beyond what floats can hold. Center and scale the features, for "
        "instance with sklearn.preprocessing.StandardScaler, choose a C or weights nearer to 1, or another solver"
    )
