"""Files, pipes and standard input as streams of bytes, opened once, and the error that says where one is wrong."""

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
STANDARD_INPUT = "-"  # in place of the name of a file that is read

# Bytes that are read ahead to tell a compression or a format; a first line that is longer is judged by its start.
HEAD_BYTES = 1 << 16
# Bytes of a stream that are kept in memory where random access is needed; a longer one goes to a temporary file.
_SPOOLED_BYTES = 1 << 26

_DECOMPRESS: dict[bytes, Callable[[Any], Any]] = {
    rb"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": bz2.BZ2File,
    rb"\xfd7zXZ\0": lzma.LZMAFile,
}


class FileFormatError(ValueError):
    """A file is not what it should be.

    Attributes
    ----------
    path : str
        The file.
    line, column : int or None
        Where, counted from one, if it is known. In a LIBSVM file `column` counts characters; in a table, cells.
    """

    def __init__(self, path: object, line: int | None, column: int | None, message: str) -> None:
        self.path, self.line, self.column = str(path), line, column
        place = "".join(f", {name} {at}" for name, at in (("line", line), ("column", column)) if at is not None)
        super().__init__(f"{path}{place}: {message}")


class InputStream(io.BufferedReader):
    """The bytes of a file, a pipe or standard input, decompressed where they are compressed.

    A pipe can be read only once. So it is opened once, and its format is told from bytes that are read ahead: they are
    in `head`, and are still to come from `read`.

    Attributes
    ----------
    name : str
        What messages call it.
    head : bytes
        The first bytes; all of them where there are fewer than 65,536.
    path : Path or None
        A regular file that holds the same bytes and can be opened again, for random access; None if there is none.
    """

    def __init__(self, source: _ReadAhead, path: Path | None) -> None:
        super().__init__(source, buffer_size=HEAD_BYTES)
        self.head, self.path = source.head, path


def open_to_read(path: str | os.PathLike[str]) -> InputStream:
    """Open a file, a pipe or, for the name "-", standard input; gzip, bzip2 and xz are told by their first bytes."""
    regular = False
    if os.fspath(path) == STANDARD_INPUT:
        source = _ReadAhead(sys.stdin.buffer, "standard input", owned=None)
    else:
        file = open(path, "rb")  # noqa: SIM115
        source, regular = _ReadAhead(file, os.fspath(path), owned=file), os.path.isfile(path)
    # Closing the stream that is returned closes the file.
    for signature, decompress in _DECOMPRESS.items():
        if re.match(signature, source.head):
            source = _ReadAhead(decompress(io.BufferedReader(source, HEAD_BYTES)), source.name, owned=source)
            return InputStream(source, None)
    return InputStream(source, Path(path) if regular else None)


@contextmanager
def random_access(stream: InputStream) -> Iterator[IO[bytes]]:
    """The same bytes in a file that can be read in any order: a copy where they come from a pipe or are compressed."""
    if stream.path is not None:
        with stream.path.open("rb") as file:
            yield file
        return
    with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0)
        yield cast("IO[bytes]", copy)


class _ReadAhead(io.RawIOBase):
    """A file whose first bytes were read ahead. An error that was met there is raised when reading comes to it."""

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
    """Open a file for writing bytes, whole or not at all; compressed as its name says."""
    with atomic_write(path) as file, _compressed(file, Path(path).suffix) as stream:
        yield stream


def _compressed(file: BinaryIO, suffix: str) -> AbstractContextManager[Any]:
    match suffix:
        case ".gz":
            # Without name and time in the header, the same rows give the same bytes.
            return gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0)
        case ".bz2":
            return bz2.BZ2File(file, "wb")
        case ".xz":
            return lzma.LZMAFile(file, "wb")
    return nullcontext(file)


@contextmanager
def naming_damage(error: Callable[[str], FileFormatError]) -> Iterator[None]:
    """Turn what the standard library raises for a damaged compressed file into an error that says where."""
    try:
        yield
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as cause:
        # Damage has no error number; what goes wrong with a disk has one.
        if isinstance(cause, OSError) and cause.errno is not None:
            raise
        raise error(f"from about here the compressed file is cut off or damaged ({cause})") from cause


def plain_suffix(path: str | os.PathLike[str]) -> str:
    """The suffix of a file's name, in lower case, without that of its compression.

    >>> plain_suffix("rows.CSV.gz")
    '.csv'
    """
    name = Path(path)
    return Path(name.stem if name.suffix in COMPRESSED else name.name).suffix.lower()
