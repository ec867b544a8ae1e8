"""What the loop does whatever the solver: stop rules, certificates, Ctrl-C, runs that continue from a result."""

import signal

import matplotlib.pyplot as plt
import numpy as np
import pytest
from solver_cases import FEW_CASES

from maxmargin.problems import RegularizedSVM, Solution
from maxmargin.solvers import Solver, Step, solve


@pytest.fixture(params=FEW_CASES)
def case(request):
    return FEW_CASES[request.param]


def test_early_stopping_needs_a_holdout(case):
    with pytest.raises(ValueError, match="early_stopping needs a holdout"):
        case.solve(early_stopping=True)


@pytest.mark.parametrize("limit", ["max_iter", "max_time", "budget"])
def test_limits_are_positive(case, limit):
    with pytest.raises(ValueError, match=f"{limit} must be positive or None; got 0"):
        case.solve(**{limit: 0})


def test_one_iteration_is_made_however_short_the_time(case):
    assert case.solve(max_time=1e-9, random_state=0).n_iter == 1


def test_no_tolerance_is_a_tolerance_of_nothing(case):
    result = case.solve(tol=0.0, max_iter=30, random_state=0)
    assert result.status == "max_iter" or (result.status, result.certificate.gap) == ("tol", 0)


def test_certified_once(case):
    problem = case.problem()
    result = case.solve(problem, max_iter=50, random_state=0)
    assert result.certificate.gap >= 0
    assert result.evaluation.value == pytest.approx(result.certificate.primal)
    assert result.solution.b == result.evaluation.b
    assert result.trace[-1].gap == result.certificate.gap
    assert np.isnan(result.trace.column("gap")[:-1]).all()


class Wanderer(Solver):
    """Its second solution is good, and its estimates say so; later ones are worse."""

    solves = RegularizedSVM

    def start(self, problem, rng, warm=None):
        return [0]

    def step(self, problem, state, iterations, budget):
        state[0] += iterations
        return Step(iterations)

    def next_check(self, problem, state, done):
        return done + 1

    def solution(self, problem, state):
        return Solution(np.array([1.0 if state[0] == 2 else 5.0 + state[0]]))

    def estimated_gap(self, problem, state):
        return 0.0 if state[0] == 2 else 0.9


def test_the_best_certified_solution_is_kept():
    problem = RegularizedSVM(np.array([[1.0], [-1.0], [0.5]]), [1, -1, -1])
    result = solve(problem, Wanderer(), tol=1e-9, max_iter=5)
    assert (result.status, result.n_iter, result.best_iter) == ("max_iter", 5, 2)
    assert result.solution.w == [1.0]


def test_the_trace_can_be_drawn(case):
    result = case.solve(max_iter=50, certify="checks", random_state=0)
    picture = result.trace.plot()
    picture.figure_.canvas.draw()
    plt.close(picture.figure_)


def test_a_warm_start_that_has_nothing_left_to_do(case):
    first = case.solve(max_iter=30, random_state=0)
    again = case.solve(max_iter=30, warm=first)
    assert (again.n_iter, again.status) == (30, "max_iter")


def test_a_result_can_be_gone_on_from_once(case):
    first = case.solve(max_iter=10, random_state=0)
    case.solve(max_iter=20, warm=first)
    with pytest.raises(ValueError, match="has already continued from this result"):
        case.solve(max_iter=20, warm=first)


# Ctrl-C


def test_ctrl_c_before_the_first_iteration_raises(case, ctrl_c, monkeypatch):
    start = type(case.solver).start

    def interrupted(*arguments):
        ctrl_c()
        return start(*arguments)

    monkeypatch.setattr(type(case.solver), "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        case.solve(max_iter=10)


def test_ctrl_c_during_the_certificate_is_not_lost(case, ctrl_c, monkeypatch):
    problem = case.problem()
    evaluate = problem.evaluate
    monkeypatch.setattr(problem, "evaluate", lambda *given, **more: (ctrl_c(), evaluate(*given, **more))[1])
    monkeypatch.setattr("maxmargin.engine.result.TIGHTENING_ROUNDS", 0)
    assert case.solve(problem, max_iter=10, random_state=0).status == "interrupted"


def test_ctrl_c_twice_in_a_row_stops_a_search_over_many_fits(case, ctrl_c):
    def interrupt(progress):
        if progress.row.iteration >= 5:
            ctrl_c()

    assert case.solve(max_iter=100, callback=interrupt).status == "interrupted"
    with pytest.raises(KeyboardInterrupt):
        case.solve(max_iter=100, callback=interrupt)


def test_a_second_ctrl_c_raises(case, ctrl_c):
    def impatient(progress):
        ctrl_c()
        ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        case.solve(max_iter=1000, callback=impatient)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert case.solve(max_iter=5).status == "max_iter"


def test_a_handler_of_ones_own_is_left_alone(case, ctrl_c):
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    result = case.solve(max_iter=5, callback=lambda progress: ctrl_c(), random_state=0)
    assert result.status == "max_iter"
    assert len(heard) == len(result.trace)
