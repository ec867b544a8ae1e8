"""A fit with a checkpoint after every step, run as a process that tests kill; its arguments: path, kind, target."""

import sys

import numpy as np

from maxmargin import SVC, LinearSVC
from maxmargin.solvers import Checkpoint


def fit(kind, checkpoint=None):
    """The coefficients of a model of three classes, and its reads."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    X = rng.normal(size=(600, 10)) + 0.3 * y[:, None]
    model = SVC(solver="smo", tol=1e-12) if kind == "kernel" else LinearSVC(solver="simba", slack=0.1, max_iter=300)
    model.set_params(random_state=0).fit(X, y, checkpoint=checkpoint)
    return {"coef": model.dual_coef_ if kind == "kernel" else model.coef_, "reads": list(model.reads_.values())}


if __name__ == "__main__":
    path, kind, target = sys.argv[1:]
    np.savez(target, **fit(kind, Checkpoint(path, every_seconds=0)))
