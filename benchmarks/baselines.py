"""Methods for comparison that read rows only, on the same ledger and in the same loop as our solvers.

They have no `name`, so they are not registered, and the command and the estimators do not know them. None has a bias.
Each visit reads its row once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.problems import Problem, SlackSVM, Solution


@dataclass
class State:
    """The state of a run: w = factor * v, so that shrinking w costs O(1)."""

    rng: np.random.Generator
    v: NDArray[np.float64]
    order: NDArray[np.int64]
    factor: float = 1.0
    norm2: float = 0.0  # |w|^2
    t: int = 0
    shares: float = 0.0  # A, the sum of the weighted factors so far
    unshared: NDArray[np.float64] | None = None  # B; the weighted sum of w_1, ..., w_t is A v - B


@dataclass(frozen=True)
class RowReader(Solver):
    """w <- shrink * w + step * x_i, row by row, where x_i stands for y_i x_i / scale of the data.

    Parameters
    ----------
    order : {"permuted", "iid"}, default="permuted"
        Visit the rows in a new random order in each pass, or draw each row from all rows.
    average : float or None, default=None
        Return the average of w_1, ..., w_t with weights t^average; None: return w_t.
    """

    solves: ClassVar[type[Problem]] = SlackSVM

    order: str = "permuted"
    average: float | None = None

    @abstractmethod
    def update(self, state: State, c: float, sq_norm: float) -> tuple[float, float]:
        """The factors `shrink` and `step` for a row of response c = <w, x_i>."""

    def start(self, problem: SlackSVM, rng: np.random.Generator, warm: Any = None) -> State:
        n, d = problem.X.shape
        return State(rng, np.zeros(d), rng.permutation(n), unshared=None if self.average is None else np.zeros(d))

    def step(self, problem: SlackSVM, state: State, iterations: int, budget: int) -> Step:
        """The last row may exceed the budget, because its length is only known once it is read."""
        n, d = problem.X.shape
        limit = problem.X.ledger.entries_read + budget
        for done in range(iterations):
            if problem.X.ledger.entries_read >= limit:
                return Step(done, Reason.BUDGET)
            if self.order == "iid":
                i = int(state.rng.integers(n))
            else:
                if state.t and state.t % n == 0:
                    state.order = state.rng.permutation(n)
                i = int(state.order[state.t % n])
            state.t += 1
            where, x = problem.X.row(i)
            x *= problem.y[i] / problem.scale
            self.move(state, slice(None) if where.size == d else where, x)  # a full row needs no indices
            state.shares += state.factor * state.t ** (self.average or 0)
        return Step(iterations)

    def move(self, state: State, where: slice | NDArray[np.int64], x: NDArray[np.float64]) -> None:
        c, sq_norm = state.factor * float(x @ state.v[where]), float(x @ x)
        shrink, step = self.update(state, c, sq_norm)
        state.factor *= shrink
        state.norm2 = shrink**2 * state.norm2 + 2 * shrink * step * c + step**2 * sq_norm
        if step == 0:
            return
        x *= step / state.factor
        state.v[where] += x
        if state.unshared is not None:
            x *= state.shares
            state.unshared[where] += x

    def solution(self, problem: SlackSVM, state: State) -> Solution:
        w = state.factor * state.v if state.unshared is None else state.shares * state.v - state.unshared
        return Solution(w / max(float(np.linalg.norm(w)), np.finfo(float).tiny))


@dataclass(frozen=True)
class Pegasos(RowReader):
    """Stochastic subgradient steps of 1 / (regularization t) on regularization / 2 |w|^2 + mean hinge loss."""

    regularization: float = 1e-4
    project: bool = False  # onto the ball that contains the best w

    def update(self, state: State, c: float, sq_norm: float) -> tuple[float, float]:
        rate = 1 / (self.regularization * state.t)
        # At t = 1, w is zero and need not shrink; a factor of zero could not be undone.
        shrink, step = (1 - 1 / state.t if state.t > 1 else 1.0), (rate if c < 1 else 0.0)
        if self.project:
            norm2 = shrink**2 * state.norm2 + 2 * shrink * step * c + step**2 * sq_norm
            fit = min(1.0, 1 / math.sqrt(self.regularization * norm2)) if norm2 > 0 else 1.0
            shrink, step = fit * shrink, fit * step
        return shrink, step


@dataclass(frozen=True)
class Perceptron(RowReader):
    """Adds each row that is on the wrong side."""

    def update(self, state: State, c: float, sq_norm: float) -> tuple[float, float]:
        return 1.0, 1.0 if c <= 0 else 0.0


@dataclass(frozen=True)
class PassiveAggressive(RowReader):
    """Adds the multiple of each row that brings its response to 1, but at most `cap` times the row (PA-I).

    Its first pass is that of dual coordinate ascent at C = cap.
    """

    cap: float = 1.0

    def update(self, state: State, c: float, sq_norm: float) -> tuple[float, float]:
        return 1.0, min(self.cap, max(0.0, 1 - c) / sq_norm) if sq_norm > 0 else 0.0


@dataclass(frozen=True)
class Centroid(RowReader):
    """The mean of the rows read so far."""

    def update(self, state: State, c: float, sq_norm: float) -> tuple[float, float]:
        return 1.0, 1.0
