r"""Predictions of a linear model that ask for as few features as its labels need.

Problem: the class with the largest decision value :math:`b_k + \sum_j w_{kj} x_j`, where :math:`x_j` is known to lie in
:math:`[l_j, h_j]` and costs :math:`c_j` to ask for. Given: the weights, the ranges and the costs. Returned: the class,
as soon as no values of the features that were not asked for can change it.

With a typical value :math:`m_j` of each feature that is not known, decision values are :math:`v_k`. The most by which
the features U that are not known can lower the difference of two of them is

.. math:: r_{kl} = \sum_{j \in U} \max_{l_j \le x \le h_j} (w_{lj} - w_{kj}) (x - m_j).

So class k is decided once :math:`v_k - v_l > r_{kl}` for all l. To ask for a feature lowers :math:`r_{kl} + r_{lk}` by
:math:`|w_{kj} - w_{lj}| (h_j - l_j)`, whatever the value; the features that lower it most for their cost come first.
The order is the same for all samples, so that samples ask for features together, and so are the :math:`r_{kl}`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin.core.rounding import SUM_ROUNDINGS, relative_error
from maxmargin.core.types import Indices, Mask, Vector
from maxmargin.data.entries import EntrySource, FeatureRanges, feature_costs, sample_blocks
from maxmargin.estimators.validation import lies_elsewhere

BATCH_SHARE = 1 / 16
"""The cost of the features that are asked for together, as a share of the cost so far: how much more than one by one is
asked for, at most. The number of batches falls with it, to about 16 log(d)."""


class RangeWarning(UserWarning):
    """A value lies outside of the range that its feature was said to have."""


@dataclass(frozen=True)
class Decisions:
    """Decisions of a linear model that asked for some of the features.

    Attributes
    ----------
    labels : array of shape (m,)
        The class of each sample.
    values : array of shape (m,) or (m, n_classes)
        The decision values, with the typical value for each feature that was not asked for.
    decided : array of bool of shape (m,)
        Whether the label is the one that all features would give, if they are within their ranges. Where it is not,
        the budget ended before.
    cost : array of shape (m,)
        The cost of the features that were asked for.
    entries : array of int64 of shape (m,)
        How many features were asked for.
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
    """Which features to ask for, in which order, and when the class is certain.

    Attributes
    ----------
    W, start : arrays of shape (n_classes, d) and (n_classes,)
        The weights, and the decision values of a sample of which nothing is known. A binary model has a first class
        whose decision value is 0.
    ranges : FeatureRanges
    batches : list of arrays
        The features to ask for, in order.
    cost : array of shape (len(batches) + 1,)
        The cost of all batches before each one, and of all of them.
    radius : list of arrays of shape (n_classes, n_classes)
        :math:`r_{kl}` with an allowance for rounding, before each batch and after the last one.
    complete : bool
        Whether all features that matter are in a batch.
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
        # Twice, as the decision values from all features are rounded as well.
        rounding = 2 * relative_error(coef.shape[1] + SUM_ROUNDINGS) * (sizes[:, None] + sizes)
        left = np.setdiff1d(useful, bought)
        radius = [rounding + _radius(coef, ranges, left)]
        for batch in reversed(batches):
            radius.append(radius[-1] + _radius(coef, ranges, batch))
        cost = np.append(0.0, np.cumsum([costs[batch].sum() for batch in batches]))
        start = intercept + coef @ typical
        return cls(coef, start, ranges, batches, cost, radius[::-1], left.size == 0)

    def decided(self, values: Vector, step: int) -> Mask:
        """Which samples have a class that cannot change any more, before a batch."""
        if step == len(self.batches) and self.complete:
            return np.ones(values.shape[0], dtype=bool)
        winner = values.argmax(axis=1)
        lead = values[np.arange(winner.size), winner][:, None] - values - self.radius[step][winner]
        lead[np.arange(winner.size), winner] = 1.0
        return np.asarray((lead > 0).all(axis=1))


def decide_by_need(model: Any, X: Any, ranges: Any, budget: float, cost: Any) -> Decisions:
    """The decisions of a fitted linear model about all samples; see :meth:`maxmargin.LinearSVC.decide`."""
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
    """The samples, validated but for what is checked when it is asked for."""
    if not lies_elsewhere(X):
        return validate_data(model, X, accept_sparse="csr", dtype="numeric", reset=False, ensure_all_finite=False)
    if X.shape[1] != model.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but the model was fitted with {model.n_features_in_}")
    return X


class OutOfRange:
    """Values that lie outside of the ranges: how many, and where the first of them is."""

    def __init__(self) -> None:
        self.count, self.first = 0, ""

    def check(self, entries: NDArray[Any], rows: Indices, columns: Indices, ranges: FeatureRanges) -> None:
        """Look at entries that were read; NaN is an error."""
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
                f"{self.count:,} values lie outside of the ranges of their features, the first is {self.first}. They "
                "were used as they are; but where such values were not asked for, labels may differ from those of all "
                "features. Give wider ranges if that matters.",
                RangeWarning,
                stacklevel=4,
            )


def checked_ranges(ranges: Any, d: int) -> FeatureRanges:
    """The least and the largest value of each of d features, and a typical one: if none is given, the middle."""
    try:
        low, high, *given = (np.broadcast_to(np.asarray(values, dtype=np.float64), (d,)) for values in ranges)
        (typical,) = given or [(low + high) / 2]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"ranges must be the least and the largest values (and typical ones), numbers or arrays of {d} features: "
            "for instance ranges=maxmargin.data.feature_ranges(X_train)"
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
    """The most by which these features can lower the difference of a decision value, by row, and another, by column."""
    low, high, typical = (values[features] for values in ranges)
    weights = coef[:, features]
    rises, falls = high - typical, typical - low
    differences = (weights - row for row in weights)
    return np.stack([np.maximum(lead, 0) @ rises + np.maximum(-lead, 0) @ falls for lead in differences])


def _affordable(costs: Vector, budget: float) -> Indices:
    """The positions of the features that are bought, in this order: each one that what is left suffices for."""
    if costs.sum() <= budget:
        return np.arange(costs.size)
    bought = []
    for k, cost in enumerate(costs.tolist()):
        if cost <= budget:
            bought.append(k)
            budget -= cost
    return np.array(bought, dtype=np.int64)


def _batches(features: Indices, costs: Vector) -> list[Indices]:
    """Features in this order, in batches of which each costs at most a share of those before it, or is one feature."""
    total = np.append(0.0, np.cumsum(costs[features]))
    batches, start = [], 0
    while start < features.size:
        end = max(start + 1, int(np.searchsorted(total, total[start] * (1 + BATCH_SHARE), side="right")) - 1)
        batches.append(features[start:end])
        start = end
    return batches
