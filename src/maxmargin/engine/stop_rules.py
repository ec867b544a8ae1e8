"""When a run ends: the user's stop rules, and the limits that they mean for one solver on one problem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from maxmargin.engine.problem import Problem, Trait

if TYPE_CHECKING:
    from maxmargin.engine.solver import AnySolver

UNLIMITED = 2**62  # iterations or entries that stand for "no limit"; no run reaches so many

# If no rule limits iterations or time, a run ends after the solver's default number of iterations times one of these:
ALONE = 1  # no rule is given at all
WITH_EARLY_STOPPING = 4  # the error on the holdout is expected to end the run earlier
WITH_TOL = 20  # a gap or a budget is expected to end the run earlier


@dataclass(frozen=True)
class StopRules:
    """When a run ends: as soon as the first of these rules is met.

    Attributes
    ----------
    tol : float or None
        The relative duality gap to stop at; None: the solver's default, `solver.default_tol`, which may be None too.
    max_iter : int or None
        The largest number of iterations.
    max_time : float or None
        The time limit in seconds.
    budget : number or None
        How many entries may be read to learn, never exceeded; with a kernel, how many kernel evaluations may be made;
        if entries have prices, how much may be paid for them.
    early_stopping : bool
        Whether to stop when the error on the holdout has not improved for a while.

    Examples
    --------
    >>> from maxmargin.engine.stop_rules import StopRules
    >>> StopRules(tol=1e-3, max_time=60)
    StopRules(tol=0.001, max_iter=None, max_time=60, budget=None, early_stopping=False)
    >>> StopRules(max_iter=0)
    Traceback (most recent call last):
    ...
    ValueError: max_iter must be positive or None; got 0
    """

    tol: float | None = None
    max_iter: int | None = None
    max_time: float | None = None
    budget: float | None = None
    early_stopping: bool = False

    def __post_init__(self) -> None:
        for name in ("max_iter", "max_time", "budget"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive or None; got {value!r}")


@dataclass(frozen=True)
class Limits:
    """The limits that the stop rules set for one solver on one problem.

    Attributes
    ----------
    tol : float or None
        The relative duality gap to stop at; None: no gap ends the run.
    max_iter, max_time, budget : int, float, number
        Iterations, seconds, and entries read or the price paid for them; `UNLIMITED` or infinity if there is no limit.
    last_status : str
        The status of a run that ends after `max_iter` iterations: "max_iter", or "finished" if the algorithm itself
        ends there.
    endless : bool
        Whether the user gave no rule that limits the work, so that the solver may decide that it has worked enough.
    """

    tol: float | None
    max_iter: int
    max_time: float
    budget: float
    last_status: str
    endless: bool

    @classmethod
    def of(cls, rules: StopRules, problem: Problem, solver: AnySolver) -> Limits:
        """The limits of a run; the solver's defaults replace rules that are not given."""
        tol = solver.default_tol if rules.tol is None else rules.tol
        # Iterations cost nothing if their kernel rows are cached or their entries are paid for already: with a budget
        # alone, they might never end.
        free = Trait.KERNEL in problem.traits or problem.ledger.priced
        budget_ends = rules.budget is not None and not free
        endless = rules.max_iter is None and rules.max_time is None and not budget_ends
        own, most = solver.iterations(problem), rules.max_iter
        if endless and own is None:
            may_end = tol is not None or rules.budget is not None
            factor = WITH_TOL if may_end else WITH_EARLY_STOPPING if rules.early_stopping else ALONE
            most = factor * solver.default_iterations(problem)
        # A number above UNLIMITED is as good as no limit.
        wanted = UNLIMITED if most is None else min(int(most), UNLIMITED)
        return cls(
            tol,
            min(wanted, UNLIMITED if own is None else own),
            math.inf if rules.max_time is None or rules.max_time > UNLIMITED else float(rules.max_time),
            UNLIMITED if rules.budget is None else min(rules.budget, UNLIMITED),
            "max_iter" if own is None or wanted < own else "finished",
            endless,
        )

    def shares(self, n_iter: int, spent: float, seconds: float) -> list[float]:
        """The share of each limit that has been used."""
        used = (n_iter, self.max_iter), (spent, self.budget), (seconds, self.max_time)
        return [so_far / most for so_far, most in used if most < UNLIMITED]
