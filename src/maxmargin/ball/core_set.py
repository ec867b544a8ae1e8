r"""The smallest enclosing ball by core sets: a few rows whose smallest ball is nearly that of all rows.

Problem: :class:`MinimumEnclosingBall`, :math:`\min_x \max_i |x - a_i|`, also with `nu` and on a KernelMatrix. Given:
nothing. Returned: x, and weights p with :math:`x = \sum_i p_i a_i` that prove how good it is.

Badoiu and Clarkson move x towards the farthest row, :math:`x_{t+1} = x_t + (a_i - x_t)/(t + 1)`, and reach a radius of
at most :math:`1 + \varepsilon` times the least after :math:`1/\varepsilon^2` iterations. By default, each iteration
instead solves for the weights of all rows of the core set. It reads as much, and needs tens of iterations where the
step of Badoiu and Clarkson needs thousands.

An iteration reads each row once, for the distances from the new centre, and the rows of the core set a few times; on a
KernelMatrix, it computes the rows of K whose weights change, unless they are cached.

Symbols: v = sum p_i a_i is the centre x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.ball.problem import CAP_ROUNDING, BallEvaluation, MinimumEnclosingBall
from maxmargin.core.types import Indices, Point, Vector
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.kernels._ascent import ascend_by_pairs
from maxmargin.kernels.rows import is_kernel

FIRST_CENTRE_ROWS = 16  # evenly spaced rows whose mean is the first centre
BLOCK, LARGEST_BLOCK = 32, 512  # rows that join the core set in an iteration: without `nu`; the most with `nu`
CORE_TOLERANCE = 0.01  # the core set is solved until its violation is at most this share of the violation of all rows
STEPS_PER_ROW = 500  # largest number of steps on pairs in one iteration, per row of the core set
PRUNE_SIZE = 256  # a core set of at least this many rows drops its idle rows if they are more than half of it
NO_VIOLATION = 1e-14  # a violation below this share of the largest squared distance is rounding, and ends the run
SMALLER_GAP = 0.999  # a gap counts as smaller if it is below this share of the best gap so far
PATIENCE = 20  # iterations without a smaller gap after which the run ends, because only rounding is left


@dataclass
class CoreSetState:
    """The weights, the evaluated centre and the core set; before the first iteration there are only weights."""

    p: Vector
    v: Any = None
    evaluation: BallEvaluation | None = None  # of the centre v
    bound: float = 0.0
    core: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    gram: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))  # of the core set
    joining: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # rows that join the core set next
    violation: float = math.inf  # largest sq. distance of rows below the cap minus the least of rows with weight
    # Products of the core set are between differences from the first centre, in units of the first squared radius.
    # With a kernel, `origin_products` are the products of the first centre with all rows.
    origin: Any = None  # the first centre
    origin_products: Vector = field(default_factory=lambda: np.empty(0))
    unit: float = 1.0
    t: int = 0
    best_gap: float = math.inf
    best_t: int = 0
    settled: bool = False

    @property
    def gap(self) -> float:
        """The relative gap, from numbers that are already known."""
        if self.evaluation is None:
            return math.inf
        value = self.evaluation.value
        return max(0.0, value - self.bound) / value if value > 0 else 0.0


@dataclass(frozen=True)
class CoreSet(Solver[MinimumEnclosingBall, CoreSetState]):
    r"""The smallest enclosing ball, exact to any precision in few passes over the data.

    Parameters
    ----------
    method : {"exact", "paper"}, default="exact"
        "exact" solves for all weights of the core set in each iteration, and then adds a block of the farthest rows;
        "paper" is the algorithm of Badoiu and Clarkson as written.
    block : int or None, default=None
        The number of rows that join the core set in an iteration. None: 32, or up to 512 if many rows may stay outside.

    References
    ----------
    Badoiu, Clarkson (2003), Smaller Core-Sets for Balls.
    Yildirim (2008), Two Algorithms for the Minimum Enclosing Ball Problem.
    Fan, Chen, Lin (2005), Working Set Selection Using Second Order Information (the steps on a core set).

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import solve
    >>> from maxmargin.problems import MinimumEnclosingBall
    >>> from maxmargin.solvers import CoreSet
    >>> corners = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [1.0, 0.5]])
    >>> result = solve(MinimumEnclosingBall(corners), CoreSet(), tol=1e-6)
    >>> result.solution.w.round(4), round(result.certificate.primal**2, 4)
    (array([1., 1.]), 2.0)
    """

    name: ClassVar[str] = "core_set"
    solves: ClassVar[type[Problem]] = MinimumEnclosingBall
    requires: ClassVar[frozenset[Trait]] = frozenset()
    default_tol: ClassVar[float | None] = 1e-3

    method: str = "exact"
    block: int | None = None

    def __post_init__(self) -> None:
        if self.method not in ("exact", "paper"):
            raise ValueError(f'method must be "exact" or "paper"; got {self.method!r}')
        if self.block is not None and not self.block >= 1:
            raise ValueError(f"block must be a whole number of at least 1, or None; got {self.block!r}")

    def deterministic(self, problem: MinimumEnclosingBall) -> bool:
        return True

    def start(self, problem: MinimumEnclosingBall, rng: np.random.Generator, warm: object = None) -> CoreSetState:
        if isinstance(warm, CoreSetState):
            return warm
        p = np.zeros(problem.X.shape[0])
        rows = problem.evenly_spaced_rows(FIRST_CENTRE_ROWS if self.method == "exact" else 1)
        p[rows] = 1 / rows.size
        return CoreSetState(p)

    def step(self, problem: MinimumEnclosingBall, state: CoreSetState, iterations: int, budget: float) -> Step:
        read_before = problem.X.ledger.entries_read
        for done in range(iterations):
            if state.settled:
                return Step(done, Reason.SETTLED)
            if self._cost(problem, state) > budget - (problem.X.ledger.entries_read - read_before):
                return Step(done, Reason.BUDGET)
            if state.evaluation is None:
                self._set_first_centre(problem, state)
            elif self.method == "paper":
                self._step_to_farthest(problem, state, state.evaluation)
            else:
                self._solve_core(problem, state, state.evaluation)
            state.t += 1
            self._measure_gap(problem, state)
            if self.method == "exact" and not state.settled:
                self._select_rows(problem, state)
        return Step(iterations)

    def _cost(self, problem: MinimumEnclosingBall, state: CoreSetState) -> int:
        """The largest number of entries that the next iteration can read."""
        if state.evaluation is None:
            rows, passes = np.flatnonzero(state.p), 1 if self._within_cap(problem, state) else 2
            more_rows = 0 if passes == 1 else math.ceil(1 / problem.cap)
        elif self.method == "paper":
            rows, passes, more_rows = np.flatnonzero(state.evaluation.wet), 1, 0
        else:
            rows, passes, more_rows = np.concatenate([state.core, state.joining]), 1, 0
        if is_kernel(K := problem.X):
            return int(K.missing(rows).sum() + state.joining.size * rows.size + more_rows * K.shape[0])
        X = problem.features
        sizes = X.row_sizes()
        pairs = (state.joining.size + 1) * int(sizes[rows].sum()) + int(sizes[state.joining].sum())
        return int(passes * X.n_stored + pairs + more_rows * int(sizes.max()))

    def _within_cap(self, problem: MinimumEnclosingBall, state: CoreSetState) -> bool:
        return bool(state.p.max() <= problem.cap * CAP_ROUNDING)

    def _set_first_centre(self, problem: MinimumEnclosingBall, state: CoreSetState) -> None:
        """Start at the mean of a few rows; if the cap requires more rows, at the mean of the rows farthest from it."""
        first = self._move_to(problem, state, problem.X.dot_transposed(*_nonzero(state.p)))
        state.origin = state.v
        if not problem.sums_are_cheap:
            state.origin_products = state.v.f.copy()
        state.unit = float(first.sq_distances.max()) or 1.0
        if not self._within_cap(problem, state):
            state.p = first.wet
            self._move_to(problem, state, problem.X.dot_transposed(*_nonzero(state.p)))

    def _move_to(self, problem: MinimumEnclosingBall, state: CoreSetState, v: Point) -> BallEvaluation:
        """Set a new centre, and measure the distances of all rows from it."""
        evaluation = problem.evaluate(v)
        state.v, state.evaluation = v, evaluation
        return evaluation

    def _step_to_farthest(self, problem: MinimumEnclosingBall, state: CoreSetState, evaluation: BallEvaluation) -> None:
        """The step of Badoiu and Clarkson towards the farthest row, or with `nu` the mean of the farthest rows."""
        share = 1 / (state.t + 1)
        target = problem.X.dot_transposed(*_nonzero(evaluation.wet))
        state.p = (1 - share) * state.p + share * evaluation.wet
        self._move_to(problem, state, (1 - share) * state.v + share * target)

    def _solve_core(self, problem: MinimumEnclosingBall, state: CoreSetState, evaluation: BallEvaluation) -> None:
        """Find the best weights of the core set, including the rows that join it; all other weights stay the same."""
        self._enlarge_core(problem, state)
        W, cap = state.core, problem.cap
        weights, e = state.p[W], evaluation.sq_distances[W] / (2 * state.unit)
        tolerance = CORE_TOLERANCE * state.violation / (2 * state.unit)
        ascend_by_pairs(
            state.gram, np.ones(W.size), np.full(W.size, cap), weights, e, tolerance, STEPS_PER_ROW * W.size
        )
        change = weights - state.p[W]
        state.p[W] = weights
        changed = np.flatnonzero(change)
        if not changed.size:
            state.settled = True
            return
        self._move_to(problem, state, state.v + problem.X.dot_transposed(change[changed], W[changed]))

    def _enlarge_core(self, problem: MinimumEnclosingBall, state: CoreSetState) -> None:
        """Add the joining rows to the core set and to its Gram matrix."""
        new, size = state.joining, state.core.size
        if not new.size:
            return
        W = np.concatenate([state.core, new])
        products = problem.products(new, W, state.origin, state.origin_products)
        gram = np.empty((W.size, W.size), dtype=np.float32)
        gram[:size, :size] = state.gram
        gram[size:] = products / state.unit
        gram[:size, size:] = gram[size:, :size].T
        state.core, state.gram = W, gram

    def _measure_gap(self, problem: MinimumEnclosingBall, state: CoreSetState) -> None:
        """Update the bound and the violation, and settle if neither the gap nor the violation can fall further."""
        state.bound = problem.least_radius(state.p, state.v)
        if state.gap < SMALLER_GAP * state.best_gap:
            state.best_gap, state.best_t = state.gap, state.t
        high, low = self._extremes(problem, state)
        state.violation = high - low
        rounding = NO_VIOLATION * (problem.spread + state.unit)
        if self.method == "exact":
            state.settled |= not state.violation > rounding or state.t - state.best_t > PATIENCE

    def _extremes(self, problem: MinimumEnclosingBall, state: CoreSetState) -> tuple[float, float]:
        """The largest squared distance of rows whose weight can grow, and the least of rows whose weight can fall."""
        assert state.evaluation is not None
        sq_distances = state.evaluation.sq_distances
        high = float(sq_distances[state.p < problem.cap].max(initial=-math.inf))
        return high, float(sq_distances[state.p > 0].min())

    def _select_rows(self, problem: MinimumEnclosingBall, state: CoreSetState) -> None:
        """Choose the rows that join the core set next, and drop its idle rows if they are many."""
        assert state.evaluation is not None
        p, sq_distances, cap = state.p, state.evaluation.sq_distances, problem.cap
        high, low = self._extremes(problem, state)
        middle = (high + low) / 2
        W = state.core
        idle = np.where(sq_distances[W] < middle, p[W] == 0, p[W] >= cap)
        if W.size >= PRUNE_SIZE and 2 * np.count_nonzero(idle) > W.size:
            kept = np.flatnonzero(~idle)
            state.core, state.gram = W[kept], np.ascontiguousarray(state.gram[np.ix_(kept, kept)])
        outside_core = np.ones(p.size, dtype=bool)
        outside_core[state.core] = False
        block = self.block or min(LARGEST_BLOCK, max(BLOCK, math.ceil(1 / (4 * cap))))
        too_far = np.flatnonzero(outside_core & (p < cap) & (sq_distances > middle))
        too_near = np.flatnonzero(outside_core & (p > 0) & (sq_distances < middle))
        state.joining = np.concatenate(
            [_with_largest(sq_distances, too_far, block), _with_largest(-sq_distances, too_near, block)]
        )

    def solution(self, problem: MinimumEnclosingBall, state: CoreSetState) -> Solution:
        return Solution(state.v, p=state.p.copy(), v=state.v)

    def next_check(self, problem: MinimumEnclosingBall, state: CoreSetState, done: int) -> int:
        return done + 1

    def estimated_gap(self, problem: MinimumEnclosingBall, state: CoreSetState) -> float:
        return 0.0 if state.settled else state.gap


def _nonzero(weights: Vector) -> tuple[Vector, Indices]:
    """The weights that are not zero, and their indices."""
    rows = np.flatnonzero(weights)
    return weights[rows], rows


def _with_largest(values: Vector, rows: Indices, count: int) -> Indices:
    """The `count` rows with the largest values among these, in ascending order; all of them if there are no more."""
    return rows if rows.size <= count else np.sort(rows[np.argpartition(-values[rows], count - 1)[:count]])
