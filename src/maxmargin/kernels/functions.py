r"""Kernels :math:`k(x, z)`: a block of them, of rows that ask with rows that are asked, is computed at once.

Most are one matrix product and then one function of each number. The product is that of rows with a few columns more.
For the Gaussian kernel

.. math:: -\gamma|x - z|^2 = \langle (2\gamma x, -\gamma|x|^2, 1), (z, 1, -\gamma|z|^2) \rangle ,

so that only the exponential is left to take; such rows come in two parts, as they are laid down for products. Others
are read from a matrix, or computed by a function of the user's.
"""

from __future__ import annotations

import math
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.core.rounding import is_finite, relative_error
from maxmargin.kernels._blocks import exp_of_negative
from maxmargin.kernels.mixed_rows import Mixed

Vector = NDArray[np.float64]
Floats = NDArray[Any]  # float32 or float64

KERNELS: dict[str, type[Kernel]] = {}
"""Every kernel by its name."""

BATCH = 32  # rows at a time where only their kernels with themselves are wanted
FUNCTION = 20  # multiply-adds that take as long as to go from a product to its kernel, by an exponential for example
FEW_FACTORS = 8  # the degree up to which a power is computed by products
MORE = 8  # roundings of a product beside those of its terms: of the centre, the factor and the columns beside the rows
SYMMETRIC = 1e-5  # as a share of the largest entry, by how much a matrix may differ from its transpose: rounding


def make_kernel(
    kernel: str | Kernel | Callable[[Any, Any], Any],
    X: Any,
    *,
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 0.0,
) -> Kernel:
    r"""The kernel of this name, with scikit-learn's meaning of its parameters.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"}, callable or Kernel
        A callable takes two matrices, of shapes (m, d) and (n, d), and returns the kernels of the rows of the one with
        those of the other, an array of shape (m, n); it is called for a block of them at a time.
    X : array or CSR matrix of shape (n, d)
        The rows to learn from, which `gamma` may depend on.
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
    """A function of two rows. A subclass with a `name` is registered by being defined."""

    name: ClassVar[str] = ""
    of_products: ClassVar[bool] = False  # whether it is a function of products, of rows that are `Mixed`
    of_differences: ClassVar[bool] = False  # whether adding the same to all rows changes nothing
    explicit: ClassVar[bool] = False  # whether its space is that of the rows themselves
    parallel: ClassVar[bool] = True  # whether threads may compute it side by side

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name:
            KERNELS[cls.name] = cls

    @property
    def inner_product(self) -> bool | None:
        """Whether it is one, in some space, whatever the rows: then certificates hold. None: nobody knows."""
        return None

    def operations(self, X: Any) -> float:
        """About how many multiply-adds one evaluation takes, for rows like these."""
        return 1.0

    def magnitudes(self, sq_norm: float) -> list[float]:
        """How large the numbers are that occur on the way to the kernel of a row of this squared norm with itself."""
        return []

    def rounding(self, sq_norms: Vector, width: int, unit: float) -> tuple[Vector, Vector]:
        r"""What computing may change of kernels: :math:`|\Delta k_{ij}| \le g_i g_j + \frac12(h_i + h_j)`.

        Parameters
        ----------
        sq_norms : array of shape (n,)
            The squared norms of the rows.
        width : int
            How many entries a row has.
        unit : float
            The unit roundoff of the precision.

        Returns
        -------
        g, h : arrays of shape (n,)
            Zero for kernels that are not computed here: theirs are taken as they are given.
        """
        return np.zeros(sq_norms.size), np.zeros(sq_norms.size)

    def asking(self, X: Any) -> Any:
        """What rows bring to ask others."""
        return X

    def asked(self, X: Any) -> Any:
        """What is laid down of rows to be asked, with an index for each; rows that cannot be are refused."""
        return X

    @abstractmethod
    def block(self, asking: Any, asked: Any, out: Floats) -> None:
        """The kernel of each row that asks with each that is asked."""

    def diagonal(self, X: Any) -> Vector:
        """k(x, x) of each row."""
        values = np.empty(X.shape[0])
        for start in range(0, values.size, BATCH):
            some = X[start : start + BATCH]
            square = np.empty((some.shape[0], some.shape[0]))
            self.block(self.asking(some), self.asked(some), square)
            values[start : start + BATCH] = square.diagonal()
        return values

    def part(self, X: Any, numbers: NDArray[np.int64]) -> Any:
        """Some of the rows, by which this kernel between them can be told."""
        return X[numbers]


class _Products(Kernel):
    """A function of a product of rows that have a few columns more."""

    of_products: ClassVar[bool] = True
    factor: float = 1.0  # of <x, z> in the product

    @property
    def inner_product(self) -> bool | None:
        return True

    def operations(self, X: Any) -> float:
        entries: float = X.nnz / max(1, X.shape[0]) if sp.issparse(X) else X.shape[1]
        return entries + FUNCTION

    def columns(self, sq_norms: Vector) -> tuple[Vector, Vector]:
        """What rows x that ask have beside factor * x, and what rows z that are asked have beside z."""
        none = np.empty((sq_norms.size, 0))
        return none, none

    @abstractmethod
    def finish(self, products: Floats) -> None:
        """From the products to the kernel, in place."""

    def magnitudes(self, sq_norm: float) -> list[float]:
        return [sq_norm, self.factor * math.sqrt(sq_norm), self.factor * sq_norm]

    def rounding(self, sq_norms: Vector, width: int, unit: float) -> tuple[Vector, Vector]:
        return np.sqrt(relative_error(width + MORE, unit) * self.factor * sq_norms), np.zeros(sq_norms.size)

    def asking(self, X: Mixed) -> Mixed:
        return X.times(float(self.factor)).beside(self.columns(X.sq_norms)[0])

    def asked(self, X: Mixed) -> Mixed:
        return X.beside(self.columns(X.sq_norms)[1])

    def block(self, asking: Mixed, asked: Mixed, out: Floats) -> None:
        products = out if out.dtype == asked.dtype else np.empty(out.shape, asked.dtype)
        asked.products(asking, products)
        self.finish(products)
        if products is not out:
            out[...] = products

    def diagonal(self, X: Any) -> Vector:
        sq_norms = _sq_norms(X)
        asking, asked = self.columns(sq_norms)
        values: Vector = self.factor * sq_norms + (asking * asked).sum(axis=1)
        self.finish(values)
        return values


@dataclass(frozen=True)
class Linear(_Products):
    r"""The inner product :math:`\langle x, z\rangle` itself."""

    name: ClassVar[str] = "linear"
    explicit: ClassVar[bool] = True

    def finish(self, products: Floats) -> None:
        pass


@dataclass(frozen=True)
class Rbf(_Products):
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
        own, one = -self.gamma * sq_norms, np.ones(sq_norms.size)
        return np.column_stack([own, one]), np.column_stack([one, own])

    def magnitudes(self, sq_norm: float) -> list[float]:
        # Distances that are too short to matter may vanish.
        sizes = [self.factor, self.factor * math.sqrt(sq_norm), self.factor * sq_norm]
        return [max(size, 1.0) for size in sizes] + [sq_norm] * (sizes[-1] > 1e-12)

    def rounding(self, sq_norms: Vector, width: int, unit: float) -> tuple[Vector, Vector]:
        # The argument of the exponential is a sum of three products, of at most twice its two squares together.
        argument = 2 * relative_error(width + MORE, unit) * self.gamma * sq_norms
        return np.full(sq_norms.size, math.sqrt(4 * unit)), np.expm1(np.minimum(2 * argument, math.log(3)))

    def finish(self, products: Floats) -> None:
        if products.dtype == np.float32:
            exp_of_negative(products)
        else:
            np.exp(np.minimum(products, 0, out=products), out=products)


@dataclass(frozen=True)
class _OfProduct(_Products):
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

    def rounding(self, sq_norms: Vector, width: int, unit: float) -> tuple[Vector, Vector]:
        sizes = self.gamma * sq_norms + abs(self.coef0)
        return np.sqrt(relative_error(width + MORE, unit) * sizes), np.zeros(sq_norms.size)


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
        return [*super().magnitudes(sq_norm), math.exp(min(max(log, -700.0), 700.0))]

    def rounding(self, sq_norms: Vector, width: int, unit: float) -> tuple[Vector, Vector]:
        sizes = self.gamma * sq_norms + abs(self.coef0)
        error = math.expm1(min(700.0, self.degree * relative_error(width + MORE, unit))) + self.degree * unit
        return np.sqrt(min(error, 1e300) * sizes**self.degree), np.zeros(sq_norms.size)

    def finish(self, products: Floats) -> None:
        if self.degree > FEW_FACTORS:
            np.power(products, float(self.degree), out=products)
            return
        base = products.copy()
        if self.degree == 0:
            products[...] = 1
        for _ in range(1, self.degree):  # several times as fast as a power of floats
            products *= base


@dataclass(frozen=True)
class Sigmoid(_OfProduct):
    r"""The function :math:`\tanh(\gamma\langle x, z\rangle + c_0)`, which is no inner product."""

    name: ClassVar[str] = "sigmoid"

    @property
    def inner_product(self) -> bool | None:
        return False

    def magnitudes(self, sq_norm: float) -> list[float]:
        return [*super().magnitudes(sq_norm), self.factor * sq_norm + abs(self.coef0)]

    def finish(self, products: Floats) -> None:
        np.tanh(products, out=products)


@dataclass(frozen=True)
class Precomputed(Kernel):
    """Kernels that somebody has computed: X is the square matrix of those between its rows.

    A row that is new brings its kernels with all of them.
    """

    name: ClassVar[str] = "precomputed"

    def asked(self, X: Any) -> Any:
        _check_square(X)
        return np.arange(len(X))

    def block(self, asking: Any, asked: Any, out: Floats) -> None:
        out[...] = asking[:, asked]

    def diagonal(self, X: Any) -> Vector:
        return np.asarray(X.diagonal(), dtype=np.float64)

    def part(self, X: Any, numbers: NDArray[np.int64]) -> Any:
        return X[np.ix_(numbers, numbers)]


@dataclass(frozen=True)
class Function(Kernel):
    """What a function of the user's returns: of matrices (m, d) and (n, d) an array of shape (m, n)."""

    parallel: ClassVar[bool] = False  # the function may not be made for it

    function: Callable[[Any, Any], Any]

    def block(self, asking: Any, asked: Any, out: Floats) -> None:
        values = self.function(asking, asked)
        values = np.asarray(values.toarray() if sp.issparse(values) else values)
        given = f"of {asking.shape[0]} rows with {asked.shape[0]} the kernel {_name(self.function)}"
        if values.shape != out.shape:
            raise ValueError(f"{given} returned an array of shape {values.shape}; expected {out.shape}")
        if values.dtype.kind not in "fiub":
            raise TypeError(f"{given} returned values of type {values.dtype}; expected numbers, such as float64")
        if not np.isfinite(values).all():
            raise ValueError(f"{given} returned NaN or infinity; expected finite numbers")
        out[...] = values


def _gamma(gamma: float | str, X: Any) -> float:
    n, d = X.shape
    if gamma == "auto":
        return 1.0 / float(d)
    if gamma == "scale":
        mean = X.sum(dtype=np.float64) / (n * d)
        squares = _sum_sq_differences(X.data if sp.issparse(X) else X, mean)
        squares += (n * d - X.nnz) * mean**2 if sp.issparse(X) else 0.0
        return float(n / squares) if squares > 0 else 1.0
    return float(_number("gamma", gamma, "'scale', 'auto' or a finite number of at least 0", least=0))


def _number(name: str, value: Any, wanted: str, kind: Any = Real, least: float = -np.inf) -> Any:
    if not (isinstance(value, kind) and is_finite(value) and value >= least):
        raise ValueError(f"{name} must be {wanted}; got {reprlib.repr(value)}")
    return value


def _sum_sq_differences(X: Any, mean: float) -> float:
    """A few rows at a time: a copy of all of them in float64 may not fit."""
    step = max(1, 1_000_000 // (X[:1].size or 1))
    return float(sum(np.square(X[start : start + step] - mean).sum() for start in range(0, len(X), step)))


def _check_square(K: Any) -> None:
    """Refuse what cannot be the kernel of every two rows of a set; a few rows at a time, as copies may not fit."""
    if sp.issparse(K):
        raise TypeError("Sparse precomputed kernels are not offered: give a dense array, K.toarray()")
    n = len(K)
    if K.shape != (n, n):
        raise ValueError(
            f"a precomputed kernel must be square, the kernel of every two rows to learn from; got shape {K.shape}"
        )
    largest, apart, place = 0.0, 0.0, (0, 0)
    for start in range(0, n, BATCH):
        some = K[start : start + BATCH]
        if not np.isfinite(some).all():
            i, j = np.argwhere(~np.isfinite(some))[0]
            raise ValueError(
                f"the precomputed kernel holds {some[i, j]} at row {start + i}, column {j}; it must be finite"
            )
        differences = np.abs(some - K[:, start : start + BATCH].T)
        largest = max(largest, float(np.abs(some).max()))
        if differences.max() > apart:
            i, j = np.unravel_index(differences.argmax(), differences.shape)
            apart, place = float(differences[i, j]), (start + int(i), int(j))
    if apart > SYMMETRIC * largest:
        i, j = place
        raise ValueError(
            f"a precomputed kernel must be symmetric; row {i}, column {j} holds {K[i, j]:.6g}, but row {j}, column {i} "
            f"holds {K[j, i]:.6g}, the largest difference. Give (K + K.T) / 2 if it is only rounding."
        )


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _sq_norms(X: Any) -> Vector:
    if isinstance(X, Mixed):
        return X.sq_norms
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))
