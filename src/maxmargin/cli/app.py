"""The command line application, which imports the module of a subcommand only when it is called."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core

from maxmargin import __version__

# The subcommands and their help. The module of a subcommand has the same name and is imported only when it is called,
# because importing NumPy and scikit-learn takes too long for `--help`.
COMMANDS = {
    "train": "Train a model on DATA and certify how good it is.",
    "predict": "Predict a label for each row of DATA.",
    "report": "Write an HTML report on a model: certificate, errors on DATA, margins, features.",
    "convert": "Write DATA in another format, with little memory.",
    "info": "Show the contents of a model file.",
    "ball": "Find the smallest ball around the rows of DATA: a model that detects outliers.",
    "sdp": "Maximise a semidefinite program, with a bound that no solution can exceed.",
}


class LazyCommands(typer.core.TyperGroup):
    """A group whose subcommands are imported when they are called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        single = _typer()
        single.command()(getattr(import_module(f"maxmargin.cli.{cmd_name}"), cmd_name))
        return typer.main.get_command(single)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS and (similar := get_close_matches(args[0], COMMANDS)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, similar))}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _typer(**options: Any) -> typer.Typer:
    # Bugs in this package are shown with Python's plain traceback.
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **options)


app = _typer(cls=LazyCommands, no_args_is_help=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"maxmargin {__version__}")
        raise typer.Exit


@app.callback()
def maxmargin(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train support vector machines fast, certify how good they are, and learn without reading all of the data."""
