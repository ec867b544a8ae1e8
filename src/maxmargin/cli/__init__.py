"""The command `maxmargin`."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command; without its libraries, say how to get them."""
    for library in ("typer", "rich"):
        if find_spec(library) is None:
            print(f"maxmargin: the command needs {library}; install it: pip install 'maxmargin[cli]'", file=sys.stderr)
            raise SystemExit(2)
    from maxmargin.cli.app import app

    app()
