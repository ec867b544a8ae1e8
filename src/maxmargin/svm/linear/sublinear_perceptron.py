r"""The sublinear perceptron of Clarkson, Hazan and Woodruff, as in Algorithm 1 of Irpan and Kwan (2015).

Problem: the largest margin of separable data, :math:`\sigma = \max_{|x| \le 1} \min_i A_i x`, the slack form with slack
0; A_i is y_i times row i. Given: eps. Returned: the mean of x_t, for which :math:`\min_i A_i \bar x \ge
\sigma - \varepsilon` with probability at least 1/2, after T rounds that read a row and a column each.

Symbols here and in the survey: w is its x, u its y, q its w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.engine.problem import Solution
from maxmargin.engine.solver import Solver
from maxmargin.svm.linear._game import Game
from maxmargin.svm.slack import SlackSVM

CONSTANT = 30.0  # from which on eps is promised


@dataclass(frozen=True)
class SublinearPerceptron(Solver):
    r"""Algorithm 1 of the survey, on the engine of SIMBA.

    Parameters
    ----------
    eps : float, default=0.25
        How far below the best margin of the scaled data the answer may be.
    constant : float, default=30
        The number of rounds is :math:`T = \text{constant}^2 \varepsilon^{-2} \log n`. The survey writes 200 and says
        that about 30 should do. It does: its own last inequality bounds the error by
        :math:`23\sqrt{\log n / T} + 2\sqrt{2/T}`, which is below eps from 30 on. With less nothing is promised.

    Notes
    -----
    Where the problem has a bias, it is played as in SIMBA: b_t = sign(p_t'y).

    References
    ----------
    Irpan, Kwan (2015), Sublinear Algorithms for Optimization and Machine Learning, sections 2.2 to 2.4.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SlackSVM, solve
    >>> from maxmargin.solvers import SublinearPerceptron
    >>> problem = SlackSVM(np.array([[1.0, 0.2], [-1.0, 0.1]]), [1, -1], slack=0.0)
    >>> result = solve(problem, SublinearPerceptron(eps=0.5), random_state=0)
    >>> result.status, result.promise["failure_probability"]
    ('finished', 0.5)
    """

    name: ClassVar[str] = "sublinear_perceptron"
    separable_only: ClassVar[bool] = True
    visits_samples: ClassVar[bool] = True

    eps: float = 0.25
    constant: float = CONSTANT

    def __post_init__(self) -> None:
        if not 0 < self.eps < 1:
            raise ValueError(f"eps must be between 0 and 1, as margins in the unit ball are; got {self.eps!r}")
        if not self.constant >= 1:
            raise ValueError(f"constant must be at least 1 (the survey: 200, or 30); got {self.constant!r}")

    def start(self, problem: SlackSVM, rng: np.random.Generator, warm: Any = None) -> Any:
        self.refuse_slack(problem)
        if isinstance(warm, Game):
            return warm
        return Game(problem, rng, rows=1, columns=1, horizon=self.iterations(problem), lagged=True)

    def refuse_slack(self, problem: SlackSVM) -> None:
        """It is for separable data."""
        if problem.slack > 0:
            other = "sbp" if self.kernel else "simba"
            raise ValueError(
                f"the sublinear perceptron is for separable data, slack 0; got slack={problem.slack:.6g}. "
                f'For data with noise use solver="{other}".'
            )

    def step(self, problem: SlackSVM, state: Any, iterations: int, budget: int) -> int:
        return int(state.run(iterations, budget))

    def solution(self, problem: SlackSVM, state: Any) -> Solution:
        w, b = state.answer()
        return Solution(w, b, state.dual_weights())

    def iterations(self, problem: SlackSVM) -> int:
        n = int(np.count_nonzero(problem.s))
        return math.ceil((self.constant / self.eps) ** 2 * math.log(n))

    def promise(self, problem: SlackSVM) -> dict[str, float]:
        return {"eps": self.eps, "failure_probability": 0.5} if self.constant >= CONSTANT else {}
