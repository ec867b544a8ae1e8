"""Matrices in stores of every kind: what blocks hold, how large they are, and what they cost."""

import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import anndata
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.core.source import is_source
from maxmargin.data import FileFormatError
from maxmargin.data.stores import is_store, open_store
from maxmargin.data.stores.arrays import DEFAULT_BLOCK_SIZE, regular_edges
from maxmargin.data.stores.blocks import BlockSize, dense_matrix
from maxmargin.data.stores.compressed import CompressedArrays, sparse_matrix

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 40)).astype(np.float32)
SPARSE = sp.csr_array(np.where(rng.random((300, 40)) < 0.2, X, 0).astype(np.float32))
NAMES = [f"f{k}" for k in range(40)]


def table(rows=X):
    return pa.table(dict(zip(NAMES, rows.T, strict=True)))


def write_zarr(path, rows=X, chunks=(32, 16), **options):
    array = zarr.create_array(path, shape=rows.shape, chunks=chunks, dtype=rows.dtype, **options)
    array[:] = rows
    return path


def write_group(group, matrix, **options):
    """A sparse matrix in the layout of AnnData."""
    group.attrs["encoding-type"] = f"{matrix.format}_matrix"
    group.attrs["encoding-version"] = "0.1.0"
    group.attrs["shape"] = list(matrix.shape)
    for key in ("data", "indices", "indptr"):
        values = getattr(matrix, key)
        make = group.create_dataset if isinstance(group, h5py.Group) else group.create_array
        make(key, data=values, chunks=(min(200, len(values)),), **options)


def write_h5(path, rows=X, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=rows, **options)
    return path


def write_parquet(path):
    pq.write_table(table(), path, row_group_size=64)
    return path


def write_parquet_folder(path):
    path.mkdir()
    for k, start in enumerate(range(0, 300, 100)):
        pq.write_table(table(X[start : start + 100]), path / f"part-{k}.parquet", row_group_size=40)
    return path


def write_arrow(path, batch=70):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table().schema) as writer:
        writer.write_table(table(), max_chunksize=batch)
    return path


def write_feather(path):
    pyarrow.feather.write_feather(table(), str(path), compression="lz4", chunksize=64)
    return path


def write_sparse_h5(path, matrix=SPARSE):
    with h5py.File(path, "w") as file:
        write_group(file.create_group("X"), matrix)
    return path


def write_sparse_zarr(path, matrix=SPARSE):
    write_group(zarr.open_group(path, mode="w").create_group("X"), matrix)
    return path


def write_h5ad(path, matrix):
    anndata.AnnData(matrix).write_h5ad(path)
    return path


def write_anndata_zarr(path, matrix):
    with anndata.settings.override(zarr_write_format=3), warnings.catch_warnings(action="ignore"):
        anndata.AnnData(matrix).write_zarr(path)  # it warns of what its next version will do
    return path


DENSE = {
    "zarr": lambda folder: write_zarr(folder / "a.zarr"),
    "zarr, format 2": lambda folder: write_zarr(folder / "a.zarr", zarr_format=2),
    "zarr, sharded": lambda folder: write_zarr(folder / "a.zarr", shards=(96, 48)),
    "zarr, in memory": lambda folder: zarr.open_array(write_zarr(zarr.storage.MemoryStore())),
    "zarr object": lambda folder: zarr.open_array(write_zarr(folder / "a.zarr"), mode="r"),
    "hdf5, chunked": lambda folder: write_h5(folder / "a.h5", chunks=(32, 16), compression="gzip"),
    "hdf5, contiguous": lambda folder: write_h5(folder / "a.hdf5"),
    "hdf5, named": lambda folder: f"{write_h5(folder / 'a.h5')}::/X",
    "hdf5 object": lambda folder: h5py.File(write_h5(folder / "a.h5"))["X"],
    "parquet": lambda folder: write_parquet(folder / "a.parquet"),
    "parquet folder": lambda folder: write_parquet_folder(folder / "a"),
    "arrow table": lambda folder: table(),
    "arrow file": lambda folder: write_arrow(folder / "a.arrow"),
    "feather, compressed": lambda folder: write_feather(folder / "a.feather"),
    "h5ad, dense": lambda folder: write_h5ad(folder / "a.h5ad", X),
    "anndata, dense": lambda folder: anndata.read_h5ad(write_h5ad(folder / "a.h5ad", X), backed="r").X,
}
COMPRESSED = {
    "hdf5, CSR": lambda folder: write_sparse_h5(folder / "a.h5"),
    "hdf5, CSC": lambda folder: write_sparse_h5(folder / "a.h5", SPARSE.tocsc()),
    "zarr, CSR": lambda folder: write_sparse_zarr(folder / "a.zarr"),
    "zarr, CSC": lambda folder: write_sparse_zarr(folder / "a.zarr", SPARSE.tocsc()),
    "h5ad, CSR": lambda folder: write_h5ad(folder / "a.h5ad", sp.csr_matrix(SPARSE)),
    "anndata, CSR": lambda folder: (
        anndata.read_h5ad(write_h5ad(folder / "a.h5ad", sp.csr_matrix(SPARSE)), backed="r").X
    ),
    "anndata, zarr": lambda folder: write_anndata_zarr(folder / "a.zarr", sp.csr_matrix(SPARSE)),
    "hdf5 group": lambda folder: h5py.File(write_sparse_h5(folder / "a.h5"))["X"],
    "zarr group": lambda folder: zarr.open_group(write_sparse_zarr(folder / "a.zarr"), mode="r"),
}
ALL = {**DENSE, **COMPRESSED}


def dense(lines):
    return lines.toarray() if sp.issparse(lines) else lines


def memory_of(lines):
    arrays = (lines.data, lines.indices, lines.indptr) if sp.issparse(lines) else (lines,)
    return sum(array.nbytes for array in arrays)


def read_all(lines, source):
    """All lines, after checking that each block is what it says it is."""
    parts = []
    for k in range(len(lines.starts) - 1):
        block = lines.read(k)
        assert block.lines.dtype == source.dtype
        assert memory_of(block.lines) == lines.nbytes(k) <= source.cache_size // 8
        assert block.chunks >= 1
        assert block.bytes > 0
        if sp.issparse(block.lines):
            assert block.lines.has_canonical_format
            assert block.lines.indices.dtype == block.lines.indptr.dtype
            assert np.diff(block.lines.indptr).tolist() == lines.sizes[lines.starts[k] : lines.starts[k + 1]].tolist()
        else:
            assert block.lines.flags.c_contiguous
        parts.append(dense(block.lines))
    assert np.concatenate(parts).shape[0] == lines.starts[-1]
    return np.concatenate(parts)


@pytest.fixture(scope="module", params=ALL)
def stored(request, tmp_path_factory):
    """A store of each kind, written once for the tests that only read it."""
    return request.param, ALL[request.param](tmp_path_factory.mktemp("store"))


@pytest.mark.parametrize("cache_size", [1 << 30, 20_000], ids=["large", "small"])
def test_rows_and_columns_are_those_of_the_matrix(stored, cache_size):
    kind, store = stored
    source = open_store(store, cache_size=cache_size)
    truth = X if kind in DENSE else SPARSE.toarray()
    assert is_source(source)
    assert source.shape == truth.shape
    assert source.dtype == np.float32
    assert source.n_stored == (X.size if kind in DENSE else SPARSE.nnz)
    assert np.array_equal(read_all(source.rows, source), truth)
    assert np.array_equal(read_all(source.columns, source), truth.T)


def test_threads_may_read_at_the_same_time(stored):
    kind, store = stored
    source = open_store(store, cache_size=20_000)
    rows = source.rows
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(rows.read, list(range(len(rows.starts) - 1)) * 4))
    truth = X if kind in DENSE else SPARSE.toarray()
    assert np.array_equal(np.concatenate([dense(block.lines) for block in blocks]), np.tile(truth, (4, 1)))


class InMemory:
    """An array in memory with chunks in name only."""

    name = "an array"

    def __init__(self, rows, chunks, shards=None):
        self.rows, self.shape, self.dtype = rows, rows.shape, rows.dtype
        self.edges = tuple(map(regular_edges, rows.shape, chunks))
        self.shard_edges = None if shards is None else tuple(map(regular_edges, rows.shape, shards))

    def read(self, *where):
        return self.rows[where]

    def check_unchanged(self, *where):
        pass


def test_a_shard_is_a_block_if_that_is_asked_for(tmp_path):
    """Chunks of 8 rows of 400 bytes in shards of 64 rows."""
    rows = rng.standard_normal((200, 100)).astype(np.float32)
    array = zarr.create_array(tmp_path / "a.zarr", shape=rows.shape, chunks=(8, 100), shards=(64, 100), dtype="f4")
    array[:] = rows
    for block_size, starts in (
        (3200, list(range(0, 200, 8))),
        (10_000, [0, 32, 64, 96, 128, 160, 192]),
        (11_000, [0, 32, 64, 96, 128, 160, 192]),
        (8 * 3200 // 2, [0, 64, 128, 192]),  # a shard takes 25,600 bytes
        (30_000, [0, 128]),
    ):
        source = open_store(array, block_size=block_size)
        assert source.rows.starts.tolist() == [*starts, 200]
        assert np.array_equal(read_all(source.rows, source), rows)
    parts = open_store(array, block_size=100_000, cache_size=8 * 10_000).rows.starts
    assert max(np.diff(parts)) * 400 <= 10_000
    assert {64, 128, 192} < set(parts.tolist())
    with pytest.raises(ValueError, match="block_size is a number of bytes of at least 1; got 0"):
        open_store(array, block_size=0)


@given(st.data())
def test_blocks_follow_the_chunks(data):
    """Whatever the chunks and the cache: blocks are whole chunks, several, or parts of one; and counts are exact."""
    n, d = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 60))
    chunks = data.draw(st.integers(1, n)), data.draw(st.integers(1, d))
    rows = rng.standard_normal((n, d))
    cache_size = data.draw(st.integers(64 * max(n, d), 64 * 4 * max(n, d)))
    shards = data.draw(st.sampled_from([None, tuple(k * step for k, step in zip((2, 3), chunks, strict=True))]))
    block_size = data.draw(st.sampled_from([1, 500, 5000, DEFAULT_BLOCK_SIZE]))
    source = dense_matrix(InMemory(rows, chunks, shards), BlockSize(cache_size, block_size))
    for lines, truth, (high, wide), width in (
        (source.rows, rows, chunks, d),
        (source.columns, rows.T, chunks[::-1], n),
    ):
        assert np.array_equal(read_all(lines, source), truth)
        for k in range(len(lines.starts) - 1):
            first, stop = lines.starts[k : k + 2].tolist()
            touched = (-(-stop // high) - first // high) * -(-width // wide)
            assert lines.read(k).chunks == touched
            whole = first % high == 0 and (stop % high == 0 or stop == len(truth))
            assert whole or first // high == (stop - 1) // high  # a part lies within one chunk


class Group(dict):
    """A sparse matrix in the layout of AnnData, in memory."""

    def __init__(self, matrix):
        super().__init__(data=matrix.data, indices=matrix.indices, indptr=matrix.indptr)
        self.attrs = {"encoding-type": f"{matrix.format}_matrix", "shape": matrix.shape}


@given(st.data())
def test_sparse_rows_and_columns_whatever_the_chunks(data):
    """Blocks of both axes fit, hold all entries in order, and are counted; for CSR and CSC alike."""
    n, d = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    matrix = sp.random_array((n, d), density=data.draw(st.floats(0, 1)), format="csr", rng=rng)
    stored = matrix.tocsc() if data.draw(st.booleans()) else matrix
    step = data.draw(st.integers(1, 50))
    arrays = CompressedArrays("a matrix", Group(stored), lambda array: InMemory(array, (step,)))
    cache_size = data.draw(st.integers(8 * (12 * max(n, d) + 8), 8 * (12 * n * d + 8 * max(n, d) + 8)))
    source = sparse_matrix(arrays, BlockSize(cache_size))
    for lines, truth in ((source.rows, matrix.toarray()), (source.columns, matrix.toarray().T)):
        assert np.array_equal(lines.sizes, np.count_nonzero(truth, axis=1))
        parts = [lines.read(k).lines for k in range(len(lines.starts) - 1)]
        assert np.array_equal(np.concatenate([part.toarray() for part in parts]), truth)
        for k, part in enumerate(parts):
            assert memory_of(part) == lines.nbytes(k) <= cache_size // 8
            assert part.has_canonical_format


def test_a_row_block_is_one_chunk_high(tmp_path):
    rows = np.ones((4096, 64), dtype=np.float32)
    source = open_store(write_zarr(tmp_path / "a.zarr", rows, chunks=(1024, 16)))
    assert source.rows.starts.tolist() == [0, 1024, 2048, 3072, 4096]
    block = source.rows.read(1)
    assert (block.chunks, block.bytes) == (4, 1024 * 64 * 4)


def test_a_chunk_too_large_is_read_in_parts_and_counted_each_time(tmp_path):
    rows = np.ones((4096, 64), dtype=np.float32)
    source = open_store(write_zarr(tmp_path / "a.zarr", rows, chunks=(4096, 64)), cache_size=8 * (1 << 18))
    assert source.rows.starts.tolist() == [0, 1024, 2048, 3072, 4096]
    block = source.rows.read(1)
    assert (block.chunks, block.bytes) == (1, 4096 * 64 * 4)


def test_columns_of_a_store_chunked_by_rows_read_all_of_it(tmp_path):
    rows = np.ones((4096, 64), dtype=np.float32)
    source = open_store(write_zarr(tmp_path / "a.zarr", rows, chunks=(1024, 64)), cache_size=8 * (1 << 18))
    assert source.columns.starts.tolist() == [0, 16, 32, 48, 64]
    block = source.columns.read(2)
    assert (block.chunks, block.bytes) == (4, rows.nbytes)


def test_a_column_of_parquet_reads_its_column_chunks_only(tmp_path):
    pq.write_table(
        pa.table({f"f{k}": np.ones(100_000) for k in range(5)}), tmp_path / "a.parquet", row_group_size=25_000
    )
    block = open_store(tmp_path / "a.parquet").columns.read(3)
    assert block.lines.shape == (1, 100_000)
    assert (block.chunks, block.bytes) == (4, 800_000)


def test_a_second_copy_by_columns_is_read_for_columns(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for name, chunks in (("X", (50, 40)), ("X_by_column", (300, 10))):
        group.create_array(name, data=X, chunks=chunks)
    source = open_store(tmp_path / "a.zarr", cache_size=8 * 12_000)
    assert np.array_equal(read_all(source.columns, source), X.T)
    assert source.columns.read(0).chunks == 1
    with h5py.File(tmp_path / "a.h5", "w") as file:
        write_group(file.create_group("X"), SPARSE)
        write_group(file.create_group("X_by_column"), SPARSE.tocsc())
    source = open_store(tmp_path / "a.h5")
    assert np.array_equal(read_all(source.columns, source), SPARSE.toarray().T)
    assert source.columns.read_ahead


@pytest.mark.parametrize(
    ("stored", "expected"),
    [("f2", "f4"), ("i1", "f4"), ("u2", "f4"), ("?", "f4"), ("i4", "f8"), ("i8", "f8"), (">f4", "f4"), (">f8", "f8")],
)
def test_other_types_are_converted_block_by_block(stored, expected, tmp_path):
    rows = rng.integers(0, 2, (300, 40)).astype(stored)
    source = open_store(write_h5(tmp_path / "a.h5", rows))
    assert source.dtype == np.dtype(expected)
    assert np.array_equal(read_all(source.rows, source), rows.astype(expected))
    assert np.array_equal(read_all(source.columns, source), rows.astype(expected).T)


def test_missing_values_and_mixed_columns_of_a_table():
    source = open_store(
        pa.table({"a": pa.array([1, None, 3], pa.int8()), "b": [True, None, False], "c": [0.5, 1.5, 2.5]})
    )
    assert source.dtype == np.float64
    assert np.array_equal(source.rows.read(0).lines, [[1, 1, 0.5], [np.nan, np.nan, 1.5], [3, 0, 2.5]], equal_nan=True)


def test_columns_of_a_table_can_be_chosen():
    source = open_store(table(), columns=["f3", "f1"])
    assert np.array_equal(source.rows.read(0).lines, X[:, [3, 1]])


def test_what_is_a_store():
    assert is_store(table())
    assert not any(map(is_store, (X, SPARSE, [1.0], "a.zarr", None)))


def test_sparse_rows_and_their_counts(tmp_path):
    """Two blocks share the chunk between them, so a pass over the rows reads a tenth more than there is."""
    many = sp.random_array((20_000, 50), density=0.1, format="csr", dtype=np.float32, rng=rng)
    write_group(zarr.open_group(tmp_path / "a.zarr", mode="w").create_group("X"), many)
    source = open_store(tmp_path / "a.zarr")
    blocks = [source.rows.read(k) for k in range(len(source.rows.starts) - 1)]
    assert sum(block.bytes for block in blocks) <= 1.1 * (many.data.nbytes + many.indices.nbytes)


def test_the_pass_that_counts_entries_is_counted_once(tmp_path):
    source = open_store(write_sparse_zarr(tmp_path / "a.zarr"))
    first, again = source.columns.read(0), source.columns.read(0)
    assert again.bytes == SPARSE.data.nbytes + SPARSE.indices.nbytes
    assert first.bytes == again.bytes + SPARSE.indices.nbytes
    assert first.chunks == again.chunks * 3 // 2


# Bad input


def test_a_cache_too_small_for_one_line_says_which_would_do(tmp_path):
    source = open_store(write_zarr(tmp_path / "a.zarr"), cache_size=1000)
    with pytest.raises(ValueError, match=r"a row takes 160 bytes.*give cache_size=1280 or more"):
        _ = source.rows
    assert open_store(tmp_path / "a.zarr", cache_size=1280).rows is not None
    source = open_store(write_sparse_h5(tmp_path / "a.h5"), cache_size=300)
    with pytest.raises(ValueError, match=r"a row takes .* or more"):
        _ = source.rows


@pytest.mark.parametrize("options", [{}, {"shards": (96, 48)}, {"zarr_format": 2}], ids=["chunk", "shard", "format 2"])
def test_a_missing_chunk_of_zarr(options, tmp_path):
    path = write_zarr(tmp_path / "a.zarr", **options)
    chunk = path / ("1.0" if "zarr_format" in options else "c/1/0")
    chunk.unlink()
    with pytest.raises(
        FileFormatError, match=r"a.zarr: the (chunk|shard) (c/1/0|1\.0) is not in the store.*absent_chunks"
    ):
        open_store(path)
    rows = read_all((source := open_store(path, absent_chunks="fill")).rows, source)
    assert (rows == 0).sum() in (32 * 16, 96 * 40)


def test_missing_chunks_of_zarr_in_memory():
    array = zarr.create_array(zarr.storage.MemoryStore(), shape=(10, 4), chunks=(5, 2), dtype="f4")
    array[:5] = 1
    with pytest.raises(FileFormatError, match="2 of 4 chunks is not in the store"):
        open_store(array)


def test_chunks_of_hdf5_that_were_never_written(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", shape=(10, 4), chunks=(5, 2), dtype="f4")[:5] = 1
        file.create_dataset("whole", shape=(10, 4), dtype="f4")
    with pytest.raises(FileFormatError, match=r"a.h5::/X: chunk 1, 0 is not in the store"):
        open_store(f"{tmp_path}/a.h5")
    with pytest.raises(FileFormatError, match=r"a.h5::/whole: all of it is not in the store"):
        open_store(f"{tmp_path}/a.h5::whole")


def spoil(path, start, length=40):
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(b"\xff" * length)


def test_a_chunk_of_zarr_that_cannot_be_decompressed(tmp_path):
    path = write_zarr(tmp_path / "a.zarr")
    spoil(path / "c" / "2" / "1", 0)
    source = open_store(path)
    for lines in (source.rows, source.columns):
        with pytest.raises(
            FileFormatError, match=r"a.zarr: chunk 2, 1 \(rows 64 to 95, columns 16 to 31\) cannot be read"
        ):
            read_all(lines, source)


def test_a_chunk_of_hdf5_that_cannot_be_decompressed(tmp_path):
    path = write_h5(tmp_path / "a.h5", chunks=(32, 16), compression="gzip")
    with h5py.File(path) as file:
        place = file["X"].id.get_chunk_info_by_coord((64, 16)).byte_offset
    spoil(path, place)
    source = open_store(path)
    with pytest.raises(
        FileFormatError, match=r"a.h5::/X: chunk 2, 1 \(rows 64 to 95, columns 16 to 31\) cannot be read"
    ):
        read_all(source.rows, source)


def test_a_column_chunk_of_parquet_that_cannot_be_decompressed(tmp_path):
    pq.write_table(table(), tmp_path / "a.parquet", row_group_size=100)
    place = pq.read_metadata(tmp_path / "a.parquet").row_group(1).column(3).data_page_offset
    spoil(tmp_path / "a.parquet", place)
    source = open_store(tmp_path / "a.parquet")
    with pytest.raises(FileFormatError, match=r"chunk 1, 3 \(rows 100 to 199, columns 3 to 3\) cannot be read"):
        read_all(source.rows, source)


def test_an_array_of_a_sparse_matrix_that_cannot_be_decompressed(tmp_path):
    path = write_sparse_zarr(tmp_path / "a.zarr")
    spoil(path / "X" / "data" / "c" / "1", 0)
    source = open_store(path)
    with pytest.raises(FileFormatError, match=r"data: chunk 1 \(entries 200 to 399\) cannot be read"):
        read_all(source.rows, source)


IN_FILES = [kind for kind in ALL if kind not in ("zarr, in memory", "arrow table")]


@pytest.mark.parametrize("kind", IN_FILES)
def test_a_file_that_changes_is_found(kind, tmp_path):
    source = open_store(ALL[kind](tmp_path), cache_size=20_000)
    lines = source.rows
    lines.read(0)
    for file in tmp_path.rglob("*"):
        os.utime(file, ns=(0, 1))
    with pytest.raises(FileFormatError, match="has changed since it was opened"):
        lines.read(0)


def test_a_chunk_that_changes_or_vanishes_is_found(tmp_path):
    source = open_store(write_zarr(tmp_path / "a.zarr"), cache_size=20_000)
    chunk = tmp_path / "a.zarr" / "c" / "0" / "1"
    content = chunk.read_bytes()
    chunk.write_bytes(content[:20])
    with pytest.raises(FileFormatError, match="c/0/1: the file has changed"):
        source.rows.read(0)
    chunk.unlink()
    with pytest.raises(FileFormatError, match="c/0/1: the file has changed since it was opened: it no longer exists"):
        source.rows.read(0)
    source.rows.read(len(source.rows.starts) - 2)  # other chunks are still as they were


def test_a_mapped_file_that_is_cut_off_is_found_before_it_is_read(tmp_path):
    path = write_arrow(tmp_path / "a.arrow")
    source = open_store(path)
    lines = source.rows
    os.truncate(path, 100)
    with pytest.raises(FileFormatError, match=r"a.arrow: the file has changed since it was opened"):
        lines.read(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.full(SPARSE.nnz, 40)}, "range from 40 to 40, but must be from 0 to 39"),
        ({"indices": np.zeros(SPARSE.nnz, int)}, "row 0 stores an entry twice"),
        ({"indptr": SPARSE.indptr[::-1]}, "indptr does not divide"),
        ({"indptr": SPARSE.indptr[:-1]}, "indptr does not divide"),
        ({"indices": SPARSE.indices * 1.0}, "expected integers; it holds float64"),
        ({"data": SPARSE.data * 1j}, "expected numbers of at most 64 bits; it holds complex64"),
    ],
    ids=str,
)
def test_a_damaged_sparse_matrix(change, message, tmp_path):
    arrays = {"data": SPARSE.data, "indices": SPARSE.indices, "indptr": SPARSE.indptr, **change}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "shape": [300, 40]})
        for name, values in arrays.items():
            group[name] = values
    with pytest.raises(FileFormatError, match=message):
        read_all((source := open_store(tmp_path / "a.h5")).rows, source)


def test_indices_are_checked_before_columns_are_counted(tmp_path):
    path = write_sparse_h5(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        file["X/indices"][5] = -1
    with pytest.raises(FileFormatError, match=r"range from -1 to 39, but must be from 0 to 39"):
        _ = open_store(path).columns


def test_unsorted_indices_are_sorted(tmp_path):
    indices, data = SPARSE.indices.copy(), SPARSE.data.copy()
    for first, stop in zip(SPARSE.indptr[:-1], SPARSE.indptr[1:], strict=True):
        indices[first:stop], data[first:stop] = indices[first:stop][::-1], data[first:stop][::-1]
    path = write_sparse_h5(tmp_path / "a.h5", sp.csr_array((data, indices, SPARSE.indptr), shape=SPARSE.shape))
    source = open_store(path)
    assert np.array_equal(read_all(source.rows, source), SPARSE.toarray())
    assert np.array_equal(read_all(source.columns, source), SPARSE.toarray().T)


def test_what_is_no_matrix(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["first"], file["second"], file["names"] = X, X, ["a", "b"]
    with pytest.raises(
        FileFormatError, match="expected a matrix named X, or only one matrix; it holds first, names, second"
    ):
        open_store(tmp_path / "a.h5")
    with pytest.raises(FileFormatError, match="nothing named /third; it holds first, names, second"):
        open_store(f"{tmp_path}/a.h5::/third")
    with pytest.raises(FileFormatError, match=r"expected a matrix of shape \(n, d\); its shape is \(2,\)"):
        open_store(f"{tmp_path}/a.h5::/names")
    with pytest.raises(FileFormatError, match="the column 'kind' holds string; expected numbers"):
        open_store(pa.table({"kind": ["a", "b"]}))
    with pytest.raises(FileNotFoundError):
        open_store(tmp_path / "nothing.zarr")
    (tmp_path / "text.parquet").write_text("no Parquet file")
    with pytest.raises(FileFormatError, match="not a Parquet file that can be read"):
        open_store(tmp_path / "text.parquet")
    (tmp_path / "text.txt").write_text("nothing")
    with pytest.raises(FileFormatError, match="not a Zarr folder or an HDF5, Parquet or Arrow file"):
        open_store(tmp_path / "text.txt")
    with pytest.raises(TypeError, match="got list"):
        open_store([[1.0]])
    with pytest.raises(TypeError, match="expected the X of an AnnData object"):
        open_store(anndata.AnnData(X))


def test_values_in_the_names_of_folders_are_refused(tmp_path):
    (tmp_path / "a" / "year=2026").mkdir(parents=True)
    write_parquet(tmp_path / "a" / "year=2026" / "part.parquet")
    with pytest.raises(FileFormatError, match="folder name holds the value of a column"):
        open_store(tmp_path / "a")


def test_files_of_a_folder_must_have_the_same_columns(tmp_path):
    path = write_parquet_folder(tmp_path / "a")
    pq.write_table(table().rename_columns([*NAMES[:-1], "other"]), path / "part-9.parquet")
    with pytest.raises(FileFormatError, match=r"part-9.parquet: its columns differ from those of part-0.parquet"):
        open_store(path)


@pytest.mark.parametrize(("name", "package"), [("a.zarr", "zarr"), ("a.h5", "h5py"), ("a.parquet", "pyarrow")])
def test_without_the_package_the_extra_is_named(name, package, tmp_path, monkeypatch):
    write = {"a.zarr": write_zarr, "a.h5": write_h5, "a.parquet": write_parquet}
    write[name](tmp_path / name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs {package}, which is not installed: .*'maxmargin\[stores\]'"):
        open_store(tmp_path / name)
