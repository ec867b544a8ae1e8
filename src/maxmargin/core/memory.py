"""Large arrays in memory that is allocated page by page, as they are filled, or in a temporary file."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

HUGE_PAGE_BYTES = 1 << 22  # arrays of this many bytes or more are allocated by NumPy in huge pages


def empty_by_pages(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array whose memory is allocated when it is first written to, a small page at a time.

    For large arrays NumPy asks the system for huge pages. If free memory is fragmented, the system must compact it for
    each of them: for gigabytes that are written to once, that was measured to take four times as long.

    Parameters
    ----------
    shape : tuple of int
    dtype : data type

    Returns
    -------
    array
        Its contents are undefined.

    Examples
    --------
    >>> from maxmargin.core import empty_by_pages
    >>> empty_by_pages((2, 3), "float32").shape
    (2, 3)
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size < HUGE_PAGE_BYTES:
        return np.empty(shape, dtype)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    try:
        return np.ndarray(shape, dtype, mmap.mmap(-1, size, **private))
    except OSError as error:
        raise MemoryError(
            f"no memory for {size:,} bytes, an array of shape {shape} and type {np.dtype(dtype)}"
        ) from error


def empty_in_file(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array in a temporary file, which is gone with the array: the system keeps in memory what there is room for.

    Parameters
    ----------
    shape : tuple of int
    dtype : data type

    Returns
    -------
    array
        All zeros.

    Examples
    --------
    >>> from maxmargin.core.memory import empty_in_file
    >>> empty_in_file((2, 3), "float32").sum()
    np.float32(0.0)
    """
    size = max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
    with tempfile.TemporaryFile(prefix="maxmargin-") as file:
        try:
            # Disk space is reserved now: if it were missing when the array is written to, the process would be killed.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise OSError(
                error.errno,
                f"no room for {size:,} bytes in {tempfile.gettempdir()}, where samples are kept that do not fit into "
                "memory; set TMPDIR to a folder on a larger disk",
            ) from error
        return np.memmap(file, dtype, "r+", shape=shape)


def in_file(array: Any) -> bool:
    """Whether an array is a view of a file that is mapped into memory.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.core.memory import empty_in_file, in_file
    >>> in_file(empty_in_file((2, 3), "float32")[1:]), in_file(np.zeros(3))
    (True, False)
    """
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return isinstance(array, np.memmap)


def resident_memory() -> int:
    """The bytes of memory that this process takes, where Linux tells; else 0.

    Examples
    --------
    >>> from maxmargin.core.memory import resident_memory
    >>> resident_memory() >= 0
    True
    """
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def give_back_free_memory() -> None:
    """Let the allocator give memory that is free back to the system, where it is one that can be asked to: glibc's.

    Examples
    --------
    >>> from maxmargin.core.memory import give_back_free_memory
    >>> give_back_free_memory()
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return None
