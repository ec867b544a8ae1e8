"""SVC finds the optimum of LIBSVM, in LIBSVM's layout."""

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_cases import close, clouds, exact, values
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import GridSearchCV

from maxmargin import SVC

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
