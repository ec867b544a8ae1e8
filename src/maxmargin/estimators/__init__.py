"""scikit-learn faces of the solvers."""

from maxmargin.estimators.ball import EnclosingBall
from maxmargin.estimators.kernel import SVC
from maxmargin.estimators.linear import LinearSVC
from maxmargin.estimators.persistence.model_file import ModelFileError, load_model, save_model

__all__ = ["SVC", "EnclosingBall", "LinearSVC", "ModelFileError", "load_model", "save_model"]
