r"""Semidefinite programs in the usual form, and their conversion to and from the form of the sublinear algorithm.

The algorithm solves one form: :math:`\max_{X''} \min_i A_i'' \bullet X''` over positive semidefinite X'' of trace 1,
with Frobenius norms :math:`\|A_i''\| \le 1`. :class:`SemidefiniteProgram` derives the conversion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import lsqr

from maxmargin.core import Ledger
from maxmargin.data import SymmetricMatrices, as_symmetric_matrices
from maxmargin.sdp.eigen import largest_eigenvalue, leading_eigenvector
from maxmargin.sdp.feasibility import SemidefiniteFeasibility

Array = NDArray[np.float64]

SENSES: dict[str, tuple[int, ...]] = {">=": (1,), "<=": (-1,), "=": (1, -1)}
"""The signs s of the inequalities s (A_i.X - b_i) >= 0 that make up a constraint, by its sense."""

TRACES = ("at most", "exactly")
DOUBLINGS, HALVINGS = 30, 8  # steps to bracket and to bisect the multiple of y with the best bound
# A norm that is the square root of a difference counts as zero if it is below this share of the square root of the two
# terms, because rounding of the terms can produce a norm of that size.
ZERO_NORM_SHARE = 1e-7
BOUND_ROUNDING = 1e-13  # allowance for rounding of a bound, as a share of the sum of the sizes of its terms
SLOPE_ACCURACY = 1e-6  # accuracy of the eigenvalue whose vector gives a slope, as a share of the Frobenius norm


class SemidefiniteProgram:
    r"""Maximise C.X subject to A_i.X >= b_i (or <=, or =), X positive semidefinite, tr X <= R.

    Parameters
    ----------
    C : array or sparse matrix of shape (n, n)
        The objective, symmetric.
    A : array of shape (m, n, n), sequence of m matrices, or CSR of shape (m, n * n)
        The constraints, symmetric.
    b : array of shape (m,)
        The right-hand sides of the constraints.
    sense : str, or sequence or array of m str
        ">=", "<=" or "=": one for all constraints, or one for each. An equality is two inequalities.
    trace_bound : float
        R, the largest trace of X. It is required: if X can be arbitrarily large, no eps limits how far X is from
        feasible.
    trace : {"at most", "exactly"}, default="at most"
        Whether the trace may be less than R. If the constraints fix the trace (see :func:`implied_trace`), "exactly"
        saves a dimension and gives tighter bounds.

    Notes
    -----
    **The form.** A constraint is one inequality :math:`s(A_i \bullet X - b_i) \ge 0` with a sign s, or two of them.
    Write :math:`X' = X/R`. If the trace of X may be less than R, one more row and column hold the rest of the trace,
    :math:`X'' = \operatorname{diag}(X', 1 - \operatorname{tr} X')`; if not, :math:`X'' = X'`. In both cases
    :math:`\operatorname{tr} X'' = 1`, so a constant is a multiple of the trace, and b_i becomes part of the matrix:

    .. math::
        M_i = s R A_i - s b_i I, \qquad M_i \bullet X'' = s(A_i \bullet X - b_i), \qquad N_i = \|M_i\|,

    with zeros in the added row and column of A_i, and :math:`A_i'' = M_i / N_i`.

    **Feasible points correspond.** Let :math:`\mu_i(X) = s(A_i \bullet X - b_i)/N_i` be the margins of X.
    (1) If X is positive semidefinite with an allowed trace, then ``lift(X)`` = X'' is positive semidefinite of
    trace 1 and :math:`A_i'' \bullet X'' = \mu_i(X)`, by the identity above.
    (2) If X'' is positive semidefinite of trace 1, then ``recover(X'')`` = X, which is R times X'' without the added
    row and column, is positive semidefinite with an allowed trace, and :math:`\mu_i(X) = A_i'' \bullet X''`, as
    lift(X) and X'' differ at most in entries that are zero in all A_i''. (An X'' of another trace is scaled to trace 1
    by ``recover``.)

    **What eps means for X.** By (1) and (2) both forms have the same value, :math:`\sigma = \max_X \min_i \mu_i(X)`. It
    is at least 0 if and only if the program is feasible. An X'' with
    :math:`\min_i A_i'' \bullet X'' \ge \sigma - \varepsilon` becomes an X with
    :math:`\min_i \mu_i(X) \ge \sigma - \varepsilon`; if the program is feasible, this means

    .. math:: s(A_i \bullet X - b_i) \ge -N_i \varepsilon \quad\text{for all } i.

    As :math:`N_i \approx R\|A_i\|`, constraints are met to within eps relative to the largest allowed trace. For
    example, constraints on single entries of an X of trace n, as in max-cut, are met to within eps n.

    **Bounds.** Multipliers y, :math:`y_i \ge 0` for ">=" and :math:`\le 0` for "<=", prove for every feasible X

    .. math::
        C \bullet X \le C \bullet X + \sum_i y_i (A_i \bullet X - b_i)
        \le R\,\lambda^+\!\left(C + \sum_i y_i A_i\right) - \sum_i b_i y_i,

    where :math:`\lambda^+` is the largest eigenvalue, or 0 if that is larger and the trace may be less than R. Weights
    p of the form with the constraint :math:`C \bullet X \ge v`, of weight p_0, give such multipliers,
    :math:`y_i = s\,p_i N_0 / (p_0 N_i)`, and their bound is v plus :math:`N_0 / p_0` times the largest eigenvalue of
    :math:`\sum_i p_i A_i''`: below v if and only if p proves that v is out of reach.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import SemidefiniteProgram
    >>> program = SemidefiniteProgram(np.diag([2.0, 1.0]), np.diag([1.0, 0.0])[None], [0.25], "<=", trace_bound=1.0)
    >>> X = np.diag([0.25, 0.75])
    >>> program.value(X), program.violations(X)
    (1.25, array([0.]))
    >>> [f"{program.bound(np.array([y])):.6g}" for y in (0.0, -1.0)]  # without the constraint, and with it
    ['2', '1.25']
    >>> program.lift(0.5 * X)
    array([[0.125, 0.   , 0.   ],
           [0.   , 0.375, 0.   ],
           [0.   , 0.   , 0.5  ]])
    """

    def __init__(
        self,
        C: Any,
        A: Any,
        b: ArrayLike,
        sense: str | Sequence[str] | NDArray[np.str_],
        trace_bound: float,
        *,
        trace: str = "at most",
    ) -> None:
        self.A = as_symmetric_matrices(A)
        self.m, self.n = self.A.shape[:2]
        self.C = _objective(C, self.n)
        self.b = np.asarray(b, dtype=np.float64)
        if self.b.shape != (self.m,):
            raise ValueError(f"b has shape {self.b.shape}, but there are {self.m} constraints; expected ({self.m},)")
        if not np.isfinite(self.b).all():
            i = int(np.argmin(np.isfinite(self.b)))
            raise ValueError(f"b[{i}] is {self.b[i]}; expected finite numbers. Leave out constraints that always hold.")
        self.sense = _senses(sense, self.m)
        if not 0 < trace_bound < math.inf:
            raise ValueError(f"trace_bound must be a positive number, the largest trace of X; got {trace_bound!r}")
        if trace not in TRACES:
            raise ValueError(f"trace is {trace!r}; expected 'at most' or 'exactly'")
        self.trace_bound, self.trace = float(trace_bound), trace
        self.size = self.n + (trace == "at most")  # the number of rows of X''
        signs = [SENSES[each] for each in self.sense]
        self.which = np.repeat(np.arange(self.m), [len(each) for each in signs])  # the constraint of each inequality
        self.signs = np.array([s for each in signs for s in each], dtype=np.float64)
        with self.ledger.on("validation"):
            traces, self.frobenius = self.A.products(np.eye(self.n)), self.A.frobenius()
        self.norms = self._norm(self.frobenius**2, traces, self.b)  # N_i, the same for both inequalities of an equality

    @property
    def ledger(self) -> Ledger:
        """The counts of entries read of the constraints and of C, by purpose."""
        return self.A.ledger

    def _norm(self, square: Any, trace: Any, b: Any) -> Any:
        """|R A - b I| of matrices with these squared norms and traces; 1 for a matrix that is zero up to rounding."""
        R = self.trace_bound
        terms = R * R * square, self.size * np.square(b)
        norm = np.sqrt(np.maximum(terms[0] - 2 * R * b * trace + terms[1], 0))
        return np.where(norm > ZERO_NORM_SHARE * np.sqrt(terms[0] + terms[1]), norm, 1.0)

    def value_norm(self, value: float) -> float:
        """N_0 of the added constraint C.X >= value."""
        return float(self._norm(float(np.vdot(self.C, self.C)), float(np.trace(self.C)), value))

    # Points and bounds in the units of the program

    def value(self, X: Array) -> float:
        """C.X, the objective."""
        self.ledger.count(self.C.size)
        return float(np.vdot(self.C, X))

    def violations(self, X: Array, *, scaled: bool = False) -> Array:
        """How much X violates each constraint, or 0; with `scaled`, divided by N_i, for comparison with eps."""
        excess = self.A.products(X) - self.b
        violated = np.select([self.sense == ">=", self.sense == "<="], [-excess, excess], np.abs(excess))
        return np.asarray(np.maximum(violated, 0) / (self.norms if scaled else 1.0))

    def bound(self, y: Array) -> float:
        """An upper bound of C.X for every feasible X, from multipliers y whose signs fit the senses."""
        return self._bound(y, self.A.combination(y), float(self.b @ y), 1.0)[0]

    def best_bound(self, y: Array) -> tuple[float, Array]:
        """The best bound of all multiples of y, and that multiple; minus infinity if y proves that no X is feasible.

        The bound is convex in the factor of y, so the sign of its slope shows on which side the best factor is.
        """
        G, by = self.A.combination(y), float(self.b @ y)
        if self.trace_bound * self._largest(G) < by - self._rounding(y):
            return -math.inf, y
        found: list[tuple[float, float]] = []

        def slope(factor: float) -> float:
            bound, slope = self._bound(y, G, by, factor)
            found.append((bound, factor))
            return slope

        if slope(0.0) < 0:
            high, growth = 1.0, 0.5 if slope(1.0) >= 0 else 2.0
            for _ in range(DOUBLINGS):
                if (slope(high * growth) >= 0) != (growth < 1):
                    break
                high *= growth
            low, high = (high / 2, high) if growth < 1 else (high, 2 * high)
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        bound, factor = min(found)
        return bound, factor * y

    def _bound(self, y: Array, G: Array, by: float, factor: float) -> tuple[float, float]:
        """The bound of `factor` times y and its slope in the factor; G is sum y_i A_i, by is sum y_i b_i."""
        H, R = self.C + factor * G, self.trace_bound
        largest = self._largest(H)
        # If X = 0 is best, it stays best for factors nearby, so that the slope of the first term is 0.
        v = leading_eigenvector(H, SLOPE_ACCURACY * float(np.linalg.norm(H)))[1] if largest else np.zeros(self.n)
        return R * largest - factor * by + self._rounding(factor * y), R * float(v @ G @ v) - by

    def _rounding(self, y: Array) -> float:
        """The rounding error of a bound, which is large if large multipliers cancel each other."""
        sizes = self.trace_bound * self.frobenius + np.abs(self.b)
        return BOUND_ROUNDING * float(self.trace_bound * np.linalg.norm(self.C) + sizes @ np.abs(y))

    def _largest(self, G: Array) -> float:
        """The largest G.X/R over all X with an allowed trace."""
        return max(float(largest_eigenvalue(G)), 0.0 if self.trace == "at most" else -math.inf)

    # Conversion to and from the form that the algorithm solves

    def feasibility(self, value: float | None = None) -> SemidefiniteFeasibility:
        """The program in the form above; if a value is given, with C.X >= value as the last constraint.

        The new problem reads the matrices of this program without copying them, and counts in their ledger.
        """
        if value is not None and not math.isfinite(value):
            raise ValueError(f"value must be a finite number, or None for any; got {value!r}")
        return SemidefiniteFeasibility(NormalizedConstraints(self, value), scale=1.0)

    def lift(self, X: Array) -> Array:
        """X'' of a point X with an allowed trace."""
        lifted = np.zeros((self.size, self.size))
        lifted[: self.n, : self.n] = X / self.trace_bound
        if self.size > self.n:
            lifted[-1, -1] = 1 - np.trace(X) / self.trace_bound
        return lifted

    def recover(self, lifted: Array) -> Array:
        """The X of a point X''; for X'' = 0, a multiple of the identity with an allowed trace."""
        t = float(np.trace(lifted))
        if t <= 0:
            return np.eye(self.n) * (self.trace_bound / self.size)
        return np.asarray(lifted[: self.n, : self.n] * (self.trace_bound / t))

    def multipliers(self, p: Array, value: float | None = None) -> Array:
        """The multipliers y that weights p on the constraints of ``feasibility(value)`` give.

        If the added constraint has no weight, only the direction of y is meaningful, not its length.
        """
        weights = self.signs * p[: self.which.size] / self.norms[self.which]
        y: Array = np.bincount(self.which, weights, minlength=self.m).astype(np.float64)
        return y if value is None or p[-1] <= 0 else y * (self.value_norm(value) / p[-1])


class NormalizedConstraints(SymmetricMatrices):
    """The constraints A_i'': each is a multiple of a matrix of the program plus a multiple of the identity."""

    def __init__(self, program: SemidefiniteProgram, value: float | None) -> None:
        self.program = program
        which, signs, b, norms = program.which, program.signs, program.b[program.which], program.norms[program.which]
        if value is not None:  # C comes after the matrices of the program
            which, signs = np.append(which, program.m), np.append(signs, 1.0)
            b, norms = np.append(b, value), np.append(norms, program.value_norm(value))
        self.which = which
        self.matrix_factors, self.identity_factors = signs * program.trace_bound / norms, -signs * b / norms
        self.shape = (which.size, program.size, program.size)
        self.is_stored = False  # computed, with norms of at most 1, which need not be checked
        self.most_per_entry = program.A.most_per_entry + 1
        self.most_per_matrix = max(program.A.most_per_matrix, program.C.size)

    @property
    def ledger(self) -> Ledger:
        return self.program.ledger

    def signature(self) -> dict[str, Any]:
        factors = {"matrix_factors": self.matrix_factors, "identity_factors": self.identity_factors}
        return {"A": self.program.A.signature(), "C": self.program.C, **factors}

    def kept(self) -> dict[str, Any]:
        return self.program.A.kept()

    def take(self, kept: Mapping[str, Any]) -> None:
        self.program.A.take(kept)

    def entries(self, j: int, l: int) -> Array:
        found = self.identity_factors.copy() if j == l else np.zeros(self.shape[0])
        if max(j, l) < self.program.n:
            self.ledger.count(1)
            from_program = np.append(self.program.A.entries(j, l), self.program.C[j, l])
            found += self.matrix_factors * from_program[self.which]
        return found

    def matrix(self, i: int) -> Array:
        k = int(self.which[i])
        inner = self.program.A.matrix(k) if k < self.program.m else self._read_C()
        return self._with_identity(self.matrix_factors[i] * inner, self.identity_factors[i])

    def products(self, X: ArrayLike | None = None, *, factor: ArrayLike | None = None) -> Array:
        whole = np.asarray(X, dtype=np.float64) if factor is None else np.asarray(factor) @ np.asarray(factor).T
        inner = whole[: self.program.n, : self.program.n]
        from_program = np.append(self.program.A.products(inner), self.program.value(inner))
        return np.asarray(self.matrix_factors * from_program[self.which] + self.identity_factors * np.trace(whole))

    def combination(self, p: ArrayLike) -> Array:
        weights = np.asarray(p, dtype=np.float64)
        from_program = np.bincount(self.which, weights * self.matrix_factors, minlength=self.program.m + 1)
        inner = self.program.A.combination(from_program[:-1])
        if from_program[-1]:
            inner += from_program[-1] * self._read_C()
        return self._with_identity(inner, float(weights @ self.identity_factors))

    def frobenius(self) -> Array:
        """The norm 1 for each constraint; for a constraint that is zero, this is an upper bound."""
        return np.ones(self.shape[0])

    def _read_C(self) -> Array:
        self.ledger.count(self.program.C.size)
        return self.program.C

    def _with_identity(self, inner: Array, factor: float) -> Array:
        """A matrix of the program, with zeros in the added row and column, plus a multiple of the identity."""
        whole = np.zeros(self.shape[1:])
        whole[: self.program.n, : self.program.n] = inner
        whole[np.diag_indices_from(whole)] += factor
        return whole


def implied_trace(A: Any, b: ArrayLike, sense: str | Sequence[str] | NDArray[np.str_] = "=") -> float | None:
    """The trace that the equality constraints imply for every feasible X, or None if they do not fix the trace.

    They fix it if a combination of their matrices is the identity; then tr X = sum y_i A_i.X = sum y_i b_i.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.sdp.program import implied_trace
    >>> A = np.array([[[1.0, 0], [0, 0]], [[0, 0], [0, 1]]])
    >>> print(round(implied_trace(A, [1.0, 2.0]), 6), implied_trace(A[:1], [1.0]))
    3.0 None
    """
    b = np.asarray(b, dtype=np.float64)
    equalities = np.flatnonzero(_senses(sense, b.size) == "=")
    rows = sp.csr_array(A if sp.issparse(A) else np.reshape(A, (b.size, -1)))[equalities]
    identity = np.eye(math.isqrt(rows.shape[1])).ravel()
    if equalities.size == 0:
        return None
    y = lsqr(rows.T, identity, atol=1e-14, btol=1e-14)[0]
    if np.abs(rows.T @ y - identity).max() > 1e-9:
        return None
    return float(b[equalities] @ y)


def _senses(sense: str | Sequence[str] | NDArray[np.str_], m: int) -> NDArray[np.str_]:
    given = np.asarray(sense)
    if given.shape not in ((), (m,)):
        raise ValueError(f"sense has shape {given.shape}; expected one for all, or one for each of {m} constraints")
    if wrong := sorted(set(given.ravel().tolist()) - set(SENSES)):
        raise ValueError(f"sense holds {wrong[0]!r}; expected '>=', '<=' or '='")
    return np.array(np.broadcast_to(given, (m,)))


def _objective(given: Any, n: int) -> Array:
    C: Array = np.array(given.toarray() if sp.issparse(given) else given, dtype=np.float64)
    if C.shape != (n, n):
        raise ValueError(f"C has shape {C.shape}, but the constraints are {n} x {n}")
    if not np.isfinite(C).all():
        j, l = np.argwhere(~np.isfinite(C))[0]
        raise ValueError(f"C[{j}, {l}] is {C[j, l]}; expected finite numbers")
    skew = np.abs(C - C.T)
    if skew.max() > 1e-12 * np.abs(C).max():
        j, l = np.unravel_index(int(skew.argmax()), skew.shape)
        raise ValueError(
            f"C is not symmetric: C[{j}, {l}] is {C[j, l]}, but C[{l}, {j}] is {C[l, j]}. As X is symmetric, "
            "(C + C.T) / 2 has the same product with it: give that"
        )
    return C
