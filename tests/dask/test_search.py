"""Searches on a cluster: the same C as on one machine; grids of scikit-learn under joblib's dask backend."""

import joblib
import numpy as np
from cluster_data import threads_inside
from joblib import Parallel, delayed
from local_clusters import same
from sklearn.model_selection import GridSearchCV

from maxmargin import SVC as LocalSVC
from maxmargin import LinearSVC as Local
from maxmargin import LinearSVCCV as LocalCV
from maxmargin.dask import LinearSVC, LinearSVCCV

CS = [1e-4, 1e-2, 1.0]


def test_the_same_choice_as_on_one_machine(client, data, lazy):
    options = {"Cs": CS, "cv": 3, "random_state": 0}
    model, local = LinearSVCCV(**options).fit(*lazy), LocalCV(**options).fit(*data)
    assert model.C_ == local.C_
    np.testing.assert_allclose(model.scores_, local.scores_, atol=0.002)  # fits that are compared end at a gap of 0.01
    assert model.n_features_in_ == data[0].shape[1]
    assert model.certificate_.relative_gap <= 1e-3
    np.testing.assert_array_equal(model.predict(lazy[0]).compute(), model.predict(data[0]))
    plain = model.to_local()
    assert type(plain) is LocalCV
    assert type(plain.best_estimator_) is Local
    same(plain.best_estimator_, Local(C=model.C_, solver="newton", random_state=0).fit(*data))


def test_a_grid_of_scikit_learn_on_the_cluster(client, data):
    X, y = data[0][:3000], data[1][:3000]
    for model, grid in ((Local(random_state=0), {"C": CS}), (LocalSVC(), {"gamma": [0.1, 1.0]})):
        search = GridSearchCV(model, grid, cv=3)
        with joblib.parallel_config(backend="dask"):
            found = search.fit(X, y).cv_results_["mean_test_score"]
        np.testing.assert_array_equal(found, search.fit(X, y).cv_results_["mean_test_score"])


def test_one_thread_in_a_worker_of_one_thread(client):
    with joblib.parallel_config(backend="dask"):
        assert Parallel()(delayed(threads_inside)() for _ in range(2)) == [1, 1]
    assert client.submit(threads_inside, pure=False).result() == 1


def test_an_estimator_of_a_cluster_in_a_grid(client, data):
    X, y = data[0][:3000], data[1][:3000]
    search = GridSearchCV(LinearSVC(random_state=0, client=client), {"C": CS[1:]}, cv=2).fit(X, y)
    local = GridSearchCV(Local(random_state=0), {"C": CS[1:]}, cv=2).fit(X, y)
    assert search.best_params_ == local.best_params_
    assert search.best_estimator_.client is client
