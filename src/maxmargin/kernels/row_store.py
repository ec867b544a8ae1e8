"""Samples of some rows by their number, as a driver and its workers keep them to compute kernels with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from maxmargin.core.types import Indices
from maxmargin.kernels.mixed_rows import Samples


@dataclass(frozen=True)
class Sent:
    """Samples that are sent to all units.

    Attributes
    ----------
    rows : array of int
    X : array or CSR matrix, or None if there are none
    kept : array of int or None
        The rows whose samples, of those that were sent before, a unit goes on to keep; None: all.
    """

    rows: Indices
    X: Samples | None
    kept: Indices | None = None


class RowStore:
    """Samples, dense or CSR, by the number of their row.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels.row_store import RowStore
    >>> store = RowStore()
    >>> store.add(np.array([7, 2]), np.array([[0.7], [0.2]]))
    >>> store.add(np.array([5]), np.array([[0.5]]))
    >>> store.missing(np.array([5, 6, 5, 4])), store.take(np.array([5, 7])).ravel()
    (array([4, 6]), array([0.5, 0.7]))
    >>> store.keep(np.array([2, 5]))
    >>> store.missing(np.array([2, 5, 7]))
    array([7])
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all samples."""
        self._blocks: list[Samples] = []
        self._starts = np.zeros(1, dtype=np.int64)  # where each block begins among all samples, and their number
        self._rows = np.empty(0, dtype=np.int64)  # ascending
        self._places = np.empty(0, dtype=np.int64)  # of these rows among all samples
        self._last_used = np.empty(0, dtype=np.int64)  # on a clock
        self._clock = 0

    @property
    def size(self) -> int:
        """How many samples there are."""
        return self._rows.size

    @property
    def rows(self) -> Indices:
        """The rows whose samples are here, ascending."""
        return self._rows

    def missing(self, rows: Indices) -> Indices:
        """Those of some rows that are not here, ascending and each once."""
        return np.setdiff1d(rows, self._rows)

    def add(self, rows: Indices, X: Samples) -> None:
        """Keep these samples too; rows that are here already are left as they are."""
        new = np.isin(rows, self._rows, invert=True)
        if not new.any():
            return
        if not new.all():
            rows, X = rows[new], X[np.flatnonzero(new)]
        self._blocks.append(X)
        places = self._starts[-1] + np.arange(rows.size)
        self._starts = np.append(self._starts, self._starts[-1] + rows.size)
        used = np.concatenate([self._last_used, np.full(rows.size, self._clock)])
        rows, places = np.concatenate([self._rows, rows]), np.concatenate([self._places, places])
        order = np.argsort(rows)
        self._rows, self._places, self._last_used = rows[order], places[order], used[order]

    def touch(self, rows: Indices) -> None:
        """Say that those of these rows that are here are used now."""
        self._clock += 1
        self._last_used[np.isin(self._rows, rows)] = self._clock

    def recent(self, count: int) -> Indices:
        """So many rows of those here, the most recently used."""
        return self._rows[np.argsort(-self._last_used, kind="stable")[:count]]

    def take(self, rows: Indices) -> Samples:
        """The samples of these rows, all of which must be here."""
        places = self._places[np.searchsorted(self._rows, rows)]
        number = np.searchsorted(self._starts, places, side="right") - 1
        used = np.unique(number)
        if used.size == 1:
            return self._blocks[used[0]][places - self._starts[used[0]]]
        own = [np.flatnonzero(number == k) for k in used]
        parts = [self._blocks[k][places[which] - self._starts[k]] for k, which in zip(used, own, strict=True)]
        if not sp.issparse(parts[0]):
            taken = np.empty((rows.size, parts[0].shape[1]), parts[0].dtype)
            for which, part in zip(own, parts, strict=True):
                taken[which] = part
            return taken
        return sp.vstack(parts, format="csr")[np.argsort(np.concatenate(own))]

    def keep(self, rows: Indices) -> None:
        """Forget all samples but those of these rows."""
        kept = np.flatnonzero(np.isin(self._rows, rows))
        rows, last_used, clock = self._rows[kept], self._last_used[kept], self._clock
        X = self.take(rows) if rows.size else None
        self.clear()
        if X is not None:
            self.add(rows, X)
        self._last_used, self._clock = last_used, clock


class SentSamples:
    """Samples that the driver has fetched from workers, all of which are sent them too, each once.

    Parameters
    ----------
    fetch : callable
        Gives the samples of some rows.
    most : int
        How many samples are kept.
    """

    def __init__(self, fetch: Callable[[Indices], Samples], most: int) -> None:
        self.fetch, self.most = fetch, most
        self._store = RowStore()
        self._unsent = np.empty(0, dtype=np.int64)
        self._kept: Indices | None = None  # the rows that remain of those sent before, if workers do not know that yet

    def gather(self, rows: Indices) -> None:
        """Have the samples of these rows, at most as many as are kept."""
        new = self._store.missing(rows)
        self._store.touch(rows)
        if self._store.size + new.size > self.most:  # forget many, so that it does not happen each time
            self._store.keep(self._store.recent(min(self.most - new.size, max(self.most // 2, rows.size - new.size))))
            self._kept = self._store.rows
            self._unsent = np.intersect1d(self._unsent, self._kept)
        if new.size:
            self._store.add(new, self.fetch(new))
            self._unsent = np.concatenate([self._unsent, new])

    def take(self, rows: Indices) -> Samples:
        """The samples of these rows; if they are not here, they are fetched for this once."""
        return self.fetch(rows) if self._store.missing(rows).size else self._store.take(rows)

    def message(self, again: Indices) -> Sent:
        """What workers do not know yet, and samples that one of them has lost."""
        rows = np.union1d(self._unsent, again)
        return Sent(rows, self._store.take(rows) if rows.size else None, self._kept)

    def delivered(self) -> None:
        """All workers have been told."""
        self._unsent, self._kept = self._unsent[:0], None
