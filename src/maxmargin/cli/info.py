"""`maxmargin info`: show the contents of a model file."""

from __future__ import annotations

from maxmargin.cli.common import AsJson, ModelFile, as_json, one_line_errors
from maxmargin.cli.summary import details, lines, summary
from maxmargin.estimators.persistence.model_file import read_model


@one_line_errors
def info(model: ModelFile, json: AsJson = False) -> None:
    """Show the contents of a model file: how the model was trained, and its certificate."""
    about = summary(*read_model(model))
    if json:
        print(as_json(about))
    else:
        print(*lines(about), *details(about), sep="\n")
