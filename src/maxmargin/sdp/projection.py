r"""Hazan's approximate projection onto the bounded semidefinite cone, Lemma 4.1 of Irpan and Kwan (2015).

Problem: maximise :math:`f(X) = -|Y - X|^2` over :math:`X \succeq 0` with a trace of at most 1, or of 1. Given: Y and an
accuracy. Returned: X with :math:`f(X^*) - f(X)` of at most the accuracy, and a factor V with X = V V', whose rank is at
most the number of steps. As :math:`|X - X^*|^2 \le f(X^*) - f(X)`, X is near the nearest point :math:`X^*`.

This is the Frank-Wolfe method: X moves towards v v', where v is a leading eigenvector of the gradient
:math:`2(Y - X)`, found by Lanczos.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.game.sets import Point, Spectrahedron
from maxmargin.sdp.eigen import leading_eigenvector

Square = NDArray[np.float64]


@dataclass(frozen=True)
class ApproximateProjection:
    """The result of :func:`approximate_projection`.

    Attributes
    ----------
    X : array of shape (n, n)
        The point of the set.
    V : array of shape (n, rank)
        The factor of X: X = V V'.
    steps : int
        The number of steps.
    gap : float
        An upper bound of :math:`f(X^*) - f(X)`, measured in the last step.
    """

    X: Square
    V: NDArray[np.float64]
    steps: int
    gap: float


def approximate_projection(
    Y: Square, accuracy: float, *, exactly: bool = False, line_search: bool = True
) -> ApproximateProjection:
    r"""A point near the nearest point to Y among all :math:`X \succeq 0` with a trace of at most 1.

    Step k moves X to :math:`X + \gamma(vv' - X)`, with the best :math:`\gamma` or, without a line search, with
    :math:`\gamma = 2/(k + 2)`. The method ends when :math:`2 (Y - X) \bullet (vv' - X)`, the most by which f can still
    rise, is small enough.

    Parameters
    ----------
    Y : array of shape (n, n)
        A symmetric matrix.
    accuracy : float
        How far f may fall short of its maximum.
    exactly : bool, default=False
        Whether the trace must be exactly 1.
    line_search : bool, default=True
        Whether each step has the best length.

    Notes
    -----
    After k steps, f falls short by no more than :math:`8/(k + 2) + 2\delta`, where :math:`\delta` is the error of an
    eigenvalue: a step changes :math:`h = f(X^*) - f(X)` to at most :math:`(1 - \gamma) h + 2\gamma\delta + 2\gamma^2`,
    as two points of the set are at most :math:`\sqrt 2` apart, and the bound follows by induction. With :math:`\delta`
    a quarter of the accuracy, 16/accuracy steps are enough. Hazan (2008) requires :math:`\delta \sim 1/k^2`, which is
    not needed to bound the sum of all errors. Lanczos takes :math:`O(n^2 \log n / \sqrt\delta)`, and all steps together
    take the time of the lemma, :math:`\tilde O(n^2 / \text{accuracy}^{1.5})`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.sdp.projection import approximate_projection
    >>> approximate_projection(np.diag([2.0, 1.6, -1.0]), accuracy=0.001).X.round(1) + 0.0
    array([[0.7, 0. , 0. ],
           [0. , 0.3, 0. ],
           [0. , 0. , 0. ]])
    """
    if not accuracy > 0:
        raise ValueError(f"accuracy must be positive: no number of steps is enough for {accuracy!r}")
    n, delta, most_steps = len(Y), accuracy / 4, math.ceil(16 / accuracy)
    X, vectors, weights = np.zeros((n, n)), np.empty((n, 16)), np.empty(0)
    for k in range(most_steps + 1):
        outside = exactly and k == 0  # the first X, 0, is not in the set, so that the first step has length 1
        residual = Y - X
        value, v = leading_eigenvector(residual, delta)
        towards_0 = value < 0 and not exactly
        rise = (0.0 if towards_0 else value) - float(np.vdot(residual, X))
        gap = math.inf if outside else 2 * (rise + delta)
        if gap <= accuracy or k == most_steps:
            break
        gamma = 2 / (k + 2)
        if line_search and not outside:
            square = float(np.vdot(X, X))
            gamma = min(1.0, rise / (square if towards_0 else 1 - 2 * float(v @ X @ v) + square))
        X *= 1 - gamma
        weights *= 1 - gamma
        if not towards_0:
            X += gamma * np.outer(v, v)
            if weights.size == vectors.shape[1]:
                vectors = np.concatenate([vectors, np.empty_like(vectors)], axis=1)
            vectors[:, weights.size] = v
            weights = np.append(weights, gamma)
    kept = weights > 0
    return ApproximateProjection(X, vectors[:, : weights.size][:, kept] * np.sqrt(weights[kept]), k, gap)


@dataclass(frozen=True)
class HazanSpectrahedron(Spectrahedron):
    """The bounded semidefinite cone, with Hazan's projection in place of the exact one.

    Examples
    --------
    >>> from maxmargin.sdp.projection import HazanSpectrahedron
    >>> HazanSpectrahedron(3, accuracy=0.01).error
    0.1
    """

    accuracy: float = 0.01

    @property
    def error(self) -> float:
        return math.sqrt(self.accuracy)

    def project(self, y: Point) -> Point:
        return approximate_projection(y, self.accuracy, exactly=self.exactly).X
