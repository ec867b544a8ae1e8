"""scikit-learn faces of the solvers."""

from maxmargin.estimators.linear import LinearSVC
from maxmargin.estimators.model_file import ModelFileError, load_model, save_model

__all__ = ["LinearSVC", "ModelFileError", "load_model", "save_model"]
