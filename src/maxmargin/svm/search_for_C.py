r"""The search for the C that belongs to a slack, for one problem or for many at once.

Given: for each problem the slack asked for and, after each solve of the form with C, the point of the regularisation
path that the solve has found. Returned: the next C of each problem.

By Lemma 2.1 of Hazan, Koren and Srebro (2011), the optimum for C is that of the slack form for :math:`\nu(C)`, its
mean hinge loss over |w|. This slack never rises with C, so that the C of a slack is the root of a monotone function. It
is found by secants of :math:`\log\nu` over :math:`\log C` in a bracket (of :math:`\sqrt\nu` if one of two slacks is
nearly 0). Solutions are not exact: a solution with a small relative gap may be off along the path by about the square
root of that gap. Slacks that differ by less determine neither a slope nor a side of the bracket.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices, Vector
from maxmargin.svm.slack import LARGEST_SLACK

MOST_SOLVES = 60  # solves of the form with C after which a problem ends even if its gap is above `tol`
LARGEST_RISE, LARGEST_FALL = math.log(30.0), math.log(10.0)  # largest changes of log C from one solve to the next
LOOSEST = 10.0  # gap of the first solve, in units of `tol`; its C is only a guess, so that a loose solution suffices
# Uncertainty of log slack, in units of the square root of the gap. Second solves at the same C showed between 0.1 and
# 0.5 on the data sets of the benchmark.
NOISE = 0.5
# Expected distance of log slack from its target after a step, in units of the distance before the step. The next solve
# is so accurate that its log slack is off by no more than this.
CLOSER = 0.15
FINER = 0.25  # factor by which the gap of solves falls if the last solve was at the right C but not good enough
AT_SLACK = 2.0  # distance of log slack from its target, in units of `tol`, up to which C counts as right
SLOPE = -1.0  # slope of log slack over log C that is assumed until two solutions show it; exact if C is small
# Smallest change of log C, in units of the uncertainty of log slack, from which two solves determine a slope.
FAR_APART = 2.0
# A secant through two points of smaller C falls short of a larger C, because log slack levels off. So the step is
# multiplied by BEYOND if log slack is farther from its target than STILL_FAR.
BEYOND, STILL_FAR = 1.5, 0.3
STEEP = 0.05  # ratio of two slacks below which their square roots are interpolated instead of their logarithms
# If log C rises by at least FAR_LARGER and log slack falls by less than HARDLY_LESS, no smaller slack is possible.
FAR_LARGER, HARDLY_LESS = math.log(3.0), 0.1
LEAST_MARGIN = 1e-6  # margin, in units of the largest norm, below which classes count as inseparable
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class PathPoints:
    """A point of the regularisation path of each problem, in arrays of shape (n_problems,).

    Attributes
    ----------
    C : array
        The smallest C with this solution. If no dual variable is at its bound, it is the largest ratio of a dual
        variable to the weight of its sample.
    slack, margin : array
        The slack and the margin, in units of the largest norm.
    """

    C: Vector
    slack: Vector
    margin: Vector

    @classmethod
    def of_solutions(
        cls, C: Vector, largest_share: Vector, sq_norm: Vector, losses: Vector, total_weights: Vector, scale: float
    ) -> Self:
        """The points of solutions of the form with C, in the units of the data.

        `largest_share` is the largest dual variable as a share of its bound, and `losses` is C times the weighted sum
        of the hinge losses.
        """
        margin = 1 / (np.sqrt(np.maximum(sq_norm, TINY)) * scale)
        return cls(np.maximum(C * largest_share, TINY), losses / (C * total_weights) * margin, margin)

    @classmethod
    def unknown(cls, n_problems: int) -> Self:
        """No points yet."""
        return cls(*(np.full(n_problems, math.nan) for _ in fields(cls)))

    def __getitem__(self, which: Indices | NDArray[np.bool_]) -> Self:
        return type(self)(*(getattr(self, field.name)[which] for field in fields(self)))

    def __setitem__(self, which: Indices | NDArray[np.bool_], points: Self) -> None:
        for field in fields(self):
            getattr(self, field.name)[which] = getattr(points, field.name)


class SearchForC:
    """Finds the C at which the solution of each problem has the slack asked for.

    After each solve at :attr:`C` to the gap :attr:`accuracy`, call :meth:`settle` to see whether there is too little
    slack, then :meth:`move` for the problems that are not solved.

    Parameters
    ----------
    slack : array of shape (n_problems,)
        The slack asked for, in units of the largest norm.
    C : array of shape (n_problems,)
        The C at which the search begins.
    tol : float
        The relative gap of the slack form to be reached.

    Attributes
    ----------
    slack : array of shape (n_problems,)
        The slack for which the margin is to be certified: the one asked for, or the smallest possible one.
    C, accuracy : arrays of shape (n_problems,)
        The next C, and the relative gap to solve the form with C to.
    too_little : array of bool
        Whether no C has a slack as small as the one asked for. Then C stays, and the slack of its solution takes the
        place of the one asked for.
    nowhere : array of bool
        Whether w is about 0 at every C, so that there is no direction to find.
    """

    def __init__(self, slack: Vector, C: Vector, tol: float) -> None:
        self.slack, self.C, self.tol = slack.copy(), C.copy(), tol
        self.accuracy: Vector = np.full(C.size, LOOSEST * tol)
        self.repeated: NDArray[np.bool_] = np.zeros(C.size, dtype=bool)  # if the accuracy was kept
        self.too_little: NDArray[np.bool_] = np.zeros(C.size, dtype=bool)
        self.nowhere: NDArray[np.bool_] = np.zeros(C.size, dtype=bool)
        self.low: Vector = np.zeros(C.size)  # the bracket of the right C
        self.high: Vector = np.full(C.size, math.inf)
        self.low_accuracy: Vector = np.zeros(C.size)  # accuracy of the solves that gave its ends
        self.high_accuracy: Vector = np.zeros(C.size)
        self.last = PathPoints.unknown(C.size)  # the points of the previous solves
        self.slope: Vector = np.full(C.size, SLOPE)  # of log slack over log C
        self.no_slack: NDArray[np.bool_] = slack == 0
        self.level_C: Vector = np.full(C.size, math.nan)  # the C beyond which slack hardly fell

    def settle(self, which: Indices, found: PathPoints, bound: Vector, *, stopped: bool = False) -> NDArray[np.bool_]:
        """Find the problems for which the slack asked for is too small, as far as this can be decided; return which.

        The slack of their solutions takes the place of the one asked for. It changes as solves become more accurate.

        A solution that is shortened to a share of its slack keeps the same share of its margin. If nothing is better
        than the solution shortened to the slack asked for, up to `tol` of the margin, the best w is inside of the unit
        ball. For slack 0, the best w is then 0, which is no model, so the search continues until the bound on the
        margin is below `LEAST_MARGIN`.

        Parameters
        ----------
        which : array of int
            The problems that were solved.
        found : PathPoints
            Their solutions.
        bound : array
            An upper bound of the margin at the slack asked for.
        stopped : bool
            Whether this was the last solve.
        """
        wanted = self.slack[which]
        shortened = found.margin * wanted / np.maximum(found.slack, TINY)
        proved = np.where(wanted == 0, bound < LEAST_MARGIN, bound - shortened <= self.tol * found.margin)
        # If the slack is larger than any that matters, w is about 0, because C is too small or no w is better.
        inside, in_vain = wanted < (1 - self.tol) * found.slack, self._in_vain(which, found)
        some = found.slack <= LARGEST_SLACK
        self.nowhere[which[~some & in_vain & (self.accuracy[which] <= self.tol / 2)]] = True
        self.too_little[which[inside & some & (proved & in_vain | stopped)]] = True
        settled = self.too_little[which]
        self.slack[which[settled]] = found.slack[settled]
        # Proving that the classes are inseparable takes a C so large that rounding may hide how good a model is.
        back = which[settled & self.no_slack[which] & (self.level_C[which] < self.C[which])]
        self.C[back] = self.level_C[back]
        return np.asarray(settled)

    def move(self, which: Indices, found: PathPoints) -> None:
        """Choose the next C of these problems from the points of their paths that the solutions have reached."""
        off = np.log(np.maximum(self.slack[which], TINY) / np.maximum(found.slack, TINY))
        in_vain = (off < 0) & self._in_vain(which, found)
        # If a solution does not show whether a larger C has less slack, the next solve is only more accurate.
        stays = self.too_little[which] | self.nowhere[which] | in_vain & (self.accuracy[which] > self.tol / 2)
        self._choose_accuracy(which[stays], np.zeros(int(stays.sum())))
        level = in_vain & ~stays & np.isnan(self.level_C[which])
        self.level_C[which[level]] = found.C[level]
        which, found, off = which[~stays], found[~stays], off[~stays]
        noise = NOISE * np.sqrt(self.accuracy[which])
        step = self._step(which, found, off, noise)
        self._narrow_bracket(which, found, off, noise)
        low, high = self.low[which], self.high[which]
        guess = found.C * np.exp(np.clip(step, -LARGEST_FALL, LARGEST_RISE))
        bracketed = (low > 0) & (high < math.inf)
        with np.errstate(invalid="ignore"):
            far = found.C * np.exp(np.where(off < 0, LARGEST_RISE, -LARGEST_FALL))
            middle = np.where(bracketed, np.sqrt(low * high), far)
        self.C[which] = np.where((low < guess) & (guess < high), guess, middle)
        self.last[which] = found
        # If the bracket is narrow, loose solutions may have been on the wrong side.
        self._choose_accuracy(which, np.minimum(np.abs(off), np.abs(np.log(self.C[which] / found.C))))

    def _narrow_bracket(self, which: Indices, found: PathPoints, off: Vector, noise: Vector) -> None:
        """Move an end of the bracket to these points; widen it if a less accurate solve has closed it too far.

        This is assumed if only a slope steeper than -1 would lead to the target before the end of the bracket.
        """
        accuracy = self.accuracy[which]
        with np.errstate(divide="ignore"):
            too_low = (self.high_accuracy[which] > accuracy) & (np.log(self.high[which] / found.C) < -off)
            too_high = (self.low_accuracy[which] > accuracy) & (np.log(found.C / self.low[which]) < off)
        self.high[which[too_low]], self.low[which[too_high]] = math.inf, 0.0
        # If no dual variable is at its bound, the C of a point is as uncertain as its slack.
        smaller, larger = off < -noise, off > noise
        self.low[which[smaller]] = (found.C * np.exp(-noise))[smaller]
        self.high[which[larger]] = (found.C * np.exp(noise))[larger]
        self.low_accuracy[which[smaller]] = accuracy[smaller]
        self.high_accuracy[which[larger]] = accuracy[larger]

    def _choose_accuracy(self, which: Indices, distance: Vector) -> None:
        """Choose the gap of the next solve from the distance of the last one to its target, in log slack or log C."""
        accuracy, finest = self.accuracy[which], self.tol / 2
        enough, at_finest = (CLOSER * distance / NOISE) ** 2, accuracy <= finest
        nearer = np.clip(enough, finest, accuracy)
        # At the accuracy of the result, try a better C first. If C was near and the gap still too large, solve finer.
        again = (enough > accuracy) | (distance > AT_SLACK * self.tol) & ~self.repeated[which]
        self.repeated[which] = at_finest & again
        self.accuracy[which] = np.where(at_finest, np.where(again, accuracy, FINER * accuracy), nearer)

    def _step(self, which: Indices, found: PathPoints, off: Vector, noise: Vector) -> Vector:
        """The change of log C that should change log slack by `off`."""
        wanted, last = self.slack[which], self.last[which]
        with np.errstate(divide="ignore", invalid="ignore"):
            run, ratio = np.log(found.C / last.C), np.maximum(found.slack, TINY) / np.maximum(last.slack, TINY)
            rise = np.log(ratio)
            # The change of the square roots of the slacks, converted to units of log slack.
            root, last_root, aim = np.sqrt(found.slack), np.sqrt(last.slack), np.sqrt(wanted)
            steep = np.minimum(ratio, 1 / ratio) < STEEP
            rise = np.where(steep, off * (root - last_root) / (aim - root), rise)
            # A change of slack within its uncertainty counts as a fall by the uncertainty: the slack levels off.
            rise = np.where(np.abs(rise) > noise, rise, -np.copysign(noise, run))
            told = (np.abs(run) > FAR_APART * noise) & (rise * run < 0)
            self.slope[which[told]] = (rise / run)[told]
        falls_short = (off < -STILL_FAR) & (last.slack > wanted) & np.isinf(self.high[which])
        return np.asarray(off / self.slope[which] * np.where(falls_short, BEYOND, 1.0))

    def _in_vain(self, which: Indices, found: PathPoints) -> NDArray[np.bool_]:
        """Whether a far larger C than that of the solve before has hardly less slack."""
        last = self.last[which]
        with np.errstate(divide="ignore", invalid="ignore"):
            larger = np.log(found.C / last.C) >= FAR_LARGER
            less = np.log(np.maximum(found.slack, TINY)) <= np.log(np.maximum(last.slack, TINY)) - HARDLY_LESS
        return larger & ~less
