"""Sums of kernels without those that are negligible, against sums of all."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.kernels.functions import Linear, Poly, Rbf
from maxmargin.kernels.nearby import TILE, NearbyTiles, coordinates
from maxmargin.problems import KernelMatrix


def scattered(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(0, 100, size=(n, 2)), rng.random((n, 3)) < 0.2]).astype(np.float32)


def test_tiles_hold_each_sample_once_inside_of_its_box():
    points = scattered().astype(np.float64)
    nearby = NearbyTiles.of(points)
    assert sorted(np.concatenate(nearby.members)) == list(range(3000))
    for members, low, high in zip(nearby.members, nearby.low, nearby.high, strict=True):
        assert members.size <= TILE
        assert (points[members] >= low).all()
        assert (points[members] <= high).all()


def test_no_sample_within_reach_is_left_out():
    points = scattered().astype(np.float64)
    nearby, sq_reach = NearbyTiles.of(points), 50.0
    for tile, members in enumerate(nearby.members):
        sq_distances = np.square(points[:, None] - points[members]).sum(axis=-1).min(axis=1)
        assert set(np.flatnonzero(sq_distances <= sq_reach)) <= set(nearby.near(points, tile, sq_reach))


@pytest.mark.parametrize("kernel", [Rbf(gamma=1.0), Rbf(gamma=1e-3), Linear(), Poly(gamma=0.1, coef0=1.0, degree=2)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "columns", [slice(0, 3000), slice(700, 2100), np.arange(5, 2500, 3)], ids=["all", "some", "few"]
)
def test_sums_are_those_of_all_kernels(kernel, form, columns):
    X, rng = scattered(), np.random.default_rng(1)
    K, indices = KernelMatrix(form(X), kernel, threads=2), rng.choice(3000, 900, replace=False)
    factors = rng.normal(size=900)
    block = K.block(indices, columns).astype(np.float64)
    f = rng.normal(size=block.shape[1])
    expected, before = f + factors @ block, K.ledger.entries_read
    K.add_products(indices, factors, columns, f)
    np.testing.assert_allclose(f, expected, rtol=1e-6, atol=1e-6 * np.abs(block).max())
    evaluations = K.ledger.entries_read - before
    assert evaluations < 0.8 * block.size if kernel == Rbf(gamma=1.0) else evaluations == block.size


def test_precise_products_leave_out_nothing_that_float64_shows():
    X, rng = scattered(), np.random.default_rng(1)
    K, beta = KernelMatrix(X, Rbf(gamma=1.0)), rng.normal(size=3000)
    exact = KernelMatrix(X.astype(np.float64), Rbf(gamma=1.0)).block(np.arange(3000), None, np.empty((3000, 3000)))
    np.testing.assert_allclose(K.dot_precisely(beta, np.arange(3000)), exact @ beta, atol=1e-12)


def test_no_coordinates_where_most_samples_are_within_reach():
    assert coordinates(scattered(), None, np.inf).shape == (3000, 0)
    assert coordinates(scattered(), None, 1e5).shape == (3000, 0)
    assert coordinates(scattered(), None, 10.0).shape == (3000, 5)
    some = np.arange(2999, 0, -1)
    np.testing.assert_array_equal(coordinates(scattered(), some, 10.0), coordinates(scattered()[some], None, 10.0))
