"""Sizes of growing subsets."""

import numpy as np
import pytest

from maxmargin.svm.kernel.subsets import first_size, next_size, subset_size


def test_a_subset_counts_samples_with_a_weight():
    weights = np.tile([0.0, 1.0, 2.0], 1000)
    assert subset_size(weights, 500) == 750
    assert np.count_nonzero(weights[:750]) == 500


def test_a_subset_of_more_than_half_is_all():
    assert subset_size(np.ones(100), 51) == 100
    assert subset_size(np.ones(100), 50) == 50


def test_sizes_grow_by_equal_factors_to_all():
    weights, sizes = np.ones(100_000), [1000]
    while sizes[-1] < weights.size:
        sizes.append(next_size(weights, sizes[-1], 3.0))
    factors = np.array(sizes[1:]) / sizes[:-1]
    assert sizes[-1] == weights.size
    assert factors == pytest.approx(factors[0], rel=0.01)
    assert factors.max() <= 3.0


def test_a_first_subset_that_lacks_a_class_is_all():
    y = np.where(np.arange(10_000) < 9000, 1.0, -1.0)
    assert first_size(y, np.ones(10_000), 500) == 10_000
    mixed = np.random.default_rng(0).permutation(y)
    assert first_size(mixed, np.ones(10_000), 500) == 500
