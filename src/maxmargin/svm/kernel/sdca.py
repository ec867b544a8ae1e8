r"""Stochastic dual coordinate ascent on a kernel, as in section 4.4 of Cotter, Shalev-Shwartz and Srebro (2012).

Problem: the regularised form with C, either loss, any kind of bias. Given: the order of the samples. Returned: w as an
Expansion, b, and the dual point alpha that proves how good they are.

A visit to sample i maximises the dual over :math:`\alpha_i` alone: with :math:`f = K(\alpha y)` and
:math:`c = y_i(f_i + b)`,

.. math:: \alpha_i \leftarrow \alpha_i + \frac{1 - c - q_i\alpha_i}{K_{ii} + \rho + q_i}
   \quad\text{clipped to}\quad [0, U_i] ,

where U and q come from the loss, and :math:`b = b_0 + \rho\sum_i\alpha_i y_i`, with :math:`b_0 = \rho = 0` without a
bias, and :math:`b_0 = 0, \rho = B^2` for a penalised one. A free bias is found by the method of multipliers: its
distance from a centre b_0 is penalised, and the centre moves to the bias after each sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.core.types import Indices
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Solver, Step
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.rows import kernel_rows
from maxmargin.svm.kernel._smo import RowFinder, visit
from maxmargin.svm.kernel.visits import Order, change_of_C
from maxmargin.svm.passes import check_order
from maxmargin.svm.regularized import RegularizedSVM


class Ascent:
    """The state of SDCA: the dual point alpha, the products f = K(alpha y), and the bias."""

    def __init__(self, problem: RegularizedSVM, order: Order) -> None:
        self.K, self.y, self.order = kernel_rows(problem.X), problem.y, order
        self.diagonal = problem.sq_norms()
        self.alpha, self.f = np.zeros((2, self.y.size))
        self.b = self.centre = 0.0
        self.t = 0
        self.set_problem(problem)

    def set_problem(self, problem: RegularizedSVM) -> None:
        """Take the bounds, the curvatures and the penalty of the bias from a problem."""
        self.problem = problem
        self.upper, self.q = problem.loss.dual_box(problem.u)
        self.rho = float(self.diagonal[problem.s > 0].mean()) if problem.free_bias else problem.bias_feature**2

    def rescale(self, problem: RegularizedSVM, factor: float) -> None:
        """Continue with a problem of `factor` times the C: scale the dual point likewise."""
        if factor == 1:
            return
        bounded = self.alpha >= self.upper
        self.set_problem(problem)
        self.alpha = np.where(bounded, self.upper, np.minimum(factor * self.alpha, self.upper))
        self.f *= factor
        self.b = self.centre + self.rho * self.imbalance

    @property
    def imbalance(self) -> float:
        """The sum of alpha_i y_i."""
        return float(self.alpha @ self.y)

    @property
    def left(self) -> int:
        """The number of visits up to the end of the sweep."""
        return self.order.rows.size - self.t % self.order.rows.size

    def run(self, iterations: int, budget: float) -> int:
        """Make up to `iterations` visits with at most `budget` kernel evaluations; return how many were made."""
        done, end = 0, self.K.ledger.entries_read + budget
        while done < iterations:
            made, missing = self.visit(min(self.left, iterations - done))
            done += made
            if missing.size:
                if self.K.missing(missing).sum() > end - self.K.ledger.entries_read:
                    break
                self.K.prefetch(missing)
        return done

    def visit(self, most: int) -> tuple[int, Indices]:
        """Make up to `most` visits of a sweep; return how many, and the row that the next visit lacks in the cache."""
        cached = self.K.lookup()
        dual = self.y, self.upper, self.q, self.diagonal, self.alpha, self.f, self.b, self.rho
        made, changed, missing, self.b = visit(cached.rows, RowFinder(cached), self.order.ahead(most), *dual)
        self.K.count_hits(changed)
        self.t += made
        self.order.advance(made)
        if made and self.left == self.order.rows.size and self.problem.free_bias:
            self.centre = self.centre + self.rho * self.imbalance
            self.b = self.centre + self.rho * self.imbalance
        return made, np.array([missing] if missing >= 0 else [], dtype=np.int64)

    def gap(self) -> float:
        """The relative gap, from f; with a free bias, plus |b sum alpha_i y_i| for classes that are not balanced."""
        alpha, square, imbalance = self.alpha, float(self.alpha * self.y @ self.f), self.imbalance
        penalty = 0.0 if self.problem.free_bias else self.rho * imbalance**2
        dual = float(alpha.sum() - 0.5 * self.q @ alpha**2) - 0.5 * (square + penalty)
        losses = float(self.problem.u @ self.problem.loss.value(self.y * (self.f + self.b)))
        primal = 0.5 * (square + penalty) + losses
        return (primal - dual + self.problem.free_bias * abs(self.b * imbalance)) / (abs(primal) or 1.0)


@dataclass(frozen=True)
class KernelSdca(Solver[RegularizedSVM, Ascent]):
    r"""Dual coordinate ascent on a kernel (Hsieh et al. 2008; Shalev-Shwartz and Zhang 2013).

    An iteration visits one sample and maximises the dual over its variable :math:`\alpha_i` alone. A visit that changes
    the variable costs the row of K of the sample, unless the row is cached.

    Parameters
    ----------
    order : {"permuted", "iid", "given"}, default="permuted"
        "permuted": all samples in a new random order each sweep; "iid": each sample is drawn from all (Cotter et al.);
        "given": the order of the data.

    References
    ----------
    Cotter, Shalev-Shwartz, Srebro (2012), The Kernelized Stochastic Batch Perceptron, section 4.4.
    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008), A Dual Coordinate Descent Method for Large-scale Linear SVM.
    Shalev-Shwartz, Zhang (2013), Stochastic Dual Coordinate Ascent Methods for Regularized Loss Minimization.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import RegularizedSVM, solve
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.kernels.functions import Rbf
    >>> from maxmargin.solvers import KernelSdca
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where((X**2).sum(axis=1) < 1, 1.0, -1.0)
    >>> problem = RegularizedSVM(KernelMatrix(X, Rbf(gamma=1.0)), y, C=1.0)
    >>> result = solve(problem, KernelSdca(), tol=1e-3, random_state=0)
    >>> result.status, result.certificate.relative_gap <= 1e-3
    ('tol', True)
    """

    name: ClassVar[str] = "sdca"
    solves: ClassVar[type[Problem]] = RegularizedSVM
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.KERNEL})
    visits_samples: ClassVar[bool] = True
    default_tol: ClassVar[float | None] = 1e-3

    order: str = "permuted"

    def __post_init__(self) -> None:
        check_order(self.order)

    def deterministic(self, problem: RegularizedSVM) -> bool:
        return self.order == "given"

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> Ascent:
        if isinstance(warm, Ascent):
            factor = change_of_C(warm.problem, problem)
            if factor:
                warm.rescale(problem, factor)
                return warm
        return Ascent(problem, Order(np.where(problem.s > 0, 1.0, 0.0), self.order, rng))

    def step(self, problem: RegularizedSVM, state: Ascent, iterations: int, budget: float) -> Step:
        return Step.of(state.run(iterations, budget), iterations)

    def solution(self, problem: RegularizedSVM, state: Ascent) -> Solution:
        alpha = state.alpha.copy()
        w = Expansion(alpha * problem.y, state.f.copy())
        return Solution(w, state.b, alpha, w)

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 100 * int(np.count_nonzero(problem.s))

    def next_check(self, problem: RegularizedSVM, state: Ascent, done: int) -> int:
        """At the end of a sweep."""
        return done + state.left

    def estimated_gap(self, problem: RegularizedSVM, state: Ascent) -> float:
        return state.gap()
