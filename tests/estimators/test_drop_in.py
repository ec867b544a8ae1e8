"""What a person meets who only changed the import: scikit-learn's parameters, defaults and attributes."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from maxmargin import SVC, LinearSVC


def two_classes(n=200, d=6, **options):
    return make_classification(n, d, random_state=0, **{"n_informative": d // 2, "flip_y": 0.1, **options})


# Parameters


@pytest.mark.parametrize("name", ["LinearSVC", "SVC"])
def test_each_parameter_of_scikit_learn_is_there_and_in_its_place(name):
    ours, peers = (inspect.signature(getattr(of, name)).parameters for of in (maxmargin, sklearn.svm))
    assert not peers.keys() - ours.keys()
    positional = [[p.name for p in of.values() if p.kind is p.POSITIONAL_OR_KEYWORD] for of in (ours, peers)]
    assert positional[0] == positional[1]
    # Defaults that differ on purpose; the docstrings say what they mean.
    own = {"loss", "tol", "max_iter", "intercept_scaling", "cache_size", "probability"}
    differ = {key for key in peers if ours[key].default != peers[key].default}
    assert differ <= own


@pytest.mark.parametrize(
    "parameters",
    [
        {"dual": False},
        {"dual": True},
        {"dual": "auto"},
        {"loss": "hinge"},
        {"loss": "squared_hinge"},
        {"penalty": "l2"},
        {"multi_class": "ovr"},
        {"tol": 1e-5},
        {"max_iter": 10_000},
        {"intercept_scaling": 1},
        {"random_state": 0, "verbose": False},
        {"C": np.float32(0.5), "class_weight": "balanced"},
    ],
    ids=str,
)
def test_what_people_give_to_LinearSVC(parameters):
    X, y = two_classes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # scikit-learn's at its defaults
        peer = sklearn.svm.LinearSVC(**parameters).fit(X, y)
    ours = LinearSVC(**parameters).fit(X, y)
    assert abs(ours.score(X, y) - peer.score(X, y)) < 0.03


@pytest.mark.parametrize(
    "parameters",
    [
        {"shrinking": False},
        {"probability": False},
        {"max_iter": -1},
        {"tol": 1e-4, "cache_size": 500},
        {"random_state": 0, "verbose": False},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"decision_function_shape": "ovo", "break_ties": False},
    ],
    ids=str,
)
def test_what_people_give_to_SVC(parameters):
    X, y = two_classes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # scikit-learn deprecates `probability`
        peer = sklearn.svm.SVC(**parameters).fit(X, y)
    assert abs(SVC(**parameters).fit(X, y).score(X, y) - peer.score(X, y)) < 0.02


def test_penalty_and_loss_by_position():
    X, y = two_classes()
    assert LinearSVC("l2", "hinge").fit(X, y).loss_ == "hinge"
    assert LinearSVC().fit(X, y).loss_ == "squared_hinge"


def test_a_penalised_intercept_is_that_of_scikit_learn():
    X, y = two_classes()
    peer = sklearn.svm.LinearSVC(intercept_scaling=1, tol=1e-8, max_iter=100_000).fit(X, y)
    ours = LinearSVC(intercept_scaling=1, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-3)


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (LinearSVC("l1", dual=False), r"LinearSVC does not offer penalty='l1': use penalty='l2', or sklearn"),
        (LinearSVC(multi_class="crammer_singer"), "does not offer multi_class='crammer_singer': use multi_class='ovr'"),
        (LinearSVC(C=np.inf), "does not offer C=inf: use slack=0"),
        (SVC(probability=True), r"SVC does not offer probability=True: use .*CalibratedClassifierCV"),
        (SVC(C=np.inf), "does not offer C=inf: use slack=0"),
    ],
    ids=repr,
)
def test_what_is_not_offered_says_what_to_use(model, complaint):
    with pytest.raises(ValueError, match=complaint):
        model.fit(*two_classes())


@pytest.mark.parametrize("kind", [LinearSVC, SVC])
def test_slack_takes_the_place_of_C(kind):
    X, y = two_classes(class_sep=3.0, flip_y=0.0)
    assert kind().C == 1.0
    assert kind(slack=0.05, max_iter=2, random_state=0).fit(X, y).slack_ == 0.05
    with pytest.raises(ValueError, match=r"both C=0.5 and slack=0.05 were given"):
        kind(C=0.5, slack=0.05).fit(X, y)
    assert clone(kind(slack=0.05)).get_params()["C"] == 1.0


# Attributes


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("interface", ["spmatrix", "sparray"])
def test_a_sparse_fit_gives_sparse_attributes(classes, kernel, interface):
    X, y = two_classes(n_classes=classes)
    X[np.abs(X) < 1] = 0
    with sklearn.config_context(sparse_interface=interface):
        ours, peer = (kind(kernel=kernel).fit(sp.csr_array(X), y) for kind in (SVC, sklearn.svm.SVC))
        dense = SVC(kernel=kernel).fit(X, y)
        for name in ("support_vectors_", "dual_coef_", *(["coef_"] if kernel == "linear" else [])):
            found, expected, stored = (getattr(model, name) for model in (ours, peer, dense))
            assert type(found) is type(expected), name
            assert isinstance(stored, np.ndarray), name
            np.testing.assert_allclose(found.toarray(), stored, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(ours.decision_function(X), dense.decision_function(X), atol=1e-6)
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.decision_function(X), ours.decision_function(X))


def test_a_linear_model_is_small():
    """It carries no number for each sample unless it was asked to."""
    X, y = two_classes(n=20_000)
    plain = LinearSVC(random_state=0).fit(X, y)
    assert len(pickle.dumps(plain)) < 5000
    assert not hasattr(plain, "dual_coef_")
    with pytest.raises(AttributeError, match="keep_dual=True"):
        plain.support_vectors_  # noqa: B018
    for asked in ({"keep_dual": True}, {"warm_start": True}):
        model = LinearSVC(**asked, random_state=0).fit(X, y)
        assert model.dual_coef_.shape == (1, model.support_.size)
        np.testing.assert_array_equal(model.coef_, plain.coef_)
