r"""Many binary problems on samples that they share, each by SMO, in few compiled calls.

Problem: the regularised form with C and the hinge, for each of several binary problems, each with a C of its own, with
a free bias or none. Given: samples sorted by class, and a source of their kernel rows. Returned: for each problem its
coefficients :math:`\beta_i = \alpha_i y_i`, its bias, and the numbers from which a certificate is made.

This code is for small problems, which are ranges of samples in a few arrays. The steps are those of
:class:`maxmargin.solvers.Smo`, without shrinking and without a cache, because the rows of one problem fit into memory.
Now and then, all variables between their bounds make a step of Newton's method together; without it, a large C takes
many steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxmargin.core.types import Indices, Vector
from maxmargin.kernels._row_sources import SAMPLES_PER_BLOCK, RowSource
from maxmargin.svm.kernel._many_problems import SmoRun
from maxmargin.svm.many_problems import SolvedProblems, Stop, Targets, go_on, solve_in_groups

# Residuals that one compiled call updates. It takes about 50 ms, which is how long Ctrl-C may have to wait.
ENTRIES_PER_CALL = 100_000_000
# Sum over problems of the squared number of samples that justifies another thread: the thread takes as long to start.
LEAST_GROUP = 1_000_000
PROBLEM_COST = 300.0  # fixed cost of a problem; unit: one pair of its samples
# A problem that does not reach its tolerance ends after this many passes, but not before this many steps, as in LIBSVM.
DEFAULT_PASSES, LEAST_STEPS = 200, 10_000_000
MOST_PASSES = 2**31  # limits of passes above this are no limits
PASSES_AFTER_STOP = 1  # further passes of each unsolved problem when the fit has to stop


@dataclass(frozen=True)
class ClassOrder:
    """Samples sorted by class. Each class is filled up to a multiple of `SAMPLES_PER_BLOCK` by fillers of weight 0.

    Attributes
    ----------
    samples : array of shape (n_filled,)
        The sample at each place; fillers repeat the first sample.
    places : array of shape (n,)
        The place of each sample, those of the first class first.
    first, size : arrays of shape (n_classes,)
        The place where each class begins, and its number of samples.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.svm.kernel.many_problems import ClassOrder
    >>> order = ClassOrder.of(np.array([1, 0, 0, 1, 1]), 2)
    >>> order.samples.tolist(), order.places.tolist()
    ([1, 2, 0, 0, 0, 3, 4, 0], [0, 1, 4, 5, 6])
    """

    samples: Indices
    places: Indices
    first: Indices
    size: Indices

    @classmethod
    def of(cls, label: Indices, n_classes: int) -> ClassOrder:
        """The order of samples with these classes."""
        size = np.bincount(label, minlength=n_classes)
        filled = -(-size // SAMPLES_PER_BLOCK) * SAMPLES_PER_BLOCK
        first = np.cumsum(filled) - filled
        places = np.arange(label.size) + np.repeat(first - (np.cumsum(size) - size), size)
        samples = np.zeros(int(filled.sum()), dtype=np.int64)
        samples[places] = np.argsort(label, kind="stable")
        return cls(samples, places, first, size)

    def spread(self, values: Vector, fill: float = 0.0) -> Vector:
        """Values of the samples in the order of the places, with `fill` for fillers."""
        spread = np.full(self.samples.size, fill)
        spread[self.places] = values[self.samples[self.places]]
        return spread


@dataclass(frozen=True)
class BinaryRanges:
    """The samples of binary problems: problem p has the ranges starts[p] to starts[p + 1] - 1, each of one class.

    Attributes
    ----------
    starts : array of shape (n_problems + 1,)
    first, size : arrays of shape (n_ranges,)
        Where each range begins in the order of samples, and its number of samples without fillers.
    label : array of shape (n_ranges,)
        The label of its samples, -1 or +1.
    weight : array of shape (n_ranges,)
        The factor of the weights of its samples.
    row : array of shape (n_ranges,)
        The row of the coefficients to which its samples are written.
    """

    starts: Indices
    first: Indices
    size: Indices
    label: Vector
    weight: Vector
    row: Indices

    @cached_property
    def samples(self) -> Indices:
        """The number of samples of each problem."""
        return np.asarray(np.add.reduceat(self.size, self.starts[:-1]))

    def multiply(self, coefficients: Vector, factors: Vector) -> None:
        """Multiply the coefficients of each problem by a number."""
        starts = np.cumsum(self.size) - self.size
        places = np.arange(int(self.size.sum())) + np.repeat(self.first - starts, self.size)
        of_ranges = np.repeat(factors, np.diff(self.starts))
        coefficients[np.repeat(self.row, self.size), places] *= np.repeat(of_ranges, self.size)

    def total_weights(self, s: Vector) -> Vector:
        """The sum of the weights of the samples of each problem, from those of all samples."""
        before = np.concatenate([[0.0], np.cumsum(s)])
        of_ranges = self.weight * (before[self.first + self.size] - before[self.first])
        return np.asarray(np.add.reduceat(of_ranges, self.starts[:-1]))


@dataclass(frozen=True)
class SampleTerms:
    """The numbers of each sample that the dual and the bounds on its rounding need.

    Attributes
    ----------
    s : array of shape (n,)
        The weight of the sample; 0 for fillers.
    diagonal : array of shape (n,)
        Its kernel with itself.
    g, h : arrays of shape (n,)
        Bounds on the rounding of its kernels, see :meth:`maxmargin.kernels.functions.Kernel.rounding`.
    """

    s: Vector
    diagonal: Vector
    g: Vector
    h: Vector


def solve_many(
    source: RowSource,
    ranges: BinaryRanges,
    samples: SampleTerms,
    targets: Targets,
    results: SolvedProblems,
    *,
    which: Indices | None = None,
    free_bias: bool,
    max_passes: int | None = None,
    threads: int = 1,
    stop: Stop = go_on,
) -> SolvedProblems:
    """Solve binary problems.

    Parameters
    ----------
    source : RowSource
        The kernels of the samples.
    ranges : BinaryRanges
        The samples of each problem.
    samples : SampleTerms
    targets : Targets
        The targets of each problem. The tolerance also applies to the violation of the optimality conditions.
    results : SolvedProblems
        The results are written here. If problems begin at earlier solutions, these are here too.
    which : array of int or None
        The problems to solve; None: all.
    free_bias : bool
        Whether there is a bias, which is then free.
    max_passes : int or None
        Passes over its samples after which a problem ends; a step visits two samples, or one without a bias. None:
        `DEFAULT_PASSES`, but at least `LEAST_STEPS` steps.
    threads : int
        The number of threads that share the problems. The results are the same to the bit for any number.
    stop : callable
        Called after each compiled call; see :data:`maxmargin.svm.many_problems.Stop`. If it returns True, problems that
        are not solved end soon.

    Returns
    -------
    SolvedProblems
        `results`.
    """
    passes, least_steps = (DEFAULT_PASSES, LEAST_STEPS) if max_passes is None else (min(max_passes, MOST_PASSES), 0)

    def begin(group: Indices) -> SmoRun:
        written = results.coefficients, results.table
        return SmoRun(source, ranges, group, samples, targets, free_bias, passes, least_steps, *written)

    return solve_in_groups(
        begin,
        results,
        np.arange(ranges.samples.size) if which is None else which,
        ranges.samples.astype(np.float64) ** 2 + PROBLEM_COST,
        least_work=LEAST_GROUP,
        work_per_call=ENTRIES_PER_CALL,
        iterations_after_stop=PASSES_AFTER_STOP,
        threads=threads,
        stop=stop,
    )
