"""Some rows of a kernel matrix whose columns are spread over the workers of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.core.types import Block, Indices, Vector
from maxmargin.kernels.kernel_part import Fill

if TYPE_CHECKING:
    from maxmargin.kernels.parted_matrix import PartedKernelMatrix


@dataclass(frozen=True)
class PartedRows:
    """Some rows of K whose columns are spread over workers; the workers compute missing entries when they are needed.

    Attributes
    ----------
    K : PartedKernelMatrix
    indices : array of int
        The rows of K.
    slots : array of int
        The slots of these rows in the caches of the workers.
    own : slice
        The columns to which the view is restricted.
    """

    K: PartedKernelMatrix
    indices: Indices
    slots: Indices
    own: slice

    def __getitem__(self, which: Indices | slice) -> PartedRows:
        return replace(self, indices=self.indices[which], slots=self.slots[which])

    def columns(self, columns: slice) -> PartedRows:
        """The same rows, restricted to some columns."""
        start, stop, _ = columns.indices(self.own.stop - self.own.start)
        return replace(self, own=slice(self.own.start + start, self.own.start + stop))

    def copy(self) -> Block:
        """The rows as an array of their own."""
        parts = self._ask("copies", self.slots, self.own)
        out = np.empty((self.indices.size, self.own.stop - self.own.start), self.K.dtype)
        for columns, part in zip(self.K.columns_between(self.own), parts, strict=True):
            out[:, columns] = part
        return out

    def copy_columns(self, columns: Indices, out: Block, threads: int = 1) -> None:
        """out <- these columns of the rows; as they are few, the driver recomputes them."""
        self.K.compute_block(self.indices, self.own.start + columns, out)

    def add_to(self, f: Vector, factors: Vector, threads: int = 1) -> None:
        """f <- f + sum_k factors[k] * row k; of each row, the first f.size entries."""
        columns = slice(self.own.start, self.own.start + f.size)
        if not (self.indices.size and f.size):
            return
        sums = np.empty(f.size)
        for own, part in zip(
            self.K.columns_between(columns), self._ask("sums", self.slots, factors, columns), strict=True
        ):
            sums[own] = part
        f += sums

    def _ask(self, method: str, *args: Any) -> list[Any]:
        return self.K.ask(method, self.indices[:0], *args, fills=(Fill(self.indices, self.slots, self.own.stop),))
