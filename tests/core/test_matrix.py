"""Every matrix is read as NumPy reads it, in place, and what is read is counted exactly."""

import sys
import sysconfig
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.core import Ledger, Matrix
from maxmargin.data import as_matrix

n, d = 7, 5


def values(dtype=np.float64, shape=(n, d)):
    """Small whole numbers, two in three of them zero: sums are exact in any order. Row 2 and column 3 are empty."""
    rng = np.random.default_rng(0)
    X = (rng.integers(-8, 9, size=shape) * (rng.random(shape) < 1 / 3)).astype(dtype)
    X[2], X[:, 3] = 0, 0
    return X


def every_other(X):
    wide = np.full((2 * n, 3 * d), np.nan, dtype=X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def backwards(X):
    return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def mapped(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def shuffled(X):
    """CSR with the indices of each row in falling order."""
    X = sp.csr_array(X)
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[begin:end] = X.indices[begin:end][::-1].copy()
        X.data[begin:end] = X.data[begin:end][::-1].copy()
    X.has_sorted_indices = False
    return X


def wide_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


DENSE = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "strided": every_other,
    "negative strides": backwards,
    "read-only": read_only,
    "memory map": mapped,
}
SPARSE = {
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
    "csr int64": lambda X: wide_indices(sp.csr_array(X)),
    "csc int64": lambda X: wide_indices(sp.csc_array(X)),
    "csr unsorted": shuffled,
    "csc unsorted": lambda X: shuffled(X.T).T,
}


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dense(request):
    return values(request.param)


@pytest.fixture(params=[*DENSE, *SPARSE])
def source(request, dense, tmp_path):
    if request.param == "memory map":
        return mapped(dense, tmp_path)
    return {**DENSE, **SPARSE}[request.param](dense)


def stored_of(source, line):
    """How many entries are stored in a line that was cut out of the source."""
    return line.nnz if sp.issparse(source) else line.size


# Reading


def test_lines_and_entries_equal_numpys(source, dense):
    X = as_matrix(source)
    assert X.shape == (n, d)
    assert X.dtype == dense.dtype
    assert X.n_stored == (source.nnz if sp.issparse(source) else n * d)
    w, p = np.arange(1.0, d + 1), np.arange(1.0, n + 1)
    for i in range(n):
        where, value = X.row(i)
        row = np.zeros(d)
        row[where] = value
        assert (row == dense[i]).all()
        assert X.dot_row(i, w) == dense[i] @ w
        total = w.copy()
        X.add_row(i, -2.0, total)
        assert (total == w - 2 * dense[i]).all()
        assert [X.entry(i, j) for j in range(d)] == dense[i].tolist()
    for j in range(d):
        where, value = X.column(j)
        column = np.zeros(n)
        column[where] = value
        assert (column == dense[:, j]).all()
        assert X.dot_column(j, p) == dense[:, j] @ p
        total = p.copy()
        X.add_column(j, 0.5, total)
        assert (total == p + 0.5 * dense[:, j]).all()


def test_products_equal_numpys(source, dense):
    X = as_matrix(source)
    rng = np.random.default_rng(1)
    W, p = rng.integers(-4, 5, size=(d, 3)).astype(float), rng.integers(-1, 2, size=n).astype(float)
    for rows in (None, np.arange(n), [2, 3, 4], [], [0, n - 1, 2, 2]):
        block, weights = (dense, p) if rows is None else (dense[np.int64(rows)], p[np.int64(rows)])
        assert (X.dot(W[:, 0], rows) == block @ W[:, 0]).all()
        assert (X.dot(W, rows) == block @ W).all()
        assert X.dot(W[:, :0], rows).shape == (block.shape[0], 0)
        assert (X.dot_transposed(weights, rows) == block.T @ weights).all()
        assert rows is None or (X.dense(rows) == block).all()
    assert (X.row_sq_norms() == (dense**2).sum(axis=1)).all()
    assert (X.row_sizes() == [X.row(i)[0].size for i in range(n)]).all()
    assert X.first_not_finite() is None


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1)])
@pytest.mark.parametrize("make", [np.ascontiguousarray, np.asfortranarray, sp.csr_array, sp.csc_array])
def test_matrices_of_nothing(shape, make):
    X = as_matrix(make(np.zeros(shape)))
    assert (X.dot(np.ones(shape[1])) == np.zeros(shape[0])).all()
    assert (X.dot_transposed(np.ones(shape[0])) == np.zeros(shape[1])).all()
    assert (X.row_sq_norms() == np.zeros(shape[0])).all()
    assert X.first_not_finite() is None
    for i in range(shape[0]):
        assert X.dot_row(i, np.ones(shape[1])) == 0
    for j in range(shape[1]):
        assert X.dot_column(j, np.ones(shape[0])) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [*DENSE, *SPARSE])
def test_first_not_finite(bad, kind, tmp_path):
    dense = values()
    dense[4, 1] = bad
    source = mapped(dense, tmp_path) if kind == "memory map" else {**DENSE, **SPARSE}[kind](dense)
    assert as_matrix(source).first_not_finite() == (4, 1)


def test_a_wide_sparse_matrix_takes_memory_for_what_is_stored():
    X = sp.csr_array((np.ones(1), np.array([5]), np.array([0, 1])), shape=(1, 10**8))
    Y = sp.csc_array((np.ones(1), np.array([5]), np.array([0, 1])), shape=(10**8, 1))
    tracemalloc.start()
    try:
        assert as_matrix(X).first_not_finite() is None
        assert as_matrix(Y).first_not_finite() is None
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@given(
    st.integers(0, 6),
    st.integers(0, 6),
    st.sampled_from(["csr", "csc"]),
    st.sampled_from([np.int32, np.int64]),
    st.data(),
)
def test_any_compressed_matrix_repeats_and_disorder_included(rows, columns, kind, index, data):
    lines, width = (rows, columns) if kind == "csr" else (columns, rows)
    where = [data.draw(st.lists(st.integers(0, width - 1), max_size=6)) if width else [] for _ in range(lines)]
    stored = [j for line in where for j in line]
    X = (sp.csr_array if kind == "csr" else sp.csc_array)((rows, columns))
    X.indptr = np.cumsum([0, *map(len, where)]).astype(index)
    X.indices = np.array(stored, dtype=index)
    X.data = np.arange(1.0, len(stored) + 1)
    before = X.data.copy(), X.indices.copy()
    dense = np.zeros((rows, columns))
    for line, places in enumerate(where):
        for k, j in enumerate(places, int(X.indptr[line])):
            dense[(line, j) if kind == "csr" else (j, line)] += X.data[k]
    matrix = as_matrix(X)
    w, p = np.arange(1.0, columns + 1), np.arange(1.0, rows + 1)
    assert (matrix.dot(w) == dense @ w).all()
    assert (matrix.dot_transposed(p) == dense.T @ p).all()
    assert (matrix.row_sq_norms() == (dense**2).sum(axis=1)).all()
    assert [[matrix.entry(i, j) for j in range(columns)] for i in range(rows)] == dense.tolist()
    assert (X.data == before[0]).all()
    assert (X.indices == before[1]).all()


# In place


def test_nothing_is_copied(source):
    if sp.issparse(source):
        buffer = source.data
    elif source.flags.writeable:
        buffer = source
    else:
        pytest.skip("a read-only source cannot be written to; see the test of memory")
    X = as_matrix(source)
    before = X.dot_transposed(np.ones(n))
    np.multiply(buffer, 2, out=buffer)
    after = as_matrix(source).dot_transposed(np.ones(n))
    assert (after == 2 * before).all()
    # Columns of CSR (rows of CSC) come from an index that is built when first asked for: here, after the change.
    assert [X.entry(i, j) for i in range(n) for j in range(d)] == [
        as_matrix(source).entry(i, j) for i in range(n) for j in range(d)
    ]
    assert (X.dot(np.ones(d)) == as_matrix(source).dot(np.ones(d))).all()


@pytest.mark.parametrize("kind", [*DENSE, *SPARSE])
def test_wrapping_takes_no_memory(kind, tmp_path):
    big = np.zeros((4000, 500))
    big[:, ::50] = 1
    if kind in ("strided", "csr unsorted", "csc unsorted"):
        pytest.skip("made for small matrices; unsorted indices are sorted on the side to look for repeats")
    source = mapped(big, tmp_path) if kind == "memory map" else {**DENSE, **SPARSE}[kind](big)
    tracemalloc.start()
    try:
        X = as_matrix(source)
        X.dot_row(0, np.ones(500)) if X.has_columns != sp.issparse(source) else X.dot_column(0, np.ones(4000))
        assert tracemalloc.get_traced_memory()[1] < 150_000
    finally:
        tracemalloc.stop()


def test_the_source_lives_as_long_as_it_is_read():
    """SciPy's methods replace the arrays of a sparse matrix; the old ones must not be freed under the reader."""
    rng = np.random.default_rng(0)
    source = sp.random_array((300, 300), density=0.5, format="csr", rng=rng)
    X = as_matrix(source)
    expected = source @ np.ones(300)
    source.data, source.indices, source.indptr = np.zeros(0), np.zeros(0, np.int32), np.zeros(301, np.int32)
    filler = [np.full(45_000, np.nan) for _ in range(10)]
    assert np.allclose(X.dot(np.ones(300)), expected)
    assert np.allclose(X.dot_column(0, np.ones(300)), X.dot_transposed(np.ones(300))[0])
    del filler


def test_a_matrix_is_returned_as_it_is():
    X = as_matrix(values())
    assert as_matrix(X) is X


# The ledger


def counts(X):
    return X.ledger.entries_read, X.ledger.dense_count


def reads(X, operation, *arguments):
    """What one operation added to the ledger."""
    before = counts(X)
    getattr(X, operation)(*arguments)
    return tuple(b - a for a, b in zip(before, counts(X), strict=True))


def test_every_operation_is_counted_exactly(source):
    X = as_matrix(source)
    rows = [stored_of(source, source[[i], :]) for i in range(n)]
    columns = [stored_of(source, source[:, [j]]) for j in range(d)]
    w, p = np.ones(d), np.ones(n)
    for i in range(n):
        assert reads(X, "row", i) == (rows[i], d)
        assert reads(X, "dot_row", i, w) == (rows[i], d)
        assert reads(X, "add_row", i, 2.0, w.copy()) == (rows[i], d)
        assert reads(X, "entry", i, 1) == (1, 1)
    for j in range(d):
        assert reads(X, "column", j) == (columns[j], n)
        assert reads(X, "dot_column", j, p) == (columns[j], n)
        assert reads(X, "add_column", j, 2.0, p.copy()) == (columns[j], n)
    for operation, argument in ("dot", w), ("dot_transposed", p):
        assert reads(X, operation, argument) == (X.n_stored, n * d)
    assert reads(X, "dot", np.ones((d, 3))) == (3 * X.n_stored, 3 * n * d)
    assert reads(X, "dot", w, [1, 2, 3]) == (sum(rows[1:4]), 3 * d)
    assert reads(X, "dot_transposed", np.array([1.0, 0.0, 1.0]), [4, 5, 6]) == (rows[4] + rows[6], 2 * d)
    assert reads(X, "dense", [2, 3]) == (rows[2] + rows[3], 2 * d)
    assert reads(X, "row_sq_norms") == (X.n_stored, n * d)
    assert reads(X, "first_not_finite") == (X.n_stored, n * d)
    for operation, arguments in (("row", (n,)), ("dot_row", (0, p)), ("entry", (0, d)), ("dot", (p,))):
        before = counts(X)
        with pytest.raises((IndexError, ValueError)):
            getattr(X, operation)(*arguments)
        assert counts(X) == before


def test_an_index_is_booked_apart_and_once():
    for make, own, other in (sp.csr_array, "row", "column"), (sp.csc_array, "column", "row"):
        X = as_matrix(make(values()))
        assert X.has_columns == (own == "column")
        getattr(X, own)(0)
        assert X.ledger.purposes == {}
        with X.ledger.on("elsewhere"):
            getattr(X, other)(0)
        getattr(X, other)(1)
        assert X.ledger.purposes["index"] == (X.n_stored, n * d)
        assert X.has_columns


def test_a_dense_matrix_needs_no_index():
    X = as_matrix(values())
    assert X.has_columns
    X.column(0)
    X.row(0)
    assert X.ledger.purposes == {}


def test_reads_for_a_purpose_are_kept_apart():
    X = as_matrix(values())
    X.row(0)
    with X.ledger.on("outer") as ledger:
        assert ledger is X.ledger
        X.row(0)
        with X.ledger.on("inner"):
            X.column(0)
        X.row(1)
    with pytest.raises(IndexError), X.ledger.on("outer"):
        X.dot(np.ones(d), [0, n])
    X.ledger.book("given", 3, 4)
    assert X.ledger.purposes == {"inner": (n, n), "outer": (2 * d, 2 * d), "given": (3, 4)}
    assert counts(X) == (d, d)
    assert repr(X.ledger) == "Ledger(entries read: 5, dense count: 5, inner: 7, outer: 10, given: 3)"
    assert repr(Ledger()) == "Ledger(entries read: 0, dense count: 0)"


# Errors


@pytest.mark.parametrize(
    ("source", "error", "says"),
    [
        ([[1.0]], TypeError, "np.asarray"),
        (np.ma.masked_array(np.ones((2, 2)), mask=np.eye(2)), TypeError, "MaskedArray"),
        (np.ones(3), ValueError, r"shape \(3,\)"),
        (sp.csr_array(np.ones(3)), ValueError, r"shape \(3,\)"),
        (np.ones((2, 2), dtype=int), TypeError, "astype"),
        (np.ones((2, 2), dtype=">f8"), TypeError, "native"),
        (sp.csr_array(np.ones((2, 2), dtype=int)), TypeError, "astype"),
        (sp.coo_array(np.ones((2, 2))), TypeError, "COO.*tocsr"),
        (np.ones(2, dtype=[("a", "i1"), ("b", "f8", (3,))])["b"], ValueError, "whole items"),
    ],
)
def test_what_cannot_be_read(source, error, says):
    with pytest.raises(error, match=says):
        as_matrix(source)


@pytest.mark.parametrize(
    ("part", "array", "says"),
    [
        ("indices", [0, 2, 0], "indices holds 0 to 2, but must lie in 0 to 1"),
        ("indices", [0, -1, 0], "indices holds -1"),
        ("indptr", [0, 3, 2, 3], "indptr does not divide"),
        ("indptr", [0, 2, 3, 4], "indptr does not divide"),
        ("indptr", [1, 2, 3, 3], "indptr does not divide"),
        ("indptr", [0, 3], "indptr does not divide"),
    ],
)
@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_array])
def test_a_sparse_matrix_that_points_outside_itself_is_refused(part, array, says, make):
    X = make((np.ones(3), [0, 1, 0], [0, 2, 2, 3]), shape=(3, 2) if make is sp.csr_array else (2, 3))
    setattr(X, part, np.array(array, dtype=X.indices.dtype))
    with pytest.raises(ValueError, match=says):
        as_matrix(X)


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_a_sparse_matrix_of_strided_arrays_is_refused(part):
    """Its arrays would be read at the wrong places."""
    X = sp.csr_array(np.eye(3))
    setattr(X, part, np.repeat(getattr(X, part), 2)[::2])
    with pytest.raises(ValueError, match=rf"X.{part} is not contiguous"):
        as_matrix(X)
    assert (as_matrix(X.copy()).dot(np.ones(3)) == 1).all()


def test_a_sparse_matrix_with_room_to_spare_is_read():
    X = sp.csr_array(np.eye(3))
    X.data, X.indices = np.append(X.data, np.nan), np.append(X.indices, np.int32(99))
    matrix = as_matrix(X)
    assert matrix.n_stored == 3
    assert (matrix.dot(np.ones(3)) == 1).all()
    assert (matrix.dot_column(1, np.ones(3))) == 1


def test_what_cannot_be_asked(source):
    X = as_matrix(source)
    assert isinstance(X, Matrix)
    for operation, arguments, error, says in [
        ("row", (-1,), IndexError, "row -1 asked for, but the matrix has rows 0 to 6"),
        ("row", (n,), IndexError, "row 7"),
        ("column", (d,), IndexError, "column 5"),
        ("entry", (0, d), IndexError, "column 5"),
        ("entry", (-1, 0), IndexError, "row -1"),
        ("dot_row", (n, np.ones(d)), IndexError, "row 7"),
        ("dot_row", (0, np.ones(n)), ValueError, "w has 7 entries where the matrix needs 5"),
        ("add_column", (0, 1.0, np.ones(d)), ValueError, "p has 5 entries where the matrix needs 7"),
        ("dot", (np.ones(n),), ValueError, "w has 7 entries"),
        ("dot", (1.0,), ValueError, r"w has shape \(\)"),
        ("dot", (np.ones((d, 2, 2)),), ValueError, r"w has shape \(5, 2, 2\)"),
        ("dot", (np.ones(d), [3, 7]), IndexError, "rows 3 to 7 asked for, but the matrix has 7 rows"),
        ("dot", (np.ones(d), [-1]), IndexError, "rows -1 to -1"),
        ("dot_transposed", (np.ones(n), [0, 1, 2]), ValueError, "p has 7 entries where the matrix needs 3"),
        ("dot_transposed", (np.ones((n, 1)),), ValueError, r"p has shape \(7, 1\)"),
    ]:
        with pytest.raises(error, match=says):
            getattr(X, operation)(*arguments)


@pytest.mark.parametrize("storage", [np.array, sp.csr_array, sp.csc_array])
def test_a_fork_reads_the_same_with_books_of_its_own(storage):
    X = as_matrix(storage(np.arange(6.0).reshape(2, 3)))
    X.row(0)
    fork = X.fork()
    before = X.ledger.summary()
    assert fork.ledger.entries_read == 0
    with fork.ledger.on("looking"):
        np.testing.assert_array_equal(fork.dot(np.ones(3)), X.dot(np.ones(3)))
    fork.column(1)
    fork.row(1)
    for key, count in before.items():
        assert X.ledger.summary()[key] >= count
    read, forked = X.ledger.summary(), fork.ledger.summary()
    X.ledger.add(fork.ledger)
    total = X.ledger.summary()
    assert total == {key: read.get(key, 0) + forked.get(key, 0) for key in total}
    assert total.get("index", 0) == (0 if storage is np.array else X.n_stored)  # built once for both


def test_the_widest_instructions_of_the_processor_are_used():
    """A product of which only a fused multiply-add keeps the last digits shows which loop was called."""
    features = getattr(np._core._multiarray_umath, "__cpu_features__", {})
    built_by_gcc = "g++" in str(sysconfig.get_config_var("CXX")) and sys.platform == "linux"
    if not (built_by_gcc and features.get("AVX2") and features.get("FMA3")):
        pytest.skip("the loops are compiled for several instruction sets by GCC on Linux, for processors with AVX2")
    h = 2.0**-30
    v = np.full(64, -1.0)
    as_matrix(np.full((1, 64), 1 - h)).add_row(0, 1 + h, v)
    np.testing.assert_array_equal(v, -(h**2))  # 0 where the product is rounded before the sum
