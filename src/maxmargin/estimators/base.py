"""What the classifiers share: from parameters, data and labels to binary models and what is known of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from maxmargin.data import refuse_not_finite
from maxmargin.engine.loop import OUT_OF_TIME
from maxmargin.estimators.advice import warn_of_a_cold_start, warn_of_one_class, warn_unless_converged
from maxmargin.estimators.binary import BinaryModel
from maxmargin.estimators.callbacks import FitTasks
from maxmargin.estimators.limits import Deadline, budget_shares
from maxmargin.estimators.recipe import Recipe, solver_named
from maxmargin.estimators.rounds import PRELIMINARY_TOL, Rounds, better_model, round_sizes
from maxmargin.kernels.feature_samples import ENTRIES
from maxmargin.problems import Certificates, MarginProblem, Solution
from maxmargin.solvers import Holdout, Learned, Solver, Traces

Vector = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Duel:
    """One binary problem: some classes against others.

    Attributes
    ----------
    y, weights : arrays
        Labels -1 and +1 and weights of the examples that take part.
    held : array
        Which of them are held out; their weight is 0.
    rows : array or None
        Which examples take part; None means all.
    """

    y: Vector
    weights: Vector
    held: Numbers
    rows: Numbers | None = None


@dataclass(frozen=True)
class Fit:
    """What one call of `fit` is made of.

    Attributes
    ----------
    given, X : data
        The examples as the user gave them, and as they are read.
    order : array or None
        The order in which problems have the rows of X; None: as they are.
    label : array of shape (n,)
        The class of each example, by its place in `classes_`, in that order.
    weights, class_weights : arrays
        The weight of each example, 0 where it is held out, and of each class.
    recipe : Recipe
    matrix : Matrix or KernelMatrix
        What the problems read.
    first : MarginProblem
        The problem of the first duel, on all rows: others are made from it.
    duels : list of Duel
    places : array of shape (n,)
        Where the examples stand among all of the data: in a preliminary round they are a part of it.
    """

    given: Any
    X: Any
    order: Numbers | None
    label: Numbers
    weights: Vector
    class_weights: Vector
    recipe: Recipe
    matrix: Any
    first: MarginProblem
    duels: list[Duel]
    places: Numbers

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which examples are learned from."""
        return self.weights > 0


class MarginClassifier(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier made of binary models, each fitted by a solver.

    A subclass says what is read (`_matrix`), what is solved (`_recipe`, `_duels`, `_problem`) and what predicts
    (`_predictor`, `_zero`); the rest of a fit is the same for all.
    """

    _solvers: ClassVar[Mapping[str, type[Solver]]]
    _dual_name: ClassVar[str]  # the attribute with the dual variables, which a warm start needs
    _readable: ClassVar[Mapping[str, Any]] = {
        "accept_sparse": ("csr", "csc"),
        "dtype": (np.float64, np.float32),
        "ensure_all_finite": False,  # it is left to `_matrix` and the problem, who say where
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
    # Values that scikit-learn takes and this does not: by parameter, the value and what to use instead.
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
            The examples, float32 or float64.
        y : array of shape (n,)
            Their labels, of any type.
        sample_weight : array of shape (n,) or None
            Weights of the examples: 2 is the same as the row twice.

        Returns
        -------
        self
        """
        deadline = Deadline(self.max_time)
        solver_named(self.solver, self._solvers)  # an unknown one is refused before any data is looked at
        before = vars(self).copy()  # the model of an earlier fit, for a warm start
        seeds = check_random_state(self.random_state)
        fit = self._set_up(X, y, sample_weight, seeds)
        warm = self._going_on_from(before, fit)
        seed_of = seeds.randint(2**31 - 1, size=len(fit.duels))
        budget_of = budget_shares(self.budget, [duel.y.size for duel in fit.duels])
        names = self._problem_names if len(fit.duels) > 1 else [""]
        models: list[BinaryModel | None] = [None] * len(fit.duels)
        tasks = FitTasks(self, names, {"X": fit.X, "y": y, "metadata": {"sample_weight": sample_weight}})

        def solve(of: Fit, k: int, max_time: float | None) -> BinaryModel:
            problem, held, whole = self._problem(of, k), of.duels[k].held, of is fit
            model = of.recipe.fit(
                problem,
                self.scale_,
                warm[k] if whole else None,
                tol=self.tol if whole else max(PRELIMINARY_TOL, self.tol or 0.0),
                max_iter=self._most_iterations,
                max_time=max_time,
                budget=budget_of[k],
                holdout=Holdout(problem.X, problem.y[held], held) if held.size else None,
                early_stopping=self.early_stopping and whole,
                certify=self.certify,
                random_state=int(seed_of[k]),
                callback=(
                    tasks.listener(k, partial(self._predictor_on_the_way, fit, models, k, problem.scale))
                    if whole
                    else lambda progress: tasks.given_up
                ),
            )
            known = models[k]
            if whole and known is not None and model.stopped in OUT_OF_TIME:
                model = better_model(problem, known, model)
            with tasks.lock:
                self._add_up(fit.matrix, problem.X)
            return model

        rounds = Rounds(
            fit,
            models,
            part=partial(self._part, fit),
            solve=solve,
            tasks=tasks,
            deadline=deadline,
            threads=thread_count(self.n_jobs, self._operations(fit)) if self._side_by_side else 1,
        )
        # A model to begin with is there after a warm start, and a budget has no room for samples that are read twice.
        begins = len(fit.duels) > 1 and self.budget is None and not any(warm)
        fitted = rounds.run(round_sizes(fit.label.size) if begins else [])
        self._publish(fit, fitted)
        tasks.finish(lambda: self._predictor(fit, fitted))
        self._advise(fit, fitted)
        return self

    def _set_up(self, X: Any, y: Any, sample_weight: Any, seeds: np.random.RandomState) -> Fit:
        """What is to be solved: the data is validated, and classes, scale and solver are known from here on."""
        given = X
        X, y = validate_data(self, X, y, **self._readable)
        self.classes_, label = classes_of(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        threads = thread_count(self.n_jobs)
        held = self._held_out_rows(label, seeds)
        order = self._order(label, held)
        if order is not None:
            label, weights, held = label[order], weights[order], np.flatnonzero(np.isin(order, held))
        matrix = self._matrix(X, order, threads)
        recipe = self._recipe(matrix)
        if held.size:
            weights = weights.copy()  # they may be the caller's
            weights[held] = 0.0
        class_weights = self._class_weights(y)
        duels = self._duels(label, weights, class_weights, held)
        first = self._first_problem(recipe, matrix, duels[0], label, weights, held)
        self.scale_ = self._scale(first)
        places = np.arange(label.size)
        return Fit(given, X, order, label, weights, class_weights, recipe, matrix, first, duels, places)

    def _first_problem(
        self, recipe: Recipe, matrix: Any, duel: Duel, label: Numbers, weights: Vector, held: Numbers, **options: Any
    ) -> MarginProblem:
        """The problem of the first duel, or of the first class against the rest: on all rows."""
        whole = duel if duel.rows is None else one_against_rest(0, label, weights, np.ones(2), held)
        return recipe.problem(matrix, whole.y, whole.weights, **options)

    def _part(self, fit: Fit, places: Numbers) -> Fit:
        """The fit of a part of the samples alone, of which none is held out."""
        label, weights, nobody = fit.label[places], fit.weights[places], np.zeros(0, dtype=np.int64)
        matrix = self._rows_of(fit, places)
        duels = self._duels(label, weights, fit.class_weights, nobody)
        first = self._first_problem(fit.recipe, matrix, duels[0], label, weights, nobody, scale=self.scale_)
        return replace(fit, label=label, weights=weights, matrix=matrix, first=first, duels=duels, places=places)

    # To be said by each classifier

    @abstractmethod
    def _matrix(self, X: Any, order: Numbers | None, threads: int) -> Any:
        """What the problems read: the rows of X in some order."""

    @abstractmethod
    def _rows_of(self, fit: Fit, places: Numbers) -> Any:
        """The same of a part of the rows."""

    @abstractmethod
    def _recipe(self, matrix: Any) -> Recipe:
        """What is solved, and how."""

    @abstractmethod
    def _problem(self, fit: Fit, k: int) -> MarginProblem:
        """The problem of duel k, that a thread may solve beside others."""

    @abstractmethod
    def _operations(self, fit: Fit) -> float:
        """About how many multiply-adds it takes to fit one binary model, on average."""

    @abstractmethod
    def _zero(self, fit: Fit, k: int) -> Any:
        """The direction w = 0 of duel k."""

    @abstractmethod
    def _predictor(self, fit: Fit, models: Sequence[BinaryModel]) -> dict[str, Any]:
        """The attributes that predict."""

    @abstractmethod
    def _begin_at(self, before: dict[str, Any], fit: Fit, k: int) -> Solution:
        """The model of an earlier fit, whose attributes are in `before`, as a solution of duel k."""

    def _order(self, label: Numbers, held: Numbers) -> Numbers | None:
        """The order in which problems have the rows; None: as they are."""
        return None

    def _duels(self, label: Numbers, weights: Vector, class_weights: Vector, held: Numbers) -> list[Duel]:
        """The binary problems: each class against the rest."""
        return [one_against_rest(k, label, weights, class_weights, held) for (k,) in self._contenders]

    def _add_up(self, matrix: Any, read: Any) -> None:
        """Count what a problem has read of a matrix of its own."""
        if read is not matrix:
            matrix.ledger.add(read.ledger)

    # The same for all

    @property
    def _contenders(self) -> list[tuple[int, ...]]:
        """The classes that each binary model is for, by their places in `classes_`: one against the rest, or two."""
        return [(k,) for k in range(self.classes_.size)] if self.classes_.size > 2 else [(1,)]

    @property
    def _problem_names(self) -> list[str]:
        """What each binary problem tells apart, e.g. "3 against 5" or "3 against the rest"."""
        labels = [str(value).removesuffix(".0") for value in self.classes_.tolist()]
        named = [[labels[k] for k in which] for which in self._contenders]
        return [" against ".join(of if len(of) > 1 else [*of, "the rest"]) for of in named]

    def _of_all_problems(self, collection: Callable[[dict[str, Any]], Any], values: Sequence[Any]) -> Any:
        """The value of the one binary problem, or where there are several a collection of them by their names."""
        return collection(dict(zip(self._problem_names, values, strict=True))) if len(values) > 1 else values[0]

    @property
    def _side_by_side(self) -> bool:
        """Whether binary models may be fitted in several threads at once."""
        return bool(self.classes_.size > 2)

    @property
    def _most_iterations(self) -> Any:
        return self.max_iter

    def _scale(self, problem: MarginProblem) -> float:
        """The largest norm of a row."""
        return float(np.sqrt(problem.sq_norms().max())) or 1.0

    def _class_weights(self, y: NDArray[Any]) -> Vector:
        if self.class_weight is None:
            return np.ones(self.classes_.size)
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=y))

    def _refuse_not_finite(self, X: Matrix) -> None:
        if not get_config()["assume_finite"]:
            refuse_not_finite(X)

    def _going_on_from(self, before: dict[str, Any], fit: Fit) -> Sequence[Solution | Learned | None]:
        """Where each binary fit begins: with `warm_start`, at the model of an earlier fit."""
        if not self.warm_start or "intercept_" not in before:
            return [None] * len(fit.duels)
        if reason := self._why_cold(before, fit):
            warn_of_a_cold_start(reason)
            return [None] * len(fit.duels)
        if fit.recipe.solver.online:
            return [learned for learned, _ in before["_learned"]]
        return [self._begin_at(before, fit, k) for k in range(len(fit.duels))]

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
        needed = fit.matrix.stored * len(fit.duels)  # each binary problem reads all of its data to begin there
        if self.budget is not None and self.budget < needed:
            return f"the budget of {self.budget:,} is below the {needed:,} that it takes to begin at the earlier model"
        if self._dual_name not in before:
            return "the earlier model has no dual variables; fit it with warm_start=True and certify=True to have them"
        if before["_n_rows"] != n:
            return f"the earlier model was fitted on {before['_n_rows']:,} samples, this data has {n:,}"
        return ""

    def _held_out_rows(self, label: Numbers, seeds: np.random.RandomState) -> Numbers:
        if not self.early_stopping:
            return np.zeros(0, dtype=np.int64)
        try:
            _, held = train_test_split(
                np.arange(label.size), test_size=self.validation_fraction, stratify=label, random_state=seeds
            )
        except ValueError as error:
            raise ValueError(
                f"early_stopping cannot hold out {self.validation_fraction:.3g} of {label.size} examples with some of "
                f"each class on both sides: {error}. Give more examples, or early_stopping=False."
            ) from error
        return np.sort(held)

    def _every(self, fit: Fit, models: Sequence[BinaryModel | None]) -> list[BinaryModel]:
        """Models without gaps: one that was not reached never claims an example."""
        n = fit.label.size
        return [model or BinaryModel.unreached(self._zero(fit, k), n) for k, model in enumerate(models)]

    def _predictor_on_the_way(
        self, fit: Fit, models: list[BinaryModel | None], k: int, scale: float, solution: Solution
    ) -> dict[str, Any]:
        current = BinaryModel(solution.w / scale, solution.b)
        return self._predictor(fit, self._every(fit, [*models[:k], current, *models[k + 1 :]]))

    def _poor_score(self) -> bool:
        """Whether the solver is for separable data: then it cannot be asked for a good score on other data."""
        solver = self.solver if isinstance(self.solver, Solver) else self._solvers.get(str(self.solver))
        return solver is not None and solver.separable_only

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
        kernel, read = fit.recipe.solver.kernel, int(fit.matrix.ledger.stored)
        self.reads_ = fit.matrix.ledger.summary()
        self.entries_read_ = self.reads_.get(ENTRIES, 0) if kernel else read
        self.kernel_evaluations_ = read if kernel else 0
        self._n_rows = fit.label.size

    def _advise(self, fit: Fit, models: Sequence[BinaryModel]) -> None:
        """Warn of what the user may not expect of a fit that has ended."""
        names = self._problem_names
        warn_unless_converged(models, names, self._most_iterations)
        warn_of_one_class(models, self._one_class_models(models, names), fit.recipe.slack)

    def _one_class_models(self, models: Sequence[BinaryModel], names: Sequence[str]) -> list[str]:
        """The models that predict one class for all training samples: with two classes, the class that it is."""
        if len(models) == 1:
            return [repr(self.classes_.tolist()[int(models[0].decision_range[0] > 0)])] if models[0].one_sided else []
        # One against the rest, the class whose decision value is the largest is predicted.
        least, largest = np.transpose([model.decision_range for model in models])
        winner = int(np.argmax(least))
        return [names[winner]] if (least[winner] > np.delete(largest, winner)).all() else []


def one_against_rest(k: int, label: Numbers, weights: Vector, class_weights: Vector, held: Numbers) -> Duel:
    """Class k told from the others; of only two, each has its weight."""
    positive = label == k
    rest = class_weights[0] if class_weights.size == 2 else 1.0
    return Duel(np.where(positive, 1.0, -1.0), weights * np.where(positive, class_weights[k], rest), held)


def classes_of(y: NDArray[Any]) -> tuple[NDArray[Any], Numbers]:
    """The classes, and the class of each example."""
    try:
        classes, label = np.unique(y, return_inverse=True)
    except TypeError as error:  # None among strings, say
        kinds = ", ".join(sorted({type(value).__name__ for value in y}))
        raise ValueError(f"y mixes labels of the types {kinds}; give labels of one type") from error
    # Two whole numbers are classes beyond doubt; finding that out takes scikit-learn as long as a step of a solver.
    if not (classes.size == 2 and classes.dtype.kind in "biuf" and (classes == np.floor(classes)).all()):
        check_classification_targets(y)
    if classes.size < 2:
        only = classes.tolist()[0]
        raise ValueError(f"y holds one class only, {only!r}; a classifier needs at least two classes")
    return classes, label
