"""One call of `fit`: its samples, its binary problems, and how they are solved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices, Vector
from maxmargin.estimators.multiclass import BinaryProblem, MulticlassStrategy
from maxmargin.estimators.recipe import Recipe
from maxmargin.estimators.training_rows import TrainingRows
from maxmargin.problems import MarginProblem


@dataclass(frozen=True)
class Fit:
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
    problems : list of BinaryProblem
        The samples of each binary problem.
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
    rows: TrainingRows
    scale: float
    problems: list[BinaryProblem]
    positions: Indices

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which samples a solver may learn from."""
        return self.weights > 0

    def problem(self, k: int) -> MarginProblem:
        """Binary problem k, to be solved by the calling thread."""
        return self.rows.problem(self.recipe, self.problems[k], self.scale)

    def part(self, samples: Indices) -> Fit:
        """The fit of some of the samples alone, of which none is held out."""
        label, weights, no_one = self.label[samples], self.weights[samples], np.zeros(0, dtype=np.int64)
        return replace(
            self,
            label=label,
            weights=weights,
            rows=self.rows.part(samples),
            problems=self.strategy.problems(label, weights, self.class_weights, no_one),
            positions=samples,
        )

    def positions_in(self, whole: Fit, k: int) -> Indices:
        """The positions of the samples of binary problem k among those of the same problem of the whole fit."""
        own = self.problems[k].rows
        positions = self.positions if own is None else self.positions[own]
        return whole.problems[k].positions(positions, whole.label.size)
