"""What Newton's method computes by hand, against the plain formulas."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import csr_array

from maxmargin.core import Matrix
from maxmargin.data import as_matrix
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.problems import RegularizedSVM
from maxmargin.solvers import Newton, solve
from maxmargin.svm.linear._newton import add_outer_products, dual_sums, reach, weigh


@pytest.mark.parametrize("shuffled", [False, True])
def test_outer_products_of_sparse_rows(shuffled: bool) -> None:
    rng = np.random.default_rng(0)
    X = sp.random(40, 12, density=0.4, format="csr", random_state=0)
    if shuffled:  # the entries of a row may be stored in any order
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            order = start + rng.permutation(stop - start)
            X.indices[start:stop], X.data[start:stop] = X.indices[order], X.data[order]
        X.has_sorted_indices = False
    rows, h = np.array([3, 0, 17, 39]), rng.normal(size=4)
    H = np.zeros((13, 13))
    add_outer_products(as_matrix(X), rows, h, H)
    Z = X.toarray()[rows]
    np.testing.assert_allclose(H[:12, :12], np.tril(Z.T @ (h[:, None] * Z)), atol=1e-14)
    assert not H[12].any()


@pytest.mark.parametrize(("q", "upper"), [(0.0, 2.0), (0.5, np.inf)])
@pytest.mark.parametrize("softness", [0.0, 0.3])
def test_weights_reach_and_gap(q: float, upper: float, softness: float) -> None:
    rng = np.random.default_rng(1)
    n = 50
    c, centre, norms = rng.normal(1, 2, n), rng.uniform(0, 2, n), rng.uniform(0.5, 2, n)
    c[0] = 1 + softness * centre[0]  # at the bound
    q_s, uppers = np.full(n, q), np.full(n, upper)
    smooth = q > 0
    parameters = (centre, uppers, q_s, softness / q if smooth else softness, smooth)

    def weighed(c: np.ndarray) -> np.ndarray:
        a = np.zeros(c.size)
        np.testing.assert_array_equal(weigh(None, c, *parameters, a), a)
        return a

    a = weighed(c)
    pull = 1 - c + softness * centre
    stiff = q + softness
    expected = np.clip(pull / stiff, 0, upper) if stiff > 0 else np.where(pull > 0, upper, 0.0)
    np.testing.assert_allclose(a, expected)

    # Moved by less than its reach, a sample at a bound stays there; by more in the worst direction, it does not.
    far = reach(c, *parameters, norms)
    at_bound = far > 0
    away = np.where(a > 0, 1.0, -1.0) * far * norms
    near, beyond = weighed(c + 0.999 * away), weighed(c + 1.001 * away)
    np.testing.assert_array_equal(near[at_bound], a[at_bound])
    assert (beyond != a)[at_bound].all()

    loss = np.maximum(1 - c, 0) ** 2 / (2 * q) if q else upper * np.maximum(1 - c, 0)
    ones, all_, none = np.ones(c.size), np.ones(c.size, dtype=np.uint8), np.zeros(c.size, dtype=np.uint8)
    for i in range(c.size):
        one = slice(i, i + 1)
        arrays, flags = (c, a, ones, *parameters[:3]), (all_, none)
        sums = dual_sums(*(each[one] for each in arrays), *parameters[3:], *(each[one] for each in flags))
        expected = loss - a + 0.5 * q * a**2 + a * c
        assert sums[3] == pytest.approx(expected[i], abs=1e-12)


def test_a_small_C_with_more_samples_of_one_class() -> None:
    """Nearly all dual variables are at their upper bounds, and the bias alone is left to move."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(571, 38)) / np.sqrt(38)
    y = np.where(np.arange(571) < 278, 1.0, -1.0)
    for C in (1e-4, 1e-3, 1e-2):
        result = solve(RegularizedSVM(X, y, C=C, loss="hinge"), Newton(), tol=1e-4, max_iter=50, random_state=0)
        assert result.status == "tol"


def rows_of_a_noisy_plane(n: int, d: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=d)
    return X, np.where(scores / scores.std() + noise * rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_nearly_separable_data_and_a_large_C_take_few_iterations(loss: str) -> None:
    """With fewer losses than features, the steps for the squared hinge alone would be hundreds of short ones."""
    X, y = rows_of_a_noisy_plane(1000, 250, noise=0.3, seed=0)
    result = solve(RegularizedSVM(X, y, C=100.0, loss=loss), Newton(), tol=1e-3, max_iter=60, random_state=0)
    assert result.status == "tol"


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_overlapping_classes_and_a_large_C(loss: str, tol: float) -> None:
    """A step that gains nothing to speak of is no reason to stop: the centre has yet to move."""
    for seed in range(5):
        X, y = rows_of_a_noisy_plane(400, 28, noise=2.0, seed=seed)
        problem = RegularizedSVM(X, y, C=1e4, loss=loss)
        assert solve(problem, Newton(), tol=tol, max_iter=120, random_state=0).status == "tol"


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_features_of_all_sizes_far_from_zero(loss: str, bias: bool) -> None:
    """Such features and a free bias are nearly collinear, and sums of their products lose their digits."""
    for seed in range(5):
        X, y = rows_of_a_noisy_plane(245, 160, noise=2.0, seed=seed)
        rng = np.random.default_rng(seed)
        X = X * 10 ** rng.uniform(-3, 3, 160) + 10 ** rng.uniform(-3, 3, 160)
        result = solve(
            RegularizedSVM(X, y, C=500.0, loss=loss, bias=bias), Newton(), tol=1e-3, max_iter=100, random_state=0
        )
        assert result.status == "tol"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_large_C_and_features_of_unequal_sizes_to_a_small_gap(loss: str) -> None:
    """Between two centres the bound is far below 0; steps that gain little in comparison must be made nevertheless."""
    for seed in range(3):
        X, y = rows_of_a_noisy_plane(1000, 10, noise=1.0, seed=seed)
        problem = RegularizedSVM(X * np.logspace(0, 3, 10), y, C=1e6, loss=loss)
        result = solve(problem, Newton(), tol=1e-8, max_iter=120, random_state=0)
        assert result.status == "tol"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_it_ends_when_rounding_is_all_that_is_left(loss: str, C: float) -> None:
    """Further moves of the centre would add errors of the margins, divided by the softness, to the dual variables."""
    X, y = rows_of_a_noisy_plane(1000, 10, noise=1.0, seed=0)
    result = solve(RegularizedSVM(X, y, C=C, loss=loss), Newton(), tol=-1.0, max_iter=1000, random_state=0)
    assert result.status == "finished"
    assert result.n_iter < 120
    assert result.certificate.relative_gap < 1e-9


def test_all_dual_variables_at_a_bound_and_classes_of_different_sizes() -> None:
    """No sample is between its bounds, and steps of the bias must be long enough to bring one there."""
    rng = np.random.default_rng(0)
    X = 0.1 * rng.normal(size=(1000, 5))
    y = np.where(np.arange(1000) < 498, 1.0, -1.0)
    result = solve(RegularizedSVM(X, y, C=1e-3), Newton(), tol=1e-6, max_iter=50, random_state=0)
    assert result.status == "tol"


def test_products_are_updated_where_all_samples_are_active() -> None:
    """A step of any length that changes which samples are between their bounds says nothing against the products."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(1500) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(1500, 10)) + 0.3 * y[:, None]
    problem, solver = RegularizedSVM(X, y, 1.0, loss="hinge"), Newton()
    state = solver.start(problem, rng)
    seen = 0
    for _ in range(8):
        solver.step(problem, state, 1, UNLIMITED)
        assert state.dual_sums is not None
        if state.dual_sums.changed:
            seen += 1
            assert state.exact
    assert seen > 2


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("sparse", [False, True])
def test_sums_that_are_kept_up(loss: str, sparse: bool) -> None:
    """v, the sums of dual variables and the products of the Hessian are those of the samples, over several parts."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(40_000) < 0.4, 1.0, -1.0)
    X = rng.normal(size=(40_000, 6)) * (rng.random((40_000, 6)) < (0.2 if sparse else 1)) + 0.1 * y[:, None] * (
        not sparse
    )
    weights = rng.integers(0, 3, size=y.size).astype(float)
    problem = RegularizedSVM(csr_array(X) if sparse else X, y, 0.01, loss=loss, sample_weight=weights)
    solver = Newton(first=500)
    state = solver.start(problem, rng)
    for _ in range(12):
        solver.step(problem, state, 1, UNLIMITED)
    sums = state.dual_sums
    assert state.whole
    assert sums is not None
    p = solver.solution(problem, state).p
    assert not p[weights == 0].any()
    np.testing.assert_allclose(sums.v, X.T @ (p * y), rtol=1e-9, atol=1e-9 * p.sum())
    np.testing.assert_allclose((sums.imbalance, sums.a), (p @ y, p.sum()), rtol=1e-9, atol=1e-9 * p.sum())
    c = y * (X @ state.w + state.b)
    assert sums.gap >= 0
    objective = 0.5 * state.w @ state.w + problem.u @ problem.loss.value(c)
    assert state.dual + state.gap == pytest.approx(objective, rel=1e-6)
    solver._direction(problem, state, sums)
    upper, q = problem.loss.dual_box(problem.u)
    inside = (p > 0) & (p < upper)
    Z = np.column_stack([X - state.shift, np.ones(y.size)])[inside]
    expected = Z.T @ (Z / (q[inside, None] if problem.loss.smooth else 1.0))
    np.testing.assert_allclose(np.tril(state.products), np.tril(expected), rtol=1e-8, atol=1e-8 * expected.max())


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_same_bits_for_any_number_of_threads(loss: str) -> None:
    rng = np.random.default_rng(1)
    y = np.where(rng.random(50_000) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(50_000, 8)) + 0.1 * y[:, None]
    one, two = (solve(RegularizedSVM(Matrix(X, threads), y, loss=loss), Newton(), random_state=0) for threads in (1, 2))
    np.testing.assert_array_equal(one.solution.w, two.solution.w)
    assert one.solution.b == two.solution.b
