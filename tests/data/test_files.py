"""Tables of every kind give the same rows and labels; what is wrong with one is said with its place."""

import bz2
import gzip
import os
import stat

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.data import FileFormatError, LibsvmError, atomic_write, convert, load_table, read_table, write_libsvm

X = np.array([[1.5, 0.0, -2.0], [0.0, 3.25, 1e-7], [4.0, 5.0, 6.0]])
y = np.array([1.0, -1.0, 1.0])


def csv_text(separator=",", header="a,b,c,kind\n"):
    rows = (separator.join(map(repr, [*row, label])) for row, label in zip(X.tolist(), y.tolist(), strict=True))
    return header.replace(",", separator) + "\n".join(rows) + "\n"


def save_libsvm(path):
    write_libsvm(path, X, y)


def save_csv(path):
    opened = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    with opened(path, "wt") as file:
        file.write(csv_text("\t" if ".tsv" in path.name else ","))


def save_npz_sparse(path):
    sparse = sp.csr_array(X)
    np.savez(path, data=sparse.data, indices=sparse.indices, indptr=sparse.indptr, shape=X.shape, format=b"csr", y=y)


SAVE = {
    "rows.libsvm": save_libsvm,
    "rows.svm.gz": save_libsvm,
    "rows.svmlight.bz2": save_libsvm,
    "rows.txt": save_libsvm,
    "rows": save_libsvm,
    "rows.xz": save_libsvm,
    "rows.csv": save_csv,
    "rows.CSV": save_csv,
    "rows.tsv": save_csv,
    "rows.csv.gz": save_csv,
    "table.dat": save_csv,
    "table.data.bz2": save_csv,
    "rows.npy": lambda path: np.save(path, np.column_stack([X, y])),
    "rows.npz": lambda path: np.savez(path, X=X, y=y),
    "sparse.npz": save_npz_sparse,
}


@pytest.mark.parametrize("name", SAVE)
def test_every_kind_of_file_gives_the_same(name, tmp_path):
    SAVE[name](tmp_path / name)
    rows, labels = read_table(tmp_path / name)
    assert (rows.toarray() if sp.issparse(rows) else rows).tolist() == X.tolist()
    assert labels.tolist() == y.tolist()
    assert rows.dtype == np.float64


@pytest.mark.parametrize("name", [name for name in SAVE if not name.endswith((".npy", ".npz"))])
def test_text_is_read_as_float32_if_asked(name, tmp_path):
    SAVE[name](tmp_path / name)
    rows, _ = read_table(tmp_path / name, dtype=np.float32)
    assert rows.dtype == np.float32
    assert (rows.toarray() if sp.issparse(rows) else rows).tolist() == X.astype(np.float32).tolist()


def write(tmp_path, text, name="rows.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


# CSV


@pytest.mark.parametrize(
    ("column", "labels", "row"),
    [
        ("last", [3, 6], [1, 2]),
        (-1, [3, 6], [1, 2]),
        ("first", [1, 4], [2, 3]),
        (0, [1, 4], [2, 3]),
        (1, [2, 5], [1, 3]),
        ("b", [2, 5], [1, 3]),
    ],
)
def test_label_column(column, labels, row, tmp_path):
    rows, read = read_table(write(tmp_path, "a,b,c\n1,2,3\n4,5,6\n"), label_column=column)
    assert read.tolist() == labels
    assert rows[0].tolist() == row


def test_a_name_comes_before_a_word(tmp_path):
    assert read_table(write(tmp_path, "last,b\n1,2\n"))[1].tolist() == [1]


@pytest.mark.parametrize(("column", "says"), [("d", "the columns a, b, c"), (3, "3 columns"), (-4, "3 columns")])
def test_no_such_label_column(column, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        read_table(write(tmp_path, "a,b,c\n1,2,3\n"), label_column=column)


def test_header_is_found_or_given(tmp_path):
    assert read_table(write(tmp_path, "1,2,x\n3,4,y\n"))[1].tolist() == ["x", "y"]
    assert read_table(write(tmp_path, "1,2,3\n3,4,5\n"), header=True)[0].tolist() == [[3, 4]]
    with pytest.raises(ValueError, match="no header"):
        read_table(write(tmp_path, "1,2,3\n"), label_column="a")
    with pytest.raises(FileFormatError, match=r"line 1: the label is 'c', but .* the next row is '3'.*header=True"):
        read_table(write(tmp_path, "1,2,c\n1,2,3\n"))
    assert read_table(write(tmp_path, "1,2,c\n1,2,3\n"), header=False)[1].tolist() == ["c", "3"]
    with pytest.raises(FileFormatError, match=r"line 1, column 1.*'a'"):
        read_table(write(tmp_path, "a,b,c\n1,2,3\n"), header=False)


def test_text_is_not_taken_for_labels_if_the_labels_are_in_a_given_column(tmp_path):
    file = write(tmp_path, "a,city,kind\n1,Rome,x\n2,Oslo,y\n")
    with pytest.raises(FileFormatError, match=r"'Rome'.*Leave out columns that are not features") as error:
        read_table(file, label_column="kind")
    assert "--label-column" not in str(error.value)


def test_quotes_blank_lines_bom_crlf_and_semicolons(tmp_path):
    text = '\ufeff"a";"b"\r\n\r\n"1.5";" yes; or ""no"" "\r\n-2;é\r\n'
    rows, labels = read_table(write(tmp_path, text))
    assert rows.tolist() == [[1.5], [-2]]
    assert labels.tolist() == ['yes; or "no"', "é"]


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("a,b,c\n1,2,3\n\n4,x,6\n", 4, 2, "the cell of the column 'b' holds 'x'"),
        ("1,2,3\n4,,6\n", 2, 2, "the cell holds ''.*fill them in, .* SimpleImputer"),
        ("1,2,3\n4,NA,6\n", 2, 2, "the cell holds 'NA'.*SimpleImputer"),
        ("1,2,3\n4,red,6\n", 2, 2, r"the cell holds 'red'.*\(--label-column 1\)\. .*OneHotEncoder"),
        ("1,2,3\nnan,2,6\n", 2, 1, "finite"),
        ("a,b,kind\n1,2,yes\n3,4, \n5,6,no\n", 3, 3, "the label is missing.*leave out the rows"),
        ("1,2,0\n3,4,1\n5,6,\n", 3, 3, "the label is missing"),
        ("1,2,0\n3,4,NaN\n5,6,1\n", 2, 3, "the label is missing"),
        ("1,2,\n3,4,1\n", 1, 3, "the label is missing"),
        ("1,2,3\n1,-inf,6\n", 2, 2, "finite"),
        ("1,x,3\n1,2,6\n", 1, 2, "header=True"),
        ("1,2,3\n4,5\n", 2, None, "2 cells, but the first line has 3"),
        ("1,2,3\n4,5,6,7\n", 2, None, "4 cells"),
        ("", None, None, "no rows"),
        ("a,b\n", None, None, "no rows"),
    ],
)
def test_csv_errors_say_where_and_what(text, line, column, says, tmp_path):
    with pytest.raises(FileFormatError, match=says) as caught:
        read_table(write(tmp_path, text))
    assert (caught.value.line, caught.value.column) == (line, column)


def test_a_missing_label_is_an_error_only_if_labels_are_required(tmp_path):
    path = write(tmp_path, "a,b,kind\n1,2,yes\n3,4,\n5,6,\n")
    table = load_table(path)
    assert table.y.tolist() == ["yes", "", ""]
    assert table.missing_label == (3, 3)
    with pytest.raises(FileFormatError, match="line 3, column 3: the label is missing"):
        convert(path, tmp_path / "rows.npy")


def test_large_numbers_are_judged_one_by_one(tmp_path):
    text = "1e308,1e308,-1e308,1\n"
    assert read_table(write(tmp_path, text))[0].tolist() == [[1e308, 1e308, -1e308]]
    with pytest.raises(FileFormatError, match="line 1, column 1"):
        read_table(write(tmp_path, text), dtype=np.float32)


def test_bytes_that_are_not_utf8(tmp_path):
    (tmp_path / "rows.csv").write_bytes(b"1,2\n3,\xff\n")
    with pytest.raises(FileFormatError, match="UTF-8"):
        read_table(tmp_path / "rows.csv")


def test_a_cut_off_table(tmp_path):
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(csv_text().encode())[:-10])
    with pytest.raises(FileFormatError, match="cut off"):
        read_table(tmp_path / "rows.csv.gz")


# Which format


def test_format_is_guessed_or_given(tmp_path):
    assert read_table(write(tmp_path, "1\n-1\n1 2:3\n", "a.txt"))[0].shape == (3, 2)
    assert read_table(write(tmp_path, "1\n-1\n", "a.txt"))[0].shape == (2, 0)
    assert read_table(write(tmp_path, "1\t2\n", "a.txt"))[0].shape == (1, 1)
    assert read_table(write(tmp_path, "1,2\n", "a.libsvm"), format="csv")[0].shape == (1, 1)
    with pytest.raises(FileFormatError, match="format="):
        read_table(write(tmp_path, "1 2 3\n", "a.txt"))
    with pytest.raises(LibsvmError, match="several labels"):
        read_table(write(tmp_path, "1,2 3:1\n", "a.txt"))
    with pytest.raises(ValueError, match="format is 'xml'"):
        read_table(write(tmp_path, ""), format="xml")


def test_libsvm_options_are_passed_on(tmp_path):
    rows, _ = read_table(write(tmp_path, "1 1:1\n", "a.svm"), n_features=7, zero_based=True)
    assert rows.shape == (1, 7)
    assert rows.indices.tolist() == [1]


# NumPy's files


def test_npy_is_mapped_and_not_copied(tmp_path):
    np.save(tmp_path / "a.npy", np.column_stack([X, y]))
    rows, labels = read_table(tmp_path / "a.npy")
    assert isinstance(rows, np.memmap)
    assert not isinstance(labels, np.memmap)
    rows, labels = read_table(tmp_path / "a.npy", label_column="first")
    assert labels.tolist() == X[:, 0].tolist()
    assert isinstance(rows, np.memmap)
    with pytest.raises(ValueError, match="first or the last"):
        read_table(tmp_path / "a.npy", label_column=1)


@pytest.mark.parametrize("name", ["y.npy", "y.txt", "y.txt.gz"])
def test_labels_in_a_file_of_their_own(name, tmp_path):
    np.save(tmp_path / "a.npy", X)
    sp.save_npz(tmp_path / "a.npz", sp.csc_array(X))
    if name == "y.npy":
        np.save(tmp_path / name, y)
    else:
        np.savetxt(tmp_path / name, y)
    for rows in "a.npy", "a.npz":
        read, labels = read_table(tmp_path / rows, labels=tmp_path / name)
        assert read.shape == X.shape
        assert labels.tolist() == y.tolist()
    with pytest.raises(ValueError, match="which contains labels"):
        read_table(write(tmp_path, "1,2\n"), labels=tmp_path / name)


def test_text_labels_and_integer_rows(tmp_path):
    np.savez(tmp_path / "a.npz", X=X.astype(np.int8), y=np.array(["a", "b", "a"]))
    rows, labels = read_table(tmp_path / "a.npz", dtype=np.float32)
    assert rows.dtype == np.float32
    assert labels.tolist() == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"X": X}, "no labels"),
        ({"y": y}, "expected arrays X and y; found y"),
        ({"X": X, "y": y[:2]}, "3 rows, but labels of shape"),
        ({"X": y, "y": y}, "rows of shape"),
        ({"X": X.astype("U5"), "y": y}, "expected numbers"),
        ({"X": X.astype(object), "y": y}, "plain arrays"),
    ],
)
def test_npz_errors(arrays, says, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(FileFormatError, match=says):
        read_table(tmp_path / "a.npz")


def test_pickles_and_broken_files_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", X.astype(object), allow_pickle=True)
    with pytest.raises(FileFormatError, match="plain arrays"):
        read_table(tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", X=X, y=y)
    whole = (tmp_path / "a.npz").read_bytes()
    for broken in whole[:-30], b"PK\x03\x04", b"hello":
        for name in "b.npz", "b.npy":
            (tmp_path / name).write_bytes(broken)
            with pytest.raises(FileFormatError, match="plain arrays"):
                read_table(tmp_path / name)
    np.save(tmp_path / "c.npy", y)
    with pytest.raises(FileFormatError, match="shape"):
        read_table(tmp_path / "c.npy")


# Writing whole or not at all


def test_atomic_write_replaces_and_keeps_permissions(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["a"]


def test_atomic_write_follows_links(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with atomic_write(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_atomic_write_leaves_nothing_after_an_error(error, tmp_path):
    def write_half():
        with atomic_write(tmp_path / "a") as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write_half()
    assert os.listdir(tmp_path) == []


def test_atomic_write_refuses_folders_and_says_so(tmp_path):
    with pytest.raises(OSError, match="not a regular file"), atomic_write(tmp_path):
        pass
    missing = pytest.raises(FileNotFoundError, match=r"the folder does not exist.*none/a'$")
    with missing, atomic_write(tmp_path / "none" / "a"):
        pass
