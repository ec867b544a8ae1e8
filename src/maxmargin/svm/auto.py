"""The choice of a solver for `solver="auto"`."""

from __future__ import annotations

from maxmargin.core.types import Rows
from maxmargin.engine.problem import Problem
from maxmargin.engine.solver import AnySolver
from maxmargin.svm.regularized import RegularizedSVM

NEWTON_FEATURES = 1000  # features up to which Newton is chosen: it solves dense systems of that many equations


def auto_solver(form: type[Problem], X: Rows, budget: int | None = None) -> AnySolver:
    """The solver for a problem of this form on data of this shape, as in the table of docs/solvers.md.

    Parameters
    ----------
    form : type of Problem
        SlackSVM or RegularizedSVM.
    X : Rows
        The data; of features only the shape matters.
    budget : int or None
        The number of entries that may be read, or None. With a budget, Newton is not chosen: it begins with several
        passes over the data.

    Returns
    -------
    Solver

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import as_matrix
    >>> from maxmargin.problems import RegularizedSVM
    >>> from maxmargin.solvers import auto_solver
    >>> auto_solver(RegularizedSVM, as_matrix(np.zeros((1000, 20)))).name
    'newton'
    >>> auto_solver(RegularizedSVM, as_matrix(np.zeros((1000, 20_000)))).name
    'sdca'
    """
    # Each solver is imported where it is taken: most fits take one of them.
    if not X.sums_are_cheap and issubclass(form, RegularizedSVM):
        from maxmargin.svm.kernel.decomposition import Decomposition

        return Decomposition()
    if not X.sums_are_cheap:
        from maxmargin.svm.kernel.stochastic_batch_perceptron import StochasticBatchPerceptron

        return StochasticBatchPerceptron()
    if not issubclass(form, RegularizedSVM):
        from maxmargin.svm.linear.simba import Simba

        return Simba()
    n, d = X.shape
    # With many more rows than features the dual variables depend strongly on each other: coordinate ascent is slow.
    if d <= NEWTON_FEATURES and n >= 2 * d and budget is None:
        from maxmargin.svm.linear.newton import Newton

        return Newton()
    from maxmargin.svm.linear.sdca import Sdca

    return Sdca()
