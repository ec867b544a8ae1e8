"""`maxmargin predict`: predict labels for new rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

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
    listed,
    one_line_errors,
    read,
    say,
    source_name,
)
from maxmargin.data import Table, atomic_write
from maxmargin.data.table import is_missing
from maxmargin.estimators import load_model
from maxmargin.estimators.words import count, label_text


@one_line_errors
def predict(
    model: ModelFile,
    data: Data,
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
    decision: Annotated[bool, typer.Option("--decision", help="Print decision values instead of labels.")] = False,
    label_column: LabelColumn = "last",
    labels: Labels = None,
    header: Header = None,
    absent_chunks: AbsentChunksOption = "error",
    json: AsJson = False,
) -> None:
    """Predict a label for each row of DATA, one per line. If DATA has labels, also print the error.

    A CSV or .npy file with as many columns as the model has features has no labels. With a model of `maxmargin ball`,
    the label is 1 for a row inside the ball and -1 for a row outside.
    """
    if output is not None:
        check_can_write(output, data)
    estimator = load_model(model)
    table = read(data, label_column, header, estimator.n_features_in_, labels, absent_chunks)
    check_features(data, table, estimator.n_features_in_, "the model was trained on")
    check_column_names(data, table, getattr(estimator, "feature_names_in_", None))
    predicted = estimator.predict(table.X)
    scores = estimator.decision_function(table.X) if decision or json else np.empty(0)
    error = None
    if table.y is not None and hasattr(estimator, "classes_"):  # the model of a ball has no classes
        error = _error(source_name(data), table, predicted, label_text(estimator.classes_))
    if json:
        text = as_json({"labels": predicted.tolist(), "decisions": scores.tolist(), "error": error})
    elif decision:
        text = "\n".join(" ".join(map(repr, row)) for row in scores.reshape(len(predicted), -1).tolist())
    else:
        text = "\n".join(label_text(predicted))
    if output is None:
        print(text)
        # Flush, so that a closed pipe raises its error here and not when Python exits.
        sys.stdout.flush()
    else:
        with atomic_write(output) as file:
            file.write(f"{text}\n".encode())


def _error(name: str, table: Table, predicted: NDArray[Any], classes: list[str]) -> float | None:
    """Return the share of wrong predictions; None if the model knows no label. Warn if it does not know all labels.

    Rows without a label do not count.
    """
    found: NDArray[Any] = np.array(label_text(() if table.y is None else table.y))
    known = np.isin(found, classes)
    labelled = known | np.array([not is_missing(label) for label in found.tolist()])
    error, labels = None, f"{count(int(labelled.sum()), 'label')} in {name}"
    if known.any():
        error = error_rate(predicted[labelled], found[labelled])
        say(f"{error:.2%} of the {labels} are predicted wrongly")
    strange = found[labelled & ~known]
    if strange.size:
        where = f" ({table.labels_in})" if table.labels_in else ""
        remedy = " If the labels are in another column, say which with --label-column." if table.labels_in else ""
        outcome = "the unknown labels count as errors" if known.any() else "no error is measured"
        say(
            f"warning: {strange.size:,} of the {labels}{where} are unknown to the model: "
            f"{listed(sorted(set(strange.tolist())))}. Its classes are {listed(classes)}; {outcome}.{remedy}"
        )
    return error
