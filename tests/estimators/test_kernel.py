"""SVC: the optimum of LIBSVM, in LIBSVM's layout, with all that LinearSVC can do besides."""

import copy
import pickle
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import load_digits, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel, pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC
from maxmargin.problems import Certificate
from maxmargin.solvers import KERNEL_SOLVERS, Decomposition, Newton, Trace

ATTRIBUTES = (  # noqa: SIM905
    "support_ support_vectors_ n_support_ dual_coef_ intercept_ classes_ class_weight_ shape_fit_ fit_status_ gamma_ "
    "n_iter_ margin_ slack_ C_ entries_read_ kernel_evaluations_ kernel_evaluations_saved_ certificate_ trace_ "
    "stopped_ scale_ reads_ promise_ n_features_in_ solver_ loss_"
).split()


def clouds(n=90, d=5, classes=2, distance=4.0, seed=0):
    rng = np.random.default_rng(seed)
    label = np.arange(n) % classes
    means = rng.normal(size=(classes, d))
    means *= distance / 2 / np.linalg.norm(means, axis=1)[:, None]
    return rng.normal(size=(n, d)) + means[label], label


def exact(**parameters):
    """LIBSVM near its optimum."""
    return sklearn.svm.SVC(**{"C": 1.0, "tol": 1e-8, "cache_size": 100, **parameters})


class Gaussian:
    """A function with a name that is the same in every process, as tests that run side by side need it."""

    def __call__(self, X, Z):
        return rbf_kernel(X, Z)

    def __repr__(self):
        return "Gaussian()"


def close(**parameters):
    """Ours near its optimum."""
    return SVC(**{"tol": 1e-6, "random_state": 0, **parameters})


def values(model, X, y, kernel=None, weights=1.0):
    """The objective and the dual bound of a binary model, from scratch."""
    options = {"gamma": model.gamma_, "degree": model.degree, "coef0": model.coef0}
    K = X if model.kernel == "precomputed" else pairwise_kernels(X, metric=model.kernel, filter_params=True, **options)
    signs, beta = np.where(y == model.classes_[1], 1.0, -1.0), np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    f, u = K @ beta, model.C * weights * np.ones(len(y))
    alpha = beta * signs
    assert (alpha >= 0).all()
    assert (alpha <= u * (1 + 1e-12)).all()
    if model.fit_intercept:
        assert abs(beta.sum()) <= 1e-9 * alpha.sum()
    square = beta @ f
    losses = np.maximum(0, 1 - signs * (f + model.intercept_[0]))
    return 0.5 * square + u @ losses, alpha.sum() - 0.5 * square


# scikit-learn's conventions


def to_check(name):
    """Near the optimum where the solver comes there soon, else after a while."""
    return close(solver=name) if name in ("decomposition", "smo") else SVC(solver=name, max_iter=5, random_state=0)


def why_not(estimator):
    """The checks that cannot pass, and why."""
    reason = "rows of the kernel are kept in float32: the 1e-7 of the check is below their rounding"
    checks = {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}
    if estimator.kernel == "precomputed":
        checks["check_classifiers_one_label_sample_weights"] = "what it gives is not symmetric, so no kernel"
    return checks


TO_CHECK = [
    *(to_check(name) for name in KERNEL_SOLVERS),
    close(multi_class="ovr"),
    close(kernel="linear"),
    close(kernel="precomputed"),
    close(kernel=Gaussian()),
]


@pytest.mark.filterwarnings("ignore:.*the same class")  # a check weighs one so that the other is never predicted
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some are short on purpose
@parametrize_with_checks(TO_CHECK, expected_failed_checks=why_not)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# The optimum is that of LIBSVM

KERNELS = {
    "rbf": {"gamma": 0.2},
    "linear": {},
    "poly": {"gamma": 0.1, "coef0": 1.0, "degree": 2},
    "auto": {"gamma": "auto"},
}


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0, 1000.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_optimum_is_that_of_libsvm(kernel, C):
    X, y = clouds(n=200, distance=4.0)
    parameters = {"kernel": "rbf" if kernel == "auto" else kernel, "C": C, **KERNELS[kernel]}
    tol, open_ = (1e-6, 1e-4) if C <= 10 else (2e-4, 3e-4)  # large weights bring out the rounding of float32 rows
    ours, peer = close(**parameters, tol=tol).fit(X, y), exact(**parameters, tol=1e-5).fit(X, y)
    primal, dual = values(ours, X, y)
    peer.gamma_, peer.fit_intercept = ours.gamma_, True
    best, _ = values(peer, X, y)
    assert primal == pytest.approx(best, rel=open_)
    assert (primal - dual) / primal < open_
    assert ours.certificate_.primal == pytest.approx(primal, rel=open_)
    assert ours.certificate_.relative_gap <= tol
    new = clouds(n=300, seed=1)[0]
    mine, others = ours.decision_function(new), peer.decision_function(new)
    off = 0.02 if C <= 10 else 0.2
    np.testing.assert_allclose(mine, others, atol=off)
    sure = np.abs(others) > off
    np.testing.assert_array_equal(ours.predict(new)[sure], peer.predict(new)[sure])


@pytest.mark.parametrize("C", [0.1, 1000.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_without_an_intercept_the_gap_from_scratch_is_small(kernel, C):
    """LIBSVM always has one: a point of the dual without the constraint proves the optimum instead."""
    X, y = clouds(n=200, distance=4.0)
    parameters = {"kernel": "rbf" if kernel == "auto" else kernel, "C": C, **KERNELS[kernel]}
    model = close(fit_intercept=False, **parameters, tol=1e-6 if C <= 10 else 2e-4).fit(X, y)
    primal, dual = values(model, X, y)
    assert 0 <= (primal - dual) / primal < (1e-4 if C <= 10 else 3e-4)
    np.testing.assert_array_equal(model.intercept_, [0.0])


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.3])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, sp.csc_array])
def test_gamma_means_what_it_means_in_scikit_learn(gamma, storage):
    X, y = clouds()
    X[X < 0.5] = 0
    peer = exact(gamma=gamma).fit(X, y)
    assert SVC(gamma=gamma).fit(storage(X), y).gamma_ == pytest.approx(peer._gamma)


def test_the_layout_is_that_of_libsvm():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    ours, peer = close(tol=1e-8).fit(X, y), exact().fit(X, y)
    for name in ("support_", "n_support_", "classes_", "class_weight_"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(peer, name), err_msg=name)
        assert getattr(ours, name).dtype == getattr(peer, name).dtype
    np.testing.assert_array_equal(ours.support_vectors_, peer.support_vectors_)
    np.testing.assert_allclose(ours.dual_coef_, peer.dual_coef_, atol=2e-3)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-3)
    assert ours.n_iter_.shape == peer.n_iter_.shape == (45,)
    assert (ours.shape_fit_, ours.fit_status_) == (peer.shape_fit_, peer.fit_status_)


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_ten_classes_as_libsvm(C):
    X, y = load_digits(return_X_y=True)
    ours, peer = close(C=C, tol=1e-5).fit(X[:900], y[:900]), exact(C=C, tol=1e-5).fit(X[:900], y[:900])
    new = X[900:]
    for shape in ("ovo", "ovr"):
        mine, others = (m.set_params(decision_function_shape=shape).decision_function(new) for m in (ours, peer))
        assert mine.shape == others.shape
        if shape == "ovo":
            np.testing.assert_allclose(mine, others, atol=5e-3)
            clear = (np.abs(others) > 5e-3).all(axis=1)
            assert clear.mean() > 0.6
        else:
            np.testing.assert_allclose(mine[clear], others[clear], atol=5e-3)
    for ties in (False, True):
        mine, others = (m.set_params(break_ties=ties).predict(new) for m in (ours, peer))
        np.testing.assert_array_equal(mine[clear], others[clear])
        assert (mine == others).mean() > 0.995


def test_the_letters():
    rng = np.random.default_rng(0)
    letters = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    means, label = rng.normal(size=(26, 16)), np.arange(780) % 26
    X = means[label] + 0.6 * rng.normal(size=(780, 16))
    ours, peer = close(tol=1e-5).fit(X, letters[label]), exact(tol=1e-5).fit(X, letters[label])
    new = means[label] + 0.6 * rng.normal(size=(780, 16))
    assert ours.intercept_.shape == (325,)
    assert ours.dual_coef_.shape == peer.dual_coef_.shape == (25, ours.support_.size)
    assert (ours.predict(new) == peer.predict(new)).mean() > 0.995
    assert ours.score(new, letters[label]) == pytest.approx(peer.score(new, letters[label]), abs=0.005)


def test_votes_and_ties_are_those_of_libsvm():
    """A model of LIBSVM's, its numbers put into ours, decides the same everywhere: also between equals."""
    X, y = clouds(n=120, d=2, classes=5, distance=3.0)
    peer, ours = exact(gamma=0.5).fit(X, y), SVC(gamma=0.5).fit(X, y)
    for name in ("support_", "support_vectors_", "n_support_", "intercept_"):
        setattr(ours, name, getattr(peer, name))
    ours._dual_coef = peer.dual_coef_
    grid = np.stack(np.meshgrid(*[np.linspace(-4, 4, 60)] * 2), axis=-1).reshape(-1, 2)
    far = np.full((1, 2), 1e6)  # where every kernel is zero
    for new in (grid, far):
        for ties in (False, True):
            for model in (ours, peer):
                model.set_params(break_ties=ties)
            np.testing.assert_array_equal(ours.predict(new), peer.predict(new))
        np.testing.assert_allclose(ours.decision_function(new), peer.decision_function(new), atol=1e-9)
    peer.set_params(break_ties=False)
    ours.set_params(break_ties=True)
    assert (ours.predict(grid) != peer.predict(grid)).any()  # there are ties to break
    with pytest.raises(ValueError, match="break_ties"):
        ours.set_params(decision_function_shape="ovo").predict(grid)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 1: 0.5}])
def test_weights_of_classes_and_samples(class_weight, multi_class):
    X, y = clouds(n=240, classes=2, distance=1.5)
    keep = (y == 0) | (np.arange(240) % 3 == 0)
    X, y = X[keep], y[keep]
    weights = np.random.default_rng(0).uniform(0.2, 3.0, size=y.size)
    ours = close(class_weight=class_weight, multi_class=multi_class).fit(X, y, sample_weight=weights)
    peer = exact(class_weight=class_weight).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.class_weight_, peer.class_weight_)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=2e-3)
    primal, dual = values(ours, X, y, weights=weights * ours.class_weight_[y])
    assert (primal - dual) / primal < 1e-4


def test_weights_with_many_classes():
    X, y = clouds(n=210, classes=3, distance=1.5)
    weights = np.random.default_rng(0).uniform(0.2, 3.0, size=y.size)
    weights[:30] = 0
    parameters = {"class_weight": {0: 3.0, 1: 0.5, 2: 1.0}, "decision_function_shape": "ovo"}
    ours = close(**parameters).fit(X, y, sample_weight=weights)
    peer = exact(**parameters).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=2e-3)
    assert not np.isin(np.arange(30), ours.support_).any()


def test_one_against_the_rest_is_that_many_binary_models():
    X, y = clouds(n=210, classes=3, distance=2.5)
    model = close(multi_class="ovr").fit(X, y)
    assert model.dual_coef_.shape == (3, model.support_.size)
    assert model.intercept_.shape == model.n_iter_.shape == (3,)
    binary = [close(gamma=model.gamma_).fit(X, (y == k).astype(int)) for k in range(3)]
    wanted = np.column_stack([one.decision_function(X) for one in binary])
    np.testing.assert_allclose(model.decision_function(X), wanted, atol=2e-3)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))
    with pytest.raises(ValueError, match="decision_function_shape='ovo' needs multi_class='ovo'"):
        model.set_params(decision_function_shape="ovo").fit(X, y)


# Kernels of one's own


def test_a_precomputed_kernel_is_the_kernel():
    X, y = clouds(n=200, classes=3)
    new = clouds(n=50, classes=3, seed=1)[0]
    model, wanted = close(kernel="precomputed"), close(kernel=laplacian_kernel)
    peer = exact(kernel="precomputed").fit(laplacian_kernel(X), y)
    model.fit(laplacian_kernel(X), y)
    wanted.fit(X, y)
    for scores in (wanted.decision_function(new), peer.decision_function(laplacian_kernel(new, X))):
        np.testing.assert_allclose(model.decision_function(laplacian_kernel(new, X)), scores, atol=5e-3)
    np.testing.assert_array_equal(wanted.support_vectors_, X[wanted.support_])
    assert model.support_vectors_.size == 0
    assert np.isnan(model.gamma_)
    assert GridSearchCV(SVC(kernel="precomputed"), {"C": [1, 10]}, cv=3).fit(laplacian_kernel(X), y).best_score_ > 0.6


def test_sigmoid_works_as_libsvm_does_but_proves_nothing():
    X, y = clouds(n=200, distance=3.0)
    parameters = {"kernel": "sigmoid", "gamma": 0.05, "coef0": -0.5}
    ours, peer = SVC(**parameters, random_state=0).fit(X, y), exact(**parameters).fit(X, y)
    assert ours.score(X, y) == pytest.approx(peer.score(X, y), abs=0.02)
    assert not ours.certificate_
    assert "not positive semidefinite" in str(ours.certificate_)


def test_an_indefinite_matrix_proves_nothing():
    X, y = clouds(n=200, distance=3.0)
    K = X @ X.T - 3 * laplacian_kernel(X)
    ours = SVC(kernel="precomputed", random_state=0).fit(K, y)
    assert ours.score(K, y) == pytest.approx(exact(kernel="precomputed", tol=1e-3).fit(K, y).score(K, y), abs=0.05)
    assert "not positive semidefinite" in str(ours.certificate_)
    assert SVC(kernel="precomputed").fit(X @ X.T, y).certificate_
    assert SVC(kernel=laplacian_kernel).fit(X, y).certificate_


def test_coef_of_the_linear_kernel():
    X, y = clouds(n=150, classes=3)
    peer = exact(kernel="linear").fit(X, y)
    for storage in (np.asarray, sp.csr_array):
        ours = close(kernel="linear", decision_function_shape="ovo").fit(storage(X), y)
        coef = ours.coef_.toarray() if storage is sp.csr_array else ours.coef_
        np.testing.assert_allclose(coef, peer.coef_, atol=2e-3)
        np.testing.assert_allclose(X @ coef.T + ours.intercept_, ours.decision_function(X), atol=1e-9)
    with pytest.raises(ValueError, match="read-only"):
        close(kernel="linear").fit(X, y).coef_[0] = 1
    one = close(kernel="linear").fit(X[y < 2], y[y < 2])
    np.testing.assert_allclose(X @ one.coef_[0] + one.intercept_, one.decision_function(X))
    assert not hasattr(SVC().fit(X, y), "coef_")


# What a fit gives


def test_every_attribute():
    X, y = clouds(n=200)
    model = SVC(C=10.0).fit(X, y)
    for name in ATTRIBUTES:
        assert hasattr(model, name), name
    assert isinstance(model.certificate_, Certificate)
    assert isinstance(model.trace_, Trace)
    assert (model.solver_, model.loss_, model.stopped_, model.fit_status_) == ("decomposition", "hinge", "tol", 0)
    assert (model.C_, model.scale_) == (10.0, 1.0)
    # Each once, and a few again to see whether rounding matters.
    assert 0 < model.kernel_evaluations_ == model.reads_["learning"] <= 1.2 * 200 * 200
    assert model.trace_[-1].kernel_evaluations == model.kernel_evaluations_
    # The certificate's primal value includes an allowance for the rounding of rows that are kept in float32.
    regularizer = model.certificate_.primal - 10.0 * losses(model, X, y)
    assert model.margin_ == pytest.approx(1 / np.sqrt(2 * regularizer), rel=1e-5)
    assert model.slack_ == pytest.approx(losses(model, X, y) / 200 * model.margin_, rel=1e-4)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])


def losses(model, X, y):
    return np.maximum(0, 1 - np.where(y == 1, 1, -1) * model.decision_function(X)).sum()


def test_what_auto_takes():
    X, y = clouds()
    assert SVC().fit(X, y).solver_ == "decomposition"
    if "sbp" in KERNEL_SOLVERS:
        assert SVC(slack=0.1).fit(X, y).solver_ == "sbp"


def test_storage_and_precision(storages):
    X, y = clouds(n=120)
    X[np.abs(X) < 0.7] = 0
    wanted = SVC(C=10.0, random_state=0).fit(X, y)
    for name, stored in storages(X).items():
        model = clone(wanted).fit(stored, y)
        np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-5, err_msg=name)
        np.testing.assert_allclose(
            model.decision_function(stored), model.decision_function(X), atol=1e-12, err_msg=name
        )
        assert sp.issparse(model.support_vectors_) == sp.issparse(stored)
    single = clone(wanted).fit(X.astype(np.float32), y)
    assert single.support_vectors_.dtype == np.float32
    assert single.decision_function(X).dtype == np.float64
    np.testing.assert_allclose(single.decision_function(X), wanted.decision_function(X), atol=5e-3)
    np.testing.assert_array_equal(single.predict(X.astype(np.float32)), single.predict(X))
    assert clone(wanted).fit(X.tolist(), y.tolist()).score(X, y) == wanted.score(X, y)


def test_rows_that_are_very_sparse():
    """Too sparse to be worth laying down as dense ones."""
    rng = np.random.default_rng(0)
    X = sp.random_array((120, 500), density=0.02, rng=rng, format="csr")
    y = (X[:, [0]].toarray()[:, 0] + X.sum(axis=1) > 5).astype(int)
    ours, peer = close(gamma=0.5).fit(X, y), exact(gamma=0.5).fit(X.toarray(), y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X.toarray()), atol=2e-3)
    np.testing.assert_allclose(ours.decision_function(X.toarray()), ours.decision_function(X), atol=1e-12)


def test_labels_and_names():
    X, y = clouds(classes=3)
    frame = pd.DataFrame(X, columns=list("abcde"))
    names = np.array(["no", "maybe", "yes"], dtype=object)[y]
    model = SVC().fit(frame, names)
    assert set(model.predict(frame)) <= set(names)
    assert list(model.feature_names_in_) == list("abcde")
    with pytest.raises(NotFittedError):
        SVC().predict(X)


def test_slack_and_C_are_the_same_family():
    if "sbp" not in KERNEL_SOLVERS:
        pytest.skip("no solver of the form with slack")
    X, y = clouds(n=200, distance=2.5)
    with_C = close(C=0.5).fit(X, y)
    with_slack = SVC(slack=with_C.slack_, tol=0.02, random_state=0).fit(X, y)
    assert with_slack.margin_ == pytest.approx(with_C.margin_, rel=0.1)
    assert with_slack.certificate_.dual * with_slack.scale_ >= with_C.margin_ * (1 - 1e-3)


# Predicting


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
@pytest.mark.parametrize("classes", [2, 4])
def test_threads_and_parts_change_no_prediction(n_jobs, classes):
    X, y = clouds(n=200, classes=classes)
    new = clouds(n=1000, classes=classes, seed=1)[0]
    model = SVC(n_jobs=n_jobs).fit(X, y)
    whole = model.decision_function(new)
    np.testing.assert_allclose(whole, np.concatenate([model.decision_function(part) for part in np.split(new, 8)]))
    np.testing.assert_array_equal(model.predict(new), clone(model).set_params(n_jobs=1).fit(X, y).predict(new))


def test_predicting_leaves_nothing_behind():
    X, y = clouds()
    model = SVC().fit(X, y)
    fresh = pickle.dumps(model)
    decision = model.decision_function(X)
    assert len(pickle.dumps(model)) == len(fresh)
    for other in (pickle.loads(fresh), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.decision_function(X), decision)
        assert other.certificate_ == model.certificate_
    model.fit(X[:50], y[:50])
    assert (model.decision_function(X) != decision).any()
    with pytest.raises(ValueError, match="X has 4 features, but SVC is expecting 5 features"):
        model.predict(X[:, :4])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((1, 5), np.nan))


# Stop rules, callbacks and company


def test_early_stopping():
    X, y = make_moons(400, noise=0.3, random_state=0)
    model = SVC(C=10.0, early_stopping=True, validation_fraction=0.2, random_state=0, certify="checks").fit(X, y)
    assert np.isfinite(model.trace_.column("holdout_error")).all()
    assert model.score(X, y) > 0.85
    pairs = SVC(early_stopping=True, random_state=0).fit(*clouds(n=120, classes=3))
    assert all(np.isfinite(trace.column("holdout_error")).all() for trace in pairs.trace_)
    with pytest.raises(ValueError, match=r"early_stopping cannot hold out 0.2 of 3 examples"):
        model.fit(X[:3], [0, 1, 1])


def test_limits():
    X, y = make_moons(600, noise=0.3, random_state=0)
    small = {"solver": Decomposition(first=100, block=16), "C": 100.0, "random_state": 0}
    model = SVC(budget=20_000, **small).fit(X, y)
    assert (model.stopped_, model.fit_status_) == ("budget", 1)
    assert model.kernel_evaluations_ <= 20_000
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=2, before"):
        assert SVC(max_iter=2, **small).fit(X, y).n_iter_.tolist() == [2]
    assert SVC(max_iter=-1, **small).fit(X, y).stopped_ == "tol"
    assert SVC(max_time=1e-9, **small).fit(X, y).stopped_ == "max_time"


def test_the_rows_of_a_kernel_are_shared_by_the_classes():
    X, y = clouds(n=300, classes=3, distance=2.0)
    together = SVC(multi_class="ovr", random_state=0).fit(X, y)
    alone = [SVC(gamma=together.gamma_, random_state=0).fit(X, (y == k).astype(int)) for k in range(3)]
    evaluations = together.kernel_evaluations_ + together.kernel_evaluations_saved_
    assert evaluations <= sum(m.kernel_evaluations_ + m.kernel_evaluations_saved_ for m in alone) * 1.1


def test_verbose(capsys):
    X, y = clouds()
    model = SVC(verbose=2).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.trace_)
    assert "kernel evaluations" in lines[-1]
    SVC(verbose=0).fit(X, y)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("classes", [2, 3])
def test_callbacks(classes, capsys):
    X, y = clouds(classes=classes)
    monitor = ScoringMonitor(scoring="accuracy")
    model = SVC(max_iter=50).set_callbacks(ProgressBar(), monitor).fit(X, y)
    assert "100%" in capsys.readouterr().out
    scores = monitor.get_logs().data_as_pandas["accuracy"]
    assert scores.iloc[0] == pytest.approx(model.score(X, y))
    np.testing.assert_array_equal(model.dual_coef_, SVC(max_iter=50).fit(X, y).dual_coef_)


def test_ctrl_c_keeps_the_models_so_far():
    X, y = clouds(classes=3)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:

        class Interrupter(ProgressBar):
            seen = 0

            def setup(self, estimator, context): ...
            def teardown(self, estimator, context): ...
            def on_fit_task_begin(self, estimator, context): ...
            def on_fit_task_end(self, estimator, context):
                self.seen += 1
                if self.seen == 3:
                    signal.raise_signal(signal.SIGINT)

        model = SVC(solver=Decomposition(block=2), max_iter=100, tol=0.0, n_jobs=1).set_callbacks(Interrupter())
        with pytest.warns(ConvergenceWarning, match="2 of 3 binary problems have a preliminary model only"):
            model.fit(X, y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert model.stopped_ == ["interrupted"] * 3
    assert model.certificate_[0]
    assert "a preliminary model" in str(model.certificate_[2])
    assert model.score(X, y) > 0.6
    assert model.fit_status_ == 1


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_a_warm_start(classes, multi_class):
    X, y = clouds(n=200, classes=classes, distance=2.0)
    model = close(C=1.0, warm_start=True, multi_class=multi_class).fit(X, y)
    cold = close(C=1.5, multi_class=multi_class).fit(X, y)
    model.set_params(C=1.5).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), cold.decision_function(X), atol=5e-3)
    for other_X, other_y in ((X[:-1], y[:-1]), (X[:, :-1], y), (X, y + 1)):
        anew = clone(model).fit(other_X, other_y)
        with pytest.warns(UserWarning, match="starts from scratch: the earlier model"):
            again = copy.deepcopy(model).fit(other_X, other_y)
        np.testing.assert_array_equal(again.dual_coef_, anew.dual_coef_)


@pytest.mark.parametrize("classes", [3, 4])
@pytest.mark.parametrize(("first", "then"), [("ovo", "ovr"), ("ovr", "ovo")])
def test_a_warm_start_begins_anew_with_another_multi_class(classes, first, then):
    X, y = clouds(classes=classes)
    model = close(multi_class=first, warm_start=True).fit(X, y).set_params(multi_class=then)
    with pytest.warns(UserWarning, match="starts from scratch: .* another multi_class"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_, close(multi_class=then).fit(X, y).dual_coef_)


@pytest.mark.parametrize("factor", [1e-25, 1e25])
def test_kernels_that_single_precision_cannot_hold_are_kept_in_double(factor):
    X, y = clouds()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The model predicts the same class")
        SVC(kernel="linear").fit(0 * X, y)
        SVC(kernel="rbf").fit(factor * X, y)
        plain, model = (SVC(kernel="linear", C=C).fit(Z, y) for C, Z in ((1.0, X), (factor**-2, factor * X)))
    np.testing.assert_array_equal(model.predict(factor * X), plain.predict(X))
    assert model.certificate_.relative_gap <= 1e-3


def test_same_seed_same_bits_whatever_the_threads():
    X, y = clouds(n=200, classes=3)
    for multi_class in ("ovo", "ovr"):
        one, two = (SVC(multi_class=multi_class, random_state=0, n_jobs=n).fit(X, y) for n in (1, 2))
        np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
        assert one.reads_ == two.reads_


def test_in_company():
    X, y = make_moons(200, noise=0.2, random_state=0)
    search = GridSearchCV(SVC(), {"C": [0.1, 10], "gamma": ["scale", 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    calibrated = CalibratedClassifierCV(SVC(), ensemble=False).fit(X, y)
    probabilities = calibrated.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert make_pipeline(StandardScaler(), SVC()).fit(X, y).score(X, y) > 0.9
    many = CalibratedClassifierCV(SVC(), cv=3).fit(*clouds(classes=3))
    assert many.predict_proba(X[:, [0, 1, 0, 1, 0]]).shape == (200, 3)


# Bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": -1.0}, "'C' parameter of SVC must be.*Got -1"),
        ({"C": 2.0, "slack": 0.1}, r"both C=2\.0 and slack=0\.1 were given.*give one"),
        ({"solver": "decompose"}, "solver must be 'auto', a Solver, or one of .*decomposition.*; got 'decompose'"),
        ({"solver": "newton"}, "solver 'newton' is one of LinearSVC.*one of decomposition"),
        ({"solver": Newton()}, "solver 'newton' is one of LinearSVC"),
        ({"slack": 0.1, "solver": "decomposition"}, r"'decomposition' solves the form with C; got slack=0\.1"),
        ({"kernel": "gauss"}, "'kernel' parameter of SVC must be.*'rbf'.*Got 'gauss'"),
        ({"gamma": -0.5}, "'gamma' parameter of SVC must be"),
        ({"gamma": "wide"}, "'gamma' parameter of SVC must be"),
        ({"degree": -1, "kernel": "poly"}, "'degree' parameter of SVC must be"),
        ({"multi_class": "all"}, "'multi_class' parameter of SVC must be"),
        ({"max_iter": 0}, "'max_iter' parameter of SVC must be"),
        ({"max_iter": -2}, "'max_iter' parameter of SVC must be"),
        ({"cache_size": 0}, "'cache_size' parameter of SVC must be"),
        ({"cache_size": 1e-3}, r"cache_size=0\.001 megabytes.*give at least 0\.1"),
        ({"budget": 3}, "budget of 3 .*is too small for one iteration"),
        ({"kernel": "precomputed"}, r"square.*\(90, 5\)"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else None,
)
def test_bad_parameters(parameters, message):
    X, y = clouds()
    with pytest.raises(ValueError, match=message):
        SVC(**parameters).fit(X, y)


def test_bad_data():
    X, y = clouds()
    with pytest.raises(ValueError, match=r"returned an array of shape \(\d+,\); expected"):
        SVC(kernel=lambda A, B: np.ones(len(A))).fit(X, y)
    K = X @ X.T
    K[3, 7] += 1
    with pytest.raises(ValueError, match="symmetric"):
        SVC(kernel="precomputed").fit(K, y)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        SVC(kernel="precomputed").fit(sp.csr_array(X @ X.T), y)
    with pytest.raises(ValueError, match="features"):
        SVC(kernel="precomputed").fit(X @ X.T, y).predict(X)
    for what in (np.nan, np.inf):
        for storage in (np.asarray, sp.csr_array):
            bad = X.copy()
            bad[17, 3] = what
            with pytest.raises(ValueError, match=r"X contains (NaN|infinity \(inf\)) at row 17, column 3"):
                SVC().fit(storage(bad), y)
    with pytest.raises(ValueError, match="one class"):
        SVC().fit(X, np.zeros(90))
    with pytest.raises(ValueError, match=r"one class"):
        SVC().fit(X, y, sample_weight=y)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        SVC().fit(X, y, sample_weight=-np.ones(90))
