"""Pictures of a search: a map or a curve, with what was chosen and what was left early."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError

from maxmargin import SVC, SVCCV, LinearSVCCV
from maxmargin.display import SearchDisplay
from maxmargin.estimators import search


def moons(n=120):
    return make_moons(n, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def screened():
    """A search that leaves some cells early."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "SCREENING_SAMPLES", 100)
        model = SVCCV(Cs=[1e-3, 0.1, 1.0, 10.0], gammas=[1e-3, 0.1, 1.0], cv=3, random_state=0).fit(*moons(400))
    assert model.cv_results_["left_early"].any()
    return model


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_map_over_gamma_and_C(screened):
    display = SearchDisplay.from_estimator(screened)
    axes = display.ax_
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("C", "gamma")
    np.testing.assert_array_equal(axes.images[0].get_array(), screened.scores_.mean(axis=2))
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["0.001", "0.1", "1"]
    assert display.figure_.get_suptitle().startswith(f"SVCCV: {screened.best_score_:.4f} ± ")
    assert legend(axes) == ["chosen", "left early, after 100 samples"]


def test_what_is_marked_on_the_map(screened):
    axes = SearchDisplay.from_estimator(screened).ax_
    hatched = {tuple(np.add(patch.get_xy(), 0.5)) for patch in axes.patches if patch.get_hatch()}
    early = screened.cv_results_["left_early"].reshape(3, 4)
    assert hatched == {(column, row) for row, column in np.argwhere(early)}
    (chosen,) = [patch for patch in axes.patches if not patch.get_hatch()]
    row, column = np.unravel_index(screened.best_index_, (3, 4))
    np.testing.assert_allclose(np.add(chosen.get_xy(), 0.45), (column, row))
    for text in axes.texts:
        column, row = text.get_position()
        image = axes.images[0]
        ground = to_rgb(image.cmap(image.norm(image.get_array()[int(row), int(column)])))
        assert abs(np.mean(ground) - np.mean(to_rgb(text.get_color()))) > 0.3


@pytest.mark.parametrize(
    "model",
    [
        LinearSVCCV(Cs=[0.1, 1.0, 10.0]),
        SVCCV(Cs=[0.1, 1.0, 10.0], gammas=[1.0]),
        SVCCV(Cs=[0.1, 1.0, 10.0], kernel="linear"),
    ],
)
def test_a_curve_with_error_bars(model):
    model.fit(*moons())
    axes = SearchDisplay.from_estimator(model).ax_
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("C", "accuracy, mean of 5 folds")
    assert axes.get_xscale() == "log"
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), model.cv_results_["mean_test_score"])
    (bars,) = axes.containers
    low, high = np.array(bars.lines[2][0].get_segments())[:, :, 1].T
    np.testing.assert_allclose((high - low) / 2, model.cv_results_["standard_error"])
    assert legend(axes) == [f"chosen: C = {model.C_:g}", "mean and standard error"]


def test_a_curve_over_slacks_with_some_left_early(monkeypatch):
    monkeypatch.setattr(search, "SCREENING_SAMPLES", 100)
    model = LinearSVCCV(slacks=[0.0, 0.01, 0.1, 0.2, 0.8], scoring="balanced_accuracy", random_state=0)
    model.fit(*moons(400))
    axes = SearchDisplay.from_estimator(model).ax_
    assert axes.get_xlabel() == "slack"
    assert axes.get_xscale() == "symlog"
    assert axes.get_ylabel() == "balanced accuracy, mean of 5 folds"
    assert any(label.startswith("left early") for label in legend(axes)) == model.cv_results_["left_early"].any()


def test_cells_without_a_score_are_blank():
    model = SVCCV(Cs=[0.1, 1.0], gammas=[0.1, 1.0], cv=3).fit(*moons())
    table = {**model.cv_results_}
    for name in ("mean_test_score", "std_test_score", "standard_error"):
        table[name] = np.where(np.arange(4) == 3, np.nan, table[name])
    axes = SearchDisplay(table, 0).plot().ax_
    assert len(axes.texts) == 3
    table = {**table, "mean_test_score": np.full(4, 0.5)}
    assert len(SearchDisplay(table, 0).plot().ax_.texts) == 4  # all the same: no range of colours


def test_into_axes_of_ones_own(screened):
    figure, ax = plt.subplots()
    display = SearchDisplay.from_estimator(screened, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert figure.get_suptitle() == ""


def test_what_cannot_be_drawn():
    with pytest.raises(NotFittedError):
        SearchDisplay.from_estimator(SVCCV())
    with pytest.raises(NotFittedError):
        SearchDisplay.from_estimator(SVC().fit(*moons()))


def test_without_matplotlib(screened, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'maxmargin\[plot\]'"):
        SearchDisplay.from_estimator(screened)
