"""The experiments of the five papers, each beside ours, with a verdict.

    python -m benchmarks.papers                      # all of them, to docs/papers: a night
    python -m benchmarks.papers --quick              # smaller, to build/papers: minutes
    python -m benchmarks.papers 003-iterations       # one of them
    python -m benchmarks.papers --pages              # the pages of docs/papers again, from their CSV files alone

One module an experiment, listed in `experiments.py`; `frame.py` runs it, keeps what was measured in a CSV file, and
writes figure and page from that file alone. A run that was interrupted goes on where it stopped.
"""

import sys
from pathlib import Path

# The scripts beside this package share modules by their plain names.
sys.path.insert(0, str(Path(__file__).parents[1]))
