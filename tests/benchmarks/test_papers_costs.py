"""What the papers' experiments measure costs and errors with, and what their pages make of rows that are known."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "benchmarks" / "papers").exists():
    pytest.skip("benchmarks come with a checkout only", allow_module_level=True)
for path in (ROOT, ROOT / "benchmarks"):
    sys.path.insert(0, str(path))

from benchmarks.papers import cost_at_fixed_error, mean_curves, reaching, regime_map, semidefinite, simba_figure_1  # noqa: E402
from maxmargin import SlackSVM  # noqa: E402
from maxmargin.data import as_matrix  # noqa: E402
from maxmargin.sdp import eigen  # noqa: E402
from maxmargin.solvers import Simba  # noqa: E402

import baselines  # noqa: E402  isort: skip
import common  # noqa: E402  isort: skip


@pytest.mark.parametrize(
    ("errors", "staying", "expected"),
    [
        ([0.3, 0.1, 0.1], None, 1),
        ([0.1, 0.3, 0.1, 0.1], None, 2),
        ([0.3, 0.1], None, None),
        ([0.1, 0.1, 0.3, 0.1, 0.1], 0.9, 3),
        ([], None, None),
    ],
)
def test_a_level_counts_where_it_is_kept(errors, staying, expected):
    assert common.check_at(errors, 0.2, staying) == expected


def test_a_grid_grows_until_its_best_value_is_inside():
    def measured(best):
        return reaching.widened(lambda value: abs(math.log10(value) - best), float, (1.0, 10.0))

    for best in (-3, 0.5, 4):
        found = measured(best)
        assert min(found.values()) <= 0.5
        assert min(found) < min(found, key=found.get) < max(found)
    assert len(measured(-100)) <= reaching.MOST_VALUES + 2


def test_nothing_lies_beyond_a_value_of_0():
    found = reaching.widened(lambda value: value, float, (0.0, 1.0))
    assert set(found) == {0.0, 1.0}


@pytest.mark.parametrize("density", [1.0, 0.2])
def test_the_exact_error_is_that_of_a_large_sample(density):
    """4 standard deviations of the share: by chance, one in 16,000 runs would be farther off."""
    cell = regime_map.Cell(20_000, 200, density=density, margin=0.1, hard=0.3)
    sample = regime_map.sample(cell, 0)
    rng = np.random.default_rng(1)
    w = rng.standard_normal(cell.d) * 0.01 + sample.truth.groups[0].mean + sample.truth.groups[1].mean
    wrong = float(np.mean(sample.X.dot(w) * sample.y <= 0))
    exact = sample.truth.error_of(w)
    assert 0.01 < exact < 0.5
    assert abs(wrong - exact) < 4 * math.sqrt(exact / cell.n)


def test_rows_keep_their_norm_at_each_density():
    for density in (1.0, 0.1):
        sample = regime_map.sample(regime_map.Cell(500, 400, density=density, hard=0.0), 0)
        assert sample.X.n_stored == pytest.approx(density * 500 * 400, rel=0.05)
        rows = sample.X.dot(np.eye(400))
        assert np.mean(np.sum(rows**2, axis=1)) == pytest.approx(regime_map.NORM**2, rel=0.05)


def test_flipped_labels_are_as_many_as_asked_for():
    clean, noisy = (regime_map.sample(regime_map.Cell(2_000, 20, noise=noise), 0).y for noise in (0.0, 0.1))
    assert 0.07 < np.mean(clean != noisy) < 0.13


@pytest.mark.parametrize("solver", [Simba(), Simba(method="paper"), baselines.Pegasos(regularization=1e-2)])
def test_accesses_are_counted_until_the_error_stays(solver):
    sample = regime_map.sample(regime_map.Cell(300, 200, density=0.5, hard=0.0), 0)
    problem = SlackSVM(sample.X, sample.y, 0.0, bias=False)
    reached = reaching.accesses_until(problem, solver, sample.truth, 0.1, 100 * sample.X.n_stored, 0)
    assert 0 < reached.stored < reached.dense
    assert reached.dense / reached.stored == pytest.approx(2, rel=0.2)
    assert reached.last_error <= 0.1
    again = reaching.accesses_until(problem, solver, sample.truth, 0.1, 100 * sample.X.n_stored, 0)
    assert again == reached  # what was read before does not count
    never = reaching.accesses_until(problem, solver, sample.truth, -1.0, 2 * sample.X.n_stored, 0)
    assert math.isnan(never.stored)


def test_one_pass_of_passive_aggressive_is_that_of_dual_ascent():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 5)), np.where(rng.random(30) < 0.5, -1.0, 1.0)
    problem = SlackSVM(as_matrix(X), y, 0.0, bias=False)
    solver = baselines.PassiveAggressive(cap=0.3)
    state = solver.start(problem, np.random.default_rng(2))
    solver.step(problem, state, 30, 10**9)
    w = np.zeros(5)
    for i in np.random.default_rng(2).permutation(30):
        x = y[i] * X[i] / problem.scale
        w += np.clip((1 - w @ x) / (x @ x), 0, 0.3) * x
    np.testing.assert_allclose(state.factor * state.v, w)


def of_map(method, stored, reached=1, last_error=0.0):
    cell = {"task": "cell", "runs": 1, "dense": 2 * stored, "stored": stored}
    return cell | {"method": method, "reached": reached, "last_error": last_error}


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"), [(1, 1, (5.0, "")), (0, 1, (5.0, "<")), (1, 0, (5.0, ">")), (0, 0, (5.0, "?"))]
)
def test_ratios_of_the_map_say_who_got_there(ours, theirs, expected):
    rows = [of_map(regime_map.OURS, 20, ours), of_map("centroid", 100, theirs)]
    assert regime_map.RegimeMap().ratio(rows, "cell", regime_map.OURS, "stored") == expected
    pays = regime_map.RegimeMap().pays(rows, regime_map.OURS, "dense", 5)
    assert pays == (["cell"] if ours else [])


def test_a_parameter_that_gets_there_is_better_than_a_cheap_one_that_does_not():
    rows = [of_map("centroid", 10, 0), of_map("Pegasos", 50, 1)]
    assert regime_map.RegimeMap().least(rows, "stored")["method"] == "Pegasos"


def test_kinds_of_rows_and_the_norm_of_their_predictor():
    size = cost_at_fixed_error.Size.enough(8, 0.1)
    sample = cost_at_fixed_error.sample(size, 0)
    X, y, truth = sample.X, sample.y, sample.truth
    u = sum(group.mean for group in truth.groups) / (1 - cost_at_fixed_error.NOISE**2)
    assert np.linalg.norm(u) == pytest.approx(size.B)
    assert np.mean(y * (X @ u)) == pytest.approx(1, abs=0.01)
    assert truth.error_of(u) < 1e-6
    assert np.linalg.norm(X, axis=1).mean() == pytest.approx(1, abs=0.01)
    assert truth.error_of(truth.groups[0].mean) == pytest.approx(cost_at_fixed_error.RARE * size.eps / 2, abs=1e-6)


def test_exponents_of_costs_are_found_again():
    experiment, rows = cost_at_fixed_error.CostAtFixedError(), []
    for task in experiment.tasks("quick"):
        factor, number = task.split(": ")
        size = cost_at_fixed_error.SERIES[factor]["quick"][int(number)]
        row = {"task": task, "series": factor, "B": size.B, "epsilon": size.eps, "n": size.n}
        cost = 3 * size.n * size.B**2
        for method in cost_at_fixed_error.METHODS:
            rows += [row | {"method": method, "seed": seed, "cost": (1 + seed) * cost} for seed in (0, 1)]
    laws = {(factor, method): (law, promise) for factor, method, law, promise in experiment.laws(rows)}
    for factor, exponent in (("B", 4), ("1/epsilon", 1), ("n", 1)):
        law, promise = laws[factor, "SBP as written"]
        assert law[0] == pytest.approx(exponent, abs=0.02)
        assert promise == pytest.approx(exponent, abs=0.02)
    assert laws["1/epsilon", "Pegasos on a kernel"][1] == pytest.approx(3, abs=0.02)
    assert "SIMBA, default" not in "".join(experiment.verdict(rows).figures)  # no theorem speaks of it
    assert math.isnan(laws["n", "SMO"][1])
    rows[0] |= {"cost": math.nan}  # then its size is left out
    runs = experiment.runs(rows, rows[0]["series"], rows[0]["method"])
    assert rows[0]["task"] not in {run["task"] for run in runs}
    assert runs


def test_products_of_lanczos_are_counted_and_nothing_stays_changed():
    before = eigen.eigsh
    Y = semidefinite.matrix(semidefinite.FLAT, semidefinite.LEAST_N, 0)
    found = semidefinite.projected(Y, 0.2, semidefinite.LINE_SEARCH)
    assert found["work"] >= found["steps"] * len(Y) ** 2 > 0
    assert 0 <= found["shortfall"] <= 0.2
    assert eigen.eigsh is before


def test_the_exponent_of_a_bound_with_a_logarithm_is_fitted_through_the_same_points():
    bare, logarithm = (
        semidefinite.Claim("part", "n", "work", 2.0, "n^2 log n", logarithm=logarithm) for logarithm in (False, True)
    )
    at = [80.0, 160.0, 320.0]
    assert bare.largest_exponent(at) == 2
    assert logarithm.largest_exponent(at) == pytest.approx(
        2 + math.log(math.log(320) / math.log(80)) / math.log(4), abs=0.01
    )


def test_entries_of_a_semidefinite_run_are_those_of_its_rounds():
    found = semidefinite.played(semidefinite.LEAST_N, 20, 0.9, 0)
    columns = found["entries"] - found["T"] * semidefinite.LEAST_N**2  # one entry of every matrix, unless X_t is 0
    assert 0.9 * 20 * found["T"] < columns <= 20 * found["T"]


def curve(method, parameter, seed, errors):
    own = {"set": "made up", "method": method, "parameter": parameter, "seed": seed}
    return [own | {"stored": 10.0**k, "dense": 10.0 ** (k + 1), "error": error} for k, error in enumerate(errors, 6)]


def test_the_figure_finds_its_levels_and_parameters():
    rows = []
    for seed in (0, 1):
        rows += curve(mean_curves.SIMBA, 0.1, seed, [0.2, 0.04, 0.04, 0.04])
        rows += curve(mean_curves.SIMBA, 0.2, seed, [0.2, 0.2, 0.2, 0.2])
        rows += curve(mean_curves.SIMBA, 0.3, seed, [0.045, 0.05, 0.05, 0.05])
        rows += curve(mean_curves.PEGASOS, 0.1, seed, [0.2, 0.2, 0.04, 0.04])
    curves = mean_curves.Curves(rows)
    assert curves.best("made up", mean_curves.SIMBA).parameter == 0.1
    assert curves.at_an_edge("made up", mean_curves.SIMBA)
    assert curves.target("made up") == pytest.approx(0.041)
    assert curves.ratio("made up", "stored") == (pytest.approx(10, rel=0.1), True)
    assert curves.cheapest("made up", mean_curves.SIMBA, 0.05, "stored") == (pytest.approx(1e6), 0.3)
    assert curves.cheapest("made up", mean_curves.PEGASOS, 0.03, "stored")[0] == math.inf
    assert curves.times_fewer("made up", 0.041, "stored", "stored") == pytest.approx(10, rel=0.1)
    assert curves.times_fewer("made up", 0.041, "dense", "stored") == pytest.approx(100, rel=0.1)
    assert math.isnan(curves.times_fewer("made up", 0.03, "stored", "stored"))
    level, stalls = curves.best("made up", mean_curves.PEGASOS).stall()
    assert level == pytest.approx(0.041)
    assert stalls == pytest.approx(1e8, rel=0.1)
    worse = [row for row in rows if row["method"] == mean_curves.PEGASOS or row["parameter"] == 0.2]
    assert mean_curves.Curves(worse).ratio("made up", "stored") == (pytest.approx(0.1, rel=0.1), False)


def test_looks_of_the_figure_are_far_enough_apart():
    trace = [SimpleNamespace(holdout_error=0.1, entries_read=read) for read in np.geomspace(1e4, 1e8, 400)]
    kept = [look.entries_read for look in simba_figure_1.thinned(trace)]
    assert kept[0] >= simba_figure_1.FIRST
    assert np.all(np.diff(np.log(kept)) >= math.log(simba_figure_1.GROWTH) - 1e-12)
