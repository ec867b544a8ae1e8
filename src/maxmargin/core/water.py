"""The level of water poured over given heights, in one basin or in two that share it.

With the responses of all samples as heights, the margin at a mean slack is such a level: section 3.2 of Cotter,
Shalev-Shwartz and Srebro (2012), and section 3.6 for two basins, one for each class, which a bias without a penalty
makes.
"""

from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike, NDArray


def water_level(
    heights: ArrayLike, volume: float, weights: ArrayLike | None = None, *, start: float | None = None
) -> float:
    r"""Solve :math:`\sum_i s_i (g - c_i)_+ = V` for the level g.

    Parameters
    ----------
    heights : array-like of shape (n,)
        The heights c_i.
    volume : float
        The volume V >= 0. No volume gives the least height.
    weights : array-like of shape (n,), optional
        The widths s_i > 0, by default all 1.
    start : float, optional
        A guess of the level. A good one saves passes over the heights; the level does not depend on it.

    Returns
    -------
    float
        The level, exact up to rounding.

    Examples
    --------
    >>> water_level([0.0, 1.0, 5.0], 2.0)
    1.5
    """
    c, s = _check_basin("heights", heights, "weights", weights)
    _check_volume(volume)
    # Heights are counted from the least one: sums of nonnegative numbers have no cancellation.
    least = float(c.min())
    c = c - least

    def part(wet: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        return c[wet], None if s is None else s[wet]

    # The volume is a convex function of the level, so each Newton step ends at or above the solution: what is dry then
    # stays dry. Each step at least halves the excess volume or the wet mass.
    if start is not None and start > least:
        c, s = part(c <= _newton(volume, *part(c < start - least)))
    level = _newton(volume, c, s)
    while not (wet := c <= level).all():
        c, s = part(wet)
        level = _newton(volume, c, s)
    return least + level


def water_levels(
    positive: ArrayLike,
    negative: ArrayLike,
    volume: float,
    positive_weights: ArrayLike | None = None,
    negative_weights: ArrayLike | None = None,
) -> tuple[float, float]:
    r"""Share a volume between two basins so that the sum of their levels is largest.

    .. math:: \max g_+ + g_- \quad \text{s.t.} \quad \sum_i s_i (g_+ - c_i)_+ + \sum_j s_j (g_- - c_j)_+ = V

    With responses of a classifier as heights, the best free bias moves both levels to their mean: the margin is
    :math:`(g_+ + g_-)/2` and the bias :math:`(g_- - g_+)/2`.

    Parameters
    ----------
    positive, negative : array-like
        The heights c in the two basins.
    volume : float
        The volume V >= 0. No volume gives the least height of each.
    positive_weights, negative_weights : array-like, optional
        The widths s > 0, by default all 1.

    Returns
    -------
    tuple of float
        The two levels; the middle pair if several are best.

    Examples
    --------
    >>> water_levels([0.0, 1.0], [0.0, 3.0], 1.0)
    (0.5, 0.5)

    Notes
    -----
    Let G(m) be the least sum of s c over a part of mass m of a basin: the integral of its quantile function Q. Any
    levels and any m obey :math:`m (g_+ + g_-) \le V + G_+(m) + G_-(m)`, so the largest sum is the least value of
    :math:`(V + G_+(m) + G_-(m)) / m`. This falls while :math:`m (Q_+(m) + Q_-(m)) - G_+(m) - G_-(m) < V`, where the
    left side grows with m and jumps only where a point of either basin is just covered. At the best m, both basins
    are wet over the mass m: each level lies between Q(m-) and Q(m+).
    """
    _check_volume(volume)
    basins = (
        _Basin(*_check_basin("positive", positive, "positive_weights", positive_weights)),
        _Basin(*_check_basin("negative", negative, "negative_weights", negative_weights)),
    )
    if volume == 0.0:
        return basins[0].least, basins[1].least
    limit = min(basin.mass[-1] for basin in basins)

    def used(m: float) -> float:
        return sum(m * basin.quantile(m, "left") - basin.lowest(m) for basin in basins)

    # The last mass at which a point of either basin is just covered before the volume is used up.
    candidates = []
    for basin in basins:
        possible = np.searchsorted(basin.mass, limit, side="right")
        last = bisect_left(basin.mass, volume, hi=int(possible), key=used) - 1
        candidates += [float(basin.mass[last])] if last >= 0 else []
    m = max(candidates)
    total = (volume + sum(basin.lowest(m) for basin in basins)) / m
    (low, high), (other_low, other_high) = ((basin.quantile(m, "left"), basin.quantile(m, "right")) for basin in basins)
    level = (max(low, total - other_high) + min(high, total - other_low)) / 2
    return basins[0].least + level, basins[1].least + (total - level)


def _newton(volume: float, c: NDArray[np.float64], s: NDArray[np.float64] | None) -> float:
    """The level at which the volume stands over all points of a basin."""
    return float((volume + c.sum()) / c.size if s is None else (volume + s @ c) / s.sum())


class _Basin:
    """Sorted heights, counted from the least one, with cumulative sums of s and of s c."""

    def __init__(self, c: NDArray[np.float64], s: NDArray[np.float64] | None) -> None:
        if s is None:
            c = np.sort(c)
            self.mass = np.arange(1.0, c.size + 1.0)
        else:
            order = np.argsort(c)
            c, s = c[order], s[order]
            self.mass = np.cumsum(s)
        self.least = float(c[0])
        self.height = c - self.least
        self.sum = np.cumsum(self.height if s is None else s * self.height)

    def quantile(self, m: float, side: str) -> float:
        """Q(m-) or Q(m+): the height of the last point within the mass m, or of the first one beyond it."""
        i = np.searchsorted(self.mass, m, side=side)  # type: ignore[call-overload]
        return float(self.height[i]) if i < self.height.size else np.inf

    def lowest(self, m: float) -> float:
        """G(m): the least sum of s c over a part of mass m."""
        i = np.searchsorted(self.mass, m)
        return float(self.sum[i] - (self.mass[i] - m) * self.height[i])


def _check_basin(
    name: str, heights: ArrayLike, weights_name: str, weights: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    c = np.asarray(heights, dtype=np.float64)
    if c.ndim != 1 or c.size == 0 or not np.isfinite(c).all():
        raise ValueError(f"{name} must be a vector of one or more finite numbers, got {_describe(c)}.")
    if weights is None:
        return c, None
    s = np.asarray(weights, dtype=np.float64)
    if s.shape != c.shape or not (np.isfinite(s) & (s > 0.0)).all():
        raise ValueError(
            f"{weights_name} must be {c.size} finite numbers above zero, got {_describe(s)}. "
            "Leave out points of weight zero."
        )
    # Weights of 1 are the usual case, and sorting without them is several times faster.
    return c, None if (s == 1.0).all() else s


def _describe(values: NDArray[np.float64]) -> str:
    bad = values[~np.isfinite(values)]
    return f"shape {values.shape}" + (f" with {bad[0]}" if bad.size else "")


def _check_volume(volume: float) -> None:
    if not 0.0 <= volume < np.inf:
        raise ValueError(f"volume must be a finite number that is not negative, got {volume}.")
