"""One call of `fit`: its samples, its binary problems, and how they are solved."""

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
    """The samples of a fit, cut into binary problems.

    Attributes
    ----------
    given, X : data
        The samples as the user gave them, and as they were validated.
    order : array or None
        The order of the samples in `rows`, `label` and `weights`, by their positions in X; None: that of X.
    label : array of shape (n,)
        The class of each sample, by its index in `classes_`.
    weights : array of shape (n,)
        The weight of each sample; 0 where it is held out.
    class_weights : array of shape (n_classes,)
        The weight of each class.
    strategy : MulticlassStrategy
        How the classes are told apart.
    recipe : Recipe
        How each binary problem is solved.
    rows : TrainingRows
        What the binary problems read.
    scale : float
        What rows are divided by in the slack form: as the user gave it, or the largest norm of a row of all data.
    held_out : array of int
        Which samples are held out for early stopping.
    positions : array of shape (n,)
        The positions of these samples among those of the whole fit, of which a preliminary round uses a part.
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
        """Which samples a solver may learn from."""
        return self.weights > 0

    def problem(self: Fit[RowsOfProblems], k: int) -> MarginProblem:
        """Binary problem k, to be solved by the calling thread."""
        return self.rows.problem(self.recipe, self.problems[k], self.scale)

    def part(self: Fit[RowsOfProblems], samples: Indices) -> Fit[RowsOfProblems]:
        """The fit of some of the samples alone, of which none is held out."""
        return replace(
            self,
            label=self.label[samples],
            weights=self.weights[samples],
            rows=self.rows.part(samples),
            held_out=np.zeros(0, dtype=np.int64),
            positions=samples,
        )

    def on(self, rows: RowsT) -> Fit[RowsT]:
        """The same fit that reads other rows of its samples."""
        return Fit(**{**vars(self), "rows": rows})

    def table(self: Fit[RowsOfProblems], models: Sequence[BinaryModel]) -> ModelTable:
        """The models of all binary problems."""
        return ModelTable.of(models, *self.rows.predictors(self.problems, models))

    def positions_in(self, whole: Fit[TrainingRows], k: int) -> Indices:
        """The positions of the samples of binary problem k among those of the same problem of the whole fit."""
        own = self.problems[k].rows
        positions = self.positions if own is None else self.positions[own]
        return whole.problems[k].positions(positions, whole.label.size)


@dataclass(frozen=True)
class FitRules:
    """When a fit ends, who hears of it, and with what it begins.

    Attributes
    ----------
    stop : StopRules
        When each binary problem ends; its time and its budget are shares of those of the fit.
    certify : bool or "checks"
        Whether to certify the model of each binary problem, see :func:`maxmargin.solvers.solve`.
    callbacks : FitCallbacks
        Hears how far the fit has come.
    deadline : Deadline
        When the fit has to end.
    n_jobs : int or None
        How many threads to use, at most, as the user gave it.
    starts : callable
        Gives what each binary problem begins with.
    predictor : callable
        From a fit and its models to the attributes with which the estimator predicts.
    checkpoint : FitCheckpoint or None
        Where the fit is saved; None: nowhere.
    """

    stop: StopRules
    certify: bool | str
    callbacks: FitCallbacks
    deadline: Deadline
    n_jobs: int | None
    starts: Callable[[], list[Start]]
    predictor: Callable[[Fit[Any], ModelTable], dict[str, Any]]
    checkpoint: FitCheckpoint | None = None
