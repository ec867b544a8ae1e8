"""Array types that all rooms use."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
"""Real numbers: one for each sample, feature or coefficient."""

Indices = NDArray[np.int64]
"""Indices of samples, rows or columns."""

Mask = NDArray[np.bool_]
"""A boolean mask of samples, rows or columns."""

Block = NDArray[Any]
"""A block of kernel rows, in float32 or float64."""


class Point(Protocol):
    """A point of the space that a problem is solved in: an array, or a vector of a kernel's space, an `Expansion`."""

    @property
    def size(self) -> int: ...
    def any(self) -> Any: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __mul__(self, factor: Any, /) -> Any: ...
    def __rmul__(self, factor: Any, /) -> Any: ...
    def __truediv__(self, divisor: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
