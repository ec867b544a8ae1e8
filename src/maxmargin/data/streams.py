"""Byte streams of files, compressed or not, and the error that says where a file is wrong."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from maxmargin.data.atomic import atomic_write

COMPRESSED = (".gz", ".bz2", ".xz")


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


def open_to_read(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for reading bytes; one named .gz, .bz2 or .xz is decompressed on the way."""
    match Path(path).suffix:
        case ".gz":
            return cast("IO[bytes]", gzip.open(path, "rb"))
        case ".bz2":
            return bz2.open(path, "rb")
        case ".xz":
            return lzma.open(path, "rb")
    return open(path, "rb")


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
