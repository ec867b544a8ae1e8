"""The benchmarks with a kernel: what they compute from models and curves, on tiny data and without a clock."""

import importlib
import json
import math
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

FOLDER = Path(__file__).parents[2] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("benchmarks come with a checkout only", allow_module_level=True)
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER)
    common, kernel, kernel_error, kernel_growth, kernel_quality, kernel_sets, kernel_worker, sbp = map(
        importlib.import_module,
        (
            "common",
            "kernel",
            "kernel_error",
            "kernel_growth",
            "kernel_quality",
            "kernel_sets",
            "kernel_worker",
            "sbp",
        ),
    )

KERNELS = {
    "linear": {},
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.4, "coef0": 0.5, "degree": 2},
    "sigmoid": {"gamma": 0.1, "coef0": 0.2},
}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4)).astype(np.float32) * (rng.random((90, 4)) < 0.7)
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=90) > 0.4, 1.0, -1.0)
    return kernel_sets.Data(X[:60], y[:60], X[60:], y[60:])


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_kernels(data, name, store):
    k = kernel_quality.Function(name, **KERNELS[name])
    expected = pairwise_kernels(data.X.astype(float), data.X_test.astype(float), name, **KERNELS[name])
    np.testing.assert_allclose(k(store(data.X), store(data.X_test)), expected, atol=1e-12)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_quality(data, store, monkeypatch):
    monkeypatch.setattr(kernel_quality, "LARGEST_BLOCK", 100)  # several blocks
    C, k = 3.0, kernel_quality.Function("rbf", 0.3)
    model = SVC(C=C, gamma=0.3, tol=1e-9).fit(data.X.astype(float), data.y)
    X, coef, b = data._replace(X=store(data.X), X_test=store(data.X_test)), model.dual_coef_[0], model.intercept_[0]
    found = kernel_quality.quality(k, X.X, X.y, C, model.support_, coef, b)
    beta, K = np.zeros(60), pairwise_kernels(data.X.astype(float), metric="rbf", gamma=0.3)
    beta[model.support_] = coef
    hinge = np.maximum(0, 1 - data.y * (K @ beta + b))
    assert found.primal == pytest.approx(0.5 * beta @ K @ beta + C * hinge.sum(), rel=1e-12)
    assert found.dual == pytest.approx(np.abs(beta).sum() - 0.5 * beta @ K @ beta, rel=1e-9)
    assert abs(found.gap) < 1e-7
    assert found.slack == pytest.approx(hinge.mean() / math.sqrt(beta @ K @ beta))
    error = kernel_quality.error_on_test(k, X, model.support_, coef, b)
    assert error == pytest.approx(1 - model.score(data.X_test, data.y_test))
    several = np.column_stack([coef, -coef])
    both = kernel_quality.error_on_test(k, X, model.support_, several, np.array([b, -b]))
    np.testing.assert_allclose(both, [error, 1 - error])


def test_weights_are_made_feasible():
    labels = np.array([1.0, 1.0, -1.0, -1.0])
    alpha = kernel_quality.feasible(np.array([-1.0, 5.0, 1.0, 0.5]), labels, 2.0, bias=True)
    np.testing.assert_allclose(alpha, [0, 1.5, 1, 0.5])
    np.testing.assert_allclose(kernel_quality.feasible(-labels, labels, 2.0, bias=True), 0)
    np.testing.assert_allclose(kernel_quality.feasible(np.array([3.0, 0, 0, 1]), labels, 2.0, bias=False), [2, 0, 0, 1])


def test_models_of_two_classes(data):
    y = np.random.default_rng(0).integers(4, size=60)
    model = SVC(C=2.0, gamma=0.3, decision_function_shape="ovo").fit(data.X, y)
    scores, k = model.decision_function(data.X), kernel_quality.Function("rbf", 0.3)
    found = kernel_quality.two_class_models(model.classes_, y, model.support_, model.dual_coef_, model.intercept_)
    for m, (pair, rows, labels, support, coef, intercept) in enumerate(found):
        assert [pair[0], pair[1]] == [(0, 0, 0, 1, 1, 2)[m], (1, 2, 3, 2, 3, 3)[m]]
        values = kernel_quality.responses(k, data.X[rows], data.X[rows][support], coef) + intercept
        np.testing.assert_allclose(values, scores[rows, m], atol=1e-6)
        assert (coef * labels[support] > 0).all()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["maxmargin", "maxmargin-float64", "scikit-learn"])
def test_competitors_solve_the_same_problem(data, name, bias):
    if name == "scikit-learn" and not bias:
        pytest.skip("it has a bias always")
    prepare, layout = kernel_worker.ENTRANTS[name]
    parameters = {"gamma": 0.3, "C": 2.0, "tol": 1e-6, "bias": bias}
    for store in (np.asarray, sp.csr_matrix):
        X = data._replace(X=store(data.X), X_test=store(data.X_test))
        model = prepare(layout(X.X), data.y, kernel_worker.DEFAULTS | parameters, 1)()
        row = kernel.judged(model, X, parameters)
        assert 0 <= row["gap"] < 1e-5
        assert row["support"] == np.count_nonzero(model["coef"])
        assert name == "scikit-learn" or row["evaluations_share"] > 0


@pytest.mark.parametrize("held", [0, 0.2])
def test_curve(data, held):
    parameters = {
        "solver": "decomposition",
        "gamma": 0.3,
        "C": 2.0,
        "curve": True,
        "holdout": held,
        "options": {"block": 8},
    }
    found = kernel_worker.maxmargin_solver(data.X, data.y, kernel_worker.DEFAULTS | parameters, 1)()
    points = found["curve_wall"].size
    assert points >= 1
    assert (np.diff(found["curve_wall"]) > 0).all()
    assert (np.diff(found["curve_evaluations"]) >= 0).all()
    assert np.isnan(found["curve_holdout_error"]).all() == (held == 0)
    assert found["curve_indptr"].size == points + 1
    with pytest.raises(LookupError, match="no solver 'none'"):
        kernel_worker.maxmargin_solver(data.X, data.y, kernel_worker.DEFAULTS | {"solver": "none"}, 1)


def test_race(data, tmp_path, monkeypatch):
    """What was stopped does not run again, and the best times count."""
    asked = []

    def fit(competitor, path, parameters, chosen):
        asked.append(competitor)
        if competitor == "libsvm":
            return {"stopped": "> 7"}, {}
        seconds = {1: 4.0, 2: 3.0}[asked.count(competitor)] * (2 if competitor == "scikit-learn" else 1)
        model = {"support": np.array([0, 1]), "coef": np.array([0.5, -0.5]), "intercept": 0.0}
        return {"cpu": seconds, "wall": 2 * seconds, "peak": 10**6 * asked.count(competitor)}, model

    monkeypatch.setattr(kernel, "fit", fit)
    names = ["maxmargin", "scikit-learn", "libsvm"]
    options = Namespace(competitors=names, repeats=2, threads=1, json=tmp_path / "lines", error_only=False)
    rows = kernel.race("tiny", data, {"gamma": 0.3, "C": 1.0}, options)
    assert asked == [*names, "maxmargin", "scikit-learn"]
    assert [row.get("cpu") for row in rows] == [3.0, 6.0, None]
    lines = [json.loads(line) for line in options.json.read_text().splitlines()]
    assert lines[-3:] == rows
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in kernel.table(rows, "cpu").splitlines()]
    assert cells[3][3:8] == ["scikit-learn", "6.00", "12.0", "2.00", "2"]
    assert "> 7" in cells[4]
    grown = [row | {"n": n, "set": n, "cpu": row.get("cpu", 0) * n**1.5} for n in (1, 4) for row in rows[:2]]
    assert kernel_growth.table(grown, [1, 4], "cpu").splitlines()[-1] == "| scikit-learn | 6.00 (2) | 48.0 (2) | 1.50 |"


@pytest.mark.skipif(sys.platform != "linux", reason="pins to cores")
def test_fit(data, tmp_path):
    kernel_worker.linear_worker.save(tmp_path / "data.npz", data.X, data.y)
    options = Namespace(threads=1, cores=None, cache=10, tol=1e-4, cap=60, peers_python=sys.executable)
    run, model = kernel.fit("scikit-learn", tmp_path / "data.npz", {"gamma": 0.3, "C": 2.0}, options)
    expected = SVC(C=2.0, gamma=0.3).fit(data.X.astype(float), data.y)
    np.testing.assert_array_equal(model["support"], expected.support_)
    np.testing.assert_array_equal(model["coef"], expected.dual_coef_[0])
    assert run["peak"] > 10**6
    options.cap = 1e-6
    assert kernel.fit("scikit-learn", tmp_path / "data.npz", {"gamma": 0.3, "C": 2.0}, options)[0] == {
        "stopped": "> 1e-06"
    }


def test_curves_are_read():
    at, values = np.array([1.0, 2.0, 4.0]), [0.5, 0.2, 0.3]
    assert common.first_at_most(at, values, 0.3) == 2
    assert math.isnan(common.first_at_most(at, values, 0.1))
    assert [common.value_at(at, values, x) for x in (1, 1.9, 2, 9)] == [0.5, 0.5, 0.2, 0.3]
    assert math.isnan(common.value_at(at, values, 0.9))
    assert common.exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2)


def test_rows_are_drawn(data):
    some = kernel_sets.drawn(data, 20)
    assert some.y.size == 20
    np.testing.assert_array_equal(some.X, kernel_sets.drawn(data, 20).X)
    assert kernel_sets.drawn(data, 60) is data
    assert some.X_test is data.X_test


def test_errors_on_the_way(data):
    parameters = {"solver": "decomposition", "gamma": 0.3, "C": 2.0, "curve": True, "options": {"block": 8}}
    model = kernel_worker.maxmargin_solver(data.X, data.y, kernel_worker.DEFAULTS | parameters, 1)()
    found = kernel_error.errors(model, data, 0.3)
    assert len(found["curve"]["error"]) == len(found["curve"]["wall"]) == model["curve_intercept"].size
    assert found["curve"]["error"][-1] == found["error"]
    run = {"wall": 10.0, "cpu": 5.0, "peak": 1}
    without = kernel_error.without_pauses(run, {"paused": np.array([2.0, 1.0])})
    assert without == {"wall": 8.0, "cpu": 4.0, "peak": 1}
    assert kernel_error.without_pauses(run, {}) is run


def test_seconds_to_the_error_of_a_peer():
    curve = {"cpu": [1.0, 2.0, 3.0], "error": [0.2, 0.105, 0.11]}
    rows = [
        {"set": "tiny", "method": "intelex-float32", "cpu": 8.0, "error": 0.1},
        {"set": "tiny", "method": "sbp", "cpu": 4.0, "error": 0.11, "curve": curve, "status": "early_stopping"},
        {"set": "tiny", "method": "libsvm", "stopped": "> 60"},
    ]
    lines = kernel_error.table(rows, "cpu", 0.005).splitlines()
    assert lines[3] == "| tiny | sbp | 4.00 | 11.00 % | early_stopping | 0.50 | no | 2.00 (0.25) |"
    assert "> 60" in lines[4]
    assert "| yes | 2.00 (0.25) |" in kernel_error.table(rows, "cpu", 0.01)
    assert "| no | never |" in kernel_error.table(rows, "cpu", 0.001)


def test_error_against_evaluations(data):
    case = kernel_sets.Case(lambda: data, gamma=0.3, C=1.0, slack=0.01)
    options = Namespace(cache=1, threads=1)
    solver = sbp.KERNEL_SOLVERS["decomposition"](block=8)
    table = sbp.Table.of(sbp.matrix(data, case, options))
    run = list(sbp.points(solver, table.matrix(options), data.y, case, 0, 1))
    asked = np.array([point["asked"] for point in run])
    assert (asked[1:] >= sbp.GROWTH * asked[:-1]).all()
    assert all(point["beta"].shape == (1, 60) for point in run)


def test_median_of_curves():
    runs = [
        [{"asked": 10, "iteration": 3, "error": 0.5}, {"asked": 100, "iteration": 30, "error": 0.1}],
        [{"asked": 20, "iteration": 6, "error": 0.3}, {"asked": 200, "iteration": 60, "error": 0.2}],
        [{"asked": 20, "iteration": 6, "error": 0.4}, {"asked": 150, "iteration": 60, "error": 0.3}],
    ]
    curve = sbp.median(runs, "asked")
    assert (curve["at"][0], curve["error"][0]) == (pytest.approx(20), 0.4)
    assert (curve["at"][-1], curve["error"][-1]) == (pytest.approx(200), 0.2)
    assert sbp.first_pass(runs, 30, "asked") == 20
    lines = sbp.table({"median": {"SBP": curve}, "exact": 0.199}).splitlines()
    assert lines[-1].endswith("| 20.00 (2.0e+02) | 2.0e+02 |")


def test_share_of_the_time_of_a_peer():
    curve = {"cpu": [1.0, 2.0, 3.0], "error": [0.2, 0.101, 0.1]}
    found = {"n": 5, "peer": {"cpu": 8.0, "error": 0.1}, "sbp": {"cpu": 9.0, "curve": curve}}
    line = sbp.table_of_seconds({"tiny": found}, "libsvm").splitlines()[-1]
    assert line == "| tiny | 5 | 8.00 | 10.00 % | 10.10 % | 10.00 % | 2.00 (0.25) |"
