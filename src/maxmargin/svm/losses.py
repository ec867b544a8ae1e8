r"""Losses of the regularised form, as functions of the margin c = y f(x), with what the dual needs of them.

With a loss :math:`\ell` of weight :math:`u = C s_i`, example i adds :math:`u\,\ell(c_i)` to the primal, and
:math:`\alpha_i - \frac12 q_i \alpha_i^2` for :math:`0 \le \alpha_i \le U_i` to the dual.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.core.types import Vector

LOSSES: dict[str, Loss] = {}
"""Every loss by its name."""


class Loss(ABC):
    """A convex loss that is zero for margins of at least 1. A subclass is registered by its name."""

    name: ClassVar[str]
    smooth: ClassVar[bool]  # whether its derivative is continuous
    largest_pull: ClassVar[float]  # the largest c slope(c): at the optimum |w|^2 is at most C sum s_i times this

    def __init_subclass__(cls) -> None:
        LOSSES[cls.name] = cls()

    @abstractmethod
    def value(self, c: Vector) -> Vector:
        """The loss at margins c."""

    @abstractmethod
    def slope(self, c: Vector) -> Vector:
        """Minus its derivative, at a kink the end nearer to zero: how hard an example pulls."""

    @abstractmethod
    def dual_box(self, u: Vector) -> tuple[Vector, Vector]:
        """The upper ends U and the curvatures q of the dual for weights u."""


@dataclass(frozen=True)
class Hinge(Loss):
    """:math:`[1 - c]_+`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import Hinge
    >>> Hinge().value(np.array([-1.0, 0.5, 2.0]))
    array([2. , 0.5, 0. ])
    """

    name: ClassVar[str] = "hinge"
    smooth: ClassVar[bool] = False
    largest_pull: ClassVar[float] = 1.0

    def value(self, c: Vector) -> Vector:
        return np.maximum(0.0, 1.0 - c)

    def slope(self, c: Vector) -> Vector:
        return np.asarray(c < 1.0, dtype=np.float64)

    def dual_box(self, u: Vector) -> tuple[Vector, Vector]:
        return u, np.zeros_like(u)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """:math:`[1 - c]_+^2`, as in LIBLINEAR and scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import SquaredHinge
    >>> SquaredHinge().value(np.array([-1.0, 0.5, 2.0]))
    array([4.  , 0.25, 0.  ])
    """

    name: ClassVar[str] = "squared_hinge"
    smooth: ClassVar[bool] = True
    largest_pull: ClassVar[float] = 0.5

    def value(self, c: Vector) -> Vector:
        return np.maximum(0.0, 1.0 - c) ** 2

    def slope(self, c: Vector) -> Vector:
        return 2.0 * np.maximum(0.0, 1.0 - c)

    def dual_box(self, u: Vector) -> tuple[Vector, Vector]:
        # An example of weight 0 has no part in the dual.
        with np.errstate(divide="ignore"):
            return np.where(u > 0, np.inf, 0.0), np.where(u > 0, 0.5 / u, 0.0)


def loss_of(given: str | Loss) -> Loss:
    """The loss by its name, or the loss object itself."""
    if isinstance(given, Loss):
        return given
    if given not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}; got {given!r}")
    return LOSSES[given]
