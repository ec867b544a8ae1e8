r"""The common parts of the kernel solvers that visit samples one by one: the order of visits, and a sum of rows.

Such a solver stores the product :math:`f = K\beta` for all samples. A visit that changes nothing costs no kernel
evaluation; a visit that changes :math:`\beta_i` costs the n evaluations of row i of K, or none if the row is cached.
(The alternative is to compute the product of a sample at its visit, with as many evaluations as there are support
vectors. That is cheaper in the first pass, by at most a half, and more expensive in all later passes.)

As f is constant between two changes, many visits are evaluated together to find the next one that changes something.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from maxmargin.core.types import Indices, Vector
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.rows import KernelRows, kernel_rows
from maxmargin.svm.margin import MarginProblem
from maxmargin.svm.regularized import RegularizedSVM

GOLDEN = (5**0.5 - 1) / 2  # the fractional parts of its multiples are spread evenly over [0, 1)
MOST_AHEAD = 4096  # largest number of iterations that are evaluated together


class Order:
    """The order of visits: passes over the samples with a positive weight, each visited in proportion to its weight.

    In a pass, a sample is visited as often as the integer part of its weight (their mean taken as 1); the fraction is
    carried over to the next sample. Each pass starts with another carry, so that no sample is always rounded down.

    Parameters
    ----------
    s : array of shape (n,)
        Sample weights.
    order : {"permuted", "given", "iid"}
        A new random order each pass, the order of the data, or each sample drawn from all.
    rng : np.random.Generator
        The source of randomness.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.svm.kernel.visits import Order
    >>> order = Order(np.array([2.0, 0.0, 1.0]), "given", np.random.default_rng(0))
    >>> order.ahead(6).tolist()
    [0, 2, 0, 2, 0, 0]
    """

    def __init__(self, s: Vector, order: str, rng: np.random.Generator) -> None:
        self.order, self.rng = order, rng
        self.rows = np.flatnonzero(s)
        self.share = s / s[self.rows].mean()
        self.passes = 0
        self.coming, self.position = self.rows[:0], 0

    def ahead(self, count: int) -> Indices:
        """The samples of the next `count` visits; they stay the next ones until `advance` is called."""
        while self.coming.size - self.position < count:
            self.coming = np.concatenate([self.coming[self.position :], self._draw_pass()])
            self.position = 0
        return self.coming[self.position : self.position + count]

    def advance(self, count: int) -> None:
        """Move on by `count` visits that were made."""
        self.position += count

    def _draw_pass(self) -> Indices:
        """The visits of another pass."""
        rows = self.rng.permutation(self.rows) if self.order == "permuted" else self.rows
        total = np.cumsum(self.share[rows])
        if self.order == "iid":
            drawn = np.searchsorted(total, self.rng.random(rows.size) * total[-1], side="right")
            return np.asarray(rows[np.minimum(drawn, rows.size - 1)])
        self.passes += 1
        credit = self.passes * GOLDEN % 1
        return np.repeat(rows, np.diff(np.floor(credit + total), prepend=0.0).astype(np.int64))


class Sum:
    r"""A sum :math:`v = \sum_i \beta_i\phi(x_i)` with its products f = K beta, and an average of multiples of it.

    The average of :math:`a_t v_t` with weights :math:`g_t` is :math:`(S v - B) / G`, with
    :math:`S = \sum_t g_t a_t` and :math:`G = \sum_t g_t`: S times what is added to v is added to B, so that the
    terms of earlier t do not change. Where v shrinks, S v is subtracted from B first, and S starts again from 0.

    Parameters
    ----------
    K : KernelRows
        The rows.
    averaging : bool
        Whether to keep the average.
    """

    def __init__(self, K: KernelRows, averaging: bool) -> None:
        n = K.shape[0]
        self.K, self.averaging = K, averaging
        self.beta, self.f = np.zeros(n), np.zeros(n)
        self.S = self.G = 0.0
        self.B_beta, self.B_f = np.zeros((2, n if averaging else 0))

    def add(self, numbers: Indices, change: Vector) -> None:
        """Add to the coefficients of distinct samples, and update f: their rows are read."""
        rows = self.K.fetch(numbers)
        self.beta[numbers] += change
        rows.add_to(self.f, change)
        if self.averaging:
            self.B_beta[numbers] += self.S * change
            rows.add_to(self.B_f, self.S * change)

    def shrink(self, factor: float) -> None:
        """Multiply v by a factor, and leave the average as it is."""
        if self.averaging:
            self.B_beta -= self.S * self.beta
            self.B_f -= self.S * self.f
            self.S = 0.0
        self.beta *= factor
        self.f *= factor

    def count(self, shares: Vector, weights: Vector) -> None:
        """Add the present v to the average for several t, given g_t a_t and g_t of each."""
        self.S = one_by_one(self.S, shares)
        self.G = one_by_one(self.G, weights)

    def restart_average(self) -> None:
        """Forget the average, so that it begins with the present v."""
        self.S = self.G = 0.0
        self.B_beta[:] = self.B_f[:] = 0.0

    def answer(self, a: float = 1.0) -> Expansion:
        """a times the average, or a v if no average is kept."""
        if not self.averaging:
            return Expansion(a * self.beta, a * self.f)
        a /= self.G or 1.0
        return Expansion(a * (self.S * self.beta - self.B_beta), a * (self.S * self.f - self.B_f))


def one_by_one(total: float, terms: Vector) -> float:
    """The total plus the terms, added one after the other: the same bits however the terms are split."""
    return float(np.cumsum(np.append(total, terms))[-1])


class Visits(ABC):
    """The state of a solver that visits samples: it skips iterations that change nothing and makes the others.

    Parameters
    ----------
    problem : MarginProblem
        Rows, labels and weights.
    order : Order
        The order of visits.
    batch : int
        The number of samples that an iteration visits.
    """

    def __init__(self, problem: MarginProblem, order: Order, batch: int = 1) -> None:
        self.K, self.y = kernel_rows(problem.X), problem.y
        self.order, self.batch = order, batch
        self.t = 0  # iterations made
        self.ahead = 1  # iterations to evaluate together next

    def run(self, iterations: int, budget: float) -> int:
        """Make up to `iterations` iterations with at most `budget` kernel evaluations; return how many were made."""
        done, end = 0, self.K.ledger.entries_read + budget
        while done < iterations:
            count = min(self.ahead, iterations - done)
            rows = self.order.ahead(count * self.batch).reshape(count, self.batch)
            changes = self.changes(rows)
            first = np.flatnonzero(changes.any(axis=1))[:1]
            quiet = int(first[0]) if first.size else count
            self.advance(rows[:quiet])
            done += quiet
            # This keeps visits that are evaluated in vain, because of a change before them, in proportion to the
            # others.
            self.ahead = min(2 * quiet + 1, MOST_AHEAD)
            if first.size:
                numbers, change = _each_once(rows[quiet], changes[quiet])
                if self.K.missing(numbers).sum() > end - self.K.ledger.entries_read:
                    break
                self.learn(numbers, change)
                self.advance(rows[quiet : quiet + 1])
                done += 1
        return done

    def advance(self, rows: Indices) -> None:
        """Count iterations that were made; `rows` holds the samples of each."""
        self.t += len(rows)
        self.order.advance(rows.size)

    @abstractmethod
    def changes(self, rows: Indices) -> Vector:
        """The change of the coefficient of each sample if f stays the same; a row holds the samples of an iteration."""

    @abstractmethod
    def learn(self, numbers: Indices, change: Vector) -> None:
        """Make the changes of one iteration, for distinct samples."""


def change_of_C(before: RegularizedSVM, now: RegularizedSVM) -> float:
    """The ratio of the C of two problems that are otherwise equal; 0 if they differ in more than C.

    The dual variables of the first problem times this ratio are within the bounds of the second.
    """
    the_same = (
        before.X is now.X
        and (before.loss, before.free_bias, before.bias_feature) == (now.loss, now.free_bias, now.bias_feature)
        and np.array_equal(before.y, now.y)
        and np.array_equal(before.s, now.s)
    )
    return now.C / before.C if the_same else 0.0


def _each_once(rows: Indices, change: Vector) -> tuple[Indices, Vector]:
    """The distinct samples that change, each with the sum of its changes."""
    if rows.size == 1:
        return rows, change
    numbers, where = np.unique(rows[change != 0], return_inverse=True)
    return numbers, np.bincount(where, change[change != 0]).astype(np.float64)
