"""The base class of the online solvers, which can continue with rows that arrive later."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, TypeVar

import numpy as np

from maxmargin.engine.solver import Learned, ProblemT, Solver, Step
from maxmargin.svm.linear._online import Learner
from maxmargin.svm.passes import check_order

LearnerT = TypeVar("LearnerT", bound=Learner)


class OnlineSolver(Solver[ProblemT, LearnerT]):
    """A solver that visits rows and can continue with other rows: ``solve(problem, solver, warm=solver.learned(...))``.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import RegularizedSVM
    >>> from maxmargin.solvers import Pegasos, solve
    >>> rng = np.random.default_rng(0)
    >>> solver, learned = Pegasos(), None
    >>> for _ in range(3):  # batches of rows, as they arrive
    ...     y = np.where(rng.random(100) < 0.5, -1.0, 1.0)
    ...     problem = RegularizedSVM(rng.normal(size=(100, 5)) + y[:, None], y, C=0.1)
    ...     one_pass = solver.iterations_per_pass(problem)
    ...     result = solve(problem, solver, max_iter=one_pass, warm=learned, random_state=rng)
    ...     learned = solver.learned(problem, result.state)
    >>> learned.t
    300
    """

    online: ClassVar[bool] = True
    visits_samples: ClassVar[bool] = True

    order: str

    def __post_init__(self) -> None:
        check_order(self.order)

    @abstractmethod
    def start(self, problem: ProblemT, rng: np.random.Generator, warm: object = None) -> LearnerT: ...

    def step(self, problem: ProblemT, state: LearnerT, iterations: int, budget: float) -> Step:
        return Step.of(state.run(iterations, budget), iterations)

    def learned(self, problem: ProblemT, state: LearnerT) -> Learned:
        """The state to continue from on other rows; it does not contain the dual weights of these rows."""
        w, b = state.last()
        mean_w, mean_b, weights = state.mean()
        return Learned(state.t, w, b, mean_w, mean_b, weights, problem.scale)
