"""The level of water poured over given heights, in one basin or in two that share it.

With the responses of all samples as heights, the margin at a mean slack is such a level (section 3.2 of Cotter,
Shalev-Shwartz and Srebro 2012). A bias without a penalty makes two basins, one for each class (section 3.6).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.core.types import Indices

SORTED = 16384  # largest number of points of a basin that are sorted; of more points, selection decides on most first
PIVOT_OF = 255  # random points whose median is a pivot of the selection
EPSILON = float(np.finfo(np.float64).eps)

Pivot = Callable[[NDArray[np.float64]], float]  # chooses a height near the median of some points


def water_level(
    heights: ArrayLike, volume: float, weights: ArrayLike | None = None, *, start: float | None = None
) -> float:
    r"""Solve :math:`\sum_i s_i (g - c_i)_+ = V` for the level g.

    Parameters
    ----------
    heights : array-like of shape (n,)
        The heights c_i.
    volume : float
        The volume V >= 0. For V = 0, the level is the least height.
    weights : array-like of shape (n,), optional
        The widths s_i > 0, by default all 1.
    start : float, optional
        A guess of the level. A good guess saves passes over the heights; the level does not depend on it.

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
    # Heights are measured from the least one, as sums of nonnegative numbers have no cancellation.
    least = float(c.min())
    c = c - least

    def part(wet: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        some = np.flatnonzero(wet)  # indexing by number is several times faster than by mask
        return c[some], None if s is None else s[some]

    # The volume is a convex function of the level, so each Newton step ends at or above the solution, and points that
    # are dry then stay dry. Each step at least halves the excess volume or the wet mass.
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

    If the heights are responses of a classifier, the best free bias moves both levels to their mean: the margin is
    :math:`(g_+ + g_-)/2` and the bias :math:`(g_- - g_+)/2`.

    Parameters
    ----------
    positive, negative : array-like
        The heights c in the two basins.
    volume : float
        The volume V >= 0. For V = 0, the levels are the least heights.
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
    basins = [
        _check_basin("positive", positive, "positive_weights", positive_weights),
        _check_basin("negative", negative, "negative_weights", negative_weights),
    ]
    _check_volume(volume)
    return _share([_Basin(*basin) for basin in basins], volume)[0]


@dataclass(frozen=True)
class Water:
    """Water over one basin or two.

    Attributes
    ----------
    levels : list of float
        The level in each basin.
    wet : list of arrays
        The share of each point that is wet: 1 at the lowest points, 0 at the highest, and the same for all points at
        the height between them.
    """

    levels: list[float]
    wet: list[NDArray[np.float64]]


def pour(heights: Sequence[ArrayLike], volume: float, weights: Sequence[ArrayLike | None] | None = None) -> Water:
    r"""Pour a volume over one basin or two, as `water_level` and `water_levels` do, and return what becomes wet.

    All basins are wet over the same mass m, the sum of s times the wet share. For K basins, the weights
    :math:`p_i = s_i\,\text{wet}_i / (Km)` solve the dual problem

    .. math:: \min_{p\ge0} \sum_i p_i c_i + V\max_i p_i/s_i

    over p with the sum 1/K in each basin. Its value is the mean of the levels, and these weights are the minimax p* of
    section 3.2 of the paper.

    Parameters
    ----------
    heights : one or two array-likes
        The heights c in each basin.
    volume : float
        The volume V >= 0.
    weights : as many array-likes, optional
        The widths s > 0, by default all 1.

    Returns
    -------
    Water
        The levels, and the wet share of each point.

    Examples
    --------
    >>> water = pour([[0.0], [0.0, 0.1]], 1.5, [[5.0], [1.0, 9.0]])
    >>> [share.tolist() for share in water.wet]  # 5 units of mass of either basin
    [[1.0], [1.0, 0.4444444444444444]]

    Notes
    -----
    With :math:`t = \max_i p_i/s_i` and p = t q, the dual is to choose parts q_i of the masses s_i, of the sum m =
    1/(Kt) in each basin. At a given m, the lowest parts are best, so that at most the points at one height of a basin
    are wet in part; the best m is that of `water_levels`. Points at that height may share the remaining mass in any
    way; with equal shares, two equal points count as one point of twice the weight. In one basin, all of them may be
    wet: m can be the mass of the points below the level, the mass of the points up to it, or anything between.
    """
    basins = _checked_basins(heights, weights)
    if len(basins) == 1:
        c, s = basins[0]
        level = water_level(c, volume, s)
        return Water([level], [(c <= level).astype(np.float64)])
    _check_volume(volume)
    undecided = [_Basin(*basin) for basin in basins]
    levels, m, tops = _share(undecided, volume)
    wet = []
    for (c, s), basin, top in zip(basins, undecided, tops, strict=True):
        height = c - basin.least
        below, tied = np.flatnonzero(height < top), np.flatnonzero(height == top)
        rest, most = m - _mass(below, s), _mass(tied, s)
        rounding = c.size * EPSILON * m  # of both masses
        share = np.zeros(c.size)
        share[below] = 1.0
        share[tied] = 0.0 if rest <= rounding else 1.0 if rest >= most - rounding else rest / most
        wet.append(share)
    return Water(list(levels), wet)


def best_factor(
    heights: Sequence[ArrayLike], volume: float, weights: Sequence[ArrayLike | None] | None = None
) -> float:
    r"""The factor t in [0, 1] for which the water over the heights t c, poured as by `pour`, stands highest.

    Parameters
    ----------
    heights, volume, weights
        As in :func:`pour`.

    Returns
    -------
    float
        The factor; 1 unless more than the volume lies below zero.

    Examples
    --------
    >>> from maxmargin.core import best_factor
    >>> best_factor([[-1.0, 2.0, 2.0]], 1.5)
    0.5

    Notes
    -----
    With G(m) the least sum of s c over a part of mass m of each basin, as in :func:`water_levels`, the mean of the
    levels over K basins is the least value of :math:`(V + t\,G(m)) / (Km)`. At a root of G this is :math:`V / (Km)`
    for any t, so that no t is better. It is the least value for the t with a zero derivative in m, which is
    :math:`t = V / (m\,G'(m))`.
    """
    _check_volume(volume)
    basins = _checked_basins(heights, weights)
    undecided = [_Basin(*basin) for basin in basins]
    found = [_Sorted(basin) for basin in undecided]
    least = sum(basin.least for basin in undecided)
    limit = min(basin.total for basin in undecided)

    def lowest(m: float) -> float:
        return sum(basin.lowest(m) for basin in found) + m * least

    # G is convex and zero at mass 0, so that it is positive beyond its root. m becomes the last mass before the root at
    # which a point of either basin is just covered.
    m = 0.0
    for basin in found:
        possible = int(np.searchsorted(basin.mass, limit, side="right"))
        m = max(m, float(basin.mass[bisect_left(basin.mass, True, 1, possible, key=lambda m: lowest(m) > 0) - 1]))
    if m == 0:
        return 1.0
    slope = sum(basin.quantile(m, "right") for basin in found) + least
    root = m - lowest(m) / slope if slope > 0 else math.inf
    return min(1.0, volume / (root * slope)) if root <= limit else 0.0


def _newton(volume: float, c: NDArray[np.float64], s: NDArray[np.float64] | None) -> float:
    """The level at which the volume stands over all points of a basin."""
    return float((volume + c.sum()) / c.size if s is None else (volume + (s * c).sum()) / s.sum())


def _mass(points: Indices, s: NDArray[np.float64] | None) -> float:
    """The mass of these points."""
    return float(points.size if s is None else s[points].sum())


class _Basin:
    """The points of a basin that are undecided: it is not known yet whether they are wet.

    Heights are measured from the least one. Of decided points, only sums are kept.

    Attributes
    ----------
    c, s : arrays
        The heights and masses of the undecided points; `s` is None if all are 1.
    mass, sum : float
        The sums of s and of s c over wet points, which are not above any other points.
    top, next : float
        The height of the highest wet point, and of the lowest point that was left out, which may be wet in part.
    """

    def __init__(self, c: NDArray[np.float64], s: NDArray[np.float64] | None) -> None:
        self.least = float(c.min())
        self.c, self.s = c - self.least, s
        self.total = float(c.size if s is None else s.sum())
        self.mass = self.sum = self.top = 0.0
        self.next = np.inf

    def up_to(self, height: float) -> tuple[float, float]:
        """The sums of s and of s c over the points up to a height."""
        wet = np.flatnonzero(self.c <= height)
        c = self.c[wet]
        if self.s is None:
            return self.mass + c.size, self.sum + float(c.sum())
        s = self.s[wet]
        return self.mass + float(s.sum()), self.sum + float((s * c).sum())

    def quantile(self, m: float, pivot: Pivot) -> float:
        """Q(m-): the least height up to which the mass is at least m."""
        c, s, left = self.c, self.s, m - self.mass
        while c.size:
            height = pivot(c)
            some = np.flatnonzero(c < height)
            lower = _mass(some, s)
            if left > lower:
                some = np.flatnonzero(c > height)
                upper = (c.size if s is None else float(s.sum())) - _mass(some, s)
                if left <= upper:
                    return height
                left -= upper
            c, s = c[some], None if s is None else s[some]
        # All undecided points are lower; by rounding, this may be so for all points.
        return self.next if self.next < np.inf else float(max(self.c.max(initial=0.0), self.top))

    def take(self, height: float) -> None:
        """Decide that the points up to a height are wet."""
        self.mass, self.sum = self.up_to(height)
        self.top = max(self.top, height)
        self._keep(self.c > height)

    def leave(self, height: float) -> None:
        """Decide that the points from a height upwards are dry, except that they may be wet in part."""
        self.next = min(self.next, height)
        self._keep(self.c < height)

    def _keep(self, mask: NDArray[np.bool_]) -> None:
        some = np.flatnonzero(mask)
        self.c, self.s = self.c[some], None if self.s is None else self.s[some]


class _Sorted:
    """The undecided points of a basin in the order of their heights, with cumulative sums of s and of s c.

    The first item stands for all wet points, the last one for the points that were left out.
    """

    def __init__(self, basin: _Basin) -> None:
        c, s = basin.c, basin.s
        if s is None:
            c, s = np.sort(c), np.ones(c.size)
        else:
            order = np.argsort(c, kind="stable")
            c, s = c[order], s[order]
        beyond = [basin.next] if basin.next < np.inf else []
        self.height = np.concatenate([[basin.top], c, beyond])
        self.mass = np.cumsum(np.concatenate([[basin.mass], s]))
        self.sum = np.cumsum(np.concatenate([[basin.sum], s * c]))

    def quantile(self, m: float, side: str) -> float:
        """Q(m-) or Q(m+): the height of the last point within the mass m, or of the first one beyond it."""
        i = int(np.searchsorted(self.mass, m, side=side))  # type: ignore[call-overload]
        if side == "left":
            i = min(i, self.height.size - 1)  # rounding may put m beyond all points
        return float(self.height[i]) if i < self.height.size else np.inf

    def lowest(self, m: float) -> float:
        """G(m): the least sum of s c over a part of mass m."""
        i = min(max(1, int(np.searchsorted(self.mass, m))), self.height.size - 1)
        return float(self.sum[i - 1] + (m - self.mass[i - 1]) * self.height[i])


def _share(basins: Sequence[_Basin], volume: float) -> tuple[tuple[float, float], float, tuple[float, float]]:
    """The best levels of two basins, the mass m over which each is wet, and Q(m-) measured from their least heights."""
    # Masses that differ by less than the rounding of their sums count as equal.
    rounding = EPSILON * sum(basin.c.size for basin in basins)
    less, more = 1 - rounding, 1 + rounding
    limit = more * min(basin.total for basin in basins)
    # If the volume is 0, the points of the least heights count as just covered: covering them uses no volume.
    enough = max(volume, np.finfo(np.float64).tiny)
    _narrow(basins, enough, limit, less)
    found = [_Sorted(basin) for basin in basins]

    def used(m: float) -> float:
        return sum(m * basin.quantile(m * less, "left") - basin.lowest(m) for basin in found)

    # The last mass at which a point of either basin is just covered before the volume is used up.
    m = 0.0
    for basin in found:
        possible = max(1, int(np.searchsorted(basin.mass, limit, side="right")))
        last = bisect_left(basin.mass, enough, 1, possible, key=used) - 1
        m = max(m, float(basin.mass[last]))
    low, other_low = (basin.quantile(m * less, "left") for basin in found)
    high, other_high = (basin.quantile(m * more, "right") for basin in found)
    total = (volume + sum(basin.lowest(m) for basin in found)) / m
    level = (max(low, total - other_high) + min(high, total - other_low)) / 2
    return (basins[0].least + level, basins[1].least + (total - level)), m, (low, other_low)


def _narrow(basins: Sequence[_Basin], volume: float, limit: float, less: float) -> None:
    """Decide on all points except a few.

    A round takes expected time in proportion to the undecided points, and decides on about half of them in the basin
    that has more, so that all rounds together take linear time. Pivots depend only on the heights, and sums are over
    points in the given order, so that the bits are the same in each call.
    """
    if max(basin.c.size for basin in basins) <= SORTED:
        return
    rng = np.random.default_rng(0)

    def pivot(c: NDArray[np.float64]) -> float:
        some = c if c.size <= PIVOT_OF else c[rng.integers(c.size, size=PIVOT_OF)]
        return float(np.partition(some, some.size // 2)[some.size // 2])

    covered, uncovered = 0.0, math.inf  # the best m is at least `covered` and below `uncovered`, up to the limit
    while max(basin.c.size for basin in basins) > SORTED:
        one, other = sorted(basins, key=lambda basin: -basin.c.size)
        height = pivot(one.c)
        m, lowest = one.up_to(height)
        if m > limit or m >= uncovered:  # the other basin has no such mass, or rounding differs from an earlier round
            one.leave(height)
        elif m <= covered:
            one.take(height)
        else:
            other_height = other.quantile(m * less, pivot)
            mass, other_lowest = other.up_to(other_height)
            other_lowest -= (mass - m) * other_height
            if m * (height + other_height) - lowest - other_lowest < volume:
                covered = m
                one.take(height)
                # Points at that height that are covered in part stay undecided.
                other.take(other_height if mass <= m else math.nextafter(other_height, -math.inf))
            else:
                uncovered = m
                one.leave(height)
                other.leave(other_height)


def _checked_basins(
    heights: Sequence[ArrayLike], weights: Sequence[ArrayLike | None] | None
) -> list[tuple[NDArray[np.float64], NDArray[np.float64] | None]]:
    """The heights and weights of one basin or of two."""
    if len(heights) not in (1, 2):
        raise ValueError(f"heights must be those of one basin or of two, got {len(heights)}.")
    return [
        _check_basin(f"heights[{k}]", c, f"weights[{k}]", s)
        for k, (c, s) in enumerate(zip(heights, weights or [None] * len(heights), strict=True))
    ]


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
    # Weights of 1 are the usual case, which is twice as fast without them.
    return c, None if (s == 1.0).all() else s


def _describe(values: NDArray[np.float64]) -> str:
    bad = values[~np.isfinite(values)]
    return f"shape {values.shape}" + (f" with {bad[0]}" if bad.size else "")


def _check_volume(volume: float) -> None:
    if not 0.0 <= volume < np.inf:
        raise ValueError(f"volume must be a finite number that is not negative, got {volume}.")
