"""The block of K of a working set, against the same entries of the whole matrix."""

import numpy as np
import pytest

from maxmargin.kernels.square_block import SquareBlock


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_entries_follow_the_samples(threads, seed, monkeypatch):
    monkeypatch.setattr("maxmargin.core.threads.LEAST_WORK", 1)
    rng = np.random.default_rng(seed)
    K = rng.normal(size=(500, 500))
    K += K.T

    def compute(samples, out, positions):
        out[positions] = K[np.ix_(samples[positions], samples)]

    square = SquareBlock(np.dtype(np.float64), threads)
    for _ in range(20):
        outside = np.setdiff1d(np.arange(500), square.samples)
        new = rng.choice(outside, rng.integers(0, 120), replace=False)
        fewest = max(0, square.size + new.size - 400)
        count = rng.integers(fewest, min(new.size, square.size) + 1) if fewest < min(new.size, square.size) else fewest
        replaced = np.sort(rng.choice(square.size, count, replace=False))
        expected = set(np.delete(square.samples, replaced)) | set(new)
        square.enter(new, replaced, 400, compute)
        assert set(square.samples) == expected
        np.testing.assert_array_equal(square.entries, K[np.ix_(square.samples, square.samples)])
        which = rng.random(square.size) < rng.random()
        expected = set(square.samples[which])
        square.keep(which)
        assert set(square.samples) == expected
        np.testing.assert_array_equal(square.entries, K[np.ix_(square.samples, square.samples)])
