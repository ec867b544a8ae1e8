"""Which solver is taken where the user names none."""

from __future__ import annotations

from maxmargin.core import Matrix
from maxmargin.problems import Problem, RegularizedSVM
from maxmargin.solvers.base import Solver
from maxmargin.solvers.sdca import Sdca
from maxmargin.solvers.simba import Simba


def auto_solver(form: type[Problem], X: Matrix) -> Solver:
    """The solver to take for a problem of this form on data of this shape; docs/solvers.md has the same as a table.

    Parameters
    ----------
    form : type of Problem
        SlackSVM or RegularizedSVM.
    X : Matrix
        The data: what counts is its shape and `X.stored`.

    Returns
    -------
    Solver

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import as_matrix
    >>> from maxmargin.problems import RegularizedSVM
    >>> from maxmargin.solvers import auto_solver
    >>> auto_solver(RegularizedSVM, as_matrix(np.eye(3))).name
    'sdca'
    """
    return Sdca() if issubclass(form, RegularizedSVM) else Simba()
