from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]  # float32 or float64

def exp_of_negative(values: NDArray[np.float32]) -> None: ...
def sparse_products(
    x_data: Floats,
    x_indices: NDArray[np.int32],
    x_indptr: NDArray[np.int64],
    x_rows: NDArray[np.int64],
    z_data: Floats,
    z_indices: NDArray[np.int32],
    z_indptr: NDArray[np.int64],
    z_rows: NDArray[np.int64],
    width: int,
    add: bool,
    out: Floats,
) -> None: ...
def add_rows(
    rows: Floats, positions: NDArray[np.int64], factors: NDArray[np.float64], f: NDArray[np.float64]
) -> None: ...
def gather(
    rows: Floats,
    positions: NDArray[np.int64],
    columns: NDArray[np.int64],
    places: NDArray[np.int64],
    out: Floats,
) -> None: ...
def within_reach(
    points: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    sq_reach: float,
    found: NDArray[np.int64],
) -> int: ...
def mirror(square: Floats, rows: NDArray[np.int64], positions: NDArray[np.int64]) -> None: ...
def move_columns(square: Floats, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None: ...
