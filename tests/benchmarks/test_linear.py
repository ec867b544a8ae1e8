"""The race of linear solvers: what is compared and how, on tiny data and without a clock."""

import importlib
import json
import math
import signal
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

FOLDER = Path(__file__).parents[2] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("benchmarks come with a checkout only", allow_module_level=True)
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER)
    linear, linear_worker, memory = map(importlib.import_module, ("linear", "linear_worker", "memory"))

OPTIONS = Namespace(repeats=3, cap=60.0, patience=4.0, floor=1e-9, ceiling=math.inf)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)).astype(np.float32) * (rng.random((40, 6)) < 0.5)
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=40) > 0, 1.0, -1.0)


class Fake:
    """A worker that knows the answer: its rung is how far it stays from the optimum."""

    threads = 1

    def __init__(self, optimum, seconds):
        self.optimum, self.seconds, self.asked = optimum, seconds, []

    def fit(self, loss, C, rung, seconds):
        self.asked.append(rung)
        needed = self.seconds / rung
        if needed > seconds:
            raise linear.Stopped(f"> {seconds:g}")
        return self.optimum * (1 + rung), needed, 2 * needed


@pytest.mark.parametrize("loss", linear.LOSSES)
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_objective(data, loss, store):
    X, y = data
    w = np.linspace(-1, 1, 6)
    slack = [max(0.0, 1 - y[i] * sum(float(x) * v for x, v in zip(X[i], w, strict=True))) for i in range(40)]
    expected = sum(v * v for v in w) / 2 + 3 * sum(s if loss == "hinge" else s * s for s in slack)
    assert linear.objective(store(X), y, w, loss, 3.0) == pytest.approx(expected, rel=1e-12)


def test_race(data):
    X, y = data
    w = LinearSVC(loss="squared_hinge", fit_intercept=False, tol=1e-12, max_iter=10**5, random_state=0).fit(X, y)
    optimum, w = linear.objective(X, y, w.coef_[0], "squared_hinge", 1.0), w.coef_[0]
    workers = {
        "maxmargin": Fake(w, 0.001),
        "liblinear": Fake(w, 0.01),
        "LinearSVC": Fake(w, 0.1),
        "snapml": Fake(w, 3),
    }
    loose, tight = rows = linear.race(workers, X, y, "squared_hinge", 1.0, optimum, "cpu", OPTIONS)
    assert [row["e"] for row in rows] == [0.1, 0.001]
    assert loose["optimum"] == optimum
    assert 0 < tight["suboptimality"] < loose["suboptimality"]
    assert loose["suboptimality"] == pytest.approx(
        linear.objective(X, y, 1.1 * w, "squared_hinge", 1.0) / optimum - 1, rel=1e-9
    )
    assert loose["entrants"]["maxmargin"] == {
        "cpu": pytest.approx(0.01),
        "wall": pytest.approx(0.02),
        "rung": 0.1,
        "suboptimality": loose["suboptimality"],
    }
    assert tight["entrants"]["liblinear"]["cpu"] == pytest.approx(10)
    assert tight["entrants"]["LinearSVC"]["stopped"] == "> 40"  # four times LIBLINEAR
    assert loose["entrants"]["snapml"]["cpu"] == pytest.approx(30)
    assert workers["maxmargin"].asked.count(0.1) == OPTIONS.repeats
    assert workers["maxmargin"].asked.count(0.3) == 1  # not good enough, so not run again
    assert min(workers["maxmargin"].asked) == 0.001

    lines = linear.table([{"set": "tiny"} | row for row in rows], ["maxmargin", "liblinear", "lightning"], "cpu")
    cells = [cell.strip() for cell in lines.splitlines()[-1].strip("|").split("|")]
    assert cells[:4] == ["tiny", "squared_hinge", "1", "0.001"]
    assert cells[5:] == ["1.00", "10.0", "-", "10.00 (liblinear)"]


@pytest.mark.parametrize(("bound", "reached"), [("floor", True), ("ceiling", False)])
def test_targets_keep_within_bounds(data, bound, reached):
    X, y = data
    workers = {"liblinear": Fake(np.zeros(6), 0.01)}  # the objective of w = 0 is 40
    options = Namespace(**vars(OPTIONS) | {bound: 0.5})
    (row, _) = linear.race(workers, X, y, "hinge", 1.0, 39.0 if reached else 20.0, "cpu", options)
    assert row["suboptimality"] == pytest.approx(0.5)
    assert ("cpu" in row["entrants"]["liblinear"]) == reached


def test_a_target_that_is_too_slow_is_left_out(data, capsys):
    X, y = data
    workers = {"liblinear": Fake(np.zeros(6), 1.0)}
    (row,) = linear.race(workers, X, y, "hinge", 1.0, math.inf, "cpu", OPTIONS)
    assert row["e"] == 0.1
    assert "LIBLINEAR at -e 0.001 > 300" in capsys.readouterr().out
    assert linear.race({"liblinear": Fake(np.zeros(6), 99.0)}, X, y, "hinge", 1.0, math.inf, "cpu", OPTIONS) == []


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("layout", sorted(linear_worker.LAYOUTS))
def test_data_reaches_the_worker(data, tmp_path, store, layout):
    X, y = data
    linear_worker.save(tmp_path / "data.npz", store(X), y)
    X_read, y_read = linear_worker.load(tmp_path / "data.npz")
    given = linear_worker.LAYOUTS[layout](X_read)
    assert sp.issparse(given) == layout.startswith("csr")
    assert given.dtype == (np.float32 if layout.endswith("32") else np.float64)
    np.testing.assert_array_equal(given.toarray() if sp.issparse(given) else given, X)
    np.testing.assert_array_equal(y_read, y)


@pytest.mark.parametrize("loss", linear.LOSSES)
@pytest.mark.parametrize("name", [linear.OURS, *linear.NAMED, "LinearSVC", "LinearSVC-primal", "SGDClassifier"])
def test_entrants_solve_the_same_problem(data, name, loss):
    if loss not in linear.ENTRANTS[name].losses:
        pytest.skip("it has no such loss")
    X, y = data
    exact = LinearSVC(loss=loss, C=0.5, fit_intercept=False, dual=True, tol=1e-9, max_iter=10**6).fit(X, y).coef_[0]
    w = linear_worker.ENTRANTS[name](X.astype(float), y, 1)(loss, 0.5, 5000 if name == "SGDClassifier" else 1e-7)
    values = [linear.objective(X, y, np.ravel(v), loss, 0.5) for v in (exact, w)]
    assert values[1] == pytest.approx(values[0], rel=0.02 if name == "SGDClassifier" else 1e-5)


def test_worker(data, tmp_path, monkeypatch):
    X, y = data
    path = tmp_path / "data.npz"
    linear_worker.save(path, X, y)
    worker = linear.Worker("LinearSVC", path)
    assert worker.missing is None
    w, cpu, wall = worker.fit("hinge", 1.0, 1e-6, 60)
    expected = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-6, max_iter=10**6, random_state=0).fit(X, y).coef_[0]
    np.testing.assert_array_equal(w, expected)
    assert (worker.cpu, worker.wall) == (cpu, wall)

    worker.process.send_signal(signal.SIGXCPU)  # what the system does when the seconds are used up
    with pytest.raises(linear.Stopped, match="> 7"):
        worker.fit("hinge", 1.0, 1e-6, 7)
    np.testing.assert_array_equal(worker.fit("hinge", 1.0, 1e-6, 60)[0], expected)
    assert worker.end()[0] == 0

    monkeypatch.delenv("MAXMARGIN_LIGHTNING_PYTHON", raising=False)
    assert "MAXMARGIN_LIGHTNING_PYTHON" in linear.Worker("lightning", path).missing


def test_a_peer_that_is_not_installed_is_skipped(data, tmp_path, monkeypatch):
    linear_worker.save(tmp_path / "data.npz", *data)
    (tmp_path / "snapml.py").write_text("raise ImportError('none here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = linear.Worker("snapml", tmp_path / "data.npz")
    assert worker.missing == "ImportError: none here"
    assert worker.end()[0] == 0


@pytest.mark.parametrize("loss", linear.LOSSES)
def test_certified_optimum(data, loss):
    X, y = data
    exact = LinearSVC(loss=loss, C=2, fit_intercept=False, dual=True, tol=1e-9, max_iter=10**6).fit(X, y).coef_[0]
    expected = linear.objective(X, y, exact, loss, 2.0)
    assert linear.certified_optimum(X, y, loss, 2.0) == pytest.approx(expected, rel=1e-8)


def test_every_entrant_has_a_worker():
    assert set(linear.ENTRANTS) == set(linear_worker.ENTRANTS)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory(tmp_path):
    X, y = memory.random_rows(300, columns=100, stored=5)
    assert X.dtype == np.float32
    assert set(np.unique(y)) == {-1, 1}
    linear_worker.save(tmp_path / "data.npz", X, y)
    found = memory.measure(str(tmp_path / "data.npz"), "sklearn.svm", "hinge", 1.0)
    assert found["input"] == X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    assert found["extra"] >= 0
    assert json.dumps(found)
