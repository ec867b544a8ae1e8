r"""Bounded convex sets of points x: centre and radius, projection, support function.

The support function :math:`h(g) = \max_{x \in \mathcal{K}} \langle g, x\rangle` turns weights on linear functions into
an upper bound of the value of every x in the set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Point = NDArray[np.float64]  # a vector, or a symmetric matrix


class ConvexSet(ABC):
    """A bounded convex set, within `radius` of its `centre`."""

    @property
    def error(self) -> float:
        """The largest distance between what `project` returns and the nearest point of the set; 0 if it is exact."""
        return 0.0

    @property
    @abstractmethod
    def radius(self) -> float:
        """The largest distance of a point of the set from the centre."""

    @property
    @abstractmethod
    def centre(self) -> Point:
        """The point at which a player starts."""

    @abstractmethod
    def project(self, y: Point) -> Point:
        """The point of the set that is nearest to y."""

    @abstractmethod
    def support(self, g: Point) -> float:
        """The largest <g, x> over the set."""


@dataclass(frozen=True)
class Ball(ConvexSet):
    """The ball |x| <= radius in d dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.game.sets import Ball
    >>> Ball(2).project(np.array([3.0, 4.0])), Ball(2).support(np.array([3.0, 4.0]))
    (array([0.6, 0.8]), 5.0)
    """

    d: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        _require_positive(d=self.d, radius=self.radius)

    @property
    def centre(self) -> Point:
        return np.zeros(self.d)

    def project(self, y: Point) -> Point:
        return y * (self.radius / max(self.radius, float(np.linalg.norm(y))))

    def support(self, g: Point) -> float:
        return self.radius * float(np.linalg.norm(g))


@dataclass(frozen=True)
class Box(ConvexSet):
    """The box lower <= x <= upper, entry by entry.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.game.sets import Box
    >>> box = Box(np.array([0.0, -1.0]), np.array([1.0, 1.0]))
    >>> box.project(np.array([2.0, 0.5])), box.support(np.array([1.0, -2.0]))
    (array([1. , 0.5]), 3.0)
    """

    lower: Point
    upper: Point

    def __post_init__(self) -> None:
        lower, upper = (np.asarray(corner, dtype=np.float64) for corner in (self.lower, self.upper))
        finite = np.isfinite(lower).all() and np.isfinite(upper).all()
        if not finite or lower.shape != upper.shape or not (lower <= upper).all():
            raise ValueError(f"a box needs finite lower <= upper, of one shape; got {self.lower} and {self.upper}")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def radius(self) -> float:
        return 0.5 * float(np.linalg.norm(self.upper - self.lower))

    @property
    def centre(self) -> Point:
        return 0.5 * (self.lower + self.upper)

    def project(self, y: Point) -> Point:
        return np.clip(y, self.lower, self.upper)

    def support(self, g: Point) -> float:
        return float(np.maximum(g * self.lower, g * self.upper).sum())


@dataclass(frozen=True)
class Simplex(ConvexSet):
    """The simplex in d dimensions: all x >= 0 whose entries sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.game.sets import Simplex
    >>> Simplex(2).project(np.array([1.0, 0.5])), Simplex(2).support(np.array([1.0, -2.0]))
    (array([0.75, 0.25]), 1.0)
    """

    d: int

    def __post_init__(self) -> None:
        _require_positive(d=self.d)

    @property
    def radius(self) -> float:
        return float(np.sqrt(1 - 1 / self.d))

    @property
    def centre(self) -> Point:
        return np.full(self.d, 1 / self.d)

    def project(self, y: Point) -> Point:
        return onto_simplex(y)

    def support(self, g: Point) -> float:
        return float(np.max(g))


@dataclass(frozen=True)
class Spectrahedron(ConvexSet):
    r"""All symmetric positive semidefinite n x n matrices with a trace of at most 1: the bounded PSD cone.

    With `exactly`, all such matrices with trace 1.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.game.sets import Spectrahedron
    >>> Spectrahedron(2).project(np.diag([2.0, -1.0])).round(6) + 0.0
    array([[1., 0.],
           [0., 0.]])
    >>> Spectrahedron(2).support(np.diag([2.0, -1.0]))
    2.0
    """

    n: int
    exactly: bool = False

    def __post_init__(self) -> None:
        _require_positive(n=self.n)

    @property
    def radius(self) -> float:
        return 1.0

    @property
    def centre(self) -> Point:
        return np.eye(self.n) / self.n if self.exactly else np.zeros((self.n, self.n))

    def project(self, y: Point) -> Point:
        values, vectors = np.linalg.eigh(y)
        inside = np.maximum(values, 0)
        if self.exactly or inside.sum() > 1:
            inside = onto_simplex(values)
        kept = inside > 0
        return np.asarray((vectors[:, kept] * inside[kept]) @ vectors[:, kept].T)

    def support(self, g: Point) -> float:
        largest = float(np.linalg.eigvalsh(g)[-1])
        return largest if self.exactly else max(0.0, largest)


@dataclass(frozen=True)
class TraceOne(ConvexSet):
    r"""All symmetric n x n matrices with trace 1 and a Frobenius norm of at most 1, positive semidefinite or not.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.game.sets import TraceOne
    >>> TraceOne(2).project(np.diag([3.0, 1.0])).round(6) + 0.0
    array([[1., 0.],
           [0., 0.]])
    >>> TraceOne(2).support(np.diag([3.0, 1.0]))
    3.0
    """

    n: int

    @property
    def radius(self) -> float:
        return float(np.sqrt(1 - 1 / self.n))

    @property
    def centre(self) -> Point:
        return np.eye(self.n) / self.n

    def project(self, y: Point) -> Point:
        traceless = self._traceless(y)
        norm = float(np.linalg.norm(traceless))
        return self.centre + (traceless if norm <= self.radius else traceless * (self.radius / norm))

    def support(self, g: Point) -> float:
        return float(np.trace(g)) / self.n + self.radius * float(np.linalg.norm(self._traceless(g)))

    def _traceless(self, y: Point) -> Point:
        """y minus the multiple of the identity that has the same trace."""
        return np.asarray(y - np.eye(self.n) * (np.trace(y) / self.n))


def onto_simplex(y: Point) -> Point:
    """The nearest point of the simplex: y minus a constant, with negative entries set to 0."""
    y = y - y.max()  # changes only the constant; in floating point, a large entry minus 1 may be the entry itself
    descending = np.sort(y)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, y.size + 1)
    return np.asarray(np.maximum(y - excess[np.flatnonzero(descending > excess)[-1]], 0))


def _require_positive(**given: float) -> None:
    for name, value in given.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive; got {value!r}")
