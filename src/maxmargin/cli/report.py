"""`maxmargin report`: a page about a model."""

from __future__ import annotations

import shlex
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from maxmargin.cli.common import (
    DATA_HELP,
    AbsentChunksOption,
    Header,
    LabelColumn,
    Labels,
    ModelFile,
    check_can_write,
    check_features,
    one_line_errors,
    read,
    source_name,
    stem,
)
from maxmargin.data import required_labels
from maxmargin.display import ModelReport
from maxmargin.estimators import load_model
from maxmargin.estimators.words import label_text


@one_line_errors
def report(
    model: ModelFile,
    data: Annotated[Path, typer.Option(help=f"Rows with labels that the model is tried on. {DATA_HELP}")],
    out: Annotated[
        Path | None, typer.Option(help="The page to write.", show_default="the name of MODEL with .html, here")
    ] = None,
    label_column: LabelColumn = "last",
    labels: Labels = None,
    header: Header = None,
    absent_chunks: AbsentChunksOption = "error",
) -> None:
    """Write a page about a model, as HTML that needs no network: its certificate, errors on DATA, margins and more."""
    target = Path(f"{stem(model)}.html") if out is None else out
    check_can_write(target, data)
    if target.exists() and model.exists() and target.samefile(model):
        raise ValueError(f"{target} is the model; give another name for the page: --out FILE.html")
    estimator = load_model(model)
    if not hasattr(estimator, "classes_"):
        raise ValueError(f"{model} holds a ball, which has no classes; a report is of a model of `maxmargin train`")
    table = read(data, label_column, header, estimator.n_features_in_, labels, absent_chunks)
    check_features(data, table, estimator.n_features_in_, "the model was trained on")
    name = source_name(data)
    y = _as_classes(name, required_labels(name, table), estimator.classes_)
    words = ["maxmargin", "report", str(model), "--data", str(data)]
    with warnings.catch_warnings():
        # The names of the columns of a file are not compared with those of the model.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        page = ModelReport.from_estimator(
            estimator,
            table.X,
            y,
            feature_names=None if hasattr(estimator, "feature_names_in_") else table.names,
            data_name=name,
            commands=[shlex.join(words)],
        )
    page.save(target)
    print(f"{target}: {page.summary}")


def _as_classes(name: str, y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Labels of a file as the model has them; they are compared as text, so that 1 and 1.0 are the same."""
    known, found = label_text(classes), np.array(label_text(y))
    strange = np.setdiff1d(found, known)
    if strange.size:
        listed = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
        raise ValueError(f"{name} has the label {strange[0]}, which the model does not know; its classes are {listed}")
    order = np.argsort(known)
    return np.asarray(classes[order[np.searchsorted(known, found, sorter=order)]])
