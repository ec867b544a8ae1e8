r"""Dual coordinate ascent for the linear SVM, in sweeps of random order.

Section 4.4 of Cotter, Shalev-Shwartz and Srebro (2012) describes its stochastic form, SDCA. Symbols: see `_sdca.pyx`.

Problem: the regularised form with C, either loss, any kind of bias. Given: the data by rows. Returned: w, b and the
dual point alpha that proves how good they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.engine.problem import Problem, Solution
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.svm.linear._sdca import Descent
from maxmargin.svm.regularized import RegularizedSVM

ENTRIES_BETWEEN_CHECKS = 300_000  # about how many entries are read between two checks; a check takes only 50 us
MOST_SWEEPS_BETWEEN_CHECKS = 10  # largest number of sweeps between two checks, however few entries they read
LONG_W = 0.05  # features per stored entry above which extrapolation, with its two vectors as long as w, starts later


@dataclass(frozen=True)
class Sdca(Solver[RegularizedSVM, Descent]):
    r"""Dual coordinate ascent (Hsieh et al. 2008; Shalev-Shwartz and Zhang 2013).

    An iteration visits one sample and maximises the dual over its variable :math:`\alpha_i` alone. Samples are visited
    in sweeps, each in a new random order. Three techniques save visits:

    - *shrinking*: a sample at a bound becomes inactive if its gradient points out of the box and exceeds the mean
      projected gradient of the sweep before. All samples become active again whenever the gap of the active ones has
      fallen to a tenth, so that every mistake is corrected;
    - *extrapolation*: from a certain sweep on, each sweep gives a direction of a conjugate gradient method, which
      halves the number of sweeps if many are needed. It stores two more vectors as long as w; if these are large
      compared with the data, it starts later;
    - *an estimate of the gap* without a pass over the data: each visit yields the term of its sample. The gap is
      measured only once the estimate is small enough.

    If the data is in a store that does not fit in its cache, the rows of as many blocks as fill half of the cache are
    visited several times before the next blocks are fetched. There, all visits to a sample in a sweep count as one
    iteration. Once the rows of all active samples fit in half of the cache, they are copied together, and nothing more
    is fetched until all samples become active again.

    A free bias is found by the method of multipliers: its distance from a centre is penalised, and the centre moves to
    the bias after each sweep.

    Parameters
    ----------
    shrink : bool, default=True
        Whether samples that seem to stay at a bound become inactive.
    extrapolate : int, default=12
        The first sweep that is extrapolated; twice as late if w is long compared with the data. 0 means never.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008), A Dual Coordinate Descent Method for Large-scale Linear SVM.
    Shalev-Shwartz, Zhang (2013), Stochastic Dual Coordinate Ascent Methods for Regularized Loss Minimization.
    Yu, Hsieh, Chang, Lin (2010), Large Linear Classification When Data Cannot Fit in Memory.

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
        long = problem.X.shape[1] > LONG_W * problem.features.n_stored
        state = Descent(problem, rng, self.shrink, self.extrapolate * (2 if long else 1))
        if isinstance(warm, Solution) and warm.p is not None:
            state.begin_at(warm.p, warm.b)
        return state

    def step(self, problem: RegularizedSVM, state: Descent, iterations: int, budget: float) -> Step:
        made, within_budget = state.run(iterations, budget)
        return Step(made, Reason.DONE if within_budget else Reason.BUDGET)

    def solution(self, problem: RegularizedSVM, state: Descent) -> Solution:
        alpha, w = state.lend()
        return Solution(w, state.b, alpha, w)

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 100 * problem.y.size

    def next_check(self, problem: RegularizedSVM, state: Descent, done: int) -> int:
        """At the end of a sweep, or of several if they are short."""
        return done + (state.active - state.counted) + (sweeps_between_checks(problem, state) - 1) * state.active

    def estimated_gap(self, problem: RegularizedSVM, state: Descent) -> float:
        """The gap from the terms of the last sweep, each at its visit: an overestimate, as the gap falls in a sweep."""
        return state.gap / (abs(state.dual()) + state.gap) if np.isfinite(state.gap) else np.inf


def sweeps_between_checks(problem: RegularizedSVM, state: Descent) -> int:
    """The number of sweeps until the next check: several if sweeps are short, and more after many sweeps."""
    entries = problem.features.n_stored / problem.y.size * max(1, state.active)
    return 1 + min(state.sweeps // 4, MOST_SWEEPS_BETWEEN_CHECKS, int(ENTRIES_BETWEEN_CHECKS / (1 + entries)))
