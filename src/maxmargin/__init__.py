"""Support vector machines that train fast, certify how good they are, and can learn without reading all of the data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxmargin.estimators import (
        SVC,
        SVCCV,
        EnclosingBall,
        LinearSVC,
        LinearSVCCV,
        ModelFileError,
        load_model,
        save_model,
        slack_path,
    )
    from maxmargin.problems import RegularizedSVM, SlackSVM
    from maxmargin.solvers import solve

__all__ = [
    "SVC",
    "SVCCV",
    "EnclosingBall",
    "LinearSVC",
    "LinearSVCCV",
    "ModelFileError",
    "RegularizedSVM",
    "SlackSVM",
    "load_model",
    "save_model",
    "slack_path",
    "solve",
]
__version__ = "0.1.0"

# The package from which each name is imported on first use, so that the command's help need not import scikit-learn.
_HOMES = {
    **dict.fromkeys(("SVC", "SVCCV", "EnclosingBall", "LinearSVC", "LinearSVCCV", "ModelFileError"), "estimators"),
    **dict.fromkeys(("load_model", "save_model", "slack_path"), "estimators"),
    **dict.fromkeys(("RegularizedSVM", "SlackSVM"), "problems"),
    "solve": "solvers",
}
_PACKAGES = ("core", "data", "display", "estimators", "problems", "solvers")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"maxmargin.{name}")
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(f"maxmargin.{_HOMES[name]}"), name)
        return value
    raise AttributeError(f"module 'maxmargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
