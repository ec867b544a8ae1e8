"""What every solver on a KernelMatrix must do. A new one is tested here by being registered."""

import os
import signal
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.svm import SVC

from maxmargin.engine import loop
from maxmargin.engine.problem import Trait
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.kernels.functions import Rbf
from maxmargin.problems import LOSSES, KernelMatrix, RegularizedSVM, SlackSVM
from maxmargin.solvers import (
    KERNEL_SOLVERS,
    Decomposition,
    Holdout,
    KernelPegasos,
    KernelPerceptron,
    KernelSdca,
    Smo,
    Solver,
    StochasticBatchPerceptron,
    solve,
)

SOLVERS = {name: solver() for name, solver in KERNEL_SOLVERS.items()}
# And with parameters under which other code runs.
VARIANTS = {
    "decomposition, parts": Decomposition(first=16, growth=2.0, block=8),
    "pegasos, paper": KernelPegasos(order="iid", average=None),
    "pegasos, batch of 7": KernelPegasos(batch=7, average=1.0),
    "perceptron, last of one pass": KernelPerceptron(passes=1, average=False, order="given"),
    "sdca, drawn": KernelSdca(order="iid"),
    "sbp, paper": StochasticBatchPerceptron(method="paper"),
    "sbp, one draw": StochasticBatchPerceptron(block=1, average=0.0),
    "smo, all take part": Smo(shrink=False),
}
N = 60
BIASES = {"free": {}, "none": {"bias": False}, "penalised": {"intercept_scaling": 2.0}}


@dataclass(frozen=True)
class Case:
    """A solver, and a problem for it: the slack form, or the regularised form with a loss and a bias that it takes."""

    solver: Solver
    loss: str = "hinge"
    bias: str = "free"

    def problem(self, data=None, *, strength=1.0, cache_size=1.0, **options):
        X, y = moons() if data is None else data
        K = KernelMatrix(X, Rbf(gamma=1.0), cache_size=cache_size)
        options |= BIASES[self.bias]
        if self.solver.solves is SlackSVM:
            return SlackSVM(K, y, 0.0 if Trait.SEPARABLE in self.solver.requires else 0.1 / strength, **options)
        return RegularizedSVM(K, y, strength, loss=self.loss, **options)

    def solve(self, problem=None, **options):
        if self.solver.default_tol is not None:  # else it would end before what is tested, by a gap of 0 at the latest
            options.setdefault("tol", -1.0)
        return solve(self.problem() if problem is None else problem, self.solver, **options)

    def taken(self):
        """Whether the solver takes the problem; if not, it says so."""
        if self.solver.solves is SlackSVM:
            return self.loss == "hinge" and self.bias != "penalised"
        try:
            self.solver.start(self.problem(), np.random.default_rng(0))
        except ValueError as error:
            assert self.solver.name in str(error)  # noqa: PT017
            return False
        return True

    @property
    def sign(self):
        """1 where the value is to be large, -1 where it is to be small."""
        return 1 if self.solver.solves is SlackSVM else -1

    def last(self, problem, iterations):
        """The iteration that a run ends with which may make so many: the algorithm may end before."""
        return min(iterations, self.solver.iterations(problem) or iterations)


def moons(n=N, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    turn = np.pi * rng.random(n)
    X = np.column_stack([y * np.cos(turn) + (y > 0), y * np.sin(turn) + 0.5 * (y < 0)])
    return X + rng.normal(size=X.shape) * 0.2, y


CASES = {
    f"{name}, {loss}, bias {bias}": Case(solver, loss, bias)
    for name, solver in SOLVERS.items()
    for loss in LOSSES
    for bias in BIASES
    if Case(solver, loss, bias).taken()
} | {name: Case(solver) for name, solver in VARIANTS.items()}


def each_case(wanted=lambda case: True):
    """Run a test on every case that is wanted."""
    chosen = {label: case for label, case in CASES.items() if wanted(case)}
    return pytest.mark.parametrize("case", chosen.values(), ids=chosen)


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


CACHE = 4e-6 * 150 * 65  # megabytes: not half of the rows of 150 examples, and all of N
few_or_all_rows_are_kept = pytest.mark.parametrize("n", [150, N], ids=["few rows are kept", "all rows are kept"])


def test_every_solver_takes_a_problem():
    assert {case.solver.name for case in CASES.values()} == set(KERNEL_SOLVERS)


def same(one, other):
    np.testing.assert_array_equal(one.w.beta, other.w.beta)
    np.testing.assert_array_equal(one.w.f, other.w.f)
    np.testing.assert_array_equal(one.p, other.p)
    assert one.b == other.b


def untimed(trace):
    return [(row.iteration, row.entries_read, repr(row.gap)) for row in trace]


def exact(K):
    """The matrix as it is computed, all of it."""
    with K.ledger.on("test"):
        return K.block(np.arange(K.shape[0])).astype(np.float64)


# The same seed gives the same bits


def test_same_seed_same_bits(case):
    one, other = (case.solve(max_iter=70, certify="checks", random_state=3) for _ in range(2))
    same(one.solution, other.solution)
    assert untimed(one.trace) == untimed(other.trace)
    assert one.reads == other.reads


@each_case(lambda case: case.solver.deterministic(case.problem()))
def test_another_seed_the_same_answer(case):
    one, other = (case.solve(max_iter=20, certify=False, random_state=k) for k in range(2))
    same(one.solution, other.solution)


def test_however_iterations_are_cut_into_chunks(case):
    found = []
    for chunks in ([200], [1] * 200, [7, 13, 1, 130, 49]):
        problem = case.problem()
        state = case.solver.start(problem, np.random.default_rng(0))
        for chunk in chunks:
            assert case.solver.step(problem, state, chunk, UNLIMITED).iterations == chunk
            with problem.X.ledger.on("looking"):
                case.solver.solution(problem, state)  # it changes nothing
        found.append((case.solver.solution(problem, state), problem.X.ledger.stored))
    for solution, reads in found[1:]:
        same(solution, found[0][0])
        assert reads == found[0][1]


def test_the_clock_changes_no_bits(case, monkeypatch):
    wanted = case.solve(max_iter=300, certify=False, random_state=0)
    ticks = iter(np.random.default_rng(0).exponential(0.03, 10**5).cumsum())
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    found = case.solve(max_iter=300, certify=False, random_state=0)
    same(found.solution, wanted.solution)
    assert untimed(found.trace) == untimed(wanted.trace)


def test_an_answer_is_not_changed_by_going_on(case):
    first = case.solve(max_iter=20, random_state=0)
    beta, f, p = first.solution.w.beta.copy(), first.solution.w.f.copy(), first.solution.p.copy()
    case.solve(max_iter=40, warm=first)
    np.testing.assert_array_equal(first.solution.w.beta, beta)
    np.testing.assert_array_equal(first.solution.w.f, f)
    np.testing.assert_array_equal(first.solution.p, p)


# What is kept up is what it would be if it were computed


@few_or_all_rows_are_kept
def test_responses_are_those_of_the_coefficients(case, n):
    problem = case.problem(moons(n), cache_size=CACHE)
    K, wanted = problem.X, None
    for iterations in (1, 30, 300):
        state = case.solver.start(problem, np.random.default_rng(0))
        for _ in range(iterations):
            case.solver.step(problem, state, 1, UNLIMITED)
        w = case.solver.solution(problem, state).w
        wanted = exact(K) @ w.beta
        np.testing.assert_allclose(K.dot(w), wanted, atol=1e-5 * max(1.0, np.abs(w.beta).sum()))
    assert wanted.any()


# Stop rules


@pytest.mark.parametrize("budget", [130, 1000, 20_000])
@few_or_all_rows_are_kept
def test_the_budget_is_never_exceeded(case, budget, n):
    problem = case.problem(moons(n), cache_size=CACHE)
    try:
        result = case.solve(problem, budget=budget, max_iter=400, certify="checks", random_state=0)
    except ValueError as error:
        assert "too small for one iteration" in str(error)  # noqa: PT017
        assert problem.X.ledger.stored <= budget
        return
    assert result.trace[-1].entries_read == result.reads["learning"] <= budget
    assert result.status in ("budget", "max_iter", "finished", "tol")
    assert result.certificate


@each_case(lambda case: case.solver.name != "sublinear_perceptron")  # its first round evaluates nothing
def test_a_budget_too_small_for_one_iteration(case):
    problem = case.problem()
    with pytest.raises(ValueError, match=rf"too small for one iteration of '{case.solver.name}'"):
        case.solve(problem, budget=2, random_state=0)
    assert problem.X.ledger.stored <= 2


def test_a_run_goes_on_where_a_budget_ended_it(case):
    whole = case.problem()
    problem = case.problem()
    longest = case.last(problem, 100)
    wanted = case.solve(whole, max_iter=longest, certify=False, random_state=0)
    result = None
    for budget in range(600, 10**5, 600):
        try:
            result = case.solve(problem, budget=budget, max_iter=longest, certify=False, random_state=0, warm=result)
        except ValueError:
            continue
        if result.status != "budget":
            break
    same(result.solution, wanted.solution)
    assert result.reads["learning"] == wanted.reads["learning"]


def test_rows_that_are_kept_are_not_counted_again(case):
    problem = case.problem()
    case.solve(problem, max_iter=2000, certify=False, random_state=0)
    n = problem.y.size
    assert problem.X.ledger.stored <= 1.2 * n * n  # a few again, where a solver looks whether rounding matters


@pytest.mark.parametrize("max_iter", [1, 2, 37])
def test_max_iter_is_exact(case, max_iter):
    result = case.solve(max_iter=max_iter, random_state=0)
    assert (result.n_iter, result.status) == (max_iter, "max_iter")
    assert result.trace[-1].iteration == max_iter


def test_default_end(case):
    problem = case.problem()
    result = case.solve(problem, tol=None, random_state=0)
    if result.status == "tol":  # it has a tolerance of its own
        assert result.certificate.relative_gap <= case.solver.default_tol
        return
    own = case.solver.iterations(problem)
    assert result.n_iter == (own or case.solver.default_iterations(problem))
    assert result.status == ("max_iter" if own is None else "finished")


def test_max_time(case, monkeypatch):
    ticks = iter(range(10**9))
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(ticks) / 100))
    result = case.solve(max_time=0.3, random_state=0)
    assert result.status == "max_time"
    assert result.n_iter > 0


def test_tol(case):
    result = case.solve(tol=0.9, random_state=0)
    assert result.status == "tol"
    assert 0 <= result.certificate.relative_gap <= 0.9


@pytest.mark.parametrize("certify", [False, True])
def test_early_stopping_returns_the_best_by_holdout(case, certify):
    """The holdout are rows of weight 0."""
    rows, weights = np.arange(40, N), np.where(np.arange(N) < 40, 1.0, 0.0)
    problem = case.problem(sample_weight=weights)
    holdout = Holdout(problem.X, problem.y[rows], rows)
    rules = {"holdout": holdout, "early_stopping": True, "certify": certify, "max_iter": 2000}
    result = case.solve(problem, **rules, random_state=0)
    errors = result.trace.column("holdout_error")
    assert holdout.error(result.solution, problem.scale) == errors.min()
    assert result.status in ("early_stopping", "finished", "max_iter")
    assert result.best_iter == result.trace.column("iteration")[errors == errors.min()].max()


# Certificates


def test_certified_at_every_check(case):
    problem = case.problem()
    result = case.solve(problem, max_iter=150, certify="checks", random_state=0)
    trace = result.trace
    value, bound = case.sign * trace.column("primal"), case.sign * trace.column("dual")
    rounding = 1e-6 * max(1.0, np.abs(value).max())  # rows are kept in float32
    assert (trace.column("gap") >= 0).all()
    assert bound.min() >= value.max() - rounding
    assert (bound[1:] <= bound[:-1] + rounding).all()
    assert case.sign * result.certificate.primal == value.max()
    assert problem.evaluate(result.solution.w).value == pytest.approx(result.certificate.primal)
    assert (trace.column("entries_read") <= result.reads["learning"]).all()
    assert (np.diff(trace.column("iteration")) > 0).all()
    assert (np.diff(trace.column("entries_read")) >= 0).all()


def test_not_certified(case):
    result = case.solve(max_iter=50, certify=False, random_state=0)
    assert not result.certificate
    assert np.isfinite(result.solution.w.beta).all()


# Callbacks, interrupts, warm starts


def test_a_callback_sees_the_run_and_can_stop_it(case):
    seen = []

    def callback(progress):
        seen.append((progress.row, progress.solution()))
        return progress.row.iteration >= 10

    result = case.solve(max_iter=100, callback=callback, certify=False, random_state=0)
    assert result.status == "callback"
    assert [row for row, _ in seen] == list(result.trace)
    assert seen[-1][0].iteration == result.n_iter >= 10
    same(seen[-1][1], result.solution)


def test_ctrl_c_keeps_the_best_so_far(case):
    def interrupt(progress):
        if progress.row.iteration >= 5:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    problem = case.problem()
    try:
        result = case.solve(problem, max_iter=10**6, callback=interrupt, random_state=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.status == "interrupted"
    assert result.certificate.gap >= 0
    # Nothing was half done: it goes on from there.
    end = case.last(problem, 100)
    on = case.solve(problem, max_iter=100, warm=result, certify=False)
    assert on.n_iter == end
    same(on.solution, case.solve(max_iter=100, certify=False, random_state=0).solution)


def test_a_warm_start_goes_on(case):
    problem = case.problem()
    whole = case.solve(max_iter=100, certify=False, random_state=0)
    first = case.solve(problem, max_iter=30, certify=False, random_state=0)
    both = case.solve(problem, max_iter=100, certify=False, warm=first)
    same(both.solution, whole.solution)
    assert both.n_iter == case.last(problem, 100)
    assert both.trace[-1].entries_read == whole.trace[-1].entries_read


@each_case(lambda case: Trait.SEPARABLE not in case.solver.requires)
def test_another_slack_or_C_half_way(case):
    problem = case.problem()
    other = problem.with_slack(0.3) if case.sign == 1 else problem.with_C(0.1)
    first = case.solve(problem, max_iter=300, random_state=0)
    second = case.solve(other, max_iter=1500, warm=first)
    fresh = case.solve(other, max_iter=1500, random_state=0)
    assert second.certificate.primal == pytest.approx(
        fresh.certificate.primal, rel=0.05 if case.solver.default_tol else 0.15
    )
    np.testing.assert_allclose(problem.X.dot(second.solution.w), exact(problem.X) @ second.solution.w.beta, atol=1e-4)
    # More slack gives a larger margin, and less C a smaller objective.
    assert case.sign * second.certificate.primal > case.sign * first.certificate.primal


# Weights


def test_rows_of_weight_zero_are_never_learned_from(case):
    X, y = moons()
    weights = np.ones(N)
    weights[:20] = 0
    garbage = X.copy()
    garbage[:20] = np.random.default_rng(1).normal(size=(20, 2))
    found = []
    for data in (X, garbage):
        problem = case.problem((data, y), sample_weight=weights)
        solution = case.solve(problem, max_iter=100, certify=False, random_state=0).solution
        assert not solution.w.beta[:20].any()
        # But what is said of them is true.
        np.testing.assert_allclose(problem.X.dot(solution.w), exact(problem.X) @ solution.w.beta, atol=1e-4)
        found.append(solution)
    np.testing.assert_allclose(found[0].w.beta, found[1].w.beta, rtol=1e-4, atol=1e-4)


@each_case(lambda case: case.solver.optimises and Trait.SEPARABLE not in case.solver.requires)
@pytest.mark.parametrize("weight", [0, 2])
def test_a_weight_is_a_number_of_rows(case, weight):
    X, y = moons()
    some = np.arange(N) % 4 == 1
    weights = np.where(some, float(weight), 1.0)
    rows = np.concatenate([np.flatnonzero(~some), np.repeat(np.flatnonzero(some), weight)])
    tol = case.solver.default_tol and 1e-4
    rules = {"tol": tol, "max_iter": 40_000 if tol else 3000, "random_state": 0}
    weighted = case.solve(case.problem((X, y), sample_weight=weights), **rules)
    listed = case.solve(case.problem((X[rows], y[rows])), **rules)
    assert weighted.certificate.primal == pytest.approx(listed.certificate.primal, rel=2e-4 if tol else 0.05)


# The optimum


@each_case(lambda case: case.solver.optimises and case.sign == -1 and (case.loss, case.bias) == ("hinge", "free"))
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_it_comes_near_the_optimum_of_LIBSVM(case, C):
    X, y = moons()
    svc = SVC(C=C, gamma=1.0, tol=1e-6).fit(X, y)
    problem = case.problem(strength=C)
    beta = np.zeros(N)
    beta[svc.support_] = svc.dual_coef_[0]
    best = np.abs(beta).sum() - 0.5 * beta @ exact(problem.X) @ beta
    tol = case.solver.default_tol and 1e-4
    result = case.solve(problem, tol=tol, max_iter=60_000 if tol else 5000, random_state=0)
    assert result.certificate.dual <= best * (1 + 1e-5)
    assert best * (1 - 1e-5) <= result.certificate.primal <= best * (1 + (1e-3 if tol else 0.1))


@each_case(lambda case: case.solver.optimises and Trait.SEPARABLE not in case.solver.requires)
def test_the_gap_becomes_small(case):
    tol = case.solver.default_tol and 1e-3
    result = case.solve(tol=tol, max_iter=20_000 if tol else 5000, random_state=0)
    assert result.certificate.relative_gap <= (tol or 0.1)


@each_case(lambda case: Trait.SEPARABLE in case.solver.requires or not case.solver.optimises)
def test_it_learns(case):
    problem = case.problem()
    answer = case.solve(problem, max_iter=20 * N, certify=False, random_state=0).solution
    assert np.mean(np.sign(problem.X.dot(answer.w) + answer.b * problem.scale) == problem.y) > 0.9


# Data that is not nice, and problems that it is not for


@pytest.mark.parametrize(
    "data",
    [
        (np.zeros((4, 3)), [1, -1, 1, -1]),
        (np.array([[1.0], [1.0]]), [1, -1]),
        (np.array([[1.0], [-1.0], [1.0], [-1.0]]), [1, 1, -1, -1]),
        (np.vstack([np.ones((30, 2)), [[5.0, -5.0]]]), [1] * 30 + [-1]),
        (np.array([[1e10, 0.0], [0.0, 1.0]]), [1, -1]),
    ],
    ids=["all zero", "the same point", "twice the same", "one against 30", "uneven"],
)
def test_awkward_data(case, data):
    X, y = data
    problem = case.problem((X, np.asarray(y, dtype=float)))
    result = case.solve(problem, max_iter=300, certify="checks", random_state=0)
    assert np.isfinite(result.solution.w.beta).all()
    assert np.isfinite(result.solution.b)
    assert (result.trace.column("gap") >= 0).all()
    assert np.isfinite(result.trace.column("primal")).all()


def test_a_problem_of_another_form_is_refused(case):
    X, y = moons()
    K = KernelMatrix(X, Rbf(gamma=1.0))
    other = RegularizedSVM(K, y) if case.sign == 1 else SlackSVM(K, y, slack=0.0)
    with pytest.raises(TypeError, match=f"solver '{case.solver.name}' solves a .*; got a {type(other).__name__}"):
        solve(other, case.solver)


def test_rows_of_numbers_are_refused(case):
    X, y = moons()
    other = SlackSVM(X, y, slack=0.0) if case.sign == 1 else RegularizedSVM(X, y)
    with pytest.raises(TypeError, match="needs rows of a kernel, a KernelMatrix; got a Matrix"):
        solve(other, case.solver)
