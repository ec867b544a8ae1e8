"""LinearSVC on a cluster with many features, where CoCoA+ is the solver: the model of one machine to the bit."""

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from cluster_data import CHUNK, N
from local_clusters import same
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LinearSVC as Local
from maxmargin.dask import LinearSVC, worker
from maxmargin.dask.parts import ClusterParts
from maxmargin.svm.linear import cocoa


@pytest.fixture(scope="module")
def sparse():
    """Rows of ten features out of 2500, and their labels."""
    rng = np.random.default_rng(0)
    X = sp.csr_array((rng.exponential(size=10 * N), rng.integers(2500, size=10 * N), np.arange(0, 10 * N + 1, 10)))
    X.resize((N, 2500))
    X.sum_duplicates()
    scores = X @ rng.normal(size=2500)
    return X, np.where(scores + rng.normal(size=N) > 0, 1, -1)


def partitions(X, y):
    return [dask.delayed((X[k : k + CHUNK], y[k : k + CHUNK])) for k in range(0, N, CHUNK)]


def test_the_model_has_the_bits_of_one_machine(client, sparse):
    model = LinearSVC(C=0.1, tol=1e-2, random_state=0).fit(partitions(*sparse))
    local = Local(solver="cocoa", C=0.1, tol=1e-2, random_state=0).fit(*sparse)
    same(model, local)
    assert model.solver_ == "cocoa"
    assert model.certificate_ == local.certificate_
    assert model.certificate_.relative_gap <= 1e-2
    assert model.n_iter_ == local.n_iter_


def test_few_rounds_are_remembered_and_repeated(client, sparse, at_call, monkeypatch):
    """Units that are made anew need nothing of what came before; those that are lost repeat the rounds since then."""
    monkeypatch.setattr(cocoa, "REFRESH", 4)
    rules = {"solver": "cocoa", "C": 0.1, "max_iter": 11, "tol": 1e-9, "random_state": 0}
    lengths, update = [], ClusterParts.update

    def measured(self, method, *args):
        sums = update(self, method, *args)
        lengths.append(len(self.log))
        return sums

    def forget():
        worker._held.clear()

    monkeypatch.setattr(ClusterParts, "update", measured)
    calls = at_call(14, lambda: client.run(forget))
    with pytest.warns(ConvergenceWarning):
        model = LinearSVC(**rules).fit(partitions(*sparse))
    with pytest.warns(ConvergenceWarning):
        local = Local(**rules).fit(*sparse)
    assert "round" in calls[4:13]
    assert "round" in calls[14:]
    assert max(lengths) <= 1 + 4
    same(model, local)
