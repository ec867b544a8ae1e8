r"""Max-min problems, :math:`\sigma = \max_{x \in \mathcal{K}} \min_i c_i(x)` with concave :math:`c_i`.

The bound of a certificate: for weights p on the simplex, no x has a larger value than
:math:`\max_{x \in \mathcal{K}} \sum_i p_i c_i(x)`. A problem that cannot compute this maximum has no bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from maxmargin.core import Ledger
from maxmargin.core.types import Point, Vector
from maxmargin.engine.certificate import Certificate, Form
from maxmargin.engine.problem import Dual, Evaluation, Problem

NO_BOUND = "the problem has no `bound`, so that the best possible value is unknown; the value itself was measured"


class MaxMin(Problem):
    r"""A max-min problem, given by functions in plain NumPy.

    All :math:`c_i` are concave with :math:`|c_i(x)| \le 1` on the set from which x is chosen. The player of the solver
    knows this set.

    Parameters
    ----------
    n : int
        The number of functions :math:`c_i`.
    sample : callable
        ``sample(x, rng)`` returns an array of shape (n,): for each i an unbiased estimate of :math:`c_i(x)` with a
        variance of at most 1. The estimates may depend on each other.
    gradient : callable
        ``gradient(i, x)`` returns a supergradient of :math:`c_i` at x, of the same shape as x and with a norm of at
        most 1.
    values : callable
        ``values(x)`` returns all :math:`c_i(x)` exactly; it is called only to certify a solution or to choose between
        runs.
    bound : callable or None
        ``bound(p)`` returns :math:`\max_{x} \sum_i p_i c_i(x)` for weights p on the simplex, or an upper bound of it.
    reads : tuple of three ints
        How many entries of the data a call reads, for the ledger: a call of `sample`, of `gradient`, and of `values` or
        `bound`.

    Examples
    --------
    A game of two players, each with two moves: x mixes the columns of A, and the smallest entry of A x is the value.

    >>> import numpy as np
    >>> from maxmargin.problems import MaxMin
    >>> from maxmargin.game.sets import Simplex
    >>> A = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> game = MaxMin(
    ...     2,
    ...     sample=lambda x, rng: A[:, rng.choice(2, p=x)],
    ...     gradient=lambda i, x: A[i],
    ...     values=lambda x: A @ x,
    ...     bound=lambda p: Simplex(2).support(A.T @ p),
    ...     reads=(2, 2, 4),
    ... )
    >>> print(game.certify(np.array([0.5, 0.5]), np.array([0.5, 0.5])))
    the value 0.5 is the best possible to within 0
    """

    form: str = "max-min"

    def __init__(
        self,
        n: int,
        *,
        sample: Callable[[Any, np.random.Generator], Any],
        gradient: Callable[[int, Any], Any],
        values: Callable[[Any], Any],
        bound: Callable[[Vector], float] | None = None,
        reads: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        if not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"a max-min problem needs at least one function c_i; got n={n!r}")
        if len(reads) != 3 or min(reads) < 0:
            raise ValueError(f"reads must be three counts, of `sample`, `gradient` and `values`; got {reads!r}")
        self._set_counts(n, reads)
        self._sample, self._gradient, self._values, self._bound = sample, gradient, values, bound

    def _set_counts(self, n: int, reads: tuple[int, int, int]) -> None:
        """The part of `__init__` that subclasses need if they define the functions as methods."""
        self.n, self.reads, self.X = n, reads, CountedReads((n, reads[1]))

    @property
    def round_reads(self) -> int:
        """The largest number of entries that a round reads: an estimate of every c_i, and a gradient."""
        return self.reads[0] + self.reads[1]

    def sample(self, x: Any, rng: np.random.Generator) -> Vector:
        """An estimate of every c_i(x)."""
        self.ledger.count(self.reads[0])
        return self._checked("sample", self._sample(x, rng))

    def gradient(self, i: int, x: Any) -> Vector:
        """A supergradient of c_i at x."""
        self.ledger.count(self.reads[1])
        g = np.asarray(self._gradient(i, x), dtype=np.float64)
        if g.shape != np.shape(x):
            raise ValueError(f"gradient({i}, x) gave an array of shape {g.shape}; expected that of x, {np.shape(x)}")
        if not np.isfinite(g).all():
            raise ValueError(f"gradient({i}, x) gave {g[~np.isfinite(g)][0]} as an entry; expected finite numbers")
        return g

    def values(self, x: Any) -> Vector:
        """Every c_i(x), exactly."""
        self.ledger.count(self.reads[2])
        return self._checked("values", self._values(x))

    def bound(self, p: Vector) -> float:
        """An upper bound of the value of every x, from weights on the simplex; infinite if the problem has none."""
        if self._bound is None:
            return math.inf
        self.ledger.count(self.reads[2])
        bound = float(self._bound(p))
        if math.isnan(bound):
            raise ValueError("bound(p) gave NaN; expected a number, the largest sum of p_i c_i(x) or more")
        return bound

    def _checked(self, name: str, given: Any) -> Vector:
        values = np.asarray(given, dtype=np.float64)
        if values.shape != (self.n,):
            raise ValueError(
                f"{name}(x) gave an array of shape {values.shape}; expected ({self.n},), a number for each i"
            )
        if not np.isfinite(values).all():
            i = int(np.argmin(np.isfinite(values)))
            raise ValueError(f"{name}(x) gave {values[i]} for i = {i}; expected finite numbers")
        return values

    # What the loop calls

    def evaluate(self, w: Any) -> Evaluation:
        """The smallest c_i at w; the dual weights are all on that c_i."""
        c = self.values(w)
        wet = np.zeros(self.n)
        wet[np.argmin(c)] = 1
        return Evaluation(w, float(c.min()), wet)

    def certify_evaluated(
        self, at: Evaluation, p: Vector | None = None, v: Point | None = None, *, rounds: int = 0
    ) -> tuple[Certificate, Dual]:
        """The smallest c_i at a point, and the bound from the weights p; without p, all weight is on that c_i."""
        p = at.wet if p is None or p.sum() <= 0 else p / p.sum()
        bound = self.bound(p)
        dual = (p, np.empty(0))
        if bound == math.inf:
            return Certificate(at.value, math.nan, NO_BOUND, self.form), dual
        return Certificate.proved(at.value, bound, self.form), dual


class CountedReads:
    """A stand-in for a matrix: a shape, and a ledger of the reads that a problem's own functions report."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.ledger = shape, Ledger()


def _sentence(certificate: Certificate) -> str:
    return f"the value {certificate.primal:.4g} is the best possible to within {certificate.gap:.2g}"


Form("max-min", True, _sentence)
