"""Convex sets: the nearest point of a set is the nearest, and what is said of its extent is true and attained."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from maxmargin.game.sets import Ball, Box, Simplex, Spectrahedron, TraceOne, onto_simplex

D = 4
SIZES = {"wide spectrahedron": 20}  # of which not all eigenvalues are computed


def points_of(name, rng, count=20):
    """A set, and points of it: some inside, some extreme."""
    if name == "ball":
        x = rng.normal(size=(count, D))
        x *= 0.7 * rng.choice([0.3, 1.0], size=(count, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
        return Ball(D, radius=0.7), x
    if name == "box":
        corners = np.sort(rng.normal(size=(2, D)), axis=0)
        share = rng.choice([0.0, 1.0, 0.4], size=(count, D))
        return Box(*corners), corners[0] + share * (corners[1] - corners[0])
    if name == "simplex":
        return Simplex(D), np.vstack([np.eye(D), rng.dirichlet(np.ones(D), size=count)])
    factors = rng.normal(size=(count, SIZES.get(name, D), 2))
    matrices = factors @ factors.transpose(0, 2, 1)
    matrices /= np.trace(matrices, axis1=1, axis2=2)[:, None, None]
    if name == "trace 1":
        return TraceOne(D), matrices
    if name == "spectrahedron of trace 1":
        return Spectrahedron(D, exactly=True), matrices
    matrices *= rng.choice([0.0, 0.5, 1.0], size=(count, 1, 1))
    return Spectrahedron(matrices.shape[1]), matrices


def vector_for(name, rng, size):
    """A point anywhere, or a gradient."""
    if name in ("ball", "box", "simplex"):
        return size * rng.normal(size=D)
    y = size * rng.normal(size=(SIZES.get(name, D),) * 2)
    return (y + y.T) / 2


MATRICES = ["spectrahedron", "spectrahedron of trace 1", "trace 1", "wide spectrahedron"]
each_set = pytest.mark.parametrize("name", ["ball", "box", "simplex", *MATRICES])


@each_set
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([0.0, 0.1, 1.0, 100.0]))
def test_a_projection_is_the_nearest_point(name, seed, size):
    """By the variational inequality: <y - Py, z - Py> <= 0 for all z of the set, and Py is one of them."""
    rng = np.random.default_rng(seed)
    K, Z = points_of(name, rng)
    y = vector_for(name, rng, size)
    near = K.project(y)
    rounding = 1e-9 * (1 + size) ** 2
    for z in Z:
        assert np.sum((y - near) * (z - near)) <= rounding
        np.testing.assert_allclose(K.project(z), z, atol=1e-9)  # a point of the set stays where it is
    np.testing.assert_allclose(K.project(near), near, atol=1e-9)


@each_set
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_support_is_the_largest_product_and_attained(name, seed):
    rng = np.random.default_rng(seed)
    K, Z = points_of(name, rng)
    g = vector_for(name, rng, 1.0)
    h = K.support(g)
    assert all(np.sum(g * z) <= h + 1e-9 for z in Z)
    # The projection of a point far away in the direction of g is where it is attained, or nearly.
    assert np.sum(g * K.project(1e6 * g)) == pytest.approx(h, abs=1e-4)


@each_set
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_all_points_are_within_the_radius_of_the_centre(name, seed):
    K, Z = points_of(name, np.random.default_rng(seed))
    np.testing.assert_allclose(K.project(K.centre), K.centre, atol=1e-12)
    farthest = max(np.linalg.norm(z - K.centre) for z in Z)
    assert farthest <= K.radius + 1e-9


@settings(max_examples=100, deadline=None)
@given(arrays(float, st.integers(1, 6), elements=st.floats(-1e300, 1e300)))
def test_the_simplex_takes_numbers_of_any_size(y):
    x = onto_simplex(y)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ball(0), "d must be positive; got 0"),
        (lambda: Ball(3, radius=-1.0), "radius must be positive; got -1.0"),
        (lambda: Simplex(0), "d must be positive; got 0"),
        (lambda: Spectrahedron(-2), "n must be positive; got -2"),
        (lambda: Box([0.0, 2.0], [1.0, 1.0]), "a box needs finite lower <= upper, of one shape"),
        (lambda: Box([0.0], [1.0, 1.0]), "a box needs finite lower <= upper, of one shape"),
        (lambda: Box([0.0], [np.inf]), "a box needs finite lower <= upper, of one shape"),
    ],
)
def test_sets_that_are_none(make, message):
    with pytest.raises(ValueError, match=message):
        make()
