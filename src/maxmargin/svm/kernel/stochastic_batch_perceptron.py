r"""The Stochastic Batch Perceptron (SBP) of Cotter, Shalev-Shwartz and Srebro (2012), as written and in a faster form.

Problem: the slack form on a KernelMatrix, :math:`\max_{|w|\le1} f(w)`, where f(w) is the water level :math:`\gamma`
over the responses :math:`c_i = y_i\langle w, x_i\rangle`: :math:`\sum_i s_i(\gamma - c_i)_+ = \nu\sum_i s_i`. Given:
rows of K. Returned: a mean of the iterates, for which :math:`f(\bar w) \ge \max f - O(\sqrt{\log(1/\delta)/T})` with
probability :math:`1-\delta` (Lemma 3.2), and dual weights that prove how good it is.

The responses are known without further evaluations, and so are the wet points, i.e. those below the water level. Their
mean :math:`\sum_i p^*_i y_i x_i` is a super-gradient of f (Lemma 3.1). Here :math:`p^*_i \propto s_i` times the share
of the point that is wet, which is less than 1 for points at the level: see :func:`maxmargin.core.pour`. A draw
:math:`j \sim p^*` is an unbiased estimate of the super-gradient that costs one row of K.

Symbols as in the paper: w = sum alpha_i y_i x_i, c, gamma, p*, eta. A free bias makes two basins, one per class, with
the same wet mass (section 3.6): half of the weight of p* is on each. x_i is the sample in the kernel's space divided by
`problem.scale`, which brings it into the unit ball. The norm of w is the square root of sum alpha_i c_i (section 3.3
leaves out the root).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from maxmargin.core import water_level
from maxmargin.core.types import Indices, Vector
from maxmargin.engine.problem import Problem, Solution, Trait, length
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.row_cache import BATCH, MIN_ROWS
from maxmargin.kernels.rows import KernelRows, kernel_rows
from maxmargin.svm.kernel._stochastic_batch_perceptron import pour_below
from maxmargin.svm.kernel.subsets import first_size, next_size
from maxmargin.svm.kernel.visits import Sum
from maxmargin.svm.slack import SlackSVM

METHODS = ("kept", "paper")
LEAST_CACHED_SHARE = 1 / 32  # if the cache holds at least this share of the rows, rows stay cached
# Constants of the method without cached rows:
FIRST, GROWTH = 6000, 3.0  # samples of the first subset, and the largest factor by which it grows, as in decomposition
LARGEST_BLOCK = 8192  # largest number of points drawn in an iteration, chosen by benchmarks/forest.py
LEAST_BLOCKS = 12  # smallest number of blocks in the subset, which limits the number of points drawn, too
# The subset grows if fewer points than a block lie below the level by more than this share of the dual bound.
FAR_BELOW = 0.5
BIAS_PRECISION = 1e-3  # error of the bias at which the basins are equal, as a share of the dual bound


@dataclass(frozen=True)
class StochasticBatchPerceptron(Solver[SlackSVM, "Iterates"]):
    r"""The Stochastic Batch Perceptron: adds random samples below the water level to w, and updates all responses.

    Parameters
    ----------
    method : {"kept", "paper"}, default="kept"
        "paper": one draw per iteration, :math:`\eta_t = 1/\sqrt t`, projection on the unit ball, and the mean of all
        iterates. "kept": wet points whose rows are cached enter the super-gradient exactly, and only the others are
        sampled; the step is the best one for the dual bound. If there is nearly no slack and few rows fit in the cache,
        points are drawn from a growing subset, by how deep they lie below the dual bound. `docs/sbp.md` compares the
        methods.
    block : int, default=16
        With "kept": the number of points drawn in an iteration; their rows are computed by one matrix product.
    average : float, default=1
        With "kept": the solution is the mean of the iterates with weights :math:`t^\text{average}`.

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
        """1 % for "kept"; none for "paper", whose gap closes too slowly for any useful tolerance."""
        return 0.01 if self.method == "kept" else None

    def start(self, problem: SlackSVM, rng: np.random.Generator, warm: object = None) -> Iterates:
        if isinstance(warm, Iterates):
            warm.set_slack(problem)
            return warm
        if self.method == "paper":
            return AsWritten(problem, rng)
        return WithRowsKept(problem, rng, self.block, self.average)

    def step(self, problem: SlackSVM, state: Iterates, iterations: int, budget: float) -> Step:
        end = problem.X.ledger.entries_read + budget
        for done in range(iterations):
            if not state.iterate(problem, end - problem.X.ledger.entries_read):
                return Step(done, Reason.BUDGET)
        return Step(iterations)

    def solution(self, problem: SlackSVM, state: Iterates) -> Solution:
        return state.solution(problem)

    def iterations_per_pass(self, problem: SlackSVM) -> int:
        samples = super().iterations_per_pass(problem)
        return math.ceil(samples / self.block) if self.method == "kept" else samples

    def default_iterations(self, problem: SlackSVM) -> int:
        """1000 blocks of draws, or as many single draws as there are samples, if these are more than 1000."""
        return 1000 if self.method == "kept" else max(1000, problem.y.size)

    def estimated_gap(self, problem: SlackSVM, state: Iterates) -> float:
        """The gap itself, if the products of w and of the dual point with all samples are known; else infinite."""
        found = state.solution(problem)
        if found.p is None or found.v is None or np.isnan(Expansion.of(found.w).f).any():
            return math.inf
        value = problem.evaluate_solution(found, keep_bias=True).value
        bound = length(found.v) + problem.volume * problem.cap(found.p)
        return (bound - value) / max(abs(bound), abs(value), np.finfo(float).tiny)


class Iterates(ABC):
    """The base of the states of both methods."""

    def __init__(self, problem: SlackSVM, rng: np.random.Generator) -> None:
        n = problem.y.size
        self.rng = rng
        self.basins = [np.flatnonzero(group) for group in problem.groups]
        self.slack = problem.slack
        self.t = 0
        self.n = n

    @abstractmethod
    def iterate(self, problem: SlackSVM, budget: float) -> bool:
        """Make one iteration. False if it takes more than `budget` kernel evaluations; then nothing has changed."""

    @abstractmethod
    def solution(self, problem: SlackSVM) -> Solution:
        """The mean of the iterates, and a dual point whose products with all samples are known."""

    def set_slack(self, problem: SlackSVM) -> None:
        """Use the slack of this problem; if it has changed, continue from the present w with a new mean."""
        if problem.slack != self.slack:
            self.slack = problem.slack
            self.restart_mean()

    @abstractmethod
    def restart_mean(self) -> None:
        """Begin a new mean of the iterates."""


class AsWritten(Iterates):
    """The method of the paper, section 3.4, step by step.

    w is a times the sum of one or two parts, one for each basin: a part is the sum of the points drawn from its basin.
    The products of all parts together give the responses to w; the products of each part alone give a dual point with
    balanced classes.

    Attributes
    ----------
    parts : list of Sum
        The parts, with the sums over all iterates.
    a : float
        The factor by which projections have multiplied w.
    drawn : int or None
        A point that was drawn but did not fit the budget.
    level : float
        The last water level; the next one is near it.
    points : array of shape (n,)
        An array to which the numbers of the wet points are written.
    """

    def __init__(self, problem: SlackSVM, rng: np.random.Generator) -> None:
        super().__init__(problem, rng)
        self.parts = [Sum(kernel_rows(problem.X), averaging=True) for _ in self.basins]
        self.a = 1.0
        self.drawn: int | None = None
        self.level = 0.0
        self.points = np.empty(self.n, dtype=np.int64)

    def restart_mean(self) -> None:
        for part in self.parts:
            part.restart_average()

    def iterate(self, problem: SlackSVM, budget: float) -> bool:
        y, scale2 = problem.y, problem.scale**2
        if self.drawn is None:
            self.drawn = self._draw(problem)
        j = np.array([self.drawn])
        if _evaluations(kernel_rows(problem.X), j) > budget:
            return False
        self.t += 1
        eta = 1 / math.sqrt(self.t)
        self.parts[-1 if y[self.drawn] < 0 else 0].add(j, eta * y[j] / self.a)  # step 3 and Eq. (3.4)
        self.drawn = None
        f = self.f
        norm = self.a * math.sqrt(max(0.0, sum(float(part.beta @ f) for part in self.parts)) / scale2)
        self.a /= max(1.0, norm)  # step 4
        for part in self.parts:
            part.count(np.array([self.a]), np.ones(1))
        return True

    @property
    def f(self) -> Vector:
        """The products of w / a with all samples: c is a y f / scale^2."""
        return self.parts[0].f if len(self.parts) == 1 else self.parts[0].f + self.parts[1].f

    def _draw(self, problem: SlackSVM) -> int:
        """Pour the slack over the responses (step 1), and draw a point from p* (step 2)."""
        points, p = self._wet(problem)
        ends = np.cumsum(p)
        return int(points[np.searchsorted(ends, ends[-1] * self.rng.random(), side="right")])

    def _wet(self, problem: SlackSVM) -> tuple[Indices, Vector]:
        """The points that are wet, and in proportion to p*."""
        f, unit = self.f, problem.scale**2 / self.a
        if not problem.bias:
            # The step raised no response by more than eta, and therefore the level neither.
            highest = self.level + 1 / math.sqrt(max(1, self.t))
            wet, level = pour_below(problem.y, f, problem.s, problem.volume * unit, highest * unit, self.points)
            if wet:
                self.level = level / unit
                points = self.points[:wet]
                return points, problem.s[points]
        levels, shares = problem.pour(problem.y * f / unit)
        self.level = levels[0]
        points = np.flatnonzero(shares > 0)
        return points, problem.s[points] * shares[points]  # both basins are wet over the same mass

    def solution(self, problem: SlackSVM) -> Solution:
        y, means = problem.y, [part.answer() / problem.scale for part in self.parts]
        w = sum(means[1:], start=means[0])
        b = problem.evaluate_responses(w, y * w.f / problem.scale).b
        # The points of a part are all of its basin, so that these are the sums of the dual weights of the classes.
        sums = [float((y * mean.beta).sum()) for mean in means]
        if min(sums) <= 0:  # no point has been drawn from one of the basins yet
            return Solution(w, b, problem.scale * y * w.beta)
        balanced = [mean / (len(means) * total) for mean, total in zip(means, sums, strict=True)]
        v = sum(balanced[1:], start=balanced[0])
        return Solution(w, b, y * v.beta, v / problem.scale)


class WithRowsKept(Iterates):
    r"""The faster method: wet points whose rows are cached cost no evaluations, so they need not be sampled.

    An iteration:

    1. Find the wet points of each basin, from the responses to :math:`w = u/\max\{|u|, e\}`.
    2. Estimate the super-gradient :math:`g = \sum_i p^*_i y_i x_i`: exactly over the wet points whose rows are cached,
       by sums that are updated by the few points that become wet or dry, and row by row over the few that are wet in
       part; the others are represented by a block of distinct points, drawn with probabilities in proportion to p*.
       The estimate is unbiased, and exact once the rows of all wet points are cached.
    3. Let :math:`u \leftarrow (1-\theta) u + \theta g`, with the :math:`\theta` at which
       :math:`|u| + V\max_i p^*_i/s_i`, the dual bound, is least (the second term is taken to be linear), and at
       least 1/2t.

    u is always :math:`\sum_i \alpha_i y_i x_i` for weights alpha on the simplex, balanced between basins: a dual point,
    whose bound needs no evaluations. e is the length that u would have if all its terms were orthogonal. As long as u
    is no longer than e, u is mostly noise, and w stays inside the ball. (With the paper's :math:`\eta = 1/\sqrt t` and
    unit draws it does so too; there, e would be :math:`1/\sqrt t`.)

    If very few points are wet, as with slack 0, the points with the lowest responses count as wet until all of their
    rows are cached. Each such iteration computes a new row, so there are at most n such iterations. Once no point needs
    to be drawn any more, the earlier terms of u are removed, because their weights would loosen the bound for a long
    time.

    If there is nearly no slack, a wet point is soon dry again, so that its row is evicted from a small cache before it
    is needed again. Once more points have a weight than the smallest cache holds, `WithoutRows` takes over.

    Attributes
    ----------
    alpha, h : arrays of shape (n,)
        u, as dual weights and as :math:`\sum_i \alpha_i y_i K_i`.
    cap : float
        The largest p*_i / s_i, averaged over the iterations as u averages g.
    sq_norm, sq_noise, size : float
        |u|^2, e^2, and the square root of the larger one.
    sums : list of arrays of shape (n,)
        For each basin, :math:`\sum_i s_i y_i K_i` over the points marked in `inside`.
    without_rows : WithoutRows or None
        The iterates that have taken over when rows were no longer cached.
    """

    def __init__(self, problem: SlackSVM, rng: np.random.Generator, block: int, average: float) -> None:
        super().__init__(problem, rng)
        self.block, self.average = block, average
        self.without_rows: WithoutRows | None = None
        self.alpha, self.h, self.cap = np.zeros(self.n), np.zeros(self.n), 0.0
        self.sq_norm, self.sq_noise, self.size = 0.0, 0.0, 1.0
        self.sums = [np.zeros(self.n) for _ in self.basins]
        self.inside = np.zeros(self.n, dtype=bool)
        self.drawn: Vector | None = None  # the dual weights of points that were drawn but did not fit the budget
        self._mark_old()
        self.restart_mean()

    def restart_mean(self) -> None:
        if self.without_rows is not None:
            self.without_rows.restart_mean()
        self.sum_alpha, self.sum_h, self.weight = np.zeros(self.n), np.zeros(self.n), 0.0

    def iterate(self, problem: SlackSVM, budget: float) -> bool:
        if self.without_rows is not None:
            return self.without_rows.iterate(problem, budget)
        K = kernel_rows(problem.X)
        c = problem.y * self.h / (problem.scale**2 * self.size)
        _, wet = problem.pour(c)
        if self._rows_are_useless(K, wet):
            K.forget_rows()
            self.without_rows = WithoutRows(problem, self.rng, self.average)
            return self.without_rows.iterate(problem, budget)
        for basin in self.basins:
            self._wet_enough(K, c, basin, wet)
        p, caps = self.minimax(problem, wet)
        known = np.zeros(self.n, dtype=bool)
        points = np.flatnonzero(wet)
        known[points] = self.known(K, points)
        if self.drawn is None:
            self.drawn = self.draw(np.where(known, 0.0, p))
        # Points that are wet in part stay inside or outside of the sums; what they lack there, or exceed, is added
        # apart.
        in_part = (wet > 0) & (wet < 1)
        changed = np.flatnonzero(((known & ~in_part) != self.inside) & ~in_part)
        weights = np.where(known, p, self.drawn)
        more = np.where(in_part | ~known, weights, 0.0) - np.where(in_part & self.inside, caps * problem.s, 0.0)
        added = np.flatnonzero(more)
        if _evaluations(K, changed) + _evaluations(K, added) > budget:
            return False
        h = np.zeros(self.n)
        self._add_rows(K, problem, changed, added, more, h)
        for basin, total in zip(self.basins, self.sums, strict=True):
            h += caps[basin[0]] * total
        self.t += 1
        self._move(problem, weights, h, float(caps.max()), float(self.drawn @ self.drawn))
        self.drawn = None
        return True

    @property
    def draws(self) -> int:
        """The number of points to be drawn of each basin."""
        return max(1, self.block // len(self.basins))

    def _rows_are_useless(self, K: KernelRows, wet: Vector) -> bool:
        """Whether rows are evicted before they are needed again: few fit, many were needed, and few points are wet."""
        if K.cached_rows >= LEAST_CACHED_SHARE * self.n:
            return False
        weights = int(np.count_nonzero(self.alpha))
        most = max(int(np.count_nonzero(wet[basin])) for basin in self.basins)
        return most < self.draws and weights > MIN_ROWS

    def _wet_enough(self, K: KernelRows, c: Vector, basin: Indices, wet: Vector) -> None:
        """If fewer points are wet than are drawn, let the lowest ones count as wet, until all their rows are cached."""
        count = min(self.draws, basin.size)
        if np.count_nonzero(wet[basin]) < count:
            lowest = np.sort(basin[np.argpartition(c[basin], count - 1)[:count]])
            if not self.known(K, lowest).all():
                wet[basin] = 0.0
                wet[lowest] = 1.0

    def minimax(self, problem: SlackSVM, wet: Vector) -> tuple[Vector, Vector]:
        """p* for these wet shares, and for each point the value of p*_i / s_i if the point is wholly wet."""
        caps, masses = np.zeros(self.n), problem.s * wet
        for basin in self.basins:
            caps[basin] = 1 / (len(self.basins) * float(masses[basin].sum()))
        return caps * masses, caps

    def known(self, K: KernelRows, points: Indices) -> NDArray[np.bool_]:
        """Which points can be summed exactly: their rows are in the sums, or cached."""
        return np.asarray(self.inside[points] | (K.missing(points) == 0))

    def draw(self, p: Vector) -> Vector:
        """Draw points of each basin from p, and return weights on them whose mean is p."""
        drawn = np.zeros(self.n)
        for basin in self.basins:
            drawn[basin] = _sample(self.rng, p[basin], self.draws)
        return drawn

    def _add_rows(
        self, K: KernelRows, problem: SlackSVM, changed: Indices, added: Indices, weights: Vector, h: Vector
    ) -> None:
        """Add the changed points to the sums (or subtract those inside), and add other points to h by weight."""
        factors = np.where(self.inside[changed], -1.0, 1.0) * problem.s[changed] * problem.y[changed]
        self.inside[changed] ^= True
        parts = [np.isin(changed, basin, assume_unique=True) for basin in self.basins]
        # Cached rows are added first, because computing others may evict them.
        changed_there, added_there = K.missing(changed) == 0, K.missing(added) == 0
        for there in (True, False):
            for part, total in zip(parts, self.sums, strict=True):
                some = part & (changed_there == there)
                _add(K, changed[some], factors[some], total)
            those = added[added_there == there]
            _add(K, those, weights[those] * problem.y[those], h)

    def _move(self, problem: SlackSVM, weights: Vector, h: Vector, cap: float, sq_noise: float) -> None:
        """Move u towards g, and update the mean of the iterates."""
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
            self._remove_old(problem)
        self.sq_norm = max(0.0, float(self.alpha @ (y * self.h))) / scale2
        self.size = math.sqrt(max(self.sq_norm, self.sq_noise)) or 1.0
        weight = self.t**self.average
        self.sum_alpha += weight / self.size * self.alpha
        self.sum_h += weight / self.size * self.h
        self.weight += weight

    def _mark_old(self) -> None:
        """Remember the present u, so that it can be removed later."""
        self.old, self.old_share, self.old_t = (self.alpha.copy(), self.h.copy(), self.cap), 1.0, max(1, self.t)

    def _remove_old(self, problem: SlackSVM) -> None:
        """Remove the u that was last marked, at half the present t or earlier, if that gives a better bound."""

        def bound(alpha: Vector, h: Vector) -> float:
            return length(_expansion(problem, alpha, h)) + problem.volume * problem.cap(alpha)

        if self.old_share < 1:
            factor, old = 1 / (1 - self.old_share), self.old
            alpha = np.maximum(0.0, factor * (self.alpha - self.old_share * old[0]))
            h = factor * (self.h - self.old_share * old[1])
            if bound(alpha, h) < bound(self.alpha, self.h):
                self.alpha, self.h, self.cap = alpha, h, factor * (self.cap - self.old_share * old[2])
        self._mark_old()

    def solution(self, problem: SlackSVM) -> Solution:
        if self.without_rows is not None and self.without_rows.alpha.any():
            return self.without_rows.solution(problem)
        weight = self.weight or 1.0
        at = problem.evaluate(_expansion(problem, self.sum_alpha / weight, self.sum_h / weight))
        return Solution(at.w, at.b, self.alpha.copy(), _expansion(problem, self.alpha, self.h))


class WithoutRows(Iterates):
    r"""The method for nearly no slack and rows that do not fit in the cache: kernels are added up and not stored.

    If hardly any point is wet, the weight of p* is on a few points, which change in each iteration. So the basin is
    filled further, up to the dual bound :math:`D = |u| + V\max_i\alpha_i/s_i`, which no level exceeds, and points are
    weighted by their depth, :math:`d_i = (D - c_i)_+`. An iteration on the first m samples:

    1. Find the depth a with :math:`\sum_i s_i(d_i - a)_+ = V`, the slack allowed, and let
       :math:`p^*_i \propto s_i\min\{d_i, a\}`. With a bias, the levels of the basins are D - b and D + b, with the b at
       which their sums are equal.
    2. Draw a block of points from p*: their mean is an unbiased estimate of :math:`g = \sum_i p^*_i y_i x_i`.
    3. Let :math:`u \leftarrow (1-\theta) u + \theta g`, with the :math:`\theta` at which the dual bound is least.

    The subset grows if few points lie far below the level, or if as many points were drawn as it has samples. Then the
    responses of the new samples to u are computed, and a new mean of the iterates begins.

    For some :math:`\lambda`, p* minimises :math:`\sum_i p_i c_i + V\max_i p_i/s_i + \frac\lambda2\sum_i p_i^2/s_i`.
    Without the last term, that is the game of the paper; with it, g is the gradient of a smoothed level. The smoothing
    vanishes with the gap: once the level is D, a is 0, and p* is that of the paper. As in the other methods, alpha is a
    dual point. Samples beyond m have weight 0 in it, so its bound is valid for all samples.

    Attributes
    ----------
    m : int
        The size of the subset.
    alpha, h : arrays of shape (n,)
        u, as dual weights and as :math:`\sum_i \alpha_i y_i K_i`; h is computed for the first m samples, and 0 for
        others.
    cap : float
        The largest p*_i / s_i, averaged over the iterations as u averages g.
    sq_norm : float
        |u|^2.
    drawn : array of shape (n,) or None
        The dual weights of points that were drawn but did not fit the budget.
    visits : int
        The number of points drawn since the subset reached this size.
    """

    def __init__(self, problem: SlackSVM, rng: np.random.Generator, average: float) -> None:
        super().__init__(problem, rng)
        self.average = average
        self.m = first_size(problem.y, problem.s, FIRST)
        self.alpha, self.h, self.cap, self.sq_norm = np.zeros(self.n), np.zeros(self.n), 0.0, 0.0
        self.drawn: Vector | None = None
        self.visits = 0
        self.restart_mean()

    def restart_mean(self) -> None:
        self.sum_alpha, self.sum_h, self.weight, self.t = np.zeros(self.n), np.zeros(self.n), 0.0, 0

    @property
    def block(self) -> int:
        """The number of points to be drawn."""
        return max(len(self.basins), min(LARGEST_BLOCK, self.m // LEAST_BLOCKS))

    def iterate(self, problem: SlackSVM, budget: float) -> bool:
        m, y = self.m, problem.y
        p, lack, _ = self._fill(problem, y * self.h / (problem.scale**2 * (math.sqrt(self.sq_norm) or 1.0)))
        if m < self.n and (np.count_nonzero(lack > FAR_BELOW) < self.block or self.visits >= m):
            return self._grow(problem, budget)
        if self.drawn is None:
            self.drawn = np.zeros(self.n)
            for basin in self.basins:
                self.drawn[basin] = _sample(self.rng, p[basin], self.block // len(self.basins))
        weights, drawn, h = self.drawn, np.flatnonzero(self.drawn), np.zeros(self.n)
        if drawn.size * m > budget:
            return False
        kernel_rows(problem.X).add_products(drawn, weights[drawn] * y[drawn], slice(0, m), h[:m])
        self._move(problem, weights, h, float((p[drawn] / problem.s[drawn]).max()))
        self.visits += drawn.size
        self.drawn = None
        return True

    def _fill(self, problem: SlackSVM, responses: Vector) -> tuple[Vector, Vector, float]:
        """p* for these responses, the depths of samples in use as shares of the dual bound, and the bias."""
        used = np.flatnonzero(problem.s[: self.m])
        c, y, s = responses[used], problem.y[used], problem.s[used]
        volume = problem.slack * float(s.sum())
        bound = math.sqrt(self.sq_norm) + volume * problem.cap(self.alpha) or 1.0  # at first, all depths are equal
        above = bound - c  # height of the level without a bias above each sample

        def weights(b: float) -> tuple[Indices, Vector]:
            depth = above - y * b
            wet = np.flatnonzero(depth > 0)
            depth, widths = depth[wet], s[wet]
            most = -water_level(-depth, volume, widths) if wet.size else 0.0
            return wet, widths * np.minimum(1.0, depth / most) if most > 0 else widths

        def imbalance(b: float) -> float:
            wet, found = weights(b)
            return float(y[wet] @ found)

        b = 0.0
        if problem.bias:
            limit = bound + float(np.abs(c).max())
            b = float(brentq(imbalance, -limit, limit, xtol=BIAS_PRECISION * bound))
        p, (wet, found) = np.zeros(self.n), weights(b)
        p[used[wet]] = found
        for basin in self.basins:
            if not p[basin].any():  # all samples reach the bound: the lowest one gets all of the weight
                inside = basin[: np.searchsorted(basin, self.m)]
                p[inside[np.argmin(responses[inside])]] = 1.0
            p[basin] /= len(self.basins) * p[basin].sum()
        return p, (above - y * b) / bound, b

    def _move(self, problem: SlackSVM, weights: Vector, h: Vector, cap: float) -> None:
        """Move u towards g, and update the mean of the iterates."""
        y, scale2, volume = problem.y, problem.scale**2, problem.slack * float(problem.s[: self.m].sum())
        ug, gg = float(weights @ (y * self.h)) / scale2, max(0.0, float(weights @ (y * h))) / scale2
        theta = _best_step(self.sq_norm, ug, gg, volume * (cap - self.cap)) if self.cap > 0 else 1.0
        for u, g in ((self.alpha, weights), (self.h, h)):
            u *= 1 - theta
            u += theta * g
        self.cap += theta * (cap - self.cap)
        self.sq_norm = max(0.0, float(self.alpha @ (y * self.h))) / scale2
        self.t += 1
        weight = self.t**self.average
        size = math.sqrt(self.sq_norm) or 1.0
        self.sum_alpha += weight / size * self.alpha
        self.sum_h += weight / size * self.h
        self.weight += weight

    def _grow(self, problem: SlackSVM, budget: float) -> bool:
        """Enlarge the subset, and compute the responses of the new samples."""
        m, weighted = next_size(problem.s, self.m, GROWTH), np.flatnonzero(self.alpha)
        if weighted.size * (m - self.m) > budget:
            return False
        beta = self.alpha[weighted] * problem.y[weighted]
        kernel_rows(problem.X).add_products(weighted, beta, slice(self.m, m), self.h[self.m : m])
        self.m, self.visits = m, 0
        self.restart_mean()
        return True

    def solution(self, problem: SlackSVM) -> Solution:
        alpha, h = (self.sum_alpha, self.sum_h) if self.weight > 0 else (self.alpha, self.h)
        w, v = self._expansion(problem, alpha, h), self._expansion(problem, self.alpha, self.h)
        w = w / (length(w) or 1.0)
        b = self._fill(problem, problem.y * w.f / problem.scale)[2]
        return Solution(w, b, self.alpha.copy(), v)

    def _expansion(self, problem: SlackSVM, alpha: Vector, h: Vector) -> Expansion:
        """sum alpha_i y_i x_i, whose products with samples beyond m are not known."""
        return _expansion(problem, alpha, np.where(np.arange(self.n) < self.m, h, np.nan))


def _sample(rng: np.random.Generator, p: Vector, count: int) -> Vector:
    """Weights whose mean is p, on `count` distinct points (or on all points): systematic sampling.

    Points are drawn at equal distances along the cumulative sums of p, so that each is drawn with a probability in
    proportion to p_i and then has the weight of one distance. Points whose p_i exceeds a distance are always drawn,
    with their own p_i.
    """
    points = np.flatnonzero(p)
    if points.size <= count:
        return p
    weights = np.zeros(p.size)
    while (certain := p[points] * count >= p[points].sum()).any():
        weights[points[certain]] = p[points[certain]]
        points, count = points[~certain], count - int(np.count_nonzero(certain))
    if count > 0:  # otherwise all other points together are lost in the rounding of the sum
        ends = np.cumsum(p[points])
        positions = np.searchsorted(ends, ends[-1] * (np.arange(count) + rng.random()) / count, side="right")
        weights[points[np.minimum(positions, points.size - 1)]] = ends[-1] / count
    return weights


def _expansion(problem: SlackSVM, alpha: Vector, h: Vector) -> Expansion:
    """sum alpha_i y_i x_i, where h = sum alpha_i y_i K_i."""
    return Expansion(alpha * problem.y / problem.scale, h / problem.scale)


def _evaluations(K: KernelRows, numbers: Indices) -> int:
    """The kernel evaluations for these rows."""
    return int(K.missing(numbers).sum())


def _add(K: KernelRows, numbers: Indices, factors: Vector, f: Vector) -> None:
    """f <- f + sum of factor times row of K."""
    most = min(BATCH, K.cached_rows)
    for start in range(0, numbers.size, most):
        some = slice(start, start + most)
        K.fetch(numbers[some]).add_to(f, factors[some])


def _best_step(uu: float, ug: float, gg: float, slope: float) -> float:
    """The theta in [0, 1] with the least |u + theta (g - u)| + slope theta."""
    across, square = ug - uu, max(0.0, uu - 2 * ug + gg)
    if slope**2 >= square:  # the function is monotone
        return float(slope < 0 or (slope == 0 and across < 0))
    distance = max(0.0, uu - across**2 / square)  # the squared distance of the line from the origin
    theta = (-slope * math.sqrt(distance / (1 - slope**2 / square)) - across) / square
    return min(1.0, max(0.0, theta))
