"""A Matrix whose data lies elsewhere gives what one in memory gives, and reports what cannot be read."""

import numpy as np
import pytest
import scipy.sparse as sp
from block_sources import InBlocks

from maxmargin.core.matrix import as_matrix, rows_at_hand
from maxmargin.core.memory import in_file

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(53, 11))
KINDS = {
    "float64": DENSE,
    "float32": DENSE.astype(np.float32),
    "sparse": sp.random_array((53, 11), density=0.3, format="csr", rng=RNG),
}
W, P = RNG.normal(size=11), RNG.normal(size=53)


@pytest.fixture(params=KINDS, name="X")
def matrix(request):
    return KINDS[request.param]


@pytest.mark.parametrize("rows", [1, 7, 100])
@pytest.mark.parametrize("threads", [1, 4])
def test_products_are_the_same_bits(X, rows, threads):
    here, there = as_matrix(X, threads), as_matrix(InBlocks(X, rows), threads)
    some = np.array([50, 3, 3, 20])
    np.testing.assert_array_equal(there.dot(W), here.dot(W))
    np.testing.assert_array_equal(there.dot(W, some), here.dot(W, some))
    np.testing.assert_array_equal(there.dot_transposed(P), here.dot_transposed(P))
    np.testing.assert_array_equal(there.dot_transposed(P[:4], some), here.dot_transposed(P[:4], some))
    np.testing.assert_array_equal(there.row_sq_norms(), here.row_sq_norms())
    np.testing.assert_array_equal(there.sq_distances(W), here.sq_distances(W))
    np.testing.assert_array_equal(there.dense(some), here.dense(some))
    assert there.ledger.entries_read == here.ledger.entries_read
    assert there.ledger.dense_count == here.ledger.dense_count


def test_single_lines_and_entries(X):
    here, there = as_matrix(X), as_matrix(InBlocks(X))
    for i in (0, 52, 7, 6):
        np.testing.assert_array_equal(there.row(i), here.row(i))
        assert there.dot_row(i, W) == here.dot_row(i, W)
    for j in (10, 0, 5):
        np.testing.assert_array_equal(there.column(j), here.column(j))
        assert there.entry(3, j) == here.entry(3, j)
    np.testing.assert_array_equal(there.row_sizes(), here.row_sizes())


def test_rows_in_memory(X):
    dense = X.toarray() if sp.issparse(X) else X
    there = as_matrix(InBlocks(X))
    for which in (slice(None), slice(5, 30), np.array([9, 2, 40])):
        found = there[which]
        assert found.dtype == X.dtype
        np.testing.assert_array_equal(found.toarray() if sp.issparse(X) else found, dense[which])
    starts = [start for start, _ in there.blocks()]
    assert starts == list(range(0, 53, 7))


def test_the_ledger_counts_what_is_fetched():
    X = as_matrix(InBlocks(DENSE, rows=7, columns=5))
    X.dot(W)
    assert (X.ledger.chunks_fetched, X.ledger.bytes_fetched) == (8, DENSE.nbytes)
    X.dot(W)  # the cache holds all of it
    assert X.ledger.chunks_fetched == 8
    X.column(0)
    assert (X.ledger.chunks_fetched, X.ledger.bytes_fetched) == (9, DENSE.nbytes + 5 * 53 * 8)
    assert X.ledger.summary()["chunks fetched"] == 9


def test_a_cache_that_is_smaller_than_the_data_reads_blocks_again():
    X = as_matrix(InBlocks(DENSE, rows=2, columns=1))
    for passes in (1, 2, 3):
        X.dot(W)
        assert X.ledger.chunks_fetched == 27 * passes


def test_a_block_that_cannot_be_read_is_an_error_wherever_it_is_met(X):
    for read in (
        lambda M: M.dot(W),
        lambda M: M.dot_transposed(P),
        lambda M: M.row_sq_norms(),
        lambda M: M.sq_distances(W),
        lambda M: M.row(15),
        lambda M: M.entry(15, 3),
        lambda M: M.dense(np.array([15])),
        lambda M: M[14:16],
        lambda M: list(M.blocks()),
        lambda M: M.first_not_finite(),
        lambda M: M.dot_row(15, W),
        lambda M: M.add_row(15, 1.0, W.copy()),
    ):
        for threads in (1, 4):
            with pytest.raises(OSError, match="block 2 cannot be read"):
                read(as_matrix(InBlocks(X, fails=[2]), threads))


def test_an_entry_that_is_not_finite_is_found_when_it_is_first_read():
    X = DENSE.copy()
    X[33, 4] = np.nan
    for read in (lambda M: M.dot(W), lambda M: M.column(4), lambda M: M.row(30)):
        with pytest.raises(ValueError, match="X contains NaN at row 33, column 4"):
            read(as_matrix(InBlocks(X)))
    as_matrix(InBlocks(X)).row(0)


def test_rows_at_hand_lie_in_a_file_if_they_are_many():
    for most, expected in ((1e9, False), (10, True)):
        rows = rows_at_hand(as_matrix(InBlocks(DENSE)), most)
        assert in_file(rows) is expected
        np.testing.assert_array_equal(rows, DENSE)
