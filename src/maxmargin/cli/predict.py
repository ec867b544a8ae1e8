"""`maxmargin predict`: labels for new rows."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from maxmargin.cli.common import (
    AbsentChunksOption,
    AsJson,
    Data,
    Header,
    LabelColumn,
    Labels,
    ModelFile,
    as_json,
    check_can_write,
    check_column_names,
    check_features,
    error_rate,
    one_line_errors,
    read,
    say,
    source_name,
)
from maxmargin.data import atomic_write
from maxmargin.estimators import load_model
from maxmargin.estimators.words import count, label_text


@one_line_errors
def predict(
    model: ModelFile,
    data: Data,
    output: Annotated[Path | None, typer.Option(help="Write here instead of to standard output.")] = None,
    decision: Annotated[bool, typer.Option("--decision", help="Decision values instead of labels.")] = False,
    label_column: LabelColumn = "last",
    labels: Labels = None,
    header: Header = None,
    absent_chunks: AbsentChunksOption = "error",
    json: AsJson = False,
) -> None:
    """Predict a label for each row of DATA, one a line; where DATA has labels too, say how many are wrong.

    A CSV or .npy file with as many columns as the model has features has no labels. With a model of `maxmargin ball`
    the label is 1 for a row inside the ball and -1 for one outside.
    """
    if output is not None:
        check_can_write(output, data)
    estimator = load_model(model)
    table = read(data, label_column, header, estimator.n_features_in_, labels, absent_chunks)
    check_features(data, table, estimator.n_features_in_, "the model was trained on")
    check_column_names(data, table, estimator)
    X, y = table.X, table.y
    with warnings.catch_warnings():
        # A file may name its columns in another way than the training data.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        predicted = estimator.predict(X)
        scores = estimator.decision_function(X) if decision or json else np.empty(0)
    error = None
    classes = label_text(getattr(estimator, "classes_", []))  # a ball has no classes
    if y is not None and np.isin(label_text(y), classes).any():
        error = error_rate(predicted, y)
        say(f"error {error:.2%}, measured on the {count(len(predicted), 'label')} in {source_name(data)}")
    if json:
        text = as_json({"labels": predicted.tolist(), "decisions": scores.tolist(), "error": error})
    elif decision:
        text = "\n".join(" ".join(map(repr, row)) for row in scores.reshape(len(predicted), -1).tolist())
    else:
        text = "\n".join(label_text(predicted))
    if output is None:
        print(text)
        # Flush, so that a closed pipe raises its error here, and not when Python exits.
        sys.stdout.flush()
    else:
        with atomic_write(output) as file:
            file.write(f"{text}\n".encode())
