"""The interface of kernel rows that problems and solvers require."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.core.types import Block, Indices, Point, Rows, Vector
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.mixed_rows import Samples, Selection
from maxmargin.kernels.row_cache import RowLookup, RowsView


class KernelRows(Rows, Protocol):
    """Rows of the kernel matrix K, kept in a cache; see :class:`KernelMatrix`, which computes them."""

    saved: int

    @property
    def kernel(self) -> Kernel: ...
    @property
    def source(self) -> Samples: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def threads(self) -> int: ...
    @property
    def cache_bytes(self) -> int: ...
    @property
    def cached_rows(self) -> int: ...
    @property
    def holds_all_rows(self) -> bool: ...

    # Rows, through the cache

    def rows(self, indices: Indices) -> Block: ...
    def fetch(self, indices: Indices, width: int | None = None) -> RowsView: ...
    def peek(self, indices: Indices) -> RowsView: ...
    def missing(self, indices: Indices, width: int | None = None) -> Indices: ...
    def release(self, indices: Indices) -> None: ...
    def forget_rows(self) -> None: ...
    def lookup(self) -> RowLookup: ...
    def count_hits(self, rows: int) -> None: ...
    def prefetch(self, indices: Indices) -> None: ...

    # What a checkpoint holds

    def kept(self) -> dict[str, Any]: ...
    def take(self, kept: Mapping[str, Any]) -> None: ...

    # Kernels that are not kept

    def block(
        self,
        indices: Indices,
        columns: Selection | None = None,
        out: Block | None = None,
        positions: Indices | None = None,
    ) -> Block: ...
    def add_products(self, indices: Indices, factors: Vector, columns: slice, f: Vector) -> None: ...
    def dot_precisely(self, beta: Vector, rows: Indices) -> Vector: ...
    def dot_transposed(self, p: Vector, rows: Indices | None = None, /) -> Expansion: ...

    # Precision

    def choose_precision(self, weight: float, tol: float) -> None: ...
    def rounding(self, beta: Vector, dtype: DTypeLike) -> Vector: ...
    def measured_rounding(self, w: Point) -> Vector: ...


def is_kernel(X: Rows) -> TypeGuard[KernelRows]:
    """Whether these are rows of a kernel."""
    return not X.sums_are_cheap


def kernel_rows(X: Rows) -> KernelRows:
    """X as rows of a kernel, for solvers that require `Trait.KERNEL`; raises TypeError for other rows."""
    if not is_kernel(X):
        raise TypeError(f"expected rows of a kernel, such as a KernelMatrix; got a {type(X).__name__}")
    return X
