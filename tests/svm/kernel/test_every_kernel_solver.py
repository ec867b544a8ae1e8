"""What every solver on a KernelMatrix must do, beyond what every solver must do."""

import numpy as np
import pytest
from covering import every_pair
from sklearn.svm import SVC
from solver_cases import FEW_CASES, KERNEL_CASES, N, each_case, moons

from maxmargin.engine.problem import Trait
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.problems import RegularizedSVM, SlackSVM
from maxmargin.solvers import KERNEL_SOLVERS, Holdout, solve

CACHE = 4e-6 * 150 * 65  # megabytes: not half of the rows of 150 samples, and all of N


@pytest.fixture(params=KERNEL_CASES)
def case(request):
    return KERNEL_CASES[request.param]


def test_every_solver_takes_a_problem():
    assert {case.solver.name for case in KERNEL_CASES.values()} == set(KERNEL_SOLVERS)


def exact(K):
    """The matrix as it is computed, all of it."""
    with K.ledger.on("test"):
        return K.block(np.arange(K.shape[0])).astype(np.float64)


@pytest.mark.parametrize("n", [150, N], ids=["few rows are kept", "all rows are kept"])
def test_responses_are_those_of_the_coefficients(case, n):
    problem = case.problem(moons(n), cache_size=CACHE)
    K, wanted = problem.X, None
    state = case.solver.start(problem, np.random.default_rng(0))
    for iterations in (1, 29, 170):
        for _ in range(iterations):
            case.solver.step(problem, state, 1, UNLIMITED)
        w = case.solver.solution(problem, state).w
        wanted = exact(K) @ w.beta
        np.testing.assert_allclose(K.dot(w), wanted, atol=1e-5 * max(1.0, np.abs(w.beta).sum()))
    assert wanted.any()


@each_case(KERNEL_CASES, lambda case: Trait.SEPARABLE not in case.solver.requires)
def test_responses_are_those_of_the_coefficients_under_another_slack_or_C(case):
    problem = case.problem()
    other = problem.with_slack(0.3) if case.loss is None else problem.with_C(0.1)
    first = case.solve(problem, max_iter=300, certify=False, random_state=0)
    w = case.solve(other, max_iter=500, certify=False, warm=first).solution.w
    np.testing.assert_allclose(problem.X.dot(w), exact(problem.X) @ w.beta, atol=1e-4)


@pytest.mark.parametrize(("case", "budget", "n"), every_pair(KERNEL_CASES, [130, 1000, 20_000], [150, N]))
def test_the_budget_is_never_exceeded(case, budget, n):
    case = KERNEL_CASES[case]
    problem = case.problem(moons(n), cache_size=CACHE)
    try:
        result = case.solve(problem, budget=budget, max_iter=200, certify="checks", random_state=0)
    except ValueError as error:
        assert "too small for one iteration" in str(error)  # noqa: PT017
        assert problem.X.ledger.entries_read <= budget
        return
    assert result.trace[-1].kernel_evaluations == result.reads["learning"] <= budget
    assert result.status in ("budget", "max_iter", "finished", "tol")
    assert result.certificate


def test_rows_that_are_kept_are_not_counted_again(case):
    problem = case.problem()
    case.solve(problem, max_iter=300, certify=False, random_state=0)
    n = problem.y.size
    assert problem.X.ledger.entries_read <= 1.2 * n * n  # a few again, where a solver looks whether rounding matters


# Whether it is certified is the loop's concern, whichever the solver.
@pytest.mark.parametrize(
    ("case", "certify"),
    [(name, True) for name in KERNEL_CASES] + [(name, False) for name in KERNEL_CASES if name in FEW_CASES],
)
def test_early_stopping_returns_the_best_by_holdout(case, certify):
    """The holdout are rows of weight 0."""
    case = KERNEL_CASES[case]
    rows, weights = np.arange(40, N), np.where(np.arange(N) < 40, 1.0, 0.0)
    problem = case.problem(sample_weight=weights)
    holdout = Holdout(problem.X, problem.y[rows], rows)
    rules = {"holdout": holdout, "early_stopping": True, "certify": certify, "max_iter": 500}
    result = case.solve(problem, **rules, random_state=0)
    errors = result.trace.column("holdout_error")
    assert holdout.error(result.solution, problem.scale) == errors.min()
    assert result.status in ("early_stopping", "finished", "max_iter")
    assert result.best_iter == result.trace.column("iteration")[errors == errors.min()].max()


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


@each_case(KERNEL_CASES, lambda case: case.solver.optimises and Trait.SEPARABLE not in case.solver.requires)
def test_a_weight_is_a_number_of_rows(case):
    X, y = moons()
    weights = np.array([1.0, 0.0, 1.0, 2.0])[np.arange(N) % 4]
    rows = np.repeat(np.arange(N), weights.astype(int))
    tol = case.solver.default_tol and 1e-4
    rules = {"tol": tol, "max_iter": 40_000 if tol else 1000, "random_state": 0}
    weighted = case.solve(case.problem((X, y), sample_weight=weights), **rules)
    listed = case.solve(case.problem((X[rows], y[rows])), **rules)
    assert weighted.certificate.primal == pytest.approx(listed.certificate.primal, rel=2e-4 if tol else 0.05)


@each_case(
    KERNEL_CASES, lambda case: case.solver.optimises and case.sign == -1 and (case.loss, case.bias) == ("hinge", "free")
)
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


@each_case(KERNEL_CASES, lambda case: case.solver.optimises and Trait.SEPARABLE not in case.solver.requires)
def test_the_gap_becomes_small(case):
    tol = case.solver.default_tol and 1e-3
    result = case.solve(tol=tol, max_iter=20_000 if tol else 3000, random_state=0)
    assert result.certificate.relative_gap <= (tol or 0.1)


@each_case(KERNEL_CASES, lambda case: (Trait.SEPARABLE in case.solver.requires) or not case.solver.optimises)
def test_it_learns(case):
    problem = case.problem()
    answer = case.solve(problem, max_iter=20 * N, certify=False, random_state=0).solution
    assert np.mean(np.sign(problem.X.dot(answer.w) + answer.b * problem.scale) == problem.y) > 0.9


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
    result = case.solve(problem, max_iter=50, certify="checks", random_state=0)
    assert np.isfinite(result.solution.w.beta).all()
    assert np.isfinite(result.solution.b)
    assert (result.trace.column("gap") >= 0).all()
    assert np.isfinite(result.trace.column("primal")).all()


def test_rows_of_numbers_are_refused(case):
    X, y = moons()
    other = SlackSVM(X, y, slack=0.0) if case.sign == 1 else RegularizedSVM(X, y)
    with pytest.raises(
        TypeError, match=f"solver '{case.solver.name}' needs rows of a kernel, a KernelMatrix; got a Matrix"
    ):
        solve(other, case.solver)
