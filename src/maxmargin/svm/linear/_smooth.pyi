import numpy as np
from numpy.typing import NDArray

from maxmargin.core import Matrix

Vector = NDArray[np.float64]

class Reader:
    def __init__(self, X: Matrix) -> None: ...
    def visit(
        self, rows: NDArray[np.int64], y: Vector, s: Vector, w: Vector, b: float, budget: float
    ) -> tuple[Vector, Vector, Vector, Vector] | None: ...
    def descend(
        self,
        rows: NDArray[np.int64],
        y: Vector,
        v: Vector,
        factor: float,
        b: float,
        step: float,
        shrink: float,
        bias_step: float,
        bias_shrink: float,
        budget: float,
    ) -> tuple[int, float, float]: ...
