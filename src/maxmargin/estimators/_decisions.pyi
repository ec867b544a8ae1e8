import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Indices, Vector
from maxmargin.kernels._row_sources import DenseSamples

class DenseDecisions:
    def __init__(
        self,
        vectors: DenseSamples,
        centre: Vector,
        shift: tuple[float, float],
        coefficients: Vector,
        starts: Indices,
        intercept: Vector,
        pairwise: bool,
    ) -> None: ...
    def __call__(self, X: Vector) -> Vector: ...

def count_votes(values: Vector, classes: int) -> NDArray[np.int64]: ...
def sum_decisions(values: Vector, classes: int) -> Vector: ...
