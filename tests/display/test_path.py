"""Pictures of a path: errors and margin of its points."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import make_moons

from maxmargin import slack_path
from maxmargin.display import PathDisplay
from maxmargin.estimators import Path


@pytest.fixture(scope="module")
def path():
    X, y = make_moons(120, noise=0.3, random_state=0)
    return slack_path(X, y, kernel="rbf", Cs=[0.01, 0.1, 1.0, 10.0], random_state=0)


@pytest.mark.parametrize(
    ("x", "label", "other"),
    [
        ("slack", "mean slack, in units of the largest norm", "margin"),
        ("C", "C", "margin"),
        ("margin", "margin", "slack"),
    ],
)
def test_errors_and_margin(path, x, label, other):
    display = path.plot(x=x)
    errors, below = display.axes_
    for line, column in zip(errors.get_lines()[:2], ("train_error", "holdout_error"), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), path.column(x))
        np.testing.assert_array_equal(line.get_ydata(), path.column(column))
    assert errors.get_lines()[0].get_linestyle() != errors.get_lines()[1].get_linestyle()
    assert errors.get_lines()[0].get_marker() != errors.get_lines()[1].get_marker()
    np.testing.assert_array_equal(below.get_lines()[0].get_ydata(), path.column(other))
    assert (errors.get_ylabel(), below.get_ylabel(), below.get_xlabel()) == ("error", other, label)
    best = errors.get_lines()[2]
    assert best.get_xdata()[0] == path.column(x)[path.column("holdout_error").argmin()]
    assert best.get_label().startswith("least on the holdout: ")


def test_values_of_many_sizes_have_a_logarithmic_axis(path):
    assert path.plot(x="C").axes_[0].get_xscale() == "log"
    assert path[2:3].plot(x="C").axes_[0].get_xscale() == "linear"


def test_no_slack_has_a_place():
    X = np.array([[-2.0, 0.0], [-1.0, 1.0], [1.0, 0.0], [2.0, -1.0]])
    display = slack_path(X, [0, 0, 1, 1], slacks=[0.0, 0.01, 0.2], validation_fraction=None).plot()
    assert display.axes_[0].get_xscale() == "symlog"
    assert display.axes_[0].get_xlim()[0] <= 0


def test_without_a_holdout():
    X, y = make_moons(60, noise=0.3, random_state=0)
    axes = slack_path(X, y, Cs=[0.1, 1.0], validation_fraction=None).plot().axes_[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["training samples"]


def test_into_axes_of_ones_own(path):
    figure, ax = plt.subplots()
    display = PathDisplay.from_path(path, ax=ax, x="C")
    assert display.axes_ == [ax]
    assert display.figure_ is figure
    assert ax.get_xlabel() == "C"
    with pytest.raises(ValueError, match="there are 2 panels to draw; got 3 axes"):
        path.plot(ax=plt.subplots(3)[1])


def test_nothing_to_draw(path):
    with pytest.raises(ValueError, match="no points to draw"):
        Path([], []).plot()
    with pytest.raises(ValueError, match="x must be one of slack, C, margin; got 'gamma'"):
        path.plot(x="gamma")


def test_without_matplotlib(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'maxmargin\[plot\]'"):
        path.plot()
