"""The best bias from sums over samples in parts: so many that their kinks are counted between edges first."""

import numpy as np
import pytest

from maxmargin.problems import RegularizedSVM
from maxmargin.svm import best_bias


def problem_with(n, loss, intercept_scaling, ties, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    X = rng.normal(size=(n, 2)) + 0.5 * y[:, None]
    if ties:  # many samples have margin 1 at the same bias
        X = np.round(X)
    weights = rng.integers(0, 3, size=n).astype(float)
    return RegularizedSVM(X, y, 0.1, loss=loss, intercept_scaling=intercept_scaling, sample_weight=weights)


def objective(problem, w, b):
    value = problem.objective(w, problem.y * (problem.X.dot(w) + b))
    return value + (0.5 * (b / problem.bias_feature) ** 2 if problem.bias_feature else 0.0)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("intercept_scaling", [None, 1.0, 0.003])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_no_other_bias_is_better(loss, intercept_scaling, ties):
    problem = problem_with(40_000, loss, intercept_scaling, ties)
    w = np.array([0.7, -0.4])
    biases = [problem.best_bias(w, near) for near in (0.0, 0.3, -50.0, 1e6)]
    np.testing.assert_allclose(biases, biases[0], rtol=1e-9, atol=1e-9)
    best = objective(problem, w, biases[0])
    for away in (1e-6, 1e-3, 0.1, 3.0):
        for b in (biases[0] - away, biases[0] + away):
            assert objective(problem, w, b) >= best * (1 - 1e-13)


@pytest.mark.parametrize("intercept_scaling", [None, 1.0])
@pytest.mark.parametrize("ties", [False, True])
def test_counting_kinks_finds_what_sorting_finds(monkeypatch, intercept_scaling, ties):
    problem = problem_with(5_000, "hinge", intercept_scaling, ties)
    w = np.array([0.7, -0.4])
    sorted_ = problem.best_bias(w)
    monkeypatch.setattr(best_bias, "MOST_KINKS", 1)
    assert [problem.best_bias(w, near) for near in (0.0, sorted_, 20.0)] == pytest.approx([sorted_] * 3, abs=1e-12)


def test_of_equally_good_biases_the_middle_one_among_many_samples():
    y = np.where(np.arange(30_000) % 2 == 0, 1.0, -1.0)
    X = 4.0 * y[:, None] + 1.0
    for loss in ("hinge", "squared_hinge"):
        # The margins are at least 1 for biases from -4 to 2.
        assert RegularizedSVM(X, y, 1.0, loss=loss).best_bias(np.ones(1), near=7.0) == pytest.approx(-1.0, abs=1e-12)
