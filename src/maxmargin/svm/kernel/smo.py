r"""Sequential minimal optimisation (Platt 1998), with the working set selection and the shrinking of LIBSVM.

Section 4.3 of Cotter, Shalev-Shwartz and Srebro (2012) compares the Stochastic Batch Perceptron with it.

Problem: the regularised form with C and the hinge, on a KernelMatrix, with any kind of bias. Given: rows of K, one or
two at a time. Returned: w as an Expansion, b, and the dual point alpha that proves how good they are.

A step maximises the dual over two variables, along y_i and -y_j so that the sum of alpha_i y_i stays 0; without a free
bias, it maximises over one variable. Choosing the variables takes the gradient at all active samples, and updating the
gradient takes the rows of K of the chosen samples.

Symbols: :math:`f = K\beta` with :math:`\beta_i = \alpha_i y_i`, and :math:`e_i = y_i - f_i`. At the optimum no sample
whose :math:`\beta_i` can rise has a larger e than one whose :math:`\beta_j` can fall; the bias lies between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices, Vector
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.row_cache import RowView
from maxmargin.kernels.rows import kernel_rows
from maxmargin.svm.kernel._smo import RowFinder, ascend_by_one, ascend_by_pairs
from maxmargin.svm.kernel.visits import change_of_C
from maxmargin.svm.losses import Hinge
from maxmargin.svm.regularized import RegularizedSVM

STEPS_PER_ROUND = 1000  # steps between two decisions about shrinking; n if there are fewer than this many samples
UNSHRINK_SHARE = 0.5  # all samples become active once the gap of the active ones has fallen to this share
BLOCK_ROWS = 64  # rows of K computed at a time when the gradient of inactive samples is reconstructed


class Ascent:
    """The state of SMO: the dual point alpha, and the gradient e at the active samples."""

    def __init__(self, problem: RegularizedSVM, shrink: bool) -> None:
        self.K, self.y, self.shrink = kernel_rows(problem.X), problem.y, shrink
        self.diagonal, n = problem.sq_norms(), self.y.size
        self.alpha, self.e, self.dual = np.zeros(n), self.y.copy(), 0.0
        self.active = self.everyone = np.arange(n)
        self.alpha_then = self.alpha  # alpha when all samples were last active, to which e of inactive ones belongs
        self.gap_then = math.inf  # the gap at that time
        self.round, self.position = min(n, STEPS_PER_ROUND), 0  # steps of a round, and how many of them are made
        self.due = False  # whether the gradient of inactive samples is reconstructed next
        self.settled = False  # whether no violation of the optimality conditions is left
        self.set_problem(problem)

    def set_problem(self, problem: RegularizedSVM) -> None:
        """Take the bounds and the penalty of the bias from a problem."""
        self.problem, self.upper, self.rho = problem, problem.u, problem.bias_feature**2

    def rescale(self, problem: RegularizedSVM, factor: float) -> None:
        """Continue with a problem of `factor` times the C: scale the dual point and its gradient likewise."""
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
        """Whether all samples are active."""
        return self.active.size == self.y.size

    def run(self, iterations: int, budget: float) -> int:
        """Make up to `iterations` iterations with at most `budget` kernel evaluations; return how many were made."""
        done, end = 0, self.K.ledger.entries_read + budget
        while done < iterations and not self.settled:
            left = end - self.K.ledger.entries_read
            if self.due:
                if self.missing_rows().size * (self.y.size - self.active.size) > left:
                    return done
                self.unshrink()
                done += 1
                continue
            if self.position == 0 and self.shrink and self.whole:
                self.shrink_active()
            wanted = min(iterations - done, self.round - self.position)
            made, missing = self.ascend(wanted)
            done += made
            self.position += made
            if missing.size:
                if self.K.missing(missing).sum() > left:
                    return done
                self.K.prefetch(missing)
            elif made < wanted:  # the active samples satisfy the optimality conditions
                self.settled = self.whole or np.array_equal(self.alpha, self.alpha_then)  # so do the inactive ones
                self.due = not self.settled
            elif self.position == self.round:
                self.end_round()
        return done

    def ascend(self, most: int) -> tuple[int, Indices]:
        """Make up to `most` steps; return how many, and the row that the next step lacks in the cache."""
        cached = self.K.lookup()
        known = cached.rows, RowFinder(cached), self.active, self.y, self.upper, self.diagonal, self.alpha, self.e, most
        pairs = self.problem.free_bias
        made, missing, gained = ascend_by_pairs(*known) if pairs else ascend_by_one(*known, self.rho)
        self.dual += gained
        self.K.count_hits((2 if pairs else 1) * made)
        return made, np.array([missing] if missing >= 0 else [], dtype=np.int64)

    def end_round(self) -> None:
        """Decide whether the gap of the active samples has fallen enough for all samples to become active."""
        self.position, gap = 0, self.gap()
        if self.whole:
            self.gap_then = gap
        self.due = not self.whole and gap <= UNSHRINK_SHARE * self.gap_then

    # Shrinking

    def shrink_active(self) -> None:
        """Make samples inactive that are at a bound and whose gradient exceeds that of every violating sample."""
        low, high = self.ends()
        rises, falls = self.free()
        out = (rises & ~falls & (self.e < low)) | (falls & ~rises & (self.e > high))
        self.alpha_then, self.active = self.alpha.copy(), np.flatnonzero(~out)

    def free(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """For each active sample, whether beta_i can rise, and whether it can fall."""
        alpha, up = self.alpha[self.active], self.y[self.active] > 0
        more, less = alpha < self.upper[self.active], alpha > 0
        return np.where(up, more, less), np.where(up, less, more)

    def ends(self) -> tuple[float, float]:
        """The least e_i of active samples whose beta_i can fall, and the largest e_i of those whose beta_i can rise.

        Without a free bias, minus and plus the largest violation of the optimality conditions, e = 0.
        """
        e = self.e[self.active]
        rises, falls = self.free()
        high, low = float(np.max(e[rises], initial=-np.inf)), float(np.min(e[falls], initial=np.inf))
        if self.problem.free_bias:
            return low, high
        worst = max(high, -low, 0.0)
        return -worst, worst

    def missing_rows(self) -> Indices:
        """The rows of K that reconstruct the gradient of inactive samples and are not cached."""
        changed = np.flatnonzero(self.alpha != self.alpha_then)
        return changed[self.K.missing(changed) > 0]

    def unshrink(self) -> None:
        """Reconstruct the gradient of the inactive samples and make all samples active."""
        self.e, self.active, self.due, self.position = self.reconstructed_gradient(), self.everyone, False, 0
        self.gap_then = self.gap()

    def reconstructed_gradient(self) -> Vector:
        """e for all samples; e of inactive samples is updated by the changes of alpha since they became inactive."""
        if self.whole:
            return self.e.copy()
        out = np.delete(self.everyone, self.active)
        change = (self.alpha - self.alpha_then) * self.y
        missing, f = self.missing_rows(), np.full(self.y.size, self.rho * float(change.sum()))
        there = np.flatnonzero(change)
        there = there[self.K.missing(there) == 0]
        self.K.peek(there).add_to(f, change[there])
        f = f[out]
        for start in range(0, missing.size, BLOCK_ROWS):
            some = missing[start : start + BLOCK_ROWS]
            RowView.of(self.K.block(some, out)).add_to(f, change[some])
        e = self.e.copy()
        e[out] -= f
        return e

    # The bias, the gap and the solution

    def bias(self) -> float:
        """The middle of the interval of a free bias; a penalised one follows from alpha."""
        if not self.problem.free_bias:
            return self.rho * float(self.alpha @ self.y)
        ends = [end for end in self.ends() if math.isfinite(end)]
        return sum(ends) / max(1, len(ends))

    def gap(self) -> float:
        """The gap of the active samples, which is the gap of all samples if inactive samples stay at their bounds."""
        centre = self.bias() if self.problem.free_bias else 0.0
        alpha, short = self.alpha[self.active], self.y[self.active] * (self.e[self.active] - centre)
        return float(np.where(short > 0, self.upper[self.active] - alpha, -alpha) @ short)

    def solution(self) -> Solution:
        beta, fixed = self.alpha * self.y, 0.0 if self.problem.free_bias else self.bias()
        w = Expansion(beta, self.y - self.reconstructed_gradient() - fixed)
        return Solution(w, self.bias(), self.alpha.copy(), w)


@dataclass(frozen=True)
class Smo(Solver[RegularizedSVM, Ascent]):
    r"""Sequential minimal optimisation: steps on pairs of dual variables, as in LIBSVM, with shrinking.

    Pairs are chosen by second-order information. An iteration is a step on a pair, which costs the rows of K of two
    samples (without a free bias, of one sample) unless they are cached. Some iterations instead reconstruct the
    gradient of the inactive samples.

    Parameters
    ----------
    shrink : bool, default=True
        Whether samples that seem to stay at a bound become inactive, so that their gradient is not updated. All samples
        become active again whenever the gap of the active ones has halved.

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

    def deterministic(self, problem: RegularizedSVM) -> bool:
        return True

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> Ascent:
        if not isinstance(problem.loss, Hinge):
            raise ValueError(f"smo has the hinge loss; got {problem.loss.name!r}, which sdca takes too")
        if isinstance(warm, Ascent):
            factor = change_of_C(warm.problem, problem)
            if factor:
                warm.rescale(problem, factor)
                return warm
        return Ascent(problem, self.shrink)

    def step(self, problem: RegularizedSVM, state: Ascent, iterations: int, budget: float) -> Step:
        made = state.run(iterations, budget)
        return Step(made, Reason.SETTLED) if state.settled else Step.of(made, iterations)

    def solution(self, problem: RegularizedSVM, state: Ascent) -> Solution:
        return state.solution()

    def iterations_per_pass(self, problem: RegularizedSVM) -> int:
        """Half the number of samples, as a step changes two variables (without a free bias, one)."""
        samples = super().iterations_per_pass(problem)
        return math.ceil(samples / 2) if problem.free_bias else samples

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return max(10_000, 100 * problem.y.size)

    def estimated_gap(self, problem: RegularizedSVM, state: Ascent) -> float:
        gap = state.gap()
        return gap / (abs(state.dual) + gap) if gap > 0 else 0.0
