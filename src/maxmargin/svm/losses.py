r"""Losses of the regularised form, as functions of the margin c = y f(x), and their terms in the dual.

With a loss :math:`\ell` of weight :math:`u = C s_i`, sample i adds :math:`u\,\ell(c_i)` to the primal, and
:math:`\alpha_i - \frac12 q_i \alpha_i^2` for :math:`0 \le \alpha_i \le U_i` to the dual.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.core.types import Vector

LOSSES: dict[str, Loss] = {}
"""All losses by name."""


class Loss(ABC):
    """A convex loss that is zero for margins of at least 1. A subclass is registered by its name."""

    name: ClassVar[str]
    smooth: ClassVar[bool]  # whether its derivative is continuous
    largest_pull: ClassVar[float]  # the maximum of c slope(c); at the optimum |w|^2 <= largest_pull C sum s_i

    def __init_subclass__(cls) -> None:
        LOSSES[cls.name] = cls()

    @abstractmethod
    def value(self, c: Vector) -> Vector:
        """The loss at margins c."""

    @abstractmethod
    def slope(self, c: Vector) -> Vector:
        """Minus the derivative at margins c; at a kink the one-sided derivative nearer to zero."""

    @abstractmethod
    def dual_box(self, u: Vector) -> tuple[Vector, Vector]:
        """The upper bounds U of the dual variables and their curvatures q, for loss weights u."""


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
        # The dual variable of a sample of weight 0 is fixed at 0.
        with np.errstate(divide="ignore"):
            return np.where(u > 0, np.inf, 0.0), np.where(u > 0, 0.5 / u, 0.0)


def loss_of(given: str | Loss) -> Loss:
    """The loss by its name, or the loss object itself."""
    if isinstance(given, Loss):
        return given
    if given not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}; got {given!r}")
    return LOSSES[given]
