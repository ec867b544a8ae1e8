"""Several classes as binary problems: their samples, their names, LIBSVM's layout, votes, and exact counts."""

import pickle

import numpy as np
import pytest
from sklearn.utils.multiclass import _ovr_decision_function

from maxmargin import SVC, EnclosingBall
from maxmargin.core import threads
from maxmargin.estimators import packed_vectors, rounds
from maxmargin.estimators.multiclass import OneVsOne, OneVsRest, TwoClasses, strategy_for
from maxmargin.kernels.functions import Rbf

WEIGHTS = np.arange(1.0, 7.0)
CLASSES, CLASS_WEIGHTS, HELD_OUT = np.array([3, 5, 8]), np.array([1.0, 10.0, 100.0]), np.array([4])

labels = np.array([2, 0, 1, 0, 2, 1])  # by their indices in CLASSES


def test_the_strategy_for_these_classes():
    assert isinstance(strategy_for(CLASSES[:2], "ovo"), TwoClasses)
    assert isinstance(strategy_for(CLASSES, "ovo"), OneVsOne)
    assert isinstance(strategy_for(CLASSES, "ovr"), OneVsRest)
    assert strategy_for(CLASSES.astype(float), "ovr").names == [f"{k} against the rest" for k in (3, 5, 8)]
    assert strategy_for(CLASSES[:2]).names == [""]


def test_one_vs_rest_uses_all_samples():
    problems = OneVsRest(CLASSES).problems(labels, WEIGHTS, CLASS_WEIGHTS, HELD_OUT)
    for k, problem in enumerate(problems):
        assert problem.rows is None
        np.testing.assert_array_equal(problem.y, np.where(labels == k, 1, -1))
        np.testing.assert_array_equal(problem.weights, WEIGHTS * np.where(labels == k, CLASS_WEIGHTS[k], 1.0))
        np.testing.assert_array_equal(problem.held_out, HELD_OUT)


def test_of_two_classes_each_has_its_weight():
    [problem] = TwoClasses(CLASSES[:2]).problems(labels % 2, WEIGHTS, CLASS_WEIGHTS[:2], HELD_OUT)
    np.testing.assert_array_equal(problem.weights, WEIGHTS * CLASS_WEIGHTS[labels % 2])


def test_one_vs_one_uses_the_samples_of_two_classes():
    strategy = OneVsOne(CLASSES)
    problems = strategy.problems(labels, WEIGHTS, CLASS_WEIGHTS, HELD_OUT)
    for (i, j), problem in zip(strategy.classes_by_model, problems, strict=True):
        assert sorted(problem.rows) == np.flatnonzero((labels == i) | (labels == j)).tolist()
        np.testing.assert_array_equal(problem.y, np.where(labels[problem.rows] == i, 1, -1))
        np.testing.assert_array_equal(problem.weights, (WEIGHTS * CLASS_WEIGHTS[labels])[problem.rows])
        np.testing.assert_array_equal(problem.rows[problem.held_out], np.intersect1d(problem.rows, HELD_OUT))
        np.testing.assert_array_equal(problem.positions(problem.rows, labels.size), np.arange(problem.size))


@pytest.mark.parametrize("strategy", [OneVsOne(CLASSES), OneVsRest(CLASSES), TwoClasses(CLASSES[:2])])
def test_coefficients_packed_and_unpacked(strategy):
    label = np.sort(labels % strategy.classes.size)
    n_support, rng = np.bincount(label).astype(np.int32), np.random.default_rng(0)
    problems = strategy.problems(label, WEIGHTS, np.ones(strategy.classes.size), HELD_OUT)
    betas = [rng.normal(size=problem.size) for problem in problems]
    packed = strategy.coefficients(problems, betas, label.size)
    assert packed.shape == (strategy.coefficient_rows, label.size)
    every = [problem.coefficients_of_all(beta, label.size) for problem, beta in zip(problems, betas, strict=True)]
    for k, own in enumerate(every):
        np.testing.assert_array_equal(strategy.coefficients_of_model(packed, n_support, k), own)
    block = rng.normal(size=(4, label.size))
    np.testing.assert_allclose(strategy.decision_sums(packed, n_support)(block), block @ np.transpose(every))
    np.testing.assert_array_equal(strategy.coefficients_by_model(packed, n_support).toarray(), every)


def test_votes():
    strategy = OneVsOne(CLASSES)
    values = np.array([[1.0, 2.0, 5.0], [-1.0, -1.0, -1.0], [1.0, -3.0, 1.0]])  # of 0 and 1, 0 and 2, 1 and 2
    assert strategy.votes(values).tolist() == [[2, 1, 0], [0, 1, 2], [1, 1, 1]]
    assert strategy.predict(values, break_ties=False).tolist() == [0, 2, 0]
    assert strategy.predict(values, break_ties=True).tolist() == [0, 2, 2]


def clouds(n=600, classes=3):
    rng, y = np.random.default_rng(0), np.arange(n) % classes
    return rng.normal(size=(n, 4)) + 2 * rng.normal(size=(classes, 4))[y], y


@pytest.mark.parametrize("model", [SVC(), EnclosingBall(kernel="rbf")], ids=repr)
def test_support_vectors_are_packed_once_whatever_the_number_of_threads(monkeypatch, model):
    X, y = clouds(n=2000)
    model.set_params(n_jobs=2).fit(X, y)
    packed, pack, blocks = [], packed_vectors.PackedRows, Rbf.dense_blocks
    monkeypatch.setattr(threads, "LEAST_WORK", 10)
    monkeypatch.setattr(packed_vectors, "PackedRows", lambda *given: packed.append(given) or pack(*given))
    monkeypatch.setattr(Rbf, "dense_blocks", lambda *given: packed.append(given) or blocks(*given))
    first = model.decision_function(X)
    model.decision_function(X)
    assert len(packed) == 1
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), first)
    assert len(packed) == 2


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_kernel_evaluations_of_preliminary_rounds_are_counted_once(monkeypatch, multi_class):
    X, y = clouds()
    evaluations = 0

    def kernel(A, B):
        nonlocal evaluations
        evaluations += A.shape[0] * B.shape[0]
        return A @ B.T

    def uncounted():
        """The evaluations that the ledger leaves out: those of the diagonal."""
        nonlocal evaluations
        evaluations = 0
        model = SVC(kernel=kernel, multi_class=multi_class, n_jobs=1).fit(X, y)
        return evaluations - sum(model.reads_.values()) + model.reads_.get("learning, dense count", 0)

    without = uncounted()
    monkeypatch.setattr(rounds, "FEWEST_SAMPLES", 100)
    monkeypatch.setattr(rounds, "SHRINK", 3)
    assert uncounted() == without


def test_decisions_by_class_are_those_of_scikit_learn_to_the_bit():
    """Where a decision value is exactly 0 too."""
    rng = np.random.default_rng(0)
    values = np.where(rng.random((50, 10)) < 0.3, 0.0, rng.normal(size=(50, 10)))
    expected = _ovr_decision_function(values < 0, -values, 5)
    np.testing.assert_array_equal(OneVsOne(np.arange(5)).decision_function(values, by_class=True), expected)
