"""Code that all plots share: figures and axes, and colours that are visible on light and dark backgrounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.core.optional import import_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "os^DvP"  # one per curve or class, which distinguishes them without colours
PANEL_SIZE = (7.2, 2.7)  # width and height of a panel in inches
# The position of a legend above the axes, where it covers no curve.
LEGEND_ABOVE = {"loc": "lower left", "bbox_to_anchor": (0, 1), "frameon": False, "ncols": 3, "borderaxespad": 0.2}


def pyplot() -> Any:
    """Import matplotlib.pyplot, or raise an error that says how to install it."""
    return import_optional("matplotlib.pyplot", "drawing")


def panels(count: int, ax: Any, size: tuple[float, float] = PANEL_SIZE) -> tuple[Any, list[Any]]:
    """Return the figure and the axes for `count` panels: new ones, or those that the caller gave."""
    plt = pyplot()
    if ax is None:
        width, height = size
        figure, axes = plt.subplots(
            count, 1, sharex=True, squeeze=False, layout="constrained", figsize=(width, 0.5 + height * count)
        )
        return figure, list(axes[:, 0])
    given = list(np.atleast_1d(ax))
    if len(given) > count:
        raise ValueError(f"there are {count} panels to draw; got {len(given)} axes for them")
    return given[0].figure, given


def percent(share: float) -> str:
    """Format a share in per cent with three digits.

    >>> percent(0.0123), percent(1e-10)
    ('1.23 %', '1e-08 %')
    """
    digits = np.format_float_positional(100 * share, 3, unique=False, fractional=False, trim="-")
    return f"{digits if share >= 1e-8 else f'{100 * share:.3g}'} %"


def number(value: float) -> str:
    """Format a number for a tick with two digits.

    >>> number(1000.0), number(0.0331)
    ('1000', '0.033')
    """
    return f"{float(f'{value:.2g}'):g}"


def ink(axes: Axes) -> Any:
    """Return the colour of text in the current style, which is readable on its light or dark background."""
    return axes.xaxis.label.get_color()


def last_step(estimator: Any) -> Any:
    """Return the classifier itself: the last step of a pipeline, or the best model of a search."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        else:
            return estimator
