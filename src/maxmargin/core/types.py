"""Array types that all packages use, and the interface of the data that problems read.

A problem reads :class:`Rows`, which are of two kinds. Rows of features are always a :class:`maxmargin.core.Matrix`,
because compiled solvers read its memory. Rows of a kernel are :class:`maxmargin.kernels.rows.KernelRows`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from maxmargin.core._matrix import Ledger, Matrix

Vector = NDArray[np.float64]
"""Real numbers: one for each sample, feature or coefficient."""

Indices = NDArray[np.int64]
"""Indices of samples, rows or columns."""

Mask = NDArray[np.bool_]
"""A boolean mask of samples, rows or columns."""

Block = NDArray[Any]
"""A block of kernel rows, in float32 or float64."""


class Point(Protocol):
    """A point of the space in which a problem is solved: an array, or a vector of a kernel's space, an `Expansion`."""

    @property
    def size(self) -> int: ...
    def any(self) -> Any: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __mul__(self, factor: Any, /) -> Any: ...
    def __rmul__(self, factor: Any, /) -> Any: ...
    def __truediv__(self, divisor: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...


class Readable(Protocol):
    """Data of any kind: it has a shape, and a ledger that counts what is read of it."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ledger(self) -> Ledger: ...


class Rows(Protocol):
    r"""Rows :math:`x_i` of features, or of a kernel's space: the interface that problems require of their data."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def sums_are_cheap(self) -> bool:
        """Whether a sum over many rows costs one pass over the data; with a kernel, it takes as many kernel rows."""

    def dot(self, w: Point, rows: Indices | None = None, /) -> Vector:
        """The products of all rows, or of some, with a point w."""

    def dot_transposed(self, p: Vector, rows: Indices | None = None, /) -> Point:
        r"""The point :math:`\sum_i p_i x_i` over all rows, or over some."""

    def row_sq_norms(self) -> Vector:
        """:math:`|x_i|^2` for every i."""

    def sq_distances(self, w: Point, /) -> Vector:
        """:math:`|x_i - w|^2` for every i."""

    def dot_cost(self, w: Point, /) -> int:
        """How many entries `dot` reads for the products of w with all rows, not counting one pass over the data."""

    def products_are_inner(self, *points: Point) -> bool | None:
        """Whether products of rows are inner products; None: unknown, and none of these points has a square < 0."""

    def dot_rounding(self, w: Point, norms: Callable[[], Vector], /) -> Vector:
        """The largest error of each product that `dot` returns; `norms` returns the norms of the rows."""

    def square_rounding(self, p: Vector, v: Point, norms: Callable[[], Vector], scale: float, /) -> float:
        r"""How much the square of :math:`v = \sum_i p_i x_i / \text{scale}` can exceed the computed one."""


def is_features(X: Rows) -> TypeGuard[Matrix]:
    """Whether these are rows of features."""
    return X.sums_are_cheap
