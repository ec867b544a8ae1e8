"""Atomic writes: a file or a folder is written completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing bytes; it appears at `path` only if the `with` block ends without an error.

    The bytes are written to a temporary file in the same folder. At the end of the block, they are flushed to disk and
    the file is renamed. After an error or an interrupt, the temporary file is removed, and an existing file at `path`
    is unchanged.

    Parameters
    ----------
    path : str or path
        The file to write. An existing file is replaced and keeps its permissions; a symbolic link is followed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from maxmargin.data import atomic_write
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with atomic_write(path) as file:
    ...     _ = file.write(b"whole")
    >>> path.read_text()
    'whole'
    """
    with atomic_path(path, folder=False) as temporary, temporary.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_path(path: str | os.PathLike[str], *, folder: bool) -> Iterator[Path]:
    """Provide a temporary path next to `path`, and rename it to `path` if the `with` block ends without an error.

    Parameters
    ----------
    path : str or path
        The file or folder to write. An existing one is replaced at the end; a symbolic link is followed.
    folder : bool
        Whether a folder will be written instead of a file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "notes"
    >>> with atomic_path(path, folder=True) as temporary:
    ...     temporary.mkdir()
    ...     _ = (temporary / "note.txt").write_text("whole")
    >>> [file.name for file in path.iterdir()]
    ['note.txt']
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not (target.is_dir() if folder else target.is_file()):
        what = "folder" if folder else "regular file"
        raise OSError(f"cannot write {target}: it is not a {what}. Give the name of a {what.split()[-1]}.")
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "cannot write: the folder does not exist; make it first", str(path))
    temporary = _beside(target)
    try:
        yield temporary
        if target.is_dir():
            # A folder cannot replace another one by renaming. The old one is kept until the new one has its name.
            old = _beside(target)
            target.rename(old)
            temporary.rename(target)
            shutil.rmtree(old)
        else:
            if target.exists():
                shutil.copymode(target, temporary)
            temporary.replace(target)
    except BaseException:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
        raise


def remove_temporary_files(path: str | os.PathLike[str]) -> None:
    """Remove temporary files left by killed writers of a file. No other process may be writing the file."""
    target = Path(os.path.realpath(path))
    if target.parent.is_dir():
        for other in target.parent.iterdir():
            if other.name.startswith(_start_of_temporary(target)) and other.suffix == ".tmp":
                other.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    return target.with_name(f"{_start_of_temporary(target)}{secrets.token_hex(8)}.tmp")


def _start_of_temporary(target: Path) -> str:
    return f".{target.name[:100]}."
