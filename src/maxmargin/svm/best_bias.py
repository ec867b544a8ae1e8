r"""The bias that minimises the objective for a given direction, from sums over the samples, perhaps on a cluster.

The objective is convex in b. Its slope rises from the left, where all positive samples have a loss, to the right, where
all negative samples have one. Sample i has margin 1 at its kink :math:`y_i (1 - c_i)`, with c_i its response without a
bias.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin.core.types import Point, Vector
from maxmargin.engine.parts import Parts

FLAT = 1e-13  # a slope below this share of the sum of its terms is zero up to rounding
SAME_WEIGHT = 1e-12  # class weights that differ by at most this share of their sum are equal up to rounding
MOST_KINKS = 10_000  # largest number of kinks that are sorted; if more are near the best bias, they are counted first
HALVINGS = 24  # edges on either side of the solver's bias, each at half the distance of the one before
EDGES = 64  # edges that divide an interval evenly
MOST_ROUNDS = 12  # largest number of counts; after these, no floating-point number is left inside the interval


def of_smooth_loss(samples: Parts, w: Point, free: bool, stiffness: float, near: float) -> float:
    """The best bias for a smooth loss: Newton's method on a piecewise quadratic, safeguarded by a bracket.

    Parameters
    ----------
    samples : Parts
        Objects of `proof_part.ProofPart`.
    w : Point
    free : bool
        Whether the bias has no penalty. If no sample has a loss on an interval of biases, its middle is taken.
    stiffness : float
        The curvature of the penalty.
    near : float
        The bias at which the search begins.
    """
    b, low, high = near, -math.inf, math.inf
    for _ in range(100):
        slope, size, curvature, enough, too_much, least, largest = samples.total("bias_sums", w, b)
        if free and enough <= -too_much:
            return 0.5 * float(enough - too_much)
        slope, curvature = slope + stiffness * b, curvature + stiffness
        if abs(slope) <= FLAT * (stiffness * abs(b) + size):
            break
        # Below the least kink, and below zero, the slope is negative, and above the largest one positive.
        low, high = max(low, min(-least, 0.0)), min(high, max(largest, 0.0))
        low, high = (b, high) if slope < 0 else (low, b)
        after = b - slope / curvature
        # Steps to the ends of the bracket could alternate for ever, so bisect instead.
        if not low < after < high:
            after = 0.5 * (low + high)
        if after == b or high - low <= 1e-15 * max(abs(low), abs(high)):
            break
        b = after
    return float(b)


def of_hinge(samples: Parts, w: Point, n: int, C: float, stiffness: float, near: float) -> float:
    """The best bias for the hinge, at or between kinks. At kink i, the slope rises by C s_i; else by the penalty alone.

    If the minimum is an interval, its middle is taken. For the parameters, see :func:`of_smooth_loss`; n is the number
    of samples.
    """
    positive, negative = samples.total("class_weights")
    # The slopes from -flat to flat count as zero; without the penalty, in units of C.
    flat = 0.0 if stiffness else SAME_WEIGHT * (positive + negative)
    low, high, below = -math.inf, math.inf, 0.0
    if n > MOST_KINKS:
        *_, least, largest = samples.total("bias_sums", w, near)
        distance = max(abs(near + least), abs(largest - near)) * 0.5 ** np.arange(HALVINGS)
        edges = np.unique(np.concatenate([near - distance, near + distance]))
        for _ in range(MOST_ROUNDS):
            weight, count = samples.total("count_kinks", w, edges)
            slopes = np.cumsum(weight[:-1]) - positive + stiffness / C * edges  # above all kinks up to each edge
            first, last = (int(np.searchsorted(slopes, level)) for level in (-flat, flat))
            low = float(edges[first - 1]) if first else -math.inf
            high = float(edges[last]) if last < edges.size else math.inf
            below = float(weight[:first].sum())
            if count[first : last + 1].sum() <= MOST_KINKS:
                break
            edges = np.unique(np.linspace(max(low, float(-least)), min(high, float(largest)), EDGES))
    found_kinks = samples.collect("kinks_between", w, low, high)
    kinks, s = (np.concatenate(values) for values in zip(*found_kinks, strict=True))
    order = np.argsort(kinks, kind="stable")
    return _among(kinks[order], s[order], below - positive, flat, stiffness / C, near)


def _among(kinks: Vector, s: Vector, slope: float, flat: float, stiffness: float, near: float) -> float:
    """The best bias among sorted kinks; `slope` is the slope below them, without the penalty, in units of C."""
    after = slope + np.cumsum(s)
    before = after - s
    if not stiffness:
        if not kinks.size:
            return near
        left, right = (min(int(np.searchsorted(after, level)), kinks.size - 1) for level in (-flat, flat))
        return float(0.5 * (kinks[left] + kinks[right]))
    k = int(np.searchsorted(after + stiffness * kinks, 0.0))  # the first kink after which the slope is >= 0
    if k == kinks.size:
        return float(-(after[-1] if k else slope) / stiffness)
    return float(kinks[k] if before[k] + stiffness * kinks[k] <= 0 else -before[k] / stiffness)
