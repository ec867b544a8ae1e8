"""The largest eigenvalue of a symmetric matrix: approximate for a step, or an upper bound for a proof."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import ArpackError, eigsh

from maxmargin.core.types import Vector

Square = NDArray[np.float64]

DENSE_ROWS = 64  # rows up to which a full decomposition is used, which takes no longer than Lanczos
EIGENVALUE_ROUNDING = 1e-10  # possible rounding error of an eigenvalue, as a share of the Frobenius norm
NEGATIVE_ROUNDING = 1e-9  # size of a negative eigenvalue that counts as 0, as a share of the trace


def leading_eigenvector(G: Square, accuracy: float = 0.0) -> tuple[float, Vector]:
    r"""A unit vector v with :math:`v'Gv \ge \lambda_{\max}(G) - \text{accuracy}`, and that value.

    It is found by the Lanczos method, always from the same first vector, so that the same G gives the same v; for small
    matrices, by a full decomposition.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.sdp.eigen import leading_eigenvector
    >>> value, v = leading_eigenvector(np.diag([1.0, 3.0]))
    >>> value, abs(v)
    (3.0, array([0., 1.]))
    """
    n, size = len(G), float(np.linalg.norm(G))
    if n > DENSE_ROWS and size > 0:
        first = np.random.default_rng(n).standard_normal(n)
        # ARPACK's tolerance is relative to the eigenvalue, which is at most `size`; the error of an eigenvalue is at
        # most the residual that ARPACK measures.
        try:
            values, vectors = eigsh(G, k=1, which="LA", v0=first, tol=accuracy / size)
            return float(values[0]), np.asarray(vectors[:, 0])
        except ArpackError:  # no convergence, or no shifts could be applied
            pass  # the full decomposition below always ends
    values, vectors = np.linalg.eigh(G)
    return float(values[-1]), vectors[:, -1]


def largest_eigenvalue(G: Square) -> float:
    r"""An upper bound of :math:`\lambda_{\max}(G)`, larger than it by no more than rounding.

    As Lanczos can miss the largest eigenvalue, a Cholesky decomposition proves that there is no larger one.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.sdp.eigen import largest_eigenvalue
    >>> round(largest_eigenvalue(np.diag([1.0, 3.0])), 6)
    3.0
    """
    n, size = len(G), float(np.linalg.norm(G))
    if n <= DENSE_ROWS:
        return float(np.linalg.eigvalsh(G)[-1] + n * np.finfo(np.float64).eps * size)
    value, slack = leading_eigenvector(G, EIGENVALUE_ROUNDING * size)[0], 2 * EIGENVALUE_ROUNDING * size
    while size > 0 and not _has_cholesky((value + slack) * np.eye(n) - G):
        slack *= 2
    return value + slack


def refuse_indefinite(X: Square) -> None:
    """Raise a ValueError that names the smallest eigenvalue if a symmetric matrix is not positive semidefinite."""
    slack = NEGATIVE_ROUNDING * abs(float(np.trace(X)))
    if not _has_cholesky(X + slack * np.eye(len(X))):
        least = float(np.linalg.eigvalsh(X)[0])
        if least < -slack:
            raise ValueError(f"X must be positive semidefinite; it has the eigenvalue {least:.3g}")


def positive_part(X: Square) -> Square:
    """The nearest positive semidefinite matrix: X with its negative eigenvalues set to 0."""
    values, vectors = np.linalg.eigh(X)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def factor(X: ArrayLike, tol: float = 1e-9) -> NDArray[np.float64]:
    r"""The V with the fewest columns such that :math:`X - VV'` has at most the share `tol` of the trace of X.

    The difference is positive semidefinite, so :math:`A \bullet X` changes by no more than `tol` times the trace of X
    times the norm of A.

    Parameters
    ----------
    X : array of shape (n, n)
        A symmetric positive semidefinite matrix.
    tol : float, default=1e-9
        The share of the trace that may be left out; a larger one gives a lower rank.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import factor
    >>> factor(np.diag([4.0, 0.01, 0.0])).shape, factor(np.diag([4.0, 0.01, 0.0]), tol=0.01).shape
    ((3, 2), (3, 1))
    """
    whole = np.asarray(X, dtype=np.float64)
    if not 0 <= tol < 1:
        raise ValueError(f"tol is a share of the trace, from 0 to 1; got {tol!r}")
    refuse_indefinite(whole)
    values, vectors = np.linalg.eigh(whole)
    values = np.maximum(values, 0)
    needed = np.cumsum(values) > tol * values.sum()
    return np.asarray(vectors[:, needed] * np.sqrt(values[needed]))[:, ::-1]


def _has_cholesky(G: Square) -> bool:
    try:
        np.linalg.cholesky(G)
    except np.linalg.LinAlgError:
        return False
    return True
