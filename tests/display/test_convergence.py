"""Pictures of convergence: what is on them, and that one can read it."""

import math
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError

from maxmargin import SVC, LinearSVC
from maxmargin.display import ConvergenceDisplay
from maxmargin.solvers import Row, Trace, Traces


def measured(primal, dual, cost=None, **more):
    cost = 100 * np.arange(1, len(primal) + 1) if cost is None else cost
    rows = zip(cost, primal, dual, strict=True)
    return Trace(
        [Row(k, c / 1000, int(c), primal=p, dual=d, gap=abs(d - p)) for k, (c, p, d) in enumerate(rows)], **more
    )


MARGIN = measured([0.1, 0.2, 0.4], [0.9, 0.8, 0.6])
OBJECTIVE = measured([300.0, 200.0, 150.0], [-1e6, 50.0, 149.0], tol=0.01)
ERRORS = Trace([Row(k, k / 10, 100 * k, holdout_error=0.5 / k) for k in (1, 2, 4)])
DEFAULT = Trace(  # as an exact solver leaves it: estimates, and one gap that was measured at the end
    [*(Row(k, k / 10, 100 * k, estimated_gap=0.1**k) for k in (1, 2)),
     Row(3, 0.3, 300, primal=252.8312, dual=252.8310, gap=0.0002, estimated_gap=1e-6)], tol=1e-3,
)  # fmt: skip
BARE = Trace([Row(1, 0.1, 10)])


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def ticks(axis):
    axis.figure.canvas.draw()
    return [label.get_text() for label in axis.get_ticklabels() if label.get_text()]


def ylabels(display):
    return [axes.get_ylabel() for axes in display.axes_]


def test_the_gap_on_a_logarithmic_axis_with_tol():
    axes = OBJECTIVE.plot().axes_[0]
    assert axes.get_yscale() == "log"
    line = axes.get_lines()[0]
    np.testing.assert_array_equal(line.get_xdata(), [100, 200, 300])
    # Above 1 the gap says nothing.
    np.testing.assert_allclose(line.get_ydata(), [1, 0.75, 1 / 150])
    assert labels(axes) == ["measured", "tol = 1 %"]
    assert "1 %" in ticks(axes.yaxis)
    assert labels(MARGIN.plot().axes_[0]) == ["measured"]


def test_a_default_fit_has_a_curve():
    display = DEFAULT.plot(name="model")
    (axes,) = display.axes_  # one pair of values is no curve: it has no panel
    line = axes.get_lines()[0]
    np.testing.assert_allclose(line.get_ydata(), [0.1, 0.01, 0.0002 / 252.8312])
    assert line.get_markevery() == [2]  # a dot where the gap was measured
    assert labels(axes) == ["estimated by the solver", "measured", "tol = 0.1 %"]
    assert display.figure_.get_suptitle() == "model: relative gap 0.0000791 %"
    assert axes.get_xlabel() == "entries read"


def test_checks_before_the_gap_is_known_are_told_of():
    (axes,) = Trace([Row(0, 0.1, 50), *DEFAULT], tol=1e-3).plot().axes_
    assert "not known yet" in labels(axes)
    assert len(axes.get_lines()[0].get_xdata()) == 3


@pytest.mark.parametrize("gap", [0.0, 1e-300])
def test_a_gap_of_zero_has_a_place(gap):
    axes = measured([2.0, 1.0 + gap], [0.5, 1.0]).plot().axes_[0]
    low = axes.get_lines()[0].get_ydata()[-1]
    assert axes.get_ylim()[0] < low < 0.1


def test_values_and_bounds_near_the_end_are_shown():
    display = OBJECTIVE.plot()
    assert ylabels(display) == ["relative gap", "value (smaller is better)"]
    low, high = display.axes_[1].get_ylim()
    assert low == 0  # not -1,000,000: an objective is not below 0
    assert 300 < high < 400
    assert labels(display.axes_[1]) == ["reached", "bound: the best is at least this"]
    high_start = measured([1e9, 150.0], [100.0, 149.0]).plot().axes_[1].get_ylim()[1]
    assert high_start < 400


def test_a_margin_is_to_be_large():
    display = MARGIN.plot()
    assert ylabels(display) == ["relative gap", "value (larger is better)"]
    reached, bound = display.axes_[1].get_lines()
    np.testing.assert_allclose(reached.get_ydata(), [0.1, 0.2, 0.4])
    np.testing.assert_allclose(bound.get_ydata(), [0.9, 0.8, 0.6])
    assert labels(display.axes_[1])[1] == "bound: the best is at most this"


def test_no_number_is_an_offset_from_another():
    axes = measured([252.8312, 252.8311], [252.8310, 252.83105]).plot().axes_[1]
    assert all(252 < float(tick) < 253 for tick in ticks(axes.yaxis))
    assert axes.yaxis.get_offset_text().get_text() == ""


def test_errors_in_per_cent():
    display = ERRORS.plot(x="iteration", name="run")
    (axes,) = display.axes_
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), [0.5, 0.25, 0.125])
    assert labels(axes) == ["error on the holdout", "best: 12.5 %"]
    assert all(tick.endswith(" %") for tick in ticks(axes.yaxis))
    assert axes.get_xlabel() == "iterations"
    assert display.figure_.get_suptitle() == "run: best holdout error 12.5 %"


# The cost


def test_what_all_runs_have_paid_for():
    kernel = Trace([Row(1, 0.1, 0, 10, estimated_gap=0.1)])
    shared = Trace([Row(1, 0.1, 0, 0, estimated_gap=0.1)])  # all rows of its kernel were there already
    for traces, label in (
        ([DEFAULT], "entries read"),
        ([kernel], "kernel evaluations"),
        ([DEFAULT, kernel], "time"),
        ([shared], "time"),
        ([kernel, shared], "time"),
    ):
        display = ConvergenceDisplay(dict(zip("ab", traces, strict=False))).plot()
        assert display.axes_[-1].get_xlabel() == label


@pytest.mark.parametrize(("last", "scale"), [(300, "linear"), (100_000, "log")])
def test_costs_of_many_sizes(last, scale):
    axes = measured([3.0, 2.0], [1.0, 1.5], cost=[100, last]).plot().axes_[-1]
    assert axes.get_xscale() == scale
    assert all("times" not in tick for tick in ticks(axes.xaxis))


def test_all_entries_once():
    axes = MARGIN.plot(stored=1234).axes_[0]
    assert "all entries once" in labels(axes)
    assert axes.get_xlim()[1] > 1234
    assert "all entries once" not in labels(MARGIN.plot(stored=1234, x="seconds").axes_[0])


def test_a_cost_that_there_is_not():
    with pytest.raises(ValueError, match=r"x must be one of entries_read, seconds.* or None; got 'time'"):
        MARGIN.plot(x="time")


# Several runs


def test_a_few_runs_by_colour_and_by_marker():
    display = ConvergenceDisplay({"one": MARGIN, "two": DEFAULT, "none": BARE, "three": ERRORS}).plot(name="all")
    assert ylabels(display) == ["relative gap", "value (smaller is better)", "holdout error"]
    assert labels(display.axes_[0]) == ["one", "two", "estimated by the solver", "measured", "tol = 0.1 %"]
    one, two = display.axes_[0].get_lines()[:2]
    assert one.get_color() != two.get_color()
    assert one.get_marker() != two.get_marker()
    assert display.figure_.get_suptitle() == "all: the largest gap of 4 is 33.3 % (one)"


def ten_problems(tol):
    """Nine that end at 0.0001, and one that ends at 0.3."""
    ends = dict.fromkeys(map(str, range(9)), 1e-4) | {"slow": 0.3}
    return Traces({name: measured([2.0, 1.0], [1.0, 1 - gap], tol=tol) for name, gap in ends.items()})


def test_many_runs_in_grey_and_the_largest_gap_in_colour():
    display = ten_problems(1e-3).plot(name="SVC")
    assert ylabels(display) == ["relative gap", "problems within tol"]
    gaps, count = display.axes_
    assert labels(gaps) == ["9 others", "largest: slow", "tol = 0.1 %"]
    widths = [line.get_linewidth() for line in gaps.get_lines()[:10]]
    assert min(widths) == widths[0] < widths[-1] == max(widths)
    assert labels(count) == ["9 within tol in the end", "all 10"]
    assert count.get_lines()[0].get_ydata()[-1] == 9
    assert count.get_xlabel() == "entries read, of each binary problem"
    assert display.figure_.get_suptitle() == "SVC: the largest gap of 10 is 30 % (slow)"


def test_many_runs_without_tol_or_without_a_check():
    assert ylabels(ten_problems(None).plot()) == ["relative gap"]
    left_out = Traces({**dict(ten_problems(1e-3).items()), "not reached": Trace()})
    assert labels(left_out.plot().axes_[0])[0] == "9 others"


# Axes, styles, errors


def test_into_axes_of_ones_own():
    figure, ax = plt.subplots()
    display = ConvergenceDisplay.from_trace(MARGIN, ax=ax)
    assert display.axes_ == [ax]
    assert display.figure_ is figure
    assert ylabels(display) == ["relative gap"]
    assert figure.get_suptitle() == ""
    _, both = plt.subplots(2)
    assert ConvergenceDisplay.from_trace(MARGIN, ax=both).axes_ == list(both)
    _, three = plt.subplots(3)
    with pytest.raises(ValueError, match="there are 2 panels to draw; got 3 axes"):
        ConvergenceDisplay.from_trace(MARGIN, ax=three)


@pytest.mark.parametrize("style", ["default", "dark_background", "grayscale"])
def test_every_colour_can_be_told_from_the_background(style):
    with plt.style.context(style):
        for display in (OBJECTIVE.plot(stored=200), ten_problems(1e-3).plot()):
            for axes in display.axes_:
                ground = np.array(to_rgb(axes.get_facecolor()))
                for line in axes.get_lines():
                    assert np.abs(ground - to_rgb(line.get_color())).max() > 0.25


@pytest.mark.parametrize("trace", [DEFAULT, OBJECTIVE, ten_problems(1e-3)])
def test_the_legend_covers_nothing(trace):
    display = trace.plot()
    display.figure_.canvas.draw()
    for axes in display.axes_:
        assert axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1
        assert axes.get_legend().get_window_extent().x1 <= display.figure_.bbox.x1


def test_nothing_to_draw():
    for trace in (BARE, Trace()):
        with pytest.raises(ValueError, match=r"no gaps and no holdout errors.*certify=True"):
            trace.plot()


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'maxmargin\[plot\]'"):
        MARGIN.plot()


# Fits


def test_an_estimator():
    X, y = make_blobs(90, centers=2, cluster_std=3, random_state=0)
    model = LinearSVC(slack=0.02, max_iter=2, certify="checks", early_stopping=True, random_state=0)
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(model)
    display = ConvergenceDisplay.from_estimator(model.fit(X, y))
    assert ylabels(display) == ["relative gap", "value (larger is better)", "holdout error"]
    assert display.figure_.get_suptitle().startswith("LinearSVC: ")
    named = ConvergenceDisplay.from_estimator(model, name="mine", x="seconds")
    assert named.figure_.get_suptitle().startswith("mine: ")
    assert named.axes_[-1].get_xlabel() == "time"


def test_the_default_fit_of_ten_classes():
    X, y = load_digits(return_X_y=True)
    model = SVC().fit(X[:500], y[:500])
    display = model.trace_.plot()
    assert ylabels(display) == ["relative gap", "problems within tol"]
    assert display.axes_[1].get_lines()[0].get_ydata()[-1] == 45
    # The default fit of one binary problem knows its gap at each check, at no cost.
    gaps = SVC(solver="smo").fit(X, y == 8).trace_.column("estimated_gap")
    assert len(gaps) > 2
    assert not any(map(math.isinf, gaps))
