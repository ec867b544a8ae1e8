"""`python -m maxmargin.cli`, the same as `maxmargin`."""

from maxmargin.cli import main

if __name__ == "__main__":
    main()
