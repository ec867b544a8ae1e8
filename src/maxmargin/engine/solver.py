"""The base class of solvers: a solver is a frozen dataclass of its hyper-parameters with three methods.

:func:`maxmargin.solvers.solve` calls them in this order:

1. ``state = solver.start(problem, rng)`` once;
2. ``step = solver.step(problem, state, iterations, budget)`` repeatedly: it makes at most `iterations` iterations and
   spends at most `budget`, in entries read or their prices; the :class:`Step` says how many iterations it made, and
   why not more;
3. ``solution = solver.solution(problem, state)`` at each check.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from maxmargin.core.types import Vector
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.registry import online_solvers, register

FEWEST_BEFORE_STALE = 1000  # iterations before early stopping may end a run
CHECK_GROWTH = 1.1  # ratio of the iteration counts of two checks; keeps the cost of checks a fixed share


ProblemT = TypeVar("ProblemT", bound=Problem)
StateT = TypeVar("StateT")


class Reason(Enum):
    """Why a step ended."""

    DONE = "all iterations were made"
    BUDGET = "the next iteration does not fit the budget"
    SETTLED = "further iterations would change nothing except rounding errors"


@dataclass(frozen=True)
class Step:
    """What one call of :meth:`Solver.step` did.

    Attributes
    ----------
    iterations : int
        How many iterations were made.
    reason : Reason
        Why not more.
    """

    iterations: int
    reason: Reason = Reason.DONE

    @classmethod
    def of(cls, made: int, wanted: int) -> Step:
        """A step of `made` iterations; if they are fewer than `wanted`, the next one does not fit the budget."""
        return cls(made, Reason.DONE if made == wanted else Reason.BUDGET)


class Solver(ABC, Generic[ProblemT, StateT]):
    """An algorithm and its hyper-parameters. Defining a subclass with a `name` registers it under that name.

    The type parameters are the problem that the solver takes and its state: ``class Simba(Solver[SlackSVM, Game])``.
    """

    name: ClassVar[str] = ""
    solves: ClassVar[type[Problem]]
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.FEATURES})
    optimises: ClassVar[bool] = True  # whether its value converges to the optimum; if not, it only learns a model
    online: ClassVar[bool] = False  # whether it can continue with other rows, from what `learned` returns
    resumes: ClassVar[bool] = False  # whether it can begin at a solution found on other data of the same shape
    visits_samples: ClassVar[bool] = False  # whether an iteration visits a few samples; then estimators count passes
    balanced: ClassVar[bool] = False  # whether its coefficients always sum to 0 if the bias is free
    default_tol: ClassVar[float | None] = None  # the relative gap to stop at if the user gives no `tol`

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__dict__.get("name"):  # a subclass without a name of its own is a variant, not another solver
            register(cls)

    @classmethod
    def why_not(cls, problem: Problem) -> str:
        """Why the solver cannot take a problem; empty if it can."""
        if not isinstance(problem, cls.solves):
            return f"solves a {cls.solves.__name__}; got a {type(problem).__name__}"
        missing = sorted(cls.requires - problem.traits, key=lambda trait: trait.name)
        return " and ".join(f"needs {trait.value}; got {problem.instead_of(trait)}" for trait in missing)

    def deterministic(self, problem: ProblemT) -> bool:
        """Whether every seed gives the same answer to this problem, because nothing that matters is drawn at random."""
        return False

    @abstractmethod
    def start(self, problem: ProblemT, rng: np.random.Generator, warm: object = None) -> StateT:
        """The state before the first iteration.

        `warm` is the state of an earlier run on the same data (perhaps by another solver), what an online solver has
        learned from other rows, or a solution to begin at.
        """

    @abstractmethod
    def step(self, problem: ProblemT, state: StateT, iterations: int, budget: float) -> Step:
        """Make up to `iterations` iterations that together spend at most `budget` entries, or their prices."""

    @abstractmethod
    def solution(self, problem: ProblemT, state: StateT) -> Solution:
        """The solution that the solver would return now."""

    def without_cache(self, state: StateT) -> StateT:
        """The state without large parts that can be computed again, to be saved when a run has ended.

        A later run can continue from it, but its results may differ in the last bits from a run that continues from
        the full state.
        """
        return state

    def learned(self, problem: ProblemT, state: StateT) -> Learned:
        """What an online solver has learned, to continue with other rows."""
        raise TypeError(f"solver {self.name!r} cannot go on with other rows; {', '.join(online_solvers())} can")

    def iterations(self, problem: ProblemT) -> int | None:
        """The number of iterations after which the algorithm itself ends; None if it has no end."""
        return None

    def iterations_per_pass(self, problem: ProblemT) -> int:
        """How many iterations visit as many samples as the problem has; 1 if iterations are not visits to samples.

        This is the unit of `max_iter` and `n_iter_` of the estimators.
        """
        return max(1, problem.n_samples) if self.visits_samples else 1

    def default_iterations(self, problem: ProblemT) -> int:
        """After how many iterations to stop if the user gives no stop rule and the algorithm has no end of its own."""
        return 1000

    def next_check(self, problem: ProblemT, state: StateT, done: int) -> int:
        """The iteration of the next check; growing distances keep the cost of checks a fixed share of the run."""
        return max(done + 1, math.ceil(done * CHECK_GROWTH))

    def patience(self, problem: ProblemT, state: StateT, best_iter: int) -> float:
        """The iteration until which to wait for a better solution: twice that of the best one, and not too few."""
        return max(2 * best_iter, min(FEWEST_BEFORE_STALE, self.default_iterations(problem) // 4))

    def exhausted(self, problem: ProblemT, state: StateT) -> bool:
        """Whether a run to which the user gave no limit has worked long enough, although iterations are left."""
        return False

    def estimated_gap(self, problem: ProblemT, state: StateT) -> float:
        """The solver's own estimate of the relative gap, which costs nothing.

        A check measures the gap only if the estimate is at most `tol`, or NaN, which means that there is no estimate.
        """
        return math.nan

    def promise(self, problem: ProblemT) -> dict[str, float]:
        """What the algorithm's theorem promises after all its iterations; empty if it has no such theorem."""
        return {}


AnySolver = Solver[Any, Any]


@dataclass(frozen=True)
class Learned:
    """What an online solver has learned so far, from which it continues with other rows; can be pickled.

    Attributes
    ----------
    t : int
        Iterations so far, which decide how long the next steps are.
    w, b : array of shape (d,), float
        The last predictor.
    mean_w, mean_b : array of shape (d,), float
        The average of all predictors so far; the last predictor if the solver keeps no average.
    weights : float
        The weight of the average against the predictors to come.
    scale : float
        The number by which rows were divided. Later rows must be divided by the same: ``SlackSVM(...,
        scale=learned.scale)``.
    """

    t: int
    w: Vector
    b: float
    mean_w: Vector
    mean_b: float
    weights: float
    scale: float = 1.0
