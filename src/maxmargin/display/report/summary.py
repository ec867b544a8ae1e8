"""The top of the page: what the model is, and its four most important numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from maxmargin.display.report.html import Html, element, paragraph
from maxmargin.display.report.measured import Measured
from maxmargin.display.report.svg import counted
from maxmargin.display.report.text import NOT_KNOWN, callable_name
from maxmargin.display.style import percent
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.words import count


class Tile(NamedTuple):
    """A number with its name above and a note below."""

    name: str
    value: str
    note: str


def summary(model: MarginClassifier, name: str, where: str, measured: Measured) -> Html:
    """The title, a sentence about the model, and tiles with its most important numbers."""
    trained = _training_samples(model)
    tiles = [
        Tile("Error", percent(measured.error), f"{measured.wrong:,} of {measured.n:,} samples"),
        _gap(model),
        _work(model),
        _size(model, trained),
    ]
    shown = [
        element("div", element("dt", tile.name), element("dd", tile.value, element("small", tile.note)))
        for tile in tiles
    ]
    return element(
        "header",
        element("h1", f"{name}: model report"),
        paragraph(_sentence(model, trained, where), class_="lead"),
        element("dl", *shown, class_="tiles"),
    )


def _training_samples(model: Any) -> int | None:
    """The number of samples that the model was fitted on; None if it is not known."""
    return getattr(model, "_n_rows", None) or next(iter(getattr(model, "shape_fit_", ())), None)


def _sentence(model: MarginClassifier, trained: int | None, where: str) -> str:
    classes, features = count(model.classes_.size, "class", "classes"), count(model.n_features_in_, "feature")
    trained_on = f", trained on {count(trained, 'sample')} and" if trained else ","
    kernel = getattr(model, "kernel", None)
    if kernel is None:
        what = f"A linear classifier for {classes} and {features}"
    elif isinstance(kernel, str) and kernel == "precomputed":
        what = f"A classifier with a precomputed kernel for {classes}"
    else:
        named = f"the {kernel} kernel" if isinstance(kernel, str) else f"the kernel function {callable_name(kernel)}"
        what = f"A classifier with {named} for {classes} and {features}"
    return f"{what}{trained_on} evaluated on {where}."


def _gap(model: MarginClassifier) -> Tile:
    found, name = model.certificate_, "Gap to the optimum"
    if not found:
        return Tile(name, NOT_KNOWN, "no certificate")
    conditional = any(each.provided for each in (found if hasattr(found, "names") else [found]))
    proof = "at most, proven under a condition" if conditional else "at most, proven"
    return Tile(name, percent(found.relative_gap), proof)


def _work(model: MarginClassifier) -> Tile:
    if "kernel" in model.get_params(deep=False):
        return Tile("Kernel evaluations", counted(model.kernel_evaluations_), "for learning")
    return Tile("Entries read", counted(model.entries_read_), "for learning")


def _size(model: Any, trained: int | None) -> Tile:
    if hasattr(model, "n_support_"):
        return Tile("Support vectors", f"{model.support_.size:,}", f"of {trained:,} samples" if trained else "")
    used = model.coef_.nnz if issparse(model.coef_) else np.count_nonzero(model.coef_)
    return Tile("Nonzero weights", f"{used:,}", f"of {np.prod(model.coef_.shape):,}")
