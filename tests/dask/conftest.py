"""One cluster of two processes for all tests that do not kill its workers, and one for those that do."""

import dask.array as da
import pytest
from cluster_data import CHUNK, cloud
from distributed import Client
from local_clusters import start, wait_for_all

from maxmargin import LinearSVC as Local
from maxmargin.dask.parts import ClusterParts
from maxmargin.estimators import callbacks


@pytest.fixture(scope="session")
def client():
    with start(2) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="session")
def fragile():
    """A cluster whose workers tests kill; their nannies start others."""
    with start(2) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def both(fragile):
    """The cluster with both of its workers, for tests that need them."""
    wait_for_all(fragile)
    return fragile


@pytest.fixture
def few_tasks(monkeypatch):
    """Fits report to callbacks ten times, and not a hundred times."""
    monkeypatch.setattr(callbacks, "PARTS", 10)


@pytest.fixture(scope="session")
def data():
    return cloud()


@pytest.fixture(scope="session")
def three():
    """Three classes."""
    return cloud(classes=3)


@pytest.fixture
def lazy(client, data):
    """The data as dask arrays."""
    X, y = data
    return da.from_array(X, chunks=(CHUNK, -1)), da.from_array(y, chunks=CHUNK)


@pytest.fixture(scope="session")
def whole(data):
    """The model that one machine finds."""
    return Local(solver="newton", random_state=0).fit(*data)


@pytest.fixture
def at_call(monkeypatch):
    """Do something just before the workers are asked for the k-th time, or just after they were."""

    def when(number, act, *, after=False):
        ask, calls = ClusterParts._ask, []

        def counted(self, method, args, **options):
            calls.append(method)
            if len(calls) == number and not after:
                act()
            answers = ask(self, method, args, **options)
            if len(calls) == number and after:
                act()
            return answers

        monkeypatch.setattr(ClusterParts, "_ask", counted)
        return calls

    return when
