"""SVC: what a fit gives, predicting, stop rules and warm starts."""

import copy
import pickle
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from kernel_cases import close, clouds, exact
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from maxmargin import SVC
from maxmargin.problems import Certificate
from maxmargin.solvers import KERNEL_SOLVERS, Decomposition, Trace

ATTRIBUTES = (  # noqa: SIM905
    "support_ support_vectors_ n_support_ dual_coef_ intercept_ classes_ class_weight_ shape_fit_ fit_status_ gamma_ "
    "n_iter_ margin_ slack_ C_ entries_read_ kernel_evaluations_ kernel_evaluations_saved_ certificate_ trace_ "
    "stopped_ scale_ reads_ promise_ n_features_in_ solver_ loss_"
).split()


# What a fit gives


def test_every_attribute():
    X, y = clouds(n=200)
    model = SVC(C=10.0).fit(X, y)
    for name in ATTRIBUTES:
        assert hasattr(model, name), name
    assert isinstance(model.certificate_, Certificate)
    assert isinstance(model.trace_, Trace)
    assert (model.solver_, model.loss_, model.stopped_, model.fit_status_) == ("smo", "hinge", "tol", 0)
    assert (model.C_, model.scale_) == (10.0, 1.0)
    # Each once, and a few again to see whether rounding matters.
    assert 0 < model.kernel_evaluations_ == model.reads_["learning"] <= 1.2 * 200 * 200
    assert model.trace_[-1].kernel_evaluations == model.kernel_evaluations_
    assert model.trace_[-1].entries_read == model.entries_read_ == 0
    # The certificate's primal value includes an allowance for the rounding of rows that are kept in float32.
    regularizer = model.certificate_.primal - 10.0 * losses(model, X, y)
    assert model.margin_ == pytest.approx(1 / np.sqrt(2 * regularizer), rel=1e-5)
    assert model.slack_ == pytest.approx(losses(model, X, y) / 200 * model.margin_, rel=1e-4)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])


def losses(model, X, y):
    return np.maximum(0, 1 - np.where(y == 1, 1, -1) * model.decision_function(X)).sum()


def test_what_auto_takes():
    X, y = clouds()
    assert SVC().fit(X, y).solver_ == "smo"
    assert SVC(budget=100_000).fit(X, y).solver_ == "decomposition"
    if "sbp" in KERNEL_SOLVERS:
        assert SVC(slack=0.1).fit(X, y).solver_ == "smo"
        assert SVC(slack=0.1, budget=100_000).fit(X, y).solver_ == "sbp"


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
    with pytest.raises(ValueError, match=r"early_stopping cannot hold out 0.2 of 3 samples"):
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
