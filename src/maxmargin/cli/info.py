"""`maxmargin info`: what a model file holds."""

from __future__ import annotations

from maxmargin.cli.common import AsJson, ModelFile, as_json, one_line_errors
from maxmargin.cli.summary import details, lines, summary
from maxmargin.estimators.persistence.model_file import read_model


@one_line_errors
def info(model: ModelFile, json: AsJson = False) -> None:
    """Show what a model file holds: how the model was trained, and how good it provably is."""
    about = summary(*read_model(model))
    if json:
        print(as_json(about))
    else:
        print(*lines(about), *details(about), sep="\n")
