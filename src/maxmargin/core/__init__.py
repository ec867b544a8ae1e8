"""Compiled primitives, and no algorithm: reading rows and columns, sampling, selection, water levels."""

from maxmargin.core._matrix import Ledger, Matrix

__all__ = ["Ledger", "Matrix"]
