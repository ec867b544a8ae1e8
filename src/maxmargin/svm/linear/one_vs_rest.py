r"""Many binary problems on samples that they share, each by Newton's method, in few compiled calls.

Problem: the regularised form with C, either loss, any kind of bias, for each of several classes against the rest.
Given: a small dense matrix and the class of each sample. Returned: for each problem its w and b, and what a certificate
is made of.

This is the path of small problems. A class is separated from the rest in microseconds, so that nothing may be made for
each class in Python: problems are entries of a few arrays, and so are their results. The method is that of
:class:`maxmargin.solvers.Newton` on all samples from the first iteration on. There all of them are between their
bounds, and the Hessian is the same for all problems but for the weights of the classes: it is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np

from maxmargin.core.threads import run_parallel
from maxmargin.core.types import Indices, Vector
from maxmargin.svm.linear._one_vs_rest import LANES, RESULT_COLUMNS, NewtonRun
from maxmargin.svm.losses import Loss, loss_of

# Multiply-adds that one compiled call may do: it takes about 50 ms, which is how long Ctrl-C may have to wait.
OPERATIONS_PER_CALL = 100_000_000
# Entries of the matrix, counted once for each problem, up to which the problems of one group are solved by one thread:
# starting another one takes as long as they do.
LEAST_GROUP = 50_000
GROUPS_PER_THREAD = (
    4  # so that threads end at about the same time, though problems take different numbers of iterations
)
ITERATIONS_AFTER_STOP = 1  # of each problem that has not ended when the fit has to stop


@dataclass(frozen=True)
class OneVsRestProblems:
    """Binary problems, each of one class against the rest.

    Attributes
    ----------
    classes : array of shape (n_problems,)
        The class whose samples have the label +1.
    positive_weight, rest_weight : arrays of shape (n_problems,)
        By what the weights of the samples of this class, and of all others, are multiplied.
    """

    classes: Indices
    positive_weight: Vector
    rest_weight: Vector


@dataclass(frozen=True)
class SharedSamples:
    """What all problems need of the samples.

    Attributes
    ----------
    X : array of shape (n, d)
    by_feature : array of shape (d, n_filled)
        The same transposed, the number of samples filled up to a multiple of `LANES` by zeros.
    label : array of shape (n,)
        The class of each sample.
    weights : array of shape (n,)
    norms : array of shape (n_filled,)
        The norms of the rows.
    mean_sq_norm, largest_sq_norm : float
    products : array of shape (d + 1, d + 1)
        The sum of (x_i, 1)(x_i, 1)^T over the samples with weight, times the weights where the loss is smooth; zeros
        in place of the 1 if there is no bias.
    """

    X: Vector
    by_feature: Vector
    label: Indices
    weights: Vector
    norms: Vector
    mean_sq_norm: float
    largest_sq_norm: float
    products: Vector

    @classmethod
    def of(cls, X: Vector, label: Indices, weights: Vector, *, smooth: bool, bias: bool) -> Self:
        """The samples for problems with these weights."""
        n, d = X.shape
        filled = -(-n // LANES) * LANES
        by_feature = np.zeros((d, filled))
        by_feature[:, :n] = X.T
        sq_norms = np.einsum("ij,ij->i", X, X)
        norms = np.zeros(filled)
        np.sqrt(sq_norms, out=norms[:n])
        counts = weights if smooth else (weights > 0).astype(np.float64)
        rows = X if (counts == 1).all() else X * np.sqrt(counts)[:, None]
        products = np.zeros((d + 1, d + 1))
        products[:d, :d] = rows.T @ rows
        if bias:
            products[d, :d] = counts @ X
            products[d, d] = counts.sum()
        return cls(X, by_feature, label, weights, norms, float(sq_norms.mean()), float(sq_norms.max()), products)


@dataclass(frozen=True)
class SolvedProblems:
    """The results of binary problems, an array for each quantity.

    Attributes
    ----------
    coef : array of shape (n_problems, d)
    alpha : array of shape (n_problems, n) or None
        The points of the dual that prove the bounds, where asked for.
    table : array of shape (n_problems, len(RESULT_COLUMNS))
        Its columns are attributes too:

        - bias;
        - value and bound of the objective, with value_rounding and bound_rounding, the allowances for their rounding;
        - sq_norm, :math:`|w|^2`, and hinge_sum, :math:`\\sum_i s_i [1 - c_i]_+`;
        - iterations;
        - least_decision and largest_decision of the samples with weight;
        - status: `TOL`, `MAX_ITER`, `EXHAUSTED` (float64 allows no smaller gap) or `UNFINISHED` (it had to stop).
    """

    coef: Vector
    alpha: Vector | None
    table: Vector

    def __getattr__(self, name: str) -> Vector:
        if name in RESULT_COLUMNS:
            return self.table[:, RESULT_COLUMNS.index(name)]
        raise AttributeError(f"{type(self).__name__} has no {name!r}")


def solve_many(
    X: Vector,
    label: Indices,
    classes: Indices,
    weights: Vector,
    positive_weight: Vector,
    rest_weight: Vector,
    *,
    C: float,
    loss: str | Loss,
    bias: bool = True,
    bias_feature: float = 0.0,
    tol: float,
    max_iter: int,
    threads: int = 1,
    with_alpha: bool = False,
    stop: Callable[[Sequence[int]], bool] = lambda solved: False,
) -> SolvedProblems:
    """Solve the problems of some classes, each against the rest. To be called inside `limit_blas`.

    Parameters
    ----------
    X : array of shape (n, d), float64 in C order
        Up to about 500 features: an iteration solves a system of as many equations.
    label : array of shape (n,)
        The class of each sample.
    classes : array of shape (n_problems,)
        The class of each problem whose samples have the label +1.
    weights : array of shape (n,)
        Weights of the samples, at least 0.
    positive_weight, rest_weight : arrays of shape (n_problems,)
        By what the weights are multiplied, in the class and in the rest.
    C : float
    loss : {"hinge", "squared_hinge"} or Loss
    bias : bool
        Whether there is a bias.
    bias_feature : float
        0: a bias is free. Else B: it is penalised as the weight of one more feature of the value B.
    tol : float
        The relative duality gap to be reached, with allowances for rounding.
    max_iter : int
        Iterations after which a problem ends.
    threads : int
        How many threads share the problems. The results are the same to the bit, whatever the number.
    with_alpha : bool
        Whether the points of the dual are wanted.
    stop : callable
        Called after each compiled call with the problems that it has solved. If it returns True, problems that are not
        solved end soon.

    Returns
    -------
    SolvedProblems

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.svm.linear.one_vs_rest import solve_many
    >>> X, label = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> solved = solve_many(X, label, np.array([1]), np.ones(4), np.ones(1), np.ones(1), C=100.0, loss="hinge",
    ...                     tol=1e-6, max_iter=100)
    >>> solved.coef.round(3), solved.bias.round(3)
    (array([[2.]]), array([-3.]))
    """
    smooth = loss_of(loss).smooth
    problems = OneVsRestProblems(classes, positive_weight, rest_weight)
    samples = SharedSamples.of(X, label, weights, smooth=smooth, bias=bias)
    coef, table = np.empty((classes.size, X.shape[1])), np.empty((classes.size, len(RESULT_COLUMNS)))
    alpha = np.empty((classes.size if with_alpha else 0, X.shape[0]))

    def solve_group(which: Indices) -> None:
        run = NewtonRun(samples, problems, which, C, smooth, bias, bias_feature, tol, max_iter, coef, alpha, table)
        while not run.done:
            before = run.position
            run.advance(OPERATIONS_PER_CALL)
            if stop(which[before : run.position].tolist()):
                run.finish(ITERATIONS_AFTER_STOP)

    groups = _groups(classes.size, X.size, threads)
    run_parallel([partial(solve_group, which) for which in groups], threads)
    return SolvedProblems(coef, alpha if with_alpha else None, table)


def _groups(n_problems: int, entries: int, threads: int) -> list[Indices]:
    """The problems in groups of about the same number."""
    wanted = 1 if threads == 1 else min(GROUPS_PER_THREAD * threads, 1 + n_problems * entries // LEAST_GROUP)
    return [group for group in np.array_split(np.arange(n_problems), wanted) if group.size]
