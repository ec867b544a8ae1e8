r"""Estimates of a kernel from a few entries of X: l2-samples in the kernel's own space.

There, a row z has features :math:`\phi_J(z)`, each a number times a product of coordinates
:math:`z_{j_1} \cdots z_{j_k}`. One of them is drawn, with probability :math:`\phi_J(z)^2 / k(z, z)`; then

.. math:: k(z, z) \frac{\phi_J(x)}{\phi_J(z)}

is right in the mean, :math:`k(x, z) = \sum_J \phi_J(x)\phi_J(z)`, for all rows x at once, and its mean square is at
most :math:`k(x, x) k(z, z)`. It reads the columns :math:`j_1, \dots, j_k` of X.

- :math:`(\gamma\langle x, z\rangle + c)^q`: q coordinates, each by the squares of :math:`(\sqrt\gamma z, \sqrt c)`.
  The last of these is the same for all rows, and read nowhere.
- :math:`e^{-\gamma|x - z|^2}`: :math:`k \sim` Poisson :math:`(2\gamma|z|^2)` coordinates, each by the squares of z, and
  the estimate is :math:`e^{\gamma(|z|^2 - |x|^2)} \prod_l x_{j_l}/z_{j_l}`. (For :math:`|z| = 1` that is the estimate
  of Clarkson, Hazan and Woodruff; with :math:`|z|^2` in the rate, its mean square is 1 for rows of any length.) Rows
  are taken from their mean, which changes no kernel and makes k small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.core import l1_samples
from maxmargin.kernels.functions import Linear, Poly, Rbf
from maxmargin.kernels.matrix import KernelMatrix

Vector = NDArray[np.float64]
Numbers = NDArray[np.int64]

ENTRIES = "entries of X"  # under which the ledger of a KernelMatrix books what is read here: entries, not evaluations
LARGEST = 1e100  # of an estimate


class FeatureSamples(ABC):
    """Estimates of the kernels of a few rows with all rows.

    Parameters
    ----------
    K : KernelMatrix
        The rows and their kernel. What is read of them is booked in its ledger, apart from evaluations.
    used : array of shape (n,)
        Which rows count: others have no say in where their mean is.

    Attributes
    ----------
    columns : array of shape (n,)
        How many columns an estimate for each row is expected to read, at most.
    stored, read : int
        Entries that X has, and how many draws and estimates have read.
    """

    columns: Vector

    def __init__(self, K: KernelMatrix, used: NDArray[np.bool_]) -> None:
        self.ledger, self.X = K.ledger, K.laid.source
        self.by_column = self.X.tocsc() if sp.issparse(self.X) else self.X
        self.n, self.d = self.X.shape
        self.stored, self.read = int(self.X.nnz if sp.issparse(self.X) else self.X.size), 0
        self.centre = np.zeros(self.d)
        self.begin(K.kernel, used)

    @classmethod
    def of(cls, K: KernelMatrix, used: NDArray[np.bool_]) -> FeatureSamples:
        """The estimates of this kernel.

        Examples
        --------
        >>> import numpy as np
        >>> from maxmargin.problems import KernelMatrix
        >>> from maxmargin.kernels.feature_samples import FeatureSamples
        >>> from maxmargin.kernels.functions import Poly
        >>> K = KernelMatrix(np.array([[1.0, 1.0], [1.0, 0.0]]), Poly(gamma=1.0, degree=2))
        >>> samples = FeatureSamples.of(K, np.ones(2, dtype=bool))
        >>> samples.estimate(np.array([0, 0]), np.array([[0, 1], [0, 0]]))  # of 4 and 1, the kernels with row 0
        array([[4., 4.],
               [0., 4.]])
        """
        kernel = K.kernel
        if isinstance(kernel, Rbf):
            return GaussianSamples(K, used)
        if isinstance(kernel, Linear) or (isinstance(kernel, Poly) and kernel.coef0 >= 0):
            return PowerSamples(K, used)
        raise ValueError(
            f"only the kernels linear, poly with coef0 >= 0, and rbf can be estimated from entries of X; got {kernel}"
        )

    @abstractmethod
    def begin(self, kernel: Any, used: NDArray[np.bool_]) -> None:
        """What there is to know before the first draw."""

    def draw(self, numbers: Numbers, rng: np.random.Generator) -> Numbers:
        """The coordinates of a feature for each of these rows, which are read; in an array of shape (count, most).

        A coordinate d is the same for all rows of X, as are those that a feature with fewer coordinates lacks.
        """
        self._count(self.X[numbers])
        many = self.how_many(numbers, rng)
        J = l1_samples(self.squares(self.rows(numbers)), rng.random((numbers.size, many.max(initial=0))))
        return np.where(np.arange(J.shape[1]) < many[:, None], J, self.d)

    @abstractmethod
    def squares(self, Z: Vector) -> Vector:
        """To which the chances of the coordinates of each row are in proportion."""

    @abstractmethod
    def how_many(self, numbers: Numbers, rng: np.random.Generator) -> Numbers:
        """The number of coordinates for each of these rows, perhaps drawn."""

    @abstractmethod
    def factor(self, numbers: Numbers, Z: Vector) -> Vector:
        """Of each row x with each of these rows z: k(z, z) times what features have beside coordinates, x over z."""

    def estimate(self, numbers: Numbers, J: Numbers) -> Vector:
        """Of the kernel of every row with each of these rows, from the feature with these coordinates."""
        Z = self.rows(numbers)
        product = self.factor(numbers, Z)
        with np.errstate(over="ignore", invalid="ignore"):  # it may be zero times something too large
            for j in J.T:
                those = np.flatnonzero(j < self.d)
                product[:, those] *= self._read(j[those]) / Z[those, j[those]]
        return np.clip(np.nan_to_num(product, copy=False, nan=0.0), -LARGEST, LARGEST)

    def rows(self, numbers: Numbers) -> Vector:
        """Some rows of X, from the mean."""
        Z = self.X[numbers]
        return np.asarray((Z.toarray() if sp.issparse(Z) else Z) - self.centre, dtype=np.float64)

    def _read(self, J: Numbers) -> Vector:
        columns = self.by_column[:, J]
        self._count(columns)
        return np.asarray((columns.toarray() if sp.issparse(columns) else columns) - self.centre[J], dtype=np.float64)

    def _count(self, read: Any) -> None:
        stored = int(read.nnz if sp.issparse(read) else read.size)
        self.read += stored
        self.ledger.book(ENTRIES, stored, int(np.prod(read.shape)))


class PowerSamples(FeatureSamples):
    """Of a power of a product."""

    def begin(self, kernel: Any, used: NDArray[np.bool_]) -> None:
        linear = isinstance(kernel, Linear)
        self.gamma: float = 1.0 if linear else kernel.gamma
        self.coef0: float = 0.0 if linear else kernel.coef0
        self.degree: int = 1 if linear else kernel.degree
        self.columns = np.full(self.n, float(self.degree))

    def squares(self, Z: Vector) -> Vector:
        return np.column_stack([self.gamma * Z**2, np.full(len(Z), self.coef0)])

    def how_many(self, numbers: Numbers, rng: np.random.Generator) -> Numbers:
        return np.full(numbers.size, self.degree)

    def factor(self, numbers: Numbers, Z: Vector) -> Vector:
        return np.tile(self.squares(Z).sum(axis=1) ** self.degree, (self.n, 1))


class GaussianSamples(FeatureSamples):
    """Of the Gaussian kernel."""

    def begin(self, kernel: Any, used: NDArray[np.bool_]) -> None:
        X = self.X
        if sp.issparse(X):
            squares = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
        else:
            self.centre = X[used].mean(axis=0, dtype=np.float64)
            squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
            squares += self.centre @ self.centre - 2 * np.einsum("ij,j->i", X, self.centre, dtype=np.float64)
        self.ledger.book("norms of X", self.stored, self.n * self.d)
        self.exponent = kernel.gamma * np.maximum(squares, 0)
        self.columns = 2 * self.exponent

    def squares(self, Z: Vector) -> Vector:
        return np.asarray(Z**2)

    def how_many(self, numbers: Numbers, rng: np.random.Generator) -> Numbers:
        return np.asarray(rng.poisson(self.columns[numbers]))

    def factor(self, numbers: Numbers, Z: Vector) -> Vector:
        apart = self.exponent[numbers] - self.exponent[:, None]
        return np.asarray(np.exp(np.minimum(apart, np.log(LARGEST))))
