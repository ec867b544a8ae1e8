"""Vectors of which most entries may be zero are sums and multiples as arrays are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from maxmargin.engine.parts import TreeSum
from maxmargin.engine.sparse_vector import SPARSE_SHARE, SparseVector

entries = st.one_of(st.just(0.0), st.just(0.0), st.floats(-1e6, 1e6))
vectors = st.integers(0, 12).flatmap(lambda d: st.lists(arrays(float, d, elements=entries), min_size=1, max_size=9))


@given(vectors)
def test_it_is_the_array_that_it_was_made_of(dense: list[np.ndarray]) -> None:
    for one in dense:
        vector = SparseVector.of(one.copy())
        np.testing.assert_array_equal(vector.dense(), one)
        assert vector.size == one.size
        assert vector.square() == pytest.approx(one @ one)
        assert vector.dot(np.arange(one.size) + 1.0) == pytest.approx(one @ (np.arange(one.size) + 1.0), abs=1e-6)
        assert vector.nbytes <= one.nbytes


@given(vectors, st.floats(-10, 10))
def test_sums_and_multiples(dense: list[np.ndarray], factor: float) -> None:
    """To the bit, whichever of the vectors are stored as arrays."""
    first, total = dense[0], np.zeros_like(dense[0])
    for other in dense:
        both = SparseVector.of(first) + SparseVector.of(other)
        np.testing.assert_array_equal(both.dense(), first + other)
        if both.where is not None:
            assert (np.diff(both.where) > 0).all()
            assert both.where.size <= SPARSE_SHARE * first.size
        SparseVector.of(other).add_to(total, factor)
    np.testing.assert_array_equal(SparseVector.of(first).scaled(factor).dense(), factor * first)
    expected = np.zeros_like(first)
    for other in dense:
        expected += factor * other
    np.testing.assert_array_equal(total, expected)


@given(vectors, st.randoms())
def test_the_sum_over_parts_does_not_depend_on_their_order(dense: list[np.ndarray], random: object) -> None:
    order = list(range(len(dense)))
    random.shuffle(order)
    sums = []
    for parts in (range(len(dense)), order):
        tree = TreeSum()
        for part in parts:
            tree.add(part, (SparseVector.of(dense[part].copy()),))
        sums.append(tree.total()[0].dense())
    np.testing.assert_array_equal(*sums)


def test_few_entries_take_few_bytes() -> None:
    dense = np.zeros(1_000_000)
    dense[[3, 70_000, 999_999]] = 1.0
    one = SparseVector.of(dense)
    assert one.nbytes == (one + one).nbytes == 3 * (8 + 4)
    assert SparseVector.of(np.ones(10)).where is None


def test_vectors_of_different_sizes() -> None:
    with pytest.raises(ValueError, match="vectors of 3 and 4 entries cannot be added"):
        SparseVector.of(np.ones(3)) + SparseVector.of(np.ones(4))
