r"""The sublinear algorithm for the smallest enclosing ball, of Clarkson, Hazan and Woodruff (2012), section 3.

Irpan and Kwan (2015) name it in section 3 as one of the problems that their Algorithm 2 solves.

Problem: :class:`MinimumEnclosingBall` with nu = 0, :math:`\min_x \max_i |x - a_i|^2`. Given: eps, and the squared norms
of the rows, which lie in the unit ball. Returned: the mean of x_t, for which :math:`\max_i |\bar x - a_i|^2 \le R^2 +
\varepsilon` after T rounds, each run with probability at least 1/2 if every round draws a row. Each round reads a
column, and some a row.

It is the generic primal-dual algorithm (:class:`PrimalDual`) on :math:`c_i(x) = 1 - \frac12|x - a_i|^2`, which lie
between -1 and 1. The estimate of all these functions is :math:`1 - \frac12(|a_i|^2 + |x|^2) + a_i(j)|x|^2/x(j)` with
:math:`j \sim x(j)^2`; its variance is at most 1. The functions are strongly concave, so the mean of the drawn rows has
a regret of :math:`R(T) = 2(1 + \log T)`, far below the :math:`\sqrt{T \log n}` of the weights. So a round draws a row
only with probability :math:`\alpha = R(T)/\sqrt{T \log n}`, which makes its regret :math:`R(T)/\alpha` on average, no
more than that of the weights. In total, about n/eps^2 + d/eps entries are read, up to logarithms.

Symbols as in the paper: w_t are the weights, v_t the clipped estimates, eta and alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.ball.problem import ORIGIN_ROWS, MinimumEnclosingBall
from maxmargin.core import l1_sample
from maxmargin.core.types import Vector
from maxmargin.engine.problem import Problem, Solution
from maxmargin.engine.solver import Solver, Step
from maxmargin.game.players import RunningMean
from maxmargin.game.primal_dual import (
    THEOREM_CONSTANT,
    BestRun,
    check_promise,
    fewest_rounds,
    rate_of_weights,
    runs_for,
)
from maxmargin.game.weights import Weights

DEFAULT_ROUNDS = 2000  # rounds of a run that neither eps nor a stop rule ends


@dataclass
class BallRun:
    """One run after t rounds; some of the rounds drew a row."""

    T: int | None
    weights: Weights
    x: Vector
    sum_x: Vector  # sum of x_t over all rounds before the last change of x
    row_weights: Vector  # the weight of each row in x, not normalised
    total_weight: float = 0.0  # the sum of the row weights
    draws: int = 0
    t: int = 0
    rounds_at_x: int = 0  # rounds since the last change of x
    sq_x: float = 0.0
    cumulative_squares: Vector | None = None  # cumulative squares of the entries of x; None for x = 0


@dataclass
class SublinearBallState:
    """The current run, the best of the runs before it, and how rows enter the game: (a_i - origin) / scale."""

    rng: np.random.Generator
    origin: Vector
    scale: float
    sq_norms: Vector
    run: BallRun
    best: BestRun = field(default_factory=BestRun)


@dataclass(frozen=True)
class SublinearBall(Solver[MinimumEnclosingBall, SublinearBallState]):
    r"""The smallest enclosing ball from few columns of X: each column gives an estimate of all distances at once.

    Parameters
    ----------
    eps : float or None, default=None
        How far the squared radius may exceed the smallest possible one, as a share of the squared largest distance from
        the origin; T and constant rates follow from eps. None: rates fall with the rounds, rows that are drawn later
        have larger weights, and the run ends by a stop rule, or after 2000 rounds.
    confidence : float, default=0.5
        The probability with which eps is kept, if eps is given and `update` is 1. One run has probability 1/2; for
        more, the best of several runs is taken, the one with the smallest radius.
    constant : float, default=23
        T is the smallest number with :math:`\text{constant}\sqrt{\log n / T} + R(T)/(\alpha T) \le \varepsilon/2`. The
        default is for the worst case, and far too large for most data. Often 1 to 3 is enough, as the certificate
        shows, but then nothing is promised in advance.
    columns : int, default=1
        Columns read in a round; their estimates are averaged.
    update : float or None, default=None
        The probability alpha that a round draws a row. None: the larger of the paper's alpha and the largest alpha for
        which rows cost no more than columns; the second one is larger if there are more rows than columns.
    centred : bool, default=True
        Whether the origin is the mean of 16 rows, which takes another pass over the data, or 0 as in the paper. No ball
        has a radius below half the largest distance from such a mean, so that the radius is then at most 1 + 2 eps
        times the smallest one. Estimates also vary less, in proportion to the distance of x from the origin.

    Notes
    -----
    Reading the norms of the rows takes a pass over the data, unless they were given to the problem. The ledger counts
    this pass, and the pass for the origin, under "scale".

    References
    ----------
    Clarkson, Hazan, Woodruff (2012), Sublinear Optimization for Machine Learning, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import solve
    >>> from maxmargin.problems import MinimumEnclosingBall
    >>> from maxmargin.solvers import SublinearBall
    >>> corners = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [1.0, 0.5]])
    >>> result = solve(MinimumEnclosingBall(corners), SublinearBall(eps=0.25, constant=1), random_state=0)
    >>> result.status, bool(1.41 < result.certificate.primal < 1.7)
    ('finished', True)
    """

    name: ClassVar[str] = "sublinear_ball"
    solves: ClassVar[type[Problem]] = MinimumEnclosingBall

    eps: float | None = None
    confidence: float = 0.5
    constant: float = THEOREM_CONSTANT
    columns: int = 1
    update: float | None = None
    centred: bool = True

    def __post_init__(self) -> None:
        if self.eps is not None and not 0 < self.eps < 1:
            raise ValueError(f"eps must be between 0 and 1, as rows lie in the unit ball, or None; got {self.eps!r}")
        check_promise(self.confidence, self.constant)
        if not self.columns >= 1:
            raise ValueError(f"columns must be a whole number of at least 1; got {self.columns!r}")
        if self.update is not None and not 0 < self.update <= 1:
            raise ValueError(f"update must be a probability above 0, or None; got {self.update!r}")

    @property
    def runs(self) -> int:
        """The number of runs that the confidence takes."""
        return 1 if self.eps is None else runs_for(self.confidence)

    def rounds(self, problem: MinimumEnclosingBall) -> int | None:
        """T; None if eps is None."""
        if self.eps is None:
            return None
        n = problem.X.shape[0]

        def error(T: int) -> float:
            return self.constant * rate_of_weights(n, T) + _regret(T) / (self._alpha(problem, T) * T)

        return fewest_rounds(error, self.eps / 2)

    def _alpha(self, problem: MinimumEnclosingBall, T: int) -> float:
        n, d = problem.X.shape
        return self.update or min(1.0, max(self.columns * n / d, _regret(T) / (T * rate_of_weights(n, T))))

    def start(self, problem: MinimumEnclosingBall, rng: np.random.Generator, warm: object = None) -> SublinearBallState:
        if problem.nu * problem.X.shape[0] > 1:
            raise ValueError(
                f"sublinear_ball encloses all rows, nu = 0; got nu={problem.nu:.6g}. Take core_set for balls that "
                "leave some outside."
            )
        if isinstance(warm, SublinearBallState):
            return warm
        origin, sq_norms = np.zeros(problem.X.shape[1]), problem.sq_norms()
        if self.centred:
            with problem.ledger.on("scale"):
                rows = problem.evenly_spaced_rows(ORIGIN_ROWS)
                origin = problem.features.dot_transposed(np.full(rows.size, 1 / rows.size), rows)
                sq_norms = problem.X.sq_distances(origin)
        largest = float(sq_norms.max()) or 1.0
        return SublinearBallState(rng, origin, math.sqrt(largest), sq_norms / largest, self._new_run(problem))

    def _new_run(self, problem: MinimumEnclosingBall) -> BallRun:
        n, d = problem.X.shape
        return BallRun(self.rounds(problem), Weights(np.ones(n), 1.0), np.zeros(d), np.zeros(d), np.zeros(n))

    def step(self, problem: MinimumEnclosingBall, state: SublinearBallState, iterations: int, budget: float) -> Step:
        n, d = problem.X.shape
        rounds = min(iterations, int(budget // (self.columns * n + d)))
        for _ in range(rounds):
            if state.run.t == state.run.T:
                self._next_run(problem, state)
            self._play_round(problem, state)
        return Step.of(rounds, iterations)

    def _play_round(self, problem: MinimumEnclosingBall, state: SublinearBallState) -> None:
        """One round. Random numbers in order: whether to draw a row (unless alpha is 1), the row, the columns."""
        run, rng, weights = state.run, state.rng, state.run.weights
        run.t += 1
        horizon = run.T or run.t
        weights.eta, alpha = min(1.0, rate_of_weights(problem.X.shape[0], horizon)), self._alpha(problem, horizon)
        i = l1_sample(weights.p, rng.random()) if alpha >= 1 or rng.random() < alpha else None
        v = 1 - 0.5 * (state.sq_norms + run.sq_x)
        if run.cumulative_squares is not None:
            self._add_products(problem, state, run.cumulative_squares, v)
        weights.learn(weights.clip(v))
        run.rounds_at_x += 1
        if i is not None:
            self._add_to_mean(problem, state, i)

    def _add_products(
        self, problem: MinimumEnclosingBall, state: SublinearBallState, cumulative_squares: Vector, v: Vector
    ) -> None:
        """Add an estimate of the products of all rows with x to v, from columns drawn by the squares of x."""
        run, total = state.run, cumulative_squares[-1]
        last = int(np.searchsorted(cumulative_squares, total))
        for u in state.rng.random(self.columns):
            j = min(int(np.searchsorted(cumulative_squares, u * total, side="right")), last)
            factor = run.sq_x / (self.columns * run.x[j] * state.scale)
            problem.features.add_column(j, factor, v)
            v -= factor * state.origin[j]

    def _add_to_mean(self, problem: MinimumEnclosingBall, state: SublinearBallState, i: int) -> None:
        """Add row i to the mean x. The sum of all x_t is brought up to date first, as only few rounds change x.

        Without a T, later rows have larger weights, because the first rows were drawn when nothing was known.
        """
        run = state.run
        run.sum_x += run.rounds_at_x * run.x
        run.rounds_at_x = 0
        run.draws += 1
        weight = 1 if run.T else run.draws
        run.row_weights[i] += weight
        run.total_weight += weight
        share = weight / run.total_weight
        run.x *= 1 - share
        problem.features.add_row(i, share / state.scale, run.x)
        run.x -= share / state.scale * state.origin
        cumulative_squares = np.cumsum(run.x**2)
        run.sq_x = float(cumulative_squares[-1])
        run.cumulative_squares = cumulative_squares if run.sq_x else None

    def _answer(self, state: SublinearBallState) -> Solution:
        """The mean of x_t; the weights of the drawn rows are a dual point, and x is their weighted sum of rows."""
        run = state.run
        w = state.origin + state.scale * (run.sum_x + run.rounds_at_x * run.x) / max(1, run.t)
        if not run.draws:
            return Solution(w)
        return Solution(w, p=run.row_weights / run.total_weight, v=state.origin + state.scale * run.x)

    def _next_run(self, problem: MinimumEnclosingBall, state: SublinearBallState) -> None:
        """Keep the run that has ended if it is the best so far, and start another one."""
        self._keep_best(problem, state)
        state.run = self._new_run(problem)

    def _keep_best(self, problem: MinimumEnclosingBall, state: SublinearBallState) -> None:
        answer = self._answer(state)
        with problem.ledger.on("choosing"):
            radius = problem.evaluate(answer.w).value
        least = problem.least_radius(answer.p, answer.v) if answer.p is not None and answer.v is not None else 0.0
        state.best.keep(answer, -radius, -least)

    def solution(self, problem: MinimumEnclosingBall, state: SublinearBallState) -> Solution:
        """The mean of x_t; if there are several runs, the mean of the best run that has ended."""
        if state.best.w is None:
            return self._answer(state)
        if state.run.t == state.run.T:
            self._keep_best(problem, state)
        return state.best.solution()

    def iterations(self, problem: MinimumEnclosingBall) -> int | None:
        T = self.rounds(problem)
        return None if T is None else self.runs * T

    def default_iterations(self, problem: MinimumEnclosingBall) -> int:
        return DEFAULT_ROUNDS

    def promise(self, problem: MinimumEnclosingBall) -> dict[str, float]:
        """The promise, only if each round draws a row: otherwise the regret of x is bounded only on average."""
        T = self.rounds(problem)
        if self.eps is None or T is None or self.constant < THEOREM_CONSTANT or self._alpha(problem, T) < 1:
            return {}
        return {"eps": self.eps, "failure_probability": 0.5**self.runs}


def _regret(T: int) -> float:
    """R(T) of the mean of rows in the unit ball."""
    return RunningMean(1).regret(T)
