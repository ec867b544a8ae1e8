"""Estimates of kernels from entries of X: their means and mean squares, by going through all that can be drawn."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.core import l1_sample, l1_samples
from maxmargin.kernels.feature_samples import ENTRIES, FeatureSamples
from maxmargin.kernels.functions import Function, Linear, Poly, Rbf, Sigmoid
from maxmargin.problems import KernelMatrix

MOST = 10  # coordinates of a feature of the Gaussian kernel that are gone through
POWERS = [
    Linear(),
    Poly(gamma=1.0, degree=1),
    Poly(gamma=0.5, degree=2),
    Poly(gamma=0.7, degree=3),
    Poly(gamma=0.5, coef0=1.0, degree=2),
    Poly(gamma=1.0, coef0=0.3, degree=3),
    Poly(gamma=1.0, coef0=2.0, degree=0),
]
KERNELS = [*POWERS, Rbf(gamma=0.2), Rbf(gamma=0.0)]


def rows(seed, n=5, d=2):
    X = np.random.default_rng(seed).uniform(-1, 1, size=(n, d))
    X[0, 0] = 0.0
    return X


def samples_of(X, kernel, used=None):
    K = KernelMatrix(X, kernel)
    return K, FeatureSamples.of(K, np.ones(X.shape[0], dtype=bool) if used is None else used)


def exact(K):
    """In float64."""
    n = K.shape[0]
    return K.block(np.arange(n), None, np.empty((n, n)))


def features(samples, i):
    """Every feature that can be drawn for row i, in any order of its coordinates, with its chance."""
    squares = samples.squares(samples.rows(np.array([i])))[0]
    chances = squares / squares.sum() if squares.any() else squares
    drawn = np.flatnonzero(chances)
    lengths = {int(samples.columns[i]): 1.0}
    if hasattr(samples, "exponent"):
        rate = samples.columns[i]
        lengths = {k: math.exp(-rate) * rate**k / math.factorial(k) for k in range(MOST + 1)}
    for k, chance_of_k in lengths.items():
        for J in itertools.combinations_with_replacement(drawn, k):
            orders = math.factorial(k) / math.prod(math.factorial(J.count(j)) for j in set(J))
            yield np.array([J], dtype=np.int64).reshape(1, k), chance_of_k * orders * math.prod(chances[list(J)])


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_estimates_are_unbiased_and_their_squares_small(kernel, seed):
    K, samples = samples_of(rows(seed), kernel)
    wanted = exact(K)
    for i in range(K.shape[0]):
        mean, square, total = np.zeros(5), np.zeros(5), 0.0
        for J, chance in features(samples, i):
            estimate = samples.estimate(np.array([i]), J)[:, 0]
            mean, square, total = mean + chance * estimate, square + chance * estimate**2, total + chance
        assert total == pytest.approx(1, abs=1e-6)
        np.testing.assert_allclose(mean, wanted[i], atol=1e-6)
        assert (square <= wanted[i, i] * np.diag(wanted) * (1 + 1e-6) + 1e-6).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_draws_have_their_chances(kernel):
    """Each coordinate by an interval of u as long as its chance, and a Poisson number of them where that is due."""
    _, samples = samples_of(rows(1, d=4), kernel)
    asked = []

    def poisson(rates):
        asked.append(rates)
        return np.array([2, 0])

    for u in np.linspace(0, 1, 40, endpoint=False):
        rng = SimpleNamespace(random=lambda shape, u=u: np.full(shape, u), poisson=poisson)
        numbers = np.array([1, 2])
        J = samples.draw(numbers, rng)
        for i, drawn in zip(numbers, J, strict=True):
            squares = samples.squares(samples.rows(np.array([i])))[0]
            own = drawn if isinstance(kernel, (Linear, Poly)) else drawn[: 2 * (i == 1)]
            assert all(j == l1_sample(squares, u) for j in own)
    if isinstance(kernel, Rbf):
        X = rows(1, d=4)
        np.testing.assert_allclose(asked[0], 2 * kernel.gamma * ((X - X.mean(axis=0)) ** 2).sum(axis=1)[[1, 2]])
        assert (J[1] == 4).all()  # none, which a coordinate d stands for


@given(st.integers(0, 2**32))
def test_several_l1_samples(seed):
    rng = np.random.default_rng(seed)
    P = rng.choice([0.0, 0.3, 1.0, 1e-20], size=(3, 4))
    P[:, rng.integers(4)] = 1.0
    U = np.append(rng.random((3, 5)), np.full((3, 1), np.nextafter(1.0, 0.0)), axis=1)
    found = l1_samples(P, U)
    for p, u, drawn in zip(P, U, found, strict=True):
        assert drawn.tolist() == [l1_sample(p, one) for one in u]
        assert (p[drawn] > 0).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_sparse_rows_give_the_same_means(kernel):
    """A sparse matrix is not centred: then features have other chances, but the same means."""
    X = rows(3, n=6, d=30)
    X[:, 2:] = 0
    X[:, 5] = 1e-3
    K, samples = samples_of(sp.csr_array(X), kernel)
    assert sp.issparse(samples.X)
    mean = sum(chance * samples.estimate(np.array([1]), J)[:, 0] for J, chance in features(samples, 1))
    np.testing.assert_allclose(mean, exact(K)[1], atol=1e-5)


def test_what_is_read_is_booked_apart_from_evaluations():
    K, samples = samples_of(rows(0, n=20, d=7), Poly(gamma=1.0, degree=3))
    J = samples.draw(np.array([3, 4]), np.random.default_rng(0))
    samples.estimate(np.array([3, 4]), J)
    assert K.ledger.summary() == {"learning": 0, "learning, dense count": 0, ENTRIES: 2 * 7 + 2 * 3 * 20}
    K, samples = samples_of(rows(0, n=20, d=7), Rbf(gamma=1.0))
    assert K.ledger.summary()["norms of X"] == 140


def test_rows_that_do_not_count_have_no_say():
    X, used = rows(0, n=8), np.arange(8) < 5
    garbage = np.where(used[:, None], X, 100.0)
    found = []
    for data in (X, garbage):
        _, samples = samples_of(data, Rbf(gamma=0.5), used)
        J = samples.draw(np.array([1, 2]), np.random.default_rng(0))
        found.append(samples.estimate(np.array([1, 2]), J)[:5])
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_estimates_are_finite_whatever_the_rows():
    _, samples = samples_of(np.array([[1e-200, 1.0], [1.0, 1.0], [1.0, 0.0]]), Poly(gamma=1.0, degree=3))
    estimate = samples.estimate(np.array([0]), np.array([[0, 0, 1]]))[:, 0]
    assert np.isfinite(estimate).all()
    assert estimate[2] == 0  # too large a factor, and one that is zero


@pytest.mark.parametrize(
    "kernel",
    [Sigmoid(gamma=1.0), Poly(gamma=1.0, coef0=-1.0), Function(lambda x, z: x @ z.T)],
    ids=lambda kernel: type(kernel).__name__,
)
def test_other_kernels_are_refused(kernel):
    with pytest.raises(ValueError, match="only the kernels linear, poly with coef0 >= 0, and rbf can be estimated"):
        samples_of(rows(0), kernel)
