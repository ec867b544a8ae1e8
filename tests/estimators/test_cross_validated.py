"""LinearSVCCV and SVCCV: they choose what a grid search would, say what they compared, and keep the conventions."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from ctrl_c import ctrl_c_at_look
from scikit_checks import each_check
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCCV, LinearSVC, LinearSVCCV
from maxmargin.estimators import search
from maxmargin.solvers import NoModelYet

BOTH = pytest.mark.parametrize("classifier", [LinearSVCCV, SVCCV])
FEW = [0.1, 1.0, 10.0]


def moons(n=120, noise=0.3, seed=0):
    return make_moons(n, noise=noise, random_state=seed)


def few(classifier, **parameters):
    return classifier(**{"Cs": FEW, "cv": 3, "random_state": 0, **parameters})


def why_not(estimator):
    if estimator.slacks is None:
        return {}
    reason = "a fold holds other samples where rows are repeated in place of weights"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore:.*the same class")  # a check weighs one so that the other is never predicted
@pytest.mark.filterwarnings("ignore:slack=.* is less than any model can have")
@each_check(
    [few(LinearSVCCV), few(SVCCV, gammas=[0.1, 1.0], tol=1e-10)],  # a check compares two fits to seven places
    [few(LinearSVCCV, Cs=10, slacks=[0.01, 0.1])],
    why_not,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# What is chosen


SETS = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "moons": moons,
    "breast cancer": lambda: tuple(part[:200] for part in load_breast_cancer(return_X_y=True)),
}


@pytest.mark.parametrize("name", SETS)
def test_the_scores_of_a_grid_search_with_a_kernel(name):
    X, y = SETS[name]()
    X = StandardScaler().fit_transform(X)
    grid = {"gamma": [0.01, 0.1, 1.0], "C": [0.1, 1.0, 10.0]}
    theirs = GridSearchCV(sklearn.svm.SVC(), grid, cv=5).fit(X, y)
    ours = SVCCV(Cs=grid["C"], gammas=grid["gamma"], cv=5, tol=1e-5).fit(X, y)
    order = [theirs.cv_results_["params"].index(cell) for cell in ours.cv_results_["params"]]
    expected = theirs.cv_results_["mean_test_score"][order]
    # One sample may lie on the boundary.
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], expected, atol=1.01 / len(y))
    assert theirs.cv_results_["mean_test_score"].max() - expected[ours.best_index_] <= 1.01 / len(y)
    assert ours.best_score_ == ours.cv_results_["mean_test_score"][ours.best_index_]


def test_the_scores_of_a_grid_search_without_a_kernel():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    theirs = GridSearchCV(LinearSVC(loss="hinge", tol=1e-5), {"C": [0.001, 0.01, 0.1, 1.0]}, cv=5).fit(X, y)
    ours = LinearSVCCV(Cs=[0.001, 0.01, 0.1, 1.0], loss="hinge", cv=5, tol=1e-5).fit(X, y)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1.01 / len(y)
    )


@BOTH
def test_the_model_is_that_of_the_best_cell(classifier):
    X, y = moons()
    model = few(classifier, tol=1e-6).fit(X, y)
    direct = clone(model.best_estimator_).set_params(**model.best_params_).fit(X, y)
    assert isinstance(direct, LinearSVC if classifier is LinearSVCCV else SVC)
    np.testing.assert_array_equal(model.decision_function(X), direct.decision_function(X))
    np.testing.assert_array_equal(model.predict(X), direct.predict(X))
    assert model.certificate_.relative_gap <= 1e-6
    assert model.best_params_["C"] == model.C_
    assert model.score(X, y) == direct.score(X, y)


def test_of_equals_the_strongest_regularisation():
    X = np.repeat([[-1.0, 0.0], [1.0, 0.0]], 20, axis=0)
    y = np.repeat([0, 1], 20)
    model = few(LinearSVCCV).fit(X, y)
    assert model.best_score_ == 1
    assert model.C_ == 0.1


def test_one_standard_error():
    X, y = make_classification(120, 20, n_informative=4, flip_y=0.1, random_state=4)
    Cs = np.logspace(-4, 1, 8)
    best, simpler = (LinearSVCCV(Cs=Cs, one_standard_error=rule, random_state=0).fit(X, y) for rule in (False, True))
    scores = best.scores_[best.Cs_ == best.C_][0]
    least = best.best_score_ - scores.std(ddof=1) / np.sqrt(scores.size)
    assert simpler.C_ < best.C_
    assert simpler.best_score_ >= least
    stronger = simpler.scores_.mean(axis=1)[simpler.Cs_ < simpler.C_]
    assert (stronger < least).all()


def test_a_slack_in_place_of_C():
    X, y = moons()
    model = SVCCV(slacks=[0.02, 0.3, 0.1], gammas=[0.5, 2.0], cv=3).fit(X, y)
    np.testing.assert_array_equal(model.slacks_, [0.02, 0.1, 0.3])
    assert model.scores_.shape == (2, 3, 3)
    assert set(model.best_params_) == {"slack", "gamma"}
    assert model.slack_ == model.best_params_["slack"]
    assert not hasattr(model, "Cs_")
    table = model.cv_results_
    for k, parameters in enumerate(table["params"]):
        cell = np.searchsorted(model.gammas_, parameters["gamma"]), np.searchsorted(model.slacks_, parameters["slack"])
        np.testing.assert_array_equal(model.scores_[cell], [table[f"split{j}_test_score"][k] for j in range(3)])
    alone = SVC(slack=model.slack_, gamma=model.gamma_).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))


# What is said of it


def test_the_layout_of_cv_results():
    X, y = moons()
    model = SVCCV(Cs=FEW, gammas=[0.5, 2.0], cv=4).fit(X, y)
    table = model.cv_results_
    theirs = GridSearchCV(sklearn.svm.SVC(), {"C": FEW, "gamma": [0.5, 2.0]}, cv=4).fit(X, y).cv_results_
    own = {"standard_error", "n_samples", "left_early"}
    assert set(theirs) - set(table) == {"std_fit_time", "mean_score_time", "std_score_time"}
    assert set(table) - set(theirs) == own
    frame = pd.DataFrame(table)
    assert len(frame) == 6
    scores = frame[[f"split{k}_test_score" for k in range(4)]].to_numpy()
    np.testing.assert_allclose(frame["mean_test_score"], scores.mean(axis=1))
    np.testing.assert_allclose(frame["std_test_score"], scores.std(axis=1))
    np.testing.assert_allclose(frame["standard_error"], scores.std(axis=1, ddof=1) / 2)
    assert frame["rank_test_score"][model.best_index_] == 1
    assert (frame["n_samples"] == 120).all()
    assert not frame["left_early"].any()
    assert frame["params"][model.best_index_] == model.best_params_
    np.testing.assert_array_equal(model.scores_.reshape(6, 4), scores)


def test_the_default_grids():
    X, y = moons(60)
    linear = LinearSVCCV(cv=3).fit(X, y)
    np.testing.assert_allclose(linear.Cs_, np.logspace(-4, 4, 10))
    assert linear.scores_.shape == (10, 3)
    kernel = SVCCV(Cs=2, cv=3).fit(X, y)
    np.testing.assert_allclose(kernel.gammas_[2], SVC().fit(X, y).gamma_)
    assert kernel.scores_.shape == (5, 2, 3)
    without = SVCCV(Cs=2, cv=3, kernel="linear").fit(X, y)
    assert without.scores_.shape == (2, 3)
    assert not hasattr(without, "gammas_")


def test_verbose(capsys):
    few(LinearSVCCV, verbose=1).fit(*moons())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"C=0\.1: 0\.\d{4} \+- 0\.\d{4} on 120 samples", lines[0])


def test_cells_that_are_left_early(monkeypatch):
    monkeypatch.setattr(search, "SCREENING_SAMPLES", 100)
    X, y = moons(600)
    model = SVCCV(Cs=[1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0], gammas=[1e-3, 0.1, 1.0], random_state=0).fit(X, y)
    table = model.cv_results_
    left = table["left_early"]
    assert 0 < left.sum() < left.size
    assert not left[model.best_index_]
    assert set(table["n_samples"][left]) == {100}
    assert set(table["n_samples"][~left]) == {600}
    assert table["rank_test_score"][~left].max() < table["rank_test_score"][left].min()
    assert table["rank_test_score"][model.best_index_] == 1
    whole = GridSearchCV(sklearn.svm.SVC(), {"C": model.Cs_, "gamma": model.gammas_}).fit(X, y)
    assert model.best_score_ >= whole.best_score_ - 0.01


def test_comparisons_grow(monkeypatch):
    monkeypatch.setattr(search, "SCREENING_SAMPLES", 50)
    X, y = moons(600)
    model = SVCCV(Cs=[1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0], gammas=[1e-3, 0.1, 1.0], random_state=0).fit(X, y)
    table = model.cv_results_
    assert set(table["n_samples"]) == {50, 150, 600}
    assert table["n_samples"][model.best_index_] == 600
    np.testing.assert_array_equal(table["left_early"], table["n_samples"] < 600)
    assert np.isfinite(table["mean_test_score"]).all()


def one_gamma(means, iterations, one_class=()):
    """A search over values of C alone, with these scores and numbers of iterations."""
    found = search.Search(
        LinearSVC(), search.Grid("C", np.logspace(0, 5, len(means)), np.array([np.nan])), [(None, None)] * 2, None, None
    )
    found.scores[:] = np.repeat(means, 2).reshape(1, -1, 2)
    found.n_samples[:], found.iterations[:] = 100, iterations
    found.one_class[0, list(one_class)] = True
    return found


@pytest.mark.parametrize(
    ("means", "iterations", "one_class", "too_long"),
    [
        ([0.7, 0.9, 0.9, 0.9], [2, 5, 39, 41], [], [3]),  # as good for more than eight times the iterations
        ([0.7, 0.9, 0.8, 0.95], [2, 5, 39, 410], [], []),  # better
        ([0.7, 0.9, 0.9, 0.95], [2, 5, 41, 410], [], [2]),
        ([0.7, 0.7, 0.7, 0.9], [1, 5, 20, 40], [0, 1, 2], []),  # the same score because all predict one class
        ([0.9, 0.8, 0.7, 0.6], [100, 50, 20, 1], [], []),
    ],
)
def test_which_values_take_too_long(means, iterations, one_class, too_long):
    found = one_gamma(means, iterations, one_class)
    assert [k for k in range(4) if found._takes_too_long((0, k))] == too_long


def sparse_noise(n=300, d=1000, seed=0):
    """Sparse samples that are separable, with more features than samples: a large C takes longer and changes little."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density=0.02, format="csr", random_state=seed)
    w = 0.2 * rng.normal(size=d)
    w[:30] += 5 * rng.normal(size=30)
    return X, np.where(X @ w + 0.3 * rng.normal(size=n) > 0, "yes", "no")


def test_values_that_only_take_longer_are_left(monkeypatch):
    monkeypatch.setattr(search, "MOST_ITERATIONS", 2)
    X, y = sparse_noise()
    Cs = np.logspace(-2, 6, 9)
    model = LinearSVCCV(Cs=Cs, loss="hinge", random_state=0).fit(X, y)
    left = model.cv_results_["left_early"]
    assert not left[model.best_index_]
    assert left[-1]
    assert (np.diff(left.astype(int)) >= 0).all()  # all larger ones
    np.testing.assert_array_equal(np.isnan(model.scores_).all(axis=1), left)
    np.testing.assert_array_equal(model.cv_results_["n_samples"], np.where(left, 0, 300))
    assert model.search_stopped_ == ""
    assert model.best_score_ == model.scores_[~left].mean(axis=1).max()


def test_the_same_bits_whatever_the_threads():
    X, y = sparse_noise()
    one, other = (LinearSVCCV(Cs=FEW, loss="hinge", random_state=0, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.scores_, other.scores_)
    np.testing.assert_array_equal(one.coef_, other.coef_)


@BOTH
def test_the_same_seed_gives_the_same_bits(classifier):
    X, y = moons()
    cv = StratifiedKFold(3, shuffle=True)
    one, other = (few(classifier, cv=cv, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.scores_, other.scores_)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    assert cv.random_state is None


# Data


@BOTH
def test_weights_are_repeated_rows(classifier):
    X, y = moons()
    weights = np.random.default_rng(0).integers(1, 4, y.size)
    folds = np.arange(y.size) % 3
    weighed = few(classifier, cv=PredefinedSplit(folds), tol=1e-6, scoring=None)
    weighed.fit(X, y, sample_weight=weights)
    repeat = np.repeat(np.arange(y.size), weights)
    repeated = few(classifier, cv=PredefinedSplit(folds[repeat]), tol=1e-6)
    repeated.fit(X[repeat], y[repeat])
    # Scores count a sample once: compare the decisions of models with the same cell.
    repeated = clone(repeated).set_params(Cs=[weighed.C_])
    weighed = clone(weighed).set_params(Cs=[weighed.C_])
    if classifier is SVCCV:
        weighed, repeated = (model.set_params(gammas=[1.0]) for model in (weighed, repeated))
    one = weighed.fit(X, y, sample_weight=weights).decision_function(X)
    other = repeated.fit(X[repeat], y[repeat]).decision_function(X)
    np.testing.assert_allclose(one, other, atol=0.01)


def test_a_sample_without_weight_is_not_learned_from():
    X, y = moons()
    weights = np.where(np.arange(y.size) % 10 == 0, 0.0, 1.0)
    wrong = np.where(weights == 0, 1 - y, y)
    model = few(SVCCV, gammas=[1.0]).fit(X, wrong, sample_weight=weights)
    kept = SVC(C=model.C_, gamma=1.0).fit(X[weights > 0], y[weights > 0])
    np.testing.assert_array_equal(model.predict(X), kept.predict(X))


@BOTH
def test_groups_are_not_split(classifier):
    X, y = moons(60)
    groups = np.arange(60) // 6
    seen = []

    def record(model, X, y):
        seen.append(X)
        return model.score(X, y)

    few(classifier, cv=GroupKFold(3), scoring=record, n_jobs=1).fit(X, y, groups=groups)
    for part in seen:
        which = {tuple(row) for row in part}
        inside = np.array([tuple(row) in which for row in X])
        assert all(len(set(inside[groups == group])) == 1 for group in range(10))
    with pytest.raises(ValueError, match="groups"):
        few(classifier, cv=GroupKFold(3)).fit(X, y)


@BOTH
def test_labels_of_any_type_and_several_classes(classifier):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    model = few(classifier).fit(X, names[y])
    assert model.classes_.tolist() == names.tolist()
    assert set(model.predict(X)) <= set(names)
    assert model.score(X, names[y]) > 0.9
    assert model.decision_function(X).shape == (150, 3)
    numbers = few(classifier).fit(X, y)
    np.testing.assert_array_equal(model.scores_, numbers.scores_)


@BOTH
def test_frames(classifier):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = few(classifier).fit(X, y)
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    assert model.n_features_in_ == 4
    plain = few(classifier).fit(X.to_numpy(), y.to_numpy())
    np.testing.assert_array_equal(model.predict(X), plain.predict(X.to_numpy()))
    np.testing.assert_array_equal(model.scores_, plain.scores_)


@BOTH
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_sparse_data(classifier, kind):
    X, y = make_classification(120, 10, random_state=0)
    X[np.abs(X) < 0.5] = 0
    dense, sparse = few(classifier).fit(X, y), few(classifier).fit(kind(X), y)
    np.testing.assert_allclose(dense.scores_, sparse.scores_, atol=1.01 / 40)
    assert (dense.predict(X) == sparse.predict(kind(X))).mean() > 0.98


def test_a_precomputed_kernel():
    X, y = moons()
    K = rbf_kernel(X, gamma=1.0)
    model = few(SVCCV, kernel="precomputed").fit(K, y)
    same = few(SVCCV, gammas=[1.0]).fit(X, y)
    np.testing.assert_allclose(model.scores_, same.scores_[0], atol=1.01 / 40)
    assert (model.predict(K) == same.predict(X)).mean() > 0.98
    assert not hasattr(model, "gamma_")
    found = cross_validate(few(SVCCV, kernel="precomputed"), K, y, cv=3, error_score="raise")
    assert found["test_score"].mean() > 0.8


def test_a_kernel_that_is_a_function():
    X, y = moons()
    model = few(SVCCV, kernel=lambda A, B: A @ B.T + 1.0).fit(X, y)
    assert model.scores_.shape == (3, 3)
    assert model.score(X, y) > 0.8


# Limits


@BOTH
def test_hardly_any_time(classifier):
    X, y = moons(300)
    with pytest.raises(ValueError, match=r"max_time=1e-09 was over.*before any cell had a score; give more time"):
        classifier(max_time=1e-9).fit(X, y)


@BOTH
@pytest.mark.parametrize("look", [30, 60, 100])
def test_ctrl_c_in_the_middle(classifier, monkeypatch, look):
    X, y = moons(200)
    model = classifier(Cs=30, cv=3, n_jobs=1, random_state=0)
    with ctrl_c_at_look(monkeypatch, look):
        model.fit(X, y)
    assert model.search_stopped_ == "interrupted"
    assert np.isnan(model.scores_).any()
    assert np.isfinite(model.best_score_)
    assert np.isfinite(model.decision_function(X)).all()
    whole = classifier(Cs=30, cv=3, n_jobs=1, random_state=0).fit(X, y)
    assert whole.search_stopped_ == ""
    known = ~np.isnan(model.scores_)
    np.testing.assert_array_equal(model.scores_[known], whole.scores_[known])


@BOTH
def test_ctrl_c_before_any_score(classifier, monkeypatch):
    X, y = moons(200)
    monkeypatch.setattr(search.Search, "run", lambda self, *samples: setattr(self, "stopped", "interrupted"))
    with pytest.raises(NoModelYet, match="interrupted before any cell had a score"):
        classifier(cv=3).fit(X, y)


# Errors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"Cs": FEW, "slacks": [0.1]}, r"both Cs=\[0.1, 1.0, 10.0\] and slacks=\[0.1\] were given; give one"),
        ({"Cs": []}, r"Cs must hold one or more finite positive numbers; got \[\]"),
        ({"Cs": [0.0, 1.0]}, "Cs must hold one or more finite positive numbers"),
        ({"Cs": [np.nan]}, "Cs must hold one or more finite positive numbers"),
        ({"Cs": ["a"]}, r"Cs must hold numbers; got \['a'\]"),
        ({"Cs": 0}, "'Cs' parameter of .* must be"),
        ({"Cs": None}, "'Cs' parameter of .* must be"),
        ({"slacks": []}, "slacks must hold one or more finite numbers of at least 0"),
        ({"slacks": [-0.1]}, "slacks must hold one or more finite numbers of at least 0"),
        ({"cv": 1}, "cv"),
        ({"cv": []}, "cv has no folds"),
        ({"scoring": "nonsense"}, "nonsense"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"max_time": 0}, "'max_time' parameter"),
        ({"class_weight": "heavy"}, "'class_weight' parameter"),
    ],
)
@BOTH
def test_parameters_that_make_no_sense(classifier, parameters, message):
    with pytest.raises(ValueError, match=message):
        classifier(**parameters).fit(*moons(60))


def test_gammas_that_make_no_sense():
    for gammas in ([], [0.0], [np.inf], "scale"):
        with pytest.raises(ValueError, match="gammas"):
            SVCCV(gammas=gammas).fit(*moons(60))


@BOTH
def test_folds_without_a_class(classifier):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"fold 0 of the cross-validation leaves no training sample of class .*0"):
        few(classifier, cv=KFold(3)).fit(X, y)
    rare = np.where(np.arange(60) == 7, "rare", np.where(np.arange(60) % 2, "one", "other"))
    with (
        pytest.raises(ValueError, match=r"leaves no training sample of class .*rare"),
        pytest.warns(UserWarning, match="least populated"),
    ):
        few(classifier).fit(moons(60)[0], rare)


@BOTH
def test_test_parts_of_one_class_are_fine(classifier):
    X, y = moons(60)
    order = np.argsort(y, kind="stable")
    model = few(classifier, cv=KFold(6)).fit(X[order], y[order])
    assert np.isfinite(model.scores_).all()


@BOTH
def test_a_score_that_is_not_defined(classifier):
    X, y = moons(60)
    order = np.argsort(y, kind="stable")
    folds = KFold(6)
    undefined = pytest.raises(ValueError, match=r"scoring must give a finite number; it gave nan for .*C=0\.1")
    with undefined, pytest.warns(UserWarning, match="Only one class"):
        few(classifier, cv=folds, scoring="roc_auc").fit(X[order], y[order])


@BOTH
@pytest.mark.parametrize("given", [np.nan, np.inf, "good", None])
def test_a_score_that_is_no_number(classifier, given):
    with pytest.raises(ValueError, match="scoring must give a finite number; it gave"):
        few(classifier, scoring=lambda model, X, y: given).fit(*moons(60))


@BOTH
def test_a_score_that_fails(classifier):
    def broken(model, X, y):
        raise RuntimeError("no score today")

    with pytest.raises(ValueError, match=r"scoring failed on the model with .*C=0\.1: no score today"):
        few(classifier, scoring=broken).fit(*moons(60))


@BOTH
def test_one_class(classifier):
    with pytest.raises(ValueError, match="class"):
        few(classifier).fit(moons(60)[0], np.zeros(60))


@BOTH
def test_without_a_last_fit(classifier):
    X, y = moons(60)
    model = few(classifier, refit=False)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    assert model.best_params_["C"] in FEW
    with pytest.raises(AttributeError, match="refit=False, so it has no model to predict with"):
        model.predict(X)


# In scikit-learn


@BOTH
def test_scoring_by_name_and_by_function(classifier):
    X, y = make_classification(150, 6, weights=[0.85], flip_y=0.1, random_state=0)
    by_name = few(classifier, scoring="balanced_accuracy").fit(X, y)
    from sklearn.metrics import balanced_accuracy_score

    by_function = few(classifier, scoring=make_scorer(balanced_accuracy_score)).fit(X, y)
    np.testing.assert_array_equal(by_name.scores_, by_function.scores_)
    assert not np.array_equal(by_name.scores_, few(classifier).fit(X, y).scores_)


@BOTH
def test_any_folds(classifier):
    X, y = moons(60)
    for cv in (ShuffleSplit(4, random_state=0), [(np.arange(0, 60, 2), np.arange(1, 60, 2))]):
        model = few(classifier, cv=cv).fit(X, y)
        assert model.scores_.shape[-1] == (1 if isinstance(cv, list) else 4)
    masks = [(np.arange(60) % 2 == 0, np.arange(60) % 2 == 1)]
    same = few(classifier, cv=masks).fit(X, y)
    np.testing.assert_array_equal(same.scores_, model.scores_)


@BOTH
def test_in_a_pipeline_and_in_cross_validation(classifier):
    X, y = load_wine(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), few(classifier))
    found = cross_validate(pipeline, X, y, cv=3, error_score="raise", return_estimator=True)
    assert found["test_score"].mean() > 0.9
    assert {step[-1].C_ for step in found["estimator"]} <= set(FEW)


@BOTH
def test_copies(classifier):
    X, y = moons()
    model = few(classifier).fit(X, y)
    for copied in (pickle.loads(pickle.dumps(model)), clone(model).fit(X, y)):
        np.testing.assert_array_equal(copied.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(copied.scores_, model.scores_)
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


def test_the_weights_of_the_features():
    X, y = load_iris(return_X_y=True)
    model = few(LinearSVCCV).fit(X, y)
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == (3,)
    assert not hasattr(LinearSVCCV(), "coef_")
