"""Optimisation of C.X by bisection: the bracket is true, answers are measured, limits are kept."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.problems import SemidefiniteProgram
from maxmargin.solvers import SublinearSdp, solve_sdp

FAST = SublinearSdp(eps=0.1, constant=0.3)
COARSE = SublinearSdp(eps=0.3, constant=0.3)  # a ninth of the rounds, where it does not matter what is found


def optimum(program):
    """The value of a program by an interior point method, over the upper triangle of X by columns."""
    n, m = program.n, program.m
    l, j = np.tril_indices(n)
    weight = np.where(j == l, 1.0, np.sqrt(2))
    rows = np.array([program.A.matrix(i)[j, l] * weight for i in range(m)])
    trace = np.eye(n)[j, l] * weight
    equal, below = program.sense == "=", np.where(program.sense == ">=", -1.0, 1.0)
    exact = program.trace == "exactly"
    zero = [rows[equal], trace[None] if exact else np.empty((0, j.size))]
    free = [(below[:, None] * rows)[~equal], np.empty((0, j.size)) if exact else trace[None]]
    A = np.vstack([*zero, *free, -np.eye(j.size)])
    R = [program.trace_bound]
    b = np.concatenate([program.b[equal], R * exact, (below * program.b)[~equal], R * (not exact), np.zeros(j.size)])
    cones = [
        clarabel.ZeroConeT(int(equal.sum()) + exact),
        clarabel.NonnegativeConeT(int((~equal).sum()) + (not exact)),
        clarabel.PSDTriangleConeT(n),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    nothing = sp.csc_matrix((j.size, j.size))
    q = -program.C[j, l] * weight
    answer = clarabel.DefaultSolver(nothing, q, sp.csc_matrix(A), b, [c for c in cones if c.dim], settings).solve()
    assert "Solved" in str(answer.status)
    return -answer.obj_val


def max_cut(n, seed):
    """A quarter of the Laplacian of a random graph; X has ones on its diagonal."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.random((n, n)) < 0.5, 1).astype(float)
    W += W.T
    A = np.zeros((n, n, n))
    A[np.arange(n), np.arange(n), np.arange(n)] = 1
    return SemidefiniteProgram((np.diag(W.sum(1)) - W) / 4, A, np.ones(n), "=", n, trace="exactly")


def theta(n, edges):
    """Lovasz: max J.X over X of trace 1 with zeros on the edges."""
    A = np.zeros((len(edges), n, n))
    for k, (i, j) in enumerate(edges):
        A[k, i, j] = A[k, j, i] = 1
    return SemidefiniteProgram(np.ones((n, n)), A, np.zeros(len(edges)), "=", 1.0, trace="exactly")


def random_program(seed):
    """All senses, and a trace that may be less."""
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(5, 4, 4))
    M = M + M.transpose(0, 2, 1)
    V = rng.normal(size=(4, 4))
    X = V @ V.T / np.trace(V @ V.T)
    products = np.tensordot(M[1:], X, 2)
    return SemidefiniteProgram(M[0], M[1:], products + np.array([-0.1, 0.1, 0.0, -0.2]), [">=", "<=", "=", ">="], 1.5)


def assert_bracketed(program, result, best):
    """The bound is above the best value; the answer is as far above that at most as what it misses is worth."""
    assert result.bound >= best - 1e-6 * max(1, abs(best))
    missed = program.violations(result.answer.X)
    assert result.answer.value <= result.bound + np.abs(result.y) @ missed + 1e-9
    assert result.answer.value == pytest.approx(program.value(result.answer.X))
    assert result.answer.violation == pytest.approx(missed.max(), abs=1e-12)
    assert result.feasible
    assert (missed / program.norms).max() <= result.accepted + 1e-12
    assert np.trace(result.answer.X) <= program.trace_bound * (1 + 1e-9)
    # Asked for values came from the bracket, which only shrinks.
    bounds = [attempt.bound for attempt in result.tries]
    assert bounds == sorted(bounds, reverse=True)
    assert result.bound == bounds[-1] == pytest.approx(program.bound(result.y), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_theta_of_the_pentagon(seed):
    program = theta(5, [(i, (i + 1) % 5) for i in range(5)])
    result = solve_sdp(program, FAST, tol=0.02, random_state=seed)
    assert_bracketed(program, result, np.sqrt(5))
    assert result.bound <= np.sqrt(5) * 1.25
    assert abs(result.answer.value - np.sqrt(5)) <= 0.6


@pytest.mark.parametrize(
    "make", [lambda: max_cut(5, 0), lambda: max_cut(6, 1), lambda: random_program(0), lambda: random_program(1)]
)
def test_the_optimum_is_bracketed(make):
    program = make()
    best = optimum(program)
    result = solve_sdp(program, FAST, tol=0.02, random_state=0)
    assert_bracketed(program, result, best)
    assert result.bound - best <= 0.25 * abs(best) + 0.1


def test_the_exact_value_of_small_ones():
    """What the tests compare with is right where it is known: the pentagon, and a graph of one edge."""
    assert optimum(theta(5, [(i, (i + 1) % 5) for i in range(5)])) == pytest.approx(np.sqrt(5), abs=1e-6)
    program = max_cut(2, 0)
    program.C[:] = np.array([[1.0, -1.0], [-1.0, 1.0]]) / 4
    assert optimum(program) == pytest.approx(1, abs=1e-6)


def test_an_infeasible_program_is_proved_so():
    A = np.array([np.diag([1.0, 0, 0]), np.diag([0, 1.0, 0])])
    program = SemidefiniteProgram(np.eye(3), A, [0.8, 0.8], ">=", 1.0)
    result = solve_sdp(program, FAST, random_state=0)
    assert result.status == "infeasible"
    assert result.bound == -np.inf
    assert not result.feasible
    # By hand: no X of that trace has so large a sum of what is asked.
    assert program.trace_bound * max(0, np.linalg.eigvalsh(program.A.combination(result.y))[-1]) < program.b @ result.y
    assert "no X is feasible" in str(result)


def test_the_middle_of_all_points_is_tried_first():
    program = max_cut(5, 0)  # which it is feasible for
    program.C[:] = 0
    result = solve_sdp(program, FAST, random_state=0)
    assert result.status == "tol"
    assert result.tries == []
    np.testing.assert_allclose(result.answer.X, np.eye(5), atol=1e-9)
    assert result.entries_read == 0


def test_without_an_objective_any_feasible_point_will_do():
    program = random_program(0)
    program.C[:] = 0
    result = solve_sdp(program, FAST, random_state=0)
    assert result.status == "tol"
    assert result.feasible
    assert len(result.tries) == 1
    assert np.isnan(result.tries[0].asked)


@pytest.mark.parametrize("method", ["projection", "eigenvector"])
def test_every_method_brackets(method):
    program = theta(5, [(i, (i + 1) % 5) for i in range(5)])
    result = solve_sdp(
        program, SublinearSdp(eps=0.2, method=method, constant=0.3), tol=0.05, max_tries=4, random_state=0
    )
    assert_bracketed(program, result, np.sqrt(5))


def test_sparse_constraints_give_the_same_bits():
    dense = max_cut(5, 0)
    csr = sp.csr_array(np.array([dense.A.matrix(i) for i in range(5)]).reshape(5, 25))
    sparse = SemidefiniteProgram(dense.C, csr, dense.b, "=", 5, trace="exactly")
    results = [solve_sdp(program, COARSE, max_tries=3, random_state=1) for program in (dense, sparse)]
    np.testing.assert_allclose(results[0].answer.X, results[1].answer.X, atol=1e-9)
    assert results[1].entries_read < results[0].entries_read


def test_the_same_seed_gives_the_same_answer():
    program = theta(5, [(0, 1), (1, 2)])
    one, two = (solve_sdp(program, COARSE, max_tries=3, random_state=7) for _ in range(2))
    np.testing.assert_array_equal(one.answer.factor, two.answer.factor)
    assert one.bound == two.bound


def test_limits_are_kept_and_what_was_found_is_kept_too():
    program = theta(5, [(i, (i + 1) % 5) for i in range(5)])
    round_reads = program.feasibility(1.0).round_reads
    seen = []
    result = solve_sdp(program, FAST, callback=lambda attempt: seen.append(attempt) or len(seen) == 2, random_state=0)
    assert result.status == "callback"
    assert seen == result.tries
    result = solve_sdp(program, FAST, max_tries=2, tol=1e-6, random_state=0)
    assert result.status == "max_tries"
    before = program.ledger.entries_read
    result = solve_sdp(program, FAST, budget=100 * round_reads, tol=1e-6, random_state=0)
    assert result.status == "budget"
    assert program.ledger.entries_read - before <= 100 * round_reads
    assert sum(attempt.entries_read for attempt in result.tries) == program.ledger.entries_read - before
    result = solve_sdp(program, FAST, max_time=1e-9, random_state=0)
    assert result.status == "max_time"
    assert result.answer.factor.shape[0] == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 0.0}, "tol must be positive"),
        ({"max_tries": 0}, "max_tries must be at least 1"),
        ({"max_time": 0.0}, "max_time must be positive"),
        ({"budget": -1}, "budget must be positive"),
        ({"accepted": 0.0}, "accepted must be positive"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        solve_sdp(theta(2, [(0, 1)]), FAST, **options)
