"""LIBSVM files: every file is read as a slow reference parser reads it, or refused with line and column."""

import bz2
import gzip
import io
import lzma
import math
import re
import struct

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

import maxmargin.data.libsvm as libsvm
from maxmargin.data import LibsvmError, read_libsvm, write_libsvm


def read(text, **options):
    return read_libsvm(io.BytesIO(text.encode() if isinstance(text, str) else text), **options)


# A second reader, slow and plain


def reference(text, first):
    """Rows as (label, {index: value}), or None if the text is not a LIBSVM file."""
    rows = []
    for line in text.split(b"\n"):
        tokens = re.split(rb"[ \t\r\v\f]+", line.split(b"#")[0].strip(b" \t\r\v\f"))
        if tokens == [b""]:
            continue
        label, pairs = tokens[0], tokens[1:]
        if pairs and re.fullmatch(rb"qid:[0-9]+", pairs[0]):
            del pairs[0]
        row = {}
        for pair in pairs:
            parts = re.fullmatch(rb"([0-9]{1,18}):(.*)", pair)
            if not parts or not finite(parts[2]) or int(parts[1]) in row or int(parts[1]) < first:
                return None
            row[int(parts[1])] = float(parts[2])
        if not finite(label):
            return None
        rows.append((float(label), row))
    return rows


def finite(token):
    return bool(re.fullmatch(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", token)) and math.isfinite(
        float(token)
    )


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["inf", "-nan", "1e999", "", "-", "+", ".", "1e", "1e+", "--1", "0x1", "1_0", "-0", "9" * 400]),
)
indices = st.one_of(
    st.integers(0, 12).map(str), st.integers(-3, 10**20).map(str), st.sampled_from(["", "x", "+1", "007"])
)
pairs = st.one_of(
    st.builds("{}:{}".format, indices, numbers),
    st.sampled_from(["qid:3", "qid:x", "3", ":", "1:2:3", "#", "#1:2", "\0"]),
)
blanks = st.sampled_from([" ", "  ", "\t", " \r", "\v", "\f "])
lines = st.builds(
    lambda start, label, rest, end: start + label + "".join(gap + pair for gap, pair in rest) + end,
    st.sampled_from(["", "", " "]),
    numbers,
    st.lists(st.tuples(blanks, pairs), max_size=6),
    st.sampled_from(["", "\r", " ", "# 1:2", "\n"]),
)
texts = st.one_of(
    st.lists(lines, max_size=6).map(lambda lines: "\n".join(lines).encode()),
    st.text("0123456789.:+-eE# \n\r\tqid", max_size=60).map(str.encode),
    st.binary(max_size=60),
)


@settings(max_examples=250)
@given(text=texts, zero_based=st.booleans(), dtype=st.sampled_from([np.float64, np.float32]))
@example(b"1 1:1e39", False, np.float32)
@example(b"1 999999999999999999:1", True, np.float64)
@example(b"1 999999999999999999:1", False, np.float64)
def test_any_text_is_read_as_the_reference_reads_it_or_refused(text, zero_based, dtype):
    first = 0 if zero_based else 1
    rows = reference(text, first)
    if rows is not None:
        with np.errstate(over="ignore"):
            rows = [(label, {i: dtype(v) for i, v in row.items()}) for label, row in rows]
        largest = max((i for _, row in rows for i in row), default=first)
        if not all(np.isfinite(v) for _, row in rows for v in row.values()) or largest - first > 10**18 - 2:
            rows = None
    if rows is None:
        with pytest.raises(LibsvmError) as caught:
            read(text, zero_based=zero_based, dtype=dtype)
        line = text.split(b"\n")[caught.value.line - 1]
        assert 1 <= caught.value.column <= len(line)
        return
    X, y = read(text, zero_based=zero_based, dtype=dtype)
    assert y.tolist() == [label for label, _ in rows]
    assert X.shape[0] == len(rows)
    assert X.dtype == dtype
    for begin, end, (_, row) in zip(X.indptr[:-1], X.indptr[1:], rows, strict=True):
        assert (X.indices[begin:end] + first).tolist() == sorted(row)
        assert X.data[begin:end].tobytes() == np.array([row[i] for i in sorted(row)], dtype=dtype).tobytes()


@settings(max_examples=300)
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 25))
def test_values_are_the_bits_of_pythons_float(value, digits):
    for text in repr(value), f"{value:.{digits}e}", f"{value:+.{digits}g}", f"{value:.{digits}f}":
        if math.isfinite(float(text)):
            (read_back,) = read(f"0 1:{text}")[0].data
            assert struct.pack("d", read_back) == struct.pack("d", float(text)), text


@settings(max_examples=300)
@given(st.integers(0, 2**64), st.integers(-90, 90))
@example(2**53 + 1, 0)  # half way between two doubles
@example(9007199254740993, 3)
@example(5, -324)
@example(24703282292062327208, -342)
@example(17976931348623157, 292)
def test_values_at_every_scale_are_the_bits_of_pythons_float(mantissa, exponent):
    text = f"{mantissa}e{exponent}"
    assert read(f"{text}")[1][0] == float(text)


def test_half_way_cases_and_their_neighbours_are_the_bits_of_pythons_float():
    """Decimal numbers next to the middle between two doubles: where a fast conversion goes wrong."""
    rng = np.random.default_rng(0)
    texts = []
    for exponent in range(-70, 60):
        double = math.ldexp(int(rng.integers(2**52, 2**53)), exponent - 52)
        middle, scale = (2 * int(math.ldexp(double, 52 - exponent)) + 1), exponent - 53
        whole, power = (middle << scale, 0) if scale >= 0 else (middle * 5**-scale, scale)
        for digits in (17, 18, 19):
            cut = max(len(str(whole)) - digits, 0)
            texts += [f"{whole // 10**cut + step}e{power + cut}" for step in (-1, 0, 1)]
    X, _ = read("".join(f"0 1:{text}\n" for text in texts))
    assert X.data.tolist() == [float(text) for text in texts]


# What a file may hold


def test_comments_blanks_line_ends_and_query_numbers():
    X, y = read("# head\n\n+1 qid:7 1:1 3:-.5e1 # 9:9\r\n  \t\n-2.5\t2:+4.#\n3")
    assert y.tolist() == [1, -2.5, 3]
    assert X.toarray().tolist() == [[1, 0, -5], [0, 4, 0], [0, 0, 0]]


def test_unsorted_rows_are_sorted():
    X, _ = read("1 5:5 1:1 3:3\n1 2:2 4:4")
    assert X.indices.tolist() == [0, 2, 4, 1, 3]
    assert X.data.tolist() == [1, 3, 5, 2, 4]
    assert X.has_canonical_format


def test_zeros_that_are_written_stay_stored():
    X, _ = read("1 1:0 2:-0.0")
    assert X.nnz == 2
    assert math.copysign(1, X.data[1]) == -1


def test_an_empty_file_has_no_rows():
    X, y = read("")
    assert X.shape == (0, 0)
    assert y.shape == (0,)
    assert read("# nothing\n", n_features=3)[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("text", "zero_based", "columns"),
    [
        ("1 1:1\n1 3:1", "auto", [0, 2]),
        ("1 1:1\n1 3:1", False, [0, 2]),
        ("1 1:1\n1 3:1", True, [1, 3]),
        ("1 1:1\n1 0:1 3:1", "auto", [1, 0, 3]),
    ],
)
def test_zero_based(text, zero_based, columns):
    X, _ = read(text, zero_based=zero_based)
    assert X.indices.tolist() == columns
    assert X.shape[1] == max(columns) + 1


def test_number_of_columns_given():
    assert read("1 2:1", n_features=5)[0].shape == (1, 5)
    assert read("1 5:1", n_features=5)[0].shape == (1, 5)
    assert read("1 0:1 4:1", n_features=5)[0].shape == (1, 5)


def test_indices_are_as_narrow_as_they_can_be():
    assert read("1 1:1")[0].indices.dtype == np.int32
    assert read(f"1 {2**31 - 1}:1")[0].indices.dtype == np.int32
    X, _ = read(f"1 1:1\n1 {2**31 + 5}:2 {2**40}:3\n1 1:1\n")
    assert X.indices.dtype == X.indptr.dtype == np.int64
    assert X.indices.tolist() == [0, 2**31 + 4, 2**40 - 1, 0]
    assert X.data.tolist() == [1, 2, 3, 1]


@pytest.mark.parametrize("block", [1, 2, 7, 64])
def test_blocks_of_any_size_give_the_same(block, monkeypatch):
    rng = np.random.default_rng(0)
    X = sp.random_array((200, 30), density=0.2, format="csr", rng=rng)
    y = rng.integers(-1, 2, size=200)
    file = io.BytesIO()
    for row in range(200):
        pairs = " ".join(f"{j + 1}:{v!r}" for j, v in zip(X[[row]].indices, X[[row]].data.tolist(), strict=True))
        file.write(f"{y[row]} {pairs}\n".encode())
    monkeypatch.setattr(libsvm, "_BLOCK_BYTES", block)
    X_read, y_read = read(file.getvalue(), n_features=30)
    assert (X_read != X).nnz == 0
    assert (y_read == y).all()


def test_agrees_with_scikit_learn(tmp_path):
    rng = np.random.default_rng(1)
    X = sp.random_array((100, 50), density=0.1, format="csr", rng=rng, data_sampler=rng.standard_normal)
    write_libsvm(tmp_path / "rows", X, rng.integers(0, 3, size=100))
    theirs, their_y = load_svmlight_file(str(tmp_path / "rows"))
    ours, y = read_libsvm(tmp_path / "rows")
    assert (ours.toarray() == theirs.toarray()).all()
    assert (y == their_y).all()


def test_a_file_given_open_stays_open_and_must_be_binary():
    file = io.BytesIO(b"1 1:1\n")
    read_libsvm(file)
    assert not file.closed
    with pytest.raises(TypeError, match="binary mode"):
        read_libsvm(io.StringIO("1 1:1\n"))


# Errors


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("1 1:1\n\n# x\n1 2:1 3", 4, 7, "the colon is missing; got '3'"),
        ("1 1:1\n1 2:1 3:", 2, 7, "the value is missing.*got '3:'"),
        ("1 a:1", 1, 3, "not a whole number; got 'a:1'"),
        ("1 +1:1", 1, 3, "not a whole number"),
        ("1 1:x", 1, 3, "the value is not a number; got '1:x'"),
        ("1 1:1,5", 1, 3, "the value is not a number"),
        ("1 1:nan", 1, 3, "the value is not finite"),
        ("1 1:-Infinity", 1, 3, "the value is not finite"),
        ("1 1:1e400", 1, 3, "too large for float64"),
        ("1 -1:1", 1, 3, "the index is negative; got '-1:1'"),
        ("1 9999999999999999999:1", 1, 3, "more than 18 digits"),
        ("1 1:1 2:1 1:2", 1, 11, "twice in this row; got '1:2'"),
        ("  inf 1:1", 1, 3, "the label is not finite"),
        ("one 1:1", 1, 1, "the label is not a number; got 'one'"),
        ("1:1 2:2", 1, 1, "expected a label"),
        ("1,2 1:1", 1, 1, "several labels"),
        ("1 qid:x 1:1", 1, 3, "not a whole number"),
        ("1 1:1 qid:3", 1, 7, "not a whole number"),
        ("1 1:\u00e9" + "y" * 100, 1, 3, r"not a number; got '1:\u00e9y+'\.\.\."),
    ],
)
def test_errors_say_where_and_what(text, line, column, says):
    with pytest.raises(LibsvmError, match=says) as caught:
        read(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert f"line {line}, column {column}" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text", "column", "says"),
    [
        ({"zero_based": False}, "1 1:1 0:1", 7, "zero_based=True"),
        ({"n_features": 3}, "1 1:1 4:1", 7, "too large for n_features=3"),
        ({"n_features": 3, "zero_based": True}, "1 1:1 3:1", 7, "too large for n_features=3"),
        ({"n_features": 3}, "1 0:1 3:1", 7, "too large for n_features=3"),
        ({"n_features": 3}, "1 3:1\n1 0:1", 3, "zero-based, but the index 3 before this line .* n_features=3"),
        ({"dtype": np.float32}, "1 1:1e39", 3, "too large for float32"),
    ],
)
def test_errors_of_options(options, text, column, says):
    with pytest.raises(LibsvmError, match=says) as caught:
        read(text, **options)
    assert caught.value.column == column


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "rows.libsvm"
    path.write_text("1 x\n")
    with pytest.raises(LibsvmError, match=re.escape(f"{path}, line 1, column 3: ")):
        read_libsvm(path)
    with pytest.raises(FileNotFoundError):
        read_libsvm(tmp_path / "none.libsvm.gz")


@pytest.mark.parametrize("bad", [{"dtype": int}, {"zero_based": "yes"}, {"n_features": -1}])
def test_options_are_checked(bad):
    with pytest.raises((TypeError, ValueError), match=next(iter(bad))):
        read("1 1:1", **bad)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_a_compressed_file_that_is_cut_off_or_damaged(suffix, pack, tmp_path):
    rng = np.random.default_rng(0)
    whole = pack("".join(f"1 1:{x!r}\n" for x in rng.normal(size=2000).tolist()).encode())
    path = tmp_path / f"rows{suffix}"
    for broken in whole[:-20], whole[: len(whole) // 2], whole[:1000] + bytes(100) + whole[1100:]:
        path.write_bytes(broken)
        with pytest.raises(LibsvmError, match="cut off or damaged") as caught:
            read_libsvm(path)
        assert caught.value.line is not None
    path.write_bytes(whole)
    assert read_libsvm(path)[0].shape == (2000, 1)


# Writing

matrices = st.builds(
    lambda rows, dtype: sp.csr_array(np.array(rows, dtype=dtype)),
    st.integers(1, 4).flatmap(
        lambda d: st.lists(
            st.lists(
                st.floats(allow_nan=False, allow_infinity=False, width=32) | st.sampled_from([0.0, -0.0, 1e-45, 0.1]),
                min_size=d,
                max_size=d,
            ),
            min_size=1,
            max_size=5,
        )
    ),
    st.sampled_from([np.float32, np.float64]),
)


@settings(max_examples=200)
@given(X=matrices, suffix=st.sampled_from(["", ".gz", ".bz2", ".xz"]), zero_based=st.booleans(), data=st.data())
def test_a_round_trip_is_exact(tmp_path_factory, X, suffix, zero_based, data):
    finite_floats = st.floats(allow_nan=False, allow_infinity=False)
    y = np.array(data.draw(st.lists(finite_floats, min_size=X.shape[0], max_size=X.shape[0])))
    path = tmp_path_factory.getbasetemp() / f"round{suffix}"
    write_libsvm(path, X, y, zero_based=zero_based)
    X_read, y_read = read_libsvm(path, n_features=X.shape[1], dtype=X.dtype, zero_based=zero_based)
    for ours, theirs in (X_read.data, X.data), (X_read.indices, X.indices), (X_read.indptr, X.indptr), (y_read, y):
        assert ours.tobytes() == theirs.tobytes()


def test_numbers_are_written_with_the_fewest_digits(tmp_path):
    write_libsvm(tmp_path / "rows", np.array([[0.1, 1.0, 1e-7, 1 / 3]], dtype=np.float32), [1])
    assert (tmp_path / "rows").read_text() == "1 1:0.1 2:1 3:1e-07 4:0.33333334\n"
    write_libsvm(tmp_path / "rows", np.array([[0.1, 1e22, 1 / 3]]), np.array([True]))
    assert (tmp_path / "rows").read_text() == "1 1:0.1 2:1e+22 3:0.3333333333333333\n"


@pytest.mark.parametrize("make", [sp.csc_array, sp.coo_matrix, sp.csr_matrix, np.asfortranarray])
def test_any_matrix_can_be_written(make, tmp_path):
    dense = np.array([[0, 1.5], [0, 0], [2, 3]])
    write_libsvm(tmp_path / "rows", make(dense), [1, 2, 3])
    assert read_libsvm(tmp_path / "rows")[0].toarray().tolist() == dense.tolist()


def test_duplicates_are_summed_and_the_matrix_is_left_alone(tmp_path):
    X = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    write_libsvm(tmp_path / "rows", X, [1])
    assert (tmp_path / "rows").read_text() == "1 1:2 2:5\n"
    assert X.data.tolist() == [1, 2, 4]


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        (np.array([[1.0], [np.nan]]), [1, 2], "X holds nan in row 1"),
        (sp.csr_array([[0.0, 1.0], [np.inf, 0.0]]), [1, 2], "X holds inf in row 1"),
        (np.ones((2, 1)), [1, np.inf], "y holds inf in row 1"),
        (np.ones((2, 1)), [1], "X has 2 rows"),
        (np.ones((2, 1)), ["a", "b"], "Number the classes"),
        (np.ones((2, 1), dtype=int), [1, 2], "astype"),
        (np.ones(2), [1, 2], "shape"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(X, y, says, tmp_path):
    (tmp_path / "rows.gz").write_bytes(b"before")
    with pytest.raises((TypeError, ValueError), match=says):
        write_libsvm(tmp_path / "rows.gz", X, y)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.gz"]
    assert (tmp_path / "rows.gz").read_bytes() == b"before"


def test_an_interrupt_leaves_no_file(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(libsvm, "_text_of", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_libsvm(tmp_path / "rows", np.ones((2, 1)), [1, 2])
    assert list(tmp_path.iterdir()) == []


def test_the_same_rows_give_the_same_bytes(tmp_path):
    for name in "a.gz", "b.gz":
        write_libsvm(tmp_path / name, np.ones((2, 1)), [1, 2])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
