r"""The hybrid deterministic-stochastic method of Friedlander and Schmidt, with the shrinking of Schmidt and Joulin.

The application to the hinge loss is section 1 of the addendum of Schmidt and Joulin (2012).

Problem: the smooth SVM, :math:`\min_x \sum_i s_i [1 - b_i a_i^T x]_+^2 + \frac\lambda2 |x|^2`, which is the regularised
form with the squared hinge at :math:`\lambda = 1/C`, divided by C. (As a mean over the samples, the form of the main
paper, it is divided by n once more: :math:`\lambda = 1/(Cn)`.)
Given: the data by rows. Returned: w, b, and the dual point :math:`\alpha_i = 2 C s_i [1 - c_i]_+` of the margins c.

The method starts like a stochastic method, with gradients of few samples, and ends like a deterministic method, with
quasi-Newton (L-BFGS) steps on a batch that grows until it holds all samples. Samples that provably have no loss are not
read.

Symbols here and in the papers: w is their x, y_i their b_i, x_i their a_i, n their M. A point is the vector of
all variables: w and, with a bias, a last coordinate z: b = B z for a penalised bias, b = z for a free one.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.core.types import Vector
from maxmargin.engine.problem import Solution, Trait
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.svm.linear._smooth import Reader
from maxmargin.svm.linear.shrinking import EPS, Bounds, Rows
from maxmargin.svm.regularized import RegularizedSVM

SHRINKING = ("tight", "sum", "none")
ARMIJO = 1e-4  # the line search accepts a step that decreases the objective by this share of t times the slope
MOST_BACKTRACKS = 30  # steps tried in a line search, after which the L-BFGS pairs are dropped


@dataclass(frozen=True)
class Hybrid(Solver[RegularizedSVM, "HybridState"]):
    r"""Quasi-Newton steps on a growing batch of samples, without reading samples that provably have no loss.

    Parameters
    ----------
    shrinking : {"tight", "sum", "none"}, default="tight"
        The bound that shows that a sample has no loss. "tight": the bound of section 2, by the distance from the point
        where the sample was last read. "sum": the bound of equation (1), by the sum of the steps since then. "none": no
        bound; the whole batch is read. See :mod:`maxmargin.svm.linear.shrinking`.
    growth : float, default=1.1
        The batch grows as :math:`|B_{k+1}| = \lceil\min(\text{growth}\,|B_k| + 1, n)\rceil`, in a random order.
        Infinite: the batch holds all samples from the start (the deterministic method).
    memory : int, default=10
        The number of pairs of the L-BFGS approximation of the Hessian.
    points : int, default=10
        With "tight": the number of stored points; a new one replaces the oldest.

    References
    ----------
    Friedlander, Schmidt (2012), Hybrid Deterministic-Stochastic Methods for Data Fitting; Schmidt, Joulin (2012), its
    Addendum: Application to the Hinge Loss.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import RegularizedSVM
    >>> from maxmargin.solvers import Hybrid, solve
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(1000) < 0.5, -1.0, 1.0)
    >>> X = rng.normal(size=(1000, 20)) + y[:, None]
    >>> result = solve(RegularizedSVM(X, y, C=1.0, loss="squared_hinge"), Hybrid(), tol=1e-6, random_state=0)
    >>> result.status
    'tol'
    >>> round(result.state.evaluations / 1000)  # effective passes
    9
    """

    name: ClassVar[str] = "hybrid"
    solves: ClassVar[type[RegularizedSVM]] = RegularizedSVM
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.FEATURES, Trait.SMOOTH_LOSS})
    default_tol: ClassVar[float | None] = 1e-3

    shrinking: str = "tight"
    growth: float = 1.1
    memory: int = 10
    points: int = 10

    def __post_init__(self) -> None:
        if self.shrinking not in SHRINKING:
            raise ValueError(f"shrinking must be one of {', '.join(SHRINKING)}; got {self.shrinking!r}")
        if not self.growth > 1:
            raise ValueError(f"growth must be above 1 (the paper: 1.1; math.inf: all at once); got {self.growth!r}")
        for name in ("memory", "points"):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= 1):
                raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")

    def deterministic(self, problem: RegularizedSVM) -> bool:
        return math.isinf(self.growth)

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> HybridState:
        if isinstance(warm, HybridState):
            warm.reader = Reader(problem.features)
            if warm.C != problem.C:
                # Sums over samples do not depend on C, but the L-BFGS pairs do.
                warm.C, warm.search = problem.C, None
                warm.pairs.clear()
            return warm
        used = np.flatnonzero(problem.s > 0)
        n, d = problem.X.shape
        return HybridState(
            C=problem.C,
            order=rng.permutation(used),
            reader=Reader(problem.features),
            bounds=Bounds(n, self.points if self.shrinking == "tight" else 1),
            point=np.zeros(d + problem.bias),
            pairs=deque(maxlen=self.memory),
            at=Visit.of_none(d + problem.bias),
        )

    def step(self, problem: RegularizedSVM, state: HybridState, iterations: int, budget: float) -> Step:
        last = problem.X.ledger.cost + budget
        for done in range(iterations):
            if not self._iterate(problem, state, last):
                return Step(done, Reason.BUDGET)
        return Step(iterations)

    def solution(self, problem: RegularizedSVM, state: HybridState) -> Solution:
        factor = state.factor
        w, b = _split(problem, state.point)
        p = np.zeros(problem.y.size)
        p[state.at.rows] = factor * state.at.pulls
        return Solution(w.copy(), b, p, factor * state.at.pull[: w.size])

    def estimated_gap(self, problem: RegularizedSVM, state: HybridState) -> float:
        """Half of the squared gradient: without a free bias, the gap to the dual point of the margins."""
        if state.batch.size < state.order.size:
            return math.inf
        gradient = state.gradient(problem, state.point, state.at)
        return 0.5 * float(gradient @ gradient) / state.value(problem, state.point, state.at)

    def default_iterations(self, problem: RegularizedSVM) -> int:
        """The iterations until the batch holds all samples, and 100 more."""
        n, excess = problem.y.size, self.growth - 1
        return 100 + (1 if math.isinf(excess) else math.ceil(math.log1p(n * excess) / math.log1p(excess)))

    # One iteration

    def _iterate(self, problem: RegularizedSVM, state: HybridState, last: float) -> bool:
        """Grow the batch, find a direction, search along it. False if the next reads exceed the budget.

        `state.search` keeps the line search, so that a later call resumes it.
        """
        if state.search is None:
            if not self._grow(problem, state, last):
                return False
            state.search = self._direction(problem, state)
        search = state.search
        before = state.value(problem, state.point, state.at)
        while True:
            point = state.point + search.t * search.direction
            visit = self._visit(problem, state, point, self._needed(problem, state, point), last)
            if visit is None:
                return False
            rise = state.value(problem, point, visit) - before
            if rise <= ARMIJO * search.t * search.slope + 4 * EPS * before:
                break
            search.tries += 1
            if search.tries == MOST_BACKTRACKS:
                state.pairs.clear()
                state.search = None
                return True
            # The minimum of the interpolating parabola, limited to between 0.1 and 0.5 of the present step.
            best = -0.5 * search.slope * search.t**2 / (rise - search.slope * search.t)
            search.t = min(max(best, 0.1 * search.t), 0.5 * search.t)
        # Both gradients of a pair are those of the same batch.
        s = point - state.point
        y = state.gradient(problem, point, visit) - state.gradient(problem, state.point, state.at)
        if s @ y > 0:
            state.pairs.append(Pair(s, y, float(s @ y)))
        state.point, state.at, state.search = point, visit, None
        return True

    def _grow(self, problem: RegularizedSVM, state: HybridState, last: float) -> bool:
        """Add samples to the batch and read them at the present point. False if that exceeds the budget."""
        n, size = state.order.size, state.batch.size
        larger = n if math.isinf(self.growth) else math.ceil(min(self.growth * size + 1, n))
        added = np.sort(state.order[size:larger])
        if added.size:
            grown = np.sort(np.concatenate([state.batch, added]))
            visit = self._visit(problem, state, state.point, added, last, known=grown)
            if visit is None:
                return False
            state.batch, state.at = grown, state.at.with_more(visit)
        return True

    def _direction(self, problem: RegularizedSVM, state: HybridState) -> Search:
        """A line search along the quasi-Newton direction."""
        gradient = state.gradient(problem, state.point, state.at)
        direction = -_times_inverse_hessian(state.pairs, gradient, state.curvature)
        if direction @ gradient > 0:  # possible by rounding only
            state.pairs.clear()
            direction = -gradient / state.curvature
        return Search(direction, float(direction @ gradient))

    def _needed(self, problem: RegularizedSVM, state: HybridState, point: Vector) -> Rows:
        """The samples of the batch that may have a loss at a point."""
        if self.shrinking == "none":
            return state.batch
        w, b = _split(problem, point)
        least = state.bounds.at(w, state.batch) + problem.y[state.batch] * b
        return state.batch[~(least >= 1 + 4 * EPS * (1 + abs(b)))]

    def _visit(
        self,
        problem: RegularizedSVM,
        state: HybridState,
        point: Vector,
        rows: Rows,
        last: float,
        known: Rows | None = None,
    ) -> Visit | None:
        """Read some samples at a point and return their terms of the objective; None if that exceeds the budget."""
        w, b = _split(problem, point)
        seen = state.reader.visit(rows, problem.y, problem.s, w, b, last - problem.X.ledger.cost)
        if seen is None:
            return None
        responses, pulls, sq_norms, pull = seen
        state.evaluations += rows.size
        y = problem.y[rows]
        if self.shrinking != "none":
            state.bounds.read(rows, w, responses, sq_norms, state.batch if known is None else known)
        if problem.bias:
            pull = np.append(pull, bias_feature(problem) * float(pulls @ y))
            sq_norms = sq_norms + bias_feature(problem) ** 2
        loss = float(problem.s[rows] @ problem.loss.value(responses + y * b))
        return Visit(rows, pulls, loss, pull, float(problem.s[rows] @ sq_norms))


@dataclass(frozen=True)
class Visit:
    """The terms of some samples in the objective, its gradient and its curvature at a point, without C.

    Attributes
    ----------
    rows, pulls : arrays of shape (k,)
        The samples that were read, and s_i 2 [1 - c_i]_+ for each.
    loss : float
        sum s_i [1 - c_i]_+^2.
    pull : array
        Minus the gradient of the loss.
    sq_norm : float
        sum s_i |x_i|^2: near the point, the curvature of the loss is at most twice this.
    """

    rows: Rows
    pulls: Vector
    loss: float
    pull: Vector
    sq_norm: float

    @classmethod
    def of_none(cls, size: int) -> Visit:
        """The visit of no samples."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0), 0.0, np.zeros(size), 0.0)

    def with_more(self, other: Visit) -> Visit:
        """The terms of the samples of both visits."""
        return Visit(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.pulls, other.pulls]),
            self.loss + other.loss,
            self.pull + other.pull,
            self.sq_norm + other.sq_norm,
        )


@dataclass(frozen=True)
class Pair:
    """A pair of L-BFGS: a step s, the change y of the gradient along it, and s'y."""

    s: Vector
    y: Vector
    product: float


@dataclass
class Search:
    """The state of a line search: the step to try next is t times the direction."""

    direction: Vector
    slope: float
    t: float = 1.0
    tries: int = 0


@dataclass
class HybridState:
    """The state of the hybrid method.

    Attributes
    ----------
    order : array
        The samples with a positive weight, in the order in which they enter the batch.
    batch : array
        The samples in the batch, sorted.
    point, at : array, Visit
        The current point, and the terms of the batch there.
    evaluations : int
        The number of samples read, with repetitions: n of them are an effective pass.
    """

    C: float
    order: Rows
    reader: Reader
    bounds: Bounds
    point: Vector
    pairs: deque[Pair]
    at: Visit
    batch: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    search: Search | None = None
    evaluations: int = 0

    @property
    def factor(self) -> float:
        """The factor of the losses of the batch: C times the number of samples over that of the batch."""
        return self.C * self.order.size / max(self.batch.size, 1)

    def value(self, problem: RegularizedSVM, point: Vector, visit: Visit) -> float:
        """The objective of the batch at a point."""
        penalised = _penalised(problem, point)
        return 0.5 * float(penalised @ penalised) + self.factor * visit.loss

    def gradient(self, problem: RegularizedSVM, point: Vector, visit: Visit) -> Vector:
        """The gradient of the objective of the batch at a point."""
        return _penalised(problem, point) - self.factor * visit.pull

    @property
    def curvature(self) -> float:
        """An upper bound of the curvature of the objective of the batch, near the point."""
        return 1.0 + 2.0 * self.factor * self.at.sq_norm


def _times_inverse_hessian(pairs: deque[Pair], gradient: Vector, curvature: float) -> Vector:
    """The L-BFGS approximation of the inverse Hessian times the gradient, by the two-loop recursion."""
    q, shares = gradient.copy(), []
    for pair in reversed(pairs):
        shares.append(float(pair.s @ q) / pair.product)
        q -= shares[-1] * pair.y
    q *= pairs[-1].product / float(pairs[-1].y @ pairs[-1].y) if pairs else 1 / curvature
    for pair, share in zip(pairs, reversed(shares), strict=True):
        q += (share - float(pair.y @ q) / pair.product) * pair.s
    return q


def bias_feature(problem: RegularizedSVM) -> float:
    """The value of the constant feature whose weight is the bias; 0 without a bias."""
    return 1.0 if problem.free_bias else problem.bias_feature


def _split(problem: RegularizedSVM, point: Vector) -> tuple[Vector, float]:
    """w and b of a point."""
    return (point[:-1], bias_feature(problem) * float(point[-1])) if problem.bias else (point, 0.0)


def _penalised(problem: RegularizedSVM, point: Vector) -> Vector:
    """The point with a free bias set to zero: the vector that is penalised, and the gradient of its penalty."""
    return np.append(point[:-1], 0.0) if problem.free_bias else point
