import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chisquare

from maxmargin.core._selection import TopWeights


class Naive:
    """The same, by sorting everything each time."""

    def __init__(self, priors, labels, mass):
        self.priors, self.labels, self.mass = np.array(priors), np.array(labels), mass
        self.keys = np.zeros(len(priors))
        self.restore()

    def restore(self):
        order = np.lexsort((np.arange(self.keys.size), -self.keys))
        used = np.cumsum(self.priors[order])
        fitting = np.searchsorted(used, self.mass, side="right")
        self.fractions = np.zeros(self.keys.size)
        self.fractions[order[:fitting]] = 1.0
        if fitting < self.keys.size:
            before = used[fitting - 1] if fitting else 0.0
            self.fractions[order[fitting]] = (self.mass - before) / self.priors[order[fitting]]
        self.top = np.zeros(self.keys.size, dtype=bool)
        self.top[order[:fitting]] = True

    def shift(self, top, label, delta):
        self.keys[(self.top == top) & (self.labels == label)] += delta

    @property
    def log_weights(self):
        return np.log(self.priors) + self.keys


def agree(top, naive):
    n = naive.keys.size
    assert [top.key(i) for i in range(n)] == naive.keys.tolist() == top.keys().tolist()
    assert [top.is_top(i) for i in range(n)] == naive.top.tolist()
    assert [top.fraction(i) for i in range(n)] == naive.fractions.tolist()
    assert top.top_mass == naive.priors[naive.top].sum()
    assert (top.boundary is None) == naive.top.all()
    total = logsumexp(naive.log_weights)
    assert top.log_total == pytest.approx(total, rel=1e-12, abs=1e-12)
    p = np.exp(naive.log_weights - total)
    for label in (0, 1):
        assert top.probability(label) == pytest.approx(p[naive.labels == label].sum(), rel=1e-9, abs=1e-12)


# Multiples of 1/8 add up without rounding, and often meet.
eighths = st.integers(-16, 16).map(lambda k: k / 8)
far = st.sampled_from([-2000.0, -400.0, 400.0, 2000.0])
operations = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 10**6), eighths | far),
    st.tuples(st.just("shift"), st.booleans(), st.integers(0, 1), eighths | far),
    st.tuples(st.just("restore")),
)


@settings(max_examples=300)
@given(
    items=st.lists(st.tuples(st.integers(1, 24), st.integers(0, 1)), min_size=1, max_size=30),
    share=st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0, 1.5]),
    unit=st.booleans(),
    steps=st.lists(operations, max_size=60),
)
def test_top_weights_agree_with_sorting(items, share, unit, steps):
    priors = [1.0 if unit else s / 8 for s, _ in items]
    labels = [label for _, label in items]
    mass = np.floor(share * sum(priors) * 16) / 16
    top, naive = TopWeights(priors, labels, mass), Naive(priors, labels, mass)
    agree(top, naive)
    tallies = np.zeros(len(items))
    for name, *arguments in steps:
        if name == "add":
            i, delta = arguments[0] % len(items), arguments[1]
            top.add(i, delta)
            naive.keys[i] += delta
        elif name == "shift":
            top.shift(*arguments)
            naive.shift(*arguments)
        else:
            top.restore()
            naive.restore()
            agree(top, naive)
            top.tally()
            tallies += naive.fractions
    np.testing.assert_allclose(top.tallies(), tallies, atol=1e-12)
    top.restore()
    naive.restore()
    agree(top, naive)
    agree(TopWeights(priors, labels, mass, keys=top.keys()), naive)


def test_nothing_drifts_in_many_operations():
    rng = np.random.default_rng(1)
    n, mass = 200, 37.3
    priors, labels = rng.uniform(0.1, 3.0, n), rng.integers(0, 2, n)
    top, keys, is_top = TopWeights(priors, labels, mass), np.zeros(n), np.zeros(n, dtype=bool)
    is_top[:] = [top.is_top(i) for i in range(n)]
    for k in range(100_000):
        i, delta = rng.integers(n), rng.normal(-0.05)
        top.add(i, delta)
        keys[i] += delta
        if k % 20 == 0:
            delta = -rng.random() / 10
            group = (k // 20 % 2 == 0, k // 40 % 2)
            top.shift(*group, delta)
            keys[(is_top == group[0]) & (labels == group[1])] += delta
            top.restore()
            is_top[:] = [top.is_top(i) for i in range(n)]
    top.restore()
    is_top[:] = [top.is_top(i) for i in range(n)]
    # Each of some 5,500 changes of a key is rounded by 2^-41 at most.
    np.testing.assert_allclose(top.keys(), keys, atol=3e-9)
    assert top.top_mass == pytest.approx(priors[is_top].sum(), rel=1e-12)
    assert top.keys()[is_top].min() >= top.keys()[~is_top].max()
    assert sum(top.fraction(i) * priors[i] for i in range(n)) == pytest.approx(mass, rel=1e-12)
    assert top.log_total == pytest.approx(logsumexp(np.log(priors) + keys), rel=1e-9)


@given(
    keys=st.lists(st.floats(-3, 3), min_size=2, max_size=30),
    moves=st.lists(st.tuples(st.integers(0, 10**6), st.floats(-2, 2)), max_size=20),
    tolerance=st.floats(0, 2),
    share=st.floats(0, 1),
)
def test_a_tolerance_loses_no_more_than_it_says(keys, moves, tolerance, share):
    n = len(keys)
    priors, labels = 1.0 + np.arange(n) % 3, np.arange(n) % 2
    mass = share * priors.sum()
    top = TopWeights(priors, labels, mass, keys=keys)
    for i, delta in moves:
        top.add(i % n, delta)
        top.restore(tolerance)
    best = TopWeights(priors, labels, mass, keys=top.keys())
    weights = priors * np.exp(top.keys())
    value, most = (sum(weights[i] * which.fraction(i) for i in range(n)) for which in (top, best))
    assert np.exp(-tolerance) * most - 1e-9 <= value <= most + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_draws_follow_the_weights(seed):
    # False alarm: 1e-7 for each of five seeds.
    rng = np.random.default_rng(seed)
    n = 60
    priors, labels = rng.uniform(0.5, 2.0, n), rng.integers(0, 2, n)
    top = TopWeights(priors, labels, 0.3 * n)
    for _ in range(500):
        top.add(rng.integers(n), rng.normal())
        top.shift(True, rng.integers(2), -0.1)
        top.restore()
    top.shift(True, 0, 900.0)
    top.shift(True, 1, 900.0)
    top.shift(False, 0, 902.0)
    top.shift(False, 1, 898.0)
    p = priors * np.exp(top.keys() - top.log_total)
    assert p.sum() == pytest.approx(1.0, rel=1e-9)
    counts = np.bincount([top.draw(u) for u in rng.random(20_000)], minlength=n)
    # Items too rare for the chi-square approximation are one class.
    rare = p < 1e-3
    observed, expected = np.append(counts[~rare], counts[rare].sum()), np.append(p[~rare], p[rare].sum())
    assert chisquare(observed, 20_000 * expected / expected.sum()).pvalue > 1e-7


def test_an_item_comes_back_from_far_below():
    top = TopWeights(np.ones(3), [0, 0, 1], mass=0.0)
    top.add(0, -5000.0)
    assert {top.draw(u) for u in (0.0, 0.4, 0.99)} == {1, 2}
    top.add(1, -6000.0)
    top.add(2, -6000.0)
    assert [top.draw(u) for u in (0.0, 0.4, 0.99)] == [0, 0, 0]
    assert top.log_total == -5000.0


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="priors"):
        TopWeights([1.0, 0.0], [0, 1], 1.0)
    with pytest.raises(ValueError, match="labels"):
        TopWeights([1.0, 1.0], [-1, 1], 1.0)
    with pytest.raises(ValueError, match="labels"):
        TopWeights([1.0, 1.0], [1], 1.0)
    with pytest.raises(ValueError, match="keys"):
        TopWeights([1.0, 1.0], [0, 1], 1.0, keys=[0.0, np.nan])
    for mass in (-1.0, np.nan):
        with pytest.raises(ValueError, match="mass"):
            TopWeights([1.0], [0], mass)
    top = TopWeights([1.0, 1.0], [0, 1], 1.0)
    for delta in (np.nan, np.inf, 1e7):
        with pytest.raises(ValueError, match="Keys must be"):
            top.add(0, delta)
        with pytest.raises(ValueError, match="Keys must be"):
            top.shift(True, 0, delta)
    with pytest.raises(ValueError, match="label"):
        top.shift(True, 2, 0.0)
    with pytest.raises(ValueError, match="label"):
        top.probability(-1)
    with pytest.raises(ValueError, match="tolerance"):
        top.restore(-1.0)
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        top.draw(-0.1)
    for i in (-1, 2):
        with pytest.raises(IndexError):
            top.key(i)
