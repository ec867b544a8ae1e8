import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from maxmargin.core._sampling import WeightTree

magnitudes = st.one_of(st.just(0.0), st.floats(-12, 12).map(lambda x: 10.0**x))
sizes = st.sampled_from([1, 2, 7, 8, 9, 63, 64, 65, 520])


@given(size=sizes, data=st.data())
def test_sums_are_those_of_the_weights_after_any_updates(size, data):
    tree, weights = WeightTree(size), np.zeros(size)
    for i, weight in data.draw(st.lists(st.tuples(st.integers(0, size - 1), magnitudes), max_size=60)):
        tree.set(i, weight)
        weights[i] = weight
    again = WeightTree(size)
    again.fill(weights)
    assert tree.total == again.total == pytest.approx(weights.sum(), rel=1e-14)
    assert [tree.get(i) for i in range(size)] == weights.tolist()


def test_sums_do_not_drift():
    rng = np.random.default_rng(0)
    tree, weights = WeightTree(1000), np.zeros(1000)
    for _ in range(100_000):
        i, weight = rng.integers(1000), 10.0 ** rng.uniform(-12, 12)
        tree.set(i, weight)
        weights[i] = weight
    # Only the small ones stay: any trace of the large ones would show.
    for i in np.flatnonzero(weights > 1e-9):
        tree.set(i, 0.0)
        weights[i] = 0.0
    assert tree.total == pytest.approx(weights.sum(), rel=1e-14)


def test_what_rounding_leaves_over_goes_to_the_last():
    weights = np.zeros(63)
    weights[0] = weights[61] = 1.0
    weights[62] = 1e8
    tree = WeightTree(63)
    tree.fill(weights)
    assert tree.draw(np.nextafter(1.0, 0.0)) == 62


@given(size=sizes, u=st.one_of(st.floats(0, 1, exclude_max=True), st.just(np.nextafter(1.0, 0.0))), data=st.data())
def test_a_draw_inverts_the_cumulated_weights(size, u, data):
    weights = np.array(data.draw(st.lists(magnitudes, min_size=size, max_size=size)))
    weights[data.draw(st.integers(0, size - 1))] = 1.0
    tree = WeightTree(size)
    tree.fill(weights)
    i = tree.draw(u)
    assert weights[i] > 0
    below = weights[:i].sum() / weights.sum()
    assert below - 1e-12 <= u <= below + weights[i] / weights.sum() + 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_draws_follow_the_weights(seed):
    # False alarm: 1e-7 for each of five seeds.
    rng = np.random.default_rng(seed)
    weights = rng.random(100) * (rng.random(100) < 0.7)
    tree = WeightTree(100)
    tree.fill(weights)
    counts = np.bincount([tree.draw(u) for u in rng.random(20_000)], minlength=100)
    some = weights > 0
    assert counts[~some].sum() == 0
    assert chisquare(counts[some], 20_000 * weights[some] / weights.sum()).pvalue > 1e-7


def test_wrong_arguments_are_refused():
    tree = WeightTree(3)
    with pytest.raises(ValueError, match="all weights are zero"):
        tree.draw(0.5)
    for weight in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="not negative"):
            tree.set(0, weight)
        with pytest.raises(ValueError, match="not negative"):
            tree.fill([1.0, weight, 1.0])
    with pytest.raises(ValueError, match="Expected 3 weights"):
        tree.fill([1.0])
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        tree.draw(1.0)
    for i in (-1, 3):
        with pytest.raises(IndexError):
            tree.get(i)
    with pytest.raises(ValueError, match="at least one"):
        WeightTree(0)
