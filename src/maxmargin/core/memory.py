"""Memory for what is large and filled bit by bit."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LARGE = 1 << 22  # bytes from which on NumPy asks for large pages


def empty_by_pages(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array whose memory is found when it is written to, a small page at a time.

    For large arrays NumPy asks the system for large pages. Where memory is short of those, each is put together on the
    spot: for gigabytes that are written to once, that was measured to take four times as long.

    Parameters
    ----------
    shape : tuple of int
    dtype : data type

    Returns
    -------
    array
        What it holds is not to be relied on.

    Examples
    --------
    >>> from maxmargin.core import empty_by_pages
    >>> empty_by_pages((2, 3), "float32").shape
    (2, 3)
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    try:
        return np.ndarray(shape, dtype, mmap.mmap(-1, size, **private))
    except OSError as error:
        raise MemoryError(
            f"no memory for {size:,} bytes, an array of shape {shape} and type {np.dtype(dtype)}"
        ) from error
