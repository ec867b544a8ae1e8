"""Semidefinite programs: the form that is solved, there and back, and what multipliers prove."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.problems import SemidefiniteProgram
from maxmargin.sdp.program import implied_trace


def symmetric(rng, *shape):
    M = rng.normal(size=shape)
    return M + np.swapaxes(M, -1, -2)


def positive(rng, n, trace):
    V = rng.normal(size=(n, rng.integers(1, n + 1)))
    X = V @ V.T
    return X * (trace / np.trace(X))


@st.composite
def programs(draw):
    """A program, and an X of an allowed trace that misses some constraints as a rule."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, m, R = draw(st.integers(1, 4)), draw(st.integers(1, 5)), 10.0 ** draw(st.integers(-3, 3))
    kind = draw(st.sampled_from(["at most", "exactly"]))
    sense = rng.choice([">=", "<=", "="], m)
    program = SemidefiniteProgram(
        symmetric(rng, n, n), symmetric(rng, m, n, n), R * rng.normal(size=m), sense, R, trace=kind
    )
    return program, positive(rng, n, R * (1.0 if kind == "exactly" else rng.random())), rng


def whole_matrices(program, value):
    """A_i'' as the docstring has them."""
    rows = []
    for k, s in zip(program.which, program.signs, strict=True):
        rows.append((s, program.A.matrix(int(k)), program.b[k]))
    if value is not None:
        rows.append((1.0, program.C, value))
    whole = np.zeros((len(rows), program.size, program.size))
    for M, (s, matrix, b) in zip(whole, rows, strict=True):
        M[: program.n, : program.n] = s * program.trace_bound * matrix
        M -= s * b * np.eye(program.size)
        M /= np.linalg.norm(M) or 1.0
    return whole


@settings(max_examples=60, deadline=None)
@given(programs(), st.booleans())
def test_a_point_goes_there_and_back(case, with_value):
    program, X, rng = case
    value = float(rng.normal()) * program.trace_bound if with_value else None
    lifted, A = program.lift(X), program.feasibility(value).X
    assert np.trace(lifted) == pytest.approx(1)
    assert np.linalg.eigvalsh(lifted)[0] >= -1e-12
    np.testing.assert_allclose(program.recover(lifted), X, rtol=1e-9, atol=1e-12 * program.trace_bound)
    short = program.A.products(X) - program.b
    margins = program.signs * short[program.which] / program.norms[program.which]
    if with_value:
        margins = np.append(margins, (program.value(X) - value) / program.value_norm(value))
    np.testing.assert_allclose(A.products(lifted), margins, rtol=1e-7, atol=1e-9)
    # Feasible to within as much on either side.
    missed = program.violations(X, scaled=True).max()
    assert max(0.0, -margins[: program.which.size].min()) == pytest.approx(missed, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(programs())
def test_a_point_of_the_form_becomes_one_of_the_program(case):
    program, _, rng = case
    lifted = positive(rng, program.size, trace := rng.uniform(0.1, 1))
    X = program.recover(lifted)
    assert np.linalg.eigvalsh(X)[0] >= -1e-12 * program.trace_bound
    exact = program.trace == "exactly"
    assert (
        np.trace(X) == pytest.approx(program.trace_bound) if exact else np.trace(X) <= program.trace_bound * (1 + 1e-12)
    )
    margins = program.signs * (program.A.products(X) - program.b)[program.which] / program.norms[program.which]
    np.testing.assert_allclose(program.feasibility().X.products(lifted) / trace, margins, rtol=1e-7, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(programs(), st.booleans())
def test_the_form_reads_as_its_matrices_would(case, with_value):
    program, _, rng = case
    value = float(rng.normal()) * program.trace_bound if with_value else None
    A, whole = program.feasibility(value).X, whole_matrices(program, value)
    assert A.shape == whole.shape
    p, V = rng.random(len(whole)), rng.normal(size=(program.size, 2))
    close = {"rtol": 1e-7, "atol": 1e-9}
    for i in range(len(whole)):
        np.testing.assert_allclose(A.matrix(i), whole[i], **close)
    for j in range(program.size):
        for l in range(program.size):
            np.testing.assert_allclose(A.entries(j, l), whole[:, j, l], **close)
    np.testing.assert_allclose(A.combination(p), np.tensordot(p, whole, 1), **close)
    np.testing.assert_allclose(A.products(factor=V), np.tensordot(whole, V @ V.T, 2), **close)
    np.testing.assert_allclose(A.frobenius(), np.linalg.norm(whole, axis=(1, 2)), **close)


def test_reading_is_counted_in_the_ledger_of_the_program():
    rng = np.random.default_rng(0)
    program = SemidefiniteProgram(symmetric(rng, 3, 3), symmetric(rng, 4, 3, 3), np.ones(4), "=", 1.0)
    A = program.feasibility(0.5).X
    before = program.ledger.entries_read
    A.entries(0, 1)
    assert program.ledger.entries_read - before == 4 + 1
    A.entries(3, 3)  # the added coordinate holds what is known
    assert program.ledger.entries_read - before == 4 + 1
    A.matrix(0)
    assert program.ledger.entries_read - before == 4 + 1 + 9
    assert A.most_per_entry == 5
    assert A.most_per_matrix == 9


# Bounds


def multipliers(program, rng):
    y = np.abs(rng.normal(size=program.m)) / program.trace_bound
    return y * np.select([program.sense == ">=", program.sense == "<="], [1, -1], rng.choice([-1, 1], program.m))


@settings(max_examples=60, deadline=None)
@given(programs())
def test_no_feasible_point_beats_a_bound(case):
    program, X, rng = case
    # The same program, with right-hand sides that X meets, some of them with room.
    room = rng.random(program.m) * (rng.random(program.m) < 0.5)
    side = np.select([program.sense == ">=", program.sense == "<="], [-1, 1], 0)
    A = np.array([program.A.matrix(i) for i in range(program.m)])
    feasible = SemidefiniteProgram(
        program.C, A, program.A.products(X) + side * room, program.sense, program.trace_bound, trace=program.trace
    )
    y, size = multipliers(feasible, rng), feasible.value_norm(0.0)
    assert feasible.violations(X).max() <= 1e-9 * size
    assert feasible.value(X) <= feasible.bound(y) + 1e-9 * size
    bound, best = feasible.best_bound(y)
    assert feasible.value(X) - 1e-9 * size <= bound <= min(feasible.bound(y), feasible.bound(0 * y)) + 1e-9 * size
    assert feasible.bound(best) == pytest.approx(bound, rel=1e-6, abs=1e-9 * size)


@settings(max_examples=60, deadline=None)
@given(programs())
def test_weights_prove_that_a_value_is_impossible_exactly_when_their_multipliers_do(case):
    program, X, rng = case
    value, p = program.value(X), rng.dirichlet(np.ones(program.which.size + 1))
    of_form = np.linalg.eigvalsh(program.feasibility(value).X.combination(p))[-1]
    y = program.multipliers(p, value)
    size = program.value_norm(value) / p[-1]
    assert program.bound(y) - value == pytest.approx(of_form * size, rel=1e-6, abs=1e-9 * size)


def test_the_best_stretch_of_multipliers_is_found():
    program = SemidefiniteProgram(np.diag([2.0, 1.0]), np.diag([1.0, 0.0])[None], [0.25], "<=", 1.0)
    for stretch in (1e-3, 1.0, 1e3):
        bound, y = program.best_bound(np.array([-stretch]))
        assert bound == pytest.approx(1.25, abs=2e-3)
        assert y == pytest.approx(-1.0, abs=5e-3)


@pytest.mark.parametrize("trace", ["at most", "exactly"])
def test_an_infeasible_program_is_proved_so(trace):
    program = SemidefiniteProgram(np.eye(2), np.diag([1.0, 0.0])[None], [2.0], ">=", 1.0, trace=trace)
    assert program.best_bound(np.ones(1))[0] == -np.inf


def test_a_constraint_on_the_trace_alone_says_nothing_where_that_is_fixed():
    A = np.array([np.eye(2), np.diag([1.0, 0.0])])
    program = SemidefiniteProgram(np.eye(2), A, [3.0, 1.0], "=", 3.0, trace="exactly")
    form = program.feasibility().X
    np.testing.assert_allclose(form.matrix(0), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(form.matrix(2)), 1)


def test_the_trace_is_read_off_the_equalities():
    rng = np.random.default_rng(0)
    A = symmetric(rng, 5, 4, 4)
    y = rng.normal(size=4)
    A[4] = np.eye(4) - np.tensordot(y, A[:4], 1)
    b = rng.normal(size=5)
    expected = b @ np.append(y, 1)
    assert implied_trace(A, b) == pytest.approx(expected)
    assert implied_trace(sp.csr_array(A.reshape(5, 16)), b, "=") == pytest.approx(expected)
    assert implied_trace(A, b, ["="] * 4 + ["<="]) is None
    assert implied_trace(A, b, "<=") is None


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": np.eye(3)}, r"C has shape \(3, 3\), but the constraints are 2 x 2"),
        ({"C": np.array([[1.0, 2.0], [0.0, 1.0]])}, "C is not symmetric"),
        ({"C": np.array([[np.nan, 0.0], [0.0, 1.0]])}, r"C\[0, 0\] is nan"),
        ({"A": np.array([[[1.0, 2.0], [0.0, 1.0]]])}, "not symmetric"),
        ({"A": np.full((1, 2, 2), np.nan)}, "NaN"),
        ({"A": np.ones((2, 2))}, "expected m matrices"),
        ({"A": np.ones((0, 2, 2))}, "at least one matrix"),
        ({"b": [1.0, 2.0]}, r"b has shape \(2,\), but there are 1 constraints"),
        ({"b": [np.inf]}, r"b\[0\] is inf"),
        ({"sense": "=="}, "sense holds '=='"),
        ({"sense": ["=", "="]}, "sense has shape"),
        ({"trace_bound": 0.0}, "trace_bound must be a positive number"),
        ({"trace_bound": -1.0}, "trace_bound must be a positive number"),
        ({"trace_bound": np.inf}, "trace_bound must be a positive number"),
        ({"trace_bound": np.nan}, "trace_bound must be a positive number"),
        ({"trace": "about"}, "trace is 'about'"),
    ],
)
def test_what_makes_no_program_is_refused(options, message):
    given = {"C": np.eye(2), "A": np.ones((1, 2, 2)), "b": [1.0], "sense": "=", "trace_bound": 1.0} | options
    with pytest.raises(ValueError, match=message):
        SemidefiniteProgram(**given)


def test_a_value_that_is_no_number_is_refused():
    program = SemidefiniteProgram(np.eye(2), np.ones((1, 2, 2)), [1.0], "=", 1.0)
    with pytest.raises(ValueError, match="value must be a finite number"):
        program.feasibility(float("nan"))
