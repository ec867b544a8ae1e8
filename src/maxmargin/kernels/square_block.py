"""The block of K between the samples of a working set; samples can enter and leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.core import empty_by_pages
from maxmargin.core.threads import run_tiles
from maxmargin.core.types import Block, Indices
from maxmargin.kernels._blocks import mirror, move_columns
from maxmargin.kernels.row_cache import COPIED_ROWS, COPY_COST

# Unused entries after each row, so that the entries of a column do not compete for one place in the processor's cache.
PADDING = 16


@dataclass
class SquareBlock:
    """K between some samples; new samples take the places of others, or come after them.

    Parameters
    ----------
    dtype : data type
        The precision of the entries.
    threads : int
        The number of threads that copy entries.
    samples : array of int
        The samples; entry (i, j) of `entries` is the kernel of samples i and j.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels.square_block import SquareBlock
    >>> K, square = np.add.outer(np.arange(9.0), np.arange(9.0)), SquareBlock(np.dtype(np.float64))
    >>> def compute(samples, out, positions):
    ...     out[positions] = K[np.ix_(samples[positions], samples)]
    >>> square.enter(np.array([2, 5, 7]), np.array([], dtype=int), 9, compute)
    >>> square.enter(np.array([4]), np.array([0]), 9, compute)
    >>> square.keep(np.array([False, True, True]))
    >>> square.samples, square.entries
    (array([7, 5]), array([[14., 12.],
           [12., 10.]]))
    """

    dtype: np.dtype[Any]
    threads: int = 1

    def __post_init__(self) -> None:
        self.samples: Indices = np.empty(0, dtype=np.int64)
        self._memory: Block = np.empty((0, 0), self.dtype)

    def kept(self) -> dict[str, Any]:
        """The samples and their entries; see `maxmargin.engine.snapshot`."""
        return {"threads": self.threads, "samples": self.samples, "entries": self.entries}

    @classmethod
    def of_kept(cls, kept: Mapping[str, Any]) -> SquareBlock:
        """The block from what was kept."""
        made = cls(kept["entries"].dtype, kept["threads"])
        made.samples = kept["samples"]
        made._memory = kept["entries"]
        return made

    @property
    def size(self) -> int:
        return self.samples.size

    @property
    def entries(self) -> Block:
        return self._memory[: self.size, : self.size]

    def enter(
        self, new: Indices, replaced: Indices, most: int, compute: Callable[[Indices, Block, Indices], None]
    ) -> None:
        """Let new samples take the places `replaced`, which are at most as many; further new samples come last.

        Memory is allocated for at most `most` samples. `compute(samples, out, positions)` computes the rows of `out` at
        the positions of the new samples.
        """
        before, size = self.size, self.size + new.size - replaced.size
        if size > len(self._memory):
            side = min(2 * size, most)
            larger = empty_by_pages((side, side + PADDING), self.dtype)
            smaller, self._memory = self.entries, larger

            def copy(tile: slice) -> None:
                larger[:before][tile, :before] = smaller[tile]

            self._in_tiles(before, before, copy)
        positions = np.concatenate([replaced, np.arange(before, size)])
        self.samples = np.concatenate([self.samples, new[replaced.size :]])
        self.samples[positions] = new
        compute(self.samples, self.entries, positions)
        others = np.setdiff1d(np.arange(size), positions, assume_unique=True)
        self._in_tiles(others.size, positions.size, lambda tile: mirror(self.entries, others[tile], positions))

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Keep only the marked samples; the last ones among them move to the places that become free."""
        kept = int(np.count_nonzero(which))
        targets, sources = np.flatnonzero(~which[:kept]), kept + np.flatnonzero(which[kept:])

        def move_rows(tile: slice) -> None:
            self._memory[targets[tile], : self.size] = self._memory[sources[tile], : self.size]

        self._in_tiles(targets.size, self.size, move_rows)
        self._in_tiles(kept, targets.size, lambda tile: move_columns(self._memory[:kept][tile], sources, targets))
        self.samples[targets] = self.samples[sources]
        self.samples = self.samples[:kept]

    def _in_tiles(self, rows: int, columns: int, work: Callable[[slice], None]) -> None:

        def run(tiles: Iterator[slice]) -> None:
            for tile in tiles:
                work(tile)

        run_tiles(run, rows, COPIED_ROWS, operations=COPY_COST * rows * columns, threads=self.threads)
