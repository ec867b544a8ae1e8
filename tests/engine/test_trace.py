"""What a run leaves behind, and what the runs of several binary problems leave behind together."""

import math
import pickle
from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from maxmargin import SVC, LinearSVC, load_model, save_model, solve
from maxmargin.engine.problem import Trait
from maxmargin.kernels.functions import Linear
from maxmargin.problems import KernelMatrix, RegularizedSVM, SlackSVM
from maxmargin.solvers import Decomposition, Newton, Row, Sdca, Simba, Trace, Traces

ONE = Trace([Row(1, 0.1, 10), Row(2, 0.2, 20, primal=0.2, dual=0.3, gap=0.1, holdout_error=0.5)], tol=0.01)
OTHER = Trace([Row(5, 0.3, 0, 50, estimated_gap=0.04)])
BOTH = Traces({"a against b": ONE, "a against c": OTHER})


@pytest.mark.parametrize("traces", [ONE, OTHER, BOTH, Trace(), Traces({})])
def test_a_copy_is_equal(traces):
    assert pickle.loads(pickle.dumps(traces)) == traces


def test_what_differs_is_not_equal():
    assert ONE != OTHER
    assert Trace(list(ONE)) != ONE  # another tol
    assert ONE[:1] == Trace([Row(1, 0.1, 10)], tol=0.01)
    assert Trace(list(ONE)[::-1], tol=0.01) != ONE
    assert Traces({"a against b": ONE}) != BOTH
    assert Traces({"a against b": ONE, "b against c": OTHER}) != BOTH
    assert Traces({"a against c": OTHER, "a against b": ONE}) != BOTH
    assert BOTH != [ONE, OTHER]


def test_several_traces_by_place_and_by_name():
    assert len(BOTH) == 2
    assert BOTH.names == ("a against b", "a against c")
    assert list(BOTH) == [ONE, OTHER]
    assert BOTH[0] is BOTH["a against b"] is ONE
    assert BOTH[-1] is OTHER
    assert BOTH[1:] == Traces({"a against c": OTHER})
    with pytest.raises(KeyError, match="no binary problem is named 'b'; the names are a against b, a against c"):
        BOTH["b"]
    with pytest.raises(IndexError):
        BOTH[2]
    with pytest.raises(TypeError):
        BOTH[0] = OTHER
    assert repr(BOTH) == "Traces of 2 binary problems, 3 checks: ['a against b', 'a against c']"


def test_a_mapping_that_changes_later_changes_nothing():
    given = {"a": ONE}
    traces = Traces(given)
    given["b"] = OTHER
    assert traces.names == ("a",)


def test_one_table():
    table = BOTH.to_pandas()
    assert table.columns[0] == "problem"
    assert list(table.columns[1:]) == list(ONE.to_pandas().columns) == [
        "iteration", "seconds", "entries_read", "kernel_evaluations", "primal", "dual", "gap", "holdout_error",
        "estimated_gap", "paid",
    ]  # fmt: skip
    assert table["problem"].tolist() == ["a against b", "a against b", "a against c"]
    assert table["entries_read"].tolist() == [10, 20, 0]
    assert table["kernel_evaluations"].tolist() == [0, 0, 50]
    assert table.index.tolist() == [0, 1, 2]


def test_the_cost_is_what_a_budget_limits():
    assert ONE.column("cost").tolist() == [10, 20]
    assert OTHER[0].cost == 50


def test_the_relative_gap_is_what_tol_is_compared_with():
    assert ONE[-1].relative_gap == pytest.approx(0.1 / 0.3)
    assert math.isnan(ONE[0].relative_gap)
    assert Row(1, 0.1, 1, primal=0.0, dual=0.0, gap=0.0).relative_gap == 0
    np.testing.assert_allclose(ONE.column("relative_gap"), [math.nan, 1 / 3])


def test_a_line_for_a_person():
    assert ONE[1].line() == "iteration 2, 0.2 s, 20 entries read, value 0.2, bound 0.3, holdout error 50.00 %"
    assert OTHER[0].line() == "iteration 5, 0.3 s, 50 kernel evaluations, gap about 4 %"


def clouds(classes):
    return make_blobs(150, centers=classes, cluster_std=3.0, random_state=0)


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (LinearSVC(), [f"{k} against the rest" for k in range(4)]),
        (SVC(), [f"{i} against {j}" for i, j in combinations(range(4), 2)]),
        (SVC(multi_class="ovr"), [f"{k} against the rest" for k in range(4)]),
    ],
    ids=["linear", "one-vs-one", "one-vs-rest"],
)
def test_a_fit_of_several_classes(model, names, tmp_path):
    traces = model.fit(*clouds(4)).trace_
    assert isinstance(traces, Traces)
    assert list(traces.names) == names
    save_model(model, tmp_path / "model.mm")
    assert load_model(tmp_path / "model.mm").trace_ == traces


@pytest.mark.parametrize("model", [LinearSVC(), SVC(), LinearSVC(slack=0.1, solver="simba", max_iter=100)])
def test_a_fit_of_two_classes(model, tmp_path):
    trace = model.fit(*clouds(2)).trace_
    assert isinstance(trace, Trace)
    save_model(model, tmp_path / "model.mm")
    assert load_model(tmp_path / "model.mm").trace_ == trace


@pytest.mark.parametrize("solver", [Newton(), Sdca(), Decomposition()])
def test_a_solver_that_knows_its_gap_says_so_at_each_check(solver):
    X, y = clouds(2)
    problem = RegularizedSVM(KernelMatrix(X, Linear()) if Trait.KERNEL in solver.requires else X, 2.0 * y - 1, C=1.0)
    trace = solve(problem, solver, tol=1e-6, random_state=0).trace
    estimates = trace.column("estimated_gap")
    assert trace.tol == 1e-6
    assert np.isfinite(estimates[-1])
    assert not np.isinf(estimates).any()
    # Measuring the gap at every check changes nothing of what is estimated.
    again = solve(problem, solver, tol=1e-6, certify="checks", random_state=0).trace
    np.testing.assert_array_equal(again.column("estimated_gap")[: len(trace)], estimates[: len(again)])


def test_a_solver_without_an_estimate():
    X, y = clouds(2)
    trace = solve(SlackSVM(X, 2.0 * y - 1, slack=0.1), Simba(), max_iter=50, random_state=0).trace
    assert trace.tol is None
    assert np.isnan(trace.column("estimated_gap")).all()
