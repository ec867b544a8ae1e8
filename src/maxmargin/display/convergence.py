"""Plots of the convergence of a fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.types import Vector
from maxmargin.display.style import LEGEND_ABOVE, MARKERS, ink, panels, percent
from maxmargin.solvers import Trace, Traces

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {
    "entries_read": "entries read",
    "seconds": "time",
    "iteration": "iterations",
    "kernel_evaluations": "kernel evaluations",
}

MOST_COLOURS = 6  # up to this many runs get a colour and a marker each; otherwise only the run with the largest gap
LOG_COST = 50.0  # the cost axis is logarithmic if the largest cost is at least this many times the smallest
SMALLEST_GAP = 1e-12  # smaller relative gaps are rounding errors and are drawn at the bottom of the axis


class ConvergenceDisplay:
    """Plot of the convergence of one or several runs against their cost.

    There are up to three panels. A panel is drawn if the traces contain data for it:

    - The relative gap on a logarithmic axis, with a line at `tol`. Dots are measured gaps; between them, the line
      follows the solver's own estimates, which cost nothing.
    - The value reached and the bound on the best possible value, if they were measured at two checks or more
      (``certify="checks"``). The panel shows the range near the last value and cuts off values far from it.
    - The error on the holdout (``early_stopping=True``).

    With more than six runs, such as the 45 binary problems of ten classes, the run with the largest gap is drawn in
    colour and named, and the others in grey. Instead of the values, a panel then counts the problems within `tol`.

    Parameters
    ----------
    traces : mapping of str to Trace, or Traces
        The runs, by the name that the legend shows.
    x : {"entries_read", "seconds", "iteration", "kernel_evaluations"} or None, default=None
        The measure of cost. None selects kernel evaluations if all runs have some, otherwise entries read if all runs
        have some, and otherwise seconds.
    stored : int or None, default=None
        The number of entries of the data, drawn as a line on the axis of entries read.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : list of matplotlib Axes
        The axes of the panels, from the top.

    Examples
    --------
    >>> from maxmargin.display import ConvergenceDisplay
    >>> from maxmargin.solvers import Row, Trace
    >>> trace = Trace([Row(1, 0.1, 10, primal=0.1, dual=0.4, gap=0.3), Row(2, 0.2, 20, primal=0.2, dual=0.3, gap=0.1)])
    >>> display = ConvergenceDisplay.from_trace(trace)
    >>> [axes.get_ylabel() for axes in display.axes_]
    ['relative gap', 'value (larger is better)']
    """

    def __init__(
        self, traces: Mapping[str, Trace] | Traces, *, x: str | None = None, stored: int | None = None
    ) -> None:
        self.traces = dict(traces.items())
        if x is not None and x not in LABELS:
            raise ValueError(f"x must be one of {', '.join(LABELS)}, or None; got {x!r}")
        self.x, self.stored = x or self._common_cost(), stored

    @classmethod
    def from_trace(
        cls, trace: Trace | Traces, *, name: str | None = None, ax: Any = None, **options: Any
    ) -> ConvergenceDisplay:
        """Plot one run, or the runs of all binary problems of a fit.

        Parameters
        ----------
        trace : Trace or Traces
            For example `model.trace_` or `result.trace`.
        name : str or None, default=None
            The name of the run in the title.
        ax : matplotlib Axes, a sequence of them, or None, default=None
            See :meth:`plot`.
        **options
            Parameters of the class.

        Returns
        -------
        ConvergenceDisplay
            The plot.
        """
        display = cls(trace if isinstance(trace, Traces) else {name or "": trace}, **options)
        return display.plot(ax=ax, name=name)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Any = None, **options: Any
    ) -> ConvergenceDisplay:
        """Plot the fit of an estimator.

        Parameters
        ----------
        estimator : LinearSVC, SVC or EnclosingBall
            A fitted estimator.
        name : str or None, default=None
            The name of the estimator in the title. None uses the name of its class.
        ax : matplotlib Axes, a sequence of them, or None, default=None
            See :meth:`plot`.
        **options
            Parameters of the class.

        Returns
        -------
        ConvergenceDisplay
            The plot.
        """
        check_is_fitted(estimator, "trace_")
        return cls.from_trace(estimator.trace_, name=name or type(estimator).__name__, ax=ax, **options)

    def plot(self, ax: Any = None, *, name: str | None = None) -> ConvergenceDisplay:
        """Draw the plot.

        Parameters
        ----------
        ax : matplotlib Axes, a sequence of them, or None, default=None
            The axes of the panels, in order; panels without axes are not drawn. None makes a new figure with a title
            and all panels.
        name : str or None, default=None
            The name of the runs in the title.

        Returns
        -------
        ConvergenceDisplay
            The plot itself.
        """
        drawings = self._drawings()
        if not drawings:
            raise ValueError(
                "the trace has no gaps and no holdout errors to draw; fit with certify=True, with a tol, or with "
                "early_stopping=True"
            )
        self.figure_, self.axes_ = panels(len(drawings), ax)
        if ax is None:
            self.figure_.suptitle(self._title(name or ""))
        for draw, axes in zip(drawings, self.axes_, strict=False):
            self._set_cost_axis(axes)
            draw(axes)
            axes.grid(alpha=0.3)
            if self.stored is not None and self.x == "entries_read":
                axes.axvline(self.stored, color=ink(axes), linestyle=":", label="all entries once")
            axes.legend(**(LEGEND_ABOVE if ax is None else {"loc": "best"}))
        own = ", of each binary problem" if self._many else ""
        self.axes_[-1].set_xlabel(LABELS[self.x] + own)
        return self

    # What the traces hold

    @property
    def _many(self) -> bool:
        return len(self.traces) > MOST_COLOURS

    @property
    def _tol(self) -> float | None:
        """The `tol` of the runs, if all runs with a `tol` have the same one."""
        found = {trace.tol for trace in self.traces.values()} - {None}
        return found.pop() if len(found) == 1 else None

    @property
    def _last_gaps(self) -> dict[str, float]:
        """The last known relative gap of each run that has one."""
        gaps = {name: known_gap(trace) for name, trace in self.traces.items()}
        return {name: float(gap[np.isfinite(gap)][-1]) for name, gap in gaps.items() if np.isfinite(gap).any()}

    def _common_cost(self) -> str:
        """Choose a cost that all runs have, because kernel evaluations and entries are not comparable and may be 0."""
        last = [trace[-1] for trace in self.traces.values() if len(trace)]
        if all(row.kernel_evaluations for row in last):
            return "kernel_evaluations"
        return "entries_read" if all(row.entries_read for row in last) else "seconds"

    def _drawings(self) -> Sequence[Callable[[Any], None]]:
        traces = self.traces.values()
        drawings: list[Callable[[Any], None]] = []
        if any(np.isfinite(known_gap(trace)).any() for trace in traces):
            drawings.append(self._draw_gaps)
        if self._many and self._tol is not None:
            drawings.append(self._draw_count)
        if not self._many and any(np.isfinite(trace.column("gap")).sum() > 1 for trace in traces):
            drawings.append(self._draw_values)
        if any(np.isfinite(trace.column("holdout_error")).any() for trace in traces):
            drawings.append(self._draw_errors)
        return drawings

    def _title(self, name: str) -> str:
        """Return the title: name, gap and error, on one line."""
        gaps, parts = self._last_gaps, []
        if len(self.traces) > 1 and gaps:
            loosest = max(gaps, key=lambda run: gaps[run])
            parts.append(f"the largest gap of {len(self.traces)} is {percent(gaps[loosest])} ({loosest})")
        elif gaps:
            parts.append(f"relative gap {percent(*gaps.values())}")
        if len(self.traces) == 1:
            errors = next(iter(self.traces.values())).column("holdout_error")
            if np.isfinite(errors).any():
                parts.append(f"best holdout error {percent(float(np.nanmin(errors)))}")
        return ": ".join(part for part in (name, ", ".join(parts)) if part)

    def _set_cost_axis(self, axes: Axes) -> None:
        """Use a logarithmic axis if costs span a wide range, otherwise one from zero; with numbers such as "20 M"."""
        from matplotlib.ticker import EngFormatter, NullFormatter

        drawn = [
            (trace, np.isfinite(known_gap(trace)) | np.isfinite(trace.column("holdout_error")))
            for trace in self.traces.values()
        ]
        costs = np.concatenate([trace.column(self.x)[seen | (len(drawn) == 1)] for trace, seen in drawn])
        least, most = costs.min(), max(costs.max(), self.stored or 0 if self.x == "entries_read" else 0) or 1
        if least > 0 and most >= LOG_COST * least:
            axes.set_xscale("log")
            axes.set_xlim(least / 1.3, 1.3 * most)
            axes.xaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_xlim(0, 1.05 * most)
        axes.xaxis.set_major_formatter(EngFormatter(unit="s" if self.x == "seconds" else ""))

    # The panels

    def _draw_gaps(self, axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter

        gaps = {name: known_gap(trace) for name, trace in self.traces.items()}
        bottom, top = _decades(np.concatenate([*gaps.values(), [] if self._tol is None else [self._tol]]))
        axes.set_yscale("log")
        axes.set_ylim(0.7 * bottom, 1.4 * top)
        estimated = False
        for name, style in self._styles(axes, self._last_gaps):
            trace, known = self.traces[name], np.isfinite(gaps[name])
            measured = np.isfinite(trace.column("gap"))[known]
            estimated = estimated or not measured.all()
            cost, gap = trace.column(self.x)[known], np.clip(gaps[name][known], bottom, top)
            axes.plot(cost, gap, **{"markevery": np.flatnonzero(measured).tolist(), **style})
            if len(self.traces) == 1 and trace.column(self.x)[0] < cost[0]:
                axes.axvspan(0, cost[0], color=ink(axes), alpha=0.07, linewidth=0, label="not known yet")
        if len(self.traces) == 1:
            axes.get_lines()[0].set_label("_" if estimated else "measured")
        if estimated and not self._many:
            colour = axes.get_lines()[0].get_color() if len(self.traces) == 1 else ink(axes)
            axes.plot([], [], color=colour, label="estimated by the solver")
            axes.plot([], [], "o", markersize=4, color=colour, label="measured")
        if self._tol is not None:
            axes.axhline(self._tol, color=ink(axes), linestyle="--", linewidth=1, label=f"tol = {percent(self._tol)}")
        axes.set_ylabel("relative gap")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))

    def _draw_count(self, axes: Axes) -> None:
        """Draw the number of runs within `tol` against the cost at which each run reached it."""
        tol, ends = self._tol, []
        for trace in self.traces.values():
            within = np.flatnonzero(trace.column("relative_gap") <= tol)
            ends += trace.column(self.x)[within[:1]].tolist()
        most = max(trace.column(self.x).max(initial=0) for trace in self.traces.values())
        cost, count = [0, *sorted(ends), most], [*range(len(ends) + 1), len(ends)]
        axes.step(cost, count, where="post", label=f"{len(ends)} within tol in the end")
        axes.axhline(len(self.traces), color=ink(axes), linestyle=":", label=f"all {len(self.traces)}")
        axes.set_ylim(0, 1.08 * len(self.traces))
        axes.set_ylabel("problems within tol")

    def _draw_values(self, axes: Axes) -> None:
        values = {}
        for name, style in self._styles(axes, self._last_gaps):
            trace = self.traces[name]
            measured = np.isfinite(trace.column("gap"))
            if not measured.any():
                continue
            cost, primal, dual = (trace.column(column)[measured] for column in (self.x, "primal", "dual"))
            smaller = bool((primal > dual).any())
            one = len(self.traces) == 1
            line = axes.plot(cost, primal, **(style | {"label": "reached"} if one else style))[0]
            side = "at least" if smaller else "at most"
            bound = axes.plot(cost, dual, color=line.get_color(), linestyle="--")[0]
            bound.set_label(f"bound: the best is {side} this" if one else f"_{name}")
            if one:
                axes.fill_between(cost, primal, dual, color=line.get_color(), alpha=0.15)
            values[name] = np.concatenate([primal, dual, [primal[-1], dual[-1]]])
            axes.set_ylabel(f"value ({'smaller' if smaller else 'larger'} is better)")
        if len(self.traces) > 1:
            axes.plot([], [], color=ink(axes), linestyle="--", label="bounds")
        best = values[min(values, key=lambda name: self._last_gaps[name])]
        axes.set_ylim(*_near(best[-2:], np.concatenate([*values.values()])))
        axes.ticklabel_format(axis="y", useOffset=False)

    def _draw_errors(self, axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter

        errors = {name: trace.column("holdout_error") for name, trace in self.traces.items()}
        best = {name: float(np.nanmin(error)) for name, error in errors.items() if np.isfinite(error).any()}
        for name, style in self._styles(axes, best):
            seen = np.isfinite(errors[name])
            cost = self.traces[name].column(self.x)[seen]
            axes.plot(cost, errors[name][seen], **style)
        if len(self.traces) == 1:
            axes.get_lines()[-1].set_label("error on the holdout")
            axes.axhline(*best.values(), color=ink(axes), linestyle=":", label=f"best: {percent(*best.values())}")
        axes.set_ylabel("holdout error")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))

    def _styles(self, axes: Axes, sizes: Mapping[str, float]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each run in `sizes` with its style; with many runs, the largest comes last and in colour."""
        if not self._many:
            for marker, name in zip(MARKERS, self.traces, strict=False):
                if name in sizes:
                    yield name, {"marker": marker, "markersize": 4, "label": name}
            return
        largest = max(sizes, key=lambda name: sizes[name])
        others = [name for name in sizes if name != largest]
        for name in others:
            label = f"{len(others)} others" if name == others[0] else f"_{name}"
            grey = {"color": ink(axes), "alpha": 0.3, "linewidth": 0.8, "markersize": 2.5}
            yield name, {**grey, "marker": "o", "markevery": [-1], "label": label}
        yield largest, {"color": "C0", "linewidth": 2, "marker": "o", "markersize": 4, "label": f"largest: {largest}"}


def known_gap(trace: Trace) -> Vector:
    """Return the relative gap at each check: measured, otherwise estimated by the solver, otherwise NaN."""
    measured: Vector = trace.column("relative_gap")
    return np.where(np.isfinite(measured), measured, trace.column("estimated_gap"))


def _decades(gaps: Vector) -> tuple[float, float]:
    """Return the powers of ten between which gaps are drawn; gaps of zero get one more decade at the bottom."""
    gaps = gaps[np.isfinite(gaps)]
    least = gaps[gaps > SMALLEST_GAP].min(initial=0.1)
    bottom = 10.0 ** (math.floor(math.log10(least)) - bool((gaps <= SMALLEST_GAP).any()))
    # A gap above 1 means that value and bound have different signs or that one is zero, so its size is meaningless.
    return bottom, 10.0 ** math.ceil(math.log10(min(1.0, max(gaps.max(), 2 * bottom))))


def _near(last: Vector, seen: Vector) -> tuple[float, float]:
    """Return the range of the values that are within one size of the last ones, with a margin."""
    size = np.abs(last).max() or np.abs(seen).max() or 1.0
    low, high = max(seen.min(), last.min() - size), min(seen.max(), last.max() + size)
    low = max(low, 0.0) if last.min() >= 0 else low
    space = 0.05 * (high - low) or 0.05 * size
    return (0.0 if 0 <= low < space else low - space), high + space
