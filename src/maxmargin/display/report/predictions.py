"""The sections about the predictions: which samples are misclassified, and how the margins are distributed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Vector
from maxmargin.display.report.html import Html, element, paragraph, section, table
from maxmargin.display.report.measured import Measured
from maxmargin.display.report.svg import histogram
from maxmargin.display.report.text import class_names
from maxmargin.display.style import percent
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.words import count

MOST_CLASSES = 20  # a confusion matrix of more does not fit on a page: the most frequent confusions are listed
WIDE_CLASSES = 6  # a confusion matrix of more has narrow columns
WIDEST_HEAD = 48  # characters of the head of a confusion matrix; longer names of classes are replaced by numbers
MOST_CONFUSIONS = 10  # pairs of a true and a predicted class that are listed
FAR = 3.0  # values farther from the middle 98 % than this many times their spread are drawn at the end of the axis
END = 0.05  # a value at the end of the axis is drawn at least this share of the axis beyond all limits


def errors(model: MarginClassifier, measured: Measured) -> Html:
    """The section with the error, the confusion matrix, and the errors of each class."""
    classes, confusion = class_names(model), measured.confusion
    samples = count(measured.n, "sample")
    lead = f"The model misclassifies {measured.wrong:,} of {samples} ({percent(measured.error)})."
    if len(classes) > MOST_CLASSES:
        between = _frequent_confusions(classes, confusion)
    elif len(classes) * max(map(len, classes)) > WIDEST_HEAD:
        numbers = [str(k) for k in range(1, len(classes) + 1)]
        between = _confusion_matrix(numbers, confusion, "; numbers: see the table below")
        classes = [f"{k}: {name}" for k, name in zip(numbers, classes, strict=True)]
    else:
        between = _confusion_matrix(classes, confusion)
    return section("Errors", paragraph(lead, class_="lead"), between, _errors_by_class(classes, confusion))


def _confusion_matrix(classes: list[str], confusion: NDArray[np.int64], note: str = "") -> Html:
    most = confusion.max()
    rows = [
        (name, *(_confusion_cell(int(n), n / most, right=i == j) for j, n in enumerate(confusion[i])))
        for i, name in enumerate(classes)
    ]
    style = "matrix" if len(classes) <= WIDE_CLASSES else "matrix many"
    return table(f"Confusion matrix (rows: true class; columns: prediction{note})", ("", *classes), rows, class_=style)


def _confusion_cell(n: int, share: float, *, right: bool) -> Html:
    kind = "none" if not n else "right" if right else "wrong"
    return element("td", f"{n:,}", class_=kind, style=f"--share: {share:.3f}" if n else None)


def _frequent_confusions(classes: list[str], confusion: NDArray[np.int64]) -> Html:
    """The most frequent confusions, in place of a matrix of many classes; nothing if there is no error."""
    off = confusion - np.diag(np.diag(confusion))
    largest = [at for at in np.argsort(-off, axis=None, kind="stable")[:MOST_CONFUSIONS].tolist() if off.flat[at]]
    if not largest:
        return Html("")
    pairs = [(classes[at // len(classes)], classes[at % len(classes)], f"{off.flat[at]:,}") for at in largest]
    caption = f"Most frequent confusions among {len(classes):,} classes"
    return table(caption, ("true class", "prediction", "samples"), pairs)


def _errors_by_class(classes: list[str], confusion: NDArray[np.int64]) -> Html:
    """A table with a row for each class; of many classes, for those with the largest errors."""
    samples, predicted, right = confusion.sum(axis=1), confusion.sum(axis=0), np.diag(confusion)
    shares = 1 - right / np.maximum(samples, 1)
    shares[samples == 0] = -1  # a class without samples has no error, and comes last
    shown = range(len(classes))
    caption = "Errors by class"
    if len(classes) > MOST_CLASSES:
        shown = np.argsort(-shares, kind="stable")[:MOST_CLASSES].tolist()
        caption += f": the {MOST_CLASSES} worst of {len(classes):,}"
    rows = [
        (
            classes[k],
            f"{samples[k]:,}",
            f"{samples[k] - right[k]:,}",
            percent(shares[k]) if samples[k] else "no samples",
            percent(right[k] / predicted[k]) if predicted[k] else "never predicted",
        )
        for k in shown
    ]
    return table(caption, ("class", "samples", "wrong", "error", "precision"), rows)


class Margins(NamedTuple):
    """What the margins of a model are: a description, the limits between groups of them, and the groups.

    A group has a name and a colour of the style.
    """

    description: str
    limits: list[float]
    groups: list[tuple[str, str]]


_TO_MARGIN = [0.0, 1.0], [("below 0", "bad"), ("0 to 1", "near"), ("1 or more", "good")]
_TO_BOUNDARY = [0.0], [("below 0", "bad"), ("0 or more", "good")]
TWO_CLASSES = Margins(
    "The decision value of each sample times its label, -1 or 1. A sample below 0 is misclassified; a sample between "
    "0 and 1 is inside the margin.",
    *_TO_MARGIN,
)
ONE_VS_REST = Margins(
    "The decision value of each sample for its own class minus the largest one for another class. A sample below 0 is "
    "misclassified.",
    *_TO_BOUNDARY,
)
ONE_VS_ONE = Margins(
    "The smallest decision value of each sample for its own class against another class. Below 0, one binary model "
    "prefers another class, but the majority vote can still be right.",
    *_TO_MARGIN,
)


def margins(model: MarginClassifier, measured: Measured) -> Html:
    """The section with the histogram of the margins."""
    pairs = model._strategy.classes_by_model
    kind = TWO_CLASSES if len(pairs) == 1 else ONE_VS_REST if len(pairs[0]) == 1 else ONE_VS_ONE
    values = measured.margins
    found = np.bincount(np.searchsorted(kind.limits, values, side="right"), minlength=len(kind.groups)) / values.size
    groups = [(f"{name}: {percent(share)}", colour) for (name, colour), share in zip(kind.groups, found, strict=True)]
    key = [element("li", text, style=f"--colour: var(--{colour})") for text, colour in groups]
    near = within_reach(values, kind.limits)
    far = int(np.count_nonzero(near != values))
    notes = []
    if values.size < measured.n:
        notes.append(f"The histogram shows {values.size:,} of the {measured.n:,} samples, evenly spaced.")
    if far:
        notes.append(f"{count(far, 'value')} beyond the axis {'is' if far == 1 else 'are'} drawn at its ends.")
    drawn = element(
        "figure",
        histogram(
            near,
            kind.limits,
            label="margin",
            described="Histogram of margins. " + "; ".join(text for text, _ in groups),
        ),
        element("figcaption", element("ul", *key, class_="key")),
        class_="two" if len(kind.groups) == 2 else None,
    )
    return section("Margins", paragraph(kind.description), drawn, *(paragraph(note, class_="soft") for note in notes))


def within_reach(values: Vector, limits: list[float]) -> Vector:
    """Values, of which those far from most others are moved to the ends of an axis; none is moved across a limit.

    >>> values = np.concatenate([np.linspace(2, 3, 999), [-1e6]])
    >>> float(np.min(within_reach(values, [0.0, 1.0]))) < 0
    True
    """
    low, high = np.quantile(values, [0.01, 0.99])
    reach = FAR * (high - low)
    first, last = min(low - reach, limits[0]), max(high + reach, limits[-1])
    beyond = END * ((last - first) or 1.0)
    return np.clip(values, min(first, limits[0] - beyond), max(last, limits[-1] + beyond))
