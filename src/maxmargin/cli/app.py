"""The commands together."""

from __future__ import annotations

from typing import Annotated

import typer

from maxmargin import __version__
from maxmargin.cli.ball import ball
from maxmargin.cli.info import info
from maxmargin.cli.predict import predict
from maxmargin.cli.sdp import sdp
from maxmargin.cli.train import train

# A fault of ours should show as Python shows it.
app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
for command in (train, predict, info, ball, sdp):
    app.command()(command)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"maxmargin {__version__}")
        raise typer.Exit


@app.callback()
def maxmargin(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Max-margin models: fast to train, certified, and able to learn without reading all of the data."""
