"""What a report measures on samples: their predictions and margins."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing, gen_batches
from sklearn.utils.validation import _num_samples

from maxmargin.core.types import Indices, Vector
from maxmargin.display.margin import check_labels, values_by_model
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.validation import blocks_to_predict, lies_elsewhere
from maxmargin.estimators.words import count

MOST_MARGINS = 100_000  # if there are more samples, the margins of this many, evenly spaced, are measured
BLOCK_VALUES = 1 << 18  # about this many decision values are in memory at a time


@dataclass(frozen=True)
class Measured:
    """The predictions and margins of samples.

    Attributes
    ----------
    confusion : array of int of shape (n_classes, n_classes)
        How many samples of a class (row) were predicted to be of a class (column), in the order of `classes_`.
    margins : array
        The margin of each sample, or of `MOST_MARGINS` evenly spaced samples.
    """

    confusion: NDArray[np.int64]
    margins: Vector

    @property
    def n(self) -> int:
        """The number of samples."""
        return int(self.confusion.sum())

    @property
    def wrong(self) -> int:
        """The number of samples that are misclassified."""
        return self.n - int(np.trace(self.confusion))

    @property
    def error(self) -> float:
        """The share of samples that are misclassified."""
        return self.wrong / self.n


def measure(model: MarginClassifier, X: Any, y: Any) -> Measured:
    """Predict samples a block at a time, and compare the predictions with the labels."""
    if hasattr(X, "__dask_graph__") or hasattr(y, "__dask_graph__"):
        raise TypeError("X or y lies on a cluster; give samples as arrays, for instance X[:10_000].compute()")
    label = np.searchsorted(model.classes_, check_labels(model, y))
    m, k = label.size, model.classes_.size
    if len(shape := getattr(X, "shape", (0, 0))) != 2:
        raise ValueError(
            f"X must have two dimensions, samples and features; got the shape {shape}. Give a single sample as "
            "X.reshape(1, -1)"
        )
    rows = X.shape[0] if hasattr(X, "shape") else _num_samples(X)
    if not m:
        raise ValueError("there are no samples to evaluate the model on; give at least one")
    if rows != m:
        raise ValueError(f"X has {count(rows, 'row')}, but y has {count(m, 'label')}; give a label for each row")
    drawn = np.arange(m) if m <= MOST_MARGINS else np.linspace(0, m - 1, MOST_MARGINS).astype(np.int64)
    confusion, margins, first = np.zeros(k * k, dtype=np.int64), [], 0
    with warnings.catch_warnings():
        if lies_elsewhere(X):  # the names of a store's columns are compared once; its blocks have none
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
        for block in _blocks(model, X):
            own = label[first : first + _num_samples(block)]
            predicted = np.searchsorted(model.classes_, model.predict(block))
            confusion += np.bincount(own * k + predicted, minlength=k * k)
            start, end = np.searchsorted(drawn, [first, first + own.size])
            some = drawn[start:end] - first
            if some.size:
                part = block if some.size == own.size else _safe_indexing(block, some)
                margins.append(margins_of(model, values_by_model(model, part), own[some]))
            first += own.size
    values = np.concatenate(margins)
    if infinite := int(np.count_nonzero(~np.isfinite(values))):
        raise ValueError(
            f"the decision values of {count(infinite, 'sample')} are too large for float64; scale X as the training "
            "data was scaled"
        )
    return Measured(confusion.reshape(k, k), values)


def _blocks(model: MarginClassifier, X: Any) -> Iterator[Any]:
    """The rows of X, some at a time."""
    if lies_elsewhere(X):
        yield from blocks_to_predict(model, X)
        return
    X = X.tocsr() if issparse(X) else X
    for part in gen_batches(_num_samples(X), max(1, BLOCK_VALUES // model._strategy.n_models)):
        yield _safe_indexing(X, part)


def margins_of(model: MarginClassifier, values: Vector, label: Indices) -> Vector:
    """The margins of samples: positive on the side of their own class, negative on that of another class.

    Parameters
    ----------
    model : MarginClassifier
    values : array of shape (m, n_models)
        The decision values of the binary models.
    label : array of int of shape (m,)
        The position of the class of each sample in `classes_`.

    Returns
    -------
    array of shape (m,)
        With two classes: the decision value times the label, -1 or 1. One-vs-rest: the decision value for the own class
        minus the largest one for another class. One-vs-one: the smallest decision value for the own class against
        another class.
    """
    pairs = model._strategy.classes_by_model
    if len(pairs) == 1:
        return np.asarray(values[:, 0] * np.where(label == 1, 1.0, -1.0))
    if len(pairs[0]) == 1:
        own = np.take_along_axis(values, label[:, None], axis=1)[:, 0]
        others = values.copy()
        np.put_along_axis(others, label[:, None], -np.inf, axis=1)
        return np.asarray(own - others.max(axis=1))
    first, second = np.array(pairs).T
    margins = np.empty(label.size)
    for k in np.unique(label).tolist():
        rows, models = np.flatnonzero(label == k), np.flatnonzero((first == k) | (second == k))
        signs = np.where(first[models] == k, 1.0, -1.0)
        margins[rows] = (values[np.ix_(rows, models)] * signs).min(axis=1)
    return margins
