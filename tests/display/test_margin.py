"""Pictures of margins: the responses of all samples and the water over them."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as TheirSVC

from maxmargin import SVC, SVCCV, LinearSVC
from maxmargin.display import MarginDisplay


def moons(n=150, seed=0):
    return make_moons(n, noise=0.3, random_state=seed)


def drawn(display):
    """The curve of the responses."""
    return display.ax_.get_lines()[0].get_ydata()


@pytest.mark.parametrize("model", [LinearSVC(loss="hinge"), SVC(), SVC(slack=0.2)])
def test_two_classes(model):
    X, y = moons()
    display = MarginDisplay.from_estimator(model.fit(X, y), X, y)
    np.testing.assert_allclose(drawn(display), np.sort(model.decision_function(X) * np.where(y == 1, 1, -1)))
    assert display.level == 1
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert any(label.endswith(" % below the margin") for label in labels)
    wrong = 100 * (1 - model.score(X, y))
    assert float(labels[-1].partition(" ")[0]) == pytest.approx(wrong, abs=0.05)
    assert display.ax_.get_xlabel() == "150 samples, in ascending order"


def test_the_slack_of_the_model_fills_its_own_samples_up_to_the_margin():
    X, y = moons()
    for model in (LinearSVC(loss="hinge", tol=1e-6), SVC(tol=1e-6), SVC(slack=0.2, tol=1e-6)):
        display = MarginDisplay.from_estimator(model.fit(X, y), X, y, level="slack")
        assert display.level == pytest.approx(1, abs=0.01)
    other = MarginDisplay.from_estimator(model, *moons(seed=1), level="slack")
    assert other.level != pytest.approx(1, abs=1e-6)
    assert np.maximum(other.level - other.responses, 0).mean() == pytest.approx(
        model.slack_ * model.scale_ / model.margin_
    )


def test_one_of_several_problems_of_a_class_against_the_rest():
    X, y = load_iris(return_X_y=True)
    model = LinearSVC().fit(X, y)
    display = MarginDisplay.from_estimator(model, X, y, problem="1 against the rest")
    np.testing.assert_allclose(drawn(display), np.sort(model.decision_function(X)[:, 1] * np.where(y == 1, 1, -1)))
    assert display.figure_.get_suptitle() == "1 against the rest"
    np.testing.assert_array_equal(drawn(MarginDisplay.from_estimator(model, X, y, problem=1)), drawn(display))


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_one_of_several_problems_of_two_classes(shape):
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    model = SVC(decision_function_shape=shape).fit(X, y)
    display = MarginDisplay.from_estimator(model, X, y, problem="3 against 5")
    theirs = TheirSVC(decision_function_shape="ovo").fit(X, y)
    place = list(model._strategy.names).index("3 against 5")
    among = np.isin(y, [3, 5])
    expected = theirs.decision_function(X)[among, place] * np.where(y[among] == 3, 1, -1)
    np.testing.assert_allclose(drawn(display), np.sort(expected), atol=0.02)
    assert model.decision_function_shape == shape


def test_pipelines_and_searches():
    X, y = moons()
    search = SVCCV(Cs=[1.0], gammas=[1.0], cv=3).fit(X, y)
    np.testing.assert_array_equal(
        drawn(MarginDisplay.from_estimator(search, X, y)),
        drawn(MarginDisplay.from_estimator(search.best_estimator_, X, y)),
    )
    pipeline = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    np.testing.assert_allclose(
        drawn(MarginDisplay.from_estimator(pipeline, X, y)),
        np.sort(pipeline.decision_function(X) * np.where(y == 1, 1, -1)),
    )


def test_what_cannot_be_drawn():
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match=r"3 binary problems; give one as problem=: '0 against 1', "):
        MarginDisplay.from_estimator(model, X, y)
    with pytest.raises(ValueError, match="no binary problem '0 against 7'; there are: '0 against 1'"):
        MarginDisplay.from_estimator(model, X, y, problem="0 against 7")
    with pytest.raises(ValueError, match="no binary problem 3"):
        MarginDisplay.from_estimator(model, X, y, problem=3)
    with pytest.raises(ValueError, match=r"y has the label .*7.*, which the model does not know"):
        MarginDisplay.from_estimator(model, X, np.full(150, 7), problem=0)
    with pytest.raises(ValueError, match="no sample is of the classes"):
        MarginDisplay.from_estimator(model, X[100:], y[100:], problem=0)
    with pytest.raises(ValueError, match="level must be 'margin' or 'slack'; got 'C'"):
        MarginDisplay.from_estimator(model, X, y, level="C")
    with pytest.raises(NotFittedError):
        MarginDisplay.from_estimator(SVC(), X, y)
    with pytest.raises(TypeError, match="a plot of margins needs a LinearSVC or SVC; got StandardScaler"):
        MarginDisplay.from_estimator(StandardScaler().fit(X), X, y)


def test_into_axes_of_ones_own():
    X, y = moons()
    figure, ax = plt.subplots()
    display = MarginDisplay.from_estimator(SVC().fit(X, y), X, y, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'maxmargin\[plot\]'"):
        MarginDisplay([1.0, 2.0]).plot()
