"""Samples that are spread over the workers of a cluster: access to some by number, and sums over all entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.types import Indices, Vector
from maxmargin.engine.parts import PartRows, RowsInParts
from maxmargin.kernels.functions import Kernel, gamma_of_entries, make_kernel, row_sums, rows_of_squares
from maxmargin.kernels.mixed_rows import SAMPLED_ROWS, Samples, some_rows


class SamplePart:
    """The samples of a unit, as given."""

    def __init__(self, rows: PartRows) -> None:
        self.first, self.X = rows.first, rows.X[rows.own]

    def facts(self) -> tuple[slice, int, str, int | None]:
        """The rows, the number of features, the data type, and the number of stored entries if the matrix is sparse."""
        rows = slice(self.first, self.first + self.X.shape[0])
        return rows, self.X.shape[1], self.X.dtype.str, int(self.X.nnz) if sp.issparse(self.X) else None

    def some(self, rows: Indices) -> Samples:
        """The rows among these that are in this unit; `rows` are numbers in the whole data."""
        return self.X[rows[(rows >= self.first) & (rows < self.first + self.X.shape[0])] - self.first]

    def row_sums(self) -> Vector:
        """The sum of each row."""
        return row_sums(self.X)

    def rows_of_squares(self, mean: float) -> Vector:
        """The sum of the squared differences of the stored entries of each row from the mean."""
        return rows_of_squares(self.X, mean)


class PartedSamples:
    """Samples in parts.

    Parameters
    ----------
    rows : RowsInParts
        The samples. Each unit has an object, so that there should be about as many units as workers.

    Attributes
    ----------
    shape : (n, d)
    dtype : data type
    sparse : bool
    n_stored : int
        The number of stored entries.
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
        facts = self._parts.collect("facts")
        self.slices: list[slice] = [rows for rows, *_ in facts]
        self.shape: tuple[int, int] = self.slices[-1].stop, facts[0][1]
        self.dtype: np.dtype[Any] = np.dtype(facts[0][2])
        self.sparse = facts[0][3] is not None
        self.n_stored = sum(each[3] for each in facts) if self.sparse else self.shape[0] * self.shape[1]

    def take(self, rows: Indices) -> Samples:
        """The samples of some rows, in this order, as given: dense or CSR."""
        starts = np.array([own.start for own in self.slices])
        unit = np.searchsorted(starts, rows, side="right") - 1
        return assembled(self._parts.collect("some", rows), unit)

    @cached_property
    def sampled(self) -> Samples:
        """Some samples, from which properties of all samples are estimated."""
        return self.take(some_rows(np.arange(self.shape[0]), SAMPLED_ROWS))

    @property
    def bytes_per_row(self) -> float:
        """The average number of bytes of the entries of a sample."""
        return self.dtype.itemsize * self.n_stored / max(1, self.shape[0])

    def gamma(self) -> float:
        """gamma="scale" of a kernel, 1 / (d * variance of all entries); the bits are those for samples in one place."""
        return gamma_of_entries(
            self.shape,
            self.n_stored,
            lambda: np.concatenate(self._parts.collect("row_sums")),
            lambda mean: np.concatenate(self._parts.collect("rows_of_squares", mean)),
        )

    def kernel(self, kernel: str | Kernel | Callable[[Any, Any], Any], **parameters: Any) -> Kernel:
        """The kernel of this name, as by :func:`make_kernel`; its gamma may depend on these samples."""
        if kernel in ("rbf", "poly", "sigmoid") and parameters.get("gamma", "scale") == "scale":
            parameters["gamma"] = self.gamma()
        return make_kernel(kernel, np.empty((0, self.shape[1])), **parameters)


@dataclass(frozen=True)
class PartedSizes:
    """The properties of the samples on which bounds of rounding errors depend."""

    kernel: Kernel
    d: int
    sq_norms: Vector
    centre: Vector | None


def assembled(parts: list[Samples], unit: Indices) -> Samples:
    """Samples in the order in which they were requested, assembled from the samples of each unit."""
    order = np.argsort(np.argsort(unit, kind="stable"), kind="stable")
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")[order]
    return np.concatenate(parts)[order]
