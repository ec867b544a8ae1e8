r"""Sequential minimal optimisation (Platt 1998), with the pairs and the shrinking of LIBSVM.

The exact method that section 4.3 of Cotter, Shalev-Shwartz and Srebro (2012) compares with.

Problem: the regularised form with C and the hinge, on a KernelMatrix, with any kind of bias. Given: rows of K, one or
two at a time. Returned: w as an Expansion, b, and the weights alpha that prove how good they are.

A step solves the dual over two weights, along y_i and -y_j so that the sum of alpha_i y_i stays 0; without a free bias
over one. It needs all responses to choose them, and the rows of K of both to keep the responses up.

Symbols: :math:`f = K\beta` with :math:`\beta_i = \alpha_i y_i`, and :math:`e_i = y_i - f_i`. At the optimum no sample
whose :math:`\beta_i` can rise has a larger e than one whose :math:`\beta_j` can fall; the bias lies between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices, Vector
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Solver, Step
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.matrix import KernelMatrix
from maxmargin.kernels.row_cache import RowView
from maxmargin.svm.kernel._smo import RowFinder, ascend_by_one, ascend_by_pairs
from maxmargin.svm.kernel.visits import change_of_C
from maxmargin.svm.losses import Hinge
from maxmargin.svm.regularized import RegularizedSVM

MOST_STEPS = 1000  # of a round, after which it is seen who sits out; fewer where there are fewer samples
REVISIT = 0.5  # all take part again when the gap of those that do has fallen to this share
NOTHING = 1e-10  # a violation not worth a step
ROWS = 64  # computed at a time where those that sat out catch up


class Ascent:
    """The point of the dual, and what it makes of the samples that take part."""

    def __init__(self, problem: RegularizedSVM, shrink: bool) -> None:
        self.K, self.y, self.shrink = cast(KernelMatrix, problem.X), problem.y, shrink
        self.diagonal, n = problem.sq_norms(), self.y.size
        self.alpha, self.e, self.dual = np.zeros(n), self.y.copy(), 0.0
        self.active = self.everyone = np.arange(n)
        self.alpha_then = self.alpha  # when all took part last: what e is made of for those that sit out
        self.gap_then = math.inf
        self.round, self.position = min(n, MOST_STEPS), 0
        self.due = False  # whether those that sit out are to catch up next
        self.settled = False
        self.set_problem(problem)

    def set_problem(self, problem: RegularizedSVM) -> None:
        """What the problem says of the dual."""
        self.problem, self.upper, self.rho = problem, problem.u, problem.bias_feature**2

    def go_on_with(self, problem: RegularizedSVM, factor: float) -> None:
        """Take the weights along to a problem of so many times the C."""
        if factor == 1:
            return
        total, bounded = float(self.alpha.sum()), self.alpha >= self.upper
        self.set_problem(problem)
        self.dual = factor * total - factor**2 * (total - self.dual)
        self.alpha_then = factor * self.alpha_then
        self.alpha = np.where(bounded, self.upper, np.minimum(factor * self.alpha, self.upper))
        self.e = self.y - factor * (self.y - self.e)
        self.due, self.settled, self.position, self.gap_then = not self.whole, False, 0, math.inf

    @property
    def whole(self) -> bool:
        """Whether all samples take part."""
        return self.active.size == self.y.size

    def run(self, iterations: int, budget: int) -> int:
        """Make up to so many iterations of at most `budget` kernel evaluations; return how many."""
        done, end = 0, self.K.ledger.stored + budget
        while done < iterations and not self.settled:
            left = end - self.K.ledger.stored
            if self.due:
                if self.missing_rows().size * (self.y.size - self.active.size) > left:
                    return done
                self.catch_up()
                done += 1
                continue
            if self.position == 0 and self.shrink and self.whole:
                self.sit_out()
            wanted = min(iterations - done, self.round - self.position)
            made, missing = self.ascend(wanted)
            done += made
            self.position += made
            if missing.size:
                if self.K.missing(missing).sum() > left:
                    return done
                self.K.prefetch(missing)
            elif made < wanted:  # no step is left, for those that take part
                self.due, self.settled = not self.whole, self.whole
            elif self.position == self.round:
                self.end_round()
        return iterations if self.settled else done

    def ascend(self, most: int) -> tuple[int, Indices]:
        """Make up to so many steps; return how many, and the row that the next one needs, if it is not kept."""
        cached = self.K.lookup()
        known = cached.rows, RowFinder(cached), self.active, self.y, self.upper, self.diagonal, self.alpha, self.e, most
        pairs = self.problem.free_bias
        made, missing, gained = ascend_by_pairs(*known) if pairs else ascend_by_one(*known, self.rho)
        self.dual += gained
        self.K.count_hits((2 if pairs else 1) * made)
        return made, np.array([missing] if missing >= 0 else [], dtype=np.int64)

    def end_round(self) -> None:
        """When the gap of those that take part has fallen enough, the others are to catch up."""
        self.position, gap = 0, self.gap()
        if self.whole:
            self.gap_then = gap
        self.due = not self.whole and gap <= REVISIT * self.gap_then

    # Who takes part

    def sit_out(self) -> None:
        """Let those sit out that are at a bound and pull harder against it than any other pulls away from its own."""
        low, high = self.ends()
        rises, falls = self.free()
        out = (rises & ~falls & (self.e < low)) | (falls & ~rises & (self.e > high))
        self.alpha_then, self.active = self.alpha.copy(), np.flatnonzero(~out)

    def free(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whose beta of those that take part can rise, and whose can fall."""
        alpha, up = self.alpha[self.active], self.y[self.active] > 0
        more, less = alpha < self.upper[self.active], alpha > 0
        return np.where(up, more, less), np.where(up, less, more)

    def ends(self) -> tuple[float, float]:
        """The least e of those whose beta can fall, and the largest of those whose beta can rise.

        Without a free bias both are to be 0: they are as far from it as any is on the wrong side.
        """
        e = self.e[self.active]
        rises, falls = self.free()
        high, low = float(np.max(e[rises], initial=-np.inf)), float(np.min(e[falls], initial=np.inf))
        if self.problem.free_bias:
            return low, high
        worst = max(high, -low, 0.0)
        return -worst, worst

    def missing_rows(self) -> Indices:
        """The rows that those that sit out need to catch up, and that are not kept."""
        changed = np.flatnonzero(self.alpha != self.alpha_then)
        return changed[self.K.missing(changed) > 0]

    def catch_up(self) -> None:
        """Let all take part again."""
        self.e, self.active, self.due, self.position = self.e_of_all(), self.everyone, False, 0
        self.gap_then = self.gap()
        low, high = self.ends()
        self.settled = high - low <= NOTHING

    def e_of_all(self) -> Vector:
        """e, brought up to date for those that sit out by the changes since then, times rows that mostly are kept."""
        if self.whole:
            return self.e.copy()
        out = np.setdiff1d(self.everyone, self.active)
        change = (self.alpha - self.alpha_then) * self.y
        missing, f = self.missing_rows(), np.full(self.y.size, self.rho * float(change.sum()))
        there = np.setdiff1d(np.flatnonzero(change), missing)
        self.K.peek(there).add_to(f, change[there])
        f = f[out]
        for start in range(0, missing.size, ROWS):
            some = missing[start : start + ROWS]
            RowView.of(self.K.block(some, out)).add_to(f, change[some])
        e = self.e.copy()
        e[out] -= f
        return e

    # Where it stands

    def bias(self) -> float:
        """The bias: in the middle of where it may be; a penalised one follows from the weights."""
        if not self.problem.free_bias:
            return self.rho * float(self.alpha @ self.y)
        ends = [end for end in self.ends() if math.isfinite(end)]
        return sum(ends) / max(1, len(ends))

    def gap(self) -> float:
        """The gap, if those that sit out add nothing to it."""
        centre = self.bias() if self.problem.free_bias else 0.0
        alpha, short = self.alpha[self.active], self.y[self.active] * (self.e[self.active] - centre)
        return float(np.where(short > 0, self.upper[self.active] - alpha, -alpha) @ short)

    def solution(self) -> Solution:
        beta, fixed = self.alpha * self.y, 0.0 if self.problem.free_bias else self.bias()
        w: Any = Expansion(beta, self.y - self.e_of_all() - fixed)
        return Solution(w, self.bias(), self.alpha.copy(), w)


@dataclass(frozen=True)
class Smo(Solver):
    r"""Steps on the pair of weights that the second order says brings most, with shrinking.

    An iteration is such a step, which costs the rows of K of two samples if they are not kept (or of one, without a
    free bias). Now and then it is one in which those that sat out catch up.

    Parameters
    ----------
    shrink : bool, default=True
        Whether samples that seem settled at a bound sit out: their responses are not kept up. All take part again
        whenever the gap of the others has halved.

    References
    ----------
    Platt (1998), Fast Training of Support Vector Machines Using Sequential Minimal Optimization.
    Fan, Chen, Lin (2005), Working Set Selection Using Second Order Information for Training SVM.
    Chang, Lin (2011), LIBSVM: A Library for Support Vector Machines.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import RegularizedSVM, solve
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.kernels.functions import Rbf
    >>> from maxmargin.solvers import Smo
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where((X**2).sum(axis=1) < 1, 1.0, -1.0)
    >>> result = solve(RegularizedSVM(KernelMatrix(X, Rbf(gamma=1.0)), y, C=10.0), Smo(), tol=1e-4)
    >>> result.status, bool(np.mean(np.sign(result.solution.w.f + result.solution.b) == y) > 0.95)
    ('tol', True)
    """

    name: ClassVar[str] = "smo"
    solves: ClassVar[type[Problem]] = RegularizedSVM
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.KERNEL})
    visits_samples: ClassVar[bool] = True
    balanced: ClassVar[bool] = True
    default_tol: ClassVar[float | None] = 1e-3

    shrink: bool = True

    def deterministic(self, problem: Any) -> bool:
        return True

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: Any = None) -> Ascent:
        if not isinstance(problem.loss, Hinge):
            raise ValueError(f"smo has the hinge loss; got {problem.loss.name!r}, which sdca takes too")
        if isinstance(warm, Ascent):
            factor = change_of_C(warm.problem, problem)
            if factor:
                warm.go_on_with(problem, factor)
                return warm
        return Ascent(problem, self.shrink)

    def step(self, problem: RegularizedSVM, state: Ascent, iterations: int, budget: int) -> Step:
        return Step.of(state.run(iterations, budget), iterations)

    def solution(self, problem: RegularizedSVM, state: Ascent) -> Solution:
        return state.solution()

    def iterations_per_pass(self, problem: RegularizedSVM) -> int:
        """A step is on two samples (on one, without a free bias)."""
        samples = super().iterations_per_pass(problem)
        return math.ceil(samples / 2) if problem.free_bias else samples

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return max(10_000, 100 * problem.y.size)

    def estimated_gap(self, problem: RegularizedSVM, state: Ascent) -> float:
        gap = state.gap()
        return gap / (abs(state.dual) + gap) if gap > 0 else 0.0
