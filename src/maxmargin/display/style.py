"""What all pictures share: where they are drawn, and colours that can be seen on light and dark backgrounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.core.optional import import_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "os^DvP"  # one a curve or class, so that they can be told apart without colours
PANEL_SIZE = (7.2, 2.7)  # width and height of a panel in inches
# Above the curves, of which a legend there covers none.
LEGEND_ABOVE = {"loc": "lower left", "bbox_to_anchor": (0, 1), "frameon": False, "ncols": 3, "borderaxespad": 0.2}


def pyplot() -> Any:
    """The module matplotlib.pyplot, or an error that says how to install it."""
    return import_optional("matplotlib.pyplot", "drawing")


def panels(count: int, ax: Any, size: tuple[float, float] = PANEL_SIZE) -> tuple[Any, list[Any]]:
    """The figure and the axes for so many panels: a new one, or those that the caller gave for the first of them."""
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
    """A share in per cent, to three digits.

    >>> percent(0.0123), percent(1e-10)
    ('1.23 %', '1e-08 %')
    """
    digits = np.format_float_positional(100 * share, 3, unique=False, fractional=False, trim="-")
    return f"{digits if share >= 1e-8 else f'{100 * share:.3g}'} %"


def number(value: float) -> str:
    """A number on a tick, to two digits.

    >>> number(1000.0), number(0.0331)
    ('1000', '0.033')
    """
    return f"{float(f'{value:.2g}'):g}"


def ink(axes: Axes) -> Any:
    """The colour of text in the current style, readable on a light or dark background."""
    return axes.xaxis.label.get_color()


def last_step(estimator: Any) -> Any:
    """The classifier itself: the last step of a pipeline, the best model of a search."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        else:
            return estimator
