"""Samples that are spread over the workers of a cluster: some of them by their number, and sums over all entries."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.types import Indices, Vector
from maxmargin.engine.parts import PartRows, RowsInParts
from maxmargin.kernels.functions import Kernel, gamma_of_entries, make_kernel, row_sums, rows_of_squares
from maxmargin.kernels.mixed_rows import Samples


class SamplePart:
    """The samples of a unit, as they are given."""

    def __init__(self, rows: PartRows) -> None:
        self.first, self.X = rows.first, rows.X[rows.own]

    def shape(self) -> tuple[int, int, int, str, bool]:
        """The first row, how many rows there are, the number of features, the data type, and whether X is sparse."""
        return self.first, *self.X.shape, self.X.dtype.str, sp.issparse(self.X)

    def some(self, rows: Indices) -> Samples:
        """Those of some rows of the data that are in this unit."""
        return self.X[rows[(rows >= self.first) & (rows < self.first + self.X.shape[0])] - self.first]

    def row_sums(self) -> Vector:
        """The sum of each row."""
        return row_sums(self.X)

    def rows_of_squares(self, mean: float) -> Vector:
        """The sum of the squared differences of the stored entries of each row from the mean."""
        return rows_of_squares(self.X, mean)

    def stored(self) -> int:
        """How many entries are stored."""
        return int(self.X.nnz if sp.issparse(self.X) else self.X.size)


class PartedSamples:
    """Samples in parts.

    Parameters
    ----------
    rows : RowsInParts
        The samples. There is an object for each of its units, so that units should be about as many as workers.

    Attributes
    ----------
    shape : (n, d)
    dtype : data type
    sparse : bool
    slices : list of slice
        The rows of each unit.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import as_matrix
    >>> from maxmargin.engine.parts import LocalRows
    >>> from maxmargin.kernels.parted_samples import PartedSamples
    >>> samples = PartedSamples(LocalRows(as_matrix(np.array([[0.0], [1.0], [4.0]])), 3, unit_rows=2))
    >>> samples.shape, samples.take(np.array([2, 0])).ravel()
    ((3, 1), array([4., 0.]))
    """

    def __init__(self, rows: RowsInParts) -> None:
        self.rows = rows
        self._parts = rows.place(SamplePart, units=True)
        shapes = self._parts.collect("shape")
        self.slices = [slice(first, first + count) for first, count, *_ in shapes]
        self.shape: tuple[int, int] = sum(count for _, count, *_ in shapes), shapes[0][2]
        self.dtype: np.dtype[Any] = np.dtype(shapes[0][3])
        self.sparse: bool = shapes[0][4]

    def take(self, rows: Indices) -> Samples:
        """The samples of some rows, in this order, as they are given: dense or CSR."""
        starts = np.array([own.start for own in self.slices])
        unit = np.searchsorted(starts, rows, side="right") - 1
        return assembled(self._parts.collect("some", rows), unit)

    @cached_property
    def stored_per_row(self) -> float:
        """How many entries of a row are stored, on average."""
        stored: float = sum(self._parts.collect("stored"))
        return stored / max(1, self.shape[0])

    def gamma(self) -> float:
        """gamma="scale" of a kernel, 1 / (d * variance of all entries): the same bits as for samples in one place."""
        return gamma_of_entries(
            self.shape,
            round(self.stored_per_row * self.shape[0]),
            lambda: np.concatenate(self._parts.collect("row_sums")),
            lambda mean: np.concatenate(self._parts.collect("rows_of_squares", mean)),
        )

    def kernel(self, kernel: str | Kernel | Callable[[Any, Any], Any], **parameters: Any) -> Kernel:
        """The kernel of this name, as of :func:`make_kernel`, whose gamma may depend on these samples."""
        if kernel in ("rbf", "poly", "sigmoid") and parameters.get("gamma", "scale") == "scale":
            parameters["gamma"] = self.gamma()
        return make_kernel(kernel, np.empty((0, self.shape[1])), **parameters)


def assembled(parts: list[Samples], unit: Indices) -> Samples:
    """Samples in the order in which they were asked for, from those that each unit holds of them."""
    order = np.argsort(np.argsort(unit, kind="stable"), kind="stable")
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")[order]
    return np.concatenate(parts)[order]
