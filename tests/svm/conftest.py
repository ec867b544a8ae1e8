"""Data for the tests of problems."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def blobs():
    """Two clouds: (n, d, distance of the means, seed) -> X, y."""

    def make(n, d, distance, seed=0):
        rng = np.random.default_rng(seed)
        y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)  # unequal classes
        direction = np.ones(d) / np.sqrt(d)
        return rng.normal(size=(n, d)) + distance / 2 * y[:, None] * direction + 0.5, y

    return make
