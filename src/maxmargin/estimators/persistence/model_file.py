"""Fitted models in files that are safe to load even from an untrusted source.

A model file is a zip archive of `model.json`, which describes the model, and of NumPy arrays whose shapes follow from
this description; `model_layout.py` lists them. Nothing is pickled, so loading a file runs no code from it. Nothing is
compressed, so no part is larger than the file.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import maxmargin
from maxmargin.data import atomic_write
from maxmargin.estimators.persistence.model_fields import (
    Reader,
    Wrong,
    count,
    expected,
    list_of,
    number,
    optional,
    parameter,
    parameter_to_json,
    record,
    scalar,
    table,
    text,
    to_json,
)
from maxmargin.estimators.persistence.model_layout import LAYOUTS
from maxmargin.problems import Certificates
from maxmargin.solvers import Row, Trace, Traces

FORMAT = "maxmargin model"
FORMAT_VERSION = 4

_HEADER = "model.json"
_ESTIMATORS = ", ".join(LAYOUTS)
_TRACE_TYPES = {field.name: "<i8" if field.type == "int" else "<f8" for field in dataclasses.fields(Row)}
_MOST_NPY_HEADER = 4096


class ModelFileError(ValueError):
    """The error that a file is not a model that this version can load."""


def save_model(
    model: Any, path: str | os.PathLike[str], *, notes: Mapping[str, str | float | None] | None = None
) -> None:
    """Save a fitted model to a file.

    The file is written completely or not at all.

    Parameters
    ----------
    model : LinearSVC, SVC or EnclosingBall
        A fitted model, from one machine or from a cluster. Its labels must be numbers, booleans or strings, and its
        kernel, if any, must be a named one.
    path : str or path
        The file. The usual extension is .mm.
    notes : mapping of str to str, number or None, default=None
        Additional information to store with the model, such as the name of the data; `maxmargin info` shows it.

    See Also
    --------
    load_model : Load a model from a file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from maxmargin import LinearSVC, load_model, save_model
    >>> X, y = [[0.0, 1.0], [1.0, 0.0]], ["up", "right"]
    >>> model = LinearSVC(slack=0.0, max_iter=5, random_state=0).fit(X, y)
    >>> path = Path(tempfile.mkdtemp()) / "directions.mm"
    >>> save_model(model, path)
    >>> load_model(path).predict([[0.1, 0.9]]).tolist()
    ['up']
    """
    if hasattr(model, "to_local"):  # fitted on a cluster
        model = model.to_local()
    if type(model) not in (layout.estimator for layout in LAYOUTS.values()):
        raise TypeError(f"expected a fitted {_ESTIMATORS}; got {type(model).__name__}{_instead(model)}")
    check_is_fitted(model, "certificate_")
    plain_notes = table(scalar)(to_json(dict(notes or {})))
    header = json.dumps({**describe(model), "notes": plain_notes}, allow_nan=False, indent=1)
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        with _new_member(archive, _HEADER) as member:
            member.write(header.encode())
        for name, array in _arrays_of(model).items():
            with _new_member(archive, name) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a model that :func:`save_model` has saved.

    The loaded model gives the same predictions, to the bit.

    Parameters
    ----------
    path : str or path
        The file. It need not come from a trusted source: no code in it is run, and loading takes no more memory than a
        few times the size of the file.

    Returns
    -------
    LinearSVC, SVC or EnclosingBall
        The fitted model with all its attributes, except `support_vectors_` of LinearSVC, which are rows of the training
        data.

    Raises
    ------
    ModelFileError
        If the file is damaged, is not a model file, or has the format of a later version.
    OSError
        If the file cannot be read at all.
    """
    return read_model(path)[0]


def read_model(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Load the model in a file, and the notes that were saved with it."""
    with open(path, "rb") as file, _naming(path, file), zipfile.ZipFile(file) as archive:
        header = _read_header(archive)
        model, layout, checks = _build(header), LAYOUTS[header["estimator"]], [of["checks"] for of in header["traces"]]
        shapes = layout.shapes(model, header)
        # Older versions did not write prices.
        columns = [name for name in _TRACE_TYPES if name != "paid" or "trace_paid.npy" in archive.namelist()]
        shapes |= {f"trace_{name}": (_TRACE_TYPES[name], (sum(checks),)) for name in columns}
        if wrong := set(archive.namelist()) ^ {_HEADER, *(f"{name}.npy" for name in shapes)}:
            raise Wrong(f"missing or not expected in it: {', '.join(sorted(wrong))}")
        arrays = {name: _read_array(archive, f"{name}.npy", *shape) for name, shape in shapes.items()}
        cells = {name: arrays.pop(f"trace_{name}") for name in columns}
        # Older versions also wrote the kernel evaluations of a check as entries read.
        cells["entries_read"] = np.where(cells["kernel_evaluations"] > 0, 0, cells["entries_read"])
        layout.restore(model, header, arrays)

    checked = zip(*(column.tolist() for column in cells.values()), strict=True)
    rows = [Row(**dict(zip(cells, row, strict=True))) for row in checked]
    ends = pairwise(accumulate(checks, initial=0))
    traces = [Trace(rows[start:end], of["tol"]) for (start, end), of in zip(ends, header["traces"], strict=True)]
    model.trace_ = layout.of_all_problems(model, Traces, traces)
    return model, header["notes"]


def describe(model: Any) -> dict[str, Any]:
    """Describe a fitted model, without its arrays, in JSON: null means not known, and "inf" means infinity."""
    layout = LAYOUTS[type(model).__name__]
    names, one = (*layout.problem, "trace"), layout.problems(model) == 1
    each = {name: [getattr(model, f"{name}_")] if one else getattr(model, f"{name}_") for name in names}
    traces, features = each.pop("trace"), getattr(model, "feature_names_in_", None)
    each["certificate"] = [dataclasses.asdict(certificate) for certificate in each["certificate"]]
    parameters = model.get_params(deep=False).items()
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": maxmargin.__version__,
        "estimator": type(model).__name__,
        "parameters": {name: parameter_to_json(name, value, model._solvers) for name, value in parameters},
        "n_features_in": int(model.n_features_in_),
        "feature_names_in": None if features is None else features.tolist(),
        "problems": [to_json(dict(zip(each, of_one, strict=True))) for of_one in zip(*each.values(), strict=True)],
        "traces": [{"checks": len(trace), "tol": trace.tol} for trace in traces],
        **layout.describe(model),
    }


# Writing


def _instead(model: Any) -> str:
    """What to do with a model that has no file format of its own."""
    pickle = "which pickles: load only files that you trust"
    if hasattr(model, "steps"):
        return (
            f". Save the whole pipeline with joblib.dump(pipeline, path), {pickle}. Or save its last step alone, "
            "save_model(pipeline[-1], path), and prepare new data yourself as the other steps do"
        )
    if hasattr(model, "refit"):  # GridSearchCV and the like, LinearSVCCV, SVCCV
        return ". Save the best model of the search, save_model(search.best_estimator_, path), which refit=True fits"
    return f". Save it with joblib.dump(model, path), {pickle}" if isinstance(model, BaseEstimator) else ""


def _arrays_of(model: Any) -> dict[str, NDArray[Any]]:
    layout = LAYOUTS[type(model).__name__]
    traces, arrays = model.trace_ if layout.problems(model) > 1 else [model.trace_], layout.arrays(model)
    for name, dtype in _TRACE_TYPES.items():
        arrays[f"trace_{name}"] = np.concatenate([trace.column(name) for trace in traces]).astype(dtype)
    return {f"{name}.npy": np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for name, a in arrays.items()}


def _new_member(archive: zipfile.ZipFile, name: str) -> Any:
    # No time stamp: the same model gives the same bytes.
    member = zipfile.ZipInfo(name)
    member.external_attr = 0o644 << 16
    return archive.open(member, "w", force_zip64=True)


@contextmanager
def _naming(path: str | os.PathLike[str], file: BinaryIO) -> Iterator[None]:
    """Turn any error that a bad file causes into one that says which file, what is wrong, and what to do."""
    remedy = "Give a file that `maxmargin train` or maxmargin.save_model has written."
    if not file.seekable():
        raise ModelFileError(f"{path} is a pipe; a model is read from a regular file only. Save it to one first.")
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
    except Wrong as error:
        raise ModelFileError(f"{path} is not a model file that can be loaded: {error}. {remedy}") from error
    except (zipfile.BadZipFile, EOFError, OSError, OverflowError, RuntimeError, ValueError, KeyError) as error:
        # An impossible position in the file raises EINVAL; any other OSError is a fault of the system.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise ModelFileError(
            f"{path} is damaged or cut off ({error}). Copy it again from where it came from."
        ) from error


def _read_member(archive: zipfile.ZipFile, name: str, least: int = 0, most: int | None = None) -> bytes:
    """Read the bytes of a member after checking its size."""
    if name not in archive.namelist():
        raise Wrong(f"{name} is missing; it holds {reprlib.repr(archive.namelist())}")
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        raise Wrong(f"{name} is compressed, which save_model never does")
    assert archive.fp is not None
    if info.file_size > os.fstat(archive.fp.fileno()).st_size:
        raise Wrong(f"{name} claims {info.file_size:,} bytes, more than the file has")
    if info.file_size < least or (most is not None and info.file_size > most):
        raise Wrong(f"{name} has {info.file_size:,} bytes, but for its shape about {least:,} were expected")
    return archive.read(info)


def _read_array(archive: zipfile.ZipFile, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    data = io.BytesIO(_read_member(archive, name, size, size + _MOST_NPY_HEADER))
    if (version := np.lib.format.read_magic(data)) != (1, 0):
        raise Wrong(f"{name} is an array file of version {version}; expected (1, 0)")
    found_shape, fortran, found_dtype = np.lib.format.read_array_header_1_0(data)
    if (found_shape, fortran, found_dtype) != (shape, False, np.dtype(dtype)):
        raise Wrong(f"{name} holds {found_dtype} of shape {found_shape}; expected {np.dtype(dtype)} of shape {shape}")
    if len(data.getbuffer()) - data.tell() != size:
        raise Wrong(f"{name} holds more or fewer numbers than its shape {shape} says")
    values = np.frombuffer(data.read(), dtype).reshape(shape)
    return values.astype(values.dtype.newbyteorder("="))


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    written = _read_member(archive, _HEADER)
    try:
        header = json.loads(written, parse_constant=_no_constant)
    except RecursionError:
        raise Wrong(f"{_HEADER} is nested too deeply") from None
    except ValueError as error:
        raise Wrong(f"{_HEADER} is not JSON ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise Wrong(f"{_HEADER} does not say that its format is {FORMAT!r}")
    version, library = count(header.get("format_version")), text(header.get("library_version"))
    if version != FORMAT_VERSION:
        raise ModelFileError(
            f"{getattr(archive.fp, 'name', 'the file')} was written by maxmargin {library} in version {version} of the "
            f"format; this is maxmargin {maxmargin.__version__}, which reads version {FORMAT_VERSION}. Install the "
            "other one (pip install --upgrade maxmargin), or train again."
        )
    layout = LAYOUTS[_estimator(header.get("estimator"))]
    parameters = table(parameter(layout.estimator._solvers))
    problems = list_of(record(**layout.problem))
    return dict(record(**_FIELDS, parameters=parameters, problems=problems, **layout.whole, **layout.more)(header))


def _build(header: dict[str, Any]) -> Any:
    """Build the model without its arrays."""
    layout, problems = LAYOUTS[header["estimator"]], header["problems"]
    model = layout.estimator()
    if unknown := header["parameters"].keys() - model.get_params(deep=False).keys():
        raise Wrong(f"unknown parameters: {', '.join(sorted(unknown))}; it was written by {header['library_version']}")
    model.set_params(**header["parameters"])
    try:
        model._validate_params()
    except ValueError as error:
        raise Wrong(str(error)) from error
    layout.begin(model, header)
    d, names, k = header["n_features_in"], header["feature_names_in"], layout.problems(model)
    if len(problems) != k or len(header["traces"]) != k:
        raise Wrong(f"it has {len(problems)} problems and {len(header['traces'])} traces; expected {k} of each")
    model.n_features_in_ = d
    if names is not None:
        if len(names) != d:
            raise Wrong(f"it has {len(names)} names of {d} features")
        model.feature_names_in_ = np.array(names, dtype=object)
    for name in layout.problem:
        values = [problem[name] for problem in problems]
        as_array = k > 1 and name in ("margin", "slack", "C")
        setattr(model, f"{name}_", np.array(values) if as_array else values if k > 1 else values[0])
    certificates = [problem["certificate"] for problem in problems]
    model.certificate_ = layout.of_all_problems(model, Certificates, certificates)
    return model


def _no_constant(text: str) -> Any:
    raise ValueError(f"it holds {text}")


def _estimator(value: object) -> str:
    if value not in LAYOUTS:
        raise expected(_ESTIMATORS, value)
    return str(value)


_FIELDS: dict[str, Reader] = {
    "format": text,
    "format_version": count,
    "library_version": text,
    "estimator": _estimator,
    "n_features_in": count,
    "feature_names_in": optional(list_of(text)),
    "traces": list_of(record(checks=count, tol=optional(number))),
    "notes": table(scalar),
}
