"""The smallest enclosing ball: its value, its bound, and what they say of each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.ball.problem import _onto_capped_simplex
from maxmargin.data import as_matrix
from maxmargin.kernels.functions import Linear, Rbf, Sigmoid
from maxmargin.problems import Certificate, KernelMatrix, MinimumEnclosingBall
from maxmargin.solvers import CoreSet, solve


def cloud(n=30, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) + 0.5


def test_the_value_is_the_largest_distance():
    X, x = cloud(), np.ones(4)
    at = MinimumEnclosingBall(X).evaluate(x)
    distances = np.linalg.norm(X - x, axis=1)
    assert at.value == at.radius == pytest.approx(distances.max())
    np.testing.assert_allclose(at.sq_distances, distances**2)
    assert at.wet.tolist() == np.eye(30)[distances.argmax()].tolist()


@pytest.mark.parametrize("nu", [0.02, 0.05, 0.1, 0.25, 0.5, 1.0])
def test_with_nu_the_value_is_a_mean_of_the_largest_squares(nu):
    """The least of R^2 + sum (square - R^2)_+ / (nu n) over R, which is convex and bends at the squares only."""
    X, x = cloud(), np.ones(4)
    at = MinimumEnclosingBall(X, nu=nu).evaluate(x)
    squares = ((X - x) ** 2).sum(axis=1)
    values = [R2 + np.maximum(0, squares - R2).sum() / max(1, nu * 30) for R2 in squares]
    assert at.value**2 == pytest.approx(min(values))
    assert at.radius**2 + np.maximum(0, squares - at.radius**2).sum() / max(1, nu * 30) == pytest.approx(min(values))
    assert at.wet.sum() == pytest.approx(1)
    assert at.wet.max() <= 1 / max(1, nu * 30) + 1e-15


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 4), st.floats(0, 1), st.floats(-3, 3))
@settings(max_examples=100, deadline=None)
def test_no_bound_is_above_any_value(seed, n, d, nu, power):
    rng = np.random.default_rng(seed)
    problem = MinimumEnclosingBall(10**power * rng.normal(size=(n, d)), nu=nu)
    x, p = 10**power * rng.normal(size=d), rng.dirichlet(np.full(n, 0.3)) + 1e-12
    value, bound = problem.evaluate(x).value, problem.bound(p)
    assert 0 <= bound <= value * (1 + 1e-9)
    certificate = problem.certify(x, p, rounds=3)
    assert bound * (1 - 1e-9) <= certificate.dual <= certificate.primal
    assert certificate.primal == pytest.approx(value)


def test_rounds_tighten_the_bound(exact):
    X = cloud(200, 5)
    problem, best = MinimumEnclosingBall(X), exact.ball_form(X @ X.T)
    x = X.T @ best.p
    bounds = [problem.certify(x, rounds=rounds).dual for rounds in (0, 1, 2, 4)]
    assert bounds[0] == pytest.approx(0, abs=1e-6)  # of one point alone
    assert (np.diff(bounds) >= 0).all()
    assert bounds[-1] > 0.99 * best.value  # it ends there
    known = problem.certify(x, best.p)
    assert known.relative_gap < 1e-5
    assert known.dual == pytest.approx(best.value, rel=1e-6)


def test_small_cases():
    assert MinimumEnclosingBall(np.array([[3.0, 4.0]])).certify(np.array([3.0, 4.0])).primal == 0
    two = MinimumEnclosingBall(np.array([[0.0], [2.0]])).certify(np.array([1.0]), np.array([0.5, 0.5]))
    assert (two.primal, two.dual) == pytest.approx((1, 1))
    for d in (2, 5):  # the corners of a simplex
        corners = MinimumEnclosingBall(np.eye(d)).certify(np.full(d, 1 / d), np.ones(d))
        assert corners.primal == pytest.approx(np.sqrt(1 - 1 / d))
        assert corners.dual == pytest.approx(corners.primal)


@pytest.mark.parametrize("nu", [0.0, 0.2])
def test_every_storage_gives_the_same(storages, nu):
    X, x, p = cloud(), np.full(4, 0.3), np.arange(30.0)
    wanted = MinimumEnclosingBall(X, nu=nu).certify(x, p, rounds=2)
    for name, stored in storages(X).items():
        found = MinimumEnclosingBall(stored, nu=nu).certify(x, p, rounds=2)
        assert (found.primal, found.dual) == pytest.approx((wanted.primal, wanted.dual)), name


@pytest.mark.parametrize("nu", [0.0, 0.2])
def test_the_linear_kernel_is_no_kernel(nu):
    X, p = cloud(), np.random.default_rng(1).dirichlet(np.ones(30))
    rows, kernel = MinimumEnclosingBall(X, nu=nu), MinimumEnclosingBall(KernelMatrix(X, Linear()), nu=nu)
    assert kernel.evaluate(kernel.X.dot_transposed(p)).value == pytest.approx(rows.evaluate(X.T @ p).value, rel=1e-5)
    assert kernel.bound(p) == pytest.approx(rows.bound(p), rel=1e-5)
    centre, expansion = X.T @ p, kernel.X.dot_transposed(p)
    around = (X[:3] - centre) @ (X - centre).T
    products = kernel.products(np.arange(3), np.arange(30), expansion, expansion.f)
    np.testing.assert_allclose(products, around, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(rows.products(np.arange(3), np.arange(30), centre, np.empty(0)), around)


def test_a_kernel_that_is_no_inner_product_proves_nothing():
    K = KernelMatrix(cloud(), Sigmoid(gamma=1.0, coef0=-1.0))
    problem = MinimumEnclosingBall(K)
    certificate = problem.certify(K.dot_transposed(np.eye(30)[0]), np.ones(30))
    assert not certificate
    assert "not positive semidefinite" in str(certificate)
    K = KernelMatrix(cloud(), Rbf(gamma=1.0))
    assert MinimumEnclosingBall(K).certify(K.dot_transposed(np.eye(30)[0]), np.ones(30))


@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(0.0, 1.0))
@settings(max_examples=100, deadline=None)
def test_weights_are_brought_below_the_cap(seed, n, nu):
    rng = np.random.default_rng(seed)
    cap, p = 1 / max(1, nu * n), rng.dirichlet(np.full(n, 0.2))
    near = _onto_capped_simplex(p, cap)
    assert near.sum() == pytest.approx(1)
    assert near.min() >= 0
    assert near.max() <= cap * (1 + 1e-12)
    # The nearest point: no other one makes a blunt angle with the way to p.
    other = np.minimum(rng.dirichlet(np.ones(n)), cap)
    other += (1 - other.sum()) * (cap - other) / max(1e-300, (cap - other).sum())
    assert (p - near) @ (other - near) <= 1e-9


def test_what_is_read_is_counted():
    X = cloud()
    problem = MinimumEnclosingBall(X)
    problem.evaluate(np.zeros(4))
    assert problem.ledger.summary() == {"learning": X.size, "learning, dense count": X.size}
    problem.bound(np.ones(30))  # distances are measured from the mean of a few rows
    assert problem.ledger.summary()["scale"] == X.size + 16 * X.shape[1]
    told = MinimumEnclosingBall(X, sq_norms=(X**2).sum(axis=1))
    assert told.evaluate(np.ones(4)).value == pytest.approx(problem.evaluate(np.ones(4)).value)
    assert "scale" not in told.ledger.summary()


def test_sentences():
    def said(primal, dual):
        return str(Certificate(primal, dual, form="radius"))

    assert said(3.2126, 3.2126 * 0.992) == "the radius 3.213 is within 0.8 % of the least possible"
    assert said(3.0, 0.0) == "the radius 3 was reached; nothing is known of the least possible"
    assert said(0.0, 0.0) == "the radius 0 is the least possible"
    soft = MinimumEnclosingBall(np.random.default_rng(0).normal(size=(40, 2)), nu=0.1)
    assert str(soft.certify(np.zeros(2), np.ones(40))).startswith(
        "the root mean square distance of the farthest rows, "
    )
    assert Certificate(3.0, 2.0, form="radius").score > Certificate(4.0, 2.0, form="radius").score


def test_bad_input():
    with pytest.raises(ValueError, match="the matrix is empty: it has 0 rows"):
        MinimumEnclosingBall(np.empty((0, 3)))
    with pytest.raises(ValueError, match="shape"):
        MinimumEnclosingBall(np.zeros(3))
    for nu in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match=r"from 0 to 1; got"):
            MinimumEnclosingBall(cloud(), nu=nu)
    X = cloud()
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at row 3, column 2"):
        MinimumEnclosingBall(X).evaluate(np.zeros(4))
    with pytest.raises(ValueError, match="so large that its squared norm is inf"):
        MinimumEnclosingBall(np.full((2, 2), 1e200)).evaluate(np.zeros(2))
    with pytest.raises(ValueError, match=r"sq_norms has shape \(2,\); expected \(30,\)"):
        MinimumEnclosingBall(cloud(), sq_norms=[1.0, 2.0])
    with pytest.raises(ValueError, match="finite and >= 0; got -1"):
        MinimumEnclosingBall(np.ones((2, 2)), sq_norms=[1.0, -1.0])


def test_a_matrix_keeps_its_ledger():
    X = as_matrix(cloud())
    MinimumEnclosingBall(X).evaluate(np.zeros(4))
    assert X.ledger.entries_read == X.n_stored


def test_a_solved_ball_has_a_radius_and_no_bias():
    result = solve(MinimumEnclosingBall(cloud()), CoreSet(), certify="checks")
    assert result.evaluation.radius == result.evaluation.value == pytest.approx(result.certificate.primal)
    assert result.solution.b == 0
