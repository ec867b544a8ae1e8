"""What solvers that go through the samples one by one share: the order, and the perceptron's number of passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.engine.problem import Problem
from maxmargin.engine.solver import Solver, StateT
from maxmargin.svm.slack import SlackSVM

ORDERS = ("permuted", "given", "iid")


def check_order(order: str) -> None:
    """Refuse an order that does not exist."""
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}; got {order!r}")


@dataclass(frozen=True)
class PerceptronPasses(Solver[SlackSVM, StateT]):
    """The parameters of the perceptron, on features or on a kernel, and how long it runs."""

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
