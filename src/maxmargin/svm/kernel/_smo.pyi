from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.kernels.row_cache import RowLookup

class RowFinder:
    def __init__(self, lookup: RowLookup) -> None: ...

def ascend_by_pairs(
    rows: NDArray[Any],  # float32 or float64
    cache: RowFinder,
    active: NDArray[np.int64],
    y: NDArray[np.float64],
    upper: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    alpha: NDArray[np.float64],
    e: NDArray[np.float64],
    max_steps: int,
) -> tuple[int, int, float]: ...
def ascend_by_one(
    rows: NDArray[Any],  # float32 or float64
    cache: RowFinder,
    active: NDArray[np.int64],
    y: NDArray[np.float64],
    upper: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    alpha: NDArray[np.float64],
    e: NDArray[np.float64],
    max_steps: int,
    rho: float,
) -> tuple[int, int, float]: ...
def visit(
    rows: NDArray[Any],  # float32 or float64
    cache: RowFinder,
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
