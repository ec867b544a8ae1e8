"""The largest eigenvalue of a symmetric matrix: near enough for a step, or on the safe side for a proof."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import ArpackError, eigsh

from maxmargin.core.types import Vector

Square = NDArray[np.float64]

DENSE = 64  # rows up to which a full decomposition takes no longer than Lanczos
NEGLIGIBLE = 1e-10  # of the size of a matrix: by how much rounding may spoil its eigenvalues
POSITIVE = 1e-9  # of the trace: an eigenvalue so little below 0 counts as 0


def leading_eigenvector(G: Square, accuracy: float = 0.0) -> tuple[float, Vector]:
    r"""A unit vector v with :math:`v'Gv \ge \lambda_{\max}(G) - \text{accuracy}`, and that value.

    By the Lanczos method, from the same first vector always, so that the same G gives the same v; of small matrices
    by a full decomposition.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.sdp.eigen import leading_eigenvector
    >>> value, v = leading_eigenvector(np.diag([1.0, 3.0]))
    >>> value, abs(v)
    (3.0, array([0., 1.]))
    """
    n, size = len(G), float(np.linalg.norm(G))
    if n > DENSE and size > 0:
        first = np.random.default_rng(n).standard_normal(n)
        # ARPACK's tolerance is relative to the eigenvalue, which `size` is not below; an eigenvalue is off by no
        # more than the residual that it measures.
        try:
            values, vectors = eigsh(G, k=1, which="LA", v0=first, tol=accuracy / size)
            return float(values[0]), np.asarray(vectors[:, 0])
        except ArpackError:  # no convergence, or no shift that would help
            pass  # the full decomposition always comes to an end
    values, vectors = np.linalg.eigh(G)
    return float(values[-1]), vectors[:, -1]


def largest_eigenvalue(G: Square) -> float:
    r"""A number that :math:`\lambda_{\max}(G)` is not above, and below by no more than rounding.

    Where Lanczos found it, which could have missed a larger one, a Cholesky decomposition proves that there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.sdp.eigen import largest_eigenvalue
    >>> round(largest_eigenvalue(np.diag([1.0, 3.0])), 6)
    3.0
    """
    n, size = len(G), float(np.linalg.norm(G))
    if n <= DENSE:
        return float(np.linalg.eigvalsh(G)[-1] + n * np.finfo(np.float64).eps * size)
    value, slack = leading_eigenvector(G, NEGLIGIBLE * size)[0], 2 * NEGLIGIBLE * size
    while size > 0 and not _has_cholesky((value + slack) * np.eye(n) - G):
        slack *= 2
    return value + slack


def refuse_indefinite(X: Square) -> None:
    """Raise a ValueError that says by how much, if a symmetric matrix has an eigenvalue below 0."""
    slack = POSITIVE * abs(float(np.trace(X)))
    if not _has_cholesky(X + slack * np.eye(len(X))):
        least = float(np.linalg.eigvalsh(X)[0])
        if least < -slack:
            raise ValueError(f"X must be positive semidefinite; it has the eigenvalue {least:.3g}")


def positive_part(X: Square) -> Square:
    """The nearest positive semidefinite matrix: X without its eigenvalues below 0."""
    values, vectors = np.linalg.eigh(X)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def factor(X: ArrayLike, tol: float = 1e-9) -> NDArray[np.float64]:
    r"""V of as few columns as will do, with :math:`X = VV'` but for a share of at most `tol` of the trace.

    What is left out is positive semidefinite: :math:`A \bullet X` changes by no more than `tol` times the trace of X
    times the norm of A.

    Parameters
    ----------
    X : array of shape (n, n)
        A symmetric positive semidefinite matrix.
    tol : float, default=1e-9
        A larger one gives a lower rank.

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
