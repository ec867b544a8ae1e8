"""The samples of `maxmargin train`: a table in this process, or files that the workers of a cluster open."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from maxmargin import estimators
from maxmargin.cli.common import (
    check_classes,
    parts_of,
    position_or_name,
    read,
    say,
    source_name,
    stored_entries,
)
from maxmargin.core.optional import import_optional
from maxmargin.core.threads import thread_count
from maxmargin.data import Table, required_labels
from maxmargin.estimators import SVC, LinearSVC
from maxmargin.estimators.validation import keep_feature_names
from maxmargin.estimators.words import count

if TYPE_CHECKING:
    from distributed import Client

    from maxmargin.dask.rows import ClusterRows

# The training error is measured on as many rows as take this many multiplications (a few tenths of a second), but on
# at least this many rows.
TRAINING_ERROR_MULTIPLICATIONS, TRAINING_ERROR_ROWS = 300_000_000, 1000

# Features count as badly scaled if the largest standard deviation is more than this many times the smallest one. They
# are measured on at most this many rows.
BAD_SCALES, SCALE_ROWS = 1000.0, 10_000

LOCAL = "local"  # the address that means a new cluster on this machine
SECONDS_TO_CONNECT = 5.0  # an address counts as wrong if its scheduler does not answer within this time


class Samples(Protocol):
    """Samples in one place, which determines how an estimator is made, fitted and evaluated on them."""

    name: str
    """The name of the data in summaries and messages."""

    @property
    def n_features(self) -> int:
        """The number of features; known after an estimator is prepared."""

    @property
    def feature_names(self) -> Sequence[str] | None:
        """The names of the features, or None; known after an estimator is prepared."""

    def prepare(self, estimator: str, parameters: Mapping[str, Any]) -> Any:
        """Make the estimator of this name for these samples, and move the samples to where it needs them."""

    def fit(self, estimator: Any, checkpoint: Path | None) -> None:
        """Fit a prepared estimator."""

    def local(self, model: Any) -> Any:
        """Convert a fitted model to one that needs no cluster."""

    def notes(self, model: LinearSVC | SVC) -> dict[str, Any]:
        """Return notes for the model file about the samples and the error of the model on them."""


class LocalSamples:
    """Samples of one file or store, in this process.

    Parameters
    ----------
    data : path
        The source of the samples.
    table : Table
        The samples and their labels.
    """

    def __init__(self, data: Path, table: Table) -> None:
        self.name, self.table = source_name(data), table
        self.y = required_labels(self.name, table)
        check_classes(self.name, self.y, table.labels_in)

    @property
    def n_features(self) -> int:
        return int(self.table.X.shape[1])

    @property
    def feature_names(self) -> Sequence[str] | None:
        return self.table.names

    def prepare(self, estimator: str, parameters: Mapping[str, Any]) -> Any:
        return getattr(estimators, estimator)(**parameters)

    def fit(self, estimator: Any, checkpoint: Path | None) -> None:
        estimator.fit(self.table.X, self.y, checkpoint=checkpoint)
        if self.table.names is not None:  # rows in memory are an array without names
            for model in {estimator, getattr(estimator, "best_estimator_", estimator)}:
                keep_feature_names(model, self.table.names)

    def local(self, model: Any) -> Any:
        return model

    def notes(self, model: LinearSVC | SVC) -> dict[str, Any]:
        X = self.table.X
        about = {"data": self.name, "rows": X.shape[0], "stored": stored_entries(X)}
        if self.table.labels_in:
            about["labels_in"] = self.table.labels_in
        return about | feature_scales(X) | training_error(model, X, self.y)


@contextmanager
def local_samples(data: Path, label_column: str, header: bool | None, **reading: Any) -> Iterator[Samples]:
    """Context with the samples of a file or store; parameters are those of :func:`maxmargin.cli.common.read`."""
    yield LocalSamples(data, read(data, label_column, header, **reading))


def feature_scales(X: Any) -> dict[str, float]:
    """Return by what factor the scales of dense features differ, if it is so large that it probably harms the model."""
    if not isinstance(X, np.ndarray):
        return {}  # sparse features are not scaled to unit variance, and a store would have to be read again
    some = X[np.linspace(0, len(X) - 1, min(len(X), SCALE_ROWS)).astype(np.int64)]
    deviations = some.std(axis=0, dtype=np.float64)
    varying = deviations[deviations > 0]
    factor = float(varying.max() / varying.min()) if varying.size else 1.0
    return {"feature_scales": factor} if factor > BAD_SCALES else {}


def training_error(model: LinearSVC | SVC, X: Any, y: NDArray[Any]) -> dict[str, Any]:
    """Measure the training error on all rows or, if that is slow, on evenly spaced rows."""
    wrong = rows = 0
    for part, which in parts_of(X, rows_to_try(model, X.shape[0], stored_entries(X))):
        wrong += int(np.count_nonzero(model.predict(part) != y[which]))
        rows += which.size
    return {"training_error": wrong / rows, "training_error_rows": rows}


def rows_to_try(model: LinearSVC | SVC, n: int, stored: int) -> int:
    """Return on how many of n rows with `stored` entries to measure the training error."""
    vectors: int = model.support_.size if isinstance(model, SVC) else model.coef_.shape[0]
    cost = max(1, vectors * stored // n)  # multiplications for one row
    return min(n, max(TRAINING_ERROR_ROWS, TRAINING_ERROR_MULTIPLICATIONS // cost))


class ClusterSamples:
    """Samples in files that the workers of a cluster open; each file is one partition.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    data : list of paths
        Files, stores and patterns. The workers must find them at the same paths.
    label_column : str or int
        The label column, in the form that :func:`maxmargin.data.read_table` accepts.
    """

    rows: ClusterRows
    y: NDArray[Any]

    def __init__(self, client: Client, data: Sequence[Path], label_column: str | int) -> None:
        import dask

        from maxmargin.dask.inputs import files_of
        from maxmargin.dask.worker import read_pair

        more = f" and {len(data) - 1:,} more" if len(data) > 1 else ""
        self.client, self.name = client, source_name(data[0]) + more
        # A worker lists the files, because this machine may not have access to them.
        found = client.gather([client.submit(files_of, os.path.abspath(path), pure=False) for path in data])
        files = [file for some in found for file in some]
        self.partitions = [dask.delayed(read_pair, pure=False)(file, label_column) for file in files]

    @property
    def n_features(self) -> int:
        return self.rows.shape[1]

    @property
    def feature_names(self) -> Sequence[str] | None:
        return self.rows.feature_names

    def prepare(self, estimator: str, parameters: Mapping[str, Any]) -> Any:
        import maxmargin.dask

        made = getattr(maxmargin.dask, estimator)(**parameters, client=self.client)
        self.rows, self.y, _ = made._on_workers(self.partitions, None, None)
        check_classes(self.name, self.y)
        return made

    def fit(self, estimator: Any, checkpoint: Path | None) -> None:
        estimator.fit(self.rows, self.y, checkpoint=checkpoint)

    def local(self, model: Any) -> Any:
        return model.to_local()

    def notes(self, model: LinearSVC | SVC) -> dict[str, Any]:
        n, stored = self.rows.shape[0], self.rows.n_stored
        tried = np.linspace(0, n - 1, rows_to_try(model, n, stored)).astype(np.int64)
        wrong = np.count_nonzero(self.rows.apply(model, "predict", tried) != self.y[tried])
        return {
            "data": self.name,
            "rows": n,
            "stored": stored,
            "partitions": len(self.partitions),
            "workers": len(self.client.nthreads()),
            "training_error": float(wrong / tried.size),
            "training_error_rows": tried.size,
        }


@contextmanager
def cluster_samples(
    address: str, data: Sequence[Path], label_column: str, *, processes: int | None, quiet: bool
) -> Iterator[Samples]:
    """Context with the samples of files on a cluster; see :class:`ClusterSamples` and :func:`cluster_client`."""
    with cluster_client(address, processes, quiet=quiet) as client:
        from maxmargin.dask.client import ClusterError

        try:
            yield ClusterSamples(client, data, position_or_name(label_column))
        except ClusterError as error:  # its message contains all that a user needs to know
            raise ValueError(str(error)) from error


@contextmanager
def cluster_client(address: str, processes: int | None, *, quiet: bool) -> Iterator[Client]:
    """Context with a client of the cluster at an address; "local" starts a cluster, which ends with the context.

    Parameters
    ----------
    address : str
        The address of the scheduler, or "local".
    processes : int or None
        The number of workers of a local cluster; None means one for each processor.
    quiet : bool
        Whether to omit the message with the address of the dashboard.
    """
    for package in ("dask", "distributed"):
        import_optional(package, "--dask")
    from distributed import Client

    from maxmargin.dask.local_cluster import local_cluster

    if address == LOCAL:
        workers = thread_count(processes)
        # Errors of workers are passed to this process, which reports them.
        with local_cluster(workers, silence_logs=logging.CRITICAL) as cluster, Client(cluster) as client:
            if not quiet:
                shown = f"; dashboard: {client.dashboard_link}" if find_spec("bokeh") is not None else ""
                say(f"started {count(workers, 'worker')} on this machine{shown}")
            yield client
    else:
        try:
            client = Client(address, timeout=SECONDS_TO_CONNECT)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"--dask {address}: no scheduler answers there ({error}). Start one with `dask scheduler`, and workers "
                "with `dask worker ADDRESS`; or give --dask local for a cluster on this machine"
            ) from error
        with client:
            yield client
