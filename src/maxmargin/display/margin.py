"""Plots of the margins of all samples, with the water level of the slack form.

The plots correspond to Figure 1 of Cotter, Shalev-Shwartz and Srebro (2012), for any data.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, column_or_1d

from maxmargin.core.types import Vector
from maxmargin.core.water import water_level
from maxmargin.display.style import LEGEND_ABOVE, ink, last_step, panels, percent
from maxmargin.estimators.base import MarginClassifier

LISTED_CLASSES = 5  # maximum number of classes that an error message lists


class MarginDisplay:
    r"""Plot of decision values times labels in ascending order, with the level to which the slack fills them.

    The curve of the responses of all samples is like the ground, and the slack is like water that is poured over it.
    Samples below zero are misclassified, and samples below the level are inside the margin. The water above a sample is
    its slack.

    Parameters
    ----------
    responses : array of shape (n,)
        The decision value of each sample times its label -1 or 1, so that the margin is 1.
    level : float, default=1.0
        The water level.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC
    >>> from maxmargin.display import MarginDisplay
    >>> X, y = make_moons(100, noise=0.3, random_state=0)
    >>> display = MarginDisplay.from_estimator(SVC().fit(X, y), X, y)
    >>> display.ax_.get_ylabel()
    'decision value times label'
    """

    def __init__(self, responses: ArrayLike, *, level: float = 1.0) -> None:
        self.responses, self.level = np.sort(np.asarray(responses, dtype=np.float64)), float(level)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, problem: str | int | None = None, level: str = "margin", ax: Any = None
    ) -> MarginDisplay:
        """Plot the margins of samples, all with the same weight.

        Parameters
        ----------
        estimator : LinearSVC, SVC, LinearSVCCV, SVCCV, or a pipeline that ends in one
            A fitted estimator.
        X : array or sparse matrix of shape (n, d)
            The training samples or other samples.
        y : array of shape (n,)
            The labels of these samples.
        problem : str, int or None, default=None
            The binary problem of a model of several classes, by name, such as "3 against 5" or "3 against the rest", or
            by position. For a problem of two classes, samples of other classes are left out.
        level : {"margin", "slack"}, default="margin"
            The water level: "margin" is at the margin, 1, and "slack" is the level that the model's slack reaches when
            it is poured over these samples. Both are the same on the training samples of a model with the hinge and
            equal weights.
        ax : matplotlib Axes or None, default=None
            The axes to draw on. None makes a new figure.

        Returns
        -------
        MarginDisplay
            The plot.
        """
        if level not in ("margin", "slack"):
            raise ValueError(f"level must be 'margin' or 'slack'; got {level!r}")
        check_is_fitted(estimator)
        model = last_step(estimator)
        if not isinstance(model, MarginClassifier):
            raise TypeError(f"a plot of margins needs a LinearSVC or SVC; got {type(model).__name__}")
        k, name = _which(model, problem)
        responses = _responses(estimator, model, X, y, k)
        at = 1.0
        if level == "slack":
            slack = float(np.ravel(model.slack_)[k] * model.scale_ / np.ravel(model.margin_)[k])
            at = water_level(responses, slack * responses.size)
        return cls(responses, level=at).plot(ax=ax, name=name)

    def plot(self, ax: Any = None, *, name: str = "") -> MarginDisplay:
        """Draw the plot.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            The axes to draw on. None makes a new figure.
        name : str, default=""
            The name of the binary problem, for the title.

        Returns
        -------
        MarginDisplay
            The plot itself.
        """
        self.figure_, (self.ax_, *_) = panels(1, ax, (7.2, 3.6))
        from matplotlib.ticker import FuncFormatter

        axes, c, n = self.ax_, self.responses, self.responses.size
        share = (np.arange(n) + 0.5) / n
        wrong, inside = float(np.mean(c <= 0)), float(np.mean(c < self.level))
        slack = float(np.mean(np.maximum(self.level - c, 0.0)))
        axes.fill_between(
            share, np.minimum(c, self.level), self.level, color="C0", alpha=0.3, linewidth=0,
            label=f"mean slack {slack:.3g}",
        )  # fmt: skip
        axes.plot(share, c, color=ink(axes), linewidth=1.5)
        what = "margin" if self.level == 1 else f"level of {self.level:.3g}"
        axes.axhline(self.level, color="C0", linestyle="--", linewidth=1, label=f"{percent(inside)} below the {what}")
        axes.axhline(0, color=ink(axes), linestyle=":", linewidth=1, label=f"{percent(wrong)} wrong")
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))
        axes.grid(alpha=0.3)
        axes.set_xlabel(f"{n:,} samples, in ascending order")
        axes.set_ylabel("decision value times label")
        axes.legend(**(LEGEND_ABOVE if ax is None else {"loc": "best"}))
        if name:
            axes.figure.suptitle(name) if ax is None else axes.set_title(name)
        return self


def _which(model: MarginClassifier, problem: str | int | None) -> tuple[int, str]:
    """Return the position and the name of a binary problem."""
    names = list(model._strategy.names)
    if problem is None and len(names) == 1:
        return 0, ""
    listed = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
    if problem is None:
        raise ValueError(f"the model has {len(names)} binary problems; give one as problem=: {listed}")
    if isinstance(problem, str) and problem in names:
        return names.index(problem), problem
    if not isinstance(problem, str) and -len(names) <= problem < len(names):
        return problem % len(names), names[problem]
    raise ValueError(f"the model has no binary problem {problem!r}; there are: {listed}")


def _responses(estimator: Any, model: MarginClassifier, X: Any, y: Any, k: int) -> Vector:
    """Compute the decision values of binary problem k times the labels -1 and 1 in it."""
    before = estimator
    while hasattr(before, "best_estimator_"):
        before = before.best_estimator_
    if hasattr(before, "steps") and len(before.steps) > 1:
        X = before[:-1].transform(X)
    y = check_labels(model, y)
    values = values_by_model(model, X)[:, k]
    classes = [model.classes_[j] for j in model._strategy.classes_by_model[k]]
    label = np.where(y == classes[0], 1.0, -1.0)
    among = np.isin(y, classes) if len(classes) == 2 else np.ones(y.size, dtype=bool)
    if not among.any():
        raise ValueError(f"no sample is of the classes {classes[0]!r} and {classes[1]!r}")
    return np.asarray((values * label)[among])


def check_labels(model: MarginClassifier, y: Any) -> NDArray[Any]:
    """Convert labels to an array; raise an error if the model does not know one of them."""
    labels: NDArray[Any] = np.asarray(column_or_1d(y))
    try:
        unknown = np.setdiff1d(labels, model.classes_).tolist()
    except TypeError:  # labels of several types, such as None among strings, cannot be sorted
        known = set(model.classes_.tolist())
        unknown = [label for label in labels.tolist() if label not in known]
    if unknown:
        listed = ", ".join(map(repr, model.classes_[:LISTED_CLASSES].tolist()))
        more = ", ..." if model.classes_.size > LISTED_CLASSES else ""
        raise ValueError(
            f"y has the label {unknown[0]!r}, which the model does not know; its classes are {listed}{more}"
        )
    return labels


def values_by_model(model: MarginClassifier, X: Any) -> Vector:
    """Compute the decision values of the binary models (not votes), of shape (m, n_models)."""
    by_model = copy.copy(model)
    if "decision_function_shape" in model.get_params():
        by_model.set_params(decision_function_shape="ovo")
    values: Vector = by_model.decision_function(X)
    return values.reshape(values.shape[0], -1)
