"""Several classes as binary problems: the problems, the samples they use, and how their models predict together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from maxmargin.core.types import Indices, Vector
from maxmargin.estimators._decisions import PairwiseSums, count_votes, sum_decisions, sums_by_model
from maxmargin.estimators.words import label_text
from maxmargin.kernels.mixed_rows import Floats
from maxmargin.problems import KernelMatrix
from maxmargin.svm.kernel.many_problems import BinaryRanges, ClassOrder

# Up to this many samples per class on average, the kernel matrix of all samples is computed before the one-vs-one
# problems begin, because many of them use each row. With more samples, each problem computes its own rows.
SHARED_SAMPLES_PER_CLASS = 256


@dataclass(frozen=True)
class BinaryProblem:
    """The samples of one binary problem: some classes against others.

    Attributes
    ----------
    y, weights : arrays of shape (m,)
        Labels -1 and +1 and weights of the samples of this problem.
    held_out : array of int
        The samples of this problem that are held out for early stopping; their weights are 0.
    rows : array of shape (m,) or None
        The positions of these samples among all samples; None if the problem uses all samples.
    """

    y: Vector
    weights: Vector
    held_out: Indices
    rows: Indices | None = None

    @property
    def size(self) -> int:
        """The number of samples of the problem."""
        return self.y.size

    def positions(self, samples: Indices, n: int) -> Indices:
        """Convert positions of some of this problem's samples among all n samples to positions in this problem."""
        if self.rows is None:
            return samples
        position = np.empty(n, dtype=np.int64)
        position[self.rows] = np.arange(self.rows.size)
        return position[samples]

    def coefficients_of_all(self, beta: Vector, n: int) -> Vector:
        """Extend the coefficients of this problem's samples to all n samples; the others get 0."""
        if self.rows is None:
            return beta
        every = np.zeros(n)
        every[self.rows] = beta
        return every


class MulticlassStrategy(ABC):
    """Base class of the strategies that combine binary models to predict several classes.

    Parameters
    ----------
    classes : array of shape (n_classes,)
        The labels of the classes, in ascending order. All methods denote a class by its index in this array.
    """

    own_samples: ClassVar[bool]  # whether each binary problem uses only some of the samples

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes

    # The binary problems

    @property
    @abstractmethod
    def classes_by_model(self) -> list[tuple[int, ...]]:
        """For each binary model, the class that it separates from all others, or the two classes that it separates."""

    @property
    @abstractmethod
    def n_models(self) -> int:
        """The number of binary models."""

    @property
    def names(self) -> ProblemNames:
        """The name of each binary problem, e.g. "3 against 5" or "3 against the rest"."""
        return ProblemNames(self)

    def name(self, k: int) -> str:
        """Return the name of binary problem k."""
        return " against ".join([*map(self._label, self.classes_by_model[k]), "the rest"][:2])

    def _label(self, k: int) -> str:
        return label_text(self.classes[k : k + 1])[0]

    @abstractmethod
    def problems(
        self, label: Indices, weights: Vector, class_weights: Vector, held_out: Indices
    ) -> list[BinaryProblem]:
        """Return the binary problems.

        Parameters
        ----------
        label : array of shape (n,)
            The class of each sample.
        weights : array of shape (n,)
            The weight of each sample.
        class_weights : array of shape (n_classes,)
            The weight of each class.
        held_out : array of int
            The samples that are held out for early stopping.
        """

    @abstractmethod
    def ranges(self, order: ClassOrder, class_weights: Vector) -> BinaryRanges:
        """Return the binary problems as ranges of samples that are sorted by class."""

    @abstractmethod
    def one_class_models(self, decision_ranges: Vector) -> list[str]:
        """Return the names of the models that predict one class for all training samples.

        `decision_ranges`, of shape (n_models, 2), holds the smallest and the largest decision value of each model.
        """

    # Kernel rows

    @abstractmethod
    def sample_order(self, label: Indices, held_out: Indices) -> Indices:
        """Return the order of the samples in the kernel matrix."""

    @abstractmethod
    def compute_shared_rows(self, K: KernelMatrix) -> None:
        """Compute the kernel rows that several binary problems will use, before the first problem begins."""

    # The coefficients of the support vectors, in the layout of LIBSVM

    @property
    @abstractmethod
    def coefficient_rows(self) -> int:
        """The number of coefficients of each support vector."""

    @abstractmethod
    def coefficients(self, problems: Sequence[BinaryProblem], betas: Sequence[Vector], n: int) -> Vector:
        """Arrange the coefficients of all binary models in an array of shape (coefficient_rows, n) for n samples."""

    @abstractmethod
    def coefficients_of_model(self, dual_coef: Vector, n_support: NDArray[np.int32], k: int) -> Vector:
        """Return the coefficients of all support vectors in binary model k; `n_support` counts those of each class."""

    def coefficients_by_model(self, dual_coef: Vector, n_support: NDArray[np.int32]) -> csr_array:
        """Return the coefficients as a matrix with one row per binary model and one column per support vector."""
        models = [self.coefficients_of_model(dual_coef, n_support, k) for k in range(len(self.classes_by_model))]
        return csr_array(vstack([csr_array(model[None]) for model in models]))

    # Predicting

    @abstractmethod
    def decision_sums(self, dual_coef: Vector, n_support: NDArray[np.int32]) -> Callable[[Floats], Vector]:
        """Return a function that computes decision values without intercepts for these coefficients.

        The function takes a block of kernels between rows and all support vectors, of shape (m, n_SV), in C order and
        in float32 or float64. It returns the values of all binary models, of shape (m, n_models). It is thread-safe.
        """

    @abstractmethod
    def decision_function(self, values: Vector, by_class: bool) -> Vector:
        """Turn decision values of shape (m, n_models) into what users see: values by class, or else by model."""

    @abstractmethod
    def predict(self, values: Vector, break_ties: bool) -> NDArray[np.intp]:
        """Return the class of each row from decision values of shape (m, n_models)."""

    def certain(self, values: Vector, errors: Vector) -> NDArray[np.bool_]:
        """Find the rows for which `predict` gives the same class for all values that differ by at most these errors.

        Values and errors have the shape (m, n_models); ties are not broken.
        """
        return np.asarray((np.abs(values) > errors).all(axis=1))


class OneVsRest(MulticlassStrategy):
    """One binary model per class, which separates it from all others; the largest decision value wins.

    All binary problems use all samples, and so share the rows of one kernel matrix.
    """

    own_samples: ClassVar[bool] = False

    @property
    def classes_by_model(self) -> list[tuple[int, ...]]:
        return [(k,) for k in range(self.classes.size)]

    @property
    def n_models(self) -> int:
        return len(self.classes_by_model)

    def problems(
        self, label: Indices, weights: Vector, class_weights: Vector, held_out: Indices
    ) -> list[BinaryProblem]:
        problems = []
        for (k,) in self.classes_by_model:
            positive = label == k
            weight = np.where(positive, class_weights[k], self._weight_of_rest(class_weights))
            problems.append(BinaryProblem(np.where(positive, 1.0, -1.0), weights * weight, held_out))
        return problems

    def ranges(self, order: ClassOrder, class_weights: Vector) -> BinaryRanges:
        """Return the ranges; each problem has the classes before its own, its own, and those after it: two or three."""
        ends = [0, *order.first[1:].tolist(), order.samples.size]
        found, starts = [], [0]
        for row, (k,) in enumerate(self.classes_by_model):
            rest = -1.0, self._weight_of_rest(class_weights), row
            sides = [(0, ends[k], *rest), (ends[k], order.size[k], 1.0, class_weights[k], row)]
            sides.append((ends[k + 1], ends[-1] - ends[k + 1], *rest))
            found += [side for side in sides if side[1]]
            starts.append(len(found))
        first, size, label, weight, row_of = map(np.array, zip(*found, strict=True))
        return BinaryRanges(np.array(starts), first, size, label, weight.astype(np.float64), row_of)

    def weights_against_rest(self, class_weights: Vector) -> tuple[Vector, Vector]:
        """Return the factors of the sample weights in each model, for its own class and for all other classes."""
        positive = class_weights[[k for (k,) in self.classes_by_model]]
        return positive, np.full(positive.size, self._weight_of_rest(class_weights))

    def _weight_of_rest(self, class_weights: Vector) -> float:
        return 1.0

    def one_class_models(self, decision_ranges: Vector) -> list[str]:
        least, largest = decision_ranges.T
        winner = int(np.argmax(least))
        return [self.names[winner]] if (least[winner] > np.delete(largest, winner)).all() else []

    def sample_order(self, label: Indices, held_out: Indices) -> Indices:
        return shuffled(label.size, held_out)

    def compute_shared_rows(self, K: KernelMatrix) -> None:
        """Do nothing: the binary problems are solved one after another and share the cached rows."""

    @property
    def coefficient_rows(self) -> int:
        return len(self.classes_by_model)

    def coefficients(self, problems: Sequence[BinaryProblem], betas: Sequence[Vector], n: int) -> Vector:
        return np.stack(betas)

    def coefficients_of_model(self, dual_coef: Vector, n_support: NDArray[np.int32], k: int) -> Vector:
        return np.asarray(dual_coef[k])

    def decision_sums(self, dual_coef: Vector, n_support: NDArray[np.int32]) -> Callable[[Floats], Vector]:
        return partial(sums_by_model, coefficients=np.ascontiguousarray(dual_coef, dtype=np.float64))

    def decision_function(self, values: Vector, by_class: bool) -> Vector:
        return values

    def predict(self, values: Vector, break_ties: bool) -> NDArray[np.intp]:
        return np.asarray(values.argmax(axis=1))

    def certain(self, values: Vector, errors: Vector) -> NDArray[np.bool_]:
        winner = values.argmax(axis=1)[:, None]
        least = np.take_along_axis(values - errors, winner, axis=1)
        others = values + errors
        np.put_along_axis(others, winner, -np.inf, axis=1)
        return np.asarray((others < least).all(axis=1))


class TwoClasses(OneVsRest):
    """The simplest form of one-vs-rest: one binary model, whose decision values are positive for the second class."""

    @property
    def classes_by_model(self) -> list[tuple[int, ...]]:
        return [(1,)]

    def name(self, k: int) -> str:
        return ""  # the only problem needs no name

    def _weight_of_rest(self, class_weights: Vector) -> float:
        return float(class_weights[0])

    def one_class_models(self, decision_ranges: Vector) -> list[str]:
        """Return the predicted class, if the only model predicts one class; this says more than a name."""
        winner = int(decision_ranges[0, 0] > 0)
        return [repr(self.classes.tolist()[winner])] if one_sided(decision_ranges)[0] else []

    def decision_function(self, values: Vector, by_class: bool) -> Vector:
        return values[:, 0]

    def predict(self, values: Vector, break_ties: bool) -> NDArray[np.intp]:
        return (values[:, 0] >= 0).astype(np.intp)

    def certain(self, values: Vector, errors: Vector) -> NDArray[np.bool_]:
        return np.asarray(np.abs(values[:, 0]) > errors[:, 0])


class OneVsOne(MulticlassStrategy):
    """One binary model for each pair of classes, in the order (0, 1), (0, 2), ..., (1, 2), ...; the most votes win.

    A decision value is positive for the first class of its pair. A support vector of class i has a coefficient in each
    of the n_classes - 1 models of class i. As in LIBSVM, they are stored in the order of the other classes: row j - 1
    of the coefficients is for the model against a class j > i, and row j is for the model against a class j < i.
    """

    own_samples: ClassVar[bool] = True

    @property
    def classes_by_model(self) -> list[tuple[int, ...]]:
        return list(combinations(range(self.classes.size), 2))

    @property
    def n_models(self) -> int:
        return self.classes.size * (self.classes.size - 1) // 2

    def name(self, k: int) -> str:
        i, j = self._pairs
        return f"{self._label(i[k])} against {self._label(j[k])}"

    @property
    def _pairs(self) -> tuple[Indices, Indices]:
        """The first and the second class of each binary model."""
        return pairs_of_classes(self.classes.size)

    def ranges(self, order: ClassOrder, class_weights: Vector) -> BinaryRanges:
        i, j = self._pairs
        both, opponents = np.column_stack([i, j]).ravel(), np.column_stack([j, i]).ravel()
        return BinaryRanges(
            2 * np.arange(i.size + 1),
            order.first[both],
            order.size[both],
            np.tile([1.0, -1.0], i.size),
            class_weights[both],
            np.where(opponents > both, opponents - 1, opponents),
        )

    def problems(
        self, label: Indices, weights: Vector, class_weights: Vector, held_out: Indices
    ) -> list[BinaryProblem]:
        weights, is_held_out, problems = weights * class_weights[label], np.zeros(label.size, dtype=bool), []
        is_held_out[held_out] = True
        order = shuffled(label.size, held_out)
        label_in_order = label[order]
        for i, j in self.classes_by_model:
            rows = order[(label_in_order == i) | (label_in_order == j)]
            y = np.where(label[rows] == i, 1.0, -1.0)
            problems.append(BinaryProblem(y, weights[rows], np.flatnonzero(is_held_out[rows]), rows))
        return problems

    def one_class_models(self, decision_ranges: Vector) -> list[str]:
        return [self.name(k) for k in np.flatnonzero(one_sided(decision_ranges)).tolist()]

    def sample_order(self, label: Indices, held_out: Indices) -> Indices:
        """Sort the samples by class, so that a binary problem needs entries of a kernel row that are close together."""
        return np.argsort(label, kind="stable")

    def compute_shared_rows(self, K: KernelMatrix) -> None:
        n = K.shape[0]
        if K.holds_all_rows and n <= SHARED_SAMPLES_PER_CLASS * self.classes.size:
            K.fetch(np.arange(n))

    @property
    def coefficient_rows(self) -> int:
        return self.classes.size - 1

    def coefficients(self, problems: Sequence[BinaryProblem], betas: Sequence[Vector], n: int) -> Vector:
        packed = np.zeros((self.coefficient_rows, n))
        for (i, j), problem, beta in zip(self.classes_by_model, problems, betas, strict=True):
            assert problem.rows is not None
            first = problem.y > 0
            packed[j - 1, problem.rows[first]], packed[i, problem.rows[~first]] = beta[first], beta[~first]
        return packed

    def coefficients_of_model(self, dual_coef: Vector, n_support: NDArray[np.int32], k: int) -> Vector:
        i, j = self.classes_by_model[k]
        of_class = np.repeat(np.arange(n_support.size), n_support)
        return np.where(of_class == i, dual_coef[j - 1], np.where(of_class == j, dual_coef[i], 0.0))

    def decision_sums(self, dual_coef: Vector, n_support: NDArray[np.int32]) -> Callable[[Floats], Vector]:
        return PairwiseSums(dual_coef, n_support)

    def decision_function(self, values: Vector, by_class: bool) -> Vector:
        if not by_class:
            return values
        # As in scikit-learn: the votes plus the sum of the decision values, scaled to less than a third of a vote. A
        # value of exactly 0 is a vote for the first class here, and for the second class in `predict`, as in LIBSVM.
        sums, votes = sum_decisions(values, self.classes.size), count_votes(values, self.classes.size, True)
        return np.asarray(votes + sums / (3 * (np.abs(sums) + 1)))

    def predict(self, values: Vector, break_ties: bool) -> NDArray[np.intp]:
        """Return the class with the most votes; in a tie the first, or with `break_ties` the one with clearer votes."""
        ranks = self.decision_function(values, by_class=True) if break_ties else self.votes(values)
        return np.asarray(ranks.argmax(axis=1))

    def votes(self, values: Vector) -> NDArray[np.int64]:
        """Count the votes of the binary models for each class; the result has shape (m, n_classes)."""
        return count_votes(values, self.classes.size, False)


class ProblemNames(Sequence[str]):
    """The names of the binary problems of a fit, made on demand.

    Parameters
    ----------
    strategy : MulticlassStrategy
        The strategy that names its problems.
    """

    def __init__(self, strategy: MulticlassStrategy) -> None:
        self.strategy = strategy

    def __len__(self) -> int:
        return self.strategy.n_models

    @overload
    def __getitem__(self, which: int) -> str: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[str]: ...
    def __getitem__(self, which: int | slice) -> str | Sequence[str]:
        numbers = range(len(self))[which]
        return self.strategy.name(numbers) if isinstance(numbers, int) else [self.strategy.name(k) for k in numbers]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))


@lru_cache(maxsize=8)
def pairs_of_classes(classes: int) -> tuple[Indices, Indices]:
    """Return the first and the second class of each pair of classes, as read-only arrays."""
    first, second = np.triu_indices(classes, 1)
    first.flags.writeable = second.flags.writeable = False
    return first, second


def one_sided(decision_ranges: Vector) -> NDArray[np.bool_]:
    """Find the models that have all training samples on the same side; a range of NaN counts as not known."""
    least, largest = decision_ranges.T
    return np.asarray((least > 0) | (largest < 0) | (least == largest))


def one_vs_rest(classes: NDArray[Any]) -> OneVsRest:
    """Return the one-vs-rest strategy: one model per class, or one model for two classes."""
    return TwoClasses(classes) if classes.size == 2 else OneVsRest(classes)


def strategy_for(classes: NDArray[Any], multi_class: str = "ovr") -> MulticlassStrategy:
    """Return the strategy for these classes; `multi_class` is "ovr" or "ovo" and has no effect for two classes.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.estimators.multiclass import strategy_for
    >>> strategy_for(np.array([3, 5, 8]), "ovo").names
    ['3 against 5', '3 against 8', '5 against 8']
    """
    return OneVsOne(classes) if multi_class == "ovo" and classes.size > 2 else one_vs_rest(classes)


def shuffled(n: int, held_out: Indices) -> Indices:
    """Return a random order of n samples in which the held-out samples come first.

    It is for solvers that begin with the first samples. It is the same each time and does not change the seed of the
    fit.
    """
    order = np.random.default_rng(0).permutation(n)
    return np.concatenate([held_out, order[~np.isin(order, held_out)]]) if held_out.size else order
