import numpy as np
from numpy.typing import NDArray

from maxmargin.core import Matrix

Vector = NDArray[np.float64]

def weigh(c: Vector, centre: Vector, upper: Vector, q: Vector, soft: Vector) -> Vector: ...
def dual_sums(
    c: Vector,
    a: Vector,
    y: Vector,
    centre: Vector,
    upper: Vector,
    q: Vector,
    soft: Vector,
    m: Vector,
    known: NDArray[np.uint8],
    inside: NDArray[np.uint8],
) -> tuple[float, float, float, float, float, float, int, int, int]: ...
def add_dense_products(Z: Vector, sign: float, H: NDArray[np.float64]) -> None: ...
def reach(c: Vector, centre: Vector, upper: Vector, q: Vector, soft: Vector, norms: Vector) -> Vector: ...
def add_outer_products(X: Matrix, rows: NDArray[np.int64], h: Vector, H: NDArray[np.float64]) -> None: ...
