"""What the classifiers share: from parameters, data and labels to binary models and the attributes that users see."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from maxmargin.core import Matrix
from maxmargin.core.threads import limit_blas, thread_count
from maxmargin.core.types import Indices, Vector
from maxmargin.data import refuse_not_finite
from maxmargin.engine.problem import Trait
from maxmargin.engine.solver import AnySolver
from maxmargin.engine.stop_rules import StopRules
from maxmargin.estimators.advice import warn_of_a_cold_start, warn_of_one_class, warn_unless_converged
from maxmargin.estimators.binary import BinaryModel
from maxmargin.estimators.callbacks import FitCallbacks
from maxmargin.estimators.fit import Fit
from maxmargin.estimators.limits import Deadline, budget_shares
from maxmargin.estimators.multiclass import MulticlassStrategy
from maxmargin.estimators.recipe import Recipe, solver_named
from maxmargin.estimators.rounds import Rounds, Start
from maxmargin.estimators.training_rows import TrainingRows
from maxmargin.kernels.feature_samples import ENTRIES
from maxmargin.problems import Certificates, KernelMatrix, Solution
from maxmargin.solvers import Learned, Solver, Traces


class MarginClassifier(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier made of binary models, each fitted by a solver.

    A subclass provides the strategy for several classes (`_strategy`), what is read (`_training_rows`), how a binary
    problem is solved (`_recipe`), where a warm start begins (`_warm_solution`) and the attributes that predict
    (`_predictor`); the rest of a fit is the same for all.
    """

    _solvers: ClassVar[Mapping[str, type[AnySolver]]]
    _dual_name: ClassVar[str]  # the attribute with the dual variables, which a warm start needs
    _readable: ClassVar[Mapping[str, Any]] = {
        "accept_sparse": ("csr", "csc"),
        "dtype": (np.float64, np.float32),
        "ensure_all_finite": False,  # checked by `_training_rows` or with the norms, with an error that says where
    }
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "slack": [Interval(Real, 0, None, closed="left"), None],
        "solver": [str, Solver],
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "budget": [Interval(Integral, 1, None, closed="left"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "certify": ["boolean", StrOptions({"checks"})],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    # Values that scikit-learn accepts and this library does not: by parameter, the value and what to use instead.
    _not_offered: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "C": (np.inf, "use slack=0 for a hard margin, or a large C such as 1e6"),
    }

    def _validate_params(self) -> None:
        """Refuse parameters that are not valid, and say what to use in place of those that scikit-learn has."""
        for name, (value, instead) in self._not_offered.items():
            if getattr(self, name) == value:
                raise ValueError(f"{type(self).__name__} does not offer {name}={value!r}: {instead}")
        super()._validate_params()

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @limit_blas()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, np.memmap, CSR or CSC matrix of shape (n, d)
            The samples, float32 or float64.
        y : array of shape (n,)
            Their labels, of any type.
        sample_weight : array of shape (n,) or None
            Weights of the samples: 2 is the same as the row twice.

        Returns
        -------
        self
        """
        deadline = Deadline(self.max_time)
        solver_named(self.solver, self._solvers)  # an unknown solver is refused before the data is looked at
        before = vars(self).copy()  # the model of an earlier fit, for a warm start
        seeds = check_random_state(self.random_state)
        fit = self._set_up(X, y, sample_weight, seeds)
        starts = self._starts(before, fit, seeds)
        data = {"X": fit.X, "y": y, "metadata": {"sample_weight": sample_weight}}
        callbacks = FitCallbacks(self, fit.strategy.names, data)
        models = Rounds(
            fit,
            starts,
            stop=StopRules(tol=self.tol, max_iter=self._max_iter, early_stopping=self.early_stopping),
            certify=self.certify,
            callbacks=callbacks,
            deadline=deadline,
            threads=thread_count(self.n_jobs, fit.rows.operations(fit.problems)) if fit.rows.parallel else 1,
            predictor=self._predictor,
        ).run()
        self._publish(fit, models)
        callbacks.finish(lambda: self._predictor(fit, models))
        self._advise(fit, models)
        return self

    def _set_up(self, X: Any, y: Any, sample_weight: Any, seeds: np.random.RandomState) -> Fit:
        """The binary problems of these samples, and how they are solved."""
        given = X
        X, y = validate_data(self, X, y, **self._readable)
        self.classes_, label = classes_of(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        held_out = self._held_out_samples(label, seeds)
        rows, order = self._training_rows(X, label, held_out)
        if order is not None:
            label, weights, held_out = label[order], weights[order], np.flatnonzero(np.isin(order, held_out))
        if held_out.size:
            weights = weights.copy()  # the array may be the caller's
            weights[held_out] = 0.0
        recipe = self._recipe(rows.matrix)
        scale = rows.largest_norm() if recipe.scale is None else recipe.scale
        class_weights = self._class_weights(y)
        strategy = self._strategy
        problems = strategy.problems(label, weights, class_weights, held_out)
        everyone = np.arange(label.size)
        return Fit(
            given, X, order, label, weights, class_weights, strategy, recipe, rows, scale, problems, positions=everyone
        )

    def _starts(self, before: dict[str, Any], fit: Fit, seeds: np.random.RandomState) -> list[Start]:
        """What each binary problem begins with: a seed, its share of the budget, and perhaps an earlier model."""
        warm = self._warm_starts(before, fit)
        seed = seeds.randint(2**31 - 1, size=len(fit.problems))
        budget = budget_shares(self.budget, [problem.size for problem in fit.problems])
        return [Start(warm[k], int(seed[k]), budget[k]) for k in range(len(fit.problems))]

    # Provided by each classifier

    @property
    @abstractmethod
    def _strategy(self) -> MulticlassStrategy:
        """How the classes of the fitted model are told apart."""

    @abstractmethod
    def _training_rows(self, X: Any, label: Indices, held_out: Indices) -> tuple[TrainingRows, Indices | None]:
        """What the binary problems read, and the order of the samples there; None: that of X."""

    @abstractmethod
    def _recipe(self, matrix: Matrix | KernelMatrix) -> Recipe:
        """Which form of the problem is solved, and how."""

    @abstractmethod
    def _warm_solution(self, before: dict[str, Any], fit: Fit, k: int) -> Solution:
        """The model of an earlier fit, whose attributes are in `before`, as a solution of binary problem k."""

    @abstractmethod
    def _predictor(self, fit: Fit, models: Sequence[BinaryModel]) -> dict[str, Any]:
        """The attributes that predict."""

    # The same for all classifiers

    def _of_all_problems(self, collection: Callable[[dict[str, Any]], Any], values: Sequence[Any]) -> Any:
        """The value of the one binary problem, or where there are several a collection of them by their names."""
        return collection(dict(zip(self._strategy.names, values, strict=True))) if len(values) > 1 else values[0]

    @property
    def _max_iter(self) -> int | None:
        return None if self.max_iter == -1 else self.max_iter  # SVC takes -1 for no limit, as scikit-learn does

    def _class_weights(self, y: NDArray[Any]) -> Vector:
        if self.class_weight is None:
            return np.ones(self.classes_.size)
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=y))

    def _refuse_not_finite(self, X: Matrix) -> None:
        if not get_config()["assume_finite"]:
            refuse_not_finite(X)

    def _warm_starts(self, before: dict[str, Any], fit: Fit) -> Sequence[Solution | Learned | None]:
        """Where each binary problem begins: with `warm_start`, at the model of an earlier fit."""
        from_scratch = [None] * len(fit.problems)
        if not self.warm_start or "intercept_" not in before:
            return from_scratch
        if reason := self._why_cold(before, fit):
            warn_of_a_cold_start(reason)
            return from_scratch
        if fit.recipe.solver.online:
            return [learned for learned, _ in before["_learned"]]
        return [self._warm_solution(before, fit, k) for k in range(len(fit.problems))]

    def _why_cold(self, before: dict[str, Any], fit: Fit) -> str:
        """Why a fit cannot begin at the model of an earlier one, whose attributes are in `before`; empty if it can."""
        (n, d), solver = fit.X.shape, fit.recipe.solver
        if before["n_features_in_"] != d:
            return f"the earlier model has {before['n_features_in_']} features, this data {d}"
        if not np.array_equal(before["classes_"], self.classes_):
            return (
                f"the earlier model has the classes {before['classes_'].tolist()}, this data {self.classes_.tolist()}"
            )
        if solver.online:
            return "" if "_learned" in before else "the earlier model is not one of an online solver"
        if not solver.resumes:
            others = ", ".join(repr(name) for name, other in self._solvers.items() if other.resumes)
            return f"solver {solver.name!r} cannot begin at an earlier model, only {others} can"
        # Each binary problem reads all of its data to begin there.
        needed = fit.rows.matrix.n_stored * len(fit.problems)
        if self.budget is not None and self.budget < needed:
            return f"the budget of {self.budget:,} is below the {needed:,} that it takes to begin at the earlier model"
        if self._dual_name not in before:
            return "the earlier model has no dual variables; fit it with warm_start=True and certify=True to have them"
        if before["_n_rows"] != n:
            return f"the earlier model was fitted on {before['_n_rows']:,} samples, this data has {n:,}"
        if before[self._dual_name].shape[0] != fit.strategy.coefficient_rows:
            return "the earlier model was fitted with another multi_class"
        return ""

    def _held_out_samples(self, label: Indices, seeds: np.random.RandomState) -> Indices:
        if not self.early_stopping:
            return np.zeros(0, dtype=np.int64)
        try:
            _, held_out = train_test_split(
                np.arange(label.size), test_size=self.validation_fraction, stratify=label, random_state=seeds
            )
        except ValueError as error:
            raise ValueError(
                f"early_stopping cannot hold out {self.validation_fraction:.3g} of {label.size} samples with some of "
                f"each class on both sides: {error}. Give more samples, or early_stopping=False."
            ) from error
        return np.sort(held_out)

    def _poor_score(self) -> bool:
        """Whether the solver is for separable data: then no good score can be expected on other data."""
        solver = self.solver if isinstance(self.solver, Solver) else self._solvers.get(str(self.solver))
        return solver is not None and Trait.SEPARABLE in solver.requires

    def _publish(self, fit: Fit, models: Sequence[BinaryModel]) -> None:
        """Set the fitted attributes."""
        many = len(models) > 1
        self.solver_, self.loss_ = fit.recipe.solver.name, fit.recipe.loss

        def each(name: str) -> Any:
            values = [getattr(m, name) for m in models]
            return values if many else values[0]

        for name, value in self._predictor(fit, models).items():
            setattr(self, name, value)
        self.margin_, self.slack_, self.C_ = (
            np.array(each(name)) if many else each(name) for name in ("margin", "slack", "C")
        )
        self.certificate_ = self._of_all_problems(Certificates, [model.certificate for model in models])
        self.trace_ = self._of_all_problems(Traces, [model.trace for model in models])
        self.stopped_, self.promise_ = each("stopped"), each("promise")
        self.n_iter_: Any = max(m.n_iter for m in models)
        kernel, ledger = Trait.KERNEL in fit.recipe.solver.requires, fit.rows.matrix.ledger
        read = int(ledger.entries_read)
        self.scale_, self.reads_ = float(fit.scale), ledger.summary()
        self.entries_read_ = self.reads_.get(ENTRIES, 0) if kernel else read
        self.kernel_evaluations_ = read if kernel else 0
        self._n_rows = fit.label.size

    def _advise(self, fit: Fit, models: Sequence[BinaryModel]) -> None:
        """Warn of what the user may not expect of a fit that has ended."""
        warn_unless_converged(models, fit.strategy.names, self._max_iter)
        warn_of_one_class(models, fit.strategy.one_class_models(models), fit.recipe.slack)


def classes_of(y: NDArray[Any]) -> tuple[NDArray[Any], Indices]:
    """The classes, and the class of each sample by its index among them."""
    try:
        classes, label = np.unique(y, return_inverse=True)
    except TypeError as error:  # None among strings, say
        kinds = ", ".join(sorted({type(value).__name__ for value in y}))
        raise ValueError(f"y mixes labels of the types {kinds}; give labels of one type") from error
    # Two integers are classes beyond doubt, and the check of scikit-learn takes as long as a step of a solver.
    if not (classes.size == 2 and classes.dtype.kind in "biuf" and (classes == np.floor(classes)).all()):
        check_classification_targets(y)
    if classes.size < 2:
        only = classes.tolist()[0]
        raise ValueError(f"y holds one class only, {only!r}; a classifier needs at least two classes")
    return classes, label
