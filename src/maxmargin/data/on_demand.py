"""Features that are computed on demand, each entry at most once, at a cost.

Section 7 of Hazan, Koren and Srebro (2011) mentions this case: features "very expensive to calculate, but can be
calculated on demand". A solver that reads rows and columns, such as SIMBA, learns from those that it requests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from maxmargin.core.source import Block
from maxmargin.core.types import Indices, Vector
from maxmargin.data.entries import feature_costs
from maxmargin.data.feature_calls import BACKENDS, NO_LINES, FeatureCalls, FeatureError, described, is_async
from maxmargin.data.feature_log import FeatureLog, Piece
from maxmargin.data.known_entries import KnownEntries

LEAST_CACHE = 2**26
"""The minimum size of the cache of blocks, in bytes. The source keeps the cached entries too, so a larger cache saves
copies but no calls; it must hold eight of the longest lines."""


class OnDemand:
    """A matrix whose entries are computed by functions, in batches, when a solver needs them.

    Give at least one of `entries`, `rows` and `columns`. With `entries`, a row or a column costs only its unknown
    entries. Without `entries`, missing entries are computed in whole rows or whole columns: with `rows` alone, a column
    takes all rows.

    Parameters
    ----------
    n_samples, n_features : int
        The shape of the matrix.
    entries : function of (i, j) or None, default=None
        Takes arrays of rows and of columns of the same length, and returns an array of that length.
    rows : function of i or None, default=None
        Takes an array of rows, and returns an array of shape (len(i), n_features).
    columns : function of j or None, default=None
        Takes an array of columns, and returns an array of shape (n_samples, len(j)).
    cost : float, array of shape (n_features,) or function of j, default=1.0
        The cost of an entry of each feature, at least 0. The `budget` of a fit is in the same units. A function takes
        an array of all features.
    memory : str, path or None, default=None
        A file to which all computed entries are appended, and whose entries are known from the start. None keeps
        entries in memory only.
    version : str, default=""
        A name for what the functions compute. It is written to the file, and a file with another version is refused.
    batch_size : int or None, default=None
        The maximum number of entries to compute in one call. Calls for whole lines compute as many lines as fit, but at
        least one. None divides each request evenly among the workers.
    workers : int, default=1
        The maximum number of concurrent calls.
    backend : {"threads", "processes"}, default="threads"
        Where functions are called. Coroutine functions (`async def`) are awaited in an event loop in a thread.
    retries : int, default=3
        The maximum number of retries of a call that raises an exception.
    retry_wait : float, default=0.1
        The seconds before the first retry. Each further wait is twice as long.
    dtype : float32 or float64, default=float64
        The type of the entries.
    name : str, default="features on demand"
        The name of the matrix in messages.

    Attributes
    ----------
    costs : array of shape (n_features,)
        The cost of an entry of each feature.
    spent : float
        The cost of all successful calls so far.
    computed : int
        The number of entries that these calls computed.
    calls : int
        The number of successful calls.

    See Also
    --------
    maxmargin.data.as_matrix : Wrap a source for the solvers.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import OnDemand
    >>> X = OnDemand(3, 4, entries=lambda i, j: 10.0 * i + j, cost=[1, 1, 1, 5])
    >>> X.columns.read(3).lines
    array([[ 3., 13., 23.]])
    >>> X.rows.read(1).lines  # the last entry is known already
    array([[10., 11., 12., 13.]])
    >>> X.spent, X.computed
    (18.0, 6)
    """

    def __init__(
        self,
        n_samples: int,
        n_features: int,
        *,
        entries: Callable[..., Any] | None = None,
        rows: Callable[..., Any] | None = None,
        columns: Callable[..., Any] | None = None,
        cost: float | ArrayLike | Callable[[Indices], ArrayLike] = 1.0,
        memory: str | os.PathLike[str] | None = None,
        version: str = "",
        batch_size: int | None = None,
        workers: int = 1,
        backend: str = "threads",
        retries: int = 3,
        retry_wait: float = 0.1,
        dtype: DTypeLike = np.float64,
        name: str = "features on demand",
    ) -> None:
        functions = {"entries": entries, "rows": rows, "columns": columns}
        self._functions = {what: function for what, function in functions.items() if function is not None}
        self.shape, self.dtype, self.name = (int(n_samples), int(n_features)), np.dtype(dtype), name
        self.batch_size, self.workers = batch_size, workers
        self._check(workers, backend, retries, retry_wait)
        self.costs = feature_costs(cost, self.shape[1])
        self.n_stored = self.shape[0] * self.shape[1]
        self.cache_size = max(LEAST_CACHE, 8 * max(self.shape) * self.dtype.itemsize)
        self.spent, self.computed, self.calls = 0.0, 0, 0
        self._known = KnownEntries(self.shape, self.dtype)
        # Entries that a run bought after its last checkpoint, before it was cut off.
        self._paid_for = KnownEntries(self.shape, self.dtype)
        self._missing_cost = np.full(self.shape[0], self.costs.sum())  # cost of the unknown entries of each row
        self._lock = Lock()
        self._calls = FeatureCalls(workers, backend, retries, retry_wait)
        self._rows, self._columns = OnDemandLines.of(self, 0), OnDemandLines.of(self, 1)
        self._log = None if memory is None else FeatureLog(memory, self.shape, self.dtype, version)
        if self._log is not None:
            try:
                for piece in self._log.pieces():
                    self._learn(piece)
            except BaseException:
                self._log.close()
                raise
        self._set_prices(*(np.arange(count) for count in self.shape))

    def _check(self, workers: int, backend: str, retries: int, retry_wait: float) -> None:
        if not self._functions:
            raise ValueError("give at least one of the functions entries=, rows= and columns=")
        if min(self.shape) < 1:
            raise ValueError(f"n_samples and n_features must be at least 1; got {self.shape}")
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64; got {self.dtype}")
        if workers < 1 or (self.batch_size is not None and self.batch_size < 1):
            raise ValueError(f"workers and batch_size must be at least 1; got {workers!r} and {self.batch_size!r}")
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; got {backend!r}")
        if backend != "threads" and any(map(is_async, self._functions.values())):
            raise ValueError(f"coroutine functions need backend='threads'; got {backend!r}")
        if retries < 0 or not retry_wait >= 0:
            raise ValueError(f"retries and retry_wait must be at least 0; got {retries!r} and {retry_wait!r}")

    # Reading

    @property
    def rows(self) -> OnDemandLines:
        """The rows, as a Matrix reads them."""
        return self._rows

    @property
    def columns(self) -> OnDemandLines:
        """The columns, as a Matrix reads them."""
        return self._columns

    def block(self, rows: ArrayLike, columns: ArrayLike) -> NDArray[Any]:
        """Return the entries at all of these rows and columns; compute those that are not known.

        Parameters
        ----------
        rows, columns : arrays of int
            Distinct positions of rows, and of columns.

        Returns
        -------
        array of shape (len(rows), len(columns))
            The entries.
        """
        i, j = (np.asarray(lines, dtype=np.int64) for lines in (rows, columns))
        with self._lock:
            values, known = self._known.block(i, j)
            if known.all():
                return values
            missing = np.nonzero(~known.T)  # column by column
            if "entries" in self._functions:
                self._compute_entries(1, i[missing[1]], j[missing[0]])
            elif "columns" in self._functions:
                self._compute_lines(1, j[np.unique(missing[0])])
            else:
                self._compute_lines(0, i[np.unique(missing[1])])
            return self._known.block(i, j).values

    def price(self, rows: ArrayLike, columns: ArrayLike) -> float:
        """Return the current cost of the entries at all of these rows and columns.

        Parameters
        ----------
        rows, columns : arrays of int
            Distinct positions of rows, and of columns.

        Returns
        -------
        float
            The cost of those entries that are not known yet.
        """
        i, j = (np.asarray(lines, dtype=np.int64) for lines in (rows, columns))
        with self._lock:
            missing = ~self._known.block(i, j).known
        if "entries" in self._functions:
            return float(missing.sum(axis=0) @ self.costs[j])
        if "columns" in self._functions:
            return float(missing.any(axis=0) @ self.costs[j]) * self.shape[0]
        return float(np.count_nonzero(missing.any(axis=1)) * self.costs.sum())

    def _read_line(self, axis: int, k: int) -> Block:
        """Read a row or a column, and compute its unknown entries."""
        with self._lock:
            calls, computed = self.calls, self.computed
            known = self._known.line(axis, k).known
            if not known.all():
                here = np.flatnonzero(~known)
                by_entries = "entries" in self._functions
                if by_entries and not (here.size == known.size and LINES[axis] in self._functions):
                    there = np.full(here.size, k)
                    self._compute_entries(axis, *((there, here) if axis == 0 else (here, there)))
                elif LINES[axis] in self._functions:
                    self._compute_lines(axis, np.array([k]))
                else:
                    self._compute_lines(1 - axis, here)
            line = self._known.line(axis, k).values
            return Block(line[None], self.calls - calls, (self.computed - computed) * self.dtype.itemsize)

    # Computing

    def _compute_entries(self, axis: int, i: Indices, j: Indices) -> None:
        """Compute entries, sorted by row (axis 0) or column (axis 1), and keep them as pieces of these lines."""
        i, j = self._without_paid_for(axis, i, j)
        batches = [(i[part], j[part]) for part in self._batches(i.size, 1)]

        def keep(batch: int, values: NDArray[Any]) -> None:
            rows, columns = batches[batch]
            lines, across = (rows, columns) if axis == 0 else (columns, rows)
            self._count(values.size, float(self.costs[columns].sum()))
            starts = np.flatnonzero(np.diff(lines, prepend=-1))
            for start, end in zip(starts.tolist(), [*starts.tolist()[1:], lines.size], strict=True):
                self._keep(Piece(axis, int(lines[start]), across[start:end], values[start:end]))

        self._call("entries", batches, [(rows.size,) for rows, _ in batches], keep)

    def _compute_lines(self, axis: int, lines: Indices) -> None:
        """Compute whole rows (axis 0) or whole columns (axis 1)."""
        width = self.shape[1 - axis]
        paid_for = self._paid_for.unknown[axis][lines] == 0
        for line in lines[paid_for].tolist():
            self._learn_paid_for(axis, line, np.arange(width))
        lines = lines[~paid_for]
        batches = [lines[part] for part in self._batches(lines.size, width)]
        everywhere = np.arange(width)

        def keep(batch: int, values: NDArray[Any]) -> None:
            own = batches[batch]
            cost = own.size * self.costs.sum() if axis == 0 else width * self.costs[own].sum()
            self._count(values.size, float(cost))
            for line, entries in zip(own.tolist(), values if axis == 0 else values.T, strict=True):
                self._keep(Piece(axis, line, everywhere, np.ascontiguousarray(entries)))

        shapes = [(own.size, width) if axis == 0 else (width, own.size) for own in batches]
        self._call(LINES[axis], [(own,) for own in batches], shapes, keep)

    def _without_paid_for(self, axis: int, i: Indices, j: Indices) -> tuple[Indices, Indices]:
        """Return the entries that are not paid for yet; the others become known without a call."""
        lines, across = (i, j) if axis == 0 else (j, i)
        left = np.ones(i.size, dtype=bool)
        for line in np.unique(lines[self._paid_for.unknown[axis][lines] < self.shape[1 - axis]]).tolist():
            own = np.flatnonzero(lines == line)
            there = own[self._paid_for.line(axis, line).known[across[own]]]
            self._learn_paid_for(axis, line, across[there])
            left[there] = False
        return i[left], j[left]

    def _learn_paid_for(self, axis: int, line: int, where: Indices) -> None:
        """Make entries of a line known that were paid for; if there is a log, it already contains them."""
        fresh = self._learn(Piece(axis, line, where, self._paid_for.line(axis, line).values[where]))
        self._renew_prices(axis, line, fresh)

    def _batches(self, count: int, width: int) -> list[slice]:
        """Divide `count` lines of `width` entries into parts, one for each call."""
        size = max(1, -(-count // self.workers) if self.batch_size is None else self.batch_size // width)
        return [slice(start, start + size) for start in range(0, count, size)]

    def _call(
        self,
        what: str,
        batches: Sequence[tuple[Indices, ...]],
        shapes: Sequence[tuple[int, ...]],
        keep: Callable[[int, NDArray[Any]], None],
    ) -> None:
        """Make a call for each batch and keep all results; then raise the first error, if any."""
        failure: FeatureError | None = None
        for batch, outcome in self._calls.results(self._functions[what], batches):
            arguments = dict(zip(ARGUMENTS[what], batches[batch], strict=True))
            places = arguments.get("i", NO_LINES), arguments.get("j", NO_LINES)
            try:
                keep(batch, self._checked(outcome, shapes[batch], partial(described, what, *places), places))
            except FeatureError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _checked(
        self, outcome: Any, shape: tuple[int, ...], call: Callable[[], str], places: tuple[Indices, Indices]
    ) -> NDArray[Any]:
        """Return the values that a call returned; raise an error if they are not what was requested."""
        if isinstance(outcome, Exception):
            tries = self._calls.retries + 1
            raise FeatureError(
                f"{self.name}: {call()} failed {tries} times, the last time with {type(outcome).__name__}: {outcome}. "
                "The results of other calls are kept.",
                *places,
            ) from outcome
        try:
            values = np.asarray(outcome, dtype=self.dtype)
        except (TypeError, ValueError) as error:
            raise FeatureError(
                f"{self.name}: {call()} returned {type(outcome).__name__}, not numbers", *places
            ) from error
        if values.shape != shape:
            raise FeatureError(f"{self.name}: {call()} returned an array of shape {values.shape}, not {shape}", *places)
        if not np.isfinite(values).all():
            raise self._not_finite(values, places)
        return values

    def _not_finite(self, values: NDArray[Any], places: tuple[Indices, Indices]) -> FeatureError:
        """Make the error that names the first entry that is NaN or infinite."""
        first = tuple(np.argwhere(~np.isfinite(values))[0].tolist())
        rows, columns = places
        if rows.size and columns.size:
            row, column = int(rows[first]), int(columns[first])
        elif rows.size:
            row, column = int(rows[first[0]]), first[1]
        else:
            row, column = first[0], int(columns[first[1]])
        return FeatureError(
            f"{self.name}: the entry at row {row}, column {column} is {values[first]}; every entry must be finite",
            np.array([row]),
            np.array([column]),
        )

    # Memory and prices

    def _count(self, entries: int, cost: float) -> None:
        self.calls += 1
        self.computed += entries
        self.spent += cost

    def _keep(self, piece: Piece) -> None:
        fresh = self._learn(piece)
        if self._log is not None and fresh.size:
            self._log.append(piece)
        self._renew_prices(piece.axis, piece.line, fresh)

    def _renew_prices(self, axis: int, line: int, fresh: Indices) -> None:
        """Set the prices of a line, and of the lines that cross it at newly known entries."""
        lines = (np.array([line]), fresh)
        self._set_prices(*(lines if axis == 0 else lines[::-1]))

    def _learn(self, piece: Piece) -> Indices:
        fresh = self._known.add(*piece)
        if piece.axis == 0:
            self._missing_cost[piece.line] -= self.costs[fresh].sum()
        else:
            self._missing_cost[fresh] -= self.costs[piece.line]
        return fresh

    def _set_prices(self, rows: Indices, columns: Indices) -> None:
        """Set the current prices of these rows and columns: of unknown entries, or of the lines that hold them."""
        unknown_in_row, unknown_in_column = (
            unknown[lines] for unknown, lines in zip(self._known.unknown, (rows, columns), strict=True)
        )
        # Because of rounding, an updated sum may not be exactly 0 when all entries are known.
        missing = np.where(unknown_in_row > 0, np.maximum(self._missing_cost[rows], 0.0), 0.0)
        by_row, by_column = missing, unknown_in_column * self.costs[columns]
        if "entries" not in self._functions:
            n, row_cost = self.shape[0], self.costs.sum()
            by_row = (unknown_in_row > 0) * row_cost if "rows" in self._functions else n * missing
            if "columns" in self._functions:
                by_column = (unknown_in_column > 0) * (n * self.costs[columns])
            else:
                by_column = unknown_in_column * row_cost
        self.rows.prices[rows], self.columns.prices[columns] = by_row, by_column

    # What a checkpoint holds

    def kept(self) -> dict[str, Any]:
        """Return all known entries, and the sums that determine prices, because solvers choose by prices."""
        with self._lock:
            pieces = list(self._known.pieces())
            return {
                "lines": np.array([(axis, line, where.size) for axis, line, where, _ in pieces]).reshape(-1, 3),
                "where": np.concatenate([NO_LINES, *(where for _, _, where, _ in pieces)]),
                "values": np.concatenate([np.empty(0, self.dtype), *(values for *_, values in pieces)]),
                "missing_cost": self._missing_cost.copy(),
            }

    def take(self, kept: Mapping[str, Any]) -> None:
        """Restore exactly the entries in a checkpoint, so that a run continues with the prices at that time.

        All other known entries, from the file or from before, were paid for after the checkpoint by the run that was
        cut off. When the continued run requests them, its ledger counts the price, but there is no call.
        """
        ends = np.cumsum(kept["lines"][:, 2])
        with self._lock:
            for piece in self._known.pieces():
                self._paid_for.add(*piece)
            self._known = KnownEntries(self.shape, self.dtype)
            for (axis, line, size), end in zip(kept["lines"].tolist(), ends.tolist(), strict=True):
                self._known.add(axis, line, kept["where"][end - size : end], kept["values"][end - size : end])
            self._missing_cost[:] = kept["missing_cost"]
            self._set_prices(*(np.arange(count) for count in self.shape))

    # Closing

    def close(self) -> None:
        """Close the file, and stop the threads and processes of the workers."""
        self._calls.close()
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"OnDemand({self.shape[0]} x {self.shape[1]}, computed: {self.computed:,} entries in {self.calls:,} calls, "
            f"spent: {self.spent:,g})"
        )


LINES = ("rows", "columns")  # the functions for whole lines, by axis
ARGUMENTS = {"entries": ("i", "j"), "rows": ("i",), "columns": ("j",)}


@dataclass(frozen=True)
class OnDemandLines:
    """The rows (axis 0) or columns (axis 1) of a source; each line is a block, so that nothing is bought needlessly."""

    source: OnDemand = field(repr=False)
    axis: int
    starts: Indices
    prices: Vector
    sizes: None = None
    read_ahead: bool = False

    @classmethod
    def of(cls, source: OnDemand, axis: int) -> OnDemandLines:
        count = source.shape[axis]
        return cls(source, axis, np.arange(count + 1), np.zeros(count))

    def nbytes(self, block: int) -> int:
        """Return the bytes of a line."""
        return self.source.shape[1 - self.axis] * self.source.dtype.itemsize

    def read(self, block: int) -> Block:
        """Read a line. Calls from several threads wait for each other, so no entry is computed twice."""
        return self.source._read_line(self.axis, block)
