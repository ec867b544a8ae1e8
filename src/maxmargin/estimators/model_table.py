"""The models of all binary problems of a fit, with a column for each quantity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.types import Vector
from maxmargin.estimators.binary import BinaryModel
from maxmargin.problems import Certificate
from maxmargin.solvers import Learned, Resume, Trace


@dataclass(frozen=True)
class ModelTable:
    """The binary models of a fit, in columns, because there may be hundreds of thousands of models.

    Attributes
    ----------
    coefficients : array of shape (n_models, d) or (rows, n)
        The weights of the features, or of the samples in the layout of LIBSVM.
    intercept : array of shape (n_models,)
        The intercepts.
    margin, slack, C : arrays of shape (n_models,)
        See :class:`maxmargin.LinearSVC`.
    n_iter : array of int
        The number of passes over the samples for a solver that visits them one by one, otherwise of iterations.
    stopped : sequence of str
        The stop rule that ended each problem.
    certificates, traces : sequences
        The certificate and the trace of each problem.
    missed_tol : array of shape (n_models,)
        The tolerance that a problem did not reach before its limit of iterations; NaN if there is no such tolerance.
    decision_ranges : array of shape (n_models, 2)
        The smallest and the largest decision value of a training sample; NaN if they were not computed.
    promises : sequence of dict
        What the solver's theorem promises for each problem.
    alpha : array of shape (n_models, n) or None
        The weight of each sample in the coefficients of the features, signed by its label; None if not known.
    learned : sequence of (Learned or None, float)
        What an online solver has learned and can continue from, and the total weight of the rows that it has seen.
    resumes : sequence of Resume or None
        The end of each run, from which another run can continue; empty if none can.
    decisions : sequence of array or None
        The decision value of each sample of each problem; empty or None if they were not computed.
    """

    coefficients: Vector
    intercept: Vector
    margin: Vector
    slack: Vector
    C: Vector
    n_iter: NDArray[np.int64]
    stopped: Sequence[str]
    certificates: Sequence[Certificate]
    traces: Sequence[Trace]
    missed_tol: Vector
    decision_ranges: Vector
    promises: Sequence[dict[str, float]]
    alpha: Vector | None = None
    learned: Sequence[tuple[Learned | None, float]] = field(default_factory=list)
    resumes: Sequence[Resume | None] = field(default_factory=list)
    decisions: Sequence[Vector | None] = field(default_factory=list)

    @classmethod
    def of(cls, models: Sequence[BinaryModel], coefficients: Vector, intercept: Vector) -> ModelTable:
        """Make the table of separately found models; coefficients and intercepts are in the units of the data."""

        def column(name: str) -> Vector:
            return np.array([getattr(model, name) for model in models], dtype=np.float64)

        alphas = [model.alpha for model in models if model.alpha is not None]
        return cls(
            coefficients,
            intercept,
            column("margin"),
            column("slack"),
            column("C"),
            np.array([model.n_iter for model in models]),
            [model.stopped for model in models],
            [model.certificate for model in models],
            [model.trace for model in models],
            np.array([math.nan if model.missed_tol is None else model.missed_tol for model in models]),
            np.array([model.decision_range for model in models]),
            [model.promise for model in models],
            np.stack(alphas) if len(alphas) == len(models) and len({alpha.size for alpha in alphas}) == 1 else None,
            [(model.learned, model.seen) for model in models],
            [model.resume for model in models],
            [model.decisions for model in models],
        )

    def __len__(self) -> int:
        return self.intercept.size
