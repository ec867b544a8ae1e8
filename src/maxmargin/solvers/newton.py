r"""Newton's method on the examples that matter, over a growing part of the data.

Problem: the regularised form with C, either loss, any kind of bias. Given: the data by rows. Returned: w, b and the point
of the dual that proves how good they are. For few features: it solves systems of d equations.

The squared hinge is smooth, and Newton's method is applied to it as it stands. The hinge is not; its dual
:math:`\max_{0 \le a \le U} \sum a_i - \frac12 |v(a)|^2` is solved by the proximal point method (which for the primal is
the method of multipliers): from a centre :math:`\alpha`, the primal of

.. math:: \max_{0 \le a \le U}\ \sum_i a_i - \tfrac12 |v(a)|^2 - \tfrac1{2\sigma} |a - \alpha|^2

is smooth, and its solution a is the next centre. In both cases, with :math:`c_i = y_i(\langle w, x_i\rangle + b)`,

.. math:: a_i = \text{clip}_{[0, U_i]}\ h_i (1 - c_i + \alpha_i / \sigma), \qquad h_i = 1 / (q_i + 1/\sigma),

the gradient is :math:`w - \sum_i a_i y_i x_i` and the Hessian :math:`I + \sum_{i \in J} h_i x_i x_i^T`, with J the examples
strictly between their bounds. They are few near the end, and only they are read to build it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from maxmargin.problems import Problem, RegularizedSVM, Solution
from maxmargin.solvers.base import Solver

Vector = NDArray[np.float64]

FEWEST_ROWS = 2000  # of the first part of the data, and
ROWS_PER_FEATURE = 10  # at least so many a feature
GROWTH = 6  # of the parts
SOLVED = 0.1  # a centre moves when the gradient is this small beside the move
STIFFER = 8.0  # how much sigma grows then
BLOCK = 4096  # rows made dense at a time


@dataclass
class State:
    """Where Newton's method stands: on the first `size` rows of `order`."""

    rng: np.random.Generator
    order: NDArray[np.int64]
    size: int
    w: Vector
    b: float = 0.0
    softness: float = 0.0  # 1 / sigma
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    # Of the rows in use: labels, bounds and curvatures of the dual, centres, margins c, and the weights a.
    y: Vector = field(default_factory=lambda: np.zeros(0))
    upper: Vector = field(default_factory=lambda: np.zeros(0))
    q: Vector = field(default_factory=lambda: np.zeros(0))
    centre: Vector = field(default_factory=lambda: np.zeros(0))
    c: Vector = field(default_factory=lambda: np.zeros(0))
    a: Vector = field(default_factory=lambda: np.zeros(0))
    v: Vector = field(default_factory=lambda: np.zeros(0))  # sum a_i y_i x_i
    primal: float = math.inf
    dual: float = -math.inf


@dataclass(frozen=True)
class Newton(Solver):
    r"""Newton's method for few features, on a growing part of the data.

    An iteration reads the rows in use once for the margins along the step, and those whose weight has changed once more. It
    begins on a small part of the data, where iterations are cheap, and goes over to a larger one when more of the same
    would only fit the part better, not the whole.

    Parameters
    ----------
    grow : bool, default=True
        Whether to begin with a part of the data.

    References
    ----------
    Keerthi, DeCoste (2005), A Modified Finite Newton Method for Fast Solution of Large Scale Linear SVMs.
    Rockafellar (1976), Monotone Operators and the Proximal Point Algorithm.
    Friedlander, Schmidt (2012), Hybrid Deterministic-Stochastic Methods for Data Fitting (growing parts).

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import RegularizedSVM, solve
    >>> from maxmargin.solvers import Newton
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(500) < 0.5, -1.0, 1.0)
    >>> X = rng.normal(size=(500, 5)) + 0.2 * y[:, None]
    >>> result = solve(RegularizedSVM(X, y, C=100.0), Newton(), tol=1e-6, random_state=0)
    >>> result.status, result.certificate.relative_gap <= 1e-6
    ('tol', True)
    """

    name: ClassVar[str] = "newton"
    solves: ClassVar[type[Problem]] = RegularizedSVM
    default_tol: ClassVar[float | None] = 1e-3

    grow: bool = True

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: Any = None) -> State:
        order = rng.permutation(np.flatnonzero(problem.s))
        size = order.size
        if isinstance(warm, State):
            state = State(warm.rng, order, size, warm.w, warm.b)
        else:
            if self.grow:
                size = min(size, max(FEWEST_ROWS, ROWS_PER_FEATURE * problem.X.shape[1]))
            state = State(rng, order, size, np.zeros(problem.X.shape[1]))
        return state

    def step(self, problem: RegularizedSVM, state: State, iterations: int, budget: int) -> int:
        before = problem.X.ledger.stored
        for done in range(iterations):
            rows = state.order[: state.size]
            # The margins of a new part, the margins along the step, the Hessian, and the weights: each reads a row at most once.
            if 4 * int(problem.X.row_sizes()[rows].sum()) > budget - (problem.X.ledger.stored - before):
                return done
            self._iterate(problem, state)
        return iterations

    def _iterate(self, problem: RegularizedSVM, state: State) -> None:
        if state.rows.size != state.size:
            self._take_part(problem, state)
        g, g_b = self._gradient(problem, state)
        s, s_b = self._direction(problem, state, g, g_b)
        along = state.y * (problem.X.dot(s, state.rows) + s_b)
        t = self._step_length(problem, state, s, s_b, along)
        state.w = state.w + t * s
        state.b += t * s_b
        state.c += t * along
        self._weigh(problem, state)
        self._settle(problem, state)

    def _take_part(self, problem: RegularizedSVM, state: State) -> None:
        """Go over to the first `size` rows, with the losses weighed as if they were all."""
        state.rows = rows = np.sort(state.order[: state.size])
        share = problem.s[rows].sum() / problem.s.sum()
        state.y = problem.y[rows]
        state.upper, state.q = problem.loss.dual_box(problem.u[rows] / share)
        state.c = state.y * (problem.X.dot(state.w, rows) + state.b)
        state.centre = np.zeros(rows.size)
        state.softness = 0.0
        if not problem.loss.smooth:
            # The hinge with its kink rounded off, as wide as it takes to have enough examples in it.
            near = np.abs(1 - state.c)
            enough = min(rows.size - 1, max(ROWS_PER_FEATURE * state.w.size, rows.size // 20))
            width = max(float(np.partition(near, enough)[enough]), 1e-9)
            state.centre = 0.5 * state.upper
            state.softness = 2 * width / float(state.upper.mean())
        state.a = np.zeros(rows.size)
        state.v = np.zeros(state.w.size)
        self._weigh(problem, state)

    def _weigh(self, problem: RegularizedSVM, state: State) -> None:
        """The weights a of the examples in use, and v: rows whose weight has not changed are not read."""
        with np.errstate(divide="ignore", invalid="ignore"):
            a = (1 - state.c + state.softness * state.centre) / (state.q + state.softness)
        a = np.clip(a, 0.0, state.upper)
        state.v += problem.X.dot_transposed((a - state.a) * state.y, state.rows)
        state.a = a

    def _gradient(self, problem: RegularizedSVM, state: State) -> tuple[Vector, float]:
        if not problem.bias:
            return state.w - state.v, 0.0
        return state.w - state.v, self._stiffness(problem) * state.b - float(state.a @ state.y)

    @staticmethod
    def _stiffness(problem: RegularizedSVM) -> float:
        return 1 / problem.bias_feature**2 if problem.bias_feature else 0.0

    def _direction(self, problem: RegularizedSVM, state: State, g: Vector, g_b: float) -> tuple[Vector, float]:
        """Newton's step: the system of the Hessian."""
        J = np.flatnonzero((state.a > 0) & (state.a < state.upper))
        h = 1 / (state.q[J] + state.softness)
        d = g.size
        H = np.zeros((d + 1, d + 1))
        for start in range(0, J.size, BLOCK):
            block = slice(start, start + BLOCK)
            Z = np.empty((J[block].size, d + 1))
            Z[:, :d] = problem.X.dense(state.rows[J[block]])
            Z[:, d] = 1.0
            Z *= np.sqrt(h[block])[:, None]
            H += Z.T @ Z
        H[np.arange(d), np.arange(d)] += 1.0
        if not problem.bias:
            return -cho_solve(cho_factor(H[:d, :d], overwrite_a=True), g), 0.0
        H[d, d] += self._stiffness(problem) + 1e-10 * (1 + H[d, d])
        step = -cho_solve(cho_factor(H, overwrite_a=True), np.append(g, g_b))
        return step[:d], float(step[d])

    def _step_length(self, problem: RegularizedSVM, state: State, s: Vector, s_b: float, along: Vector) -> float:
        """Where the objective is least along the step: a root of its slope, which rises piecewise linearly."""
        ws, ss = float(state.w @ s), float(s @ s)
        if problem.bias:
            ws += self._stiffness(problem) * state.b * s_b
            ss += self._stiffness(problem) * s_b**2
        with np.errstate(divide="ignore", invalid="ignore"):
            h = 1 / (state.q + state.softness)
            base = (1 - state.c + state.softness * state.centre) * h
        move = along * h

        def slope(t: float) -> tuple[float, float]:
            raw = base - t * move
            inside = (raw > 0) & (raw < state.upper)
            value = ws + t * ss - float(np.clip(raw, 0.0, state.upper) @ along)
            return value, ss + float((move * along)[inside].sum())

        first = slope(0.0)[0]
        low, high, t = 0.0, math.inf, 1.0
        for _ in range(30):
            value, curvature = slope(t)
            if abs(value) <= 0.1 * abs(first):
                break
            low, high = (t, high) if value < 0 else (low, t)
            t -= value / curvature
            if not low < t < high:
                t = 0.5 * (low + high) if math.isfinite(high) else 2 * low
        return t

    def _settle(self, problem: RegularizedSVM, state: State) -> None:
        """Look how near the end of this part is, and move the centre or go over to a larger part where it is time."""
        loss = problem.loss.value(state.c)
        u = state.upper if not problem.loss.smooth else 0.5 / state.q
        penalty = 0.5 * self._stiffness(problem) * state.b**2
        state.primal = 0.5 * float(state.w @ state.w) + float(u @ loss) + penalty
        imbalance = float(state.a @ state.y) * problem.bias_feature
        state.dual = float(
            state.a.sum() - 0.5 * (state.q @ state.a**2) - 0.5 * (state.v @ state.v) - 0.5 * imbalance**2
        )
        if state.size < state.order.size and state.primal - state.dual <= state.primal / math.sqrt(state.size):
            state.size = min(state.order.size, GROWTH * state.size)
            if 2 * state.size > state.order.size:
                state.size = state.order.size
            return
        if not problem.loss.smooth:
            g, g_b = self._gradient(problem, state)
            moved = float(np.linalg.norm(state.a - state.centre)) * math.sqrt(state.softness)
            if math.hypot(float(np.linalg.norm(g)), g_b) <= SOLVED * moved:
                state.centre = state.a
                state.softness /= STIFFER

    def solution(self, problem: RegularizedSVM, state: State) -> Solution:
        if state.rows.size < state.order.size or state.rows.size != state.size:
            return Solution(state.w, state.b)
        p = np.zeros(problem.y.size)
        p[state.rows] = state.a
        return Solution(state.w, state.b, p, state.v)

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 50

    def next_check(self, problem: RegularizedSVM, state: State, done: int) -> int:
        return done + 1

    def estimated_gap(self, problem: RegularizedSVM, state: State) -> float:
        """The gap on the whole data, known from the last iteration; a part tells nothing of it."""
        if state.rows.size < state.order.size or state.rows.size != state.size:
            return math.inf
        return (state.primal - state.dual) / abs(state.primal)
