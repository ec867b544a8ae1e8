"""LinearSVC on a cluster: the model of one machine to the bit, with the same parameters and stop rules."""

import gc
import inspect
import logging
import pickle
import time

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from cluster_data import CHUNK, D, N
from ctrl_c import ctrl_c_at_look
from local_clusters import same
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from maxmargin import LinearSVC as Local
from maxmargin import load_model, save_model
from maxmargin.dask import LinearSVC, estimators
from maxmargin.estimators import base
from maxmargin.solvers import Newton


def lazily(*arrays):
    return [da.from_array(array, chunks=(CHUNK, -1)[: array.ndim]) for array in arrays]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_model_has_the_bits_of_one_machine(client, data, lazy, loss):
    options = {"loss": loss, "tol": 1e-6, "keep_dual": True, "random_state": 0}
    model, local = LinearSVC(**options).fit(*lazy), Local(solver="newton", **options).fit(*data)
    same(model, local)
    np.testing.assert_array_equal(model.support_, local.support_)
    np.testing.assert_array_equal(model.dual_coef_, local.dual_coef_)
    assert model.certificate_.relative_gap <= 1e-6
    assert model.solver_ == "newton"
    assert model.certificate_ == local.certificate_
    assert model.entries_read_ == local.entries_read_
    assert model.n_iter_ == local.n_iter_


def test_several_classes_and_weights(client, three):
    X, y = three
    weight = np.random.default_rng(1).uniform(0, 2, size=y.size)
    options = {"random_state": 0, "class_weight": {"a": 1.0, "b": 2.0, "c": 0.5}}
    names = np.array(["a", "b", "c"])[y]
    model = LinearSVC(**options).fit(*lazily(X, names, weight))
    same(model, Local(solver="newton", **options).fit(X, names, weight))
    assert model.classes_.tolist() == ["a", "b", "c"]


def test_the_slack_form(client, data, lazy):
    options = {"slack": 0.3, "random_state": 0}
    model = LinearSVC(**options).fit(*lazy)
    same(model, Local(solver="newton", **options).fit(*data))


def test_early_stopping(client, data, lazy):
    options = {"early_stopping": True, "random_state": 0}
    model = LinearSVC(**options).fit(*lazy)
    same(model, Local(solver="newton", **options).fit(*data))


def test_support_vectors_are_rows_of_the_training_data(client, data):
    X, y = data[0][:3000], data[1][:3000]
    options = {"keep_dual": True, "random_state": 0}
    lazy = da.from_array(X, chunks=(1100, -1))
    frame = dd.from_dask_array(lazy, columns=list("abcde"))
    rows = X[Local(solver="newton", **options).fit(X, y).support_]
    for given in (lazy, frame, frame.to_dask_array()):
        model = LinearSVC(**options).fit(given, y)
        assert isinstance(model.support_vectors_, da.Array)
        np.testing.assert_array_equal(model.support_vectors_.compute(), rows)
    with pytest.raises(AttributeError, match=r"the training data is gone; .*its rows model\.support_"):
        model.to_local().support_vectors_  # noqa: B018
    np.testing.assert_array_equal(LinearSVC(**options).fit(X, y).support_vectors_, rows)


# Stop rules


def test_a_warm_start_begins_at_the_earlier_model(client, data, lazy):
    model, local = LinearSVC(warm_start=True, random_state=0), Local(solver="newton", warm_start=True, random_state=0)
    for C in (0.1, 0.2):
        model.set_params(C=C).fit(*lazy)
        local.set_params(C=C).fit(*data)
        same(model, local)
    cold = LinearSVC(C=0.2, random_state=0).fit(*lazy)
    assert model.n_iter_ <= cold.n_iter_


def test_a_limit_of_iterations(client, data, lazy):
    options = {"max_iter": 2, "random_state": 0}
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model = LinearSVC(**options).fit(*lazy)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        same(model, Local(solver="newton", **options).fit(*data))
    assert model.stopped_ == "max_iter"


@pytest.mark.parametrize("budget", [3 * N * D, 6 * N * D])
def test_a_budget_is_kept(client, data, lazy, budget):
    options = {"budget": budget, "tol": 1e-9, "random_state": 0}
    model = LinearSVC(**options).fit(*lazy)
    local = Local(solver="newton", **options).fit(*data)
    same(model, local)
    assert model.entries_read_ == local.entries_read_ <= budget
    assert model.stopped_ == local.stopped_


def test_hardly_any_time(client, lazy):
    model = LinearSVC(max_time=1e-6, tol=1e-12, random_state=0).fit(*lazy)
    assert model.stopped_ == "max_time"
    assert np.isfinite(model.coef_).all()


def test_time_counts_from_the_call(client, lazy, monkeypatch):
    """What it takes to bring the data to the workers is a part of `max_time`."""
    placed, ends = [], []
    place, deadline = estimators.place, base.Deadline

    def noted(*args, **options):
        placed.append(time.perf_counter())
        return place(*args, **options)

    def recorded(max_time, began):
        ends.append(began)
        return deadline(max_time, began)

    monkeypatch.setattr(estimators, "place", noted)
    monkeypatch.setattr(base, "Deadline", recorded)
    LinearSVC(random_state=0, max_time=100).fit(*lazy)
    assert ends[0] < placed[0]


def test_the_workers_memory_is_free_after_the_fit(client, caplog, monkeypatch):
    """Nothing of the data is held by a model, and what is computed of it later is nothing that is known already."""
    monkeypatch.setattr("maxmargin.dask.client.LOOK_SECONDS", 0.005)  # answers are waited for more than once
    random = da.random.default_rng(0)
    y = random.integers(2, size=4000, chunks=1000)
    X = random.normal(size=(4000, D), chunks=(1000, -1)) + y[:, None]

    def on_workers():
        return {key for keys in client.has_what().values() for key in keys}

    gc.collect()  # what other tests have left
    before = on_workers()
    gc.disable()
    try:
        with caplog.at_level(logging.WARNING, logger="distributed.scheduler"):
            model = LinearSVC(random_state=0).fit(X, y)
            assert float(model.score(X, y)) > 0.5
        for _ in range(500):  # the scheduler hears of it a little later
            held = on_workers() - before
            if not held:
                break
            time.sleep(0.01)
    finally:
        gc.enable()
    assert not held
    assert "run_spec" not in caplog.text


@pytest.mark.parametrize("look", [20, 40])
def test_ctrl_c_keeps_the_model(client, data, lazy, monkeypatch, look):
    with ctrl_c_at_look(monkeypatch, look):
        model = LinearSVC(tol=1e-12, random_state=0).fit(*lazy)
    assert model.stopped_ == "interrupted"
    assert model.score(*data) > 0.5


# Conventions


@pytest.mark.usefixtures("few_tasks")
def test_callbacks_hear_of_the_fit(client, data, capsys):
    monitor = ScoringMonitor(scoring="accuracy")
    model = LinearSVC(random_state=0).set_callbacks(ProgressBar(), monitor).fit(*data)
    assert "100%" in capsys.readouterr().out
    assert monitor.get_logs().data_as_pandas["accuracy"].iloc[0] == pytest.approx(model.score(*data))


def test_verbose_prints_a_line_for_each_check(client, lazy, capsys):
    model = LinearSVC(random_state=0, verbose=2).fit(*lazy)
    assert len(capsys.readouterr().out.splitlines()) == len(model.trace_)


def test_parameters(client):
    model = LinearSVC(C=2.0, client=client)
    assert model.get_params() == {**Local(C=2.0).get_params(), "client": client}
    assert list(inspect.signature(LinearSVC).parameters)[-1] == "client"
    copy = clone(model)
    assert copy.client is client
    assert copy.get_params() == model.get_params()
    assert repr(LinearSVC(C=2.0)) == "LinearSVC(C=2.0)"
    with pytest.raises(TypeError, match="unexpected keyword argument 'clients'"):
        LinearSVC(clients=client)


def test_the_fitted_model_is_an_ordinary_one(client, data, lazy, whole, tmp_path):
    model = LinearSVC(random_state=0, client=client).fit(*lazy)
    local = model.to_local()
    assert type(local) is Local
    assert local.get_params() == {**Local(random_state=0).get_params()}
    same(local, whole)
    save_model(model, tmp_path / "model.mm")
    loaded = load_model(tmp_path / "model.mm")
    assert type(loaded) is Local
    same(loaded, whole)
    unpickled = pickle.loads(pickle.dumps(model))
    assert unpickled.client is None
    np.testing.assert_array_equal(unpickled.predict(data[0]), whole.predict(data[0]))
    with pytest.raises(NotFittedError):
        LinearSVC().to_local()


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"C": -1.0}, ValueError, "'C' parameter of LinearSVC must be.*Got -1"),
        ({"solver": "sdca"}, TypeError, "solver 'sdca' .*Solvers that take this problem: .*newton"),
        ({"solver": "newtonian"}, ValueError, "solver must be 'auto', a Solver, or one of .*; got 'newtonian'"),
    ],
)
def test_parameters_that_cannot_be(client, lazy, parameters, error, message):
    with pytest.raises(error, match=message):
        LinearSVC(**parameters).fit(*lazy)


def test_a_solver_object(client, lazy, whole):
    model = LinearSVC(solver=Newton(first=3000), random_state=0).fit(*lazy)
    assert model.solver_ == "newton"
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=0.05)
