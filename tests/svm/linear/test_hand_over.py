"""Coordinate ascent that hands over to Newton's method: when it does, and that nothing is lost by it."""

import math

import numpy as np
import pytest

from maxmargin import LinearSVC
from maxmargin.engine.solver import Reason
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.problems import LOSSES, RegularizedSVM
from maxmargin.solvers import Newton, Sdca, SdcaThenNewton, solve
from maxmargin.svm.linear.hand_over import TRIAL, passes_left

losses = pytest.mark.parametrize("loss", LOSSES)


def noisy(n=600, d=8, seed=0):
    """Overlapping classes: at a large C, coordinate ascent takes many sweeps."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return rng.normal(size=(n, d)) + 0.2 * y[:, None], y


def test_passes_left_of_a_steady_fall():
    """The gap divided by the dual value falls to a tenth in each two passes."""
    passes = [2.0 * k for k in range(1, 9)]
    ratios = [10.0 ** (3 - k) for k in range(8)]
    gaps = [ratio / (1 + ratio) for ratio in ratios]
    tol = 1e-6 / (1 + 1e-6)
    assert passes_left(passes, gaps, tol) == pytest.approx(4.0)
    assert passes_left(passes[:5], gaps[:5], tol) == pytest.approx(10.0)
    # The tolerance is reached: a thousandth of the gap.
    assert passes_left(passes, gaps, 1e-3) == pytest.approx(6.0, rel=1e-3)


def test_passes_left_at_the_ends():
    assert passes_left([1.0, 2.0], [0.5, 0.0], 1e-3) == 0
    assert passes_left([1.0, 2.0], [0.5, 0.5], 1e-3) == math.inf
    assert passes_left([1.0, 2.0], [1.0, 1.0], 1e-3) == math.inf
    assert 0 < passes_left([1.0, 2.0], [1.0, 0.5], 1e-3) < 1
    assert passes_left([1.0, 2.0], [0.0, 0.5], 1e-3) == math.inf
    assert passes_left([1.0, 2.0], [math.inf, math.inf], 1e-3) == math.inf
    assert passes_left([1.0, 2.0], [0.5, 5e-324], 1e-3) >= 0


@losses
def test_no_hand_over_where_sweeps_suffice(loss):
    """The sweeps are those of sdca, to the bit."""
    problem = RegularizedSVM(*noisy(), 1e-3, loss=loss)
    found = solve(problem, SdcaThenNewton(30.0), random_state=0)
    assert (found.status, found.state.newton) == ("tol", None)
    plain = Sdca().start(problem, np.random.default_rng(0))
    while plain.sweeps < found.state.descent.sweeps:
        Sdca().step(problem, plain, plain.active - plain.position, UNLIMITED)
    np.testing.assert_array_equal(found.state.descent.lend()[0], plain.lend()[0])


@losses
def test_hand_over_where_sweeps_are_slow(loss):
    X, y = noisy()
    problem = RegularizedSVM(X, y, 1e3, loss=loss)
    found = solve(problem, SdcaThenNewton(30.0), random_state=0)
    assert found.status == "tol"
    assert found.state.newton is not None
    assert TRIAL * 30 <= found.state.passes[-1] <= 1.05 * (TRIAL * 30 + 2)  # a sweep reads no more than twice the data
    assert found.state.read == pytest.approx(found.state.passes[-1] * X.size)
    assert found.certificate.primal == pytest.approx(
        solve(problem, Newton(), tol=1e-8, random_state=0).certificate.primal, rel=1e-3
    )


@losses
@pytest.mark.parametrize("near", [False, True])
def test_newton_begins_where_sweeps_end_if_that_is_near(loss, near):
    problem, solver = RegularizedSVM(*noisy(), 1.0, loss=loss), SdcaThenNewton(0.0 if near else 5.0)
    state = solver.start(problem, np.random.default_rng(0))
    while not state.slow or (near and state.gaps[-1] >= 0.5):
        state.slow = False
        assert solver.step(problem, state, 1, UNLIMITED).iterations == 1
    before = solver.solution(problem, state)
    # Too little for an iteration of Newton's method: nothing is lost.
    assert solver.step(problem, state, 1, 10).iterations == 0
    assert state.newton is not None
    assert solver.estimated_gap(problem, state) < 1
    np.testing.assert_array_equal(solver.solution(problem, state).p, before.p)
    np.testing.assert_array_equal(state.newton.w, before.w if near else 0)
    if near:
        centres = [part.first_centre for part in state.newton.parts.objects]
        np.testing.assert_array_equal(np.concatenate(centres), before.p)
    assert solver.step(problem, state, 30, UNLIMITED).reason is not Reason.BUDGET
    assert solver.estimated_gap(problem, state) <= 1e-3


def test_a_tolerance_below_the_default():
    """Sweeps that come to the default one in time may be too slow for another."""
    problem = RegularizedSVM(*noisy(), 3.0)
    solver = SdcaThenNewton(200.0)
    rough, fine = (solve(problem, solver, tol=tol, random_state=0) for tol in (1e-3, 1e-10))
    assert (rough.status, fine.status) == ("tol", "tol")
    assert rough.state.newton is None
    assert fine.state.newton is not None


@losses
def test_cut_anywhere_by_a_budget(loss):
    """Also between the last visit of a sweep and its end."""
    X, y = noisy(n=90)
    solver = SdcaThenNewton(20.0)
    whole_problem = RegularizedSVM(X, y, 100.0, loss=loss)
    whole = solver.start(whole_problem, np.random.default_rng(0))
    most = solver.step(whole_problem, whole, 40, UNLIMITED).iterations  # until only rounding is left
    assert whole.newton is not None
    problem = RegularizedSVM(X, y, 100.0, loss=loss)
    state, made = solver.start(problem, np.random.default_rng(0)), 0
    allowed = 0
    while made < most:
        allowed += 137  # entries
        made += solver.step(problem, state, most - made, allowed - problem.X.ledger.entries_read).iterations
        assert problem.X.ledger.entries_read <= allowed
    assert (state.passes, state.gaps) == (whole.passes, whole.gaps)
    assert problem.X.ledger.entries_read == whole_problem.X.ledger.entries_read
    np.testing.assert_array_equal(solver.solution(problem, state).w, solver.solution(whole_problem, whole).w)


@losses
@pytest.mark.parametrize(("newton_passes", "C"), [(0.0, 0.1), (1e9, 1.01)])
def test_another_C_begins_with_sweeps_at_the_last_dual_point(loss, newton_passes, C):
    X, y = noisy()
    solver = SdcaThenNewton(newton_passes)
    first = solve(RegularizedSVM(X, y, 1.0, loss=loss), solver, tol=1e-6, random_state=0)
    assert (first.state.newton is None) == (newton_passes > 0)
    other = RegularizedSVM(X, y, C, loss=loss)
    state = solver.start(other, np.random.default_rng(0), first.state)
    assert (state.newton, state.passes) == (None, [])
    last = solver.solution(RegularizedSVM(X, y, 1.0, loss=loss), first.state)
    upper, _ = other.loss.dual_box(other.u)
    np.testing.assert_array_equal(state.descent.lend()[0], np.minimum(last.p, upper))
    assert solve(other, solver, warm=first).certificate.relative_gap <= 1e-3


@losses
def test_where_sweeps_were_slow_they_are_not_tried_again_at_a_similar_C(loss):
    X, y = noisy()
    first = solve(RegularizedSVM(X, y, 1e3, loss=loss), SdcaThenNewton(30.0), random_state=0)
    read = first.state.read
    second = solve(RegularizedSVM(X, y, 500.0, loss=loss), SdcaThenNewton(30.0), warm=first, random_state=0)
    assert second.certificate.relative_gap <= 1e-3
    assert read > 0 == second.state.read


def test_each_class_hands_over_by_itself():
    """One class is far from the others, two overlap."""
    rng = np.random.default_rng(0)
    classes = np.arange(600) % 3
    X = rng.normal(size=(600, 8))
    X[classes == 0] += 6.0
    solver = SdcaThenNewton(30.0)
    model = LinearSVC(C=10.0, solver=solver, random_state=0, tol=1e-3).fit(X, classes)
    assert model.solver_ == "sdca_newton"
    over = []
    for k in range(3):
        result = solve(RegularizedSVM(X, np.where(classes == k, 1.0, -1.0), 10.0), solver, random_state=0)
        over.append(result.state.newton is not None)
        assert result.status == "tol"
    assert over == [False, True, True]
    assert model.certificate_.relative_gap <= 1e-3


def test_max_iter_counts_sweeps_and_iterations():
    X, y = noisy()
    with pytest.warns(UserWarning, match="max_iter"):
        model = LinearSVC(C=1e3, solver=SdcaThenNewton(), max_iter=4, random_state=0).fit(X, y)
    assert model.n_iter_ == 4


def test_a_cost_below_0_is_refused():
    with pytest.raises(ValueError, match="newton_passes must be a number of at least 0; got -1"):
        SdcaThenNewton(-1)
    with pytest.raises(ValueError, match="got nan"):
        SdcaThenNewton(math.nan)
