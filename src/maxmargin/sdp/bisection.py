r"""A semidefinite program by a solver that only knows feasibility: bisection on what is asked of C.X.

Problem: max C.X over the feasible X. Given: a solver of :math:`\max_{X''} \min_i A_i'' \bullet X''`. Returned: X as a
factor, its value, how far at most it misses a constraint, and a bound that no feasible X can beat.

Each try adds the constraint :math:`C \bullet X \ge v` and asks the solver for an X. What the solver believes does not
count: X is measured on all of the data, and raises the lower end of the bracket if it misses no constraint by more than
what is accepted; the weights p become multipliers, whose bound, by weak duality, lowers the upper end
(:class:`maxmargin.problems.SemidefiniteProgram` derives both).
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
from maxmargin.engine.loop import Progress, solve
from maxmargin.engine.problem import Solution
from maxmargin.sdp.eigen import factor
from maxmargin.sdp.program import SemidefiniteProgram
from maxmargin.sdp.sublinear import SublinearSdp

Array = NDArray[np.float64]

FIRST_LOOK, LOOK_GROWTH = 64, 2  # iterations before an answer is measured, and their growth: it reads all of the data
LARGEST_EPS = 0.5  # of the first game of a try
DROPPED = 1e-6  # the share of the trace that a factor may leave out


@dataclass(frozen=True)
class SdpAnswer:
    """A point that was measured on all of the data.

    Attributes
    ----------
    factor : array of shape (n, r)
        V: X = V V'.
    value : float
        C.X.
    violation : float
        By how much it misses the constraint that it misses most, in the units of the program.
    scaled_violation : float
        The same, of violations divided by N_i, the sizes of the constraints: what is compared with eps.
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
    """One try of the bisection: what was asked, what came of it.

    Attributes
    ----------
    asked : float
        v, what C.X was to be at least; NaN where any feasible X would do.
    answer : SdpAnswer or None
        The last that was measured.
    bound : float
        The best bound so far, of this try and of those before.
    iterations, entries_read : int
        What it took; entries read for learning.
    status : str
        "reached", "impossible" (its weights prove that), or why the solver stopped without either.
    """

    asked: float
    answer: SdpAnswer | None
    bound: float
    iterations: int
    entries_read: int
    status: str


@dataclass(frozen=True)
class SdpResult:
    """What :func:`solve_sdp` returns.

    Attributes
    ----------
    answer : SdpAnswer
        The best: of those that miss no constraint by more than is accepted the one of the largest value, else the one
        that misses least.
    accepted : float
        The scaled violation that was accepted.
    bound : float
        No feasible X has a larger value; minus infinity: there is no feasible X.
    y : array of shape (m,)
        The multipliers that prove it.
    status : str
        "tol" (value and bound are close enough), "stalled" (closer ones were asked for in vain), "infeasible" (proved),
        "not found" (no X was acceptable), "max_tries", "max_time", "budget", "callback" or "interrupted".
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
    reads: dict[str, int]

    @property
    def entries_read(self) -> int:
        """Entries read by the solver; what was read to measure and to prove is apart, in `reads`."""
        return self.reads["learning"]

    @property
    def feasible(self) -> bool:
        """Whether the answer misses no constraint by more than is accepted."""
        return self.answer.scaled_violation <= self.accepted

    def __str__(self) -> str:
        if self.bound == -math.inf:
            return "no X is feasible: the multipliers prove it"
        what = f"{self.answer.value:.6g}, and no feasible X has more than {self.bound:.6g}"
        if not self.feasible:
            return f"no acceptable X was found; the nearest one has the value {what}"
        return f"the value is {what}; the constraints hold to within {self.answer.violation:.3g}"


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
    r"""Maximise C.X by bisection on the constraint that it is at least v.

    The first try asks for any feasible X, unless the middle of all X is one. The bracket is then between its value and
    :math:`R\lambda^+(C)`, and each further try asks for the middle of it. A try ends as soon as a measured X has what
    was asked, or the weights prove that none can, or the solver comes to its end; then v counts as out of reach
    without a proof, and only the bound that is reported stays where it was proved.

    Parameters
    ----------
    program : SemidefiniteProgram
        What to solve.
    solver : SublinearSdp
        Its eps is that of the last game of a try; before come games of larger ones, each twice the next, which are over
        sooner and often enough.
    tol : float, default=0.01
        Stop when value and bound are within this share of the larger.
    accepted : float or None
        The scaled violation up to which an X counts. None: the eps of the solver, which its theorem promises
        where the program is feasible.
    max_tries, max_time, budget : number or None
        Stop after so many tries, seconds, entries read for learning.
    callback : callable or None
        Called with each :class:`SdpTry`; stops by returning True.
    random_state : int, Generator or None
        The one source of randomness.

    Returns
    -------
    SdpResult

    Examples
    --------
    The larger eigenvalue of a matrix, whose eigenvector may not stand on the first coordinate by more than a quarter:

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
    for name, most in ("accepted", accepted), ("max_time", max_time), ("budget", budget):
        if most is not None and not most > 0:
            raise ValueError(f"{name} must be positive or None; got {most!r}")
    fine = solver.eps if accepted is None else accepted
    with listen_for_interrupt() as interrupt:
        search = _Search(program, solver, tol, fine, max_time, budget, np.random.default_rng(random_state))
        return search.run(max_tries, callback, interrupt)


@dataclass
class _Search:
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
    in_vain: float = math.inf  # the least value that was asked for and neither reached nor disproved
    tries: list[SdpTry] = field(default_factory=list)

    def run(self, max_tries: int, callback: Any, interrupt: Interrupt) -> SdpResult:
        self.started, self.already_read = time.perf_counter(), self.program.ledger.entries_read
        self.round_reads = self.program.feasibility().round_reads
        self.prove(np.zeros(self.program.m))
        middle = self.measure(np.zeros((self.program.size, self.program.size)))
        fine = middle.scaled_violation <= self.accepted
        asked, status = (self.middle(), self.settled()) if fine else (math.nan, "")
        while not status:
            self.tries.append(self.attempt(asked))
            stop = callback is not None and bool(callback(self.tries[-1]))
            over = "max_tries" if len(self.tries) >= max_tries else ""
            status = "callback" if stop else "interrupted" if interrupt.asked else self.settled() or over
            asked = self.middle()
        assert self.best is not None
        return SdpResult(
            self.best, self.accepted, self.bound, self.y, status, self.tries, self.program.ledger.summary()
        )

    # One try

    def attempt(self, asked: float) -> SdpTry:
        """Ask for an X with C.X >= asked, or for any; keep the best answer and the best bound that come of it."""
        value = None if math.isnan(asked) else asked
        problem = self.program.feasibility(value)
        before = self.program.ledger.entries_read
        last: SdpAnswer | None = None
        verdict, due, rounds = "", FIRST_LOOK, 0

        def look(solution: Solution) -> str:
            nonlocal last
            last = self.measure(np.asarray(solution.w))
            if solution.p is not None:
                self.prove(self.program.multipliers(solution.p, value))
            if self.bound == -math.inf or self.bound < asked:
                return "impossible"
            return "reached" if last.scaled_violation <= self.accepted and not last.value < asked else ""

        def look_now_and_then(progress: Progress) -> bool:
            nonlocal verdict, due
            if progress.row.iteration >= due:
                verdict, due = look(progress.solution()), LOOK_GROWTH * progress.row.iteration
            return bool(verdict)

        for eps in self.games():
            due = FIRST_LOOK
            result = solve(
                problem,
                replace(self.solver, eps=eps),
                max_time=None if self.max_time is None else max(self.seconds_left(), 1e-9),
                budget=None if self.budget is None else self.entries_left(),
                certify=False,
                callback=look_now_and_then,
                random_state=self.rng,
            )
            rounds += result.n_iter
            verdict = verdict or look(result.solution)
            if verdict or result.status != "finished" or self.spent():
                break
        if not verdict and value is not None:
            self.in_vain = min(self.in_vain, asked)
        read = self.program.ledger.entries_read - before
        return SdpTry(asked, last, self.bound, rounds, read, verdict or result.status)

    def games(self) -> Iterator[float]:
        """The eps of each game of a try: a large one, which takes few rounds, then halves, down to the solver's."""
        games = math.floor(math.log2(LARGEST_EPS / self.solver.eps)) if self.solver.eps < LARGEST_EPS else 0
        return (self.solver.eps * 2**k for k in range(games, -1, -1))

    def measure(self, lifted: Array) -> SdpAnswer:
        """A point on all of the data; it is kept if it is the best so far."""
        V = factor(self.program.recover(lifted), DROPPED)
        X = V @ V.T
        with self.program.ledger.on("certificate"):
            missed, value = self.program.violations(X), self.program.value(X)
        answer = SdpAnswer(V, value, float(missed.max()), float((missed / self.program.norms).max()))
        if self.best is None or self.worth(answer) > self.worth(self.best):
            self.best = answer
        return answer

    def worth(self, answer: SdpAnswer) -> tuple[bool, float]:
        """What is acceptable comes first, by its value; the rest by how little it misses."""
        fine = answer.scaled_violation <= self.accepted
        return fine, answer.value if fine else -answer.scaled_violation

    def prove(self, y: Array) -> None:
        """The bound of multipliers and of their multiples; it is kept if it is the best so far."""
        with self.program.ledger.on("certificate"):
            bound, y = self.program.best_bound(y)
        if bound < self.bound:
            self.bound, self.y = bound, y

    # The bracket, and when to stop

    def middle(self) -> float:
        assert self.best is not None
        return (self.best.value + min(self.bound, self.in_vain)) / 2

    def settled(self) -> str:
        """Why no further try is made, if none is."""
        assert self.best is not None
        value, size = self.best.value, max(abs(self.best.value), abs(self.bound), 1e-12)
        fine = self.best.scaled_violation <= self.accepted
        if self.bound == -math.inf:
            return "infeasible"
        if fine and self.bound - value <= self.tol * size:
            return "tol"
        if over := self.spent():
            return over
        if not fine:
            return "not found"
        return "stalled" if self.in_vain - value <= self.tol / 4 * size else ""

    def spent(self) -> str:
        """The limit that leaves no room for another round, if one does."""
        if self.max_time is not None and self.seconds_left() <= 0:
            return "max_time"
        return "budget" if self.budget is not None and self.entries_left() < self.round_reads else ""

    def seconds_left(self) -> float:
        assert self.max_time is not None
        return self.max_time - (time.perf_counter() - self.started)

    def entries_left(self) -> int:
        assert self.budget is not None
        return self.budget - (self.program.ledger.entries_read - self.already_read)
