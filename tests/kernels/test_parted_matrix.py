"""A kernel matrix in parts against one in one place: the same bits, for any number of parts and whatever is lost."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import RegularizedSVM, solve
from maxmargin.data import as_matrix
from maxmargin.engine.parts import LocalRows, PartRows
from maxmargin.kernels.functions import Function, Linear, Poly, Precomputed, Rbf, Sigmoid
from maxmargin.kernels.kernel_part import KernelPart
from maxmargin.kernels.parted_matrix import PartedKernelMatrix
from maxmargin.kernels.parted_samples import PartedSamples
from maxmargin.problems import KernelMatrix
from maxmargin.solvers import Decomposition, Smo

N, D = 3000, 40
KERNELS = [Rbf(0.02), Rbf(3.0), Linear(), Poly(gamma=0.1, coef0=1.0, degree=3), Sigmoid(gamma=0.01, coef0=-0.1)]
UNITS = pytest.mark.parametrize("units", [1, 2, 4])
KINDS = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
ORDER = np.random.default_rng(5).permutation(N)[: N - 7]  # in no order, and some are left out


@pytest.fixture(scope="module")
def X():
    """Columns that are common and columns that are rare, which are packed in another way."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(N, D)) * (rng.random((N, D)) < np.linspace(0.01, 1, D))).astype(np.float32)


@pytest.fixture(scope="module")
def y(X):
    return np.where((X**2).sum(axis=1) < np.median((X**2).sum(axis=1)), 1.0, -1.0)


def parted(X, kernel, units, **options):
    rows = LocalRows(as_matrix(X), X.shape[0], unit_rows=-(-X.shape[0] // units))
    return PartedKernelMatrix(PartedSamples(rows), kernel, **options)


def lose(K, unit=0):
    """Make the object of a unit anew, as after the loss of its worker."""
    objects = K._parts.objects
    lost, rows = objects[unit], K._parts.rows[unit]
    positions = np.full(rows.count, -1.0)
    positions[lost._order] = lost.positions
    n = K.shape[0]
    objects[unit] = KernelPart(PartRows(rows.X, rows.number, rows.first, rows.own), positions, K.kernel, K.layout, n, 1)


def answers(K):
    """What solvers and problems ask."""
    n = K.shape[0]
    rng = np.random.default_rng(1)
    beta, some = np.where(rng.random(n) < 0.4, rng.normal(size=n), 0.0), rng.permutation(n)[:700]
    found = [K.row_sq_norms(), K.sizes.sq_norms, K.rows(some[:20])]
    f = rng.normal(size=n - 500)
    K.fetch(some, n - 100).columns(slice(300, n - 200)).add_to(f, beta[some])
    found.append(f)
    block = np.empty((30, 200), K.dtype)
    K.fetch(some[:30])[np.arange(30)].copy_columns(some[100:300], block)
    found += [block, K.block(some[:9], some[9:50]), K.block(some[:9], slice(10, 2000), np.empty((9, 1990)))]
    nonzero, total = np.flatnonzero(beta), np.ones(n - 50)
    K.add_products(nonzero, beta[nonzero], slice(20, n - 30), total)
    found += [total, K.dot_precisely(beta, some), K.dot_precisely(beta, some[:5])]
    w = K.dot_transposed(beta)
    found += [w.f, K.rounding(beta, np.float32), np.float64(K.shift(beta)), np.float64(K.ledger.entries_read)]
    return found


def check(found, wanted):
    for k, (one, other) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"answer {k}")


@pytest.mark.parametrize("kernel", KERNELS, ids=[f"{kernel.name}{k}" for k, kernel in enumerate(KERNELS)])
@KINDS
def test_all_answers_have_the_bits_of_a_matrix_in_one_place(kernel, kind, X):
    wanted = answers(KernelMatrix(kind(X), kernel, rows=ORDER, reproducible=True))
    for units in (1, 2, 4):
        check(answers(parted(kind(X), kernel, units, rows=ORDER)), wanted)


def test_float64_and_another_precision(X):
    data = X.astype(np.float64)
    whole, parts = KernelMatrix(data, Rbf(0.02)), parted(data, Rbf(0.02), 3)
    check(answers(parts), answers(whole))
    for K in (whole, parts):
        K.choose_precision(weight=1e9, tol=1e-9)
        assert K.dtype == np.float64
    check(answers(parts)[:-1], answers(whole)[:-1])
    single, parts = KernelMatrix(X, Rbf(0.02), reproducible=True), parted(X, Rbf(0.02), 3)
    for K in (single, parts):
        K.choose_precision(weight=1e9, tol=1e-9)
    check(answers(parts)[:-1], answers(single)[:-1])


def test_far_samples_are_left_out_alike():
    """Kernels out of reach are not computed, and the tiles that tell are those of all samples."""
    X = np.random.default_rng(0).uniform(0, 30, size=(5000, 3)).astype(np.float32)
    whole = KernelMatrix(X, Rbf(5.0), reproducible=True)
    whole.add_products(np.arange(5000), np.ones(5000), slice(0, 5000), np.zeros(5000))
    assert whole.ledger.entries_read < 5000**2 // 4
    wanted = answers(KernelMatrix(X, Rbf(5.0), reproducible=True))
    for units in (2, 3):
        check(answers(parted(X, Rbf(5.0), units)), wanted)


@UNITS
def test_a_part_of_the_samples(units, X):
    some = np.random.default_rng(3).permutation(ORDER.size)[:2500]
    whole = KernelMatrix(X, Rbf(0.02), rows=ORDER, reproducible=True)
    check(answers(parted(X, Rbf(0.02), units, rows=ORDER).part(some)), answers(whole.part(some)))


@UNITS
def test_what_is_lost_is_computed_again(units, X):
    K, whole = parted(X, Rbf(0.02), units, rows=ORDER), KernelMatrix(X, Rbf(0.02), rows=ORDER, reproducible=True)
    rows = np.arange(0, 900, 3)
    for view in (K.fetch(rows), K.fetch(rows)):  # computed, and found in the cache
        f, g = np.zeros(ORDER.size), np.zeros(ORDER.size)
        lose(K, units - 1)
        view.add_to(f, np.ones(rows.size))
        whole.fetch(rows).add_to(g, np.ones(rows.size))
        np.testing.assert_array_equal(f, g)
    assert K.ledger.entries_read == whole.ledger.entries_read  # what is computed again is not counted
    lose(K)
    check(answers(K)[:-1], answers(whole)[:-1])


def test_losses_where_few_samples_fit(X, monkeypatch):
    """Samples are sent in turns, and rows of K that were lost are computed in turns."""
    monkeypatch.setattr("maxmargin.kernels.parted_matrix.MOST_SAMPLE_BYTES", 0)
    K, whole = parted(X, Rbf(0.02), 2), KernelMatrix(X, Rbf(0.02), reproducible=True)
    rows = np.arange(2000)
    for _ in range(2):
        f, g = np.zeros(N), np.zeros(N)
        K.fetch(rows).add_to(f, np.ones(rows.size))
        whole.fetch(rows).add_to(g, np.ones(rows.size))
        np.testing.assert_array_equal(f, g)
        lose(K)
    check(answers(K)[:-1], answers(whole)[:-1])


def test_rows_that_do_not_fit_make_room_for_others(X):
    cache = 4e-6 * N * 100  # 100 rows
    K, whole = (
        parted(X, Rbf(0.02), 2, cache_size=cache),
        KernelMatrix(X, Rbf(0.02), cache_size=cache, reproducible=True),
    )
    assert K.cached_rows == whole.cached_rows == 100
    assert sum(part._rows.nbytes for part in K._parts.objects if hasattr(part, "_rows")) <= 1e6 * cache
    for rows in (np.arange(90), np.arange(60, 140), np.arange(90)):
        np.testing.assert_array_equal(K.rows(rows), whole.rows(rows))
    assert (K.ledger.entries_read, K.saved) == (whole.ledger.entries_read, whole.saved)
    K.release(np.arange(90))
    K.forget_rows()
    assert K.missing(np.array([3])) == [N]
    with pytest.raises(ValueError, match="only 100 fit the cache"):
        K.fetch(np.arange(101))


@pytest.mark.parametrize(("kernel", "cache_size"), [(Rbf(0.02), 200.0), (Rbf(0.5), 2.4), (Linear(), 200.0)])
def test_the_solver_ends_with_the_same_bits(kernel, cache_size, X, y):
    """With rows in the cache, and with so little of it that they are computed for each sum."""
    solver = Decomposition(first=800, block=128)
    found = []
    for units in (0, 1, 2, 4):
        options = {"cache_size": cache_size, "rows": np.random.default_rng(9).permutation(N)}
        K = parted(X, kernel, units, **options) if units else KernelMatrix(X, kernel, reproducible=True, **options)
        result = solve(RegularizedSVM(K, y[options["rows"]], C=2.0), solver, tol=1e-3, random_state=0)
        assert result.status == "tol"
        found.append((result.solution.w.beta, result.solution.w.f, result.solution.b, K.ledger.entries_read))
        check(found[-1], found[0])
    assert result.state.recomputes == (cache_size < 10)


def cosine(A, B):
    return (A @ B.T) / np.outer(np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1))


def test_a_function_of_the_user(X):
    data = X[:400].astype(np.float64) + 1
    K = parted(data, Function(cosine), 2)
    np.testing.assert_allclose(K.rows(np.arange(400)), cosine(data, data), rtol=1e-6)
    np.testing.assert_allclose(K.row_sq_norms(), np.ones(400))


def test_what_needs_samples_in_one_place_is_refused(X, y):
    with pytest.raises(ValueError, match=r"precomputed.*one place"):
        parted(X, Precomputed(), 2)
    with pytest.raises(TypeError, match="decomposition"):
        solve(RegularizedSVM(parted(X, Rbf(0.02), 2), y, C=1.0), Smo(), max_iter=10)


@KINDS
def test_gamma_of_samples_in_parts(kind, X):
    from maxmargin.problems import make_kernel

    wanted = make_kernel("rbf", kind(X), gamma="scale")
    samples = PartedSamples(LocalRows(as_matrix(kind(X)), N, unit_rows=700))
    assert samples.kernel("rbf", gamma="scale") == wanted
    assert samples.n_stored == (kind(X).nnz if kind is sp.csr_array else X.size)
    np.testing.assert_array_equal(as_dense(samples.take(np.array([2999, 0, 700]))), X[[2999, 0, 700]])


def as_dense(samples):
    return samples.toarray() if sp.issparse(samples) else samples
