"""The known entries of a matrix, by rows and by columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices, Mask

Values = NDArray[Any]


class Known(NamedTuple):
    """Entries, and a mask of the known ones; the others are 0."""

    values: Values
    known: Mask


class KnownEntries:
    """A matrix whose entries become known in pieces of rows and columns, each of which completes the other.

    Parameters
    ----------
    shape : tuple
        The numbers of rows and columns.
    dtype : dtype
        The type of the entries.

    Attributes
    ----------
    unknown : tuple of arrays of int64
        The number of unknown entries of each row, and of each column.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
        self.unknown = tuple(np.full(shape[axis], shape[1 - axis], dtype=np.int64) for axis in (0, 1))
        # Indexed by axis: rows, then columns.
        self._whole: tuple[dict[int, Values], dict[int, Values]] = {}, {}
        self._parts: tuple[dict[int, Known], dict[int, Known]] = {}, {}

    def line(self, axis: int, k: int) -> Known:
        """Return row k (axis 0) or column k (axis 1) and a mask of its known entries. A complete line is read-only."""
        whole = self._whole[axis].get(k)
        if whole is not None:
            return Known(whole, np.broadcast_to(np.True_, whole.shape))
        values, known = self._part(axis, k)
        if self.unknown[axis][k] == 0:
            values.flags.writeable = False
            self._whole[axis][k] = values
            self._parts[axis].pop(k, None)
        return Known(values, known)

    def _part(self, axis: int, k: int) -> Known:
        """Return what is known of a line from its own pieces and from crossing lines, in new arrays."""
        width = self.shape[1 - axis]
        values, known = np.zeros(width, dtype=self.dtype), np.zeros(width, dtype=bool)
        whole, parts = self._whole[1 - axis], self._parts[1 - axis]
        if whole:
            where = np.fromiter(whole, np.int64, len(whole))
            values[where], known[where] = np.fromiter((line[k] for line in whole.values()), self.dtype), True
        for j, part in parts.items():
            if part.known[k]:
                values[j], known[j] = part.values[k], True
        own = self._parts[axis].get(k)
        if own is not None:
            values[own.known], known[own.known] = own.values[own.known], True
        return Known(values, known)

    def block(self, rows: Indices, columns: Indices) -> Known:
        """Return the entries at all of these rows and columns, of shape (rows, columns), and a mask of known ones."""
        values = np.zeros((rows.size, columns.size), dtype=self.dtype)
        known = np.zeros(values.shape, dtype=bool)
        for axis, (along, across) in enumerate(((rows, columns), (columns, rows))):
            by_line, marks = (values, values.T)[axis], (known, known.T)[axis]
            for k, number in enumerate(along.tolist()):
                if number in self._whole[axis]:
                    by_line[k], marks[k] = self._whole[axis][number][across], True
                elif number in self._parts[axis]:
                    part = self._parts[axis][number]
                    there = part.known[across]
                    by_line[k, there], marks[k, there] = part.values[across[there]], True
        return Known(values, known)

    def pieces(self) -> Iterator[tuple[int, int, Indices, Values]]:
        """Yield all known entries in the form that `add` accepts; some both as parts of rows and of columns."""
        for axis in (0, 1):
            for k in (*self._whole[axis], *self._parts[axis]):
                values, known = self._parts[axis].get(k) or self.line(axis, k)
                where = np.flatnonzero(known)
                yield axis, k, where, values[where]

    def add(self, axis: int, k: int, where: Indices, values: Values) -> Indices:
        """Add entries of a row or column at these positions; return the positions that were not known before."""
        before = self.line(axis, k)
        new = ~before.known[where]
        fresh = where[new]
        if fresh.size:
            before.values[fresh], before.known[fresh] = values[new], True
            self._parts[axis][k] = before
            self.unknown[axis][k] -= fresh.size
            self.unknown[1 - axis][fresh] -= 1
        return fresh
