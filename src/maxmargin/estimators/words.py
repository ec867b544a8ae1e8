"""What fitted models say in codes, in words for people: why a fit ended, what was read for what, labels, counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

STOPPED = {
    "tol": "the gap reached tol",
    "max_iter": "the iterations allowed were made",
    "max_time": "the time was up",
    "budget": "the budget was spent",
    "early_stopping": "the error on the held-out samples no longer improved",
    "callback": "a callback asked for it",
    "interrupted": "it was interrupted; this is the best model until then",
    "finished": "the algorithm came to its end",
}
PURPOSES = {
    "learning": "to learn",
    "choice of the solver": "to choose the solver",
    "validation": "to check that all values are finite",
    "scale": "to find the norms of the rows",
    "norms of X": "to find the norms of the rows",
    "slack range": "to find the largest slack that makes sense",
    "slack for C": "to find the slack that goes with C",
    "solution": "to make the model of what was learned",
    "choosing": "to choose the best of several runs",
    "holdout": "to predict the held-out rows",
    "certificate": "to certify",
    "index": "to build an index of the other axis",
    "entries of X": "of X, entries and not kernel evaluations",
}
"""The purposes of the ledger, in words."""


def label_text(labels: Iterable[Any]) -> list[str]:
    """Labels as text: whole numbers without a decimal point, whatever their type.

    >>> label_text(np.array([1.0, -1.0, 0.5]))
    ['1', '-1', '0.5']
    """
    return [str(label).removesuffix(".0") for label in np.asarray(labels).tolist()]


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, in the singular or plural.

    >>> count(1, "row"), count(2000, "row"), count(2, "pass", "passes")
    ('1 row', '2,000 rows', '2 passes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
