"""The cache of blocks: what it holds, what it reads, and what it removes."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from block_sources import InBlocks, Lines
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.core.block_cache import BlockCache

ROW_BYTES = 8 * 3


def rows(count=40, per_block=5, **options):
    return Lines(np.arange(3.0 * count).reshape(count, 3), per_block, **options)


@given(asked=st.lists(st.integers(0, 7), max_size=40), room=st.integers(2, 8))
@settings(deadline=None)
def test_never_holds_more_than_its_size_and_removes_the_least_recently_used(asked, room):
    source, cache, kept = rows(), BlockCache(room * 5 * ROW_BYTES), []
    for block in asked:
        np.testing.assert_array_equal(cache.take(source, block).lines, source._part(block))
        assert cache.held <= cache.cache_size
        read = source.reads.copy()
        kept = [*(other for other in kept if other != block), block][-room:]
        for other in kept:
            cache.take(source, other)
        assert source.reads == read


def test_a_block_in_use_is_not_removed():
    source, cache = rows(), BlockCache(2 * 5 * ROW_BYTES)
    first = cache.take(source, 0)
    for block in range(1, 8):
        cache.take(source, block)
    cache.take(source, 0)
    assert source.reads.count(0) == 1
    second = cache.take(source, 1)
    with pytest.raises(MemoryError, match=r"cache_size=240 bytes is too small.*120 bytes"):
        cache.take(source, 2)
    del first, second
    assert len(cache.take(source, 2).lines) == 5


def test_upcoming_blocks_are_read_ahead_once_and_counted():
    source, cache = rows(), BlockCache(8 * 5 * ROW_BYTES)
    for block in range(8):
        hold = cache.take(source, block, range(block + 1, min(block + 3, 8)))
        np.testing.assert_array_equal(hold.lines, source._part(block))
    assert sorted(source.reads) == list(range(8))
    assert cache.take_fetched() == (8, 40 * ROW_BYTES)
    assert cache.take_fetched() == (0, 0)


def test_nothing_is_read_ahead_of_a_source_that_does_not_allow_it():
    source, cache = rows(), BlockCache(8 * 5 * ROW_BYTES)
    source.read_ahead = False
    cache.take(source, 0, [1, 2])
    assert source.reads == [0]


def test_a_block_that_cannot_be_read_ahead_raises_where_it_is_asked_for():
    source, cache = rows(fails=[1]), BlockCache(8 * 5 * ROW_BYTES)
    cache.take(source, 0, [1])
    for _ in range(3):
        with pytest.raises(OSError, match="block 1 cannot be read"):
            cache.take(source, 1)
    assert cache.held == 5 * ROW_BYTES


def test_threads_share_what_one_of_them_reads():
    source, cache, started = rows(), BlockCache(8 * 5 * ROW_BYTES), threading.Barrier(4)

    def read():
        started.wait()
        for block in range(8):
            np.testing.assert_array_equal(cache.take(source, block, [(block + 1) % 8]).lines, source._part(block))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(source.reads) == list(range(8))


@given(lines=st.lists(st.integers(0, 39), max_size=60), sparse=st.booleans())
@settings(deadline=None)
def test_lines_are_gathered_in_any_order_and_each_block_is_read_once(lines, sparse):
    X = sp.random_array((40, 6), density=0.4, format="csr", rng=np.random.default_rng(0))
    source = InBlocks(X if sparse else X.toarray()).rows
    gathered = BlockCache(10**6).gather(source, np.array(lines, dtype=np.int64), 6, X.dtype)
    np.testing.assert_array_equal(gathered.toarray() if sparse else gathered, X.toarray()[lines])
    assert len(source.reads) == len(set(source.reads))
