"""Samples that are kept by the number of their row."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.kernels.row_store import RowStore, SentSamples

X = np.arange(40.0).reshape(20, 2) + 1
KINDS = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def dense(samples):
    return samples.toarray() if sp.issparse(samples) else samples


@KINDS
def test_samples_come_in_the_order_asked_for(kind):
    store = RowStore(20)
    for rows in ([7, 2, 11], [5], [2, 19]):  # row 2 is there already when it comes again
        store.add(np.array(rows), kind(X[rows]))
    wanted = np.array([19, 2, 5, 7, 2, 11])
    np.testing.assert_array_equal(dense(store.take(wanted)), X[wanted])
    np.testing.assert_array_equal(store.rows, [2, 5, 7, 11, 19])
    np.testing.assert_array_equal(store.missing(np.array([4, 5, 3, 4])), [3, 4])
    store.keep(np.array([2, 3, 19]))
    np.testing.assert_array_equal(store.rows, [2, 19])
    np.testing.assert_array_equal(dense(store.take(np.array([19, 2]))), X[[19, 2]])
    store.keep(np.array([], dtype=np.int64))
    assert store.rows.size == 0


@KINDS
def test_each_sample_is_fetched_and_sent_once(kind):
    fetched = []

    def fetch(rows):
        fetched.append(rows.tolist())
        return kind(X[rows])

    sent, unit = SentSamples(20, fetch, most=8), RowStore(20)

    def deliver(*rows, again=()):
        sent.gather(np.array(rows))
        message = sent.message(np.array(again, dtype=np.int64))
        if message.kept is not None:
            unit.keep(message.kept)
        if message.X is not None:
            unit.add(message.rows, message.X)
        sent.delivered()
        np.testing.assert_array_equal(dense(unit.take(np.array(rows))), X[list(rows)])
        return message.rows.tolist()

    assert deliver(3, 1) == [1, 3]
    assert deliver(3, 4) == [4]
    assert deliver(1, 3) == []
    assert deliver(3, again=[1]) == [1]  # a unit has lost it
    assert deliver(10, 11, 12, 13, 14, 15) == [10, 11, 12, 13, 14, 15]  # of the others, the last used ones stay
    assert unit.rows.tolist() == [1, 3, 10, 11, 12, 13, 14, 15]
    assert deliver(4) == [4]
    assert fetched == [[1, 3], [4], [10, 11, 12, 13, 14, 15], [4]]
    assert unit.rows.size <= 8
    np.testing.assert_array_equal(dense(sent.take(np.array([9, 3]))), X[[9, 3]])  # what is not kept is fetched for once
