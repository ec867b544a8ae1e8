r"""Bounds of the rounding error of sums in floating point.

The error of a sum of n products computed in any order, with the unit roundoff u, is at most
:math:`\gamma_n = nu / (1 - nu)` times the sum of their absolute values (Higham 2002, Accuracy and Stability of
Numerical Algorithms, section 3.1). Certificates are widened by such bounds, so that they hold for exact arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

UNIT = 2.0**-53  # the unit roundoff of float64


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


def is_finite(value: Any) -> bool:
    """Whether a value is a finite number: neither NaN nor infinite, nor an integer beyond the range of floats."""
    try:
        return math.isfinite(value)
    except (OverflowError, TypeError):
        return False
