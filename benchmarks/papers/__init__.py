"""Experiments that test the claims of the five papers, each with a page and a verdict.

    python -m benchmarks.papers                      # all experiments in full, to docs/papers: a night
    python -m benchmarks.papers --quick              # smaller versions, to build/papers: minutes
    python -m benchmarks.papers 003-iterations       # one experiment
    python -m benchmarks.papers --pages              # rewrite the pages of docs/papers from their CSV files

Each experiment is one module, listed in `experiments.py`. `frame.py` runs it, keeps the results in a CSV file, and
makes the picture and the page from that file alone. An interrupted run continues where it stopped.
"""

import sys
from pathlib import Path

# The scripts beside this package share modules by their plain names.
sys.path.insert(0, str(Path(__file__).parents[1]))
