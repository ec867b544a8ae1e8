r"""Decomposition for kernel SVMs: all rows that matter are kept, and the dual is solved on all of them at once.

Problem: the regularised form with C and the hinge, on a KernelMatrix, with a free bias or none. Given: blocks of rows
of K. Returned: w as an Expansion, b, and the weights alpha that prove how good they are.

The row of K of a support vector must be computed at least once: (support vectors) x n evaluations are the floor. What
comes near it:

- the data grows: first a part of the examples, whose solution tells most of the support vectors of the next part;
- examples that fall short of the margin are admitted by the block, so that their rows are one matrix product;
- their rows are kept, and an iteration ends near the optimum over all that were admitted, by steps on pairs (SMO);
- responses f are kept in float64, though the rows are float32: changes add up without drift.

Symbols: m examples in use, A those admitted, f = K beta with beta_i = alpha_i y_i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from maxmargin.problems import Problem, RegularizedSVM, Solution
from maxmargin.problems.expansion import Expansion
from maxmargin.problems.kernel_matrix import KernelMatrix
from maxmargin.solvers._decomposition import add_rows, ascend_by_one, ascend_by_pairs
from maxmargin.solvers.base import Solver

Vector = NDArray[np.float64]
Numbers = NDArray[np.int64]

LOOSE = 0.1  # how far inside the margin an example may be, at first
STEPS_PER_ROW = 50  # the most steps of an iteration, for each example admitted


@dataclass
class State:
    """What is known of the examples, in the order in which they come into use."""

    rules: tuple[Any, ...]
    order: Numbers
    y: Vector
    upper: Vector
    alpha: Vector
    f: Vector  # of the first m; of the others not known
    m: int
    rows: NDArray[np.float32]  # row of K of the example admitted[s] in rows[s], its first m entries
    inner: NDArray[np.float32]  # K between the admitted ones
    admitted: Numbers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    b: float = 0.0
    tolerance: float = LOOSE
    waiting: Numbers = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # to be admitted next
    grows: bool = False  # whether more examples come into use next
    gap: float = math.inf
    dual: float = -math.inf

    @property
    def whole(self) -> bool:
        return self.m == self.order.size


@dataclass(frozen=True)
class Decomposition(Solver):
    r"""The exact solver of kernel SVMs with the hinge, on a growing part of the data.

    An iteration admits a block of examples, computes their rows of K, and solves the dual over all that were admitted.

    Parameters
    ----------
    first : int, default=6000
        How many examples come into use first.
    growth : float, default=4.0
        By which factor they grow, whenever hardly any of those in use is left to be admitted.
    block : int, default=512
        How many examples are admitted at a time, at most.

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
    >>> from maxmargin.problems.kernels import Rbf
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
    kernel: ClassVar[bool] = True
    default_tol: ClassVar[float | None] = 1e-3

    first: int = 6000
    growth: float = 4.0
    block: int = 512

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: Any = None) -> State:
        if problem.loss.smooth or problem.bias_feature:
            raise ValueError(
                "decomposition solves the problem with the hinge and a free bias or none; got "
                f"loss={problem.loss.name!r} and intercept_scaling={problem.intercept_scaling}"
            )
        if isinstance(warm, State) and all(map(np.array_equal, warm.rules, problem.rules)):
            return warm
        order = rng.permutation(np.flatnonzero(problem.u))
        n, m = order.size, self._first(order.size)
        parts = [m]
        while parts[-1] < n:
            parts.append(self._next(parts[-1], n))
        order = np.concatenate([np.sort(part) for part in np.split(order, parts[:-1])])
        upper, _ = problem.loss.dual_box(problem.u[order])
        capacity = min(n, _most_rows(_kernel(problem).cache_bytes, n))
        state = State(
            problem.rules,
            order,
            problem.y[order],
            upper,
            np.zeros(n),
            np.zeros(n),
            m,
            np.empty((capacity, n), np.float32),
            np.empty((capacity, capacity), np.float32),
        )
        # Of each class alike, as nothing is known yet.
        classes = [np.flatnonzero(state.y[:m] == label)[: self.block // 2] for label in (1, -1)]
        state.waiting = np.sort(np.concatenate(classes))[:capacity]
        return state

    def _first(self, n: int) -> int:
        return self._round_off(self.first, n)

    def _next(self, m: int, n: int) -> int:
        return self._round_off(int(self.growth * m), n)

    def _round_off(self, m: int, n: int) -> int:
        """All of them, if hardly any would be left."""
        return n if 2 * m > n else m

    def step(self, problem: RegularizedSVM, state: State, iterations: int, budget: int) -> int:
        before = problem.X.ledger.stored
        for done in range(iterations):
            if self._cost(state) > budget - (problem.X.ledger.stored - before):
                return done
            if state.grows:
                self._grow(problem, state)
            else:
                self._iterate(problem, state)
        return iterations

    def _cost(self, state: State) -> int:
        """The evaluations of the next iteration."""
        if state.grows:
            return int(np.count_nonzero(state.alpha)) * (self._next(state.m, state.order.size) - state.m)
        return state.waiting.size * state.m

    def _iterate(self, problem: RegularizedSVM, state: State) -> None:
        m = state.m
        self._admit(_kernel(problem), state)
        A = state.admitted
        alpha, e = state.alpha[A], state.y[A] - state.f[A]
        ascend = ascend_by_pairs if problem.free_bias else ascend_by_one
        inner = state.inner[: A.size, : A.size]
        *_, state.b = ascend(inner, state.y[A], state.upper[A], alpha, e, state.tolerance, STEPS_PER_ROW * A.size)
        change = (alpha - state.alpha[A]) * state.y[A]
        changed = np.flatnonzero(change)
        add_rows(state.rows, changed, change[changed], state.f[:m])
        state.alpha[A] = alpha
        self._judge(problem, state)

    def _admit(self, K: KernelMatrix, state: State) -> None:
        """Compute the rows of those that wait, in the places of the least needed where there is no room."""
        new, m = state.waiting, state.m
        A, capacity = state.admitted, len(state.rows)
        free = np.arange(A.size, min(capacity, A.size + new.size))
        A = np.concatenate([A, np.empty_like(free)])
        if free.size < new.size:
            sure = self._sureness(state)
            leaving = np.argsort(-sure)[: new.size - free.size]
            leaving = leaving[np.isfinite(sure[leaving])]
            free = np.sort(np.concatenate([leaving, free]))
        new = new[: free.size]
        A[free] = new
        state.admitted = A
        # Places that follow each other are filled where they are: rows are long, and copies are dear.
        for places in np.split(np.arange(new.size), 1 + np.flatnonzero(np.diff(free) != 1)):
            if places.size:
                rows = state.rows[free[places[0]] : free[places[-1]] + 1, :m]
                K.block(state.order[new[places]], state.order[:m], rows)
        for place in free:
            state.inner[place, : A.size] = state.rows[place].take(A)
        state.inner[: A.size, free] = state.inner[free, : A.size].T

    def _sureness(self, state: State) -> Vector:
        """How far from leaving its bound each admitted example is; those between the bounds must stay."""
        A = state.admitted
        c, alpha = state.y[A] * (state.f[A] + state.b), state.alpha[A]
        return np.where(alpha == 0, c - 1, np.where(alpha >= state.upper[A], 1 - c, -np.inf))

    def _judge(self, problem: RegularizedSVM, state: State) -> None:
        """The gap on the examples in use, and who is admitted next; where they are few, more come into use."""
        state.waiting = self._outside(state, self._measure(state))
        state.grows = not state.whole and state.waiting.size < self.block // 2
        if state.whole and not state.waiting.size:
            state.tolerance /= 4

    def _measure(self, state: State) -> Vector:
        """How far each example in use falls short of the margin (negative: it does not); gap and dual follow."""
        m = state.m
        y, f, alpha = state.y[:m], state.f[:m], state.alpha[:m]
        short = 1 - y * (f + state.b)
        square = float((alpha * y) @ f)
        state.dual = float(alpha.sum()) - 0.5 * square
        state.gap = 0.5 * square + float(state.upper[:m] @ np.maximum(0.0, short)) - state.dual
        return short

    def _outside(self, state: State, short: Vector) -> Numbers:
        """Of those that are not admitted and whose weight should change, the worst, a block at most."""
        alpha, upper = state.alpha[: state.m], state.upper[: state.m]
        pull = np.where(alpha < upper, short, 0.0)
        pull = np.where(alpha > 0, np.maximum(pull, -short), pull)  # it had a weight when it had to give way
        pull[state.admitted] = 0.0
        outside = np.flatnonzero(pull > state.tolerance)
        if outside.size > self.block:
            outside = outside[np.argpartition(-pull[outside], self.block)[: self.block]]
        return np.sort(outside)

    def _grow(self, problem: RegularizedSVM, state: State) -> None:
        """Go over to more examples: forget rows without a weight, and compute what the others say of the new ones."""
        kept = np.flatnonzero(state.alpha[state.admitted] > 0)
        A, before, m = state.admitted[kept], state.m, self._next(state.m, state.order.size)
        state.rows[: A.size, :before] = state.rows[kept, :before]
        state.inner[: A.size, : A.size] = state.inner[np.ix_(kept, kept)]
        # Those that had to give way have a weight too, and a say, though there is no room for their rows.
        away = np.setdiff1d(np.flatnonzero(state.alpha), A)
        spoken, places = np.concatenate([A, away]), np.arange(self.block)
        for start in range(0, spoken.size, self.block):
            some = spoken[start : start + self.block]
            end = start + some.size
            room = state.rows[start:end, before:m] if end <= A.size else None
            rows = _kernel(problem).block(state.order[some], state.order[before:m], room)
            if room is None:
                state.rows[start : A.size, before:m] = rows[: max(0, A.size - start)]
            add_rows(rows, places[: some.size], state.alpha[some] * state.y[some], state.f[before:m])
        state.admitted, state.m = A, m
        self._judge(problem, state)

    def solution(self, problem: RegularizedSVM, state: State) -> Solution:
        p = np.zeros(problem.y.size)
        p[state.order] = state.alpha
        w: Any
        if state.whole and state.order.size == problem.y.size:
            f = np.empty(p.size)
            f[state.order] = state.f
            w = Expansion(p * problem.y, f)
        else:
            w = problem.X.dot_transposed(p * problem.y)
        return Solution(w, state.b, p, w)

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 1000

    def next_check(self, problem: RegularizedSVM, state: State, done: int) -> int:
        return done + 1

    def estimated_gap(self, problem: RegularizedSVM, state: State) -> float:
        """The gap on all examples, known from the last iteration; a part of them tells nothing of it."""
        if not state.whole:
            return math.inf
        return state.gap / (abs(state.dual) + state.gap) if state.gap > 0 else 0.0


def _kernel(problem: RegularizedSVM) -> KernelMatrix:
    return cast(KernelMatrix, problem.X)


def _most_rows(cache_bytes: int, n: int) -> int:
    """How many rows of n entries, and the square matrix between them, fit: 4 r n + 4 r^2 bytes."""
    return int((math.sqrt(n * n + cache_bytes) - n) / 2)
