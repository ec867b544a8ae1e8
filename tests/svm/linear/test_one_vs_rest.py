"""One-vs-rest problems at once: the optimum of each is that of Newton's method and of LIBLINEAR."""

import warnings

import numpy as np
import pytest
import sklearn.svm
from sklearn.datasets import load_wine

from maxmargin import RegularizedSVM, solve
from maxmargin.core.rounding import UNIT
from maxmargin.core.threads import limit_blas
from maxmargin.solvers import Newton
from maxmargin.svm.linear import one_vs_rest
from maxmargin.svm.linear._one_vs_rest import NewtonRun
from maxmargin.svm.linear.one_vs_rest import OneVsRestProblems, SharedSamples, room_for, solve_many
from maxmargin.svm.losses import LOSSES
from maxmargin.svm.many_problems import EXHAUSTED, MAX_ITER, RESULT_COLUMNS, TOL, UNFINISHED, Targets

BIASES = {"free": (True, 0.0), "penalised": (True, 2.0), "none": (False, 0.0)}
both_losses = pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
every_bias = pytest.mark.parametrize("kind", BIASES)


def classes_of(seed=0, n=120, d=6, k=3, apart=1.0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, k, size=n)
    return rng.normal(size=(n, d)) + apart * rng.normal(size=(k, d))[label], label


@limit_blas()
def fit(X, label, *, weights=None, positive=1.0, rest=1.0, classes=None, kind="free", **options):
    classes = np.arange(label.max() + 1) if classes is None else classes
    weights = np.ones(label.size) if weights is None else weights
    bias, bias_feature = BIASES[kind]
    options = {"C": 1.0, "loss": "hinge", "tol": 1e-9, "max_iter": 1000, **options}
    targets = Targets.of_all(classes.size, options.pop("C"), options.pop("tol"))
    problems = OneVsRestProblems(classes, np.full(classes.size, positive), np.full(classes.size, rest))
    samples = SharedSamples.of(X, label, weights, smooth=options["loss"] == "squared_hinge", bias=bias)
    room = room_for(samples, problems, with_alpha=options.pop("with_alpha", True))
    return solve_many(samples, problems, targets, room, bias=bias, bias_feature=bias_feature, **options)


def problem(X, label, k, *, weights=1.0, positive=1.0, rest=1.0, kind="free", C=1.0, loss="hinge"):
    y = np.where(label == k, 1.0, -1.0)
    bias, bias_feature = BIASES[kind]
    s = weights * np.where(y > 0, positive, rest)
    scaling = bias_feature or None
    return RegularizedSVM(X, y, C=C, loss=loss, bias=bias, intercept_scaling=scaling, sample_weight=s)


def check_results(X, label, solved, **options):
    """Value, bound, rounding and the other columns, from w, b and alpha alone."""
    for k in range(solved.coefficients.shape[0]):
        p = problem(X, label, k, **options)
        at = p.evaluate(solved.coefficients[k], solved.bias[k])
        upper, _ = p.loss.dual_box(p.u)
        alpha = solved.alpha[k]
        assert ((alpha >= 0) & (alpha <= upper)).all()
        if p.free_bias:
            assert abs(alpha @ p.y) <= 1e-11 * alpha.sum()
        dual = alpha, X.T @ (alpha * p.y)
        margins = at.responses + p.y * at.b
        assert solved.value[k] == pytest.approx(at.value, rel=1e-12)
        assert solved.bound[k] == pytest.approx(p._bound(*dual), rel=1e-10, abs=1e-10 * at.value)
        assert solved.bound[k] <= at.value * (1 + 1e-9)
        worse, looser = p.rounding(at, dual)
        assert solved.value_rounding[k] == pytest.approx(worse, rel=0.01)
        imbalance = 16 * UNIT * alpha.sum() * (1 + np.sqrt(2 * at.value * (X**2).sum(axis=1).max()))
        assert solved.bound_rounding[k] == pytest.approx(looser, rel=0.01, abs=imbalance)
        assert solved.sq_norm[k] == pytest.approx(solved.coefficients[k] @ solved.coefficients[k])
        assert solved.losses[k] / p.C == pytest.approx(p.s @ np.maximum(0, 1 - margins), abs=1e-9)
        decisions = (X @ solved.coefficients[k] + solved.bias[k])[p.s > 0]
        assert solved.least_decision[k] == pytest.approx(decisions.min())
        assert solved.largest_decision[k] == pytest.approx(decisions.max())


@both_losses
@every_bias
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_optimum_of_each_class_is_that_of_newton(loss, kind, C):
    X, label = classes_of(1)
    solved = fit(X, label, kind=kind, loss=loss, C=C)
    assert (solved.status == TOL).all()
    for k in range(3):
        result = solve(problem(X, label, k, kind=kind, loss=loss, C=C), Newton(), tol=1e-9, max_iter=1000)
        proved = result.certificate
        assert proved.dual * (1 - 1e-9) <= solved.value[k] <= proved.primal * (1 + 1e-9)
        if result.status == "tol":
            np.testing.assert_allclose(
                solved.coefficients[k], result.solution.w, atol=1e-3 if loss == "hinge" else 1e-6
            )
    gap = solved.value - solved.bound
    assert (gap <= 1e-9 * solved.value).all()
    check_results(X, label, solved, kind=kind, loss=loss, C=C)


@both_losses
def test_the_optimum_is_that_of_liblinear(loss):
    X, label = classes_of(2)
    solved = fit(X, label, kind="penalised", loss=loss, tol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = sklearn.svm.LinearSVC(
            loss=loss, intercept_scaling=2.0, tol=1e-10, max_iter=10**6, dual=True, random_state=0
        ).fit(X, label)
    for k in range(3):
        p = problem(X, label, k, kind="penalised", loss=loss)
        theirs = p.evaluate(reference.coef_[k], reference.intercept_[k]).value
        assert solved.value[k] == pytest.approx(theirs, rel=1e-9)
    np.testing.assert_allclose(solved.coefficients, reference.coef_, atol=1e-6)
    np.testing.assert_allclose(solved.bias, reference.intercept_, atol=1e-6)


@both_losses
@every_bias
@pytest.mark.parametrize("tol", [1e-1, 1e-3])
def test_value_bound_and_rounding_are_those_of_the_model(loss, kind, tol):
    X, label = classes_of(3, n=203, d=7)
    weights = np.random.default_rng(0).uniform(0.1, 2, size=label.size)
    weights[:9] = 0
    options = {"weights": weights, "positive": 2.5, "rest": 0.7, "kind": kind, "loss": loss, "C": 3.0}
    solved = fit(X, label, tol=tol, **options)
    assert (solved.status == TOL).all()
    gap = solved.value - solved.bound
    assert ((gap >= -1e-12 * solved.value) & (gap <= tol * solved.value)).all()
    assert (solved.value_rounding + solved.bound_rounding < 1e-9 * solved.value).all()
    check_results(X, label, solved, **options)


@both_losses
@every_bias
@pytest.mark.parametrize(("positive", "rest"), [(1.0, 1.0), (3.0, 1.0), (0.2, 1.0), (1.0, 100.0)])
def test_a_weight_of_2_is_the_row_twice_and_a_weight_of_0_is_no_row(loss, kind, positive, rest):
    X, label = classes_of(4, n=60)
    weights = np.random.default_rng(0).integers(0, 3, size=label.size)
    twice = np.repeat(np.arange(label.size), weights)
    options = {"positive": positive, "rest": rest, "kind": kind, "loss": loss, "tol": 1e-12}
    one, other = fit(X, label, weights=weights.astype(float), **options), fit(X[twice], label[twice], **options)
    np.testing.assert_allclose(one.value, other.value, rtol=1e-9)
    np.testing.assert_allclose(one.coefficients, other.coefficients, atol=1e-5)
    assert not one.alpha[:, weights == 0].any()


@both_losses
def test_one_problem_of_two_classes(loss):
    X, label = classes_of(5, k=2)
    one, both = fit(X, label, classes=np.array([1]), loss=loss), fit(X, label, loss=loss)
    np.testing.assert_array_equal(one.coefficients[0], both.coefficients[1])
    np.testing.assert_allclose(both.coefficients[0], -both.coefficients[1], atol=1e-6)  # label flip = sign flip


@both_losses
@every_bias
@pytest.mark.parametrize("apart", [3.0, 5.0, 20.0])
def test_separable_data_and_a_huge_C(loss, kind, apart):
    X, label = classes_of(6, apart=apart, k=2)
    solved = fit(X, label, kind=kind, loss=loss, C=1e8, tol=1e-6)
    assert (solved.status == TOL).all()
    check_results(X, label, solved, kind=kind, loss=loss, C=1e8)
    assert (np.sign(X @ solved.coefficients[1] + solved.bias[1]) == np.where(label == 1, 1, -1)).all()


@both_losses
@every_bias
def test_constant_features_duplicate_rows_and_zero_rows(loss, kind):
    X, label = classes_of(7)
    X[:, 2], X[:, 3], X[:10] = 1.0, 0.0, 0.0
    X[20:40], label[20:30] = X[20], 0
    solved = fit(X, label, kind=kind, loss=loss, C=10.0)
    assert (solved.status == TOL).all()
    check_results(X, label, solved, kind=kind, loss=loss, C=10.0)


@both_losses
@every_bias
def test_all_rows_are_zero(loss, kind):
    label = np.arange(30) % 3
    solved = fit(np.zeros((30, 4)), label, loss=loss, kind=kind, tol=1e-6)
    assert (solved.status == TOL).all()
    assert not solved.coefficients.any()
    check_results(np.zeros((30, 4)), label, solved, loss=loss, kind=kind)
    if kind == "free":  # the best bias is -1 where 20 of 30 samples say so; the squared hinge has its best at a mean
        np.testing.assert_allclose(solved.bias, -1.0 if loss == "hinge" else -1 / 3, atol=1e-3)


@both_losses
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_features_that_are_not_scaled(loss, C):
    X, label = load_wine(return_X_y=True)
    solved = fit(np.ascontiguousarray(X), label, loss=loss, C=C, tol=1e-3)
    assert (solved.status == TOL).all()
    assert (solved.value - solved.bound <= 1e-3 * solved.value).all()


@both_losses
@every_bias
@pytest.mark.parametrize("size", [1e-3, 1e3, 1e4])
def test_classes_that_overlap_whatever_the_size_of_the_features(loss, kind, size):
    X, label = classes_of(16, n=60, d=2, apart=0.5)
    solved = fit(size * X, label, kind=kind, loss=loss, tol=1e-3)
    assert (solved.status == TOL).all()
    check_results(size * X, label, solved, kind=kind, loss=loss)


@both_losses
def test_more_features_than_samples(loss):
    X, label = classes_of(8, n=40, d=100)
    solved = fit(X, label, loss=loss, C=1.0)
    assert (solved.status == TOL).all()
    check_results(X, label, solved, loss=loss)


@both_losses
def test_a_tolerance_that_float64_does_not_allow_ends_soon(loss):
    X, label = classes_of(9)
    solved = fit(X, label, loss=loss, tol=0.0)
    assert (solved.status == EXHAUSTED).all()
    assert (solved.iterations < 100).all()
    assert (solved.value - solved.bound <= 1e-9 * solved.value).all()


@both_losses
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_groups_and_calls_do_not_change_a_bit(loss, threads, monkeypatch):
    X, label = classes_of(10, k=7, n=301, d=11)
    before = fit(X, label, loss=loss, tol=1e-6)
    monkeypatch.setattr(one_vs_rest, "LEAST_GROUP", 1)
    monkeypatch.setattr(one_vs_rest, "OPERATIONS_PER_CALL", 1)
    after = fit(X, label, loss=loss, tol=1e-6, threads=threads)
    np.testing.assert_array_equal(before.coefficients, after.coefficients)
    np.testing.assert_array_equal(before.alpha, after.alpha)
    np.testing.assert_array_equal(before.table, after.table)


@both_losses
def test_a_call_ends_after_the_iteration_that_uses_up_its_operations(loss):
    X, label = classes_of(11)
    samples = SharedSamples.of(X, label, np.ones(label.size), smooth=LOSSES[loss].smooth, bias=True)
    problems = OneVsRestProblems(np.arange(3), np.ones(3), np.ones(3))
    coef, table = np.empty((3, 6)), np.full((3, RESULT_COLUMNS), np.nan)
    run = NewtonRun(
        samples,
        problems,
        np.arange(3),
        Targets.of_all(3, 1.0, 1e-6),
        LOSSES[loss].smooth,
        True,
        0.0,
        100,
        coef,
        np.empty((0, 120)),
        table,
    )
    calls = 0
    while not run.done:
        run.advance(1)
        calls += 1
    assert calls == table[:, 7].sum()


@both_losses
def test_a_limit_of_iterations_ends_a_problem_and_is_recorded(loss):
    X, label = classes_of(12)
    solved = fit(X, label, loss=loss, max_iter=2)
    assert (solved.status == MAX_ITER).all()
    assert (solved.iterations == 2).all()
    check_results(X, label, solved, loss=loss)
    assert (fit(X, label, loss=loss, max_iter=0).iterations == 0).all()


@both_losses
@every_bias
@pytest.mark.parametrize("after", [0, 1])
def test_a_fit_that_has_to_stop_leaves_a_proved_model_of_each_class(loss, kind, after, monkeypatch):
    X, label = classes_of(13)
    monkeypatch.setattr(one_vs_rest, "OPERATIONS_PER_CALL", 1)
    monkeypatch.setattr(one_vs_rest, "ITERATIONS_AFTER_STOP", after)
    calls = []

    def stop(solved, results):
        calls.append(solved)
        return len(calls) == 2

    solved = fit(X, label, kind=kind, loss=loss, C=0.5, stop=stop)
    assert len(calls) == 2
    assert (solved.status == UNFINISHED).all()
    np.testing.assert_array_equal(solved.iterations, [2 + after, after, after])
    assert (solved.value >= solved.bound).all()
    assert (solved.bound >= 0).all()
    check_results(X, label, solved, kind=kind, loss=loss, C=0.5)


def test_the_callback_is_told_which_problems_are_solved(monkeypatch):
    X, label = classes_of(14)
    monkeypatch.setattr(one_vs_rest, "OPERATIONS_PER_CALL", 1)
    told = []
    fit(X, label, stop=lambda solved, results: bool(told.extend(solved)))
    assert told == [0, 1, 2]


def test_the_dual_is_there_only_if_asked_for():
    X, label = classes_of(15)
    solved = fit(X, label, with_alpha=False)
    assert solved.alpha is None
    np.testing.assert_array_equal(solved.table, fit(X, label).table)


@both_losses
def test_nearly_separable_data_and_a_large_C_take_few_iterations(loss):
    """With fewer losses than features, the steps for the squared hinge alone would be hundreds of short ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 250))
    scores = X @ rng.normal(size=250)
    label = (scores / scores.std() + 0.3 * rng.normal(size=1000) > 0).astype(np.int64)
    solved = fit(X, label, classes=np.array([1]), loss=loss, C=100.0, tol=1e-3, max_iter=60)
    assert (solved.status == TOL).all()
