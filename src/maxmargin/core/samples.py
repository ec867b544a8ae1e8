r"""Unbiased estimates of a product of two vectors from one coordinate of each, section 2.3 of Irpan and Kwan (2015).

Each draw takes a number u, uniform on [0, 1), from `rng.random()`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Vector


def l1_sample(p: Vector, u: float) -> int:
    r"""Draw i in proportion to :math:`p_i \ge 0`; :math:`v_i` is an unbiased estimate of :math:`p^\top v / \sum p`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.core import l1_sample
    >>> l1_sample(np.array([0.5, 0.0, 0.5]), 0.7)
    2
    """
    bounds = np.cumsum(p)
    i = int(np.searchsorted(bounds, u * bounds[-1], side="right"))
    # Rounding may put i beyond the end; then take the last index with p_i > 0.
    return i if i < bounds.size else int(np.searchsorted(bounds, bounds[-1]))


def l1_samples(P: Vector, U: Vector) -> NDArray[np.int64]:
    """Draws as by `l1_sample` for several p, the rows of P, with several u for each.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.core import l1_samples
    >>> l1_samples(np.array([[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]]), np.array([[0.2, 0.7], [0.2, 0.7]]))
    array([[0, 2],
           [0, 0]])
    """
    bounds = np.cumsum(P, axis=1)
    last = (bounds < bounds[:, -1:]).sum(axis=1, keepdims=True)
    drawn = (bounds[:, None, :] <= (U * bounds[:, -1:])[:, :, None]).sum(axis=2)
    return np.asarray(np.minimum(drawn, last))


def l2_sample(x: Vector, u: float) -> tuple[int, float]:
    r"""Draw j with probability :math:`x_j^2/|x|^2`, and return j and :math:`|x|^2/x_j`.

    This factor times :math:`a_j` is an estimate of :math:`\langle a, x\rangle` with a mean square of at most
    :math:`|a|^2|x|^2`. For x = 0, the factor is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.core import l2_sample
    >>> x, a = np.array([0.6, 0.8]), np.array([1.0, 0.0])
    >>> j, factor = l2_sample(x, 0.1)
    >>> j, factor
    (0, 1.6666666666666667)
    >>> float(a[j] * factor), float(a @ x)  # the estimate and the product
    (1.6666666666666667, 0.6)
    """
    squares = x**2
    total = float(squares.sum())
    if total == 0:
        return 0, 0.0
    j = l1_sample(squares, u)
    return j, total / float(x[j])
