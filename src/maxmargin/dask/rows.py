"""Rows of features on the workers of a cluster: what a problem asks of its data, and objects of parts."""

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
    """Products with the rows of a unit; nothing is kept between calls."""

    def __init__(self, rows: PartRows) -> None:
        self.rows = rows

    def dot(self, w: Vector) -> Vector:
        """The products of the rows with w."""
        return self.rows.X.dot(w)

    def sum_rows(self, p: Vector) -> tuple[Vector]:
        """The sum of p_i x_i."""
        return (self.rows.X.dot_transposed(p),)

    def sq_norms(self) -> Vector:
        """The squared norms of the rows."""
        return self.rows.X.row_sq_norms()

    def sq_distances(self, x: Vector) -> Vector:
        """The squared distances of the rows from x."""
        return self.rows.X.sq_distances(x)

    def first_not_finite(self) -> tuple[int, int] | None:
        """The first entry that is not finite, by its row in all of the data and its column."""
        place = self.rows.X.first_not_finite()
        return None if place is None else (self.rows.first + place[0], place[1])

    def some(self, rows: Indices) -> tuple[Indices, Any] | None:
        """Those of some rows of the data that are in this unit: their positions in the list, and the rows."""
        own = self._own(rows)
        return (own, self.rows.X[rows[own] - self.rows.first]) if own.size else None

    def some_products(self, w: Vector, rows: Indices) -> tuple[Indices, Vector] | None:
        """The products with w of those of some rows of the data that are in this unit, and their positions."""
        own = self._own(rows)
        return (own, self.rows.X.dot(w, rows[own] - self.rows.first)) if own.size else None

    def apply(self, model: Any, method: str, rows: Indices) -> tuple[Indices, Any] | None:
        """What a method of a fitted model says of those of some rows of the data that are in this unit."""
        own = self._own(rows)
        return (own, getattr(model, method)(self.rows.X[rows[own] - self.rows.first])) if own.size else None

    def _own(self, rows: Indices) -> Indices:
        return np.flatnonzero((rows >= self.rows.first) & (rows < self.rows.first + self.rows.count))


class ClusterRows:
    """Rows of features on the workers: a :class:`maxmargin.core.types.Rows` whose products are computed there.

    Parameters
    ----------
    units : Units
    shape : (n, d)
    dtype : data type
    n_stored : int
        The number of stored entries.
    sparse : bool
        Whether zeros are not stored.
    partition_rows : list of int
        The number of rows of each partition that the user gave.
    feature_names : list of str or None
    """

    sums_are_cheap = True
    threads = 1
    checks_entries = True  # entries that are not finite are found with the norms
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
        """Make an object of each part, or of each unit, on the workers; see `RowsInParts`."""
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
        """The same rows with a ledger of their own."""
        other = copy.copy(self)
        other.ledger = Ledger()
        vars(other).pop("_products", None)
        return other

    # What a problem asks of any rows

    def dot(self, w: Point, rows: Indices | None = None) -> Vector:
        """The products of the rows, or of some, with w."""
        w = np.ascontiguousarray(w, dtype=np.float64)
        if rows is None:
            return np.concatenate(self._products.collect("dot", w))
        out = np.empty(len(rows))
        for found in filter(None, self._products.collect("some_products", w, np.asarray(rows))):
            out[found[0]] = found[1]
        return out

    def dot_transposed(self, p: Vector, rows: Indices | None = None) -> Vector:
        """The sum of p_i x_i over all rows, or over some."""
        if rows is not None:
            weights = np.zeros(self.shape[0])
            np.add.at(weights, rows, p)
            p = weights
        total: Vector = self._products.total("sum_rows", Scattered(np.asarray(p, dtype=np.float64)))[0]
        return total

    def row_sq_norms(self) -> Vector:
        """The squared norms of the rows: read once for all problems on them."""
        if self.known_sq_norms is None:
            self.known_sq_norms = np.concatenate(self._products.collect("sq_norms"))
        return self.known_sq_norms

    def sq_distances(self, w: Point) -> Vector:
        """The squared distances of the rows from w."""
        return np.concatenate(self._products.collect("sq_distances", np.asarray(w)))

    def dot_cost(self, w: Point) -> int:
        """A product reads each entry once."""
        return 0

    def products_are_inner(self, *points: Point) -> bool | None:
        """Products of rows of numbers are inner products."""
        return True

    def dot_rounding(self, w: Any, norms: Callable[[], Vector]) -> Vector:
        """How far each product of a row with w can be from the exact one; norms() gives the norms of the rows."""
        return rounding.of_products(self.shape[1], w, norms())

    def square_rounding(self, p: Vector, v: Any, norms: Callable[[], Vector], scale: float) -> float:
        """How much larger the exact square of v, the sum of p_i x_i / scale, can be than the computed one."""
        return rounding.of_square(v, float(np.abs(p) @ norms()), scale, self.shape[0])

    # Predictions, for a search on these rows

    cache_size = None  # of blocks in this process: there are none

    def leave_room(self, nbytes: int) -> AbstractContextManager[None]:
        """Rows that are copied into this process take nothing from the workers."""
        return nullcontext()

    def apply(self, model: Any, method: str, rows: Indices) -> NDArray[Any]:
        """What a method of a fitted model, such as `predict`, says of some rows, computed by the workers."""
        sent = copy.copy(model).set_callbacks()  # callbacks may hold what cannot be sent, such as a terminal
        vars(sent).pop("feature_names_in_", None)  # the rows on the workers are arrays, without names
        found = [each for each in self._products.collect("apply", sent, method, rows) if each is not None]
        order = np.argsort(np.concatenate([own for own, _ in found]))
        return np.asarray(np.concatenate([values for _, values in found])[order])

    # Single rows and entries: a few

    def __getitem__(self, rows: Indices | slice) -> Any:
        """Some rows, in this process: an array or a CSR matrix."""
        wanted = np.arange(self.shape[0])[rows]
        found = [each for each in self._products.collect("some", wanted) if each is not None]
        order = np.argsort(np.concatenate([own for own, _ in found]), kind="stable")
        return worker.stacked([block for _, block in found])[order]

    def dense(self, rows: Indices) -> NDArray[np.float64]:
        """Some rows as a dense array of float64."""
        some = self[rows]
        return np.asarray(some.toarray() if self.sparse else some, dtype=np.float64)

    def first_not_finite(self) -> tuple[int, int] | None:
        """The row and the column of the first entry that is not finite."""
        found = [place for place in self._products.collect("first_not_finite") if place is not None]
        return (found[0][0], found[0][1]) if found else None

    def entry(self, i: int, j: int) -> float:
        """The entry at row i and column j."""
        return float(self.dense(np.array([i]))[0, j])

    # Checkpoints

    def signature(self) -> dict[str, Any]:
        """What tells these rows from others: the norms of all of them."""
        return {"dtype": str(self.dtype), "n_stored": self.n_stored, "norms": self.row_sq_norms()}

    def kept(self) -> dict[str, Any]:
        """Nothing is remembered but what the source holds."""
        return {}

    def take(self, kept: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
