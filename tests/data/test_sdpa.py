"""Files of semidefinite programs."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.data import FileFormatError, SdpaError, read_program, read_sdpa, write_sdpa

EXAMPLE = """"An example in all the dress that such files may wear
* and another comment
 3 = mDIM
2  =  nBLOCK
 (2, -3)  = bLOCKsTRUCT
{1.5, -2,
 1e+01}

0 1 1 1 -1.0
0,1,1,2,0.5
1 1 2 1 2
1 2 3 3 4.25
2 2 1 1 1
3 1 2 2 -1
"""


def matrices(F, m, n):
    return F.toarray().reshape(m, n, n)


def test_every_dress_is_read(tmp_path):
    path = tmp_path / "example.dat-s"
    path.write_text(EXAMPLE)
    found = read_sdpa(path)
    C = np.zeros((5, 5))
    C[0, 0], C[0, 1], C[1, 0] = -1, 0.5, 0.5
    A = np.zeros((3, 5, 5))
    A[0, 0, 1] = A[0, 1, 0] = 2
    A[0, 4, 4], A[1, 2, 2], A[2, 1, 1] = 4.25, 1, -1
    np.testing.assert_array_equal(found.C.toarray(), C)
    np.testing.assert_array_equal(matrices(found.A, 3, 5), A)
    np.testing.assert_array_equal(found.b, [1.5, -2, 10])
    assert found.blocks == (2, -3)
    assert found.sense.tolist() == ["="] * 3
    assert found.trace_bound is None


@st.composite
def programs(draw):
    blocks = draw(st.lists(st.integers(-3, 3).filter(bool), min_size=1, max_size=3))
    n, m = sum(map(abs, blocks)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    F = np.zeros((m + 1, n, n))
    at = 0
    for size in blocks:
        part = slice(at, at + abs(size))
        full = rng.normal(size=(m + 1, abs(size), abs(size))) * (rng.random((m + 1, abs(size), abs(size))) < 0.6)
        F[:, part, part] = full + full.transpose(0, 2, 1) if size > 0 else full * np.eye(abs(size))
        at += abs(size)
    return blocks, F[0], F[1:], rng.normal(size=m) * 10.0 ** rng.integers(-8, 8, m)


@settings(max_examples=40, deadline=None)
@given(programs(), st.sampled_from(["", ".gz", ".xz"]), st.booleans())
def test_what_is_written_is_read_to_the_bit(tmp_path_factory, program, suffix, sparse):
    blocks, C, A, b = program
    path = tmp_path_factory.mktemp("sdpa") / f"program.dat-s{suffix}"
    stored = sp.csr_array(A.reshape(len(A), -1)) if sparse else A
    write_sdpa(path, sp.csr_array(C) if sparse else C, stored, b, blocks=blocks, comment="written\nby a test")
    found = read_sdpa(path)
    np.testing.assert_array_equal(found.C.toarray(), C)
    np.testing.assert_array_equal(matrices(found.A, *A.shape[:2]), A)
    np.testing.assert_array_equal(found.b, b)
    assert found.blocks == tuple(blocks)


def test_inequalities_get_a_slack_each(tmp_path):
    path = tmp_path / "slacks.dat-s"
    A = np.array([np.eye(2), np.ones((2, 2)), np.diag([1.0, 0.0])])
    write_sdpa(path, np.eye(2), A, [1.0, 2.0, 3.0], ["<=", "=", ">="])
    found = read_sdpa(path)
    assert found.blocks == (2, -2)
    whole = matrices(found.A, 3, 4)
    np.testing.assert_array_equal(whole[:, :2, :2], A)
    np.testing.assert_array_equal(whole[:, 2:, 2:], [np.diag([1.0, 0]), np.zeros((2, 2)), np.diag([0, -1.0])])


HEAD = "1\n1\n2\n1\n"
BROKEN = [
    ("", 0, "the file ends after 0 of them; expected the number of constraints"),
    ("* only a comment\n", 1, "the file ends"),
    ("x\n", 1, "found 'x'; expected the number of constraints, m, a whole number"),
    ("1.5\n", 1, "found '1.5'"),
    ("0\n", 1, "found 0; expected the number of constraints, m, at least 1"),
    ("1\n2\n3\n", 3, "the file ends after 1 of them; expected 2 sizes of blocks"),
    ("1\n1\n2 2\n", 3, "found 2 words, up to '2'; expected sizes of blocks"),
    ("1\n1\n0\n1\n", 3, "found a block of size 0"),
    ("2\n1\n2\n1 nan\n", 4, "found 'nan'; expected a number of c, a finite decimal number"),
    ("2\n1\n2\n1 2 3\n", 4, "found 3 words, up to '3'; expected 2 numbers of c"),
    (HEAD + "0 1 1 1\n", 5, "found 4 words, '0 1 1 1'; expected five: matrix, block, row, column, value"),
    (HEAD + "0 1 1 1 1\n\n2 1 1 1 1\n", 7, "found the matrix 2; expected 0 for the objective, or 1 to 1"),
    (HEAD + "0 2 1 1 1\n", 5, "found the block 2; expected 1 to 1"),
    (HEAD + "0 1 3 1 1\n", 5, "found the row 3; expected 1 to 2, the size of block 1"),
    (HEAD + "0 1 1 0 1\n", 5, "found the column 0"),
    (HEAD + "0 1 1 a 1\n", 5, "found 'a'; expected a column, a whole number"),
    (HEAD + "0 1 1 1 1.x\n", 5, "found '1.x'; expected a value, a finite decimal number"),
    (HEAD + "0 1 1 1 inf\n", 5, "found 'inf'"),
    (HEAD + "0 1 1 2 1\n1 1 1 1 1\n0 1 2 1 3\n", 7, "found an entry that line 5 has already"),
    ("1\n1\n-2\n1\n0 1 1 2 1\n", 5, "found the entry (1, 2); expected an entry of the diagonal"),
]


@pytest.mark.parametrize(("text", "line", "message"), BROKEN)
def test_a_broken_line_is_named(tmp_path, text, line, message):
    path = tmp_path / "broken.dat-s"
    path.write_text(text)
    with pytest.raises(SdpaError) as error:
        read_sdpa(path)
    assert error.value.line == line
    assert str(error.value).startswith(f"{path}, line {line}: ")
    assert message in str(error.value)


def test_a_file_that_is_cut_off_is_named(tmp_path):
    path = tmp_path / "cut.dat-s.gz"
    path.write_bytes(gzip.compress(EXAMPLE.encode())[:-20])
    with pytest.raises(SdpaError, match="cut off or damaged"):
        read_sdpa(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"A": np.ones((1, 3, 3))}, "A must hold 1 matrices of 2 rows"),
        ({"b": [1.0, 2.0]}, "A must hold"),
        ({"b": [np.nan]}, "b holds NaN"),
        ({"C": np.full((2, 2), np.inf)}, "C holds NaN or infinity"),
        ({"blocks": [3]}, "add up to the 2 rows"),
        ({"blocks": [1, 1]}, r"entry \(0, 1\) of A_1 is outside the blocks"),
        ({"blocks": [-2]}, "outside the blocks"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(tmp_path, options, message):
    path = tmp_path / "program.dat-s"
    given = {"C": np.eye(2), "A": np.ones((1, 2, 2)), "b": [1.0]} | options
    with pytest.raises(ValueError, match=message):
        write_sdpa(path, given.pop("C"), given.pop("A"), given.pop("b"), **given)
    assert not list(tmp_path.iterdir())


# Arrays in .npz


def test_arrays_dense_or_sparse_are_one_program(tmp_path):
    A = np.array([np.eye(3), np.diag([1.0, 0.0, 2.0])])
    csr = sp.csr_array(A.reshape(2, 9))
    np.savez(tmp_path / "dense.npz", A=A, b=[1, 2], C=np.eye(3))
    parts = {"A_data": csr.data, "A_indices": csr.indices, "A_indptr": csr.indptr}
    np.savez(tmp_path / "sparse.npz", **parts, b=[1, 2], C=np.eye(3))
    np.savez(tmp_path / "no_objective.npz", **parts, b=[1, 2])
    dense, sparse, no_objective = (
        read_program(tmp_path / f"{name}.npz") for name in ("dense", "sparse", "no_objective")
    )
    np.testing.assert_array_equal(dense.A.reshape(2, 9), sparse.A.toarray())
    np.testing.assert_array_equal(no_objective.A.toarray(), sparse.A.toarray())
    assert not no_objective.C.any()
    assert dense.sense.tolist() == [">=", ">="]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"b": [1.0]}, "expected b and A"),
        ({"A": np.ones((1, 2, 2)), "b": [1.0], "c": np.eye(2)}, "unknown array 'c'"),
        ({"A": np.ones((1, 2, 2)), "b": 1.0}, r"b has shape \(\)"),
        ({"A": np.ones((1, 2, 2)), "b": ["x"]}, "b holds"),
        ({"A": np.ones((1, 2, 2)), "b": [1.0], "sense": ["=", "="]}, "sense is"),
        ({"A": np.ones((1, 2, 2)), "b": [1.0], "trace_bound": [1.0, 2.0]}, "trace_bound has shape"),
        (
            {"A_data": [1.0], "A_indices": [9], "A_indptr": [0, 1], "b": [1.0], "C": np.eye(2)},
            "not a file of a program",
        ),
    ],
)
def test_arrays_that_make_no_program_are_refused(tmp_path, arrays, message):
    path = tmp_path / "program.npz"
    np.savez(path, **arrays)
    with pytest.raises(FileFormatError, match=message):
        read_program(path)


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    path = tmp_path / "program.npz"
    path.write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(FileFormatError, match="not a file of a program"):
        read_program(path)
