"""The fit of a linear classifier on few samples of few features: all of its binary problems in few compiled calls."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Self

import numpy as np

from maxmargin.core.threads import limit_blas
from maxmargin.core.types import Indices, Vector
from maxmargin.engine.certificate import CertificateColumns
from maxmargin.estimators.fit import Fit, FitRules
from maxmargin.estimators.model_table import ModelTable
from maxmargin.estimators.multiclass import OneVsRest
from maxmargin.estimators.small_rows import SmallRows, weights_are_safe
from maxmargin.estimators.training_rows import FeatureRows
from maxmargin.problems import MarginProblem
from maxmargin.solvers import Newton
from maxmargin.svm.auto import LinearShape
from maxmargin.svm.linear.one_vs_rest import solve_many
from maxmargin.svm.many_problems import SolvedProblems, Stop

# Entries of the matrix, up to which it is copied and all binary problems are solved on all of its rows. Larger data
# gains more from the growing parts of the general path than it loses by the work around each binary problem.
MOST_ENTRIES = 500_000
# The same for dense data of no more rows than this, on which the general path would not begin with a part of them.
FEW_ROWS, MOST_DENSE_ENTRIES = 5000, 2_500_000
MOST_FEATURES = 500  # a system of as many equations is solved in each iteration
# Estimated cost of `newton` without its Python code, in units of that of a fit by `sdca`, above which the general path
# is taken: here, an iteration of Newton's method takes 0.4 to 0.9 of what it takes there (benchmarks/auto_linear.py).
SLOWER_BY = 1.5
SAFE_SQ_NORMS = 1e-100, 1e100  # of the largest row; beyond, the general path says what cannot be computed with
UNEVEN = 1e6  # norm of the largest row, in units of the median: beyond, Newton's steps are led by that row alone
ITERATIONS = 10  # of a binary problem, about, each a few passes over the entries: tells whether several threads pay
# Multiply-adds of a Hessian up to which BLAS libraries use one thread by themselves: to look them up takes longer.
ONE_THREAD_OF_BLAS = 100_000
DEFAULT_MAX_ITER = 1000  # iterations after which a problem ends that does not come to its tolerance


class SmallFeatureRows(SmallRows):
    """Few samples, dense and in float64.

    Parameters
    ----------
    rows : FeatureRows
        The samples as given.
    strategy : OneVsRest
        The binary problems.
    keep_alpha : bool
        Whether the dual variables are wanted.
    """

    def __init__(self, rows: FeatureRows, strategy: OneVsRest, keep_alpha: bool) -> None:
        self.given, self.strategy, self.keep_alpha, self.ledger = rows, strategy, keep_alpha, rows.matrix.ledger
        self.X: Vector = rows.matrix.dense(np.arange(rows.matrix.shape[0]))

    def auto_solver(self, form: type[MarginProblem], budget: int | None, C: float, loss: str) -> Newton:
        return Newton()

    def sq_norms(self) -> Vector:
        return self.given.sq_norms()

    @property
    def zero_rows(self) -> int | None:
        return self.given.zero_rows

    def _prepare(self, fit: Fit[Self]) -> None:
        self.classes: Indices = np.array([k for (k,) in self.strategy.classes_by_model])
        self.weights = self.strategy.weights_against_rest(fit.class_weights)

    def solve(self, fit: Fit[Self], rules: FitRules) -> ModelTable:
        """The models of all binary problems; where one does not come to its tolerance, the better of two paths."""
        models = super().solve(fit, rules)
        if rules.stop.max_iter is not None or not {"max_iter", "finished"}.intersection(models.stopped):
            return models
        others = self.given.solve(fit.on(self.given), rules)
        return min(models, others, key=lambda table: max(proof.relative_gap for proof in table.certificates))

    def _solve(self, fit: Fit[Self], rules: FitRules, tol: float, stop: Stop) -> SolvedProblems:
        recipe, (n, d) = fit.recipe, self.X.shape
        assert recipe.C is not None
        with limit_blas() if n * d * d > ONE_THREAD_OF_BLAS else nullcontext():
            found = solve_many(
                self.X,
                fit.label,
                self.classes,
                fit.weights,
                *self.weights,
                C=recipe.C,
                loss=recipe.loss,
                bias=recipe.bias,
                bias_feature=recipe.intercept_scaling or 0.0,
                tol=tol,
                max_iter=min(rules.stop.max_iter or DEFAULT_MAX_ITER, 2**31),
                threads=self._threads(fit, rules),
                with_alpha=self.keep_alpha,
                stop=stop,
            )
        if found.alpha is not None:  # signed by label, as published
            found.alpha[fit.label != self.classes[:, None]] *= -1
        return found

    def _operations(self, fit: Fit[Self]) -> float:
        return float(ITERATIONS * self.classes.size * self.X.size)

    def _coefficients(self, found: SolvedProblems) -> Vector:
        return found.coefficients

    def _total_weights(self, fit: Fit[Self]) -> Vector:
        assert fit.recipe.C is not None
        by_class = np.bincount(fit.label, weights=fit.weights, minlength=fit.class_weights.size)
        positive, rest = self.weights
        own = by_class[self.classes]
        return np.asarray(fit.recipe.C * (positive * own + rest * (by_class.sum() - own)))

    def _n_iter(self, fit: Fit[Self], found: SolvedProblems) -> Vector:
        return found.iterations

    def _certificates(self, found: SolvedProblems) -> CertificateColumns:
        return CertificateColumns.of_objectives(found)


def small_feature_rows(
    rows: FeatureRows, label: Indices, u: Vector, strategy: OneVsRest, *, smooth: bool, keep_alpha: bool
) -> SmallFeatureRows | None:
    """The rows of few samples; None where they are many, or their numbers need the care of the general path.

    None too where coordinate ascent is estimated to be faster than Newton's method. `u` is C times the weight of each
    sample, and `smooth` whether the loss is.
    """
    n, d = rows.matrix.shape
    dense = rows.matrix.n_stored == n * d
    if n * d > (MOST_DENSE_ENTRIES if dense and n <= FEW_ROWS else MOST_ENTRIES) or d > MOST_FEATURES:
        return None
    sq_norms = rows.sq_norms()
    largest = float(sq_norms.max())
    even = SAFE_SQ_NORMS[0] < largest < min(SAFE_SQ_NORMS[1], UNEVEN**2 * float(np.median(sq_norms)))
    if not (even and weights_are_safe(u, label, strategy.classes.size)):
        return None
    shape = LinearShape(n, d, n * d, float(u.mean()) * float(sq_norms.mean()), smooth)
    if shape.compiled_newton_cost() > SLOWER_BY * shape.sdca_cost():
        return None
    return SmallFeatureRows(rows, strategy, keep_alpha)
