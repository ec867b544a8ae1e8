r"""What the kernel solvers share that visit samples one by one: who comes next, and a sum of rows.

Such a solver knows the response of every sample, :math:`f = K\beta`. A visit that changes nothing costs no kernel
evaluation; one that changes :math:`\beta_i` costs the n of row i of K, or none if the row is still kept. (The other way
is to compute the response of a sample when it is visited: as many evaluations as there are support vectors, each
visit. That is cheaper in a first pass, by a half at most, and dearer from then on.)

As nothing happens between two changes, many visits ahead are looked at together to find the next one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

import numpy as np

from maxmargin.core.types import Indices, Vector
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.matrix import KernelMatrix
from maxmargin.svm.margin import MarginProblem
from maxmargin.svm.regularized import RegularizedSVM

GOLDEN = (5**0.5 - 1) / 2  # multiples of it, less their whole part, are spread evenly
MOST_AHEAD = 4096  # visits that are looked at together


class Order:
    """Which samples come next, in passes over all of some weight; each as often as its weight says.

    In a pass that is the whole part of its weight (their mean taken as 1), what is left of it is credited to the next
    sample. The first has another credit each pass, so that over the passes none is always rounded down.

    Parameters
    ----------
    s : array of shape (n,)
        Weights.
    order : {"permuted", "given", "iid"}
        All in a new random order each pass, or in their own, or each drawn from all.
    rng : np.random.Generator
        Where the draws come from.

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
        """The next `count` visits; asking changes nothing."""
        while self.coming.size - self.position < count:
            self.coming = np.concatenate([self.coming[self.position :], self._a_pass()])
            self.position = 0
        return self.coming[self.position : self.position + count]

    def go_on(self, count: int) -> None:
        """So many of them were made."""
        self.position += count

    def _a_pass(self) -> Indices:
        rows = self.rng.permutation(self.rows) if self.order == "permuted" else self.rows
        total = np.cumsum(self.share[rows])
        if self.order == "iid":
            drawn = np.searchsorted(total, self.rng.random(rows.size) * total[-1], side="right")
            return np.asarray(rows[np.minimum(drawn, rows.size - 1)])
        self.passes += 1
        credit = self.passes * GOLDEN % 1
        return np.repeat(rows, np.diff(np.floor(credit + total), prepend=0.0).astype(np.int64))


class Sum:
    r"""A sum :math:`v = \sum_i \beta_i\phi(x_i)` with its responses f, and an average of its multiples over time.

    The average of :math:`a_t v_t` with weights :math:`g_t` is :math:`(S v - B) / G`, with
    :math:`S = \sum_t g_t a_t` and :math:`G = \sum_t g_t`: what is added to v is added to B S times, so that the past
    stays what it was.

    Parameters
    ----------
    K : KernelMatrix
        The rows.
    averaging : bool
        Whether to keep the average.
    """

    def __init__(self, K: KernelMatrix, averaging: bool) -> None:
        n = K.shape[0]
        self.K, self.averaging = K, averaging
        self.beta, self.f = np.zeros(n), np.zeros(n)
        self.S = self.G = 0.0
        self.B_beta, self.B_f = np.zeros((2, n if averaging else 0))

    def add(self, numbers: Indices, change: Vector) -> None:
        """Change the coefficients of some samples, each named once: their rows are read."""
        rows = self.K.fetch(numbers)
        self.beta[numbers] += change
        rows.add_to(self.f, change)
        if self.averaging:
            self.B_beta[numbers] += self.S * change
            rows.add_to(self.B_f, self.S * change)

    def count(self, shares: Vector, weights: Vector) -> None:
        """Count what v is now into the average, at several t: g_t a_t and g_t of each."""
        self.S = one_by_one(self.S, shares)
        self.G = one_by_one(self.G, weights)

    def answer(self, a: float = 1.0) -> Expansion:
        """a times the average, or a v where none is kept."""
        if not self.averaging:
            return Expansion(a * self.beta, a * self.f)
        a /= self.G or 1.0
        return Expansion(a * (self.S * self.beta - self.B_beta), a * (self.S * self.f - self.B_f))


def one_by_one(total: float, terms: Vector) -> float:
    """The total with more terms, added in turn: the same to the bit however they are cut into parts."""
    return float(np.cumsum(np.append(total, terms))[-1])


class Visits(ABC):
    """The state of such a solver: iterations that change nothing are passed by, the others learn.

    Parameters
    ----------
    problem : MarginProblem
        Rows, labels and weights.
    order : Order
        Who comes next.
    batch : int
        How many samples an iteration visits.
    """

    def __init__(self, problem: MarginProblem, order: Order, batch: int = 1) -> None:
        self.K, self.y = cast(KernelMatrix, problem.X), problem.y
        self.order, self.batch = order, batch
        self.t = 0  # iterations made
        self.ahead = 1  # iterations to look at next

    def run(self, iterations: int, budget: int) -> int:
        """Make up to so many iterations of at most `budget` kernel evaluations; return how many."""
        done, end = 0, self.K.ledger.stored + budget
        while done < iterations:
            count = min(self.ahead, iterations - done)
            rows = self.order.ahead(count * self.batch).reshape(count, self.batch)
            changes = self.changes(rows)
            first = np.flatnonzero(changes.any(axis=1))[:1]
            quiet = int(first[0]) if first.size else count
            self.go_on(rows[:quiet])
            done += quiet
            # What is looked at in vain stays a part of what was not.
            self.ahead = min(2 * quiet + 1, MOST_AHEAD)
            if first.size:
                numbers, change = _each_once(rows[quiet], changes[quiet])
                if self.K.missing(numbers).sum() > end - self.K.ledger.stored:
                    break
                self.learn(numbers, change)
                self.go_on(rows[quiet : quiet + 1])
                done += 1
        return done

    def go_on(self, rows: Indices) -> None:
        """These iterations were made."""
        self.t += len(rows)
        self.order.go_on(rows.size)

    @abstractmethod
    def changes(self, rows: Indices) -> Vector:
        """What the iterations to come, one a line, would change of each of their samples if they came next."""

    @abstractmethod
    def learn(self, numbers: Indices, change: Vector) -> None:
        """Make the changes of an iteration."""


def change_of_C(before: RegularizedSVM, now: RegularizedSVM) -> float:
    """How many times the C of a problem another one has that is the same in all else; 0 if it is not.

    The weights of the dual times this are within the bounds of the other, and so many times the responses.
    """
    the_same = (
        before.X is now.X
        and (before.loss, before.free_bias, before.bias_feature) == (now.loss, now.free_bias, now.bias_feature)
        and np.array_equal(before.y, now.y)
        and np.array_equal(before.s, now.s)
    )
    return now.C / before.C if the_same else 0.0


def _each_once(rows: Indices, change: Vector) -> tuple[Indices, Vector]:
    """The samples that change, each with the sum of its changes."""
    if rows.size == 1:
        return rows, change
    numbers, where = np.unique(rows[change != 0], return_inverse=True)
    return numbers, np.bincount(where, change[change != 0]).astype(np.float64)
