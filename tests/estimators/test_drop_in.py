"""What a person meets who only changed the import: scikit-learn's parameters, defaults and attributes."""

import inspect
import math
import pickle
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from maxmargin import SVC, LinearSVC, load_model, save_model
from maxmargin.engine.problem import Trait
from maxmargin.solvers import SOLVERS, Decomposition, KernelPegasos, Pegasos, Sdca


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
        (LinearSVC("l1", dual=False), r"LinearSVC does not support penalty='l1': use penalty='l2', or sklearn"),
        (
            LinearSVC(multi_class="crammer_singer"),
            "does not support multi_class='crammer_singer': use multi_class='ovr'",
        ),
        (LinearSVC(C=np.inf), "does not support C=inf: use slack=0"),
        (SVC(probability=True), r"SVC does not support probability=True: use .*CalibratedClassifierCV"),
        (SVC(C=np.inf), "does not support C=inf: use slack=0"),
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
    assert kind(slack=0.05, random_state=0).fit(X, y).slack_ == 0.05
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


# What max_iter counts


@pytest.mark.parametrize("name", [name for name in SOLVERS if SOLVERS[name].visits_samples])
def test_max_iter_counts_passes(name):
    """Of each solver that visits samples; `solve` itself keeps counting visits."""
    X, y = two_classes(n=150, class_sep=3.0, flip_y=0.0)
    solver = SOLVERS[name]()
    form = {"slack": 0.0} if Trait.SEPARABLE in solver.requires else {"C": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearSVC(solver=name, max_iter=3, tol=0.0, random_state=0, **form).fit(X, y)
    visits = model.trace_[-1].iteration
    assert visits <= 3 * 150
    assert model.n_iter_ == math.ceil(visits / 150)
    if model.stopped_ == "max_iter":
        assert (visits, model.n_iter_) == (450, 3)


@pytest.mark.parametrize("solver", [Pegasos(batch=50), KernelPegasos(batch=50)], ids=str)
def test_a_pass_of_batches(solver):
    X, y = two_classes(n=120)
    model = (SVC if Trait.KERNEL in solver.requires else LinearSVC)(solver=solver, max_iter=2, random_state=0).fit(X, y)
    assert model.trace_[-1].iteration == 2 * 3  # 120 samples are two batches and a part
    assert np.max(model.n_iter_) == 2


def test_a_limit_of_a_thousand_does_not_hurt():
    """scikit-learn's default, on many sparse features: each of 1000 visits would be to one of 4000 samples."""
    X = sp.random(1000, 2000, 0.01, format="csr", random_state=0)
    decision = X @ np.random.default_rng(0).normal(size=2000)
    y = (decision > np.median(decision)).astype(int)
    model = LinearSVC(max_iter=1000, random_state=0).fit(X, y)
    assert (model.solver_, model.stopped_) == ("sdca", "tol")
    assert model.score(X, y) >= sklearn.svm.LinearSVC(max_iter=1000).fit(X, y).score(X, y)


# Warnings


def test_a_fit_that_ends_before_its_tol_says_so(monkeypatch):
    X, y = two_classes(n=400)
    with pytest.warns(ConvergenceWarning, match=r"The fit stopped at max_iter=1, before .* tol=0.001: .* at this C"):
        LinearSVC(max_iter=1, solver="sdca", random_state=0).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"before .* tol=1e-05: not certified: certify=False\. Increase"):
        LinearSVC(max_iter=1, tol=1e-5, solver="sdca", certify=False, random_state=0).fit(X, y)
    monkeypatch.setattr(Sdca, "default_iterations", lambda self, problem: 1)
    with pytest.warns(ConvergenceWarning, match=r"stopped at the default limit of iterations, before"):
        LinearSVC(solver="sdca", random_state=0).fit(X, y)


@pytest.mark.parametrize("kind", [LinearSVC, SVC])
def test_one_warning_for_all_classes(kind):
    X, y = two_classes(n=400, n_classes=3, class_sep=0.5)
    solver = {"solver": "sdca"} if kind is LinearSVC else {"solver": Decomposition(first=20, block=4), "C": 100.0}
    with pytest.warns(ConvergenceWarning) as caught:
        kind(max_iter=1, random_state=0, **solver).fit(X, y)
    [warning] = [w for w in caught if w.category is ConvergenceWarning]
    assert re.match(r"\d of 3 binary problems stopped at max_iter=1.*the loosest, \d against", str(warning.message))


def test_no_warning_where_no_tol_was_to_be_reached():
    X, y = two_classes(n=400)
    newton = {"tol": 0.9, "solver": "newton"}
    simba = {"slack": 0.2, "solver": "simba"}
    for options in (simba, {"solver": "pegasos"}, {"max_time": 1e-9, "solver": "sdca"}, newton):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            warnings.filterwarnings("ignore", "The model predicts the same class")
            LinearSVC(max_iter=1, random_state=0, **options).fit(X, y)


def rare_class(n=600, d=5, share=0.1):
    rng = np.random.default_rng(0)
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, d)) + 0.3 * y[:, None], y


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (LinearSVC(slack=0.12, random_state=0), r"same class, 0, for all .*Try a slack below 0.12, or .*balanced"),
        (LinearSVC(C=1e-6, loss="hinge"), r"same class, 0, for all training samples. Try a larger C"),
        (SVC(C=1e-3), r"same class, 0, for all training samples. Try a larger C"),
    ],
    ids=repr,
)
def test_a_model_that_predicts_one_class_says_so(model, advice):
    X, y = rare_class()
    with pytest.warns(UserWarning, match=advice):
        model.fit(X, y)
    assert len(set(model.predict(X))) == 1


def test_it_is_said_without_another_look_at_the_data():
    X, y = rare_class()
    reads = []
    for C in (1e-6, 1.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reads.append(LinearSVC(C=C, loss="hinge", solver="sdca", random_state=0).fit(X, y).reads_)
    assert reads[0].keys() == reads[1].keys()
    # Without a certificate nothing has looked at all samples, and nothing is said.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearSVC(C=1e-6, loss="hinge", solver="pegasos", certify=False).fit(X, y)


@pytest.mark.parametrize("model", [LinearSVC(slack=0.05, random_state=0), LinearSVC(C=0.1), SVC(C=0.1)], ids=repr)
def test_slack_over_margin_bounds_the_training_error(model):
    """A misclassified sample falls short of the margin by at least the whole of it."""
    X, y = two_classes(n=500)
    model = clone(model).fit(X, y)
    assert 0 < 1 - model.score(X, y) <= model.slack_ / (model.margin_ / model.scale_)


def test_one_class_of_several():
    X, y = rare_class()
    y[:300] += 2  # four classes, with two common and two rare ones
    with pytest.warns(UserWarning, match=r"\d of 6 binary models predict the same class .*the first: 0 against 1"):
        SVC(C=1e-3).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # One against the rest, no decision value is positive, and still all classes may be predicted.
        model = LinearSVC(C=1e-2, random_state=0).fit(X, y)
    assert len(set(model.predict(X))) > 1


# Warm starts


@pytest.mark.parametrize("through_a_file", [False, True])
@pytest.mark.parametrize("model", [LinearSVC(C=1.0, solver="sdca"), LinearSVC(C=1.0), SVC(C=1.0)], ids=repr)
def test_a_warm_start_after_loading(model, through_a_file, tmp_path):
    X, y = two_classes(n=400, n_classes=3)
    model = clone(model).set_params(warm_start=True, random_state=0, tol=1e-5).fit(X, y)
    cold = np.max(model.n_iter_)
    if through_a_file:
        save_model(model, tmp_path / "m.mm")
        model = load_model(tmp_path / "m.mm")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.max(model.fit(X, y).n_iter_) < cold


@pytest.mark.parametrize("name", [name for name in SOLVERS if SOLVERS[name].online])
def test_an_online_solver_goes_on_after_loading(name, tmp_path):
    X, y = two_classes(n=300, n_classes=3)
    model = LinearSVC(C=0.1, solver=name, random_state=0).partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    save_model(model, tmp_path / "m.mm")
    loaded = load_model(tmp_path / "m.mm")
    for one in (model, loaded):
        one.partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(model.coef_, loaded.coef_)
    np.testing.assert_array_equal(model.intercept_, loaded.intercept_)


@pytest.mark.parametrize(
    ("first", "then", "reason"),
    [
        ({"keep_dual": False, "warm_start": False}, {}, "no dual variables; fit it with warm_start=True"),
        (
            {},
            {"solver": "hybrid"},
            "solver 'hybrid' cannot start from an earlier model, only 'cocoa', 'newton', 'sdca', 'sdca_newton' can",
        ),
        ({}, {"budget": 300, "solver": "sdca"}, "reads 1,200 entries, more than the budget of 300"),
        ({}, {"solver": "pegasos"}, "not one of an online solver"),
    ],
    ids=str,
)
def test_a_warm_start_that_is_none_says_why(first, then, reason):
    X, y = two_classes()
    model = LinearSVC(**{"solver": "newton", "warm_start": True, "random_state": 0, **first}).fit(X, y)
    with pytest.warns(UserWarning, match=f"warm_start=True, but this fit starts from scratch: .*{reason}"):
        model.set_params(warm_start=True, **then).fit(X, y)


def test_the_first_fit_needs_no_excuse():
    X, y = two_classes()
    for model in (LinearSVC(warm_start=True), SVC(warm_start=True)):
        with pytest.raises(ValueError, match="NaN"):
            model.fit(np.full_like(X, np.nan), y)
        model.fit(X, y)
