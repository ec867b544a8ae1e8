r"""The sublinear perceptron of Clarkson, Hazan and Woodruff, as in Algorithm 1 of Irpan and Kwan (2015).

Problem: the largest margin of separable data, :math:`\sigma = \max_{|x| \le 1} \min_i A_i x`, the slack form with slack
0; A_i is y_i times row i. Given: eps. Returned: the mean of x_t, for which :math:`\min_i A_i \bar x \ge
\sigma - \varepsilon` with probability at least 1/2, after T rounds that read a row and a column each.

The rounds are in `_game.pyx`. Symbols here and in the survey: w is its x, u its y, q its w.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.engine.problem import Solution, Trait
from maxmargin.engine.solver import Step
from maxmargin.svm.linear._game import Game
from maxmargin.svm.slack import SlackSVM
from maxmargin.svm.sublinear_rounds import SublinearRounds


@dataclass(frozen=True)
class SublinearPerceptron(SublinearRounds[Game]):
    r"""The sublinear perceptron, Algorithm 1 of the survey of Irpan and Kwan (2015), in the compiled rounds of SIMBA.

    Parameters
    ----------
    eps : float, default=0.25
        The margin of the solution may be this far below the best margin of the scaled data.
    constant : float, default=30
        The number of rounds is :math:`T = \text{constant}^2 \varepsilon^{-2} \log n`. The survey uses 200 and says that
        about 30 should suffice. It does: the last inequality of the survey bounds the error by
        :math:`23\sqrt{\log n / T} + 2\sqrt{2/T}`, which is below eps if the constant is at least 30. With smaller
        constants, nothing is promised.

    Notes
    -----
    If the problem has a bias, it is chosen as in SIMBA: b_t = sign(p_t'y). The theorem covers problems without a bias
    and without sample weights; for others, nothing is promised.

    References
    ----------
    Irpan, Kwan (2015), Sublinear Algorithms for Optimization and Machine Learning, sections 2.2 to 2.4.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SlackSVM, solve
    >>> from maxmargin.solvers import SublinearPerceptron
    >>> X = np.array([[1.0, 0.2], [0.9, -0.1], [0.8, 0.0], [-1.0, 0.1], [-0.9, 0.2], [-0.7, -0.1]])
    >>> problem = SlackSVM(X, [1, 1, 1, -1, -1, -1], slack=0.0, bias=False)
    >>> result = solve(problem, SublinearPerceptron(eps=0.5), random_state=0)
    >>> result.status, result.promise["failure_probability"]
    ('finished', 0.5)
    """

    name: ClassVar[str] = "sublinear_perceptron"
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.FEATURES, Trait.SEPARABLE})
    visits_samples: ClassVar[bool] = True

    def start(self, problem: SlackSVM, rng: np.random.Generator, warm: object = None) -> Game:
        if isinstance(warm, Game):
            return warm
        return Game(problem, rng, rows=1, columns=1, horizon=self.iterations(problem), lagged=True)

    def step(self, problem: SlackSVM, state: Game, iterations: int, budget: float) -> Step:
        return Step.of(state.run(iterations, budget), iterations)

    def solution(self, problem: SlackSVM, state: Game) -> Solution:
        w, b = state.answer()
        return Solution(w, b, state.dual_weights())
