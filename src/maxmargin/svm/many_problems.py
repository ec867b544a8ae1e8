"""What the compiled solvers of many binary problems share: a table of results, and groups of problems for threads.

Where samples are few, a binary problem is solved in microseconds, so that nothing may be made for each problem in
Python: problems are entries of a few arrays, and so are their results.
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

RESULT_COLUMNS = 13  # of the table that compiled code writes; the properties of `SolvedProblems` say what they hold
# Why a problem ended: at its tolerance, by its limit of iterations, where float64 allows no smaller gap, or as the fit
# was stopped. The same numbers as in `many_problems.pxd`.
TOL, MAX_ITER, EXHAUSTED, UNFINISHED = range(4)
# So that threads end at about the same time, though problems take different numbers of iterations.
GROUPS_PER_THREAD = 4


class ProblemRun(Protocol):
    """The problems of one group, solved one after another by compiled code that returns now and then."""

    @property
    def position(self) -> int:
        """How many problems are solved."""

    @property
    def done(self) -> bool:
        """Whether all are."""

    def advance(self, work: int, /) -> None:
        """Go on for a limited amount of work."""

    def finish(self, iterations: int, /) -> None:
        """End all problems that are left, after a few iterations of each: the fit has to stop."""


@dataclass(frozen=True)
class Targets:
    """What is asked of each binary problem, in arrays of shape (n_problems,).

    Attributes
    ----------
    C : array
        The weight of its losses.
    tol : array
        The relative duality gap of the form with C to be reached.
    slack : array
        The mean slack, in the units of the data, of the slack form: value and bound of the results are then those of
        that form. NaN: they are those of the form with C.
    last_C : array
        The C of the solution in the results, at which the solver begins; 0: it begins from scratch.
    """

    C: Vector
    tol: Vector
    slack: Vector
    last_C: Vector

    @classmethod
    def of_all(cls, n_problems: int, C: float, tol: float) -> Self:
        """The form with C, with the same C for all problems, from scratch."""
        return cls(*(np.full(n_problems, value) for value in (float(C), tol, math.nan, 0.0)))


@dataclass(frozen=True)
class SolvedProblems:
    """The results of binary problems, an array for each quantity.

    Attributes
    ----------
    coefficients : array of shape (n_problems, d) or (rows, n)
        The weights of the features, or of the samples in the layout that their ranges say.
    table : array of shape (n_problems, RESULT_COLUMNS)
        Its columns are the properties.
    alpha : array of shape (n_problems, n) or None
        The points of the dual that prove the bounds of linear problems, where asked for.
    """

    coefficients: Vector
    table: Vector
    alpha: Vector | None = None

    @classmethod
    def empty(cls, n_problems: int, coefficients: Vector, alpha: Vector | None = None) -> SolvedProblems:
        """Room for the results of so many problems."""
        return cls(coefficients, np.zeros((n_problems, RESULT_COLUMNS)), alpha)

    @property
    def bias(self) -> Vector:
        """The bias of each problem."""
        return self.table[:, 0]

    @property
    def value(self) -> Vector:
        """What was reached: the objective for C, or where a slack was given the margin, in the units of the data."""
        return self.table[:, 1]

    @property
    def bound(self) -> Vector:
        """What no solution can beat."""
        return self.table[:, 2]

    @property
    def value_rounding(self) -> Vector:
        """By how much the exact value may be worse."""
        return self.table[:, 3]

    @property
    def bound_rounding(self) -> Vector:
        """By how much the exact bound may be looser."""
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
        """Iterations of the solver, those of the solution that it began at included."""
        return self.table[:, 7]

    @property
    def least_decision(self) -> Vector:
        """The least decision value of a sample with weight."""
        return self.table[:, 8]

    @property
    def largest_decision(self) -> Vector:
        """The largest decision value of a sample with weight."""
        return self.table[:, 9]

    @property
    def status(self) -> Vector:
        """Why the problem ended: `TOL`, `MAX_ITER`, `EXHAUSTED` or `UNFINISHED`."""
        return self.table[:, 10]

    @property
    def kernel_evaluations(self) -> Vector:
        """Kernels that were computed for the problem, for the solution that it began at included."""
        return self.table[:, 11]

    @property
    def largest_share(self) -> Vector:
        """The largest dual variable as a share of its upper bound."""
        return self.table[:, 12]


Stop = Callable[[Sequence[int], SolvedProblems], bool]
"""Called after each compiled call with the problems that it has solved and the results so far; whether to stop."""


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
    """Solve problems in groups of about the same work, which threads share, the largest problems first.

    Parameters
    ----------
    begin : callable
        The run of some problems, given by their numbers.
    results : SolvedProblems
        Where the runs write to.
    which : array of int
        The problems to be solved.
    work : array of shape (n_problems,)
        How much work each problem is, about.
    least_work : float
        The work that is worth another thread.
    work_per_call : int
        The work of a compiled call.
    iterations_after_stop : int
        Iterations of each problem that is not solved when the fit has to stop.
    threads : int
        How many threads share the groups.
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
