"""SIMBA: sublinear importance-sampling bi-stochastic algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.problems import SlackSVM, Solution
from maxmargin.solvers._game import Game
from maxmargin.solvers.base import Solver


@dataclass(frozen=True)
class Simba(Solver):
    name: ClassVar[str] = "simba"

    rows: int = 1
    columns: int = 1
    eps: float | None = None

    def start(self, problem: SlackSVM, rng: np.random.Generator, warm: Any = None) -> Game:
        if isinstance(warm, Game):
            warm.set_slack(problem)
            return warm
        return Game(problem, rng, self.rows, self.columns, self.iterations(problem) or 0, False)

    def step(self, problem: SlackSVM, state: Game, iterations: int, budget: int) -> int:
        return state.play(iterations, budget)

    def solution(self, problem: SlackSVM, state: Game) -> Solution:
        return Solution(state.direction(), state.mean_bias(), state.draw_counts())

    def iterations(self, problem: SlackSVM) -> int | None:
        if self.eps is None:
            return None
        return math.ceil(100**2 * self.eps**-2 * math.log(int(np.count_nonzero(problem.s))))
