"""Conversion of the fields in the header of a model file to JSON and back.

A reader takes a value from the file and returns the Python object that it stands for, or raises :class:`Wrong`.
"""

from __future__ import annotations

import dataclasses
import math
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.engine.solver import AnySolver
from maxmargin.solvers import Solver

NUMERIC_LABELS = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float32",
    "float64",
)

Reader = Callable[[Any], Any]


class Wrong(ValueError):
    """The error that something in the file is not as expected."""


# Writing


def to_json(value: object) -> Any:
    """Convert to plain Python, with None for NaN and strings for infinities, because JSON has neither."""
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def parameter_to_json(name: str, value: object, solvers: Mapping[str, type[AnySolver]]) -> Any:
    """Convert the value of a parameter; a solver is stored by its name in the table `solvers`."""
    if isinstance(value, Solver):
        if solvers.get(value.name) is not type(value):
            raise ValueError(f"{name} is a {type(value).__name__}, which is not one of {', '.join(solvers)}")
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
        plain = {field: parameter_to_json(field, item, solvers) for field, item in fields.items()}
        return {"solver": value.name, "fields": plain}
    if isinstance(value, dict):
        return {"items": [[parameter_to_json(name, of, solvers) for of in pair] for pair in value.items()]}
    if callable(value):
        raise ValueError(
            f"the parameter {name} is a function, which a model file cannot hold, as nothing in it can be run; keep "
            "the model as a pickle, or train with a kernel that has a name"
        )
    value = to_json(value)
    if not isinstance(value, (str, bool, int, float, type(None))):
        raise ValueError(
            f"the parameter {name} is a {type(value).__name__}, which a model file cannot hold; before saving, replace "
            f"it with a number, a string or None: model.set_params({name}=None)"
        )
    return value


def labels_to_json(classes: NDArray[Any]) -> dict[str, Any]:
    values = classes.tolist()
    if classes.dtype.kind == "U" or (classes.dtype.kind == "O" and all(isinstance(label, str) for label in values)):
        return {"type": "str" if classes.dtype.kind == "U" else "object", "values": [str(label) for label in values]}
    if classes.dtype.name not in NUMERIC_LABELS:
        raise ValueError(f"the labels are {classes.dtype}; a model file holds numbers, booleans or strings")
    return {"type": classes.dtype.name, "values": values}


# Reading


def expected(what: str, value: object) -> Wrong:
    return Wrong(f"expected {what}; found {reprlib.repr(value)}")


def count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise expected("a count", value)
    return value


def text(value: object) -> str:
    if type(value) is not str:
        raise expected("a string", value)
    return value


def number(value: Any) -> float:
    if value is None:
        return math.nan
    if value in ("inf", "-inf") or (type(value) in (int, float) and abs(value) < 2**1023):
        return float(value)
    raise expected("a number, null or an infinity", value)


def scalar(value: object) -> Any:
    if value in ("inf", "-inf"):
        return float(value)
    if not isinstance(value, (str, bool, int, float, type(None))):
        raise expected("a number, a string, true, false or null", value)
    return value


def optional(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def list_of(read: Reader) -> Reader:
    def read_list(value: object) -> list[Any]:
        if not isinstance(value, list):
            raise expected("a list", value)
        return [read(item) for item in value]

    return read_list


def table(read: Reader) -> Reader:
    """Read an object with any names, whose values are all of one kind."""

    def read_table(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise expected("an object", value)
        return {name: read(item) for name, item in value.items()}

    return read_table


def record(**fields: Reader) -> Reader:
    """Read an object with exactly these names."""

    def read_record(value: object) -> dict[str, Any]:
        if not isinstance(value, dict) or value.keys() != fields.keys():
            raise expected(f"an object with {', '.join(fields)}", value)
        result = {}
        for name, read in fields.items():
            try:
                result[name] = read(value[name])
            except Wrong as error:
                raise Wrong(f"{name}: {error}") from None
        return result

    return read_record


def parameter(solvers: Mapping[str, type[AnySolver]]) -> Reader:
    """Read the value of a parameter; a solver is looked up by its name in the table `solvers`."""

    def read_parameter(value: object) -> Any:
        if not isinstance(value, dict):
            return scalar(value)
        if value.keys() == {"items"}:
            pairs = list_of(list_of(scalar))(value["items"])
            if any(len(pair) != 2 for pair in pairs):
                raise expected("pairs", pairs)
            return dict(pairs)
        found = record(solver=text, fields=table(scalar))(value)
        if found["solver"] not in solvers:
            raise Wrong(f"the solver {found['solver']!r} is not known; import the module that defines it first")
        return made("solver", found["solver"], solvers[found["solver"]], found["fields"])

    return read_parameter


def made(what: str, name: str, kind: Callable[..., Any], fields: Mapping[str, Any]) -> Any:
    """Create an object from its fields in the file."""
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        raise Wrong(f"the {what} {name!r} cannot be made ({error})") from error


def labels(value: object) -> NDArray[Any]:
    found = record(type=text, values=list_of(scalar))(value)
    name, values = found["type"], found["values"]
    kinds: dict[str, Any] = {"b": bool, "i": int, "u": int, "f": (int, float)}
    if name not in ("str", "object", *NUMERIC_LABELS):
        raise expected(f"labels of the type str, object or {', '.join(NUMERIC_LABELS)}", name)
    kind = kinds.get(np.dtype(name).kind, str)
    if not all(isinstance(label, kind) for label in values) or len(set(values)) != len(values) or len(values) < 2:
        raise expected(f"two or more different labels of the type {name}", values)
    try:
        return np.array(values, dtype=name)
    except OverflowError as error:
        raise Wrong(str(error)) from error
