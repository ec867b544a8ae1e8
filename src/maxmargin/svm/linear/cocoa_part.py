"""What CoCoA+ stores and computes for the samples of a unit. Symbols as in `cocoa.py`."""

from __future__ import annotations

import math

import numpy as np

from maxmargin.core.types import Indices, Vector
from maxmargin.engine.parts import PartRows, Sums
from maxmargin.engine.sparse_vector import SparseVector
from maxmargin.svm.linear._cocoa import visit
from maxmargin.svm.losses import Loss


class CocoaPart:
    """The samples of a unit, their dual variables, f and g, and copies of v and z.

    Parameters
    ----------
    rows : PartRows
    y, s, sq_norms : arrays
        Labels -1 and +1, weights and squared norms of the rows.
    C, loss :
        C and loss of the problem.
    rho : float
        The square of the feature whose weight is the bias; 0 without a bias.
    seed : int
        Decides, together with the numbers of the unit and of the round, the order in which samples are visited.
    z : array
        The first z; v is 0 until the first round.
    start : array or None
        The first dual variables; None: zeros.
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
        z: Vector,
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
        self.v = np.zeros(rows.X.shape[1])
        self.z = z.copy()
        self.f, self.g = np.zeros_like(self.v), 0.0
        self.usable: Indices = np.flatnonzero((s > 0) & ~fixed)
        self.active = self.usable
        self.clearly_out = math.inf  # samples at a bound with a gradient beyond this become inactive

    def count(self) -> Sums:
        """The number 1 for this unit, and the number of stored entries of its samples."""
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
        change: SparseVector,
        share: float,
        recall: float,
        sigma: float,
        units: int,
        b: float,
        pull: float,
        imbalance_change: float,
        passes: int,
        all_active: bool,
    ) -> Sums:
        """Change the dual variables by passes of coordinate ascent.

        Parameters
        ----------
        number : int
            The number of the round.
        change : SparseVector
            The change of v since the last call.
        share : float
            The share of the distance to v by which z moves.
        recall : float
            The factor of f and g: 1 - omega, or 0 in the first round.
        sigma : float
            The factor of the unit's own changes in its w and its bias.
        units : int
            K.
        b : float
            The bias that belongs to z.
        pull : float
            (m - kappa b) / K.
        imbalance_change : float
            The change of m in the last round, divided by K.
        passes : int
            Passes over the active samples.
        all_active : bool
            Whether all samples become active again.

        Returns
        -------
        delta : SparseVector
            sum d_i y_i x_i, with d the change.
        imbalance : float
            sum d_i y_i.
        separable : float
            The change of sum alpha_i - q_i alpha_i^2 / 2.
        square : float
            |w_k - z|^2 after the round; the driver receives the sum over units.
        gap : float
            The terms of the active samples in the gap of z, b and the dual variables before the round.
        stored : int
            The number of stored entries of the samples that are active now.
        """
        change.add_to(self.v)
        self.z += share * (self.v - self.z)
        change.add_to(self.f, -1 / units)
        self.f *= recall
        self.g = recall * (self.g - imbalance_change)
        base = self.z + sigma * ((self.v - self.z) / units + self.f)
        w, own_b, before = base.copy(), b + sigma * self.rho * (pull + self.g), self.alpha.copy()
        active = self.usable if all_active else self.active
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
                self.alpha,
                w,
                own_b,
                self.rho,
                sigma,
                self.clearly_out,
                self.z if k == 0 else None,
                b,
            )
            active = order[:count] - self.rows.own.start
            self.clearly_out = violation / max(1, count) or math.inf
            gap += gap_terms
        self.active = np.sort(active)
        off, d = w - self.z, self.alpha - before
        w -= base
        w /= sigma
        delta, imbalance = SparseVector.of(w), float(d @ self.y)
        delta.add_to(self.f)
        self.g += imbalance
        return (
            delta,
            imbalance,
            float(d @ (1 - 0.5 * self.q * (before + self.alpha))),
            float(off @ off),
            gap,
            self._stored(self.active),
        )

    def dual_variables(self) -> Vector:
        """alpha."""
        return self.alpha

    def _stored(self, places: Indices) -> int:
        return int(self.rows.row_sizes(places).sum())
