import numpy as np
from numpy.typing import NDArray

def ascend_by_pairs(
    K: NDArray[np.float32],
    y: NDArray[np.float64],
    upper: NDArray[np.float64],
    alpha: NDArray[np.float64],
    e: NDArray[np.float64],
    tol: float,
    most: int,
) -> tuple[int, float, float]: ...
def ascend_by_one(
    K: NDArray[np.float32],
    y: NDArray[np.float64],
    upper: NDArray[np.float64],
    alpha: NDArray[np.float64],
    e: NDArray[np.float64],
    tol: float,
    most: int,
) -> tuple[int, float, float]: ...
def add_rows(
    rows: NDArray[np.float32], places: NDArray[np.int64], factors: NDArray[np.float64], f: NDArray[np.float64]
) -> None: ...
def gather(
    rows: NDArray[np.float32], places: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[np.float32]
) -> None: ...
