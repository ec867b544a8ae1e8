"""What the compiled solvers of many binary problems share: a table of results, and groups of problems for threads.

If samples are few, a binary problem is solved in microseconds, which leaves no time for Python code per problem. So
problems and their results are entries of a few arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self

import numpy as np

from maxmargin.core.threads import run_parallel
from maxmargin.core.types import Indices, Vector

RESULT_COLUMNS = 13  # columns of the table that compiled code writes; the properties of `SolvedProblems` name them
# Why a problem ended: it reached its tolerance or its limit of iterations, float64 allows no smaller gap, or the fit
# was stopped. The numbers are those of `many_problems.pxd`.
TOL, MAX_ITER, EXHAUSTED, UNFINISHED = range(4)
# Several groups per thread, so that threads end at about the same time although problems take different numbers of
# iterations.
GROUPS_PER_THREAD = 4


class ProblemRun(Protocol):
    """The problems of one group, which compiled code solves one after another, returning now and then."""

    @property
    def position(self) -> int:
        """The number of problems that are solved."""

    @property
    def done(self) -> bool:
        """Whether all problems are solved."""

    def advance(self, work: int, /) -> None:
        """Continue for a limited amount of work."""

    def finish(self, iterations: int, /) -> None:
        """End all remaining problems after a few iterations of each, because the fit has to stop."""


@dataclass(frozen=True)
class Targets:
    """The targets of each binary problem, in arrays of shape (n_problems,).

    Attributes
    ----------
    C : array
        The weight of the losses.
    tol : array
        The relative duality gap to reach in the form with C.
    slack : array
        The mean slack, in the units of the data, of the slack form, which value and bound in the results then belong
        to. NaN: they belong to the form with C.
    last_C : array
        The C of the solution in the results, from which the solver begins; 0: it begins from scratch.
    """

    C: Vector
    tol: Vector
    slack: Vector
    last_C: Vector

    @classmethod
    def of_all(cls, n_problems: int, C: float, tol: float) -> Self:
        """Targets of the form with C, with the same C for all problems, from scratch."""
        return cls(*(np.full(n_problems, value) for value in (float(C), tol, math.nan, 0.0)))


@dataclass(frozen=True)
class SolvedProblems:
    """The results of binary problems, an array for each quantity.

    Attributes
    ----------
    coefficients : array of shape (n_problems, d) or (rows, n)
        The weights of the features, or of the samples in the layout that their ranges describe.
    table : array of shape (n_problems, RESULT_COLUMNS)
        The columns are the properties of this class.
    alpha : array of shape (n_problems, n) or None
        The dual points that prove the bounds of linear problems, if they were asked for.
    """

    coefficients: Vector
    table: Vector
    alpha: Vector | None = None

    @classmethod
    def empty(cls, n_problems: int, coefficients: Vector, alpha: Vector | None = None) -> SolvedProblems:
        """Room for the results of `n_problems` problems."""
        return cls(coefficients, np.zeros((n_problems, RESULT_COLUMNS)), alpha)

    @property
    def bias(self) -> Vector:
        """The bias of each problem."""
        return self.table[:, 0]

    @property
    def value(self) -> Vector:
        """The value reached: the objective for C, or the margin in the units of the data if a slack was given."""
        return self.table[:, 1]

    @property
    def bound(self) -> Vector:
        """The bound that no solution can beat."""
        return self.table[:, 2]

    @property
    def value_rounding(self) -> Vector:
        """How much worse the exact value may be."""
        return self.table[:, 3]

    @property
    def bound_rounding(self) -> Vector:
        """How much looser the exact bound may be."""
        return self.table[:, 4]

    @property
    def sq_norm(self) -> Vector:
        """:math:`|w|^2`."""
        return self.table[:, 5]

    @property
    def losses(self) -> Vector:
        """C times the weighted sum of the hinge losses."""
        return self.table[:, 6]

    @property
    def iterations(self) -> Vector:
        """Iterations of the solver, including those of the solution from which it began."""
        return self.table[:, 7]

    @property
    def least_decision(self) -> Vector:
        """The smallest decision value of a sample with positive weight."""
        return self.table[:, 8]

    @property
    def largest_decision(self) -> Vector:
        """The largest decision value of a sample with positive weight."""
        return self.table[:, 9]

    @property
    def status(self) -> Vector:
        """Why the problem ended: `TOL`, `MAX_ITER`, `EXHAUSTED` or `UNFINISHED`."""
        return self.table[:, 10]

    @property
    def kernel_evaluations(self) -> Vector:
        """Kernel evaluations for the problem, including those for the solution from which it began."""
        return self.table[:, 11]

    @property
    def largest_share(self) -> Vector:
        """The largest dual variable as a share of its upper bound."""
        return self.table[:, 12]


Stop = Callable[[Sequence[int], SolvedProblems], bool]
"""Called after each compiled call with the problems that it has solved and all results; returns whether to stop."""


def go_on(solved: Sequence[int], results: SolvedProblems) -> bool:
    """Never stop."""
    return False


def solve_in_groups(
    begin: Callable[[Indices], ProblemRun],
    results: SolvedProblems,
    which: Indices,
    work: Vector,
    *,
    least_work: float,
    work_per_call: int,
    iterations_after_stop: int,
    threads: int,
    stop: Stop,
) -> SolvedProblems:
    """Solve problems in groups of about equal work, the largest problems first; threads share the groups.

    Parameters
    ----------
    begin : callable
        Makes the run of some problems, given by their numbers.
    results : SolvedProblems
        The results, to which the runs write.
    which : array of int
        The problems to solve.
    work : array of shape (n_problems,)
        The estimated work of each problem.
    least_work : float
        The work that justifies another thread.
    work_per_call : int
        The work of one compiled call.
    iterations_after_stop : int
        Further iterations of each unsolved problem when the fit has to stop.
    threads : int
        The number of threads.
    stop : callable

    Returns
    -------
    SolvedProblems
    """

    def solve_group(group: Indices) -> None:
        run = begin(group)
        while not run.done:
            before = run.position
            run.advance(work_per_call)
            if stop(group[before : run.position].tolist(), results):
                run.finish(iterations_after_stop)

    order = which[np.argsort(-work[which], kind="stable")]
    total = float(work[which].sum())
    wanted = 1 if threads == 1 else min(GROUPS_PER_THREAD * threads, 1 + int(total / least_work))
    ends = np.searchsorted(np.cumsum(work[order]), total * np.arange(1, wanted) / wanted, side="left") + 1
    groups = [group for group in np.split(order, np.unique(ends)) if group.size]
    run_parallel([partial(solve_group, which) for which in groups], threads)
    return results
