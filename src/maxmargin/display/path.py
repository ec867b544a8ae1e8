"""Plots of a regularisation path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.core.types import Vector
from maxmargin.display.style import LEGEND_ABOVE, MARKERS, ink, panels, percent
from maxmargin.estimators.path import Path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {"slack": "mean slack, in units of the largest norm", "C": "C", "margin": "margin"}
LOG_RANGE = 10.0  # an axis is logarithmic if the largest value on it is at least this many times the smallest


class PathDisplay:
    """Plot of the errors and the margin of the models on a regularisation path.

    There are two panels. The first one shows the error on the training samples and on the held-out samples, and marks
    the smallest error on the latter. The second one shows the margin (or the slack, if `x` is the margin).

    Parameters
    ----------
    path : Path
        A path from :func:`maxmargin.slack_path`.
    x : {"slack", "C", "margin"}, default="slack"
        The quantity on the horizontal axis.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : list of matplotlib Axes
        The axes of the panels, from the top.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import slack_path
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> display = slack_path(X, y, n_points=5, random_state=0).plot(x="C")
    >>> [axes.get_ylabel() for axes in display.axes_]
    ['error', 'margin']
    """

    def __init__(self, path: Path, *, x: str = "slack") -> None:
        if x not in LABELS:
            raise ValueError(f"x must be one of {', '.join(LABELS)}; got {x!r}")
        if not len(path):
            raise ValueError("the path has no points to draw")
        self.path, self.x = path, x

    @classmethod
    def from_path(cls, path: Path, *, ax: Any = None, x: str = "slack") -> PathDisplay:
        """Plot a path.

        Parameters
        ----------
        path : Path
            A path from :func:`maxmargin.slack_path`.
        ax : matplotlib Axes, a sequence of them, or None, default=None
            See :meth:`plot`.
        x : {"slack", "C", "margin"}, default="slack"
            The quantity on the horizontal axis.

        Returns
        -------
        PathDisplay
            The plot.
        """
        return cls(path, x=x).plot(ax=ax)

    def plot(self, ax: Any = None) -> PathDisplay:
        """Draw the plot.

        Parameters
        ----------
        ax : matplotlib Axes, a sequence of them, or None, default=None
            The axes for the errors and, if there is a second one, for the margin. None makes a new figure.

        Returns
        -------
        PathDisplay
            The plot itself.
        """
        self.figure_, self.axes_ = panels(2, ax)
        x = self.path.column(self.x)
        for draw, axes in zip((self._draw_errors, self._draw_other), self.axes_, strict=False):
            _set_scale(axes, "x", x)
            draw(axes, x)
            axes.grid(alpha=0.3)
        self.axes_[0].legend(**(LEGEND_ABOVE if ax is None else {"loc": "best"}))
        self.axes_[-1].set_xlabel(LABELS[self.x])
        return self

    def _draw_errors(self, axes: Axes, x: Vector) -> None:
        from matplotlib.ticker import FuncFormatter

        names = {"train_error": "training samples", "holdout_error": "holdout"}
        for marker, (column, label) in zip(MARKERS, names.items(), strict=False):
            error = self.path.column(column)
            if np.isfinite(error).any():
                line = axes.plot(x, error, marker=marker, markersize=4, label=label)[0]
                line.set_linestyle("-" if column == "holdout_error" else "--")
        holdout = self.path.column("holdout_error")
        if np.isfinite(holdout).any():
            best = int(np.nanargmin(holdout))
            label = f"least on the holdout: {percent(holdout[best])}"
            axes.axvline(x[best], color=ink(axes), linestyle=":", label=label)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("error")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))

    def _draw_other(self, axes: Axes, x: Vector) -> None:
        other = "slack" if self.x == "margin" else "margin"
        values = self.path.column(other)
        axes.plot(x, values, marker="o", markersize=4, color="C2")
        _set_scale(axes, "y", values)
        axes.set_ylabel(other)


def _set_scale(axes: Axes, which: str, values: Vector) -> None:
    """Use a logarithmic axis for values of different sizes; one that includes zero if a value is zero."""
    positive = values[values > 0]
    if not positive.size or positive.max() < LOG_RANGE * positive.min():
        return
    options = {} if positive.size == values.size else {"linthresh": positive.min()}
    getattr(axes, f"set_{which}scale")("symlog" if options else "log", **options)
