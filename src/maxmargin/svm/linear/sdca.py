r"""Dual coordinate ascent: stochastic (SDCA) and in sweeps of random order.

Section 4.4 of Cotter, Shalev-Shwartz and Srebro (2012) describes the stochastic one.

Problem: the regularised form with C, either loss, any kind of bias. Given: the data by rows. Returned: w, b and the
point alpha of the dual that proves how good they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.engine.problem import Problem, Solution
from maxmargin.engine.solver import Solver, Step
from maxmargin.svm.linear._sdca import Descent
from maxmargin.svm.regularized import RegularizedSVM

ENTRIES_BETWEEN_CHECKS = 300_000  # a check costs some 50 microseconds: a small part of reading this many
MOST_SWEEPS_BETWEEN_CHECKS = 10
LONG = 0.05  # w is long beside the data if it has more features than this share of the stored entries


@dataclass(frozen=True)
class Sdca(Solver[RegularizedSVM, Descent]):
    r"""Dual coordinate ascent (Hsieh et al. 2008; Shalev-Shwartz and Zhang 2013).

    An iteration visits one example and maximises the dual over its weight :math:`\alpha_i` alone. Examples are visited
    in sweeps of a new random order each. Three things save visits:

    - *shrinking*: an example at a bound that pulls harder against it than the others pulled on average in the sweep
      before sits out. All take part again whenever the gap of the others has fallen to a tenth: no mistake stays;
    - *extrapolation*: from a certain sweep on, a sweep is taken as a direction of a conjugate gradient method, which
      halves the sweeps where many are needed. It takes two more vectors as long as w, and where those are large
      beside the data it begins later, when it is clear that many are needed;
    - the gap is known without a pass: each visit tells what its example adds to it. Only when that is
      small enough is it measured.

    A free bias is found by the method of multipliers: it is penalised around a centre, which moves to it after each
    sweep.

    Parameters
    ----------
    shrink : bool, default=True
        Whether settled examples sit out.
    extrapolate : int, default=12
        The sweep from which on steps are prolonged, or twice that where w is long; 0 means never.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008), A Dual Coordinate Descent Method for Large-scale Linear SVM.
    Shalev-Shwartz, Zhang (2013), Stochastic Dual Coordinate Ascent Methods for Regularized Loss Minimization.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import RegularizedSVM, solve
    >>> from maxmargin.solvers import Sdca
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(500) < 0.5, -1.0, 1.0)
    >>> X = rng.normal(size=(500, 30)) + 0.2 * y[:, None]
    >>> result = solve(RegularizedSVM(X, y, C=0.1), Sdca(), tol=1e-4, random_state=0)
    >>> result.status, result.certificate.relative_gap <= 1e-4
    ('tol', True)
    """

    name: ClassVar[str] = "sdca"
    solves: ClassVar[type[Problem]] = RegularizedSVM
    default_tol: ClassVar[float | None] = 1e-3
    resumes: ClassVar[bool] = True
    visits_samples: ClassVar[bool] = True

    shrink: bool = True
    extrapolate: int = 12

    def __post_init__(self) -> None:
        if not (isinstance(self.extrapolate, int) and self.extrapolate >= 0):
            raise ValueError(f"extrapolate must be a whole number of at least 0; got {self.extrapolate!r}")

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> Descent:
        if isinstance(warm, Descent):
            warm.set_problem(problem)
            return warm
        long = problem.X.shape[1] > LONG * problem.features.n_stored
        state = Descent(problem, rng, self.shrink, self.extrapolate * (2 if long else 1))
        if isinstance(warm, Solution) and warm.p is not None:
            state.begin_at(warm.p, warm.b)
        return state

    def step(self, problem: RegularizedSVM, state: Descent, iterations: int, budget: int) -> Step:
        return Step.of(state.run(iterations, budget), iterations)

    def solution(self, problem: RegularizedSVM, state: Descent) -> Solution:
        alpha, w = state.lend()
        return Solution(w, state.b, alpha, w)

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 100 * problem.y.size

    def next_check(self, problem: RegularizedSVM, state: Descent, done: int) -> int:
        """At the end of a sweep; of several, where they are short."""
        entries = problem.features.n_stored / problem.y.size * max(1, state.active)
        sweeps = min(state.sweeps // 4, MOST_SWEEPS_BETWEEN_CHECKS, int(ENTRIES_BETWEEN_CHECKS / (1 + entries)))
        return done + (state.active - state.position) + sweeps * state.active

    def estimated_gap(self, problem: RegularizedSVM, state: Descent) -> float:
        """From the gap of the last sweep, each example as it was met; on the safe side, as the gap falls meanwhile."""
        return state.gap / (abs(state.dual()) + state.gap) if np.isfinite(state.gap) else np.inf
