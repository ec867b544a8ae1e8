"""Stores with labels: in a column, beside the matrix, or elsewhere."""

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zarr

from maxmargin.core.source import is_source
from maxmargin.data import FileFormatError, load_table, read_table

rng = np.random.default_rng(0)
X = rng.standard_normal((50, 3))
y = rng.integers(0, 2, 50)
WORDS = np.array(["no", "yes"])[y]


def rows_of(source):
    assert is_source(source)
    return np.concatenate([source.rows.read(k).lines for k in range(len(source.rows.starts) - 1)])


def table(**columns):
    return pa.table({**{f"f{k}": column for k, column in enumerate(X.T)}, **columns})


def write_columns(path, **columns):
    if path.suffix == ".parquet":
        pq.write_table(table(**columns), path, row_group_size=20)
    else:
        pyarrow.feather.write_feather(table(**columns), str(path), chunksize=20, compression="uncompressed")
    return path


def write_group(path, **arrays):
    if path.suffix == ".zarr":
        group = zarr.open_group(path, mode="w")
        for name, values in arrays.items():
            group.create_array(name, data=values, config={"write_empty_chunks": True})
    else:
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                strings = values.dtype.kind == "U"
                file.create_dataset(name, data=values.astype(object) if strings else values)
    return path


@pytest.mark.parametrize("labels", [y, y.astype(float), WORDS], ids=["int", "float", "str"])
@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather"])
def test_labels_in_a_column(name, labels, tmp_path):
    path = write_columns(tmp_path / name, kind=labels)
    for column in ("last", "kind", 3, -1):
        source, read = read_table(path, label_column=column)
        assert np.array_equal(rows_of(source), X)
        assert read.tolist() == labels.tolist()
    assert load_table(path).labels_in == "the last of 4 columns, named 'kind'"
    assert load_table(path).names == ["f0", "f1", "f2"]


def test_words_that_are_stored_once(tmp_path):
    path = write_columns(tmp_path / "a.parquet", kind=pa.array(WORDS).dictionary_encode())
    assert read_table(path)[1].tolist() == WORDS.tolist()


def test_a_table_without_labels(tmp_path):
    path = write_columns(tmp_path / "a.parquet")
    assert load_table(path, n_features=3).y is None
    np.save(tmp_path / "y.npy", y)
    source, labels = read_table(path, labels=tmp_path / "y.npy")
    assert source.shape == (50, 3)
    assert labels.tolist() == y.tolist()


def test_a_label_that_is_missing(tmp_path):
    path = write_columns(tmp_path / "a.parquet", kind=pa.array([*y[:30].tolist(), None, *y[31:].tolist()]))
    with pytest.raises(FileFormatError, match="the label of row 30, column 'kind', is missing"):
        read_table(path)


@pytest.mark.parametrize("key", ["y", "labels"])
@pytest.mark.parametrize("labels", [y, WORDS], ids=["int", "str"])
@pytest.mark.parametrize("name", ["a.zarr", "a.h5"])
@pytest.mark.filterwarnings("ignore:.*Zarr")  # strings of Zarr have no specification yet
def test_labels_beside_the_matrix(name, labels, key, tmp_path):
    path = write_group(tmp_path / name, X=X, **{key: labels})
    for place in (path, f"{path}::X", f"{path}::/X"):
        source, read = read_table(place)
        assert np.array_equal(rows_of(source), X)
        assert read.tolist() == labels.tolist()


def test_labels_elsewhere(tmp_path):
    path = write_group(tmp_path / "a.h5", X=X, **{"obs/kind": y})
    other = write_group(tmp_path / "b.zarr", kind=y)
    (tmp_path / "y.txt").write_text("\n".join(map(str, y)))
    for labels in ("obs/kind", "/obs/kind", f"{path}::/obs/kind", f"{other}::kind", tmp_path / "y.txt"):
        assert read_table(path, labels=labels)[1].tolist() == y.tolist()
    assert load_table(path).y is None
    with pytest.raises(FileFormatError, match="3 features and no labels"):
        read_table(path)


def test_labels_of_anndata(tmp_path):
    obs = pd.DataFrame({"kind": pd.Categorical(WORDS), "count": y}, index=list(map(str, range(50))))
    anndata.AnnData(X, obs=obs).write_h5ad(tmp_path / "a.h5ad")
    assert read_table(tmp_path / "a.h5ad", labels="obs/kind")[1].tolist() == WORDS.tolist()
    assert read_table(tmp_path / "a.h5ad", labels="obs/count")[1].tolist() == y.tolist()


def test_too_few_labels(tmp_path):
    path = write_group(tmp_path / "a.h5", X=X, y=y[:-1])
    with pytest.raises(FileFormatError, match=r"50 rows, but labels of shape \(49,\)"):
        read_table(path)


def test_a_store_is_recognised_by_its_first_bytes(tmp_path):
    for name in ("a.parquet", "a.arrow"):
        write_columns(tmp_path / name, kind=y).rename(tmp_path / "data")
        assert read_table(tmp_path / "data")[0].shape == (50, 3)
    write_group(tmp_path / "a.h5", X=X, y=y).rename(tmp_path / "data")
    assert read_table(tmp_path / "data")[0].shape == (50, 3)
