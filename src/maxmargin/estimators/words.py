"""Text for people: why a fit stopped, what was read for which purpose, labels, counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

STOPPED = {
    "tol": "the gap reached tol",
    "max_iter": "the limit max_iter was reached",
    "max_time": "the time limit was reached",
    "budget": "the budget was spent",
    "early_stopping": "the error on the held-out samples stopped improving",
    "callback": "a callback requested it",
    "interrupted": "it was interrupted; this is the best model found until then",
    "finished": "the algorithm finished",
}
PURPOSES = {
    "learning": "to learn",
    "choice of the solver": "to choose the solver",
    "validation": "to check that all values are finite",
    "scale": "to find the norms of the rows",
    "norms of X": "to find the norms of the rows",
    "slack range": "to find the largest meaningful slack",
    "slack for C": "to find the slack that corresponds to C",
    "solution": "to compute the final model",
    "choosing": "to choose the best of several runs",
    "holdout": "to predict the held-out rows",
    "certificate": "to certify",
    "index": "to index the other axis",
    "entries of X": "entries of X (not kernel evaluations)",
}
"""The purposes of the ledger in words."""


def label_text(labels: Iterable[Any]) -> list[str]:
    """Convert labels to text, with whole numbers of any type without a decimal point.

    >>> label_text(np.array([1.0, -1.0, 0.5])), label_text(["v1.0", "v2.0"])
    (['1', '-1', '0.5'], ['v1.0', 'v2.0'])
    """
    return [_without_point(str(label)) for label in np.asarray(labels).tolist()]


def _without_point(text: str) -> str:
    whole = text.removesuffix(".0")
    return whole if whole.lstrip("+-").isdecimal() else text


def count(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun in the singular or plural.

    >>> count(1, "row"), count(2000, "row"), count(2, "pass", "passes")
    ('1 row', '2,000 rows', '2 passes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
