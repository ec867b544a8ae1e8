"""Fits of few samples, whose binary problems are solved together: the services and attributes of any other fit."""

import pickle
from itertools import combinations

import numpy as np
import pytest
import sklearn.svm
from ctrl_c import ctrl_c_at_look
from kernel_cases import close, clouds, exact
from scipy.sparse import csr_array
from sklearn.callback import ProgressBar
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import SVC, load_model, save_model
from maxmargin.estimators.small_kernel import MOST_SAMPLE_BYTES
from maxmargin.svm.kernel import many_problems


def dual_of_pair(model, X, y, i, j):
    """The dual objective of the model of two classes, from its coefficients in LIBSVM's layout."""
    of_class = np.repeat(np.arange(model.classes_.size), model.n_support_)
    rows = np.where(of_class == i, j - 1, i)
    beta = model.dual_coef_[rows, np.arange(of_class.size)] * ((of_class == i) | (of_class == j))
    K = rbf_kernel(model.support_vectors_, gamma=model.gamma_ if hasattr(model, "gamma_") else model._gamma)
    return np.abs(beta).sum() - 0.5 * beta @ K @ beta


@pytest.mark.parametrize("classes", [2, 3])
def test_samples_of_many_features_share_one_kernel_matrix(classes):
    X, y = clouds(n=300, d=3000, classes=classes, distance=2.0)
    assert X.nbytes > MOST_SAMPLE_BYTES
    ours, theirs = SVC(tol=1e-9, n_jobs=2).fit(X, y), exact(tol=1e-10).fit(X, y)
    assert ours.solver_ == "smo"
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(ours.dual_coef_, SVC(tol=1e-9, n_jobs=1).fit(X, y).dual_coef_)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_the_optimum_of_each_pair_is_that_of_libsvm(classes, C):
    X, y = clouds(n=200, classes=classes, distance=2.0)
    ours, theirs = SVC(C=C, tol=1e-9).fit(X, y), exact(C=C, tol=1e-10).fit(X, y)
    assert ours.solver_ == "smo"
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-3)
    for i, j in combinations(range(classes), 2):
        assert dual_of_pair(ours, X, y, i, j) == pytest.approx(dual_of_pair(theirs, X, y, i, j), rel=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_model_is_that_of_the_general_path(kernel, multi_class, classes):
    X, y = clouds(n=150, classes=classes, distance=2.0)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, size=len(y))
    weights[:10] = 0
    parameters = {"kernel": kernel, "multi_class": multi_class, "class_weight": {0: 2.0}, "tol": 1e-5, "gamma": 0.1}
    small = SVC(**parameters).fit(X, y, sample_weight=weights)
    general = SVC(solver="decomposition", **parameters).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(small.decision_function(X), general.decision_function(X), atol=1e-2)
    for name in ("margin_", "slack_", "C_", "scale_"):
        np.testing.assert_allclose(getattr(small, name), getattr(general, name), rtol=1e-2, err_msg=name)
    for ours, theirs in zip(np.atleast_1d(small.certificate_), np.atleast_1d(general.certificate_), strict=True):
        assert (ours.primal, ours.dual) == pytest.approx((theirs.primal, theirs.dual), rel=1e-3)
        assert ours.why_not == theirs.why_not


def test_an_indefinite_kernel_proves_nothing():
    X, y = clouds(n=100, classes=3)
    model = SVC(kernel="sigmoid").fit(X, y)
    assert not model.certificate_
    assert "not positive semidefinite" in str(model.certificate_)


@pytest.mark.parametrize("storage", [np.asarray, csr_array, np.asfortranarray, lambda X: X.astype(np.float32)])
def test_storage_changes_nothing_but_rounding(storage):
    X, y = clouds(n=120, classes=3)
    expected = close().fit(X, y).decision_function(X)
    model = close().fit(storage(X), y)
    np.testing.assert_allclose(model.decision_function(storage(X)), expected, atol=1e-3)


def test_the_trace_has_a_row_a_problem_and_certificates_are_the_recomputed_gaps():
    X, y = clouds(n=120, classes=4)
    model = SVC().fit(X, y)
    assert len(model.trace_) == len(model.certificate_) == 6
    for trace, certificate in zip(model.trace_, model.certificate_, strict=True):
        [row] = trace
        assert row.iteration > 0
        assert row.kernel_evaluations > 0
        assert row.gap == certificate.gap <= trace.tol * certificate.primal
    assert model.kernel_evaluations_ == sum(trace[0].kernel_evaluations for trace in model.trace_)
    assert len(model.trace_.to_pandas()) == 6


def test_many_tiny_classes():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60), 4)
    X = rng.normal(size=(60, 5))[y] + 0.1 * rng.normal(size=(240, 5))
    model, reference = SVC(C=100.0).fit(X, y), sklearn.svm.SVC(C=100.0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), reference.predict(X))
    assert len(model.certificate_) == 60 * 59 // 2
    assert model.certificate_["3 against 5"]
    assert model.certificate_.relative_gap <= 1e-3
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.certificate_ == model.certificate_


def test_a_model_file_holds_it(tmp_path):
    X, y = clouds(classes=3)
    model = SVC().fit(X, y)
    save_model(model, tmp_path / "model.mm")
    again = load_model(tmp_path / "model.mm")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.certificate_ == model.certificate_
    assert again.trace_ == model.trace_


def test_verbose_prints_a_line_a_problem(capsys):
    X, y = clouds(classes=3)
    SVC(verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == ["0 against 1", "0 against 2", "1 against 2"]


@pytest.mark.parametrize("classes", [2, 4])
def test_a_progress_bar_comes_to_its_end(classes, capsys, monkeypatch):
    monkeypatch.setattr(many_problems, "ENTRIES_PER_CALL", 500)
    X, y = clouds(classes=classes)
    SVC().set_callbacks(ProgressBar()).fit(X, y)
    assert "100%" in capsys.readouterr().out


@pytest.mark.parametrize("classes", [2, 4])
def test_max_time_ends_it_with_a_proved_model_of_each_problem(classes, monkeypatch):
    X, y = clouds(n=400, classes=classes, distance=2.0)
    monkeypatch.setattr(many_problems, "ENTRIES_PER_CALL", 1)
    model = SVC(C=100.0, max_time=1e-9, n_jobs=1)
    if classes == 2:
        model.fit(X, y)
        assert (model.stopped_, model.fit_status_) == ("max_time", 1)
    else:
        with pytest.warns(
            ConvergenceWarning, match=r"max_time was up: \d of 6 binary problems have an unfinished model"
        ):
            model.fit(X, y)
        assert "max_time" in model.stopped_
    for certificate in np.atleast_1d(model.certificate_):
        assert certificate.primal >= certificate.dual
    assert model.score(X, y) > 1.2 / classes


def test_ctrl_c_keeps_a_model(monkeypatch):
    X, y = clouds(n=400, classes=3, distance=1.0)
    monkeypatch.setattr(many_problems, "ENTRIES_PER_CALL", 1)
    with ctrl_c_at_look(monkeypatch, 4), pytest.warns(ConvergenceWarning, match="interrupted"):
        model = SVC(C=100.0, n_jobs=1).fit(X, y)
    assert "interrupted" in model.stopped_
    assert model.score(X, y) > 0.4


def test_max_iter_counts_passes_and_warns():
    X, y = clouds(n=200, distance=1.0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = SVC(C=1000.0, max_iter=1).fit(X, y)
    assert model.n_iter_.tolist() == [1]
    assert model.trace_[-1].iteration == 100


def test_what_needs_more_takes_the_general_path():
    X, y = clouds(n=100)
    for parameters in ({"budget": 10**6}, {"early_stopping": True}, {"certify": "checks"}):
        assert SVC(**parameters).fit(X, y).solver_ == "decomposition"
