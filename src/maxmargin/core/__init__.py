"""Primitives for solvers, mostly compiled: reading rows and columns, sampling, selection, water levels."""

from maxmargin.core._matrix import Ledger, Matrix
from maxmargin.core._sampling import WeightTree
from maxmargin.core._selection import TopWeights
from maxmargin.core.memory import empty_by_pages
from maxmargin.core.samples import l1_sample, l1_samples, l2_sample
from maxmargin.core.water import Water, best_factor, pour, water_level, water_levels

__all__ = [
    "Ledger",
    "Matrix",
    "TopWeights",
    "Water",
    "WeightTree",
    "best_factor",
    "empty_by_pages",
    "l1_sample",
    "l1_samples",
    "l2_sample",
    "pour",
    "water_level",
    "water_levels",
]
