r"""The search for the C that goes with a slack, for one problem or for many at once.

Given: for each problem the slack asked for, and after each solve of the form with C the point of the regularisation
path that it has found. Returned: the next C of each.

By Lemma 2.1 of Hazan, Koren and Srebro (2011), the optimum for C is that of the slack form for :math:`\nu(C)`, its
mean hinge loss over |w|. It does not rise with C, so that the C of a slack is the root of a monotone function. It is
found by secants of :math:`\log\nu` over :math:`\log C` in a bracket; of :math:`\sqrt\nu` where one of two slacks is
nearly 0. Solutions are not exact: within a relative gap of the objective, a point may be anywhere along the path up to
about the root of the gap. Slacks that differ by less tell neither a slope nor a side of the bracket.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices, Vector
from maxmargin.svm.slack import LARGEST_SLACK

MOST_SOLVES = 60  # solves of the form with C, after which a problem ends though its gap is above `tol`
LARGEST_RISE, LARGEST_FALL = math.log(30.0), math.log(10.0)  # changes of log C from one solve to the next, at most
LOOSEST = 10.0  # the gap of the first solve, in units of `tol`: its solution is not the one asked for anyway
# Uncertainty of log slack, in units of the root of the gap: between 0.1 and 0.5 on the sets of the benchmark, as far as
# a second solve at the same C told.
NOISE = 0.5
# The distance of log slack from that of the slack asked for that is expected after a step, in units of the one before.
# A solve is so accurate that its slack is off by no more than that.
CLOSER = 0.15
FINER = 0.25  # the gap of the next solve, in units of the last one, where that was at the right C and not good enough
AT_SLACK = 2.0  # distance of log slack in units of `tol`, up to which C is right
SLOPE = -1.0  # of log slack over log C, assumed before two solutions tell it; it is exact where C is small
# Change of log C, in units of the uncertainty of log slack, from which on a slope is told by two solves.
FAR_APART = 2.0
# Factor of a step to a larger C by a secant through two points of smaller C, and the distance of log slack from which
# on it is taken: the step would fall short, as log slack levels off.
BEYOND, STILL_FAR = 1.5, 0.3
STEEP = 0.05  # ratio of two slacks, below which their roots are interpolated and not their logarithms
# Changes of log C and of log slack: then there is no less slack to be had.
FAR_LARGER, HARDLY_LESS = math.log(3.0), 0.1
LEAST_MARGIN = 1e-6  # in units of the largest norm: classes that no larger margin separates count as inseparable
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class PathPoints:
    """A point of the regularisation path of each problem, in arrays of shape (n_problems,).

    Attributes
    ----------
    C : array
        The least C with this solution: where no dual variable is at its bound, the largest of them over the weight of
        its sample.
    slack, margin : array
        In units of the largest norm.
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
        Where the search begins.
    tol : float
        The relative gap of the slack form to be reached.

    Attributes
    ----------
    slack : array of shape (n_problems,)
        The slack that is to be proved: the one asked for, or the least there is.
    C, accuracy : arrays of shape (n_problems,)
        The next C, and the relative gap to solve the form with C to.
    too_little : array of bool
        Whether no C has as little slack as was asked for: then C stays, and its own slack is to be proved.
    nowhere : array of bool
        Whether w is about 0 at any C, so that there is no direction to be found.
    """

    def __init__(self, slack: Vector, C: Vector, tol: float) -> None:
        self.slack, self.C, self.tol = slack.copy(), C.copy(), tol
        self.accuracy: Vector = np.full(C.size, LOOSEST * tol)
        self.repeated: NDArray[np.bool_] = np.zeros(C.size, dtype=bool)  # whether that of the last solve was kept
        self.too_little: NDArray[np.bool_] = np.zeros(C.size, dtype=bool)
        self.nowhere: NDArray[np.bool_] = np.zeros(C.size, dtype=bool)
        self.low: Vector = np.zeros(C.size)  # the bracket of the right C
        self.high: Vector = np.full(C.size, math.inf)
        self.low_accuracy: Vector = np.zeros(C.size)  # of the solves that gave its ends
        self.high_accuracy: Vector = np.zeros(C.size)
        self.last = PathPoints.unknown(C.size)  # those of the solve before
        self.slope: Vector = np.full(C.size, SLOPE)  # of log slack over log C
        self.no_slack: NDArray[np.bool_] = slack == 0
        self.level_C: Vector = np.full(C.size, math.nan)  # from which on there was hardly less slack

    def settle(self, which: Indices, found: PathPoints, bound: Vector, *, stopped: bool = False) -> NDArray[np.bool_]:
        """Find out which of these problems have too little slack, as far as can be told; returns which.

        The slack to be proved becomes that of their solutions, which changes as solves become more accurate.

        A solution, shortened to the share of its slack that was asked for, has that share of its margin: if nothing is
        better than that, up to `tol` of the margin, the best w is inside of the unit ball. Without any slack it is 0,
        which is no model: the search goes on until no margin worth the name is possible.

        Parameters
        ----------
        which : array of int
            The problems that were solved.
        found : PathPoints
            Their solutions.
        bound : array
            What no margin at the slack asked for exceeds.
        stopped : bool
            Whether there will be no other solve.
        """
        wanted = self.slack[which]
        shortened = found.margin * wanted / np.maximum(found.slack, TINY)
        proved = np.where(wanted == 0, bound < LEAST_MARGIN, bound - shortened <= self.tol * found.margin)
        # Where the slack is larger than any that matters, w is about 0: as C is so small, or as no w is better.
        inside, in_vain = wanted < (1 - self.tol) * found.slack, self._in_vain(which, found)
        some = found.slack <= LARGEST_SLACK
        self.nowhere[which[~some & in_vain & (self.accuracy[which] <= self.tol / 2)]] = True
        self.too_little[which[inside & some & (proved & in_vain | stopped)]] = True
        settled = self.too_little[which]
        self.slack[which[settled]] = found.slack[settled]
        # What proves that nothing separates the classes is a C so large that rounding may hide how good a model is.
        back = which[settled & self.no_slack[which] & (self.level_C[which] < self.C[which])]
        self.C[back] = self.level_C[back]
        return np.asarray(settled)

    def move(self, which: Indices, found: PathPoints) -> None:
        """Choose the next C of these problems, after solutions at these points of their paths."""
        off = np.log(np.maximum(self.slack[which], TINY) / np.maximum(found.slack, TINY))
        in_vain = (off < 0) & self._in_vain(which, found)
        # A solution that does not tell whether there is less slack at a larger C is to become more accurate first.
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
        # In a narrow bracket, loose solutions may have been on the wrong side.
        self._choose_accuracy(which, np.minimum(np.abs(off), np.abs(np.log(self.C[which] / found.C))))

    def _narrow_bracket(self, which: Indices, found: PathPoints, off: Vector, noise: Vector) -> None:
        """Move an end of the bracket to these points; widen it where a less accurate solve has closed it too far.

        So it seems where only a slope steeper than -1 would lead from here to an end.
        """
        accuracy = self.accuracy[which]
        with np.errstate(divide="ignore"):
            too_low = (self.high_accuracy[which] > accuracy) & (np.log(self.high[which] / found.C) < -off)
            too_high = (self.low_accuracy[which] > accuracy) & (np.log(found.C / self.low[which]) < off)
        self.high[which[too_low]], self.low[which[too_high]] = math.inf, 0.0
        # The C of a point that no dual variable bounds is as uncertain as its slack.
        smaller, larger = off < -noise, off > noise
        self.low[which[smaller]] = (found.C * np.exp(-noise))[smaller]
        self.high[which[larger]] = (found.C * np.exp(noise))[larger]
        self.low_accuracy[which[smaller]] = accuracy[smaller]
        self.high_accuracy[which[larger]] = accuracy[larger]

    def _choose_accuracy(self, which: Indices, distance: Vector) -> None:
        """Choose the gap of the next solve, from the distance of the last one, in log slack or log C."""
        accuracy, finest = self.accuracy[which], self.tol / 2
        enough, at_finest = (CLOSER * distance / NOISE) ** 2, accuracy <= finest
        nearer = np.clip(enough, finest, accuracy)
        # Once solves are as accurate as the result, a better C may do; if it did not, though near, accuracy is short.
        again = (enough > accuracy) | (distance > AT_SLACK * self.tol) & ~self.repeated[which]
        self.repeated[which] = at_finest & again
        self.accuracy[which] = np.where(at_finest, np.where(again, accuracy, FINER * accuracy), nearer)

    def _step(self, which: Indices, found: PathPoints, off: Vector, noise: Vector) -> Vector:
        """The change of log C that brings log slack nearer by `off`."""
        wanted, last = self.slack[which], self.last[which]
        with np.errstate(divide="ignore", invalid="ignore"):
            run, ratio = np.log(found.C / last.C), np.maximum(found.slack, TINY) / np.maximum(last.slack, TINY)
            rise = np.log(ratio)
            # In units of the distance of log slack, what the roots of the slacks have changed by.
            root, last_root, aim = np.sqrt(found.slack), np.sqrt(last.slack), np.sqrt(wanted)
            steep = np.minimum(ratio, 1 / ratio) < STEEP
            rise = np.where(steep, off * (root - last_root) / (aim - root), rise)
            # Where C has changed by more than slack is uncertain, a slack that has not changed levels off.
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
