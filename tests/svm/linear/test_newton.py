"""What Newton's method computes by hand, against the plain formulas."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.data import as_matrix
from maxmargin.problems import RegularizedSVM
from maxmargin.solvers import Newton, solve
from maxmargin.svm.linear._newton import add_outer_products, gap_of, reach, weigh


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
    parameters = (centre, uppers, q_s, np.full(n, softness))
    a = weigh(c, *parameters)
    pull = 1 - c + softness * centre
    stiff = q + softness
    expected = np.clip(pull / stiff, 0, upper) if stiff > 0 else np.where(pull > 0, upper, 0.0)
    np.testing.assert_allclose(a, expected)

    # Moved by less than its reach, a sample at a bound stays there; by more in the worst direction, it does not.
    far = reach(c, *parameters, norms)
    at_bound = far > 0
    away = np.where(a > 0, 1.0, -1.0) * far * norms
    near, beyond = weigh(c + 0.999 * away, *parameters), weigh(c + 1.001 * away, *parameters)
    np.testing.assert_array_equal(near[at_bound], a[at_bound])
    assert (beyond != a)[at_bound].all()

    loss = np.maximum(1 - c, 0) ** 2 / (2 * q) if q else upper * np.maximum(1 - c, 0)
    np.testing.assert_allclose(gap_of(c, a, uppers, q_s), loss - a + 0.5 * q * a**2 + a * c, atol=1e-12)


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


def test_all_dual_variables_at_a_bound_and_classes_of_different_sizes() -> None:
    """No sample is between its bounds, and steps of the bias must be long enough to bring one there."""
    rng = np.random.default_rng(0)
    X = 0.1 * rng.normal(size=(1000, 5))
    y = np.where(np.arange(1000) < 498, 1.0, -1.0)
    result = solve(RegularizedSVM(X, y, C=1e-3), Newton(), tol=1e-6, max_iter=50, random_state=0)
    assert result.status == "tol"
