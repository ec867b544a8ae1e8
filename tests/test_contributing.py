"""The worked example of CONTRIBUTING.md works."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from maxmargin import LinearSVC, SlackSVM, solve
from maxmargin.solvers import SOLVERS

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.fixture
def centroid():
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 1
    namespace = {"__name__": "centroid_example"}
    exec(blocks[0], namespace)
    yield namespace["Centroid"]
    del SOLVERS["centroid"]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(80) % 2, 1, -1)
    return rng.normal(size=(80, 5)) + y[:, None], y


def test_it_is_found_by_its_name(centroid, data):
    assert SOLVERS["centroid"] is centroid
    X, y = data
    model = LinearSVC(slack=0.05, solver="centroid", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.certificate_.gap >= 0
    assert (model.n_iter_, model.stopped_) == (80, "max_iter")
    assert model.entries_read_ == 80 * 5
    np.testing.assert_array_equal(clone(model).fit(X, y).coef_, model.coef_)
    assert LinearSVC(solver="centroid", random_state=0).fit(X, y).score(X, y) > 0.9


def test_it_keeps_the_rules_of_the_loop(centroid, data):
    X, y = data
    result = solve(SlackSVM(X, y, slack=0.05), centroid(), budget=23, certify="checks", random_state=0)
    assert (result.status, result.n_iter, result.reads["learning"]) == ("budget", 4, 20)
    with pytest.raises(ValueError, match="budget of 4 entries is too small for one iteration of 'centroid'"):
        solve(SlackSVM(X, y, slack=0.05), centroid(), budget=4)
    whole = solve(SlackSVM(X, y, slack=0.05), centroid(), max_iter=30, random_state=0)
    half = solve(SlackSVM(X, y, slack=0.05), centroid(), max_iter=15, random_state=0)
    both = solve(SlackSVM(X, y, slack=0.05), centroid(), max_iter=30, warm=half)
    np.testing.assert_array_equal(both.solution.w, whole.solution.w)
