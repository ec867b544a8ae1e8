"""Fits that the tests of the estimators share."""

import pytest
from linear_cases import CASES, usual_passes

from maxmargin import LinearSVC
from maxmargin.solvers import SOLVERS

# One solver of each form of the problem: enough for what does not depend on the solver.
OF_EACH_FORM = ["sdca, squared_hinge", "simba"]


def short_fit(label):
    """A short fit; where it has a C it stops at the optimum only."""
    parameters = CASES[label]
    solver = SOLVERS[parameters["solver"]]()
    tol = {"tol": 0.0} if "C" in parameters else {}
    stop = {**tol, "max_iter": usual_passes(solver, 0.5, 500)}
    return LinearSVC(**parameters, **stop, keep_dual=True, random_state=0)


@pytest.fixture(params=CASES)
def quick(request):
    """A short fit with each solver and each loss that it supports."""
    return short_fit(request.param)


@pytest.fixture(params=OF_EACH_FORM)
def quick_of_each_form(request):
    return short_fit(request.param)


@pytest.fixture(params=[name for name in SOLVERS if SOLVERS[name].online])
def online(request):
    return LinearSVC(C=0.1, solver=request.param, random_state=0)
