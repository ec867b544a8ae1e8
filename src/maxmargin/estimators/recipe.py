"""The problem and the solver that follow from the parameters of an estimator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Rows
from maxmargin.engine.problem import Trait
from maxmargin.engine.solver import AnySolver
from maxmargin.engine.stop_rules import UNLIMITED, StopRules
from maxmargin.estimators.binary import BinaryModel
from maxmargin.problems import LOSSES, Certificate, MarginProblem, RegularizedSVM, SlackSVM, Solution
from maxmargin.solvers import (
    KERNEL_SOLVERS,
    SOLVERS,
    Holdout,
    Learned,
    OnlineSolver,
    Progress,
    Result,
    Resume,
    Solver,
    solve,
    solve_for_C,
    solve_for_slack,
)
from maxmargin.svm.slack import checked_scale

if TYPE_CHECKING:
    from maxmargin.engine.checkpoint import Checkpoint

DEFAULT_C = 1.0  # the default of the parameter C; together with `slack`, any other value is refused


class SolverParameters(Protocol):
    """The parameters of an estimator that a recipe depends on, and the solvers that the estimator supports by name."""

    solver: str | AnySolver
    C: float
    slack: float | None
    budget: float | None
    early_stopping: bool
    fit_intercept: bool
    _solvers: ClassVar[Mapping[str, type[AnySolver]]]


@dataclass(frozen=True)
class Recipe:
    """A solver and the problem that it solves, in one of two forms.

    A solver of the regularised form takes C and a loss. A solver of the slack form takes the slack; given C, it
    searches for the corresponding slack.

    Attributes
    ----------
    solver : Solver
        The solver.
    loss : str
        The name of the loss.
    C, slack : float or None
        Exactly one of them is given.
    bias : bool
        Whether there is an intercept.
    intercept_scaling : float or None
        None means that the intercept is not regularised.
    scale : float or None
        The divisor of the rows in the slack form, if the user gave it.
    in_range : bool
        Whether to refuse a slack with which every sample lies inside the margin. If False, the model is that of the
        largest slack that matters.
    """

    solver: AnySolver
    loss: str
    C: float | None
    slack: float | None
    bias: bool
    intercept_scaling: float | None
    scale: float | None
    in_range: bool = True

    @classmethod
    def of(
        cls,
        estimator: SolverParameters,
        auto_solver: Callable[[type[MarginProblem], float | None, float, float | None, str], AnySolver],
        *,
        loss: str | None,
        intercept_scaling: float | None = None,
        scale: float | None = None,
    ) -> Recipe:
        """Make the recipe for these parameters; refuse parameters that contradict each other.

        If the user names no solver, `auto_solver` chooses one for a form of the problem, a budget, C, slack and a loss.
        """
        slack, solvers = estimator.slack, estimator._solvers

        def names(form: type[MarginProblem]) -> str:
            return ", ".join(name for name, other in solvers.items() if other.solves is form)

        solver = solver_named(estimator.solver, solvers)
        if solver is None:
            form: type[MarginProblem] = RegularizedSVM if slack is None else SlackSVM
            # If a holdout may end a fit with a slack, treat the fit as one with a budget of unknown size.
            budget = UNLIMITED if estimator.early_stopping and slack is not None else estimator.budget
            solver = auto_solver(form, budget, estimator.C, slack, loss or "squared_hinge")
        slack_form = slack is not None or issubclass(solver.solves, SlackSVM)
        if slack is None and Trait.SEPARABLE in solver.requires:
            slack = 0.0
        C = estimator.C if slack is None else None
        if slack is not None and estimator.C != DEFAULT_C:
            if Trait.SEPARABLE in solver.requires:
                raise ValueError(
                    f"solver {solver.name!r} is for separable data and takes slack=0 only; got C={estimator.C!r}. "
                    'For data with noise use solver="auto".'
                )
            raise ValueError(
                f"both C={estimator.C!r} and slack={slack!r} were given: give one of them, as each determines the other"
            )
        if slack is not None and not (issubclass(solver.solves, SlackSVM) or _finds_C(type(solver))):
            exact = [name for name, other in solvers.items() if _finds_C(other)]
            raise ValueError(
                f"solver {solver.name!r} solves the form with C and cannot search for the C of a slack; got slack="
                f"{slack!r}. Give C instead, or one of the solvers {', '.join(exact)}, {names(SlackSVM)}."
            )
        if loss is None:
            loss = "hinge" if slack_form else "squared_hinge"
        if slack_form and loss != "hinge":
            what = f"slack={slack!r}" if slack is not None else f"solver {solver.name!r}"
            raise ValueError(
                f"{what} is of the form with slack, whose loss is the hinge; got loss={loss!r}. Give loss='hinge', or "
                f"C and one of the solvers {names(RegularizedSVM)}."
            )
        if Trait.SMOOTH_LOSS in solver.requires and not LOSSES[loss].smooth:
            smooth = " or ".join(repr(name) for name, other in LOSSES.items() if other.smooth)
            raise ValueError(f"solver {solver.name!r} needs a smooth loss; got loss={loss!r}. Give loss={smooth}.")
        if slack_form and intercept_scaling is not None:
            what = f"slack={slack!r}" if slack is not None else f"solver {solver.name!r}"
            raise ValueError(
                f"{what} is of the form with slack, whose intercept is free; got intercept_scaling="
                f"{intercept_scaling!r}. Give intercept_scaling=None, or C and one of the solvers "
                f"{names(RegularizedSVM)}."
            )
        scale = None if scale is None else checked_scale(scale)
        return cls(solver, loss, C, slack, estimator.fit_intercept, intercept_scaling, scale)

    def problem(
        self,
        X: Rows,
        y: NDArray[np.float64],
        weights: NDArray[np.float64],
        *,
        scale: float | None = None,
        part: bool = False,
    ) -> MarginProblem:
        """Return the problem for these labels and weights.

        `scale` is used if the user gave none; `part` has the same meaning as in the problems.
        """
        if self.slack is None and issubclass(self.solver.solves, RegularizedSVM):
            assert self.C is not None
            return RegularizedSVM(
                X,
                y,
                self.C,
                loss=self.loss,
                bias=self.bias,
                intercept_scaling=self.intercept_scaling,
                sample_weight=weights,
                part=part,
            )
        return SlackSVM(
            X, y, self.slack or 0.0, bias=self.bias, sample_weight=weights, scale=self.scale or scale, part=part
        )

    def fit(
        self,
        problem: MarginProblem,
        scale: float,
        warm: Solution | Learned | Resume | None = None,
        *,
        stop: StopRules,
        holdout: Holdout | None,
        certify: bool | str,
        callback: Callable[[Progress], bool | None],
        random_state: int,
        checkpoint: Checkpoint | None = None,
    ) -> BinaryModel:
        """Fit the model of one binary problem; see :func:`maxmargin.solvers.solve` for the keyword parameters.

        `scale` is the divisor of the rows in the slack form; the slack of a model of either form is in its units.
        `stop.max_iter` and `n_iter` of the model count passes over the samples if the solver visits them one by one,
        and otherwise iterations. A solver of the slack form that searches for the slack of a C cannot start at `warm`.
        """
        per_pass = self.solver.iterations_per_pass(problem)
        if stop.max_iter is not None:
            stop = replace(stop, max_iter=stop.max_iter * per_pass)
        if isinstance(problem, SlackSVM) and self.C is not None:
            problem, result = solve_for_C(
                problem,
                self.solver,
                self.C,
                stop,
                holdout=holdout,
                certify=certify,
                callback=callback,
                random_state=random_state,
                checkpoint=checkpoint,
            )
        elif isinstance(problem, SlackSVM) and issubclass(self.solver.solves, RegularizedSVM):
            self._refuse_out_of_range(problem, stop)
            problem, result = solve_for_slack(
                problem,
                self.solver,
                stop,
                callback=callback,
                random_state=random_state,
                warm=warm if isinstance(warm, Resume) else None,
                checkpoint=checkpoint,
            )
        else:
            self._refuse_out_of_range(problem, stop)
            result = solve(
                problem,
                self.solver,
                stop,
                holdout=holdout,
                certify=certify,
                callback=callback,
                random_state=random_state,
                warm=warm,
                checkpoint=checkpoint,
            )
        model = replace(
            BinaryModel.of(problem, result, self.C, scale),
            n_iter=math.ceil(result.n_iter / per_pass),
            missed_tol=self._missed_tol(result, stop.tol),
            resume=result.resume,
        )
        if not self.solver.online:
            return model
        return replace(model, learned=self.solver.learned(problem, result.state), seen=float(problem.s.sum()))

    def learn(
        self,
        problem: MarginProblem,
        learned: Learned | None,
        seen: float,
        *,
        stop: StopRules,
        random_state: int,
    ) -> BinaryModel:
        """Continue an online solver with one pass over other rows.

        `seen` is the total weight of the earlier rows. C weighs the losses of all rows so far, as if the new rows were
        a sample of all of them.
        """
        here = float(problem.s.sum())
        seen += here
        if isinstance(problem, RegularizedSVM):
            problem = problem.with_C(problem.C * seen / here)
        assert isinstance(self.solver, OnlineSolver)
        stop = replace(stop, max_iter=self.solver.iterations_per_pass(problem))
        result = solve(problem, self.solver, stop=stop, certify=False, warm=learned, random_state=random_state)
        model = BinaryModel.of(problem, result, self.C, problem.scale)
        learned = self.solver.learned(problem, result.state)
        no_proof = Certificate.missing("partial_fit sees only a part of the data")
        return replace(model, learned=learned, seen=seen, certificate=no_proof, n_iter=1, alpha=None)

    def _refuse_out_of_range(self, problem: MarginProblem, stop: StopRules) -> None:
        """Refuse a slack with which every sample lies inside the margin.

        Computing the range takes two passes over the data, which is too much if the user limits what is read.
        """
        checked = self.in_range and self.scale is None and stop.budget is None and problem.sums_are_cheap
        if not (isinstance(problem, SlackSVM) and problem.slack > 0 and checked):
            return
        refuse_beyond(problem.slack, problem.largest_slack())

    def _missed_tol(self, result: Result, tol: float | None) -> float | None:
        """Return the tolerance that a run did not reach before its limit of iterations; None if there is none."""
        tol = self.solver.default_tol if tol is None else tol
        if tol is None or result.status != "max_iter":
            return None
        return None if result.certificate and result.certificate.relative_gap <= tol else tol


def refuse_beyond(slack: float, largest: float) -> None:
    """Refuse a slack beyond the largest one that matters."""
    if slack > largest:
        raise ValueError(
            f"slack={slack:.6g} is outside its range for this data, which is 0 to {largest:.6g}: with more slack, "
            "every sample lies inside the margin and the model no longer changes"
        )


def solver_named(solver: str | AnySolver, solvers: Mapping[str, type[AnySolver]]) -> AnySolver | None:
    """Return the solver, which may be given by its name in the table; None for "auto"."""
    kernel = solvers is KERNEL_SOLVERS
    if isinstance(solver, Solver) and (Trait.KERNEL in solver.requires) == kernel:
        return solver
    name = solver.name if isinstance(solver, Solver) else solver
    if name == "auto":
        return None
    if name in solvers and not isinstance(solver, Solver):
        return solvers[name]()
    choices = f"'auto', a Solver, or one of {', '.join(solvers)}"
    if name in (SOLVERS if kernel else KERNEL_SOLVERS):
        whose = "LinearSVC" if kernel else "SVC"
        raise ValueError(f"solver {name!r} is a solver of {whose}; here it must be {choices}")
    raise ValueError(f"solver must be {choices}; got {name!r}")


def _finds_C(solver: type[AnySolver]) -> bool:
    """Whether a solver of the form with C can find the C of a slack: it must reach small gaps with the hinge."""
    form_with_C = issubclass(solver.solves, RegularizedSVM) and Trait.SMOOTH_LOSS not in solver.requires
    return form_with_C and isinstance(solver.default_tol, float)
