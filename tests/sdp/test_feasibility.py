"""Semidefinite feasibility: values, bounds and proofs; eigenvalues, and the projection of Lemma 4.1."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.data import SymmetricMatrices
from maxmargin.game.sets import Spectrahedron, TraceOne
from maxmargin.problems import SemidefiniteFeasibility, factor
from maxmargin.sdp.eigen import largest_eigenvalue, leading_eigenvector, positive_part
from maxmargin.sdp.projection import HazanSpectrahedron, approximate_projection


def symmetric(n, rng):
    G = rng.normal(size=(n, n))
    return G + G.T


def matrices(m, n, seed, shift=0.0):
    """Of Frobenius norm 1; the more negative the shift, the less feasible."""
    rng = np.random.default_rng(seed)
    A = np.array([symmetric(n, rng) + shift * np.eye(n) for _ in range(m)])
    return A / np.linalg.norm(A, axis=(1, 2))[:, None, None]


def positive(n, rng, rank=2):
    V = rng.normal(size=(n, rank))
    return V @ V.T / np.sum(V**2)


# Values and proofs


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 1000), st.floats(-3, 3))
def test_no_x_beats_any_bound(m, n, seed, shift):
    problem = SemidefiniteFeasibility(matrices(m, n, seed, shift))
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(m))
    certificate = problem.certify(positive(n, rng), p)
    assert certificate.primal <= problem.bound(p) + 1e-12
    assert certificate.form == "feasibility"


@pytest.mark.parametrize(("shift", "word"), [(2.0, "feasible"), (-6.0, "infeasible")])
def test_the_bound_is_tight(exact, shift, word):
    A = matrices(6, 4, 1, shift)
    problem, best = SemidefiniteFeasibility(A), exact.semidefinite_form(A)
    assert problem.bound(best.p) == pytest.approx(best.value, abs=1e-7)
    assert np.sign(best.value) == (1 if word == "feasible" else -1)
    certificate = problem.certify(np.eye(4), best.p)
    assert certificate.primal <= best.value + 1e-9
    if word == "infeasible":
        assert str(certificate).startswith("infeasible: proved by weights p")


def test_what_certificates_say():
    problem = SemidefiniteFeasibility(np.array([np.diag([1.0, -0.5]), np.diag([-0.5, 1.0])]))
    said = str(problem.certify(np.diag([1.0, 0.0]), np.array([1.0, 0.0])))
    assert said == "not decided: the best is between -0.447 and 0.894; feasible to within 0.447"
    assert str(problem.certify(np.eye(2), np.array([0.5, 0.5]))).startswith("feasible: every A_i.X is at least 0.22")


def test_a_bound_once_proved_stays_proved():
    problem = SemidefiniteFeasibility(np.array([np.diag([1.0, -2.0]), np.diag([-2.0, 1.0])]))
    first, both = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    assert str(problem.certify(np.eye(2), first)).startswith("not decided")
    assert str(problem.certify(np.eye(2), both)).startswith("infeasible")
    certificate, (p, _) = problem.certify_evaluated(problem.evaluate(np.eye(2)), first)
    assert str(certificate).startswith("infeasible")
    np.testing.assert_array_equal(p, both)


def test_x_is_measured_at_trace_one():
    problem = SemidefiniteFeasibility(matrices(4, 3, 0))
    X = positive(3, np.random.default_rng(0))
    at = problem.evaluate(X)
    np.testing.assert_allclose(problem.evaluate(0.01 * X).w, at.w)
    assert problem.evaluate(7 * X).value == pytest.approx(at.value)
    assert at.value == pytest.approx(problem.values(X / np.trace(X)).min())
    np.testing.assert_allclose(problem.evaluate(np.zeros((3, 3))).w, np.eye(3) / 3)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.eye(2), r"expected \(3, 3\)"),
        (np.diag([1.0, 1.0, -0.5]), "eigenvalue -0.5"),
        (-np.eye(3), "eigenvalue -1"),
        (np.triu(np.ones((3, 3))), "symmetric"),
        (np.full((3, 3), np.nan), "finite"),
    ],
)
def test_x_that_is_none(X, message):
    problem = SemidefiniteFeasibility(matrices(4, 3, 0))
    with pytest.raises(ValueError, match=message):
        problem.evaluate(X)


def test_scale():
    A = matrices(4, 3, 0) * np.array([1.0, 5.0, 2.0, 3.0])[:, None, None]
    problem, X = SemidefiniteFeasibility(A), np.eye(3) / 3
    assert problem.scale == pytest.approx(5.0)
    assert problem.ledger.summary()["scale"] == A.size
    np.testing.assert_allclose(problem.values(X) * 5, np.einsum("ijl,jl->i", A, X))
    wider = SemidefiniteFeasibility(A, scale=10.0)
    np.testing.assert_allclose(wider.values(X) * 2, problem.values(X))
    assert wider.bound(np.full(4, 0.25)) * 2 == pytest.approx(problem.bound(np.full(4, 0.25)))
    np.testing.assert_allclose(wider.gradient(1, X), A[1] / 10)
    told = SymmetricMatrices.by_entry(4, 3, lambda i, j, l: A[i, j, l])
    assert SemidefiniteFeasibility(told, scale=6.0).ledger.summary()["learning"] == 0
    with pytest.raises(ValueError, match="matrix 1 has a Frobenius norm of 5, above the scale 4"):
        SemidefiniteFeasibility(A, scale=4.0)
    with pytest.raises(ValueError, match="every matrix is 0"):
        SemidefiniteFeasibility(np.zeros((2, 3, 3)))
    for scale in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="positive number"):
            SemidefiniteFeasibility(A, scale=scale)


# The l2-sample


class Told:
    """In place of a generator: the number that it draws is told."""

    def __init__(self, value):
        self.value = value

    def random(self):
        return self.value


def test_l2_samples_are_unbiased_and_of_small_variance():
    """Exactly: each entry is drawn, and counts by its probability."""
    problem, rng = SemidefiniteFeasibility(matrices(6, 4, 2)), np.random.default_rng(0)
    for X in (positive(4, rng), symmetric(4, rng) / 10):
        chance = X.ravel() ** 2 / np.vdot(X, X)
        drawn = np.array([problem.sample(X, Told(u)) for u in np.cumsum(chance) - chance / 2])
        np.testing.assert_allclose(chance @ drawn, problem.values(X), atol=1e-12)
        assert (chance @ drawn**2 <= np.vdot(X, X) * (1 + 1e-9)).all()


def test_l2_samples_are_unbiased_over_seeds():
    """Each of 6 means is within 5 standard errors, but for a chance of 1e-5 or so."""
    problem, X = SemidefiniteFeasibility(matrices(6, 4, 2)), positive(4, np.random.default_rng(0))
    drawn = np.array([problem.sample(X, np.random.default_rng(seed)) for seed in range(2000)])
    assert (np.abs(drawn.mean(axis=0) - problem.values(X)) < 5 * drawn.std(axis=0) / np.sqrt(2000)).all()


def test_a_sample_never_falls_on_a_zero():
    problem = SemidefiniteFeasibility(matrices(3, 3, 0))
    X = np.zeros((3, 3))
    X[:2, :2] = 1 / 3
    for u in (0.0, 0.3, 0.7, np.nextafter(1.0, 0.0), 1.0):
        assert np.isfinite(problem.sample(X, Told(u))).all()
    assert not problem.sample(np.zeros((3, 3)), Told(0.5)).any()


def test_a_sample_is_by_inverse_cdf():
    """One number picks an entry, the entries lying one after the other by rows."""
    problem, rng = SemidefiniteFeasibility(matrices(5, 4, 3)), np.random.default_rng(1)
    X = positive(4, rng)
    for seed in range(50):
        u = np.random.default_rng(seed).random()
        k = np.searchsorted(np.cumsum(X.ravel() ** 2), u * np.vdot(X, X), side="right")
        j, l = divmod(int(k), 4)
        expected = problem.X.entries(j, l) / problem.scale * np.vdot(X, X) / X[j, l]
        np.testing.assert_allclose(problem.sample(X, np.random.default_rng(seed)), expected)


# Eigenvalues


@pytest.mark.parametrize("n", [1, 5, 64, 65, 150])
def test_eigenvalues_are_found(n):
    rng = np.random.default_rng(n)
    for G in (symmetric(n, rng), -positive(n, rng, 3), np.zeros((n, n)), np.eye(n), np.diag(np.arange(n) - n / 2)):
        top = np.linalg.eigvalsh(G)[-1]
        for accuracy in (0.0, 0.1):
            value, v = leading_eigenvector(G, accuracy)
            assert top - accuracy - 1e-9 <= value <= top + 1e-9
            assert v @ v == pytest.approx(1)
            assert v @ G @ v == pytest.approx(value, abs=1e-9)
        assert top - 1e-12 <= largest_eigenvalue(G) <= top + 1e-8 * (1 + np.linalg.norm(G))


def test_the_bound_holds_where_lanczos_is_wrong(monkeypatch):
    G = symmetric(100, np.random.default_rng(0))
    top = np.linalg.eigvalsh(G)[-1]
    monkeypatch.setattr("maxmargin.sdp.eigen.leading_eigenvector", lambda G, accuracy: (0.9 * top, None))
    assert top <= largest_eigenvalue(G) <= 1.2 * top


def test_factor():
    rng = np.random.default_rng(0)
    X = positive(6, rng, rank=3)
    V = factor(X)
    assert V.shape == (6, 3)
    np.testing.assert_allclose(V @ V.T, X, atol=1e-9)
    loose = factor(X, tol=0.5)
    assert loose.shape[1] < 3
    assert np.trace(X - loose @ loose.T) <= 0.5 * np.trace(X)
    np.testing.assert_allclose(positive_part(X - np.eye(6)), positive_part(X - np.eye(6)).T, atol=1e-12)
    with pytest.raises(ValueError, match="share of the trace"):
        factor(X, tol=1.0)
    with pytest.raises(ValueError, match="eigenvalue -1"):
        factor(-np.eye(2))


# Sets


@pytest.mark.parametrize("exactly", [True, False])
@pytest.mark.parametrize("n", [1, 3, 7])
def test_the_nearest_point_of_the_spectrahedron(n, exactly):
    over, rng = Spectrahedron(n, exactly), np.random.default_rng(n)
    for size in (0.01, 0.3, 1.0, 10.0):
        Y = size * symmetric(n, rng)
        X = over.project(Y)
        assert np.linalg.eigvalsh(X)[0] >= -1e-12
        assert np.trace(X) == pytest.approx(1) if exactly else np.trace(X) <= 1 + 1e-12
        # The nearest: no point of the set lies beyond X, as seen from Y.
        assert over.support(Y - X) <= np.vdot(Y - X, X) + 1e-9 * (1 + size)


def test_trace_one():
    over, rng = TraceOne(4), np.random.default_rng(0)
    for size in (0.1, 10.0):
        Y = size * symmetric(4, rng)
        X = over.project(Y)
        assert np.trace(X) == pytest.approx(1)
        assert np.linalg.norm(X) <= 1 + 1e-12
        # What is left of Y points away from the set, but for a part along the identity, which trace 1 does not feel.
        assert over.support(Y - X) <= np.vdot(Y - X, X) + 1e-9 * (1 + size)
    assert np.linalg.norm(positive(4, rng)) <= 1


# Lemma 4.1


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(0, 1000),
    st.sampled_from([0.1, 1.0, 10.0]),
    st.sampled_from([0.3, 0.05, 0.01]),
    st.booleans(),
    st.booleans(),
)
def test_the_projection_is_as_accurate_as_it_says(n, seed, size, accuracy, exactly, line_search):
    Y = size * symmetric(n, np.random.default_rng(seed))
    nearest = Spectrahedron(n, exactly).project(Y)
    found = approximate_projection(Y, accuracy, exactly=exactly, line_search=line_search)
    short = np.linalg.norm(Y - found.X) ** 2 - np.linalg.norm(Y - nearest) ** 2
    assert -1e-9 * (1 + size**2) <= short <= accuracy
    assert short <= found.gap + 1e-9 * (1 + size**2)
    assert np.linalg.norm(found.X - nearest) ** 2 <= short + 1e-9 * (1 + size**2)
    np.testing.assert_allclose(found.V @ found.V.T, found.X, atol=1e-9)
    assert found.V.shape[1] <= found.steps <= np.ceil(16 / accuracy)
    assert np.trace(found.X) <= 1 + 1e-9
    if exactly:
        assert np.trace(found.X) == pytest.approx(1)


def test_the_projection_of_a_larger_matrix_by_lanczos():
    rng = np.random.default_rng(0)
    Y = 3 * positive(120, rng, 3) + 0.02 * symmetric(120, rng)
    found, nearest = approximate_projection(Y, 0.02), Spectrahedron(120).project(Y)
    assert np.linalg.norm(Y - found.X) ** 2 - np.linalg.norm(Y - nearest) ** 2 <= 0.02
    assert found.V.shape[1] <= found.steps <= 800
    over = HazanSpectrahedron(120, accuracy=0.02)
    assert np.linalg.norm(over.project(Y) - nearest) <= over.error
    with pytest.raises(ValueError, match="accuracy must be positive"):
        approximate_projection(Y, 0.0)


def test_sparse_matrices_are_problems_too():
    A = matrices(4, 3, 5)
    A[np.abs(A) < 0.3] = 0
    dense, sparse = SemidefiniteFeasibility(A), SemidefiniteFeasibility([sp.csr_array(one) for one in A])
    assert sparse.scale == pytest.approx(dense.scale)
    assert sparse.round_reads <= dense.round_reads == 4 + 9
    p = np.full(4, 0.25)
    assert sparse.bound(p) == pytest.approx(dense.bound(p))
