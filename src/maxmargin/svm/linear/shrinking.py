r"""Examples that need not be read, because their margin is known to be large enough.

Section 1 and 2 of the addendum of Schmidt and Joulin (2012). An example with the response
:math:`r_i = y_i\langle w, x_i\rangle` at some point w has, at a point w' elsewhere,

.. math::

    y_i\langle w', x_i\rangle \ \ge\ r_i - |x_i|\,|w' - w| .

Its margin there is at least 1, and its loss and gradient are zero, where this bound plus :math:`y_i b'` is at least 1:
the bias is known, and needs no bound. Two bounds are built on it:

- (1): the way to w' is cut into the steps that were made, and :math:`|w' - w|` is replaced by the sum of their lengths;
- the tighter one: :math:`|w' - w|` itself, for which each w must be kept.

They are one: a point that is no longer kept hands its examples on to the next one, at the price of the way there,
:math:`r_i \leftarrow r_i - |x_i|\,|w_{next} - w|`, which is a lower bound of the response at the next point. With one
point kept this is (1); with all of them kept, the tighter bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Vector

Rows = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)


class Bounds:
    """Lower bounds of the responses of n examples at any point, from the points where they were read.

    Examples that were read together share their point.

    Parameters
    ----------
    n : int
        How many examples there are. Of one that was not read yet nothing is known: its bound is minus infinity.
    capacity : int
        How many points are kept at most; 1 is the bound (1).

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.svm.linear.shrinking import Bounds
    >>> bounds, both = Bounds(2, capacity=5), np.array([0, 1])
    >>> bounds.read(both, np.array([1.0]), responses=np.array([3.0, 2.0]), sq_norms=np.array([9.0, 4.0]), known=both)
    >>> bounds.at(np.array([1.5]), both).round(9)
    array([1.5, 1. ])
    """

    def __init__(self, n: int, capacity: int) -> None:
        self.capacity = capacity
        self.floor: Vector = np.full(n, -np.inf)  # the response at the example's point, or what is known to be below it
        self.norm: Vector = np.zeros(n)
        self.point_of: Rows = np.zeros(n, dtype=np.int64)
        self.points: list[Vector] = []

    def at(self, w: Vector, rows: Rows) -> Vector:
        """What the responses of some examples at w are at least."""
        reach = np.array([distance(w, point) for point in self.points] or [0.0])
        return np.asarray(self.floor[rows] - self.norm[rows] * reach[self.point_of[rows]])

    def read(self, rows: Rows, w: Vector, responses: Vector, sq_norms: Vector, known: Rows) -> None:
        """Some examples were read at w; `known` are all that were read so far, these included."""
        if rows.size == 0:
            return
        self.floor[rows], self.norm[rows] = responses, np.sqrt(sq_norms)
        self.point_of[rows] = len(self.points)
        self.points.append(w.copy())
        own = self.point_of[known]
        used = np.bincount(own, minlength=len(self.points)) > 0
        own = (np.cumsum(used) - 1)[own]
        self.points = [point for point, kept in zip(self.points, used, strict=True) if kept]
        if len(self.points) > self.capacity:
            oldest = known[own == 0]
            self.floor[oldest] -= self.norm[oldest] * distance(self.points[0], self.points[1])
            own = np.maximum(own - 1, 0)
            del self.points[0]
        self.point_of[known] = own


def distance(one: Vector, other: Vector) -> float:
    """|one - other|, and what rounding may have taken from a response at either: a bound must hold to the last bit."""
    away = float(np.linalg.norm(one - other))
    return away + (one.size + 10) * EPS * (2 * float(np.linalg.norm(one)) + away)
