"""
A cluster on one machine
========================

The estimators of ``maxmargin.dask`` fit data on the workers of a Dask cluster. Here the cluster consists of two
processes on this machine. The picture compares the weights with those of ``maxmargin.LinearSVC``, which reaches the
same optimum without a cluster.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

import maxmargin
from maxmargin.dask import LinearSVC


def main():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        random = da.random.default_rng(0)
        y = random.integers(2, size=40_000, chunks=10_000)
        X = random.normal(size=(40_000, 10), chunks=(10_000, -1)) + 0.5 * y[:, None]
        X, y = dask.persist(X, y)  # computed and kept by the workers
        model = LinearSVC(C=0.1, client=client).fit(X, y)
        print(f"certificate   {model.certificate_}")
        print(f"accuracy      {model.score(X, y).compute():.1%}")
        return model.to_local(), X.compute(), y.compute()


# %%
# A ``LocalCluster`` starts processes that import this file. The guard keeps these processes from starting clusters too.

if __name__ == "__main__":
    model, X, y = main()
    alone = maxmargin.LinearSVC(C=0.1).fit(X, y)
    print(f"difference    {np.abs(model.coef_ - alone.coef_).max():.1g} at most, from a model fitted without a cluster")

    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    places = np.arange(X.shape[1])
    axes.bar(places - 0.2, model.coef_[0], width=0.4, label="on the cluster")
    axes.bar(places + 0.2, alone.coef_[0], width=0.4, label="without it")
    axes.set(xlabel="feature", ylabel="weight", xticks=places)
    axes.legend()
    plt.show()
