"""One binary model, converted from the units of the problem to the units of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Point
from maxmargin.engine.problem import Trait
from maxmargin.problems import (
    Certificate,
    Expansion,
    MarginEvaluation,
    MarginProblem,
    RegularizedSVM,
    SlackSVM,
    equivalent_C,
    length,
    reached_slack,
)
from maxmargin.solvers import Learned, Result, Resume, Trace


@dataclass(frozen=True)
class BinaryModel:
    """A hyperplane and its properties, in the units of the data.

    Attributes
    ----------
    coef, intercept : array of shape (d,) or Expansion, float
        The hyperplane. A solution of the slack form is scaled to the margin if that is known and positive (Lemma 2.1).
    margin, slack, C : float
        See :class:`maxmargin.LinearSVC`.
    alpha : array of shape (n,) or None
        The weight of each sample in `coef`, signed by its label.
    n_iter : int
        The number of passes over the samples for a solver that visits them one by one, otherwise of iterations.
    missed_tol : float or None
        The tolerance that the run did not reach before its limit of iterations; None if there is no such tolerance.
    decisions : array of shape (n,) or None
        The decision value of each sample, including samples of weight 0; None if they were not computed.
    decision_range : pair of float
        The smallest and the largest decision value of a training sample; NaN if they were not computed.
    learned, seen : Learned or None, float
        What an online solver has learned and can continue from, and the total weight of the rows that it has seen.
    resume : Resume or None
        The end of the run, from which a run with another C or slack can continue.
    positions : array of int or None
        The samples of its problem that the model was found on, if these are only a part of them; None means all.
    """

    coef: Point
    intercept: float
    margin: float = math.nan
    slack: float = math.nan
    C: float = math.nan
    certificate: Certificate = field(default_factory=lambda: Certificate.missing("the fit has not come to it yet"))
    trace: Trace = field(default_factory=Trace)
    stopped: str = "interrupted"
    n_iter: int = 0
    alpha: NDArray[np.float64] | None = None
    promise: dict[str, float] = field(default_factory=dict)
    missed_tol: float | None = None
    decisions: NDArray[np.float64] | None = None
    decision_range: tuple[float, float] = (math.nan, math.nan)
    learned: Learned | None = None
    seen: float = 0.0
    resume: Resume | None = None
    positions: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, problem: MarginProblem, result: Result, C: float | None, scale: float) -> BinaryModel:
        """Make the model that a run has found. `C` is given if the user gave it; `scale` is that of the `Fit`."""
        decisions = _decisions(problem, result)
        model = cls(
            result.solution.w,
            result.solution.b,
            C=math.nan if C is None else C,
            certificate=result.certificate,
            trace=result.trace,
            stopped=result.status,
            n_iter=result.n_iter,
            promise=result.promise,
            decisions=decisions,
            decision_range=_decision_range(problem, result, decisions),
        )
        if isinstance(problem, RegularizedSVM):
            return model._of_regularized(problem, result, scale)
        assert isinstance(problem, SlackSVM)
        return model._of_slack(problem, result)

    @property
    def preliminary(self) -> bool:
        """Whether the model was found on only a part of the samples."""
        return self.positions is not None

    @classmethod
    def unreached(cls, zero: Point, n: int) -> BinaryModel:
        """Make a placeholder for a binary problem that has no model yet: all its decision values are -1."""
        return cls(zero, -1.0, alpha=np.zeros(n))

    def of_all_samples(self, positions: NDArray[np.int64], n: int) -> BinaryModel:
        """Extend a model found on the samples at `positions` to all n samples of its problem."""

        def spread(values: NDArray[np.float64], others: float) -> NDArray[np.float64]:
            every = np.full(n, others)
            every[positions] = values
            return every

        coef, alpha = self.coef, self.alpha
        if isinstance(coef, Expansion):
            coef = Expansion(spread(coef.beta, 0.0), spread(coef.f, np.nan))
        why_not = f"a preliminary model, found on {positions.size:,} of {n:,} samples, as the fit was stopped"
        return replace(
            self,
            coef=coef,
            alpha=None if alpha is None else spread(alpha, 0.0),
            certificate=Certificate.missing(why_not),
            missed_tol=None,
            decisions=None,
            decision_range=(math.nan, math.nan),
            positions=positions,
        )

    def _of_regularized(self, problem: RegularizedSVM, result: Result, scale: float) -> BinaryModel:
        norm, p, at = length(self.coef), result.solution.p, _evaluation(result)
        return replace(
            self,
            margin=1 / norm if norm > 0 else math.inf,
            slack=math.nan if at is None else reached_slack(problem, at) / scale,
            alpha=None if p is None else problem.y * p,
        )

    def _of_slack(self, problem: SlackSVM, result: Result) -> BinaryModel:
        at, p = _evaluation(result), result.solution.p
        model = replace(self, coef=self.coef / problem.scale, slack=problem.slack)
        if at is None:
            return model
        stretch = 1 / at.value if at.value > 0 else 1.0
        p = at.wet if p is None else p
        found_C = equivalent_C(problem, at, p)
        return replace(
            model,
            coef=model.coef * stretch,
            intercept=model.intercept * stretch,
            decisions=None if self.decisions is None else stretch * self.decisions,
            decision_range=(stretch * self.decision_range[0], stretch * self.decision_range[1]),
            margin=at.value * problem.scale,
            C=found_C if math.isnan(self.C) else self.C,
            # At the optimum coef is the sum of alpha_i x_i, and C the largest alpha_i / s_i.
            alpha=problem.y * p * (found_C / problem.cap(p) if math.isfinite(found_C) else 1.0),
        )


def _evaluation(result: Result) -> MarginEvaluation | None:
    """Return the evaluation by the certificate's pass over the data, if the problem evaluates linear predictors."""
    return cast("MarginEvaluation | None", result.evaluation)


def _decisions(problem: MarginProblem, result: Result) -> NDArray[np.float64] | None:
    """Return the decision values from the pass that certified the model; None if the samples are in other processes."""
    at = _evaluation(result)
    in_this_process = problem.traits & {Trait.FEATURES, Trait.KERNEL}
    return problem.y * at.responses + result.solution.b if at is not None and in_this_process else None


def _decision_range(
    problem: MarginProblem, result: Result, decisions: NDArray[np.float64] | None
) -> tuple[float, float]:
    """Return the smallest and the largest decision value of the samples with a positive weight."""
    at = _evaluation(result)
    if at is not None and at.sums is not None and at.b == result.solution.b:
        return at.sums.least, at.sums.largest
    if decisions is None:
        return math.nan, math.nan
    used = decisions[problem.s > 0]
    return float(used.min()), float(used.max())
