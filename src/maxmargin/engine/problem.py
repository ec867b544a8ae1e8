"""What all problems share: a value at a point, and a proof of how good it is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from maxmargin.core import Ledger
from maxmargin.core.types import Point, Readable, Vector
from maxmargin.engine.certificate import Certificate

Dual = tuple[Vector, Point]  # weights p, and what the problem sums with them: sum p_i y_i x_i, for instance

CLOSE_ENOUGH = 0.01  # a relative gap below which a certificate is not tightened further


@dataclass(frozen=True)
class Solution:
    """A point in the units of the problem: of a max-margin problem, a linear predictor.

    Attributes
    ----------
    w : array of shape (d,)
        The point: the direction.
    b : float
        The bias.
    p : array of shape (n,) or None
        Weights on the samples, a point of the dual, if the solver has one.
    v : array of shape (d,) or None
        sum p_i y_i x_i, where the solver keeps it: then nobody need read the data for it.
    """

    w: Point
    b: float = 0.0
    p: Vector | None = None
    v: Point | None = None


@dataclass(frozen=True)
class Evaluation:
    """A point evaluated on all of the data. Problems add what else the same pass over the data gives.

    Attributes
    ----------
    w : array of shape (d,)
        The point.
    value : float
        The value of the problem at w.
    wet : array of shape (n,)
        The point of the dual that w suggests: weights on the samples, or functions, that keep the value from improving.
    """

    w: Point
    value: float
    wet: Vector

    def solution(self, p: Vector | None, v: Point | None) -> Solution:
        """The point as a solution, with these dual weights and their sum of rows."""
        return Solution(self.w, p=p, v=v)


def length(w: Point) -> float:
    """|w|, of any point that has an inner product: an array, or a vector of a kernel's space."""
    return math.sqrt(max(0.0, float(w @ w)))


class Trait(Enum):
    """What a problem has that a solver may require."""

    FEATURES = "rows of features, a Matrix"
    PARTS = "rows of features, a Matrix or rows on a cluster"
    KERNEL = "rows of a kernel, a KernelMatrix"
    SMOOTH_LOSS = "a smooth loss, such as 'squared_hinge'"
    SEPARABLE = "slack 0, for separable data"


READS = frozenset({Trait.FEATURES, Trait.PARTS, Trait.KERNEL})  # what kind of data a solver reads


class Problem(ABC):
    """Something to be solved over data that is read through `X`, which has a shape and counts in its ledger.

    Attributes
    ----------
    X : Readable
        Where entries are read, and counted.
    scale : float
        What the data is divided by.
    """

    form: str  # of its certificates, a name of `FORMS`
    X: Readable
    scale: float = 1.0
    made_again: ClassVar[frozenset[str]] = frozenset()  # attributes that no checkpoint keeps: they are made when needed
    reads_norms: bool = False  # whether `prepare` reads all entries, for the norms of the rows

    @property
    def traits(self) -> frozenset[Trait]:
        """What a solver may require."""
        return frozenset()

    def instead_of(self, trait: Trait) -> str:
        """What the problem has where it lacks a trait, for a message."""
        return f"a {type(self).__name__}"

    @property
    def ledger(self) -> Ledger:
        """What was read, by purpose."""
        return self.X.ledger

    @property
    def n_samples(self) -> int:
        """How many samples count: of a problem with weights, those whose weight is not 0."""
        return self.X.shape[0]

    def prepare(self, tol: float) -> None:  # noqa: B027  (most problems have nothing to prepare)
        """Called before a solver starts, e.g. to choose the precision that kernel rows are kept in for this gap."""

    def remembered(self) -> dict[str, Any]:
        """For a checkpoint, what the problem has computed from the data: its private attributes."""
        return {name: of for name, of in vars(self).items() if name.startswith("_") and name not in self.made_again}

    @abstractmethod
    def evaluate(self, w: Point) -> Evaluation:
        """The value at a point, from all of the data, and the weights of the dual that it suggests."""

    def evaluate_solution(self, solution: Solution, *, keep_bias: bool) -> Evaluation:
        """The same of a whole solution: a problem with a bias keeps that of the solution, or chooses the best one."""
        return self.evaluate(solution.w)

    def evaluation_cost(self, w: Point) -> int:
        """How many entries must be read to evaluate w, beyond a pass over the data."""
        return 0

    @abstractmethod
    def certify_evaluated(
        self, at: Evaluation, p: Vector | None = None, v: Point | None = None, *, rounds: int = 0
    ) -> tuple[Certificate, Dual]:
        """The certificate of an evaluated point, and the point of the dual that proves its bound.

        Weights p of the dual may be given, and a few rounds allowed to find better ones.
        """

    def certify(self, w: Point, p: Vector | None = None, *, rounds: int = 0) -> Certificate:
        """How good a point is: its value, and a bound from p where given."""
        return self.certify_evaluated(self.evaluate(w), p, rounds=rounds)[0]
