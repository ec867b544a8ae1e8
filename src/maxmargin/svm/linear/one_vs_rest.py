r"""Many binary problems on samples that they share, each by Newton's method, in few compiled calls.

Problem: the regularised form with C, either loss, any kind of bias, for each of several classes against the rest.
Given: a small dense matrix and the class of each sample. Returned: for each problem its w and b, and the numbers from
which a certificate is made.

This code is for small problems, which are entries of a few arrays. The method is that of
:class:`maxmargin.solvers.Newton`, with all samples from the first iteration on. In the first iteration, all dual
variables are between their bounds, and the Hessian is the same for all problems except for the class weights, so that
it is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from maxmargin.core.types import Indices, Vector
from maxmargin.svm.linear._one_vs_rest import LANES, NewtonRun
from maxmargin.svm.losses import Loss, loss_of
from maxmargin.svm.many_problems import SolvedProblems, Stop, Targets, go_on, solve_in_groups

# Multiply-adds of one compiled call. They take about 50 ms, which is how long Ctrl-C may have to wait.
OPERATIONS_PER_CALL = 100_000_000
# Entries of the matrix, counted once for each problem, that justify another thread: solving so many takes as long as
# starting the thread.
LEAST_GROUP = 50_000
ITERATIONS_AFTER_STOP = 1  # further iterations of each unsolved problem when the fit has to stop


@dataclass(frozen=True)
class OneVsRestProblems:
    """Binary problems, each of one class against the rest.

    Attributes
    ----------
    classes : array of shape (n_problems,)
        The class whose samples have the label +1.
    positive_weight, rest_weight : arrays of shape (n_problems,)
        The factors of the sample weights of this class, and of all other classes.
    """

    classes: Indices
    positive_weight: Vector
    rest_weight: Vector


@dataclass(frozen=True)
class SharedSamples:
    """What all problems share of the samples.

    Attributes
    ----------
    X : array of shape (n, d)
    by_feature : array of shape (d, n_filled)
        X transposed, with the number of samples filled up to a multiple of `LANES` by zeros.
    label : array of shape (n,)
        The class of each sample.
    weights : array of shape (n,)
    norms : array of shape (n_filled,)
        The norms of the rows.
    mean_sq_norm, largest_sq_norm : float
    products : array of shape (d + 1, d + 1)
        The sum of (x_i, 1)(x_i, 1)^T over the samples with positive weight, multiplied by the weights if the loss is
        smooth; with 0 in place of 1 if there is no bias.
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


def solve_many(
    samples: SharedSamples,
    problems: OneVsRestProblems,
    targets: Targets,
    results: SolvedProblems,
    *,
    which: Indices | None = None,
    loss: str | Loss,
    bias: bool = True,
    bias_feature: float = 0.0,
    max_iter: int,
    threads: int = 1,
    stop: Stop = go_on,
) -> SolvedProblems:
    """Solve the problems of some classes, each against the rest. Call it inside `limit_blas`.

    Parameters
    ----------
    samples : SharedSamples
        The samples, of up to about 500 features: an iteration solves a system of as many equations.
    problems : OneVsRestProblems
    targets : Targets
        The targets of each problem; tolerances are reached with allowances for rounding.
    results : SolvedProblems
        The results are written here. If problems begin at earlier solutions, these are here too; that needs the hinge
        and dual points.
    which : array of int or None
        The problems to solve; None: all.
    loss : {"hinge", "squared_hinge"} or Loss
    bias : bool
        Whether there is a bias.
    bias_feature : float
        0: the bias is free. A number B: the bias is penalised as the weight of a further feature of value B.
    max_iter : int
        Iterations after which a problem ends.
    threads : int
        The number of threads that share the problems. The results are the same to the bit for any number.
    stop : callable
        Called after each compiled call; see :data:`maxmargin.svm.many_problems.Stop`. If it returns True, problems that
        are not solved end soon.

    Returns
    -------
    SolvedProblems
        `results`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.svm.linear.one_vs_rest import OneVsRestProblems, SharedSamples, room_for, solve_many
    >>> from maxmargin.svm.many_problems import Targets
    >>> X, label = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> samples = SharedSamples.of(X, label, np.ones(4), smooth=False, bias=True)
    >>> problems = OneVsRestProblems(np.array([1]), np.ones(1), np.ones(1))
    >>> targets = Targets.of_all(1, C=100.0, tol=1e-6)
    >>> solved = solve_many(samples, problems, targets, room_for(samples, problems), loss="hinge", max_iter=100)
    >>> solved.coefficients.round(3), solved.bias.round(3)
    (array([[2.]]), array([-3.]))
    """
    smooth, alpha = loss_of(loss).smooth, results.alpha

    def begin(group: Indices) -> NewtonRun:
        written = results.coefficients, np.empty((0, 0)) if alpha is None else alpha, results.table
        return NewtonRun(samples, problems, group, targets, smooth, bias, bias_feature, max_iter, *written)

    n_problems = problems.classes.size
    return solve_in_groups(
        begin,
        results,
        np.arange(n_problems) if which is None else which,
        np.full(n_problems, float(samples.X.size)),
        least_work=LEAST_GROUP,
        work_per_call=OPERATIONS_PER_CALL,
        iterations_after_stop=ITERATIONS_AFTER_STOP,
        threads=threads,
        stop=stop,
    )


def room_for(samples: SharedSamples, problems: OneVsRestProblems, *, with_alpha: bool = False) -> SolvedProblems:
    """Room for the results of problems, with dual points if `with_alpha`."""
    n_problems, (n, d) = problems.classes.size, samples.X.shape
    alpha = np.empty((n_problems, n)) if with_alpha else None
    return SolvedProblems.empty(n_problems, np.empty((n_problems, d)), alpha)
