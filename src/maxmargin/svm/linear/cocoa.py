r"""CoCoA+: dual coordinate ascent on all units of the data at once, for data with many features on a cluster.

Problem: the regularised form with C, either loss, any kind of bias. Given: the data by rows, in K units. Returned: w, b
and the dual point that proves how good they are. Each iteration is a round: one message to the units and one back.

The dual, with :math:`v = \sum_i \alpha_i y_i x_i`, the imbalance :math:`m = \sum_i \alpha_i y_i`, and U and q those of
the loss, is

.. math:: \max_{0 \le \alpha \le U} \min_b\ \sum_i \alpha_i - \tfrac12 q_i \alpha_i^2 - \tfrac12 |v|^2 - b m
    + \frac{b^2}{2 B^2},

with :math:`B = \infty` for a free bias, and without the last two terms if there is no bias. All samples have the bias
in common, so that units would interfere most by its term. This is prevented by the method of multipliers: with
:math:`(b - \beta)^2 / 2 \rho_0` added, the best bias is :math:`b = \kappa \beta + \rho m`, and what is left is

.. math:: D(\alpha) = \sum_i \alpha_i - \tfrac12 q_i \alpha_i^2 - \tfrac12 |v|^2 - \tfrac\rho2 m^2 - \kappa \beta m
    + \frac{\kappa \beta^2}{2 B^2}, \qquad \kappa = \frac{B^2}{\rho_0 + B^2},\quad \rho = \kappa \rho_0 .

After each round, :math:`\beta` moves to b.

A round (CoCoA+ of Ma et al. 2015, with their :math:`\gamma = 1`):

1. Unit k changes its own dual variables by :math:`d_k`, by passes of coordinate ascent on its subproblem: it takes w to
   be v, and its own changes :math:`\delta_k = \sum_{i \in k} d_i y_i x_i` to move it by :math:`\sigma' \delta_k`. So it
   leaves room for the changes of the others.
2. The driver sums the :math:`\delta_k` to :math:`\delta`, and makes the share t of all changes at which D is largest,
   at most 1: D is a parabola along the change. So D never decreases, whatever :math:`\sigma'` is.
3. The next :math:`\sigma'` is about :math:`|\delta|^2 / \sum_k |\delta_k|^2`, what would have been right for this
   round: 1 if the changes of different units are orthogonal, K if they are equal. :math:`\sigma' = K` is always safe.

With several units, v goes to and fro about the optimum, where the hinge has a kink: the objective at v is larger than
at a mean of the last v. So a moving mean of them is the answer; the gap is that of the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.core.types import Vector
from maxmargin.engine.parts import Parts, Scattered, in_parts
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.engine.sparse_vector import SparseVector
from maxmargin.svm.linear.cocoa_part import CocoaPart
from maxmargin.svm.regularized import RegularizedSVM

# The figures are rounds and passes to relative gaps of 1e-2 and 1e-3, on 20 Newsgroups, Reuters and generated data in 1
# to 32 units, for LEAST_RHO also MNIST. Constants without a figure were not compared with others.
PASSES = 2  # over the active samples in a round: 1 takes a fifth more rounds, 4 a tenth fewer but a third more passes
BIAS_REACH = (
    30.0  # margins by which an imbalance of sum C s_i moves a free bias in a round; 1000 takes half more rounds
)
LEAST_RHO = 0.01  # unit: the mean |x_i|^2; for dual variables far below C. 0.1 takes a tenth more rounds, 1 half more
MEAN_SHARE = 0.3  # share of the distance to v by which its mean moves in a round: 1 takes a fifth more rounds to 1e-2
SLOWLY = 0.5  # power of the ratio by which sigma' falls in a round; it rises at once, as a small one spoils the round
REFRESH = 64  # rounds after which all is computed anew from alpha: as many, at most, are repeated for a lost worker
UNSHRINK_SHARE = 0.1  # all samples become active when the gap of the active ones has fallen to this share,
UNSHRINK_ROUNDS = 20  # or after this many rounds


@dataclass
class CocoaState:
    """The state of CoCoA+, but for what it keeps of the samples: that is in `parts`."""

    dual_signature: tuple[Any, ...]  # of the problem, to recognise the same problem in a warm start
    C: float
    seed: int  # decides in which order samples are visited
    parts: Parts  # of CocoaPart
    units: int  # K
    stored: int  # entries that are stored of all samples
    active_stored: int  # those of the active samples
    rho: float
    kappa: float
    stiffness: float  # 1 / B^2
    v: Vector
    mean_w: Vector  # the moving mean of v
    change: SparseVector  # what v has changed by since the units were last told
    sigma: float  # sigma'
    t: float = 1.0  # the share of the last proposal that is made
    separable: float = 0.0  # sum alpha_i - q_i alpha_i^2 / 2
    imbalance: float = 0.0  # m
    multiplier: float = 0.0  # beta
    mean_b: float = 0.0  # the moving mean of b
    rounds: int = 0
    gap: float = math.inf  # of the means and alpha, from the terms of the active samples
    all_active: bool = True  # whether all samples become active in the next round
    gap_of_all: float = math.inf  # the gap when all samples were last active
    rounds_since_all: int = 0

    @property
    def b(self) -> float:
        """The bias."""
        return self.kappa * self.multiplier + self.rho * self.imbalance

    @property
    def dual(self) -> float:
        """D(alpha)."""
        quadratic = float(self.v @ self.v) + self.rho * self.imbalance**2
        quadratic -= self.kappa * self.stiffness * self.multiplier**2
        return self.separable - 0.5 * quadratic - self.kappa * self.multiplier * self.imbalance


@dataclass(frozen=True)
class Cocoa(Solver[RegularizedSVM, CocoaState]):
    r"""CoCoA+ for many features: coordinate ascent on all units of the data at once, for clusters.

    The data is cut into units, each of which stays on one worker. An iteration is a round: each unit makes two passes
    of dual coordinate ascent over its own samples, and the sum of what they propose is made, as far as the dual
    increases. Only changes of w are sent, as sparse vectors if few features have changed. How far a unit may go is
    adapted to how much the changes of the units have in common.

    Samples become inactive as with `sdca`. On one machine, `sdca` needs fewer passes; use this solver there to get the
    bits of a fit on a cluster.

    References
    ----------
    Ma, Smith, Jaggi, Jordan, Richtárik, Takáč (2015), Adding vs. Averaging in Distributed Primal-Dual Optimization.
    Smith, Forte, Ma, Takáč, Jordan, Jaggi (2018), CoCoA: A General Framework for Communication-Efficient Distributed
    Optimization.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import RegularizedSVM, solve
    >>> from maxmargin.solvers import Cocoa
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(500) < 0.5, -1.0, 1.0)
    >>> X = rng.normal(size=(500, 30)) + 0.2 * y[:, None]
    >>> result = solve(RegularizedSVM(X, y, C=0.1), Cocoa(), tol=1e-4, random_state=0)
    >>> result.status, result.certificate.relative_gap <= 1e-4
    ('tol', True)
    """

    name: ClassVar[str] = "cocoa"
    solves: ClassVar[type[Problem]] = RegularizedSVM
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.PARTS})
    default_tol: ClassVar[float | None] = 1e-3
    resumes: ClassVar[bool] = True

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> CocoaState:
        if isinstance(warm, CocoaState) and all(map(np.array_equal, warm.dual_signature, problem.dual_signature)):
            return warm
        first, multiplier = None, 0.0
        if isinstance(warm, CocoaState):
            first, multiplier = np.concatenate(warm.parts.collect("dual_variables", warm.t)), warm.b
            if not problem.loss.smooth:  # dual variables at C stay at C
                first *= problem.C / warm.C
        elif isinstance(warm, Solution) and warm.p is not None:
            first, multiplier = warm.p, warm.b
        sq_norms = problem.sq_norms()
        rho, kappa = 0.0, 0.0
        stiffness = 1 / problem.bias_feature**2 if problem.bias_feature else 0.0
        if problem.bias:
            mean = float(np.average(sq_norms, weights=problem.s)) or 1.0
            rho_0 = min(mean, max(LEAST_RHO * mean, BIAS_REACH / float(problem.u.sum())))
            kappa = 1 / (1 + stiffness * rho_0)
            rho = kappa * rho_0
        zero, seed = np.zeros(problem.X.shape[1]), int(rng.integers(2**62))
        parts = self._placed(problem, rho, seed, zero, first)
        units, stored = parts.total("count")
        state = CocoaState(
            problem.dual_signature,
            problem.C,
            seed,
            parts,
            units,
            stored,
            stored,
            rho,
            kappa,
            stiffness,
            zero,
            zero.copy(),
            SparseVector.of(zero),
            sigma=math.sqrt(units),
            multiplier=multiplier,
        )
        self._sum_anew(state)
        self._move_means(state)
        return state

    def _placed(self, problem: RegularizedSVM, rho: float, seed: int, mean_w: Vector, alpha: Vector | None) -> Parts:
        """Objects of all units, at these dual variables or at zero, with w = 0 until they are told of a change."""
        return in_parts(problem.X).place(
            CocoaPart,
            Scattered(problem.y),
            Scattered(problem.s),
            Scattered(problem.sq_norms()),
            problem.C,
            problem.loss,
            rho,
            seed,
            mean_w,
            None if alpha is None else Scattered(alpha),
            units=True,
        )

    def step(self, problem: RegularizedSVM, state: CocoaState, iterations: int, budget: float) -> Step:
        before = problem.X.ledger.cost
        for done in range(iterations):
            left = budget - (problem.X.ledger.cost - before)
            # A visit reads its row twice, and once more in the first pass, for the gap.
            reads = (2 * PASSES + 1) * (state.stored if state.all_active else state.active_stored)
            if left < reads + (state.stored if self._refresh_is_due(state) else 0):
                return Step(done, Reason.BUDGET)
            self._round(problem, state)
        return Step(iterations)

    def _round(self, problem: RegularizedSVM, state: CocoaState) -> None:
        delta, imbalance, slope, bend, square, gap, state.active_stored = state.parts.update(
            "round",
            state.rounds,
            state.t,
            state.change,
            state.b,
            self._mean_share(state),
            state.mean_b,
            state.sigma,
            PASSES,
            state.all_active,
        )
        gap += self._gap_of_driver(state)
        # Along the proposed change, D is a parabola.
        rise = slope - delta.dot(state.v) - state.b * imbalance
        whole_square = delta.square() + state.rho * imbalance**2
        curvature = whole_square + bend
        t = min(1.0, max(0.0, rise / curvature)) if curvature > 0 else 1.0
        gain = t * rise - 0.5 * t**2 * curvature
        refresh = self._refresh_is_due(state)
        state.t, state.rounds = t, state.rounds + 1
        if refresh:
            self._refresh(problem, state)
        else:
            self._change_v(state, state.v, delta.scaled(t))
            state.separable += t * slope - 0.5 * t**2 * bend
            state.imbalance += t * imbalance
        state.multiplier = state.b
        state.gap = max(0.0, gap - gain)
        self._move_means(state)
        self._adapt_sigma(state, whole_square / square if square > 0 else 1.0)
        self._choose_active(state, gap, refresh)

    def _change_v(self, state: CocoaState, before: Vector, change: SparseVector) -> None:
        """Change v as the units will change their w, to the bit; they have it as it was `before`."""
        state.change, state.v = change, before.copy()
        change.add_to(state.v)

    def _refresh_is_due(self, state: CocoaState) -> bool:
        return (state.rounds + 1) % REFRESH == 0

    def _refresh(self, problem: RegularizedSVM, state: CocoaState) -> None:
        """Make the objects of the units anew.

        Rounding that has added up is gone. And a unit that is lost with its worker has to repeat no round before this
        one, nor does the driver have to remember its messages.
        """
        alpha = np.concatenate(state.parts.collect("dual_variables", state.t))
        state.parts, state.t = self._placed(problem, state.rho, state.seed, state.mean_w, alpha), 1.0
        self._sum_anew(state)

    def _sum_anew(self, state: CocoaState) -> None:
        """Compute v and the sums from the dual variables of units that have w = 0."""
        v, state.separable, state.imbalance = state.parts.total("sums")
        self._change_v(state, np.zeros_like(state.v), v)

    def _gap_of_driver(self, state: CocoaState) -> float:
        """What the gap of the means and alpha has beside the terms of the samples."""
        off = state.mean_w - state.v
        gap = 0.5 * float(off @ off)
        if state.stiffness:
            return gap + 0.5 * state.stiffness * (state.mean_b - state.imbalance / state.stiffness) ** 2
        return gap + abs(state.mean_b * state.imbalance)

    def _mean_share(self, state: CocoaState) -> float:
        """The share of the distance to v by which its mean moves; a single unit needs no mean."""
        return MEAN_SHARE if state.rounds and state.units > 1 else 1.0

    def _move_means(self, state: CocoaState) -> None:
        """Move the means of v and b; the units do the same to the mean of w, in the next round."""
        share = self._mean_share(state)
        state.mean_w = state.mean_w + share * (state.v - state.mean_w)
        state.mean_b += share * (state.b - state.mean_b)

    def _adapt_sigma(self, state: CocoaState, right: float) -> None:
        """Choose the next sigma', given the one that would have been right for this round."""
        ratio = min(max(right, 1.0), float(state.units)) / state.sigma
        state.sigma *= ratio if ratio > 1 else ratio**SLOWLY

    def _choose_active(self, state: CocoaState, gap: float, refreshed: bool) -> None:
        """Let all samples become active next if those that are active are nearly solved, or after many rounds."""
        state.rounds_since_all += 1
        if state.all_active:
            state.gap_of_all, state.rounds_since_all = gap, 0
        solved = state.active_stored == 0 or gap <= UNSHRINK_SHARE * state.gap_of_all
        many = state.rounds_since_all >= UNSHRINK_ROUNDS
        state.all_active = refreshed or (not state.all_active and (solved or many))

    def solution(self, problem: RegularizedSVM, state: CocoaState) -> Solution:
        alpha = np.concatenate(state.parts.collect("dual_variables", state.t))
        return Solution(state.mean_w.copy(), state.mean_b, alpha, state.v.copy())

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 1000

    def next_check(self, problem: RegularizedSVM, state: CocoaState, done: int) -> int:
        return done + 1

    def estimated_gap(self, problem: RegularizedSVM, state: CocoaState) -> float:
        """The gap of the active samples, with the means of w and b before the last round and alpha after it."""
        return state.gap / (abs(state.dual) + state.gap) if math.isfinite(state.gap) else math.inf
