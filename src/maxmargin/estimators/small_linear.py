"""The fit of a linear classifier on few samples of few features, in a few compiled calls for all binary problems."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Self

import numpy as np

from maxmargin.core.threads import limit_blas
from maxmargin.core.types import Indices, Vector
from maxmargin.estimators.fit import Fit, FitRules
from maxmargin.estimators.multiclass import OneVsRest
from maxmargin.estimators.recipe import refuse_beyond
from maxmargin.estimators.small_rows import SmallRows, weights_are_safe
from maxmargin.estimators.training_rows import FeatureRows
from maxmargin.problems import LOSSES, MarginProblem
from maxmargin.solvers import Newton
from maxmargin.svm.auto import LinearShape
from maxmargin.svm.linear.one_vs_rest import OneVsRestProblems, SharedSamples, room_for, solve_many
from maxmargin.svm.many_problems import SolvedProblems, Stop, Targets
from maxmargin.svm.many_slacks import LARGEST_STRENGTH
from maxmargin.svm.slack import covering_slack

# Up to this many entries, the matrix is copied and all binary problems are solved on all its rows. Larger data gains
# more from the growing parts of the general path than it loses in the work around each binary problem.
MOST_ENTRIES = 500_000
# The same limit for dense data with at most this many rows, for which the general path would not start with a part.
FEW_ROWS, MOST_DENSE_ENTRIES = 5000, 2_500_000
MOST_FEATURES = 500  # each iteration solves a system of this many equations
# If `newton` without its Python code is estimated to take longer than this many times a fit by `sdca`, use the general
# path. An iteration of Newton's method takes 0.4 to 0.9 times as long here as there (benchmarks/auto_linear.py).
SLOWER_BY = 1.5
SAFE_SQ_NORMS = 1e-100, 1e100  # range of the largest squared norm; outside it, the general path reports the problem
UNEVEN = 1e6  # largest norm of a row in units of the median; beyond it, that row alone determines Newton's steps
ITERATIONS = 10  # approximate iterations of a binary problem, each a few passes; used to decide on several threads
# Up to this many multiply-adds of a Hessian, BLAS libraries use one thread anyway, and limiting them would take longer.
ONE_THREAD_OF_BLAS = 100_000
DEFAULT_MAX_ITER = 1000  # maximum number of iterations of a problem that does not reach its tolerance


class SmallFeatureRows(SmallRows):
    """Few samples, dense and in float64.

    Parameters
    ----------
    rows : FeatureRows
        The given samples.
    strategy : OneVsRest
        The binary problems.
    keep_alpha : bool
        Whether to keep the dual variables.
    """

    def __init__(self, rows: FeatureRows, strategy: OneVsRest, keep_alpha: bool) -> None:
        self.given, self.strategy, self.keep_alpha, self.ledger = rows, strategy, keep_alpha, rows.matrix.ledger
        self.X: Vector = rows.matrix.dense(np.arange(rows.matrix.shape[0]))

    def auto_solver(
        self, form: type[MarginProblem], budget: float | None, C: float, slack: float | None, loss: str
    ) -> Newton:
        return Newton()

    def sq_norms(self) -> Vector:
        return self.given.sq_norms()

    @property
    def zero_rows(self) -> int | None:
        return self.given.zero_rows

    def _prepare(self, fit: Fit[Self]) -> None:
        classes = np.array([k for (k,) in self.strategy.classes_by_model])
        self.problems = OneVsRestProblems(classes, *self.strategy.weights_against_rest(fit.class_weights))
        smooth = LOSSES[fit.recipe.loss].smooth
        self.samples = SharedSamples.of(self.X, fit.label, fit.weights, smooth=smooth, bias=fit.recipe.bias)
        if fit.recipe.slack and fit.recipe.in_range and fit.recipe.scale is None:
            for largest in self._largest_slacks(fit).tolist():
                refuse_beyond(fit.recipe.slack, largest)

    def _largest_slacks(self, fit: Fit[Self]) -> Vector:
        """Compute `SlackSVM.largest_slack` of all binary problems at once."""
        own = fit.label == self.problems.classes[:, None]
        s = fit.weights * np.where(own, self.problems.positive_weight[:, None], self.problems.rest_weight[:, None])
        up, down = np.where(own, s, 0.0), np.where(own, 0.0, s)
        if fit.recipe.bias:
            up, down = (side / side.sum(axis=1, keepdims=True) for side in (up, down))
        centroids = (up - down) @ self.X
        norms = np.linalg.norm(centroids, axis=1, keepdims=True)
        centroids /= np.where(norms > 0, norms, 1.0)
        responses = np.where(own, 1.0, -1.0) * (centroids @ self.X.T) / fit.scale
        groups = (own & (s > 0), ~own & (s > 0)) if fit.recipe.bias else (s > 0,)
        return covering_slack(responses, s, groups)

    def general(self) -> FeatureRows:
        return self.given

    def _room(self, fit: Fit[Self]) -> SolvedProblems:
        return room_for(self.samples, self.problems, with_alpha=self.keep_alpha or fit.recipe.slack is not None)

    def _limit_blas(self) -> AbstractContextManager[object]:
        n, d = self.X.shape
        return limit_blas() if n * d * d > ONE_THREAD_OF_BLAS else nullcontext()

    def _finish(self, fit: Fit[Self], found: SolvedProblems) -> None:
        if found.alpha is not None:  # the published dual variables are signed by label
            found.alpha[fit.label != self.problems.classes[:, None]] *= -1

    def _solve(
        self, fit: Fit[Self], rules: FitRules, targets: Targets, results: SolvedProblems, which: Indices, stop: Stop
    ) -> SolvedProblems:
        recipe = fit.recipe
        return solve_many(
            self.samples,
            self.problems,
            targets,
            results,
            which=which,
            loss=recipe.loss,
            bias=recipe.bias,
            bias_feature=recipe.intercept_scaling or 0.0,
            max_iter=min(rules.stop.max_iter or DEFAULT_MAX_ITER, 2**31),
            threads=self._threads(fit, rules),
            stop=stop,
        )

    def _operations(self, fit: Fit[Self]) -> float:
        return float(ITERATIONS * self.problems.classes.size * self.X.size)

    def _coefficients(self, found: SolvedProblems) -> Vector:
        return found.coefficients

    def _total_weights(self, fit: Fit[Self]) -> Vector:
        by_class = np.bincount(fit.label, weights=fit.weights, minlength=fit.class_weights.size)
        own = by_class[self.problems.classes]
        return np.asarray(self.problems.positive_weight * own + self.problems.rest_weight * (by_class.sum() - own))

    def _multiply(self, results: SolvedProblems, factors: Vector) -> None:
        for rows in (results.coefficients, results.alpha):
            if rows is not None:
                rows *= factors[:, None]

    def _n_iter(self, fit: Fit[Self], found: SolvedProblems) -> Vector:
        return found.iterations

    def _proof_terms(self, found: SolvedProblems) -> dict[str, str]:
        return {}


def small_feature_rows(
    rows: FeatureRows,
    label: Indices,
    weights: Vector,
    strategy: OneVsRest,
    *,
    C: float | None,
    smooth: bool,
    keep_alpha: bool,
) -> SmallFeatureRows | None:
    """Make the rows of few samples; None if there are too many samples, or their values require the general path.

    Also None if coordinate ascent is estimated to be faster than Newton's method. C is None if a slack is given, and
    `smooth` says whether the loss is smooth.
    """
    n, d = rows.matrix.shape
    dense = rows.matrix.n_stored == n * d
    if n * d > (MOST_DENSE_ENTRIES if dense and n <= FEW_ROWS else MOST_ENTRIES) or d > MOST_FEATURES:
        return None
    sq_norms = rows.sq_norms()
    largest = float(sq_norms.max())
    even = SAFE_SQ_NORMS[0] < largest < min(SAFE_SQ_NORMS[1], UNEVEN**2 * float(np.median(sq_norms)))
    if not (even and weights_are_safe(weights if C is None else C * weights, label, strategy.classes.size)):
        return None
    strength = LARGEST_STRENGTH if C is None else C * float(weights.mean()) * float(sq_norms.mean())
    shape = LinearShape(n, d, n * d, strength, smooth)
    if shape.compiled_newton_cost() > SLOWER_BY * shape.sdca_cost():
        return None
    return SmallFeatureRows(rows, strategy, keep_alpha)
