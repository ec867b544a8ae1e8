import numpy as np
from numpy.typing import NDArray

from maxmargin.engine.solver import Learned
from maxmargin.svm.margin import MarginProblem
from maxmargin.svm.regularized import RegularizedSVM

class Learner:
    rng: np.random.Generator
    t: int
    a: float
    b: float
    norm2: float
    own: bool
    count: int
    last_rows: NDArray[np.int64]
    def __init__(
        self,
        problem: MarginProblem,
        rng: np.random.Generator,
        order: str,
        batch: int,
        bias_feature: float,
        average: float | None,
        learned: Learned | None = None,
    ) -> None: ...
    def run(self, iterations: int, budget: float) -> int: ...
    def last(self) -> tuple[NDArray[np.float64], float]: ...
    def mean(self) -> tuple[NDArray[np.float64], float, float]: ...
    def dual_weights(self) -> NDArray[np.float64]: ...

class Mistakes(Learner):
    mistakes: int

class Descent(Learner):
    regularization: float
    radius: float
    curvature: float
    def __init__(
        self,
        problem: RegularizedSVM,
        rng: np.random.Generator,
        order: str,
        batch: int,
        bias_feature: float,
        average: float | None,
        learned: Learned | None,
        bias: str,
        project: bool,
    ) -> None: ...
    def set_C(self, problem: RegularizedSVM) -> None: ...
