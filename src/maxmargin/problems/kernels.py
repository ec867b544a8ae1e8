r"""Kernels :math:`k(x, z)`, written so that a block of them is one matrix product and then one function of each number.

The product is that of rows with a few columns more. For the Gaussian kernel

.. math:: -\gamma|x - z|^2 = \langle (2\gamma x, -\gamma|x|^2, 1), (z, 1, -\gamma|z|^2) \rangle ,

so that only the exponential is left to take.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Floats = NDArray[Any]  # float32 or float64

KERNELS: dict[str, type[Kernel]] = {}
"""Every kernel by its name."""


class Kernel(ABC):
    """A function of two rows of numbers. A subclass with a `name` is registered by being defined."""

    name: ClassVar[str] = ""
    inner_product: ClassVar[bool] = True  # whether it is one, in some space, whatever the rows: then certificates hold
    of_differences: ClassVar[bool] = False  # whether adding the same to all rows changes nothing
    factor: float = 1.0  # of <x, z> in the product

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name:
            KERNELS[cls.name] = cls

    def columns(self, sq_norms: Vector) -> tuple[Vector, Vector]:
        """What rows x that ask have beside factor * x, and what rows z that are asked have beside z."""
        none = np.empty((sq_norms.size, 0))
        return none, none

    @abstractmethod
    def finish(self, products: Floats) -> None:
        """From the products to the kernel, in place."""

    def diagonal(self, sq_norms: Vector) -> Vector:
        """k(x, x) for rows of these squared norms."""
        asking, asked = self.columns(sq_norms)
        values: Vector = self.factor * sq_norms + (asking * asked).sum(axis=1)
        self.finish(values)
        return values


@dataclass(frozen=True)
class Linear(Kernel):
    r"""The inner product :math:`\langle x, z\rangle` itself."""

    name: ClassVar[str] = "linear"

    def finish(self, products: Floats) -> None:
        pass


@dataclass(frozen=True)
class Rbf(Kernel):
    r"""The Gaussian kernel :math:`\exp(-\gamma|x - z|^2)`."""

    name: ClassVar[str] = "rbf"
    of_differences: ClassVar[bool] = True

    gamma: float

    @property
    def factor(self) -> float:  # type: ignore[override]
        return 2 * self.gamma

    def columns(self, sq_norms: Vector) -> tuple[Vector, Vector]:
        own, one = -self.gamma * sq_norms, np.ones(sq_norms.size)
        return np.column_stack([own, one]), np.column_stack([one, own])

    def finish(self, products: Floats) -> None:
        np.exp(np.minimum(products, 0, out=products), out=products)


@dataclass(frozen=True)
class _OfProduct(Kernel):
    """A function of gamma <x, z> + coef0."""

    gamma: float
    coef0: float = 0.0

    @property
    def factor(self) -> float:  # type: ignore[override]
        return self.gamma

    def columns(self, sq_norms: Vector) -> tuple[Vector, Vector]:
        one = np.ones((sq_norms.size, 1))
        return self.coef0 * one, one


@dataclass(frozen=True)
class Poly(_OfProduct):
    r"""The polynomial kernel :math:`(\gamma\langle x, z\rangle + c_0)^g` of degree g."""

    name: ClassVar[str] = "poly"

    degree: float = 3

    def finish(self, products: Floats) -> None:
        np.power(products, self.degree, out=products)


@dataclass(frozen=True)
class Sigmoid(_OfProduct):
    r"""The function :math:`\tanh(\gamma\langle x, z\rangle + c_0)`, which is no inner product."""

    name: ClassVar[str] = "sigmoid"
    inner_product: ClassVar[bool] = False

    def finish(self, products: Floats) -> None:
        np.tanh(products, out=products)
