"""Pictures of decision regions in the plane."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCCV, LinearSVC
from maxmargin.display import RegionsDisplay


def moons():
    return make_moons(100, noise=0.3, random_state=0)


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_two_classes_with_margins_and_support_vectors():
    X, y = moons()
    model = SVC().fit(X, y)
    display = RegionsDisplay.from_estimator(model, X, y, grid_resolution=50)
    assert display.decisions.shape == (50, 50)
    points = np.column_stack([display.xx.ravel(), display.yy.ravel()])
    np.testing.assert_array_equal(display.regions.ravel(), model.predict(points))
    first, second, rings = (
        collection
        for collection in display.ax_.collections
        if hasattr(collection, "get_sizes") and len(collection.get_offsets()) > 1
    )
    np.testing.assert_array_equal(first.get_offsets(), X[y == 0])
    np.testing.assert_array_equal(second.get_offsets(), X[y == 1])
    np.testing.assert_array_equal(rings.get_offsets(), X[model.support_])
    assert legend(display) == ["0", "1", "support vectors", "margin"]
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("feature 0", "feature 1")


def test_support_vectors_where_they_are_known():
    X, y = moons()
    model = SVC().fit(X, y)
    assert "support vectors" not in legend(RegionsDisplay.from_estimator(model, X[:50], y[:50]))
    assert "support vectors" not in legend(RegionsDisplay.from_estimator(LinearSVC().fit(X, y), X, y))
    kept = LinearSVC(loss="hinge", keep_dual=True).fit(X, y)
    assert "support vectors" in legend(RegionsDisplay.from_estimator(kept, X, y))


def test_several_classes_with_any_labels():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    display = RegionsDisplay.from_estimator(LinearSVC().fit(X[:, 2:], names), X[:, 2:], names)
    assert display.decisions is None
    assert set(np.unique(display.regions)) == {0, 1, 2}
    assert legend(display) == ["setosa", "versicolor", "virginica"]


def test_frames_pipelines_searches_and_other_classifiers():
    X, y = moons()
    frame = pd.DataFrame(X, columns=["width", "height"])
    for model in (
        make_pipeline(StandardScaler(), SVC()),
        SVCCV(Cs=[1.0], gammas=[1.0], cv=3),
        make_pipeline(StandardScaler(), SVCCV(Cs=[1.0], gammas=[1.0], cv=3)),
    ):
        display = RegionsDisplay.from_estimator(model.fit(frame, y), frame, y)
        assert "support vectors" in legend(display)
        assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("width", "height")
    display = RegionsDisplay.from_estimator(KNeighborsClassifier().fit(X, y), X, y)
    assert legend(display) == ["0", "1"]


@pytest.mark.parametrize("style", ["default", "dark_background", "grayscale"])
def test_every_colour_can_be_told_from_the_background(style):
    X, y = moons()
    with plt.style.context(style):
        axes = RegionsDisplay.from_estimator(SVC().fit(X, y), X, y).ax_
        ground = np.array(to_rgb(axes.get_facecolor()))
        for line in axes.get_lines():
            assert np.abs(ground - to_rgb(line.get_color())).max() > 0.25


def test_other_than_two_features():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"needs two features; got X of shape \(150, 4\)"):
        RegionsDisplay.from_estimator(SVC().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        RegionsDisplay.from_estimator(SVC(), X[:, :2], y)


def test_into_axes_of_ones_own():
    X, y = moons()
    figure, ax = plt.subplots()
    display = RegionsDisplay.from_estimator(SVC().fit(X, y), X, y, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure


def test_without_matplotlib(monkeypatch):
    X, y = moons()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'maxmargin\[plot\]'"):
        RegionsDisplay.from_estimator(SVC().fit(X, y), X, y)
