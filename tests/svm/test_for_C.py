"""A solver of the slack form finds the model of a given C."""

import numpy as np
import pytest
from sklearn.svm import SVC
from solver_cases import LINEAR_CASES, clouds, each_case

from maxmargin.engine.problem import Trait
from maxmargin.engine.stop_rules import StopRules
from maxmargin.problems import SlackSVM, equivalent_slack
from maxmargin.solvers import Simba, solve_for_C


@each_case(
    LINEAR_CASES,
    lambda case: case.loss is None and case.solver.optimises and Trait.SEPARABLE not in case.solver.requires,
)
@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("rule", [{"tol": 0.1}, {"max_iter": 3000}, {"budget": 200_000}], ids=str)
def test_a_given_C(case, C, rule):
    if "tol" in rule and case.solver != Simba():
        pytest.skip("it takes too long")
    X, y = clouds(n=120, distance=2.0)
    found, result = solve_for_C(SlackSVM(X, y, 0.0), case.solver, C, StopRules(**rule), random_state=0)
    at = result.evaluation
    # The length is the best for C along this direction: Lemma 2.1 turns it into a model of the regularised form.
    tolerance = rule.get("tol", 1e-3)
    assert equivalent_slack(found, at, C) == pytest.approx(found.slack, rel=tolerance + 1e-3)
    if "tol" in rule:
        assert result.status == "tol"
        assert result.certificate.relative_gap <= 0.1 + 1e-9
    w, b = at.w / at.value / found.scale, at.b / at.value
    value = 0.5 * w @ w + C * np.maximum(0, 1 - y * (X @ w + b)).sum()
    exact = SVC(kernel="linear", C=C, tol=1e-6).fit(X, y)
    w, b = exact.coef_[0], exact.intercept_[0]
    assert value <= 1.25 * (0.5 * w @ w + C * np.maximum(0, 1 - y * (X @ w + b)).sum())


def test_a_given_C_without_a_certificate():
    X, y = clouds(distance=2.0)
    for rule in ({"max_iter": 500}, {"tol": 1e-9, "max_iter": 500}):
        _, result = solve_for_C(SlackSVM(X, y, 0.0), Simba(), 1.0, StopRules(**rule), certify=False, random_state=0)
        assert not result.certificate
        assert result.evaluation is None
