"""The base class of the classifiers, which turns parameters, data and labels into binary models and attributes."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import UNUSED

from maxmargin.core import Matrix
from maxmargin.core.rounding import is_finite
from maxmargin.core.types import Indices, Vector
from maxmargin.data import refuse_not_finite
from maxmargin.engine.by_name import ByName
from maxmargin.engine.problem import Trait
from maxmargin.engine.solver import AnySolver
from maxmargin.engine.stop_rules import StopRules
from maxmargin.estimators.advice import (
    warn_of_a_cold_start,
    warn_of_one_class,
    warn_of_too_little_slack,
    warn_unless_converged,
)
from maxmargin.estimators.callbacks import FitCallbacks
from maxmargin.estimators.fit import Fit, FitRules
from maxmargin.estimators.limits import Deadline, budget_shares
from maxmargin.estimators.model_table import ModelTable
from maxmargin.estimators.multiclass import MulticlassStrategy
from maxmargin.estimators.recipe import Recipe, solver_named
from maxmargin.estimators.rounds import Start
from maxmargin.estimators.training_rows import TrainingRows
from maxmargin.estimators.validation import check_parameters, classes_of, sample_weights, training_data
from maxmargin.kernels.feature_samples import ENTRIES
from maxmargin.problems import Certificates, RegularizedSVM, Solution
from maxmargin.solvers import Learned, Solver, Traces

if TYPE_CHECKING:
    from maxmargin.display import ModelReport
    from maxmargin.estimators.fit_checkpoint import FitCheckpoint


class MarginClassifier(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of classifiers made of binary models, each fitted by a solver.

    A subclass provides the strategy for several classes (`_strategy`), the rows to read (`_training_rows`), how a
    binary problem is solved (`_recipe`), where a warm start begins (`_warm_solution`) and the attributes that
    predictions use (`_predictor`). The rest of a fit is the same for all classifiers.
    """

    # A checkpoint belongs to one fit and must not be routed to other estimators.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"checkpoint": UNUSED}

    _solvers: ClassVar[Mapping[str, type[AnySolver]]]
    _dual_name: ClassVar[str]  # the attribute with the dual variables, which a warm start needs
    _readable: ClassVar[Mapping[str, Any]] = {
        "accept_sparse": ("csr", "csc"),
        "dtype": (np.float64, np.float32),
        "ensure_all_finite": False,  # `_training_rows` or the norms check this, with an error that names the entry
    }
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "slack": [Interval(Real, 0, None, closed="left"), None],
        "solver": [str, Solver],
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "budget": [Interval(Real, 0, None, closed="neither"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "certify": ["boolean", StrOptions({"checks"})],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    # Values that scikit-learn accepts and this library does not: for each parameter, the value and what to use instead.
    _not_offered: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "C": (np.inf, "use slack=0 for a hard margin, or a large C such as 1e6"),
    }

    @classmethod
    @cache
    def _get_param_names(cls) -> Any:
        """Return the names of the parameters; cached, because a grid search asks for them several times per fit."""
        return super()._get_param_names()

    def _validate_params(self) -> None:
        """Refuse invalid parameters, and say what to use instead of values that only scikit-learn supports."""
        for name, (value, instead) in self._not_offered.items():
            if getattr(self, name) == value:
                raise ValueError(f"{type(self).__name__} does not support {name}={value!r}: {instead}")
        check_parameters(self)

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, checkpoint: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, np.memmap, CSR or CSC matrix of shape (n, d)
            The samples, float32 or float64.
        y : array of shape (n,)
            The labels, of any type.
        sample_weight : array of shape (n,) or None, default=None
            Weights of the samples. A weight of 2 has the same effect as giving the row twice.
        checkpoint : str, path, Checkpoint or None, default=None
            A folder in which to save the fit about every ten seconds; it is created when needed. If the folder exists,
            the fit continues from it and gives the same result, to the bit, as a fit that was never interrupted. If
            the saved fit is complete, its model is returned at once; delete the folder to fit again. A checkpoint of
            other data, other parameters or another version of the library is refused. See docs/checkpoints.md.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        deadline = Deadline(self.max_time, self._began(X))
        solver_named(self.solver, self._solvers)  # refuses an unknown solver before the data is validated
        before = vars(self).copy()  # the model of an earlier fit, for a warm start
        seeds = check_random_state(self.random_state)
        keeper = None if checkpoint is None else fit_checkpoint(checkpoint)
        if keeper is not None:
            seeds = keeper.seeds(seeds)
        fit = self._set_up(X, y, sample_weight, seeds, before)
        warm = self._begins_at(before, fit)
        if keeper is not None:
            keeper.compare(**self._signature(fit, before if warm else None))
        data = {"X": fit.X, "y": y, "metadata": {"sample_weight": sample_weight}}
        callbacks = FitCallbacks(self, fit.strategy.names, data)
        rules = self._rules(callbacks, deadline, lambda: self._starts(before if warm else None, fit, seeds), keeper)
        models = fit.rows.solve(fit, rules)
        self._publish(fit, models)
        callbacks.finish(lambda: self._predictor(fit, models))
        self._advise(fit, models)
        return self

    def report(self, X: Any, y: Any, *, feature_names: Sequence[str] | None = None) -> ModelReport:
        """Report on the model and its performance on samples; see :class:`maxmargin.display.ModelReport`.

        Parameters
        ----------
        X : array, sparse matrix, data frame or store of shape (m, d)
            Samples to measure the model on, preferably other samples than the training data.
        y : array of shape (m,)
            The labels of these samples.
        feature_names : sequence of str or None, default=None
            The names of the features. None uses the names that the model was fitted with, and otherwise positions.

        Returns
        -------
        ModelReport
            The report. A notebook displays it, `save(path)` writes it to a file, and `html` is its HTML.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from maxmargin import LinearSVC
        >>> X, y = load_iris(return_X_y=True)
        >>> LinearSVC().fit(X, y).report(X, y)
        <ModelReport: LinearSVC, error 3.33 % of 150 samples>
        """
        from maxmargin.display import ModelReport

        return ModelReport.from_estimator(self, X, y, feature_names=feature_names)

    def _set_up(
        self, X: Any, y: Any, sample_weight: Any, seeds: np.random.RandomState, before: dict[str, Any]
    ) -> Fit[Any]:
        """Set up the binary problems of these samples, and how they are solved."""
        given = X
        X, y, sample_weight = self._validated(X, y, sample_weight)
        self.classes_, label = classes_of(y)
        weights = sample_weights(sample_weight, X)
        held_out = self._held_out_samples(label, seeds)
        class_weights = self._class_weights(y)
        rows, order = self._training_rows(
            X, label, weights * class_weights[label], held_out, from_scratch=not self._comparable(before, X)
        )
        if order is not None:
            label, weights, held_out = label[order], weights[order], np.flatnonzero(np.isin(order, held_out))
        if held_out.size:
            weights = weights.copy()  # the array may be the caller's
            weights[held_out] = 0.0
        recipe = self._recipe(rows)
        if recipe.scale is None and self.budget is not None and rows.ledger.priced:
            raise ValueError(
                "computing the largest norm of a row would buy all entries of X, regardless of the budget; give an "
                "upper bound of the norms as scale="
            )
        scale = rows.largest_norm() if recipe.scale is None else recipe.scale
        everyone = np.arange(label.size)
        return Fit(
            given, X, order, label, weights, class_weights, self._strategy, recipe, rows, scale, held_out, everyone
        )

    def _validated(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, NDArray[Any], Any]:
        """Validate X, y and the weights of a fit, except for NaN and infinity in X."""
        return *training_data(self, X, y, **self._readable), sample_weight

    def _began(self, X: Any) -> float:
        """Return the time at which the fit of these samples began: now, unless they were moved elsewhere before."""
        return time.perf_counter()

    def _for_samples(self, X: Any) -> MarginClassifier:
        """Return the estimator with the same parameters that a search fits on X, some or all of its samples."""
        return self

    def _signature(self, fit: Fit[Any], before: dict[str, Any] | None) -> dict[str, Any]:
        """Return everything that distinguishes this fit from others, for its checkpoint."""
        data = {"X": fit.X, "y": fit.label, "classes": str(self.classes_.tolist()), "weights": fit.weights}
        earlier = None if before is None else before["intercept_"]
        return {"estimator": type(self).__name__, **decisive_parameters(self), **data, "warm_start_at": earlier}

    def _rules(
        self,
        callbacks: FitCallbacks,
        deadline: Deadline,
        starts: Callable[[], list[Start]],
        checkpoint: FitCheckpoint | None = None,
    ) -> FitRules:
        """Return the stop rules, the callbacks and the starting points of a fit with these parameters."""
        return FitRules(
            StopRules(tol=self.tol, max_iter=self._max_iter, early_stopping=self.early_stopping),
            self.certify,
            callbacks,
            deadline,
            self.n_jobs,
            starts=starts,
            predictor=self._predictor,
            checkpoint=checkpoint,
        )

    def _starts(self, before: dict[str, Any] | None, fit: Fit[Any], seeds: np.random.RandomState) -> list[Start]:
        """Return what each binary problem starts from: a seed, a share of the budget, and perhaps an earlier model."""
        warm: Sequence[Solution | Learned | None] = [None] * len(fit.problems)
        if before is not None and fit.recipe.solver.online:
            warm = [learned for learned, _ in before["_learned"]]
        elif before is not None:
            warm = [self._warm_solution(before, fit, k) for k in range(len(fit.problems))]
        seed = seeds.randint(2**31 - 1, size=len(fit.problems))
        budget = budget_shares(self.budget, [problem.size for problem in fit.problems])
        return [Start(warm[k], int(seed[k]), budget[k]) for k in range(len(fit.problems))]

    # Provided by each classifier

    @property
    @abstractmethod
    def _strategy(self) -> MulticlassStrategy:
        """The multiclass strategy of the fitted model."""

    @abstractmethod
    def _training_rows(
        self, X: Any, label: Indices, weights: Vector, held_out: Indices, *, from_scratch: bool
    ) -> tuple[TrainingRows, Indices | None]:
        """Return the rows that the binary problems read, and the order of the samples in them (None: the order of X).

        `weights` are the sample weights times the class weights. `from_scratch` is False if the fit may start from the
        model of an earlier fit.
        """

    @abstractmethod
    def _recipe(self, rows: TrainingRows) -> Recipe:
        """Return the form of the problem and how it is solved."""

    @abstractmethod
    def _warm_solution(self, before: dict[str, Any], fit: Fit[Any], k: int) -> Solution:
        """Return the model of an earlier fit, whose attributes are in `before`, as a solution of binary problem k."""

    @abstractmethod
    def _predictor(self, fit: Fit[Any], models: ModelTable) -> dict[str, Any]:
        """Return the attributes that predictions use."""

    # The same for all classifiers

    def _of_all_problems(self, collection: Callable[[Mapping[str, Any]], Any], values: Sequence[Any]) -> Any:
        """Return the value of the only binary problem, or a collection of the values by name if there are several."""
        return collection(ByName(self._strategy.names, values)) if len(values) > 1 else values[0]

    @property
    def _max_iter(self) -> int | None:
        return None if self.max_iter == -1 else self.max_iter  # SVC accepts -1 for no limit, as in scikit-learn

    @property
    def _plain_fit(self) -> bool:
        """Whether any solver will do: there is no budget, no early stopping and no certificate at each check."""
        more = self.early_stopping or self.budget is not None or self.certify == "checks"
        plain = is_finite(self.C) and not more
        return isinstance(self.solver, str) and self.solver == "auto" and plain

    def _class_weights(self, y: NDArray[Any]) -> Vector:
        if self.class_weight is None:
            return np.ones(self.classes_.size)
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=y))

    def _refuse_not_finite(self, X: Matrix) -> None:
        if not (get_config()["assume_finite"] or X.checks_entries):
            refuse_not_finite(X)

    def _begins_at(self, before: dict[str, Any], fit: Fit[Any]) -> bool:
        """Whether the fit starts from an earlier model, whose attributes are in `before`; if it cannot, warn."""
        if not self.warm_start or "intercept_" not in before:
            return False
        reason = self._why_not_comparable(before, fit.X) or self._why_cold(before, fit)
        if reason:
            warn_of_a_cold_start(reason)
        return not reason

    def _comparable(self, before: dict[str, Any], X: Any) -> bool:
        """Whether the fit may start from the model of an earlier fit."""
        return self.warm_start and "intercept_" in before and not self._why_not_comparable(before, X)

    def _why_not_comparable(self, before: dict[str, Any], X: Any) -> str:
        """Return why the data cannot be that of the earlier fit; empty if it can."""
        if before["n_features_in_"] != X.shape[1]:
            return f"the earlier model has {before['n_features_in_']} features, this data has {X.shape[1]}"
        if not np.array_equal(before["classes_"], self.classes_):
            return (
                f"the earlier model has the classes {before['classes_'].tolist()}, this data has "
                f"{self.classes_.tolist()}"
            )
        if "_learned" in before:  # an online solver can continue with any rows
            return ""
        if before["_n_rows"] != X.shape[0]:
            return f"the earlier model was fitted on {before['_n_rows']:,} samples, this data has {X.shape[0]:,}"
        if self._dual_name in before and before[self._dual_name].shape[0] != self._strategy.coefficient_rows:
            return "the earlier model was fitted with another multi_class"
        return ""

    def _why_cold(self, before: dict[str, Any], fit: Fit[Any]) -> str:
        """Return why the solver cannot start from an earlier model of the same data; empty if it can."""
        solver = fit.recipe.solver
        if solver.online:
            return "" if "_learned" in before else "the earlier model is not one of an online solver"
        if not solver.resumes:
            others = ", ".join(repr(name) for name, other in self._solvers.items() if other.resumes)
            return f"solver {solver.name!r} cannot start from an earlier model, only {others} can"
        if fit.recipe.slack is not None and issubclass(solver.solves, RegularizedSVM):
            return f"with a slack, solver {solver.name!r} searches for the corresponding C from scratch"
        # To start from the earlier model, each binary problem reads all of its data.
        needed = fit.rows.matrix.n_stored * len(fit.problems)
        if self.budget is not None and self.budget < needed:
            return f"starting from the earlier model reads {needed:,} entries, more than the budget of {self.budget:,}"
        if self._dual_name not in before:
            return "the earlier model has no dual variables; fit it with warm_start=True and certify=True to have them"
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
        """Whether the solver is for separable data, so that a good score cannot be expected on other data."""
        solver = self.solver if isinstance(self.solver, Solver) else self._solvers.get(str(self.solver))
        return solver is not None and Trait.SEPARABLE in solver.requires

    def _publish(self, fit: Fit[Any], models: ModelTable) -> None:
        """Set the fitted attributes."""
        self.solver_, self.loss_ = fit.recipe.solver.name, fit.recipe.loss
        for name, value in self._predictor(fit, models).items():
            setattr(self, name, value)
        several = len(models) > 1
        self.margin_, self.slack_, self.C_ = (
            column if several else float(column[0]) for column in (models.margin, models.slack, models.C)
        )
        self.certificate_ = self._of_all_problems(Certificates, models.certificates)
        self.trace_ = self._of_all_problems(Traces, models.traces)
        self.stopped_: str | list[str] = list(models.stopped) if several else models.stopped[0]
        self.promise_: dict[str, float] | list[dict[str, float]] = (
            list(models.promises) if several else models.promises[0]
        )
        self.n_iter_: Any = int(models.n_iter.max())
        kernel, ledger = Trait.KERNEL in fit.recipe.solver.requires, fit.rows.ledger
        read = int(ledger.entries_read)
        self.scale_, self.reads_ = float(fit.scale), ledger.summary()
        self.entries_read_ = self.reads_.get(ENTRIES, 0) if kernel else read
        self.kernel_evaluations_ = read if kernel else 0
        self._n_rows = fit.X.shape[0]

    def _advise(self, fit: Fit[Any], models: ModelTable) -> None:
        """Warn of anything that the user may not expect of the finished fit."""
        warn_unless_converged(models, fit.strategy.names, self._max_iter)
        warn_of_too_little_slack(models, fit.strategy.names, fit.recipe.slack)
        warn_of_one_class(models, fit.strategy.one_class_models(models.decision_ranges), fit.recipe.slack)


def fit_checkpoint(checkpoint: Any) -> FitCheckpoint:
    """Return the checkpoint of a fit that the user gave as a path or object."""
    from maxmargin.estimators.fit_checkpoint import FitCheckpoint  # imported here because most fits need none

    return FitCheckpoint.of(checkpoint)


def decisive_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters that affect the result: all except those about threads, workers and printing."""
    given: dict[str, Any] = estimator.get_params(deep=False)
    return {name: value for name, value in given.items() if name not in ("n_jobs", "client", "verbose")}
