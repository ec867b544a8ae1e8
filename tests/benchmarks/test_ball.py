"""The benchmark of enclosing balls: what is compared and how, on tiny data."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from maxmargin.problems import MinimumEnclosingBall
from maxmargin.solvers import CoreSet, solve

FOLDER = Path(__file__).parents[2] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("benchmarks come with a checkout only", allow_module_level=True)
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER)
    ball = importlib.import_module("ball")


def test_the_mean_of_the_rows_is_no_answer():
    X = ball.made(3000, 50)
    least = solve(MinimumEnclosingBall(X), CoreSet(), tol=1e-6).certificate.primal
    assert MinimumEnclosingBall(X).evaluate(X.mean(axis=0, dtype=np.float64)).value > 1.08 * least
    assert np.linalg.norm(X, axis=1).max() < 1.2


def test_a_race(capsys):
    runs = ball.race(ball.made(300, 40), passes=5)
    assert runs[0]["reached"] <= 0.01
    assert all(run["share"] <= 5 for run in runs)
    assert capsys.readouterr().out.count("| core_set |") == 1


def test_growth(capsys):
    fits = ball.growth(1)
    assert fits["eps"]["columns"] == pytest.approx(-2, abs=0.1)
    assert fits["d"]["columns"] == pytest.approx(0, abs=0.1)
    assert "theorem" in capsys.readouterr().out
