"""The row cache alone, with a matrix that says who was computed: which rows it holds, what it counts, who gives way."""

import numpy as np
import pytest

from maxmargin.kernels.row_cache import RowCache, RowView


class Recorder:
    """A matrix of shape (n, n) that records which entries of which rows were computed."""

    def __init__(self, n, seed=0):
        self.matrix = np.random.default_rng(seed).normal(size=(n, n))
        self.computed = []

    def __call__(self, rows, columns, out, positions):
        out[positions] = self.matrix[rows, columns]
        self.computed += [(int(row), columns.start, columns.stop) for row in rows]


def cache_of(rows, n):
    return RowCache(n, 8 * n * rows, np.dtype(np.float64))


def test_only_what_is_missing_is_computed():
    cache, compute = cache_of(80, 100), Recorder(100)
    rows = np.array([5, 3])
    np.testing.assert_array_equal(cache.fetch(rows, 40, compute).copy()[:, :40], compute.matrix[rows, :40])
    np.testing.assert_array_equal(cache.fetch(np.array([3, 7]), 100, compute).copy(), compute.matrix[[3, 7]])
    assert sorted(compute.computed) == [(3, 0, 40), (3, 40, 100), (5, 0, 40), (7, 0, 100)]
    assert cache.saved == 40
    assert cache.missing(np.array([3, 5, 9]), 100).tolist() == [0, 60, 100]
    assert cache.missing(np.array([3, 5, 9]), 30).tolist() == [0, 0, 30]


def test_the_least_recently_used_row_gives_way_unless_one_was_released():
    cache, compute = cache_of(64, 100), Recorder(100)
    for row in range(64):
        cache.fetch(np.array([row]), 100, compute)
    cache.fetch(np.array([0]), 100, compute)
    cache.fetch(np.array([70]), 100, compute)
    assert np.flatnonzero(cache.missing(np.arange(64), 100)).tolist() == [1]
    cache.release(np.array([40, 99]))
    cache.fetch(np.array([71]), 100, compute)
    assert np.flatnonzero(cache.missing(np.arange(64), 100)).tolist() == [1, 40]


def test_peeking_changes_nothing():
    cache, compute = cache_of(64, 100), Recorder(100)
    for row in range(64):
        cache.fetch(np.array([row]), 100, compute)
    np.testing.assert_array_equal(cache.peek(np.array([0, 9])).copy(), compute.matrix[[0, 9]])
    assert cache.saved == 0
    cache.fetch(np.array([70]), 100, compute)
    assert cache.missing(np.array([0]), 100) == 100
    with pytest.raises(ValueError, match="only rows that are held as a whole can be peeked at"):
        cache.peek(np.array([0, 9]))


def test_compiled_code_finds_rows_by_lookup_and_counts_those_computed_for_it_once():
    cache, compute = cache_of(100, 100), Recorder(100)
    cache.fetch(np.array([4]), 30, compute)
    cache.prefetch(np.array([4]), compute)
    cache.count_hits(3)
    assert cache.saved == 3 * 100 - 70  # row 4 was used three times, and 70 of its entries were computed for that
    lookup = cache.lookup()
    slot = lookup.slots[4]
    np.testing.assert_array_equal(lookup.rows[slot], compute.matrix[4])
    assert lookup.widths[slot] == 100
    assert lookup.last_used[slot] == lookup.clock[0]
    assert (np.delete(lookup.slots, 4) == -1).all()


def test_a_part_begins_with_the_rows_held_as_a_whole():
    cache, compute = cache_of(100, 100), Recorder(100)
    cache.fetch(np.array([2, 50, 60]), 100, compute)
    cache.fetch(np.array([7]), 10, compute)
    indices = np.array([60, 7, 8, 2])
    part = cache_of(4, 4)
    part.take_from(cache, indices)
    assert part.missing(np.arange(4), 4).tolist() == [0, 4, 4, 0]
    np.testing.assert_array_equal(part.peek(np.array([3, 0])).copy(), compute.matrix[np.ix_([2, 60], indices)])
    inner = Recorder(4)
    inner.matrix = compute.matrix[np.ix_(indices, indices)]
    np.testing.assert_array_equal(part.fetch(np.arange(4), 4, inner).copy(), inner.matrix)
    assert [row for row, *_ in inner.computed] == [1, 2]
    assert part.saved == 8


@pytest.mark.parametrize("count", [0, 1, 7, 8, 19])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_rows(dtype, threads, count):
    """Eight rows are added at a time, and then what is left."""
    rng = np.random.default_rng(0)
    array, positions = rng.normal(size=(9, 10_000)).astype(dtype), rng.integers(0, 9, count)
    factors, f = rng.normal(size=count), rng.normal(size=9_000)
    wanted = f.copy()
    for position, factor in zip(positions, factors, strict=True):
        wanted += factor * array[position, 500:9_500]
    RowView(array, positions).columns(slice(500, None)).add_to(f, factors, threads)
    np.testing.assert_allclose(f, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 131])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_of_columns_in_any_order(dtype, threads, count, monkeypatch):
    """Four rows are copied at a time, and nothing is written beside them."""
    monkeypatch.setattr("maxmargin.core.threads.LEAST_WORK", 1)
    rng = np.random.default_rng(0)
    array, positions = rng.normal(size=(9, 50)).astype(dtype), rng.integers(0, 9, count)
    for columns in (rng.integers(0, 50, 30), np.array([4, 4, 0]), np.empty(0, dtype=np.int64)):
        memory = np.full((count + 1, columns.size + 1), np.nan, dtype=dtype)
        RowView(array, positions).copy_columns(columns, memory[:count, : columns.size], threads)
        np.testing.assert_array_equal(memory[:count, : columns.size], array[positions][:, columns])
        assert np.isnan(memory[count]).all()
        assert np.isnan(memory[:, columns.size]).all()
