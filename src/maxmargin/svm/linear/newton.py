r"""Newton's method on a growing subset of the samples, for data with few features.

Problem: the regularised form with C, either loss, any kind of bias. Given: the data by rows. Returned: w, b and the
dual point that proves how good they are. Each iteration solves a system of d equations, d the number of features.

The hinge is not smooth, and with a large C the squared hinge is hardly smooth: if few samples have a loss, a full step
goes far beyond the kinks of the others. So the dual
:math:`\max_{0 \le a \le U} \sum a_i - \frac12 q_i a_i^2 - \frac12 |v(a)|^2` is solved by the proximal point method
(Rockafellar 1976; for the primal it is the method of multipliers): from a centre :math:`\alpha`, Newton's method is
applied to the primal of

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
from scipy.linalg.lapack import dposv

from maxmargin.core.types import Vector
from maxmargin.engine.parts import Parts, Scattered, SqNorms, Sums, in_parts
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.svm.linear.newton_part import NewtonPart
from maxmargin.svm.regularized import RegularizedSVM

MOST_FEATURES = 5000  # largest number of features; the dense Hessian has as many rows and columns
ROWS_PER_FEATURE = 10  # smallest number of rows of the first subset per feature
# Samples within the smoothed kink of the hinge at the start: at least this many per feature,
KINK_SAMPLES_PER_FEATURE = 3
KINK_SHARE = 20  # and at least one in this many samples of the subset
GROWTH = 6  # factor by which the subset grows
SOLVED = 0.5  # the centre moves when the norm of the gradient is at most this share of the distance to the new centre
FIRST_CURVATURE = 1e-2  # smallest q + softness m at the start, in units of the mean |x_i|^2
# If fewer steps than this led from one centre to the next, the softness is multiplied by their number over this number.
MANY_STEPS = 12
SHORT_STEP = 0.1  # share of Newton's step; after a shorter step, the squared hinge is softened
LEAST_KINK = 1e-9  # smallest softness times m times the mean dual variable; errors of margins are divided by it
STIFF_ENOUGH = 1e-8  # relative duality gap below which the softness no longer falls; that would only add rounding
LEAST_GAIN = 1e-16  # share of the objective; a step that gains less is below rounding and is not made
SPARSE_DENSITY = 0.25  # below this share of stored entries the Hessian is built from sparse outer products


@dataclass
class DualSums:
    """Sums over the samples in use: of their dual variables a, and of quantities that follow from a."""

    v: Vector  # sum a_i y_i x_i
    imbalance: float  # sum a_i y_i
    a: float
    curvature: float  # sum q_i a_i^2
    gap: float  # the terms of the samples in the gap
    moved: float  # sum soft_i (a_i - centre_i)^2
    kink: float  # sum m_i a_i
    support: int  # the number of a_i > 0
    inside: int  # the number of samples strictly between their bounds
    changed: int  # samples by which `products` differs from the sum over these samples
    crossed: int  # samples that came between their bounds, or left them, in the last step

    def after(self, sums: Sums) -> DualSums:
        """The sums after a change: `sums` holds the change of v and the new values of all others."""
        return DualSums(self.v + sums[0], *sums[1:])


@dataclass
class NewtonState:
    """The state of Newton's method, except what it keeps about the samples, which is in `parts`."""

    dual_signature: tuple[Any, ...]  # signature of the problem, to recognise it in a warm start
    parts: Parts  # of NewtonPart
    n: int  # the number of samples with positive weight
    weight: float  # the sum of their weights
    size: int  # how many samples are to be in use
    w: Vector
    products: Vector  # the lower triangle of the sum of (x_i - shift, 1)(x_i - shift, 1)^T / m_i
    b: float = 0.0
    softness: float = 0.0  # tau
    reserve: float = 0.0  # softness of the squared hinge from the first short step on
    taken: int = 0  # `size` when samples were last taken into use; 0 before
    in_use: int = 0  # the number of samples in use, perhaps a few more than `size`
    share: float = 1.0  # their share of the weight
    mean_square: float = 0.0  # the mean of their |x_i|^2
    stored: int = 0  # the number of their stored entries
    shift: Vector | None = None  # 0, or about the mean of dense rows with a free bias, so that products keep digits
    dual_sums: DualSums | None = None
    exact: bool = True  # whether `products` seems to be exact; it loses digits when samples are subtracted
    solved: bool = False  # whether the smoothed problem is solved, so that the centre moves next
    settled: bool = False  # whether neither a step nor a move of the centre gains more than rounding
    fresh: bool = True  # whether margins, dual variables and v were recomputed from w and b since the last step
    steps: int = 0  # steps since the centre last moved
    decrease: float = math.inf  # decrease of the objective in the last step
    gap: float = math.inf
    dual: float = -math.inf

    @property
    def whole(self) -> bool:
        """Whether all samples are in use."""
        return self.dual_sums is not None and self.taken == self.n


@dataclass(frozen=True)
class Newton(Solver[RegularizedSVM, NewtonState]):
    r"""Newton's method for few features, on a growing subset of the data.

    The solver begins on a small subset of the data, where iterations are cheap, and enlarges the subset once further
    steps would gain less than the sampling error of the subset. An iteration reads the active rows once for the change
    of their margins, and once more the rows whose dual variable changes. Rows whose dual variable provably stays at a
    bound are not read.

    Parameters
    ----------
    first : int, default=2000
        The smallest number of rows of the first subset, which also has at least ten rows per feature; the subset then
        grows sixfold.

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
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.PARTS})
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
        centre, whole, w, b = None, False, np.zeros(d), 0.0
        if isinstance(warm, NewtonState):
            # Dual variables at C stay at C. So w leaves the optimum only as far as the other variables are not
            # proportional to C.
            if warm.whole and not problem.loss.smooth:
                centre = np.concatenate(warm.parts.collect("dual_shares"))
            whole, w, b = True, warm.w, warm.b
        elif isinstance(warm, Solution):
            centre, whole, w, b = warm.p, True, np.asarray(warm.w), warm.b
        parts = in_parts(problem.X).place(
            NewtonPart,
            Scattered(problem.y),
            Scattered(problem.s),
            SqNorms(problem.sq_norms()),
            problem.C,
            problem.loss,
            problem.bias,
            problem.free_bias,
            problem.features.n_stored < SPARSE_DENSITY * problem.X.shape[0] * d,
            int(rng.integers(2**62)),
            None if centre is None else Scattered(centre),
            isinstance(warm, NewtonState),
        )
        n, weight = parts.total("count")
        size = n if whole else self.first_size(n, d)
        products = np.zeros((d + 1, d + 1))
        return NewtonState(problem.dual_signature, parts, n, weight, size, w, products, b)

    def first_size(self, n: int, d: int) -> int:
        """The rows of the first subset of n samples with d features."""
        return min(max(self.first, ROWS_PER_FEATURE * d), n)

    def deterministic(self, problem: RegularizedSVM) -> bool:
        return self.first_size(problem.n_samples, problem.X.shape[1]) == problem.n_samples

    def step(self, problem: RegularizedSVM, state: NewtonState, iterations: int, budget: float) -> Step:
        before = problem.X.ledger.cost
        for done in range(iterations):
            if state.settled:
                return Step(done, Reason.SETTLED)
            if state.taken != state.size:
                self._take_samples(state)
            left = budget - (problem.X.ledger.cost - before)
            # An iteration makes at most seven passes: margins, v and mean of a new subset, Hessian, change of margins,
            # and changes of v by the step and by more softness.
            if left < 7 * state.stored:
                return Step(done, Reason.BUDGET)
            with np.errstate(over="ignore", invalid="ignore"):  # norms of rows may differ by any factor
                self._iterate(problem, state)
        return Step(iterations, Reason.SETTLED if state.settled else Reason.DONE)

    def _take_samples(self, state: NewtonState) -> None:
        """Start to use `size` samples, or a few more, with losses scaled up to all samples."""
        state.taken, state.dual_sums = state.size, None
        state.in_use, weight, square, state.stored = state.parts.update("take", state.size, state.n)
        state.share, state.mean_square = weight / state.weight, square / state.in_use

    def _iterate(self, problem: RegularizedSVM, state: NewtonState) -> None:
        sums = state.dual_sums if state.dual_sums is not None else self._begin(problem, state)
        if state.solved:
            sums = self._move_centre(problem, state, sums)
        s, s_b = self._direction(problem, state, sums)
        # The slope of the objective along the step, which is also twice what the step gains in the quadratic model.
        stiffness = _stiffness(problem)
        first = float((state.w - sums.v) @ s) + (stiffness * state.b - sums.imbalance) * s_b
        if math.isfinite(state.gap) and not first < -_least_gain(problem, state):
            self._go_on_without_step(problem, state, sums)
            return
        # Line search: the objective is least where its slope is zero. Inactive samples add a constant to the slope.
        before, whole_step, inactive = state.parts.update("look", s, s_b, state.w, state.b)
        bend = float(s @ s) + stiffness * s_b * s_b

        def slope(t: float) -> float:
            after = whole_step if t == 1 else state.parts.total("slope", t)[0]
            return float(first + before + t * bend - after)

        t = _root(slope, first, 1.0 if inactive else math.inf)
        state.decrease = 0.5 * t * abs(first)
        state.steps, state.fresh = state.steps + 1, False
        state.w = state.w + t * s
        state.b += t * s_b
        sums = sums.after(state.parts.update("move", t))
        # If no sample came between its bounds or left them, Newton's step ends at the minimum if the products are
        # exact.
        state.exact = t == 1 or sums.crossed > 0
        if t < SHORT_STEP and state.reserve:
            state.softness, state.reserve = state.reserve, 0.0
            sums = sums.after(state.parts.update("recentre", state.softness, True))
        self._end_iteration(problem, state, sums)

    def _go_on_without_step(self, problem: RegularizedSVM, state: NewtonState, sums: DualSums) -> None:
        """Further gains are below rounding: recompute everything, or else let the subset grow or the centre move.

        A move of the centre gains about `moved`. If that is below rounding too, repeated moves would add up errors of
        the margins, divided by the softness, in the dual variables.
        """
        was_fresh = state.fresh
        if not was_fresh:
            sums = DualSums(*state.parts.update("refresh", state.w, state.b))
            state.fresh = True
        state.decrease = 0.0
        self._end_iteration(problem, state, sums)
        gains = not sums.moved <= _least_gain(problem, state)
        state.solved = gains or self._can_harden(state, sums, sums.gap)
        state.settled = state.whole and was_fresh and not state.solved

    def _begin(self, problem: RegularizedSVM, state: NewtonState) -> DualSums:
        """Compute the margins and the first dual variables of the samples in use."""
        enough = max(KINK_SAMPLES_PER_FEATURE * state.w.size, state.in_use // KINK_SHARE)
        m, upper, width, total, rows = state.parts.update("begin", state.w, state.b, state.share, enough / state.in_use)
        state.shift = total / max(1, rows)
        least = FIRST_CURVATURE * state.mean_square / (m / state.in_use)
        state.softness, state.solved, state.steps, state.fresh, state.exact = least, False, 0, True, False
        centre_share = 0.0
        if problem.loss.smooth:
            state.softness, state.reserve = 0.0, _at_least_1(least)
        else:
            # The kink of the hinge is smoothed over an interval that holds enough samples.
            softness = 2 * max(1.5 * width / state.in_use, 1e-9) / (upper / state.in_use)
            if softness >= least:  # otherwise C is so large that U / 2 is no estimate of the dual variables
                state.softness, centre_share = softness, 0.5
        return DualSums(*state.parts.update("soften", state.softness, centre_share, state.shift))

    def _move_centre(self, problem: RegularizedSVM, state: NewtonState, sums: DualSums) -> DualSums:
        """Let the dual variables be the next centre, and divide the softness. Inactive samples stay at their bounds."""
        if self._can_harden(state, sums, state.gap):
            state.softness *= min(1.0, max(1, state.steps) / MANY_STEPS)
            if problem.loss.smooth:
                state.softness = _at_least_1(state.softness)
        state.solved, state.steps = False, 0
        return sums.after(state.parts.update("recentre", state.softness, False))

    def _can_harden(self, state: NewtonState, sums: DualSums, gap: float) -> bool:
        """Whether a smaller softness would reduce this gap, and not only add rounding."""
        kink = state.softness * sums.kink / max(1, sums.support)
        return kink > LEAST_KINK and gap > STIFF_ENOUGH * (state.dual + state.gap)

    def _direction(self, problem: RegularizedSVM, state: NewtonState, sums: DualSums) -> tuple[Vector, float]:
        """Newton's step, the solution of the system with the Hessian."""
        anew = 2 * sums.changed > sums.inside or not state.exact
        (change,) = state.parts.update("products", anew)
        state.products = change + np.zeros_like(state.products) if anew else state.products + change
        state.exact = True
        assert state.shift is not None
        d = state.w.size
        H = state.products / (state.softness + problem.loss.smooth)
        held = float(H[d, d])
        H[np.arange(d), np.arange(d)] += 1.0
        g_b = _stiffness(problem) * state.b - sums.imbalance
        g = np.append(state.w - sums.v - g_b * state.shift, g_b)  # in w and b + <w, shift>
        # If no sample is between its bounds, nothing limits a free bias: let its step be one margin.
        H[d, d] = ((1 + 1e-9) * held if held > 0 else abs(g[d]) or 1.0) + _stiffness(problem)
        if not problem.bias:
            H[d, d], g[d] = 1.0, 0.0
        diagonal = H.diagonal().copy()
        _, step, failed = dposv(H.T, -g, overwrite_a=True)
        if failed or not np.isfinite(step).all():  # the Hessian is singular by rounding, or overflows
            step = -g / diagonal
        return step[:d], float(step[d] - step[:d] @ state.shift)

    def _end_iteration(self, problem: RegularizedSVM, state: NewtonState, sums: DualSums) -> None:
        """Complete the gap on this subset, and decide whether the subset grows or the centre moves next."""
        state.dual_sums = sums
        imbalance, B = sums.imbalance, problem.bias_feature
        difference = state.w - sums.v
        state.gap = sums.gap + 0.5 * float(difference @ difference)
        state.gap += (
            abs(state.b * imbalance) if problem.free_bias else 0.5 * (state.b / B - B * imbalance) ** 2 if B else 0
        )
        quadratic = sums.curvature + float(sums.v @ sums.v) + (B * imbalance) ** 2
        state.dual = sums.a - 0.5 * quadratic
        # The subset grows when a step gains less than the sampling error of its objective.
        if state.taken < state.n and state.decrease <= (state.dual + state.gap) / math.sqrt(state.in_use):
            state.size = GROWTH * state.size if 2 * GROWTH * state.size < state.n else state.n
        elif state.softness > 0:
            state.solved = math.hypot(
                float(np.linalg.norm(difference)), imbalance * problem.free_bias
            ) <= SOLVED * math.sqrt(sums.moved)

    def solution(self, problem: RegularizedSVM, state: NewtonState) -> Solution:
        if not state.whole or state.dual_sums is None:
            return Solution(state.w, state.b)
        return Solution(
            state.w, state.b, np.concatenate(state.parts.collect("dual_variables")), state.dual_sums.v.copy()
        )

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


def _least_gain(problem: RegularizedSVM, state: NewtonState) -> float:
    """The gain below which only rounding is left.

    The objective of the solution is at most C sum s_i, the one at w = 0. Far from the solution, both value and bound
    may be much larger in size.
    """
    return LEAST_GAIN * min(abs(state.dual) + state.gap, problem.C * state.weight)


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
