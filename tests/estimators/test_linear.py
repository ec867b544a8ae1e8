"""LinearSVC: what a fit gives, with every solver."""

import copy
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from clouds import clouds
from linear_cases import CASES, ONE_CLASS
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from maxmargin import LinearSVC
from maxmargin.problems import Certificate
from maxmargin.solvers import SublinearPerceptron, Trace

# Many fits here are short on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


ATTRIBUTES = (  # noqa: SIM905
    "coef_ intercept_ classes_ support_ support_vectors_ dual_coef_ n_iter_ margin_ slack_ C_ entries_read_ "
    "kernel_evaluations_ certificate_ trace_ stopped_ scale_ n_zero_rows_ reads_ promise_ n_features_in_"
).split()


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
        if model.certificate_.relative_gap < 1e-2:  # near the optimum, what falls short of the margin has a weight
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
def test_labels_of_any_type(quick_of_each_form, labels):
    X, y = clouds()
    model = quick_of_each_form.fit(X, labels[y])
    assert set(model.predict(X)) <= set(labels)
    assert model.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(model.predict(X), labels[clone(quick_of_each_form).fit(X, y).predict(X)])


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


def test_a_frame_with_names(quick_of_each_form):
    X, y = clouds()
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = quick_of_each_form.fit(frame, pd.Series(y))
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


def test_support_vectors_are_rows_of_data_that_is_alive(quick_of_each_form):
    X, y = clouds()
    model = quick_of_each_form.fit(X.copy(), y)
    with pytest.raises(AttributeError, match="training data is gone"):
        model.support_vectors_  # noqa: B018
    from_list = quick_of_each_form.fit(X.tolist(), y)
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
    fit = LinearSVC(slack=0.05, solver="simba", max_iter=33, random_state=0).fit
    shares = [
        np.mean(LinearSVC(slack=0.05, solver="simba", max_iter=33, random_state=0, class_weight=w).fit(X, y).predict(X))
        for w in ({1: 0.5}, None, {1: 2.0})
    ]
    assert shares[0] < shares[1] < shares[2]
    rare = np.flatnonzero((y == 0) | (np.arange(90) < 30))
    balanced = LinearSVC(slack=0.05, solver="simba", max_iter=15, random_state=0, class_weight="balanced").fit(
        X[rare], y[rare]
    )
    counts = np.bincount(y[rare])
    by_hand = LinearSVC(
        slack=0.05, solver="simba", max_iter=15, random_state=0, class_weight=dict(enumerate(rare.size / 2 / counts))
    )
    np.testing.assert_allclose(balanced.coef_, by_hand.fit(X[rare], y[rare]).coef_)
    as_samples = LinearSVC(slack=0.05, solver="simba", max_iter=15, random_state=0)
    as_samples.fit(X[rare], y[rare], sample_weight=(rare.size / 2 / counts)[y[rare]])
    np.testing.assert_allclose(balanced.coef_, as_samples.coef_)
    assert fit(X, y).score(X, y) > 0.6


# Copies


def test_sparse_coefficients(quick_of_each_form):
    X, y = clouds(classes=3)
    X[:, 2] = 0
    model = quick_of_each_form.fit(X, y)
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


def test_a_solver_object():
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


@pytest.mark.parametrize("storage", [np.array, np.asfortranarray, sp.csr_array], ids=["C", "Fortran", "CSR"])
def test_the_data_is_not_copied(quick, storage):
    X, y = clouds(n=18_000, d=200)
    X = storage(X.astype(np.float32))
    size = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    quick.set_params(max_iter=min(quick.max_iter, 20), tol=None)
    if quick.slack is not None:
        quick.set_params(budget=2 * X.size)
    quick.fit(X, y)  # modules that are loaded and threads that are started at first use do not count
    tracemalloc.start()
    quick.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # CSR alone has no columns: an index of them is as large as the data.
    assert peak < size * (0.5 if isinstance(X, np.ndarray) else 1.5)
