"""Predictions: lazy for dask data, eager for arrays, the numbers of one machine in both."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from cluster_data import CHUNK, D, N
from dask.base import is_dask_collection
from sklearn.callback import ProgressBar
from sklearn.exceptions import NotFittedError

from maxmargin import LinearSVC as Local
from maxmargin.dask import LinearSVC

NAMES = list("abcde")


def on_cluster(local):
    """The model of one machine as one of a cluster."""
    model = LinearSVC(**local.get_params())
    vars(model).update({name: value for name, value in vars(local).items() if name.endswith("_")})
    return model


@pytest.fixture(scope="session")
def several(three):
    X, y = three
    return Local(random_state=0).fit(X, np.array(["red", "green", "blue"])[y])


@pytest.fixture(params=["two classes", "three classes"])
def local(request, whole, several):
    return whole if request.param == "two classes" else several


@pytest.mark.parametrize("chunks", [(CHUNK, D), (CHUNK, 2)])
def test_a_dask_array(client, data, local, chunks):
    X = data[0]
    lazy, model = da.from_array(X, chunks=chunks), on_cluster(local)
    for method in ("predict", "decision_function"):
        answer = getattr(model, method)(lazy)
        expected = getattr(local, method)(X)
        assert is_dask_collection(answer)
        assert (answer.shape, answer.dtype) == (expected.shape, expected.dtype)
        assert answer.chunks[0] == lazy.chunks[0]
        np.testing.assert_array_equal(answer.compute(), expected)
        eager = getattr(model, method)(X)
        assert isinstance(eager, np.ndarray)
        np.testing.assert_array_equal(eager, expected)


def test_sparse_chunks(client, data, local):
    X = np.where(np.abs(data[0]) < 1, 0, data[0])
    lazy = da.from_array(X, chunks=(CHUNK, -1)).map_blocks(sp.csr_array)
    np.testing.assert_array_equal(on_cluster(local).predict(lazy).compute(), local.predict(sp.csr_array(X)))


def test_a_data_frame(client, data, three):
    table = pd.DataFrame(three[0], columns=NAMES)
    local = Local(random_state=0).fit(table, three[1])
    model, lazy = on_cluster(local), dd.from_pandas(table, chunksize=CHUNK)
    for method in ("predict", "decision_function"):
        answer = getattr(model, method)(lazy)
        assert is_dask_collection(answer)
        np.testing.assert_array_equal(answer.compute(), getattr(local, method)(table))
    labels = dd.from_pandas(pd.Series(three[1]), chunksize=CHUNK)
    assert float(model.score(lazy, labels).compute()) == pytest.approx(local.score(table, three[1]))
    weight = np.random.default_rng(0).uniform(size=N)
    for y in (three[1], da.from_array(three[1], chunks=5000)):  # of known sizes, those of the partitions are not
        assert float(model.score(lazy, y, weight)) == pytest.approx(local.score(table, three[1], weight))


def test_scores(client, data, lazy, whole):
    X, y = data
    model, weight = on_cluster(whole), np.random.default_rng(0).uniform(size=N)
    score = model.score(*lazy)
    assert is_dask_collection(score)
    assert float(score.compute()) == pytest.approx(whole.score(X, y))
    assert float(model.score(lazy[0], y).compute()) == pytest.approx(whole.score(X, y))
    weighted = model.score(*lazy, da.from_array(weight, chunks=CHUNK))
    assert float(weighted.compute()) == pytest.approx(whole.score(X, y, weight))
    assert model.score(X, y) == whole.score(X, y)


def test_partitions_without_rows(client, data, lazy, local):
    model, some = on_cluster(local), lazy[0][lazy[0][:, 0] > np.sort(data[0][:, 0])[-2]]  # nearly all are empty
    rows = data[0][data[0][:, 0] > np.sort(data[0][:, 0])[-2]]
    for method in ("predict", "decision_function"):
        np.testing.assert_array_equal(getattr(model, method)(some).compute(), getattr(local, method)(rows))


def test_labels_of_a_series_in_this_process(client, data, lazy, whole):
    score = on_cluster(whole).score(lazy[0], pd.Series(data[1]))
    assert is_dask_collection(score)
    assert float(score) == pytest.approx(whole.score(*data))


def test_callbacks_stay_here(client, data, lazy, whole):
    model = on_cluster(whole).set_callbacks(ProgressBar())
    np.testing.assert_array_equal(model.predict(lazy[0]).compute(), whole.predict(data[0]))


def test_errors(client, data, lazy, whole):
    with pytest.raises(NotFittedError):
        LinearSVC().predict(lazy[0])
    with pytest.raises(ValueError, match="X has 4 features, but LinearSVC is expecting 5 features"):
        on_cluster(whole).predict(lazy[0][:, :4])
