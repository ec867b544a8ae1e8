"""Algorithm 3: the same game as Algorithm 2, and as the survey's lines; what it promises, and what it proves."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import solve
from maxmargin.data import SymmetricMatrices
from maxmargin.game.sets import Spectrahedron
from maxmargin.problems import SemidefiniteFeasibility, factor
from maxmargin.sdp.projection import HazanSpectrahedron, approximate_projection
from maxmargin.sdp.sublinear import METHODS, EigenvectorSteps
from maxmargin.solvers import OTHER_SOLVERS, LazyGradient, PrimalDual, SublinearSdp, decide, decided


def matrices(m, n, seed, shift=0.0, share=1.0):
    """Of Frobenius norm 1; the more negative the shift, the less feasible."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, n, n)) * (rng.random((m, n, n)) < share)
    A = A + A.transpose(0, 2, 1) + shift * np.eye(n)
    return A / np.linalg.norm(A, axis=(1, 2))[:, None, None]


def plain(A, T, project, rng):
    """Algorithm 3 line by line."""
    m, n, _ = A.shape
    Y, w, eta, total = np.zeros((n, n)), np.ones(m), np.sqrt(np.log(m) / T), np.zeros((n, n))  # line 2
    for _ in range(T):
        p, X = w / w.sum(), project(Y)  # line 4
        i = np.searchsorted(np.cumsum(p), rng.random(), side="right")  # line 5
        Y = Y + A[i] / np.sqrt(2 * T)  # line 6
        u = rng.random()
        if X.any():
            k = np.searchsorted(np.cumsum(X.ravel() ** 2), u * np.sum(X**2), side="right")  # line 7
            v = A.reshape(m, -1)[:, k] * np.sum(X**2) / X.ravel()[k]  # line 9
            v = np.clip(v, -1 / eta, 1 / eta)  # line 10
            w = w * (1 - eta * v + eta**2 * v**2)  # line 11
            w = w / w.max()
        total += X
    return total / T  # line 14


@pytest.mark.parametrize("exactly", [True, False])
@pytest.mark.parametrize("method", ["exact", "projection"])
def test_the_lines_of_algorithm_3(method, exactly):
    A = matrices(6, 4, 0)
    problem = SemidefiniteFeasibility(A, scale=1.0)
    solver = SublinearSdp(eps=0.6, method=method, exactly=exactly, constant=1.0)
    T = solver.iterations(problem)
    result = solve(problem, solver, random_state=3)
    assert result.n_iter == T > 30

    def project(Y):
        if method == "exact":
            return Spectrahedron(4, exactly).project(Y)
        return approximate_projection(Y, accuracy=0.3**2, exactly=exactly).X

    X = plain(A, T, project, np.random.default_rng(3))
    np.testing.assert_allclose(result.solution.w, X / np.trace(X), atol=1e-9)
    # No entry is drawn of X = 0.
    assert result.reads["learning"] == T * (6 + 16) if exactly else T * 16 < result.reads["learning"] < T * (6 + 16)


def test_it_is_the_generic_game():
    """With the exact projection, the same as Algorithm 2 with the player that a user would give; on the same draws."""
    A = matrices(8, 5, 1)
    special = solve(SemidefiniteFeasibility(A), SublinearSdp(eps=0.4, constant=1.0), random_state=0)
    player = LazyGradient(Spectrahedron(5, exactly=True))
    generic = solve(SemidefiniteFeasibility(A), PrimalDual(player, eps=0.4, constant=1.0), random_state=0)
    assert special.n_iter == generic.n_iter
    np.testing.assert_array_equal(special.solution.w, generic.solution.w)
    np.testing.assert_array_equal(special.solution.p, generic.solution.p)
    assert OTHER_SOLVERS["sublinear_sdp"] is SublinearSdp


@pytest.mark.parametrize("method", METHODS)
def test_dense_sparse_and_by_entry_are_one(method):
    A = matrices(10, 6, 2, share=0.3)
    told = SymmetricMatrices.by_entry(10, 6, lambda i, j, l: A[i, j, l])
    solver = SublinearSdp(eps=0.5, method=method, constant=1.0)
    results = [
        solve(SemidefiniteFeasibility(way, scale=1.0001), solver, max_iter=60, random_state=1)
        for way in (A, sp.csr_array(A.reshape(10, 36)), told)
    ]
    dense, sparse, by_entry = (result.reads for result in results)
    for result in results[1:]:
        np.testing.assert_allclose(result.solution.w, results[0].solution.w, atol=1e-12)
        np.testing.assert_allclose(result.solution.p, results[0].solution.p, atol=1e-12)
    assert dense["learning"] == by_entry["learning"] == sparse["learning, dense count"] == 60 * (10 + 36)
    assert 0 < sparse["learning"] < 0.7 * dense["learning"]


def test_a_budget_is_kept():
    problem = SemidefiniteFeasibility(matrices(10, 6, 2))
    result = solve(problem, SublinearSdp(eps=0.5), budget=1000, random_state=0)
    assert result.status == "budget"
    assert result.reads["learning"] == 21 * (10 + 36)


# What is promised


@pytest.mark.parametrize("shift", [2.0, 0.0, -3.0])
def test_the_promise(exact, shift):
    """By the theorem each run keeps it with probability 1/2; it is for the worst case, and all of these do."""
    A = matrices(8, 4, 0, shift)
    problem, best = SemidefiniteFeasibility(A, scale=1.0), exact.semidefinite_form(A).value
    for seed in range(2):
        result = solve(problem, SublinearSdp(eps=0.5), random_state=seed)
        assert result.status == "finished"
        assert result.promise == {"eps": 0.5, "failure_probability": 0.5}
        assert best - 0.5 <= result.certificate.primal <= best + 1e-9
        assert result.certificate.dual >= best - 1e-9
        assert result.certificate.gap < 0.5


def test_the_promise_with_hazans_projection(exact):
    A = matrices(4, 3, 1)
    best = exact.semidefinite_form(A).value
    solver = SublinearSdp(eps=0.8, method="projection")
    for seed in range(2):
        result = solve(SemidefiniteFeasibility(A, scale=1.0), solver, random_state=seed)
        assert best - 0.8 <= result.certificate.primal <= best + 1e-9
    # Half of eps is for the projection.
    assert result.n_iter == SublinearSdp(eps=0.4).iterations(SemidefiniteFeasibility(A))


def test_the_promise_without_projections(exact):
    """min_i A_i.X + min(0, least eigenvalue of X) >= sigma - eps for the mean itself; the answer is in the set."""
    A = matrices(8, 4, 0, 2.0)
    problem, best = SemidefiniteFeasibility(A, scale=1.0), exact.semidefinite_form(A).value
    for seed in range(2):
        result = solve(problem, SublinearSdp(eps=0.5, method="eigenvector"), random_state=seed)
        assert (result.status, result.promise) == ("finished", {})  # the theorem is not about the answer
        run = result.state.run
        mean = run.sum_x / run.T
        assert np.trace(mean) == pytest.approx(1)
        assert np.linalg.norm(mean) <= 1 + 1e-9
        least = np.linalg.eigvalsh(mean)[0]
        assert problem.values(mean).min() + min(0.0, least) >= best - 0.5
        assert least >= -0.5
        assert np.linalg.eigvalsh(result.solution.w)[0] >= -1e-9
        assert result.certificate.primal <= best + 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_near_the_best_in_far_fewer_rounds(exact, method):
    """The constant of the theorem is for the worst case: with 1, T is a hundred times smaller."""
    A = matrices(20, 5, 4, 1.0)
    best = exact.semidefinite_form(A).value
    solver = SublinearSdp(eps=0.2, method=method, constant=1.0)
    result = solve(SemidefiniteFeasibility(A, scale=1.0), solver, random_state=0)
    assert result.n_iter < 10_000
    assert best - 0.2 <= result.certificate.primal <= best <= result.certificate.dual + 1e-9


def test_several_runs_give_confidence():
    problem = SemidefiniteFeasibility(matrices(6, 3, 0))
    solver = SublinearSdp(eps=0.5, constant=1.0, confidence=0.9)
    result = solve(problem, solver, random_state=0)
    assert result.n_iter == 4 * solver.game(problem).rounds(problem)
    assert result.promise == {}
    assert replace(solver, constant=23).promise(problem) == {"eps": 0.5, "failure_probability": 1 / 16}
    assert result.reads["choosing"] > 0


# What is proved


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("shift", "word"), [(4.0, "feasible"), (-5.0, "infeasible")])
def test_a_program_is_decided(exact, method, shift, word):
    A = matrices(12, 5, 3, shift)
    best = exact.semidefinite_form(A).value
    assert (best > 0) == (word == "feasible")
    problem = SemidefiniteFeasibility(A)
    solver = SublinearSdp(eps=0.1, method=method, constant=1.0)
    result = solve(problem, solver, certify="checks", callback=decided, random_state=0)
    assert result.status == "callback"
    assert str(result.certificate).startswith(word + ":")
    if word == "infeasible":
        p = result.solution.p
        assert p.min() >= 0
        assert p.sum() == pytest.approx(1)
        assert np.linalg.eigvalsh(np.einsum("i,ijl->jl", p, A))[-1] < 0
    else:
        V = factor(result.solution.w)
        assert problem.X.products(factor=V).min() >= -1e-9


def test_decide_tries_harder_until_it_knows(exact):
    A = matrices(12, 5, 3, -2.0)
    best = exact.semidefinite_form(A).value
    assert 0 < abs(best) < 0.2
    problem = SemidefiniteFeasibility(A)
    result = decide(problem, eps=0.01, random_state=0)
    assert str(result.certificate).startswith("feasible" if best > 0 else "infeasible")
    rough = decide(problem, eps=0.9, constant=0.1, random_state=0)
    assert rough.status in ("finished", "callback")
    assert decide(problem, max_time=1e-9, random_state=0).status in ("max_time", "callback")


def test_nothing_is_proved_infeasible_with_a_trace_of_at_most_one():
    """X goes to 0, and its value with it; the bound is of trace 1 all the same."""
    problem = SemidefiniteFeasibility(np.array([-np.eye(3)]))
    result = solve(problem, SublinearSdp(eps=0.3, exactly=False, constant=1.0), random_state=0)
    assert not result.state.run.sum_x.any()
    assert str(result.certificate).startswith("infeasible")


def test_one_matrix_of_one_row():
    for value, word in ((2.0, "feasible"), (-2.0, "infeasible")):
        problem = SemidefiniteFeasibility(np.array([[[value]]]))
        for method in METHODS:
            result = solve(problem, SublinearSdp(eps=0.3, method=method, constant=1.0), random_state=0)
            assert str(result.certificate).startswith(word)
            np.testing.assert_array_equal(result.solution.w, [[1.0]])


# Players


@pytest.mark.parametrize(
    "over", [Spectrahedron(4), Spectrahedron(4, exactly=True), HazanSpectrahedron(4, accuracy=0.04)]
)
@pytest.mark.parametrize("kind", ["random", "one", "against"])
def test_the_regret_of_lazy_gradients(over, kind):
    """Lemma 4.5: against random matrices, always the same one, and one that is the worst for X each time."""
    T, rng, player = 300, np.random.default_rng(0), LazyGradient(over)
    A = matrices(T, 4, 0)
    state, gained, total = player.start(T), 0.0, np.zeros((4, 4))
    for t in range(T):
        g = {"random": A[t], "one": A[0], "against": np.sign(rng.normal()) * A[t] - state.x}[kind]
        g = g / max(1.0, np.linalg.norm(g))
        gained += np.vdot(g, state.x)
        total += g
        player.update(state, g)
    assert over.support(total) - gained <= player.regret(T)


def test_the_regret_of_eigenvector_steps():
    """sum A_t.X_t + least eigenvalues >= the best of any positive X, less the regret."""
    T, player = 400, EigenvectorSteps(4, accuracy=0.01)
    A = matrices(T, 4, 0, 1.0)
    state, gained = player.start(T), 0.0
    for g in A:
        gained += np.vdot(g, state.x) + min(0.0, np.linalg.eigvalsh(state.x)[0])
        player.update(state, g)
    assert Spectrahedron(4, exactly=True).support(A.sum(axis=0)) - gained <= player.regret(T)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"eps": 0.0}, "eps must be between 0 and 1"),
        ({"eps": 1.5}, "eps must be between 0 and 1"),
        ({"method": "interior"}, "method must be one of exact, projection, eigenvector"),
        ({"method": "eigenvector", "exactly": False}, "trace 1"),
        ({"confidence": 1.0}, "confidence"),
        ({"constant": 0.0}, "constant"),
    ],
)
def test_bad_parameters(given, message):
    with pytest.raises(ValueError, match=message):
        SublinearSdp(**given)


def test_other_problems_are_refused():
    with pytest.raises(TypeError, match="solves a SemidefiniteFeasibility"):
        solve(SemidefiniteFeasibility(np.eye(2)[None]).X, SublinearSdp())
