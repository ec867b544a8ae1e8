import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.svm.linear.shrinking import Bounds


@st.composite
def walks(draw):
    """Samples, points on a way, and which of the samples are read at each point."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d, steps = draw(st.integers(1, 12)), draw(st.integers(1, 6)), draw(st.integers(1, 12))
    X = rng.normal(size=(n, d)) * rng.choice([1e-3, 1.0, 1e3], size=(n, 1)) * (rng.random((n, d)) < 0.8)
    points = np.cumsum(rng.normal(size=(steps, d)) * rng.choice([1e-9, 1e-2, 1.0, 100.0], size=(steps, 1)), axis=0)
    reads = [np.arange(n), *(np.flatnonzero(rng.random(n) < rng.random()) for _ in range(steps - 1))]
    return X, points, reads


def bounds_after(X, points, reads, capacity):
    n = X.shape[0]
    bounds = Bounds(n, capacity)
    for w, rows in zip(points, reads, strict=True):
        bounds.read(rows, w, X[rows] @ w, (X[rows] ** 2).sum(axis=1), known=np.arange(n))
        assert len(bounds.points) <= capacity
    return bounds


@settings(max_examples=300, deadline=None)
@given(walks(), st.sampled_from([1, 2, 3, 100]), st.integers(0, 2**32))
def test_no_response_is_below_its_bound(walk, capacity, seed):
    X, points, _ = walk
    bounds = bounds_after(*walk, capacity)
    rng, every = np.random.default_rng(seed), np.arange(X.shape[0])
    for w in (points[-1], points[0], points[-1] + rng.normal(size=X.shape[1]), np.zeros(X.shape[1])):
        assert (bounds.at(w, every) <= X @ w).all()


@settings(max_examples=200, deadline=None)
@given(walks())
def test_both_bounds_are_those_of_the_paper(walk):
    X, points, reads = walk
    n = X.shape[0]
    last_read = np.array([max(k for k, rows in enumerate(reads) if i in rows) for i in range(n)])
    response = np.array([X[i] @ points[k] for i, k in enumerate(last_read)])
    norm = np.linalg.norm(X, axis=1)
    lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
    # Steps at whose end nothing was read are not ends of steps: the way goes straight on.
    if all(rows.size for rows in reads):
        one = response - norm * np.array([lengths[k:].sum() for k in last_read])
        np.testing.assert_allclose(bounds_after(*walk, 1).at(points[-1], np.arange(n)), one, rtol=1e-9, atol=1e-9)
    tight = response - norm * np.linalg.norm(points[-1] - points[last_read], axis=1)
    np.testing.assert_allclose(bounds_after(*walk, 100).at(points[-1], np.arange(n)), tight, rtol=1e-9, atol=1e-9)


@settings(max_examples=200, deadline=None)
@given(walks(), st.integers(1, 5))
def test_more_points_are_tighter(walk, capacity):
    X, points, _ = walk
    every = np.arange(X.shape[0])
    few, many = (bounds_after(*walk, k).at(points[-1], every) for k in (capacity, 100))
    assert (many >= few - 1e-9 * (1 + np.abs(few))).all()


def test_nothing_is_known_of_what_was_not_read():
    bounds = Bounds(3, 1)
    assert (bounds.at(np.zeros(2), np.arange(3)) == -np.inf).all()
    first = np.array([1])
    bounds.read(first, np.ones(2), np.array([5.0]), np.array([4.0]), known=first)
    assert bounds.at(np.ones(2), np.arange(3)) == pytest.approx([-np.inf, 5.0, -np.inf])


def test_points_without_examples_are_given_up():
    bounds, every = Bounds(4, 10), np.arange(4)
    for k in range(5):
        bounds.read(every, np.full(2, float(k)), np.zeros(4), np.ones(4), known=every)
    assert len(bounds.points) == 1
    bounds.read(every[:2], np.ones(2), np.zeros(2), np.ones(2), known=every)
    bounds.read(every[:0], np.zeros(2), np.zeros(0), np.zeros(0), known=every)
    assert len(bounds.points) == 2
