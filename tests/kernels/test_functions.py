"""Kernels by name against scikit-learn's, matrices and functions of the user's, and what is refused."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from covering import every_pair
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics.pairwise import laplacian_kernel, pairwise_kernels, rbf_kernel
from sklearn.svm import SVC
from threadpoolctl import threadpool_info

from maxmargin.kernels._blocks import exp_of_negative
from maxmargin.kernels.functions import Function, Linear, Poly, Precomputed, Rbf, Sigmoid
from maxmargin.kernels.mixed_rows import ColumnLayout, MixedRows, SparseRows
from maxmargin.kernels.packed_rows import PackedRows
from maxmargin.problems import Expansion, KernelMatrix, RegularizedSVM, SlackSVM, make_kernel
from maxmargin.solvers import Decomposition, solve

KINDS = {"dense": np.asarray, "sparse": sp.csr_matrix, "sparse array": sp.csr_array}


def sample(n=40, d=5, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) + 0.3).astype(dtype)


def block(X, kernel, numbers=None, columns=None, threads=1):
    width = X.shape[0] if columns is None else len(np.arange(X.shape[0])[columns])
    numbers = np.arange(X.shape[0]) if numbers is None else numbers
    out = np.empty((len(numbers), width), dtype=np.float32)
    PackedRows(X, kernel, threads).block_of(numbers, columns, out)
    return out


# By name


NAMES = ["linear", "rbf", "poly", "sigmoid"]
GAMMAS = ["scale", "auto", 0.7, 0, np.float64(0.2)]
DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize(("name", "gamma", "dtype", "kind"), every_pair(NAMES, GAMMAS, DTYPES, KINDS))
def test_kernels_by_name_are_those_of_SVC(name, gamma, dtype, kind):
    X, kind = sample(dtype=dtype), KINDS[kind]
    y = np.where(np.arange(40) % 2, 1, -1)
    svc = SVC(kernel=name, gamma=gamma, degree=2, coef0=0.5).fit(kind(X), y)
    value = svc._gamma
    wanted = {
        "linear": {},
        "rbf": {"gamma": value},
        "poly": {"gamma": value, "coef0": 0.5, "degree": 2},
        "sigmoid": {"gamma": value, "coef0": 0.5},
    }
    kernel = make_kernel(name, kind(X), gamma=gamma, degree=2, coef0=0.5)
    assert kernel.name == name
    if name != "linear":
        assert kernel.gamma == pytest.approx(value, rel=1e-12)
    reference = pairwise_kernels(X.astype(np.float64), metric=name, **wanted[name])
    result = block(kind(X), kernel)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5, np.int64(4)])
def test_degrees(degree):
    X = sample()
    wanted = (0.4 * X @ X.T - 0.1) ** degree
    np.testing.assert_allclose(block(X, Poly(0.4, coef0=-0.1, degree=degree)), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_gamma_of_rows_that_are_all_the_same(kind):
    assert make_kernel("rbf", kind(np.full((3, 2), 4.0))).gamma == 1.0


@given(st.integers(1, 30), st.integers(1, 4), st.integers(0, 99))
def test_scale(n, d, seed):
    X = sample(n, d, seed)
    for rows in (X, sp.csr_matrix(X)):
        assert make_kernel("rbf", rows).gamma == pytest.approx(1 / (d * X.var()) if X.var() else 1.0, rel=1e-9)


def test_a_kernel_stays_what_it_is():
    kernel = Rbf(gamma=3.0)
    assert make_kernel(kernel, sample(), gamma=1.0) is kernel
    assert make_kernel(rbf_kernel, sample()) == Function(rbf_kernel)
    assert make_kernel("precomputed", np.eye(3)) == Precomputed()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": "gauss"}, "one of linear, poly, precomputed, rbf, sigmoid, or a callable; got 'gauss'"),
        ({"kernel": 3}, "or a callable; got 3"),
        ({"kernel": "rbf", "gamma": "large"}, "'scale', 'auto' or a finite number of at least 0; got 'large'"),
        ({"kernel": "rbf", "gamma": -1}, "got -1"),
        ({"kernel": "sigmoid", "gamma": np.nan}, "got nan"),
        ({"kernel": "poly", "gamma": None}, "got None"),
        ({"kernel": "poly", "degree": 2.5}, r"degree must be a whole number of at least 0; got 2\.5"),
        ({"kernel": "poly", "degree": -1}, "got -1"),
        ({"kernel": "poly", "coef0": np.inf}, "coef0 must be a finite number; got inf"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_kernel(X=sample(), **arguments)


def test_who_is_an_inner_product():
    assert Linear().inner_product
    assert Rbf(1.0).inner_product
    assert Poly(1.0, coef0=0.0).inner_product
    assert Poly(1.0, coef0=-0.1).inner_product is False
    assert Sigmoid(1.0).inner_product is False
    assert Precomputed().inner_product is None
    assert Function(rbf_kernel).inner_product is None


# Rows


KERNELS = {"rbf": Rbf(0.3), "function": Function(rbf_kernel), "matrix": Precomputed()}
COLUMNS = [None, np.array([2, 1500, 7]), slice(100, 1400), slice(3, None, 2)]


@pytest.mark.parametrize(("kernel", "columns", "threads", "kind"), every_pair(KERNELS, COLUMNS, [1, 2], KINDS), ids=str)
def test_columns(kernel, columns, threads, kind):
    X, kernel, kind = sample(n=1600), KERNELS[kernel], KINDS[kind]
    K = rbf_kernel(X, gamma=0.3 if kernel == Rbf(0.3) else None)
    if kernel == Precomputed():
        X, kind = K, np.asarray
    numbers = np.array([1599, 3, 3])
    wanted = K[numbers] if columns is None else K[numbers][:, columns]
    np.testing.assert_allclose(block(kind(X), kernel, numbers, columns, threads), wanted, rtol=1e-6)


@pytest.mark.parametrize("places", [[4, 5, 6], [1, 4, 5], [6, 5, 4]], ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_places(places, threads):
    X, out = sample(n=1600), np.full((8, 1600), 7, dtype=np.float32)
    wanted = out.copy()
    wanted[places, 50:] = (X[[9, 3, 700]] @ X.T)[:, 50:]
    PackedRows(X, Linear(), threads).block_of(np.array([9, 3, 700]), slice(50, None), out[:, 50:], np.array(places))
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "new_kind", "new_dtype", "width"), every_pair(KINDS, KINDS, DTYPES, [5, 3000]))
def test_new_rows_of_another_kind(kind, new_kind, new_dtype, width):
    kind, new_kind = KINDS[kind], KINDS[new_kind]
    X, new = sample(dtype=np.float32), sample(n=3, seed=1, dtype=new_dtype)
    if width > 5:  # too wide and too empty to be packed as a dense matrix
        X, new = (np.pad(rows, [(0, 0), (0, width - 5)]) for rows in (X, new))
    out = np.empty((3, 40), dtype=np.float32)
    PackedRows(kind(X), Rbf(0.5)).block(new_kind(new), out)
    np.testing.assert_allclose(out, rbf_kernel(new, X, gamma=0.5), rtol=1e-5)


def test_new_rows_of_another_width():
    with pytest.raises(ValueError, match="the packed samples have 5 features; got samples with 4"):
        PackedRows(sample(), Linear()).block(sample(d=4), np.empty((40, 40), dtype=np.float32))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_rows_that_are_not_finite(kind, bad):
    X = sample()
    X[7, 2] = bad
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match="row 7 of X holds NaN, infinity or values so large"),
    ):
        PackedRows(kind(X), Linear())


def test_rows_that_cannot_be_read():
    X = sp.csr_matrix(np.eye(6))
    rows, X.indices[3] = PackedRows(X.copy(), Linear()), 6
    for read in (lambda: PackedRows(X, Linear()), lambda: rows.block(X, np.empty((6, 6), dtype=np.float32))):
        with pytest.raises(ValueError, match=r"X.indices holds 0 to 6, but must lie in 0 to 5"):
            read()
    with pytest.raises(TypeError, match="expected float32 or float64"):
        PackedRows(np.eye(3, dtype=int), Linear())


def test_columns_of_a_sparse_matrix():
    X = sample()
    np.testing.assert_allclose(block(sp.csc_matrix(X), Rbf(0.5)), rbf_kernel(X, gamma=0.5), rtol=1e-6)


def test_kernels_that_overflow():
    X = sample()
    X[3] = 1e100
    with pytest.raises(ValueError, match="poly kernel of X cannot be computed: a row has the squared norm 5e"):
        PackedRows(X, Poly(1.0, degree=4))


@given(arrays(np.float32, (3, 40), elements=st.floats(-87, 0, width=32)))
def test_exponentials(x):
    values = np.full((3, 50), 7.0, dtype=np.float32)
    values[:, 5:45] = x
    exp_of_negative(values[:, 5:45])
    np.testing.assert_allclose(values[:, 5:45], np.exp(x.astype(np.float64)), rtol=1.5e-7)
    assert (values[:, :5] == 7).all()
    assert (values[:, 45:] == 7).all()


def test_exponentials_of_what_rounding_or_distance_put_outside():
    values = np.array([[1e-3, 5.0, -88.0, -1e30]], dtype=np.float32)
    exp_of_negative(values)
    np.testing.assert_array_equal(values[0, :2], 1)
    assert (values[0, 2:] < 2e-38).all()


@given(
    st.integers(0, 150),
    st.integers(1, 20),
    st.integers(0, 99),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
)
def test_products_of_sparse_rows(n, m, seed, dtype, add):
    """Whatever the number of rows, empty ones among them, and whichever are asked, in whatever order."""
    rng = np.random.default_rng(seed)
    X, Z = (sp.random(rows, 30, density=0.1, format="csr", dtype=dtype, rng=rng) for rows in (m, 100))
    numbers = rng.integers(0, 100, size=n)
    out = np.full((m, n + 2), 7, dtype=dtype)
    SparseRows.of(Z)[numbers].products(SparseRows.of(X), out[:, 1:-1], add=add)
    np.testing.assert_allclose(out[:, 1:-1], 7 * add + (X @ Z[numbers].T).toarray(), rtol=1e-5, atol=1e-6)
    assert (out[:, [0, -1]] == 7).all()


def partly_rare(n, dtype, seed=0, common=40):
    """As many columns that every row uses, 60 that few do, in any order, and some that none does."""
    rng = np.random.default_rng(seed)
    shares = rng.permutation(np.repeat([1.0, 0.03, 0.0], [common, 60, 5]))
    return (rng.normal(size=(n, shares.size)) * (rng.random((n, shares.size)) < shares)).astype(dtype), np.flatnonzero(
        shares == 1
    )


@pytest.mark.parametrize(
    ("many", "kernel", "dtype", "kind"),
    every_pair([40, 1], [Linear(), Rbf(0.1), Poly(0.1, degree=2)], DTYPES, KINDS),
    ids=lambda value: getattr(value, "name", None),
)
def test_rare_columns_apart(many, kernel, dtype, kind):
    """Blocks, in either precision, of a part, of new rows and of some rows only are those of the rows as given."""
    (X, common), kind = partly_rare(1500, dtype, common=many), KINDS[kind]
    rows, close = PackedRows(kind(X), kernel), {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-6}
    np.testing.assert_array_equal(rows.layout.common, common if many > 1 else [])  # one column is no matrix
    parameters = vars(kernel)
    K = pairwise_kernels(X.astype(np.float64), metric=kernel.name, **parameters)
    some, others = np.array([7, 1499, 7, 800]), np.array([3, 1100, 2])
    out = np.empty((4, 1500), dtype=np.float32)
    rows.block_of(some, None, out)
    np.testing.assert_allclose(out, K[some], rtol=1e-4, atol=1e-4)
    precise = np.empty((4, 3))
    rows.block_of(some, others, precise)
    np.testing.assert_allclose(precise, K[np.ix_(some, others)], rtol=1e-6)
    np.testing.assert_allclose(rows.diagonal(), K.diagonal(), **close)
    part = rows.part(others)
    np.testing.assert_array_equal(part.source.toarray() if sp.issparse(part.source) else part.source, X[others])
    out = np.empty((2, 3), dtype=dtype)
    part.block_of(np.array([2, 0]), None, out)
    np.testing.assert_allclose(out, K[np.ix_(others[[2, 0]], others)], **close)
    new, out = partly_rare(5, dtype, 1, many)[0], np.empty((5, 1500), dtype=dtype)
    rows.block(kind(new), out)
    wanted = pairwise_kernels(new.astype(np.float64), X.astype(np.float64), metric=kernel.name, **parameters)
    np.testing.assert_allclose(out, wanted, **close)
    out = np.empty((1, 3), dtype=dtype)
    PackedRows(kind(X), kernel, rows=others).block_of(np.array([1]), None, out)
    np.testing.assert_allclose(out, K[np.ix_(others[[1]], others)], **close)


def test_too_few_rare_columns_stay_with_the_others():
    X = np.hstack([np.ones((100, 4)), np.eye(100)[:, :5]])
    assert ColumnLayout.of(X).rare.size == 0


@given(st.integers(0, 40), st.integers(0, 99), st.sampled_from([np.float32, np.float64]))
def test_rows_in_two_parts(n, seed, dtype):
    rng = np.random.default_rng(seed)
    X = partly_rare(100, dtype, seed)[0]
    packed, numbers = ColumnLayout.of(X).pack(X), rng.integers(0, 100, size=n)
    np.testing.assert_allclose(
        packed[numbers].sq_norms, np.sum(np.square(X[numbers], dtype=np.float64), axis=1), rtol=1e-5
    )
    whole = MixedRows.stacked(100, (packed[start : start + 30] for start in range(0, 100, 30)))
    out = np.empty((n, 100), dtype=dtype)
    whole.products(packed[numbers].scaled(2.0).astype(dtype), out)
    np.testing.assert_allclose(out, 2 * X[numbers] @ X.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_serve_many_at_once(threads):
    """Blocks that are asked for side by side come out right, and the BLAS has as many threads afterwards as before."""
    X = sample(n=3000, dtype=np.float32)
    rows, wanted = PackedRows(X, Rbf(0.3), threads), rbf_kernel(X[:16], X, gamma=0.3)

    def ask(_):
        out = np.empty((16, 3000), dtype=np.float32)
        rows.block_of(np.arange(16), None, out)
        return out

    before = [library["num_threads"] for library in threadpool_info()]
    with ThreadPoolExecutor(4) as pool:
        for out in pool.map(ask, range(20)):
            np.testing.assert_allclose(out, wanted, rtol=1e-5)
    assert before == [library["num_threads"] for library in threadpool_info()]


def test_an_error_in_a_thread_comes_out():
    rows = PackedRows(sp.random(3000, 50, density=0.1, format="csr", rng=0), Linear(), threads=2)
    with pytest.raises(ValueError, match="expected an output of 3 rows and 1024 columns; got 2 and 1024"):
        rows.block_of(np.arange(3), None, np.empty((2, 3000)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_threads_after_a_fork():
    X = sample(n=3000)
    rows, out = PackedRows(X, Linear(), threads=2), np.empty((3, 3000), dtype=np.float32)
    rows.block_of(np.arange(3), None, out)
    child = os.fork()
    if child == 0:
        rows.block_of(np.arange(3), None, out)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


# Matrices and functions of the user's


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precomputed(dtype):
    X = sample()
    K = laplacian_kernel(X).astype(dtype)
    rows = PackedRows(K, Precomputed())
    np.testing.assert_array_equal(rows.diagonal(), K.diagonal())
    new, out = laplacian_kernel(sample(n=3, seed=1), X).astype(dtype), np.empty((3, 40), dtype=np.float32)
    rows.block(new, out)
    np.testing.assert_array_equal(out, new.astype(np.float32))
    support = np.array([3, 30, 7])
    few = PackedRows(Precomputed().part(K, support), Precomputed())
    few.block(new[:, support], out[:, :3])
    np.testing.assert_array_equal(out[:, :3], new[:, support].astype(np.float32))
    with pytest.raises(ValueError, match="the packed samples have 40 features; got samples with 39"):
        rows.block(new[:, :39], out)


def test_precomputed_that_is_not_square():
    with pytest.raises(ValueError, match=r"must be square, .*; got shape \(40, 5\)"):
        PackedRows(sample(), Precomputed())
    with pytest.raises(TypeError, match=r"give a dense array, K.toarray\(\)"):
        PackedRows(sp.csr_matrix(np.eye(3)), Precomputed())


@given(st.integers(0, 99), st.integers(0, 99), st.sampled_from([0.01, -2.0, 1000.0]))
def test_precomputed_that_is_not_symmetric(i, j, change):
    K = rbf_kernel(sample(n=100))
    K[i, j] += change
    if i == j:
        PackedRows(K, Precomputed())
        return
    i, j = min(i, j), max(i, j)
    with pytest.raises(ValueError, match=rf"must be symmetric; row {i}, column {j} holds .* the largest difference"):
        PackedRows(K, Precomputed())


def test_rounding_is_no_asymmetry():
    K = rbf_kernel(sample(n=100)).astype(np.float32)
    PackedRows(K * (1 + 1e-6 * np.random.default_rng(0).random(K.shape, dtype=np.float32)), Precomputed())


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_precomputed_that_is_not_finite(bad):
    K = np.eye(100)
    K[70, 3] = bad
    with pytest.raises(ValueError, match=f"holds {bad} at row 70, column 3; it must be finite"):
        PackedRows(K, Precomputed())


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_functions_get_rows_as_they_were_given(kind):
    X, seen = kind(sample(n=1200)), set()

    def product(A, B):
        seen.add((type(A), type(B)))
        return A @ B.T

    kernel = Function(product)
    wanted = sample(n=1200) @ sample(n=1200).T
    np.testing.assert_allclose(KernelMatrix(X, kernel).rows(np.array([5, 2])), wanted[[5, 2]], rtol=1e-6)
    np.testing.assert_allclose(PackedRows(X, kernel).diagonal(), wanted.diagonal())
    assert seen == {(type(X), type(X))}


def test_functions_may_ask_for_kernels_themselves():
    def product(A, B):
        out = np.empty((len(A), len(B)), dtype=np.float32)
        PackedRows(B, Linear()).block(A, out)
        return out

    X = sample()
    np.testing.assert_allclose(block(X, Function(product)), X @ X.T, rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (
            lambda A, B: A @ A.T,
            ValueError,
            r"of 3 rows with 40 the kernel <lambda> returned .* \(3, 3\); expected \(3, 40\)",
        ),
        (lambda A, B: 1.0, ValueError, r"returned an array of shape \(\); expected \(3, 40\)"),
        (lambda A, B: (A @ B.T).astype(str), TypeError, "returned values of type <U32; expected numbers"),
        (lambda A, B: (A @ B.T) * 1j, TypeError, "returned values of type complex128"),
        (lambda A, B: (A @ B.T) * np.nan, ValueError, "returned NaN or infinity"),
        (lambda A, B: None, ValueError, r"shape \(\)"),
    ],
)
def test_functions_that_return_something_else(function, error, message):
    with pytest.raises(error, match=message):
        block(sample(), Function(function), np.arange(3))


# Kernels that are no inner products


def labels(n=40):
    return np.where(np.arange(n) % 2, 1.0, -1.0)


@pytest.mark.parametrize("form", [RegularizedSVM, SlackSVM])
@pytest.mark.parametrize(
    ("X", "kernel", "inner_product"),
    [
        (sample(), Rbf(0.3), True),
        (rbf_kernel(sample()), Precomputed(), None),
        (sample(), Function(rbf_kernel), None),
        (sample(), Sigmoid(0.3, coef0=0.1), False),
        (sample(), Poly(0.3, coef0=-1.0), False),
        (1 - 2 * rbf_kernel(sample()), Precomputed(), False),
        (sample(), Function(lambda A, B: -rbf_kernel(A, B)), False),
    ],
)
def test_what_a_certificate_says_of_the_kernel(X, kernel, inner_product, form):
    problem = form(KernelMatrix(X, kernel), labels(), 0.5, **({"scale": 1.0} if form is SlackSVM else {}))
    certificate = problem.certify(problem.X.dot_transposed(labels() * 0.5), p=np.full(40, 0.5))
    assert problem.X.inner_product is inner_product
    assert bool(certificate) == (inner_product is not False)
    assert ("not positive semidefinite" in str(certificate)) == (inner_product is False)
    assert ("(provided that the kernel is positive semidefinite)" in str(certificate)) == (inner_product is None)


def test_a_negative_square_is_seen():
    """Where the part of the matrix that was looked at tells nothing, the sum of rows at hand may."""
    K = np.eye(1000)
    K[1, 1] = -3
    matrix = KernelMatrix(K, Precomputed())
    assert matrix.inner_product is None
    problem, p = RegularizedSVM(matrix, labels(1000), bias=False), np.zeros(1000)
    p[1] = 1.0
    assert problem.certify(matrix.dot_transposed(np.ones(1000)), np.ones(1000)).provided
    assert not problem.certify(matrix.dot_transposed(p), p)


def test_rounding_is_no_negative_square():
    assert not Expansion(np.array([1.0, -1.0]), np.array([1.0, 1.0 + 1e-7])).imaginary
    assert Expansion(np.array([1.0, -1.0]), np.array([1.0, 1.1])).imaginary


@pytest.mark.parametrize("C", [0.5, 10.0])
@pytest.mark.parametrize("kernel", [Sigmoid(0.5, coef0=0.2), Sigmoid(2.0, coef0=-1.0)])
def test_an_indefinite_kernel_is_solved_as_LIBSVM_does(kernel, C):
    """Until the conditions of an optimum hold; there may be more than one place where they do."""
    X, y = sample(n=300), np.where(np.random.default_rng(0).random(300) < 0.4, -1.0, 1.0)
    result = solve(RegularizedSVM(KernelMatrix(X, kernel), y, C), Decomposition(), tol=1e-3, random_state=0)
    assert result.status == "tol"
    assert result.certificate.relative_gap <= 1e-3
    assert str(result.certificate).startswith("not certified: the kernel is not positive semidefinite")
    alpha, f, b = result.solution.p, result.solution.w.f, result.solution.b
    assert abs(alpha @ y) < 1e-6 * alpha.sum()
    c = y * (f + b)
    loss = C * np.maximum(0, 1 - c) - alpha * (1 - c)
    assert loss.sum() <= 2e-3 * abs(result.certificate.primal)


# Whole matrices


@pytest.mark.parametrize("kernel", [Linear(), Rbf(0.3), Poly(0.3, 1.0, 3), Sigmoid(0.1, 0.2)], ids=lambda k: k.name)
def test_a_whole_matrix_is_that_of_scikit_learn_whatever_the_threads(kernel):
    X = sample(n=600)
    known = {name: getattr(kernel, name) for name in ("gamma", "coef0", "degree") if hasattr(kernel, name)}
    expected = pairwise_kernels(X, metric=kernel.name, **known)
    matrices = [kernel.dense_matrix(X, threads) for threads in (1, 3)]
    np.testing.assert_allclose(matrices[0], expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(*matrices)


def test_kernels_that_are_given_have_no_whole_matrix_of_features():
    assert Function(rbf_kernel).dense_matrix(sample(), 1) is None


def test_gamma_may_be_a_number_of_numpy():
    X = np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_array_equal(
        *(KernelMatrix(X, Rbf(gamma=gamma)).row_sq_norms() for gamma in (np.float64(0.5), 0.5))
    )
