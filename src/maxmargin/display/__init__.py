"""Pictures, in scikit-learn's Display style. matplotlib is imported when something is drawn."""

from maxmargin.display.convergence import ConvergenceDisplay

__all__ = ["ConvergenceDisplay"]
