"""The section about what matters most to the model: its features if it is linear, or else its support vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from maxmargin.core.types import Vector
from maxmargin.display.report.html import Html, element, paragraph, section, table
from maxmargin.display.report.predictions import MOST_CLASSES
from maxmargin.display.report.text import class_names, number, problem_names
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.words import count

MOST_ROWS = 10  # features of a single binary problem, or support vectors, that are listed
MOST_FEATURES = 5  # features that are listed for each of several binary problems
MOST_PROBLEMS = 12  # binary problems whose features are listed
TELLABLE_DIGITS = 9  # coefficients of support vectors that agree in this many digits differ by rounding alone


def influence(model: MarginClassifier, names: Sequence[str]) -> Html:
    """The most influential features if the model has weights for them, or else support vectors."""
    if isinstance(kernel := getattr(model, "kernel", "linear"), str) and kernel == "linear":
        return _features(model, names)
    return _support_vectors(model)


def _features(model: Any, names: Sequence[str]) -> Html:
    problems, classes = problem_names(model), class_names(model)
    several = len(problems) > 1
    if not several:
        sides = f"class {classes[1]}, negative weights to class {classes[0]}"
    elif len(model._strategy.classes_by_model[0]) == 1:
        sides = "the class, negative weights to the rest"
    else:
        sides = "the first class of a pair, negative weights to the second"
    content: list[Html] = [paragraph(f"Positive weights point to {sides}.")]
    most = MOST_FEATURES if several else MOST_ROWS
    for k, problem in enumerate(problems[:MOST_PROBLEMS]):
        row = model.coef_[[k]]
        weights = np.asarray(row.toarray() if issparse(row) else row)[0]
        content.append(_largest_weights(weights, names, most, problem if several else ""))
    if len(problems) > MOST_PROBLEMS:
        content.append(paragraph(f"{MOST_PROBLEMS} of {len(problems):,} binary problems are shown.", class_="soft"))
    note = "Weights can be compared with each other only if the features have the same scale."
    return section("Most influential features", *content, paragraph(note, class_="soft"))


def _largest_weights(weights: Vector, names: Sequence[str], most: int, problem: str) -> Html:
    """A table of the largest weights of a binary problem, which is named if there are several."""
    order = np.argsort(-np.abs(weights), kind="stable")[:most]
    order = order[weights[order] != 0]
    if not order.size:
        return paragraph(f"{problem}: all weights are zero." if problem else "All weights are zero.")
    rows = [(names[j], number(weights[j]), bar) for j, bar in zip(order.tolist(), _bars(weights[order]), strict=True)]
    caption = f"he {len(rows)} largest of {count(len(names), 'weight')}"
    return table(f"{problem}: t{caption}" if problem else f"T{caption}", ("feature", "weight", ""), rows)


def _support_vectors(model: Any) -> Html:
    title = "Most influential support vectors"
    sizes = np.abs(model._dual_coef).sum(axis=0)
    names = class_names(model)
    made_of = (
        f"The model has {count(sizes.size, 'support vector')}, from {count(model.shape_fit_[0], 'training sample')}"
    )
    if not sizes.size:
        return section(title, paragraph(f"{made_of}."))
    by_class = "; ".join(f"{n:,} of class {name}" for name, n in zip(names, model.n_support_, strict=True))
    content = [paragraph(f"{made_of}: {by_class}." if len(names) <= MOST_CLASSES else f"{made_of}.")]
    # Many may be at the bound that C sets: of equals, the first ones of each class.
    rounded = np.round(sizes / sizes.max(), TELLABLE_DIGITS)
    place = np.concatenate([np.arange(n) for n in model.n_support_])
    order = np.lexsort((place, -rounded))[:MOST_ROWS]
    class_of = np.repeat(np.arange(len(names)), model.n_support_)
    rows = [
        (f"{model.support_[k]:,}", names[class_of[k]], number(sizes[k]), bar)
        for k, bar in zip(order.tolist(), _bars(sizes[order]), strict=True)
    ]
    summed = ", summed over the binary problems" if len(model._strategy.names) > 1 else ""
    caption = f"The {len(rows)} largest coefficients in absolute value{summed}"
    content.append(table(caption, ("training sample", "class", "coefficient", ""), rows))
    notes = ["Training samples are numbered from 0."]
    equal = int(np.count_nonzero(rounded == 1))
    if equal > 1:
        notes.append(f"{equal:,} support vectors share the largest coefficient; the first of each class are shown.")
    return section(title, *content, paragraph(" ".join(notes), class_="soft"))


def _bars(values: Vector) -> list[Html]:
    """Table cells with bars, which grow to the right for positive values and to the left for negative ones."""
    shares = values / np.abs(values).max(initial=1e-300)
    both = bool((shares > 0).any() and (shares < 0).any())
    cells = []
    for share in shares.tolist():
        width = abs(share) * (50 if both else 100)
        start = 0 if not both else 50 if share > 0 else 50 - width
        bar = element(
            "div", style=f"--from: {start:.1f}%; --width: {width:.1f}%", class_="minus" if share < 0 else None
        )
        cells.append(element("td", bar, class_="size", aria_hidden="true"))
    return cells
