"""`maxmargin report`: write an HTML report on a model."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
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
    check_column_names,
    check_features,
    given,
    is_stream,
    one_line_errors,
    read,
    say,
    source_name,
    stem,
)
from maxmargin.data import Table, required_labels
from maxmargin.display import ModelReport
from maxmargin.estimators import load_model
from maxmargin.estimators.words import label_text

STANDARD_OUTPUT = "-"  # name of the page that means standard output


@one_line_errors
def report(
    model: ModelFile,
    data: Annotated[Path, typer.Option(help=f"Rows with labels to evaluate the model on. {DATA_HELP}")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The page to write; - is standard output.",
            show_default="the name of MODEL with .html, in the current folder",
        ),
    ] = None,
    label_column: LabelColumn = "last",
    labels: Labels = None,
    header: Header = None,
    absent_chunks: AbsentChunksOption = "error",
) -> None:
    """Write a report on a model as HTML that needs no network: certificate, errors on DATA, margins, features."""
    target = Path(f"{stem(model)}.html") if out is None else out
    piped = str(target) == STANDARD_OUTPUT
    if not piped:
        _check_target(target, model, data, labels)
    estimator = load_model(model)
    if not hasattr(estimator, "classes_"):
        raise ValueError(f"{model} holds a ball, which has no classes; give a model of `maxmargin train`")
    table = read(data, label_column, header, estimator.n_features_in_, labels, absent_chunks)
    check_features(data, table, estimator.n_features_in_, "the model was trained on")
    names = getattr(estimator, "feature_names_in_", None)
    check_column_names(data, table, names)
    y = _as_classes(source_name(data), table, estimator.classes_)
    options = {
        "--out": out,
        "--label-column": None if label_column == "last" else label_column,
        "--labels": labels,
        "--absent-chunks": None if absent_chunks == "error" else absent_chunks,
    }
    page = ModelReport.from_estimator(
        estimator,
        table.X,
        y,
        feature_names=table.names if names is None else None,
        data_name=source_name(data),
        commands=[_command(model, data, options, header)],
    )
    if piped or is_stream(target):
        _write_to_stream(page, target, piped=piped)
        say(page.summary)
    else:
        page.save(target)
        print(f"{target}: {page.summary}")


def _check_target(target: Path, model: Path, data: Path, labels: str | None) -> None:
    """Refuse in advance a page that cannot be written, or that would replace a file that the command reads."""
    check_can_write(target, data)
    if labels is not None:
        check_can_write(target, Path(labels))
    if target.exists() and model.exists() and target.samefile(model):
        raise ValueError(f"{target} is the model; give another name for the page: --out FILE.html")


def _write_to_stream(page: ModelReport, target: Path, *, piped: bool) -> None:
    """Write the page to standard output, or to a pipe or device, which cannot be replaced like a file."""
    content = page.html.encode()
    if piped:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()  # a closed pipe raises its error here and not when Python exits
    else:
        with target.open("wb") as stream:
            stream.write(content)


def _command(model: Path, data: Path, options: Mapping[str, Any], header: bool | None) -> str:
    """Return the command that reproduces the page, with the options that are not defaults."""
    words = ["maxmargin", "report", str(model), "--data", str(data)]
    for name, value in given(options).items():
        words += [name, str(value)]
    if header is not None:
        words.append("--header" if header else "--no-header")
    return shlex.join(words)


def _as_classes(name: str, table: Table, classes: NDArray[Any]) -> NDArray[Any]:
    """Convert the labels of a file to the classes of the model; they are compared as text, so that 1 equals 1.0."""
    known, found = label_text(classes), np.array(label_text(required_labels(name, table)))
    strange = np.setdiff1d(found, known)
    if strange.size:
        listed = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
        where = f" ({table.labels_in})" if table.labels_in else ""
        remedy = " If the labels are in another column, say which with --label-column." if table.labels_in else ""
        raise ValueError(
            f"{name} has the label {strange[0]}{where}, which the model does not know; its classes are {listed}."
            f"{remedy}"
        )
    order = np.argsort(known)
    return np.asarray(classes[order[np.searchsorted(known, found, sorter=order)]])
