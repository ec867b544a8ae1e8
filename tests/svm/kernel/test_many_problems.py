"""Many binary problems at once: the optimum of each is LIBSVM's, whatever the rows, the groups and the threads."""

from itertools import combinations

import numpy as np
import pytest
import sklearn.svm
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin.kernels._row_sources import SAMPLES_PER_BLOCK, DenseSamples, WholeMatrix
from maxmargin.svm.kernel import many_problems
from maxmargin.svm.kernel.many_problems import BinaryRanges, ClassOrder, SampleTerms, solve_many
from maxmargin.svm.many_problems import MAX_ITER, TOL, UNFINISHED, SolvedProblems, Targets

GAMMA, C = 0.3, 10.0


def three_classes(seed=0, n=90, d=5):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, size=n)
    return rng.normal(size=(n, d)) + label[:, None] * rng.normal(size=d), label


def pairs(order):
    both = np.array(list(combinations(range(order.first.size), 2)))
    own, other = both, both[:, ::-1]
    row = np.where(other > own, other - 1, other)  # LIBSVM's layout
    labels = np.tile([1.0, -1.0], len(both))
    ones = np.ones(2 * len(both))
    return BinaryRanges(
        2 * np.arange(len(both) + 1), order.first[own].ravel(), order.size[own].ravel(), labels, ones, row.ravel()
    )


def terms(order, weights=None):
    n = order.samples.size
    ones = np.ones(order.places.size) if weights is None else weights
    return SampleTerms(order.spread(ones), np.ones(n), np.full(n, 1e-8), np.full(n, 1e-14))


def matrix(X, order):
    return WholeMatrix(rbf_kernel(X[order.samples], gamma=GAMMA))


def samples(X, order):
    Z = np.ascontiguousarray(X[order.samples])
    blocks = np.ascontiguousarray(Z.reshape(-1, SAMPLES_PER_BLOCK, Z.shape[1]).transpose(0, 2, 1))
    return DenseSamples(Z, blocks, 2 * GAMMA, -GAMMA * (Z**2).sum(axis=1), "exp")


def solve(X, label, source=matrix, weights=None, **options):
    order = ClassOrder.of(label, label.max() + 1)
    options = {"free_bias": True, "max_passes": 10**6, **options}
    return order, solve_for_C(source(X, order), pairs(order), terms(order, weights), **options)


def solve_for_C(source, ranges, known, C=C, tol=1e-8, **options):
    results = SolvedProblems.empty(ranges.samples.size, np.zeros((ranges.row.max() + 1, known.s.size)))
    return solve_many(source, ranges, known, Targets.of_all(ranges.samples.size, C, tol), results, **options)


def from_scratch(X, label, solved, order, k, weights=1.0):
    """Value and bound of problem k, from the coefficients that were written."""
    i, j = list(combinations(range(label.max() + 1), 2))[k]
    beta, places = np.zeros(label.size), np.empty(label.size, dtype=int)
    places[order.samples[order.places]] = order.places
    first, second = label == i, label == j
    beta[first], beta[second] = solved.coefficients[j - 1, places[first]], solved.coefficients[i, places[second]]
    both = first | second
    y, beta, u = np.where(first, 1.0, -1.0)[both], beta[both], (C * weights * np.ones(label.size))[both]
    f = rbf_kernel(X[both], gamma=GAMMA) @ beta
    assert ((beta * y >= 0) & (beta * y <= u)).all()
    value = 0.5 * beta @ f + u @ np.maximum(0, 1 - y * (f + solved.bias[k]))
    return value, np.abs(beta).sum() - 0.5 * beta @ f


@pytest.mark.parametrize("source", [matrix, samples])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_of_each_pair_is_that_of_libsvm(source, seed):
    X, label = three_classes(seed)
    _, solved = solve(X, label, source)
    for k, (i, j) in enumerate(combinations(range(3), 2)):
        both = (label == i) | (label == j)
        reference = sklearn.svm.SVC(C=C, gamma=GAMMA, tol=1e-9).fit(X[both], label[both])
        beta = reference.dual_coef_[0]
        K = rbf_kernel(reference.support_vectors_, gamma=GAMMA)
        assert solved.bound[k] == pytest.approx(np.abs(beta).sum() - 0.5 * beta @ K @ beta, rel=1e-7)
        # scikit-learn's decision is positive for the second class.
        assert solved.bias[k] == pytest.approx(-reference.intercept_[0], abs=1e-5)
    assert (solved.status == TOL).all()


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_value_and_bound_are_those_of_the_coefficients_and_rounding_is_small(tol):
    X, label = three_classes(1)
    weights = np.random.default_rng(0).uniform(0, 2, size=label.size)
    weights[:5] = 0
    order, solved = solve(X, label, samples, weights, tol=tol)
    for k in range(3):
        value, bound = from_scratch(X, label, solved, order, k, weights)
        assert solved.value[k] == pytest.approx(value, rel=1e-12)
        assert solved.bound[k] == pytest.approx(bound, rel=1e-12)
    gap = solved.value - solved.bound
    assert ((gap >= -1e-12 * solved.value) & (gap <= tol * solved.value)).all()
    assert (solved.value_rounding < 1e-10 * solved.value).all()


def test_rows_of_samples_are_those_of_the_matrix():
    X, label = three_classes(2)
    results = [solve(X, label, source)[1] for source in (matrix, samples)]
    np.testing.assert_allclose(results[0].bound, results[1].bound, rtol=1e-8)
    assert (results[1].kernel_evaluations > 0).all()


def test_fillers_have_no_coefficients():
    X, label = three_classes(3)
    order, solved = solve(X, label, samples)
    fillers = np.setdiff1d(np.arange(order.samples.size), order.places)
    assert fillers.size
    assert not solved.coefficients[:, fillers].any()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_groups_and_calls_do_not_change_a_bit(threads, monkeypatch):
    X, label = three_classes(4)
    before = solve(X, label, samples)[1]
    monkeypatch.setattr(many_problems, "LEAST_GROUP", 1)
    monkeypatch.setattr(many_problems, "ENTRIES_PER_CALL", 500)
    after = solve(X, label, samples, threads=threads)[1]
    np.testing.assert_array_equal(before.coefficients, after.coefficients)
    np.testing.assert_array_equal(before.table, after.table)


def test_without_a_bias_the_dual_is_that_of_coordinate_ascent():
    X, label = three_classes(5)
    order, solved = solve(X, label, samples, free_bias=False)
    for k in range(3):
        value, bound = from_scratch(X, label, solved, order, k)
        assert value - bound <= 1e-7 * value
    assert not solved.bias.any()


def test_a_limit_of_passes_ends_a_problem_and_is_recorded():
    X, label = three_classes(6)
    _, solved = solve(X, label, samples, max_passes=1)
    sizes = np.array([(np.isin(label, both)).sum() for both in combinations(range(3), 2)])
    assert (solved.status == MAX_ITER).all()
    np.testing.assert_array_equal(solved.iterations, (sizes + 1) // 2)


def test_a_fit_that_has_to_stop_leaves_a_proved_model_of_each_problem(monkeypatch):
    X, label = three_classes(7)
    monkeypatch.setattr(many_problems, "ENTRIES_PER_CALL", 1)
    monkeypatch.setattr(many_problems, "PASSES_AFTER_STOP", 0)
    order, solved = solve(X, label, samples, stop=lambda done, results: True)
    assert (solved.status == UNFINISHED).all()
    for k in range(3):
        value, bound = from_scratch(X, label, solved, order, k)
        assert (solved.value[k], solved.bound[k]) == pytest.approx((value, bound), rel=1e-10)
        assert value >= bound


def overlapping(C, free_bias, weights=None, **options):
    """The result on two overlapping classes in the plane, where SMO alone takes many steps."""
    rng = np.random.default_rng(0)
    label = np.arange(300) % 2
    X = rng.normal(size=(300, 2)) + label[:, None]
    order = ClassOrder.of(label, 2)
    known = terms(order, weights)
    options = {"free_bias": free_bias, "tol": 1e-6, **options}
    return X, label, solve_for_C(matrix(X, order), pairs(order), known, C, **options)


def test_large_C_takes_few_steps_to_the_optimum_of_libsvm():
    X, label, solved = overlapping(C=1e3, free_bias=True)
    reference = sklearn.svm.SVC(C=1e3, gamma=GAMMA, tol=1e-6).fit(X, label)
    beta = reference.dual_coef_[0]
    bound = np.abs(beta).sum() - 0.5 * beta @ rbf_kernel(reference.support_vectors_, gamma=GAMMA) @ beta
    assert solved.status[0] == TOL
    assert solved.bound[0] == pytest.approx(bound, rel=1e-6)
    assert solved.iterations[0] < 0.1 * reference.n_iter_[0]  # without steps on all free variables, as many


@pytest.mark.parametrize("free_bias", [True, False])
@pytest.mark.parametrize("C", [1e2, 1e3, 1e6])
def test_large_C_comes_to_its_tolerance_with_and_without_a_bias(free_bias, C):
    weights = np.random.default_rng(1).uniform(0, 2, size=300)
    *_, solved = overlapping(C, free_bias, weights)
    assert solved.status[0] == TOL
    gap = solved.value - solved.bound
    assert 0 <= gap[0] + 1e-9 * solved.value[0] <= 2e-6 * solved.value[0]
    assert abs(solved.coefficients.sum()) < 1e-9 * abs(solved.coefficients).sum() or not free_bias


def test_kernels_of_no_inner_product_with_large_C_end():
    rng = np.random.default_rng(0)
    label = np.arange(200) % 2
    K = rng.normal(size=(200, 200))
    order = ClassOrder.of(label, 2)
    known = SampleTerms(np.ones(200), np.diagonal(K + K.T).copy(), np.zeros(200), np.zeros(200))
    ranges = pairs(order)
    solved = solve_for_C(WholeMatrix(K + K.T), ranges, known, 1e3, free_bias=True, tol=1e-3, max_passes=100)
    assert np.isfinite(solved.coefficients).all()
