"""The rows that the binary problems of a fit on a cluster read."""

from __future__ import annotations

from typing import Any, cast

from maxmargin.core import Matrix
from maxmargin.core.types import Indices
from maxmargin.dask.rows import ClusterRows
from maxmargin.engine.solver import AnySolver
from maxmargin.estimators.training_rows import FeatureRows
from maxmargin.problems import MarginProblem
from maxmargin.solvers import Newton

# Maximum features for `newton`: with more, sending each worker's Hessian (d^2 numbers) takes longer than passes.
MOST_NEWTON_FEATURES = 2000


class ClusterFeatureRows(FeatureRows):
    """Rows of features on the workers, all of which are read by each binary problem.

    Parameters
    ----------
    X : ClusterRows
        The rows.
    """

    parallel = False  # each problem uses the whole cluster
    most_threads = 1
    most_preliminary = 50_000

    def __init__(self, X: ClusterRows) -> None:
        self.matrix = cast("Matrix", X)  # it has everything that a problem requires of rows of features
        self.known_sq_norms = None

    def auto_solver(
        self, form: type[MarginProblem], budget: float | None, C: float, slack: float | None, loss: str
    ) -> AnySolver:
        if self.matrix.shape[1] <= MOST_NEWTON_FEATURES:
            return Newton()
        from maxmargin.solvers import Cocoa

        return Cocoa()

    def part(self, samples: Indices) -> Any:
        """Copy a few rows into this process."""
        return FeatureRows(self.matrix[samples])
