"""The orders in which solvers visit samples, and the parameters that both perceptrons share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.engine.problem import Problem
from maxmargin.engine.solver import Solver, StateT
from maxmargin.svm.slack import SlackSVM

ORDERS = ("permuted", "given", "iid")


def check_order(order: str) -> None:
    """Raise a ValueError for an unknown order."""
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}; got {order!r}")


@dataclass(frozen=True)
class PerceptronPasses(Solver[SlackSVM, StateT]):
    """The base of the linear and the kernel perceptron: their parameters and their number of iterations."""

    solves: ClassVar[type[Problem]] = SlackSVM
    optimises: ClassVar[bool] = False
    visits_samples: ClassVar[bool] = True

    passes: int | None = None
    order: str = "permuted"
    average: bool = True

    def __post_init__(self) -> None:
        check_order(self.order)
        if self.passes is not None and not (isinstance(self.passes, int) and self.passes >= 1):
            raise ValueError(f"passes must be a whole number of at least 1, or None; got {self.passes!r}")

    def deterministic(self, problem: SlackSVM) -> bool:
        return self.order == "given"

    def iterations(self, problem: SlackSVM) -> int | None:
        return None if self.passes is None else self.passes * self.iterations_per_pass(problem)

    def default_iterations(self, problem: SlackSVM) -> int:
        return self.iterations_per_pass(problem)
