"""EnclosingBall: scikit-learn's conventions, the ball of the problem, and who is outside."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import EnclosingBall
from maxmargin.solvers import CoreSet, Sdca, SublinearBall

KERNELS = [None, "linear", "rbf", "poly"]


def cloud(n=150, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) + 0.5


@parametrize_with_checks(
    [
        EnclosingBall(),
        EnclosingBall(0.1),
        EnclosingBall(0.1, kernel="rbf"),
        EnclosingBall(solver="sublinear_ball", max_iter=50),
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, sp.csc_array], ids=["dense", "csr", "csc"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_row_is_outside_of_a_ball_around_all(kernel, dtype, storage):
    X = storage(cloud().astype(dtype))
    model = EnclosingBall(kernel=kernel).fit(X)
    assert (model.predict(X) == 1).all()
    assert model.decision_function(X).min() < 1e-2 * model.radius_  # some row is on the sphere
    assert model.objective_bound_ <= model.radius_ <= model.objective_ == pytest.approx(model.radius_, rel=1e-4)
    assert model.certificate_.relative_gap <= 1e-3
    assert model.stopped_ == "tol"
    assert model.dual_coef_.sum() == pytest.approx(1)
    assert model.dual_coef_.shape == (1, model.support_.size)
    assert model.support_vectors_.shape == (model.support_.size, 4)
    assert (model.entries_read_ > 0) == (kernel is None)
    assert (model.kernel_evaluations_ > 0) == (kernel is not None)


@pytest.mark.parametrize("nu", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("kernel", KERNELS)
def test_nu_is_the_share_outside(kernel, nu):
    X = cloud(300)
    model = EnclosingBall(nu, kernel=kernel, tol=1e-7).fit(X)
    assert (model.predict(X) == -1).sum() <= nu * 300 + 1e-9
    assert model.support_.size >= nu * 300 - 1e-9
    assert model.dual_coef_.max() <= 1 / max(1, nu * 300) + 1e-12
    assert model.radius_ <= model.objective_ + 1e-12


@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_the_gaussian_kernel_gives_the_outliers_of_a_one_class_svm(nu):
    X = cloud(200)
    ours = EnclosingBall(nu, kernel="rbf", gamma=0.3, tol=1e-8).fit(X)
    theirs = sklearn.svm.OneClassSVM(nu=nu, gamma=0.3, tol=1e-9).fit(X)
    value = theirs.decision_function(X)
    clear = np.abs(value) > 1e-4 * np.abs(value).max()
    np.testing.assert_array_equal(ours.predict(X)[clear], theirs.predict(X)[clear])
    new = cloud(100, seed=1) * 2
    order = np.argsort(theirs.score_samples(new))
    assert (np.diff(ours.score_samples(new)[order]) > -1e-4).all()


def test_distances_are_those_to_the_center():
    X, new = cloud(), cloud(20, seed=1)
    model = EnclosingBall().fit(X)
    wanted = np.linalg.norm(new - model.center_, axis=1)
    np.testing.assert_allclose(model.score_samples(new), -wanted)
    np.testing.assert_allclose(model.decision_function(new), model.radius_ - wanted, atol=1e-6)
    np.testing.assert_array_equal(model.predict(new), np.where(wanted <= model.radius_, 1, -1))
    linear = EnclosingBall(kernel="linear", tol=1e-6).fit(X)
    np.testing.assert_allclose(linear.score_samples(new), -wanted, rtol=1e-2)
    assert not hasattr(linear, "center_")


def test_a_function_is_a_kernel():
    X = cloud(60)
    model = EnclosingBall(0.1, kernel=lambda X, Z: rbf_kernel(X, Z, gamma=0.3), tol=1e-6).fit(X)
    named = EnclosingBall(0.1, kernel="rbf", gamma=0.3, tol=1e-6).fit(X)
    assert model.radius_ == pytest.approx(named.radius_, rel=1e-4)
    assert "positive semidefinite" in str(model.certificate_)


def test_the_sublinear_solver():
    X = cloud(400, 30)
    exact = EnclosingBall().fit(X)
    model = EnclosingBall(solver=SublinearBall(columns=2), max_iter=500, random_state=0).fit(X)
    assert model.solver_ == "sublinear_ball"
    assert model.objective_bound_ <= exact.radius_ * 1.001
    assert exact.objective_bound_ <= model.radius_ <= 1.2 * exact.radius_
    assert model.entries_read_ <= 500 * (2 * 400 + 30)
    assert model.reads_["scale"] > 0
    assert (model.predict(X) == 1).all()
    again = clone(model).fit(X)
    np.testing.assert_array_equal(again.center_, model.center_)


def test_limits_are_kept():
    X = cloud(500, 20)
    model = EnclosingBall(budget=25_000, tol=1e-9).fit(X)
    assert model.stopped_ == "budget"
    assert model.entries_read_ <= 25_000
    assert EnclosingBall(max_iter=2).fit(X).n_iter_ == 2
    assert (EnclosingBall(max_iter=1).fit(X).predict(X) == 1).all()


def test_it_can_be_pickled_and_has_names():
    X = pd.DataFrame(cloud(), columns=list("abcd"))
    for kernel in (None, "rbf"):
        model = EnclosingBall(0.1, kernel=kernel).fit(X)
        assert model.feature_names_in_.tolist() == list("abcd")
        loaded = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


class KeepModels:
    """A callback that keeps the model at each part of a fit."""

    def setup(self, estimator, context):
        self.models = []

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if fitted_estimator is not None:
            self.models.append(fitted_estimator)

    def teardown(self, estimator, context):
        pass


@pytest.mark.parametrize("solver", ["core_set", "sublinear_ball"])
def test_a_callback_sees_balls_that_enclose_all_rows(solver):
    X, seen = cloud(), KeepModels()
    EnclosingBall(solver=solver, max_iter=10, random_state=0).set_callbacks(seen).fit(X)
    assert len(seen.models) > 2
    for model in seen.models:
        assert model.radius_ == pytest.approx(np.linalg.norm(X - model.center_, axis=1).max())
        assert (model.predict(X) == 1).all()


def test_it_says_how_it_goes(capsys):
    EnclosingBall(verbose=2).fit(cloud())
    assert capsys.readouterr().out.count("\n") >= 2


def test_bad_parameters():
    X = cloud()
    with pytest.raises(NotFittedError):
        EnclosingBall().predict(X)
    for wrong in ({"nu": -0.1}, {"nu": 1.5}, {"kernel": "precomputed"}, {"tol": -1.0}, {"gamma": -1.0}):
        with pytest.raises(ValueError, match=f"'{next(iter(wrong))}' parameter"):
            EnclosingBall(**wrong).fit(X)
    with pytest.raises(ValueError, match="here it must be 'auto', a Solver, or one of core_set, sublinear_ball"):
        EnclosingBall(solver="sdca").fit(X)
    with pytest.raises(TypeError, match="'sdca' solves a RegularizedSVM; got a MinimumEnclosingBall"):
        EnclosingBall(solver=Sdca()).fit(X)
    with pytest.raises(ValueError, match="encloses all rows"):
        EnclosingBall(0.2, solver="sublinear_ball").fit(X)
    with pytest.raises(TypeError, match="needs rows of features, a Matrix"):
        EnclosingBall(kernel="rbf", solver="sublinear_ball").fit(X)
    with pytest.raises(ValueError, match="too small for one iteration"):
        EnclosingBall(budget=10, solver=CoreSet()).fit(X)
    for kernel in (None, "rbf"):
        with pytest.raises(ValueError, match="NaN at row 0, column 1"):
            EnclosingBall(kernel=kernel).fit(np.array([[0.0, np.nan], [1.0, 2.0]]))


def test_an_error_about_text_names_the_column():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"X holds text in the columns 'city' .*'Rome'.*OneHotEncoder"):
        EnclosingBall().fit(pd.DataFrame({"age": [1.0, 2.0], "city": ["Rome", "Oslo"]}))
