"""Predictions of few rows and of many: the same values, nothing computed twice, and nothing kept in pickles."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from maxmargin import SVC, LinearSVC, load_model, save_model
from maxmargin.core import threads
from maxmargin.estimators import kernel_decisions, packed_vectors, validation
from maxmargin.estimators.multiclass import OneVsOne, OneVsRest, TwoClasses
from maxmargin.kernels import packed_rows
from maxmargin.kernels.functions import Rbf


def clouds(n=90, d=5, classes=3, dtype=np.float64):
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    return (rng.normal(size=(n, d)) + 1.5 * np.eye(classes, d)[y]).astype(dtype), y


KERNELS = [
    {"kernel": "rbf"},
    {"kernel": "linear"},
    {"kernel": "poly", "coef0": 1.0},
    {"kernel": "poly", "degree": 9, "gamma": 0.1},  # no compiled form
    {"kernel": "sigmoid", "gamma": 0.01},
    {"kernel": lambda A, B: A @ B.T},
]


@pytest.mark.parametrize("options", KERNELS, ids=["rbf", "linear", "poly", "high degree", "sigmoid", "function"])
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_a_row_alone_has_the_values_that_it_has_among_others(options, classes, multi_class, monkeypatch):
    X, y = clouds(classes=classes)
    model = SVC(multi_class=multi_class, **options).fit(X, y)
    alone = np.concatenate([model.decision_function(X[k : k + 1]) for k in range(len(X))])
    monkeypatch.setattr(kernel_decisions, "FEW_OPERATIONS", 0)  # from here on by matrix products
    together = model.decision_function(X)
    np.testing.assert_allclose(alone, together, rtol=1e-12, atol=1e-12 * np.abs(together).max())


@pytest.mark.parametrize("options", KERNELS[:-1], ids=["rbf", "linear", "poly", "high degree", "sigmoid"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_few_sparse_rows_have_the_values_of_dense_ones(options, dtype, monkeypatch):
    X, y = clouds(dtype=dtype)
    X[np.abs(X) < 0.5] = 0
    model = SVC(**options).fit(sp.csr_array(X), y)
    some = model.decision_function(sp.csr_array(X[:3]))
    monkeypatch.setattr(kernel_decisions, "FEW_SPARSE_ROWS", 0)  # from here on by matrix products
    tight = {"rtol": 1e-12, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(some, model.decision_function(sp.csr_array(X[:3])), **tight)
    np.testing.assert_allclose(some, model.decision_function(X[:3]), **tight)


def test_a_few_sparse_rows_far_from_zero_lose_no_digits():
    X, y = clouds()
    far = sp.csr_array(X + 1e6)
    model = SVC(gamma=0.2).fit(far, y)
    alone = np.concatenate([model.decision_function(far[[k]]) for k in range(len(y))])
    np.testing.assert_allclose(alone, model.decision_function(far), rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_rows_far_from_zero_lose_no_digits(offset, monkeypatch):
    X, y = clouds()
    model = SVC(gamma=0.2).fit(X, y)
    far = SVC(gamma=0.2).fit(X + offset, y)
    alone = far.decision_function(X + offset)
    np.testing.assert_allclose(alone, model.decision_function(X), rtol=1e-2)
    monkeypatch.setattr(kernel_decisions, "FEW_OPERATIONS", 0)
    np.testing.assert_allclose(alone, far.decision_function(X + offset), rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("storage", [np.asarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_decisions_are_those_of_scikit_learn(classes, storage, dtype):
    X, y = clouds(classes=classes, dtype=dtype)
    ours, theirs = SVC(tol=1e-8).fit(storage(X), y), sklearn.svm.SVC(tol=1e-8).fit(storage(X), y)
    for shape in ("ovr", "ovo"):
        ours.set_params(decision_function_shape=shape)
        theirs.set_params(decision_function_shape=shape)
        for rows in (storage(X), storage(X[:1])):
            np.testing.assert_allclose(ours.decision_function(rows), theirs.decision_function(rows), atol=1e-4)
            np.testing.assert_array_equal(ours.predict(rows), theirs.predict(rows))


# Classes of float64 rows, from values in float32 where these tell


@pytest.fixture
def many_rows(monkeypatch):
    """A few rows are decided like many."""
    monkeypatch.setattr(kernel_decisions, "FEW_OPERATIONS", 0)


@pytest.mark.usefixtures("many_rows")
@pytest.mark.parametrize(
    ("options", "offset"),
    [({"gamma": 0.2}, 0.0), ({"gamma": 0.2}, 1e3), ({"gamma": 5.0}, 0.0), (KERNELS[2], 0.0), (KERNELS[4], 0.0)],
    ids=["rbf", "rbf far from zero", "narrow rbf", "poly", "sigmoid"],
)
@pytest.mark.parametrize(("classes", "multi_class"), [(2, "ovr"), (4, "ovr"), (4, "ovo")])
def test_errors_of_float32_are_bounded_and_classes_are_those_of_float64(classes, multi_class, options, offset):
    X, y = clouds(300, classes=classes)
    X = X + offset
    model = SVC(multi_class=multi_class, **options).fit(X, y)
    rows = np.concatenate([X, X.mean(axis=0) + 20 * (X - X.mean(axis=0)), 0.5 * (X + X[::-1])])
    decisions = model._decisions
    values = decisions(rows, 1, lambda values: values)
    expected = model.classes_[decisions.strategy.predict(values, False)]
    single, errors = decisions.in_float32(rows)
    assert (np.abs(single - values) <= errors).all()
    np.testing.assert_array_equal(model.predict(rows), expected)


@pytest.mark.usefixtures("many_rows")
def test_rows_next_to_the_boundary_are_decided_in_float64(monkeypatch):
    X, y = clouds(300, classes=2)
    model = SVC().fit(X, y)
    low, high = (X[model.decision_function(X) * sign > 0][:20] for sign in (-1, 1))
    # Bisection: rows between which the decision value changes its sign. In the end it is about 1e-9: float32 cannot
    # tell it from 0, and the rounding of float64, which depends on what rows are decided together, is far below it.
    for _ in range(30):
        middle = 0.5 * (low + high)
        positive = (model.decision_function(middle) > 0)[:, None]
        low, high = np.where(positive, low, middle), np.where(positive, middle, high)
    rows = np.concatenate([low, high, X])
    expected = (model.decision_function(rows) > 0).astype(int)
    decided, before = [], model._decisions.by_blocks
    monkeypatch.setattr(model._decisions, "by_blocks", lambda rows: decided.append(len(rows)) or before(rows))
    np.testing.assert_array_equal(model.predict(rows), expected)
    assert 40 <= sum(decided) < 50


@pytest.mark.usefixtures("many_rows")
@pytest.mark.parametrize("storage", [sp.csr_array, sp.csr_matrix])
def test_sparse_rows_have_the_classes_of_dense_ones(storage):
    X, y = clouds(300)
    model = SVC().fit(X, y)
    np.testing.assert_array_equal(model.predict(storage(X)), model.predict(X))


@pytest.mark.usefixtures("many_rows")
def test_float32_is_given_up_where_it_leaves_most_classes_open():
    X, y = clouds(300)
    model = SVC(gamma=1e5).fit(X, y)
    decisions = model._decisions
    expected = model.classes_[decisions.strategy.predict(decisions(X, 1, lambda values: values), False)]
    np.testing.assert_array_equal(model.predict(X), expected)
    assert decisions.in_float32 is None


@pytest.mark.parametrize("kind", [TwoClasses, OneVsRest, OneVsOne])
def test_what_is_certain_does_not_change_within_the_errors(kind):
    rng = np.random.default_rng(0)
    strategy = kind(np.arange(2 if kind is TwoClasses else 4))
    values = rng.normal(size=(500, strategy.n_models))
    errors = 0.2 * rng.random(values.shape)
    certain = strategy.certain(values, errors)
    assert 0 < certain.sum() < 500
    label = strategy.predict(values, False)
    for _ in range(50):
        other = values + errors * rng.choice([-1.0, 1.0], size=values.shape)
        np.testing.assert_array_equal(strategy.predict(other, False)[certain], label[certain])
    assert not strategy.certain(np.full_like(values, np.nan), errors).any()
    assert not strategy.certain(values, np.full_like(values, np.inf)).any()


@pytest.mark.parametrize(("rows", "dtype"), [(1, np.float64), (600, np.float64), (600, np.float32)])
def test_support_vectors_are_packed_once(rows, dtype, monkeypatch):
    packed, made = [], []  # the latter with their precision
    before, of_rows, blocks = packed_rows.PackedRows.__init__, kernel_decisions.DenseKernels, Rbf.dense_blocks
    monkeypatch.setattr(
        packed_vectors.PackedRows,
        "__init__",
        lambda self, *args, **options: packed.append(before(self, *args, **options)),
    )
    monkeypatch.setattr(kernel_decisions, "DenseKernels", lambda *args: made.append(1) or of_rows(*args))
    monkeypatch.setattr(Rbf, "dense_blocks", lambda *args: made.append(args[2:]) or blocks(*args))
    if rows > 1:
        monkeypatch.setattr(kernel_decisions, "FEW_OPERATIONS", 0)
    X, y = clouds(600, dtype=dtype)
    model = SVC().fit(X, y)
    packed.clear()
    for _ in range(3):
        model.decision_function(X[:rows])
    assert len(packed) + len(made) == 1
    for _ in range(3):
        model.predict(X[:rows])
    assert len(set(made)) == len(made)
    assert len(packed) + len(made) == (2 if (np.float32,) in made else 1)
    model.fit(X, y)
    packed.clear(), made.clear()
    model.decision_function(X[:rows])
    assert len(packed) + len(made) == 1


def test_the_weights_of_a_linear_kernel_are_computed_once(monkeypatch):
    X, y = clouds()
    model = SVC(kernel="linear").fit(X, y)
    model.predict(X)
    monkeypatch.setattr(type(model._strategy), "coefficients_by_model", None)
    model.predict(X)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_begin_without_what_was_computed_for_predictions(copied):
    X, y = clouds()
    model = SVC().fit(X, y)
    size = len(pickle.dumps(model))
    expected = model.predict(X)
    assert vars(model._decision_cache)
    assert len(pickle.dumps(model)) == size
    other = copied(model)
    assert not vars(other._decision_cache)
    np.testing.assert_array_equal(other.predict(X), expected)


def test_a_copy_that_is_fitted_again_does_not_change_its_original():
    X, y = clouds()
    model = SVC().fit(X, y)
    expected = model.decision_function(X)
    copy.copy(model).fit(-X, y).predict(X)
    np.testing.assert_array_equal(model.decision_function(X), expected)


def test_a_model_whose_attributes_are_replaced_predicts_by_the_new_ones():
    X, y = clouds(classes=2)
    model = SVC().fit(X, y)
    before = model.decision_function(X)
    model.intercept_ = model.intercept_ + 1.0
    np.testing.assert_allclose(model.decision_function(X), before + 1)


def test_a_loaded_model_predicts_the_same(tmp_path):
    X, y = clouds()
    model = SVC().fit(X, y)
    save_model(model, tmp_path / "model.mm")
    np.testing.assert_array_equal(load_model(tmp_path / "model.mm").decision_function(X), model.decision_function(X))


# Validation


@pytest.mark.parametrize("model", [SVC(), LinearSVC()])
class TestValidation:
    def test_before_a_fit(self, model):
        with pytest.raises(NotFittedError):
            clone(model).predict(np.zeros((1, 5)))
        with pytest.raises(NotFittedError):
            clone(model).decision_function(np.zeros((1, 5)))

    @pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, sp.csr_matrix])
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite(self, model, value, storage):
        X, y = clouds()
        model = clone(model).fit(storage(X), y)
        row = X[:1].copy()
        row[0, 2] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.predict(storage(row))

    def test_values_so_large_that_their_sum_is_not_finite(self, model):
        X, y = clouds()
        assert clone(model).fit(X, y).predict(np.full((1, 5), 1e308)).shape == (1,)

    @pytest.mark.parametrize(
        "rows",
        [
            *(np.zeros((1, 4)), np.zeros(5), np.zeros((0, 5)), np.zeros((1, 5, 1))),
            *(sp.csr_array((1, 4)), sp.csr_array((5,)), sp.csr_array((0, 5))),
        ],
        ids=str,
    )
    def test_shapes(self, model, rows):
        X, y = clouds()
        with pytest.raises(ValueError, match=r"features|2D|dim|sample"):
            clone(model).fit(X, y).predict(rows)

    def test_other_types_give_the_same(self, model):
        X, y = clouds()
        model = clone(model).fit(np.round(X), y)
        expected = model.predict(np.round(X[:3]))
        for rows in (np.round(X[:3]).tolist(), np.round(X[:3]).astype(int), np.round(X[:3]).astype(np.float32)):
            np.testing.assert_array_equal(model.predict(rows), expected)

    def test_names_of_features(self, model):
        pandas = pytest.importorskip("pandas")
        X, y = clouds()
        named = pandas.DataFrame(X, columns=list("abcde"))
        model = clone(model).fit(named, y)
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            model.predict(X[:1])
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(named.rename(columns={"a": "z"}))
        assert not hasattr(model.fit(X, y), "feature_names_in_")
        with pytest.warns(UserWarning, match="was fitted without feature names"):
            model.predict(named)

    @pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, sp.csr_matrix])
    def test_plain_data_is_looked_at_once(self, model, storage, monkeypatch):
        X, y = clouds()
        X = storage(X)
        monkeypatch.setattr(validation, "validate_data", None)
        monkeypatch.setattr(validation, "check_is_fitted", None)
        monkeypatch.setattr(validation, "check_classification_targets", None)
        for labels in (y, y.astype(float), y.astype(str), y > 0):
            model = clone(model).fit(X, labels)
            assert model.predict(X[:1]).dtype == labels.dtype

    @pytest.mark.parametrize("name", ["C", "tol", "n_jobs", "class_weight", "solver"])
    def test_parameters(self, model, name):
        X, y = clouds()
        with pytest.raises(ValueError, match=f"'{name}' parameter of {type(model).__name__}"):
            clone(model).set_params(**{name: [-1]}).fit(X, y)


def test_defaults_that_are_not_valid_are_found():
    class Broken(SVC):
        def __init__(self, *, C=-1.0):
            super().__init__(C=C)

    X, y = clouds()
    with pytest.raises(ValueError, match="'C' parameter of Broken"):
        Broken().fit(X, y)


def test_a_regression_is_refused_and_many_classes_are_warned_of():
    X, y = clouds()
    with pytest.raises(ValueError, match="continuous"):
        SVC().fit(X, X[:, 0])
    with pytest.warns(UserWarning, match="unique classes"):
        SVC().fit(X, np.arange(len(y)))


# Threads


def test_small_work_asks_for_no_threads_and_no_blas_library(monkeypatch):
    """The look-up of BLAS libraries takes longer than a small fit."""
    monkeypatch.setattr(threads, "_blas_libraries", None)
    X, y = clouds()
    model = SVC().fit(X, y)
    model.predict(X)
    model.predict(X[:1])


def test_rows_of_one_chunk_are_not_copied():
    X, seen = sp.csr_array(clouds()[0]), []
    packed_vectors.by_chunks(lambda rows, where: seen.append((rows, where)), X, operations=1, n_jobs=1)
    ((rows, where),) = seen
    assert rows is X
    assert where == slice(0, 90)


def test_many_rows_are_shared_by_threads(monkeypatch):
    X, y = clouds(600)
    model = SVC(n_jobs=2).fit(X, y)
    asked = []
    before = packed_vectors.run_parallel
    monkeypatch.setattr(
        packed_vectors, "run_parallel", lambda tasks, count: asked.append(count) or before(tasks, count)
    )
    expected = model.decision_function(X)
    asked.clear()
    monkeypatch.setattr(kernel_decisions, "FEW_OPERATIONS", 0)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-12, atol=1e-12)
    assert asked == [2]
