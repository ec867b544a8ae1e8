"""One binary problem in two threads: the same bits as in one, and everything counted."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import LinearSVC
from maxmargin.data import as_matrix
from maxmargin.problems import RegularizedSVM
from maxmargin.solvers import Newton, Sdca, solve


def clouds(seed=0, n=7000, d=300):
    """Large enough to be read in parts."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    return rng.normal(size=(n, d)) / np.sqrt(d) + 0.1 * y[:, None] / np.sqrt(d), y


@pytest.mark.parametrize("kind", [np.array, np.asfortranarray, sp.csr_array, sp.csc_array])
def test_products(kind):
    X, y = clouds(5)
    one, two = as_matrix(kind(X)), as_matrix(kind(X), threads=2)
    rng = np.random.default_rng(0)
    w, rows = rng.normal(size=300), rng.permutation(7000)[:6800]
    np.testing.assert_array_equal(one.dot(w), two.dot(w))
    np.testing.assert_array_equal(one.dot(w, rows), two.dot(w, rows))
    np.testing.assert_array_equal(one.dot_transposed(y), two.dot_transposed(y))
    np.testing.assert_array_equal(one.dot_transposed(y[rows], rows), two.dot_transposed(y[rows], rows))
    np.testing.assert_array_equal(one.row_sq_norms(), two.row_sq_norms())
    assert one.ledger.summary() == two.ledger.summary()


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_newton(kind, loss):
    X, y = clouds(6, n=20_000, d=200)
    X[np.abs(X) < 0.08] = 0
    problem = RegularizedSVM(as_matrix(kind(X), threads=2), y, loss=loss)
    result = solve(problem, Newton(), tol=1e-8, random_state=0)
    alone = solve(RegularizedSVM(kind(X), y, loss=loss), Newton(), tol=1e-8, random_state=0)
    np.testing.assert_array_equal(result.solution.w, alone.solution.w)
    assert result.reads == alone.reads


def test_an_error_in_a_thread_is_raised():
    matrix = as_matrix(clouds(7)[0], threads=2)

    def fails(reader):
        raise RuntimeError("here")

    with pytest.raises(RuntimeError, match="here"):
        matrix.side_by_side([lambda reader: 0, fails])
    with pytest.raises(ValueError, match="threads must be a whole number of at least 1; got 0"):
        as_matrix(np.eye(2), threads=0)


@pytest.mark.parametrize("solver", [Sdca(), Newton()], ids=["sdca", "newton"])
def test_the_estimator(solver):
    X, y = clouds(8)
    one, two = (LinearSVC(solver=solver, n_jobs=n_jobs, random_state=0).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.reads_ == two.reads_
    best = LinearSVC(solver="newton", tol=1e-8).fit(X, y).certificate_.primal
    assert best <= one.certificate_.primal * (1 + 1e-8) <= best * (1 + 1e-3)
