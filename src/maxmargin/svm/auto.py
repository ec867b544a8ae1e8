"""Which solver is taken where the user names none."""

from __future__ import annotations

from maxmargin.core.types import Rows
from maxmargin.engine.problem import Problem
from maxmargin.engine.solver import AnySolver
from maxmargin.svm.kernel.decomposition import Decomposition
from maxmargin.svm.kernel.stochastic_batch_perceptron import StochasticBatchPerceptron
from maxmargin.svm.linear.newton import Newton
from maxmargin.svm.linear.sdca import Sdca
from maxmargin.svm.linear.simba import Simba
from maxmargin.svm.regularized import RegularizedSVM

FEW_FEATURES = 1000


def auto_solver(form: type[Problem], X: Rows, budget: int | None = None) -> AnySolver:
    """The solver to take for a problem of this form on data of this shape; docs/solvers.md has the same as a table.

    Parameters
    ----------
    form : type of Problem
        SlackSVM or RegularizedSVM.
    X : Rows
        The data: of features, what counts is its shape.
    budget : int or None
        The entries that may be read, where that is limited: Newton's method begins with several passes.

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
    if not X.sums_are_cheap:
        return Decomposition() if issubclass(form, RegularizedSVM) else StochasticBatchPerceptron()
    if not issubclass(form, RegularizedSVM):
        return Simba()
    n, d = X.shape
    # Where rows are many more than features, one changes what the others need: visits to single rows go on for long.
    return Newton() if d <= FEW_FEATURES and n >= 2 * d and budget is None else Sdca()
