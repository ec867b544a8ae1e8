r"""Estimates of kernels from a few entries of X: l2-samples in the kernel's feature space.

In this space, a sample z has features :math:`\phi_J(z)`, each a number times a product of coordinates
:math:`z_{j_1} \cdots z_{j_k}`. One feature is drawn with probability :math:`\phi_J(z)^2 / k(z, z)`; then

.. math:: k(z, z) \frac{\phi_J(x)}{\phi_J(z)}

is an unbiased estimate of :math:`k(x, z) = \sum_J \phi_J(x)\phi_J(z)`, for all samples x at once, and its mean square
is at most :math:`k(x, x) k(z, z)`. It reads the columns :math:`j_1, \dots, j_k` of X.

- :math:`(\gamma\langle x, z\rangle + c)^q`: q coordinates, each with probability in proportion to the squares of
  :math:`(\sqrt\gamma z, \sqrt c)`. The last coordinate is the same for all samples, so that nothing is read for it.
- :math:`e^{-\gamma|x - z|^2}`: :math:`k \sim` Poisson :math:`(2\gamma|z|^2)` coordinates, each with probability in
  proportion to the squares of z, and the estimate is :math:`e^{\gamma(|z|^2 - |x|^2)} \prod_l x_{j_l}/z_{j_l}`. (For
  :math:`|z| = 1` that is the estimate of Clarkson, Hazan and Woodruff; with :math:`|z|^2` in the rate, its mean square
  is 1 for samples of any norm.) The mean is subtracted from all samples, which changes no kernel and makes k small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.core import l1_samples
from maxmargin.core.types import Indices, Vector
from maxmargin.kernels.functions import Linear, Poly, Rbf
from maxmargin.kernels.mixed_rows import Samples
from maxmargin.kernels.rows import KernelRows

# The purposes in the ledger of a KernelMatrix under which entries of X are counted, apart from kernel evaluations.
ENTRIES, NORMS = "entries of X", "norms of X"
LARGEST_ESTIMATE = 1e100  # larger estimates are clipped, so that sums of them stay finite


class FeatureSamples(ABC):
    """Estimates of the kernels of a few samples with all samples.

    Parameters
    ----------
    K : KernelMatrix
        The samples and their kernel. Its ledger counts entries of X that are read, apart from evaluations.

    Attributes
    ----------
    columns : array of shape (n,)
        An upper bound of the expected number of columns that an estimate for each sample reads.
    n_stored, entries_read : int
        The number of entries of X, and the number of entries that draws and estimates have read.
    """

    columns: Vector

    def __init__(self, K: KernelRows) -> None:
        self.K = K
        self._find_columns()
        self.n, self.d = self.X.shape
        self.n_stored, self.entries_read = int(self.X.nnz if sp.issparse(self.X) else self.X.size), 0
        self.centre = np.zeros(self.d)

    def _find_columns(self) -> None:
        self.ledger, self.X = self.K.ledger, self.K.source
        self.by_column = self.X.tocsc() if sp.issparse(self.X) else self.X

    def kept(self) -> dict[str, Any]:
        """Everything except what follows from K; see `maxmargin.engine.snapshot`."""
        return {name: value for name, value in vars(self).items() if name not in ("ledger", "X", "by_column")}

    @classmethod
    def of_kept(cls, kept: Mapping[str, Any]) -> Self:
        """The object from what was kept."""
        made = cls.__new__(cls)
        vars(made).update(kept)
        made._find_columns()
        return made

    @classmethod
    def of(cls, K: KernelRows, used: NDArray[np.bool_]) -> FeatureSamples:
        """The estimates of the kernel of this matrix; the mean of X is over samples that are `used`.

        Examples
        --------
        >>> import numpy as np
        >>> from maxmargin.problems import KernelMatrix
        >>> from maxmargin.kernels.feature_samples import FeatureSamples
        >>> from maxmargin.kernels.functions import Poly
        >>> K = KernelMatrix(np.array([[1.0, 1.0], [1.0, 0.0]]), Poly(gamma=1.0, degree=2))
        >>> samples = FeatureSamples.of(K, np.ones(2, dtype=bool))
        >>> samples.estimate(np.array([0, 0]), np.array([[0, 1], [0, 0]]))  # of 4 and 1, the kernels with sample 0
        array([[4., 4.],
               [0., 4.]])
        """
        kernel = K.kernel
        if isinstance(kernel, Rbf):
            return GaussianSamples(K, used, kernel.gamma)
        if isinstance(kernel, Linear):
            return PowerSamples(K, gamma=1.0, coef0=0.0, degree=1)
        if isinstance(kernel, Poly) and kernel.coef0 >= 0:
            return PowerSamples(K, kernel.gamma, kernel.coef0, kernel.degree)
        raise ValueError(
            f"only the kernels linear, poly with coef0 >= 0, and rbf can be estimated from entries of X; got {kernel}"
        )

    def draw(self, indices: Indices, rng: np.random.Generator) -> Indices:
        """Read these samples, and draw a feature for each: its coordinates, as an array of shape (count, most).

        The coordinate d stands for one that is the same for all samples; it also fills up features with fewer
        coordinates.
        """
        self._count(self.X[indices])
        degrees = self.degrees(indices, rng)
        J = l1_samples(self.squares(self.rows(indices)), rng.random((indices.size, degrees.max(initial=0))))
        return np.where(np.arange(J.shape[1]) < degrees[:, None], J, self.d)

    @abstractmethod
    def squares(self, Z: Vector) -> Vector:
        """Numbers in proportion to the probabilities of the coordinates of each sample."""

    @abstractmethod
    def degrees(self, indices: Indices, rng: np.random.Generator) -> Indices:
        """The number of coordinates of a feature for each of these samples, which may be random."""

    @abstractmethod
    def factor(self, indices: Indices, Z: Vector) -> Vector:
        """For all samples x and each of these z: the estimate without the quotients of coordinates of x and z."""

    def estimate(self, indices: Indices, J: Indices) -> Vector:
        """The kernel of every sample with each of these samples, estimated from the features with these coordinates."""
        Z = self.rows(indices)
        product = self.factor(indices, Z)
        with np.errstate(over="ignore", invalid="ignore"):  # a product may be zero times infinity: then it is zero
            for j in J.T:
                read = np.flatnonzero(j < self.d)
                product[:, read] *= self._read(j[read]) / Z[read, j[read]]
        return np.clip(np.nan_to_num(product, copy=False, nan=0.0), -LARGEST_ESTIMATE, LARGEST_ESTIMATE)

    def rows(self, indices: Indices) -> Vector:
        """Some samples minus the mean."""
        Z = self.X[indices]
        return np.asarray((Z.toarray() if sp.issparse(Z) else Z) - self.centre, dtype=np.float64)

    def _read(self, J: Indices) -> Vector:
        columns = self.by_column[:, J]
        self._count(columns)
        return np.asarray((columns.toarray() if sp.issparse(columns) else columns) - self.centre[J], dtype=np.float64)

    def _count(self, entries: Samples) -> None:
        stored = int(entries.nnz if sp.issparse(entries) else entries.size)
        self.entries_read += stored
        self.ledger.book(ENTRIES, stored, int(np.prod(entries.shape)))


class PowerSamples(FeatureSamples):
    r"""Estimates of :math:`(\gamma\langle x, z\rangle + c_0)^q`."""

    def __init__(self, K: KernelRows, gamma: float, coef0: float, degree: int) -> None:
        super().__init__(K)
        self.gamma, self.coef0, self.degree = gamma, coef0, degree
        self.columns = np.full(self.n, float(degree))

    def squares(self, Z: Vector) -> Vector:
        return np.column_stack([self.gamma * Z**2, np.full(len(Z), self.coef0)])

    def degrees(self, indices: Indices, rng: np.random.Generator) -> Indices:
        return np.full(indices.size, self.degree)

    def factor(self, indices: Indices, Z: Vector) -> Vector:
        return np.tile(self.squares(Z).sum(axis=1) ** self.degree, (self.n, 1))


class GaussianSamples(FeatureSamples):
    r"""Estimates of :math:`e^{-\gamma|x - z|^2}`."""

    def __init__(self, K: KernelRows, used: NDArray[np.bool_], gamma: float) -> None:
        super().__init__(K)
        X = self.X
        if sp.issparse(X):
            sq_norms = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
        else:
            self.centre = X[used].mean(axis=0, dtype=np.float64)
            sq_norms = np.einsum("ij,ij->i", X, X, dtype=np.float64)
            sq_norms += self.centre @ self.centre - 2 * np.einsum("ij,j->i", X, self.centre, dtype=np.float64)
        self.ledger.book(NORMS, self.n_stored, self.n * self.d)
        self.exponent = gamma * np.maximum(sq_norms, 0)
        self.columns = 2 * self.exponent

    def squares(self, Z: Vector) -> Vector:
        return np.asarray(Z**2)

    def degrees(self, indices: Indices, rng: np.random.Generator) -> Indices:
        return np.asarray(rng.poisson(self.columns[indices]))

    def factor(self, indices: Indices, Z: Vector) -> Vector:
        difference = self.exponent[indices] - self.exponent[:, None]
        return np.asarray(np.exp(np.minimum(difference, np.log(LARGEST_ESTIMATE))))
