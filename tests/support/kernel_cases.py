"""Data, models and recomputed objectives that the tests of SVC share."""

from functools import partial

import clouds as any_clouds
import numpy as np
import sklearn.svm
from sklearn.metrics.pairwise import pairwise_kernels

from maxmargin import SVC

clouds = partial(any_clouds.clouds, distance=4.0)


def exact(**parameters):
    """LIBSVM near its optimum."""
    return sklearn.svm.SVC(**{"C": 1.0, "tol": 1e-8, "cache_size": 100, **parameters})


def close(**parameters):
    """Our SVC near its optimum."""
    return SVC(**{"tol": 1e-6, "random_state": 0, **parameters})


def values(model, X, y, kernel=None, weights=1.0):
    """The objective and the dual bound of a binary model, recomputed from scratch."""
    options = {"gamma": model.gamma_, "degree": model.degree, "coef0": model.coef0}
    K = X if model.kernel == "precomputed" else pairwise_kernels(X, metric=model.kernel, filter_params=True, **options)
    signs, beta = np.where(y == model.classes_[1], 1.0, -1.0), np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    f, u = K @ beta, model.C * weights * np.ones(len(y))
    alpha = beta * signs
    assert (alpha >= 0).all()
    assert (alpha <= u * (1 + 1e-12)).all()
    if model.fit_intercept:
        assert abs(beta.sum()) <= 1e-9 * alpha.sum()
    square = beta @ f
    losses = np.maximum(0, 1 - signs * (f + model.intercept_[0]))
    return 0.5 * square + u @ losses, alpha.sum() - 0.5 * square
