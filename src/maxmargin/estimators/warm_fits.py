"""Fits of one estimator on the same samples with different parameters; each fit starts where the last one ended."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from maxmargin.core.types import Indices, Vector
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.callbacks import FitCallbacks
from maxmargin.estimators.fit import Fit
from maxmargin.estimators.limits import Deadline
from maxmargin.estimators.model_table import ModelTable
from maxmargin.estimators.rounds import Start
from maxmargin.estimators.training_rows import TrainingRows
from maxmargin.solvers import Resume

if TYPE_CHECKING:
    from maxmargin.estimators.fit_checkpoint import FitCheckpoint

ModelT = TypeVar("ModelT", bound=MarginClassifier)


@dataclass(frozen=True)
class Fitted(Generic[ModelT]):
    """The result of one of the fits. The estimator is made only on demand, because it copies samples."""

    estimator: ModelT
    fit: Fit[TrainingRows]
    models: ModelTable

    def model(self) -> ModelT:
        """Return the fitted estimator."""
        self.estimator._publish(self.fit, self.models)
        return self.estimator

    def advise(self) -> None:
        """Warn of anything that the user may not expect of the model."""
        self.estimator._advise(self.fit, self.models)

    def decisions(self, X: Any) -> Vector:
        """Return the decision values of the training samples X, which have two classes."""
        known = self.models.decisions[0] if len(self.models.decisions) == 1 else None
        if known is None:
            return np.asarray(self.model().decision_function(X))
        order = self.fit.order
        if order is None:
            return known
        decisions = np.empty(known.size)
        decisions[order] = known
        return decisions


class WarmFits(Generic[ModelT]):
    """Fits of an estimator on the same samples, with one C, slack or weighting after another.

    All fits share the validation, the norms, and the kernel rows with their cache. Each fit starts from the dual
    variables of the previous one.

    Parameters
    ----------
    estimator : LinearSVC or SVC
        Its parameters are used in all fits, except for those given to :meth:`fit`. It is not changed.
    X, y, sample_weight : data
        As in `fit` of the estimator.
    several : bool
        Whether there will be more than one fit, so that it pays off to compute kernel rows in advance and keep them.
    checkpoint : FitCheckpoint or None
        Where to save the fit, if there is only one.
    """

    def __init__(
        self,
        estimator: ModelT,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        several: bool = True,
        checkpoint: FitCheckpoint | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.template: ModelT = clone(estimator)
        self.template._validate_params()
        self.seeds = check_random_state(estimator.random_state)
        self.y = np.asarray(y)
        self.fit_ = self.template._set_up(X, y, sample_weight, self.seeds, {})
        if several:
            self.fit_.rows.expect_more_fits(estimator.n_jobs)
        self.resumes: list[Resume | None] = []

    def among(self, samples: Indices | NDArray[np.bool_]) -> Self:
        """Return fits on only some of the samples, which share the rows of all samples and start from scratch.

        They have a separate random generator, so that threads may run the fits on several parts in any order.
        """
        other = copy.copy(self)
        other.seeds = np.random.RandomState(self.seeds.randint(2**31 - 1))
        fit, chosen = self.fit_, np.zeros(self.y.size, dtype=bool)
        chosen[samples] = True
        other.fit_ = replace(
            fit,
            weights=np.where(chosen if fit.order is None else chosen[fit.order], fit.weights, 0.0),
            class_weights=self.template._class_weights(self.y[chosen]),
            rows=fit.rows.fork(),
        )
        other.resumes = []
        return other

    def go_on_from(self, other: Self) -> None:
        """Let the next fit start where the last fit of `other`, on other samples, ended; moves that state here."""
        self.resumes, other.resumes = other.resumes, []

    def kept(self) -> dict[str, Any]:
        """Return what the next fit starts from, for a checkpoint."""
        return {"resumes": self.resumes, "seeds": self.seeds, "rows": self.fit_.rows.kept()}

    def take(self, kept: Mapping[str, Any]) -> None:
        """Restore what the next fit starts from, from a checkpoint."""
        self.resumes, self.seeds = kept["resumes"], kept["seeds"]
        self.fit_.rows.take(kept["rows"])

    def fit(self, deadline: Deadline | None = None, **parameters: Any) -> Fitted[ModelT]:
        """Fit the estimator with these parameters, starting where the last fit ended."""
        model: ModelT = clone(self.template).set_params(**parameters)
        model._validate_params()
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self.template, name):
                setattr(model, name, getattr(self.template, name))
        # Grid values that are out of range for some of the samples are compared and not refused.
        fit = replace(self.fit_, recipe=replace(model._recipe(self.fit_.rows), in_range=False))
        callbacks = FitCallbacks(model, fit.strategy.names, {})
        rules = model._rules(callbacks, deadline or Deadline(model.max_time), self._starts, self.checkpoint)
        models = fit.rows.solve(fit, rules)
        self.resumes = list(models.resumes)
        return Fitted(model, fit, replace(models, resumes=[]))

    def _starts(self) -> list[Start]:
        count = self.fit_.strategy.n_models
        resumes = self.resumes or [None] * count
        seeds = self.seeds.randint(2**31 - 1, size=count)
        return [Start(resume, int(seed), None) for resume, seed in zip(resumes, seeds, strict=True)]
