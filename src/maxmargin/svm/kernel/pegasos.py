r"""Pegasos on a kernel (Shalev-Shwartz, Singer, Srebro and Cotter 2011, section 4).

The abstract of Shalev-Shwartz, Singer and Srebro (2007) mentions it; section 4.2 of Cotter, Shalev-Shwartz and Srebro
(2012) compares the Stochastic Batch Perceptron with it.

Problem: the regularised form with C and the hinge, as the paper writes it:
:math:`\min_w \frac\lambda2|w|^2 + \frac1m\sum_i \ell_i(w)` with :math:`\lambda = 1/(C\sum_i s_i)` and the mean taken by
the sample weights s_i (all 1: m of them). Given: a batch size k. Returned: w_{T+1}, or an average of w_2, ..., w_{T+1}.

From w_1 = 0, for t = 1, ..., T, with :math:`\eta_t = 1/(\lambda t)`:

1. choose A_t, k samples;
2. :math:`w_{t+1} = (1 - \eta_t\lambda) w_t + \frac{\eta_t}{k} \sum_{A_t^+} y \phi(x)`, over the samples with a loss;
3. if asked for, :math:`w_{t+1} \leftarrow \min\{1, 1 / (\sqrt\lambda |w_{t+1}|)\}\ w_{t+1}`, the projection of the
   paper of 2007, which the paper of 2011 leaves out on a kernel.

So :math:`w_{t+1} = v_{t+1} / t` for a sum v of rows that grows by :math:`y\phi(x) / (\lambda k)` for each sample with a
loss: a step costs the rows of K of these samples, unless they are cached. A projection shrinks v. It is needed only
after a sample with a loss, because w becomes shorter in all other iterations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.core.types import Indices, Vector
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Solver, Step
from maxmargin.svm.kernel.visits import Order, Sum, Visits, one_by_one
from maxmargin.svm.losses import Hinge
from maxmargin.svm.passes import check_order
from maxmargin.svm.regularized import RegularizedSVM


class Descent(Visits):
    """The state of Pegasos: v, its average, and the bias."""

    def __init__(self, problem: RegularizedSVM, order: Order, batch: int, average: float | None, project: bool) -> None:
        super().__init__(problem, order, batch)
        self.average, self.project = average, project
        self.sum = Sum(self.K, average is not None)
        self.free_bias = problem.free_bias
        self.feature2 = problem.bias_feature**2  # a penalised bias adds this to every entry of K
        self.offset = 0.0  # the sum of the coefficients of v
        self.b = self.b_sum = 0.0  # a free bias, and its weighted sum for the average
        self.set_C(problem)

    def set_C(self, problem: RegularizedSVM) -> None:
        """Use the C of this problem from now on, which changes the length of the steps."""
        self.regularization = 1.0 / (problem.C * float(problem.s.sum()))

    def changes(self, rows: Indices) -> Vector:
        t = np.maximum(1.0, self.t + np.arange(len(rows)))[:, None]  # w_t is v / (t - 1), and w_1 = v_1 = 0
        products = (self.sum.f[rows] + self.feature2 * self.offset) / t + self.b
        y = self.y[rows]
        return np.where(y * products < 1, y / (self.batch * self.regularization), 0.0)

    def learn(self, numbers: Indices, change: Vector) -> None:
        self.sum.add(numbers, change)
        total = float(change.sum())
        self.offset += total
        t = self.t + 1
        if self.free_bias:
            self.b += min(1.0 / t, self.regularization / math.sqrt(t)) * total
        if self.project:
            size = math.sqrt(max(0.0, float(self.sum.beta @ self.sum.f)) + self.feature2 * self.offset**2)
            longest = t / math.sqrt(self.regularization)
            if size > longest:
                self.sum.shrink(longest / size)
                self.offset *= longest / size

    def advance(self, rows: Indices) -> None:
        if self.average is not None:
            t = self.t + 1.0 + np.arange(len(rows))
            weights = np.asarray(t**self.average, dtype=np.float64)
            self.sum.count(weights / t, weights)
            self.b_sum = one_by_one(self.b_sum, self.b * weights)
        super().advance(rows)

    def solution(self) -> Solution:
        if self.average is None:
            w, b = self.sum.answer(1.0 / max(1, self.t)), self.b
        else:
            w, b = self.sum.answer(), self.b_sum / (self.sum.G or 1.0)
        return Solution(w, b + self.feature2 * float(w.beta.sum()), self.y * w.beta, w)


@dataclass(frozen=True)
class KernelPegasos(Solver[RegularizedSVM, Descent]):
    r"""Pegasos on a kernel: stochastic sub-gradient steps on the loss of a few samples.

    As in the paper: ``KernelPegasos(order="iid", average=None)``.

    Parameters
    ----------
    batch : int, default=1
        k, the samples of an iteration.
    order : {"permuted", "iid", "given"}, default="permuted"
        "permuted": all samples in a new random order each pass; "iid": each sample is drawn from all (the paper);
        "given": the order of the data. A sample is visited in proportion to its weight.
    average : float or None, default=3
        The solution is the average of the iterates with weights :math:`t^\text{average}`: 0 is the mean, and larger
        values favour late iterates. None: the last iterate (the paper).
    project : bool, default=False
        Whether to project (step 3). A projection takes time in proportion to the number of samples, but no kernel
        evaluations.

    Notes
    -----
    A free bias has sub-gradient steps of its own, of :math:`\min\{\eta_t, 1/\sqrt t\}`; see
    :class:`~maxmargin.solvers.Pegasos`.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter (2011), Pegasos: Primal Estimated sub-GrAdient SOlver for SVM.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import RegularizedSVM, solve
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.kernels.functions import Rbf
    >>> from maxmargin.solvers import KernelPegasos
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where((X**2).sum(axis=1) < 1, 1.0, -1.0)
    >>> problem = RegularizedSVM(KernelMatrix(X, Rbf(gamma=1.0)), y, C=1.0, bias=False)
    >>> result = solve(problem, KernelPegasos(), max_iter=6000, random_state=0)
    >>> result.certificate.relative_gap < 0.1
    True
    """

    name: ClassVar[str] = "pegasos"
    solves: ClassVar[type[Problem]] = RegularizedSVM
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.KERNEL})
    visits_samples: ClassVar[bool] = True

    batch: int = 1
    order: str = "permuted"
    average: float | None = 3.0
    project: bool = False

    def __post_init__(self) -> None:
        check_order(self.order)
        if not (isinstance(self.batch, int) and self.batch >= 1):
            raise ValueError(f"batch must be a whole number of at least 1; got {self.batch!r}")
        if self.average is not None and not self.average >= 0:
            raise ValueError(f"average must be at least 0, or None for the last iterate; got {self.average!r}")

    def deterministic(self, problem: RegularizedSVM) -> bool:
        return self.order == "given"

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> Descent:
        if not isinstance(problem.loss, Hinge):
            raise ValueError(f"pegasos on a kernel has the hinge loss; got {problem.loss.name!r}, which sdca takes too")
        if isinstance(warm, Descent):
            warm.set_C(problem)
            return warm
        return Descent(problem, Order(problem.s, self.order, rng), self.batch, self.average, self.project)

    def step(self, problem: RegularizedSVM, state: Descent, iterations: int, budget: float) -> Step:
        return Step.of(state.run(iterations, budget), iterations)

    def solution(self, problem: RegularizedSVM, state: Descent) -> Solution:
        return state.solution()

    def iterations_per_pass(self, problem: RegularizedSVM) -> int:
        return math.ceil(super().iterations_per_pass(problem) / self.batch)

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return max(1000, 20 * self.iterations_per_pass(problem))
