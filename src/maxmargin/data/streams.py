"""Files, pipes and standard input as byte streams that are opened once, and the error for malformed files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from maxmargin.data.atomic import atomic_write

COMPRESSED = (".gz", ".bz2", ".xz")
STANDARD_INPUT = "-"  # a path that means standard input

# Number of bytes read ahead to recognise a compression or a format; the rest of a longer first line is not used.
HEAD_BYTES = 1 << 16
# For random access, a stream up to this many bytes is copied into memory, and a longer one to a temporary file.
_SPOOLED_BYTES = 1 << 26

_DECOMPRESS: dict[bytes, Callable[[Any], Any]] = {
    rb"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": bz2.BZ2File,
    rb"\xfd7zXZ\0": lzma.LZMAFile,
}


class FileFormatError(ValueError):
    """The error that a file is malformed, or in a format that is not supported.

    Attributes
    ----------
    path : str
        The file.
    line, column : int or None
        The position of the error, counted from 1, if known. `column` counts characters in a LIBSVM file and cells in a
        table.
    """

    def __init__(self, path: object, line: int | None, column: int | None, message: str) -> None:
        self.path, self.line, self.column = str(path), line, column
        parts = (("line", line), ("column", column))
        place = "".join(f", {name} {number}" for name, number in parts if number is not None)
        super().__init__(f"{path}{place}: {message}")


class InputStream(io.BufferedReader):
    """The bytes of a file, a pipe or standard input, decompressed if they are compressed.

    A pipe can be read only once. Therefore it is opened once, and its format is recognised from bytes that are read
    ahead: `head` holds them, and `read` returns them too.

    Attributes
    ----------
    name : str
        The name of the stream in messages.
    head : bytes
        The first 65,536 bytes, or all bytes if there are fewer.
    path : Path or None
        A regular file that holds the same bytes and can be opened again for random access; None if there is none.
    """

    def __init__(self, source: _ReadAhead, path: Path | None) -> None:
        super().__init__(source, buffer_size=HEAD_BYTES)
        self.head, self.path = source.head, path


def open_to_read(path: str | os.PathLike[str]) -> InputStream:
    """Open a file, a pipe, or standard input for the name "-"; decompress gzip, bzip2 and xz."""
    regular = False
    if os.fspath(path) == STANDARD_INPUT:
        source = _ReadAhead(sys.stdin.buffer, "standard input", owned=None)
    else:
        file = open(path, "rb")  # noqa: SIM115
        source, regular = _ReadAhead(file, os.fspath(path), owned=file), os.path.isfile(path)
    # Closing the returned stream closes the file.
    for signature, decompress in _DECOMPRESS.items():
        if re.match(signature, source.head):
            source = _ReadAhead(decompress(io.BufferedReader(source, HEAD_BYTES)), source.name, owned=source)
            return InputStream(source, None)
    return InputStream(source, Path(path) if regular else None)


@contextmanager
def random_access(stream: InputStream) -> Iterator[IO[bytes]]:
    """Provide the same bytes as a file with random access, a copy if they come from a pipe or are compressed."""
    if stream.path is not None:
        with stream.path.open("rb") as file:
            yield file
        return
    with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0)
        yield cast("IO[bytes]", copy)


class _ReadAhead(io.RawIOBase):
    """A file whose first bytes are read ahead. An error meanwhile is raised only after the bytes before it are read."""

    def __init__(self, file: Any, name: str, owned: Any) -> None:
        self.name, self._file, self._owned = name, file, owned
        self._error: Exception | None = None
        head = bytearray()
        try:
            while len(head) < HEAD_BYTES and (more := file.read1(HEAD_BYTES - len(head))):
                head += more
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            self._error = error
        self.head = bytes(head)
        self._ahead = memoryview(self.head)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._ahead:
            count = min(len(buffer), len(self._ahead))
            buffer[:count], self._ahead = self._ahead[:count], self._ahead[count:]
            return count
        if self._error is not None:
            raise self._error
        return int(self._file.readinto(buffer))

    def close(self) -> None:
        if self._owned is not None and not self.closed:
            self._owned.close()
        super().close()


@contextmanager
def open_to_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for an atomic write of bytes, compressed according to its suffix."""
    with atomic_write(path) as file, _compressed(file, Path(path).suffix) as stream:
        yield stream


def _compressed(file: BinaryIO, suffix: str) -> AbstractContextManager[Any]:
    match suffix:
        case ".gz":
            # The header has no name and no time, so that the same rows give the same bytes.
            return gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0)
        case ".bz2":
            return bz2.BZ2File(file, "wb")
        case ".xz":
            return lzma.LZMAFile(file, "wb")
    return nullcontext(file)


@contextmanager
def report_damage(error: Callable[[str], FileFormatError]) -> Iterator[None]:
    """Turn the standard library's errors for a damaged compressed file into an error that gives the position."""
    try:
        yield
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as cause:
        # Errors of the operating system have an error number, errors of a decompressor have none.
        if isinstance(cause, OSError) and cause.errno is not None:
            raise
        raise error(f"from about here the compressed file is cut off or damaged ({cause})") from cause


def plain_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a file's name in lower case, without the suffix of a compression.

    >>> plain_suffix("rows.CSV.gz")
    '.csv'
    """
    name = Path(path)
    return Path(name.stem if name.suffix in COMPRESSED else name.name).suffix.lower()
