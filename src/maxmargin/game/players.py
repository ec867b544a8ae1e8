r"""Players: low-regret algorithms for x, which see one gain function in each round.

Lazy projections are those of Lemma 2.7 of Irpan and Kwan (2015); their section 3 asks for any such algorithm.

After T rounds, the total gain of a player falls short of that of any fixed x of its set by at most its regret R(T), for
any sequence of functions. A player of your own has three methods: `start(T)`, `update(state, g)` and `regret(T)`; the
attribute `x` of its state is the current point.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.game.sets import ConvexSet

Point = NDArray[np.float64]


class Player(ABC):
    """A low-regret algorithm."""

    @abstractmethod
    def start(self, T: int) -> Any:
        """The state before the first of T rounds; its `x` is the first point."""

    @abstractmethod
    def update(self, state: Any, g: Point) -> None:
        """Move to the next point; g is the gradient of this round's function at the current one, of norm at most 1."""

    @abstractmethod
    def regret(self, T: int) -> float:
        """R(T): how far the total gain of T rounds may fall short of that of the best fixed point."""

    def settle(self, x: Point) -> Point:
        """The solution for the mean of the points played: the mean itself, unless points may lie outside of the set."""
        return x


@dataclass
class GradientState:
    """The state of a gradient player: the current point x, the sum y of the gradient steps, and the step size."""

    x: Point
    y: Point
    rate: float


@dataclass(frozen=True)
class LazyGradient(Player):
    r"""Online gradient ascent with lazy projection, Lemma 2.7 of Irpan and Kwan (2015).

    :math:`y_{t+1} = y_t + \frac{r}{\sqrt{2T}} g_t`, and :math:`x_{t+1}` is the point of the set nearest to
    :math:`y_{t+1}`, for a set within r of :math:`y_1`. The regret is at most :math:`2 r \sqrt{2T}` plus T times the
    `error` of the projection.

    Parameters
    ----------
    over : ConvexSet
        The set from which x is chosen: a Ball, a Box or a Spectrahedron.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.game.sets import Ball
    >>> from maxmargin.game.players import LazyGradient
    >>> player = LazyGradient(Ball(2))
    >>> state = player.start(T=2)
    >>> player.update(state, np.array([1.0, 0.0]))
    >>> state.x, player.regret(2)
    (array([0.5, 0. ]), 4.0)
    """

    over: ConvexSet

    def start(self, T: int) -> GradientState:
        centre = self.over.centre
        return GradientState(centre, centre.copy(), self.over.radius / math.sqrt(2 * T))

    def update(self, state: GradientState, g: Point) -> None:
        state.y += state.rate * g
        state.x = self.over.project(state.y)

    def regret(self, T: int) -> float:
        return 2 * self.over.radius * math.sqrt(2 * T) + T * self.over.error


@dataclass(frozen=True)
class ExponentiatedGradient(Player):
    r"""Exponentiated gradient ascent on the simplex in d dimensions, for gradients with entries between -1 and 1.

    :math:`x_{t+1} \propto \exp(\eta \sum_{\tau \le t} g_\tau)` with :math:`\eta = \sqrt{\log d / T}`. The regret is at
    most :math:`2\sqrt{T \log d}`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.game.players import ExponentiatedGradient
    >>> player = ExponentiatedGradient(d=2)
    >>> state = player.start(T=1)
    >>> player.update(state, np.array([1.0, -1.0]))
    >>> state.x.round(3)
    array([0.841, 0.159])
    """

    d: int

    def start(self, T: int) -> GradientState:
        return GradientState(np.full(self.d, 1 / self.d), np.zeros(self.d), math.sqrt(math.log(max(2, self.d)) / T))

    def update(self, state: GradientState, g: Point) -> None:
        state.y += state.rate * g
        x = np.exp(state.y - state.y.max())
        state.x = x / x.sum()

    def regret(self, T: int) -> float:
        return 2 * math.sqrt(T * math.log(max(2, self.d)))


@dataclass
class MeanState:
    """The mean x of `count` points."""

    x: Point
    count: int = 0


@dataclass(frozen=True)
class RunningMean(Player):
    r"""Gradient ascent with step 1/t, for strongly concave functions such as :math:`1 - \frac12|x - a|^2`.

    If the second derivative in any direction is at most -1, ascent by :math:`x_{t+1} = x_t + g_t / t` has a regret of
    at most :math:`\frac12 G^2 (1 + \log T)`, where G is the largest norm of a gradient (Hazan, Agarwal, Kale 2007). For
    the function above, the gradient is :math:`a - x`, and x is the running mean of the points a.

    Parameters
    ----------
    d : int
        The dimension of x, which starts at 0.
    largest : float, default=2
        G; 2 is enough for points of the unit ball.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.game.players import RunningMean
    >>> player = RunningMean(d=1)
    >>> state = player.start(T=2)
    >>> for a in (1.0, 0.0):
    ...     player.update(state, a - state.x)
    >>> state.x, player.regret(1)
    (array([0.5]), 2.0)
    """

    d: int
    largest: float = 2.0

    def start(self, T: int) -> MeanState:
        return MeanState(np.zeros(self.d))

    def update(self, state: MeanState, g: Point) -> None:
        state.count += 1
        state.x = state.x + g / state.count

    def regret(self, T: int) -> float:
        return 0.5 * self.largest**2 * (1 + math.log(T))
