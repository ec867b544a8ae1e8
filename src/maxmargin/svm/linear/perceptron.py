r"""The online perceptron of Rosenblatt (1958), as in section 4.5 of Cotter, Shalev-Shwartz and Srebro (2012).

Problem: the slack form, for which it finds a direction with few errors, not the largest margin. Given: the order of the
rows. Returned: w after one pass or several, or the mean of w over all visits. The algorithm, from w = 0: visit the
rows; if :math:`y_i\langle w, x_i\rangle \le 0`, :math:`w \leftarrow w + y_i x_i`.

On separable data with rows in the unit ball it makes at most :math:`1/\gamma^2` mistakes, where :math:`\gamma` is the
largest margin of any w of norm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.engine.problem import Solution
from maxmargin.engine.solver import Learned
from maxmargin.svm.linear._online import Mistakes
from maxmargin.svm.linear.online import OnlineSolver
from maxmargin.svm.passes import PerceptronPasses
from maxmargin.svm.slack import SlackSVM


@dataclass(frozen=True)
class Perceptron(PerceptronPasses[Mistakes], OnlineSolver[SlackSVM, Mistakes]):
    """The online perceptron: adds misclassified samples to w, one at a time.

    Parameters
    ----------
    passes : int or None, default=None
        The number of passes over the rows. None: passes until a stop rule ends the run, or one pass if there is no
        rule. More than one pass may overfit data that is not separable.
    order : {"permuted", "given", "iid"}, default="permuted"
        "permuted": the rows in a new random order each pass; "given": in the order of the data; "iid": each row is
        drawn from all rows. A row is visited in proportion to its weight.
    average : bool, default=True
        Whether the solution is the mean of w over all visits, or the last w.

    Notes
    -----
    If the problem has a bias, the bias is the weight of a constant feature, which is 1 for every row of the scaled
    data. The algorithm does not use the slack: the certificate gives the margin at that slack, which may be far from
    the best.

    References
    ----------
    Cotter, Shalev-Shwartz, Srebro (2012), The Kernelized Stochastic Batch Perceptron, section 4.5.
    Freund, Schapire (1999), Large Margin Classification Using the Perceptron Algorithm (for the average).

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SlackSVM, solve
    >>> from maxmargin.solvers import Perceptron
    >>> problem = SlackSVM(np.array([[1.0, 0.2], [-1.0, 0.1]]), [1, -1], slack=0.0, bias=False)
    >>> result = solve(problem, Perceptron(passes=2, order="given"))
    >>> result.status, result.n_iter, result.state.mistakes
    ('finished', 4, 1)
    """

    name: ClassVar[str] = "perceptron"

    def start(self, problem: SlackSVM, rng: np.random.Generator, warm: object = None) -> Mistakes:
        if isinstance(warm, Mistakes):
            return warm
        average = 0.0 if self.average else None
        learned = warm if isinstance(warm, Learned) else None
        return Mistakes(problem, rng, self.order, 1, float(problem.bias), average, learned)

    def solution(self, problem: SlackSVM, state: Mistakes) -> Solution:
        w, b, _ = state.mean()
        size = float(np.linalg.norm(w)) or 1.0
        return Solution(w / size, b / size, state.dual_weights())
