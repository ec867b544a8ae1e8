"""Fits of few samples with a slack: the compiled solvers, led to the C of each binary problem."""

import warnings

import numpy as np
import pytest
from clouds import clouds
from ctrl_c import ctrl_c_at_look
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from slack_cases import best_value

from maxmargin import SVC, LinearSVC, slack_path
from maxmargin.estimators import small_linear
from maxmargin.estimators.base import MarginClassifier
from maxmargin.problems import SlackSVM
from maxmargin.svm.linear import one_vs_rest


def general(monkeypatch, estimator):
    """The same classifier on the path of large data."""
    monkeypatch.setattr(MarginClassifier, "_plain_fit", False)
    return estimator


def certificates(model):
    return list(model.certificate_) if model.classes_.size > 2 else [model.certificate_]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("slack", [0.003, 0.02, 0.1])
@pytest.mark.parametrize("estimator", [LinearSVC, SVC])
def test_the_model_is_that_of_the_general_path(monkeypatch, estimator, slack, fit_intercept, classes):
    X, y = clouds(n=160, classes=classes, distance=4.0)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, size=len(y))
    weights[:10] = 0
    parameters = {"slack": slack, "tol": 1e-4, "class_weight": {0: 2.0}, "fit_intercept": fit_intercept}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        small = estimator(random_state=0, **parameters).fit(X, y, sample_weight=weights)
        large = general(monkeypatch, estimator(random_state=0, **parameters)).fit(X, y, sample_weight=weights)
    assert small.solver_ == ("newton" if estimator is LinearSVC else "smo")
    assert small.certificate_.relative_gap <= 1e-4 >= large.certificate_.relative_gap
    np.testing.assert_allclose(
        small.slack_, large.slack_, rtol=0.03
    )  # the least slack there is, where more was asked for
    np.testing.assert_allclose(small.margin_, large.margin_, rtol=0.03)
    assert small.scale_ == pytest.approx(large.scale_)
    if np.ravel(small.slack_ == slack).all():
        for ours, theirs in zip(certificates(small), certificates(large), strict=True):
            assert ours.primal <= theirs.dual * (1 + 1e-9)
            assert theirs.primal <= ours.dual * (1 + 1e-9)
        np.testing.assert_allclose(small.margin_, large.margin_, rtol=2e-3)
        assert (small.predict(X) == large.predict(X)).mean() > 0.97


@pytest.mark.parametrize("slack", [0.0, 0.01, 0.05, 0.2])
def test_the_model_with_the_C_that_is_told_is_the_same(slack):
    X, y = clouds(n=120, distance=8.0)
    model = LinearSVC(slack=slack, keep_dual=True).fit(X, y)
    same = LinearSVC(C=model.C_, loss="hinge", tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=0.05 * np.abs(same.coef_).max())
    assert same.margin_ == pytest.approx(model.margin_, rel=0.02)
    assert same.slack_ == pytest.approx(slack, rel=0.05, abs=1e-9)
    assert np.abs(model.dual_coef_).max() == pytest.approx(model.C_)


def check_proof(model, X, y, weights, slack):
    """The certificate of a linear model of two classes is what its coefficients and its dual variables prove."""
    problem = SlackSVM(X, y, slack, bias=model.fit_intercept, sample_weight=weights, scale=model.scale_)
    coef, b = model.coef_[0] * model.scale_, model.intercept_[0]
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    norm, proof = np.linalg.norm(coef), model.certificate_
    assert problem.evaluate(coef / norm, b / norm).value == pytest.approx(proof.primal, rel=1e-6, abs=1e-12)
    assert problem.bound(alpha) == pytest.approx(proof.dual, rel=1e-6, abs=1e-12)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(6, 40),
    d=st.integers(1, 4),
    share=st.sampled_from([0.01, 0.1, 0.5, 0.9]),
    bias=st.booleans(),
    weighted=st.booleans(),
    twice=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_any_samples_give_the_value_of_a_convex_solver(seed, n, d, share, bias, weighted, twice):
    """Integer features make ties, rows come twice, and one class may have a single sample."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(n, d)).astype(float)
    y = np.where(np.arange(n) < rng.integers(1, n), 1.0, -1.0)
    X += np.round(y[:, None] * rng.uniform(0, 2))
    if twice:
        X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    weights = rng.integers(1, 4, size=len(y)).astype(float) if weighted else np.ones(len(y))
    problem = SlackSVM(X, y, 0.0, bias=bias, sample_weight=weights)
    if np.linalg.norm((problem.on_simplex(weights) * y) @ X) < 1e-9:  # the centroid is rounding alone
        return
    largest = problem.largest_slack()
    if not largest > 0:
        return
    slack = share * largest
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = LinearSVC(slack=slack, fit_intercept=bias, keep_dual=True).fit(X, y, sample_weight=weights)
    proof = model.certificate_
    assert proof.relative_gap <= 1e-3
    best = best_value(X, y, model.slack_, bias=bias, weights=weights)
    assert proof.primal <= best * (1 + 1e-5)
    assert best <= proof.dual * (1 + 1e-5)
    if model.slack_ > slack:  # too little slack for any model: the value is in proportion to the slack
        asked = best_value(X, y, slack, bias=bias, weights=weights)
        assert asked == pytest.approx(proof.primal * slack / model.slack_, rel=5e-3)


@pytest.mark.parametrize(("seed", "n", "d", "bias"), [(6, 6, 4, False), (1762, 20, 1, True)])
def test_next_to_no_slack_with_ties(seed, n, d, bias):
    compare = test_any_samples_give_the_value_of_a_convex_solver.hypothesis.inner_test
    compare(seed, n, d, share=0.01, bias=bias, weighted=False, twice=False)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bias", [True, False])
def test_the_certificate_is_what_can_be_computed_from_the_model(seed, bias):
    X, y = clouds(n=80, distance=3.0, seed=seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, size=80)
    model = LinearSVC(slack=0.1, fit_intercept=bias, keep_dual=True).fit(X, 2.0 * y - 1, sample_weight=weights)
    assert model.solver_ == "newton"
    assert model.slack_ == 0.1
    check_proof(model, X, 2.0 * y - 1, weights, 0.1)


def test_no_slack_is_the_hard_margin_of_separable_classes():
    X, y = clouds(n=60, distance=8.0)
    model = LinearSVC(slack=0.0).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-3
    assert model.certificate_.primal == pytest.approx(best_value(X, 2.0 * y - 1, 0.0, bias=True), rel=1.1e-3)
    assert model.score(X, y) == 1.0


@pytest.mark.parametrize(
    ("estimator", "slack"),
    [(LinearSVC(), 0.0), (LinearSVC(), 0.001), (SVC(kernel="linear"), 0.0), (SVC(kernel="linear"), 0.01)],
)
def test_too_little_slack_gives_the_least_there_is_and_a_warning(estimator, slack):
    X, y = clouds(n=200, distance=1.0)
    with pytest.warns(UserWarning, match="is less than any model can have"):
        model = estimator.set_params(slack=slack).fit(X, y)
    assert model.slack_ > 0.01
    assert model.certificate_.relative_gap <= 1e-3
    again = estimator.set_params(slack=1.01 * model.slack_).fit(X, y)
    assert again.slack_ == 1.01 * model.slack_ or again.slack_ == pytest.approx(model.slack_, rel=0.02)


def test_a_slack_beyond_its_range_is_refused_as_by_the_general_path(monkeypatch):
    X, y = clouds(n=60, classes=3)
    with pytest.raises(ValueError, match="outside its range") as ours:
        LinearSVC(slack=5.0).fit(X, y)
    with pytest.raises(ValueError, match="outside its range") as theirs:
        general(monkeypatch, LinearSVC(slack=5.0, n_jobs=1)).fit(X, y)
    assert str(ours.value) == str(theirs.value)


def test_storage_changes_nothing_but_rounding():
    X, y = clouds(n=120, classes=3, distance=8.0)
    X[np.abs(X) < 0.5] = 0
    for estimator in (LinearSVC(slack=0.05), SVC(slack=0.05)):
        dense, sparse = (estimator.fit(A, y).margin_ for A in (X, csr_array(X)))
        np.testing.assert_allclose(dense, sparse, rtol=2e-3)


def test_many_classes_of_few_samples():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(60, 8)), 5, axis=0) + 0.3 * rng.normal(size=(300, 8))
    y = np.repeat(np.arange(60), 5)
    model = SVC(slack=0.05).fit(X, y)
    assert len(model.certificate_) == 60 * 59 // 2
    assert model.certificate_.relative_gap <= 1e-3
    assert (model.slack_ == 0.05).all()
    assert [len(trace) for trace in model.trace_[:5]] == [1] * 5
    assert model.score(X, y) > 0.8


def test_one_trace_row_and_one_line_a_class(capsys):
    X, y = clouds(n=120, classes=4, distance=8.0)
    model = LinearSVC(slack=0.05, verbose=1).fit(X, y)
    assert [len(trace) for trace in model.trace_] == [1] * 4
    assert all(trace[0].gap <= 1e-3 * trace[0].dual for trace in model.trace_)
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_max_time_and_ctrl_c_leave_a_model_of_each_class(monkeypatch):
    X, y = clouds(n=300, classes=3, distance=5.0)
    monkeypatch.setattr(one_vs_rest, "OPERATIONS_PER_CALL", 1)
    with pytest.warns(ConvergenceWarning, match="max_time was up: 3 of 3 binary problems have an unfinished model"):
        model = LinearSVC(slack=0.1, max_time=1e-9, n_jobs=1).fit(X, y)
    assert model.stopped_ == ["max_time"] * 3
    assert all(proof.primal <= proof.dual for proof in model.certificate_)

    with ctrl_c_at_look(monkeypatch, 30), pytest.warns(ConvergenceWarning, match="interrupted"):
        model = LinearSVC(slack=0.1, n_jobs=1).fit(X, y)
    assert "interrupted" in model.stopped_
    assert model.score(X, y) > 0.4


def test_a_limit_of_iterations_holds_for_all_rounds_together():
    X, y = clouds(n=200, distance=3.0)
    with pytest.warns(ConvergenceWarning, match="max_iter=5"):
        model = LinearSVC(slack=0.1, max_iter=5).fit(X, y)
    assert model.n_iter_ == 5
    assert model.certificate_


def test_a_problem_that_does_not_come_to_its_tolerance_is_tried_by_the_general_path(monkeypatch):
    X, y = clouds(n=100, distance=6.0)
    monkeypatch.setattr(small_linear, "DEFAULT_MAX_ITER", 1)
    model = LinearSVC(slack=0.1).fit(X, y)
    assert model.stopped_ == "tol"
    assert model.certificate_.relative_gap <= 1e-3


def test_samples_that_cancel_out_have_no_direction():
    """Every row comes with both labels, so that w = 0 is best at any C: the general path says what there is."""
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 3)), 2, axis=0)
    y = np.tile([0, 1], 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = SVC(slack=0.5).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


def test_a_path_of_slacks_takes_the_compiled_solvers():
    X, y = clouds(n=100, distance=8.0)
    path = slack_path(X, y, slacks=[0.01, 0.1, 0.3], random_state=0)
    assert [point.slack for point in path] == [0.3, 0.1, 0.01]
    assert all(point.certificate.relative_gap <= 1e-3 for point in path)
