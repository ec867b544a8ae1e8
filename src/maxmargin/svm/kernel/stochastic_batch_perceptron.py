r"""The Stochastic Batch Perceptron (SBP) of Cotter, Shalev-Shwartz and Srebro (2012), as written and in a faster form.

Problem: the slack form on a KernelMatrix, :math:`\max_{|w|\le1} f(w)`, where f(w) is the water level :math:`\gamma`
over the responses :math:`c_i = y_i\langle w, x_i\rangle`: :math:`\sum_i s_i(\gamma - c_i)_+ = \nu\sum_i s_i`. Given:
rows of K. Returned: a mean of the iterates, for which :math:`f(\bar w) \ge \max f - O(\sqrt{\log(1/\delta)/T})` with
probability :math:`1-\delta` (Lemma 3.2), and weights of the samples which prove how good it is.

What the responses tell is free: the points below the water level, the wet ones, are those whose mean
:math:`\sum_i p^*_i y_i x_i` is a super-gradient of f (Lemma 3.1, :math:`p^*_i \propto s_i` on them). A draw
:math:`j \sim p^*` is an unbiased estimate of it that costs one row of K.

Symbols as in the paper: w = sum alpha_i y_i x_i, c, gamma, p*, eta. A free bias makes two basins, one a class, wet
over the same mass (section 3.6): p* has half of its weight on each. x_i is the sample in the kernel's space over
`problem.scale`, which brings it into the unit ball; the norm of w is the square root of sum alpha_i c_i (section 3.3
leaves out the root).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from maxmargin.core import water_level, water_levels
from maxmargin.core.types import Indices, Vector
from maxmargin.engine.problem import Problem, Solution, Trait, length
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.matrix import KernelMatrix
from maxmargin.kernels.row_cache import BATCH, MIN_ROWS
from maxmargin.svm.slack import SlackSVM

METHODS = ("kept", "paper")


@dataclass(frozen=True)
class StochasticBatchPerceptron(Solver):
    r"""Wet points are drawn and added to w; all responses are kept up.

    Parameters
    ----------
    method : {"kept", "paper"}, default="kept"
        "paper": one draw an iteration, :math:`\eta_t = 1/\sqrt t`, projection on the unit ball, and the mean of all
        iterates. "kept": wet points whose rows are kept take part all and exactly, and draws stand for the others
        alone; the step is the best one for the dual bound. See `docs/sbp.md` for how the two compare.
    block : int, default=16
        With "kept": how many points are drawn in an iteration, their rows computed as one matrix product.
    average : float, default=1
        With "kept": the answer is the mean of the iterates with weights :math:`t^\text{average}`.

    References
    ----------
    Cotter, Shalev-Shwartz, Srebro (2012), The Kernelized Stochastic Batch Perceptron.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SlackSVM, solve
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.kernels.functions import Rbf
    >>> from maxmargin.solvers import StochasticBatchPerceptron
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where((X**2).sum(axis=1) < 1, 1.0, -1.0)
    >>> problem = SlackSVM(KernelMatrix(X, Rbf(gamma=1.0)), y, slack=0.001)
    >>> result = solve(problem, StochasticBatchPerceptron(), tol=0.05, random_state=0)
    >>> result.status, result.reads["learning"] < 300 * 300
    ('tol', True)
    """

    name: ClassVar[str] = "sbp"
    solves: ClassVar[type[Problem]] = SlackSVM
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.KERNEL})
    visits_samples: ClassVar[bool] = True

    method: str = "kept"
    block: int = 16
    average: float = 1.0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {self.method!r}")
        if not (isinstance(self.block, int) and 1 <= self.block <= MIN_ROWS):
            raise ValueError(f"block must be a whole number from 1 to {MIN_ROWS}; got {self.block!r}")
        if not self.average >= 0:
            raise ValueError(f"average must be at least 0; got {self.average!r}")

    @property
    def default_tol(self) -> float | None:  # type: ignore[override]
        """The gap of the paper's means closes slowly, so that no tolerance is a good one."""
        return 0.01 if self.method == "kept" else None

    def start(self, problem: SlackSVM, rng: np.random.Generator, warm: Any = None) -> Iterates:
        if isinstance(warm, Iterates):
            warm.set_slack(problem)
            return warm
        if self.method == "paper":
            return AsWritten(problem, rng)
        return WithRowsKept(problem, rng, self.block, self.average)

    def step(self, problem: SlackSVM, state: Iterates, iterations: int, budget: int) -> Step:
        end = problem.X.ledger.stored + budget
        for done in range(iterations):
            if not state.iterate(problem, end - problem.X.ledger.stored):
                return Step(done, Reason.BUDGET)
        return Step(iterations)

    def solution(self, problem: SlackSVM, state: Iterates) -> Solution:
        return state.solution(problem)

    def iterations_per_pass(self, problem: SlackSVM) -> int:
        samples = super().iterations_per_pass(problem)
        return math.ceil(samples / self.block) if self.method == "kept" else samples

    def default_iterations(self, problem: SlackSVM) -> int:
        """As many draws as there are samples; blocks of them need fewer."""
        return 1000 if self.method == "kept" else max(1000, problem.y.size)

    def estimated_gap(self, problem: SlackSVM, state: Iterates) -> float:
        """The gap itself: the responses to w and to the dual point are known."""
        found = state.solution(problem)
        if found.p is None or found.v is None:
            return math.inf
        value = problem.evaluate(found.w).value
        bound = length(found.v) + problem.volume * problem.cap(found.p)
        return (bound - value) / max(abs(bound), abs(value), np.finfo(float).tiny)


class Iterates(ABC):
    """Where a run stands: what both methods share."""

    def __init__(self, problem: SlackSVM, rng: np.random.Generator) -> None:
        n = problem.y.size
        self.rng = rng
        self.basins = [np.flatnonzero(group) for group in problem.groups]
        self.slack = problem.slack
        self.t = 0
        self.n = n

    @abstractmethod
    def iterate(self, problem: SlackSVM, budget: int) -> bool:
        """One iteration, unless it needs more kernel evaluations than this: then none, and False."""

    @abstractmethod
    def solution(self, problem: SlackSVM) -> Solution:
        """The mean of the iterates, and weights of the samples whose sum is known."""

    def set_slack(self, problem: SlackSVM) -> None:
        """Go on at the slack of this problem: what was found at another is where to begin, no part of the answer."""
        if problem.slack != self.slack:
            self.slack = problem.slack
            self.forget_mean()

    @abstractmethod
    def forget_mean(self) -> None:
        """Begin a new mean of the iterates."""

    def wet(self, problem: SlackSVM, c: Vector) -> list[Indices]:
        """The points of each basin at or below its water level."""
        heights = [c[basin] for basin in self.basins]
        widths = [problem.s[basin] for basin in self.basins]
        levels: Sequence[float]
        if len(heights) == 2:
            levels = water_levels(heights[0], heights[1], problem.volume, widths[0], widths[1])
        else:
            levels = [water_level(heights[0], problem.volume, widths[0])]
        found = zip(self.basins, heights, levels, strict=True)
        return [basin[height <= max(level, height.min())] for basin, height, level in found]


class AsWritten(Iterates):
    """Section 3.4, step by step.

    c has a row for each basin: the responses to the part of w that was drawn from it. Their sum are the responses to w;
    from the parts, a dual point with balanced classes is known.
    """

    def __init__(self, problem: SlackSVM, rng: np.random.Generator) -> None:
        super().__init__(problem, rng)
        self.alpha = np.zeros(self.n)
        self.c = np.zeros((len(self.basins), self.n))
        self.drawn: int | None = None  # a point that waits for the budget
        self.forget_mean()

    def forget_mean(self) -> None:
        self.sum_alpha, self.sum_c, self.summed = np.zeros_like(self.alpha), np.zeros_like(self.c), 0

    def iterate(self, problem: SlackSVM, budget: int) -> bool:
        K, y = _kernel(problem), problem.y
        if self.drawn is None:
            self.drawn = int(self.rng.choice(self.n, p=self._minimax_p(problem)))  # steps 1 and 2
        j = self.drawn
        if _evaluations(K, np.array([j])) > budget:
            return False
        self.drawn = None
        self.t += 1
        eta = 1 / math.sqrt(self.t)
        self.alpha[j] += eta
        basin = int(len(self.basins) == 2 and y[j] < 0)
        self.c[basin] += eta * y * y[j] * K.rows(np.array([j]))[0] / problem.scale**2  # Eq. (3.4)
        norm = math.sqrt(max(0.0, float(self.alpha @ self.c.sum(axis=0))))
        if norm > 1:
            self.alpha /= norm
            self.c /= norm
        self.sum_alpha += self.alpha
        self.sum_c += self.c
        self.summed += 1
        return True

    def _minimax_p(self, problem: SlackSVM) -> Vector:
        """p*: of each basin the same, on its wet points by their weights."""
        p, wet = np.zeros(self.n), self.wet(problem, self.c.sum(axis=0))
        for points in wet:
            p[points] = problem.s[points] / (len(wet) * problem.s[points].sum())
        return p

    def solution(self, problem: SlackSVM) -> Solution:
        y, scale2 = problem.y, problem.scale**2
        alpha, c = self.sum_alpha / max(self.summed, 1), self.sum_c / max(self.summed, 1)
        w = _expansion(problem, alpha, y * c.sum(axis=0) * scale2)
        b = problem.evaluate_responses(w, c.sum(axis=0)).b
        sums = [float(alpha[basin].sum()) for basin in self.basins]
        if min(sums) <= 0:  # nothing was drawn from a basin yet
            return Solution(w, b, alpha)
        p, balanced = np.zeros(self.n), np.zeros(self.n)
        for basin, part, total in zip(self.basins, c, sums, strict=True):
            p[basin] = alpha[basin] / (len(sums) * total)
            balanced += part / (len(sums) * total)
        return Solution(w, b, p, _expansion(problem, p, y * balanced * scale2))


class WithRowsKept(Iterates):
    r"""What a draw costs is its row, and rows are kept: so wet points whose rows are kept need not be drawn.

    An iteration:

    1. The wet points of each basin, from the responses to :math:`w = u/\max\{|u|, e\}`.
    2. The super-gradient :math:`g = \sum_i p^*_i y_i x_i`: exactly over the wet points whose rows are kept, by sums
       that change with the few points that become wet or dry; a block of draws without replacement stands for the
       others. The estimate is unbiased, and without any variance once all wet points are kept.
    3. :math:`u \leftarrow (1-\theta) u + \theta g`, with the :math:`\theta` at which
       :math:`|u| + V\max_i p^*_i/s_i`, the dual bound, is least (the second term is taken to be linear), and at
       least 1/2t.

    u is always :math:`\sum_i \alpha_i y_i x_i` for weights alpha on the simplex, balanced between basins: a dual point,
    whose bound needs no evaluations. e is how long u would be if all that went into it were at right angles: as long as
    u is no longer than that, it is noise, and w stays inside the ball, as it does with the paper's
    :math:`\eta = 1/\sqrt t` and unit draws, where e would be :math:`1/\sqrt t`.

    Where hardly any point is wet, as with slack 0, the lowest ones count as wet until the rows of all of them are kept:
    each such iteration brings a new row, so there are no more than n. And what u is made of from the time of draws is
    forgotten when none are left to be made, as their weights would spoil the bound for long.

    Attributes
    ----------
    alpha, h : arrays of shape (n,)
        u, as weights of the samples and as :math:`\sum_i \alpha_i y_i K_i`.
    cap : float
        The mean of the largest p*_i / s_i, as u is the mean of g.
    sq_norm, sq_noise, size : float
        The squares of |u| and of e, and the root of the larger.
    sums : list of arrays of shape (n,)
        For each basin, :math:`\sum_i s_i y_i K_i` over the points marked in `inside`.
    """

    def __init__(self, problem: SlackSVM, rng: np.random.Generator, block: int, average: float) -> None:
        super().__init__(problem, rng)
        self.draws, self.average = max(1, block // len(self.basins)), average
        self.alpha, self.h, self.cap = np.zeros(self.n), np.zeros(self.n), 0.0
        self.sq_norm, self.sq_noise, self.size = 0.0, 0.0, 1.0
        self.sums = [np.zeros(self.n) for _ in self.basins]
        self.inside = np.zeros(self.n, dtype=bool)
        self.drawn: list[Indices] | None = None  # of each basin; they wait for the budget
        self._remember()
        self.forget_mean()

    def forget_mean(self) -> None:
        self.sum_alpha, self.sum_h, self.weight = np.zeros(self.n), np.zeros(self.n), 0.0

    def iterate(self, problem: SlackSVM, budget: int) -> bool:
        K = _kernel(problem)
        c = problem.y * self.h / (problem.scale**2 * self.size)
        wet = [self._enough(K, c, *basin) for basin in zip(self.basins, self.wet(problem, c), strict=True)]
        if self.drawn is None:
            self.drawn = self.draw(problem, wet)
        drawn, taking_part = np.concatenate(self.drawn), np.zeros(self.n, dtype=bool)
        for points in wet:
            taking_part[points] = self.known(K, points)
        taking_part[drawn] = False
        changed = np.flatnonzero(taking_part != self.inside)
        if _evaluations(K, changed) + _evaluations(K, drawn) > budget:
            return False
        self._add_up(K, problem, changed)
        weights, shares = self.weights(problem, wet, self.drawn)
        h = np.sum([share * total for share, total in zip(shares, self.sums, strict=True)], axis=0)
        _add(K, drawn, weights[drawn] * problem.y[drawn], h)
        self.t += 1
        self._move(problem, weights, h, max(shares), float(weights[drawn] @ weights[drawn]))
        self.drawn = None
        return True

    def _enough(self, K: KernelMatrix, c: Vector, basin: Indices, wet: Indices) -> Indices:
        """The wet points; where they are few and rows of the lowest ones are missing, as many as are drawn."""
        count = min(self.draws, basin.size)
        if wet.size >= count:
            return wet
        lowest = np.sort(basin[np.argpartition(c[basin], count - 1)[:count]])
        return wet if self.known(K, lowest).all() else lowest

    def known(self, K: KernelMatrix, points: Indices) -> NDArray[np.bool_]:
        """Which points can take part exactly: their rows are in the sums, or kept."""
        return np.asarray(self.inside[points] | (K.missing(points) == 0))

    def draw(self, problem: SlackSVM, wet: list[Indices]) -> list[Indices]:
        """For each basin, some of the wet points that are not known."""
        unknown = (points[~self.known(_kernel(problem), points)] for points in wet)
        return [_draw_apart(self.rng, points, problem.s, self.draws) for points in unknown]

    def _add_up(self, K: KernelMatrix, problem: SlackSVM, changed: Indices) -> None:
        """Let these points into the sums, or out where they are inside."""
        factors = np.where(self.inside[changed], -1.0, 1.0) * problem.s[changed] * problem.y[changed]
        self.inside[changed] ^= True
        parts = [np.isin(changed, basin, assume_unique=True) for basin in self.basins]
        # Rows that are kept come first: computing others may take their places.
        there = K.missing(changed) == 0
        for some in (there, ~there):
            for part, total in zip(parts, self.sums, strict=True):
                _add(K, changed[some & part], factors[some & part], total)

    def weights(self, problem: SlackSVM, wet: list[Indices], drawn: list[Indices]) -> tuple[Vector, list[float]]:
        """g as weights of the samples, and p*_i / s_i of each basin."""
        s, weights = problem.s, np.zeros(self.n)
        shares = [1 / (len(wet) * float(s[points].sum())) for points in wet]
        for points, those, share in zip(wet, drawn, shares, strict=True):
            inside = self.inside[points]
            rest = points[~inside]
            weights[points[inside]] = share * s[points[inside]]
            # All of the rest stand for themselves; some of them, drawn by weight, each for an equal part of it.
            weights[those] = share * (s[those] if those.size == rest.size else s[rest].sum() / those.size)
        return weights, shares

    def _move(self, problem: SlackSVM, weights: Vector, h: Vector, cap: float, sq_noise: float) -> None:
        """u towards g, and the mean of the iterates with it."""
        y, scale2 = problem.y, problem.scale**2
        ug, gg = float(weights @ (y * self.h)) / scale2, max(0.0, float(weights @ (y * h))) / scale2
        theta = _best_step(self.sq_norm, ug, gg, problem.volume * (cap - self.cap))
        theta = max(theta, 0.5 / self.t) if self.t > 1 else 1.0
        for u, g in ((self.alpha, weights), (self.h, h)):
            u *= 1 - theta
            u += theta * g
        self.cap += theta * (cap - self.cap)
        self.sq_noise = (1 - theta) ** 2 * self.sq_noise + theta**2 * max(gg, sq_noise)
        self.old_share *= 1 - theta
        if sq_noise == 0 and self.t >= 2 * self.old_t:
            self._forget(problem)
        self.sq_norm = max(0.0, float(self.alpha @ (y * self.h))) / scale2
        self.size = math.sqrt(max(self.sq_norm, self.sq_noise)) or 1.0
        weight = self.t**self.average
        self.sum_alpha += weight / self.size * self.alpha
        self.sum_h += weight / self.size * self.h
        self.weight += weight

    def _remember(self) -> None:
        self.old, self.old_share, self.old_t = (self.alpha.copy(), self.h.copy(), self.cap), 1.0, max(1, self.t)

    def _forget(self, problem: SlackSVM) -> None:
        """Take out of u what it was at half the time or before, where that gives a better bound."""

        def bound(alpha: Vector, h: Vector) -> float:
            return length(_expansion(problem, alpha, h)) + problem.volume * problem.cap(alpha)

        if self.old_share < 1:
            stays, was = 1 / (1 - self.old_share), self.old
            alpha = np.maximum(0.0, stays * (self.alpha - self.old_share * was[0]))
            h = stays * (self.h - self.old_share * was[1])
            if bound(alpha, h) < bound(self.alpha, self.h):
                self.alpha, self.h, self.cap = alpha, h, stays * (self.cap - self.old_share * was[2])
        self._remember()

    def solution(self, problem: SlackSVM) -> Solution:
        weight = self.weight or 1.0
        at = problem.evaluate(_expansion(problem, self.sum_alpha / weight, self.sum_h / weight))
        return Solution(at.w, at.b, self.alpha.copy(), _expansion(problem, self.alpha, self.h))


def _kernel(problem: SlackSVM) -> KernelMatrix:
    return cast(KernelMatrix, problem.X)


def _expansion(problem: SlackSVM, alpha: Vector, h: Vector) -> Any:
    """sum alpha_i y_i x_i, where h = sum alpha_i y_i K_i."""
    return Expansion(alpha * problem.y / problem.scale, h / problem.scale)


def _evaluations(K: KernelMatrix, numbers: Indices) -> int:
    """What it costs to have these rows."""
    return int(K.missing(numbers).sum())


def _add(K: KernelMatrix, numbers: Indices, factors: Vector, f: Vector) -> None:
    """f <- f + sum of factor times row of K."""
    most = min(BATCH, K.cached_rows)
    for start in range(0, numbers.size, most):
        some = slice(start, start + most)
        K.fetch(numbers[some]).add_to(f, factors[some])


def _draw_apart(rng: np.random.Generator, points: Indices, s: Vector, count: int) -> Indices:
    """Some of these points, without replacement, each next one with a probability as its weight s."""
    if points.size <= count:
        return points
    keys = rng.exponential(size=points.size) / s[points]
    first = np.argpartition(keys, count - 1)[:count]
    return points[first[np.argsort(keys[first])]]


def _best_step(uu: float, ug: float, gg: float, slope: float) -> float:
    """Where on [0, 1] the function |u + theta (g - u)| + slope theta is least."""
    across, square = ug - uu, max(0.0, uu - 2 * ug + gg)
    if slope**2 >= square:  # the sum rises, or falls, all the way
        return float(slope < 0 or (slope == 0 and across < 0))
    distance = max(0.0, uu - across**2 / square)  # squared, of the line from the origin
    theta = (-slope * math.sqrt(distance / (1 - slope**2 / square)) - across) / square
    return min(1.0, max(0.0, theta))
