"""What CoCoA keeps of the samples of a unit, and does with them. Symbols as in `cocoa.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin.core.types import Indices, Vector
from maxmargin.engine.parts import PartRows, Sums
from maxmargin.engine.sparse_vector import SparseVector
from maxmargin.svm.linear._cocoa import visit
from maxmargin.svm.losses import Loss

FALL = 0.1  # when the violation of a pass has fallen to this share of the first one's, no more passes are made


class CocoaPart:
    """The samples of a unit, their dual variables, and w.

    A round proposes dual variables. Which share of the change is made is decided by the driver, after it has seen the
    proposals of all units: the unit is told at the beginning of the next round.

    All that changes is a function of the constructor's arguments and of the calls of `round`, in their order.

    Parameters
    ----------
    rows : PartRows
    y, s, sq_norms : arrays
        Labels -1 and +1, weights and squared norms of the rows.
    C, loss :
        Those of the problem.
    rho : float
        The squared feature of the bias; 0 without one.
    seed : int
        Decides, with the numbers of the unit and of the round, in which order samples are visited.
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
        start: Vector | None,
    ) -> None:
        self.rows, self.y, self.sq_norms = rows, np.ascontiguousarray(y), np.ascontiguousarray(sq_norms)
        self.rho, self.seed = rho, seed
        self.upper, self.q = loss.dual_box(C * s)
        # The gradient of a zero row without a bias is constant: its best alpha is known, and it is not visited.
        fixed = sq_norms + rho == 0
        first = np.zeros(y.size) if start is None else start
        best = np.minimum(self.upper, 1 / np.maximum(self.q, 1e-300))
        self.alpha: Vector = np.clip(np.where(fixed, best, first), 0.0, self.upper)
        self.proposal = self.alpha  # of the last round
        self.w = np.zeros(rows.X.shape[1])
        self.usable: Indices = np.flatnonzero((s > 0) & ~fixed)
        self.active = self.usable
        self.clearly_out = math.inf  # gradients by which samples become inactive
        self.rounds = 0

    def count(self) -> Sums:
        """One unit, and the number of entries that are stored of its samples."""
        return 1, self._stored(self.usable)

    def sums(self, t: float) -> Sums:
        """What depends on alpha, of which the share t of the last change is made, computed anew.

        Returned: v, and the sums of alpha_i, q_i alpha_i^2 and alpha_i y_i.
        """
        alpha = self.dual_variables(t)
        support = np.flatnonzero(alpha)
        v = self.rows.dot_transposed((alpha * self.y)[support], support)
        return SparseVector.of(v), float(alpha.sum()), float(self.q @ alpha**2), float(alpha @ self.y)

    def round(
        self,
        t: float,
        beta: float,
        change: SparseVector,
        b: float,
        sigma: float,
        sigma_b: float,
        passes: int,
        all_active: bool,
    ) -> Sums:
        """Make the share t of the last change, and propose the next one.

        Parameters
        ----------
        t : float
        change : SparseVector
            What w has changed by since the last call.
        b : float
            The bias.
        sigma, sigma_b : float
            How many times as far the unit's own changes move its w and its bias.
        passes : int
            Passes over the active samples, at most.
        all_active : bool
            Whether all samples become active again.

        Returns
        -------
        delta : SparseVector
            sum d_i y_i x_i, with d the proposed change.
        slope, bend : float
            sum d_i (1 - q_i alpha_i), and sum q_i d_i^2.
        imbalance : float
            sum d_i y_i.
        square, square_b : float
            The squares of `delta` and `imbalance`.
        gap : float
            The terms of the active samples in the gap, each as of its first visit.
        stored : int
            The entries that are stored of the samples which are active now.
        passes : int
            Passes that were made, times the share of all samples that they visited.
        """
        before, self.alpha = self.alpha, self.dual_variables(t)
        change.add_to(self.w)
        active = self.usable if all_active else self.active
        w, base, own_b = self.w.copy(), self.alpha, b
        alpha = self.alpha.copy()
        clipped = 0
        if beta:
            base = self.alpha + beta * (self.alpha - before)
            alpha = np.clip(base, 0.0, self.upper)
            off = np.flatnonzero(alpha != base)
            clipped = off.size
            if off.size:
                back = (alpha - base)[off] * self.y[off]
                w += sigma * self.rows.dot_transposed(back, off)
                own_b += sigma_b * self.rho * float(back.sum())
        rng = np.random.default_rng([self.seed, self.rows.number, self.rounds])
        self.rounds += 1
        first_gap = first_violation = 0.0
        visits = 0
        for k in range(passes):
            order = self.rows.rows(rng.permutation(active))
            visits += order.size
            count, own_b, gap, violation = visit(
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
                sigma_b,
                self.clearly_out,
                self.w if k == 0 else None,
                b,
                self.alpha,
            )
            active = order[:count] - self.rows.own.start
            self.clearly_out = violation / max(1, count) or math.inf
            if k == 0:
                first_gap, first_violation = gap, violation
            if violation <= FALL * first_violation:
                break
        self.active, self.proposal = np.sort(active), alpha
        w -= self.w
        w /= sigma
        delta, d = SparseVector.of(w), alpha - self.alpha
        imbalance = float((alpha - base) @ self.y)
        return (
            delta,
            float(d @ (1 - self.q * self.alpha)),
            float(self.q @ d**2),
            imbalance,
            float(d.sum()),
            delta.square(),
            imbalance**2,
            first_gap,
            self._stored(self.active),
            visits / max(1, self.usable.size),
            clipped,
        )

    def dual_variables(self, t: float) -> Vector:
        """alpha, of which the share t of the last change is made."""
        if t == 1:
            return self.proposal
        return np.clip(self.alpha + t * (self.proposal - self.alpha), 0.0, self.upper)

    def _stored(self, places: Indices) -> int:
        return int(self.rows.row_sizes(places).sum())

    # All that changes

    def kept(self) -> dict[str, Any]:
        """All that the calls of `round` have changed: with the constructor's arguments, it makes the object again."""
        return {name: getattr(self, name) for name in ("alpha", "proposal", "w", "active", "clearly_out", "rounds")}

    def take(self, kept: dict[str, Any]) -> Sums:
        """Go on from what another object of the same arguments has kept."""
        for name, value in kept.items():
            setattr(self, name, value.copy() if isinstance(value, np.ndarray) else value)
        return (0,)
