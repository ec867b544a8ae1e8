"""Large arrays whose memory is allocated page by page, as they are filled."""

from __future__ import annotations

import mmap
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
