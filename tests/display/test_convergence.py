import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from maxmargin import LinearSVC
from maxmargin.display import ConvergenceDisplay
from maxmargin.solvers import Row, Trace

matplotlib.use("agg")

CERTIFIED = Trace([Row(k, k / 10, 100 * k, primal=0.1 * k, dual=1 - 0.1 * k, gap=1 - 0.2 * k) for k in (1, 2, 4)])
MEASURED = Trace([Row(k, k / 10, 100 * k, holdout_error=0.5 / k) for k in (1, 2, 4)])
BARE = Trace([Row(1, 0.1, 10)])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_value_and_bound():
    display = ConvergenceDisplay.from_trace(CERTIFIED, name="run")
    (axes,) = display.axes_
    reached, bound = axes.get_lines()
    np.testing.assert_array_equal(reached.get_xdata(), [100, 200, 400])
    np.testing.assert_allclose(reached.get_ydata(), [0.1, 0.2, 0.4])
    np.testing.assert_allclose(bound.get_ydata(), [0.9, 0.8, 0.6])
    assert reached.get_label() == "run margin reached"
    assert axes.get_xlabel() == "entries read"
    assert display.figure_ is axes.figure


def test_an_objective_comes_from_above():
    (axes,) = (
        Trace([Row(k, k / 10, 100 * k, primal=2 / k, dual=0.1 * k, gap=2 / k - 0.1 * k) for k in (1, 2)]).plot().axes_
    )
    assert [line.get_label() for line in axes.get_lines()] == ["objective reached", "best possible, at least"]
    assert axes.get_ylabel() == "objective"


def test_checks_without_figures_are_left_out():
    trace = Trace([Row(1, 0.1, 10), *CERTIFIED])
    (axes,) = trace.plot().axes_
    assert len(axes.get_lines()[0].get_xdata()) == 3


def test_errors_in_per_cent():
    (axes,) = MEASURED.plot(x="iteration").axes_
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), [50, 25, 12.5])
    assert axes.get_ylabel() == "error, %"
    assert axes.get_xlabel() == "iterations"


@pytest.mark.parametrize("x", ["entries_read", "seconds", "iteration"])
def test_a_panel_for_each_kind_of_figure(x):
    display = ConvergenceDisplay({"a": CERTIFIED, "b": MEASURED}, x=x).plot()
    assert len(display.axes_) == 2
    display.figure_.canvas.draw()


def test_all_entries_once():
    (axes,) = CERTIFIED.plot(stored=1234).axes_
    assert axes.get_lines()[-1].get_xdata()[0] == 1234
    (axes,) = CERTIFIED.plot(stored=1234, x="seconds").axes_
    assert len(axes.get_lines()) == 2


def test_into_axes_of_ones_own():
    figure, ax = plt.subplots()
    display = ConvergenceDisplay.from_trace(CERTIFIED, ax=ax)
    assert display.axes_ == [ax]
    assert display.figure_ is figure
    with pytest.raises(ValueError, match="needs 2 axes, one a panel; got 1"):
        ConvergenceDisplay({"a": CERTIFIED, "b": MEASURED}).plot(ax=ax)
    _, both = plt.subplots(2)
    assert ConvergenceDisplay({"a": CERTIFIED, "b": MEASURED}).plot(ax=both).axes_ == list(both)


def test_nothing_to_draw():
    with pytest.raises(ValueError, match=r'neither certified values nor holdout errors.*certify="checks"'):
        BARE.plot()
    with pytest.raises(ValueError, match="neither certified"):
        Trace().plot()
    with pytest.raises(ValueError, match=r"x must be one of entries_read, seconds.*got 'time'"):
        CERTIFIED.plot(x="time")


@pytest.mark.parametrize("classes", [2, 3])
def test_an_estimator(classes):
    X, y = make_blobs(90, centers=classes, random_state=0)
    model = LinearSVC(slack=0.02, max_iter=100, certify="checks", early_stopping=True, random_state=0)
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(model)
    display = ConvergenceDisplay.from_estimator(model.fit(X, y))
    assert len(display.axes_) == 2
    labels = [line.get_label() for line in display.axes_[1].get_lines()]
    assert labels == (["LinearSVC holdout"] if classes == 2 else [f"{k} against the rest holdout" for k in range(3)])
    display.figure_.canvas.draw()


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'maxmargin\[plot\]'"):
        CERTIFIED.plot()
