"""What a problem over rows asks of its data: rows of features and rows of a kernel answer alike."""

from fractions import Fraction

import numpy as np
import pytest

from maxmargin.core import Matrix
from maxmargin.core.matrix import as_matrix, as_rows
from maxmargin.kernels.functions import Linear, Precomputed, Rbf
from maxmargin.kernels.rows import kernel_rows
from maxmargin.problems import Expansion, KernelMatrix, MinimumEnclosingBall, RegularizedSVM, SlackSVM
from maxmargin.solvers import Pegasos, Perceptron, solve

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
Y = np.where(np.arange(30) % 2, 1.0, -1.0)


def test_rows_are_taken_as_they_are_and_arrays_as_a_matrix():
    K, matrix = KernelMatrix(X, Linear()), as_matrix(X)
    assert as_rows(K) is K
    assert as_rows(matrix) is matrix
    assert isinstance(as_rows(X), Matrix)
    with pytest.raises(TypeError, match="expected a NumPy array, a CSR or a CSC matrix; got KernelMatrix"):
        as_matrix(K)


def test_a_solver_of_one_kind_of_rows_is_not_given_the_other():
    on_features, on_kernel = RegularizedSVM(X, Y), RegularizedSVM(KernelMatrix(X, Linear()), Y)
    assert on_features.features is on_features.X
    assert kernel_rows(on_kernel.X) is on_kernel.X
    with pytest.raises(TypeError, match="expected rows of features, a Matrix; got a KernelMatrix"):
        _ = on_kernel.features
    with pytest.raises(TypeError, match="expected rows of a kernel, such as a KernelMatrix; got a Matrix"):
        kernel_rows(on_features.X)


@pytest.mark.parametrize("ask", ["dot", "sq_distances", "dot_cost", "measured_rounding"])
def test_an_array_is_no_vector_of_a_kernels_space(ask):
    with pytest.raises(TypeError, match="rows of a kernel have products with an Expansion only; got ndarray"):
        getattr(KernelMatrix(X, Linear()), ask)(np.ones(4))


def test_products_and_squares_of_features_are_no_further_off_than_is_said():
    matrix, w, p = as_matrix(X), RNG.normal(size=4), RNG.random(30)
    norms = np.sqrt(matrix.row_sq_norms())
    exact = [sum(Fraction(a) * Fraction(b) for a, b in zip(row, w, strict=True)) for row in X.tolist()]
    error = [abs(Fraction(found) - wanted) for found, wanted in zip(matrix.dot(w).tolist(), exact, strict=True)]
    assert (np.array(error, dtype=float) <= matrix.dot_rounding(w, lambda: norms)).all()
    v = matrix.dot_transposed(p) / 3.0
    exact_v = [sum(Fraction(a) * Fraction(b) for a, b in zip(p, column, strict=True)) / 3 for column in X.T.tolist()]
    excess = float(sum(a**2 for a in exact_v) - Fraction(float(v @ v)))
    assert excess <= matrix.square_rounding(p, v, lambda: norms, 3.0) < 1e-12


def test_what_products_with_all_rows_cost():
    K, beta = KernelMatrix(X, Rbf(gamma=0.5)), np.zeros(30)
    beta[:7] = 1.0
    w = Expansion.unknown(beta)
    assert K.dot_cost(w) == 7 * 30
    before = K.ledger.entries_read
    K.dot(w)
    assert K.ledger.entries_read - before == 7 * 30
    assert K.dot_cost(w) == as_matrix(X).dot_cost(np.ones(4)) == 0


def test_a_negative_square_shows_that_products_are_not_inner():
    K = KernelMatrix(np.diag([1.0, 2.0, 3.0]), Precomputed())
    good = K.dot_transposed(np.ones(3))
    assert as_matrix(X).products_are_inner(np.ones(4)) is True
    assert KernelMatrix(X, Linear()).products_are_inner(Expansion.unknown(np.ones(30))) is True
    assert K.products_are_inner(good) is None
    assert K.products_are_inner(good, Expansion(good.beta, -good.f)) is False


def test_how_many_samples_count():
    weights = np.where(np.arange(30) < 20, 1.0, 0.0)
    assert RegularizedSVM(X, Y, sample_weight=weights).n_samples == 20
    assert MinimumEnclosingBall(X).n_samples == 30


def test_an_online_solver_starts_anew_after_another_one():
    problem = SlackSVM(X, Y, slack=0.1)
    other = solve(RegularizedSVM(X, Y), Pegasos(), max_iter=30, random_state=0, certify=False)
    anew = solve(problem, Perceptron(), max_iter=30, random_state=0, certify=False)
    after = solve(problem, Perceptron(), max_iter=60, random_state=0, certify=False, warm=other)
    np.testing.assert_array_equal(after.solution.w, anew.solution.w)
