r"""Newton's method on the examples that matter, over a growing part of the data.

Problem: the regularised form with C, either loss, any kind of bias. Given: the data by rows. Returned: w, b and the
point of the dual that proves how good they are. For few features: it solves systems of d equations.

The squared hinge is smooth, and Newton's method is applied to it as it stands. The hinge is not; its dual
:math:`\max_{0 \le a \le U} \sum a_i - \frac12 |v(a)|^2` is solved by the proximal point method (which for the primal is
the method of multipliers): from a centre :math:`\alpha`, the primal of

.. math:: \max_{0 \le a \le U}\ \sum_i a_i - \tfrac12 |v(a)|^2 - \tfrac1{2\sigma} |a - \alpha|^2

is smooth, and its solution a is the next centre. In both cases, with :math:`c_i = y_i(\langle w, x_i\rangle + b)`,

.. math:: a_i = \text{clip}_{[0, U_i]}\ h_i (1 - c_i + \alpha_i / \sigma), \qquad h_i = 1 / (q_i + 1/\sigma),

the gradient is :math:`w - \sum_i a_i y_i x_i` and the Hessian :math:`I + \sum_{i \in J} h_i x_i x_i^T`, with J the
examples strictly between their bounds. They are few near the end, and only they are read to build it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from maxmargin.core import Matrix
from maxmargin.core.types import Vector
from maxmargin.engine.problem import Problem, Solution
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.svm.linear._newton import add_outer_products, gap_of, reach, weigh
from maxmargin.svm.regularized import RegularizedSVM

Some = NDArray[np.int64] | slice  # examples of a part, by their places in it; the slice: all of them

MOST_FEATURES = 5000
ROWS_PER_FEATURE = 10  # of the first part of the data, at least
SOFT_PER_FEATURE = 3  # examples within the rounded kink of the hinge to begin with, at least; else a twentieth
GROWTH = 6  # of the parts
SOLVED = 0.1  # a centre moves when the gradient is this small beside the move
SOFTEST = 1e-3  # softness to begin with, at least, in units of |x|^2
STIFFER = 4.0  # how much sigma grows then
BLOCK = 2048  # rows made dense at a time
NOTHING = 1e-16  # of the objective
SPARSE = 0.25  # below this share of stored entries, outer products of sparse rows are cheaper than dense ones
MOST_AWAKE = 0.6  # the share of examples above which all are looked at again


@dataclass
class NewtonState:
    """Where Newton's method stands: on the first `size` rows of `order`.

    Examples at a bound sleep as long as w, by its distance from where all of them were last seen, cannot have moved
    them off it: their margins need not be known. This is the tighter bound of `shrinking.py`, in use for both bounds.
    """

    rules: tuple[Any, ...]  # of the problem, to tell if another one is the same
    order: NDArray[np.int64]
    size: int
    w: Vector
    b: float = 0.0
    softness: float = 0.0  # 1 / sigma
    first_centre: Vector | None = None  # of all examples, from an earlier solution
    part: Part | None = None
    solved: bool = False  # whether the centre may move
    decrease: float = math.inf  # of the objective, by the last step
    gap: float = math.inf
    dual: float = -math.inf

    @property
    def whole(self) -> bool:
        """Whether the part in use is all of the data."""
        return self.part is not None and self.part.rows.size == self.order.size == self.size


@dataclass
class Part:
    """The examples in use, and what is known of them."""

    rows: NDArray[np.int64]
    y: Vector
    upper: Vector  # bounds of the dual, the losses weighed as if this part were all, and
    q: Vector  # its curvatures
    norms: Vector  # of (x_i, 1), the 1 where there is a bias
    centre: Vector  # alpha
    c: Vector  # margins: at w where `known`
    a: Vector  # weights
    v: Vector  # sum a_i y_i x_i
    known: NDArray[np.bool_]
    reach: Vector  # how far from `seen_from` w may be before the weight of a sleeping example can change
    seen_from: Vector  # (w, b) when all margins were known last
    inside: NDArray[np.bool_]  # who is between the bounds, as far as `products` knows
    products: Vector  # sum of (x_i, 1)(x_i, 1)^T over them, weighed by 1 / q_i with the squared hinge: the lower half

    def law(self, awake: Some) -> tuple[Vector, Vector, Vector]:
        """centre, upper and q of some of them: with the softness, all that makes a weight of a margin."""
        return self.centre[awake], self.upper[awake], self.q[awake]


@dataclass(frozen=True)
class Newton(Solver[RegularizedSVM, NewtonState]):
    r"""Newton's method for few features, on a growing part of the data.

    An iteration reads the rows in use once for the margins along the step, and those whose weight has changed once
    more. It begins on a small part of the data, where iterations are cheap, and goes over to a larger one when more of
    the same would only fit the part better, not the whole. Rows that a step cannot move off their bound are not read.

    Parameters
    ----------
    first : int, default=2000
        How many rows to begin with, at least (and ten a feature); the parts then grow sixfold.

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
    resumes: ClassVar[bool] = True

    first: int = 2000

    def __post_init__(self) -> None:
        if not (isinstance(self.first, int) and self.first >= 1):
            raise ValueError(f"first must be a whole number of at least 1; got {self.first!r}")

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> NewtonState:
        d = problem.X.shape[1]
        if d > MOST_FEATURES:
            raise ValueError(
                f"newton solves a dense system of as many equations as there are features, at most {MOST_FEATURES:,}; "
                f'the data has {d:,}. Use solver="sdca".'
            )
        if isinstance(warm, NewtonState) and all(map(np.array_equal, warm.rules, problem.rules)):
            return warm
        order = rng.permutation(np.flatnonzero(problem.s))
        if isinstance(warm, NewtonState | Solution):
            centre = warm.p if isinstance(warm, Solution) else None
            return NewtonState(problem.rules, order, order.size, np.asarray(warm.w), warm.b, first_centre=centre)
        return NewtonState(problem.rules, order, self._first_part(problem), np.zeros(d))

    def _first_part(self, problem: RegularizedSVM) -> int:
        return min(max(self.first, ROWS_PER_FEATURE * problem.X.shape[1]), int(np.count_nonzero(problem.s)))

    def deterministic(self, problem: RegularizedSVM) -> bool:
        return self._first_part(problem) == np.count_nonzero(problem.s)

    def step(self, problem: RegularizedSVM, state: NewtonState, iterations: int, budget: int) -> Step:
        before = problem.X.ledger.entries_read
        for done in range(iterations):
            left = budget - (problem.X.ledger.entries_read - before)
            # The margins of a new part, its weights, the Hessian, the margins along the step, and the weights after it.
            X = problem.features
            if left < 5 * X.n_stored and left < 5 * int(X.row_sizes()[state.order[: state.size]].sum()):
                return Step(done, Reason.BUDGET)
            with np.errstate(over="ignore", invalid="ignore"):  # rows may be as uneven as floats allow
                self._iterate(problem, state)
        return Step(iterations)

    def _iterate(self, problem: RegularizedSVM, state: NewtonState) -> None:
        if state.part is None or state.part.rows.size != state.size:
            state.part = self._take_part(problem, state)
        part = state.part
        if state.solved:
            self._move_centre(problem, state, part)
        s, s_b = self._direction(problem, state, part)
        gain = abs(float((state.w - part.v) @ s))
        if state.whole and math.isfinite(state.gap) and gain <= NOTHING * abs(state.dual):
            return  # what is left to gain is below rounding
        awake = self._wake(problem, state, part, s, s_b)
        rows, y, c, law = part.rows[awake], part.y[awake], part.c[awake], part.law(awake)
        along = y * (problem.X.dot(s, rows) + s_b)

        # The objective along the step is least where its slope is zero. Sleeping examples pull with a constant force.
        stiffness, before = _stiffness(problem), part.a[awake]
        first = float((state.w - part.v) @ s) + (stiffness * state.b - float(part.a @ part.y)) * s_b
        start = first + float(before @ along)
        bend = float(s @ s) + stiffness * s_b**2

        def slope(t: float) -> float:
            return start + t * bend - float(weigh(c + t * along, *law, state.softness) @ along)

        t = _root(slope, first, 1.0 if rows.size < part.rows.size else math.inf)
        state.decrease = 0.5 * t * abs(first)
        state.w = state.w + t * s
        state.b += t * s_b
        c = c + t * along
        a = weigh(c, *law, state.softness)
        # Rows whose weight does not change are not read.
        part.v += problem.features.dot_transposed((a - before) * y, rows)
        part.c[awake], part.a[awake] = c, a
        # Sleeping examples add nothing to the gap: they have the weight that is best for them.
        state.gap = float(gap_of(c, a, *law[1:]).sum())
        self._settle(problem, state, part)

    def _take_part(self, problem: RegularizedSVM, state: NewtonState) -> Part:
        """The first `size` rows, with the losses weighed as if they were all."""
        rows = np.sort(state.order[: state.size])
        y, share = problem.y[rows], problem.s[rows].sum() / problem.s.sum()
        upper, q = problem.loss.dual_box(problem.u[rows] / share)
        c = y * (problem.X.dot(state.w, rows) + state.b)
        centre = np.zeros(rows.size)
        state.softness, state.solved = 0.0, False
        if not problem.loss.smooth:
            # The hinge with its kink rounded off, as wide as it takes to have enough examples in it.
            enough = min(rows.size - 1, max(SOFT_PER_FEATURE * state.w.size, rows.size // 20))
            width = max(1.5 * float(np.partition(np.abs(1 - c), enough)[enough]), 1e-9)
            state.softness = 2 * width / float(upper.mean())
            centre = 0.5 * upper
            softest = SOFTEST * float(problem.sq_norms().mean())
            if state.softness < softest:  # C is so large that U says nothing of the weights to come
                state.softness, centre = softest, np.zeros(rows.size)
            if state.first_centre is not None:
                centre = np.clip(state.first_centre[rows], 0.0, upper)
        a = weigh(c, centre, upper, q, state.softness)
        norms = np.sqrt(problem.sq_norms()[rows] + problem.bias)
        known, reach_of = np.ones(rows.size, dtype=bool), np.zeros(rows.size)
        v = problem.features.dot_transposed(a * y, rows)
        inside, products = np.zeros(rows.size, dtype=bool), np.zeros((v.size + 1, v.size + 1))
        seen_from = np.append(state.w, state.b)
        return Part(rows, y, upper, q, norms, centre, c, a, v, known, reach_of, seen_from, inside, products)

    def _move_centre(self, problem: RegularizedSVM, state: NewtonState, part: Part) -> None:
        """The weights become the next centre. Sleeping examples stay at their bounds, now with more room."""
        part.centre = part.a.copy()
        state.softness /= STIFFER
        state.solved = False
        awake = np.flatnonzero(part.known)
        a = weigh(part.c[awake], *part.law(awake), state.softness)
        part.v += problem.features.dot_transposed((a - part.a[awake]) * part.y[awake], part.rows[awake])
        part.a[awake] = a

    def _direction(self, problem: RegularizedSVM, state: NewtonState, part: Part) -> tuple[Vector, float]:
        """Newton's step: a system with the Hessian."""
        self._follow(problem, part)
        d = state.w.size
        H = part.products / (state.softness or 1.0)
        held = float(H[d, d])
        H[np.arange(d), np.arange(d)] += 1.0
        # Where nobody is between the bounds nothing holds a free bias: let it go by one margin at most.
        H[d, d] = (1 + 1e-9) * held if held > 0 else problem.C * float(problem.s.sum())
        H[d, d] += _stiffness(problem)
        g = np.append(state.w - part.v, _stiffness(problem) * state.b - float(part.a @ part.y))
        if not problem.bias:
            H[d, d], g[d] = 1.0, 0.0
        diagonal = H.diagonal().copy()
        _, step, failed = dposv(H.T, -g, overwrite_a=True)
        if failed or not np.isfinite(step).all():  # rows so uneven that it is singular by rounding, or overflows
            step = -g / diagonal
        return step[:d], float(step[d])

    def _follow(self, problem: RegularizedSVM, part: Part) -> None:
        """Bring the products up to date: from one step to the next, few come between their bounds, or leave."""
        inside = (part.a > 0) & (part.a < part.upper)
        changed = np.flatnonzero(inside != part.inside)
        if 2 * changed.size > np.count_nonzero(inside):
            part.products[:] = 0
            changed, signs = np.flatnonzero(inside), np.ones(np.count_nonzero(inside))
        else:
            signs = np.where(inside[changed], 1.0, -1.0)
        part.inside = inside
        X, rows, d = problem.features, part.rows[changed], part.v.size
        weights = signs / part.q[changed] if problem.loss.smooth else signs
        part.products[d, d] += weights.sum()
        if X.n_stored < SPARSE * X.shape[0] * d:
            products = part.products

            def outer_products(reader: Matrix, part: slice) -> Vector:
                H = products if part.start == 0 else np.zeros_like(products)
                add_outer_products(reader, rows[part], weights[part], H)
                return H

            work = rows.size * (X.n_stored // X.shape[0]) ** 2 // 4
            for H in X.in_parts(outer_products, rows.size, work - 64 * d**2)[1:]:
                products += H
            if problem.bias:
                part.products[d, :d] += X.dot_transposed(weights, rows)
            return
        for sign in (1.0, -1.0):
            these = np.flatnonzero(signs == sign)
            for start in range(0, these.size, BLOCK):
                block = these[start : start + BLOCK]
                root = np.sqrt(np.abs(weights[block]))
                Z = X.dense(rows[block])
                Z *= root[:, None]
                part.products[:d, :d] += sign * (Z.T @ Z)
                if problem.bias:
                    part.products[d, :d] += sign * (root @ Z)

    def _wake(self, problem: RegularizedSVM, state: NewtonState, part: Part, s: Vector, s_b: float) -> Some:
        """The examples whose weight a step s could change; their margins become known."""
        here, step = np.append(state.w, state.b), math.hypot(float(np.linalg.norm(s)), s_b)
        most = MOST_AWAKE * part.rows.size
        awake = np.flatnonzero(part.known | (part.reach <= float(np.linalg.norm(here - part.seen_from)) + step))
        everyone = awake.size > most
        unknown = np.flatnonzero(~part.known) if everyone else awake[~part.known[awake]]
        part.c[unknown] = part.y[unknown] * (problem.X.dot(state.w, part.rows[unknown]) + state.b)
        part.known[unknown] = True
        if not everyone:
            return awake
        part.seen_from = here
        part.reach = reach(part.c, *part.law(slice(None)), state.softness, part.norms)
        # Whoever this very step cannot move goes to sleep at once, where they are many.
        awake = np.flatnonzero(part.reach <= step)
        if awake.size > most:
            return slice(None)
        part.known[:] = False
        part.known[awake] = True
        return awake

    def _settle(self, problem: RegularizedSVM, state: NewtonState, part: Part) -> None:
        """Complete the gap on this part; move the centre, or go over to a larger part, where it is time."""
        imbalance, B = float(part.a @ part.y), problem.bias_feature
        difference = state.w - part.v
        state.gap += 0.5 * float(difference @ difference)
        state.gap += (
            abs(state.b * imbalance) if problem.free_bias else 0.5 * (state.b / B - B * imbalance) ** 2 if B else 0
        )
        quadratic = float(part.q @ part.a**2) + float(part.v @ part.v) + (B * imbalance) ** 2
        state.dual = float(part.a.sum()) - 0.5 * quadratic
        n = state.order.size
        # A part is done with when a step gains less than another sample would change.
        if state.size < n and state.decrease <= (state.dual + state.gap) / math.sqrt(state.size):
            state.size = GROWTH * state.size if 2 * GROWTH * state.size < n else n
        elif not problem.loss.smooth:
            moved = float(np.linalg.norm(part.a - part.centre)) * math.sqrt(state.softness)
            state.solved = (
                math.hypot(float(np.linalg.norm(difference)), imbalance * problem.free_bias) <= SOLVED * moved
            )

    def solution(self, problem: RegularizedSVM, state: NewtonState) -> Solution:
        if not state.whole or state.part is None:
            return Solution(state.w, state.b)
        p = np.zeros(problem.y.size)
        p[state.part.rows] = state.part.a
        return Solution(state.w, state.b, p, state.part.v.copy())

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 50

    def next_check(self, problem: RegularizedSVM, state: NewtonState, done: int) -> int:
        return done + 1

    def estimated_gap(self, problem: RegularizedSVM, state: NewtonState) -> float:
        """The gap on the whole data, known from the last iteration; a part tells nothing of it."""
        size = abs(state.dual) + state.gap
        return (state.gap / size if size > 0 else 0.0) if state.whole and math.isfinite(size) else math.inf


def _stiffness(problem: RegularizedSVM) -> float:
    """The curvature of the penalty on the bias."""
    return 1 / problem.bias_feature**2 if problem.bias_feature else 0.0


def _root(slope: Callable[[float], float], first: float, most: float) -> float:
    """Where a rising, piecewise linear function, `first` at 0, is near zero, at most at `most`: secants in brackets."""
    if not first < 0:  # there is nothing to gain
        return 0.0
    low, high, t = 0.0, math.inf, 1.0
    last, before = 0.0, first
    for _ in range(50):
        value = slope(t)
        if abs(value) <= 0.1 * abs(first) or (value < 0 and t == most):
            break
        low, high = (t, high) if value < 0 else (low, t)
        rise = (value - before) / (t - last)
        last, before = t, value
        t = min(t - value / rise, most) if rise > 0 else math.inf
        if not low < t < high:
            t = 0.5 * (low + high) if math.isfinite(high) else 2 * low
        if t == last:  # no number lies between
            break
    return t
