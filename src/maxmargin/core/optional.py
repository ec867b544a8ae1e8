"""Optional packages: the one place that imports them and, if they are missing, says how to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The extra of this library that installs a package. pandas is in none: who asks for a data frame usually has it.
EXTRAS = {
    "dask": "dask",
    "distributed": "dask",
    "h5py": "stores",
    "matplotlib": "plot",
    "pyarrow": "stores",
    "rich": "cli",
    "typer": "cli",
    "zarr": "stores",
}


class MissingPackageError(ImportError):
    """An optional package is needed and not installed."""


def import_optional(module: str, purpose: str) -> Any:
    """Import a module of an optional package.

    Parameters
    ----------
    module : str
        The module, such as "matplotlib.pyplot".
    purpose : str
        What needs it, as the subject of a sentence: "drawing".

    Raises
    ------
    MissingPackageError
        If it cannot be imported; the message is one line and says what to install.

    Examples
    --------
    >>> from maxmargin.core.optional import import_optional
    >>> import_optional("math", "this example").floor(2.5)
    2
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        # A package that is there, but broken, gives its own reason.
        absent = isinstance(error, ModuleNotFoundError) and error.name == package
        raise MissingPackageError(missing(package, purpose, "" if absent else str(error))) from error


def missing(package: str, purpose: str, reason: str = "") -> str:
    """The message that an optional package is missing, or cannot be imported for some reason.

    Examples
    --------
    >>> from maxmargin.core.optional import missing
    >>> print(missing("zarr", "writing a.zarr"))
    writing a.zarr needs zarr, which is not installed: pip install 'maxmargin[stores]', or from a clone pip install
    '.[stores]'
    """
    problem = f"cannot be imported ({' '.join(reason.split())})" if reason else "is not installed"
    extra = EXTRAS.get(package)
    remedy = (
        f"pip install {package}"
        if extra is None
        else f"pip install 'maxmargin[{extra}]', or from a clone pip install '.[{extra}]'"
    )
    return f"{purpose} needs {package}, which {problem}: {remedy}"
