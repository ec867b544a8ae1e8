r"""Kernel functions :math:`k(x, z)`, computed in blocks: each sample x on the left with each sample z on the right.

Most kernels are a matrix product followed by a function of each entry. The product is that of samples with a few
columns appended. For the Gaussian kernel

.. math:: -\gamma|x - z|^2 = \langle (2\gamma x, -\gamma|x|^2, 1), (z, 1, -\gamma|z|^2) \rangle ,

so that only the exponential remains to be computed. Such samples are packed as :class:`MixedRows`. Other kernels are
read from a matrix, or computed by a function given by the user.
"""

from __future__ import annotations

import math
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from maxmargin.core.rounding import is_finite, relative_error
from maxmargin.core.threads import limit_blas, run_parallel
from maxmargin.core.types import Indices, Vector
from maxmargin.kernels._blocks import exp_of_negative
from maxmargin.kernels._row_sources import SAMPLES_PER_BLOCK, DenseSamples
from maxmargin.kernels.mixed_rows import Floats, MixedRows, Samples

KERNELS: dict[str, type[Kernel]] = {}
"""All kernels by name."""

DIAGONAL_BATCH = 32  # samples per square block that is computed only for its diagonal
MATRIX_ROWS = 256  # rows of a kernel matrix computed at a time, up to the diagonal: enough for full speed
CHECKED_ROWS = 32  # rows of a precomputed matrix that are checked at a time, because a copy of the matrix may not fit
FUNCTION_COST = 20  # multiply-adds that take as long as the function that turns a product into a kernel
LARGEST_REPEATED_POWER = 8  # largest degree for which powers are repeated products, which are several times as fast
EXTRA_ROUNDINGS = 8  # roundings of a product in addition to one per term: centre, factor and appended columns
ASYMMETRY = 1e-5  # largest difference of a kernel matrix from its transpose, as a share of its largest entry
NEGLIGIBLE_SHARE = 1 / 16  # Gaussian kernels below this share of the unit roundoff may be taken to be 0
NEGLIGIBLE_EXPONENT = 1e-12  # Gaussian kernels with smaller exponents are 1, so that norms may underflow
LARGEST_LOG, LARGEST_BOUND = 700.0, 1e300  # bounds are cut off here to stay finite in float64
SUMMED_ENTRIES = 1_000_000  # entries of X that are converted to float64 at a time, because a copy of X may not fit


def make_kernel(
    kernel: str | Kernel | Callable[[Any, Any], Any],
    X: Samples,
    *,
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 0.0,
) -> Kernel:
    r"""The kernel of this name, with scikit-learn's meaning of its parameters.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"}, callable or Kernel
        A callable takes two matrices of shapes (m, d) and (n, d), and returns the kernels of all rows of the first with
        all rows of the second, an array of shape (m, n). It is called for one block at a time.
    X : array or CSR matrix of shape (n, d)
        The training samples, on which `gamma` may depend.
    gamma : {"scale", "auto"} or float
        :math:`\gamma` of "rbf", "poly" and "sigmoid". "scale": 1 / (d * variance of all entries of X), "auto": 1 / d.
    degree : int
        The degree of "poly".
    coef0 : float
        :math:`c_0` of "poly" and "sigmoid".

    Returns
    -------
    Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import make_kernel
    >>> X = np.array([[0.0, 2.0], [2.0, 0.0]])
    >>> make_kernel("rbf", X)
    Rbf(gamma=0.5)
    >>> make_kernel("poly", X, gamma="auto", degree=2)
    Poly(gamma=0.5, coef0=0.0, degree=2)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel):
        return Function(kernel)
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(sorted(KERNELS))}, or a callable; got {kernel!r}")
    taken = {field.name for field in fields(KERNELS[kernel])}  # type: ignore[arg-type]
    given = {"degree": degree, "coef0": coef0}
    if "gamma" in taken:
        given["gamma"] = _gamma(gamma, X)
    return KERNELS[kernel](**{name: value for name, value in given.items() if name in taken})


class Kernel(ABC):
    """A function of two samples. Defining a subclass with a `name` registers it under that name."""

    name: ClassVar[str] = ""
    of_products: ClassVar[bool] = False  # whether it is a function of products of `MixedRows`
    of_differences: ClassVar[bool] = False  # whether it depends only on x - z, so that all samples may be shifted
    explicit: ClassVar[bool] = False  # whether its feature space is the space of the samples
    parallel: ClassVar[bool] = True  # whether several threads may compute it at the same time

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name:
            KERNELS[cls.name] = cls

    @property
    def inner_product(self) -> bool | None:
        """Whether the kernel is an inner product in some feature space, as certificates require. None: unknown."""
        return None

    def operations(self, X: Samples) -> float:
        """The approximate number of multiply-adds of one evaluation, for samples like these."""
        return 1.0

    def magnitudes(self, sq_norm: float) -> list[float]:
        """The sizes of intermediate numbers in the kernel of a sample of this squared norm with itself."""
        return []

    def sq_reach(self, unit: float) -> float:
        """The squared distance of two samples beyond which their kernel is negligible, given the unit roundoff."""
        return math.inf

    def rounding(self, sq_norms: Vector, width: int, unit: float) -> tuple[Vector, Vector]:
        r"""A bound on the rounding errors of kernels: :math:`|\Delta k_{ij}| \le g_i g_j + \frac12(h_i + h_j)`.

        If :math:`h_i` and :math:`h_j` are below 1, the second part is also relative to the computed kernel:
        :math:`|\Delta k_{ij}| \le g_i g_j + \frac12(h_i + h_j) k_{ij}`.

        Parameters
        ----------
        sq_norms : array of shape (n,)
            The squared norms of the samples.
        width : int
            The number of features.
        unit : float
            The unit roundoff of the precision.

        Returns
        -------
        g, h : arrays of shape (n,)
            The bounds; zero for kernels given by the user, which are taken to be exact.
        """
        return np.zeros(sq_norms.size), np.zeros(sq_norms.size)

    def shift(self, sq_norms: Vector) -> Vector:
        """What each of two samples adds to their product in `dense_rows`: a linear function of its squared norm."""
        return np.zeros(sq_norms.size)

    def from_products(self, products: Vector, left: Vector, right: Vector) -> None:
        """Turn products of samples into kernels in place, given the squared norms of both; only if `of_products`."""
        raise NotImplementedError(f"{type(self).__name__} is no function of products")

    def dense_rows(self, X: Vector) -> DenseSamples | None:
        """Compiled code that computes the kernels of one sample with others, from dense samples sorted in blocks.

        None if there is no compiled form of the kernel. The number of samples is a multiple of `SAMPLES_PER_BLOCK`.
        """
        return None

    def dense_matrix(self, X: Vector, threads: int) -> Vector | None:
        """The kernels of dense samples with each other, in float64; None if the kernel is no function of products."""
        return None

    def dense_blocks(self, Z: Vector, dtype: DTypeLike = np.float64) -> Callable[[Vector], Floats] | None:
        """A function that computes kernels of dense rows with samples Z in a precision; None unless `of_products`."""
        return None

    def left(self, X: Any) -> Any:
        """Samples prepared for the left of a block; X is a `MixedRows` if the kernel is a function of products."""
        return X

    def right(self, X: Any) -> Any:
        """Samples prepared for the right of a block, which can be indexed; refuses invalid samples."""
        return X

    @abstractmethod
    def block(self, left: Any, right: Any, out: Floats) -> None:
        """out <- the kernels of each sample on the left with each on the right, as prepared by `left` and `right`."""

    def diagonal(self, X: Any) -> Vector:
        """k(x, x) of each sample."""
        values = np.empty(X.shape[0])
        for start in range(0, values.size, DIAGONAL_BATCH):
            some = X[start : start + DIAGONAL_BATCH]
            square = np.empty((some.shape[0], some.shape[0]))
            self.block(self.left(some), self.right(some), square)
            values[start : start + DIAGONAL_BATCH] = square.diagonal()
        return values

    def part(self, X: Samples, indices: Indices) -> Samples:
        """The data of some samples, from which the kernels between them can be computed."""
        return X[indices]


class _ProductKernel(Kernel):
    """A function of the product of samples with a few columns appended: factor * <x, z> + <columns, columns>."""

    of_products: ClassVar[bool] = True
    factor: float = 1.0

    @property
    def inner_product(self) -> bool | None:
        return True

    def operations(self, X: Samples) -> float:
        entries: float = X.nnz / max(1, X.shape[0]) if sp.issparse(X) else X.shape[1]
        return entries + FUNCTION_COST

    def columns(self, sq_norms: Vector) -> tuple[Vector, Vector]:
        """The columns appended to factor * x for samples x on the left, and to z for samples z on the right."""
        none = np.empty((sq_norms.size, 0))
        return none, none

    @abstractmethod
    def finish(self, products: Floats) -> None:
        """Turn products into kernels, in place."""

    def from_products(self, products: Vector, left: Vector, right: Vector) -> None:
        products *= self.factor
        products += self.shift(left)[:, None] + self.shift(right)
        self.finish(products)

    @property
    def compiled_function(self) -> tuple[str, int]:
        """The function of `DenseSamples` that turns products into kernels, and its degree; no name if none does."""
        return "", 1

    def dense_rows(self, X: Vector) -> DenseSamples | None:
        name, degree = self.compiled_function
        if not name:
            return None
        shift = self.shift(np.einsum("ij,ij->i", X, X))
        blocks = X.reshape(-1, SAMPLES_PER_BLOCK, X.shape[1]).transpose(0, 2, 1)
        return DenseSamples(X, np.ascontiguousarray(blocks), self.factor, shift, name, degree)

    def dense_matrix(self, X: Vector, threads: int) -> Vector:
        left, right, K = self._dense_left(X), self._dense_right(X), np.empty((len(X), len(X)))

        def fill(start: int) -> None:
            end = start + MATRIX_ROWS
            rows = K[start:end, :end]
            np.matmul(left[start:end], right[:end].T, out=rows)
            self.finish(rows)
            K[:start, start:end] = rows[:, :start].T

        with limit_blas():
            run_parallel([partial(fill, start) for start in reversed(range(0, len(X), MATRIX_ROWS))], threads)
        return K

    def dense_blocks(self, Z: Vector, dtype: DTypeLike = np.float64) -> Callable[[Vector], Floats]:
        right = self._dense_right(Z).astype(dtype, copy=False)

        def block(X: Vector) -> Floats:
            K: Floats = self._dense_left(X).astype(dtype, copy=False) @ right.T
            self.finish(K)
            return K

        return block

    def _dense_left(self, X: Vector) -> Vector:
        return np.hstack([self.factor * X, self.columns(np.einsum("ij,ij->i", X, X))[0]])

    def _dense_right(self, X: Vector) -> Vector:
        return np.hstack([X, self.columns(np.einsum("ij,ij->i", X, X))[1]])

    def magnitudes(self, sq_norm: float) -> list[float]:
        return [sq_norm, self.factor * math.sqrt(sq_norm), self.factor * sq_norm]

    def rounding(self, sq_norms: Vector, width: int, unit: float) -> tuple[Vector, Vector]:
        return np.sqrt(relative_error(width + EXTRA_ROUNDINGS, unit) * self.factor * sq_norms), np.zeros(sq_norms.size)

    def left(self, X: MixedRows) -> MixedRows:
        return X.scaled(float(self.factor)).with_columns(self.columns(X.sq_norms)[0])

    def right(self, X: MixedRows) -> MixedRows:
        return X.with_columns(self.columns(X.sq_norms)[1])

    def block(self, left: MixedRows, right: MixedRows, out: Floats) -> None:
        products = out if out.dtype == right.dtype else np.empty(out.shape, right.dtype)
        right.products(left, products)
        self.finish(products)
        if products is not out:
            out[...] = products

    def diagonal(self, X: Any) -> Vector:
        sq_norms = _sq_norms(X)
        left, right = self.columns(sq_norms)
        values: Vector = self.factor * sq_norms + (left * right).sum(axis=1)
        self.finish(values)
        return values


@dataclass(frozen=True)
class Linear(_ProductKernel):
    r"""The inner product :math:`\langle x, z\rangle` itself."""

    name: ClassVar[str] = "linear"
    explicit: ClassVar[bool] = True

    def finish(self, products: Floats) -> None:
        pass

    @property
    def compiled_function(self) -> tuple[str, int]:
        return "identity", 1


@dataclass(frozen=True)
class Rbf(_ProductKernel):
    r"""The Gaussian kernel :math:`\exp(-\gamma|x - z|^2)`."""

    name: ClassVar[str] = "rbf"
    of_differences: ClassVar[bool] = True

    gamma: float

    def __post_init__(self) -> None:
        _number("gamma", self.gamma, "a finite number of at least 0", least=0)

    @property
    def factor(self) -> float:  # type: ignore[override]
        return 2 * self.gamma

    def columns(self, sq_norms: Vector) -> tuple[Vector, Vector]:
        square, one = self.shift(sq_norms), np.ones(sq_norms.size)
        return np.column_stack([square, one]), np.column_stack([one, square])

    def shift(self, sq_norms: Vector) -> Vector:
        return -self.gamma * sq_norms

    @property
    def compiled_function(self) -> tuple[str, int]:
        return "exp", 1

    def magnitudes(self, sq_norm: float) -> list[float]:
        sizes = [self.factor, self.factor * math.sqrt(sq_norm), self.factor * sq_norm]
        more = [sq_norm] if sizes[-1] > NEGLIGIBLE_EXPONENT else []
        return [max(size, 1.0) for size in sizes] + more

    def sq_reach(self, unit: float) -> float:
        return -math.log(NEGLIGIBLE_SHARE * unit) / self.gamma if self.gamma > 0 else math.inf

    def rounding(self, sq_norms: Vector, width: int, unit: float) -> tuple[Vector, Vector]:
        # The exponent is a sum of three products, whose sizes add up to at most twice the sum of the two squared norms.
        # 4 units cover the exponential itself, and kernels beyond `sq_reach` that are taken to be 0. Kernels lie
        # between 0 and 1, so that bounds above 2 are useless.
        exponent = 2 * relative_error(width + EXTRA_ROUNDINGS, unit) * self.gamma * sq_norms
        return np.full(sq_norms.size, math.sqrt(4 * unit)), np.expm1(np.minimum(2 * exponent, math.log(3)))

    def finish(self, products: Floats) -> None:
        exp_of_negative(np.atleast_2d(products))


@dataclass(frozen=True)
class _OfProduct(_ProductKernel):
    """A function of gamma <x, z> + coef0."""

    gamma: float
    coef0: float = 0.0

    def __post_init__(self) -> None:
        _number("gamma", self.gamma, "a finite number of at least 0", least=0)
        _number("coef0", self.coef0, "a finite number")

    @property
    def factor(self) -> float:  # type: ignore[override]
        return self.gamma

    def columns(self, sq_norms: Vector) -> tuple[Vector, Vector]:
        one = np.ones((sq_norms.size, 1))
        return self.coef0 * one, one

    def shift(self, sq_norms: Vector) -> Vector:
        return np.full(sq_norms.size, 0.5 * self.coef0)

    def rounding(self, sq_norms: Vector, width: int, unit: float) -> tuple[Vector, Vector]:
        sizes = self.gamma * sq_norms + abs(self.coef0)
        return np.sqrt(relative_error(width + EXTRA_ROUNDINGS, unit) * sizes), np.zeros(sq_norms.size)


@dataclass(frozen=True)
class Poly(_OfProduct):
    r"""The polynomial kernel :math:`(\gamma\langle x, z\rangle + c_0)^g` of degree g."""

    name: ClassVar[str] = "poly"

    degree: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        _number("degree", self.degree, "a whole number of at least 0", Integral, least=0)

    @property
    def inner_product(self) -> bool | None:
        return self.coef0 >= 0 or self.degree == 0

    def magnitudes(self, sq_norm: float) -> list[float]:
        size = self.factor * sq_norm + abs(self.coef0)
        log = self.degree * math.log(size) if size > 0 else 0.0
        return [*super().magnitudes(sq_norm), math.exp(min(max(log, -LARGEST_LOG), LARGEST_LOG))]

    def rounding(self, sq_norms: Vector, width: int, unit: float) -> tuple[Vector, Vector]:
        sizes = self.gamma * sq_norms + abs(self.coef0)
        relative = self.degree * relative_error(width + EXTRA_ROUNDINGS, unit)
        error = math.expm1(min(LARGEST_LOG, relative)) + self.degree * unit
        return np.sqrt(min(error, LARGEST_BOUND) * sizes**self.degree), np.zeros(sq_norms.size)

    @property
    def compiled_function(self) -> tuple[str, int]:
        return ("power", int(self.degree)) if self.degree <= LARGEST_REPEATED_POWER else ("", 1)

    def finish(self, products: Floats) -> None:
        if self.degree > LARGEST_REPEATED_POWER:
            np.power(products, float(self.degree), out=products)
            return
        base = products.copy()
        if self.degree == 0:
            products[...] = 1
        for _ in range(1, self.degree):
            products *= base


@dataclass(frozen=True)
class Sigmoid(_OfProduct):
    r"""The function :math:`\tanh(\gamma\langle x, z\rangle + c_0)`, which is not an inner product."""

    name: ClassVar[str] = "sigmoid"

    @property
    def inner_product(self) -> bool | None:
        return False

    def magnitudes(self, sq_norm: float) -> list[float]:
        return [*super().magnitudes(sq_norm), self.factor * sq_norm + abs(self.coef0)]

    @property
    def compiled_function(self) -> tuple[str, int]:
        return "tanh", 1

    def finish(self, products: Floats) -> None:
        np.tanh(products, out=products)


@dataclass(frozen=True)
class Precomputed(Kernel):
    """Kernels given by the user: X is the square matrix of the kernels between the samples.

    A new sample is given by its kernels with all samples.
    """

    name: ClassVar[str] = "precomputed"

    def right(self, X: Floats) -> Indices:
        _check_square(X)
        return np.arange(len(X))

    def block(self, left: Floats, right: Indices, out: Floats) -> None:
        out[...] = left[:, right]

    def diagonal(self, X: Floats) -> Vector:
        return np.asarray(X.diagonal(), dtype=np.float64)

    def part(self, X: Floats, indices: Indices) -> Floats:
        return X[np.ix_(indices, indices)]


@dataclass(frozen=True)
class Function(Kernel):
    """A function given by the user, which returns an array of shape (m, n) for matrices of shapes (m, d) and (n, d)."""

    parallel: ClassVar[bool] = False  # the function may not be safe to call from several threads

    function: Callable[[Samples, Samples], Any]

    def block(self, left: Samples, right: Samples, out: Floats) -> None:
        values = self.function(left, right)
        values = np.asarray(values.toarray() if sp.issparse(values) else values)
        given = f"of {left.shape[0]} rows with {right.shape[0]} the kernel {_name(self.function)}"
        if values.shape != out.shape:
            raise ValueError(f"{given} returned an array of shape {values.shape}; expected {out.shape}")
        if values.dtype.kind not in "fiub":
            raise TypeError(f"{given} returned values of type {values.dtype}; expected numbers, such as float64")
        if not np.isfinite(values).all():
            raise ValueError(f"{given} returned NaN or infinity; expected finite numbers")
        out[...] = values


def _gamma(gamma: float | str, X: Samples) -> float:
    n, d = X.shape
    if gamma == "auto":
        return 1.0 / float(d)
    if gamma == "scale":
        stored = X.nnz if sp.issparse(X) else n * d
        return gamma_of_entries((n, d), stored, lambda: row_sums(X), lambda mean: rows_of_squares(X, mean))
    return float(_number("gamma", gamma, "'scale', 'auto' or a finite number of at least 0", least=0))


def _number(name: str, value: Any, wanted: str, kind: Any = Real, least: float = -np.inf) -> Any:
    """The value if it is a finite number of this kind and large enough; otherwise raises an error."""
    if not (isinstance(value, kind) and is_finite(value) and value >= least):
        raise ValueError(f"{name} must be {wanted}; got {reprlib.repr(value)}")
    return value


def gamma_of_entries(
    shape: tuple[int, int], stored: int, sums: Callable[[], Vector], squares: Callable[[float], Vector]
) -> float:
    """1 / (d * variance of all entries), from sums over each row, which are added independently of their order.

    `sums` returns the sums of the entries, `squares` those of the squared differences of stored entries from the mean.
    """
    n, d = shape
    mean = math.fsum(sums()) / (n * d)
    total = math.fsum(squares(mean)) + (n * d - stored) * mean**2
    return float(n / total) if total > 0 else 1.0


def row_sums(X: Samples) -> Vector:
    """The sum of the entries of each row, in float64."""
    return _by_rows(X, lambda entries: entries)


def rows_of_squares(X: Samples, mean: float) -> Vector:
    """The sum of the squared differences of the stored entries of each row from the mean."""
    return _by_rows(X, lambda entries: np.square(entries - mean))


def _by_rows(X: Samples, function: Callable[[Floats], Floats]) -> Vector:
    """The sum of a function of the stored entries of each row; it depends only on the row."""
    step, sums = max(1, SUMMED_ENTRIES // max(1, X.shape[1])), np.empty(X.shape[0])
    for start in range(0, X.shape[0], step):
        some = X[start : start + step]
        if sp.issparse(some):
            some = some.tocsr().astype(np.float64)
            some.data = function(some.data)
            sums[start : start + step] = np.asarray(some @ np.ones(some.shape[1]))
        else:
            entries = function(np.ascontiguousarray(some, dtype=np.float64))
            sums[start : start + step] = entries.sum(axis=1)
    return sums


def _check_square(K: Samples) -> None:
    """Refuse arrays that cannot be a kernel matrix, which must be dense, square, finite and symmetric."""
    if sp.issparse(K):
        raise TypeError("Sparse precomputed kernels are not offered: give a dense array, K.toarray()")
    n = len(K)
    if K.shape != (n, n):
        raise ValueError(
            f"a precomputed kernel must be square, the kernel of every two rows to learn from; got shape {K.shape}"
        )
    largest, difference, where = 0.0, 0.0, (0, 0)
    for start in range(0, n, CHECKED_ROWS):
        some = K[start : start + CHECKED_ROWS]
        if not np.isfinite(some).all():
            i, j = np.argwhere(~np.isfinite(some))[0]
            raise ValueError(
                f"the precomputed kernel holds {some[i, j]} at row {start + i}, column {j}; it must be finite"
            )
        differences = np.abs(some - K[:, start : start + CHECKED_ROWS].T)
        largest = max(largest, float(np.abs(some).max()))
        if differences.max() > difference:
            i, j = np.unravel_index(differences.argmax(), differences.shape)
            difference, where = float(differences[i, j]), (start + int(i), int(j))
    if difference > ASYMMETRY * largest:
        i, j = where
        raise ValueError(
            f"a precomputed kernel must be symmetric; row {i}, column {j} holds {K[i, j]:.6g}, but row {j}, column {i} "
            f"holds {K[j, i]:.6g}, the largest difference. Give (K + K.T) / 2 if it is only rounding."
        )


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _sq_norms(X: MixedRows | Samples) -> Vector:
    if isinstance(X, MixedRows):
        return X.sq_norms
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))
