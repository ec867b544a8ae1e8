"""The data of one call of `fit`: its samples, its binary problems, and how they are solved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices, Vector
from maxmargin.estimators.binary import BinaryModel
from maxmargin.estimators.model_table import ModelTable
from maxmargin.estimators.multiclass import BinaryProblem, MulticlassStrategy
from maxmargin.estimators.recipe import Recipe
from maxmargin.problems import MarginProblem

if TYPE_CHECKING:
    from maxmargin.engine.stop_rules import StopRules
    from maxmargin.estimators.callbacks import FitCallbacks
    from maxmargin.estimators.fit_checkpoint import FitCheckpoint
    from maxmargin.estimators.limits import Deadline
    from maxmargin.estimators.rounds import Start
    from maxmargin.estimators.training_rows import RowsOfProblems, TrainingRows

RowsT = TypeVar("RowsT", bound="TrainingRows")
RowsT_co = TypeVar("RowsT_co", bound="TrainingRows", covariant=True)


@dataclass(frozen=True)
class Fit(Generic[RowsT_co]):
    """The samples of a fit, divided into binary problems.

    Attributes
    ----------
    given, X : data
        The samples as the user gave them, and after validation.
    order : array or None
        The order of the samples in `rows`, `label` and `weights`, as positions in X; None means the order of X.
    label : array of shape (n,)
        The class of each sample, as an index into `classes_`.
    weights : array of shape (n,)
        The weight of each sample; 0 if it is held out.
    class_weights : array of shape (n_classes,)
        The weight of each class.
    strategy : MulticlassStrategy
        The division into binary problems.
    recipe : Recipe
        How each binary problem is solved.
    rows : TrainingRows
        The rows that the binary problems read.
    scale : float
        The divisor of the rows in the slack form: given by the user, or the largest norm of a row of all data.
    held_out : array of int
        The samples that are held out for early stopping.
    positions : array of shape (n,)
        The positions of these samples among the samples of the whole fit; a preliminary round uses only a part.
    """

    given: Any
    X: Any
    order: Indices | None
    label: Indices
    weights: Vector
    class_weights: Vector
    strategy: MulticlassStrategy
    recipe: Recipe
    rows: RowsT_co
    scale: float
    held_out: Indices
    positions: Indices

    @cached_property
    def problems(self) -> list[BinaryProblem]:
        """The samples of each binary problem."""
        return self.strategy.problems(self.label, self.weights, self.class_weights, self.held_out)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Mask of the samples from which a solver may learn."""
        return self.weights > 0

    def problem(self: Fit[RowsOfProblems], k: int) -> MarginProblem:
        """Return binary problem k, which the calling thread will solve."""
        return self.rows.problem(self.recipe, self.problems[k], self.scale)

    def part(self: Fit[RowsOfProblems], samples: Indices) -> Fit[RowsOfProblems]:
        """Return the fit of only some of the samples, none of which are held out."""
        return replace(
            self,
            label=self.label[samples],
            weights=self.weights[samples],
            rows=self.rows.part(samples),
            held_out=np.zeros(0, dtype=np.int64),
            positions=samples,
        )

    def on(self, rows: RowsT) -> Fit[RowsT]:
        """Return the same fit with other rows of its samples."""
        return Fit(**{**vars(self), "rows": rows})

    def table(self: Fit[RowsOfProblems], models: Sequence[BinaryModel]) -> ModelTable:
        """Return the table of the models of all binary problems."""
        return ModelTable.of(models, *self.rows.predictors(self.problems, models))

    def positions_in(self, whole: Fit[TrainingRows], k: int) -> Indices:
        """Return the positions of the samples of binary problem k in the same problem of the whole fit."""
        own = self.problems[k].rows
        positions = self.positions if own is None else self.positions[own]
        return whole.problems[k].positions(positions, whole.label.size)


@dataclass(frozen=True)
class FitRules:
    """The stop rules, the callbacks and the starting points of a fit.

    Attributes
    ----------
    stop : StopRules
        The stop rules of each binary problem; its time and its budget are shares of those of the fit.
    certify : bool or "checks"
        Whether to certify the model of each binary problem, see :func:`maxmargin.solvers.solve`.
    callbacks : FitCallbacks
        Receives the progress of the fit.
    deadline : Deadline
        The time at which the fit must end.
    n_jobs : int or None
        The maximum number of threads, as the user gave it.
    starts : callable
        Returns what each binary problem starts from.
    predictor : callable
        Turns a fit and its models into the attributes with which the estimator predicts.
    checkpoint : FitCheckpoint or None
        Where to save the fit; None does not save it.
    """

    stop: StopRules
    certify: bool | str
    callbacks: FitCallbacks
    deadline: Deadline
    n_jobs: int | None
    starts: Callable[[], list[Start]]
    predictor: Callable[[Fit[Any], ModelTable], dict[str, Any]]
    checkpoint: FitCheckpoint | None = None
