"""Water levels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar


def water_level(c: ArrayLike, volume: float, weights: ArrayLike | None = None) -> float:
    """The level at which a basin of floor c holds the volume."""
    floor = np.asarray(c, dtype=np.float64)
    s = np.ones(floor.size) if weights is None else np.asarray(weights, dtype=np.float64)
    order = np.argsort(floor)
    floor, s = floor[order], s[order]
    levels = (volume + np.cumsum(s * floor)) / np.cumsum(s)
    return float(levels[np.argmax(levels <= np.append(floor[1:], np.inf))])


def water_levels(
    positive: ArrayLike,
    negative: ArrayLike,
    volume: float,
    positive_weights: ArrayLike | None = None,
    negative_weights: ArrayLike | None = None,
) -> tuple[float, float]:
    """The levels of two basins that share the volume so that their sum is largest."""

    def levels(part: float) -> tuple[float, float]:
        return water_level(positive, part, positive_weights), water_level(negative, volume - part, negative_weights)

    if volume <= 0:
        return levels(0.0)
    best = minimize_scalar(lambda part: -sum(levels(part)), bounds=(0, volume), method="bounded")
    return levels(float(best.x))
