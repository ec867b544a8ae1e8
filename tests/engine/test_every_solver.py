"""What every solver must do, on each problem that it takes. A new one is tested here by being registered."""

import copy
import functools
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from solver_cases import CASES, each_case, length, numbers_of, same, settled_at, untimed

from maxmargin.engine import loop
from maxmargin.engine.problem import Trait
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.solvers import KernelSublinearPerceptron, solve

TWENTY_PASSES = 20 * 60 * 6  # entries of the linear cases: 60 samples of 6 features


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


# The same seed gives the same bits


@functools.cache
def whole(case):
    """A run that nothing disturbs, to compare with."""
    return case.solve(max_iter=100, certify=False, random_state=0)


def test_same_seed_same_bits(case):
    one, other = (case.solve(max_iter=40, certify="checks", random_state=3) for _ in range(2))
    same(one.solution, other.solution)
    assert untimed(one.trace) == untimed(other.trace)
    assert one.reads == other.reads


def test_another_seed_another_answer(case):
    one, other = (case.solve(max_iter=20, certify=False, random_state=k) for k in range(2))
    if case.solver.deterministic(case.problem()):
        same(one.solution, other.solution)
    else:
        assert (numbers_of(one.solution.w) != numbers_of(other.solution.w)).any()


def test_however_iterations_are_cut_into_chunks(case):
    found = []
    for chunks in ([100], [1] * 100, [7, 13, 1, 30, 49]):
        problem = case.problem()
        state, made = case.solver.start(problem, np.random.default_rng(0)), 0
        for chunk in chunks:
            made += case.solver.step(problem, state, chunk, UNLIMITED).iterations
            with problem.X.ledger.on("looking"):
                case.solver.solution(problem, state)  # it changes nothing
        assert made == min(100, settled_at(case))
        found.append((case.solver.solution(problem, state), problem.X.ledger.entries_read))
    for solution, reads in found[1:]:
        same(solution, found[0][0])
        assert reads == found[0][1]


def test_the_clock_changes_no_bits(case, monkeypatch):
    wanted = whole(case)
    times = np.random.default_rng(0).exponential(0.03, 10**5).cumsum()
    ticks = iter(times)
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    found = case.solve(max_iter=100, certify=False, random_state=0)
    same(found.solution, wanted.solution)
    assert untimed(found.trace) == untimed(wanted.trace)


def test_an_answer_is_not_changed_by_going_on(case):
    first = case.solve(max_iter=20, random_state=0)
    before, rows = copy.deepcopy(first.solution), list(first.trace)
    case.solve(max_iter=40, warm=first)
    same(first.solution, before)
    assert list(first.trace) == rows


def test_in_a_thread(case):
    results = []
    thread = threading.Thread(target=lambda: results.append(case.solve(max_iter=100, certify=False, random_state=0)))
    thread.start()
    thread.join()
    same(results[0].solution, whole(case).solution)


# Stop rules


@each_case(CASES, lambda case: not isinstance(case.solver, KernelSublinearPerceptron))  # its first round reads no K
def test_a_budget_too_small_for_one_iteration(case):
    problem = case.problem()
    with pytest.raises(ValueError, match=rf"budget of 2 .*too small for one iteration of '{case.solver.name}'"):
        case.solve(problem, budget=2, random_state=0)
    assert problem.X.ledger.entries_read <= 2


def test_max_iter_is_exact(case):
    for max_iter in (1, 2, 37):
        result = case.solve(max_iter=max_iter, random_state=0)
        settled = settled_at(case) < max_iter
        assert result.status == ("finished" if settled else "max_iter")
        assert result.trace[-1].iteration == result.n_iter == (settled_at(case) if settled else max_iter)
        assert result.promise == {}


def test_default_end(case):
    problem = case.problem()
    end = case.solver.iterations(problem) or case.solver.default_iterations(problem)
    if end > 50_000:
        pytest.skip("too long")
    result = case.solve(problem, tol=None, random_state=0)
    if result.status == "tol":  # it has a tolerance of its own
        assert result.certificate.relative_gap <= case.solver.default_tol
        return
    assert result.n_iter == end
    if case.solver.iterations(problem) is None:
        assert (result.status, result.promise) == ("max_iter", {})
    else:
        assert (result.status, result.promise) == ("finished", case.solver.promise(problem))


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by a hundredth of a second each time somebody looks."""
    ticks = iter(range(10**9))
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(ticks) / 100))


def test_max_time(case, clock):
    result = case.solve(max_time=0.5, random_state=0)
    assert result.status == "max_time"
    assert result.n_iter > 0
    assert 0.4 <= result.trace[-1].seconds <= 0.7


def test_tol(case):
    result = case.solve(tol=0.9, random_state=0)
    assert result.status == "tol"
    assert 0 <= result.certificate.relative_gap <= 0.9


# Certificates


def test_certified_at_every_check(case):
    for bias in case.biases:
        problem = case.problem(**bias)
        result = case.solve(problem, max_iter=100, certify="checks", random_state=0)
        trace = result.trace
        value, bound = case.sign * trace.column("primal"), case.sign * trace.column("dual")
        rounding = case.rounding * max(1.0, np.abs(value).max())
        assert (trace.column("gap") >= 0).all()
        np.testing.assert_allclose(trace.column("gap"), bound - value, atol=0 if case.rounding < 1e-9 else rounding)
        # The bound holds for the best, so for every answer; it is only ever lowered.
        assert bound.min() >= value.max() - rounding
        assert (bound[1:] <= bound[:-1] + rounding).all()
        # The answer is the best one seen, with the best bound.
        assert case.sign * result.certificate.primal == value.max()
        assert case.sign * result.certificate.dual <= bound.min() + rounding
        assert problem.evaluate(result.solution.w).value == pytest.approx(result.certificate.primal)
        assert case.loss is not None or length(problem.X, result.solution.w) <= 1 + case.rounding
        assert (trace.column("cost") <= result.reads["learning"]).all()
        assert (np.diff(trace.column("iteration")) > 0).all()
        assert (np.diff(trace.column("cost")) >= 0).all()


def test_not_certified(case):
    problem = case.problem()
    result = case.solve(problem, max_iter=50, certify=False, random_state=0)
    assert not result.certificate
    assert str(result.certificate) == "not certified: certify=False"
    assert result.evaluation is None
    assert "certificate" not in result.reads
    assert np.isnan(result.trace.column("gap")).all()
    assert np.isfinite(numbers_of(result.solution.w)).all()


# Callbacks, interrupts, warm starts


def test_a_callback_sees_the_run_and_can_stop_it(case):
    seen, stop_at = [], min(10, settled_at(case))

    def callback(progress):
        seen.append((progress.row, progress.done, copy.deepcopy(progress.solution())))
        return progress.row.iteration >= stop_at

    result = case.solve(max_iter=100, callback=callback, certify=False, random_state=0)
    assert result.status == "callback"
    assert [row.iteration for row, _, _ in seen if row.iteration >= stop_at] == [result.n_iter]
    assert [row for row, _, _ in seen] == list(result.trace)
    end = case.last(case.problem(), 100)
    assert [done for _, done, _ in seen] == [row.iteration / end for row in result.trace]
    same(seen[-1][2], result.solution)


def test_ctrl_c_keeps_the_best_so_far(case, ctrl_c):
    problem = case.problem()
    result = case.solve(
        problem,
        max_iter=10**6,
        callback=lambda progress: ctrl_c() if progress.row.iteration >= 5 else None,
        random_state=0,
    )
    assert result.status == "interrupted"
    assert result.n_iter == next(row.iteration for row in result.trace if row.iteration >= 5)
    assert result.certificate.gap >= 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    # Nothing was half done: it goes on from there.
    on = case.solve(problem, max_iter=100, certify=False, warm=result)
    assert on.n_iter == case.made(problem, 100)
    same(on.solution, whole(case).solution)


def test_a_warm_start_goes_on(case):
    problem = case.problem()
    first = case.solve(problem, max_iter=30, random_state=0)
    both = case.solve(problem, max_iter=100, certify=False, warm=first)
    same(both.solution, whole(case).solution)
    assert both.n_iter == case.made(problem, 100)
    assert both.trace[-1].cost == whole(case).trace[-1].cost
    assert untimed(both.trace[: len(first.trace)]) == untimed(first.trace)
    assert (np.diff(both.trace.column("seconds")) >= 0).all()


def test_a_run_goes_on_where_a_budget_ended_it(case):
    """Cut by its budget at 20 places, a run comes to the same bits as one that was never cut."""
    short = {"max_iter": 100} if Trait.KERNEL in case.solver.requires else {"max_iter": 1200, "budget": TWENTY_PASSES}
    longest = case.solve(**short, certify=False, random_state=0).n_iter
    uncut = case.solve(max_iter=longest, certify=False, random_state=0)
    rules = {"max_iter": longest, "certify": False, "random_state": 0}
    result = problem = None
    for budget in np.linspace(0, uncut.reads["learning"], 22)[1:-1].astype(int):
        problem = case.problem() if result is None else problem
        try:
            result = case.solve(problem, budget=budget, warm=result, **rules)
        except ValueError as error:
            assert "too small for one iteration" in str(error)  # noqa: PT017
        assert problem.X.ledger.entries_read <= budget
    both = case.solve(problem, warm=result, **rules)
    same(both.solution, uncut.solution)
    assert both.reads["learning"] == uncut.reads["learning"]


@each_case(CASES, lambda case: Trait.SEPARABLE not in case.solver.requires)
def test_another_slack_or_C_half_way(case):
    problem = case.problem()
    other = problem.with_slack(0.3) if case.loss is None else problem.with_C(0.2)
    rules = {"max_iter": 1500, "tol": case.solver.default_tol}
    first = case.solve(problem, max_iter=300, random_state=0)
    second = case.solve(other, warm=first, **rules)
    fresh = case.solve(other, random_state=0, **rules)
    assert second.certificate.primal == pytest.approx(fresh.certificate.primal, **case.near)
    # More slack gives a larger margin, and less C a smaller objective.
    assert case.sign * second.certificate.primal > case.sign * first.certificate.primal


def test_a_problem_of_another_form_is_refused(case):
    other = case.other_form()
    with pytest.raises(TypeError, match=f"solver '{case.solver.name}' solves a .*; got a {type(other).__name__}"):
        solve(other, case.solver)
