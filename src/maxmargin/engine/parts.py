"""Rows in parts: solvers process samples part by part, in threads or on the workers of a cluster.

The rows of a matrix are divided into parts of equally many consecutive rows. Each part has an object, which lives
where the rows of the part are and holds all that a solver keeps about them. The solver calls a method of all objects
at once and receives the sum of their return values. It never sees a single row, so it does not depend on whether the
objects are in this process (:class:`LocalParts`) or elsewhere (:mod:`maxmargin.dask`).

Sums follow a fixed binary tree (:class:`TreeSum`): the bits are the same for any number of threads and workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from maxmargin.core import Matrix
from maxmargin.core.types import Indices, Rows, Vector, is_features

T = TypeVar("T")
Places = Indices | slice  # positions of samples in a part
ALL = slice(None)  # all samples of a part

PART_ROWS = 16_384  # rows of each part except the last: enough to make the Python calls per part cheap
WORKERS = 8  # units that small data is divided into, if it has that many parts: as many workers can share it
PARTS_PER_UNIT = 4  # smallest number of parts in a unit, if that leaves at least WORKERS units
MOST_UNITS = 256  # largest number of units that data is divided into: as many workers can take part
ENTRIES_FOR_THREADS = 1_500_000  # entries of X below which threads are slower: by half for 20,000 x 50
GROUPS = 32  # largest number of tasks that the parts of one call are divided into; threads take tasks one by one

Sums = tuple[Any, ...]
"""Numbers and arrays that are added item by item. Arrays must be new ones, because they are added in place."""


def rows_per_unit(n: int) -> int:
    """The number of rows of each unit except the last. A unit is a run of parts that are always on the same worker.

    Examples
    --------
    >>> from maxmargin.engine.parts import rows_per_unit
    >>> rows_per_unit(20_000), rows_per_unit(1_000_000), rows_per_unit(1_000_000_000)
    (16384, 65536, 3915776)
    """
    parts = -(-n // PART_ROWS)
    return PART_ROWS * min(max(PARTS_PER_UNIT, -(-parts // MOST_UNITS)), max(1, parts // WORKERS))


def slices(n: int, rows: int) -> list[slice]:
    """Slices of `rows` consecutive rows that cover n rows; the last slice may have fewer."""
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


class TreeSum:
    """A sum over numbered parts whose bits do not depend on the order in which the parts are added.

    Neighbours are added in pairs, then the sums of neighbouring pairs, and so on. If the number of parts is not a
    power of two, the sums that remain are added last, from left to right. `nodes` holds the partial sums, which
    another tree can merge.

    Examples
    --------
    >>> from maxmargin.engine.parts import TreeSum
    >>> one, other = TreeSum(), TreeSum()
    >>> for part in (0, 1, 2):
    ...     one.add(part, (0.1 * part,))
    >>> for part in (2, 1):
    ...     other.add(part, (0.1 * part,))
    >>> other.add(0, (0.0,))
    >>> one.total() == other.total()
    True
    """

    def __init__(self) -> None:
        self.nodes: dict[tuple[int, int], Sums] = {}  # the sum over 2^level parts, by (level, number)

    def add(self, part: int, sums: Sums) -> None:
        """Add what the object of one part has returned."""
        self._add(0, part, sums)

    def merge(self, nodes: dict[tuple[int, int], Sums]) -> None:
        """Add the sums over other parts."""
        for (level, number), sums in nodes.items():
            self._add(level, number, sums)

    def total(self) -> Sums:
        """The sum over all parts."""
        if not self.nodes:
            raise ValueError("there is no part to sum over")
        first, *others = (self.nodes[key] for key in sorted(self.nodes, key=lambda key: key[1] << key[0]))
        for other in others:
            first = _added(first, other)
        return first

    def _add(self, level: int, number: int, sums: Sums) -> None:
        while (sibling := self.nodes.pop((level, number ^ 1), None)) is not None:
            sums = _added(sibling, sums) if number & 1 else _added(sums, sibling)
            level, number = level + 1, number >> 1
        self.nodes[level, number] = sums


def _added(left: Sums, right: Sums) -> Sums:
    for item, other in zip(left, right, strict=True):
        if isinstance(item, np.ndarray):
            item += other
    return tuple(
        item if isinstance(item, np.ndarray) else item + other for item, other in zip(left, right, strict=True)
    )


class Largest(float):
    """A number whose "sum" is the larger of two, so that a sum over parts gives the maximum.

    Examples
    --------
    >>> from maxmargin.engine.parts import Largest
    >>> Largest(1.0) + Largest(3.0)
    3.0
    """

    def __add__(self, other: float) -> Largest:
        return Largest(max(self, other))


@dataclass
class PartRows:
    """The rows of a part. Methods take rows by their positions in the part.

    Attributes
    ----------
    X : Matrix
        The matrix that holds the rows, perhaps among others. Each call sets it to the matrix that its own thread reads.
    number : int
        The number of the part.
    first : int
        The number of its first row among all rows of the data.
    own : slice
        The rows of X that belong to the part.
    """

    X: Matrix
    number: int
    first: int
    own: slice

    @property
    def count(self) -> int:
        """The number of rows of the part."""
        return len(range(self.own.start, self.own.stop))

    def dot(self, w: Vector, places: Places = ALL) -> Vector:
        """The products of all rows, or of some, with w."""
        return self.X.dot(w, self.rows(places))

    def dot_transposed(self, p: Vector, places: Places = ALL) -> Vector:
        """The sum of p_i x_i over all rows, or over some."""
        return self.X.sum_rows(p, self.rows(places))

    def dense(self, places: Places) -> Vector:
        """A few rows as a dense array of float64."""
        return self.X.dense(self.rows(places))

    def row_sizes(self, places: Places) -> Indices:
        """The numbers of stored entries of some rows."""
        return self.X.row_sizes(self.rows(places))

    def rows(self, places: Places) -> Indices:
        """The rows of X at some positions of the part."""
        return (
            np.arange(self.own.start, self.own.stop)[places] if isinstance(places, slice) else self.own.start + places
        )


@dataclass(frozen=True)
class Scattered:
    """An argument of which each part receives the entries of its own rows.

    Attributes
    ----------
    vector : array of shape (n,)
        A number for each row of the data.
    """

    vector: Vector


class SqNorms(Scattered):
    """The squared norms of the rows. Workers of a cluster compute the norms of their own rows and are not sent them."""


class Parts(Protocol):
    """Objects of one class, one for each part, that live where the rows of the part are.

    All objects receive the same arguments, except :class:`Scattered` ones. A method that changes its object must be
    called by `update`, because the calls of `update` are repeated to restore an object that was lost with its worker.
    """

    def update(self, method: str, *args: Any) -> Sums:
        """The sum over all parts of the return values of a method that may change the objects."""

    def total(self, method: str, *args: Any) -> Sums:
        """The sum over all parts of the return values of a method that does not change the objects."""

    def collect(self, method: str, *args: Any) -> list[Any]:
        """The return values of a method of each object, in the order of the parts; it does not change the objects."""


@runtime_checkable
class RowsInParts(Protocol):
    """Rows of features that are read part by part, wherever they are."""

    def place(self, make: Callable[..., Any], *args: Any, units: bool = False) -> Parts:
        """Make an object ``make(rows, *args)`` for each part from its :class:`PartRows`, where the rows are.

        With `units`, make an object for each unit of several parts instead.
        """


def in_parts(X: Rows) -> RowsInParts:
    """The rows of a problem in parts: X itself if it is in parts already, else parts of X in this process."""
    if isinstance(X, RowsInParts):
        return X
    assert is_features(X)
    return LocalRows(X, X.shape[0])


@dataclass(frozen=True)
class LocalRows:
    """Rows in this process; threads share the work on their parts.

    Attributes
    ----------
    X : Matrix
        All rows, or the rows of one unit.
    n : int
        The number of rows of the whole data, which decides how many rows a unit has.
    first : int
        The number of the first row of X in the whole data.
    unit_rows : int or None
        The number of rows of a unit; None: as given by :func:`rows_per_unit`.
    """

    X: Matrix
    n: int
    first: int = 0
    unit_rows: int | None = None

    def place(self, make: Callable[..., Any], *args: Any, units: bool = False) -> LocalParts:
        height = PART_ROWS if not units else self.unit_rows or rows_per_unit(self.n)
        parts = [
            PartRows(self.X, (self.first + rows.start) // height, self.first + rows.start, rows)
            for rows in slices(self.X.shape[0], height)
        ]
        return LocalParts(self.X, parts, [make(part, *cut(args, part)) for part in parts])


@dataclass
class SinglePart:
    """One object for all samples in this process, for rows that cannot be read in parts."""

    object: Any

    def update(self, method: str, *args: Any) -> Sums:
        return self.total(method, *args)

    def total(self, method: str, *args: Any) -> Sums:
        sums: Sums = self._call(method, args)
        return sums

    def collect(self, method: str, *args: Any) -> list[Any]:
        return [self._call(method, args)]

    def _call(self, method: str, args: Sequence[Any]) -> Any:
        return getattr(self.object, method)(*(item.vector if isinstance(item, Scattered) else item for item in args))


def cut(args: Sequence[Any], part: PartRows) -> list[Any]:
    """The arguments for one part of rows in this process."""
    return [item.vector[part.own] if isinstance(item, Scattered) else item for item in args]


@dataclass
class LocalParts:
    """The objects of all parts in this process."""

    X: Matrix
    rows: list[PartRows]
    objects: list[Any]

    def update(self, method: str, *args: Any) -> Sums:
        return self.total(method, *args)

    def total(self, method: str, *args: Any) -> Sums:
        tree = TreeSum()
        tree.merge(self.nodes(method, *args))
        return tree.total()

    def nodes(self, method: str, *args: Any) -> dict[tuple[int, int], Sums]:
        """The sums over these parts, as nodes of the tree over all parts of the data."""
        tree = TreeSum()
        for nodes in self._in_groups(lambda some: self._sum(some, method, args)):
            tree.merge(nodes)
        return tree.nodes

    def collect(self, method: str, *args: Any) -> list[Any]:
        groups = self._in_groups(lambda some: [self._call(k, method, args) for k in some])
        return [answer for group in groups for answer in group]

    def _sum(self, some: range, method: str, args: Sequence[Any]) -> dict[tuple[int, int], Sums]:
        tree = TreeSum()
        for k in some:
            tree.add(self.rows[k].number, self._call(k, method, args))
        return tree.nodes

    def _call(self, k: int, method: str, args: Sequence[Any]) -> Any:
        return getattr(self.objects[k], method)(*cut(args, self.rows[k]))

    def _in_groups(self, work: Callable[[range], T]) -> list[T]:
        """The return values of `work` for groups of neighbouring parts; threads share the groups."""
        few = self.X.n_stored < ENTRIES_FOR_THREADS
        size = max(1, len(self.objects) if few else -(-len(self.objects) // GROUPS))

        def task(some: range, reader: Matrix) -> T:
            try:
                for k in some:
                    self.rows[k].X = reader
                return work(some)
            finally:
                for k in some:
                    self.rows[k].X = self.X

        every = range(len(self.objects))
        return self.X.side_by_side([partial(task, every[start : start + size]) for start in every[::size]])
