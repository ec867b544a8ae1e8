from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]  # float32 or float64

def ascend_by_pairs(
    K: Floats,
    y: NDArray[np.float64],
    upper: NDArray[np.float64],
    alpha: NDArray[np.float64],
    e: NDArray[np.float64],
    tol: float,
    max_steps: int,
) -> tuple[int, float, float]: ...
def ascend_by_one(
    K: Floats,
    y: NDArray[np.float64],
    upper: NDArray[np.float64],
    alpha: NDArray[np.float64],
    e: NDArray[np.float64],
    tol: float,
    max_steps: int,
) -> tuple[int, float, float]: ...
