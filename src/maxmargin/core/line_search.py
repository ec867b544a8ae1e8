"""Golden section search for the minimum of a function of one variable."""

from __future__ import annotations

import math
from collections.abc import Callable


def least(f: Callable[[float], float], low: float, high: float, tolerance: float = 1e-3) -> tuple[float, float]:
    """The minimum of a unimodal function on [low, high], and its value there, by golden section.

    The function may be infinite to the left of some point; its minimum is then to the right of that point.

    Examples
    --------
    >>> from maxmargin.core.line_search import least
    >>> where, value = least(lambda t: (t - 0.25) ** 2, 0.0, 1.0)
    >>> round(where, 2), round(value, 4)
    (0.25, 0.0)
    """
    golden = (math.sqrt(5) - 1) / 2
    start, end = low, high
    left, right = end - golden * (end - start), start + golden * (end - start)
    f_left, f_right = f(left), f(right)
    while end - start > tolerance:
        if f_left <= f_right and math.isfinite(f_left):
            end, right, f_right = right, left, f_left
            left = end - golden * (end - start)
            f_left = f(left)
        else:
            start, left, f_left = left, right, f_right
            right = start + golden * (end - start)
            f_right = f(right)
    # The minimum may lie at an end, which golden section only approaches, or right after the infinite part.
    value, where = min((f(t), t) for t in (low, (start + end) / 2, end, high))
    return where, value
