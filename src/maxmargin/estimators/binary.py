"""One binary model, from the units of the problem to those of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from maxmargin.problems import Certificate, SlackSVM, equivalent_C
from maxmargin.solvers import Result, Trace


@dataclass(frozen=True)
class BinaryModel:
    """A hyperplane and what is known of it, in the units of the data.

    Attributes
    ----------
    coef, intercept : array of shape (d,), float
        Scaled to the margin where that is known and positive (Lemma 2.1).
    margin, slack, C : float
        See :class:`maxmargin.LinearSVC`.
    alpha : array of shape (n,) or None
        The weight of each example in `coef`, signed by its label.
    """

    coef: NDArray[np.float64]
    intercept: float
    margin: float = math.nan
    slack: float = math.nan
    C: float = math.nan
    certificate: Certificate = field(default_factory=lambda: Certificate.missing("interrupted before this class"))
    trace: Trace = field(default_factory=Trace)
    stopped: str = "interrupted"
    n_iter: int = 0
    alpha: NDArray[np.float64] | None = None
    promise: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: SlackSVM, result: Result, C: float | None) -> BinaryModel:
        """The model that a run has found; `C` where the user gave it."""
        solution, at = result.solution, result.evaluation
        uncertified = cls(
            solution.w / problem.scale,
            solution.b,
            slack=problem.slack,
            C=math.nan if C is None else C,
            certificate=result.certificate,
            trace=result.trace,
            stopped=result.status,
            n_iter=result.n_iter,
            promise=result.promise,
        )
        if at is None:
            return uncertified
        stretch = 1 / at.value if at.value > 0 else 1.0
        p = solution.p if solution.p is not None else at.wet
        found_C = equivalent_C(problem, at, p)
        return replace(
            uncertified,
            coef=uncertified.coef * stretch,
            intercept=uncertified.intercept * stretch,
            margin=at.value * problem.scale,
            C=found_C if C is None else C,
            # At the optimum coef is the sum of alpha_i x_i, and C the largest alpha_i / s_i.
            alpha=problem.y * p * (found_C / problem.cap(p) if math.isfinite(found_C) else 1.0),
        )

    @classmethod
    def unreached(cls, shape: tuple[int, int]) -> BinaryModel:
        """The model of a class that an interrupted fit did not come to: it never claims an example."""
        return cls(np.zeros(shape[1]), -1.0, alpha=np.zeros(shape[0]))
