"""slack_path: its points are the optima of their C or slack, in order, and one can go on with them."""

import numpy as np
import pytest
import scipy.sparse as sp
from ctrl_c import ctrl_c_at_look
from sklearn.datasets import load_iris, make_classification, make_moons

from maxmargin import SVC, LinearSVC, slack_path
from maxmargin.estimators import Path, PathPoint

KERNELS = pytest.mark.parametrize("kernel", ["linear", "rbf"])


def moons(n=200):
    return make_moons(n, noise=0.3, random_state=0)


def direct(kernel, **parameters):
    if kernel == "linear":
        return LinearSVC(loss="hinge", **parameters)
    return SVC(kernel=kernel, **parameters)


@KERNELS
def test_a_path_that_chooses_its_points(kernel):
    path = slack_path(*moons(), kernel=kernel, n_points=12, tol=1e-4, random_state=0)
    assert 3 <= len(path) <= 12
    assert path.stopped == ""
    C, slack, margin = (path.column(name) for name in ("C", "slack", "margin"))
    assert (np.diff(C) > 0).all()
    # At a large C the objective is nearly the loss alone, and a small gap tells little of |w|.
    assert (np.diff(slack) <= 0.05 * slack[:-1]).all()
    assert (np.diff(margin) <= 0.05 * margin[:-1]).all()
    assert (path.column("gap") <= 1e-4).all()
    assert (path.column("n_support") > 0).all()
    assert repr(path).startswith(f"Path of {len(path)} points from slack ")


@KERNELS
def test_given_Cs(kernel):
    X, y = moons()
    path = slack_path(X, y, Cs=[10.0, 0.1, 1.0, 1.0], kernel=kernel, validation_fraction=None, tol=1e-5)
    np.testing.assert_allclose(path.column("C"), [0.1, 1.0, 10.0])
    assert np.isnan(path.column("holdout_error")).all()
    for k, point in enumerate(path):
        alone = direct(kernel, C=point.C, tol=1e-5).fit(X, y)
        model = path.model(k)
        assert type(model) is type(alone)
        assert model.C == point.C
        assert point.margin == pytest.approx(alone.margin_, rel=1e-2)
        assert point.slack == pytest.approx(alone.slack_, rel=1e-2)
        assert point.train_error == pytest.approx(1 - alone.score(X, y), abs=0.011)
        np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=0.05)
        assert point.train_error == pytest.approx(1 - model.score(X, y))


@KERNELS
def test_given_slacks(kernel):
    X, y = moons()
    slacks = [0.3, 0.1, 0.2]
    path = slack_path(X, y, slacks=slacks, kernel=kernel, validation_fraction=None, tol=1e-4)
    np.testing.assert_allclose(path.column("slack"), [0.3, 0.2, 0.1])
    assert (path.column("gap") <= 1e-4).all()
    for k, slack in enumerate([0.3, 0.2, 0.1]):
        alone = direct(kernel, slack=slack, tol=1e-4).fit(X, y)
        assert path[k].margin == pytest.approx(alone.margin_, rel=1e-3)


def test_the_holdout_is_not_learned_from():
    X, y = moons()
    path = slack_path(X, y, Cs=[1.0], kernel="rbf", validation_fraction=0.25, tol=1e-5, random_state=0)
    model, point = path.model(0), path[0]
    wrong = model.predict(X) != y
    assert wrong.sum() == pytest.approx(150 * point.train_error + 50 * point.holdout_error)
    # As many support vectors as the point says, and none beyond the share that was learned from.
    assert model.support_.size == point.n_support
    assert point.n_support <= 150


def test_weights_are_repeated_rows():
    X, y = moons(100)
    weights = np.random.default_rng(0).integers(1, 4, 100)
    options = {"Cs": [0.1, 1.0], "kernel": "rbf", "gamma": 1.0, "validation_fraction": None, "tol": 1e-6}
    weighed = slack_path(X, y, sample_weight=weights, **options)
    repeated = slack_path(np.repeat(X, weights, axis=0), np.repeat(y, weights), **options)
    for name in ("slack", "margin"):
        np.testing.assert_allclose(weighed.column(name), repeated.column(name), rtol=1e-3)


@KERNELS
def test_every_kind_of_data(kernel):
    X, y = make_classification(120, 8, random_state=0)
    X[np.abs(X) < 0.4] = 0
    import pandas as pd

    options = {"Cs": [0.1, 1.0], "kernel": kernel, "tol": 1e-5, "random_state": 0}
    expected = slack_path(X, y, **options).column("margin")
    names = np.array(["no", "yes"])[y]
    for data, labels in ((sp.csr_array(X), y), (pd.DataFrame(X, columns=list("abcdefgh")), pd.Series(y)), (X, names)):
        path = slack_path(data, labels, **options)
        np.testing.assert_allclose(path.column("margin"), expected, rtol=1e-3)
        assert path.model(0).predict(data).dtype == np.asarray(labels).dtype


def test_the_same_seed_gives_the_same_bits():
    X, y = moons()
    one, other = (slack_path(X, y, kernel="rbf", n_points=6, random_state=3, n_jobs=jobs) for jobs in (1, 2))
    assert [point.margin for point in one] == [point.margin for point in other]
    assert [point.holdout_error for point in one] == [point.holdout_error for point in other]


def test_a_separable_path_ends_where_no_slack_is_left():
    X = np.array([[-2.0, 0.0], [-1.0, 1.0], [1.0, 0.0], [2.0, -1.0]])
    path = slack_path(X, [0, 0, 1, 1], validation_fraction=None, tol=1e-6)
    assert path[-1].slack < 1e-3
    assert path[-1].train_error == 0
    assert path[-1].margin == pytest.approx(LinearSVC(C=1e6, loss="hinge", tol=1e-6).fit(X, [0, 0, 1, 1]).margin_, 1e-2)


# A path as a sequence


def test_a_path_is_a_sequence():
    path = slack_path(*moons(), Cs=[0.1, 1.0, 10.0])
    assert isinstance(path[0], PathPoint)
    assert isinstance(path[1:], Path)
    assert [point.C for point in path[1:]] == [path[1].C, path[2].C]
    assert path[1:].model(0).C == path[1].C
    assert path[-1] is list(path)[2]
    assert path.model(-1).C == 10.0
    with pytest.raises(IndexError):
        path[3]


def test_a_path_as_a_frame():
    path = slack_path(*moons(), Cs=[0.1, 1.0, 10.0], random_state=0)
    frame = path.to_pandas()
    assert list(frame) == ["C", "slack", "margin", "train_error", "holdout_error", "n_support", "gap"]
    assert len(frame) == 3
    np.testing.assert_array_equal(frame["margin"], path.column("margin"))


# Limits


@KERNELS
@pytest.mark.parametrize("look", [10, 25, 60])
def test_ctrl_c_keeps_the_points_so_far(kernel, monkeypatch, look):
    X, y = moons()
    Cs = np.logspace(-2, 2, 40)
    with ctrl_c_at_look(monkeypatch, look):
        path = slack_path(X, y, Cs=Cs, kernel=kernel, random_state=0, n_jobs=1)
    assert path.stopped == "interrupted"
    assert 0 < len(path) < 40
    assert "ended early by interrupted" in repr(path)
    assert np.isfinite(path.model(-1).decision_function(X)).all()


@KERNELS
def test_hardly_any_time(kernel):
    X, y = moons()
    path = slack_path(X, y, kernel=kernel, max_time=1e-9, random_state=0)
    assert path.stopped == "max_time"
    assert len(path) <= 1


# Errors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"slacks": [0.1], "Cs": [1.0]}, "both slacks and Cs were given"),
        ({"Cs": []}, "Cs must hold one or more finite positive numbers"),
        ({"Cs": [0.0]}, "Cs must hold one or more finite positive numbers"),
        ({"Cs": ["a"]}, r"Cs must hold numbers; got \['a'\]"),
        ({"slacks": []}, "slacks must hold one or more finite numbers of at least 0"),
        ({"slacks": [-1.0]}, "slacks must hold one or more finite numbers of at least 0"),
        ({"n_points": 0}, "n_points must be a whole number of at least 2; got 0"),
        ({"n_points": 2.5}, "n_points must be a whole number of at least 2; got 2.5"),
        ({"C": 1.0}, "C is not a parameter of slack_path; got C=1.0"),
        ({"budget": 100}, "budget is not a parameter of slack_path"),
        ({"warm_start": True}, "warm_start is not a parameter of slack_path"),
        ({"kernel": "nonsense"}, "'kernel' parameter of SVC"),
        ({"validation_fraction": 1.5}, "validation_fraction"),
        ({"max_time": -1.0}, "max_time must be a positive number"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"loss": "squared_hinge"}, "slack_path supports loss=.hinge. only; got loss='squared_hinge'"),
    ],
)
def test_parameters_that_make_no_sense(parameters, message):
    with pytest.raises(ValueError, match=message):
        slack_path(*moons(60), **parameters)


def test_a_parameter_that_there_is_not():
    with pytest.raises(TypeError, match="gama"):
        slack_path(*moons(60), kernel="rbf", gama=1.0)


@pytest.mark.parametrize("y", [np.zeros(150), load_iris().target])
def test_other_than_two_classes(y):
    X = load_iris().data
    with pytest.raises(ValueError, match=r"a path needs labels of two classes; got [13] class.*LinearSVCCV"):
        slack_path(X, y)


def test_too_few_samples_to_hold_some_out():
    with pytest.raises(ValueError, match=r"validation_fraction=0\.1 .* give more samples, or validation_fraction=None"):
        slack_path([[0.0], [1.0], [2.0]], [0, 0, 1])
