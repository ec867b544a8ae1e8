"""Tiles of samples that are near each other, so that kernels with far tiles, which are negligible, are not computed.

If two samples are farther apart than the reach of a Gaussian kernel, their kernel is smaller than the rounding error of
a kernel. If a sample is that far from the box around a tile, its kernels with all samples of the tile are taken to be
0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices, Vector
from maxmargin.kernels._blocks import within_reach
from maxmargin.kernels.mixed_rows import Samples, as_dense, some_rows

TILE = 512  # largest number of samples of a tile; smaller tiles have fewer samples in reach, larger blocks are faster
FEWEST_SAMPLES = 4 * TILE  # with fewer samples, finding near ones costs more than computing all kernels
MOST_COORDINATES = 8  # largest number of columns in which boxes are measured: those in which samples differ most
SAMPLED_ROWS = 256  # samples from which the share of kernels that are not negligible is estimated
LARGEST_SHARE = 0.5  # if more than this share of the kernels is within reach, tiles are not worth their cost


@dataclass(frozen=True)
class NearbyTiles:
    """Some samples in tiles of samples that are near each other, with a box around each tile.

    Attributes
    ----------
    members : list of arrays of int
        The samples of each tile, by their positions among these samples.
    low, high : arrays of shape (tiles, coordinates)
        The corners of each box.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels.nearby import NearbyTiles
    >>> points = np.linspace(0.0, 10.0, 1000).reshape(-1, 1)
    >>> nearby = NearbyTiles.of(points)
    >>> [nearby.near(points[[0, 999]], tile, sq_reach=1.0) for tile in range(2)]
    [array([0]), array([1])]
    """

    members: list[Indices]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, points: NDArray[np.float64]) -> NearbyTiles:
        """Tiles of the samples with these coordinates; without coordinates, samples keep their order.

        Samples are halved at the median of the coordinate in which they spread most, until each half fits in a tile.
        """
        order, coordinates = np.arange(len(points)), points.copy()
        starts, waiting = list[int](), [slice(0, order.size)]
        while waiting:
            part = waiting.pop()
            inside, size = coordinates[part], part.stop - part.start
            if size <= TILE:
                starts.append(part.start)
                continue
            middle = TILE * (-(-size // TILE) // 2)
            if inside.shape[1]:
                widest = int(np.argmax(np.ptp(inside, axis=0)))
                sides = np.argpartition(inside[:, widest], middle)
                order[part], coordinates[part] = order[part][sides], inside[sides]
            waiting += [slice(part.start + middle, part.stop), slice(part.start, part.start + middle)]
        low, high = (end.reduceat(coordinates, starts) for end in (np.minimum, np.maximum))
        return cls(np.split(order, starts[1:]), low, high)

    def near(self, points: NDArray[np.float64], tile: int, sq_reach: float) -> Indices:
        """The indices of the points that are within reach of a tile."""
        found = np.empty(len(points) + 1, dtype=np.int64)
        return found[: within_reach(points, self.low[tile], self.high[tile], sq_reach, found)]


def coordinates(X: Samples, rows: Indices | None, sq_reach: float) -> NDArray[np.float64]:
    """The columns in which samples differ most; none if samples are few, or if most are within reach of each other.

    The samples are these rows of X, or all rows. Of X, only the returned columns are copied.
    """
    n = X.shape[0] if rows is None else rows.size
    none = np.empty((n, 0))
    if n < FEWEST_SAMPLES or not np.isfinite(sq_reach):
        return none
    some = as_dense(some_rows(X, SAMPLED_ROWS) if rows is None else X[some_rows(rows, SAMPLED_ROWS)]).astype(np.float64)
    widest = widest_columns(some, sq_reach)
    if not widest.size:
        return none
    columns = as_dense(X[:, widest])
    return np.ascontiguousarray(columns if rows is None else columns[rows], dtype=np.float64)


def widest_columns(some: NDArray[np.float64], sq_reach: float) -> Indices:
    """The columns in which samples differ most, estimated from some; none if most are within reach of each other."""
    norms: Vector = np.square(some).sum(axis=1)
    sq_distances = norms[:, None] + norms - 2 * some @ some.T
    if np.mean(sq_distances <= sq_reach) > LARGEST_SHARE:
        return np.empty(0, dtype=np.int64)
    return np.sort(np.argsort(-some.var(axis=0), kind="stable")[:MOST_COORDINATES])
