"""Variance multiplicative weights, Definition 1 of Irpan and Kwan (2015): the player of the n functions c_i."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from maxmargin.core.types import Vector


@dataclass
class Weights:
    r"""Weights :math:`w_{t+1}(i) = w_t(i)(1 - \eta q_t(i) + \eta^2 q_t(i)^2)`, stored as logarithms.

    For any sequence of vectors q_t, :math:`\sum_t p_t^\top q_t \le \min_i \sum_t \max\{q_t(i), -1/\eta\} +
    \frac{\log n}{\eta} + \eta \sum_t p_t^\top q_t^2` (Lemma 2.2), with :math:`p_t = w_t/|w_t|_1`.

    Parameters
    ----------
    first : array of shape (n,)
        The first weights; a weight of 0 stays 0.
    eta : float
        The learning rate.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.game.weights import Weights
    >>> weights = Weights(np.ones(2), eta=0.5)
    >>> weights.learn(np.array([1.0, -1.0]))  # factors 0.75 and 1.75
    >>> weights.p
    array([0.3, 0.7])
    """

    first: Vector
    eta: float
    log_w: Vector = field(init=False)

    def __post_init__(self) -> None:
        self.log_w = np.where(self.first > 0, 0.0, -np.inf)

    @property
    def p(self) -> Vector:
        """The weights divided by their sum."""
        w = self.first * np.exp(self.log_w - self.log_w.max())
        return np.asarray(w / w.sum())

    def clip(self, v: Vector) -> Vector:
        r"""Estimates clipped to :math:`\pm 1/\eta`, which changes their means by little (Lemma 2.1)."""
        return np.clip(v, -1 / self.eta, 1 / self.eta)

    def learn(self, q: Vector) -> None:
        """Update the weights with the next q_t."""
        step = self.eta * q
        self.log_w += np.log1p(step * (step - 1))
