"""What a solver is: a frozen dataclass of its hyper-parameters with three methods.

:func:`maxmargin.solvers.solve` calls them in this order:

1. ``state = solver.start(problem, rng)`` once;
2. ``step = solver.step(problem, state, iterations, budget)`` again and again: a chunk of at most `iterations`
   iterations that spends at most `budget`, in entries read or their prices; the :class:`Step` says how many were made,
   and why no more;
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

FEWEST_BEFORE_STALE = 1000  # iterations before early stopping may stop
CHECK_GROWTH = 1.1  # checks stand at iterations that grow by this factor: their cost stays a fixed share


ProblemT = TypeVar("ProblemT", bound=Problem)
StateT = TypeVar("StateT")


class Reason(Enum):
    """Why a step ended."""

    DONE = "all iterations were made"
    BUDGET = "the next iteration does not fit the budget"
    SETTLED = "more iterations could change nothing, but for rounding"


@dataclass(frozen=True)
class Step:
    """What one call of :meth:`Solver.step` did.

    Attributes
    ----------
    iterations : int
        How many iterations were made.
    reason : Reason
        Why no more.
    """

    iterations: int
    reason: Reason = Reason.DONE

    @classmethod
    def of(cls, made: int, wanted: int) -> Step:
        """A step of so many of the wanted iterations: where they are fewer, the next one does not fit the budget."""
        return cls(made, Reason.DONE if made == wanted else Reason.BUDGET)


class Solver(ABC, Generic[ProblemT, StateT]):
    """An algorithm and its hyper-parameters. A subclass that states a `name` is registered by being defined.

    A type checker is told which problem it takes and what its state is: ``class Simba(Solver[SlackSVM, Game])``.
    """

    name: ClassVar[str] = ""
    solves: ClassVar[type[Problem]]
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.FEATURES})
    optimises: ClassVar[bool] = True  # whether its value comes near the best one in time; else it learns, no more
    online: ClassVar[bool] = False  # whether it can go on with other rows, from what `learned` gives
    resumes: ClassVar[bool] = False  # whether it can begin at a solution, found on whatever data of the same shape
    visits_samples: ClassVar[bool] = False  # whether an iteration visits one sample or a few: estimators count passes
    balanced: ClassVar[bool] = False  # whether its coefficients sum to 0 with a free bias, at any time
    default_tol: ClassVar[float | None] = None  # the relative gap to stop at where the user gave no `tol`

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
        """Whether nothing that matters is drawn at random, so that every seed gives the same answer to this problem."""
        return False

    @abstractmethod
    def start(self, problem: ProblemT, rng: np.random.Generator, warm: object = None) -> StateT:
        """The state before the first iteration.

        `warm` is the state of an earlier run on the same data, perhaps by another solver, or what an online solver has
        learned from other rows, or a solution to begin at.
        """

    @abstractmethod
    def step(self, problem: ProblemT, state: StateT, iterations: int, budget: float) -> Step:
        """Make up to `iterations` iterations that spend at most `budget` together: entries read, or their prices."""

    @abstractmethod
    def solution(self, problem: ProblemT, state: StateT) -> Solution:
        """What the solver would answer now."""

    def without_cache(self, state: StateT) -> StateT:
        """The state without what takes much memory and can be computed again: what is saved of a run that has ended.

        A later run can go on from it, though perhaps to other last bits than from the state itself.
        """
        return state

    def learned(self, problem: ProblemT, state: StateT) -> Learned:
        """What an online solver takes along to other rows."""
        raise TypeError(f"solver {self.name!r} cannot go on with other rows; {', '.join(online_solvers())} can")

    def iterations(self, problem: ProblemT) -> int | None:
        """The number of iterations after which the algorithm itself ends, where it has one."""
        return None

    def iterations_per_pass(self, problem: ProblemT) -> int:
        """How many iterations visit as many samples as there are; 1 for a solver whose iterations are not visits.

        This is the unit of `max_iter` and `n_iter_` of the estimators.
        """
        return max(1, problem.n_samples) if self.visits_samples else 1

    def default_iterations(self, problem: ProblemT) -> int:
        """After how many iterations to stop where the user gave no stop rule and the algorithm has no end."""
        return 1000

    def next_check(self, problem: ProblemT, state: StateT, done: int) -> int:
        """The count of iterations at which to look next; growing steps keep the cost of looking a fixed share."""
        return max(done + 1, math.ceil(done * CHECK_GROWTH))

    def patience(self, problem: ProblemT, state: StateT, best_iter: int) -> float:
        """The count of iterations to wait for a better one than the best so far: twice its own, and enough to tell."""
        return max(2 * best_iter, min(FEWEST_BEFORE_STALE, self.default_iterations(problem) // 4))

    def exhausted(self, problem: ProblemT, state: StateT) -> bool:
        """Whether a run without a limit from the user has worked long enough, though it has iterations left."""
        return False

    def estimated_gap(self, problem: ProblemT, state: StateT) -> float:
        """The solver's own estimate of the relative gap, which costs nothing: above `tol`, a check does not measure it.

        NaN where the solver has no estimate: then every check measures the gap.
        """
        return math.nan

    def promise(self, problem: ProblemT) -> dict[str, float]:
        """What the algorithm's theorem promises after all its iterations, where it does."""
        return {}


AnySolver = Solver[Any, Any]


@dataclass(frozen=True)
class Learned:
    """What an online solver has learned so far, to go on from with other rows: plain numbers, which can be pickled.

    Attributes
    ----------
    t : int
        Iterations so far: steps go on becoming shorter.
    w, b : array of shape (d,), float
        The last predictor.
    mean_w, mean_b : array of shape (d,), float
        The average of all predictors so far; the last one where the solver keeps none.
    weights : float
        How much the average weighs against what comes.
    scale : float
        What rows were divided by. Rows to come must be divided by the same: ``SlackSVM(..., scale=learned.scale)``.
    """

    t: int
    w: Vector
    b: float
    mean_w: Vector
    mean_b: float
    weights: float
    scale: float = 1.0
