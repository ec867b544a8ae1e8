"""Whatever kind of data a fit on a cluster is given: the same model, or an error that says what is wrong where."""

import asyncio
import subprocess
import sys

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from cluster_data import CHUNK, D, N, cannot, labels_of, partition, rows_of
from distributed import Client
from local_clusters import same as same_model

from maxmargin import LinearSVC as Local
from maxmargin.dask import LinearSVC
from maxmargin.dask import client as client_module
from maxmargin.dask.client import ClusterError

PARTITIONS = range(-(-N // CHUNK))
NAMES = [f"feature {j}" for j in range(D)]


# One iteration, and a certificate, which all samples have a part in: both tell whether the data has arrived.
ONE = {"random_state": 0, "max_iter": 1}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def fit(*args, **options):
    return LinearSVC(**ONE, **options).fit(*args)


def local_fit(*args):
    return Local(solver="newton", **ONE).fit(*args)


@pytest.fixture(scope="module")
def whole(data):
    """What one machine finds."""
    return local_fit(*data)


def same(model, other):
    """Two models are equal to the bit; their proofs may differ by how sums over all rows are rounded."""
    same_model(model, other)
    assert model.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-9)
    assert model.certificate_.dual == pytest.approx(other.certificate_.dual, rel=1e-9)


def cut(array):
    """The partitions of an array."""
    return [array[k * CHUNK : (k + 1) * CHUNK] for k in PARTITIONS]


def frame(data):
    return dd.from_pandas(pd.DataFrame(data[0], columns=NAMES).assign(label=data[1]), chunksize=CHUNK)


# Kinds that work


def split_columns(client, data):
    X, y = data
    return da.from_array(X, chunks=(5000, 2)), da.from_array(y, chunks=3000)


def unknown_sizes(client, data):
    table = frame(data)
    return table[NAMES].to_dask_array(), table["label"].to_dask_array()


def futures_of_pairs(client, data):
    return client.map(partition, PARTITIONS)


def delayed_pairs(client, data):
    return [dask.delayed(partition)(k) for k in PARTITIONS]


def pairs_of_futures(client, data):
    return [(client.submit(rows_of, k), client.submit(labels_of, k)) for k in PARTITIONS]


def lists_of_delayed(client, data):
    return tuple([dask.delayed(part)(k) for k in PARTITIONS] for part in (rows_of, labels_of))


def scattered(client, data):
    return client.scatter(cut(data[0]), hash=False), data[1]


def arrays(client, data):
    return data


def empty_partitions(client, data):
    X, y = data
    full = [dask.delayed(partition)(k) for k in PARTITIONS]
    none = dask.delayed((X[:0], y[:0]))
    return [none, full[0], none, *full[1:], none]


def sorted_rows(client, data):
    """Nearly every partition has labels of one class only."""
    order = np.argsort(data[1], kind="stable")
    return da.from_array(data[0][order], chunks=(1000, -1)), da.from_array(data[1][order], chunks=1000)


@pytest.mark.parametrize(
    "kind",
    [
        split_columns,
        futures_of_pairs,
        delayed_pairs,
        pairs_of_futures,
        lists_of_delayed,
        scattered,
        arrays,
        empty_partitions,
    ],
)
def test_the_same_bits_from_any_kind_of_data(client, data, whole, kind):
    given = kind(client, data)
    same(fit(*given) if isinstance(given, tuple) else fit(given), whole)


def test_unknown_sizes_of_chunks(client, data, whole):
    same(fit(*unknown_sizes(client, data)), whole)


def test_partitions_of_one_class(client, data):
    order = np.argsort(data[1], kind="stable")
    local = local_fit(data[0][order], data[1][order])
    same(fit(*sorted_rows(client, data)), local)


def test_a_data_frame(client, data, whole):
    table = frame(data)
    model = fit(table[NAMES], table["label"])
    same(model, whole)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.n_features_in_ == D
    np.testing.assert_array_equal(model.predict(pd.DataFrame(data[0], columns=NAMES)), whole.predict(data[0]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(data[0], columns=NAMES[::-1]))


def test_sparse_chunks(client, data):
    X = sp.csr_array(np.where(np.abs(data[0]) < 1, 0, data[0]))
    lazy = da.from_array(X.toarray(), chunks=(CHUNK, -1)).map_blocks(sp.csr_array)
    local = local_fit(X, data[1])
    model = fit(lazy, data[1])
    same(model, local)
    assert model.entries_read_ == local.entries_read_
    same(fit([(part, label) for part, label in zip(cut(X), cut(data[1]), strict=True)]), local)


def test_triples_with_weights(client, data):
    X, y = data
    weight = np.random.default_rng(1).uniform(size=N)
    local = local_fit(X, y, weight)
    triples = list(zip(cut(X), cut(y), cut(weight), strict=True))
    same(fit(triples), local)
    same(fit([dask.delayed(triple) for triple in triples]), local)


def test_types_of_numbers(client, data, whole):
    X, y = data
    narrow = X.astype(np.float32)
    single = local_fit(narrow, y)
    model = fit(da.from_array(narrow, chunks=(CHUNK, -1)), y)
    same(model, single)
    mixed = [(X[:CHUNK].astype(np.float32), y[:CHUNK]), (X[CHUNK:], y[CHUNK:])]  # float64 where one of them is
    wide = np.concatenate([part for part, _ in mixed])
    assert wide.dtype == np.float64
    same(fit(mixed), local_fit(wide, y))
    whole_numbers = np.round(10 * X).astype(np.int32)
    same(fit(da.from_array(whole_numbers), y), local_fit(whole_numbers, y))


# Files that the workers open


def test_stores(client, data, whole, tmp_path):
    paths = []
    for k, part in enumerate(cut(data[0])):
        paths.append(tmp_path / f"part-{k}.npy")
        np.save(paths[-1], part)
    same(fit([(path, label) for path, label in zip(paths, cut(data[1]), strict=True)]), whole)
    same(fit(str(tmp_path / "part-*.npy"), da.from_array(data[1])), whole)


def test_parquet_files_with_labels(client, data, whole, tmp_path):
    table = pd.DataFrame(data[0], columns=NAMES).assign(label=data[1])
    for k in PARTITIONS:
        table.iloc[k * CHUNK : (k + 1) * CHUNK].to_parquet(tmp_path / f"{k}.parquet", index=False)
    model = fit(str(tmp_path / "*.parquet"))  # the last column
    same(model, whole)
    assert model.feature_names_in_.tolist() == NAMES
    same(fit(str(tmp_path / "*.parquet"), "label"), whole)


def test_a_zarr_store(client, data, whole, tmp_path):
    import zarr

    zarr.save_array(str(tmp_path / "X.zarr"), data[0])
    same(fit(str(tmp_path / "X.zarr"), data[1]), whole)


# What cannot be


def columns_differ(client, data):
    return [(data[0], data[1]), (data[0][:, :3], data[1])]


def names_differ(client, data):
    table = pd.DataFrame(data[0], columns=NAMES)
    return [(table, data[1]), (table[NAMES[::-1]], data[1])]


def lengths_differ(client, data):
    return [(data[0], data[1]), (data[0][:100], data[1][:99])]


def types_differ(client, data):
    return [(data[0], data[1]), (data[0], np.where(data[1], "yes", "no"))]


def names_in_a_column(client, data):
    return dd.from_pandas(pd.DataFrame({"a": ["x", "y", "z"] * 10}), npartitions=1), np.arange(30) % 2


def too_few_labels(client, data):
    return da.from_array(data[0]), data[1][:-1]


def no_labels(client, data):
    return (da.from_array(data[0]),)


def no_rows(client, data):
    return [dask.delayed((data[0][:0], data[1][:0]))]


def one_class(client, data):
    return da.from_array(data[0]), np.zeros(N)


def one_dimension(client, data):
    return da.from_array(data[0][:, 0]), data[1]


def not_a_pair(client, data):
    return [dask.delayed(data[0])]


def not_finite(client, data):
    X = data[0].copy()
    X[15_000, 3] = np.nan
    return da.from_array(X, chunks=(CHUNK, -1)), data[1]


def broken(client, data):
    return [dask.delayed(partition)(0), dask.delayed(cannot)(1)]


def no_file(client, data):
    return ["missing-0.npy"], data[1]


def no_match(client, data):
    return "missing-*.parquet"


def name_of_labels(client, data):
    return frame(data), "label"


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (columns_differ, ValueError, "partition 1 of X has 3 columns, partition 0 has 5; all partitions must have"),
        (names_differ, ValueError, "columns of partition 1 of X are 'feature 4'.*partition 0 are 'feature 0'"),
        (lengths_differ, ValueError, "partition 1 of X has 100 rows, but its y has 99; give one value per row"),
        (types_differ, ValueError, "y holds numbers such as .* and names such as .*; give labels of one type"),
        (names_in_a_column, ValueError, "partition 0 of X.*column 'a' is of the type .*; expected numbers.*Drop it"),
        (too_few_labels, ValueError, "X has 35,000 rows, but y has 34,999; give one value per row"),
        (no_labels, ValueError, r"LinearSVC requires y to be passed.*list of partitions \(X, y\)"),
        (no_rows, ValueError, "X has no rows: all of its 1 partitions are empty"),
        (one_class, ValueError, "y holds one class only, 0.0; a classifier needs at least two classes"),
        (one_dimension, ValueError, "dask array of 1 dimensions. Reshape it"),
        (not_a_pair, ClusterError, r"partition 0 of X .*expected a pair \(X, y\) or a triple"),
        (not_finite, ValueError, "X contains NaN at row 15000, column 3"),
        (
            broken,
            ClusterError,
            "partition 1 of X could not be computed: RuntimeError: the disk of partition 1 is broken",
        ),
        (no_file, OSError, "missing-0.npy"),
        (no_match, FileNotFoundError, "no file matches 'missing-.*parquet'"),
        (name_of_labels, TypeError, "y='label' is a name.*frame.drop"),
    ],
)
def test_errors_say_what_is_wrong(client, data, kind, error, message):
    given = kind(client, data)
    with pytest.raises(error, match=message):
        fit(*given) if isinstance(given, tuple) else fit(given)


# Clients


def test_a_client_that_is_closed(client, data):
    other = Client(client.scheduler.address, set_as_default=False)
    other.close()
    with pytest.raises(ValueError, match="client is closed: its connection to the scheduler has ended; make a new"):
        fit(*data, client=other)


def test_a_client_that_is_none(client, data):
    with pytest.raises(TypeError, match=r"client must be a dask.distributed.Client or None; got a str. Make one with"):
        fit(*data, client=client.scheduler.address)


def test_a_client_that_is_asynchronous(client, data):
    async def fit_there():
        async with Client(client.scheduler.address, asynchronous=True, set_as_default=False) as other:
            fit(*data, client=other)

    with pytest.raises(ValueError, match=r"client is asynchronous.*asynchronous=False"):
        asyncio.run(fit_there())


def test_without_a_client_a_cluster_is_started(client, data, monkeypatch):
    def none():
        raise ValueError("no client")

    monkeypatch.setattr(client_module, "get_client", none)
    monkeypatch.setattr(client_module, "local_cluster", lambda workers: client.cluster)
    with pytest.warns(UserWarning, match=r"no Dask client was given.*started a cluster of \d+ processes.*tcp://"):
        assert client_module.client_of(None).status == "running"


def test_without_the_extra():
    """An import that fails says what to install."""
    done = run("import sys; sys.modules['distributed'] = None; import maxmargin.dask")
    assert done.returncode
    assert "pip install 'maxmargin[dask]'" in done.stderr


def test_workers_do_without_scikit_learn():
    """Its import takes longer than a worker needs to start."""
    needed = "maxmargin.dask.worker, maxmargin.dask.rows, maxmargin.svm.linear.newton_part"
    assert not run(f"import sys, {needed}; sys.exit('sklearn' in sys.modules)").returncode


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
