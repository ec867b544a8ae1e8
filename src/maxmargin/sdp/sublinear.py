r"""Sublinear semidefinite programming, Algorithm 3 of Irpan and Kwan (2015), and without projections.

Problem: :math:`\sigma = \max_X \min_i A_i \bullet X` over :math:`X \succeq 0` of trace 1, with :math:`|A_i|_F \le 1`.
Given: eps. Returned: the mean of :math:`X_t`, for which :math:`\min_i A_i \bullet \bar X \ge \sigma - \varepsilon` with
probability at least 1/2 for each run. A round reads one matrix, and one entry of every matrix.

It is the generic game (:class:`maxmargin.solvers.PrimalDual`) with these parts, by the lines of Algorithm 3:

====== ================================================= ==================================================
lines  what happens                                      where
====== ================================================= ==================================================
2      :math:`Y_1`, :math:`w_1`, :math:`\eta`, T         ``PrimalDual.start``
4      :math:`p_t`, :math:`X_t = ` project(:math:`Y_t`)  ``Weights.p``, ``LazyGradient.update``
5      :math:`i_t \sim p_t`                              ``PrimalDual._play_round``
6      :math:`Y_{t+1} = Y_t + A_{i_t}/\sqrt{2T}`         ``LazyGradient.update``
7, 9   :math:`A_i(j_t, l_t) |X_t|^2 / X_t(j_t, l_t)`     ``SemidefiniteFeasibility.sample``
10, 11 clip, :math:`w_{t+1}`                             ``PrimalDual._play_round``
14     the mean of :math:`X_t`                           ``PrimalDual.solution``
====== ================================================= ==================================================
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from maxmargin.engine.loop import solve
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.result import Progress, Result
from maxmargin.engine.solver import Solver, Step
from maxmargin.game.players import GradientState, LazyGradient, Player
from maxmargin.game.primal_dual import THEOREM_CONSTANT, GameState, PrimalDual
from maxmargin.game.sets import Point, Spectrahedron, TraceOne
from maxmargin.sdp.eigen import leading_eigenvector
from maxmargin.sdp.feasibility import SemidefiniteFeasibility
from maxmargin.sdp.projection import HazanSpectrahedron

METHODS = ("exact", "projection", "eigenvector")


@dataclass(frozen=True)
class SublinearSdp(Solver[SemidefiniteFeasibility, GameState]):
    r"""Sublinear semidefinite programming, Algorithm 3 of Irpan and Kwan (2015), with one of three players for X.

    Parameters
    ----------
    eps : float, default=0.1
        How far the solution may fall short of the best possible value.
    method : {"exact", "projection", "eigenvector"}, default="exact"
        How :math:`X_t` follows from :math:`Y_t`. "projection", as in the survey: Hazan's approximate projection to
        within :math:`\varepsilon_P = \varepsilon/2`, which leaves half of eps to all other errors and so takes
        four times as many rounds. "exact": the nearest point, by a full decomposition, the fastest method for up to a
        few hundred rows. "eigenvector": no projection, see :class:`EigenvectorSteps`.
    exactly : bool, default=True
        Whether X has trace 1. `False` is the survey's set, a trace of at most 1, with which no program can be proved
        infeasible (see :mod:`maxmargin.sdp.feasibility`); "eigenvector" needs trace 1.
    confidence : float, default=0.5
        The probability with which eps is kept. One run has probability 1/2; for more, the best of several runs is
        taken.
    constant : float, default=23
        T is the smallest number with :math:`\text{constant}\sqrt{\log m / T} + R(T)/T \le \varepsilon`, where R is the
        regret of the player of X: :math:`2\sqrt{2T}`, plus :math:`T\varepsilon_P` with Hazan's projection. 23 is the
        sum of the terms in the proof of Theorem 4.6 (4 + 10 + 8 + 1); the :math:`T = 60^2 \varepsilon^{-2} \log m` that
        the survey prints is larger. 23 is for the worst case; 1 to 3 is often enough, as the certificate shows.

    References
    ----------
    Irpan, Kwan (2015), Sublinear Algorithms for Optimization and Machine Learning, section 4.
    Garber, Hazan (2011), Approximating Semidefinite Programs in Sublinear Time.
    Garber, Hazan (2012), Almost Optimal Sublinear Time Algorithm for Semidefinite Programming.
    Hazan (2008), Sparse Approximate Solutions to Semidefinite Programs.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import solve
    >>> from maxmargin.problems import SemidefiniteFeasibility
    >>> from maxmargin.solvers import SublinearSdp
    >>> A = np.array([[[0.5, 0.5], [0.5, -0.5]], [[-0.5, 0.5], [0.5, 0.5]]])
    >>> result = solve(SemidefiniteFeasibility(A), SublinearSdp(eps=0.2, constant=3), random_state=0)
    >>> result.status, bool(result.certificate.gap < 0.2)
    ('finished', True)
    """

    name: ClassVar[str] = "sublinear_sdp"
    solves: ClassVar[type[Problem]] = SemidefiniteFeasibility
    requires: ClassVar[frozenset[Trait]] = frozenset()

    eps: float = 0.1
    method: str = "exact"
    exactly: bool = True
    confidence: float = 0.5
    constant: float = THEOREM_CONSTANT

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {self.method!r}")
        if self.method == "eigenvector" and not self.exactly:
            raise ValueError('method="eigenvector" plays matrices of trace 1; exactly=False is for the other methods')
        self._game(1)  # PrimalDual checks the other parameters

    def game(self, problem: SemidefiniteFeasibility) -> PrimalDual:
        """The generic algorithm with the player of this solver."""
        return self._game(problem.X.shape[1])

    def _game(self, n: int) -> PrimalDual:
        return PrimalDual(self._player(n), self.eps, self.confidence, self.constant)

    def _player(self, n: int) -> Player:
        if self.method == "eigenvector":
            return EigenvectorSteps(n, accuracy=self.eps / 20)
        if self.method == "projection":
            return LazyGradient(HazanSpectrahedron(n, self.exactly, accuracy=(self.eps / 2) ** 2))
        return LazyGradient(Spectrahedron(n, self.exactly))

    def start(self, problem: SemidefiniteFeasibility, rng: np.random.Generator, warm: object = None) -> GameState:
        return self.game(problem).start(problem, rng, warm)

    def step(self, problem: SemidefiniteFeasibility, state: GameState, iterations: int, budget: float) -> Step:
        return self.game(problem).step(problem, state, iterations, budget)

    def solution(self, problem: SemidefiniteFeasibility, state: GameState) -> Solution:
        return self.game(problem).solution(problem, state)

    def iterations(self, problem: SemidefiniteFeasibility) -> int:
        return self.game(problem).iterations(problem)

    def promise(self, problem: SemidefiniteFeasibility) -> dict[str, float]:
        """The promise of Theorem 4.6; for "eigenvector" it holds for the mean, but not for the projected solution."""
        return {} if self.method == "eigenvector" else self.game(problem).promise(problem)


def decide(
    problem: SemidefiniteFeasibility,
    *,
    eps: float = 0.01,
    method: str = "exact",
    constant: float = 1.0,
    max_time: float | None = None,
    random_state: int | np.random.Generator | None = None,
) -> Result:
    r"""Play games with eps = 1/2, 1/4 and so on until a program is found feasible or proved infeasible.

    A game with half the eps takes four times as many rounds, so that the last game takes most of the time, and an easy
    program is decided in few rounds.

    Parameters
    ----------
    problem : SemidefiniteFeasibility
        The problem to decide.
    eps : float, default=0.01
        The smallest eps to try; a program whose best value is nearer to 0 than this may stay undecided.
    method, constant : str, float
        See :class:`SublinearSdp`.
    max_time : float or None
        Seconds for all games together.
    random_state : int, Generator or None
        The one source of randomness.

    Returns
    -------
    Result
        The result of the last game.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import SemidefiniteFeasibility
    >>> from maxmargin.solvers import decide
    >>> problem = SemidefiniteFeasibility(np.array([np.diag([1.0, -2.0]), np.diag([-2.0, 1.0])]))
    >>> print(str(decide(problem, random_state=0).certificate).partition(":")[0])
    infeasible
    """
    end = math.inf if max_time is None else time.perf_counter() + max_time
    solver = SublinearSdp(eps=eps, method=method, constant=constant)
    rng, game_eps = np.random.default_rng(random_state), 1.0
    while True:
        game_eps = max(eps, game_eps / 2)
        seconds_left = None if max_time is None else max(1e-9, end - time.perf_counter())
        result = solve(
            problem,
            replace(solver, eps=game_eps),
            certify="checks",
            callback=decided,
            max_time=seconds_left,
            random_state=rng,
        )
        known = result.certificate.primal >= 0 or result.certificate.dual < 0
        if known or result.status != "finished" or game_eps == eps:
            return result


def decided(progress: Progress) -> bool:
    """A callback for :func:`maxmargin.solve`: stop once a program is found feasible or proved infeasible.

    It needs ``certify="checks"``, so that each check measures value and bound.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import solve
    >>> from maxmargin.problems import SemidefiniteFeasibility
    >>> from maxmargin.solvers import SublinearSdp, decided
    >>> problem = SemidefiniteFeasibility(np.array([np.diag([1.0, -2.0]), np.diag([-2.0, 1.0])]))
    >>> result = solve(problem, SublinearSdp(eps=0.2), certify="checks", callback=decided, random_state=0)
    >>> result.status, str(result.certificate).partition(":")[0]
    ('callback', 'infeasible')
    """
    return progress.row.primal >= 0 or progress.row.dual < 0


@dataclass(frozen=True)
class EigenvectorSteps(Player):
    r"""A player of X without projections, after Garber and Hazan (2012): eigenvector steps keep X nearly positive.

    X is chosen from a set with a cheap projection: symmetric matrices of trace 1 with :math:`|X|_F \le 1`. Its
    opponents are the weights on the :math:`A_i` and a matrix :math:`Z \succeq 0` of a trace of at most 1, which adds
    :math:`Z \bullet X` to the value. As Z is chosen after X, its best choice is :math:`Z_t = zz'` for an eigenvector z
    of the least eigenvalue of :math:`X_t`, or 0 if that is positive. X then takes a step along :math:`A_{i_t} + Z_t`.

    After T rounds, :math:`\min_i A_i \bullet \bar X + \min(0, \lambda_{\min}(\bar X)) \ge \sigma - \varepsilon`: any
    :math:`X \succeq 0` has :math:`Z_t \bullet X \ge 0`, so that the steps gain at least :math:`T\sigma` minus their
    regret, and :math:`\lambda_{\min}` of a mean is at least the mean of :math:`\lambda_{\min}`. So every
    :math:`A_i \bullet \bar X` is at least :math:`\sigma - \varepsilon`, and a negative eigenvalue of :math:`\bar X` is
    compensated by larger :math:`A_i \bullet \bar X`. The solution is the positive semidefinite matrix of trace 1 that
    is nearest to :math:`\bar X`; the certificate measures this matrix.

    Parameters
    ----------
    n : int
        The number of rows of X.
    accuracy : float
        How far :math:`Z_t` may fall short of the best choice. Lanczos takes
        :math:`O(n^2 \log n / \sqrt{\text{accuracy}})`, which over :math:`\log m / \varepsilon^2` rounds gives the
        paper's time, :math:`n^2 \log m \log n / \varepsilon^{2.5}`.

    Notes
    -----
    Only the theorem of the paper is used: :math:`|X|_F \le 1`, :math:`A_i \bullet X \ge b_i - \varepsilon`,
    :math:`X \succeq -\varepsilon I`, and the time. The game with Z and the proof above are derived from it. Trace 1 in
    place of the numbers :math:`b_i`, and the projection of the solution, are additions of this library.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.sdp.sublinear import EigenvectorSteps
    >>> player = EigenvectorSteps(2, accuracy=0.01)
    >>> state = player.start(T=2)
    >>> player.update(state, np.diag([0.0, 1.0]))
    >>> state.x.round(3)
    array([[0.412, 0.   ],
           [0.   , 0.588]])
    """

    n: int
    accuracy: float

    @property
    def _steps(self) -> LazyGradient:
        return LazyGradient(TraceOne(self.n))

    def start(self, T: int) -> GradientState:
        return self._steps.start(T)

    def update(self, state: GradientState, g: Point) -> None:
        value, z = leading_eigenvector(-state.x, self.accuracy)
        if value > 0:
            g = g + np.outer(z, z)
        self._steps.update(state, g / 2)  # g / 2 has a norm of at most 1

    def regret(self, T: int) -> float:
        return 2 * self._steps.regret(T) + T * self.accuracy

    def settle(self, x: Point) -> Point:
        return Spectrahedron(self.n, exactly=True).project(x)
