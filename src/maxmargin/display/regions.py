"""Plots of the decision regions of classifiers in two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, column_or_1d

from maxmargin.core.types import Vector
from maxmargin.display.style import LEGEND_ABOVE, MARKERS, ink, last_step, panels

MARGIN = 0.08  # space around the samples, as a share of their range


class RegionsDisplay:
    """Plot of the predictions of a classifier in the plane, with samples.

    With two classes, the boundary is a solid line, and the margins, where the decision value is -1 or 1, are dashed
    lines. Support vectors, if known, are marked with a ring.

    Parameters
    ----------
    xx, yy : arrays of shape (m, m)
        The coordinates of a grid of points.
    regions : array of int of shape (m, m)
        The class of each point.
    classes : array of shape (n_classes,)
        The labels.
    decisions : array of shape (m, m) or None, default=None
        The decision value at each point, for two classes.
    names : tuple of str, default=("feature 0", "feature 1")
        The names of the two features.

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
    >>> from maxmargin.display import RegionsDisplay
    >>> X, y = make_moons(100, noise=0.3, random_state=0)
    >>> display = RegionsDisplay.from_estimator(SVC().fit(X, y), X, y)
    >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
    ['0', '1', 'support vectors', 'margin']
    """

    def __init__(
        self,
        xx: Vector,
        yy: Vector,
        regions: NDArray[np.intp],
        classes: NDArray[Any],
        *,
        decisions: Vector | None = None,
        names: tuple[str, str] = ("feature 0", "feature 1"),
    ) -> None:
        self.xx, self.yy, self.regions, self.classes = xx, yy, regions, classes
        self.decisions, self.names = decisions, names

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, grid_resolution: int = 200, ax: Any = None
    ) -> RegionsDisplay:
        """Plot the regions of a classifier.

        Parameters
        ----------
        estimator : classifier, or a pipeline that ends in one
            A fitted estimator with two features.
        X : array or DataFrame of shape (n, 2)
            The training samples or other samples. If X has as many rows as the training data, it is assumed to be the
            training data, and support vectors are marked.
        y : array of shape (n,)
            The labels of these samples.
        grid_resolution : int, default=200
            The number of grid points on each axis.
        ax : matplotlib Axes or None, default=None
            The axes to draw on. None makes a new figure.

        Returns
        -------
        RegionsDisplay
            The plot.
        """
        check_is_fitted(estimator)
        columns = getattr(X, "columns", None)
        samples = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        if samples.ndim != 2 or samples.shape[1] != 2:
            raise ValueError(
                f"a plot of regions needs two features; got X of shape {samples.shape}. Fit a model on two of the "
                "features, or on two components of PCA"
            )
        low, high = samples.min(axis=0), samples.max(axis=0)
        space = MARGIN * np.where(high > low, high - low, 1.0)
        axes = (np.linspace(low[j] - space[j], high[j] + space[j], grid_resolution) for j in (0, 1))
        xx, yy = np.meshgrid(*axes)
        points: Any = np.column_stack([xx.ravel(), yy.ravel()])
        if columns is not None:
            points = type(X)(points, columns=columns)
        classes = np.asarray(estimator.classes_)
        regions = np.searchsorted(classes, estimator.predict(points)).reshape(xx.shape)
        decisions = None
        if classes.size == 2 and hasattr(estimator, "decision_function"):
            decisions = np.asarray(estimator.decision_function(points)).reshape(xx.shape)
        names = ("feature 0", "feature 1") if columns is None else (str(columns[0]), str(columns[1]))
        display = cls(xx, yy, regions, classes, decisions=decisions, names=names)
        model = last_step(estimator)
        support = getattr(model, "support_", None) if getattr(model, "_n_rows", None) == len(samples) else None
        return display.plot(samples, column_or_1d(y), support=support, ax=ax)

    def plot(self, X: Vector, y: NDArray[Any], *, support: Any = None, ax: Any = None) -> RegionsDisplay:
        """Draw the plot.

        Parameters
        ----------
        X : array of shape (n, 2)
            The samples.
        y : array of shape (n,)
            The labels of these samples.
        support : array of int or None, default=None
            The positions of the support vectors in X.
        ax : matplotlib Axes or None, default=None
            The axes to draw on. None makes a new figure.

        Returns
        -------
        RegionsDisplay
            The plot itself.
        """
        self.figure_, (self.ax_, *_) = panels(1, ax, (6.0, 4.5))
        axes, count = self.ax_, self.classes.size
        colours = [f"C{k % 10}" for k in range(count)]
        levels = np.arange(count + 1) - 0.5
        if self.decisions is None:
            axes.contourf(self.xx, self.yy, self.regions, levels=levels, colors=colours, alpha=0.25)
            axes.contour(self.xx, self.yy, self.regions, levels=levels[1:-1], colors=[ink(axes)], linewidths=1)
        else:
            reach = float(np.abs(self.decisions).max()) + 1.0
            axes.contourf(self.xx, self.yy, self.decisions, levels=[-reach, 0, reach], colors=colours, alpha=0.25)
            lines = {"levels": [-1, 0, 1], "linestyles": ["--", "-", "--"], "linewidths": [1, 1.5, 1]}
            axes.contour(self.xx, self.yy, self.decisions, colors=[ink(axes)], **lines)
        for k, label in enumerate(self.classes.tolist()):
            of_class = y == label
            style = {"marker": MARKERS[k % len(MARKERS)], "color": colours[k], "edgecolors": "none", "s": 18}
            axes.scatter(X[of_class, 0], X[of_class, 1], label=str(label), **style)
        if support is not None and len(support):
            ring = {"facecolors": "none", "edgecolors": ink(axes), "linewidths": 0.8, "s": 45}
            axes.scatter(X[support, 0], X[support, 1], label="support vectors", **ring)
        if self.decisions is not None:
            axes.plot([], [], color=ink(axes), linestyle="--", linewidth=1, label="margin")
        axes.set_xlim(self.xx[0, 0], self.xx[0, -1])
        axes.set_ylim(self.yy[0, 0], self.yy[-1, 0])
        axes.set_xlabel(self.names[0])
        axes.set_ylabel(self.names[1])
        axes.legend(**({**LEGEND_ABOVE, "ncols": 6} if ax is None else {"loc": "best"}))
        return self
