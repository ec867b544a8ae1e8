"""The choice of a solver for `solver="auto"`: for linear SVMs with C, the one with the lower estimated cost.

If sdca seems faster, but not by much, it starts and hands over to newton if its gap falls too slowly.

Each cost is a number of operations times the time of one operation. Times were measured, and numbers of operations
were fitted, on problems of random shapes (`benchmarks/auto_linear.py --shapes`); docs/linear.md shows what a wrong
choice costs. Both costs are for one binary problem; with several classes, both grow alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from maxmargin.core import Matrix
from maxmargin.core.types import Rows
from maxmargin.engine.problem import Problem
from maxmargin.engine.solver import AnySolver
from maxmargin.svm.losses import LOSSES
from maxmargin.svm.many_slacks import first_strength
from maxmargin.svm.regularized import RegularizedSVM

MOST_STRENGTH = 1e100  # largest C times |x_i|^2 used, so that costs do not overflow; more changes no choice
SAMPLED_ROWS = 64  # rows read to estimate the mean |x_i|^2 if it is not given; few suffice, as norms vary little

# Costs in microseconds, on one core. Only their ratios matter: a factor in all of them changes no choice.
FIT_COST = 2000.0  # a fit of very little data, by either solver
SAMPLE_COST = 0.35  # a sample, however often it is read: labels, norms, certificate
VISIT_COST = 0.033  # sdca: a visit to a sample, without its entries
SPARSE_VISIT_ENTRY_COST = 0.0012  # sdca: an entry of a sparse row, read once, with w in the cache
DENSE_VISIT_ENTRY_COST = 0.00026  # sdca: an entry of a dense row, read once
ITERATION_COST = 260.0  # newton: the Python code of an iteration
SPARSE_ROW_COST = 0.024  # newton: a row in a pass over sparse data, without its entries
DENSE_ROW_COST = 0.010  # newton: the same of dense data
SPARSE_ENTRY_COST = 0.0026  # newton: an entry of a sparse row in a pass
DENSE_ENTRY_COST = 0.0007  # newton: an entry of a dense row in a pass
SPARSE_PRODUCT_COST = 0.00037  # newton: an entry of the outer product of a sparse row with itself
DENSE_PRODUCT_COST = 0.000023  # newton: the same of a dense row, in a matrix product
HESSIAN_ENTRY_COST = 0.0055  # newton: an entry of the Hessian in an iteration: copied, scaled, added to
FACTOR_COST = 0.000011  # newton: one of the d^3 operations of a Cholesky factorisation, of which it makes a third

# If newton's estimated cost is at least this many times that of sdca, sdca is chosen for good: unfavourable labels can
# multiply its cost by as much. If the ratio is smaller, sdca hands over to newton if its gap falls too slowly.
UNSURE = 10.0
FIRST_PASSES = 6.0  # newton: passes over the data in addition to iterations: norms, new subsets, certificate
# newton: most iterations are made on subsets, so that an iteration reads, on average, this power of the first subset's
# share of the samples. Entries read on 1,206 problems of random shapes with shares of 0.02 to 1 agree to about 25 %.
SUBSET_POWER = 0.25


@dataclass(frozen=True)
class Growth:
    """How a number of passes or iterations grows with the problem: a product of powers.

    The strength of a sample is C |x_i|^2. Below 1, the first visit takes its dual variable to the upper bound C, where
    it stays; the larger it is, the more visits a variable needs. The crowding n / d is the number of samples per
    feature: the larger it is, the more a change of one dual variable changes the best values of the others.
    """

    first: float  # the number if strength and crowding are small
    strength: float  # the exponent of 1 + strength
    crowding: float  # the exponent of 1 + crowding
    both: float  # the exponent of 1 + strength times crowding

    def at(self, strength: float, crowding: float) -> float:
        """The number for this strength and this crowding, at least 1."""
        powers = self.strength * math.log1p(strength) + self.crowding * math.log1p(crowding)
        return max(1.0, self.first * math.exp(powers + self.both * math.log1p(strength * crowding)))


# The keys say whether the loss is smooth. Labels matter as much as the shape but are not looked at: half of the
# estimated costs are within a factor of 1.4 of the measured time, 95 % of them within a factor of 4.
# Passes of sdca over the data. A pass reads each entry once; a visit that changes its dual variable counts as two.
SDCA_PASSES = {False: Growth(12.3, 0.18, -0.21, 0.37), True: Growth(19.5, -0.31, -0.49, 0.62)}
# Iterations of newton, on all of the data and on subsets.
NEWTON_ITERATIONS = {False: Growth(9.2, 0.10, 0.0, 0.0), True: Growth(2.7, 0.09, 0.08, 0.0)}


@dataclass(frozen=True)
class LinearShape:
    """The quantities from which the cost of a linear SVM with C is estimated.

    Attributes
    ----------
    n, d : int
        The number of samples and of features.
    n_stored : int
        The number of stored entries; less than n d if the data is sparse.
    strength : float
        C times the mean of `|x_i|^2`.
    smooth : bool
        Whether the loss is smooth.
    """

    n: int
    d: int
    n_stored: int
    strength: float
    smooth: bool

    @property
    def sparse(self) -> bool:
        """Whether zeros are not stored."""
        return self.n_stored < self.n * self.d

    def sdca_cost(self) -> float:
        """The estimated time of `Sdca`, in microseconds: passes over the data, visit by visit."""
        return self.fixed_cost() + SDCA_PASSES[self.smooth].at(self.strength, self.n / self.d) * self.sdca_pass_cost()

    def sdca_pass_cost(self) -> float:
        """The time of one pass of `Sdca`, in microseconds."""
        entry = SPARSE_VISIT_ENTRY_COST if self.sparse else DENSE_VISIT_ENTRY_COST
        return self.n * VISIT_COST + self.n_stored * entry

    def newton_cost(self) -> float:
        """The estimated time of `Newton`, in microseconds."""
        from maxmargin.svm.linear.newton import Newton

        return self.fixed_cost() + sum(self._newton_costs(Newton().first_size(self.n, self.d) / self.n))

    def compiled_newton_cost(self) -> float:
        """The estimated time of Newton's method if one compiled call makes all iterations on all samples."""
        return self._newton_costs(1.0)[1]

    def _newton_costs(self, first_share: float) -> tuple[float, float]:
        """The time of the Python code of the iterations; and that of passes, outer products and systems of equations.

        `first_share` is the share of the samples that the first subset has.
        """
        iterations = NEWTON_ITERATIONS[self.smooth].at(self.strength, self.n / self.d)
        row, entry, product = SPARSE_ROW_COST, SPARSE_ENTRY_COST, SPARSE_PRODUCT_COST
        if not self.sparse:
            row, entry, product = DENSE_ROW_COST, DENSE_ENTRY_COST, DENSE_PRODUCT_COST
        a_pass = self.n * row + self.n_stored * entry
        products = self.n_stored * (self.n_stored / self.n) * product
        system = HESSIAN_ENTRY_COST * self.d**2 + FACTOR_COST * self.d**3
        passes = FIRST_PASSES + iterations * first_share**SUBSET_POWER
        return iterations * ITERATION_COST, products + passes * a_pass + iterations * system

    def newton_passes(self) -> float:
        """The estimated cost of `Newton` without the fixed cost, in passes of `Sdca`."""
        return (self.newton_cost() - self.fixed_cost()) / self.sdca_pass_cost()

    def fixed_cost(self) -> float:
        """The time that either solver takes regardless of its number of passes or iterations."""
        return FIT_COST + self.n * SAMPLE_COST


def auto_solver(
    form: type[Problem],
    X: Rows,
    budget: float | None = None,
    *,
    C: float = 1.0,
    slack: float = 0.0,
    loss: str = "squared_hinge",
    sq_norm: float | None = None,
) -> AnySolver:
    """The solver for a problem of this form on data of this shape, as in the table of docs/solvers.md.

    Parameters
    ----------
    form : type of Problem
        SlackSVM or RegularizedSVM.
    X : Rows
        The data.
    budget : int or None
        The number of entries that may be read, or None. With a budget, Newton is not chosen: it begins with several
        passes over the data.
    C : float
        The C of a RegularizedSVM.
    slack : float
        The slack of a SlackSVM.
    loss : str
        The name of its loss.
    sq_norm : float or None
        The mean of `|x_i|^2`. None: estimated from a few rows, which the ledger counts under "choice of the solver".

    Returns
    -------
    Solver

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import as_matrix
    >>> from maxmargin.problems import RegularizedSVM
    >>> from maxmargin.solvers import auto_solver
    >>> auto_solver(RegularizedSVM, as_matrix(np.ones((1000, 20)))).name
    'newton'
    >>> auto_solver(RegularizedSVM, as_matrix(np.ones((1000, 6000)))).name
    'sdca'
    """
    # Each solver is imported only when it is chosen, because most fits need only one.
    slack_form = not issubclass(form, RegularizedSVM)
    if slack_form and budget is not None:
        if X.sums_are_cheap:
            from maxmargin.svm.linear.simba import Simba

            return Simba()
        from maxmargin.svm.kernel.stochastic_batch_perceptron import StochasticBatchPerceptron

        return StochasticBatchPerceptron()
    if not X.sums_are_cheap:
        from maxmargin.svm.kernel.decomposition import Decomposition

        return Decomposition()
    n, d = X.shape
    from maxmargin.svm.linear.hand_over import SdcaThenNewton
    from maxmargin.svm.linear.newton import MOST_FEATURES, Newton
    from maxmargin.svm.linear.sdca import Sdca

    if budget is not None or not 0 < d <= MOST_FEATURES or not n:
        return Sdca()
    assert isinstance(X, Matrix)  # rows of features always are
    # Numbers that cannot be computed with are refused later, by the problem.
    if slack_form:
        strength, loss = float(first_strength(slack, np.float64(n))), "hinge"
    else:
        strength = min(C, MOST_STRENGTH) * (mean_sq_norm(X) if sq_norm is None else sq_norm)
        strength = max(0.0, min(strength, MOST_STRENGTH))
    shape = LinearShape(n, d, max(1, X.n_stored), strength, LOSSES[loss].smooth)
    if shape.newton_cost() < shape.sdca_cost():
        return Newton()
    if shape.newton_cost() > UNSURE * shape.sdca_cost():
        return Sdca()
    return SdcaThenNewton(shape.newton_passes())


def mean_sq_norm(X: Matrix) -> float:
    """The mean of |x_i|^2 over a few rows at equal distances; 0 if it is not finite, as such data is refused later."""
    rows = np.unique(np.linspace(0, X.shape[0] - 1, SAMPLED_ROWS).astype(np.int64))
    with X.ledger.on("choice of the solver"), np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.square(X.dense(rows)).sum()) / rows.size
    return mean if math.isfinite(mean) else 0.0
