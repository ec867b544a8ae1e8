r"""The vectors of a kernel's space.

Such a vector is a sum :math:`w = \sum_i \beta_i \phi(x_i)`, known by its coefficients and by its products with the
rows, :math:`f = K\beta`: then :math:`\langle w, w'\rangle = \langle \beta, f'\rangle`. Sums and multiples of such
vectors are known likewise, so that a problem need not ask whether its rows are numbers or live in such a space.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

ROUNDING = 1e-5  # what it may take from a sum of many products of float32 rows, as a share of their sizes


@dataclass(frozen=True)
class Expansion:
    r"""A vector :math:`w = \sum_i \beta_i \phi(x_i)`.

    Attributes
    ----------
    beta : array of shape (n,)
        Its coefficients.
    f : array of shape (n,)
        Its products with the rows, :math:`f = K\beta`; NaN where nobody has computed them yet.

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

    @property
    def size(self) -> int:
        """How many coefficients there are."""
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
        those = np.flatnonzero(self.beta)  # a product is not known where nobody needs it
        return float(self.beta[those] @ other.f[those])

    @property
    def imaginary(self) -> bool:
        """Whether the square of this vector is negative, and not by rounding: then the kernel is no inner product."""
        those = np.flatnonzero(self.beta)
        return self @ self < -ROUNDING * float(np.abs(self.beta[those]) @ np.abs(self.f[those]))


def length(w: Any) -> float:
    """|w|, of an array or of an Expansion."""
    return math.sqrt(max(0.0, w @ w)) if isinstance(w, Expansion) else float(np.linalg.norm(w))
