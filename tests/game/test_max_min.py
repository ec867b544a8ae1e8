"""Max-min problems told by functions: what is certified, what is counted, and functions that are wrong."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from maxmargin import solve
from maxmargin.game.sets import Ball, Simplex
from maxmargin.problems import MaxMin
from maxmargin.solvers import LazyGradient, PrimalDual


def game(A, **changes):
    """The value of a mixed move x of the one who chooses columns: the least row of A x."""
    n, d = A.shape
    told = {
        "sample": lambda x, rng: A[:, rng.choice(d, p=x / x.sum())],
        "gradient": lambda i, x: A[i],
        "values": lambda x: A @ x,
        "bound": lambda p: Simplex(d).support(A.T @ p),
        "reads": (n, d, n * d),
    }
    return MaxMin(n, **(told | changes))


def value_of(A):
    """The value of the game, by a linear program: max v such that A x >= v, x on the simplex."""
    n, d = A.shape
    answer = linprog(
        np.r_[np.zeros(d), -1.0],
        A_ub=np.column_stack([-A, np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=[np.r_[np.ones(d), 0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * d + [(None, None)],
    )
    return -answer.fun


@settings(max_examples=50, deadline=None)
@given(
    arrays(float, (4, 3), elements=st.floats(-1, 1, width=16)),
    arrays(float, 3, elements=st.floats(0.01, 1)),
    arrays(float, 4, elements=st.floats(0, 1)),
)
def test_the_best_value_is_between_value_and_bound(A, x, p):
    certificate = game(A).certify(x / x.sum(), p)
    best = value_of(A)
    assert certificate.primal <= best + 1e-7
    assert certificate.dual >= best - 1e-7
    assert certificate


def test_an_optimum_is_certified():
    A = np.array([[1.0, -1.0], [-1.0, 1.0]])
    certificate = game(A).certify(np.array([0.5, 0.5]), np.array([2.0, 2.0]))
    assert (certificate.primal, certificate.dual) == (0.0, 0.0)
    assert str(certificate) == "the value 0 is the best possible to within 0"


def test_what_is_read_is_counted():
    A = np.eye(3)
    problem = game(A)
    x, rng = np.full(3, 1 / 3), np.random.default_rng(0)
    problem.sample(x, rng)
    problem.gradient(1, x)
    assert problem.ledger.entries_read == 3 + 3 == problem.round_reads
    with problem.ledger.on("certificate"):
        problem.certify(x, x)
    assert problem.ledger.summary() == {"learning": 6, "learning, dense count": 6, "certificate": 18}


def test_without_a_bound_nothing_is_proved_but_the_value_is_there():
    problem = game(np.eye(3), bound=None)
    certificate = problem.certify(np.full(3, 1 / 3))
    assert not certificate
    assert certificate.primal == pytest.approx(1 / 3)
    assert math.isnan(certificate.dual)
    assert "has no `bound`" in str(certificate)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sample": lambda x, rng: np.zeros(2)}, r"sample\(x\) gave an array of shape \(2,\); expected \(3,\)"),
        ({"sample": lambda x, rng: np.array([0, np.nan, 0])}, r"sample\(x\) gave nan for i = 1"),
        ({"gradient": lambda i, x: np.zeros(4)}, r"gradient\(\d, x\) gave an array of shape \(4,\); expected"),
        ({"gradient": lambda i, x: np.full(3, np.inf)}, r"gradient\(\d, x\) gave inf as an entry"),
        ({"values": lambda x: 0.5}, r"values\(x\) gave an array of shape \(\); expected \(3,\)"),
        ({"values": lambda x: np.full(3, np.nan)}, r"values\(x\) gave nan for i = 0"),
        ({"bound": lambda p: math.nan}, r"bound\(p\) gave NaN"),
    ],
)
def test_functions_that_give_something_else(changes, message):
    with pytest.raises(ValueError, match=message):
        solve(game(np.eye(3), **changes), PrimalDual(LazyGradient(Simplex(3))), max_iter=5, random_state=0)


@pytest.mark.parametrize("n", [0, -1, 2.5, "many"])
def test_a_number_of_functions_is_needed(n):
    with pytest.raises(ValueError, match="needs at least one function c_i; got n="):
        MaxMin(n, sample=None, gradient=None, values=None)


@pytest.mark.parametrize("reads", [(1, 2), (1, 2, -3)])
def test_three_counts_are_needed(reads):
    with pytest.raises(ValueError, match="reads must be three counts"):
        game(np.eye(2), reads=reads)


def test_a_subclass_may_say_all_by_its_methods():
    class Norms(MaxMin):
        """The farthest that one can be from all of a few points on the sphere, by products."""

        def __init__(self, A):
            self._set_counts(len(A), (len(A), A.shape[1], A.size))
            self.A = A

        def sample(self, x, rng):
            return self.A @ x

        def gradient(self, i, x):
            return self.A[i]

        def values(self, x):
            return self.A @ x

        def bound(self, p):
            return Ball(2).support(self.A.T @ p)

    result = solve(
        Norms(np.array([[1.0, 0.0], [0.0, 1.0]])),
        PrimalDual(LazyGradient(Ball(2)), eps=0.2, constant=1),
        random_state=0,
    )
    assert result.certificate.primal == pytest.approx(1 / math.sqrt(2), abs=0.2)
    assert result.certificate.gap < 0.2
