"""scikit-learn estimators that use the solvers."""

from typing import TYPE_CHECKING

from maxmargin.core.lazy import imported_on_use

if TYPE_CHECKING:
    from maxmargin.estimators.ball import EnclosingBall
    from maxmargin.estimators.by_need import Decisions, RangeWarning
    from maxmargin.estimators.cross_validated import SVCCV, LinearSVCCV
    from maxmargin.estimators.kernel import SVC
    from maxmargin.estimators.linear import LinearSVC
    from maxmargin.estimators.path import Path, PathPoint, slack_path
    from maxmargin.estimators.persistence.model_file import ModelFileError, load_model, save_model

_HOMES = {
    "maxmargin.estimators.ball": "EnclosingBall",
    "maxmargin.estimators.by_need": "Decisions RangeWarning",
    "maxmargin.estimators.cross_validated": "LinearSVCCV SVCCV",
    "maxmargin.estimators.kernel": "SVC",
    "maxmargin.estimators.linear": "LinearSVC",
    "maxmargin.estimators.path": "Path PathPoint slack_path",
    "maxmargin.estimators.persistence.model_file": "ModelFileError load_model save_model",
}
__getattr__, __dir__ = imported_on_use("maxmargin.estimators", _HOMES)

__all__ = [
    "SVC",
    "SVCCV",
    "Decisions",
    "EnclosingBall",
    "LinearSVC",
    "LinearSVCCV",
    "ModelFileError",
    "Path",
    "PathPoint",
    "RangeWarning",
    "load_model",
    "save_model",
    "slack_path",
]
