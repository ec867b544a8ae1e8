"""The base of the linear and the kernel sublinear perceptron: parameters, number of rounds, and promise.

The number of rounds T and the promise are those of Algorithm 1 of Irpan and Kwan (2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.engine.problem import Problem
from maxmargin.engine.solver import Solver, StateT
from maxmargin.svm.slack import SlackSVM

FEWEST_PROVED = 6  # fewest samples with failure probability at most 1/2 in the theorems; see docs/primal_dual.md
PROVED_CONSTANT = 30.0  # T = (constant / eps)^2 log n; below this the survey's last inequality proves nothing


@dataclass(frozen=True)
class SublinearRounds(Solver[SlackSVM, StateT]):
    """T rounds of the game of Irpan and Kwan (2015), Algorithm 1, for a margin within eps of the best."""

    solves: ClassVar[type[Problem]] = SlackSVM

    eps: float = 0.25
    constant: float = PROVED_CONSTANT

    def __post_init__(self) -> None:
        if not 0 < self.eps < 1:
            raise ValueError(f"eps must be between 0 and 1, as margins in the unit ball are; got {self.eps!r}")
        if not self.constant >= 1:
            raise ValueError(f"constant must be at least 1 (the survey: 200, or 30); got {self.constant!r}")

    def iterations(self, problem: SlackSVM) -> int:
        n = int(np.count_nonzero(problem.s))
        return math.ceil((self.constant / self.eps) ** 2 * math.log(n))

    def promise(self, problem: SlackSVM) -> dict[str, float]:
        if self.constant < PROVED_CONSTANT or not is_covered(problem):
            return {}
        return {"eps": self.eps, "failure_probability": 0.5}


def is_covered(problem: SlackSVM) -> bool:
    """Whether the theorems of SIMBA and of the sublinear perceptron cover this problem.

    They assume a slack of at most 1, no bias and no sample weights. The papers say that a bias changes constants, but
    not which ones; with weights, log n would be larger. The probabilities of the theorems hold up to O(1/n), which is
    small enough from six samples on.
    """
    s = problem.s[problem.s > 0]
    return not problem.bias and problem.slack <= 1 and s.size >= FEWEST_PROVED and bool((s == s[0]).all())
