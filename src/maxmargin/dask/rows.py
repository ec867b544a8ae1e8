"""Rows of features on the workers of a cluster, with the operations that problems need, and objects of parts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Self

import numpy as np
from distributed import Client
from numpy.typing import NDArray

from maxmargin.core import Ledger, rounding
from maxmargin.core.types import Indices, Point, Vector
from maxmargin.dask import worker
from maxmargin.dask.parts import ClusterParts, Units, add_reads
from maxmargin.dask.worker import Answer, Change
from maxmargin.engine.parts import PartRows, Scattered


class ProductPart:
    """Computes products with the rows of a unit; it has no state."""

    def __init__(self, rows: PartRows) -> None:
        self.rows = rows

    def dot(self, w: Vector) -> Vector:
        """Return the products of the rows with w."""
        return self.rows.X.dot(w)

    def sum_rows(self, p: Vector) -> tuple[Vector]:
        """Return the sum of p_i x_i."""
        return (self.rows.X.dot_transposed(p),)

    def sq_norms(self) -> Vector:
        """Return the squared norms of the rows."""
        return self.rows.X.row_sq_norms()

    def sq_distances(self, x: Vector) -> Vector:
        """Return the squared distances of the rows from x."""
        return self.rows.X.sq_distances(x)

    def first_not_finite(self) -> tuple[int, int] | None:
        """Return the first entry that is not finite, as its row in the whole data and its column."""
        place = self.rows.X.first_not_finite()
        return None if place is None else (self.rows.first + place[0], place[1])

    def some(self, rows: Indices) -> tuple[Indices, Any] | None:
        """Return the given rows that are in this unit: their positions in `rows`, and the rows themselves."""
        own = self._own(rows)
        return (own, self.rows.X[rows[own] - self.rows.first]) if own.size else None

    def some_products(self, w: Vector, rows: Indices) -> tuple[Indices, Vector] | None:
        """Return the products with w of the given rows that are in this unit, and their positions in `rows`."""
        own = self._own(rows)
        return (own, self.rows.X.dot(w, rows[own] - self.rows.first)) if own.size else None

    def apply(self, model: Any, method: str, rows: Indices) -> tuple[Indices, Any] | None:
        """Apply a method of a fitted model to the given rows that are in this unit; also return their positions."""
        own = self._own(rows)
        return (own, getattr(model, method)(self.rows.X[rows[own] - self.rows.first])) if own.size else None

    def _own(self, rows: Indices) -> Indices:
        return np.flatnonzero((rows >= self.rows.first) & (rows < self.rows.first + self.rows.count))


class ClusterRows:
    """Rows of features on the workers: a :class:`maxmargin.core.types.Rows` whose products are computed there.

    Parameters
    ----------
    units : Units
        The units of rows.
    shape : (n, d)
        The numbers of rows and features.
    dtype : data type
        The type of the entries.
    n_stored : int
        The number of stored entries.
    sparse : bool
        Whether the matrix is sparse, so that zeros need not be stored.
    partition_rows : list of int
        The number of rows of each partition that the user gave.
    feature_names : list of str or None
        The names of the features, if any.
    """

    sums_are_cheap = True
    threads = 1
    checks_entries = True  # the computation of the norms finds entries that are not finite
    exceeds_cache = False

    def __init__(
        self,
        units: Units,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        n_stored: int,
        sparse: bool,
        partition_rows: list[int],
        feature_names: list[str] | None = None,
    ) -> None:
        self.units, self.shape, self.dtype, self.n_stored, self.sparse = units, shape, dtype, n_stored, sparse
        self.partition_rows, self.feature_names, self.ledger = partition_rows, feature_names, Ledger()
        self.known_sq_norms: Vector | None = None

    # Parts

    def place(self, make: Callable[..., Any], *args: Any, units: bool = False) -> ClusterParts:
        """Make an object for each part, or for each unit, on the workers; see `RowsInParts`."""
        return ClusterParts(self, units, [Change(f"{make.__module__}:{make.__qualname__}", args)])

    @cached_property
    def _products(self) -> ClusterParts:
        return self.place(ProductPart, units=True)

    @property
    def client(self) -> Client:
        """The client of the cluster."""
        return self.units.client

    def count_reads(self, answers: Sequence[Answer]) -> None:
        """Count what the workers have read."""
        add_reads(self.ledger, answers)

    def fork(self) -> Self:
        """Return the same rows with a separate ledger."""
        other = copy.copy(self)
        other.ledger = Ledger()
        vars(other).pop("_products", None)
        return other

    # What a problem requires of any rows

    def dot(self, w: Point, rows: Indices | None = None) -> Vector:
        """Return the products of all rows, or of some rows, with w."""
        w = np.ascontiguousarray(w, dtype=np.float64)
        if rows is None:
            return np.concatenate(self._products.collect("dot", w))
        out = np.empty(len(rows))
        for found in filter(None, self._products.collect("some_products", w, np.asarray(rows))):
            out[found[0]] = found[1]
        return out

    def dot_transposed(self, p: Vector, rows: Indices | None = None) -> Vector:
        """Return the sum of p_i x_i over all rows, or over some rows."""
        if rows is not None:
            weights = np.zeros(self.shape[0])
            np.add.at(weights, rows, p)
            p = weights
        total: Vector = self._products.total("sum_rows", Scattered(np.asarray(p, dtype=np.float64)))[0]
        return total

    def row_sq_norms(self) -> Vector:
        """Return the squared norms of the rows, which are computed once for all problems."""
        if self.known_sq_norms is None:
            self.known_sq_norms = np.concatenate(self._products.collect("sq_norms"))
        return self.known_sq_norms

    def sq_distances(self, w: Point) -> Vector:
        """Return the squared distances of the rows from w."""
        return np.concatenate(self._products.collect("sq_distances", np.asarray(w)))

    def dot_cost(self, w: Point) -> int:
        """Return the additional cost of a product, which is 0: a product reads each entry once."""
        return 0

    def products_are_inner(self, *points: Point) -> bool | None:
        """Return True: products of rows of numbers are inner products."""
        return True

    def dot_rounding(self, w: Any, norms: Callable[[], Vector]) -> Vector:
        """Bound the rounding error of the product of each row with w; norms() returns the norms of the rows."""
        return rounding.of_products(self.shape[1], w, norms())

    def square_rounding(self, p: Vector, v: Any, norms: Callable[[], Vector], scale: float) -> float:
        """Bound how far the exact square of v, the sum of p_i x_i / scale, can exceed the computed one."""
        return rounding.of_square(v, float(np.abs(p) @ norms()), scale, self.shape[0])

    # Predictions, for a search on these rows

    cache_size = None  # there is no cache of blocks in this process

    def leave_room(self, nbytes: int) -> AbstractContextManager[None]:
        """Do nothing: rows that are copied into this process take no memory of the workers."""
        return nullcontext()

    def apply(self, model: Any, method: str, rows: Indices) -> NDArray[Any]:
        """Apply a method of a fitted model, such as `predict`, to some rows, on the workers."""
        sent = copy.copy(model).set_callbacks()  # callbacks may hold what cannot be sent, such as a terminal
        vars(sent).pop("feature_names_in_", None)  # the rows on the workers are arrays without names
        found = [each for each in self._products.collect("apply", sent, method, rows) if each is not None]
        order = np.argsort(np.concatenate([own for own, _ in found]))
        return np.asarray(np.concatenate([values for _, values in found])[order])

    # A few rows or entries

    def __getitem__(self, rows: Indices | slice) -> Any:
        """Return some rows in this process, as an array or a CSR matrix."""
        wanted = np.arange(self.shape[0])[rows]
        found = [each for each in self._products.collect("some", wanted) if each is not None]
        order = np.argsort(np.concatenate([own for own, _ in found]), kind="stable")
        return worker.stacked([block for _, block in found])[order]

    def dense(self, rows: Indices) -> NDArray[np.float64]:
        """Return some rows as a dense array of float64."""
        some = self[rows]
        return np.asarray(some.toarray() if self.sparse else some, dtype=np.float64)

    def first_not_finite(self) -> tuple[int, int] | None:
        """Return the row and the column of the first entry that is not finite."""
        found = [place for place in self._products.collect("first_not_finite") if place is not None]
        return (found[0][0], found[0][1]) if found else None

    def entry(self, i: int, j: int) -> float:
        """Return the entry at row i and column j."""
        return float(self.dense(np.array([i]))[0, j])

    # Checkpoints

    def signature(self) -> dict[str, Any]:
        """Return what distinguishes these rows from other rows, including the norms of all rows."""
        return {"dtype": str(self.dtype), "n_stored": self.n_stored, "norms": self.row_sq_norms()}

    def kept(self) -> dict[str, Any]:
        """Return nothing, because there is no state apart from the data."""
        return {}

    def take(self, kept: Mapping[str, Any]) -> None:
        """Restore what :meth:`kept` returned; nothing to do."""
