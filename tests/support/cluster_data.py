"""Data for the tests on a cluster, and functions that the workers import from this module."""

import os
import signal

import numpy as np

N, D = 35_000, 5  # three parts, and three units of rows
CHUNK = 12_001  # rows of a partition; not a multiple of the rows of a part


def cloud(classes=2, n=N, d=D, seed=0):
    """Overlapping clouds and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return rng.normal(size=(n, d)) + rng.normal(size=(classes, d))[y], y


def partition(k, n=N, chunk=CHUNK):
    """The rows and labels of partition k of the cloud, computed by the process that needs them."""
    X, y = cloud(n=n)
    return X[k * chunk : (k + 1) * chunk], y[k * chunk : (k + 1) * chunk]


def rows_of(k):
    return partition(k)[0]


def labels_of(k):
    return partition(k)[1]


def cannot(k):
    raise RuntimeError(f"the disk of partition {k} is broken")


def cosine(A, B):
    """A kernel: the cosine of the angle between rows."""
    return (A @ B.T) / np.outer(np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1))


def die():
    """End this process as the operating system does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly:
    """An object on a unit of rows that ends its worker, except on the first unit."""

    def __init__(self, rows):
        self.rows = rows

    def work(self):
        if self.rows.first:
            die()
        return 0


def threads_inside():
    """The number of threads that a fit would use here."""
    from maxmargin.core.threads import thread_count

    return thread_count(None)
