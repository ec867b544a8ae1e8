"""The choice of a solver: what the cost model must say of any shape, and what it reads."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from maxmargin import LinearSVC
from maxmargin.data import as_matrix
from maxmargin.problems import RegularizedSVM, SlackSVM
from maxmargin.solvers import SdcaThenNewton, auto_solver
from maxmargin.svm.auto import SAMPLED_ROWS, UNSURE, LinearShape, mean_sq_norm

sizes = st.integers(1, 10**6)
features = st.integers(1, 5000)
strengths = st.floats(0, 1e12)
losses = st.booleans()


def shape_of(n: int, d: int, share: float, strength: float, smooth: bool) -> LinearShape:
    return LinearShape(n, d, max(1, round(share * n * d)), strength, smooth)


@given(sizes, features, st.floats(0, 1), strengths, losses)
def test_costs_are_positive_and_finite(n: int, d: int, share: float, strength: float, smooth: bool) -> None:
    shape = shape_of(n, d, share, strength, smooth)
    assert 0 < shape.sdca_cost() < np.inf
    assert 0 < shape.newton_cost() < np.inf


@given(sizes, features, st.floats(0, 1), strengths, strengths, losses)
def test_a_larger_C_costs_more(n: int, d: int, share: float, one: float, other: float, smooth: bool) -> None:
    low, high = (shape_of(n, d, share, strength, smooth) for strength in sorted([one, other]))
    assert low.newton_cost() <= high.newton_cost()
    if n >= d:  # with fewer samples than features the fit of the squared hinge is all but flat, and not quite monotone
        assert low.sdca_cost() <= (1 + 1e-9) * high.sdca_cost()


@given(sizes, st.integers(1, 500), strengths, losses)
def test_newton_pays_for_a_feature_even_if_no_row_holds_it(n: int, d: int, strength: float, smooth: bool) -> None:
    few, many = (LinearShape(n, features, max(1, n * d // 2), strength, smooth) for features in (d, 5000))
    assert few.newton_cost() < many.newton_cost()


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("n", [10**5, 10**6])
@pytest.mark.parametrize("d", [2, 10, 50])
def test_many_samples_of_few_features(smooth: bool, n: int, d: int) -> None:
    shape = LinearShape(n, d, n * d, 100.0 * d, smooth)
    assert shape.newton_cost() < 0.5 * shape.sdca_cost()


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize(("n", "d"), [(100, 5000), (1000, 3000), (5000, 5000)])
def test_many_features_of_sparse_rows(smooth: bool, n: int, d: int) -> None:
    shape = LinearShape(n, d, 20 * n, 1.0, smooth)
    assert shape.sdca_cost() < 0.1 * shape.newton_cost()


def test_a_form_a_budget_and_a_limit_decide_before_any_cost() -> None:
    X = as_matrix(np.ones((3000, 5)))
    assert auto_solver(SlackSVM, X, 10**9).name == "simba"
    assert auto_solver(RegularizedSVM, X, 10**9).name == "sdca"
    assert auto_solver(RegularizedSVM, as_matrix(sp.csr_matrix((10**5, 5001)))).name == "sdca"
    assert X.ledger.summary() == {"learning": 0, "learning, dense count": 0}


def test_the_slack_tells_how_large_C_will_be() -> None:
    """The more slack, the smaller C, and the fewer sweeps coordinate ascent takes."""
    X = as_matrix(sp.random(20_000, 300, density=0.03, format="csr", random_state=0))
    names = [auto_solver(SlackSVM, X, slack=slack).name for slack in (0.0, 1e-6, 0.1)]
    assert names[0] == names[1] == "newton"
    assert names[2].startswith("sdca")


def test_a_few_rows_tell_the_norm_and_the_ledger_counts_them() -> None:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(5000, 40)) * (rng.random((5000, 40)) < 0.3)
    X = as_matrix(sp.csr_matrix(dense))
    assert mean_sq_norm(X) == pytest.approx((dense**2).sum(axis=1).mean(), rel=0.2)
    assert X.ledger.entries_read == 0
    rows = np.linspace(0, 4999, SAMPLED_ROWS).astype(int)
    assert X.ledger.summary()["choice of the solver"] == np.count_nonzero(dense[rows])
    before = X.ledger.summary()
    auto_solver(RegularizedSVM, X, C=1.0, sq_norm=12.0)
    assert X.ledger.summary() == before
    assert mean_sq_norm(as_matrix(dense[:3])) == pytest.approx((dense[:3] ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300, 0.0])
def test_strange_values_are_left_to_those_who_refuse_them(value: float) -> None:
    for C in (10**400, 1e300, 1e-300, -1.0):
        solver = auto_solver(RegularizedSVM, as_matrix(np.full((100, 3), value)), C=C)
        assert solver.name in ("newton", "sdca", "sdca_newton")


@pytest.mark.filterwarnings("ignore:The model predicts the same class", "ignore:The fit stopped at max_iter")
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_estimator_hands_on_C_and_its_loss(loss: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6000, 600)), rng.integers(0, 2, 6000)  # more than few samples
    chosen = [LinearSVC(C=C, loss=loss, random_state=0, max_iter=3).fit(X, y).solver_ for C in (1e-6, 1e3)]
    assert chosen[0] in ("sdca", "sdca_newton")
    assert chosen[1] == "newton"


def test_scaling_X_and_C_inversely_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 100))
    for C in np.logspace(-4, 3, 8):
        names = {auto_solver(RegularizedSVM, as_matrix(X * k), C=C / k**2).name for k in (1.0, 1024.0, 1 / 1024)}
        assert len(names) == 1


@pytest.mark.parametrize("d", [20, 80, 300, 1200, 5000])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_the_lower_cost_decides_and_a_small_difference_may_be_corrected(d: int, C: float) -> None:
    X = as_matrix(sp.random_array((3000, d), density=0.01, rng=0, format="csr"))
    shape = LinearShape(3000, d, X.n_stored, C, smooth=True)
    solver = auto_solver(RegularizedSVM, X, C=C, sq_norm=1.0)
    ratio = shape.newton_cost() / shape.sdca_cost()
    assert solver.name == ("newton" if ratio < 1 else "sdca_newton" if ratio <= UNSURE else "sdca")
    if isinstance(solver, SdcaThenNewton):
        assert solver.newton_passes == shape.newton_passes() > 0


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_small_dense_data_too_is_left_to_sdca_where_that_is_faster(loss: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 400))
    y = np.where(X[:, 0] > 0, 1, -1)
    solvers = [LinearSVC(C=C, loss=loss, random_state=0).fit(X, y).solver_ for C in (1e-3, 10.0)]
    assert solvers[0] in ("sdca", "sdca_newton")
    assert solvers[1] == "newton"
