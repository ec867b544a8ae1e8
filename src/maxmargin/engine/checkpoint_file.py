"""The file of a checkpoint: a header in JSON, arrays, and a checksum over all of it.

A file is written under a temporary name, flushed to the disk and renamed, so that at any time there is either the old
file or the new one. A file holds no code, and reading it runs none. The layout differs from that of a model file: a
model file consists of parts that any program can open, whereas a checkpoint is written often and read by the same
program.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from maxmargin.data.atomic import atomic_write

MAGIC = b"maxmargin checkpoint\n"
FORMAT_VERSION = 1
DIGEST_SIZE = 16  # size of the checksum in bytes
ALIGNMENT = 64  # bytes; arrays start at multiples of it
PIECE = 1 << 24  # bytes that are written or read at a time, so that large arrays are not copied


class CheckpointError(ValueError):
    """A run cannot continue from a checkpoint, because the checkpoint is damaged or belongs to another run."""


def write_checkpoint(path: str | os.PathLike[str], content: dict[str, Any], arrays: list[NDArray[Any]]) -> None:
    """Write a file, whole or not at all.

    Parameters
    ----------
    path : str or path
        The file; one that exists is replaced.
    content : dict
        Plain values that JSON can hold.
    arrays : list of arrays
        Arrays of any type except Python objects.
    """
    listed = [_layout(array) for array in arrays]
    header = json.dumps({"format": FORMAT_VERSION, "content": content, "arrays": listed}).encode()
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    with atomic_write(path) as file:
        for piece in _pieces(header, arrays):
            digest.update(piece)
            file.write(piece)
        file.write(digest.digest())


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """The content of a file and its arrays, after its checksum was compared; a damaged file is refused."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if file.read(len(MAGIC)) != MAGIC:
            raise CheckpointError(f"{path} is not a checkpoint of maxmargin; give another path, or delete it")
        if not _is_whole(file, size):
            raise CheckpointError(f"{path} is damaged or cut off: its checksum is wrong. Delete it to begin anew")
        file.seek(len(MAGIC))
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        if header["format"] != FORMAT_VERSION:
            raise CheckpointError(
                f"{path} has version {header['format']} of the format; this library reads version {FORMAT_VERSION}. "
                "Go on with the version of maxmargin that wrote it, or delete it to begin anew"
            )
        return header["content"], [_read_array(file, *layout) for layout in header["arrays"]]


def _pieces(header: bytes, arrays: list[NDArray[Any]]) -> Iterator[bytes | memoryview]:
    """All bytes of a file except its checksum, in order."""
    yield MAGIC
    yield len(header).to_bytes(8, "little")
    yield header
    position = len(MAGIC) + 8 + len(header)
    for array in arrays:
        yield bytes(-position % ALIGNMENT)
        position += -position % ALIGNMENT
        position += array.nbytes
        by_rows = np.atleast_1d(array.T if _is_by_columns(array) else array)
        lines = max(1, PIECE // max(1, by_rows[:1].nbytes))
        for start in range(0, len(by_rows) if array.size else 0, lines):
            yield np.ascontiguousarray(by_rows[start : start + lines]).reshape(-1).view(np.uint8).data


def _layout(array: NDArray[Any]) -> tuple[Any, tuple[int, ...], bool]:
    """The type and shape of an array, and whether it is stored by columns."""
    dtype = array.dtype.descr if array.dtype.names else array.dtype.str
    return dtype, array.shape, _is_by_columns(array)


def _is_by_columns(array: NDArray[Any]) -> bool:
    return bool(array.flags.f_contiguous and not array.flags.c_contiguous)


def _is_whole(file: BinaryIO, size: int) -> bool:
    """Whether the last bytes are the checksum of all bytes before them."""
    digest = hashlib.blake2b(MAGIC, digest_size=DIGEST_SIZE)
    left = size - len(MAGIC) - DIGEST_SIZE
    while left > 0 and (piece := file.read(min(PIECE, left))):
        digest.update(piece)
        left -= len(piece)
    return left == 0 and file.read() == digest.digest()


def _read_array(file: BinaryIO, dtype: Any, shape: list[int], by_columns: bool) -> NDArray[Any]:
    file.seek(-file.tell() % ALIGNMENT, os.SEEK_CUR)
    kind = np.dtype([tuple(field) for field in dtype] if isinstance(dtype, list) else dtype)
    array = np.empty(shape[::-1] if by_columns else shape, kind)
    file.readinto(array.reshape(-1).view(np.uint8))  # type: ignore[attr-defined]
    return array.T if by_columns else array


def remove_checkpoint(path: str | os.PathLike[str]) -> None:
    """Remove a checkpoint file if it exists."""
    Path(path).unlink(missing_ok=True)
