r"""The online perceptron on a kernel, as in section 4.5 of Cotter, Shalev-Shwartz and Srebro (2012).

Problem: the slack form, for which it finds a direction with few errors, not the largest margin. Given: the order of the
rows. Returned: w after one pass or several, or the mean of w over all visits. The algorithm, from w = 0: visit the
rows; if :math:`y_i\langle w, \phi(x_i)\rangle \le 0`, :math:`w \leftarrow w + y_i \phi(x_i)`.

M mistakes take at most M n kernel evaluations: a mistake costs the row of K of its sample, unless the row is cached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.core.types import Indices, Vector
from maxmargin.engine.problem import Solution, Trait, length
from maxmargin.engine.solver import Step
from maxmargin.svm.kernel.visits import Order, Sum, Visits
from maxmargin.svm.passes import PerceptronPasses
from maxmargin.svm.slack import SlackSVM


class Mistakes(Visits):
    """The state of the perceptron: w as a sum of samples in the kernel's space, not yet divided by the scale."""

    def __init__(self, problem: SlackSVM, order: Order, average: bool) -> None:
        super().__init__(problem, order)
        self.sum = Sum(self.K, average)
        self.bias, self.scale = float(problem.bias), problem.scale
        self.offset = 0.0  # the sum of the coefficients, the weight of the constant feature
        self.mistakes = 0

    def changes(self, rows: Indices) -> Vector:
        products = self.sum.f[rows] / self.scale**2 + self.bias * self.offset
        return np.where(self.y[rows] * products <= 0, self.y[rows], 0.0)

    def learn(self, numbers: Indices, change: Vector) -> None:
        self.mistakes += 1
        self.offset += float(change[0])
        self.sum.add(numbers, change)

    def advance(self, rows: Indices) -> None:
        super().advance(rows)
        self.sum.count(*np.ones((2, len(rows))))


@dataclass(frozen=True)
class KernelPerceptron(PerceptronPasses[Mistakes]):
    """The online perceptron on a kernel: adds misclassified samples to w, one at a time.

    For parameters and notes, see :class:`maxmargin.solvers.Perceptron`.

    References
    ----------
    Cotter, Shalev-Shwartz, Srebro (2012), The Kernelized Stochastic Batch Perceptron, section 4.5.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SlackSVM, solve
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.kernels.functions import Rbf
    >>> from maxmargin.solvers import KernelPerceptron
    >>> K = KernelMatrix(np.array([[0.0], [1.0], [3.0]]), Rbf(gamma=1.0))
    >>> problem = SlackSVM(K, [1, -1, 1], slack=0.0, bias=False)
    >>> result = solve(problem, KernelPerceptron(passes=2, order="given"), certify=False)
    >>> result.status, result.n_iter, result.state.mistakes, result.reads["learning"]
    ('finished', 6, 3, 9)
    """

    name: ClassVar[str] = "perceptron"
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.KERNEL})

    def start(self, problem: SlackSVM, rng: np.random.Generator, warm: object = None) -> Mistakes:
        if isinstance(warm, Mistakes):
            return warm
        return Mistakes(problem, Order(problem.s, self.order, rng), self.average)

    def step(self, problem: SlackSVM, state: Mistakes, iterations: int, budget: float) -> Step:
        return Step.of(state.run(iterations, budget), iterations)

    def solution(self, problem: SlackSVM, state: Mistakes) -> Solution:
        w = state.sum.answer(1.0 / problem.scale)
        p = problem.scale * problem.y * w.beta
        size = length(w) or 1.0
        return Solution(w / size, state.bias * float(problem.y @ p) / size, p)
