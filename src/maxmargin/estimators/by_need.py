r"""Predictions of a linear model that read only as many features as the labels need.

Problem: find the class with the largest decision value :math:`b_k + \sum_j w_{kj} x_j`, where :math:`x_j` is known to
lie in :math:`[l_j, h_j]` and costs :math:`c_j` to read. Given: the weights, the ranges and the costs. Returned: the
class, as soon as no values of the unread features can change it.

Let :math:`v_k` be the decision values with a typical value :math:`m_j` in place of each unread feature. The unread
features U can lower the difference :math:`v_k - v_l` by at most

.. math:: r_{kl} = \sum_{j \in U} \max_{l_j \le x \le h_j} (w_{lj} - w_{kj}) (x - m_j).

So class k is decided once :math:`v_k - v_l > r_{kl}` for all l. Reading feature j lowers :math:`r_{kl} + r_{lk}` by
:math:`|w_{kj} - w_{lj}| (h_j - l_j)`, for any value of the feature; the features that lower it most for their cost come
first. The order and the :math:`r_{kl}` are the same for all samples, so features are read for many samples together.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.rounding import SUM_ROUNDINGS, relative_error
from maxmargin.core.types import Indices, Mask, Vector
from maxmargin.data.entries import EntrySource, FeatureRanges, feature_costs, sample_blocks
from maxmargin.estimators.validation import lies_elsewhere, validated

BATCH_SHARE = 1 / 16
"""The maximum cost of a batch of features that are read together, as a share of the cost so far. This bounds how much
more is read than one by one, and reduces the number of batches to about 16 log(d)."""


class RangeWarning(UserWarning):
    """The warning that a value lies outside the given range of its feature."""


@dataclass(frozen=True)
class Decisions:
    """The decisions of a linear model that read only some of the features.

    Attributes
    ----------
    labels : array of shape (m,)
        The predicted class of each sample.
    values : array of shape (m,) or (m, n_classes)
        The decision values, computed with the typical value of each feature that was not read.
    decided : array of bool of shape (m,)
        Whether the label is certain to be the one that all features give, if they lie within their ranges. If not, the
        budget was spent before that.
    cost : array of shape (m,)
        The cost of the features that were read, for each sample.
    entries : array of int64 of shape (m,)
        The number of features that were read, for each sample.
    full_cost : float
        The cost of all features of a sample.
    """

    labels: NDArray[Any]
    values: Vector
    decided: Mask
    cost: Vector
    entries: Indices
    full_cost: float

    def __str__(self) -> str:
        share = self.cost.mean() / self.full_cost if self.full_cost else 0.0
        return (
            f"{np.count_nonzero(self.decided):,} of {self.decided.size:,} samples decided, at {share:.1%} of the cost "
            f"of all features ({self.entries.mean():.1f} features a sample)"
        )


@dataclass(frozen=True)
class Plan:
    """Which features to read, in which order, and when the class is certain.

    Attributes
    ----------
    W, start : arrays of shape (n_classes, d) and (n_classes,)
        The weights, and the decision values of a sample whose features are all unread. For a binary model, the decision
        value of the first class is 0.
    ranges : FeatureRanges
        The ranges of the features.
    batches : list of arrays
        The features to read, in order.
    cost : array of shape (len(batches) + 1,)
        The cost of all batches before each batch, and of all batches.
    radius : list of arrays of shape (n_classes, n_classes)
        :math:`r_{kl}` with an allowance for rounding, before each batch and after the last one.
    complete : bool
        Whether the batches contain all features that matter.
    """

    W: Vector
    start: Vector
    ranges: FeatureRanges
    batches: list[Indices]
    cost: Vector
    radius: list[Vector]
    complete: bool

    @classmethod
    def of(cls, coef: Vector, intercept: Vector, costs: Vector, ranges: FeatureRanges, budget: float) -> Plan:
        if coef.shape[0] == 1:
            coef, intercept = np.vstack([np.zeros_like(coef), coef]), np.append(0.0, intercept)
        low, high, typical = ranges
        gain = (coef.max(axis=0) - coef.min(axis=0)) * (high - low)
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = np.where(gain > 0, gain / costs, 0.0)
        useful = np.flatnonzero(gain > 0)
        order = useful[np.argsort(-worth[useful], kind="stable")]
        bought = order[_affordable(costs[order], budget)]
        batches = _batches(bought, costs)
        sizes = np.abs(coef) @ np.maximum(np.abs(low), np.abs(high)) + np.abs(intercept)
        # The factor 2 is there because the decision values computed from all features are rounded too.
        rounding = 2 * relative_error(coef.shape[1] + SUM_ROUNDINGS) * (sizes[:, None] + sizes)
        left = np.setdiff1d(useful, bought)
        radius = [rounding + _radius(coef, ranges, left)]
        for batch in reversed(batches):
            radius.append(radius[-1] + _radius(coef, ranges, batch))
        cost = np.append(0.0, np.cumsum([costs[batch].sum() for batch in batches]))
        start = intercept + coef @ typical
        return cls(coef, start, ranges, batches, cost, radius[::-1], left.size == 0)

    def decided(self, values: Vector, step: int) -> Mask:
        """Find the samples whose class can no longer change, before batch number `step`."""
        if step == len(self.batches) and self.complete:
            return np.ones(values.shape[0], dtype=bool)
        winner = values.argmax(axis=1)
        lead = values[np.arange(winner.size), winner][:, None] - values - self.radius[step][winner]
        lead[np.arange(winner.size), winner] = 1.0
        return np.asarray((lead > 0).all(axis=1))


def decide_by_need(model: Any, X: Any, ranges: Any, budget: float, cost: Any) -> Decisions:
    """Predict all samples with a fitted linear model; see :meth:`maxmargin.LinearSVC.decide`."""
    check_is_fitted(model)
    if not budget >= 0:
        raise ValueError(f"budget, the cost of the features of a sample, must be at least 0; got {budget!r}")
    X = _samples(model, X)
    m, d = X.shape
    if cost is None:
        cost = X.costs if isinstance(X, EntrySource) else 1.0
    coef = model.coef_.toarray() if issparse(model.coef_) else model.coef_
    costs = feature_costs(cost, d)
    plan = Plan.of(coef, model.intercept_, costs, checked_ranges(ranges, d), budget)
    outside = OutOfRange()
    values = np.tile(plan.start, (m, 1))
    steps, decided = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=bool)
    for start, size, read in sample_blocks(X):
        own = values[start : start + size]  # a view
        undecided = np.arange(size)
        for step in range(len(plan.batches) + 1):
            certain = plan.decided(own[undecided], step)
            decided[start + undecided[certain]] = True
            undecided = undecided[~certain]
            if step == len(plan.batches) or undecided.size == 0:
                break
            batch = plan.batches[step]
            entries = read(undecided, batch)
            outside.check(entries, start + undecided, batch, plan.ranges)
            own[undecided] += (entries - plan.ranges.typical[batch]) @ plan.W[:, batch].T
            steps[start + undecided] = step + 1
    outside.warn()
    counts = np.append(0, np.cumsum([batch.size for batch in plan.batches]))
    winner = values.argmax(axis=1)
    return Decisions(
        labels=model.classes_[winner],
        values=values[:, 1] if coef.shape[0] == 1 else values,
        decided=decided,
        cost=plan.cost[steps],
        entries=counts[steps],
        full_cost=float(costs.sum()),
    )


def _samples(model: Any, X: Any) -> Any:
    """Validate the samples, except for what is checked when entries are read."""
    if not lies_elsewhere(X):
        return validated(model, X, accept_sparse="csr", dtype="numeric", reset=False, ensure_all_finite=False)
    if X.shape[1] != model.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but the model was fitted with {model.n_features_in_}")
    return X


class OutOfRange:
    """The values outside their ranges: their number, and the position of the first one."""

    def __init__(self) -> None:
        self.count, self.first = 0, ""

    def check(self, entries: NDArray[Any], rows: Indices, columns: Indices, ranges: FeatureRanges) -> None:
        """Check entries that were read; NaN is an error."""
        outside = ~((entries >= ranges.low[columns]) & (entries <= ranges.high[columns]))
        if not outside.any():
            return
        if not np.isfinite(entries).all():
            i, j = np.argwhere(~np.isfinite(entries))[0]
            raise ValueError(f"X contains {entries[i, j]} at row {rows[i]}, column {columns[j]}; it must be finite")
        if not self.count:
            i, j = np.argwhere(outside)[0]
            column = columns[j]
            self.first = (
                f"{entries[i, j]:g} at row {rows[i]}, column {column}, whose range is "
                f"[{ranges.low[column]:g}, {ranges.high[column]:g}]"
            )
        self.count += int(np.count_nonzero(outside))

    def warn(self) -> None:
        if self.count:
            warnings.warn(
                f"{self.count:,} values lie outside the ranges of their features; the first is {self.first}. They were "
                "used as they are, but if unread values also lie outside, labels may differ from the labels that all "
                "features give. Give wider ranges if that matters.",
                RangeWarning,
                stacklevel=4,
            )


def checked_ranges(ranges: Any, d: int) -> FeatureRanges:
    """Return the smallest, largest and typical value of each of d features; the default typical value is the middle."""
    try:
        low, high, *given = (np.broadcast_to(np.asarray(values, dtype=np.float64), (d,)) for values in ranges)
        (typical,) = given or [(low + high) / 2]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"ranges must be the smallest and the largest values (and typical ones), numbers or arrays of {d} "
            "features; for example ranges=maxmargin.data.feature_ranges(X_train)"
        ) from error
    wrong = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & (low <= typical) & (typical <= high)))
    if wrong.size:
        j = wrong[0]
        raise ValueError(
            f"the range of feature {j} must be finite, and its typical value within; got [{low[j]:g}, {high[j]:g}] and "
            f"{typical[j]:g}"
        )
    return FeatureRanges(low, high, typical)


def _radius(coef: Vector, ranges: FeatureRanges, features: Indices) -> Vector:
    """Compute how far these features can lower the decision value of a class (row) compared with another (column)."""
    low, high, typical = (values[features] for values in ranges)
    weights = coef[:, features]
    rises, falls = high - typical, typical - low
    differences = (weights - row for row in weights)
    return np.stack([np.maximum(lead, 0) @ rises + np.maximum(-lead, 0) @ falls for lead in differences])


def _affordable(costs: Vector, budget: float) -> Indices:
    """Return the positions of the features that the budget pays for, taken greedily in this order."""
    if costs.sum() <= budget:
        return np.arange(costs.size)
    bought = []
    for k, cost in enumerate(costs.tolist()):
        if cost <= budget:
            bought.append(k)
            budget -= cost
    return np.array(bought, dtype=np.int64)


def _batches(features: Indices, costs: Vector) -> list[Indices]:
    """Split features, in this order, into batches that cost at most a share of those before, or hold one feature."""
    total = np.append(0.0, np.cumsum(costs[features]))
    batches, start = [], 0
    while start < features.size:
        end = max(start + 1, int(np.searchsorted(total, total[start] * (1 + BATCH_SHARE), side="right")) - 1)
        batches.append(features[start:end])
        start = end
    return batches
