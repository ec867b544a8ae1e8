r"""The smallest enclosing ball by core sets: a few rows whose ball is nearly that of all.

Problem: :class:`EnclosingBall`, :math:`\min_x \max_i |x - a_i|`, also with `nu` and on a KernelMatrix. Given: nothing.
Returned: x, and weights p with :math:`x = \sum_i p_i a_i` that prove how good it is.

Badoiu and Clarkson go from x towards the furthest row, :math:`x_{t+1} = x_t + (a_i - x_t)/(t + 1)`, and are within
:math:`1 + \varepsilon` of the least radius after :math:`1/\varepsilon^2` rounds. By default the weights of all rows of
the core set are solved for anew instead, before the next distances are measured: that reads as much, and takes tens of
rounds where the other takes thousands.

An iteration reads each row once, for the distances to the new centre, and the rows of the core set a few times; on a
KernelMatrix, the rows of K whose weights change, unless they are kept.

Symbols: v = sum p_i a_i is the centre x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.ball.problem import ALLOWED, EnclosingBall
from maxmargin.core.types import Indices, Point, Vector
from maxmargin.engine.problem import Evaluation, Problem, Solution, Trait
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.kernels._ascent import ascend_by_pairs
from maxmargin.kernels.rows import is_kernel

FEW = 16  # rows, spread over the data, whose mean is the first centre
BLOCK, LARGEST_BLOCK = 32, 512  # rows taken in at a time; more where many may stay outside
EXACT = 0.01  # to what share of the violation among all rows the core set is solved
STEPS_PER_ROW = 500  # the most steps on the core set, for each of its rows
IDLE = 256  # rows of a core set from which on those that are not needed may leave it
SAME = 1e-14  # of the largest square, what is no difference
PATIENCE = 20  # rounds without a smaller gap after which rounding is all that is left


@dataclass
class CoreSetState:
    """Where the solver stands; before the first iteration nothing is known."""

    p: Vector
    v: Any = None
    at: Evaluation | None = None  # of the centre v
    bound: float = 0.0
    core: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    inner: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    waiting: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # to join the core set next
    violation: float = math.inf  # how much farther a row that lacks weight is than one that has some, in squares
    # The products of the core set are those of differences from the first centre, in units of the first radius.
    origin: Any = None  # the first centre,
    products: Vector = field(default_factory=lambda: np.empty(0))  # and those of all rows of a kernel with it
    unit: float = 1.0
    t: int = 0
    best_gap: float = math.inf
    best_t: int = 0
    settled: bool = False

    @property
    def gap(self) -> float:
        """The relative gap, which is known at no cost."""
        if self.at is None:
            return math.inf
        return max(0.0, self.at.value - self.bound) / self.at.value if self.at.value > 0 else 0.0


@dataclass(frozen=True)
class CoreSet(Solver[EnclosingBall, CoreSetState]):
    r"""The smallest enclosing ball, exact to any precision in few passes over the data.

    Parameters
    ----------
    method : {"exact", "paper"}, default="exact"
        "exact" solves for all weights of the core set in each round, and then takes in the furthest rows, a block of
        them; "paper" is the algorithm of Badoiu and Clarkson as written.
    block : int or None, default=None
        How many rows are taken in at a time. None: 32, or up to 512 where many may stay outside.

    References
    ----------
    Badoiu, Clarkson (2003), Smaller Core-Sets for Balls.
    Yildirim (2008), Two Algorithms for the Minimum Enclosing Ball Problem.
    Fan, Chen, Lin (2005), Working Set Selection Using Second Order Information (the steps on a core set).

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import solve
    >>> from maxmargin.problems import EnclosingBall
    >>> from maxmargin.solvers import CoreSet
    >>> corners = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [1.0, 0.5]])
    >>> result = solve(EnclosingBall(corners), CoreSet(), tol=1e-6)
    >>> result.solution.w.round(4), round(result.certificate.primal**2, 4)
    (array([1., 1.]), 2.0)
    """

    name: ClassVar[str] = "core_set"
    solves: ClassVar[type[Problem]] = EnclosingBall
    requires: ClassVar[frozenset[Trait]] = frozenset()
    default_tol: ClassVar[float | None] = 1e-3

    method: str = "exact"
    block: int | None = None

    def __post_init__(self) -> None:
        if self.method not in ("exact", "paper"):
            raise ValueError(f'method must be "exact" or "paper"; got {self.method!r}')
        if self.block is not None and not self.block >= 1:
            raise ValueError(f"block must be a whole number of at least 1, or None; got {self.block!r}")

    def deterministic(self, problem: EnclosingBall) -> bool:
        return True

    def start(self, problem: EnclosingBall, rng: np.random.Generator, warm: object = None) -> CoreSetState:
        if isinstance(warm, CoreSetState):
            return warm
        p = np.zeros(problem.X.shape[0])
        some = problem.a_few(FEW if self.method == "exact" else 1)
        p[some] = 1 / some.size
        return CoreSetState(p)

    def step(self, problem: EnclosingBall, state: CoreSetState, iterations: int, budget: int) -> Step:
        before = problem.X.ledger.entries_read
        for done in range(iterations):
            if state.settled:
                return Step(done, Reason.SETTLED)
            if self._cost(problem, state) > budget - (problem.X.ledger.entries_read - before):
                return Step(done, Reason.BUDGET)
            if state.at is None:
                self._open(problem, state)
            elif self.method == "paper":
                self._approach(problem, state)
            else:
                self._solve_core(problem, state)
            state.t += 1
            self._judge(problem, state)
        return Step(iterations)

    def _cost(self, problem: EnclosingBall, state: CoreSetState) -> int:
        """The most that the next iteration can read."""
        if state.at is None:
            those, passes = np.flatnonzero(state.p), 1 if self._allowed(problem, state) else 2
            more = 0 if passes == 1 else math.ceil(1 / problem.cap)
        elif self.method == "paper":
            those, passes, more = np.flatnonzero(state.at.wet), 1, 0
        else:
            those, passes, more = np.concatenate([state.core, state.waiting]), 1, 0
        if is_kernel(K := problem.X):
            return int(K.missing(those).sum() + state.waiting.size * those.size + more * K.shape[0])
        X = problem.features
        sizes = X.row_sizes()
        pairs = (state.waiting.size + 1) * int(sizes[those].sum()) + int(sizes[state.waiting].sum())
        return int(passes * X.n_stored + pairs + more * int(sizes.max()))

    def _allowed(self, problem: EnclosingBall, state: CoreSetState) -> bool:
        return bool(state.p.max() <= problem.cap * ALLOWED)

    def _open(self, problem: EnclosingBall, state: CoreSetState) -> None:
        """The first centre, the mean of a few rows; where more must have a weight, that of the furthest from it."""
        self._move_to(problem, state, problem.X.dot_transposed(*_some(state.p)))
        assert state.at is not None
        state.origin = state.v
        if not problem.sums_are_cheap:
            state.products = state.v.f.copy()
        state.unit = float(state.at.responses.max()) or 1.0
        if not self._allowed(problem, state):
            state.p = state.at.wet
            self._move_to(problem, state, problem.X.dot_transposed(*_some(state.p)))

    def _move_to(self, problem: EnclosingBall, state: CoreSetState, v: Point) -> None:
        """Measure all distances to a new centre."""
        state.v, state.at = v, problem.evaluate(v)

    def _approach(self, problem: EnclosingBall, state: CoreSetState) -> None:
        """The step of Badoiu and Clarkson, towards the furthest row, or the furthest that may not all stay outside."""
        assert state.at is not None
        share = 1 / (state.t + 1)
        towards = problem.X.dot_transposed(*_some(state.at.wet))
        state.p = (1 - share) * state.p + share * state.at.wet
        self._move_to(problem, state, (1 - share) * state.v + share * towards)

    def _solve_core(self, problem: EnclosingBall, state: CoreSetState) -> None:
        """The best weights of the core set, those that wait included; other weights stay."""
        self._take_in(problem, state)
        assert state.at is not None
        W, cap = state.core, problem.cap
        weights, e = state.p[W], state.at.responses[W] / (2 * state.unit)
        tolerance = EXACT * state.violation / (2 * state.unit)
        ascend_by_pairs(
            state.inner, np.ones(W.size), np.full(W.size, cap), weights, e, tolerance, STEPS_PER_ROW * W.size
        )
        change = weights - state.p[W]
        state.p[W] = weights
        moved = np.flatnonzero(change)
        if not moved.size:
            state.settled = True
            return
        self._move_to(problem, state, state.v + problem.X.dot_transposed(change[moved], W[moved]))

    def _take_in(self, problem: EnclosingBall, state: CoreSetState) -> None:
        """Let those that wait join the core set."""
        new, before = state.waiting, state.core.size
        if not new.size:
            return
        W = np.concatenate([state.core, new])
        products = problem.products(new, W, state.origin, state.products)
        inner = np.empty((W.size, W.size), dtype=np.float32)
        inner[:before, :before] = state.inner
        inner[before:] = products / state.unit
        inner[:before, before:] = inner[before:, :before].T
        state.core, state.inner = W, inner

    def _judge(self, problem: EnclosingBall, state: CoreSetState) -> None:
        """Measure the gap, and see who is to join the core set, and who may leave it."""
        assert state.at is not None
        p, squares, cap = state.p, state.at.responses, problem.cap
        state.bound = problem.least_radius(p, state.v)
        if state.gap < 0.999 * state.best_gap:
            state.best_gap, state.best_t = state.gap, state.t
        lacking, having = p < cap, p > 0
        high, low = float(squares[lacking].max(initial=-math.inf)), float(squares[having].min())
        state.violation, middle = high - low, (high + low) / 2
        same = SAME * (problem.spread + state.unit)
        if self.method == "exact":
            state.settled |= not state.violation > same or state.t - state.best_t > PATIENCE
        if self.method == "paper" or state.settled:
            return
        W = state.core
        idle = np.where(squares[W] < middle, p[W] == 0, p[W] >= cap)
        if W.size >= IDLE and 2 * np.count_nonzero(idle) > W.size:
            kept = np.flatnonzero(~idle)
            state.core, state.inner = W[kept], np.ascontiguousarray(state.inner[np.ix_(kept, kept)])
        outside = np.ones(p.size, dtype=bool)
        outside[state.core] = False
        block = self.block or min(LARGEST_BLOCK, max(BLOCK, math.ceil(1 / (4 * cap))))
        too_far = np.flatnonzero(outside & lacking & (squares > middle))
        too_near = np.flatnonzero(outside & having & (squares < middle))
        state.waiting = np.concatenate([_largest(squares, too_far, block), _largest(-squares, too_near, block)])

    def solution(self, problem: EnclosingBall, state: CoreSetState) -> Solution:
        assert state.at is not None
        return Solution(state.v, state.at.b, state.p.copy(), state.v)

    def next_check(self, problem: EnclosingBall, state: CoreSetState, done: int) -> int:
        return done + 1

    def estimated_gap(self, problem: EnclosingBall, state: CoreSetState) -> float:
        return 0.0 if state.settled else state.gap


def _some(weights: Vector) -> tuple[Vector, Indices]:
    """The weights that are not zero, and where they are."""
    those = np.flatnonzero(weights)
    return weights[those], those


def _largest(values: Vector, among: Indices, count: int) -> Indices:
    return among if among.size <= count else np.sort(among[np.argpartition(-values[among], count - 1)[:count]])
