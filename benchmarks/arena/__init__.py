"""Ours and every peer that is installed on the same problems, in one run: what each reaches in which time.

    python -m benchmarks.arena                       # all sets, to docs/arena: a night
    python -m benchmarks.arena --quick               # small ones, to build/arena: minutes
    python -m benchmarks.arena --sets "Adult"        # some of them; the others are kept, or run later
    python -m benchmarks.arena --pages               # the pages again, from their CSV file alone

`make arena` runs it, after `python -m benchmarks.arena.environments .venv-peers` has installed the peers in
environments of their own. Each entrant has a process in its environment, in which it fits at a series of its own
tolerances, or numbers of epochs, in turns with the others; all else is as it is by default. Objectives are computed
here, in float64, from the models alone.

`sets.py` lists the sets, of which there are three kinds: `features.py` (linear SVMs), `kernels.py` and `searches.py`.
`race.py` runs the entrants of `entrants.py`. Results are kept in a CSV file, set by set, so that a run which was
interrupted goes on; `curves.py` reads times to an accuracy from its rows, and `pages.py` and `drawing.py` make all
pages of them.
"""

import sys
from pathlib import Path

# The scripts beside this package share modules by their plain names.
sys.path.insert(0, str(Path(__file__).parents[1]))
