r"""A semidefinite program by a solver of feasibility problems: bisection on the value v of C.X.

Problem: max C.X over the feasible X. Given: a solver of :math:`\max_{X''} \min_i A_i'' \bullet X''`. Returned: X as a
factor, its value, its largest violation of a constraint, and an upper bound of the value of every feasible X.

Each try adds the constraint :math:`C \bullet X \ge v` and asks the solver for an X. X is then measured on all of the
data. It raises the lower end of the bracket if it violates no constraint by more than the accepted amount. The weights
p become multipliers, whose bound lowers the upper end by weak duality (:class:`maxmargin.problems.SemidefiniteProgram`
derives both).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.threads import limit_blas
from maxmargin.engine.interrupt import Interrupt, listen_for_interrupt
from maxmargin.engine.loop import solve
from maxmargin.engine.problem import Solution
from maxmargin.engine.result import Progress
from maxmargin.sdp.eigen import factor
from maxmargin.sdp.program import SemidefiniteProgram
from maxmargin.sdp.sublinear import SublinearSdp

Array = NDArray[np.float64]

# A point is measured after 64 iterations of a game, and then whenever they have doubled. Measuring reads all of the
# data.
FIRST_MEASUREMENT, MEASUREMENT_GROWTH = 64, 2
LARGEST_EPS = 0.5  # largest eps of the first game of a try
FACTOR_TOLERANCE = 1e-6  # largest share of the trace of X that its factor leaves out


@dataclass(frozen=True)
class SdpAnswer:
    """A point X, measured on all of the data.

    Attributes
    ----------
    factor : array of shape (n, r)
        V, with X = V V'.
    value : float
        C.X, the objective.
    violation : float
        The largest violation of a constraint, in the units of the program.
    scaled_violation : float
        The largest violation divided by the norm N_i of its constraint, which is comparable with eps.
    """

    factor: Array
    value: float
    violation: float
    scaled_violation: float

    @property
    def X(self) -> Array:
        """The point itself."""
        return np.asarray(self.factor @ self.factor.T)

    @property
    def rank(self) -> int:
        return int(self.factor.shape[1])


@dataclass(frozen=True)
class SdpTry:
    """One try of the bisection.

    Attributes
    ----------
    asked : float
        v in the constraint C.X >= v; NaN for a try that asked for any feasible X.
    answer : SdpAnswer or None
        The last point that was measured.
    bound : float
        The best bound of this try and the tries before it.
    iterations, entries_read : int
        Iterations made, and entries read for learning.
    status : str
        "reached", "impossible" (proved by the weights), or why the solver stopped without either.
    """

    asked: float
    answer: SdpAnswer | None
    bound: float
    iterations: int
    entries_read: int
    status: str


@dataclass(frozen=True)
class SdpResult:
    """The result of :func:`solve_sdp`.

    Attributes
    ----------
    answer : SdpAnswer
        The answer with the largest value among those whose scaled violation is accepted; if there is none, the answer
        with the smallest violation.
    accepted : float
        The largest scaled violation that was accepted.
    bound : float
        No feasible X has a value above this bound; minus infinity: there is no feasible X.
    y : array of shape (m,)
        The multipliers that prove the bound.
    status : str
        Why the search ended: "tol" (value and bound are close enough), "stalled" (all values in between were asked for
        without success), "infeasible" (proved), "not found" (no X was acceptable), "max_tries", "max_time", "budget",
        "callback" or "interrupted".
    tries : list of SdpTry
        All tries, in order.
    reads : dict
        Entries read, by purpose.
    """

    answer: SdpAnswer
    accepted: float
    bound: float
    y: Array
    status: str
    tries: list[SdpTry]
    reads: dict[str, int | float]

    @property
    def entries_read(self) -> int:
        """Entries read by the solver; `reads` also counts entries read to measure answers and to prove bounds."""
        return int(self.reads["learning"])

    @property
    def feasible(self) -> bool:
        """Whether the scaled violation of the answer is accepted."""
        return self.answer.scaled_violation <= self.accepted

    def __str__(self) -> str:
        if self.bound == -math.inf:
            return "no X is feasible: the multipliers prove it"
        value_and_bound = f"{self.answer.value:.6g}, and no feasible X has more than {self.bound:.6g}"
        if not self.feasible:
            return f"no acceptable X was found; the nearest one has the value {value_and_bound}"
        return f"the value is {value_and_bound}; the constraints hold to within {self.answer.violation:.3g}"


@limit_blas()
def solve_sdp(
    program: SemidefiniteProgram,
    solver: SublinearSdp,
    *,
    tol: float = 0.01,
    accepted: float | None = None,
    max_tries: int = 40,
    max_time: float | None = None,
    budget: int | None = None,
    callback: Callable[[SdpTry], bool | None] | None = None,
    random_state: int | np.random.Generator | None = None,
) -> SdpResult:
    r"""Maximise C.X by bisection on v in the constraint C.X >= v.

    The first try asks for any feasible X, unless a multiple of the identity is feasible. The bracket is then between
    the value of that X and :math:`R\lambda^+(C)`, and each further try asks for the middle of the bracket. A try ends
    as soon as a measured X has the value v, or the weights prove that no X has this value, or the solver has made all
    of its iterations. In the last case, the search continues as if v were impossible, but the reported bound stays
    where it was proved.

    Parameters
    ----------
    program : SemidefiniteProgram
        The program to solve.
    solver : SublinearSdp
        The solver, whose eps is that of the last game of a try. The games before have larger eps, each twice the next
        one: they take fewer rounds and are often enough.
    tol : float, default=0.01
        Stop when the difference between value and bound is at most this share of the larger of the two.
    accepted : float or None
        The largest scaled violation with which an X is accepted. None: the eps of the solver, which its theorem
        promises if the program is feasible.
    max_tries, max_time, budget : number or None
        Stop after this many tries, seconds, or entries read for learning.
    callback : callable or None
        Called with each :class:`SdpTry`; it stops the search by returning True.
    random_state : int, Generator or None
        The seed or generator of all random draws.

    Returns
    -------
    SdpResult

    Examples
    --------
    The larger eigenvalue of a matrix, if the first entry of the diagonal of X may be at most a quarter:

    >>> import numpy as np
    >>> from maxmargin.problems import SemidefiniteProgram
    >>> from maxmargin.solvers import SublinearSdp, solve_sdp
    >>> C, A = np.diag([2.0, 1.0]), np.array([np.diag([1.0, 0.0])])
    >>> program = SemidefiniteProgram(C, A, [0.25], "<=", 1.0, trace="exactly")
    >>> result = solve_sdp(program, SublinearSdp(eps=0.05, constant=1), random_state=0)
    >>> result.feasible, bool(result.bound >= 1.25), bool(abs(result.answer.value - 1.25) < 0.2)
    (True, True, True)
    """
    if not tol > 0:
        raise ValueError(f"tol must be positive, a share of the value; got {tol!r}")
    if not max_tries >= 1:
        raise ValueError(f"max_tries must be at least 1; got {max_tries!r}")
    for name, limit in ("accepted", accepted), ("max_time", max_time), ("budget", budget):
        if limit is not None and not limit > 0:
            raise ValueError(f"{name} must be positive or None; got {limit!r}")
    accepted = solver.eps if accepted is None else accepted
    with listen_for_interrupt() as interrupt:
        search = _Bisection(program, solver, tol, accepted, max_time, budget, np.random.default_rng(random_state))
        return search.run(max_tries, callback, interrupt)


@dataclass
class _Bisection:
    """The state of one call of :func:`solve_sdp`: the best answer, the best bound, and the tries so far."""

    program: SemidefiniteProgram
    solver: SublinearSdp
    tol: float
    accepted: float
    max_time: float | None
    budget: int | None
    rng: np.random.Generator
    best: SdpAnswer | None = None
    bound: float = math.inf
    y: Array = field(default_factory=lambda: np.empty(0))
    undecided: float = math.inf  # the smallest value that was neither reached nor proved impossible
    tries: list[SdpTry] = field(default_factory=list)

    def run(self, max_tries: int, callback: Any, interrupt: Interrupt) -> SdpResult:
        self.started, self.already_read = time.perf_counter(), self.program.ledger.entries_read
        self.round_reads = self.program.feasibility().round_reads
        self.prove(np.zeros(self.program.m))
        first = self.measure(np.zeros((self.program.size, self.program.size)))
        asked, status = (self.middle(), self.settled()) if self.is_accepted(first) else (math.nan, "")
        while not status:
            self.tries.append(self.attempt(asked))
            stop = callback is not None and bool(callback(self.tries[-1]))
            last_try = "max_tries" if len(self.tries) >= max_tries else ""
            status = "callback" if stop else "interrupted" if interrupt.asked else self.settled() or last_try
            asked = self.middle()
        assert self.best is not None
        return SdpResult(
            self.best, self.accepted, self.bound, self.y, status, self.tries, self.program.ledger.summary()
        )

    # One try

    def attempt(self, asked: float) -> SdpTry:
        """Ask for an X with C.X >= asked, or for any feasible X; keep the best answer and the best bound."""
        value = None if math.isnan(asked) else asked
        problem = self.program.feasibility(value)
        read_before = self.program.ledger.entries_read
        last: SdpAnswer | None = None
        verdict, next_measurement, rounds = "", FIRST_MEASUREMENT, 0

        def judge(solution: Solution) -> str:
            nonlocal last
            last = self.measure(np.asarray(solution.w))
            if solution.p is not None:
                self.prove(self.program.multipliers(solution.p, value))
            if self.bound == -math.inf or self.bound < asked:
                return "impossible"
            return "reached" if self.is_accepted(last) and not last.value < asked else ""

        def judge_when_due(progress: Progress) -> bool:
            nonlocal verdict, next_measurement
            if progress.row.iteration >= next_measurement:
                verdict = judge(progress.solution())
                next_measurement = MEASUREMENT_GROWTH * progress.row.iteration
            return bool(verdict)

        for eps in self.games():
            next_measurement = FIRST_MEASUREMENT
            result = solve(
                problem,
                replace(self.solver, eps=eps),
                max_time=None if self.max_time is None else max(self.seconds_left(), 1e-9),
                budget=None if self.budget is None else self.entries_left(),
                certify=False,
                callback=judge_when_due,
                random_state=self.rng,
            )
            rounds += result.n_iter
            verdict = verdict or judge(result.solution)
            if verdict or result.status != "finished" or self.spent():
                break
        if not verdict and value is not None:
            self.undecided = min(self.undecided, asked)
        read = self.program.ledger.entries_read - read_before
        return SdpTry(asked, last, self.bound, rounds, read, verdict or result.status)

    def games(self) -> Iterator[float]:
        """The eps of each game of a try: the first is large and takes few rounds, each next one is half as large."""
        games = math.floor(math.log2(LARGEST_EPS / self.solver.eps)) if self.solver.eps < LARGEST_EPS else 0
        return (self.solver.eps * 2**k for k in range(games, -1, -1))

    def measure(self, lifted: Array) -> SdpAnswer:
        """Measure a point on all of the data, and keep it if it is the best so far."""
        V = factor(self.program.recover(lifted), FACTOR_TOLERANCE)
        X = V @ V.T
        with self.program.ledger.on("certificate"):
            violations, value = self.program.violations(X), self.program.value(X)
        answer = SdpAnswer(V, value, float(violations.max()), float((violations / self.program.norms).max()))
        if self.best is None or self.sort_key(answer) > self.sort_key(self.best):
            self.best = answer
        return answer

    def is_accepted(self, answer: SdpAnswer) -> bool:
        """Whether the answer violates no constraint by more than the accepted amount."""
        return answer.scaled_violation <= self.accepted

    def sort_key(self, answer: SdpAnswer) -> tuple[bool, float]:
        """The order of answers: accepted answers come first, by value; then the others, by violation."""
        accepted = self.is_accepted(answer)
        return accepted, answer.value if accepted else -answer.scaled_violation

    def prove(self, y: Array) -> None:
        """Compute the best bound of the multiples of y, and keep it if it is the best so far."""
        with self.program.ledger.on("certificate"):
            bound, y = self.program.best_bound(y)
        if bound < self.bound:
            self.bound, self.y = bound, y

    # The bracket, and when to stop

    def middle(self) -> float:
        """The middle of the bracket, between the best value and the smallest value that is impossible or undecided."""
        assert self.best is not None
        return (self.best.value + min(self.bound, self.undecided)) / 2

    def settled(self) -> str:
        """The status if no further try is to be made, else an empty string."""
        assert self.best is not None
        value, size = self.best.value, max(abs(self.best.value), abs(self.bound), 1e-12)
        accepted = self.is_accepted(self.best)
        if self.bound == -math.inf:
            return "infeasible"
        if accepted and self.bound - value <= self.tol * size:
            return "tol"
        if limit := self.spent():
            return limit
        if not accepted:
            return "not found"
        return "stalled" if self.undecided - value <= self.tol / 4 * size else ""

    def spent(self) -> str:
        """The name of the limit that allows no further round; empty if there is none."""
        if self.max_time is not None and self.seconds_left() <= 0:
            return "max_time"
        return "budget" if self.budget is not None and self.entries_left() < self.round_reads else ""

    def seconds_left(self) -> float:
        assert self.max_time is not None
        return self.max_time - (time.perf_counter() - self.started)

    def entries_left(self) -> int:
        assert self.budget is not None
        return self.budget - (self.program.ledger.entries_read - self.already_read)
