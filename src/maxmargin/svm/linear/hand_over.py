r"""Dual coordinate ascent that hands over to Newton's method if it turns out to be slow.

Problem: the regularised form with C, either loss, any kind of bias. Given: the data by rows. Returned: w, b and the
dual point that proves how good they are.

How many sweeps coordinate ascent needs depends on the labels as much as on the shape of the data. So the solver begins
with coordinate ascent, which is cheap, and estimates from the fall of the gap how many more sweeps are needed. If these
would cost more than Newton's method, Newton's method takes over.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from maxmargin.engine.loop import USUAL_TOL
from maxmargin.engine.problem import Problem, Solution
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.svm.linear._sdca import Descent
from maxmargin.svm.linear.newton import Newton, NewtonState
from maxmargin.svm.linear.sdca import Sdca, sweeps_between_checks
from maxmargin.svm.regularized import RegularizedSVM

EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)
LOOK_GROWTH = 1.05  # the gap is recorded after a sweep if the passes have grown by this factor since the last record
FEWEST_LOOKS = 3  # recorded gaps that are needed to judge their fall
MOST_PASSES, MOST_NEWTON_ITERATIONS = 2000, 1000  # limits of a fit without stop rules, as in either solver
WORTH_KEEPING = 0.5  # relative gap above which Newton's method begins at 0, on growing subsets, which is then as fast
# Ratio of C to a C at which sweeps were given up; above this ratio they are not tried again. A smaller C takes fewer.
STILL_SLOW = 0.2
# Both are the best of a few values on 150 problems of random shapes (`benchmarks/auto_linear.py --shapes`). With
# smaller values, sweeps were given up that would soon have ended. The unit is the cost of Newton's method.
TRIAL = 0.3  # smallest cost of sweeps before they may be given up; this much is then lost
MARGIN = 1.5  # sweeps are given up if the remaining ones are estimated to cost more than this


@dataclass
class HandOverState:
    """The state of coordinate ascent and what its sweeps have shown; after the hand-over, also that of Newton."""

    dual_signature: tuple[Any, ...]  # signature of the problem, to recognise it in a warm start
    total_weight: float  # the sum of C s_i of the problem
    descent: Descent
    newton: NewtonState | None = None
    newton_iterations: int = 0
    read: int = 0  # entries that coordinate ascent has read
    passes: list[float] = field(default_factory=list)  # `read` at the end of some sweeps; unit: all stored entries
    gaps: list[float] = field(default_factory=list)  # the estimated relative gap at the end of these sweeps
    slow: bool = False  # whether the gap has fallen so slowly that Newton's method is to take over


@dataclass(frozen=True)
class SdcaThenNewton(Solver[RegularizedSVM, HandOverState]):
    r"""Dual coordinate ascent that hands over to Newton's method if that is estimated to be faster.

    An iteration is a sweep of :class:`~maxmargin.solvers.Sdca` over its active samples, or an iteration of
    :class:`~maxmargin.solvers.Newton`. After each sweep, the solver extrapolates from the fall of the gap how much is
    left to read until the gap is at the default tolerance, or, if it is already, at a thousandth of its present value.
    The clock plays no part.

    Parameters
    ----------
    newton_passes : float, default=100
        The expected cost of Newton's method, in passes of coordinate ascent; a pass reads each stored entry once.
        ``auto_solver`` estimates it from the shape of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import RegularizedSVM, solve
    >>> from maxmargin.solvers import SdcaThenNewton
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(500) < 0.5, -1.0, 1.0)
    >>> X = rng.normal(size=(500, 5)) + 0.2 * y[:, None]
    >>> result = solve(RegularizedSVM(X, y, C=100.0), SdcaThenNewton(), random_state=0)
    >>> result.status, result.state.newton is not None
    ('tol', True)
    """

    name: ClassVar[str] = "sdca_newton"
    solves: ClassVar[type[Problem]] = RegularizedSVM
    default_tol: ClassVar[float | None] = USUAL_TOL
    resumes: ClassVar[bool] = True

    newton_passes: float = 100.0

    def __post_init__(self) -> None:
        if not self.newton_passes >= 0:
            raise ValueError(f"newton_passes must be a number of at least 0; got {self.newton_passes!r}")

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> HandOverState:
        weight = float(problem.u.sum())
        if isinstance(warm, HandOverState):
            if all(map(np.array_equal, warm.dual_signature, problem.dual_signature)):
                return warm
            if warm.newton is not None and weight > STILL_SLOW * warm.total_weight:
                newton = Newton().start(problem, rng, warm.newton)
                return HandOverState(problem.dual_signature, weight, warm.descent, newton)
            warm = self.solution(problem, warm)
        return HandOverState(problem.dual_signature, weight, Sdca().start(problem, rng, warm))

    def step(self, problem: RegularizedSVM, state: HandOverState, iterations: int, budget: float) -> Step:
        ledger = problem.X.ledger
        last = ledger.cost + budget
        for done in range(iterations):
            if state.newton is None and state.slow:
                state.newton = self._start_newton(problem, state)
            left = last - ledger.cost
            if state.newton is None:
                step = Step.of(int(self._sweep(problem, state, left)), 1)
            else:
                step = Newton().step(problem, state.newton, 1, left)
                state.newton_iterations += step.iterations
            if step.reason is not Reason.DONE:
                return Step(done + step.iterations, step.reason)
        return Step(iterations)

    def _sweep(self, problem: RegularizedSVM, state: HandOverState, budget: float) -> bool:
        """Make a sweep, or the rest of one that a budget ended; False if this budget ends it too."""
        before = problem.X.ledger.entries_read
        made = state.descent.sweep(budget)
        state.read += problem.X.ledger.entries_read - before
        passes = state.read / max(1, problem.features.n_stored)
        if made and (not state.passes or passes >= LOOK_GROWTH * state.passes[-1]):
            state.passes.append(passes)
            state.gaps.append(Sdca().estimated_gap(problem, state.descent))
            state.slow = self._is_slow(state)
        return made

    def _start_newton(self, problem: RegularizedSVM, state: HandOverState) -> NewtonState:
        here = Sdca().solution(problem, state.descent) if state.gaps[-1] < WORTH_KEEPING else None
        return Newton().start(problem, state.descent.rng, here)

    def _is_slow(self, state: HandOverState) -> bool:
        """Whether the rest of coordinate ascent is expected to cost more than Newton's method."""
        if len(state.gaps) < FEWEST_LOOKS or state.passes[-1] < TRIAL * self.newton_passes:
            return False
        return passes_left(state.passes, state.gaps, USUAL_TOL) > MARGIN * self.newton_passes

    def solution(self, problem: RegularizedSVM, state: HandOverState) -> Solution:
        if state.newton is None or state.newton.dual_sums is None:
            return Sdca().solution(problem, state.descent)
        return Newton().solution(problem, state.newton)

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 2000

    def next_check(self, problem: RegularizedSVM, state: HandOverState, done: int) -> int:
        return done + (sweeps_between_checks(problem, state.descent) if state.newton is None else 1)

    def exhausted(self, problem: RegularizedSVM, state: HandOverState) -> bool:
        most = MOST_PASSES * problem.features.n_stored
        return state.read >= most > 0 or state.newton_iterations >= MOST_NEWTON_ITERATIONS

    def estimated_gap(self, problem: RegularizedSVM, state: HandOverState) -> float:
        if state.newton is None or state.newton.dual_sums is None:
            return Sdca().estimated_gap(problem, state.descent)
        return Newton().estimated_gap(problem, state.newton)


def passes_left(passes: list[float], gaps: list[float], tol: float) -> float:
    """How many passes are left until the relative gap is `tol` or, if it is already, a thousandth of its present value.

    The gap divided by the dual value is assumed to fall by equal factors, as in the second half of the passes.

    Parameters
    ----------
    passes : list of float
        The number of passes up to the end of each sweep.
    gaps : list of float
        The relative gap at these times: the gap divided by its sum with the dual value.
    tol : float
        The relative gap to reach.
    """
    now = gaps[-1]
    if now <= 0:
        return 0.0
    half = max(0, bisect_right(passes, 0.5 * passes[-1]) - 1)
    fall = _log_ratio(gaps[half]) - _log_ratio(now)
    way = _log_ratio(now) - _log_ratio(tol if now > tol else 1e-3 * now)
    return way / fall * (passes[-1] - passes[half]) if fall > 0 else math.inf


def _log_ratio(gap: float) -> float:
    """The logarithm of the gap divided by the dual value, from the relative gap."""
    return math.log(max(gap, TINY)) - math.log(max(1 - gap, EPS))  # a dual value of 0 or less is no reason to fail
