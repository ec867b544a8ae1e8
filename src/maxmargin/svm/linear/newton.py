r"""Newton's method on a growing subset of the samples, for data with few features.

Problem: the regularised form with C, either loss, any kind of bias. Given: the data by rows. Returned: w, b and the
dual point that proves how good they are. Each iteration solves a system of d equations, d the number of features.

The hinge is not smooth, and with a large C the squared hinge is so hardly: where few samples have a loss, a full step
goes far beyond the kinks of the others. So the dual :math:`\max_{0 \le a \le U} \sum a_i - \frac12 q_i a_i^2 -
\frac12 |v(a)|^2` is solved by the proximal point method (Rockafellar 1976; for the primal it is the method of
multipliers): from a centre :math:`\alpha`, Newton's method is applied to the primal of

.. math:: \max_{0 \le a \le U} \sum_i a_i - \tfrac12 q_i a_i^2 - \tfrac\tau2 m_i (a_i - \alpha_i)^2 - \tfrac12 |v(a)|^2,

whose solution a is the next centre. The code calls :math:`\tau` the softness; :math:`m_i` is 1 for the hinge and
:math:`q_i` for the squared hinge, for which the last softness is 0. With :math:`c_i = y_i(\langle w, x_i\rangle + b)`,

.. math:: a_i = \text{clip}_{[0, U_i]}\ h_i (1 - c_i + \tau m_i \alpha_i), \qquad h_i = 1 / (q_i + \tau m_i),

the gradient is :math:`w - \sum_i a_i y_i x_i` and the Hessian :math:`I + \sum_{i \in J} h_i x_i x_i^T`, with J the
samples strictly between their bounds (Keerthi and DeCoste 2005). Near the optimum J is small, and only the rows in J
are read to build the Hessian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dposv

from maxmargin.core import Matrix
from maxmargin.core.types import Vector
from maxmargin.engine.problem import Problem, Solution
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.svm.linear._newton import add_outer_products, gap_of, reach, weigh
from maxmargin.svm.regularized import RegularizedSVM

Places = NDArray[np.int64] | slice  # samples by their position in the subset; slice(None) means all of them

MOST_FEATURES = 5000  # data with more features is refused: the dense Hessian has this many rows and columns
ROWS_PER_FEATURE = 10  # rows of the first subset per feature, at least
KINK_SAMPLES_PER_FEATURE = 3  # samples per feature within the smoothed kink of the hinge at the start, at least
KINK_SHARE = 20  # and at least one in this many samples of the subset
GROWTH = 6  # factor by which the subset grows
SOLVED = 0.5  # the centre moves once the norm of the gradient is at most this share of the distance to the new centre
FIRST_CURVATURE = 1e-2  # q + softness m at the start, at least; unit: the mean |x_i|^2
MANY_STEPS = 12  # with fewer from one centre to the next, the softness is multiplied by their number over this one
SHORT_STEP = 0.1  # share of Newton's step below which the squared hinge is softened
LEAST_KINK = 1e-9  # softness times m times the mean dual variable, at least: an error of a margin is divided by it
STIFF_ENOUGH = 1e-8  # relative duality gap below which the softness stays as it is: less would only add rounding
DENSE_ROWS = 1024  # rows converted to a dense block at a time, which bounds the memory for the Hessian
LEAST_GAIN = 1e-16  # share of the objective; a step that gains less is below rounding and is not made
SPARSE_DENSITY = 0.25  # below this share of stored entries the Hessian is built from sparse outer products
MOST_ACTIVE = 0.6  # if more than this share of the samples are active, all margins are recomputed


@dataclass
class NewtonState:
    """The state of Newton's method, which works on the first `size` rows of `order`.

    A sample at a bound is inactive as long as w has moved too little, since all margins were last known, to change its
    dual variable: its margin need not be known. This is the tighter bound of `shrinking.py`, applied to both bounds.
    """

    dual_signature: tuple[Any, ...]  # of the problem, to recognise the same problem in a warm start
    order: NDArray[np.int64]
    size: int
    w: Vector
    b: float = 0.0
    softness: float = 0.0  # tau
    reserve: float = 0.0  # softness that the squared hinge is given at the first short step
    first_centre: Vector | None = None  # centre for all samples, from an earlier solution
    subset: Subset | None = None
    solved: bool = False  # whether the smoothed problem is solved, so that the centre moves next
    fresh: bool = True  # whether margins, dual variables and v have been computed from w and b since the last step
    steps: int = 0  # since the centre last moved
    decrease: float = math.inf  # of the objective in the last step
    gap: float = math.inf
    dual: float = -math.inf

    @property
    def whole(self) -> bool:
        """Whether the subset is all of the data."""
        return self.subset is not None and self.subset.rows.size == self.order.size == self.size

    def scaled_dual_variables(self, problem: RegularizedSVM) -> Vector | None:
        """The dual variables of all samples, scaled with C to another problem with the hinge; None where unknown.

        Those at C stay at C. So w leaves the optimum only as far as the others do not grow with C.
        """
        if self.subset is None or not self.whole or problem.loss.smooth:
            return None
        p = np.zeros(problem.y.size)
        p[self.subset.rows] = self.subset.a / self.subset.upper * problem.u[self.subset.rows]
        return p


@dataclass
class Subset:
    """The samples in use, their dual variables and their margins."""

    rows: NDArray[np.int64]
    y: Vector
    upper: Vector  # upper bounds of the dual variables, with the losses scaled up from the subset to all samples
    q: Vector  # curvatures of the dual, scaled likewise
    m: Vector  # q for the squared hinge, ones for the hinge
    norms: Vector  # |(x_i, 1)| with a bias, |x_i| without
    centre: Vector  # alpha
    c: Vector  # margins, valid where `known`
    a: Vector  # dual variables
    v: Vector  # sum a_i y_i x_i
    known: NDArray[np.bool_]  # whether c_i is the margin at the present (w, b): so it is for active samples
    reach: Vector  # distance of (w, b) from `reference` up to which the dual variable of an inactive sample is fixed
    reference: Vector  # (w, b) when all margins were last known
    inside: NDArray[np.bool_]  # the samples strictly between the bounds that `products` sums over
    shift: Vector  # with dense rows and a free bias about their mean, so that products keep their digits; else 0
    products: Vector  # lower triangle of the sum of (x_i - shift, 1)(x_i - shift, 1)^T / m_i
    soft: Vector  # the softness times m
    exact: bool = True  # whether `products` seems to be exact: samples that leave it take digits with them

    def weight_parameters(self, active: Places) -> tuple[Vector, Vector, Vector, Vector]:
        """centre, upper, q and soft of some samples: they map a margin to a dual variable."""
        return self.centre[active], self.upper[active], self.q[active], self.soft[active]


@dataclass(frozen=True)
class Newton(Solver[RegularizedSVM, NewtonState]):
    r"""Newton's method for few features, on a growing subset of the data.

    An iteration reads the active rows once for the change of their margins, and those whose dual variable changes once
    more. It begins on a small subset of the data, where iterations are cheap, and grows the subset once further steps
    would gain less than the sampling error of the subset. Rows whose dual variable provably stays at a bound are not
    read.

    Parameters
    ----------
    first : int, default=2000
        Rows of the first subset, at least (and ten per feature); the subset then grows sixfold.

    References
    ----------
    Keerthi, DeCoste (2005), A Modified Finite Newton Method for Fast Solution of Large Scale Linear SVMs.
    Rockafellar (1976), Monotone Operators and the Proximal Point Algorithm.
    Friedlander, Schmidt (2012), Hybrid Deterministic-Stochastic Methods for Data Fitting (growing subsets).

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
        if isinstance(warm, NewtonState) and all(map(np.array_equal, warm.dual_signature, problem.dual_signature)):
            return warm
        order = rng.permutation(np.flatnonzero(problem.s))
        if isinstance(warm, NewtonState | Solution):
            centre = warm.p if isinstance(warm, Solution) else warm.scaled_dual_variables(problem)
            signature, w = problem.dual_signature, np.asarray(warm.w)
            return NewtonState(signature, order, order.size, w, warm.b, first_centre=centre)
        return NewtonState(problem.dual_signature, order, self._first_size(problem), np.zeros(d))

    def first_size(self, n: int, d: int) -> int:
        """The rows of the first subset of n samples with d features."""
        return min(max(self.first, ROWS_PER_FEATURE * d), n)

    def _first_size(self, problem: RegularizedSVM) -> int:
        return self.first_size(int(np.count_nonzero(problem.s)), problem.X.shape[1])

    def deterministic(self, problem: RegularizedSVM) -> bool:
        return self._first_size(problem) == np.count_nonzero(problem.s)

    def step(self, problem: RegularizedSVM, state: NewtonState, iterations: int, budget: float) -> Step:
        before = problem.X.ledger.cost
        for done in range(iterations):
            left = budget - (problem.X.ledger.cost - before)
            # An iteration makes seven passes at most: margins, v and mean of a new subset, Hessian, changes of margins,
            # and of v by the step and by more softness.
            X = problem.features
            if left < 7 * X.n_stored and left < 7 * int(X.row_sizes()[state.order[: state.size]].sum()):
                return Step(done, Reason.BUDGET)
            with np.errstate(over="ignore", invalid="ignore"):  # norms of rows may differ by any factor
                self._iterate(problem, state)
        return Step(iterations)

    def _iterate(self, problem: RegularizedSVM, state: NewtonState) -> None:
        if state.subset is None or state.subset.rows.size != state.size:
            state.subset = self._take_subset(problem, state)
        subset = state.subset
        if state.solved:
            self._move_centre(problem, state, subset)
        s, s_b = self._direction(problem, state, subset)
        # The slope of the objective along the step, which is also twice what the step gains in the quadratic model.
        stiffness = _stiffness(problem)
        first = float((state.w - subset.v) @ s) + (stiffness * state.b - float(subset.a @ subset.y)) * s_b
        if math.isfinite(state.gap) and not first < -LEAST_GAIN * (abs(state.dual) + state.gap):
            self._go_on_without_step(problem, state, subset)
            return
        active = self._activate(problem, state, subset, s, s_b)
        rows, y, c = subset.rows[active], subset.y[active], subset.c[active]
        parameters = subset.weight_parameters(active)
        along = y * (problem.X.dot(s, rows) + s_b)

        # Line search: the objective is least where its slope is zero. Inactive samples add a constant to the slope.
        before = subset.a[active]
        start = first + float(before @ along)
        bend = float(s @ s) + stiffness * s_b * s_b

        def slope(t: float) -> float:
            return start + t * bend - float(weigh(c + t * along, *parameters) @ along)

        t = _root(slope, first, 1.0 if rows.size < subset.rows.size else math.inf)
        state.decrease = 0.5 * t * abs(first)
        state.steps, state.fresh = state.steps + 1, False
        state.w = state.w + t * s
        state.b += t * s_b
        c = c + t * along
        a = weigh(c, *parameters)
        # Rows with an unchanged a_i are not read.
        subset.v += problem.features.dot_transposed((a - before) * y, rows)
        # If no sample came between its bounds or left, Newton's step ends at the minimum, if the products are exact.
        subset.exact = t == 1 or not np.array_equal(_between(a, parameters[1]), _between(before, parameters[1]))
        subset.c[active], subset.a[active] = c, a  # `before` may be a view of these
        # Inactive samples add nothing to the gap: their dual variables are optimal.
        state.gap = float(gap_of(c, a, *parameters[1:3]).sum())
        if t < SHORT_STEP and state.reserve:
            state.softness, state.reserve = state.reserve, 0.0
            subset.soft, subset.centre[:] = state.softness * subset.m, 0.0
            self._reweigh(problem, subset)
        self._end_iteration(problem, state, subset)

    def _go_on_without_step(self, problem: RegularizedSVM, state: NewtonState, subset: Subset) -> None:
        """What is left to gain is below rounding: compute all anew, or else let the subset grow or the centre move."""
        if not state.fresh:
            subset.known[:] = True
            subset.c = subset.y * (problem.X.dot(state.w, subset.rows) + state.b)
            subset.a = weigh(subset.c, *subset.weight_parameters(slice(None)))
            subset.v = problem.features.dot_transposed(subset.a * subset.y, subset.rows)
            state.gap = float(gap_of(subset.c, subset.a, subset.upper, subset.q).sum())
            state.fresh = True
        state.decrease = 0.0
        self._end_iteration(problem, state, subset)
        state.solved = state.softness > 0

    def _take_subset(self, problem: RegularizedSVM, state: NewtonState) -> Subset:
        """The first `size` rows, with the losses scaled up to all samples."""
        rows = np.sort(state.order[: state.size])
        y, share = problem.y[rows], problem.s[rows].sum() / problem.s.sum()
        upper, q = problem.loss.dual_box(problem.u[rows] / share)
        c = y * (problem.X.dot(state.w, rows) + state.b)
        m = q if problem.loss.smooth else np.ones(rows.size)
        centre, mean_m = np.zeros(rows.size), float(m.mean())
        least = FIRST_CURVATURE * float(problem.sq_norms().mean()) / mean_m
        state.softness, state.solved, state.steps, state.fresh = least, False, 0, True
        if problem.loss.smooth:
            state.softness, state.reserve = 0.0, _at_least_1(least)
        else:
            # The kink of the hinge is smoothed over an interval that holds enough samples.
            enough = min(rows.size - 1, max(KINK_SAMPLES_PER_FEATURE * state.w.size, rows.size // KINK_SHARE))
            width = max(1.5 * float(np.partition(np.abs(1 - c), enough)[enough]), 1e-9)
            softness = 2 * width / float(upper.mean())
            if softness >= least:  # else C is so large that U / 2 is no estimate of the dual variables
                state.softness, centre = softness, 0.5 * upper
        if state.first_centre is not None:
            centre = np.clip(state.first_centre[rows], 0.0, upper)
        soft = state.softness * m
        a = weigh(c, centre, upper, q, soft)
        norms = np.sqrt(problem.sq_norms()[rows] + problem.bias)
        known, reach_of = np.ones(rows.size, dtype=bool), np.zeros(rows.size)
        v = problem.features.dot_transposed(a * y, rows)
        inside, products = np.zeros(rows.size, dtype=bool), np.zeros((v.size + 1, v.size + 1))
        reference, shift = np.append(state.w, state.b), np.zeros(v.size)
        if problem.free_bias and not _is_sparse(problem.features):
            shift = problem.features.dense(rows[:: 1 + rows.size // DENSE_ROWS]).mean(axis=0, dtype=np.float64)
        return Subset(
            rows, y, upper, q, m, norms, centre, c, a, v, known, reach_of, reference, inside, shift, products, soft
        )

    def _move_centre(self, problem: RegularizedSVM, state: NewtonState, subset: Subset) -> None:
        """Let the dual variables be the next centre, and divide the softness. Inactive samples stay at their bounds."""
        subset.centre = subset.a.copy()
        kink = state.softness * float(subset.m @ subset.a) / max(1, int(np.count_nonzero(subset.a)))
        if kink > LEAST_KINK and state.gap > STIFF_ENOUGH * (state.dual + state.gap):
            state.softness *= min(1.0, max(1, state.steps) / MANY_STEPS)
            if problem.loss.smooth:
                state.softness = _at_least_1(state.softness)
            subset.soft = state.softness * subset.m
        state.solved, state.steps = False, 0
        self._reweigh(problem, subset)

    def _reweigh(self, problem: RegularizedSVM, subset: Subset) -> None:
        """Dual variables of the active samples and v, after the centre or the softness has changed."""
        active = np.flatnonzero(subset.known)
        a = weigh(subset.c[active], *subset.weight_parameters(active))
        subset.v += problem.features.dot_transposed((a - subset.a[active]) * subset.y[active], subset.rows[active])
        subset.a[active] = a

    def _direction(self, problem: RegularizedSVM, state: NewtonState, subset: Subset) -> tuple[Vector, float]:
        """Newton's step, the solution of the system with the Hessian."""
        self._update_products(problem, subset)
        d = state.w.size
        H = subset.products / (state.softness + problem.loss.smooth)
        held = float(H[d, d])
        H[np.arange(d), np.arange(d)] += 1.0
        g_b = _stiffness(problem) * state.b - float(subset.a @ subset.y)
        g = np.append(state.w - subset.v - g_b * subset.shift, g_b)  # in w and b + <w, shift>
        # With no sample between the bounds nothing holds a free bias: let its step be one margin.
        H[d, d] = ((1 + 1e-9) * held if held > 0 else abs(g[d]) or 1.0) + _stiffness(problem)
        if not problem.bias:
            H[d, d], g[d] = 1.0, 0.0
        diagonal = H.diagonal().copy()
        _, step, failed = dposv(H.T, -g, overwrite_a=True)
        if failed or not np.isfinite(step).all():  # the Hessian is singular by rounding, or overflows
            step = -g / diagonal
        return step[:d], float(step[d] - step[:d] @ subset.shift)

    def _update_products(self, problem: RegularizedSVM, subset: Subset) -> None:
        """Update the outer products of the Hessian by the samples that entered or left the interval of their bounds."""
        inside = _between(subset.a, subset.upper)
        changed = np.flatnonzero(inside != subset.inside)
        if 2 * changed.size > np.count_nonzero(inside) or not subset.exact:
            subset.products[:] = 0
            changed, signs = np.flatnonzero(inside), np.ones(np.count_nonzero(inside))
        else:
            signs = np.where(inside[changed], 1.0, -1.0)
        subset.inside, subset.exact = inside, True
        X, rows, d = problem.features, subset.rows[changed], subset.v.size
        weights = signs / subset.m[changed]
        if _is_sparse(X):
            products = subset.products

            def outer_products(reader: Matrix, part: slice) -> Vector:
                H = products if part.start == 0 else np.zeros_like(products)
                add_outer_products(reader, rows[part], weights[part], H)
                return H

            work = rows.size * (X.n_stored // X.shape[0]) ** 2 // 4
            for H in X.in_parts(outer_products, rows.size, work - 64 * d**2)[1:]:
                products += H
            if problem.bias:
                subset.products[d, :d] += X.dot_transposed(weights, rows)
                subset.products[d, d] += weights.sum()
            return
        for sign in (1.0, -1.0):
            these = np.flatnonzero(signs == sign)
            for start in range(0, these.size, DENSE_ROWS):
                block = these[start : start + DENSE_ROWS]
                Z = np.empty((block.size, d + 1))
                np.subtract(X.dense(rows[block]), subset.shift, out=Z[:, :d])
                Z[:, d] = problem.bias
                Z *= np.sqrt(np.abs(weights[block]))[:, None]
                # Adds sign Z^T Z in place. What is the lower triangle here is the upper one in Fortran's order.
                dsyrk(sign, Z.T, beta=1.0, c=subset.products.T, overwrite_c=True)

    def _activate(self, problem: RegularizedSVM, state: NewtonState, subset: Subset, s: Vector, s_b: float) -> Places:
        """The samples whose dual variable a step s could change; their margins are computed."""
        here, step = np.append(state.w, state.b), math.hypot(float(np.linalg.norm(s)), s_b)
        most = MOST_ACTIVE * subset.rows.size
        active = np.flatnonzero(subset.known | (subset.reach <= float(np.linalg.norm(here - subset.reference)) + step))
        recompute_all = active.size > most
        unknown = np.flatnonzero(~subset.known) if recompute_all else active[~subset.known[active]]
        subset.c[unknown] = subset.y[unknown] * (problem.X.dot(state.w, subset.rows[unknown]) + state.b)
        subset.known[unknown] = True
        if not recompute_all:
            return active
        subset.reference = here
        subset.reach = reach(subset.c, *subset.weight_parameters(slice(None)), subset.norms)
        # Samples that this step cannot move become inactive at once, if they are many.
        active = np.flatnonzero(subset.reach <= step)
        if active.size > most:
            return slice(None)
        subset.known[:] = False
        subset.known[active] = True
        return active

    def _end_iteration(self, problem: RegularizedSVM, state: NewtonState, subset: Subset) -> None:
        """Complete the gap on this subset, and decide whether the subset grows or the centre moves next."""
        imbalance, B = float(subset.a @ subset.y), problem.bias_feature
        difference = state.w - subset.v
        state.gap += 0.5 * float(difference @ difference)
        state.gap += (
            abs(state.b * imbalance) if problem.free_bias else 0.5 * (state.b / B - B * imbalance) ** 2 if B else 0
        )
        quadratic = float(subset.q @ subset.a**2) + float(subset.v @ subset.v) + (B * imbalance) ** 2
        state.dual = float(subset.a.sum()) - 0.5 * quadratic
        n = state.order.size
        # The subset grows once a step gains less than the sampling error of its objective.
        if state.size < n and state.decrease <= (state.dual + state.gap) / math.sqrt(state.size):
            state.size = GROWTH * state.size if 2 * GROWTH * state.size < n else n
        elif state.softness > 0:
            moved = math.sqrt(float(subset.soft @ (subset.a - subset.centre) ** 2))
            state.solved = (
                math.hypot(float(np.linalg.norm(difference)), imbalance * problem.free_bias) <= SOLVED * moved
            )

    def solution(self, problem: RegularizedSVM, state: NewtonState) -> Solution:
        if not state.whole or state.subset is None:
            return Solution(state.w, state.b)
        p = np.zeros(problem.y.size)
        p[state.subset.rows] = state.subset.a
        return Solution(state.w, state.b, p, state.subset.v.copy())

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 50

    def next_check(self, problem: RegularizedSVM, state: NewtonState, done: int) -> int:
        return done + 1

    def estimated_gap(self, problem: RegularizedSVM, state: NewtonState) -> float:
        """The gap of the last iteration if the subset is all of the data; infinite before."""
        size = abs(state.dual) + state.gap
        return (state.gap / size if size > 0 else 0.0) if state.whole and math.isfinite(size) else math.inf


def _stiffness(problem: RegularizedSVM) -> float:
    """The curvature of the penalty of the bias, 1 / B^2; 0 for a free bias or none."""
    return 1 / problem.bias_feature**2 if problem.bias_feature else 0.0


def _is_sparse(X: Matrix) -> bool:
    """Whether the Hessian is built from outer products of sparse rows."""
    return X.n_stored < SPARSE_DENSITY * X.shape[0] * X.shape[1]


def _between(a: Vector, upper: Vector) -> NDArray[np.bool_]:
    """Which dual variables are strictly between their bounds."""
    return (a > 0) & (a < upper)


def _at_least_1(softness: float) -> float:
    """The softness for the squared hinge: 0 below 1, where the loss itself is smoother than that."""
    return softness if softness >= 1 else 0.0


def _root(slope: Callable[[float], float], first: float, most: float) -> float:
    """A root, to a tenth of |slope(0)|, of an increasing piecewise linear function on [0, most]: bracketed secants.

    `first` is its value at 0; if that is not negative, 0 is returned.
    """
    if not first < 0:  # not a descent direction: no step gains anything
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
        if t == last:  # the bracket has no further floating-point number
            break
    return t
