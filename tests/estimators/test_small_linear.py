"""Linear fits of few samples, whose one-vs-rest problems are solved together: as any other fit."""

import pickle

import numpy as np
import pytest
from clouds import clouds
from ctrl_c import ctrl_c_at_look
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LinearSVC, load_model, save_model
from maxmargin.estimators import small_linear
from maxmargin.svm.linear import one_vs_rest


def general(monkeypatch, **parameters):
    """The same classifier on the path of large data."""
    monkeypatch.setattr(small_linear, "MOST_FEATURES", 0)
    return LinearSVC(**parameters)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("bias", [{}, {"fit_intercept": False}, {"intercept_scaling": 2.0}], ids=str)
def test_the_model_is_that_of_the_general_path(monkeypatch, loss, classes, bias):
    X, y = clouds(n=150, classes=classes, distance=4.0)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, size=len(y))
    weights[:10] = 0
    parameters = {"loss": loss, "tol": 1e-8, "class_weight": {0: 2.0}, "keep_dual": True, "random_state": 0, **bias}
    small = LinearSVC(**parameters).fit(X, y, sample_weight=weights)
    large = general(monkeypatch, **parameters).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(small.coef_, large.coef_, atol=1e-3)
    np.testing.assert_allclose(small.intercept_, large.intercept_, atol=1e-3)
    for name in ("margin_", "slack_", "C_", "scale_", "n_zero_rows_"):
        np.testing.assert_allclose(getattr(small, name), getattr(large, name), rtol=1e-3, err_msg=name)
    for ours, theirs in zip(np.atleast_1d(small.certificate_), np.atleast_1d(large.certificate_), strict=True):
        assert (ours.primal, ours.dual) == pytest.approx((theirs.primal, theirs.dual), rel=1e-6)
    # The dual variables make up the coefficients.
    np.testing.assert_allclose(small.dual_coef_ @ X[small.support_], small.coef_, atol=1e-3)


@pytest.mark.parametrize("storage", [np.asarray, csr_array, np.asfortranarray, lambda X: X.astype(np.float32)])
def test_storage_changes_nothing_but_rounding(storage):
    X, y = clouds(n=120, classes=3)
    expected = LinearSVC(tol=1e-7).fit(X, y).coef_
    model = LinearSVC(tol=1e-7).fit(storage(X), y)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-5)
    assert model.entries_read_ > 0


def test_the_trace_has_a_row_a_class_and_everything_can_be_kept(tmp_path):
    X, y = clouds(n=120, classes=4)
    model = LinearSVC().fit(X, y)
    assert [len(trace) for trace in model.trace_] == [1] * 4
    assert all(trace[0].gap <= 1e-3 * trace[0].primal for trace in model.trace_)
    again = pickle.loads(pickle.dumps(model))
    save_model(model, tmp_path / "model.mm")
    for other in (again, load_model(tmp_path / "model.mm")):
        np.testing.assert_array_equal(other.coef_, model.coef_)
        assert other.certificate_ == model.certificate_


def test_a_warm_start_goes_on_from_it():
    X, y = clouds(n=120, classes=3)
    model = LinearSVC(warm_start=True, tol=1e-6, random_state=0).fit(X, y)
    again = model.set_params(C=2.0).fit(X, y)
    np.testing.assert_allclose(again.coef_, LinearSVC(C=2.0, tol=1e-6).fit(X, y).coef_, atol=0.01)


def test_max_time_and_ctrl_c_leave_a_proved_model_of_each_class(monkeypatch):
    X, y = clouds(n=400, classes=3, distance=1.0)
    monkeypatch.setattr(one_vs_rest, "OPERATIONS_PER_CALL", 1)
    with pytest.warns(ConvergenceWarning, match="max_time was up: . of 3 binary problems have an unfinished model"):
        model = LinearSVC(max_time=1e-9, tol=1e-9, n_jobs=1).fit(X, y)
    assert "max_time" in model.stopped_
    assert all(certificate.primal >= certificate.dual for certificate in model.certificate_)

    with ctrl_c_at_look(monkeypatch, 4), pytest.warns(ConvergenceWarning, match="interrupted"):
        model = LinearSVC(tol=1e-9, n_jobs=1).fit(X, y)
    assert "interrupted" in model.stopped_
    assert model.score(X, y) > 0.4


def test_a_problem_that_does_not_come_to_its_tolerance_is_tried_by_the_general_path(monkeypatch):
    X, y = clouds(n=100)
    monkeypatch.setattr(small_linear, "DEFAULT_MAX_ITER", 1)
    model = LinearSVC(loss="hinge", C=100.0).fit(X, y)
    assert model.stopped_ == "tol"
    assert model.certificate_.relative_gap <= 1e-3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_uneven_rows_and_many_features_take_the_general_path():
    X, y = clouds(n=100)
    X[3, 2] = 1e12
    assert len(LinearSVC().fit(X, y).trace_) > 1
