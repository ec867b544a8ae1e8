import copy
import math
import os
import pickle
import signal
import tracemalloc
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone, is_classifier
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import LinearSVC
from maxmargin.problems import LOSSES, Certificate, SlackSVM
from maxmargin.solvers import SOLVERS, Simba, SublinearPerceptron, Trace

# Many fits here are short on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# Of slack 0 there may be no model with a margin, and then w = 0 has the largest.
ONE_CLASS = pytest.mark.filterwarnings("ignore:.*the same class")

ATTRIBUTES = (  # noqa: SIM905
    "coef_ intercept_ classes_ support_ support_vectors_ dual_coef_ n_iter_ margin_ slack_ C_ entries_read_ "
    "kernel_evaluations_ certificate_ trace_ stopped_ scale_ n_zero_rows_ reads_ promise_ n_features_in_"
).split()


def clouds(n=90, d=5, classes=2, distance=8.0, seed=0):
    rng = np.random.default_rng(seed)
    label = np.arange(n) % classes
    means = rng.normal(size=(classes, d))
    means *= distance / 2 / np.linalg.norm(means, axis=1)[:, None]
    return rng.normal(size=(n, d)) + means[label], label


def cases_of(name):
    """The parameters under which a solver solves each of the problems that it can."""
    solver = SOLVERS[name]
    if solver.solves is SlackSVM:
        return {name: {"solver": name, "slack": 0.0 if solver.separable_only else 0.02}}
    losses = [loss for loss in LOSSES if LOSSES[loss].smooth or not solver.smooth_only]
    return {f"{name}, {loss}": {"solver": name, "C": 0.1, "loss": loss} for loss in losses}


CASES = {label: parameters for name in SOLVERS for label, parameters in cases_of(name).items()}


EXACT = [("newton", "squared_hinge"), ("hybrid", "squared_hinge")]  # they can end at the optimum, rounding apart


def usual_passes(solver, share=1.0, most=np.inf):
    """A share of the passes that a run on a small problem makes by itself, of at most some iterations."""
    X, y = clouds()
    problem = solver.solves(X, np.where(y == 1, 1, -1), 1.0)
    iterations = min(most, share * solver.default_iterations(problem))
    return math.ceil(iterations / solver.iterations_per_pass(problem))


def to_check(parameters):
    """An estimator for scikit-learn's checks, with C = 1: near the optimum where the solver can."""
    solver = SOLVERS[parameters["solver"]]()
    tol = 0.0 if (solver.name, parameters.get("loss")) in EXACT else 1e-6 if solver.default_tol else None
    stop = {"tol": tol, "max_iter": usual_passes(solver)}
    options = {name: value for name, value in parameters.items() if name not in ("C", "slack")}
    return LinearSVC(**options, **stop, random_state=0)


def why_not(estimator):
    """The checks that cannot pass, and why."""
    if (estimator.solver, estimator.loss) in EXACT:
        return {}
    if SOLVERS[estimator.solver].default_tol is None:
        reason = "a solver that draws at random sees other draws where rows are repeated"
    else:
        reason = "a gap of eps leaves sqrt(2 eps) of coef_ open: the 1e-7 of the check asks for one below rounding"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@ONE_CLASS  # a check weighs one class so that the other is never predicted
@parametrize_with_checks([to_check(parameters) for parameters in CASES.values()], expected_failed_checks=why_not)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(params=CASES)
def quick(request):
    """A short fit with each solver and each loss that it knows; where it has a C it stops at the optimum only."""
    parameters = CASES[request.param]
    solver = SOLVERS[parameters["solver"]]()
    tol = {"tol": 0.0} if "C" in parameters else {}
    stop = {**tol, "max_iter": usual_passes(solver, 0.5, 500)}
    return LinearSVC(**parameters, **stop, keep_dual=True, random_state=0)


# What a fit gives


def test_every_attribute(quick):
    X, y = clouds()
    model = quick.fit(X, y)
    for name in ATTRIBUTES:
        assert hasattr(model, name), name
    assert model.score(X, y) > 0.9
    assert model.coef_.shape == (1, 5)
    assert model.intercept_.shape == (1,)
    assert isinstance(model.certificate_, Certificate)
    assert isinstance(model.trace_, Trace)
    assert model.stopped_ in ("max_iter", "finished", "tol")
    assert 0 < model.n_iter_ <= model.max_iter
    assert (model.solver_, model.loss_) == (quick.solver, quick.loss or "hinge")
    assert model.entries_read_ == model.reads_["learning"] > 0
    assert model.kernel_evaluations_ == 0
    assert model.n_zero_rows_ == 0
    assert model.slack_ == quick.slack if quick.slack is not None else model.slack_ > 0
    assert model.C_ > 0 if quick.slack is not None else model.C_ == quick.C
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.dual_coef_.shape == (1, model.support_.size)
    assert model.scale_ == pytest.approx(np.linalg.norm(X, axis=1).max())


def test_coef_is_scaled_to_the_margin(quick):
    """Lemma 2.1: the margin is 1 / |coef_| in the units of the data, and the mean hinge loss slack / margin."""
    X, y = clouds(distance=14.0)
    weights = np.where(np.arange(90) < 30, 2.0, 0.5)
    model = quick.fit(X, y, sample_weight=weights)
    assert model.margin_ == pytest.approx(1 / np.linalg.norm(model.coef_))
    hinge = np.maximum(0, 1 - np.where(y == 1, 1, -1) * model.decision_function(X))
    mean = np.average(hinge, weights=weights)
    assert mean == pytest.approx(model.slack_ / (model.margin_ / model.scale_), abs=1e-9)
    if quick.slack is not None:
        assert model.margin_ == pytest.approx(model.certificate_.primal * model.scale_)
        assert set(np.flatnonzero(hinge > 1e-9)) <= set(model.support_)
    else:
        loss = hinge if model.loss_ == "hinge" else hinge**2
        objective = 0.5 / model.margin_**2 + model.C_ * (weights * loss).sum()
        assert objective == pytest.approx(model.certificate_.primal)


@pytest.mark.parametrize("intercept", [{}, {"intercept_scaling": 3.0}, {"fit_intercept": False}], ids=str)
@pytest.mark.parametrize("name", [name for name in CASES if "C" in CASES[name]])
def test_coef_is_the_sum_of_the_support_vectors(name, intercept):
    X, y = clouds(distance=3.0)
    model = LinearSVC(**CASES[name], **intercept, tol=1e-8, keep_dual=True, random_state=0).fit(X, y)
    if model.stopped_ == "tol":
        np.testing.assert_allclose(model.dual_coef_ @ model.support_vectors_, model.coef_, atol=1e-3)
    assert (model.dual_coef_ * np.where(y == 1, 1, -1)[model.support_] > 0).all()


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 8]),
        np.array([-1.0, 1.0]),
        np.array([False, True]),
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([0, 1], dtype=np.uint8),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_of_any_type(quick, labels):
    X, y = clouds()
    model = quick.fit(X, labels[y])
    assert set(model.predict(X)) <= set(labels)
    assert model.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(model.predict(X), labels[clone(quick).fit(X, y).predict(X)])


def test_many_classes(quick):
    X, y = clouds(n=120, classes=4, distance=14.0)
    names = np.array(["a", "b", "c", "d"])
    model = quick.fit(X, names[y])
    assert model.coef_.shape == (4, 5)
    assert model.intercept_.shape == (4,)
    for name in ("margin_", "slack_", "C_"):
        assert getattr(model, name).shape == (4,)
    for name in ("certificate_", "trace_", "stopped_", "promise_"):
        assert len(getattr(model, name)) == 4
    assert model.dual_coef_.shape == (4, model.support_.size)
    assert model.decision_function(X).shape == (120, 4)
    assert model.score(X, names[y]) > 0.8
    np.testing.assert_array_equal(model.predict(X), names[model.decision_function(X).argmax(axis=1)])


def test_storage_and_precision(quick, storages):
    X, y = clouds()
    wanted = clone(quick).fit(X, y)
    for name, stored in storages(X).items():
        model = clone(quick).fit(stored, y)
        assert model.score(stored, y) > 0.9, name
        if name != "unsorted":
            np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-6, err_msg=name)
    single = clone(quick).fit(X.astype(np.float32), y)
    assert single.coef_.dtype == np.float64
    np.testing.assert_allclose(single.coef_, wanted.coef_, rtol=0.05, atol=0.01)
    assert clone(quick).fit(X.round().astype(int), y).score(X, y) > 0.9
    assert clone(quick).fit(sp.coo_array(X), y).score(X, y) > 0.9
    assert clone(quick).fit(X.tolist(), y.tolist()).score(X, y) > 0.9


def test_a_frame_with_names(quick):
    X, y = clouds()
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = quick.fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == list("abcde")
    pd.testing.assert_frame_equal(model.support_vectors_, frame.iloc[model.support_])


def test_scaled_data_gives_the_same_predictions(quick):
    if quick.solver in ("newton", "pegasos", "stochastic_gradient"):
        pytest.skip("on its way to the optimum it takes steps of a length in the units of the data")
    X, y = clouds()
    one, other = clone(quick).fit(X, y), clone(quick)
    if quick.slack is None:
        other.set_params(C=quick.C / 64)
    other.fit(8 * X, y)
    np.testing.assert_allclose(other.coef_, one.coef_ / 8)
    assert other.margin_ == pytest.approx(8 * one.margin_)
    assert other.slack_ == pytest.approx(one.slack_)
    assert other.certificate_.relative_gap == pytest.approx(one.certificate_.relative_gap)


def test_without_an_intercept(quick):
    X, y = clouds()
    model = quick.set_params(fit_intercept=False).fit(X, y)
    np.testing.assert_array_equal(model.intercept_, [0.0])
    assert model.score(X, y) > 0.9


def test_a_scale_of_ones_own(quick):
    X, y = clouds()
    model = quick.set_params(scale=100.0).fit(X, y)
    assert model.scale_ == 100.0
    if quick.slack is not None:
        assert model.n_zero_rows_ is None
        assert "scale" not in model.reads_


@ONE_CLASS
def test_zero_rows_are_counted(quick):
    X, y = clouds()
    X[:7] = 0
    assert quick.fit(X, y).n_zero_rows_ == 7


def test_without_a_certificate(quick):
    X, y = clouds()
    model = quick.set_params(tol=None).fit(X, y)
    assert hasattr(model, "support_")
    if quick.slack is None:
        quick.set_params(max_iter=2)  # to stop before the gap is known
    model.set_params(certify=False).fit(X, y)
    assert not model.certificate_
    assert str(model.certificate_) == "not certified: certify=False"
    assert np.isnan(model.slack_) if quick.slack is None else np.isnan(model.margin_)
    if quick.slack is not None:
        assert not hasattr(model, "support_")  # not even that of the fit before
        assert not hasattr(model, "dual_coef_")
        assert not hasattr(model, "support_vectors_")
        assert model.score(X, y) > 0.8


@ONE_CLASS
def test_certified_at_each_check(quick):
    X, y = clouds()
    gaps = quick.set_params(certify="checks").fit(X, y).trace_.column("gap")
    assert (gaps >= 0).all()


def test_support_vectors_are_rows_of_data_that_is_alive(quick):
    X, y = clouds()
    model = quick.fit(X.copy(), y)
    with pytest.raises(AttributeError, match="training data is gone"):
        model.support_vectors_  # noqa: B018
    from_list = quick.fit(X.tolist(), y)
    with pytest.raises(AttributeError, match="training data is gone"):
        from_list.support_vectors_  # noqa: B018
    with pytest.raises(NotFittedError):
        LinearSVC().support_vectors_  # noqa: B018


# Weights


def test_weights_of_samples(quick):
    X, y = clouds()
    weights = np.ones(90)
    weights[:30] = 0
    garbage = X.copy()
    garbage[:30] = np.random.default_rng(0).normal(size=(30, 5))
    quick.set_params(scale=50.0)
    one, other = (clone(quick).fit(data, y, sample_weight=weights) for data in (X, garbage))
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-6 if quick.slack is None else 0)
    assert not np.isin(np.arange(30), one.support_).any()
    plain, doubled = clone(quick).fit(X, y), clone(quick)
    if quick.slack is None:  # it weighs the sum of the losses, the slack their mean
        doubled.set_params(C=quick.C / 2)
    doubled.fit(X, y, sample_weight=2 * np.ones(90))
    np.testing.assert_allclose(plain.coef_, doubled.coef_, rtol=1e-6)


def test_the_callers_weights_stay_as_they_were():
    X, y = clouds()
    weights = np.ones(90)
    LinearSVC(slack=0.02, max_iter=1, early_stopping=True, random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(weights, 1.0)


def test_weights_of_classes():
    X, y = clouds(distance=1.5)
    fit = LinearSVC(slack=0.1, max_iter=33, random_state=0).fit
    shares = [
        np.mean(LinearSVC(slack=0.1, max_iter=33, random_state=0, class_weight=w).fit(X, y).predict(X))
        for w in ({1: 0.2}, None, {1: 5.0})
    ]
    assert shares[0] < shares[1] < shares[2]
    rare = np.flatnonzero((y == 0) | (np.arange(90) < 30))
    balanced = LinearSVC(slack=0.1, max_iter=15, random_state=0, class_weight="balanced").fit(X[rare], y[rare])
    counts = np.bincount(y[rare])
    by_hand = LinearSVC(slack=0.1, max_iter=15, random_state=0, class_weight=dict(enumerate(rare.size / 2 / counts)))
    np.testing.assert_allclose(balanced.coef_, by_hand.fit(X[rare], y[rare]).coef_)
    as_samples = LinearSVC(slack=0.1, max_iter=15, random_state=0)
    as_samples.fit(X[rare], y[rare], sample_weight=(rare.size / 2 / counts)[y[rare]])
    np.testing.assert_allclose(balanced.coef_, as_samples.coef_)
    assert fit(X, y).score(X, y) > 0.6


# Stop rules


def test_early_stopping(quick):
    X, y = clouds(n=200)
    model = quick.set_params(early_stopping=True, validation_fraction=0.2, max_iter=50).fit(X, y)
    errors = model.trace_.column("holdout_error")
    assert np.isfinite(errors).all()
    assert model.reads_["holdout"] == 40 * 5 * len(model.trace_)
    assert model.stopped_ in ("early_stopping", "max_iter", "finished", "tol")
    with pytest.raises(ValueError, match=r"early_stopping cannot hold out 0.2 of 3 examples"):
        quick.fit(X[:3], y[:3])


def test_early_stopping_is_not_fooled_by_a_lucky_start():
    X, y = make_classification(1000, 100, n_informative=30, random_state=0)
    models = [LinearSVC(slack=0.05, early_stopping=True, random_state=seed).fit(X, y) for seed in range(5)]
    assert np.median([model.score(X, y) for model in models]) > 0.75
    assert all(model.stopped_ == "early_stopping" for model in models)


def test_budget(quick):
    X, y = clouds()
    model = quick.set_params(budget=4500, max_iter=None).fit(X, y)
    assert model.entries_read_ <= 4500
    assert model.stopped_ in ("budget", "finished", "tol")


@ONE_CLASS
def test_verbose(quick, capsys):
    X, y = clouds()
    model = quick.set_params(verbose=2, certify="checks").fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.trace_)
    assert lines[:-1] == [row.line() for row in model.trace_[:-1]]
    assert lines[-1].startswith(f"iteration {model.trace_[-1].iteration}, ")
    assert "entries read, value" in lines[-1]
    quick.set_params(verbose=1).fit(X, y)
    fewer = capsys.readouterr().out.splitlines()
    assert 1 < len(fewer) < 12
    quick.set_params(verbose=0).fit(X, y)
    assert capsys.readouterr().out == ""


# Against LIBSVM


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("distance", [2.0, 5.0])
def test_as_good_as_libsvm_for_C(C, distance):
    X, y = clouds(n=200, distance=distance)
    model = LinearSVC(C=C, solver="simba", tol=0.05, max_iter=1000, random_state=0).fit(X, y)
    exact = SVC(kernel="linear", C=C, tol=1e-8).fit(X, y)

    def value(w, b):
        return 0.5 * w @ w + C * np.maximum(0, 1 - np.where(y == 1, 1, -1) * (X @ w + b)).sum()

    best = value(exact.coef_[0], exact.intercept_[0])
    assert model.C_ == C
    assert best * (1 - 1e-9) <= value(model.coef_[0], model.intercept_[0]) <= 1.15 * best


@pytest.mark.parametrize("solver", ["simba", Simba(method="paper")], ids=str)
def test_the_certificate_holds_for_libsvm(solver):
    """LIBSVM's optimum for some C, as a solution at its own slack, is below our bound and we are below its value."""
    X, y = clouds(n=200, distance=3.0)
    signs, scale = np.where(y == 1, 1, -1), np.linalg.norm(X, axis=1).max()
    exact = SVC(kernel="linear", C=0.1, tol=1e-8).fit(X, y)
    w, b = exact.coef_[0], exact.intercept_[0]
    norm = np.linalg.norm(w)
    slack = np.maximum(0, 1 - signs * (X @ w + b)).mean() / (norm * scale)
    model = LinearSVC(slack=slack, solver=solver, max_iter=100, random_state=0).fit(X, y)
    best = 1 / (norm * scale)
    assert model.certificate_.primal <= best * (1 + 1e-6)
    assert model.certificate_.dual >= best * (1 - 1e-6)
    assert model.certificate_.relative_gap < 0.5


def objective(model, X, y, intercept_scaling=None):
    """What the model minimises, computed from scratch."""
    w, b = model.coef_[0], model.intercept_[0]
    short = np.maximum(0, 1 - np.where(y == 1, 1, -1) * (X @ w + b))
    penalty = 0 if intercept_scaling is None else 0.5 * (b / intercept_scaling) ** 2
    return 0.5 * w @ w + penalty + model.C * (short if model.loss == "hinge" else short**2).sum()


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", ["sdca", "newton"])
def test_the_optimum_is_that_of_liblinear(solver, loss, C):
    """With a penalised intercept."""
    X, y = clouds(n=200, distance=3.0)
    options = {"C": C, "loss": loss, "intercept_scaling": 2.0}
    peer = sklearn.svm.LinearSVC(**options, tol=1e-9, max_iter=1_000_000, random_state=0).fit(X, y)
    model = LinearSVC(**options, solver=solver, tol=1e-6, random_state=0).fit(X, y)
    assert model.stopped_ == "tol"
    assert objective(model, X, y, 2.0) == pytest.approx(model.certificate_.primal)
    assert objective(model, X, y, 2.0) == pytest.approx(objective(peer, X, y, 2.0), rel=1e-4)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("solver", ["sdca", "newton", "auto"])
def test_the_optimum_is_that_of_libsvm(solver, C):
    """With a free intercept and the hinge."""
    X, y = clouds(n=200, distance=3.0)
    peer = SVC(kernel="linear", C=C, tol=1e-8).fit(X, y)
    peer.loss = "hinge"
    model = LinearSVC(C=C, loss="hinge", solver=solver, tol=1e-6, keep_dual=True, random_state=0).fit(X, y)
    assert objective(model, X, y) == pytest.approx(objective(peer, X, y), rel=1e-4)
    assert set(model.support_) >= set(peer.support_[np.abs(peer.dual_coef_[0]) > 0.01 * C])


def test_slack_and_C_are_the_same_family():
    """The hinge with C, and then its slack: the same margin."""
    X, y = clouds(n=200, distance=3.0)
    with_C = LinearSVC(C=0.1, loss="hinge", tol=1e-6, random_state=0).fit(X, y)
    with_slack = LinearSVC(slack=with_C.slack_, max_iter=500, random_state=0).fit(X, y)
    assert with_slack.margin_ == pytest.approx(with_C.margin_, rel=0.1)
    assert with_slack.certificate_.dual * with_slack.scale_ >= with_C.margin_ * (1 - 1e-3)


@pytest.mark.parametrize(
    ("shape", "parameters", "solver", "loss"),
    [
        ((90, 5), {}, "newton", "squared_hinge"),
        ((90, 5), {"C": 1.0, "loss": "hinge"}, "newton", "hinge"),
        ((90, 200), {}, "sdca", "squared_hinge"),
        ((90, 5), {"budget": 100_000}, "sdca", "squared_hinge"),
        ((90, 5), {"slack": 0.02}, "simba", "hinge"),
    ],
    ids=str,
)
def test_what_auto_takes(shape, parameters, solver, loss):
    X, y = clouds(*shape)
    model = LinearSVC(**parameters, random_state=0).fit(X, y)
    assert (model.solver_, model.loss_) == (solver, loss)
    if model.solver_ != "simba":
        assert model.stopped_ == "tol"
        assert model.certificate_.relative_gap <= 1e-3


# Going on


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", [name for name in SOLVERS if SOLVERS[name].resumes])
def test_a_warm_start_pays(solver, loss, classes):
    X, y = clouds(n=600, d=20, classes=classes, distance=3.0)
    parameters = {"solver": solver, "loss": loss, "tol": 1e-4, "random_state": 0}
    model = LinearSVC(**parameters, C=0.1, warm_start=True).fit(X, y)
    first = model.entries_read_
    again = model.fit(X, y).entries_read_
    assert again < first / 2
    # Under another C, and under other weights, and wherever it begins: the same rule ends it.
    weights = np.linspace(0.5, 1.5, 600)
    for change in ({"C": 0.12}, {"C": 0.09}):
        warm = model.set_params(**change).fit(X, y, sample_weight=weights)
        cold = LinearSVC(**parameters, **change).fit(X, y, sample_weight=weights)
        assert warm.entries_read_ < cold.entries_read_
        np.testing.assert_allclose(warm.coef_, cold.coef_, rtol=0.1, atol=0.02)
        assert all(certificate.relative_gap <= 1e-4 for certificate in np.atleast_1d(warm.certificate_))


def test_a_warm_start_that_cannot_be_begins_anew(quick):
    X, y = clouds()
    quick.set_params(warm_start=True)
    if SOLVERS[quick.solver].online:
        pytest.skip("it can, whatever the rows")
    for other_X, other_y in ((X[:-1], y[:-1]), (X[:, :-1], y), (X, np.arange(90) % 3), (X, y + 1)):
        model = clone(quick).fit(X, y)
        with pytest.warns(UserWarning, match=r"starts from scratch: (the earlier model|solver '\w+' cannot)"):
            model.fit(other_X, other_y)
        anew = clone(quick).fit(other_X, other_y)
        np.testing.assert_array_equal(model.coef_, anew.coef_)
        assert model.entries_read_ == anew.entries_read_


def test_a_warm_start_on_other_data_is_certified_on_it():
    X, y = clouds(n=300, d=10, distance=3.0)
    model = LinearSVC(C=1.0, solver="sdca", warm_start=True, random_state=0).fit(X, y)
    model.fit(-2 * X, y)
    assert model.certificate_.relative_gap <= 1e-3
    assert objective(model, -2 * X, y) == pytest.approx(model.certificate_.primal)


def test_a_warm_start_after_a_pickle_or_with_sparse_coefficients():
    X, y = clouds(n=300, d=10, distance=3.0)
    model = LinearSVC(solver="newton", warm_start=True, random_state=0).fit(X, y)
    wanted = copy.deepcopy(model).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).fit(X, y).coef_, wanted.coef_)
    np.testing.assert_array_equal(model.sparsify().fit(X, y).coef_, wanted.coef_)


@pytest.fixture(params=[name for name in SOLVERS if SOLVERS[name].online])
def online(request):
    return LinearSVC(C=0.1, solver=request.param, random_state=0)


def test_learning_from_rows_as_they_come(online):
    X, y = clouds(n=600, classes=3, distance=14.0)
    names = np.array(["a", "b", "c"])[y]
    whole = clone(online).fit(X, names)
    for k, rows in enumerate(np.array_split(np.arange(600), 12)):
        rows = rows[y[rows] != k % 3]  # now and then a class is missing
        online.partial_fit(X[rows], names[rows], classes=["c", "b", "a"] if k == 0 else None)
    assert online.score(X, names) > whole.score(X, names) - 0.1
    assert online.n_iter_ == 1
    assert [learned.t for learned, _ in online._learned] == [400] * 3
    assert not hasattr(online, "support_")
    assert "partial_fit" in str(online.certificate_[0])
    before = online.coef_
    assert (pickle.loads(pickle.dumps(online)).partial_fit(X, names).coef_ == online.partial_fit(X, names).coef_).all()
    assert (online.coef_ != before).any()
    assert [learned.t for learned, _ in online._learned] == [1000] * 3


def test_learning_goes_on_after_a_fit(online):
    X, y = clouds(n=200)
    model = online.fit(X, y)
    [(learned, _)], passes = model._learned, model.n_iter_
    assert passes == math.ceil(learned.t / 200)
    assert model.partial_fit(X[:50], y[:50])._learned[0][0].t == learned.t + 50
    assert model.fit(X, y).n_iter_ == passes
    warm, anew = model.set_params(warm_start=True).fit(X, y), clone(online).fit(X, y)
    assert warm.score(X, y) > 0.9
    if online.solver == "pegasos":
        assert (warm.coef_ != anew.coef_).any()


def test_rows_of_one_class_are_learned_from(online):
    X, y = clouds(n=100)
    for k in (0, 1, 0, 1):
        online.partial_fit(X[y == k], y[y == k], classes=[0, 1])
    assert online.score(X, y) > 0.6


def test_bad_rows_to_go_on_with(online):
    X, y = clouds()
    with pytest.raises(ValueError, match="first call of partial_fit needs all classes"):
        online.partial_fit(X, y)
    online.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"y holds \[7\], but the classes are \[0, 1\]"):
        online.partial_fit(X, np.where(y, 7, 0))
    with pytest.raises(ValueError, match="others than in the first call"):
        online.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="X has 4 features"):
        online.partial_fit(X[:, :4], y)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="X contains NaN at row 3, column 2"):
        online.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"X contains NaN at row 3, column 2"):
        clone(online).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="how many rows of each class will come"):
        online.set_params(class_weight="balanced").partial_fit(X, y)


def test_only_online_solvers_go_on_with_other_rows():
    assert not hasattr(LinearSVC(), "partial_fit")
    with pytest.raises(AttributeError) as error:
        LinearSVC(solver="sdca").partial_fit  # noqa: B018
    assert "no partial_fit with solver='sdca'; it has with solver='pegasos' (and with 'perceptron')" in str(error.value)
    assert not hasattr(LinearSVC(solver="no such"), "partial_fit")


# Threads


def test_threads_change_no_bit(quick):
    X, y = clouds(classes=4)
    one, two = (clone(quick).set_params(n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    assert one.reads_ == two.reads_
    assert one.certificate_ == two.certificate_


@pytest.mark.parametrize("n_jobs", [-1, 8])
@pytest.mark.parametrize("storage", [np.array, sp.csr_array, sp.csc_array])
def test_threads_share_an_index_of_the_other_axis(n_jobs, storage):
    """SIMBA reads rows and columns: of a compressed matrix, one of them must be built, once."""
    X, y = clouds(classes=4)
    one, many = (LinearSVC(slack=0.02, max_iter=1, random_state=0, n_jobs=n).fit(storage(X), y) for n in (1, n_jobs))
    np.testing.assert_array_equal(one.coef_, many.coef_)
    assert one.reads_ == many.reads_
    assert one.reads_.get("index", 0) == (0 if storage is np.array else 450)


def test_no_threads_at_all_are_refused():
    X, y = clouds(classes=3)
    with pytest.raises(ValueError, match="n_jobs == 0"):
        LinearSVC(n_jobs=0).fit(X, y)


def test_an_error_in_a_thread_is_raised():
    class Broken:
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context):
            raise RuntimeError("broken")

    X, y = clouds(classes=4)
    with pytest.raises(RuntimeError, match="broken"):
        LinearSVC(slack=0.02, n_jobs=2).set_callbacks(Broken()).fit(X, y)


# Bad input


@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("storage", [np.array, np.asfortranarray, sp.csr_array, sp.csc_array])
def test_not_finite(quick, what, storage):
    X, y = clouds()
    X[17, 3] = what
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity \(inf\)) at row 17, column 3"):
        quick.fit(storage(X), y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": -1.0}, "'C' parameter of LinearSVC must be.*Got -1"),
        ({"C": 0.0}, "'C' parameter of LinearSVC must be.*Got 0"),
        ({"slack": -0.1}, "'slack' parameter of LinearSVC must be.*Got -0.1"),
        ({"C": 2.0, "slack": 0.1}, r"both C=2\.0 and slack=0\.1 were given.*give one"),
        ({"slack": 1.9}, r"slack=1\.9 is outside of its range for this data, which is 0 to 0\.\d+"),
        ({"budget": 3}, "budget of 3 entries is too small for one iteration"),
        ({"budget": 0}, "'budget' parameter of LinearSVC must be"),
        ({"max_iter": 0}, "'max_iter' parameter of LinearSVC must be"),
        ({"max_time": 0}, "'max_time' parameter of LinearSVC must be"),
        ({"solver": "sinba"}, "solver must be 'auto', a Solver, or one of .*simba.*; got 'sinba'"),
        ({"solver": "sublinear_perceptron", "C": 2.0}, "takes slack=0 only; got C=2"),
        ({"solver": "sdca", "slack": 0.1}, r"'sdca' solves the form with C; got slack=0\.1\. Give C instead.*simba"),
        ({"solver": "simba", "C": 1.0, "loss": "squared_hinge"}, "loss is the hinge; got loss='squared_hinge'.*sdca"),
        ({"slack": 0.1, "loss": "squared_hinge"}, "'simba' solves the form with slack, whose loss is the hinge"),
        ({"slack": 0.1, "intercept_scaling": 1.0}, r"whose intercept is free; got intercept_scaling=1\.0.*sdca"),
        ({"intercept_scaling": 0.0}, "'intercept_scaling' parameter of LinearSVC must be"),
        ({"loss": "logistic"}, "'loss' parameter of LinearSVC must be"),
        ({"n_jobs": "many"}, "'n_jobs' parameter of LinearSVC must be"),
        ({"solver": "sublinear_perceptron", "slack": 0.1}, "is for separable data, slack 0; got slack=0.1"),
        ({"scale": -1.0}, "'scale' parameter of LinearSVC must be"),
        ({"class_weight": {5: 2.0}}, "not in class_weight"),
        ({"certify": "perhaps"}, "'certify' parameter of LinearSVC must be"),
    ],
    ids=str,
)
def test_bad_parameters(parameters, message):
    X, y = clouds()
    with pytest.raises(ValueError, match=message):
        LinearSVC(**parameters).fit(X, y)


def test_bad_shapes(quick):
    X, y = clouds()
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[90, 89\]"):
        quick.fit(X, y[:-1])
    with pytest.raises(ValueError, match="sample_weight"):
        quick.fit(X, y, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match=r"(?i)negative"):
        quick.fit(X, y, sample_weight=-np.ones(90))
    with pytest.raises(ValueError, match=r"sample_weight is zero|[Zz]ero"):
        quick.fit(X, y, sample_weight=np.zeros(90))
    with pytest.raises(ValueError, match=r"one class only, 1; .*at least two classes"):
        quick.fit(X, np.ones(90, dtype=int))
    with pytest.raises(ValueError, match=r"y mixes labels of the types NoneType, str; give labels of one type"):
        quick.fit(X, np.array([None, *["yes", "no"] * 44, "no"], dtype=object))
    with pytest.raises(ValueError, match="one class"):
        quick.fit(X, y, sample_weight=y)
    for empty in (X[:0], X[:, :0]):
        with pytest.raises(ValueError, match=r"0 (sample|feature)"):
            quick.fit(empty, y[: len(empty)])
    with pytest.raises(ValueError, match="X has 4 features, but LinearSVC is expecting 5 features"):
        quick.fit(X, y).predict(X[:, :4])
    with pytest.raises(NotFittedError):
        clone(quick).predict(X)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        quick.fit(X, X[:, 0])


def test_a_typo_in_the_solver_is_said_wherever_it_is_met():
    X, y = clouds()
    model = LinearSVC(solver="sinba")
    assert is_classifier(model)
    assert "sinba" in repr(model)
    with pytest.raises(ValueError, match="got 'sinba'"):
        cross_val_score(model, X, y, error_score="raise")


# Callbacks and company


def test_the_stock_progress_bar(quick, capsys):
    X, y = clouds()
    plain = clone(quick).fit(X, y)
    model = quick.set_callbacks(ProgressBar()).fit(X, y)
    assert "100%" in capsys.readouterr().out
    np.testing.assert_array_equal(model.coef_, plain.coef_)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_stock_progress_bar_with_many_classes(quick, n_jobs, capsys):
    X, y = clouds(classes=3)
    quick.set_params(n_jobs=n_jobs).set_callbacks(ProgressBar()).fit(X, y)
    assert "100%" in capsys.readouterr().out


@pytest.mark.parametrize(("classes", "n_jobs"), [(2, 1), (3, 1), (3, 2)])
def test_the_stock_scoring_monitor(quick, classes, n_jobs):
    X, y = clouds(classes=classes)
    monitor = ScoringMonitor(scoring="accuracy")
    model = quick.set_params(n_jobs=n_jobs).set_callbacks(monitor).fit(X, y)
    scores = monitor.get_logs().data_as_pandas["accuracy"]
    assert len(scores) > 10
    assert scores.iloc[0] == pytest.approx(model.score(X, y))
    assert scores.between(0, 1).all()


def test_in_company(quick, capsys):
    X, y = clouds()
    pipeline = make_pipeline(StandardScaler(), clone(quick)).set_callbacks(ProgressBar()).fit(X, y)
    assert pipeline.score(X, y) > 0.9
    assert "LinearSVC" in capsys.readouterr().out
    search = GridSearchCV(clone(quick), {"max_iter": [2, 5]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    search = GridSearchCV(clone(quick), {"max_iter": [2, 5]}, cv=3).set_callbacks(ProgressBar()).fit(X, y)
    assert "100%" in capsys.readouterr().out
    assert cross_val_score(quick, X, y, cv=3).mean() > 0.9


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    X, y = clouds()
    frame = polars.DataFrame(X, schema=list("abcde"))
    model = LinearSVC(keep_dual=True).fit(frame, polars.Series(y))
    assert list(model.feature_names_in_) == list("abcde")
    np.testing.assert_array_equal(model.predict(frame), LinearSVC().fit(X, y).predict(X))
    assert isinstance(model.support_vectors_, polars.DataFrame)
    names = make_pipeline(StandardScaler().set_output(transform="polars"), LinearSVC()).fit(frame, y)[-1]
    assert list(names.feature_names_in_) == list("abcde")


def test_weights_are_routed():
    X, y = clouds()
    weights = np.where(np.arange(90) < 45, 1.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), LinearSVC())
        pipeline[-1].set_fit_request(sample_weight=True)
        routed = pipeline.fit(X, y, sample_weight=weights)[-1]
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_array_equal(routed.coef_, LinearSVC().fit(scaled, y, sample_weight=weights).coef_)


def test_sparse_coefficients(quick):
    X, y = clouds(classes=3)
    X[:, 2] = 0
    model = quick.fit(X, y)
    dense, decision = model.coef_.copy(), model.decision_function(X)
    model.sparsify()
    assert sp.issparse(model.coef_)
    assert model.coef_.nnz == 12
    np.testing.assert_allclose(model.decision_function(X), decision)
    np.testing.assert_array_equal(model.densify().coef_, dense)


def test_copies(quick):
    X, y = clouds(classes=3)
    model = quick.fit(X, y)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
        assert other.certificate_ == model.certificate_
        assert len(other.trace_[0]) == len(model.trace_[0])
    assert not hasattr(pickle.loads(pickle.dumps(model)), "support_vectors_")
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "coef_")


def test_a_solver_object(quick):
    X, y = clouds()
    solver = SublinearPerceptron(eps=0.9, constant=5)
    model = LinearSVC(solver=solver, random_state=0).fit(X, y)
    assert model.stopped_ == "finished"
    assert model.promise_ == {}  # by that constant
    assert clone(model).solver == solver
    assert pickle.loads(pickle.dumps(model)).solver == solver


def test_same_seed_same_bits(quick):
    X, y = clouds(classes=3)
    np.testing.assert_array_equal(clone(quick).fit(X, y).coef_, clone(quick).fit(X, y).coef_)
    if quick.solver in ("simba", "sublinear_perceptron", "perceptron", "pegasos", "stochastic_gradient"):
        assert (clone(quick).set_params(random_state=1).fit(X, y).coef_ != clone(quick).fit(X, y).coef_).any()


class Interrupter:
    """A callback that presses Ctrl-C when the first part of the work is done."""

    def __init__(self, times):
        self.times = times

    def setup(self, estimator, context):
        self.seen = 0

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.seen += 1
        if self.seen == 3:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGINT)


def warns_of_preliminary_models():
    return pytest.warns(ConvergenceWarning, match="binary problems have a preliminary model only")


@pytest.fixture
def default_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("classes", [2, 4])
def test_ctrl_c_keeps_the_model(quick, classes, default_ctrl_c):
    X, y = clouds(classes=classes)
    model = quick.set_params(max_iter=2 * quick.max_iter, n_jobs=1).set_callbacks(Interrupter(1))
    with warns_of_preliminary_models() if classes > 2 else nullcontext():
        model.fit(X, y)
    stopped = [model.stopped_] if classes == 2 else model.stopped_
    assert stopped == ["interrupted"] * len(stopped)
    trace = model.trace_ if classes == 2 else model.trace_[0]
    assert 0 < trace[-1].iteration < quick.max_iter * len(y)  # as many visits to samples, if not iterations
    assert model.predict(X).shape == y.shape
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if classes > 2:
        assert model.certificate_[0]
        assert "a preliminary model" in str(model.certificate_[-1])
        assert model.score(X, y) > 0.5  # of four classes, three of which have a preliminary model only
    assert model.decision_function(X).shape == ((90,) if classes == 2 else (90, classes))


def test_ctrl_c_reaches_every_thread(default_ctrl_c):
    X, y = clouds(classes=4)
    model = LinearSVC(slack=0.02, max_iter=50_000, n_jobs=2, random_state=0)  # more than there is time for
    with warns_of_preliminary_models():
        model.set_callbacks(Interrupter(1)).fit(X, y)
    assert model.stopped_ == ["interrupted"] * 4
    assert 0 < model.n_iter_ < 50_000
    assert [bool(certificate) for certificate in model.certificate_] == [True, True, False, False]


def test_a_second_ctrl_c_raises(quick, default_ctrl_c):
    X, y = clouds()
    with pytest.raises(KeyboardInterrupt):
        quick.set_callbacks(Interrupter(2)).fit(X, y)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("storage", [np.array, np.asfortranarray, sp.csr_array], ids=["C", "Fortran", "CSR"])
def test_the_data_is_not_copied(quick, storage):
    X, y = clouds(n=30_000, d=200)
    X = storage(X.astype(np.float32))
    size = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    quick.set_params(max_iter=min(quick.max_iter, 20), tol=None)
    if quick.slack is not None:
        quick.set_params(budget=2 * X.size)
    quick.fit(X[:10], y[:10])  # what is loaded at first use does not count
    tracemalloc.start()
    quick.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # CSR alone has no columns: an index of them is as large as the data.
    assert peak < size * (0.5 if isinstance(X, np.ndarray) else 1.5)
