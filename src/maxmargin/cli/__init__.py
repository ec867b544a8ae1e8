"""The command `maxmargin`."""

import sys


def main() -> None:
    """Run the command; without its libraries, say how to get them."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        print(f"maxmargin: the command needs {error.name}; install it: pip install 'maxmargin[cli]'", file=sys.stderr)
        raise SystemExit(2) from None
    from maxmargin.cli.app import app

    app()
