"""The matrices of a semidefinite program, however they are given."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.data import SymmetricMatrices, as_symmetric_matrices


def matrices(m, n, seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, n, n)) * (rng.random((m, n, n)) < share)
    return A + A.transpose(0, 2, 1)


def ways(A):
    """The same matrices in every way that they may be given."""
    m, n, _ = A.shape
    flat = A.reshape(m, n * n)
    return {
        "array": A,
        "fortran": np.asfortranarray(A),
        "list of arrays": list(A),
        "list of lists": A.tolist(),
        "list of sparse": [sp.csr_array(one) for one in A],
        "mixed list": [sp.coo_matrix(one) if i % 2 else one for i, one in enumerate(A)],
        "csr": sp.csr_array(flat),
        "csc matrix": sp.csc_matrix(flat),
        "coo": sp.coo_array(flat),
        "by entry": SymmetricMatrices.by_entry(m, n, lambda i, j, l: A[i, j, l]),
    }


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 1000))
def test_every_way_reads_the_same(m, n, seed):
    A = matrices(m, n, seed)
    rng = np.random.default_rng(seed)
    V, p = rng.normal(size=(n, 2)), rng.random(m) * (rng.random(m) < 0.7)
    j, l, i = rng.integers(n), rng.integers(n), rng.integers(m)
    for name, way in ways(A).items():
        given = as_symmetric_matrices(way)
        assert given.shape == A.shape, name
        np.testing.assert_array_equal(given.entries(j, l), A[:, j, l], err_msg=name)
        np.testing.assert_array_equal(given.matrix(i), A[i], err_msg=name)
        np.testing.assert_allclose(given.products(V @ V.T), np.einsum("ijl,jr,lr->i", A, V, V), atol=1e-12)
        np.testing.assert_allclose(given.products(factor=V), given.products(V @ V.T), atol=1e-12)
        np.testing.assert_allclose(given.combination(p), np.einsum("i,ijl->jl", p, A), atol=1e-12)
        np.testing.assert_allclose(given.frobenius(), np.linalg.norm(A, axis=(1, 2)), atol=1e-12)
        assert as_symmetric_matrices(given) is given


def test_float32_stays_and_whole_numbers_are_taken():
    A = matrices(3, 4)
    single = as_symmetric_matrices(A.astype(np.float32))
    np.testing.assert_array_equal(single.matrix(1), A[1].astype(np.float32))
    np.testing.assert_array_equal(
        as_symmetric_matrices(np.array([[[1, 2], [2, 3]]])).matrix(0), [[1.0, 2.0], [2.0, 3.0]]
    )


@pytest.mark.parametrize("way", ["array", "by entry", "csr"])
def test_reads_are_counted(way):
    A = matrices(5, 4)
    given = as_symmetric_matrices(ways(A)[way])
    stored = np.ones_like(A, dtype=bool) if way != "csr" else A != 0
    assert given.ledger.summary().get("validation", 0) == (0 if way == "by entry" else stored.sum())
    given.entries(1, 2)
    assert given.ledger.entries_read == stored[:, 1, 2].sum() <= given.most_per_entry
    given.matrix(3)
    assert given.ledger.entries_read == stored[:, 1, 2].sum() + stored[3].sum()
    assert stored[3].sum() <= given.most_per_matrix
    before = given.ledger.entries_read
    given.products(np.eye(4))
    assert given.ledger.entries_read == before + stored.sum()
    given.combination(np.array([0.0, 1.0, 0.0, 1.0, 0.0]))
    assert given.ledger.entries_read == before + stored.sum() + stored[[1, 3]].sum()


def test_large_ones_are_read_in_blocks(monkeypatch):
    A = matrices(7, 3)
    monkeypatch.setattr("maxmargin.data.symmetric_matrices.ENTRIES_AT_ONCE", 20)
    largest = 0

    def entry(i, j, l):
        nonlocal largest
        values = A[i, j, l]
        largest = max(largest, values.size)
        return values

    given = SymmetricMatrices.by_entry(7, 3, entry)
    np.testing.assert_allclose(given.products(np.eye(3)), np.trace(A, axis1=1, axis2=2))
    np.testing.assert_allclose(given.frobenius(), np.linalg.norm(A, axis=(1, 2)))
    np.testing.assert_allclose(given.combination(np.ones(7)), A.sum(axis=0))
    assert largest == 18
    with pytest.raises(ValueError, match=r"matrix 5 is not symmetric: entry \(0, 2\)"):
        as_symmetric_matrices(spoiled(A, 5, 0, 2, 9.0))


def spoiled(A, i, j, l, value):
    A = A.copy()
    A[i, j, l] = value
    return A


@pytest.mark.parametrize("way", ["array", "list of sparse", "csr", "by entry"])
@pytest.mark.parametrize(
    ("value", "message"), [(9.0, r"is not symmetric: entry \(\d, \d\)"), (np.nan, "finite"), (np.inf, "finite")]
)
def test_matrices_that_are_none(way, value, message):
    bad = spoiled(matrices(4, 3), 2, 0, 1, value)
    with pytest.raises(ValueError, match=message) as error:
        as_symmetric_matrices(ways(bad)[way]).matrix(2)
    assert "matrix 2" in str(error.value) or "entry(2, 0, 1)" in str(error.value)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (np.eye(3), ValueError, r"shape \(3, 3\). Give a single matrix as A\[None\]"),
        (np.zeros((2, 3, 4)), ValueError, r"shape \(2, 3, 4\)"),
        (np.zeros((0, 3, 3)), ValueError, "at least one matrix"),
        (np.zeros((2, 0, 0)), ValueError, "at least one row"),
        ([], ValueError, "empty"),
        ([np.eye(2), np.eye(3)], ValueError, r"matrix 0 has shape \(2, 2\), matrix 1 has shape \(3, 3\)"),
        ([np.eye(2), sp.csr_array((2, 3))], ValueError, "square"),
        (sp.csr_array((3, 5)), ValueError, r"\(m, n \* n\)"),
        (np.eye(2)[None] * 1j, TypeError, "complex"),
        ("A", TypeError, "got str"),
        (3.0, TypeError, "got float"),
    ],
)
def test_bad_input(given, error, message):
    with pytest.raises(error, match=message):
        as_symmetric_matrices(given)


def test_bad_questions():
    given = as_symmetric_matrices(matrices(3, 2))
    with pytest.raises(ValueError, match="either X or its factor"):
        given.products()
    with pytest.raises(ValueError, match=r"expected \(2, 2\)"):
        given.products(np.eye(3))
    with pytest.raises(ValueError, match=r"expected \(2, r\)"):
        given.products(factor=np.ones(2))
    with pytest.raises(ValueError, match=r"expected \(3,\)"):
        given.combination(np.ones(2))
    with pytest.raises(ValueError, match="at least one matrix"):
        SymmetricMatrices.by_entry(0, 2, lambda i, j, l: 0.0)
    with pytest.raises(ValueError, match="returned an array of shape"):
        SymmetricMatrices.by_entry(3, 2, lambda i, j, l: np.zeros(2)).entries(0, 0)
