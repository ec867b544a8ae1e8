"""Kernel machines on a cluster: the bits of one machine, whatever happens to the workers."""

import os
import sys
from types import ModuleType

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from cluster_data import cloud, cosine, partition
from ctrl_c import ctrl_c_at_look
from distributed import Client
from local_clusters import kill_one, threads
from sklearn.callback import ProgressBar, ScoringMonitor

from maxmargin import SVC as Local
from maxmargin import SVCCV as LocalCV
from maxmargin import load_model, save_model
from maxmargin.dask import SVC, SVCCV, ClusterError
from maxmargin.solvers import Checkpoint, Decomposition, StochasticBatchPerceptron

N, CHUNK = 3000, 1100
EXACT = {"solver": "decomposition", "random_state": 0}
SMALL_STEPS = {"solver": Decomposition(first=500, block=64), "random_state": 0}  # as many as with large data


@pytest.fixture(scope="module")
def few():
    return cloud(n=N)


@pytest.fixture(scope="module")
def model_of_one(few):
    return Local(**SMALL_STEPS).fit(*few)


def chunked(X, y):
    return da.from_array(X, chunks=(CHUNK, -1)), da.from_array(y, chunks=CHUNK)


def same(model, other):
    """Two kernel machines are equal to the bit."""
    for name in ("support_", "dual_coef_", "intercept_", "n_support_", "gamma_"):
        one, two = (getattr(each, name) for each in (model, other))
        np.testing.assert_array_equal(*((each.toarray() if sp.issparse(each) else each) for each in (one, two)))
    assert str(model.certificate_) == str(other.certificate_)


def test_the_bits_of_one_machine(client, few, model_of_one):
    lazy = chunked(*few)
    model = SVC(**SMALL_STEPS).fit(*lazy)
    same(model, model_of_one)
    np.testing.assert_array_equal(model.support_vectors_, few[0][model.support_])
    assert model.kernel_evaluations_ == model_of_one.kernel_evaluations_
    np.testing.assert_array_equal(model.predict(few[0]), model_of_one.predict(few[0]))
    later = model.decision_function(lazy[0])
    assert isinstance(later, da.Array)
    np.testing.assert_allclose(later.compute(), model.decision_function(few[0]), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(lazy[0]).compute(), model.predict(few[0]))
    assert float(model.score(*lazy)) == model.score(*few)


@pytest.mark.parametrize("workers", [1, 3])
def test_another_number_of_workers(few, model_of_one, workers):
    with threads(workers) as cluster, Client(cluster, set_as_default=False) as client:
        same(SVC(client=client, **SMALL_STEPS).fit(*few), model_of_one)


@pytest.mark.parametrize(("number", "after"), [(2, False), (12, True), (25, False)])
def test_a_worker_is_killed(both, few, model_of_one, at_call, number, after):
    calls = at_call(number, lambda: kill_one(both), after=after)
    parts = [dask.delayed(partition)(k, n=N, chunk=CHUNK) for k in range(3)]
    same(SVC(client=both, **SMALL_STEPS).fit(parts, None), model_of_one)
    assert len(calls) > 25


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_several_classes(client, multi_class):
    X, y = cloud(classes=3, n=1500)
    names = np.array(["a", "b", "c"])[y]
    options = {"multi_class": multi_class, **EXACT}
    model, local = SVC(**options).fit(*chunked(X, names)), Local(**options).fit(X, names)
    same(model, local)
    np.testing.assert_array_equal(model.predict(da.from_array(X, chunks=(500, -1))).compute(), local.predict(X))


@pytest.mark.parametrize("dense", [(), (0,), (500, 1000)])
def test_sparse_rows_and_weights(client, dense):
    """Partitions that are dense become sparse where others are."""
    X, y = cloud(n=1500, d=30)
    X[np.abs(X) < 1] = 0
    rows, weight = sp.csr_array(X), np.where(y > 0, 2.0, 1.0)
    given = {k: (X if k in dense else rows)[k : k + 500] for k in range(0, 1500, 500)}
    blocks = [(dask.delayed(part), y[k : k + 500], weight[k : k + 500]) for k, part in given.items()]
    model, local = SVC(**EXACT).fit(blocks, None), Local(**EXACT).fit(rows, y, sample_weight=weight)
    same(model, local)
    assert sp.issparse(model.support_vectors_)


@pytest.mark.parametrize(
    "options", [{"kernel": "linear"}, {"kernel": "poly", "degree": 2}, {"slack": 0.1}, {"class_weight": "balanced"}]
)
def test_parameters(client, options):
    X, y = cloud(n=1000)
    if options.get("kernel") == "linear":
        X += 100  # so that it is centred
    model, local = (kind(**EXACT, **options).fit(X, y) for kind in (SVC, Local))
    same(model, local)


def test_a_function_as_kernel(client):
    X, y = cloud(n=600)
    model, local = (kind(kernel=cosine, **EXACT).fit(X, y) for kind in (SVC, Local))
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=1e-2)
    assert model.certificate_.relative_gap <= 1e-3


def test_a_kernel_that_workers_cannot_import(client, few, monkeypatch):
    module = ModuleType("only_here")
    exec("def product(A, B):\n    return A @ B.T", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    pids = client.run(os.getpid)
    with pytest.raises(ClusterError, match=r"cannot load .*No module named 'only_here'.*client\.upload_file"):
        SVC(kernel=module.product, **EXACT).fit(*few)
    assert client.run(os.getpid) == pids  # no worker was lost


def test_early_stopping(client, few):
    options = {"early_stopping": True, **SMALL_STEPS}
    model, local = SVC(**options).fit(*chunked(*few)), Local(**options).fit(*few)
    same(model, local)
    assert model.stopped_ == local.stopped_
    np.testing.assert_array_equal(model.trace_.to_pandas()["holdout_error"], local.trace_.to_pandas()["holdout_error"])


def test_hardly_any_time(client, few):
    model = SVC(max_time=1e-6, tol=1e-12, **SMALL_STEPS).fit(*few)
    assert model.stopped_ == "max_time"
    assert model.fit_status_ == 1
    assert model.score(*few) > 0.5


@pytest.mark.parametrize("look", [20, 60])
def test_ctrl_c_keeps_the_model(client, few, monkeypatch, look):
    with ctrl_c_at_look(monkeypatch, look):
        model = SVC(tol=1e-12, **SMALL_STEPS).fit(*few)
    assert model.stopped_ == "interrupted"
    assert model.score(*few) > 0.5
    assert np.isfinite(model.certificate_.relative_gap)


@pytest.mark.usefixtures("few_tasks")
def test_callbacks_hear_of_the_fit(client, few, capsys):
    X, y = few[0][:600], few[1][:600]
    monitor = ScoringMonitor(scoring="accuracy")
    model = SVC(**EXACT).set_callbacks(ProgressBar(), monitor).fit(*chunked(X, y))
    assert "100%" in capsys.readouterr().out
    assert monitor.get_logs().data_as_pandas["accuracy"].iloc[0] == pytest.approx(model.score(X, y))


def test_a_model_is_an_ordinary_one(client, few, model_of_one, tmp_path):
    model = SVC(**SMALL_STEPS).fit(*few)
    plain = model.to_local()
    assert type(plain) is Local
    same(plain, model_of_one)
    save_model(model, tmp_path / "model.mm")
    loaded = load_model(tmp_path / "model.mm")
    np.testing.assert_array_equal(loaded.decision_function(few[0]), model_of_one.decision_function(few[0]))


def test_a_fit_goes_on_from_its_checkpoint(client, few, model_of_one, at_call, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "affords", lambda self, size: True)  # saved at each check

    def fit():
        return SVC(**SMALL_STEPS).fit(*few, checkpoint=Checkpoint(tmp_path / "fit", every_seconds=0))

    def fail():
        raise RuntimeError("the power is off")

    calls = at_call(40, fail)
    with pytest.raises(RuntimeError, match="the power is off"):
        fit()
    same(fit(), model_of_one)
    resumed = len(calls) - 40
    SVC(**SMALL_STEPS).fit(*few)
    assert resumed < len(calls) - 40 - resumed  # it went on where it was saved


def test_what_a_cluster_cannot_do(client, few):
    X, y = few
    with pytest.raises(ValueError, match=r"solver 'smo' needs all samples in one process.*'decomposition'"):
        SVC(solver="smo").fit(X, y)
    with pytest.raises(ValueError, match="solver 'sbp' needs all samples in one process"):
        SVC(solver=StochasticBatchPerceptron(), slack=0.1).fit(X, y)
    with pytest.raises(ValueError, match=r"slack=0\.1 and budget=1000"):
        SVC(slack=0.1, budget=1000).fit(X, y)
    with pytest.raises(ValueError, match=r"kernel='precomputed' needs the whole kernel matrix.*maxmargin.SVC"):
        SVC(kernel="precomputed").fit(X @ X.T, y)
    broken = X.copy()
    broken[2500, 3] = np.nan
    with pytest.raises(ValueError, match=r"row 2500.*column 3|column 3.*row 2500"):
        SVC().fit(da.from_array(broken, chunks=(CHUNK, -1)), y)
    with pytest.raises(ValueError, match=r"cache_size=0\.1 megabytes hold"):
        SVC(cache_size=0.1).fit(X, y)


def test_a_search_makes_the_same_choice(client, few):
    X, y = few[0][:1200], few[1][:1200]
    options = {"Cs": [0.1, 10.0], "gammas": [0.02, 0.5], "cv": 2, "random_state": 0}
    model, local = SVCCV(**options).fit(*chunked(X, y)), LocalCV(**options).fit(X, y)
    assert (model.C_, model.gamma_) == (local.C_, local.gamma_)
    np.testing.assert_allclose(model.scores_, local.scores_, atol=0.005)  # fits that are compared end at a gap of 0.01
    assert type(model.to_local()) is LocalCV
    assert model.best_estimator_.certificate_.relative_gap <= 1e-3
    np.testing.assert_allclose(
        SVCCV(gammas="auto")._gammas(model_rows(client, X)), LocalCV(gammas="auto")._gammas(X), rtol=0
    )


def model_rows(client, X):
    from maxmargin.dask.inputs import place

    return place(client, [X])
