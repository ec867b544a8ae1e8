"""How a run came to its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.solvers import Trace, Traces

LABELS = {
    "entries_read": "entries read",
    "seconds": "seconds",
    "iteration": "iterations",
    "kernel_evaluations": "kernel evaluations",
}


class ConvergenceDisplay:
    """Value, bound and holdout error of one or several runs against what they cost.

    Parameters
    ----------
    traces : mapping of str to Trace
        The runs, by the name that the legend shows.
    x : {"entries_read", "seconds", "iteration", "kernel_evaluations"}
        What is drawn to the right.
    stored : int or None
        How many entries the data holds; drawn as a line on the axis of entries read.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : list of matplotlib Axes
        One for margins or objectives (value and bound), one for the holdout error; those for which the traces have
        figures.

    Examples
    --------
    >>> from maxmargin.display import ConvergenceDisplay
    >>> from maxmargin.solvers import Row, Trace
    >>> trace = Trace([Row(1, 0.1, 10, primal=0.1, dual=0.4, gap=0.3), Row(2, 0.2, 20, primal=0.2, dual=0.3, gap=0.1)])
    >>> display = ConvergenceDisplay.from_trace(trace)
    >>> len(display.axes_)
    1
    """

    def __init__(self, traces: Mapping[str, Trace], *, x: str = "entries_read", stored: int | None = None) -> None:
        if x not in LABELS:
            raise ValueError(f"x must be one of {', '.join(LABELS)}; got {x!r}")
        self.traces, self.x, self.stored = dict(traces), x, stored

    @classmethod
    def from_trace(cls, trace: Trace | Traces, *, name: str = "", ax: Any = None, **options: Any) -> ConvergenceDisplay:
        """Draw one run, or those of all binary problems of a fit."""
        return cls(dict(trace.items()) if isinstance(trace, Traces) else {name: trace}, **options).plot(ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> ConvergenceDisplay:
        """Draw the fit of an estimator, one curve a binary problem."""
        check_is_fitted(estimator, "trace_")
        return cls.from_trace(estimator.trace_, name=type(estimator).__name__, ax=ax, **options)

    def plot(self, ax: Any = None) -> ConvergenceDisplay:
        """Draw; `ax` takes the axes to draw into, one for each panel that the traces have figures for."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("drawing needs matplotlib; install it with: pip install 'maxmargin[plot]'") from error

        panels = [
            panel
            for panel, column in ((self._draw_values, "primal"), (self._draw_errors, "holdout_error"))
            if any(np.isfinite(trace.column(column)).any() for trace in self.traces.values())
        ]
        if not panels:
            raise ValueError(
                "the trace has neither certified values nor holdout errors to draw; "
                'fit with certify="checks" or early_stopping=True'
            )
        if ax is None:
            self.figure_, axes = plt.subplots(
                len(panels), 1, sharex=True, squeeze=False, figsize=(7, 3.2 * len(panels)), layout="constrained"
            )
            self.axes_ = list(axes[:, 0])
        else:
            self.axes_ = list(np.atleast_1d(ax))
            self.figure_ = self.axes_[0].figure
        if len(self.axes_) != len(panels):
            raise ValueError(f"this trace needs {len(panels)} axes, one a panel; got {len(self.axes_)}")
        for panel, axes in zip(panels, self.axes_, strict=True):
            panel(axes)
            axes.set_xscale("log")
            axes.grid(alpha=0.3)
            if self.stored is not None and self.x == "entries_read":
                axes.axvline(self.stored, color="0.4", linestyle=":", label="all entries once")
            axes.legend()
        self.axes_[-1].set_xlabel(LABELS[self.x])
        return self

    def _draw_values(self, axes: Any) -> None:
        for name, trace in self.traces.items():
            at, primal, dual = (trace.column(column) for column in (self.x, "primal", "dual"))
            seen = np.isfinite(primal)
            # A margin is to be large and its bound lies above it; an objective is to be small.
            what, side = ("objective", "least") if (primal > dual).any() else ("margin", "most")
            line = axes.plot(at[seen], primal[seen], marker=".", label=f"{name} {what} reached".strip())[0]
            bound = f"{name} best possible, at {side}".strip()
            axes.plot(at[seen], dual[seen], color=line.get_color(), linestyle="--", label=bound)
            axes.fill_between(at[seen], primal[seen], dual[seen], color=line.get_color(), alpha=0.15)
            axes.set_ylabel("objective" if what == "objective" else "margin (scaled data)")

    def _draw_errors(self, axes: Any) -> None:
        for name, trace in self.traces.items():
            at, error = trace.column(self.x), trace.column("holdout_error")
            seen = np.isfinite(error)
            axes.plot(at[seen], 100 * error[seen], marker=".", label=f"{name} holdout".strip())
        axes.set_ylabel("error, %")
