"""Data and parameters that the tests of LinearSVC share."""

import math

import numpy as np
import pytest
from clouds import clouds

from maxmargin.engine.problem import Trait
from maxmargin.problems import LOSSES, SlackSVM
from maxmargin.solvers import SOLVERS

# With slack 0 there may be no model with a positive margin; then w = 0 has the largest margin.
ONE_CLASS = pytest.mark.filterwarnings("ignore:.*the same class")


def cases_of(name):
    """The parameters with which a solver solves each of its problems."""
    solver = SOLVERS[name]
    if solver.solves is SlackSVM:
        return {name: {"solver": name, "slack": 0.0 if (Trait.SEPARABLE in solver.requires) else 0.02}}
    losses = [loss for loss in LOSSES if LOSSES[loss].smooth or Trait.SMOOTH_LOSS not in solver.requires]
    return {f"{name}, {loss}": {"solver": name, "C": 0.1, "loss": loss} for loss in losses}


CASES = {label: parameters for name in SOLVERS for label, parameters in cases_of(name).items()}


def usual_passes(solver, share=1.0, most=np.inf):
    """A share of the passes that a run on a small problem makes by default, with at most `most` iterations."""
    X, y = clouds()
    problem = solver.solves(X, np.where(y == 1, 1, -1), 1.0)
    iterations = min(most, share * solver.default_iterations(problem))
    return math.ceil(iterations / solver.iterations_per_pass(problem))


def objective(model, X, y, intercept_scaling=None):
    """The objective that the model minimises, recomputed from scratch."""
    w, b = model.coef_[0], model.intercept_[0]
    short = np.maximum(0, 1 - np.where(y == 1, 1, -1) * (X @ w + b))
    penalty = 0 if intercept_scaling is None else 0.5 * (b / intercept_scaling) ** 2
    return 0.5 * w @ w + penalty + model.C * (short if model.loss == "hinge" else short**2).sum()
