"""Large arrays in memory that is allocated page by page as they are filled, or in a temporary file."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

TRIM_VARIABLE = "MALLOC_TRIM_THRESHOLD_"  # environment variable: the C library's limit on freed memory that is kept
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of mallopt in glibc
MOST_KEPT = 1 << 26  # largest number of bytes of freed memory that `keep_freed_memory` keeps
LARGEST_IN_HEAP = 1 << 25  # bytes; larger arrays have their own pages, which go back to the system when freed
DEFAULT_LARGEST_IN_HEAP = 1 << 17  # default of LARGEST_IN_HEAP if the limit on kept memory was set
HUGE_PAGE_BYTES = 1 << 22  # arrays of this many bytes or more are allocated by NumPy in huge pages


def empty_by_pages(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array whose memory is allocated when it is first written to, a small page at a time.

    For large arrays, NumPy asks the system for huge pages. If free memory is fragmented, the system must compact memory
    for each huge page. For gigabytes that are written once, this was measured to take four times as long.

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
    """An array in a temporary file that is deleted with the array; the system keeps as much in memory as fits.

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
            # Reserve disk space now: if space were missing when the array is written to, the process would be killed.
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
    """Whether an array is a view of a memory-mapped file.

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
    """The resident memory of this process in bytes on Linux; 0 on other systems.

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
    """Make the allocator return free memory to the system, if it is glibc's; other allocators are left alone.

    Examples
    --------
    >>> from maxmargin.core.memory import give_back_free_memory
    >>> give_back_free_memory()
    """
    trim = _libc_function("malloc_trim")
    if trim is not None:
        trim(0)


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """A context in which up to 64 MB of freed memory are kept for the next allocations, as is usual.

    Dask starts its workers with MALLOC_TRIM_THRESHOLD_=65536, so that freed memory goes back to the system. But then
    each temporary array of a loop is allocated page by page. On covtype, this doubled the time of Newton's method on a
    worker (benchmarks/cluster_linear.py).

    Examples
    --------
    >>> from maxmargin.core.memory import keep_freed_memory
    >>> with keep_freed_memory():
    ...     pass
    """
    given = os.environ.get(TRIM_VARIABLE, "")
    mallopt = _libc_function("mallopt") if given.isdigit() else None
    if mallopt is None:
        yield
        return
    mallopt(MMAP_THRESHOLD, LARGEST_IN_HEAP)
    mallopt(TRIM_THRESHOLD, MOST_KEPT)
    try:
        yield
    finally:
        mallopt(MMAP_THRESHOLD, DEFAULT_LARGEST_IN_HEAP)
        mallopt(TRIM_THRESHOLD, int(given))


@cache
def _libc_function(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return None
