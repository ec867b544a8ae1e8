"""A cache of blocks of lines that were read from a source: keeps them in memory up to a limit, and reads ahead."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Condition, RLock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import scipy.sparse as sp

from maxmargin.core.memory import give_back_free_memory, resident_memory
from maxmargin.core.source import LineBlocks
from maxmargin.core.types import Indices

READERS = 4  # threads that may read a source at the same time; each holds a block of rows and one of columns
# Share of the cache; whenever removed blocks have freed this much, the memory of the process is checked.
FREED_SHARE = 0.05
# Bytes by which the process may have grown beyond the cache before free memory is returned to the system. Returning it
# more often would make the system clear the memory of each block again, which takes a third of the time of a fit.
MOST_KEPT_FREE = 50_000_000
MOST_AHEAD = 2  # largest number of blocks read ahead or waiting for it; more would take the room of blocks in use


class KeptBlock:
    """A block in the cache.

    Attributes
    ----------
    lines : array, CSR array or None
        The entries; None while they are being read.
    nbytes : int
        The memory that is reserved for the block.
    users : int
        How many threads are reading its entries; the block is not removed as long as there are any.
    ahead : Future or None
        The task that reads the block ahead.
    """

    __slots__ = ("ahead", "lines", "nbytes", "users")

    def __init__(self, nbytes: int) -> None:
        self.lines: Any = None
        self.nbytes, self.users = nbytes, 0
        self.ahead: Future[None] | None = None

    def give_up(self) -> bool:
        """Whether the block is neither in use nor being read; cancels a waiting task to read it ahead."""
        return self.users == 0 and (self.lines is not None or (self.ahead is not None and self.ahead.cancel()))


class Hold:
    """Keeps a block in memory for a thread that reads it, until the hold itself is deleted."""

    __slots__ = ("_cache", "_kept")

    def __init__(self, cache: BlockCache, kept: KeptBlock) -> None:
        self._cache, self._kept = cache, kept

    @property
    def lines(self) -> Any:
        """The entries of the block: an array, or a CSR array."""
        return self._kept.lines

    def __del__(self) -> None:
        self._cache.release(self._kept)


class BlockCache:
    """Blocks of one source in memory; the least recently used block is removed first.

    Parameters
    ----------
    cache_size : int
        The number of bytes that all blocks together may take, including blocks that are being read.

    Attributes
    ----------
    held : int
        The number of bytes that all blocks take.

    Notes
    -----
    A block is read by the thread that asks for it, or earlier by a thread of the cache. `take_fetched` returns what was
    read since its last call, so that the caller can count it.
    """

    def __init__(self, cache_size: int) -> None:
        self.cache_size, self.held = cache_size, 0
        self._blocks: OrderedDict[tuple[int, int], KeptBlock] = OrderedDict()
        self._changed = Condition(RLock())  # a hold may be freed while its thread has the lock
        self._chunks, self._bytes = 0, 0
        self._freed, self._at_first = 0, resident_memory()
        self._known: set[tuple[int, int]] = set()
        self._reader: ThreadPoolExecutor | None = None
        # For each thread, and for rows and columns, the reader that holds a block. There is only one at a time, so that
        # unused readers do not keep blocks from being removed.
        self.at_hand: WeakValueDictionary[tuple[int, int], Any] = WeakValueDictionary()

    def take(self, source: LineBlocks, block: int, upcoming: Sequence[int] = ()) -> Hold:
        """A hold on a block, which is read if it is not in memory.

        The blocks `upcoming` are read ahead, as far as there is room for them.
        """
        key = id(source), block
        with self._changed:
            kept = self._blocks.get(key)
            found = kept is not None
            if kept is None:
                kept = self._reserve(source, block)
                if kept is None:
                    raise MemoryError(
                        f"cache_size={self.cache_size:,} bytes is too small: all blocks in memory are in use by other "
                        f"threads, and the next one takes {source.nbytes(block):,} bytes. Give a larger cache_size"
                    )
            kept.users += 1
            self._blocks.move_to_end(key)
        hold = Hold(self, kept)
        if not found:
            self._fill(source, block, kept)
        if source.read_ahead:
            self._read_ahead(source, upcoming)
        if found:
            with self._changed:
                self._changed.wait_for(lambda: kept.lines is not None or self._blocks.get(key) is not kept)
            if kept.lines is None:  # reading ahead has failed: read it here, so that the error is raised here
                return self.take(source, block, upcoming)
        return hold

    def gather(self, source: LineBlocks, lines: Indices, width: int, dtype: np.dtype[Any], keep: bool = True) -> Any:
        """Some lines, copied into one array or CSR array in the given order; each block is read once.

        Without `keep`, these blocks are the first to be removed afterwards.
        """
        block = np.searchsorted(source.starts, lines, side="right") - 1
        blocks = np.unique(block)
        if source.sizes is None:
            out = np.empty((lines.size, width), dtype)
            for k, where, found in self._parts(source, lines, block, blocks, keep):
                out[where] = found.lines[lines[where] - source.starts[k]]
            return out
        order, parts = [], []
        for k, where, found in self._parts(source, lines, block, blocks, keep):
            order.append(where)
            parts.append(found.lines[lines[where] - source.starts[k]])
        if not parts:
            return sp.csr_array((0, width), dtype=dtype)
        return sp.vstack(parts, format="csr")[np.argsort(np.concatenate(order))]

    def _parts(
        self, source: LineBlocks, lines: Indices, block: Indices, blocks: Indices, keep: bool
    ) -> Iterator[tuple[int, Indices, Hold]]:
        """The blocks that hold these lines, each with the positions of its lines in `lines`."""
        for position, k in enumerate(blocks.tolist()):
            upcoming = blocks[position + 1 : position + 2].tolist()
            yield k, np.flatnonzero(block == k), self.take(source, k, upcoming)
            if not keep:
                with self._changed:
                    if (id(source), k) in self._blocks:
                        self._blocks.move_to_end((id(source), k), last=False)

    def is_new(self, source: LineBlocks, block: int) -> bool:
        """Whether this is the first call for a block."""
        with self._changed:
            new = (id(source), block) not in self._known
            self._known.add((id(source), block))
            return new

    def forget(self) -> None:
        """Remove all blocks that are not in use."""
        with self._changed:
            for key in [key for key, kept in self._blocks.items() if kept.give_up()]:
                self.held -= self._blocks.pop(key).nbytes

    def release(self, kept: KeptBlock) -> None:
        """Note that a thread no longer uses a block."""
        with self._changed:
            kept.users -= 1

    @contextmanager
    def leave_room(self, nbytes: int) -> Iterator[None]:
        """A context in which blocks may take `nbytes` bytes less."""
        with self._changed:
            self.cache_size -= nbytes
            self._make_room(0)
        try:
            yield
        finally:
            with self._changed:
                self.cache_size += nbytes

    def forget_source(self, source: LineBlocks) -> None:
        """Remove all blocks of a source that is no longer used."""
        with self._changed:
            for key in [key for key in self._blocks if key[0] == id(source)]:
                self.held -= self._blocks.pop(key).nbytes
            self._known = {key for key in self._known if key[0] != id(source)}

    def take_fetched(self) -> tuple[int, int]:
        """The numbers of chunks and of bytes that were fetched since the last call."""
        with self._changed:
            fetched = self._chunks, self._bytes
            self._chunks = self._bytes = 0
        return fetched

    def _reserve(self, source: LineBlocks, block: int) -> KeptBlock | None:
        """Make room for a block by removing others; None if blocks in use leave too little room."""
        kept = KeptBlock(source.nbytes(block))
        if not self._make_room(kept.nbytes):
            return None
        self._blocks[id(source), block] = kept
        self.held += kept.nbytes
        return kept

    def _make_room(self, nbytes: int) -> bool:
        """Remove blocks until `nbytes` bytes are free; return whether blocks in use leave that many."""
        free = self.cache_size - self.held
        removed = []
        for key, other in self._blocks.items():
            if free >= nbytes:
                break
            if other.give_up():
                removed.append(key)
                free += other.nbytes
        for key in removed:
            freed = self._blocks.pop(key).nbytes
            self.held, self._freed = self.held - freed, self._freed + freed
        if self._freed > FREED_SHARE * self.cache_size:
            self._freed = 0
            if resident_memory() > self._at_first + self.cache_size + MOST_KEPT_FREE:
                give_back_free_memory()
        return free >= nbytes

    def _fill(self, source: LineBlocks, block: int, kept: KeptBlock) -> None:
        """Read a block into its reserved place."""
        try:
            fetched = source.read(block)
        except BaseException:
            with self._changed:
                self.held -= self._blocks.pop((id(source), block)).nbytes
                self._changed.notify_all()
            raise
        with self._changed:
            kept.lines = fetched.lines
            self._chunks += fetched.chunks
            self._bytes += fetched.bytes
            self._changed.notify_all()

    def _read_ahead(self, source: LineBlocks, upcoming: Sequence[int]) -> None:
        """Let the thread of the cache read blocks, unless they are in memory or there is no room for them."""
        for block in upcoming:
            with self._changed:
                waiting = sum(kept.lines is None and kept.ahead is not None for kept in self._blocks.values())
                if (id(source), block) in self._blocks or waiting >= MOST_AHEAD:
                    continue
                kept = self._reserve(source, block)
                if kept is None:
                    return
                if self._reader is None:
                    self._reader = ThreadPoolExecutor(1, thread_name_prefix="maxmargin read-ahead")
                kept.ahead = self._reader.submit(self._fill, source, block, kept)
