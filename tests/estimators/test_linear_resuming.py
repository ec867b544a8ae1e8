"""LinearSVC goes on from an earlier model: warm starts and partial_fit."""

import copy
import math
import pickle

import numpy as np
import pytest
from clouds import clouds
from linear_cases import objective
from sklearn.base import clone

from maxmargin import LinearSVC
from maxmargin.problems import LOSSES
from maxmargin.solvers import SOLVERS

# Many fits here are short on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# Going on


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", [name for name in SOLVERS if SOLVERS[name].resumes])
def test_a_warm_start_pays(solver, loss, classes):
    X, y = clouds(n=600, d=20, classes=classes, distance=3.0)
    weights = np.linspace(0.5, 1.5, 600)
    read_warm, read_cold = 0, 0
    for seed in range(3):
        parameters = {"solver": solver, "loss": loss, "tol": 1e-4, "random_state": seed}
        model = LinearSVC(**parameters, C=0.1, warm_start=True).fit(X, y)
        first = model.entries_read_
        again = model.fit(X, y).entries_read_
        assert again < first / 2
        # Under another C, and under other weights, and wherever it begins: the same rule ends it.
        for change in ({"C": 0.12}, {"C": 0.09}):
            warm = model.set_params(**change).fit(X, y, sample_weight=weights)
            cold = LinearSVC(**parameters, **change).fit(X, y, sample_weight=weights)
            read_warm, read_cold = read_warm + warm.entries_read_, read_cold + cold.entries_read_
            np.testing.assert_allclose(warm.coef_, cold.coef_, rtol=0.1, atol=0.02)
            assert all(certificate.relative_gap <= 1e-4 for certificate in np.atleast_1d(warm.certificate_))
    # With ten seeds, dual coordinate ascent on the hinge loss reads 0.7 times as much; single fits may read more.
    assert read_warm < read_cold


def test_a_warm_start_that_cannot_be_begins_anew(quick):
    X, y = clouds()
    quick.set_params(warm_start=True)
    if SOLVERS[quick.solver].online:
        pytest.skip("it can, whatever the rows")
    for other_X, other_y in ((X[:-1], y[:-1]), (X[:, :-1], y), (X, np.arange(90) % 3), (X, y + 1)):
        model = clone(quick).fit(X, y)
        with pytest.warns(UserWarning, match=r"starts from scratch: (the earlier model|solver '\w+' cannot)"):
            model.fit(other_X, other_y)
        anew = clone(quick).fit(other_X, other_y)
        np.testing.assert_array_equal(model.coef_, anew.coef_)
        assert model.entries_read_ == anew.entries_read_


def test_a_warm_start_on_other_data_is_certified_on_it():
    X, y = clouds(n=300, d=10, distance=3.0)
    model = LinearSVC(C=1.0, solver="sdca", warm_start=True, random_state=0).fit(X, y)
    model.fit(-2 * X, y)
    assert model.certificate_.relative_gap <= 1e-3
    assert objective(model, -2 * X, y) == pytest.approx(model.certificate_.primal)


def test_a_warm_start_after_a_pickle_or_with_sparse_coefficients():
    X, y = clouds(n=300, d=10, distance=3.0)
    model = LinearSVC(solver="newton", warm_start=True, random_state=0).fit(X, y)
    wanted = copy.deepcopy(model).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).fit(X, y).coef_, wanted.coef_)
    np.testing.assert_array_equal(model.sparsify().fit(X, y).coef_, wanted.coef_)


def test_learning_from_rows_as_they_come(online):
    X, y = clouds(n=600, classes=3, distance=14.0)
    names = np.array(["a", "b", "c"])[y]
    whole = clone(online).fit(X, names)
    for k, rows in enumerate(np.array_split(np.arange(600), 12)):
        rows = rows[y[rows] != k % 3]  # now and then a class is missing
        online.partial_fit(X[rows], names[rows], classes=["c", "b", "a"] if k == 0 else None)
    assert online.score(X, names) > whole.score(X, names) - 0.1
    assert online.n_iter_ == 1
    assert [learned.t for learned, _ in online._learned] == [400] * 3
    assert not hasattr(online, "support_")
    assert "partial_fit" in str(online.certificate_[0])
    before = online.coef_
    assert (pickle.loads(pickle.dumps(online)).partial_fit(X, names).coef_ == online.partial_fit(X, names).coef_).all()
    assert (online.coef_ != before).any()
    assert [learned.t for learned, _ in online._learned] == [1000] * 3


def test_learning_goes_on_after_a_fit(online):
    X, y = clouds(n=200)
    model = online.fit(X, y)
    [(learned, _)], passes = model._learned, model.n_iter_
    assert passes == math.ceil(learned.t / 200)
    assert model.partial_fit(X[:50], y[:50])._learned[0][0].t == learned.t + 50
    assert model.fit(X, y).n_iter_ == passes
    warm, anew = model.set_params(warm_start=True).fit(X, y), clone(online).fit(X, y)
    assert warm.score(X, y) > 0.9
    if online.solver == "pegasos":
        assert (warm.coef_ != anew.coef_).any()


def test_rows_of_one_class_are_learned_from(online):
    X, y = clouds(n=100)
    for k in (0, 1, 0, 1):
        online.partial_fit(X[y == k], y[y == k], classes=[0, 1])
    assert online.score(X, y) > 0.6


def test_bad_rows_to_go_on_with(online):
    X, y = clouds()
    with pytest.raises(ValueError, match="first call of partial_fit needs all classes"):
        online.partial_fit(X, y)
    online.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"y holds \[7\], but the classes are \[0, 1\]"):
        online.partial_fit(X, np.where(y, 7, 0))
    with pytest.raises(ValueError, match=r"must be the same in all calls; got .* but the first call had"):
        online.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="X has 4 features"):
        online.partial_fit(X[:, :4], y)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="X contains NaN at row 3, column 2"):
        online.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"X contains NaN at row 3, column 2"):
        clone(online).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="number of later rows of each class is unknown"):
        online.set_params(class_weight="balanced").partial_fit(X, y)


def test_only_online_solvers_go_on_with_other_rows():
    assert not hasattr(LinearSVC(), "partial_fit")
    with pytest.raises(AttributeError) as error:
        LinearSVC(solver="sdca").partial_fit  # noqa: B018
    assert "no partial_fit with solver='sdca'; use solver='pegasos' (or 'perceptron')" in str(error.value)
    assert not hasattr(LinearSVC(solver="no such"), "partial_fit")
