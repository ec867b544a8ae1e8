"""Charts as SVG within a page, in the colours of its style: a histogram, and curves of shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from maxmargin.core.types import Vector
from maxmargin.display.report.html import Html, element
from maxmargin.display.style import percent

WIDTH, HEIGHT = 400, 220  # in units of the text's size: 11 units are readable on a phone
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 40  # the room around the axes, for numbers and labels
BINS = 32  # bars of a histogram, about
SMALLEST_SHARE = 1e-12  # shares below this are drawn here on a logarithmic axis


def histogram(values: Vector, limits: Sequence[float], *, label: str, described: str) -> Html:
    """Bars of counts, in a colour for the values below the first limit, for those up to the next one, and so on.

    Parameters
    ----------
    values : array
        What is counted.
    limits : sequence of float
        In ascending order. Each has a line.
    label : str
        Of the horizontal axis.
    described : str
        What the picture shows, for those who do not see it.
    """
    low, high = min(float(values.min()), *limits), max(float(values.max()), *limits)
    width = _nice_step((high - low) / BINS or 1.0)
    first, last = math.floor(low / width + 1e-9), math.ceil(high / width + 1e-9)
    last = max(last, first + 1)
    edges = width * np.arange(first, last + 1)
    start, span = float(edges[0]), float(edges[-1] - edges[0])
    group = np.searchsorted(limits, values, side="right")
    within = np.clip(values, edges[0], edges[-1])  # rounding may have put the first edge above the smallest value
    counts = [np.histogram(within[group == k], edges)[0] for k in range(len(limits) + 1)]
    most = int(np.sum(counts, axis=0).max())

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - start) / span

    def y(count: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * count / most

    ticks = [tick for tick in _ticks(0, most, 4) if tick == int(tick)]
    drawn = [_across(y(tick), f"{int(tick):,}") for tick in ticks]
    base = np.zeros(edges.size - 1)
    for k, count in enumerate(counts):
        for bar in np.flatnonzero(count).tolist():
            left, right, top = x(edges[bar]), x(edges[bar + 1]), y(base[bar] + count[bar])
            size = {"width": _short(max(right - left - 1, 0.5)), "height": _short(y(base[bar]) - top)}
            drawn.append(element("rect", x=_short(left + 0.5), y=_short(top), **size, class_=f"bar{k}"))
        base += count
    drawn += [_down(x(limit)) for limit in limits]
    drawn += [_below(x(tick), f"{tick:g}") for tick in _ticks(edges[0], edges[-1], 6)]
    return _picture(drawn, label, described)


def curves(
    series: Mapping[str, tuple[Vector, Vector]],
    *,
    label: str,
    described: str,
    logarithmic: bool = True,
    level: float | None = None,
) -> Html:
    """Lines of shares, such as relative gaps, against a cost.

    Parameters
    ----------
    series : mapping of str to (array, array)
        Costs and shares of each line, by its name; six lines at most have a colour of their own.
    label : str
        Of the horizontal axis.
    described : str
        What the picture shows, for those who do not see it.
    logarithmic : bool, default=True
        Whether the vertical axis is.
    level : float or None
        Where a dashed line goes across, if anywhere.
    """
    costs = np.concatenate([cost for cost, _ in series.values()])
    shares = np.concatenate([*(share for _, share in series.values()), [] if level is None else [level]])
    left, right = (0.0, float(costs.max()) or 1.0) if costs.min() * 50 > costs.max() else (costs.min(), costs.max())
    wide = left > 0  # the costs span so much that their axis is logarithmic
    across = _ticks(left, right, 4)
    if wide:
        across = _decades(left, right)
        left, right = min(left, across[0]), max(right, across[-1])  # the marks may lie outside a short range
    if logarithmic:
        shares = np.maximum(shares, SMALLEST_SHARE)
        marks = _decades(shares.min(), shares.max())
        bottom, top = min(marks[0], shares.min()), max(marks[-1], shares.max())
        bottom, top = (bottom, top) if bottom < top else (bottom / 10, top * 10)
    else:
        bottom, top = 0.0, float(shares.max()) * 1.05 or 1.0
        marks = _ticks(0, top, 4)

    def place(value: float, low: float, high: float, logs: bool) -> float:
        if logs:
            value, low, high = (math.log(max(number, SMALLEST_SHARE)) for number in (value, low, high))
        return (value - low) / (high - low)

    def x(cost: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * place(cost, left, right, wide)

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * place(share, bottom, top, logarithmic)

    drawn = [_across(y(mark), _mark(mark)) for mark in marks]
    drawn += [_below(x(tick), counted(tick)) for tick in across]
    if level is not None:
        drawn.append(_across(y(level), "", class_="level"))
    for k, (name, (cost, share)) in enumerate(series.items()):
        points = [f"{_short(x(a))},{_short(y(b))}" for a, b in zip(cost.tolist(), share.tolist(), strict=True)]
        drawn.append(
            element("polyline", element("title", name) if name else "", points=" ".join(points), class_=f"line{k % 6}")
        )
        last = points[-1].split(",")
        drawn.append(element("circle", cx=last[0], cy=last[1], r=3, class_=f"dot{k % 6}"))
    return _picture(drawn, label, described)


def counted(number: float) -> str:
    """A large number in few characters.

    >>> counted(950), counted(12_000), counted(2.5e6), counted(0.004), counted(999_999)
    ('950', '12 k', '2.5 M', '0.004', '1 M')
    """
    number = float(f"{number:.3g}")
    for size, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def _picture(drawn: list[Html], label: str, described: str) -> Html:
    middle = (LEFT + WIDTH - RIGHT) / 2
    axis = element("text", label, x=middle, y=HEIGHT - 6, class_="label")
    return element("svg", *drawn, axis, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=described)


def _mark(share: float) -> str:
    """A share on an axis, which has room for few characters.

    >>> _mark(0.001), _mark(1e-8)
    ('0.1 %', '1e-06 %')
    """
    return percent(share) if share == 0 or share >= 1e-6 else f"{100 * share:.3g} %"


def _across(y: float, text: str, class_: str = "grid") -> Html:
    line = element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=_short(y), y2=_short(y), class_=class_)
    number = element("text", text, x=LEFT - 5, y=_short(y + 4), class_="left")
    return Html(line + number) if text else line


def _down(x: float) -> Html:
    return element("line", x1=_short(x), x2=_short(x), y1=TOP, y2=HEIGHT - BOTTOM, class_="level")


def _below(x: float, text: str) -> Html:
    return element("text", text, x=_short(x), y=HEIGHT - BOTTOM + 14, class_="below")


def _short(number: float) -> str:
    return f"{number:.1f}"


def _nice_step(least: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is not below a number.

    >>> _nice_step(0.031), _nice_step(3.0)
    (0.05, 5.0)
    """
    power = math.floor(math.log10(least))
    return next(float(f"{step}e{power}") for step in (1, 2, 5, 10) if float(f"{step}e{power}") >= least * (1 - 1e-9))


def _ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers within a range, so many at most and one more."""
    step = _nice_step((high - low) / count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten within a range of positive numbers, or next to it where there are none; at most six."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first < 1:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**k for k in range(first, last + 1, (last - first) // 6 + 1)]
