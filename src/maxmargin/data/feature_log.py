"""A log of computed features on disk. Records are only appended, so a crash loses at most the last record.

The layout is little-endian. The header consists of `MAGIC`, the number of bytes of a JSON object, its CRC-32 and the
object (shape, data type, version). A record for each line or part of a line follows: `RECORD` (axis, line, number of
entries, CRC-32 of the body, CRC-32 of these four) and the body. The body holds the positions of the entries as int64,
unless they are all entries of the line, and the values of the entries.
"""

from __future__ import annotations

import json
import os
import struct
import weakref
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices

MAGIC = b"maxmargin features 1\n"
HEADER = struct.Struct("<II")
RECORD = struct.Struct("<BqqII")


class LogError(ValueError):
    """The error that a log of features is damaged, holds other data, or is in use."""


class Piece(NamedTuple):
    """Entries of one line (a row or a column) that became known together.

    Attributes
    ----------
    axis : int
        0 for a row, 1 for a column.
    line : int
        The number of the row or column.
    where : array of int64
        The positions of the entries in the line, in ascending order.
    values : array
        The values of the entries.
    """

    axis: int
    line: int
    where: Indices
    values: NDArray[Any]


class FeatureLog:
    """An open log, to which no other object can append.

    Parameters
    ----------
    path : str or path
        The file, which is created if it does not exist.
    shape : tuple
        The numbers of rows and columns.
    dtype : dtype
        The type of the values.
    version : str
        The version of the functions that compute the features; a log of another version is refused.
    """

    def __init__(
        self, path: str | os.PathLike[str], shape: tuple[int, int], dtype: np.dtype[Any], version: str
    ) -> None:
        self.path, self.shape, self.dtype = os.fspath(path), shape, dtype.newbyteorder("<")
        self.head = {"shape": list(shape), "dtype": dtype.name, "version": version}
        # Unbuffered, so that each record is one write; if the process is killed, only the last record can be torn.
        self.file: BinaryIO = open(self.path, "a+b", buffering=0)  # noqa: SIM115
        self.close = weakref.finalize(self, self.file.close)
        try:
            _lock(self.file, self.path)
            self.size = os.fstat(self.file.fileno()).st_size
            self.start = self._check_head()
        except BaseException:
            self.close()
            raise

    def pieces(self) -> Iterator[Piece]:
        """Yield all complete records. A torn last record is removed from the file."""
        at = self.start
        while at < self.size:
            record = self._record(at)
            if record is None:
                self._truncate(at)
                return
            piece, at = record
            yield piece

    def append(self, piece: Piece) -> None:
        """Append a record; if it cannot be written, the log is unchanged."""
        axis, line, where, values = piece
        whole = where.size == self.shape[1 - axis]
        positions = b"" if whole else where.astype("<i8").tobytes()
        self._write(_head_of(axis, line, where.size, body := positions + values.astype(self.dtype).tobytes()) + body)

    def _write(self, data: bytes) -> None:
        try:
            written = self.file.write(data)
            if written != len(data):
                raise OSError(f"only {written} of {len(data)} bytes could be written")
        except BaseException as error:
            self._truncate(self.size)
            if isinstance(error, OSError):
                raise OSError(error.errno, f"cannot append to {self.path}: {error}. Free disk space.") from error
            raise
        self.size += len(data)

    def _truncate(self, size: int) -> None:
        self.file.truncate(size)
        self.size = size

    def _read(self, at: int, count: int) -> bytes:
        """Read `count` bytes, or fewer at the end of the file."""
        self.file.seek(at)
        return self.file.read(count)

    def _check_head(self) -> int:
        """Return the position of the first record. A file that is empty or has a torn header gets a new header."""
        text = json.dumps(self.head).encode()
        expected = MAGIC + HEADER.pack(len(text), zlib.crc32(text)) + text
        records = len(MAGIC) + HEADER.size
        start = self._read(0, records)
        if not MAGIC.startswith(start[: len(MAGIC)]):
            raise LogError(f"{self.path} is not a log of features; give the name of a new file, or of a feature log")
        length, checksum = HEADER.unpack(start[len(MAGIC) :]) if len(start) == records else (0, 0)
        head = self._read(records, length)
        if len(start) < records or len(head) < length:
            self._truncate(0)
            self._write(expected)
            return len(expected)
        if zlib.crc32(head) != checksum:
            raise LogError(f"the header of {self.path} is damaged; delete the file to compute its features again")
        given = json.loads(head)
        if given != self.head:
            other = [name for name in self.head if given.get(name) != self.head[name]]
            found, wanted = (", ".join(f"{name} {head.get(name)!r}" for name in other) for head in (given, self.head))
            raise LogError(f"{self.path} holds features of {found}, not of {wanted}; give another file, or delete it")
        return records + int(length)

    def _record(self, at: int) -> tuple[Piece, int] | None:
        """Return the record at this position and the position of the next one; None for a torn record at the end."""
        head = self._read(at, RECORD.size)
        if len(head) < RECORD.size:
            return None
        axis, line, count, checksum, own_checksum = RECORD.unpack(head)
        if zlib.crc32(head[:-4]) != own_checksum:
            # A system crash may leave zeros in place of the last bytes.
            if not any(head) and not any(self._read(at, self.size - at)):
                return None
            raise self._damaged(at)
        whole = count == self.shape[1 - axis]
        length = count * (self.dtype.itemsize + (0 if whole else 8))
        end = at + RECORD.size + length
        if end > self.size:
            return None
        body = self._read(at + RECORD.size, length)
        if zlib.crc32(body) != checksum:
            if end == self.size:
                return None
            raise self._damaged(at)
        where = np.arange(count) if whole else np.frombuffer(body, "<i8", count).astype(np.int64)
        values = np.frombuffer(body, self.dtype, count, offset=0 if whole else 8 * count)
        return Piece(axis, line, where, values.astype(self.dtype.newbyteorder("="))), end

    def _damaged(self, at: int) -> LogError:
        return LogError(
            f"the record at byte {at} of {self.path} is damaged. To use the records before it, cut the file there "
            f"(truncate -s {at} FILE)."
        )


def _head_of(axis: int, line: int, count: int, body: bytes) -> bytes:
    head = RECORD.pack(axis, line, count, zlib.crc32(body), 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head))


def _lock(file: BinaryIO, path: str) -> None:
    """Refuse a log that another object has open, if the operating system supports this check."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise LogError(f"{path} is in use by another source; close that one first") from error
