"""Signatures of runs: a checkpoint of other data or parameters is refused with a list of the differences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.core.source import Source, is_source
from maxmargin.engine.snapshot import PLAIN, CannotKeep, Snapshot

WHOLE_BYTES = 1 << 26  # bytes up to which arrays are compared as a whole, which takes 0.1 s
SAMPLED = 1024  # rows and columns, evenly spaced, at which the entries of larger arrays are compared
SAMPLED_BLOCKS = 3  # blocks of rows of a store that are compared: the first, the last and one between

Signature = dict[str, Any]


def signature_of(**parts: Any) -> Signature:
    """The signature of the given parts: a flat table of numbers, strings and checksums by name.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engine.signature import signature_of
    >>> signature_of(C=1.0, y=np.ones(3))
    {'C': 1.0, 'y': 'float64 (3,) 1244ffc7'}
    """
    return dict(_flat(parts))


def differences(written: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The differences, in words, between the signature that was written and the one of this run."""
    missing = "nothing"
    found = []
    for name in dict.fromkeys([*written, *here]):
        before, now = written.get(name, missing), here.get(name, missing)
        if before != now and not (before != before and now != now):  # NaN is the same as NaN
            found.append(f"{name}={before!r}, this call has {name}={now!r}")
    return found


def _flat(parts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in parts.items():
        described = _described(value)
        if isinstance(described, dict):
            yield from _flat(described, f"{prefix}{name}.")
        else:
            yield prefix + name, described


def _described(value: Any) -> Any:
    """A plain value that describes `value`, or a dictionary of parts that are yet to be described."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in PLAIN:
        return value
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {_checksum(value)}"
    if sp.issparse(value):
        arrays = [getattr(value, name) for name in ("data", "indices", "indptr")]
        return f"{value.dtype} {value.format} {value.shape} " + "".join(map(_checksum, arrays))
    if is_source(value):
        return f"{value.name} {value.dtype} {value.shape} {_sample_of(value)}"
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": _class_name(value), **{one.name: getattr(value, one.name) for one in fields(value)}}
    if isinstance(value, (list, tuple)) and all(type(item) in PLAIN for item in value):
        return str(tuple(value))
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', _class_name(value))}"
    try:
        shot = Snapshot({})
        return f"{_class_name(value)} {_checksum_of(repr(shot.plain(value)).encode(), *shot.arrays)}"
    except CannotKeep:
        return _class_name(value)


def _class_name(value: object) -> str:
    return type(value).__name__


def _checksum(array: NDArray[Any]) -> str:
    """The checksum of all entries, or of a fixed grid of entries if the array is large."""
    if array.nbytes > WHOLE_BYTES:
        most = SAMPLED if array.ndim > 1 else SAMPLED**2 // 16
        grid = [np.unique(np.linspace(0, size - 1, min(size, most)).astype(np.int64)) for size in array.shape]
        array = array[np.ix_(*grid)]
    return _checksum_of(array)


def _checksum_of(*parts: bytes | NDArray[Any]) -> str:
    digest = hashlib.blake2b(digest_size=4)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _sample_of(source: Source) -> str:
    """The checksum of a few blocks of a store; entries that have prices are not read."""
    rows = source.rows
    if rows.prices is not None:
        return "not read"
    blocks = np.unique(np.linspace(0, len(rows.starts) - 2, SAMPLED_BLOCKS).astype(np.int64))
    read = [rows.read(int(block)).lines for block in blocks]
    return _checksum_of(*(part for lines in read for part in _arrays_of(lines)))


def _arrays_of(lines: Any) -> list[NDArray[Any]]:
    return [lines.data, lines.indices, lines.indptr] if sp.issparse(lines) else [lines]
