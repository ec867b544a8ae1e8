r"""The sublinear algorithm for the smallest enclosing ball, of Clarkson, Hazan and Woodruff (2012), section 3.

Irpan and Kwan (2015) name it in section 3 as one of the problems that their Algorithm 2 solves.

Problem: :class:`EnclosingBall` with nu = 0, :math:`\min_x \max_i |x - a_i|^2`. Given: eps, and the squared norms of the
rows, which lie in the unit ball. Returned: the mean of x_t, for which :math:`\max_i |\bar x - a_i|^2 \le R^2 +
\varepsilon` with probability at least 1/2 for each run, after T rounds that read a column each, and a row now and then.

It is the generic primal-dual algorithm (:class:`PrimalDual`) on :math:`c_i(x) = 1 - \frac12|x - a_i|^2`, which lie
between -1 and 1. The estimate of all of them is :math:`1 - \frac12(|a_i|^2 + |x|^2) + a_i(j)|x|^2/x(j)` with
:math:`j \sim x(j)^2`, of a variance of at most 1. The costs are strongly concave, so that the mean of the rows drawn
has a regret of :math:`R(T) = 2(1 + \log T)`, far below the :math:`\sqrt{T \log n}` of the weights. It can be spent: a
row is drawn with probability :math:`\alpha = R(T)/\sqrt{T \log n}` a round only, which makes the regret
:math:`R(T)/\alpha` on average. In all that reads about n/eps^2 + d/eps entries, but for logarithms.

Symbols as in the paper: w_t are the weights, v_t the clipped estimates, eta and alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.ball.problem import EnclosingBall
from maxmargin.core import l1_sample
from maxmargin.core.types import Vector
from maxmargin.engine.problem import Problem, Solution
from maxmargin.engine.solver import Solver, Step
from maxmargin.game.players import RunningMean
from maxmargin.game.primal_dual import CONSTANT, Best, check_promise, fewest_rounds, rate_of_weights, runs_for
from maxmargin.game.weights import Weights

FEW = 16  # rows, spread over the data, whose mean is the origin
ROUNDS = 2000  # where neither eps nor any stop rule says when to end


@dataclass
class Run:
    """Where a run stands after t rounds, in some of which a row was drawn."""

    T: int | None
    weights: Weights
    x: Vector
    sum_x: Vector  # over all rounds before the last change of x
    drawn: Vector  # the weight of each row in x, not normalised
    total: float = 0.0  # of them
    draws: int = 0
    t: int = 0
    since: int = 0  # rounds since the last change of x
    sq_x: float = 0.0
    squares: Vector | None = None  # of x, summed up; None for x = 0


@dataclass
class SublinearBallState:
    """The data as the game sees it, (a_i - origin) / scale, the run under way, and the best of those before it."""

    rng: np.random.Generator
    origin: Vector
    scale: float
    sq_norms: Vector
    run: Run
    best: Best = field(default_factory=Best)


@dataclass(frozen=True)
class SublinearBall(Solver[EnclosingBall, SublinearBallState]):
    r"""The smallest enclosing ball from columns, each of which says a little of all distances at once.

    Parameters
    ----------
    eps : float or None, default=None
        By how much the square of the radius may be above the least possible, as a share of the square of the largest
        distance from the origin; T and constant rates follow from it. None: rates fall as the rounds go by, rows weigh
        the more the later they are drawn, and the run ends by another rule, or after 2000 rounds.
    confidence : float, default=0.5
        With what probability it may not, for an eps. Each run has 1/2; the best of several, by their radius, has more.
    constant : float, default=23
        T is the least with :math:`\text{constant}\sqrt{\log n / T} + R(T)/(\alpha T) \le \varepsilon/2`. The default is
        for the worst case, and far too large for most data: with 1 to 3 the certificate tells whether it was enough,
        and nothing is promised.
    columns : int, default=1
        Columns a round; their estimates are averaged.
    update : float or None, default=None
        The probability alpha that a round draws a row. None: as in the paper, or as large as makes rows cost no more
        than columns do, which is better where there are more rows than columns.
    centred : bool, default=True
        Whether the origin is the mean of a few rows, which takes another pass over the data, or 0 as in the paper. As
        no ball has a radius below half the largest distance from such a mean, the radius is then at most 1 + 2 eps
        times the least; and estimates vary less, in proportion to the distance of x from the origin.

    Notes
    -----
    Reading the norms of the rows takes a pass over the data, unless the problem was told them. It is booked under
    "scale", as is the pass for the origin.

    References
    ----------
    Clarkson, Hazan, Woodruff (2012), Sublinear Optimization for Machine Learning, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import solve
    >>> from maxmargin.problems import EnclosingBall
    >>> from maxmargin.solvers import SublinearBall
    >>> corners = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [1.0, 0.5]])
    >>> result = solve(EnclosingBall(corners), SublinearBall(eps=0.25, constant=1), random_state=0)
    >>> result.status, bool(1.41 < result.certificate.primal < 1.7)
    ('finished', True)
    """

    name: ClassVar[str] = "sublinear_ball"
    solves: ClassVar[type[Problem]] = EnclosingBall

    eps: float | None = None
    confidence: float = 0.5
    constant: float = CONSTANT
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
        """How many runs it takes to be confident."""
        return 1 if self.eps is None else runs_for(self.confidence)

    def rounds(self, problem: EnclosingBall) -> int | None:
        """T, where eps says it."""
        if self.eps is None:
            return None
        n = problem.X.shape[0]

        def loss(T: int) -> float:
            return self.constant * rate_of_weights(n, T) + _regret(T) / (self._alpha(problem, T) * T)

        return fewest_rounds(loss, self.eps / 2)

    def _alpha(self, problem: EnclosingBall, T: int) -> float:
        n, d = problem.X.shape
        return self.update or min(1.0, max(self.columns * n / d, _regret(T) / (T * rate_of_weights(n, T))))

    def start(self, problem: EnclosingBall, rng: np.random.Generator, warm: object = None) -> SublinearBallState:
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
                some = problem.a_few(FEW)
                origin = problem.features.dot_transposed(np.full(some.size, 1 / some.size), some)
                sq_norms = problem.X.sq_distances(origin)
        largest = float(sq_norms.max()) or 1.0
        return SublinearBallState(rng, origin, math.sqrt(largest), sq_norms / largest, self._new_run(problem))

    def _new_run(self, problem: EnclosingBall) -> Run:
        n, d = problem.X.shape
        return Run(self.rounds(problem), Weights(np.ones(n), 1.0), np.zeros(d), np.zeros(d), np.zeros(n))

    def step(self, problem: EnclosingBall, state: SublinearBallState, iterations: int, budget: int) -> Step:
        n, d = problem.X.shape
        rounds = min(iterations, budget // (self.columns * n + d))
        for _ in range(rounds):
            if state.run.t == state.run.T:
                self._next_run(problem, state)
            self._play(problem, state)
        return Step.of(rounds, iterations)

    def _play(self, problem: EnclosingBall, state: SublinearBallState) -> None:
        """A round. What is drawn: whether to draw a row, unless that is certain; the row; the columns."""
        run, rng, weights = state.run, state.rng, state.run.weights
        run.t += 1
        horizon = run.T or run.t
        weights.eta, alpha = min(1.0, rate_of_weights(problem.X.shape[0], horizon)), self._alpha(problem, horizon)
        i = l1_sample(weights.p, rng.random()) if alpha >= 1 or rng.random() < alpha else None
        v = 1 - 0.5 * (state.sq_norms + run.sq_x)
        if run.squares is not None:
            self._add_products(problem, state, run.squares, v)
        weights.learn(weights.clip(v))
        run.since += 1
        if i is not None:
            self._move(problem, state, i)

    def _add_products(self, problem: EnclosingBall, state: SublinearBallState, squares: Vector, v: Vector) -> None:
        """Add the estimate of all products with x to v, from columns drawn by the squares of x."""
        run, last = state.run, int(np.searchsorted(squares, squares[-1]))
        for u in state.rng.random(self.columns):
            j = min(int(np.searchsorted(squares, u * squares[-1], side="right")), last)
            factor = run.sq_x / (self.columns * run.x[j] * state.scale)
            problem.features.add_column(j, factor, v)
            v -= factor * state.origin[j]

    def _move(self, problem: EnclosingBall, state: SublinearBallState, i: int) -> None:
        """x becomes the mean of one row more. Where it stood is added up now, as few rounds move it.

        Without a T, rows weigh the more the later they come: the first ones were drawn when nothing was known.
        """
        run = state.run
        run.sum_x += run.since * run.x
        run.since = 0
        run.draws += 1
        weight = 1 if run.T else run.draws
        run.drawn[i] += weight
        run.total += weight
        share = weight / run.total
        run.x *= 1 - share
        problem.features.add_row(i, share / state.scale, run.x)
        run.x -= share / state.scale * state.origin
        run.squares = np.cumsum(run.x**2)
        run.sq_x = float(run.squares[-1])
        if run.sq_x == 0:
            run.squares = None

    def _answer(self, state: SublinearBallState) -> Solution:
        """The mean of x_t; the rows drawn are weights of the dual, whose sum x is."""
        run = state.run
        w = state.origin + state.scale * (run.sum_x + run.since * run.x) / max(1, run.t)
        if not run.draws:
            return Solution(w)
        return Solution(w, 0.0, run.drawn / run.total, state.origin + state.scale * run.x)

    def _next_run(self, problem: EnclosingBall, state: SublinearBallState) -> None:
        """Keep the run that has ended if it is the best so far, and begin another one."""
        self._keep_best(problem, state)
        state.run = self._new_run(problem)

    def _keep_best(self, problem: EnclosingBall, state: SublinearBallState) -> None:
        answer = self._answer(state)
        with problem.ledger.on("choosing"):
            radius = problem.evaluate(answer.w).value
        least = problem.least_radius(answer.p, answer.v) if answer.p is not None and answer.v is not None else 0.0
        state.best.keep(answer, -radius, -least)

    def solution(self, problem: EnclosingBall, state: SublinearBallState) -> Solution:
        """The mean of x_t, of the best run where there are several; the last one counts when it has ended."""
        if state.best.w is None:
            return self._answer(state)
        if state.run.t == state.run.T:
            self._keep_best(problem, state)
        return state.best.solution()

    def iterations(self, problem: EnclosingBall) -> int | None:
        T = self.rounds(problem)
        return None if T is None else self.runs * T

    def default_iterations(self, problem: EnclosingBall) -> int:
        return ROUNDS

    def promise(self, problem: EnclosingBall) -> dict[str, float]:
        if self.eps is None or self.constant < CONSTANT:
            return {}
        return {"eps": self.eps, "failure_probability": 0.5**self.runs}


def _regret(T: int) -> float:
    """R(T) of the mean of rows of the unit ball."""
    return RunningMean(1).regret(T)
