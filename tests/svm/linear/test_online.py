"""Online solvers go on with rows that come later."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from maxmargin.engine.problem import Trait
from maxmargin.problems import RegularizedSVM, SlackSVM
from maxmargin.solvers import SOLVERS, Holdout, Learned, Pegasos, Perceptron, solve

ONLINE = {name: solver() for name, solver in SOLVERS.items() if solver.online} | {
    "pegasos, last": Pegasos(average=None),
    "pegasos, batch of 10": Pegasos(batch=10, free_bias="batch"),
    "perceptron, last": Perceptron(average=False),
}
BIASES = [{"bias": True}, {"bias": False}, {"intercept_scaling": 2.0}]


def clouds(n, seed=0, distance=1.0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    return rng.normal(size=(n, 5)) + distance * y[:, None] + 0.5, y


def problem_for(solver, X, y, **options):
    """The same lambda for any number of rows, or the same scale."""
    if solver.solves is RegularizedSVM:
        return RegularizedSVM(X, y, 10.0 / len(y), **options)
    options.pop("intercept_scaling", None)
    return SlackSVM(X, y, 0.1, scale=20.0, **options)


@pytest.fixture(params=ONLINE)
def solver(request):
    return ONLINE[request.param]


@pytest.mark.parametrize("bias", BIASES, ids=str)
def test_rows_in_two_parts_are_as_good_as_at_once(solver, bias):
    """In their own order; what was learned in between can be pickled."""
    solver = replace(solver, order="given")
    X, y = clouds(200)
    whole = problem_for(solver, X, y, **bias)
    at_once = solve(whole, solver, max_iter=solver.iterations_per_pass(whole), certify=False)
    learned = None
    for part in (slice(0, 100), slice(100, 200)):
        problem = problem_for(solver, X[part], y[part], **bias)
        result = solve(problem, solver, max_iter=solver.iterations_per_pass(problem), certify=False, warm=learned)
        assert (result.n_iter, result.trace[-1].iteration) == (solver.iterations_per_pass(problem),) * 2
        learned = pickle.loads(pickle.dumps(solver.learned(problem, result.state)))
    wanted = solver.learned(whole, at_once.state)
    assert learned.t == wanted.t
    assert learned.weights == pytest.approx(wanted.weights)
    for found, expected in ((learned.w, wanted.w), (learned.mean_w, wanted.mean_w)):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    for found, expected in ((learned.b, wanted.b), (learned.mean_b, wanted.mean_b)):
        assert found == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(result.solution.w, at_once.solution.w, rtol=1e-9)
    assert result.solution.b == pytest.approx(at_once.solution.b, rel=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_stream_is_learned_from(solver, loss):
    """Ten batches of a hundred rows, each seen once: new rows are told apart about as well as they can be."""
    options = {"loss": loss} if solver.solves is RegularizedSVM else {}
    new = Holdout(*clouds(2000, seed=99))
    learned, errors = None, []
    for seed in range(10):
        problem = problem_for(solver, *clouds(100, seed=seed), **options)
        result = solve(problem, solver, max_iter=solver.iterations_per_pass(problem), warm=learned, random_state=seed)
        learned = solver.learned(problem, result.state)
        answer = solver.solution(problem, result.state)
        errors.append(new.error(answer, problem.scale))
        # The certificate is one for the rows at hand, on which the predictor was not made alone.
        assert result.certificate.gap >= 0
    assert learned.t == 10 * solver.iterations_per_pass(problem)
    assert errors[-1] <= 0.1  # the best possible is 0.013; the last w of a perceptron is not steady


def test_what_was_learned_is_not_changed_by_going_on(solver):
    problem = problem_for(solver, *clouds(100))
    learned = solver.learned(problem, solve(problem, solver, max_iter=20).state)
    kept = pickle.dumps(learned)
    for _ in range(2):  # nor is it used up
        solve(problem_for(solver, *clouds(100, seed=1)), solver, max_iter=20, warm=learned)
    assert pickle.dumps(learned) == kept


def test_rows_that_do_not_fit(solver):
    problem = problem_for(solver, *clouds(100))
    learned = solver.learned(problem, solve(problem, solver, max_iter=20).state)
    X, y = clouds(100)
    with pytest.raises(ValueError, match="what was learned has 5 weights, but the new rows have 3 columns"):
        solve(problem_for(solver, X[:, :3], y), solver, warm=learned)
    with pytest.raises(
        ValueError, match=r"divided by 7.0, the new rows are divided by .*: make .* scale=learned.scale"
    ):
        solve(problem, solver, warm=replace(learned, scale=7.0))


@pytest.mark.parametrize("name", [name for name, solver in SOLVERS.items() if not solver.online])
def test_other_solvers_say_that_they_are_not_online(name):
    solver = SOLVERS[name]()
    X, y = clouds(50, distance=3.0)
    loss = {"loss": "squared_hinge"} if Trait.SMOOTH_LOSS in solver.requires else {}
    problem = SlackSVM(X, y, 0.0) if solver.solves is SlackSVM else RegularizedSVM(X, y, **loss)
    with pytest.raises(TypeError, match=rf"solver '{name}' cannot go on with other rows; pegasos, perceptron can"):
        solver.learned(problem, None)
    with pytest.raises(TypeError, match="cannot go on with other rows"):
        solve(problem, solver, warm=Learned(1, np.zeros(5), 0.0, np.zeros(5), 0.0, 0.0))
