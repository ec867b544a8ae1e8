"""scikit-learn faces of the solvers."""

from maxmargin.estimators.linear import LinearSVC

__all__ = ["LinearSVC"]
