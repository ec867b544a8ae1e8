r"""Pegasos, the primal estimated sub-gradient solver of Shalev-Shwartz, Singer and Srebro (2007).

Problem: the regularised form, as the paper writes it: :math:`\min_w \frac\lambda2|w|^2 + \frac1m\sum_i \ell_i(w)` with
:math:`\lambda = 1/(C\sum_i s_i)` and the mean taken by the sample weights s_i (all 1: m of them). Given: a batch size
k. Returned: w_{T+1}, or an average of w_2, ..., w_{T+1}.

Section 2 of the paper, from w_1 = 0, for t = 1, ..., T:

1. choose A_t, k samples;
2. :math:`\eta_t = 1/(\lambda t)`;
3. :math:`w_{t+1/2} = (1 - \eta_t\lambda) w_t + \frac{\eta_t}{k} \sum_{A_t^+} y x`, over the samples with a loss;
4. :math:`w_{t+1} = \min\{1, 1 / (\sqrt\lambda |w_{t+1/2}|)\}\ w_{t+1/2}`.

The vector w is stored as the triple (v, a, nu) described at the end of section 2. So an iteration takes time in
proportion to the stored entries of its samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.engine.problem import Problem, Solution
from maxmargin.engine.solver import Learned
from maxmargin.svm.linear._online import Descent
from maxmargin.svm.linear.online import OnlineSolver
from maxmargin.svm.losses import Hinge, SquaredHinge
from maxmargin.svm.regularized import RegularizedSVM

FREE_BIASES = ("step", "batch", "search", "feature")


@dataclass(frozen=True)
class Pegasos(OnlineSolver[RegularizedSVM, Descent]):
    r"""Stochastic sub-gradient steps on the loss of a few samples, each step followed by a projection.

    As in the paper: ``Pegasos(order="iid", average=None)``. The projected sub-gradient method: ``Pegasos(batch=None)``.

    Parameters
    ----------
    batch : int or None, default=1
        k, the samples of an iteration; None means all of them.
    order : {"permuted", "iid", "given"}, default="permuted"
        "permuted": all samples in a new random order each pass; "iid": each sample is drawn from all (the paper);
        "given": the order of the data. A sample is visited in proportion to its weight.
    average : float or None, default=3
        The solution is the average of the iterates with weights :math:`t^\text{average}`: 0 is the mean, and larger
        values favour late iterates. None: the last iterate (the paper).
    project : bool, default=True
        Whether to project (step 4).
    free_bias : {"step", "batch", "search", "feature"} or None, default=None
        How a free bias is learned (a penalised bias is the weight of a constant feature). "step", the default: by a
        sub-gradient step of its own, of length :math:`\min\{\eta_t, 1/\sqrt t\}`. "batch", the default if the batch is
        all samples: b is the best bias for the samples of the iteration, which is a biased estimate if they are few.
        "search": b is constant during a pass and then moves by the sign of the mean gradient, in steps that become
        shorter when the sign changes. "feature": b is learned as if it were penalised with `intercept_scaling=1`.

    Notes
    -----
    The paper uses the hinge loss. With the squared hinge loss, the steps are :math:`\eta_t = 1/(\lambda t + L)`, where
    L is the mean curvature of the losses, :math:`2\,\text{mean}|x_i|^2` (which takes a pass over the data); the step of
    a sample is limited so that it does not overshoot margin 1; and the ball of step 4 has the radius
    :math:`1/\sqrt{2\lambda}`.

    The steps of b are not :math:`\eta_t`, because the objective is not strongly convex in b: the first steps would move
    b by up to :math:`1/\lambda`, and later steps may be too short to correct that.

    An iteration reads its samples once; if the batch is all samples, it reads those with a loss twice.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro (2007), Pegasos: Primal Estimated sub-GrAdient SOlver for SVM.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import RegularizedSVM
    >>> from maxmargin.solvers import Pegasos, solve
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(500) < 0.5, -1.0, 1.0)
    >>> X = rng.normal(size=(500, 20)) + 0.5 * y[:, None]
    >>> result = solve(RegularizedSVM(X, y, C=0.1), Pegasos(), max_iter=20_000, random_state=0)
    >>> result.certificate.relative_gap < 0.1
    True
    """

    name: ClassVar[str] = "pegasos"
    solves: ClassVar[type[Problem]] = RegularizedSVM

    batch: int | None = 1
    order: str = "permuted"
    average: float | None = 3.0
    project: bool = True
    free_bias: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch is not None and not (isinstance(self.batch, int) and self.batch >= 1):
            raise ValueError(f"batch must be a whole number of at least 1, or None for all rows; got {self.batch!r}")
        if self.average is not None and not self.average >= 0:
            raise ValueError(f"average must be at least 0, or None for the last iterate; got {self.average!r}")
        if self.free_bias is not None and self.free_bias not in FREE_BIASES:
            raise ValueError(f"free_bias must be None or one of {', '.join(FREE_BIASES)}; got {self.free_bias!r}")
        if self.free_bias == "batch" and self.batch == 1:
            raise ValueError('free_bias="batch" cannot tell the best bias from a batch of one row: give a larger batch')

    def deterministic(self, problem: RegularizedSVM) -> bool:
        return self.order == "given" or self.iterations_per_pass(problem) == 1  # all rows at once

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> Descent:
        if not isinstance(problem.loss, Hinge | SquaredHinge):
            raise TypeError(f"pegasos knows the losses hinge and squared_hinge; got {problem.loss!r}")
        if isinstance(warm, Descent):
            warm.set_C(problem)
            return warm
        bias, feature = self._bias(problem)
        learned = warm if isinstance(warm, Learned) else None
        return Descent(problem, rng, self.order, self.batch or 0, feature, self.average, learned, bias, self.project)

    def _bias(self, problem: RegularizedSVM) -> tuple[str, float]:
        """How b is updated, or the value of the constant feature whose weight b is; the other one is empty or 0."""
        if not problem.free_bias:
            return "", problem.bias_feature
        chosen = self.free_bias or ("step" if self.batch else "batch")
        return ("", 1.0) if chosen == "feature" else (chosen, 0.0)

    def solution(self, problem: RegularizedSVM, state: Descent) -> Solution:
        w, b, _ = state.mean()
        return Solution(w, b, state.dual_weights(), w if state.own else None)

    def iterations_per_pass(self, problem: RegularizedSVM) -> int:
        return math.ceil(super().iterations_per_pass(problem) / self.batch) if self.batch else 1

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return max(1000, 20 * self.iterations_per_pass(problem))
