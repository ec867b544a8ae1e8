"""LinearSVC finds the optimum of LIBSVM and of LIBLINEAR."""

import numpy as np
import pytest
import sklearn.svm
from clouds import clouds
from linear_cases import objective
from sklearn.svm import SVC

from maxmargin import LinearSVC
from maxmargin.problems import LOSSES
from maxmargin.solvers import Simba

# Many fits here are short on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


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
        ((90, 600), {}, "sdca_newton", "squared_hinge"),
        ((90, 6000), {}, "sdca", "squared_hinge"),
        ((90, 5), {"budget": 100_000}, "sdca", "squared_hinge"),
        ((90, 5), {"slack": 0.02, "budget": 100_000}, "simba", "hinge"),
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
