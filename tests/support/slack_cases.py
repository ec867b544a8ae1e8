"""The best value of the slack form, computed by a convex solver."""

import clarabel
import numpy as np
from scipy.sparse import csc_matrix


def best_value(X, y, slack, *, bias, weights=None):
    """The best value of the slack form, by a convex solver over (w, b, gamma, xi), in units of the largest norm."""
    n, d = X.shape
    s = np.ones(n) if weights is None else weights
    Z = X / np.linalg.norm(X, axis=1).max()
    zero, eye = np.zeros((n, 1)), np.eye(n)
    margins = np.hstack([-y[:, None] * Z, -y[:, None] * bias, np.ones((n, 1)), -eye])  # gamma - xi_i <= margin_i
    nonnegative = np.hstack([np.zeros((n, d)), zero, zero, -eye])
    total = np.concatenate([np.zeros(d + 2), s])[None]
    ball = np.vstack([np.zeros((1, d + 2 + n)), np.hstack([-np.eye(d), np.zeros((d, 2 + n))])])
    A = csc_matrix(np.vstack([margins, nonnegative, total, ball]))
    b = np.concatenate([np.zeros(2 * n), [slack * s.sum()], [1.0], np.zeros(d)])
    q = np.zeros(d + 2 + n)
    q[d + 1] = -1.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(2 * n + 1), clarabel.SecondOrderConeT(d + 1)]
    answer = clarabel.DefaultSolver(csc_matrix((q.size, q.size)), q, A, b, cones, settings).solve()
    return -float(answer.obj_val)
