"""Fitted models in files that are safe to take from a stranger.

A model file is a zip archive of `model.json`, which says what the model is, and of NumPy arrays whose shapes follow
from that. Nothing in it is pickled, so loading runs nothing; nothing is compressed, so no part is larger than the file.
"""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import math
import os
import reprlib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import maxmargin
from maxmargin.data import atomic_write
from maxmargin.estimators.linear import LinearSVC
from maxmargin.problems import Certificate
from maxmargin.solvers import SOLVERS, Row, Solver, Trace

FORMAT = "maxmargin model"
FORMAT_VERSION = 2

_ESTIMATORS: dict[str, type[LinearSVC]] = {"LinearSVC": LinearSVC}
_HEADER = "model.json"
_NUMERIC_LABELS = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float32",
    "float64",
)
_TRACE_TYPES = {field.name: "<i8" if field.type == "int" else "<f8" for field in dataclasses.fields(Row)}
_MOST_NPY_HEADER = 4096


class ModelFileError(ValueError):
    """A file is not a model that this version can load."""


def save_model(
    model: LinearSVC, path: str | os.PathLike[str], *, notes: Mapping[str, str | float | None] | None = None
) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : LinearSVC
        A fitted model. Its labels are numbers, booleans or strings.
    path : str or path
        The file, by custom with the extension .mm.
    notes : mapping of str to str, number or None, optional
        Anything else to keep with the model, such as the name of the data; `maxmargin info` shows it.

    See Also
    --------
    load_model : The way back.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from maxmargin import LinearSVC, load_model, save_model
    >>> X, y = [[0.0, 1.0], [1.0, 0.0]], ["up", "right"]
    >>> model = LinearSVC(slack=0.0, max_iter=10, random_state=0).fit(X, y)
    >>> path = Path(tempfile.mkdtemp()) / "directions.mm"
    >>> save_model(model, path)
    >>> load_model(path).predict([[0.1, 0.9]]).tolist()
    ['up']
    """
    if type(model) not in _ESTIMATORS.values():
        raise TypeError(f"expected a fitted {' or '.join(_ESTIMATORS)}; got {type(model).__name__}")
    check_is_fitted(model, "coef_")
    plain_notes = _table(_scalar)(_to_json(dict(notes or {})))
    header = json.dumps({**describe(model), "notes": plain_notes}, allow_nan=False, indent=1)
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        with _new_member(archive, _HEADER) as member:
            member.write(header.encode())
        for name, array in _arrays_of(model).items():
            with _new_member(archive, name) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def load_model(path: str | os.PathLike[str]) -> LinearSVC:
    """Read a model that :func:`save_model` has written; it predicts the same bits.

    Parameters
    ----------
    path : str or path
        The file. It may come from a stranger: nothing in it is run, and it takes no more memory than a few times the
        size of the file.

    Returns
    -------
    LinearSVC
        Fitted, with all attributes but `support_vectors_`, which are rows of the training data.

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, or from a later version that writes another format.
    OSError
        If it cannot be read at all.
    """
    return read_model(path)[0]


def read_model(path: str | os.PathLike[str]) -> tuple[LinearSVC, dict[str, Any]]:
    """The model in a file, and the notes that were saved with it."""
    with open(path, "rb") as file, _naming(path, file), zipfile.ZipFile(file) as archive:
        header = _read_header(archive)
        model = _build(header)
        k, d, checks = len(header["problems"]), header["n_features_in"], header["checks"]
        shapes = {"coef.npy": ("<f8", (k, d)), "intercept.npy": ("<f8", (k,))}
        shapes |= {f"trace_{name}.npy": (dtype, (sum(checks),)) for name, dtype in _TRACE_TYPES.items()}
        if header["n_support"] is not None:
            shapes |= {
                "support.npy": ("<i8", (header["n_support"],)),
                "dual_coef.npy": ("<f8", (k, header["n_support"])),
            }
        if wrong := set(archive.namelist()) ^ {_HEADER, *shapes}:
            raise _Wrong(f"missing or not expected in it: {', '.join(sorted(wrong))}")
        arrays = {name.removesuffix(".npy"): _read_array(archive, name, *shape) for name, shape in shapes.items()}

    columns = {name: arrays.pop(f"trace_{name}").tolist() for name in _TRACE_TYPES}
    rows = [Row(**dict(zip(columns, cells, strict=True))) for cells in zip(*columns.values(), strict=True)]
    traces = [Trace(rows[start:end]) for start, end in pairwise(accumulate(checks, initial=0))]
    model.trace_ = traces if k > 1 else traces[0]
    for name, array in arrays.items():
        setattr(model, f"{name}_", array)
    return model, header["notes"]


def describe(model: LinearSVC) -> dict[str, Any]:
    """All of a fitted model but its arrays, as JSON has it: null for what is not known, "inf" for infinity."""
    many = model.classes_.size > 2
    each = {
        name: list(getattr(model, f"{name}_")) if many else [getattr(model, f"{name}_")]
        for name in ("margin", "slack", "C", "certificate", "stopped", "promise", "trace")
    }
    names = getattr(model, "feature_names_in_", None)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": maxmargin.__version__,
        "estimator": type(model).__name__,
        "parameters": {name: _parameter_to_json(name, v) for name, v in model.get_params(deep=False).items()},
        "classes": _labels_to_json(model.classes_),
        "n_features_in": int(model.n_features_in_),
        "feature_names_in": None if names is None else names.tolist(),
        "problems": [
            _to_json(
                {
                    "margin": margin,
                    "slack": slack,
                    "C": C,
                    "certificate": dataclasses.asdict(certificate),
                    "stopped": stopped,
                    "promise": promise,
                }
            )
            for margin, slack, C, certificate, stopped, promise, _ in zip(*each.values(), strict=True)
        ],
        "checks": [len(trace) for trace in each["trace"]],
        "n_support": model.support_.size if hasattr(model, "support_") else None,
        **{name: _to_json(getattr(model, f"{name}_")) for name in _WHOLE},
    }


# Writing


def _arrays_of(model: LinearSVC) -> dict[str, NDArray[Any]]:
    traces = model.trace_ if model.classes_.size > 2 else [model.trace_]
    arrays = {"coef.npy": model.coef_, "intercept.npy": model.intercept_}
    if hasattr(model, "support_"):
        arrays |= {"support.npy": model.support_.astype("<i8"), "dual_coef.npy": model.dual_coef_}
    for name, dtype in _TRACE_TYPES.items():
        arrays[f"trace_{name}.npy"] = np.concatenate([trace.column(name) for trace in traces]).astype(dtype)
    return {name: np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for name, a in arrays.items()}


def _new_member(archive: zipfile.ZipFile, name: str) -> Any:
    # No time stamp: the same model gives the same bytes.
    member = zipfile.ZipInfo(name)
    member.external_attr = 0o644 << 16
    return archive.open(member, "w", force_zip64=True)


def _to_json(value: Any) -> Any:
    """Plain Python, with null for NaN and strings for infinities: JSON has neither."""
    if isinstance(value, dict):
        return {name: _to_json(item) for name, item in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _parameter_to_json(name: str, value: Any) -> Any:
    if isinstance(value, Solver):
        if SOLVERS.get(value.name) is not type(value):
            raise ValueError(f"{name} is a {type(value).__name__}, which maxmargin.solvers.SOLVERS does not have")
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
        return {"solver": value.name, "fields": {field: _parameter_to_json(field, v) for field, v in fields.items()}}
    if isinstance(value, dict):
        return {"items": [[_parameter_to_json(name, of) for of in pair] for pair in value.items()]}
    value = _to_json(value)
    if not isinstance(value, (str, bool, int, float, type(None))):
        raise ValueError(
            f"the parameter {name} is a {type(value).__name__}, which a model file cannot hold; before saving, replace "
            f"it with a number, a string or None: model.set_params({name}=None)"
        )
    return value


def _labels_to_json(classes: NDArray[Any]) -> dict[str, Any]:
    values = classes.tolist()
    if classes.dtype.kind == "U" or (classes.dtype.kind == "O" and all(isinstance(label, str) for label in values)):
        return {"type": "str" if classes.dtype.kind == "U" else "object", "values": [str(label) for label in values]}
    if classes.dtype.name not in _NUMERIC_LABELS:
        raise ValueError(f"the labels are {classes.dtype}; a model file holds numbers, booleans or strings")
    return {"type": classes.dtype.name, "values": values}


# Reading: a reader takes what stands in the file and returns what it means, or raises _Wrong


class _Wrong(ValueError):
    """Something in the file is not as expected."""


Reader = Callable[[Any], Any]


@contextmanager
def _naming(path: str | os.PathLike[str], file: BinaryIO) -> Iterator[None]:
    """Turn whatever a bad file leads to into an error that says which file, what is wrong, and what to do."""
    remedy = "Give a file that `maxmargin train` or maxmargin.save_model has written."
    start = file.read(4)
    if start != b"PK\3\4":
        raise ModelFileError(
            f"{path} is not a model file: it starts with {start!r}, not as a zip archive does. {remedy}"
        )
    file.seek(0)
    try:
        yield
    except ModelFileError:
        raise
    except _Wrong as error:
        raise ModelFileError(f"{path} is not a model file that can be loaded: {error}. {remedy}") from error
    except (zipfile.BadZipFile, EOFError, OSError, OverflowError, RuntimeError, ValueError, KeyError) as error:
        # A place in the file that cannot be is an invalid argument; anything else is a fault of the system.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise ModelFileError(
            f"{path} is damaged or cut off ({error}). Copy it again from where it came from."
        ) from error


def _read_member(archive: zipfile.ZipFile, name: str, least: int = 0, most: int | None = None) -> bytes:
    """The bytes of a member, whose size is checked before they are read."""
    if name not in archive.namelist():
        raise _Wrong(f"{name} is missing; it holds {reprlib.repr(archive.namelist())}")
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        raise _Wrong(f"{name} is compressed, which save_model never does")
    assert archive.fp is not None
    if info.file_size > os.fstat(archive.fp.fileno()).st_size:
        raise _Wrong(f"{name} claims {info.file_size:,} bytes, more than the file has")
    if info.file_size < least or (most is not None and info.file_size > most):
        raise _Wrong(f"{name} has {info.file_size:,} bytes, but for its shape about {least:,} were expected")
    return archive.read(info)


def _read_array(archive: zipfile.ZipFile, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    data = io.BytesIO(_read_member(archive, name, size, size + _MOST_NPY_HEADER))
    if (version := np.lib.format.read_magic(data)) != (1, 0):
        raise _Wrong(f"{name} is an array file of version {version}; expected (1, 0)")
    found_shape, fortran, found_dtype = np.lib.format.read_array_header_1_0(data)
    if (found_shape, fortran, found_dtype) != (shape, False, np.dtype(dtype)):
        raise _Wrong(f"{name} holds {found_dtype} of shape {found_shape}; expected {np.dtype(dtype)} of shape {shape}")
    if len(data.getbuffer()) - data.tell() != size:
        raise _Wrong(f"{name} holds more or fewer numbers than its shape {shape} says")
    values = np.frombuffer(data.read(), dtype).reshape(shape)
    return values.astype(values.dtype.newbyteorder("="))


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    text = _read_member(archive, _HEADER)
    try:
        header = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise _Wrong(f"{_HEADER} is nested too deeply") from None
    except ValueError as error:
        raise _Wrong(f"{_HEADER} is not JSON ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _Wrong(f"{_HEADER} does not say that its format is {FORMAT!r}")
    version, library = _count(header.get("format_version")), _text(header.get("library_version"))
    if version != FORMAT_VERSION:
        raise ModelFileError(
            f"{getattr(archive.fp, 'name', 'the file')} was written by maxmargin {library} in version {version} of the "
            f"format; this is maxmargin {maxmargin.__version__}, which reads version {FORMAT_VERSION}. Install the "
            "other one (pip install --upgrade maxmargin), or train again."
        )
    fields: dict[str, Any] = _record(**_FIELDS)(header)
    return fields


def _build(header: dict[str, Any]) -> LinearSVC:
    """The model without its arrays."""
    estimator, problems = _ESTIMATORS[header["estimator"]], header["problems"]
    model = estimator()
    if unknown := header["parameters"].keys() - model.get_params(deep=False).keys():
        raise _Wrong(f"unknown parameters: {', '.join(sorted(unknown))}; it was written by {header['library_version']}")
    model.set_params(**header["parameters"])
    try:
        model._validate_params()
    except ValueError as error:
        raise _Wrong(str(error)) from error
    model.classes_, d, names = header["classes"], header["n_features_in"], header["feature_names_in"]
    many = model.classes_.size > 2
    k = model.classes_.size if many else 1
    if len(problems) != k or len(header["checks"]) != k:
        raise _Wrong(f"it has {len(problems)} problems for {model.classes_.size} classes")
    model.n_features_in_ = d
    if names is not None:
        if len(names) != d:
            raise _Wrong(f"it has {len(names)} names of {d} features")
        model.feature_names_in_ = np.array(names, dtype=object)
    for name in _PROBLEM:
        values = [problem[name] for problem in problems]
        as_array = many and name in ("margin", "slack", "C")
        setattr(model, f"{name}_", np.array(values) if as_array else values if many else values[0])
    for name in _WHOLE:
        setattr(model, f"{name}_", header[name])
    model._training_data = None
    return model


def _no_constant(text: str) -> Any:
    raise ValueError(f"it holds {text}")


def _expected(what: str, value: Any) -> _Wrong:
    return _Wrong(f"expected {what}; found {reprlib.repr(value)}")


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise _expected("a count", value)
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _expected("a string", value)
    return value


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if value in ("inf", "-inf") or (type(value) in (int, float) and abs(value) < 2**1023):
        return float(value)
    raise _expected("a number, null or an infinity", value)


def _scalar(value: Any) -> Any:
    if value in ("inf", "-inf"):
        return float(value)
    if not isinstance(value, (str, bool, int, float, type(None))):
        raise _expected("a number, a string, true, false or null", value)
    return value


def _optional(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _list(read: Reader) -> Reader:
    def read_list(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _expected("a list", value)
        return [read(item) for item in value]

    return read_list


def _table(read: Reader) -> Reader:
    """An object with any names, its values all of one kind."""

    def read_table(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _expected("an object", value)
        return {name: read(item) for name, item in value.items()}

    return read_table


def _record(**fields: Reader) -> Reader:
    """An object with these names and no others."""

    def read_record(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or value.keys() != fields.keys():
            raise _expected(f"an object with {', '.join(fields)}", value)
        result = {}
        for name, read in fields.items():
            try:
                result[name] = read(value[name])
            except _Wrong as error:
                raise _Wrong(f"{name}: {error}") from None
        return result

    return read_record


def _estimator(value: Any) -> str:
    if value not in _ESTIMATORS:
        raise _expected(" or ".join(_ESTIMATORS), value)
    return str(value)


def _parameter(value: Any) -> Any:
    if not isinstance(value, dict):
        return _scalar(value)
    if value.keys() == {"items"}:
        pairs = _list(_list(_scalar))(value["items"])
        if any(len(pair) != 2 for pair in pairs):
            raise _expected("pairs", pairs)
        return dict(pairs)
    found = _record(solver=_text, fields=_table(_scalar))(value)
    solver = SOLVERS.get(found["solver"])
    if solver is None:
        raise _Wrong(f"the solver {found['solver']!r} is not known; import the module that defines it first")
    try:
        return solver(**found["fields"])
    except (TypeError, ValueError) as error:
        raise _Wrong(f"the solver {found['solver']!r} cannot be made ({error})") from error


def _labels(value: Any) -> NDArray[Any]:
    found = _record(type=_text, values=_list(_scalar))(value)
    name, values = found["type"], found["values"]
    kinds: dict[str, Any] = {"b": bool, "i": int, "u": int, "f": (int, float)}
    if name not in ("str", "object", *_NUMERIC_LABELS):
        raise _expected(f"labels of the type str, object or {', '.join(_NUMERIC_LABELS)}", name)
    kind = kinds.get(np.dtype(name).kind, str)
    if not all(isinstance(label, kind) for label in values) or len(set(values)) != len(values) or len(values) < 2:
        raise _expected(f"two or more different labels of the type {name}", values)
    try:
        return np.array(values, dtype=name)
    except OverflowError as error:
        raise _Wrong(str(error)) from error


_PROBLEM: dict[str, Reader] = {
    "margin": _number,
    "slack": _number,
    "C": _number,
    "certificate": lambda value: Certificate(
        **_record(primal=_number, dual=_number, why_not=_text, form=_text, provided=_text)(value)
    ),
    "stopped": _text,
    "promise": _table(_number),
}
_WHOLE: dict[str, Reader] = {
    "n_iter": _count,
    "entries_read": _count,
    "kernel_evaluations": _count,
    "reads": _table(_count),
    "scale": _number,
    "n_zero_rows": _optional(_count),
    "solver": _text,
    "loss": _text,
}
_FIELDS: dict[str, Reader] = {
    "format": _text,
    "format_version": _count,
    "library_version": _text,
    "estimator": _estimator,
    "parameters": _table(_parameter),
    "classes": _labels,
    "n_features_in": _count,
    "feature_names_in": _optional(_list(_text)),
    "problems": _list(_record(**_PROBLEM)),
    "checks": _list(_count),
    "n_support": _optional(_count),
    **_WHOLE,
    "notes": _table(_scalar),
}
