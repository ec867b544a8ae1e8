"""Where entries come from, and what was read of them."""

from maxmargin.data.matrix import as_matrix

__all__ = ["as_matrix"]
