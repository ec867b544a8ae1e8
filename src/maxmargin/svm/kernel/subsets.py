"""Sizes of the growing subsets with which solvers begin: the first samples of the data, which are in random order."""

from __future__ import annotations

import math

import numpy as np

from maxmargin.core.types import Vector


def first_size(y: Vector, weights: Vector, count: float) -> int:
    """The size of a first subset with `count` samples of positive weight; all samples if it would lack one class."""
    m, up = subset_size(weights, count), y > 0
    shares = [np.array([weights[:k][up[:k]].sum(), weights[:k][~up[:k]].sum()]) / weights[:k].sum() for k in (m, None)]
    return m if (shares[0] > 0.5 * shares[1]).all() else weights.size


def subset_size(weights: Vector, count: float) -> int:
    """The size of a subset with `count` samples of positive weight; all samples if it would hold half of them.

    >>> subset_size(np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0]), 2), subset_size(np.ones(6), 4)
    (3, 6)
    """
    counts = np.cumsum(weights > 0)
    return weights.size if 2 * count > counts[-1] else int(np.searchsorted(counts, count)) + 1


def next_size(weights: Vector, m: int, growth: float) -> int:
    """The size of the subset after m: from m to n, sizes grow by equal factors of at most `growth`."""
    n, used = np.count_nonzero(weights), np.count_nonzero(weights[:m])
    parts = math.ceil(math.log(n / used) / math.log(growth) - 1e-9)
    return subset_size(weights, used * (n / used) ** (1 / parts))
