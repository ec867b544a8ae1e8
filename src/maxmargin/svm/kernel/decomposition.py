r"""Decomposition for kernel SVMs: the dual is solved over a working set that is updated after each solution.

It is a dual decomposition method as in section 4.3 of Cotter, Shalev-Shwartz and Srebro (2012).

Problem: the regularised form with C and the hinge, on a KernelMatrix, with a free bias or none. Given: blocks of rows
of K. Returned: w as an Expansion, b, and the dual point alpha that proves how good they are.

The row of K of each support vector must be computed at least once: that is (support vectors) x n kernel evaluations.
The method needs few more:

- the subset of samples in use grows: most support vectors of a subset are support vectors of the next one;
- violating samples enter the working set in blocks, so that their rows are one matrix product;
- an iteration solves the dual over the working set by steps on pairs (SMO), with K between its samples stored densely;
- samples whose dual variable is at a bound and far from leaving it are removed from the working set and from the cache;
- if support vectors far outnumber the rows that fit in the cache, no rows are cached: the working set is larger, new
  samples take the places of old ones in it, and f is updated by kernels that are computed and thrown away;
- f is kept in float64, though rows are float32, and is recomputed in float64 when rounding may explain the gap.

Symbols: the first m samples are in use, W is the working set, f = K beta with beta_i = alpha_i y_i. The violation of a
sample is the distance of its margin from 1, if its dual variable can change in the direction that closes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from maxmargin.core.threads import run_tiles
from maxmargin.core.types import Block, Indices, Vector
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.kernels._ascent import ascend_by_one, ascend_by_pairs
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.rows import KernelRows, kernel_rows
from maxmargin.kernels.square_block import SquareBlock
from maxmargin.svm.kernel._decomposition import measure
from maxmargin.svm.kernel.subsets import first_size, next_size
from maxmargin.svm.regularized import RegularizedSVM

JUMP_TO_ALL = 0.25  # if more than this share of the subset are support vectors, use all samples next
FIRST_TOLERANCE = 0.1  # violations up to this are ignored at first; each time none is larger, it is divided by 4
FIRST_TOLERANCE_OF_ALL = 1e-3  # first tolerance if the working set holds all samples from the start
SAFE_DISTANCE = 0.4  # distance of the margin from 1 above which a sample at the right bound may leave the working set
LEAVING_SHARE = 0.15  # such samples leave only if they exceed this share of the working set, because K is then copied
MOST_BLOCKS = 4  # largest number of blocks that enter the working set at once if many samples violate
RECOMPUTE_FACTOR = 2  # rows of K are no longer cached if support vectors are this many times the largest W
RECOMPUTED_BLOCKS = 16  # largest number of blocks in the working set if rows of K are not cached; half enter at once
TILE = 16_384  # samples that a thread measures at a time
PATIENCE = 4  # iterations without a better error on a holdout before early stopping
NEAR_OPTIMUM = 0.05  # relative gap below which PATIENCE counts; above it, the error varies with the bias
PROBED_RESPONSES = 64  # entries of f recomputed in float64 to measure their rounding error
REFRESH_SHARE = 0.25  # recompute f in float64 once rounding may explain this share of the gap
LEAST_RELATIVE_GAP = 1e-9  # f is not recomputed for relative gaps below this one
ENTRY_ROUNDING = {4: 2.0**-21, 8: 2.0**-48}  # error of an entry of K as a share of the largest one, by bytes per entry
ROUNDED_CHANGE = 1e-12  # changes of dual variables, as a share of their bound or sum, that may be due to rounding
LEAST_TOLERANCE = 1e-13  # violations below this times max(1, C s_i k(x_i, x_i)) are rounding
# A run without a limit from the user ends after this many steps, or this many per sample; LIBSVM has 10^7 and 100.
FEWEST_STEPS, STEPS_PER_SAMPLE = 2_000_000, 100
STEPS_PER_ROW = 50  # largest number of steps of an iteration per sample of the working set


@dataclass
class DecompositionState:
    """The state of decomposition; the first m samples are in use."""

    dual_signature: tuple[Any, ...]  # signature of the problem, to recognise it in a warm start
    upper: Vector
    alpha: Vector
    f: Vector  # valid for the first m samples
    m: int
    entered: Indices  # the iteration at which each sample last entered the working set
    inner: SquareBlock  # K between the samples of the working set
    b: float = 0.0
    tolerance: float = FIRST_TOLERANCE  # violations up to this are ignored
    replaced: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # places in W that waiting ones take
    waiting: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # samples that enter W next
    grows: bool = False  # whether the subset grows next
    error: float = 0.0  # rounding error of f: the measured error, plus a bound of what was added since
    recomputes: bool = False  # whether rows of K are recomputed for each sum, as the rows of W exceed the cache
    rounded: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # samples whose f is recomputed next
    gap: float = math.inf
    dual: float = -math.inf
    done: int = 0  # iterations made
    steps: int = 0  # steps on pairs of dual variables, or on single ones
    converged: bool = True  # whether the last iteration solved the dual over W
    settled: bool = False  # whether no violation exceeds rounding
    near_at: int | None = None  # the iteration at which the gap on all samples fell below NEAR_OPTIMUM

    @property
    def W(self) -> Indices:
        """The working set."""
        return self.inner.samples

    @property
    def whole(self) -> bool:
        """Whether all samples are in use."""
        return self.m == self.alpha.size


@dataclass(frozen=True)
class Decomposition(Solver[RegularizedSVM, DecompositionState]):
    r"""The exact solver for kernel SVMs with the hinge loss: decomposition on a growing subset of the data.

    An iteration adds a block of samples to the working set, computes their rows of K, and solves the dual over the
    working set. Subsets are the first samples of the data, which should be in random order.

    Parameters
    ----------
    first : int, default=6000
        The number of samples of the first subset.
    growth : float, default=3.0
        The largest factor by which the subset grows, whenever few of its samples violate the optimality conditions.
    block : int, default=512
        The number of samples that enter the working set at once; up to four times as many if many are violating.

    References
    ----------
    Joachims (1998), Making Large-Scale SVM Learning Practical (decomposition).
    Fan, Chen, Lin (2005), Working Set Selection Using Second Order Information for Training SVM.
    Friedlander, Schmidt (2012), Hybrid Deterministic-Stochastic Methods for Data Fitting (growing subsets).

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

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> DecompositionState:
        if problem.loss.smooth or problem.bias_feature:
            raise ValueError(
                "decomposition solves the problem with the hinge and a free bias or none; got "
                f"loss={problem.loss.name!r} and intercept_scaling={problem.intercept_scaling}"
            )
        if isinstance(warm, DecompositionState):
            if all(map(np.array_equal, warm.dual_signature, problem.dual_signature)):
                return warm
            if warm.whole and all(map(np.array_equal, warm.dual_signature[2:], problem.dual_signature[2:])):
                self._change_box(problem, warm)
                return warm
        upper, _ = problem.loss.dual_box(problem.u)
        inner = SquareBlock(kernel_rows(problem.X).dtype, kernel_rows(problem.X).threads)
        entered = np.zeros(upper.size, dtype=np.int64)
        if isinstance(warm, Solution) and warm.p is not None:
            alpha, w = problem.dual_point(warm.p)
            f = Expansion.of(w).f
            state = DecompositionState(problem.dual_signature, upper, alpha, f, upper.size, entered, inner, b=warm.b)
            kernel_rows(problem.X).release(np.arange(upper.size))
            self._select(problem, state)
            return state
        m = first_size(problem.y, upper, self.first)
        zeros = np.zeros(upper.size), np.zeros(upper.size)
        state = DecompositionState(problem.dual_signature, upper, *zeros, m, entered, inner)
        room = self._room(kernel_rows(problem.X), state)
        all_fit = upper.size <= room
        if all_fit:  # the working set holds all samples from the start
            state.tolerance = FIRST_TOLERANCE_OF_ALL
        # Take equally many samples of each class, as nothing is known yet.
        most = upper.size if all_fit else room // 2
        classes = [np.flatnonzero((problem.y[:m] == label) & (upper[:m] > 0))[:most] for label in (1, -1)]
        state.waiting = np.sort(np.concatenate(classes))
        return state

    def _change_box(self, problem: RegularizedSVM, state: DecompositionState) -> None:
        """Continue with another C or other weights, from dual variables that are scaled in proportion to C.

        The working set and its rows of K stay, because most dual variables between their bounds remain there. Samples
        whose weight has become 0 leave the working set.
        """
        upper, _ = problem.loss.dual_box(problem.u)
        used = (upper > 0) & (state.upper > 0)
        factor = float(np.median(upper[used] / state.upper[used])) if used.any() else 0.0
        scaled, K = factor * state.alpha, kernel_rows(problem.X)
        state.dual_signature, state.upper = problem.dual_signature, upper
        state.f, state.error, state.b = factor * state.f, factor * state.error, factor * state.b
        state.alpha = self._balanced(problem, np.minimum(scaled, upper), state.f)
        state.tolerance, state.settled, state.steps, state.near_at = FIRST_TOLERANCE, False, 0, None
        change = (state.alpha - scaled) * problem.y
        changed = np.flatnonzero(np.abs(change) > ROUNDED_CHANGE * upper)
        if state.recomputes:
            K.add_products(changed, change[changed], slice(0, state.m), state.f)
        else:  # the rows of most samples that had a weight are in the cache
            for start in range(0, changed.size, self.block):
                some = changed[start : start + self.block]
                K.fetch(some, state.m).add_to(state.f, change[some], K.threads)
            K.release(np.setdiff1d(changed, state.W))
        largest = float(np.abs(problem.X.row_sq_norms()[changed]).max(initial=0.0))
        state.error += ENTRY_ROUNDING[K.dtype.itemsize] * largest * float(np.abs(change[changed]).sum())
        weighted = upper[state.W] > 0
        if state.inner.entries.dtype != K.dtype:  # another C may need rows of another precision
            K.release(state.W)
            state.inner = SquareBlock(K.dtype, K.threads)
        elif not weighted.all():
            K.release(state.W[~weighted])
            state.inner.keep(weighted)
        self._select(problem, state)

    def _balanced(self, problem: RegularizedSVM, alpha: Vector, f: Vector) -> Vector:
        """Dual variables whose sums are equal for both classes, if the bias is free.

        In the class with the larger sum, the dual variables of the samples with the largest margins are reduced,
        because these samples are nearest to needing none. So few dual variables change, and few rows of K are needed to
        update f.
        """
        excess = float(alpha @ problem.y)
        if not problem.free_bias or abs(excess) <= ROUNDED_CHANGE * float(alpha.sum()):
            return alpha
        heavier = np.flatnonzero((alpha > 0) & (problem.y * excess > 0))
        order = heavier[np.argsort(-problem.y[heavier] * f[heavier], kind="stable")]
        before = np.cumsum(alpha[order]) - alpha[order]
        alpha[order] -= np.clip(abs(excess) - before, 0.0, alpha[order])
        return alpha

    def deterministic(self, problem: RegularizedSVM) -> bool:
        return True

    def _room(self, K: KernelRows, state: DecompositionState, blocks: int = 1) -> int:
        """How many samples may enter W at once: some blocks, and at most half of the largest W unless W may be all."""
        most = self._largest_working_set(K, state)
        return min(blocks * self.block, most if most == K.shape[0] else most // 2)

    def _largest_working_set(self, K: KernelRows, state: DecompositionState) -> int:
        """The largest W whose block of K is no larger than the cache, and whose rows fit in it if they are cached."""
        most = max(K.cached_rows, RECOMPUTED_BLOCKS * self.block) if state.recomputes else K.cached_rows
        return min(K.shape[0], most, math.isqrt(K.cache_bytes // K.dtype.itemsize))

    def _next_size(self, state: DecompositionState) -> int:
        """The size of the next subset: sizes grow by equal factors, or to all samples if support vectors are many."""
        if np.count_nonzero(state.alpha) > JUMP_TO_ALL * np.count_nonzero(state.upper[: state.m]):
            return state.upper.size
        return next_size(state.upper, state.m, self.growth)

    def step(self, problem: RegularizedSVM, state: DecompositionState, iterations: int, budget: float) -> Step:
        before = problem.X.ledger.entries_read
        for done in range(iterations):
            if state.settled:
                return Step(done, Reason.SETTLED)
            if self._cost(problem, state) > budget - (problem.X.ledger.entries_read - before):
                return Step(done, Reason.BUDGET)
            if state.grows:
                self._grow(problem, state)
            elif state.rounded.size:
                self._refresh(problem, state)
            else:
                self._iterate(problem, state)
            state.done += 1
        return Step(iterations, Reason.SETTLED if state.settled else Reason.DONE)

    def _cost(self, problem: RegularizedSVM, state: DecompositionState) -> int:
        """An upper bound of the kernel evaluations of the next iteration."""
        if state.grows:
            return int(np.count_nonzero(state.alpha)) * self._next_size(state)
        if state.rounded.size:
            return int(np.count_nonzero(state.alpha)) * (state.rounded.size + 2 * PROBED_RESPONSES)
        wanted = np.concatenate([state.W, state.waiting])
        probes = 2 * PROBED_RESPONSES * (np.count_nonzero(state.alpha) + wanted.size)
        if state.recomputes:
            return int(wanted.size * (state.m + state.waiting.size) + probes)
        return int(kernel_rows(problem.X).missing(wanted, state.m).sum() + probes)

    def _iterate(self, problem: RegularizedSVM, state: DecompositionState) -> None:
        """Add the waiting samples to W, solve the dual over W, and update f."""
        y, upper, K = problem.y, state.upper, kernel_rows(problem.X)
        self._extend_working_set(K, state)
        W = state.W
        alpha, e = state.alpha[W], y[W] - state.f[W]
        ascend = ascend_by_pairs if problem.free_bias else ascend_by_one
        inner = state.inner.entries
        most = STEPS_PER_ROW * W.size
        steps, _, state.b = ascend(inner, y[W], upper[W], alpha, e, state.tolerance, most)
        state.steps, state.converged = state.steps + steps, steps < most
        change = (alpha - state.alpha[W]) * y[W]
        changed = np.flatnonzero(change)
        if state.recomputes:
            K.add_products(W[changed], change[changed], slice(0, state.m), state.f[: state.m])
        else:
            K.fetch(W[changed], state.m).add_to(state.f[: state.m], change[changed], K.threads)
        state.error += ENTRY_ROUNDING[K.dtype.itemsize] * float(
            np.abs(inner.diagonal()).max(initial=0) * np.abs(change).sum()
        )
        state.alpha[W] = alpha
        if not math.isfinite(state.b):
            state.b = self._bias(problem, state)
        self._select(problem, state)

    def _bias(self, problem: RegularizedSVM, state: DecompositionState) -> float:
        """The middle of the interval that all samples in use allow; needed if W bounds the bias on one side only."""
        m = state.m
        y, alpha, e = problem.y[:m], state.alpha[:m], problem.y[:m] - state.f[:m]
        more, less = alpha < state.upper[:m], alpha > 0
        rising, falling = np.where(y > 0, more, less), np.where(y > 0, less, more)
        return 0.5 * float(e[rising].max() + e[falling].min())

    def _extend_working_set(self, K: KernelRows, state: DecompositionState) -> None:
        """Add the waiting samples to W, with the block of K between all samples in W."""

        def compute(W: Indices, out: Block, positions: Indices) -> None:
            if state.recomputes:
                K.block(W[positions], W, out, positions)
            else:  # no sample is replaced: the new samples come last
                K.fetch(W, state.m)[positions].copy_columns(W, out[W.size - positions.size :], K.threads)

        state.inner.enter(state.waiting, state.replaced, self._largest_working_set(K, state), compute)
        state.entered[state.waiting] = state.done

    def _select(self, problem: RegularizedSVM, state: DecompositionState) -> None:
        """Measure the gap on the samples in use, and choose the samples that leave and enter W, or a larger subset."""
        short, pull = self._measure(problem, state)
        state.rounded = self._rounded(problem, state)
        if state.rounded.size:
            return
        K = kernel_rows(problem.X)
        self._give_up_rows(K, state)
        if not state.recomputes:
            self._shrink_working_set(K, state, short)
        state.waiting = self._violators(K, state, pull)
        if state.recomputes:
            state.replaced = self._replaced(K, state, short)
        state.grows = not state.whole and state.waiting.size < self.block // 2
        if state.whole and not state.waiting.size and state.converged:
            state.tolerance /= 4
            largest = float((state.upper * np.abs(problem.X.row_sq_norms())).max())
            state.settled = state.tolerance < LEAST_TOLERANCE * max(1.0, largest)

    def _measure(self, problem: RegularizedSVM, state: DecompositionState) -> tuple[Vector, Vector]:
        """1 minus the margin of each sample in use, and its violation; updates the gap and the dual value.

        The violation is positive if a rising beta_i closes it, negative if a falling one does.
        """
        m = state.m
        short, pull, sums = np.empty(m), np.empty(m), np.zeros((-(-m // TILE), 3))

        def work(tiles: Iterator[slice]) -> None:
            for some in tiles:
                y, f, alpha, upper = problem.y[some], state.f[some], state.alpha[some], state.upper[some]
                sums[some.start // TILE] = measure(y, f, state.b, alpha, upper, short[some], pull[some])

        run_tiles(work, m, TILE, operations=m, threads=kernel_rows(problem.X).threads)
        total, square, loss = (float(part) for part in sums.sum(axis=0))
        state.dual = total - 0.5 * square
        state.gap = 0.5 * square + loss - state.dual
        if state.near_at is None and state.whole and state.gap <= NEAR_OPTIMUM * (abs(state.dual) + state.gap):
            state.near_at = state.done + 1
        return short, pull

    def _rounded(self, problem: RegularizedSVM, state: DecompositionState) -> Indices:
        """The samples whose f must be recomputed because its rounding error may explain too much of the gap.

        At the optimum a sample with a free dual variable has margin 1. An error of f_i that lowers the margin adds up
        to U_i times the error to the gap, and on average 0.4 U_i times the standard deviation of the error.
        """
        free = np.flatnonzero((state.alpha > 0) & (state.alpha < state.upper) & state.whole)
        matters = REFRESH_SHARE * max(state.gap, LEAST_RELATIVE_GAP * abs(state.dual))
        least = matters / (0.4 * float(state.upper[free].sum())) if free.size else math.inf
        if state.error > least:
            some = free[:: -(-free.size // PROBED_RESPONSES)]
            error = kernel_rows(problem.X).dot_precisely(state.alpha * problem.y, some) - state.f[some]
            state.error = math.sqrt(float(np.mean(error**2)))
        return free if state.error > least else free[:0]

    def _refresh(self, problem: RegularizedSVM, state: DecompositionState) -> None:
        """Recompute f in float64 for the samples for which rounding matters."""
        state.f[state.rounded] = kernel_rows(problem.X).dot_precisely(state.alpha * problem.y, state.rounded)
        state.error = 0.0
        self._select(problem, state)

    def _most_blocks(self, state: DecompositionState) -> int:
        """How many blocks may enter W at once; rows that are recomputed for each sum should make large changes."""
        return RECOMPUTED_BLOCKS // 2 if state.recomputes else MOST_BLOCKS

    def _give_up_rows(self, K: KernelRows, state: DecompositionState) -> None:
        """Recompute rows of K from now on if there are far more support vectors than rows that fit in the cache."""
        if state.recomputes:
            return
        if np.count_nonzero(state.alpha) > RECOMPUTE_FACTOR * self._largest_working_set(K, state):
            state.recomputes = True
            K.forget_rows()

    def _violators(self, K: KernelRows, state: DecompositionState, pull: Vector) -> Indices:
        """The most violating samples outside of W, half of them with a rising and half with a falling beta_i.

        If all of them changed beta_i in one direction, the bias would oscillate from one iteration to the next.
        """
        pull[state.W] = 0
        sides = [np.flatnonzero(side * pull > state.tolerance) for side in (1, -1)]
        many = sum(side.size for side in sides) // (1 if state.recomputes else 2 * MOST_BLOCKS)
        block = min(max(many, self._room(K, state)), self._room(K, state, self._most_blocks(state)))
        half = block // 2
        worst = [side[np.argpartition(-abs(pull[side]), half)[:half]] if side.size > half else side for side in sides]
        return np.sort(np.concatenate(worst))

    def _distance(self, state: DecompositionState, short: Vector) -> Vector:
        """How far the margin of each sample in W is from 1, if its dual variable is at the right bound; else -inf."""
        W, alpha = state.W, state.alpha[state.W]
        return np.where(alpha == 0, -short[W], np.where(alpha >= state.upper[W], short[W], -np.inf))

    def _replaced(self, K: KernelRows, state: DecompositionState, short: Vector) -> Indices:
        """The places that waiting samples take if W is full: of samples far from leaving a bound, then oldest first."""
        excess = state.W.size + state.waiting.size - self._largest_working_set(K, state)
        order = np.lexsort((state.entered[state.W], -self._distance(state, short)))
        return np.sort(order[: max(0, excess)])

    def _shrink_working_set(self, K: KernelRows, state: DecompositionState, short: Vector) -> None:
        """Remove samples from W whose dual variable is at a bound and far from leaving it, and release their rows.

        If the cache has no room for the rows of W, further samples at a bound leave, the farthest first. They can
        return.
        """
        W, distance = state.W, self._distance(state, short)
        leaving = distance > SAFE_DISTANCE
        most = self._largest_working_set(K, state)
        excess = 0 if most == K.shape[0] else W.size - (most - self._room(K, state, self._most_blocks(state)))
        if excess > np.count_nonzero(leaving):
            leaving[np.argsort(-distance, kind="stable")[:excess]] = True
        elif excess <= 0 and (np.count_nonzero(leaving) <= LEAVING_SHARE * W.size or W.size <= self.block):
            return
        K.release(W[leaving])
        state.inner.keep(~leaving)

    def _grow(self, problem: RegularizedSVM, state: DecompositionState) -> None:
        """Enlarge the subset: reduce W to support vectors, and compute f of the new samples."""
        if not state.recomputes:
            weighted = state.alpha[state.W] > 0
            kernel_rows(problem.X).release(state.W[~weighted])
            state.inner.keep(weighted)
        before, state.m = state.m, self._next_size(state)
        self._extend_products(problem, state, before)
        self._select(problem, state)

    def _extend_products(self, problem: RegularizedSVM, state: DecompositionState, before: int) -> None:
        """Compute f of the samples from `before` to m, from all support vectors."""
        K, m, beta = kernel_rows(problem.X), state.m, state.alpha * problem.y
        cached = state.W[:0] if state.recomputes else state.W
        others = np.setdiff1d(np.flatnonzero(beta), cached)
        K.add_products(others, beta[others], slice(before, m), state.f[before:m])
        for start in range(0, cached.size, self.block):
            some = cached[start : start + self.block]
            K.fetch(some, m).columns(slice(before, m)).add_to(state.f[before:m], beta[some], K.threads)

    def solution(self, problem: RegularizedSVM, state: DecompositionState) -> Solution:
        f = state.f.copy()
        f[state.m :] = np.nan  # unknown; computed when needed
        w = Expansion(state.alpha * problem.y, f)
        return Solution(w, state.b, state.alpha.copy(), w)

    def without_cache(self, state: DecompositionState) -> DecompositionState:
        """The state with an empty working set, which the next violating samples enter."""
        empty = SquareBlock(state.inner.dtype, state.inner.threads)
        return replace(state, inner=empty, replaced=state.replaced[:0])

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 1000

    def next_check(self, problem: RegularizedSVM, state: DecompositionState, done: int) -> int:
        return done + 1

    def exhausted(self, problem: RegularizedSVM, state: DecompositionState) -> bool:
        return state.steps > max(FEWEST_STEPS, STEPS_PER_SAMPLE * problem.y.size)

    def patience(self, problem: RegularizedSVM, state: DecompositionState, best_iter: int) -> float:
        """A few iterations after the best one, and not before the gap is small."""
        return math.inf if state.near_at is None else max(best_iter, state.near_at) + PATIENCE

    def estimated_gap(self, problem: RegularizedSVM, state: DecompositionState) -> float:
        """The gap if all samples are in use and f is accurate enough; infinite otherwise."""
        if not state.whole or state.rounded.size:
            return math.inf
        return state.gap / (abs(state.dual) + state.gap) if state.gap > 0 else 0.0
