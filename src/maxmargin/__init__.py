"""Max-margin models: fast to train, certified, and able to learn without reading all of the data."""

from maxmargin.estimators import SVC, EnclosingBall, LinearSVC, ModelFileError, load_model, save_model
from maxmargin.problems import RegularizedSVM, SlackSVM
from maxmargin.solvers import solve

__all__ = [
    "SVC",
    "EnclosingBall",
    "LinearSVC",
    "ModelFileError",
    "RegularizedSVM",
    "SlackSVM",
    "load_model",
    "save_model",
    "solve",
]
__version__ = "0.1.0"
