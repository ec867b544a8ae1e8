r"""Decomposition for kernel SVMs: the dual is solved over all samples that may still change, again and again.

A dual decomposition method, the family of section 4.3 of Cotter, Shalev-Shwartz and Srebro (2012).

Problem: the regularised form with C and the hinge, on a KernelMatrix, with a free bias or none. Given: blocks of rows
of K. Returned: w as an Expansion, b, and the weights alpha that prove how good they are.

The row of K of a support vector must be computed at least once: (support vectors) x n evaluations are the floor. What
comes near it:

- the data grows: first a part of the samples, whose solution tells most of the support vectors of the next part;
- violators of the optimum are taken in by the block, so that their rows are one matrix product;
- an iteration ends near the optimum over all that are worked on, by steps on pairs (SMO) over K between them;
- samples whose weight is at a bound and surely stays there are left alone: their rows give way to others;
- responses f are kept in float64, though the rows are float32, and are computed anew in float64 where that matters.

Symbols: the first m samples are in use, W are worked on, f = K beta with beta_i = alpha_i y_i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from maxmargin.core import empty_by_pages
from maxmargin.core.types import Indices, Vector
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.kernels._ascent import ascend_by_one, ascend_by_pairs
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.matrix import KernelMatrix
from maxmargin.kernels.row_cache import RowView
from maxmargin.svm.regularized import RegularizedSVM

MANY = 0.25  # the share of a part with a weight from which on no other part follows but all
LOOSE = 0.1  # how far inside the margin a sample may be, at first
TIGHT = 1e-3  # the same where all samples are worked on from the start
SURE = 0.4  # how far beyond it a sample must be, on its side, not to be worked on
LEAVING = 0.15  # the share of those worked on that must be sure for them to be left alone: it takes copies
MOST_BLOCKS = 4  # that are taken in at once, where violators are many
PATIENCE = 4  # iterations near the optimum without a better error on a holdout before early stopping
NEAR = 0.05  # the relative gap from which on they count: until then the error jumps, as the bias does
PROBED = 64  # responses by which it is judged whether rounding matters
ROUNDED = 0.25  # the share of the gap that it may have made
FINEST = 1e-9  # a relative gap that nobody asks to be below
ENTRY_ROUNDING = {4: 2.0**-21, 8: 2.0**-48}  # error of an entry of K as a share of the largest one, by its bytes
FINEST_TOLERANCE = 1e-13  # how far inside the margin a sample may be where nobody could tell it from rounding
# A run without a limit from the user ends after this many steps, or so many a sample: LIBSVM has 10^7 and 100.
FEWEST_STEPS, STEPS_PER_SAMPLE = 2_000_000, 100
STEPS_PER_ROW = 50  # the most steps of an iteration, for each sample worked on


@dataclass
class DecompositionState:
    """Where the solver stands; m samples are in use, the first ones."""

    dual_signature: tuple[Any, ...]  # of the problem, to recognise the same problem in a warm start
    upper: Vector
    alpha: Vector
    f: Vector  # of the first m; of the others not known
    m: int
    W: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # those that are worked on
    inner: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))  # K between them
    b: float = 0.0
    tolerance: float = LOOSE
    waiting: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # to be worked on next
    grows: bool = False  # whether more samples come into use next
    error: float = 0.0  # of responses, by rounding: as it was measured, and at most what was added since
    rounded: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # responses to compute anew next
    gap: float = math.inf
    dual: float = -math.inf
    done: int = 0  # iterations
    steps: int = 0  # on pairs of weights, or on single ones
    converged: bool = True  # whether the last iteration solved the dual over those that are worked on
    settled: bool = False  # whether no weight violates the optimum by more than rounding
    near_at: int | None = None  # when the gap on all samples first was small

    @property
    def whole(self) -> bool:
        return self.m == self.alpha.size


@dataclass(frozen=True)
class Decomposition(Solver):
    r"""The exact solver of kernel SVMs with the hinge, on a growing part of the data.

    An iteration takes in a block of samples, computes their rows of K, and solves the dual over all worked on.
    Parts of the data are its first samples, so they should come in random order.

    Parameters
    ----------
    first : int, default=6000
        How many samples come into use first.
    growth : float, default=3.0
        By which factor they grow at most, whenever hardly any of those in use violates the optimum.
    block : int, default=512
        How many samples are taken in at a time; where violators are many, up to four times as many.

    References
    ----------
    Joachims (1998), Making Large-Scale SVM Learning Practical (decomposition).
    Fan, Chen, Lin (2005), Working Set Selection Using Second Order Information for Training SVM.
    Friedlander, Schmidt (2012), Hybrid Deterministic-Stochastic Methods for Data Fitting (growing parts).

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import RegularizedSVM, solve
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.kernels.functions import Rbf
    >>> from maxmargin.solvers import Decomposition
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where((X**2).sum(axis=1) < 1, 1.0, -1.0)
    >>> K = KernelMatrix(X, Rbf(gamma=1.0))
    >>> result = solve(RegularizedSVM(K, y, C=10.0), Decomposition(), tol=1e-4, random_state=0)
    >>> result.status, bool(np.mean(np.sign(result.solution.w.f + result.solution.b) == y) > 0.95)
    ('tol', True)
    """

    name: ClassVar[str] = "decomposition"
    solves: ClassVar[type[Problem]] = RegularizedSVM
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.KERNEL})
    resumes: ClassVar[bool] = True
    balanced: ClassVar[bool] = True
    default_tol: ClassVar[float | None] = 1e-3

    first: int = 6000
    growth: float = 3.0
    block: int = 512

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: Any = None) -> DecompositionState:
        if problem.loss.smooth or problem.bias_feature:
            raise ValueError(
                "decomposition solves the problem with the hinge and a free bias or none; got "
                f"loss={problem.loss.name!r} and intercept_scaling={problem.intercept_scaling}"
            )
        if isinstance(warm, DecompositionState) and all(
            map(np.array_equal, warm.dual_signature, problem.dual_signature)
        ):
            return warm
        upper, _ = problem.loss.dual_box(problem.u)
        if isinstance(warm, Solution) and warm.p is not None:
            alpha, w = problem.dual_point(warm.p)
            state = DecompositionState(problem.dual_signature, upper, alpha, cast(Any, w).f, upper.size, b=warm.b)
            _kernel(problem).release(np.arange(upper.size))
            self._judge(problem, state)
            return state
        m = self._first_part(problem, upper)
        state = DecompositionState(problem.dual_signature, upper, np.zeros(upper.size), np.zeros(upper.size), m)
        few = upper.size <= self._room(_kernel(problem))
        if few:  # all are worked on from the start
            state.tolerance = TIGHT
        # Of each class alike, as nothing is known yet.
        most = upper.size if few else self._room(_kernel(problem)) // 2
        classes = [np.flatnonzero((problem.y[:m] == label) & (upper[:m] > 0))[:most] for label in (1, -1)]
        state.waiting = np.sort(np.concatenate(classes))
        return state

    def deterministic(self, problem: Any) -> bool:
        return True

    def _room(self, K: KernelMatrix, blocks: int = 1) -> int:
        """How many samples may be taken in at once: where not all can be worked on, half of those that can."""
        most = _most_worked_on(K)
        return min(blocks * self.block, most if most == K.shape[0] else most // 2)

    def _first_part(self, problem: RegularizedSVM, upper: Vector) -> int:
        """Where the first part ends; all is one part if the first would have too few of a class."""
        m = self._part(upper, self.first)
        up = problem.y > 0
        shares = [np.array([upper[:k][up[:k]].sum(), upper[:k][~up[:k]].sum()]) / upper[:k].sum() for k in (m, None)]
        return m if (shares[0] > 0.5 * shares[1]).all() else upper.size

    def _part(self, upper: Vector, count: float) -> int:
        """Where a part ends that has so many samples that count; at the end of all if hardly any would be left."""
        counts = np.cumsum(upper > 0)
        return upper.size if 2 * count > counts[-1] else int(np.searchsorted(counts, count)) + 1

    def _next_part(self, state: DecompositionState) -> int:
        """By equal factors up to all of them; at once where many have a weight, as parts then tell little of others."""
        n, m = np.count_nonzero(state.upper), np.count_nonzero(state.upper[: state.m])
        if np.count_nonzero(state.alpha) > MANY * m:
            return state.upper.size
        parts = math.ceil(math.log(n / m) / math.log(self.growth) - 1e-9)
        return self._part(state.upper, m * (n / m) ** (1 / parts))

    def step(self, problem: RegularizedSVM, state: DecompositionState, iterations: int, budget: int) -> Step:
        before = problem.X.ledger.stored
        for done in range(iterations):
            if self._cost(problem, state) > budget - (problem.X.ledger.stored - before):
                return Step(done, Reason.BUDGET)
            if state.grows:
                self._grow(problem, state)
            elif state.rounded.size:
                self._refresh(problem, state)
            else:
                self._iterate(problem, state)
            state.done += 1
        return Step(iterations)

    def _cost(self, problem: RegularizedSVM, state: DecompositionState) -> int:
        """The most evaluations that the next iteration can take."""
        if state.grows:
            return int(np.count_nonzero(state.alpha)) * self._next_part(state)
        if state.rounded.size:
            return int(np.count_nonzero(state.alpha)) * (state.rounded.size + 2 * PROBED)
        K = _kernel(problem)
        wanted = np.concatenate([state.W, state.waiting])
        probes = 2 * PROBED * (np.count_nonzero(state.alpha) + wanted.size)
        return int(K.missing(wanted, state.m).sum() + probes)

    def _iterate(self, problem: RegularizedSVM, state: DecompositionState) -> None:
        """Work on those that wait too: solve the dual over all that are worked on, and tell all others."""
        y, upper, K = problem.y, state.upper, _kernel(problem)
        rows = self._take_in(K, state)
        W = state.W
        alpha, e = state.alpha[W], y[W] - state.f[W]
        ascend = ascend_by_pairs if problem.free_bias else ascend_by_one
        inner = state.inner[: W.size, : W.size]
        most = STEPS_PER_ROW * W.size
        steps, _, state.b = ascend(inner, y[W], upper[W], alpha, e, state.tolerance, most)
        state.steps, state.converged = state.steps + steps, steps < most
        change = (alpha - state.alpha[W]) * y[W]
        changed = np.flatnonzero(change)
        rows[changed].add_to(state.f[: state.m], change[changed], K.threads)
        state.error += ENTRY_ROUNDING[K.dtype.itemsize] * float(
            np.abs(inner.diagonal()).max(initial=0) * np.abs(change).sum()
        )
        state.alpha[W] = alpha
        if not math.isfinite(state.b):
            state.b = self._bias(problem, state)
        self._judge(problem, state)

    def _bias(self, problem: RegularizedSVM, state: DecompositionState) -> float:
        """The middle of what all samples in use allow, where those that are worked on say nothing from one side."""
        m = state.m
        y, alpha, e = problem.y[:m], state.alpha[:m], problem.y[:m] - state.f[:m]
        more, less = alpha < state.upper[:m], alpha > 0
        rising, falling = np.where(y > 0, more, less), np.where(y > 0, less, more)
        return 0.5 * float(e[rising].max() + e[falling].min())

    def _take_in(self, K: KernelMatrix, state: DecompositionState) -> RowView:
        """Let those that wait be worked on; the rows of all that are."""
        before, new = state.W.size, state.waiting
        state.W = np.concatenate([state.W, new])
        size = state.W.size
        if size > len(state.inner):
            larger = empty_by_pages((min(2 * size, _most_worked_on(K)),) * 2, K.dtype)
            larger[:before, :before] = state.inner[:before, :before]
            state.inner = larger
        rows = K.fetch(state.W, state.m)
        rows[before:].copy_columns(state.W, state.inner[before:size, :size])
        state.inner[:before, before:size] = state.inner[before:size, :before].T
        return rows

    def _keep(self, state: DecompositionState, which: NDArray[np.bool_]) -> None:
        """Work on no others than these of those that are worked on."""
        kept = np.flatnonzero(which)
        rows = RowView(state.inner, kept)
        rows.copy_columns(kept, state.inner[: kept.size, : kept.size])  # each row moves up, none is read after
        state.W = state.W[kept]

    def _judge(self, problem: RegularizedSVM, state: DecompositionState) -> None:
        """Measure the gap on the samples in use, and say who is worked on next; if few, more come into use."""
        short = self._measure(problem, state)
        state.rounded = self._rounded(problem, state)
        if state.rounded.size:
            return
        self._leave_alone(_kernel(problem), state, short)
        state.waiting = self._violators(problem, state, short)
        state.grows = not state.whole and state.waiting.size < self.block // 2
        if state.whole and not state.waiting.size and state.converged:
            state.tolerance /= 4
            state.settled = state.tolerance < FINEST_TOLERANCE

    def _measure(self, problem: RegularizedSVM, state: DecompositionState) -> Vector:
        """How far each sample in use falls short of the margin (negative: it does not); gap and dual follow."""
        m = state.m
        y, f, alpha = problem.y[:m], state.f[:m], state.alpha[:m]
        short: Vector = 1 - y * (f + state.b)
        square = float((alpha * y) @ f)
        state.dual = float(alpha.sum()) - 0.5 * square
        state.gap = 0.5 * square + float(state.upper[:m] @ np.maximum(0.0, short)) - state.dual
        if state.near_at is None and state.whole and state.gap <= NEAR * (abs(state.dual) + state.gap):
            state.near_at = state.done + 1
        return short

    def _rounded(self, problem: RegularizedSVM, state: DecompositionState) -> Indices:
        """Whose responses are to be computed anew, as they have lost to rounding what matters for the gap.

        At the optimum a sample whose weight is free is just at the margin. The error of its response goes into the
        gap, with the most that its weight can be, wherever it makes it fall short: on average 0.4 of the error's size.
        """
        free = np.flatnonzero((state.alpha > 0) & (state.alpha < state.upper) & state.whole)
        matters = ROUNDED * max(state.gap, FINEST * abs(state.dual))
        least = matters / (0.4 * float(state.upper[free].sum())) if free.size else math.inf
        if state.error > least:
            some = free[:: -(-free.size // PROBED)]
            error = _kernel(problem).dot_precisely(state.alpha * problem.y, some) - state.f[some]
            state.error = math.sqrt(float(np.mean(error**2)))
        return free if state.error > least else free[:0]

    def _refresh(self, problem: RegularizedSVM, state: DecompositionState) -> None:
        state.f[state.rounded] = _kernel(problem).dot_precisely(state.alpha * problem.y, state.rounded)
        state.error = 0.0
        self._judge(problem, state)

    def _violators(self, problem: RegularizedSVM, state: DecompositionState, short: Vector) -> Indices:
        """Those that are not worked on and whose weights should change most, in either direction alike.

        If all were to pull the bias to one side, it would swing from one iteration to the next.
        """
        K, m = _kernel(problem), state.m
        y, alpha, upper = problem.y[:m], state.alpha[:m], state.upper[:m]
        pull = np.where(alpha < upper, np.maximum(short, 0), 0) - np.where(alpha > 0, np.maximum(-short, 0), 0)
        pull *= y
        pull[state.W] = 0
        sides = [np.flatnonzero(side * pull > state.tolerance) for side in (1, -1)]
        many = sum(side.size for side in sides) // (2 * MOST_BLOCKS)
        block = min(max(many, self._room(K)), self._room(K, MOST_BLOCKS))
        half = block // 2
        worst = [side[np.argpartition(-abs(pull[side]), half)[:half]] if side.size > half else side for side in sides]
        return np.sort(np.concatenate(worst))

    def _leave_alone(self, K: KernelMatrix, state: DecompositionState, short: Vector) -> None:
        """Those whose weight is at a bound and surely stays there need no work, nor must their rows be kept.

        Where there is no room for the rows of the others, the surest of those go as well: they come back in turn.
        """
        W, alpha = state.W, state.alpha[state.W]
        sure = np.where(alpha == 0, -short[W], np.where(alpha >= state.upper[W], short[W], -np.inf))
        leaving = sure > SURE
        most = _most_worked_on(K)
        excess = 0 if most == K.shape[0] else W.size - (most - self._room(K, MOST_BLOCKS))
        if excess > np.count_nonzero(leaving):
            leaving[np.argsort(-sure, kind="stable")[:excess]] = True
        elif excess <= 0 and (np.count_nonzero(leaving) <= LEAVING * W.size or W.size <= self.block):
            return
        K.release(W[leaving])
        self._keep(state, ~leaving)

    def _grow(self, problem: RegularizedSVM, state: DecompositionState) -> None:
        """Go over to more samples: work on those with a weight, and compute what they say of the new ones."""
        weighted = state.alpha[state.W] > 0
        _kernel(problem).release(state.W[~weighted])
        self._keep(state, weighted)
        before, state.m = state.m, self._next_part(state)
        self._tell(problem, state, before)
        self._judge(problem, state)

    def _tell(self, problem: RegularizedSVM, state: DecompositionState, before: int) -> None:
        """The responses of samples that come into use, from all that have a weight."""
        K, m = _kernel(problem), state.m
        others = np.setdiff1d(np.flatnonzero(state.alpha), state.W)
        scratch = empty_by_pages((min(self.block, others.size), m - before), K.dtype)
        for numbers, kept in ((others, False), (state.W, True)):
            for start in range(0, numbers.size, self.block):
                some = numbers[start : start + self.block]
                if kept:
                    rows = K.fetch(some, m).columns(slice(before, m))
                else:
                    rows = RowView.of(K.block(some, slice(before, m), scratch[: some.size]))
                rows.add_to(state.f[before:m], state.alpha[some] * problem.y[some], K.threads)

    def solution(self, problem: RegularizedSVM, state: DecompositionState) -> Solution:
        f = state.f.copy()
        f[state.m :] = np.nan  # not known, and computed if anyone asks
        w: Any = Expansion(state.alpha * problem.y, f)
        return Solution(w, state.b, state.alpha.copy(), w)

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 1000

    def next_check(self, problem: RegularizedSVM, state: DecompositionState, done: int) -> int:
        return done + 1

    def exhausted(self, problem: RegularizedSVM, state: DecompositionState) -> bool:
        return state.settled or state.steps > max(FEWEST_STEPS, STEPS_PER_SAMPLE * problem.y.size)

    def patience(self, problem: RegularizedSVM, state: DecompositionState, best_iter: int) -> float:
        """A few iterations, each of which comes much nearer to the optimum, once it is near."""
        return math.inf if state.near_at is None else max(best_iter, state.near_at) + PATIENCE

    def estimated_gap(self, problem: RegularizedSVM, state: DecompositionState) -> float:
        """The gap on all samples; a part of them, or responses that are rounded, tell nothing of it."""
        if not state.whole or state.rounded.size:
            return math.inf
        return state.gap / (abs(state.dual) + state.gap) if state.gap > 0 else 0.0


def _kernel(problem: RegularizedSVM) -> KernelMatrix:
    return cast(KernelMatrix, problem.X)


def _most_worked_on(K: KernelMatrix) -> int:
    """Their rows must fit the cache, and the matrix between them must not be larger than that."""
    return min(K.cached_rows, math.isqrt(K.cache_bytes // K.dtype.itemsize))
