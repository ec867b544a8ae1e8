import numpy as np
from numpy.typing import NDArray

from maxmargin.problems import RegularizedSVM

class Descent:
    rng: np.random.Generator
    active: int
    position: int
    sweeps: int
    b: float
    shift: float
    rho: float
    imbalance: float
    sq_w: float
    gap: float
    def __init__(self, problem: RegularizedSVM, rng: np.random.Generator, shrink: bool, extrapolate: int) -> None: ...
    def set_problem(self, problem: RegularizedSVM) -> None: ...
    def take_alpha(self, alpha: NDArray[np.float64]) -> None: ...
    def dual(self) -> float: ...
    def lend(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def run(self, iterations: int, budget: int) -> int: ...
