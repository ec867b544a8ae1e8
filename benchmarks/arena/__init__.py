"""Races of maxmargin and every installed peer on the same problems: the accuracy that each reaches, and the time.

    python -m benchmarks.arena                       # all sets, to docs/arena: a night
    python -m benchmarks.arena --quick               # small sets, to build/arena: minutes
    python -m benchmarks.arena --sets "Adult"        # only these sets; the results of the others are kept
    python -m benchmarks.arena --pages               # rewrite the pages from their CSV file

`make arena` runs it after `python -m benchmarks.arena.environments .venv-peers` has installed the peers in their own
environments. Each entrant runs in a process of its environment and fits at a series of its own tolerances or numbers
of epochs, in turns with the others; all other parameters are defaults. Objectives are computed here, in float64, from
the fitted models alone.

`sets.py` lists the sets. There are three kinds: `features.py` (linear SVMs), `kernels.py` and `searches.py`. `race.py`
runs the entrants of `entrants.py`. Results are kept set by set in a CSV file, so that an interrupted run continues.
`curves.py` derives times to an accuracy from its rows, and `pages.py` and `drawing.py` make the pages.
"""

import sys
from pathlib import Path

# The scripts beside this package share modules by their plain names.
sys.path.insert(0, str(Path(__file__).parents[1]))
