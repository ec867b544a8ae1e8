r"""Lower bounds of the responses, which show that some samples have no loss and need not be read.

Sections 1 and 2 of the addendum of Schmidt and Joulin (2012). A sample with the response
:math:`r_i = y_i\langle w, x_i\rangle` at a point w has, at any other point w',

.. math::

    y_i\langle w', x_i\rangle \ \ge\ r_i - |x_i|\,|w' - w| .

If this bound plus :math:`y_i b'` is at least 1, so is the margin at w', and loss and gradient of the sample are zero.
The paper has two such bounds:

- equation (1): :math:`|w' - w|` is replaced by the sum of the lengths of the steps from w to w';
- the tighter bound of section 2: :math:`|w' - w|` itself, for which each w must be stored.

Both are cases of one method: when a point w is dropped, its samples are assigned to the next stored point, with
:math:`r_i \leftarrow r_i - |x_i|\,|w_{next} - w|`, a lower bound of their response there. With one stored point this is
(1); with all points stored, the tighter bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Vector

Rows = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)  # the distance from 1 to the next float64


class Bounds:
    """Lower bounds of the responses of n samples at any point, from their responses at points where they were read.

    Samples that were read together share a point.

    Parameters
    ----------
    n : int
        The number of samples. The bound of a sample that was not read yet is minus infinity.
    capacity : int
        The largest number of stored points; 1 gives the bound (1).

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
        self.floor: Vector = np.full(n, -np.inf)  # the response at the sample's point, or a lower bound of it
        self.norm: Vector = np.zeros(n)
        self.point_of: Rows = np.zeros(n, dtype=np.int64)
        self.points: list[Vector] = []

    def at(self, w: Vector, rows: Rows) -> Vector:
        """Lower bounds of the responses of some samples at w."""
        reach = np.array([distance(w, point) for point in self.points] or [0.0])
        return np.asarray(self.floor[rows] - self.norm[rows] * reach[self.point_of[rows]])

    def read(self, rows: Rows, w: Vector, responses: Vector, sq_norms: Vector, known: Rows) -> None:
        """Store the responses of samples that were read at w; `known` are all samples read so far, including these."""
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
    """|one - other|, enlarged by the rounding error of a response at either point, so that the bounds hold exactly."""
    away = float(np.linalg.norm(one - other))
    return away + (one.size + 10) * EPS * (2 * float(np.linalg.norm(one)) + away)
