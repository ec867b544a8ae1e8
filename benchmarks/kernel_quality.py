r"""The quality of a kernel model, computed from its support vectors, coefficients and intercept alone, in float64.

For :math:`f = \sum_j \beta_j k(x_j, \cdot)` the primal objective is
:math:`\frac12\beta'K\beta + C\sum_i [1 - y_i(f(x_i) + b)]_+`, and for the weights :math:`\alpha` with
:math:`\beta = \alpha y` the dual objective is :math:`\sum_i\alpha_i - \frac12\beta'K\beta`. The dual objective is a
bound only if :math:`0 \le \alpha \le C` and, with a bias, :math:`\sum\beta_i = 0`. So weights are clipped to the box,
and those of the heavier class are scaled down, before the dual objective is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

LARGEST_BLOCK = 2**25  # entries in a block of the kernel, 256 MB


@dataclass(frozen=True)
class Function:
    """A kernel function in float64, computed by its textbook formula."""

    kernel: str = "rbf"
    gamma: float = 1.0
    coef0: float = 0.0
    degree: int = 3

    def __call__(self, A: Any, B: Any) -> Any:
        """The kernel of every row of A with every row of B, dense or CSR."""
        products = (A.astype(np.float64) @ B.astype(np.float64).T).astype(np.float64)
        products = products.toarray() if sp.issparse(products) else products
        if self.kernel == "linear":
            return products
        if self.kernel == "rbf":
            # (a - b)^2 in place: blocks are large
            products *= -2
            products += _sq_norms(A)[:, None]
            products += _sq_norms(B)
            np.maximum(products, 0, out=products)
            products *= -self.gamma
            return np.exp(products, out=products)
        products = self.gamma * products + self.coef0
        return products**self.degree if self.kernel == "poly" else np.tanh(products)


def _sq_norms(X: Any) -> Any:
    X = X.astype(np.float64)
    return np.asarray(X.multiply(X).sum(axis=1)).ravel() if sp.issparse(X) else np.einsum("ij,ij->i", X, X)


def responses(k: Function, X: Any, support_vectors: Any, coef: Any) -> Any:
    """For each row x, the sum of k(x, support vector) times its coefficient; `coef` may have several columns."""
    rows = max(1, LARGEST_BLOCK // max(1, support_vectors.shape[0]))
    parts = [k(X[i : i + rows], support_vectors) @ coef for i in range(0, X.shape[0], rows)]
    return np.concatenate(parts)


@dataclass(frozen=True)
class Quality:
    """The objectives of a model."""

    primal: float
    dual: float
    slack: float  # mean hinge loss divided by |w|; at the optimum, the slack that belongs to C

    @property
    def gap(self) -> float:
        """(P - D) / P."""
        return (self.primal - self.dual) / self.primal


def quality(
    k: Function, X: Any, y: Any, C: float, support: Any, coef: Any, intercept: float, bias: bool = True
) -> Quality:
    """The quality of a model of two classes, y = +1 and -1; `coef` belong to X[support] and are signed by label."""
    labels = y[support]
    alpha = feasible(coef * labels, labels, C, bias)
    both = responses(k, X, X[support], np.column_stack([coef, alpha * labels]))
    short = np.maximum(0.0, 1.0 - y * (both[:, 0] + intercept))
    square, square_dual = (float(beta @ both[support, j]) for j, beta in enumerate((coef, alpha * labels)))
    return Quality(
        primal=0.5 * square + C * float(short.sum()),
        dual=float(alpha.sum()) - 0.5 * square_dual,
        slack=float(short.mean()) / np.sqrt(square) if square > 0 else np.inf,
    )


def feasible(alpha: Any, labels: Any, C: float, bias: bool) -> Any:
    """Weights clipped to the box and, with a bias, scaled so that both classes have equal sums."""
    alpha = np.clip(np.asarray(alpha, dtype=np.float64), 0.0, C)
    if bias:
        sums = {label: alpha[labels == label].sum() for label in (1, -1)}
        least = min(sums.values())
        alpha = alpha * np.where(labels > 0, *(least / own if own > 0 else 0.0 for own in sums.values()))
    return alpha


def error_on_test(k: Function, data: Any, support: Any, coef: Any, intercept: Any) -> Any:
    """The share of test rows on the wrong side; for several models at once if `coef` has several columns."""
    values = responses(k, data.X_test, data.X[support], coef) + intercept
    wrong = data.y_test != np.where(values > 0, 1.0, -1.0).T
    return wrong.mean(axis=-1)


def two_class_models(classes: Any, y: Any, support: Any, dual_coef: Any, intercepts: Any) -> Any:
    """The models of all pairs of classes i < j, taken from LIBSVM's layout.

    Yields (i, j), the rows of the two classes, their labels (+1 for i), and the model: the numbers of its support
    vectors among those rows, its coefficients and its intercept.
    """
    for m, (i, j) in enumerate(combinations(range(len(classes)), 2)):
        rows = np.flatnonzero((y == classes[i]) | (y == classes[j]))
        coef = np.zeros(y.size)
        for own, other in ((i, j - 1), (j, i)):  # a support vector has a row of coefficients for each other class
            mine = y[support] == classes[own]
            coef[support[mine]] = dual_coef[other, mine]
        labels, some = np.where(y[rows] == classes[i], 1.0, -1.0), np.flatnonzero(coef[rows])
        yield (i, j), rows, labels, some, coef[rows][some], intercepts[m]
