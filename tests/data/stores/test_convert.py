"""Data in any format written in any other: nothing changes, memory is bounded, and errors leave nothing behind."""

import errno
import os
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from maxmargin.data import convert, load_table, open_store, read_table, write_libsvm
from maxmargin.data.stores import row_streams, writers

rng = np.random.default_rng(0)
X = np.where(rng.random((60, 7)) < 0.4, rng.standard_normal((60, 7)), 0)
y = rng.integers(-1, 2, 60).astype(float)
WORDS = np.array(["some", "words", "né"])[y.astype(int) + 1]

TARGETS = ["a.zarr", "a.h5", "a.hdf5", "a.parquet", "a.arrow", "a.feather", "a.npy", "a.libsvm", "a.svm.gz"]
SPARSE_TARGETS = ["a.zarr", "a.h5"]


def rows_of(X):
    """The whole matrix, sparse or dense as it is."""
    if not hasattr(X, "rows"):
        return X
    blocks = [X.rows.read(k).lines for k in range(len(X.rows.starts) - 1)]
    return sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)


def dense(X):
    rows = rows_of(X)
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def write_source(path, X, y):
    """Data to be converted, by the end of its name."""
    if path.name.endswith(".npz"):
        np.savez(path, X=X, y=y)
    elif path.name.endswith(".csv"):
        lines = [",".join([*map(repr, row), str(label)]) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
        path.write_text("\n".join([",".join([*(f"f{k}" for k in range(X.shape[1])), "kind"]), *lines, ""]))
    else:
        write_libsvm(path, X, y)
    return path


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["in.npz", "in.csv", "in.libsvm"])
def test_rows_and_labels_are_the_same(source, target, tmp_path):
    convert(write_source(tmp_path / source, X, y), tmp_path / target)
    rows, labels = read_table(tmp_path / target)
    assert np.array_equal(dense(rows), X)
    assert labels.tolist() == y.tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source, target])


@settings(max_examples=25)
@given(
    X=arrays(
        st.sampled_from([np.float32, np.float64]),
        st.tuples(st.integers(1, 12), st.integers(1, 5)),
        elements=st.floats(-1e6, 1e6, width=32) | st.just(0.0),
    ),
    source=st.sampled_from(TARGETS),
    target=st.sampled_from(TARGETS),
    data=st.data(),
)
def test_round_trips(X, source, target, data):
    """Values, their type, labels and stored entries come back from each format by way of each other one."""
    y = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=len(X), max_size=len(X))))
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/in.npz", X=X, y=y)
        convert(f"{folder}/in.npz", first := f"{folder}/1{source}")
        convert(first, second := f"{folder}/2{target}")
        rows, labels = read_table(second, **({"n_features": X.shape[1]} if "svm" in target else {}))
        as_text = any("svm" in name for name in (source, target))
        # The widths of LIBSVM files are those of their last column that is not zero.
        width = dense(rows).shape[1]
        # A LIBSVM file has the fewest digits that give a number back in the type that it had.
        assert np.array_equal(dense(rows).astype(X.dtype), X[:, :width])
        assert not X[:, width:].any()
        if width:
            assert rows.dtype == (np.float64 if as_text else X.dtype)
        assert labels.tolist() == y.tolist()


@pytest.mark.parametrize("target", SPARSE_TARGETS)
def test_a_sparse_matrix_keeps_its_structure(target, tmp_path):
    matrix = sp.csr_array(X)
    matrix.data[3] = 0  # a zero that is stored stays stored
    write_libsvm(tmp_path / "in.libsvm", matrix, y)
    convert(tmp_path / "in.libsvm", tmp_path / target, also_by_column=True)
    source, labels = read_table(tmp_path / target)
    rows = rows_of(source)
    assert (rows.data.tolist(), rows.indices.tolist(), rows.indptr.tolist()) == (
        matrix.data.tolist(),
        matrix.indices.tolist(),
        matrix.indptr.tolist(),
    )
    assert labels.tolist() == y.tolist()
    columns = np.concatenate([source.columns.read(k).lines.toarray() for k in range(len(source.columns.starts) - 1)])
    assert np.array_equal(columns, matrix.toarray().T)
    assert source.columns.read_ahead  # it reads the second copy
    convert(tmp_path / target, tmp_path / "back.libsvm")
    assert (tmp_path / "back.libsvm").read_bytes() == (tmp_path / "in.libsvm").read_bytes()


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("source", ["in.npz", "in.libsvm"])
@pytest.mark.parametrize("target", SPARSE_TARGETS)
def test_zeros_are_stored_or_left_out_as_asked(target, source, sparse, tmp_path):
    convert(write_source(tmp_path / source, X, y), tmp_path / target, sparse=sparse)
    stored = open_store(tmp_path / target)
    assert stored.n_stored == (np.count_nonzero(X) if sparse else X.size)
    assert np.array_equal(dense(stored), X)


@pytest.mark.parametrize(("tall", "narrow"), [(60, 1), (60, 2), (40, 2), (20, 1)])
@pytest.mark.parametrize("target", SPARSE_TARGETS)
def test_a_dense_matrix_by_rows_and_by_columns(target, tall, narrow, tmp_path, monkeypatch):
    """Bands of 20 rows are held, of which there are three; a chunk of columns takes `tall` rows of `narrow` columns."""
    monkeypatch.setattr(writers, "BAND_BYTES", 20 * 7 * 8)
    monkeypatch.setattr(writers, "NARROW_BYTES", narrow * 60 * 8)
    monkeypatch.setattr(writers, "CHUNK_BYTES", tall * 8)
    monkeypatch.setattr(writers, "PART_BYTES", 3 * 20 * 8)
    convert(write_source(tmp_path / "in.npz", X, y), tmp_path / target, chunks=(10, 3), also_by_column=True)
    group = zarr.open_group(tmp_path / target, mode="r") if target == "a.zarr" else h5py.File(tmp_path / target)
    assert group["X"].chunks == (10, 3)
    assert group["X_by_column"].chunks == (tall, 60 * narrow // tall)
    assert np.array_equal(group["X_by_column"][:], X)
    assert np.array_equal(group["X"][:], X)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.npz", target])


def test_chunks_of_a_table_are_row_groups(tmp_path):
    convert(write_source(tmp_path / "in.npz", X, y), tmp_path / "a.parquet", chunks=(25, 1))
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    assert [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)] == [25, 25, 10]


@pytest.mark.parametrize("target", ["a.zarr", "a.h5", "a.parquet", "a.arrow"])
def test_labels_that_are_words(target, tmp_path):
    convert(write_source(tmp_path / "in.csv", X, WORDS), tmp_path / target)
    assert read_table(tmp_path / target)[1].tolist() == WORDS.tolist()


def test_names_of_columns_are_kept(tmp_path):
    convert(write_source(tmp_path / "in.csv", X, y), tmp_path / "a.parquet", label_column="f2")
    table = load_table(tmp_path / "a.parquet")
    assert table.names == ["f0", "f1", "f3", "f4", "f5", "f6", "kind"]
    assert table.y.tolist() == X[:, 2].tolist()


def test_without_labels(tmp_path):
    np.save(tmp_path / "in.npy", X)
    for target in ("a.zarr", "a.parquet", "a.npy"):
        convert(tmp_path / "in.npy", tmp_path / target, label_column=None)
        table = load_table(tmp_path / target, label_column=None)
        assert table.y is None
        assert np.array_equal(dense(table.X), X)


def test_memory_is_bounded(tmp_path, monkeypatch):
    """A file of 40 MB is converted with blocks of 1 MB in a few MB of memory."""
    monkeypatch.setattr(row_streams, "BLOCK_BYTES", 1 << 20)
    monkeypatch.setattr(writers, "CHUNK_BYTES", 1 << 20)
    monkeypatch.setattr(writers, "BAND_BYTES", 1 << 22)
    monkeypatch.setattr(writers, "GROUP_BYTES", 1 << 20)
    np.save(tmp_path / "in.npy", np.ones((50_000, 101), dtype=np.float64))
    for target in ("a.zarr", "a.parquet", "a.npy"):
        tracemalloc.start()
        convert(tmp_path / "in.npy", tmp_path / target)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12e6, target


def test_what_has_been_written_is_not_kept():
    """An array that grows keeps what is left of the last block, and not the block."""
    with h5py.File("growing", "w", driver="core", backing_store=False) as file:
        growing = writers._Growing(file.create_dataset("data", (0,), "f8", maxshape=(None,), chunks=(1000,)))
        values = rng.random(2 * writers.CHUNK_ENTRIES + 5)
        growing.append(values)
        assert sum(kept.nbytes if kept.base is None else kept.base.nbytes for kept in growing._kept) == 5 * 8
        growing.end()
        assert np.array_equal(file["data"][:], values)


@pytest.mark.parametrize("source", ["in.libsvm", "in.csv"])
def test_text_is_read_in_blocks(source, tmp_path, monkeypatch):
    monkeypatch.setattr(row_streams, "BLOCK_BYTES", 1000)
    monkeypatch.setattr("maxmargin.data.libsvm._BLOCK_BYTES", 1000)
    write_source(tmp_path / source, X, y)
    with row_streams.open_rows(tmp_path / source) as rows:
        blocks = list(rows.blocks())
    assert len(blocks) > 3
    assert np.array_equal(np.concatenate([dense(block) for block in blocks]), X)


def test_indices_from_zero_are_found_wherever_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("maxmargin.data.libsvm._BLOCK_BYTES", 10)
    (tmp_path / "in.libsvm").write_text("1 3:1\n-1 2:2\n1 0:3 1:4\n")
    convert(tmp_path / "in.libsvm", tmp_path / "a.npy")
    assert np.load(tmp_path / "a.npy").tolist() == [[0, 0, 0, 1, 1], [0, 0, 2, 0, -1], [3, 4, 0, 0, 1]]


def test_progress_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(row_streams, "BLOCK_BYTES", 20 * 7 * 8)
    np.save(tmp_path / "in.npy", X)
    seen = []
    convert(tmp_path / "in.npy", tmp_path / "a.npy", label_column=None, progress=lambda *rows: seen.append(rows))
    assert seen == [(20, 60), (40, 60), (60, 60)]


# Errors


def test_what_exists_is_kept_unless_told_otherwise(tmp_path):
    source = write_source(tmp_path / "in.npz", X, y)
    for target in ("a.zarr", "a.npy"):
        convert(source, tmp_path / target)
        with pytest.raises(FileExistsError, match=r"it is there already.*--force"):
            convert(source, tmp_path / target)
        other = write_source(tmp_path / "other.npz", X + 1, y)
        convert(other, tmp_path / target, force=True)
        assert np.array_equal(dense(read_table(tmp_path / target)[0]), X + 1)
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(ValueError, match="is the source"):
        convert(tmp_path / "a.npy", tmp_path / "a.npy", force=True)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("a.txt", {}, r"its name must end in one of \.zarr"),
        ("a.npy", {"sparse": True}, "can be written sparse"),
        ("a.libsvm", {"sparse": False}, "can be written dense"),
        ("a.parquet", {"also_by_column": True}, "can be written by columns too"),
        ("a.npy", {"chunks": (2, 2)}, "chunks of 2x2"),
        ("a.zarr", {"chunks": (0, 2)}, "chunks of 0x2"),
        ("a.zarr", {"chunks": (2, 2), "sparse": True}, "chunks are for dense arrays"),
        ("no/folder.zarr", {}, "the folder does not exist"),
    ],
    ids=str,
)
def test_what_cannot_be_written(target, options, message, tmp_path):
    source = write_source(tmp_path / "in.npz", X, y)
    with pytest.raises((ValueError, OSError), match=message):
        convert(source, tmp_path / target, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["in.npz"]


def test_labels_that_a_format_cannot_hold(tmp_path):
    source = write_source(tmp_path / "in.csv", X, WORDS)
    with pytest.raises(ValueError, match=r"the labels of .*in.csv hold <U5; in a .npy file"):
        convert(source, tmp_path / "a.npy")
    with pytest.raises(ValueError, match="a LIBSVM file needs a number as label of each row"):
        convert(source, tmp_path / "a.libsvm")


@pytest.mark.parametrize("target", TARGETS)
def test_a_disk_that_is_full(target, tmp_path, monkeypatch):
    """The error of the system says so, nothing is left, and what was there before stays."""
    source = write_source(tmp_path / "in.npz", X, y)
    convert(source, tmp_path / target)
    before = dense(read_table(tmp_path / target)[0])

    def failing(name, shape, dtype, sparse, y, names, blocks):
        def until_full():
            yield next(blocks())
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return rows_that_work(name, shape, dtype, sparse, y, names, until_full)

    rows_that_work = row_streams.RowStream
    monkeypatch.setattr(row_streams, "RowStream", failing)
    for path in (tmp_path / target, tmp_path / f"new{target}"):
        with pytest.raises(
            OSError, match="the disk is full, or the file is too large for it; nothing was written"
        ) as caught:
            convert(source, path, force=True)
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == str(path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.npz", target])
    assert np.array_equal(dense(read_table(tmp_path / target)[0]), before)


LIMITED = """
import resource, sys
from maxmargin.data import convert
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    convert(sys.argv[1], sys.argv[2])
except OSError as error:
    print(error.strerror, error.filename)
"""


@pytest.mark.parametrize("target", ["a.zarr", "a.h5", "a.parquet", "a.arrow", "a.npy", "a.libsvm"])
def test_a_file_that_the_system_does_not_let_grow(target, tmp_path):
    """The real error of a write that fails: each library reports it in its own way."""
    np.save(tmp_path / "in.npy", rng.standard_normal((3000, 20)).round(3))
    command = [sys.executable, "-c", LIMITED, tmp_path / "in.npy", tmp_path / target]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "nothing was written" in done.stdout
    assert target in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["in.npy"]


def test_from_standard_input(tmp_path):
    write_source(tmp_path / "in.csv", X, y)
    script = f"from maxmargin.data import convert; convert('-', {str(tmp_path / 'a.zarr')!r})"
    with Path(tmp_path / "in.csv").open("rb") as file:
        subprocess.run([sys.executable, "-c", script], stdin=file, check=True)
    rows, labels = read_table(tmp_path / "a.zarr")
    assert np.array_equal(dense(rows), X)
    assert labels.tolist() == y.tolist()
