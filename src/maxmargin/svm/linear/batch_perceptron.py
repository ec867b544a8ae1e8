r"""The batch perceptron for separable data, section 3.1 of Cotter, Shalev-Shwartz and Srebro (2012).

Problem: the slack form with slack 0, :math:`\max_{|w|\le1} f(w)` for :math:`f(w) = \min_i y_i\langle w, x_i\rangle`.
Given: the responses c of all rows. Returned: the mean of the iterates, for which
:math:`f(\bar w) \ge \max f - O(1/\sqrt T)` (Lemma 3.2; with certainty, as nothing is random). An iteration, from w = 0:

1. find i, the row with the least response: y_i x_i is a super-gradient of f at w;
2. :math:`w \leftarrow w + \eta_t y_i x_i` with :math:`\eta_t = 1/\sqrt t`, and update the responses (Eq. 3.4);
3. :math:`w \leftarrow w / \max\{1, |w|\}`, and scale the responses likewise.

With a bias, the row with the least response of each class is added, with half the step (section 3.6: the water of each
basin covers one row). As in section 3.3, the norm of w is :math:`\sqrt{\sum_i \alpha_i c_i}` for
:math:`w = \sum_i \alpha_i y_i x_i`: only :meth:`BatchPerceptron._sum_of` depends on the inner product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Vector
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.svm.slack import SlackSVM


@dataclass
class Iterate:
    """An iterate w = sum alpha_i y_i x_i, with alpha and the responses c of all rows."""

    alpha: Vector
    c: Vector
    w: Vector

    @classmethod
    def zero(cls, n: int, d: int) -> Iterate:
        return cls(np.zeros(n), np.zeros(n), np.zeros(d))

    def arrays(self) -> tuple[Vector, Vector, Vector]:
        return self.alpha, self.c, self.w


@dataclass
class BatchPerceptronState:
    """The state of the batch perceptron."""

    groups: list[NDArray[np.int64]]  # the rows of each basin
    now: Iterate
    total: Iterate  # the sum of all iterates
    t: int = 0


@dataclass(frozen=True)
class BatchPerceptron(Solver[SlackSVM, BatchPerceptronState]):
    """The batch perceptron: each iteration adds the row with the smallest response to w.

    Every iteration reads all of the data, and nothing is drawn at random.

    References
    ----------
    Cotter, Shalev-Shwartz, Srebro (2012), The Kernelized Stochastic Batch Perceptron, sections 3.1, 3.3 and 3.6.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SlackSVM, solve
    >>> from maxmargin.solvers import BatchPerceptron
    >>> problem = SlackSVM(np.array([[1.0, 0.2], [-1.0, 0.1], [-0.2, -1.0]]), [1, -1, -1], slack=0.0)
    >>> solve(problem, BatchPerceptron(), max_iter=1000).certificate.relative_gap < 0.01
    True
    """

    name: ClassVar[str] = "batch_perceptron"
    solves: ClassVar[type[Problem]] = SlackSVM
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.FEATURES, Trait.SEPARABLE})

    def deterministic(self, problem: SlackSVM) -> bool:
        return True

    def start(self, problem: SlackSVM, rng: np.random.Generator, warm: object = None) -> BatchPerceptronState:
        if isinstance(warm, BatchPerceptronState):
            return warm
        groups = [np.flatnonzero(group) for group in problem.groups]
        return BatchPerceptronState(groups, Iterate.zero(*problem.X.shape), Iterate.zero(*problem.X.shape))

    def step(self, problem: SlackSVM, state: BatchPerceptronState, iterations: int, budget: float) -> Step:
        # The largest number of entries that an iteration reads.
        most = problem.features.n_stored + len(state.groups) * problem.X.shape[1]
        end = problem.X.ledger.cost + budget
        for done in range(iterations):
            if problem.X.ledger.cost + most > end:
                return Step(done, Reason.BUDGET)
            self._iterate(problem, state)
        return Step(iterations)

    def _iterate(self, problem: SlackSVM, state: BatchPerceptronState) -> None:
        state.t += 1
        now = state.now
        worst = np.array([group[np.argmin(now.c[group])] for group in state.groups])
        step = 1 / math.sqrt(state.t) / worst.size
        direction, responses = self._sum_of(problem, worst)
        now.alpha[worst] += step
        now.c += step * responses
        now.w += step * direction
        norm = max(1.0, math.sqrt(max(0.0, float(now.alpha @ now.c))))
        for array, total in zip(now.arrays(), state.total.arrays(), strict=True):
            array /= norm
            total += array

    def _sum_of(self, problem: SlackSVM, rows: NDArray[np.int64]) -> tuple[Vector, Vector]:
        """The sum of y_i x_i over some rows, and the responses of all rows to it."""
        direction = problem.features.dot_transposed(problem.y[rows], rows) / problem.scale
        return direction, problem.responses(direction)

    def solution(self, problem: SlackSVM, state: BatchPerceptronState) -> Solution:
        """The mean of all iterates, with its best bias, which follows from its responses."""
        alpha, c, w = (array / max(state.t, 1) for array in state.total.arrays())
        return Solution(w, problem.evaluate_responses(w, c).b, alpha)
