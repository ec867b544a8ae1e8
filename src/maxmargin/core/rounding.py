r"""Bounds of the rounding error of sums in floating point.

The error of a sum of n products computed in any order, with the unit roundoff u, is at most
:math:`\gamma_n = nu / (1 - nu)` times the sum of their absolute values (Higham 2002, Accuracy and Stability of
Numerical Algorithms, section 3.1). Certificates are widened by such bounds, so that they hold for exact arithmetic.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.core.types import Point, Vector

UNIT = 2.0**-53  # the unit roundoff of float64
SUM_ROUNDINGS = 16  # roundings of a sum in addition to one per term: of scales, labels, biases and sums of parts


def unit_roundoff(dtype: DTypeLike) -> float:
    """The largest relative error of rounding to this precision."""
    return float(np.finfo(dtype).eps) / 2


def relative_error(terms: float, unit: float = UNIT) -> float:
    """A bound of the error of a sum of `terms` products, as a share of the sum of their absolute values.

    Examples
    --------
    >>> from maxmargin.core.rounding import relative_error
    >>> 1000 * 2**-53 < relative_error(1000) < 1001 * 2**-53
    True
    """
    return terms * unit / (1 - terms * unit) if terms * unit < 0.5 else math.inf


def of_product(d: int, w: Point) -> float:
    """The largest error of the product of w with a row of d numbers and norm 1."""
    return relative_error(d + SUM_ROUNDINGS) * math.sqrt(max(0.0, float(w @ w)))


def of_products(d: int, w: Point, norms: Vector) -> Vector:
    """The largest error of the product of w with each row of d numbers, for rows of these norms."""
    return of_product(d, w) * norms


def of_square(v: Point, total: float, scale: float, n: int) -> float:
    r"""How much the exact square of :math:`v = \sum_i p_i x_i / \text{scale}` can exceed the computed one.

    The sum is over n rows, and `total` is :math:`\sum_i |p_i| |x_i|`.
    """
    size = math.sqrt(max(0.0, float(v @ v)))
    off = relative_error(n + SUM_ROUNDINGS) * total / scale
    return float(2 * size * off + off**2 + relative_error(v.size) * size**2)


def is_finite(value: float) -> bool:
    """Whether a value is a finite number: neither NaN nor infinite, nor an integer beyond the range of floats."""
    try:
        return math.isfinite(value)
    except (OverflowError, TypeError):
        return False
