"""Clouds of points, one around the mean of each class."""

import numpy as np


def clouds(n=90, d=5, classes=2, distance=8.0, seed=0):
    rng = np.random.default_rng(seed)
    label = np.arange(n) % classes
    means = rng.normal(size=(classes, d))
    means *= distance / 2 / np.linalg.norm(means, axis=1)[:, None]
    return rng.normal(size=(n, d)) + means[label], label
