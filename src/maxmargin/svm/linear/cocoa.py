r"""CoCoA+ with consensus: dual coordinate ascent on all units of the data at once, for many features on a cluster.

Problem: the regularised form with C, either loss, any kind of bias. Given: the data by rows, in K units. Returned: w, b
and the dual point that proves how good they are. Each iteration is a round: one message to the units and one back.

The dual, with :math:`v = \sum_i \alpha_i y_i x_i`, the imbalance :math:`m = \sum_i \alpha_i y_i`, and the bounds U and
curvatures q of the loss, is

.. math:: \max_{0 \le \alpha \le U} \min_b\ \sum_i \alpha_i - \tfrac12 q_i \alpha_i^2 - \tfrac12 |v|^2 - b m
    + \tfrac12 \kappa b^2,

with :math:`\kappa = 1 / B^2`, which is 0 for a free bias. Without a bias, the last two terms are dropped.

A round, at z, b and :math:`\sigma`, with changes :math:`d_i` of the dual variables:

1. Unit k makes passes of coordinate ascent on its own subproblem. It begins at

   .. math:: w_k = z + \sigma \Bigl(\frac{v - z}K + f_k\Bigr), \qquad
       b_k = b + \sigma \rho \Bigl(\frac{m - \kappa b}K + g_k\Bigr) ,

   and its changes :math:`\delta_k = \sum_{i \in k} d_i y_i x_i` move :math:`w_k` by :math:`\sigma \delta_k`, and
   :math:`b_k` by :math:`\sigma \rho \sum_{i \in k} d_i y_i`: the bias is the weight of a feature of value
   :math:`\sqrt\rho`.
2. The driver adds the sum :math:`\delta` of the :math:`\delta_k` to v, moves

   .. math:: z^+ = z + \frac{\omega \sigma}{\sigma + K} (v - z), \qquad
       b^+ = b + \frac{\omega \sigma \rho}{\sigma \rho \kappa + K} (m - \kappa b) ,

   and chooses the next :math:`\sigma`.
3. Unit k receives :math:`\delta` and sets :math:`f_k^+ = (1 - \omega) (f_k + \delta_k - \delta / K)`; so the sum of
   all :math:`f_k` is 0. The :math:`g_k` are updated likewise.

With :math:`\sigma = K` and :math:`\omega = 1`, units begin at v: this is CoCoA+ of Ma et al. 2015, with their
:math:`\gamma = 1` and their safe :math:`\sigma' = K`. For other values, it is the alternating direction method of
multipliers (ADMM; Boyd et al. 2011, sections 3.4 and 7.1) with over-relaxation by :math:`\omega`, for units that each
have a :math:`w_k`, with the constraint that all :math:`w_k` equal z. The penalty is
:math:`\frac1{2 \sigma} |w_k - z|^2`, and the multiplier of unit k is
:math:`\sum_{i \in k} \alpha_i y_i x_i - (v - z) / K - f_k`, so that no multiplier has to be sent. The method converges
for each :math:`\sigma > 0` and :math:`0 < \omega < 2`. If C is large, the best :math:`\sigma` is far below K: each unit
then moves further towards the optimum of its own samples, and z moves slowly towards a point on which the units agree.

:math:`\sigma` balances two relative residuals (Wohlberg 2017): how much the units disagree,
:math:`r = \sqrt{\sum_k |w_k - z^+|^2 / K} / |z^+|`, and how much the point on which they agree moves,
:math:`s = K |z^+ - z| / (\sigma |v|)`.

The solution is z and b; the gap is that of z, b and alpha. Unlike in CoCoA+, the dual value may decrease in a round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.core.types import Vector
from maxmargin.engine.parts import Parts, Scattered, SqNorms, in_parts
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.engine.sparse_vector import SparseVector
from maxmargin.svm.linear.cocoa_part import CocoaPart
from maxmargin.svm.regularized import RegularizedSVM

# These constants were chosen by the rounds to a relative gap of 1e-3, or by the gap after 30 to 80 rounds, on
# Reuters, 20 Newsgroups, SpamAssassin and generated data in 4 to 16 units, with C from 0.1 to 10. All except RELAXATION
# were compared at omega = 1. Constants without a measured figure were not compared with others.
PASSES = 2  # passes over the active samples in a round; 3, 5 and 10 change the number of rounds by less than a tenth
# The next two limit how fast a free bias moves. With both three times as large, Reuters takes up to 44 % fewer rounds,
# but Newsgroups twice as many.
BIAS_REACH = 30.0  # margins by which an imbalance of sum C s_i would move a free bias in a round of one unit
LEAST_RHO = 0.01  # smallest rho, in units of the mean |x_i|^2
FIRST_SIGMA = 0.3  # first sigma, in units of K; 0.1 takes a quarter more rounds if C is small
# sigma rises while s > r / BALANCE. On Reuters with C = 1 and the hinge, a value of 1 leaves 5 times the gap, and 0.03
# leaves 11 times the gap. But on SpamAssassin with the squared hinge, 0.03 leaves a seventh of the gap.
BALANCE = 0.2
# omega. With C = 1, 1.4 takes up to a third more rounds than 1.8; on Reuters with C = 0.1, 1.8 takes twice the rounds
# of 1.6. So a value in between was chosen; 1.7 itself was not compared.
RELAXATION = 1.7
LARGEST_CHANGE = 1.4  # largest factor by which sigma changes in a round
LEAST_SIGMA = 0.003  # smallest sigma, in units of K; the largest is K
REFRESH = 64  # rounds after which everything is recomputed from alpha; a lost worker repeats at most this many rounds
UNSHRINK_SHARE = 0.1  # all samples become active when the gap of the active ones has fallen to this share,
UNSHRINK_ROUNDS = 5  # or after this many rounds; 20 takes up to 30 % more rounds


@dataclass
class CocoaState:
    """The state of CoCoA+, except what it keeps about the samples, which is in `parts`."""

    dual_signature: tuple[Any, ...]  # signature of the problem, to recognise it in a warm start
    C: float
    seed: int  # decides the order in which samples are visited
    parts: Parts  # of CocoaPart
    units: int  # K
    stored: int  # stored entries of all samples
    active_stored: int  # stored entries of the active samples
    rho: float
    kappa: float
    v: Vector
    z: Vector
    change: SparseVector  # the change of v since it was last sent to the units
    sigma: float
    share: float = 1.0  # the share of the distance to v by which z moved after the last round
    recall: float = 0.0  # 1 - omega; 0 if the units were made since the last round, with f = 0 and g = 0
    separable: float = 0.0  # sum alpha_i - q_i alpha_i^2 / 2
    imbalance: float = 0.0  # m
    imbalance_change: float = 0.0  # the change of m in the last round
    b: float = 0.0
    rounds: int = 0
    gap: float = math.inf  # of z, b and alpha, from the terms of the active samples
    all_active: bool = True  # whether all samples become active in the next round
    gap_of_all: float = math.inf  # the gap when all samples were last active
    rounds_since_all: int = 0

    @property
    def dual(self) -> float:
        """The dual at alpha; with a free bias, its Lagrangian at b."""
        value = self.separable - 0.5 * float(self.v @ self.v)
        return value - (0.5 * self.imbalance**2 / self.kappa if self.kappa else self.b * self.imbalance)


@dataclass(frozen=True)
class Cocoa(Solver[RegularizedSVM, CocoaState]):
    r"""CoCoA+, for many features on a cluster: dual coordinate ascent on all parts of the data at the same time.

    The data is divided into units, each of which stays on one worker. An iteration is a round: each unit makes two
    passes of dual coordinate ascent over its own samples, and w moves towards a point on which the units agree. Only
    changes of w are sent, as sparse vectors if few features have changed. How far a unit and w may move is adapted to
    how much the units disagree.

    Samples become inactive as with `sdca`. On one machine, `sdca` needs fewer passes; use this solver there to get the
    bits of a fit on a cluster.

    References
    ----------
    Ma, Smith, Jaggi, Jordan, Richtárik, Takáč (2015), Adding vs. Averaging in Distributed Primal-Dual Optimization.
    Smith, Forte, Ma, Takáč, Jordan, Jaggi (2018), CoCoA: A General Framework for Communication-Efficient Distributed
    Optimization.
    Boyd, Parikh, Chu, Peleato, Eckstein (2011), Distributed Optimization and Statistical Learning via the Alternating
    Direction Method of Multipliers.
    Wohlberg (2017), ADMM Penalty Parameter Selection by Residual Balancing.

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
        first, b = None, 0.0
        if isinstance(warm, CocoaState):
            first, b = np.concatenate(warm.parts.collect("dual_variables")), warm.b
            if not problem.loss.smooth:  # dual variables at C stay at C
                first *= problem.C / warm.C
        elif isinstance(warm, Solution) and warm.p is not None:
            first, b = warm.p, warm.b
        sq_norms = problem.sq_norms()
        rho = 0.0
        if problem.bias:
            mean = float(np.average(sq_norms, weights=problem.s)) or 1.0
            rho = min(mean, max(LEAST_RHO * mean, BIAS_REACH / float(problem.u.sum())))
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
            1 / problem.bias_feature**2 if problem.bias_feature else 0.0,
            zero,
            zero,
            SparseVector.of(zero),
            sigma=FIRST_SIGMA * units if units > 1 else 1.0,
            b=b if problem.bias else 0.0,
        )
        self._sum_anew(state)
        state.z = state.v.copy()
        return state

    def _placed(self, problem: RegularizedSVM, rho: float, seed: int, z: Vector, alpha: Vector | None) -> Parts:
        """New objects of all units, at these dual variables or at zero, with w = 0 until they receive a change."""
        return in_parts(problem.X).place(
            CocoaPart,
            Scattered(problem.y),
            Scattered(problem.s),
            SqNorms(problem.sq_norms()),
            problem.C,
            problem.loss,
            rho,
            seed,
            z,
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
        delta, imbalance, separable, square, gap, state.active_stored = state.parts.update(
            "round",
            state.rounds,
            state.change,
            state.share,
            state.recall,
            state.sigma,
            state.units,
            state.b,
            (state.imbalance - state.kappa * state.b) / state.units,
            state.imbalance_change / state.units,
            PASSES,
            state.all_active,
        )
        gap += self._gap_of_driver(state)
        dual = state.dual
        refresh = self._refresh_is_due(state)
        state.rounds += 1
        state.imbalance_change = imbalance
        if refresh:
            self._refresh(problem, state)
            state.recall = 0.0
        else:
            state.recall = 1 - RELAXATION
            self._change_v(state, state.v, delta)
            state.separable += separable
            state.imbalance += imbalance
        state.gap = max(0.0, gap - (state.dual - dual))
        self._agree(state, square)
        self._choose_active(state, gap, refresh)

    def _change_v(self, state: CocoaState, before: Vector, change: SparseVector) -> None:
        """Add a change to v, to the same bits as the units, which have v as it was `before`."""
        state.change, state.v = change, before.copy()
        change.add_to(state.v)

    def _refresh_is_due(self, state: CocoaState) -> bool:
        return (state.rounds + 1) % REFRESH == 0

    def _refresh(self, problem: RegularizedSVM, state: CocoaState) -> None:
        """Make new objects of the units from their dual variables.

        This removes rounding errors that have added up. Also, a unit that is lost with its worker need not repeat
        rounds before this one, and the driver need not remember their messages.
        """
        alpha = np.concatenate(state.parts.collect("dual_variables"))
        state.parts = self._placed(problem, state.rho, state.seed, state.z, alpha)
        self._sum_anew(state)

    def _sum_anew(self, state: CocoaState) -> None:
        """Compute v and the sums from the dual variables of units that have w = 0."""
        v, state.separable, state.imbalance = state.parts.total("sums")
        self._change_v(state, np.zeros_like(state.v), v)

    def _gap_of_driver(self, state: CocoaState) -> float:
        """The terms of the gap of z, b and alpha that do not belong to samples."""
        off = state.z - state.v
        gap = 0.5 * float(off @ off)
        if state.kappa:
            return gap + 0.5 * state.kappa * (state.b - state.imbalance / state.kappa) ** 2
        return gap + abs(state.b * state.imbalance)

    def _agree(self, state: CocoaState, square: float) -> None:
        """Move z and b, as the units will move their z, and choose the next sigma; `square` is sum |w_k - z|^2."""
        sigma, K = state.sigma, state.units
        state.share = RELAXATION * sigma / (sigma + K)
        move = state.share * (state.v - state.z)
        state.z = state.z + move
        rise = sigma * state.rho
        state.b += RELAXATION * rise / (rise * state.kappa + K) * (state.imbalance - state.kappa * state.b)
        if K == 1:
            return
        moved = float(move @ move)
        # The sum of w_k - z is sigma (v - z), a multiple of the move.
        square += (K - 2 * sigma / state.share) * moved
        r = math.sqrt(max(0.0, square) / K * float(state.v @ state.v))
        s = K / sigma * math.sqrt(moved * float(state.z @ state.z))
        factor = math.sqrt(BALANCE * s / r) if r > 0 else LARGEST_CHANGE
        factor = min(max(factor, 1 / LARGEST_CHANGE), LARGEST_CHANGE)
        state.sigma = min(max(sigma * factor, LEAST_SIGMA * K), float(K))

    def _choose_active(self, state: CocoaState, gap: float, refreshed: bool) -> None:
        """Let all samples become active next if the active ones are nearly solved, or after many rounds."""
        state.rounds_since_all += 1
        if state.all_active:
            state.gap_of_all, state.rounds_since_all = gap, 0
        solved = state.active_stored == 0 or gap <= UNSHRINK_SHARE * state.gap_of_all
        many = state.rounds_since_all >= UNSHRINK_ROUNDS
        state.all_active = refreshed or (not state.all_active and (solved or many))

    def solution(self, problem: RegularizedSVM, state: CocoaState) -> Solution:
        alpha = np.concatenate(state.parts.collect("dual_variables"))
        return Solution(state.z.copy(), state.b, alpha, state.v.copy())

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 1000

    def next_check(self, problem: RegularizedSVM, state: CocoaState, done: int) -> int:
        return done + 1

    def estimated_gap(self, problem: RegularizedSVM, state: CocoaState) -> float:
        """The gap of the active samples, with z and b before the last round and alpha after it."""
        return state.gap / (abs(state.dual) + state.gap) if math.isfinite(state.gap) else math.inf
