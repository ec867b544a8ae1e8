import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from maxmargin.core import best_factor, pour, water, water_level, water_levels

# Halves often tie.
heights = st.lists(st.one_of(st.integers(-4, 4).map(lambda k: k / 2), st.floats(-5, 5)), min_size=1, max_size=15)
volumes = st.one_of(st.just(0.0), st.integers(1, 20).map(float), st.floats(0, 50))


@st.composite
def basins(draw):
    c = np.array(draw(heights))
    some = st.lists(st.one_of(st.integers(1, 3).map(float), st.floats(0.1, 4)), min_size=c.size, max_size=c.size)
    s = draw(st.none() | some)
    return c, None if s is None else np.array(s)


@pytest.fixture(params=[water.SORTED, 1], ids=["sorted", "selected"])
def few_sorted(request, monkeypatch):
    """Sort all points, as of few, or decide on nearly all of them by selection, as of many."""
    monkeypatch.setattr(water, "SORTED", request.param)


def poured(level, c, s):
    return np.maximum(level - c, 0.0) @ widths(c, s)


def widths(c, s):
    return np.ones(c.size) if s is None else s


def best_by_linear_program(volume, *basins):
    """max sum of the levels g_k s.t. xi >= 0, xi_i >= g_k - c_i, sum s xi <= V, over (g, xi)."""
    c = np.concatenate([c for c, _ in basins])
    s = np.concatenate([widths(c, s) for c, s in basins])
    k = np.repeat(np.arange(len(basins)), [c.size for c, _ in basins])
    level_less_slack = np.hstack([np.eye(len(basins))[k], -np.eye(c.size)])
    result = linprog(
        np.r_[-np.ones(len(basins)), np.zeros(c.size)],
        A_ub=np.vstack([level_less_slack, np.r_[np.zeros(len(basins)), s]]),
        b_ub=np.r_[c, volume],
        bounds=[(None, None)] * len(basins) + [(0, None)] * c.size,
    )
    return -result.fun


@given(basin=basins(), volume=volumes, start=st.none() | st.floats(-100, 100))
def test_one_level_holds_the_volume(basin, volume, start):
    c, s = basin
    level = water_level(c, volume, s, start=start)
    assert level >= c.min()
    assert poured(level, c, s) == pytest.approx(volume, rel=1e-12, abs=1e-11)
    # From a different start the same, but for rounding.
    assert level == pytest.approx(water_level(c, volume, s), rel=1e-13, abs=1e-13)


@settings(max_examples=50, deadline=None)
@given(basin=basins(), volume=volumes)
def test_one_level_solves_the_linear_program(basin, volume):
    assert water_level(basin[0], volume, basin[1]) == pytest.approx(best_by_linear_program(volume, basin), abs=1e-7)


same_fixture = HealthCheck.function_scoped_fixture  # SORTED stays the same for all examples


@settings(max_examples=100, deadline=None, suppress_health_check=[same_fixture])
@given(positive=basins(), negative=basins(), volume=volumes)
def test_two_levels_solve_the_linear_program(positive, negative, volume, few_sorted):
    levels = water_levels(positive[0], negative[0], volume, positive[1], negative[1])
    used = poured(levels[0], *positive) + poured(levels[1], *negative)
    assert used == pytest.approx(volume, rel=1e-12, abs=1e-11)
    assert sum(levels) == pytest.approx(best_by_linear_program(volume, positive, negative), abs=1e-7)


@settings(deadline=None)
@given(positive=basins(), negative=basins(), volume=volumes)
def test_two_levels_change_places_with_the_basins(positive, negative, volume):
    one = water_levels(positive[0], negative[0], volume, positive[1], negative[1])
    other = water_levels(negative[0], positive[0], volume, negative[1], positive[1])
    assert one == pytest.approx(other[::-1], abs=1e-9)


@given(c=heights, d=heights, volume=volumes)
def test_a_point_twice_is_a_point_of_weight_two(c, d, volume):
    twice, weights = np.repeat(c, 2), np.full(len(c), 2.0)
    assert water_level(twice, volume) == pytest.approx(water_level(c, volume, weights), abs=1e-12)
    assert water_levels(twice, np.repeat(d, 2), volume) == pytest.approx(
        water_levels(c, d, volume, weights, np.full(len(d), 2.0)), abs=1e-12
    )


def dual_by_linear_program(volume, *basins):
    """min sum p c + V t s.t. 0 <= p_i <= t s_i and p sums to 1/K in each of K basins, over (p, t)."""
    c = np.concatenate([c for c, _ in basins])
    s = np.concatenate([widths(c, s) for c, s in basins])
    k = np.repeat(np.arange(len(basins)), [c.size for c, _ in basins])
    result = linprog(
        np.r_[c, volume],
        A_ub=np.column_stack([np.eye(c.size), -s]),
        b_ub=np.zeros(c.size),
        A_eq=np.column_stack([np.eye(len(basins))[:, k], np.zeros(len(basins))]),
        b_eq=np.full(len(basins), 1 / len(basins)),
        bounds=(0, None),
    )
    return result.fun


@settings(max_examples=100, deadline=None, suppress_health_check=[same_fixture])
@given(some=st.lists(basins(), min_size=1, max_size=2), volume=volumes)
def test_wet_shares_give_the_minimax_weights(some, volume, few_sorted):
    found = pour([c for c, _ in some], volume, [s for _, s in some])
    masses = [widths(c, s) * wet for (c, s), wet in zip(some, found.wet, strict=True)]
    m = masses[0].sum()
    np.testing.assert_allclose([mass.sum() for mass in masses], m, rtol=1e-12)
    p = [mass / (len(some) * m) for mass in masses]
    bound = sum(p @ c for p, (c, _) in zip(p, some, strict=True))
    bound += volume * max((p / widths(c, s)).max() for p, (c, s) in zip(p, some, strict=True))
    assert bound == pytest.approx(np.mean(found.levels), rel=1e-9, abs=1e-9)
    # The linear program is solved to a feasibility of 1e-7, its solver's default, in units of the largest height.
    height = max(1.0, *(np.abs(c).max() for c, _ in some))
    assert bound == pytest.approx(dual_by_linear_program(volume, *some), rel=1e-9, abs=1e-7 * height)
    for (c, _), level, wet in zip(some, found.levels, found.wet, strict=True):
        assert ((wet >= 0) & (wet <= 1)).all()
        assert (wet[c < level - 1e-9] == 1).all()
        assert (wet[c > level + 1e-9] == 0).all()
        for height in set(c):
            assert np.unique(wet[c == height]).size == 1
    assert tuple(found.levels) == (
        (water_level(some[0][0], volume, some[0][1]),)
        if len(some) == 1
        else water_levels(some[0][0], some[1][0], volume, some[0][1], some[1][1])
    )


@settings(deadline=None)
@given(some=st.lists(basins(), min_size=1, max_size=2), volume=volumes)
def test_no_other_factor_of_the_heights_has_a_higher_level(some, volume):
    def mean_level(t):
        return np.mean(pour([t * c for c, _ in some], volume, [s for _, s in some]).levels)

    best = best_factor([c for c, _ in some], volume, [s for _, s in some])
    assert 0 <= best <= 1
    highest = max(mean_level(t) for t in (0.0, 0.5 * best, 0.99 * best, min(1.0, 1.01 * best), 1.0))
    assert mean_level(best) >= highest - 1e-9 * max(1.0, *(np.abs(c).max() for c, _ in some))


def test_a_point_that_is_covered_in_part_has_a_part_of_its_weight():
    found = pour([[0.0], [0.0, 0.1]], 0.1 * 15, [[5.0], [1.0, 9.0]])
    np.testing.assert_allclose(np.concatenate(found.wet) * [5, 1, 9] / 10, [0.5, 0.1, 0.4])
    # Points at the same height have the same share, so that a row twice is a row of twice the weight.
    found = pour([[0.0, 0.0], [0.0, 0.1, 0.1]], 1.0)
    np.testing.assert_array_equal(np.concatenate(found.wet), [1, 1, 1, 0.5, 0.5])
    # Without a volume, too, both basins are wet over the same mass.
    found = pour([[0.0, 0.0, 1.0], [3.0, 2.0]], 0.0)
    np.testing.assert_array_equal(np.concatenate(found.wet), [0.5, 0.5, 0, 0, 1])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mean", [0.0, 1e-4, 0.05, 1.0, 100.0])
def test_selection_among_many_points_agrees_with_sorting(weighted, mean, monkeypatch):
    """Both find the same wet points, and levels that differ by no more than the rounding of their sums."""
    rng = np.random.default_rng(0)
    heights = [rng.normal(size=40_000), np.round(rng.exponential(size=25_000), 3)]
    weights = [rng.choice([0.3, 1.0, 7.0], size=c.size) if weighted else np.ones(c.size) for c in heights]
    found = []
    for most in (water.SORTED, 10**6):
        monkeypatch.setattr(water, "SORTED", most)
        found.append(pour(heights, mean * 65_000, weights))
    np.testing.assert_allclose(found[0].levels, found[1].levels, rtol=1e-11, atol=1e-11)
    for one, other in zip(found[0].wet, found[1].wet, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_the_middle_of_the_best_levels_is_chosen():
    # One point of each basin is wet; any share of the volume gives the same sum, while the second points stay dry.
    assert water_levels([0.0, 1.0], [0.0, 1.0], 1.0) == (0.5, 0.5)
    assert water_levels([0.0, 0.5], [0.0, 9.0], 1.0) == (0.25, 0.75)
    assert water_levels([2.0, 7.0], [-3.0, 5.0], 0.0) == (2.0, -3.0)


def test_a_million_times_larger_offset_loses_no_more_than_its_rounding():
    c = np.arange(10.0)
    assert water_level(c + 2.0**30, 3.0) - 2.0**30 == water_level(c, 3.0) == 2.0


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="heights must be"):
        water_level([], 1.0)
    with pytest.raises(ValueError, match=r"heights must be .* nan"):
        water_level([0.0, np.nan], 1.0)
    for volume in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="volume must be"):
            water_level([0.0], volume)
        with pytest.raises(ValueError, match="volume must be"):
            water_levels([0.0], [0.0], volume)
        with pytest.raises(ValueError, match="volume must be"):
            pour([[0.0], [0.0]], volume)
    with pytest.raises(ValueError, match="heights must be those of one basin or of two, got 3"):
        pour([[0.0]] * 3, 1.0)
    with pytest.raises(ValueError, match="volume must be"):
        best_factor([[0.0]], -1.0)
    with pytest.raises(ValueError, match="negative must be"):
        water_levels([0.0], [], 1.0)
    for weights in ([1.0], [1.0, 0.0], [1.0, np.nan]):
        with pytest.raises(ValueError, match="weights must be"):
            water_level([0.0, 1.0], 1.0, weights)
