import numpy as np
from numpy.typing import NDArray

from maxmargin.svm.slack import SlackSVM

class Game:
    rng: np.random.Generator
    t: int
    rounds: int
    last_draws: tuple[NDArray[np.int64], NDArray[np.int64]]
    def __init__(
        self,
        problem: SlackSVM,
        rng: np.random.Generator,
        rows: int = 1,
        columns: int = 1,
        horizon: int = 0,
        lagged: bool = False,
        tolerance: float = 0.0,
    ) -> None: ...
    def run(self, rounds: int, budget: float) -> int: ...
    def set_slack(self, problem: SlackSVM) -> None: ...
    def answer(self) -> tuple[NDArray[np.float64], float]: ...
    def mean_slack(self) -> NDArray[np.float64]: ...
    def dual_weights(self) -> NDArray[np.float64]: ...
    def probabilities(self) -> NDArray[np.float64]: ...
