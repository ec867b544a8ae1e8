"""The command `maxmargin`."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command; if typer or rich is missing, print how to install it."""
    for library in ("typer", "rich"):
        if find_spec(library) is None:
            from maxmargin.core.optional import missing

            print(f"maxmargin: {missing(library, 'the command')}", file=sys.stderr)
            raise SystemExit(2)
    from maxmargin.cli.app import app

    app()
