from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.kernels.matrix import KernelMatrix

class Cache:
    time: int
    def __init__(self, K: KernelMatrix) -> None: ...

def ascend_by_pairs(
    kept: NDArray[Any],  # float32 or float64
    cache: Cache,
    active: NDArray[np.int64],
    y: NDArray[np.float64],
    upper: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    alpha: NDArray[np.float64],
    e: NDArray[np.float64],
    most: int,
) -> tuple[int, int, float]: ...
def ascend_by_one(
    kept: NDArray[Any],  # float32 or float64
    cache: Cache,
    active: NDArray[np.int64],
    y: NDArray[np.float64],
    upper: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    alpha: NDArray[np.float64],
    e: NDArray[np.float64],
    most: int,
    rho: float,
) -> tuple[int, int, float]: ...
def visit(
    kept: NDArray[Any],  # float32 or float64
    cache: Cache,
    order: NDArray[np.int64],
    y: NDArray[np.float64],
    upper: NDArray[np.float64],
    q: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    alpha: NDArray[np.float64],
    f: NDArray[np.float64],
    b: float,
    rho: float,
) -> tuple[int, int, int, float]: ...
