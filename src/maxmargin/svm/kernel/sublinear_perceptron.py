r"""The kernelised sublinear perceptron of Clarkson, Hazan and Woodruff (2012), as Irpan and Kwan (2015) write it.

Problem: the largest margin of data that is separable in the kernel's space,
:math:`\sigma = \max_{|x| \le 1} \min_i \langle A_i, x\rangle`, the slack form with slack 0 on a KernelMatrix; A_i is
:math:`y_i \phi(x_i)` over the scale. Given: eps. Returned: the mean of x_t, for which
:math:`\min_i \langle A_i, \bar x\rangle \ge \sigma - \varepsilon` with probability at least 1/2.

The game is Algorithm 1 of the survey, whose lines and symbols are used here. y_t is a sum of rows that were drawn,
:math:`y_t = \sum_i a_i A_i`, so its products with all rows are not known. An estimate of them takes a row z of that
sum, drawn in proportion to :math:`a_i |A_i|`, and then estimates the kernel of z with all rows from a few columns of X
(:mod:`maxmargin.kernels.feature_samples`). The mean square of an estimate is at most
:math:`s_t^2 = (\sum_i a_i |A_i|)^2`. As the lemmas require a variance of at most 1, the mean of
:math:`\lceil s_t^2 / \max\{1, |y_t|\}^2 \rceil` estimates is taken, which are at most :math:`\lceil 1/\sigma^2 \rceil`.
So a round reads entries of X and evaluates no kernel, except that |y_t| is known exactly: the kernel of a row that is
drawn for the first time is evaluated with all rows drawn before.

Once the estimates have read as many entries as computing the rows of K of all drawn rows would, these rows are
computed, and all products are exact from then on. This happens early if rows are short, or if few distinct rows are
drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.core import l1_sample, l1_samples
from maxmargin.core.types import Vector
from maxmargin.engine.problem import Solution, Trait
from maxmargin.engine.solver import Step
from maxmargin.game.weights import Weights
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.feature_samples import FeatureSamples
from maxmargin.kernels.rows import KernelRows, kernel_rows
from maxmargin.svm.slack import SlackSVM
from maxmargin.svm.sublinear_rounds import SublinearRounds

ESTIMATES_AT_ONCE = 2**18  # largest number of entries in a block of estimates, which bounds its memory


@dataclass(frozen=True)
class KernelSublinearPerceptron(SublinearRounds["Sums"]):
    """The sublinear perceptron, Algorithm 1 of Irpan and Kwan (2015), on a kernel that is estimated from entries of X.

    For parameters and notes, see :class:`maxmargin.solvers.SublinearPerceptron`. The solver takes the kernels linear,
    rbf, and poly with coef0 >= 0. A budget counts kernel evaluations; entries of X are counted in the ledger under
    "entries of X".

    References
    ----------
    Clarkson, Hazan, Woodruff (2012), Sublinear Optimization for Machine Learning, the section on kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SlackSVM, solve
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.kernels.functions import Poly
    >>> from maxmargin.solvers import KernelSublinearPerceptron
    >>> X = np.random.default_rng(0).normal(size=(200, 50))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    >>> X[:, 0] += np.sign(X[:, 0])  # away from the border
    >>> problem = SlackSVM(KernelMatrix(X, Poly(gamma=1.0, degree=2)), y, slack=0.0, bias=False)
    >>> result = solve(problem, KernelSublinearPerceptron(), max_iter=100, certify=False, random_state=0)
    >>> result.reads["learning"] < 100 * 100 < result.reads["entries of X"]
    True
    """

    name: ClassVar[str] = "sublinear_perceptron"
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.KERNEL, Trait.SEPARABLE})
    visits_samples: ClassVar[bool] = True

    def start(self, problem: SlackSVM, rng: np.random.Generator, warm: object = None) -> Sums:
        return warm if isinstance(warm, Sums) else Sums(problem, rng, self.iterations(problem))

    def step(self, problem: SlackSVM, state: Sums, iterations: int, budget: float) -> Step:
        return Step.of(state.run(iterations, budget), iterations)

    def solution(self, problem: SlackSVM, state: Sums) -> Solution:
        beta, b = state.answer()
        return Solution(Expansion.unknown(beta), b, state.a.copy())


class Sums:
    """The state of both players.

    Attributes
    ----------
    a : array of shape (n,)
        y_t = sum a_i A_i.
    norm2 : float
        |y_t|^2.
    products : array of shape (n,) or None
        The exact products of y_t with all phi(x_i) over the scale; None as long as they are estimated.
    """

    def __init__(self, problem: SlackSVM, rng: np.random.Generator, T: int) -> None:
        self.K, self.rng, self.T = kernel_rows(problem.X), rng, T
        self.y, self.bias, self.scale = problem.y, problem.bias, problem.scale
        n, used = self.y.size, problem.s > 0
        self.samples = FeatureSamples.of(self.K, used)
        self.sq_norms = problem.sq_norms() / self.scale**2  # |A_i|^2
        self.weights = Weights(problem.s, math.sqrt(math.log(np.count_nonzero(used)) / T))
        self.a, self.norm2, self.t = np.zeros(n), 0.0, 0
        self.drawn: int | None = None  # a row that was drawn but did not fit the budget
        self.products: Vector | None = None
        self.gram = Gram(self.K)
        # The sum of x_t is S y_t - B; b_sum is that of b_t.
        self.S, self.B, self.b_sum = 0.0, np.zeros(n), 0.0

    def run(self, rounds: int, budget: float) -> int:
        """Play up to `rounds` rounds with at most `budget` kernel evaluations; return how many were played."""
        end = self.K.ledger.entries_read + budget
        for played in range(rounds):
            if not self.play(end):
                return played
        return rounds

    def play(self, end: float) -> bool:
        """Play one round. False if the count of kernel evaluations would exceed `end`; the drawn row is then kept."""
        p, i = self.weights.p, self.drawn  # line 4
        if i is None:
            i = self.drawn = l1_sample(p, self.rng.random())  # line 5
        if self.products is None and self.exact_is_cheaper():
            if self.evaluations_of_all() > end - self.K.ledger.entries_read:
                return False
            beta = self.a * self.y / self.scale
            self.products = self.K.dot_transposed(beta).f / self.scale
        if self.evaluations_of(i) > end - self.K.ledger.entries_read:
            return False
        self.drawn = None
        shrink = 1 / max(1.0, math.sqrt(self.norm2))
        products = self.estimates() if self.products is None else self.products  # lines 7 to 9
        b = float(np.sign(p @ self.y)) if self.bias else 0.0
        self.weights.learn(self.weights.clip(self.y * (shrink * products + b)))  # lines 10 and 11
        self.S, self.b_sum, self.t = self.S + shrink, self.b_sum + b, self.t + 1
        self.add(i)  # line 6
        return True

    # Products with y_t

    @property
    def estimates_needed(self) -> int:
        """The number of estimates whose mean has a variance of at most 1."""
        spread = float(self.a @ np.sqrt(self.sq_norms))
        return math.ceil(spread**2 / max(1.0, self.norm2))

    def estimates(self) -> Vector:
        """Estimates of the products of y_t with all phi(x_i) over the scale."""
        sizes, count, n = np.sqrt(self.sq_norms), self.estimates_needed, self.y.size
        chances, total = self.a * sizes, np.zeros(n)
        at_once = max(1, ESTIMATES_AT_ONCE // max(n, self.samples.d))
        for done in range(0, count, at_once):
            u = self.rng.random((1, min(at_once, count - done)))
            z = l1_samples(chances[None], u)[0]
            total += self.samples.estimate(z, self.samples.draw(z, self.rng)) @ (self.y[z] / sizes[z])
        return np.asarray(total * (chances.sum() / max(count, 1) / self.scale**2))

    def exact_is_cheaper(self) -> bool:
        """Whether all estimates, with those of this round, read more than the rows of K of all drawn rows would."""
        chances = self.a * np.sqrt(self.sq_norms)
        if not chances.any():
            return False
        n, d, stored = self.y.size, self.samples.d, self.samples.n_stored
        columns = float(chances @ self.samples.columns / chances.sum())
        coming = self.estimates_needed * (stored / n + columns * stored / d)
        return bool(self.samples.entries_read + coming >= stored * np.count_nonzero(self.a))

    def evaluations_of_all(self) -> int:
        """The kernel evaluations for the rows of K of all drawn rows."""
        return self.y.size * int(np.count_nonzero(self.a))

    # Adding a row

    def evaluations_of(self, i: int) -> int:
        """The kernel evaluations for adding row i."""
        return self.gram.missing(i) if self.products is None else int(self.K.missing(np.array([i]))[0])

    def add(self, i: int) -> None:
        r""":math:`y_{t+1} = y_t + A_i/\sqrt{2T}`."""
        step = 1 / math.sqrt(2 * self.T)
        if self.products is None:
            support, kernels = self.gram.row(i, self.sq_norms[i] * self.scale**2)
            product = float((self.a[support] * self.y[support]) @ kernels) / self.scale**2
        else:
            product = float(self.products[i])
            self.products += step * self.y[i] / self.scale**2 * self.K.rows(np.array([i]))[0]
        self.norm2 = max(0.0, self.norm2 + step * (2 * self.y[i] * product + step * self.sq_norms[i]))
        self.a[i] += step
        self.B[i] += self.S * step

    def answer(self) -> tuple[Vector, float]:
        """Line 14: the coefficients of the mean of x_t on phi(x_i), and the mean of b_t."""
        rounds = max(self.t, 1)
        return (self.S * self.a - self.B) * self.y / (rounds * self.scale), self.b_sum / rounds


class Gram:
    """The kernel matrix between all rows that were drawn, each entry evaluated once."""

    def __init__(self, K: KernelRows) -> None:
        self.K = K
        self.place: dict[int, int] = {}
        self.numbers, self.kernels = np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.float32)

    def missing(self, i: int) -> int:
        """The kernel evaluations for row i."""
        return 0 if i in self.place else len(self.place)

    def row(self, i: int, square: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """All drawn rows including i, and the kernel of i with each of them; `square` is that of i with itself."""
        if i not in self.place:
            self._enter(i, square)
        count = len(self.place)
        return self.numbers[:count], self.kernels[self.place[i], :count]

    def _enter(self, i: int, square: float) -> None:
        k = len(self.place)
        if k == self.numbers.size:
            self.numbers = np.append(self.numbers, np.zeros(k + 8, dtype=np.int64))
            self.kernels = np.pad(self.kernels, (0, k + 8))
        self.place[i], self.numbers[k], self.kernels[k, k] = k, i, square
        if k:
            self.kernels[k, :k] = self.kernels[:k, k] = self.K.block(np.array([i]), self.numbers[:k])[0]
