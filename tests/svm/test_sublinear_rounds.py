"""What SIMBA and the sublinear perceptrons promise: what their theorems say, and nothing where no theorem does."""

import numpy as np
import pytest

from maxmargin.problems import SlackSVM
from maxmargin.solvers import KernelSublinearPerceptron, Simba, SublinearPerceptron, solve

PROMISED = {"eps": 0.9, "failure_probability": 0.5}
SOLVERS = [
    Simba(method="paper", eps=0.9),
    Simba(method="paper", eps=0.9, lagged=True, rows=2, columns=3),
    SublinearPerceptron(eps=0.9),
    KernelSublinearPerceptron(eps=0.9),
]


def make_problem(n=6, slack=0.0, bias=False, weights=None):
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = np.random.default_rng(0).normal(size=(n, 3)) + y[:, None]
    return SlackSVM(X, y, slack, bias=bias, sample_weight=weights)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_what_the_theorems_are_about(solver):
    assert solver.promise(make_problem()) == PROMISED
    assert solver.promise(make_problem(weights=np.full(6, 2.0))) == PROMISED
    assert solver.promise(make_problem(n=8, weights=[0, 0, 1, 1, 1, 1, 1, 1])) == PROMISED


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
@pytest.mark.parametrize(
    "kind",
    [
        {"bias": True},
        {"n": 5},
        {"n": 8, "weights": [0, 0, 0, 1, 1, 1, 1, 1]},
        {"weights": [1, 1, 1, 1, 1, 2]},
        {"slack": 1.5},
    ],
    ids=str,
)
def test_nothing_is_promised_of_other_problems(solver, kind):
    assert solver.promise(make_problem(**kind)) == {}


def test_parameters_without_a_theorem():
    problem = make_problem()
    assert Simba().promise(problem) == Simba(method="paper").promise(problem) == {}
    assert Simba(method="paper", eps=0.9, tolerance=0.1).promise(problem) == {}
    assert SublinearPerceptron(eps=0.9, constant=29).promise(problem) == {}


def test_the_promise_of_a_run():
    """The theorem is for the worst case: no seed was seen to fail, where half of them may."""
    for bias, promised in ((False, PROMISED), (True, {})):
        problem = make_problem(n=20, bias=bias)
        result = solve(problem, SublinearPerceptron(eps=0.9), random_state=0)
        assert (result.status, result.promise) == ("finished", promised)
