"""Predictions by need: the labels of all features, from as few of them as the ranges allow."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from block_sources import InBlocks
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from maxmargin import LinearSVC
from maxmargin.data import OnDemand, as_matrix, feature_ranges
from maxmargin.estimators import RangeWarning
from maxmargin.estimators.by_need import Plan, checked_ranges


def on_demand(X):
    return OnDemand(*X.shape, entries=lambda i, j: X[i, j])


KINDS = {"array": np.asarray, "fortran": np.asfortranarray, "csr": sp.csr_array, "csc": sp.csc_array}
KINDS |= {"source": InBlocks, "sparse source": lambda X: InBlocks(sp.csr_array(X)), "on demand": on_demand}
KINDS |= {"matrix": as_matrix}


def model_of(classes, d=8, n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    y = np.argmax(X[:, :classes] + 0.3 * rng.normal(size=(n, classes)), axis=1)
    return LinearSVC().fit(X, y), X


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [2, 4])
def test_labels_are_those_of_all_features_on_any_data(kind, classes):
    model, X = model_of(classes)
    decisions = model.decide(KINDS[kind](X), ranges=feature_ranges(X))
    np.testing.assert_array_equal(decisions.labels, model.predict(X))
    assert decisions.decided.all()
    assert decisions.entries.mean() < 8
    np.testing.assert_array_equal(decisions.cost, decisions.entries)
    assert decisions.full_cost == 8
    other = model.decide(X, ranges=feature_ranges(X))
    np.testing.assert_array_equal(other.entries, decisions.entries)
    np.testing.assert_array_equal(other.values, decisions.values)


@st.composite
def linear_models(draw):
    """A model with weights of one size, ranges, costs, and values within the ranges."""
    d, classes, m = draw(st.integers(1, 6)), draw(st.integers(2, 4)), draw(st.integers(1, 5))
    numbers = st.floats(-4, 4, width=16)
    W = draw(arrays(float, (1 if classes == 2 else classes, d), elements=numbers))
    b = draw(arrays(float, W.shape[0], elements=numbers))
    ends = np.sort(draw(arrays(float, (2, d), elements=numbers)), axis=0)
    typical = draw(st.one_of(st.just(()), st.tuples(arrays(float, d, elements=st.floats(0, 1, width=16)))))
    share = draw(arrays(float, (m, d), elements=st.floats(0, 1, width=16)))
    costs = draw(arrays(float, d, elements=st.sampled_from([0.0, 0.5, 1.0, 7.0])))
    X, *typical = (np.clip(ends[0] + part * (ends[1] - ends[0]), *ends) for part in (share, *typical))
    return fitted(W, b), X, checked_ranges((*ends, *typical), d), costs


def fitted(W, b):
    model = LinearSVC()
    model.coef_, model.intercept_, model.n_features_in_ = W, b, W.shape[1]
    model.classes_ = np.arange(max(2, W.shape[0]))
    return model


@given(case=linear_models(), budget=st.sampled_from([0.0, 1.0, 3.5, 10.0, np.inf]))
@settings(max_examples=200, deadline=None)
def test_what_is_decided_is_right_and_no_budget_is_exceeded(case, budget):
    model, X, ranges, costs = case
    decisions = model.decide(X, ranges=ranges, cost=costs, budget=budget)
    exact = model.decision_function(X)
    by_class = np.column_stack([np.zeros(X.shape[0]), exact]) if exact.ndim == 1 else exact
    chosen = np.take_along_axis(by_class, decisions.labels[:, None], axis=1)[:, 0]
    best = by_class.max(axis=1)
    # A tie of the exact values may be broken either way.
    assert (chosen[decisions.decided] >= best[decisions.decided] - 1e-12).all()
    assert (decisions.cost <= budget).all()
    if budget == np.inf:
        assert decisions.decided.all()


@given(case=linear_models(), budget=st.sampled_from([0.0, 1.0, 3.5]))
@settings(max_examples=100, deadline=None)
def test_what_is_not_decided_could_be_either(case, budget):
    """For values at the ends of the ranges of the features that were not asked for, another class wins or ties."""
    model, X, ranges, costs = case
    decisions = model.decide(X, ranges=ranges, cost=costs, budget=budget)
    plan = Plan.of(model.coef_, model.intercept_, costs, ranges, budget)
    asked = np.concatenate([*plan.batches, np.zeros(0, dtype=int)])
    for i in np.flatnonzero(~decisions.decided):
        winner = decisions.labels[i]
        leads = []
        for rival in range(plan.W.shape[0]):
            difference = plan.W[winner] - plan.W[rival]
            worst = np.where(difference > 0, ranges.low, ranges.high)
            worst[asked] = X[i, asked]
            bias = (plan.start - plan.W @ ranges.typical)[[winner, rival]]
            leads.append(difference @ worst + bias[0] - bias[1])
        leads[winner] = np.inf
        assert min(leads) <= 1e-9


@given(case=linear_models())
@settings(max_examples=50, deadline=None)
def test_the_radius_is_kept_up_to_date(case):
    model, _, ranges, costs = case
    plan = Plan.of(model.coef_, model.intercept_, costs, ranges, np.inf)
    left = np.ones(plan.W.shape[1], dtype=bool)
    for step in range(len(plan.batches) + 1):
        for k, l in np.ndindex(plan.radius[step].shape):
            difference = (plan.W[k] - plan.W[l])[left]
            worst = np.minimum(difference * ranges.low[left], difference * ranges.high[left])
            expected = (difference * ranges.typical[left] - worst).sum()
            assert plan.radius[step][k, l] == pytest.approx(expected, abs=1e-10)
        assert plan.cost[step] == pytest.approx(costs[~left].sum() if step else 0.0)
        if step < len(plan.batches):
            left[plan.batches[step]] = False


def test_the_most_decisive_features_for_their_cost_come_first():
    plan = Plan.of(
        np.array([[1.0, -5.0, 3.0, 0.0, 2.0, 9.0]]),
        np.zeros(1),
        np.array([1.0, 10.0, 1.0, 1.0, 0.0, 1.0]),
        checked_ranges((0.0, [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]), 6),  # the last feature has but one value
        np.inf,
    )
    assert np.concatenate(plan.batches).tolist() == [4, 2, 0, 1]


def test_batches_ask_for_little_more_than_features_one_by_one():
    d = 5000
    plan = Plan.of(np.ones((1, d)), np.zeros(1), np.ones(d), checked_ranges((0, 1), d), np.inf)
    sizes = np.array([batch.size for batch in plan.batches])
    assert sizes.sum() == d
    assert (sizes[1:] <= np.maximum(1, np.cumsum(sizes)[:-1] / 16)).all()
    assert len(sizes) < 160


def test_features_that_are_too_expensive_are_passed_over():
    model = fitted(np.array([[3.0, 2.0, 1.0]]), np.zeros(1))
    decisions = model.decide(np.full((1, 3), 0.9), ranges=(-1, 1), cost=[9.0, 1.0, 1.0], budget=3.0)
    assert decisions.cost.tolist() == [2.0]
    assert decisions.values[0] == pytest.approx(2.7)
    assert not decisions.decided[0]
    assert "0 of 1 samples decided, at 18.2% of the cost of all features (2.0 features a sample)" in str(decisions)


def test_on_demand_only_what_is_asked_for_is_computed_and_once():
    model, X = model_of(2)
    costs = np.arange(1.0, 9.0)
    source = OnDemand(*X.shape, entries=lambda i, j: X[i, j], cost=costs)
    decisions = model.decide(source, ranges=feature_ranges(X))
    assert source.spent == pytest.approx(decisions.cost.sum())
    assert source.computed == decisions.entries.sum()
    again = model.decide(source, ranges=feature_ranges(X))
    assert source.computed == decisions.entries.sum()
    np.testing.assert_array_equal(again.values, decisions.values)


def test_a_budget_in_decision_function():
    model, X = model_of(3)
    ranges = feature_ranges(X)
    for budget in (3.0, None):
        expected = model.decide(X, ranges=ranges, budget=np.inf if budget is None else budget)
        found = model.decision_function(X, ranges=ranges, budget=budget)
        np.testing.assert_array_equal(found, expected.values)
        assert found.shape == (60, 3)


def test_values_outside_of_their_ranges_are_told():
    model, X = model_of(2)
    low, high, _ = feature_ranges(X)
    wide = X.copy()
    j = int(np.argmax(np.abs(model.coef_[0]) * (high - low)))
    wide[5, j] = high[j] + 1
    with pytest.warns(RangeWarning, match=rf"^1 values .* at row 5, column {j}, whose range is"):
        decisions = model.decide(wide, ranges=(low, high))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.decide(X, ranges=(low, high))
    # The value itself is used as it is.
    full = model.decide(wide[[5]], ranges=feature_ranges(wide))
    assert decisions.labels[5] == full.labels[0]


def test_values_that_are_not_finite_are_refused_where_they_are_read():
    model, X = model_of(2)
    ranges = feature_ranges(X)
    asked = int(np.concatenate(Plan.of(model.coef_, model.intercept_, np.ones(8), ranges, np.inf).batches)[0])
    X = X.copy()
    X[7, asked] = np.nan
    with pytest.raises(ValueError, match=f"nan at row 7, column {asked}"):
        model.decide(X, ranges=ranges)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranges": None}, "feature_ranges"),
        ({"ranges": (0.0, [1.0, 2.0])}, "arrays of 8 features"),
        ({"ranges": (1.0, 0.0)}, r"range of feature 0 must be finite.*got \[1, 0\]"),
        ({"ranges": (0.0, 1.0, 2.0)}, r"typical value within; got \[0, 1\] and 2"),
        ({"ranges": (0.0, np.inf)}, "finite"),
        ({"ranges": (0.0, 1.0), "budget": -1}, "budget"),
        ({"ranges": (0.0, 1.0), "budget": np.nan}, "budget"),
        ({"ranges": (0.0, 1.0), "cost": [1.0]}, "cost has shape"),
    ],
)
def test_wrong_parameters(options, message):
    model, X = model_of(2)
    with pytest.raises(ValueError, match=message):
        model.decide(X, **options)


def test_data_of_another_width_is_refused():
    model, X = model_of(2)
    for kind in ("array", "on demand"):
        with pytest.raises(ValueError, match="features"):
            model.decide(KINDS[kind](X[:, :5]), ranges=(0, 1))


# Ranges


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_of_any_data(kind):
    _, X = model_of(2)
    for found, expected in zip(
        feature_ranges(KINDS[kind](X)), (X.min(axis=0), X.max(axis=0), X.mean(axis=0)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_ranges_are_read_in_blocks(monkeypatch):
    monkeypatch.setattr("maxmargin.data.entries.BLOCK_SAMPLES", 7)
    _, X = model_of(2)
    np.testing.assert_array_equal(feature_ranges(X)[0], X.min(axis=0))
    np.testing.assert_array_equal(feature_ranges(sp.csr_array(X))[1], X.max(axis=0))


def test_decisions_do_not_depend_on_the_blocks(monkeypatch):
    model, X = model_of(3)
    expected = model.decide(X, ranges=feature_ranges(X))
    monkeypatch.setattr("maxmargin.data.entries.BLOCK_SAMPLES", 7)
    for data in (X, sp.csr_array(X)):
        np.testing.assert_array_equal(model.decide(data, ranges=feature_ranges(X)).entries, expected.entries)


def test_ranges_of_values_that_are_not_finite():
    X = np.ones((4, 3))
    X[2, 1] = np.nan
    with pytest.raises(ValueError, match="column 1"):
        feature_ranges(X)
    with pytest.raises(ValueError, match="no rows"):
        feature_ranges(SimpleNamespace(shape=(0, 3)))
