"""Blocks of kernels against scikit-learn's, the cache against its promises, vectors of the space against plain ones."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import linear_kernel, pairwise_kernels

from maxmargin.kernels.functions import KERNELS, Function, Linear, Poly, Precomputed, Rbf, Sigmoid
from maxmargin.kernels.packed_rows import PackedRows
from maxmargin.kernels.row_cache import MIN_ROWS
from maxmargin.problems import Expansion, KernelMatrix, RegularizedSVM, SlackSVM

CASES = [
    (Linear(), {}),
    (Rbf(gamma=0.3), {"gamma": 0.3}),
    (Poly(gamma=0.5, coef0=1.0, degree=3), {"gamma": 0.5, "coef0": 1.0, "degree": 3}),
    (Sigmoid(gamma=0.1, coef0=-0.5), {"gamma": 0.1, "coef0": -0.5}),
]


def rows(n, d=7, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d)) + 3
    X[np.random.default_rng(seed + 1).random((n, d)) < 0.4] = 0
    return X


@pytest.mark.parametrize(("kernel", "parameters"), CASES, ids=[kernel.name for kernel, _ in CASES])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks(kernel, parameters, dtype):
    X = rows(2500).astype(dtype)
    wanted = pairwise_kernels(X.astype(np.float64), metric=kernel.name, **parameters)
    for kind, threads in itertools.product((np.asarray, sp.csr_matrix), (1, 2)):
        check_blocks(X, wanted, kind, kernel, threads, parameters)


def check_blocks(X, wanted, kind, kernel, threads, parameters):
    K = KernelMatrix(kind(X), kernel, threads=threads)
    some = np.array([3, 2499, 3, 700])
    close = {"rtol": 1e-4, "atol": 1e-5} if X.dtype == np.float32 else {"rtol": 1e-6}
    np.testing.assert_allclose(K.block(some), wanted[some], **close)
    np.testing.assert_allclose(K.block(some, np.array([9, 1, 2000])), wanted[some][:, [9, 1, 2000]], **close)
    np.testing.assert_allclose(K.row_sq_norms(), wanted.diagonal(), **close)
    new, out = rows(5, seed=5).astype(X.dtype), np.empty((5, 2500), dtype=np.float32)
    PackedRows(kind(X), kernel, threads).block(kind(new), out)
    np.testing.assert_allclose(out, pairwise_kernels(new, X, metric=kernel.name, **parameters), rtol=1e-4, atol=1e-4)
    assert K.ledger.entries_read == 4 * 2500 + 4 * 3


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_samples_are_packed_to_the_same_bits_by_any_number_of_threads(kind, monkeypatch):
    monkeypatch.setattr("maxmargin.core.threads.LEAST_WORK", 1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 70)) * (rng.random(70) < np.linspace(0.01, 1, 70))
    X, beta, some = kind(X.astype(np.float32)), rng.normal(size=3_000), np.array([7, 2_900, 3])
    found = []
    for threads in (1, 2, 3):
        K = KernelMatrix(X, Rbf(0.1), threads=threads)
        found.append((K.packed.sq_norms, K.rows(some), K.dot_precisely(beta, some)))
        for now, first in zip(found[-1], found[0], strict=True):
            np.testing.assert_array_equal(now, first)
    exact = KernelMatrix(X.astype(np.float64), Rbf(0.1)).block(some, None, np.empty((3, 3_000)))
    np.testing.assert_allclose(found[0][2], exact @ beta, rtol=1e-9, atol=1e-9)


def test_wide_sparse_rows_stay_sparse():
    X = sp.random(50, 10_000, density=0.002, format="csr", rng=0)
    K = KernelMatrix(X, Rbf(gamma=0.5))
    assert K.packed.layout.common.size == 0
    np.testing.assert_allclose(K.block(np.arange(50)), pairwise_kernels(X, metric="rbf", gamma=0.5), rtol=1e-5)


def test_rounding_far_from_zero():
    """Only differences count: a set far from zero has the same kernel, also in float32."""
    X = rows(300)
    near, far = (KernelMatrix(np.float32(X + shift), Rbf(gamma=1.0)).block(np.arange(300)) for shift in (0, 1024))
    np.testing.assert_allclose(near, far, atol=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_the_cache(seed):
    """Kept rows are right whatever was asked for before, and every evaluation is counted."""
    rng, n = np.random.default_rng(seed), 300
    X = rows(n)
    K = KernelMatrix(X, Linear(), cache_size=4e-6 * n * 150)
    assert K.cached_rows == 150
    asked = 0
    for _ in range(40):
        numbers = rng.choice(n, size=rng.integers(1, 150), replace=False)
        np.testing.assert_allclose(K.rows(numbers), X[numbers] @ X.T, rtol=1e-6)
        asked += numbers.size * n
        held = np.flatnonzero(K.missing(np.arange(n)) == 0)
        np.testing.assert_allclose(K.peek(held).copy(), X[held] @ X.T, rtol=1e-6)
    assert K.ledger.entries_read + K.saved == asked
    assert K.saved > 0
    before = K.ledger.entries_read
    K.rows(numbers)
    assert K.ledger.entries_read == before


def test_too_small_a_cache():
    with pytest.raises(
        ValueError, match=rf"hold 0 rows of 1,000 entries, but {MIN_ROWS} are needed at a time; give at least 0\.3"
    ):
        KernelMatrix(rows(1000), Linear(), cache_size=0.001)
    with pytest.raises(ValueError, match="400 rows asked for at once, but only 300 fit the cache"):
        KernelMatrix(rows(400), Linear(), cache_size=4e-6 * 400 * 300).fetch(np.arange(400))


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_any_width(seed):
    """First entries of rows, wider ones of the same, released rows: all are right, and nothing is computed twice."""
    rng, n = np.random.default_rng(seed), 300
    X = rows(n)
    K, wanted = KernelMatrix(X, Linear(), cache_size=4e-6 * n * 150), X @ X.T
    asked = 0
    for _ in range(60):
        numbers, width = rng.choice(n, size=rng.integers(1, 70), replace=False), int(rng.integers(1, n + 1))
        np.testing.assert_allclose(K.fetch(numbers, width).copy()[:, :width], wanted[numbers][:, :width], rtol=1e-6)
        asked += numbers.size * width
        K.release(rng.choice(n, size=20, replace=False))
    assert K.ledger.entries_read + K.saved == asked
    numbers = rng.choice(n, size=70, replace=False)
    K.fetch(numbers)
    before = K.ledger.entries_read
    np.testing.assert_allclose(K.rows(numbers), wanted[numbers], rtol=1e-6)
    assert K.ledger.entries_read == before


def test_released_rows_give_way_first():
    K = KernelMatrix(rows(200), Linear(), cache_size=4e-6 * 200 * 100)
    K.fetch(np.arange(100))
    K.fetch(np.arange(20))
    K.release(np.arange(10, 20))
    K.fetch(np.arange(100, 110))
    before = K.ledger.entries_read
    K.fetch(np.setdiff1d(np.arange(110), np.arange(10, 20)))
    assert K.ledger.entries_read == before


def test_what_rows_would_cost_is_what_they_cost():
    K = KernelMatrix(rows(100), Linear(), cache_size=4e-6 * 100 * 70)
    K.fetch(np.arange(10), 30)
    K.fetch(np.arange(5, 20))
    numbers = np.array([0, 7, 50])
    assert K.missing(numbers).tolist() == [70, 0, 100]
    before = K.ledger.entries_read
    K.fetch(numbers)
    assert K.ledger.entries_read == before + 170
    assert not K.missing(numbers).any()


def test_a_sum_of_more_rows_than_fit_the_cache():
    X = rows(100)
    K = KernelMatrix(X, Linear(), cache_size=4e-6 * 100 * 70)
    beta = np.arange(100.0) + 1
    np.testing.assert_allclose(K.dot_transposed(beta).f, X @ (beta @ X), rtol=1e-4, atol=0.1)


@pytest.mark.parametrize(
    "kernel", [Rbf(gamma=0.3), Precomputed(), Function(linear_kernel)], ids=lambda kernel: kernel.name
)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_a_part(kernel, kind):
    """It has the kernels of its rows, counts on its own, and does not compute what was known."""
    X = rows(60)
    if kernel.name == "precomputed":
        X, kind = X @ X.T, np.asarray
    K = KernelMatrix(kind(X), kernel)
    some = np.random.default_rng(0).permutation(60)[:25]
    wanted = K.block(np.arange(60))[np.ix_(some, some)]
    part = K.part(some)
    np.testing.assert_allclose(part.rows(np.arange(25)), wanted, rtol=1e-5)
    assert (part.ledger.entries_read, part.saved) == (25 * 25, 0)
    K.fetch(some[:10])
    part = K.part(some)
    np.testing.assert_allclose(part.rows(np.arange(25)), wanted, rtol=1e-5)
    np.testing.assert_allclose(part.block(np.arange(25)), wanted, rtol=1e-5)
    np.testing.assert_allclose(part.row_sq_norms(), wanted.diagonal(), rtol=1e-5)
    assert (part.ledger.entries_read, part.saved) == (15 * 25 + 25 * 25, 10 * 25)


def test_products_that_are_not_known_are_computed_when_asked_for():
    K = KernelMatrix(rows(50), Linear())
    w = K.dot_transposed(np.arange(50.0))
    w_part = Expansion(w.beta, np.where(np.arange(50) < 30, w.f, np.nan))
    before = K.ledger.entries_read
    np.testing.assert_allclose(K.dot(w_part, np.array([45, 3])), w.f[[45, 3]], rtol=1e-5)
    assert K.ledger.entries_read == before + 49  # row 0 has no weight
    np.testing.assert_allclose(K.dot(w_part), w.f, rtol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("form", ["C", "slack"])
def test_problems_do_not_ask_what_their_rows_are(form, bias):
    """With the linear kernel, values and certificates are those of the plain rows."""
    X, rng = rows(40), np.random.default_rng(0)
    y = np.where(rng.random(40) < 0.5, -1.0, 1.0)

    def make(rows):
        return SlackSVM(rows, y, 0.1, bias=bias) if form == "slack" else RegularizedSVM(rows, y, 0.3, bias=bias)

    plain, of_kernel = make(X), make(KernelMatrix(X, Linear()))
    p = rng.random(40) * 0.3
    (alpha, v), (same, expansion) = plain.dual_point(p), of_kernel.dual_point(p)
    np.testing.assert_allclose(alpha, same)
    one, other = plain.evaluate(v), of_kernel.evaluate(expansion)
    np.testing.assert_allclose(one.responses, other.responses, rtol=1e-5)
    assert one.value == pytest.approx(other.value, rel=1e-5)
    assert one.b == pytest.approx(other.b, rel=1e-4, abs=1e-5)
    assert plain.bound(p) == pytest.approx(of_kernel.bound(p), rel=1e-5)


def test_every_kernel_is_tested():
    assert set(KERNELS) == {kernel.name for kernel, _ in CASES} | {"precomputed"}
