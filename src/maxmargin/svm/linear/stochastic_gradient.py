r"""Stochastic gradient descent with a constant step length, for the smooth SVM.

Section 1 of the addendum of Schmidt and Joulin (2012) compares the hybrid method with it.

Problem: the smooth SVM as a mean over the n samples, :math:`\min_w \frac1n\sum_i [1 - c_i]_+^2 + \frac\lambda2 |w|^2`
with margins c_i and :math:`\lambda = 1/(Cn)` (with sample weights, n is their sum, and samples are drawn by weight).
Given: the data by rows. Returned: the last w, which approaches the optimum fast and then stays at a distance that grows
with the step length.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.core.types import Vector
from maxmargin.engine.problem import Solution, Trait
from maxmargin.engine.solver import Solver, Step
from maxmargin.svm.linear._smooth import Reader
from maxmargin.svm.linear.hybrid import bias_feature
from maxmargin.svm.linear.shrinking import Rows
from maxmargin.svm.regularized import RegularizedSVM

DRAWS = 1024  # samples drawn at a time, to make draws cheap; results do not depend on it


@dataclass(frozen=True)
class StochasticGradient(Solver[RegularizedSVM, "StochasticGradientState"]):
    r"""Gradient steps, each on one random sample: :math:`w \leftarrow w + \eta\,(2[1 - c_i]_+ y_i x_i - \lambda w)`.

    Parameters
    ----------
    rate : float, default=0.1
        The step length :math:`\eta` in units of :math:`1 / L`, where L, the mean of :math:`2|x_i|^2 + \lambda`, is the
        curvature of a typical sample. The norms take one pass over the data, counted in the ledger under
        "scale".

    Notes
    -----
    A penalised bias is the weight of a constant feature; a free bias takes the same steps without :math:`\lambda`. In
    both cases, the constant feature counts in :math:`|x_i|^2`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import RegularizedSVM
    >>> from maxmargin.solvers import StochasticGradient, solve
    >>> problem = RegularizedSVM(np.array([[1.0, 0.2], [-1.0, 0.1]]), [1, -1], loss="squared_hinge")
    >>> result = solve(problem, StochasticGradient(), max_iter=1000, random_state=0)
    >>> result.certificate.relative_gap < 0.01
    True
    """

    name: ClassVar[str] = "stochastic_gradient"
    solves: ClassVar[type[RegularizedSVM]] = RegularizedSVM
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.FEATURES, Trait.SMOOTH_LOSS})
    visits_samples: ClassVar[bool] = True

    rate: float = 0.1

    def __post_init__(self) -> None:
        if not (np.isfinite(self.rate) and self.rate > 0):
            raise ValueError(f"rate must be a positive number, such as 0.1; got {self.rate!r}")

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> StochasticGradientState:
        if isinstance(warm, StochasticGradientState):
            warm.reader = Reader(problem.features)
            return warm
        typical = float(problem.s @ problem.sq_norms() / problem.s.sum()) + bias_feature(problem) ** 2
        return StochasticGradientState(
            rng, Reader(problem.features), np.zeros(problem.X.shape[1]), np.cumsum(problem.s), typical
        )

    def step(self, problem: RegularizedSVM, state: StochasticGradientState, iterations: int, budget: float) -> Step:
        total, feature = float(state.up_to[-1]), bias_feature(problem)
        regularization = 1 / (problem.C * total)
        length = self.rate / (2 * state.sq_norm + regularization)
        shrink = 1 - length * regularization
        last, done = problem.X.ledger.cost + budget, 0
        while done < iterations:
            if state.drawn.size == 0:
                # The numbers are above 0, so that no sample of weight zero is ever drawn.
                shares = total * (1 - state.rng.random(DRAWS))
                state.drawn = np.searchsorted(state.up_to, shares)
            rows = state.drawn[: iterations - done]
            visited, state.factor, state.b = state.reader.descend(
                rows,
                problem.y,
                state.v,
                state.factor,
                state.b,
                length,
                shrink,
                length * feature**2,
                1.0 if problem.free_bias else shrink,
                last - problem.X.ledger.cost,
            )
            state.drawn = state.drawn[visited:]
            state.evaluations += visited
            done += visited
            if visited < rows.size:
                break
        if not np.isfinite([np.abs(state.v).max(), state.factor, state.b]).all():
            raise ValueError(f"the iterates diverged; give a rate below the {self.rate:g} that was given")
        return Step.of(done, iterations)

    def solution(self, problem: RegularizedSVM, state: StochasticGradientState) -> Solution:
        return Solution(state.factor * state.v, state.b)

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 10 * problem.y.size


@dataclass
class StochasticGradientState:
    """The state of stochastic gradient descent.

    Attributes
    ----------
    v, factor, b : array, float, float
        w is factor times v, so that scaling w takes O(1); and the bias.
    up_to : array
        Cumulative sums of the sample weights, from which samples are drawn.
    sq_norm : float
        The mean of |x_i|^2, including the constant feature of the bias.
    drawn : array
        Samples that were drawn but not yet visited.
    evaluations : int
        The number of samples read, with repetitions: n of them are an effective pass.
    """

    rng: np.random.Generator
    reader: Reader
    v: Vector
    up_to: Vector
    sq_norm: float
    factor: float = 1.0
    b: float = 0.0
    drawn: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    evaluations: int = 0
