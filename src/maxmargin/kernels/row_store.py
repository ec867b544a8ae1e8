"""Samples by row number, which a driver and its workers keep to compute kernels with them."""

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
        The rows whose samples, among those sent before, a unit keeps; None: all.
    """

    rows: Indices
    X: Samples | None
    kept: Indices | None = None


class RowStore:
    """Samples, dense or CSR, by row number.

    Parameters
    ----------
    n : int
        The number of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels.row_store import RowStore
    >>> store = RowStore(10)
    >>> store.add(np.array([7, 2]), np.array([[0.7], [0.2]]))
    >>> store.add(np.array([5]), np.array([[0.5]]))
    >>> store.missing(np.array([5, 6, 5, 4])), store.take(np.array([5, 7])).ravel()
    (array([4, 6]), array([0.5, 0.7]))
    >>> store.keep(np.array([2, 5]))
    >>> store.missing(np.array([2, 5, 7]))
    array([7])
    """

    def __init__(self, n: int) -> None:
        self._blocks: list[Samples] = []
        # For each row, the number of the block that holds its sample, -1 if it is not here; and its place in the block.
        self._block_of = np.full(n, -1, dtype=np.int32)
        self._place_of = np.zeros(n, dtype=np.int32)

    @property
    def rows(self) -> Indices:
        """The rows whose samples are here, in ascending order."""
        return np.flatnonzero(self._block_of >= 0)

    def missing(self, rows: Indices) -> Indices:
        """The rows among these that are not here, in ascending order and each once."""
        return np.unique(rows[self._block_of[rows] < 0])

    def add(self, rows: Indices, X: Samples) -> None:
        """Add these samples; rows that are here already stay as they are."""
        new = self._block_of[rows] < 0
        if not new.any():
            return
        if not new.all():
            rows, X = rows[new], X[np.flatnonzero(new)]
        self._block_of[rows], self._place_of[rows] = len(self._blocks), np.arange(rows.size)
        self._blocks.append(X)

    def take(self, rows: Indices) -> Samples:
        """Return the samples of these rows, all of which must be here."""
        number, places = self._block_of[rows], self._place_of[rows]
        used = np.flatnonzero(np.bincount(number, minlength=1))
        if used.size == 1:
            return self._blocks[used[0]][places]
        own = [np.flatnonzero(number == k) for k in used]
        parts = [self._blocks[k][places[which]] for k, which in zip(used, own, strict=True)]
        if sp.issparse(parts[0]):
            return sp.vstack(parts, format="csr")[np.argsort(np.concatenate(own))]
        taken = np.empty((rows.size, parts[0].shape[1]), parts[0].dtype)
        for which, part in zip(own, parts, strict=True):
            taken[which] = part
        return taken

    def keep(self, rows: Indices) -> None:
        """Forget all samples except those of these rows."""
        rows = rows[self._block_of[rows] >= 0]
        X = self.take(rows) if rows.size else None
        self._blocks = []
        self._block_of[:] = -1
        if X is not None:
            self.add(rows, X)


class SentSamples:
    """Samples that the driver has fetched from workers, and that it sends once to all workers.

    Parameters
    ----------
    n : int
        The number of all rows.
    fetch : callable
        Returns the samples of some rows.
    most : int
        The largest number of samples that are kept.
    """

    def __init__(self, n: int, fetch: Callable[[Indices], Samples], most: int) -> None:
        self.fetch, self.most = fetch, most
        self._store, self._last_used, self._clock = RowStore(n), np.zeros(n, dtype=np.int64), 0
        self._unsent = np.empty(0, dtype=np.int64)
        self._kept: Indices | None = None  # the rows that remain of those sent before, if workers have not been told

    def gather(self, rows: Indices) -> None:
        """Make sure that the samples of these rows are here; at most `most` rows."""
        new, here = self._store.missing(rows), self._store.rows
        self._clock += 1
        self._last_used[rows] = self._clock
        if here.size + new.size > self.most:  # forget many, so that this does not happen each time
            count = min(self.most - new.size, max(self.most // 2, rows.size - new.size))
            self._kept = here[np.argsort(-self._last_used[here], kind="stable")[:count]]
            self._store.keep(self._kept)
            self._unsent = np.intersect1d(self._unsent, self._kept)
        if new.size:
            self._store.add(new, self.fetch(new))
            self._unsent = np.concatenate([self._unsent, new])

    def take(self, rows: Indices) -> Samples:
        """The samples of these rows; if they are not here, they are fetched but not kept."""
        return self.fetch(rows) if self._store.missing(rows).size else self._store.take(rows)

    def message(self, again: Indices) -> Sent:
        """What workers have not been told yet, and the samples `again` that one of them has lost."""
        rows = np.union1d(self._unsent, again) if again.size else self._unsent
        return Sent(rows, self._store.take(rows) if rows.size else None, self._kept)

    def delivered(self) -> None:
        """Note that all workers have been told."""
        self._unsent, self._kept = self._unsent[:0], None
