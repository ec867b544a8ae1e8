"""Numbers and names as the page writes them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.words import label_text

NOT_KNOWN = "not known"
LONGEST_NAME = 80  # characters of a feature's name or a label; the middle of longer ones is left out


def number(value: float) -> str:
    """A number to four digits, for people.

    >>> number(1234567.0), number(0.000123456), number(float("nan")), number(float("inf"))
    ('1,235,000', '0.0001235', 'not known', 'infinite')
    """
    if np.isnan(value):
        return NOT_KNOWN
    if np.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    rounded = float(f"{value:.4g}")
    return f"{rounded:,.0f}" if 1e4 <= abs(rounded) < 1e9 else f"{rounded:.4g}"


def number_range(values: Any) -> str:
    """A number, or the smallest and the largest of several.

    >>> number_range(0.5), number_range([3.0, 1.0]), number_range([1.0, float("nan")])
    ('0.5', '1 to 3', '1 (some not known)')
    """
    several = np.unique(np.asarray(values, dtype=np.float64))
    known = several[~np.isnan(several)]
    if not known.size:
        return NOT_KNOWN
    text = number(known[0]) if known.size == 1 else f"{number(known[0])} to {number(known[-1])}"
    return text if known.size == several.size else f"{text} (some {NOT_KNOWN})"


def seconds(time: float) -> str:
    """A time to three digits, or to the second.

    >>> seconds(0.0123456), seconds(12345.6)
    ('0.0123 s', '12,346 s')
    """
    return f"{time:.3g} s" if time < 999.5 else f"{time:,.0f} s"


def shortened(name: str) -> str:
    """A name without its middle where it is very long.

    >>> shortened("age"), len(shortened("long " * 1000))
    ('age', 80)
    """
    if len(name) <= LONGEST_NAME:
        return name
    half = LONGEST_NAME // 2
    return f"{name[:half]}…{name[half + 1 - LONGEST_NAME :]}"


def class_names(model: MarginClassifier) -> list[str]:
    """The classes as text."""
    return [shortened(label) for label in label_text(model.classes_)]


def problem_names(model: MarginClassifier) -> list[str]:
    """The names of the binary problems; a single one is named after both classes."""
    names = [shortened(name) for name in model._strategy.names]
    return names if len(names) > 1 else [" against ".join(class_names(model))]


def callable_name(function: Any) -> str:
    """The name of a function, or else of its type; never its address, which changes from run to run.

    >>> callable_name(len), callable_name(lambda x: x), callable_name(partial(len))
    ('len', 'lambda', 'len')
    """
    if isinstance(function, partial):
        return callable_name(function.func)
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")


def version() -> str:
    """The version of the library."""
    from maxmargin import __version__

    return __version__
