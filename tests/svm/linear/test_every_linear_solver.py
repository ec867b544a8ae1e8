"""What every solver must do that reads rows and columns of a matrix, beyond what every solver must do."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from solver_cases import FEW_CASES, HARD, LINEAR_CASES, clouds, each_case, same

from maxmargin.engine.problem import Trait
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.problems import RegularizedSVM
from maxmargin.solvers import Holdout, solve


@pytest.fixture(params=LINEAR_CASES)
def case(request):
    return LINEAR_CASES[request.param]


def test_storage_does_not_matter(case, storages):
    X, y = clouds()
    wanted = case.solve(case.problem((X, y)), max_iter=70, certify=False, random_state=0)
    for name, stored in storages(X).items():
        found = case.solve(case.problem((stored, y)), max_iter=70, certify=False, random_state=0)
        if name == "unsorted":  # entries come in another order, by which ties are broken: it works, on its own way
            one, other = found.solution.w, wanted.solution.w
            assert one @ other > 0.8 * np.linalg.norm(one) * np.linalg.norm(other)
            continue
        np.testing.assert_allclose(found.solution.w, wanted.solution.w, rtol=1e-8, atol=1e-12, err_msg=name)
        assert found.reads["learning"] == wanted.reads["learning"], name


def test_float32(case):
    X, y = clouds()
    double, single = (
        case.solve(case.problem((X.astype(kind), y), scale=10.0), max_iter=70, certify=False, random_state=0)
        for kind in (np.float64, np.float32)
    )
    size = np.linalg.norm(double.solution.w)
    np.testing.assert_allclose(single.solution.w, double.solution.w, atol=1e-4 * max(1.0, size))


@pytest.mark.parametrize("sparse", [False, True])
def test_the_budget_is_never_exceeded(case, sparse):
    X, y = clouds()
    X[np.random.default_rng(1).random(X.shape) < 0.5 * sparse] = 0
    X = sp.csr_array(X) if sparse else X
    most, budgets = case.last(case.problem((X, y)), 2000), (66, 100, 1000, 12345)
    largest = max(reads_by_iteration(case, X, y, most, max(budgets)))
    for budget in budgets:
        if budget < largest:
            continue  # an iteration may not fit
        result = case.solve(case.problem((X, y)), budget=budget, max_iter=most, random_state=0)
        assert result.trace[-1].entries_read == result.reads["learning"] <= budget
        assert result.status in ("budget", "max_iter", "finished", "tol")
        if result.status == "budget":
            assert result.reads["learning"] >= budget - 3 * largest
        assert result.certificate


def reads_by_iteration(case, X, y, most, budget):
    """What each iteration reads, of those that make up the budget, where nothing holds it back."""
    problem = case.problem((X, y))
    state, ends = case.solver.start(problem, np.random.default_rng(0)), [0]
    while len(ends) <= most and ends[-1] <= budget:
        case.solver.step(problem, state, 1, UNLIMITED)
        ends.append(problem.X.ledger.entries_read)
    return np.diff(ends)


# When it is certified is the loop's concern, whichever the solver.
@pytest.mark.parametrize(
    ("case", "certify"),
    [(name, True) for name in LINEAR_CASES]
    + [(name, certify) for name in LINEAR_CASES if name in FEW_CASES for certify in (False, "checks")],
)
def test_early_stopping_returns_the_best_by_holdout(case, certify):
    case = LINEAR_CASES[case]
    X, y = clouds(distance=2.0)
    problem = case.problem((X[:40], y[:40]))
    holdout = Holdout(X[40:], y[40:])
    rules = {"holdout": holdout, "early_stopping": True, "certify": certify, "max_iter": 1000}
    result = case.solve(problem, **rules, random_state=0)
    errors = result.trace.column("holdout_error")
    # The bias that was measured is the one that is returned.
    assert holdout.error(result.solution, problem.scale) == errors.min()
    assert result.status in ("early_stopping", "finished", "max_iter", "tol")
    # Of equals the latest; then the iterations doubled and none was as good.
    best = result.trace.column("iteration")[errors == errors.min()].max()
    assert result.best_iter == best
    assert result.status != "early_stopping" or result.n_iter >= 2 * best
    # Rows of the training data may serve as well; reading them is booked apart.
    inside = Holdout(problem.X, y[:5], np.arange(5))
    before = problem.X.ledger.entries_read
    assert inside.error(result.solution, problem.scale) == Holdout(X[:5], y[:5]).error(result.solution, problem.scale)
    assert problem.X.ledger.entries_read == before
    assert problem.X.ledger.purposes["holdout"][0] == 30


def test_rows_of_weight_zero_are_never_learned_from(case):
    X, y = clouds()
    weights = np.ones(60)
    weights[:20] = 0
    garbage = X.copy()
    garbage[:20] = np.random.default_rng(1).normal(size=(20, 6))
    one, other = (
        case.solve(
            case.problem((data, y), sample_weight=weights, scale=20.0), max_iter=100, certify=False, random_state=0
        )
        for data in (X, garbage)
    )
    same(one.solution, other.solution)
    assert one.solution.p is None or not one.solution.p[:20].any()


def test_a_feature_that_is_constant_is_what_a_bias_makes_up_for(case):
    X, y = clouds()
    X = np.column_stack([X, np.full(60, 3.0)])
    problem = case.problem((X, y))
    result = case.solve(problem, max_iter=3000, tol=case.solver.default_tol, random_state=0)
    assert Holdout(X, y).error(result.solution, problem.scale) < 0.1


@pytest.mark.parametrize("weighted", [False, True], ids=["equal weights", "weighted"])
def test_it_comes_near_the_optimum(case, weighted):
    """On two clouds far apart, after a while, each solver has most of the margin, or is near the best objective."""
    X, y = clouds(distance=8.0)
    weights = np.random.default_rng(2).choice([0.0, 0.5, 1.0, 4.0], size=60) if weighted else None
    for bias in case.biases:
        strength = 1.0 if case.loss is None else 0.1
        problem = case.problem((X, y), sample_weight=weights, strength=strength, **bias)
        result = case.solve(problem, max_iter=20_000, tol=case.solver.default_tol, random_state=0)
        # Few rounds promise eps = 0.9 only, which any direction keeps; nor does all that learns find the best margin.
        much = case.solver.optimises and (result.n_iter > 1000 or result.status == "tol")
        assert result.certificate.relative_gap < ((0.5 if case.loss is None else 0.1) if much else 0.9)


@each_case(LINEAR_CASES)
@settings(max_examples=20, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32), strength=st.sampled_from([0.1, 5.0, HARD]))
def test_where_nothing_can_be_learned(case, data, seed, strength):
    """Every row is there with both labels, so that rows cancel and the direction comes back to zero again and again."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(rng.integers(1, 9), rng.integers(1, 4))) * rng.choice([1.0, 0.1])
    y = np.where(rng.random(X.shape[0]) < 0.5, -1.0, 1.0)
    bias = data.draw(st.sampled_from(case.biases))
    problem = case.problem((np.vstack([X, X]), np.concatenate([y, -y])), strength=strength, **bias)
    result = case.solve(problem, max_iter=200, random_state=seed)
    assert np.isfinite([*result.solution.w, result.solution.b, result.certificate.gap]).all()


@each_case(LINEAR_CASES, lambda case: Trait.SMOOTH_LOSS in case.solver.requires)
def test_a_loss_that_is_not_smooth_is_refused(case):
    with pytest.raises(ValueError, match="needs a smooth loss, such as 'squared_hinge'; got 'hinge'"):
        solve(RegularizedSVM(*clouds(), loss="hinge"), case.solver)


AWKWARD = {
    "all zero": (np.zeros((4, 3)), [1, -1, 1, -1]),
    "the same point": (np.array([[1.0], [1.0]]), [1, -1]),
    "twice the same": (np.array([[1.0], [-1.0], [1.0], [-1.0]]), [1, 1, -1, -1]),
    "zero rows": (np.array([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]), [1, 1, -1, -1]),
    "one against 30": (np.vstack([np.ones((30, 2)), [[5.0, -5.0]]]), [1] * 30 + [-1]),
    "tiny": (np.array([[1e-150, 0.0], [0.0, 1e-150]]), [1, -1]),
    "uneven": (np.array([[1e100, 0.0], [0.0, 1.0]]), [1, -1]),
    "n < d": (np.eye(3, 40), [1, -1, 1]),
    "constant": (np.column_stack([np.ones(40), np.linspace(-1, 1, 40)]), np.sign(np.linspace(-1, 1, 40))),
}


@pytest.mark.parametrize("data", AWKWARD)
def test_awkward_data(case, data):
    """Every kind of data with every bias and with both storages; over all kinds, every bias with both storages."""
    X, y = AWKWARD[data]
    for k, bias in enumerate(case.biases, list(AWKWARD).index(data)):
        storage = (np.array, sp.csr_array)[k % 2]
        problem = case.problem((storage(X), np.asarray(y, dtype=float)), **bias)
        result = case.solve(problem, max_iter=50, certify="checks", random_state=0)
        assert np.isfinite(result.solution.w).all()
        assert np.isfinite(result.solution.b)
        assert (result.trace.column("gap") >= 0).all()
        assert np.isfinite(result.trace.column("primal")).all()
