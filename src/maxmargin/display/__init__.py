"""Plots in scikit-learn's Display style, and reports. matplotlib is imported only when something is drawn."""

from maxmargin.display.convergence import ConvergenceDisplay
from maxmargin.display.margin import MarginDisplay
from maxmargin.display.path import PathDisplay
from maxmargin.display.regions import RegionsDisplay
from maxmargin.display.report import ModelReport
from maxmargin.display.search import SearchDisplay

__all__ = ["ConvergenceDisplay", "MarginDisplay", "ModelReport", "PathDisplay", "RegionsDisplay", "SearchDisplay"]
