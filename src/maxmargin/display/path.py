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
    """Plots the errors and the margin of the models of a regularisation path.

    There are two panels: the share of wrong predictions, on the samples that the models were fitted on and on those
    held out, with the least error on the latter marked; and the margin (against the margin, the slack).

    Parameters
    ----------
    path : Path
        What :func:`maxmargin.slack_path` returned.
    x : {"slack", "C", "margin"}, default="slack"
        What the models are drawn against.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : list of matplotlib Axes
        One for each panel, from the top.

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
        """Draw a path.

        Parameters
        ----------
        path : Path
            What :func:`maxmargin.slack_path` returned.
        ax : matplotlib Axes, a sequence of them, or None
            See :meth:`plot`.
        x : {"slack", "C", "margin"}, default="slack"
            What the models are drawn against.

        Returns
        -------
        PathDisplay
        """
        return cls(path, x=x).plot(ax=ax)

    def plot(self, ax: Any = None) -> PathDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, a sequence of them, or None
            Where to draw: the errors go into the first axes, the margin into the second, if there is one. None: a new
            figure.

        Returns
        -------
        PathDisplay
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
    """A logarithmic axis for values of many sizes; one that has a place for zero if there are such."""
    positive = values[values > 0]
    if not positive.size or positive.max() < LOG_RANGE * positive.min():
        return
    options = {} if positive.size == values.size else {"linthresh": positive.min()}
    getattr(axes, f"set_{which}scale")("symlog" if options else "log", **options)
