"""Compiled primitives, and no algorithm: reading rows and columns, sampling, selection, water levels."""

from maxmargin.core._matrix import Ledger, Matrix
from maxmargin.core._sampling import WeightTree
from maxmargin.core._selection import TopWeights
from maxmargin.core._water import water_level, water_levels

__all__ = ["Ledger", "Matrix", "TopWeights", "WeightTree", "water_level", "water_levels"]
