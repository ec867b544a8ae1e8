r"""SIMBA, the sublinear importance-sampling bi-stochastic algorithm of Hazan, Koren and Srebro (2011).

It is Algorithm 1 of that paper, with the adaptive rates of its section 6; Irpan and Kwan (2015) survey it as
Algorithm 4.

Problem: the slack form, problem (3) of the paper: the largest margin at mean slack nu. Given: the data by rows and by
columns. Returned: a direction w in the unit ball. An iteration reads about a row and a column instead of all of the
data.

The rounds of Algorithm 1, line by line and in its symbols, are in `_game.pyx`; the variant that tracks the responses is
in `_simba.pyx`, with its own symbols.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.engine.problem import Problem, Solution
from maxmargin.engine.solver import Solver, Step
from maxmargin.svm.linear._game import Game
from maxmargin.svm.linear._simba import Tracker
from maxmargin.svm.slack import SlackSVM
from maxmargin.svm.sublinear_rounds import is_covered

METHODS = ("tracked", "paper")


@dataclass(frozen=True)
class Simba(Solver[SlackSVM, Game | Tracker]):
    r"""SIMBA, in a variant that reads fewer entries (the default), or exactly as in the paper.

    Parameters
    ----------
    method : {"tracked", "paper"}, default="tracked"
        "paper" is Algorithm 1: rows are drawn by multiplicative weights, which are updated by one-column estimates of
        the responses. "tracked" keeps the exact responses to a vector near the direction, draws rows below their water
        level, and moves the direction by the amount that a row falls short of the margin. With either method, the gap
        goes to zero as more entries are read. `docs/simba.md` compares the methods.
    columns : float, default=1
        With "paper", the columns read per round. With "tracked", the entries read in columns per entry read in wet rows
        (rows below their water level).
    rows : int, default=1
        With "paper", the rows read per round.
    eps : float or None, default=None
        With "paper": run for :math:`T = 100^2 \varepsilon^{-2} \log n` rounds at the constant rates of Algorithm 1,
        after which the value is within eps of the best with probability at least 1/2 (Theorem 4.3, for problems without
        a bias and without sample weights). None: the adaptive rates of section 6, :math:`\eta_t =
        \sqrt{\log(n)/t}`, until a stop rule ends the run.
    lagged : bool, default=False
        With "paper": whether w_t is taken before row i_t is added to u, as in Algorithm 4 of Irpan and Kwan (2015), or
        after, as in Algorithm 1 of Hazan, Koren and Srebro (2011). T and the rates are the same in both.
    tolerance : float, default=0
        With "paper": how far the logarithms of weights may be on the wrong side of the boundary of the slack step. The
        exact step, 0, moves many of the n weights over the boundary in each round, as the weights of all rows with
        slack fall at once; 0.1 keeps at least 90 % of the gain of the exact step and moves few weights.
    average : float, default=5
        With "tracked": the solution is the average of the iterates with weights :math:`t^\text{average}`.

    Notes
    -----
    Both papers also return the mean of the slacks :math:`\xi_t`. With "paper", `mean_slack()` of the state of a result
    returns it. The certificate does not use it: it judges w with the best slacks for that w.

    References
    ----------
    Hazan, Koren, Srebro (2011), Beating SGD: Learning SVMs in Sublinear Time.
    Irpan, Kwan (2015), Sublinear Algorithms for Optimization and Machine Learning, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SlackSVM, solve
    >>> from maxmargin.solvers import Simba
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(500) < 0.5, -1.0, 1.0)
    >>> X = rng.normal(size=(500, 300)) + 0.2 * y[:, None]
    >>> problem = SlackSVM(X, y, slack=0.01)
    >>> result = solve(problem, Simba(), budget=50_000, random_state=0)
    >>> result.reads["learning"] <= 50_000 < X.size
    True
    """

    name: ClassVar[str] = "simba"
    solves: ClassVar[type[Problem]] = SlackSVM
    visits_samples: ClassVar[bool] = True

    method: str = "tracked"
    columns: float = 1
    rows: int = 1
    eps: float | None = None
    lagged: bool = False
    tolerance: float = 0.0
    average: float = 5.0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {self.method!r}")
        if self.eps is not None and (self.method != "paper" or not 0 < self.eps < 1):
            raise ValueError(f'eps goes with method="paper" and must be between 0 and 1; got {self.eps!r}')
        if not (isinstance(self.rows, int) and self.rows >= 1) or (self.rows != 1 and self.method != "paper"):
            raise ValueError(
                f'rows must be a whole number of at least 1, and is 1 but for method="paper"; got {self.rows!r}'
            )
        if not self.columns > 0 or (self.method == "paper" and self.columns != int(self.columns)):
            raise ValueError(f'columns must be positive, and whole with method="paper"; got {self.columns!r}')
        if self.lagged and self.method != "paper":
            raise ValueError('lagged goes with method="paper"')
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance must be at least 0; got {self.tolerance!r}")
        if not self.average >= 0:
            raise ValueError(f"average must be at least 0; got {self.average!r}")

    def start(self, problem: SlackSVM, rng: np.random.Generator, warm: object = None) -> Game | Tracker:
        if isinstance(warm, Game | Tracker):
            warm.set_slack(problem)
            return warm
        if self.method == "tracked":
            return Tracker(problem, rng, self.columns, self.average)
        horizon = self.iterations(problem) or 0
        return Game(problem, rng, self.rows, int(self.columns), horizon, self.lagged, self.tolerance)

    def step(self, problem: SlackSVM, state: Game | Tracker, iterations: int, budget: float) -> Step:
        return Step.of(state.run(iterations, budget), iterations)

    def solution(self, problem: SlackSVM, state: Game | Tracker) -> Solution:
        return Solution(*state.answer(), state.dual_weights())

    def iterations(self, problem: SlackSVM) -> int | None:
        if self.eps is None:
            return None
        n = int(np.count_nonzero(problem.s))
        return math.ceil(100**2 * self.eps**-2 * math.log(n))

    def default_iterations(self, problem: SlackSVM) -> int:
        return max(1000, 5 * problem.y.size)

    def promise(self, problem: SlackSVM) -> dict[str, float]:
        """The promise of Theorem 4.3, which requires the exact slack step."""
        if self.eps is None or self.tolerance > 0 or not is_covered(problem):
            return {}
        return {"eps": self.eps, "failure_probability": 0.5}
