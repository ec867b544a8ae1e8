"""What CoCoA+ keeps of the samples of a unit, and does with them. Symbols as in `cocoa.py`."""

from __future__ import annotations

import math

import numpy as np

from maxmargin.core.types import Indices, Vector
from maxmargin.engine.parts import PartRows, Sums
from maxmargin.engine.sparse_vector import SparseVector
from maxmargin.svm.linear._cocoa import visit
from maxmargin.svm.losses import Loss


class CocoaPart:
    """The samples of a unit, their dual variables, and copies of w.

    A round proposes dual variables. Which share of the change is made is decided by the driver, after it has seen the
    proposals of all units; the unit is told at the beginning of the next round.

    Parameters
    ----------
    rows : PartRows
    y, s, sq_norms : arrays
        Labels -1 and +1, weights and squared norms of the rows.
    C, loss :
        Those of the problem.
    rho : float
        The curvature of the dual in the imbalance; 0 without a bias.
    seed : int
        Decides, with the numbers of the unit and of the round, in which order samples are visited.
    mean_w : array
        The mean of w to begin with; w itself is 0 until the first round.
    start : array or None
        Dual variables to begin at; None: zeros.
    """

    def __init__(
        self,
        rows: PartRows,
        y: Vector,
        s: Vector,
        sq_norms: Vector,
        C: float,
        loss: Loss,
        rho: float,
        seed: int,
        mean_w: Vector,
        start: Vector | None,
    ) -> None:
        self.rows, self.y, self.sq_norms = rows, y.copy(), sq_norms.copy()
        self.rho, self.seed = rho, seed
        self.upper, self.q = loss.dual_box(C * s)
        # The gradient of a zero row without a bias is constant: its best alpha is known, and it is not visited.
        fixed = sq_norms + rho == 0
        best = np.minimum(self.upper, 1 / np.maximum(self.q, 1e-300))
        first = np.zeros(y.size) if start is None else start
        self.alpha: Vector = np.clip(np.where(fixed, best, first), 0.0, self.upper)
        self.proposal = self.alpha  # the dual variables that the last round proposed
        self.w = np.zeros(rows.X.shape[1])
        self.mean_w = mean_w.copy()
        self.usable: Indices = np.flatnonzero((s > 0) & ~fixed)
        self.active = self.usable
        self.clearly_out = math.inf  # gradients beyond which samples at a bound become inactive

    def count(self) -> Sums:
        """One unit, and the number of entries that are stored of its samples."""
        return 1, self._stored(self.usable)

    def sums(self) -> Sums:
        """v, and the sums of alpha_i - q_i alpha_i^2 / 2 and alpha_i y_i, before the first round."""
        alpha = self.alpha
        support = np.flatnonzero(alpha)
        v = self.rows.dot_transposed((alpha * self.y)[support], support)
        return SparseVector.of(v), float(alpha.sum() - 0.5 * (self.q @ alpha**2)), float(alpha @ self.y)

    def round(
        self,
        number: int,
        t: float,
        change: SparseVector,
        b: float,
        mean_share: float,
        mean_b: float,
        sigma: float,
        passes: int,
        all_active: bool,
    ) -> Sums:
        """Make the share t of the last change, and propose the next one.

        Parameters
        ----------
        number : int
            The number of the round.
        t : float
        change : SparseVector
            What w has changed by since the last call.
        b : float
            The bias.
        mean_share : float
            The share of the distance to w by which the mean of w moves.
        mean_b : float
            The mean of b.
        sigma : float
            How many times as far the unit's own changes move its w and its bias.
        passes : int
            Passes over the active samples.
        all_active : bool
            Whether all samples become active again.

        Returns
        -------
        delta : SparseVector
            sum d_i y_i x_i, with d the proposed change.
        imbalance : float
            sum d_i y_i.
        slope, bend : float
            sum d_i (1 - q_i alpha_i), and sum q_i d_i^2.
        square : float
            |delta|^2 + rho imbalance^2, of which the driver has the sum over units.
        gap : float
            The terms of the active samples in the gap of the means of w and b.
        stored : int
            The entries that are stored of the samples which are active now.
        """
        self.alpha = self.dual_variables(t)
        change.add_to(self.w)
        self.mean_w += mean_share * (self.w - self.mean_w)
        active = self.usable if all_active else self.active
        alpha, w, own_b = self.alpha.copy(), self.w.copy(), b
        rng = np.random.default_rng([self.seed, self.rows.number, number])
        gap = 0.0
        for k in range(passes):
            order = self.rows.rows(rng.permutation(active))
            count, own_b, gap_terms, violation = visit(
                self.rows.X,
                self.rows.own.start,
                order,
                self.y,
                self.upper,
                self.q,
                self.sq_norms,
                alpha,
                w,
                own_b,
                self.rho,
                sigma,
                self.clearly_out,
                self.mean_w if k == 0 else None,
                mean_b,
            )
            active = order[:count] - self.rows.own.start
            self.clearly_out = violation / max(1, count) or math.inf
            gap += gap_terms
        self.active, self.proposal = np.sort(active), alpha
        w -= self.w
        w /= sigma
        delta, d = SparseVector.of(w), alpha - self.alpha
        imbalance = float(d @ self.y)
        return (
            delta,
            imbalance,
            float(d @ (1 - self.q * self.alpha)),
            float(self.q @ d**2),
            delta.square() + self.rho * imbalance**2,
            gap,
            self._stored(self.active),
        )

    def dual_variables(self, t: float) -> Vector:
        """alpha, of which the share t of the last change is made."""
        if t == 1:
            return self.proposal
        return np.clip(self.alpha + t * (self.proposal - self.alpha), 0.0, self.upper)

    def _stored(self, places: Indices) -> int:
        return int(self.rows.row_sizes(places).sum())
