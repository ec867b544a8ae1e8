r"""Vectors of a kernel's feature space.

Such a vector is a sum :math:`w = \sum_i \beta_i \phi(x_i)`, given by its coefficients and by its products with the
rows, :math:`f = K\beta`, so that :math:`\langle w, w'\rangle = \langle \beta, f'\rangle`. Sums and multiples of such
vectors are such vectors, so that a problem need not know whether its rows are arrays of numbers or lie in such a space.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.core.types import Point, Vector

# How negative a square may be because of rounding of float32 rows, as a share of the sum of the sizes of its terms. A
# more negative square of a vector, or a more negative eigenvalue of a matrix, shows that the kernel is not an inner
# product.
NEGATIVE_SQUARE = 1e-5


@dataclass(frozen=True)
class Expansion:
    r"""A vector :math:`w = \sum_i \beta_i \phi(x_i)`.

    Attributes
    ----------
    beta : array of shape (n,)
        The coefficients.
    f : array of shape (n,)
        The products with the rows, :math:`f = K\beta`; NaN for products that are not computed yet.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.kernels.functions import Linear
    >>> K = KernelMatrix(np.array([[1.0, 0.0], [1.0, 1.0]]), Linear())
    >>> w = K.dot_transposed(np.array([0.0, 2.0]))
    >>> w.f, w @ w, (3 * w) @ w
    (array([2., 4.]), 8.0, 24.0)
    """

    beta: Vector
    f: Vector

    __array_ufunc__ = None  # a NumPy number times an Expansion is an Expansion, not an array of them

    @classmethod
    def of(cls, w: Point) -> Expansion:
        """The vector itself; a point of another space is refused."""
        if not isinstance(w, cls):
            raise TypeError(f"rows of a kernel have products with an Expansion only; got {type(w).__name__}")
        return w

    @classmethod
    def unknown(cls, beta: Vector) -> Expansion:
        """The vector with these coefficients, whose products with the rows are not computed yet."""
        return cls(beta, np.full(beta.size, np.nan))

    @property
    def size(self) -> int:
        """The number of coefficients."""
        return self.beta.size

    def any(self) -> bool:
        """Whether any coefficient is not zero."""
        return bool(self.beta.any())

    def __add__(self, other: Expansion) -> Expansion:
        return Expansion(self.beta + other.beta, self.f + other.f)

    def __sub__(self, other: Expansion) -> Expansion:
        return Expansion(self.beta - other.beta, self.f - other.f)

    def __mul__(self, factor: float) -> Expansion:
        return Expansion(factor * self.beta, factor * self.f)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Expansion:
        return Expansion(self.beta / divisor, self.f / divisor)

    def __matmul__(self, other: Expansion) -> float:
        nonzero = np.flatnonzero(self.beta)  # only these products must be known
        return float(self.beta[nonzero] @ other.f[nonzero])

    @property
    def imaginary(self) -> bool:
        """Whether <w, w> is negative beyond rounding, which shows that the kernel is not an inner product."""
        nonzero = np.flatnonzero(self.beta)
        return self @ self < -NEGATIVE_SQUARE * float(np.abs(self.beta[nonzero]) @ np.abs(self.f[nonzero]))
