"""Public names that are imported when they are first used, so that unused names cost no import time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported_on_use(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose names are defined in other modules.

    Parameters
    ----------
    package : str
        The name of the module.
    homes : mapping
        For each module that defines names, these names, separated by spaces.

    Examples
    --------
    >>> from maxmargin.core.lazy import imported_on_use
    >>> get, names = imported_on_use("maxmargin.core", {"math": "pi e"})
    >>> get("pi")
    3.141592653589793
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return get, names
