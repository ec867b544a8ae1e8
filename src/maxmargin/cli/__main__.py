"""`python -m maxmargin.cli` runs the command `maxmargin`."""

from maxmargin.cli import main

if __name__ == "__main__":
    main()
