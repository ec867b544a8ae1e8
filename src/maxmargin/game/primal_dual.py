r"""The generic sublinear primal-dual algorithm, Algorithm 2 of Irpan and Kwan (2015).

Problem: :math:`\sigma = \max_{x \in \mathcal{K}} \min_i c_i(x)`. Given: a player, which is a low-regret algorithm over
:math:`\mathcal{K}`, and estimates of all :math:`c_i(x)` with a variance of at most 1. Returned: the mean of x_t, for
which :math:`\min_i c_i(\bar x) \ge \sigma - \varepsilon` with probability at least 1/2 for each run.

Symbols as in the survey: w_t are the weights, p_t the same on the simplex, v_t the clipped estimates. The survey prints
the rate :math:`\frac{1}{100}\sqrt{\log n / T}` for this algorithm, but its lemmas need
:math:`\eta \ge \sqrt{\log n / T}`. This file uses :math:`\sqrt{\log n / T}`, as the survey's Algorithms 1 and 3 do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from maxmargin.core import l1_sample
from maxmargin.core.types import Vector
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Solver, Step
from maxmargin.game.max_min import MaxMin
from maxmargin.game.players import Player
from maxmargin.game.weights import Weights

# With probability 1/2, the weights lose at most 23 sqrt(log n / T) per round; docs/primal_dual.md derives the constant.
THEOREM_CONSTANT = 23.0
LEAST_N = 6  # fewer functions count as 6 in log n, because the union bound over all c_i requires it
MAX_ROUNDS = 2**62  # largest number of rounds; if T is larger, the search for T gives up


@dataclass
class GameRun:
    """One run of the game after t of its T rounds."""

    T: int
    player: Any
    weights: Weights
    sum_x: Vector
    sum_p: Vector
    t: int = 0


@dataclass
class BestRun:
    """The best value of several runs, and the best bound, which may come from another run.

    Attributes
    ----------
    w : array or None
        The solution with the best value; None before the first run has ended.
    value : float
        The value of w.
    proof : tuple
        The dual weights with the best bound, and their sum of rows; (None, None) before the first run has ended.
    bound : float
        The bound of these dual weights.
    """

    w: Any = None
    value: float = -math.inf
    proof: tuple[Any, Any] = (None, None)
    bound: float = math.inf

    def keep(self, answer: Solution, value: float, bound: float) -> None:
        """Compare the solution of another run with the best so far."""
        if value > self.value:
            self.w, self.value = answer.w, value
        if answer.p is not None and (self.proof[0] is None or bound < self.bound):
            self.proof, self.bound = (answer.p, answer.v), bound

    def solution(self) -> Solution:
        """The best solution with the best proof."""
        p, v = self.proof
        return Solution(self.w, p=p, v=v)


@dataclass
class GameState:
    """The current run, and the best of the runs before it."""

    rng: np.random.Generator
    run: GameRun
    best: BestRun = field(default_factory=BestRun)


@dataclass(frozen=True)
class PrimalDual(Solver[MaxMin, GameState]):
    r"""The generic sublinear primal-dual game: a player of x against multiplicative weights on the :math:`c_i`.

    Round t draws :math:`i_t \sim p_t` and gives the gradient of :math:`c_{i_t}` to the player of x. It also estimates
    all :math:`c_i(x_t)` and updates the weights (variance multiplicative weights) with the clipped estimates:
    :math:`w_{t+1}(i) = w_t(i)(1 - \eta v_t(i) + \eta^2 v_t(i)^2)`.

    Parameters
    ----------
    player : Player
        The low-regret algorithm for x, which knows its set.
    eps : float, default=0.1
        How far the solution may fall short of the best possible value.
    confidence : float, default=0.5
        The probability with which eps is kept. One run has probability 1/2; for more, the best of several runs is
        taken.
    constant : float, default=23
        T is the smallest number with :math:`\text{constant}\sqrt{\log n / T} + R(T)/T \le \varepsilon`. The constant of
        the theorem is for the worst case. Often 1 to 3 is enough, as the certificate shows, but then nothing is
        promised in advance.

    References
    ----------
    Irpan, Kwan (2015), Sublinear Algorithms for Optimization and Machine Learning, section 3.
    Clarkson, Hazan, Woodruff (2012), Sublinear Optimization for Machine Learning.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import solve
    >>> from maxmargin.core import l2_sample
    >>> from maxmargin.problems import MaxMin
    >>> from maxmargin.game.sets import Ball
    >>> from maxmargin.solvers import PrimalDual
    >>> from maxmargin.game.players import LazyGradient
    >>> A = np.array([[0.6, 0.8], [0.8, -0.6]])
    >>> def sample(x, rng):  # estimates every product with x from one column
    ...     j, factor = l2_sample(x, rng.random())
    ...     return A[:, j] * factor
    >>> problem = MaxMin(
    ...     2,
    ...     sample=sample,
    ...     gradient=lambda i, x: A[i],
    ...     values=lambda x: A @ x,
    ...     bound=lambda p: Ball(2).support(A.T @ p),
    ... )
    >>> result = solve(problem, PrimalDual(LazyGradient(Ball(2)), eps=0.3, constant=3), random_state=0)
    >>> result.status, bool(result.certificate.gap < 0.3)
    ('finished', True)
    """

    name: ClassVar[str] = "primal_dual"
    solves: ClassVar[type[Problem]] = MaxMin
    requires: ClassVar[frozenset[Trait]] = frozenset()

    player: Player
    eps: float = 0.1
    confidence: float = 0.5
    constant: float = THEOREM_CONSTANT

    def __post_init__(self) -> None:
        if not 0 < self.eps < 1:
            raise ValueError(f"eps must be between 0 and 1, as all |c_i(x)| <= 1; got {self.eps!r}")
        check_promise(self.confidence, self.constant)

    @property
    def runs(self) -> int:
        """The number of runs that the confidence takes."""
        return runs_for(self.confidence)

    def rate(self, problem: MaxMin, T: int) -> float:
        r"""The weights' :math:`\eta = \sqrt{\log n / T}`."""
        return rate_of_weights(problem.n, T)

    def rounds(self, problem: MaxMin) -> int:
        """T, line 1."""
        try:
            return fewest_rounds(lambda T: self.constant * self.rate(problem, T) + self.player.regret(T) / T, self.eps)
        except OverflowError:
            raise ValueError(
                f"the regret of {self.player} in T rounds is never below eps * T; a player needs a regret that grows "
                "more slowly than T"
            ) from None

    def start(self, problem: MaxMin, rng: np.random.Generator, warm: object = None) -> GameState:
        if isinstance(warm, GameState):
            return warm
        return GameState(rng, self._new_run(problem))

    def _new_run(self, problem: MaxMin) -> GameRun:
        T = self.rounds(problem)
        player, weights = self.player.start(T), Weights(np.ones(problem.n), self.rate(problem, T))
        return GameRun(T, player, weights, np.zeros(np.shape(player.x)), np.zeros(problem.n))

    def step(self, problem: MaxMin, state: GameState, iterations: int, budget: float) -> Step:
        rounds = min(iterations, int(budget // problem.round_reads)) if problem.round_reads else iterations
        for _ in range(rounds):
            if state.run.t == state.run.T:
                self._next_run(problem, state)
            self._play_round(problem, state.run, state.rng)
        return Step.of(rounds, iterations)

    def _play_round(self, problem: MaxMin, run: GameRun, rng: np.random.Generator) -> None:
        """One round of Algorithm 2."""
        x, p = run.player.x, run.weights.p  # line 8
        i = l1_sample(p, rng.random())  # line 9
        run.weights.learn(run.weights.clip(problem.sample(x, rng)))  # lines 4 to 6
        run.sum_x += x
        run.sum_p += p
        self.player.update(run.player, problem.gradient(i, x))  # line 10
        run.t += 1

    def _next_run(self, problem: MaxMin, state: GameState) -> None:
        """Keep the run that has ended if it is the best so far, and start another one."""
        with problem.ledger.on("choosing"):
            self._keep_best(problem, state)
        state.run = self._new_run(problem)

    def _keep_best(self, problem: MaxMin, state: GameState) -> None:
        answer = self._answer(state.run)
        assert answer.p is not None
        state.best.keep(answer, float(problem.values(answer.w).min()), problem.bound(answer.p))

    def _answer(self, run: GameRun) -> Solution:
        """Line 12: the mean of x_t, and of the weights."""
        if not run.t:
            return Solution(np.array(run.player.x))
        return Solution(self.player.settle(run.sum_x / run.t), p=run.sum_p / run.t)

    def solution(self, problem: MaxMin, state: GameState) -> Solution:
        """The mean of x_t; if there are several runs, the mean of the best run that has ended."""
        if state.best.w is None:
            return self._answer(state.run)
        if state.run.t == state.run.T:
            self._keep_best(problem, state)
        return state.best.solution()

    def iterations(self, problem: MaxMin) -> int:
        return self.runs * self.rounds(problem)

    def promise(self, problem: MaxMin) -> dict[str, float]:
        if self.constant < THEOREM_CONSTANT:
            return {}
        return {"eps": self.eps, "failure_probability": 0.5**self.runs}


def check_promise(confidence: float, constant: float) -> None:
    """Refuse a confidence that no number of runs can give, and a constant that gives no number of rounds."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, and cannot be 1; got {confidence!r}")
    if not constant > 0:
        raise ValueError(f"constant must be positive (the theorem: {THEOREM_CONSTANT:g}); got {constant!r}")


def runs_for(confidence: float) -> int:
    """The number of runs that a confidence takes if each run fails with probability 1/2."""
    return max(1, math.ceil(math.log2(1 / (1 - confidence)) - 1e-9))


def rate_of_weights(n: int, T: int) -> float:
    """The rate eta of n weights over T rounds."""
    return math.sqrt(math.log(max(LEAST_N, n)) / T)


def fewest_rounds(error: Callable[[int], float], eps: float) -> int:
    """The smallest T with error(T) <= eps, for an error that falls with T, by doubling and then bisection."""
    enough = 1
    while error(enough) > eps:
        enough *= 2
        if enough > MAX_ROUNDS:
            raise OverflowError(f"it takes more than {MAX_ROUNDS:,} rounds")
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        too_few, enough = (too_few, middle) if error(middle) <= eps else (middle, enough)
    return enough
