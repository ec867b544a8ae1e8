"""What all problems share: the value of a point, and a proof of how good the point is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from maxmargin.core import Ledger
from maxmargin.core.types import Point, Readable, Vector
from maxmargin.engine.certificate import Certificate

Dual = tuple[Vector, Point]  # weights p and their weighted sum, e.g. sum p_i y_i x_i

CLOSE_ENOUGH = 0.01  # relative gap at which a certificate is no longer improved by further passes


@dataclass(frozen=True)
class Solution:
    """A point in the units of the problem; for a max-margin problem, a linear predictor.

    Attributes
    ----------
    w : array of shape (d,)
        The point; for a linear predictor, its direction.
    b : float
        The bias.
    p : array of shape (n,) or None
        Dual weights of the samples, if the solver has them.
    v : array of shape (d,) or None
        sum p_i y_i x_i, if the solver keeps it; otherwise it must be computed from the data.
    """

    w: Point
    b: float = 0.0
    p: Vector | None = None
    v: Point | None = None


@dataclass(frozen=True)
class Evaluation:
    """A point evaluated on all of the data. Subclasses add what else the same pass over the data gives.

    Attributes
    ----------
    w : array of shape (d,)
        The point.
    value : float
        The value of the problem at w.
    wet : array of shape (n,)
        The dual point that w suggests: weights on the samples (or functions) that prevent a better value.
    """

    w: Point
    value: float
    wet: Vector

    def solution(self, p: Vector | None, v: Point | None) -> Solution:
        """The point as a solution, with the dual weights p and their weighted sum of rows v."""
        return Solution(self.w, p=p, v=v)


def length(w: Point) -> float:
    """The norm |w| of a point that has an inner product: an array, or a vector in the space of a kernel."""
    return math.sqrt(max(0.0, float(w @ w)))


class Trait(Enum):
    """A property of problems that a solver may require."""

    FEATURES = "rows of features, a Matrix"
    PARTS = "rows of features, a Matrix or rows on a cluster"
    KERNEL = "rows of a kernel, a KernelMatrix"
    SMOOTH_LOSS = "a smooth loss, such as 'squared_hinge'"
    SEPARABLE = "slack 0, for separable data"


READS = frozenset({Trait.FEATURES, Trait.PARTS, Trait.KERNEL})  # traits that say which kind of data a solver reads


class Problem(ABC):
    """A problem over data that is read through `X`, which has a shape and counts what is read in its ledger.

    Attributes
    ----------
    X : Readable
        The data, which counts the entries that are read.
    scale : float
        The number by which the data is divided.
    """

    form: str  # the form of its certificates, a name of `FORMS`
    X: Readable
    scale: float = 1.0
    made_again: ClassVar[frozenset[str]] = frozenset()  # attributes that checkpoints omit and that are recomputed
    reads_norms: bool = False  # whether `prepare` reads all entries, to compute the norms of the rows

    @property
    def traits(self) -> frozenset[Trait]:
        """The traits of this problem that a solver may require."""
        return frozenset()

    def instead_of(self, trait: Trait) -> str:
        """What the problem has instead of a trait that it lacks, for an error message."""
        return f"a {type(self).__name__}"

    @property
    def ledger(self) -> Ledger:
        """The counts of entries read, by purpose."""
        return self.X.ledger

    @property
    def n_samples(self) -> int:
        """The number of samples; if samples have weights, the number of those whose weight is not 0."""
        return self.X.shape[0]

    def prepare(self, tol: float) -> None:  # noqa: B027  (most problems have nothing to prepare)
        """Called before a solver starts, e.g. to choose a precision of kernel rows that suffices for the gap `tol`."""

    def remembered(self) -> dict[str, Any]:
        """For a checkpoint: what the problem has computed from the data, i.e. its private attributes."""
        return {name: of for name, of in vars(self).items() if name.startswith("_") and name not in self.made_again}

    @abstractmethod
    def evaluate(self, w: Point) -> Evaluation:
        """Compute the value of a point from all of the data, and the dual weights that the point suggests."""

    def evaluate_solution(self, solution: Solution, *, keep_bias: bool) -> Evaluation:
        """Evaluate a solution; a problem with a bias uses the solution's bias if `keep_bias`, else the best one."""
        return self.evaluate(solution.w)

    def evaluation_cost(self, w: Point) -> int:
        """How many entries are read to evaluate w, not counting one pass over the data; with a kernel, evaluations."""
        return 0

    @abstractmethod
    def certify_evaluated(
        self, at: Evaluation, p: Vector | None = None, v: Point | None = None, *, rounds: int = 0
    ) -> tuple[Certificate, Dual]:
        """The certificate of an evaluated point, and the dual point that proves its bound.

        The dual weights p are used if given, with their weighted sum v; `rounds` limits the search for better weights.
        """

    def certify(self, w: Point, p: Vector | None = None, *, rounds: int = 0) -> Certificate:
        """The certificate of a point: its value, and a bound, from the dual weights p if given."""
        return self.certify_evaluated(self.evaluate(w), p, rounds=rounds)[0]
