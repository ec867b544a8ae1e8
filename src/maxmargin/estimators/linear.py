"""Linear classifiers in scikit-learn's conventions."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.linear_model._base import LinearClassifierMixin, SparseCoefMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, check_random_state, compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from maxmargin.core import Matrix
from maxmargin.data import as_matrix, refuse_not_finite
from maxmargin.estimators.binary import BinaryModel
from maxmargin.estimators.recipe import Recipe, solver_named
from maxmargin.estimators.tasks import FitTasks
from maxmargin.problems import LOSSES, Problem, SlackSVM, Solution
from maxmargin.solvers import SOLVERS, Holdout, Learned, Solver, listen_for_interrupt

Vector = NDArray[np.float64]


READABLE: dict[str, Any] = {
    "accept_sparse": ("csr", "csc"),
    "dtype": (np.float64, np.float32),
    "ensure_all_finite": False,  # the norms of the rows will tell, or a pass that says where
}


def _learns_online(estimator: Any) -> bool:
    solver = solver_named(estimator.solver)
    if solver is None or not solver.online:
        online = ", ".join(repr(name) for name, other in SOLVERS.items() if other.online)
        raise AttributeError(f"partial_fit needs an online solver, {online}; got solver={estimator.solver!r}")
    return True


class LinearSVC(CallbackSupportMixin, LinearClassifierMixin, SparseCoefMixin, BaseEstimator):  # type: ignore[misc]
    r"""A linear support vector classifier that says how good it is, and can learn from part of the data.

    With `C` it minimises

    .. math::

        \tfrac12|w|^2 + C\sum_i s_i\,\ell(y_i(\langle w, x_i\rangle + b)),

    where :math:`\ell(c)` is the squared hinge :math:`[1 - c]_+^2` (as in scikit-learn by default) or the hinge
    :math:`[1 - c]_+`. With `slack` it finds the largest margin at a given mean slack :math:`\nu`,

    .. math::

        \max_{|w| \le 1,\ b,\ \xi \ge 0}\ \min_i\ y_i(\langle w, x_i\rangle + b) + \xi_i
        \quad\text{such that}\quad \sum_i s_i \xi_i \le \nu \sum_i s_i,

    which is the same family of models as the hinge with C. The intercept b is not regularised unless
    `intercept_scaling` says so. With more than two classes it fits one model a class against the rest.

    Parameters
    ----------
    C : float or None, default=None
        The weight of the losses, in scikit-learn's scaling. Give `C` or `slack`; neither means C = 1 (for a solver of
        separable data: slack = 0).
    slack : float or None, default=None
        The mean slack :math:`\nu` of the data scaled into the unit ball: how far, on average, an example may fall
        short of the margin. It must cover what label noise costs.
    solver : str or Solver, default="auto"
        "auto", the name of a solver, or a solver object with parameters of its own; docs/solvers.md says which one is
        for what, and what "auto" takes.
    loss : {"hinge", "squared_hinge"} or None, default=None
        The loss of an example. None: the squared hinge with a solver of the form with C, the hinge with one of the form
        with slack, which knows no other.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    intercept_scaling : float or None, default=None
        None: the intercept is free. A number B: it is penalised as the weight of one more feature of the value B, as in
        LIBLINEAR and in scikit-learn's LinearSVC (there B = 1), by a solver of the form with C. It plays no part with
        `fit_intercept=False`.
    tol : float or None, default=None
        Stop when the relative duality gap is at most this. None: as the solver has it, which may be never; the
        sublinear solvers are there not to read all of the data, as each check of the gap does.
    max_iter : int or None, default=None
        Stop after so many iterations. What one iteration is depends on the solver: a visit to a row, or to all rows.
    max_time : float or None, default=None
        Stop after so many seconds (of each binary problem).
    budget : int or None, default=None
        The entries of X that may be read for learning (by each binary problem). Never exceeded.
    early_stopping : bool, default=False
        Hold out a part of the examples, stop when the error on it no longer improves, return the best model by it.
    validation_fraction : float, default=0.1
        How much to hold out.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    certify : bool or "checks", default=True
        Whether to certify the model on the full data, once at the end, or at each check as well. Without it there
        is no certificate, no margin, and `coef_` is not scaled to the margin.
    scale : float or None, default=None
        The unit of the slack: rows are divided by this to lie in the unit ball. None: the largest row norm, which takes
        a pass over the data.
    warm_start : bool, default=False
        Whether `fit` begins at the model of the last `fit`. That pays where the data is the same and C or the weights
        are others: the stop rules, the gap above all, mean the same wherever a fit begins. It needs the same numbers of
        rows and features, the same classes, a solver that can (docs/solvers.md), a certified model, and no `budget`
        below the size of the data; otherwise the fit begins anew. An online solver goes on from what it has learned,
        whatever the rows.
    n_jobs : int or None, default=None
        How many threads to use: for one model each where there are more than two classes, else for parts of the rows of
        large data, by which "newton" gains. None means 1 (or what `joblib.parallel_config` says), -1 all processors.
        The result is the same to the bit.
    random_state : int, RandomState or None, default=None
        The one source of randomness; the same seed gives the same bits.
    verbose : int, default=0
        1: print a line whenever the iterations have doubled; more: at each check.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (1, d) or (n_classes, d)
        The weights of the features. Examples at the margin have decision -1 or +1.
    intercept_ : array of shape (1,) or (n_classes,)
    solver_, loss_ : str
        What was taken.
    margin_ : float
        The margin reached, in the units of the data: 1 / \|coef_\|.
    slack_, C_ : float
        The slack and its C: the one that was given, and the other one that goes with it. With the squared hinge
        `slack_` tells how far examples fall short of the margin on average; a fit with this slack is another model.
    certificate_ : Certificate
        Value reached, bound on the best possible, gap; as a sentence, `print(model.certificate_)`.
    trace_ : Trace
        One row a check: `trace_.to_pandas()`, `trace_.plot()`.
    stopped_ : str
        The stop rule that ended the fit.
    entries_read_ : int
        Entries of X read for learning.
    reads_ : dict
        Entries read, by purpose.
    kernel_evaluations_ : int
        Always 0 here.
    n_iter_ : int
        Iterations, the most of any binary problem.
    scale_ : float
        The given scale, or the largest norm of a row.
    n_zero_rows_ : int or None
        How many rows are all zero; None where `scale` was given and nobody looked.
    support_ : array of shape (n_support,)
        The examples with a weight in the dual, where the solver has one or the model was certified.
    dual_coef_ : array of shape (1, n_support) or (n_classes, n_support)
        Their weights in `coef_`, signed by their labels: exact at the optimum.
    promise_ : dict
        What the solver's theorem promises, where it ran to its own end: `eps` and `failure_probability`.

    With more than two classes `margin_`, `slack_` and `C_` are arrays, and `certificate_`, `trace_`, `stopped_` and
    `promise_` lists, of one item a class in the order of `classes_`.

    See Also
    --------
    sklearn.svm.LinearSVC : The same with a penalised intercept and no certificate.

    References
    ----------
    Hazan, Koren, Srebro (2011), Beating SGD: Learning SVMs in Sublinear Time.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from maxmargin import LinearSVC
    >>> X, y = make_blobs(300, centers=2, random_state=0)
    >>> model = LinearSVC(C=1.0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither"), None],
        "slack": [Interval(Real, 0, None, closed="left"), None],
        "solver": [str, Solver],
        "loss": [StrOptions(set(LOSSES)), None],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither"), None],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "budget": [Interval(Integral, 1, None, closed="left"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "certify": ["boolean", StrOptions({"checks"})],
        "scale": [Interval(Real, 0, None, closed="neither"), None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C: float | None = None,
        slack: float | None = None,
        *,
        solver: str | Solver = "auto",
        loss: str | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        tol: float | None = None,
        max_iter: int | None = None,
        max_time: float | None = None,
        budget: int | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        class_weight: Any = None,
        certify: bool | str = True,
        scale: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.slack = slack
        self.solver = solver
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.budget = budget
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.certify = certify
        self.scale = scale
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, np.memmap, CSR or CSC matrix of shape (n, d)
            The examples; float32 and float64 are read where they lie, never copied.
        y : array of shape (n,)
            Their labels, of any type.
        sample_weight : array of shape (n,) or None
            Weights of the examples: 2 is the same as the row twice.

        Returns
        -------
        self
        """
        solver_named(self.solver)  # an unknown one is refused before any data is looked at
        before = vars(self).copy()  # the model of an earlier fit, for a warm start
        given = X
        X, y = validate_data(self, X, y, **READABLE)
        self.classes_, label = _classes(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        # One binary model: its solver has the threads. Several: each has one.
        threads = effective_n_jobs(self.n_jobs) if len(self._positives) == 1 else 1
        matrix = as_matrix(X, threads)
        recipe = Recipe.of(self, matrix)
        if self.scale is not None:  # without a given scale, the norms of the rows will tell
            self._refuse_not_finite(matrix)

        seeds = check_random_state(self.random_state)
        held = self._held_out_rows(label, seeds)
        if held.size:
            weights = weights.copy()  # they may be the caller's
            weights[held] = 0.0
        class_weights = self._class_weights(y)
        of_each = [_one_against_rest(k, label, weights, class_weights) for k in self._positives]
        first = recipe.problem(matrix, *of_each[0])
        self.scale_ = self._scale(first)
        problems = [first.forked()] + [first.forked().relabelled(*of_one) for of_one in of_each[1:]]
        warm = self._going_on_from(before, recipe, problems)
        seed_of = seeds.randint(2**31 - 1, size=len(problems))
        models: list[BinaryModel | None] = [None] * len(problems)
        tasks = FitTasks(self, len(problems), {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}})

        def fit_one(k: int) -> None:
            problem = problems[k]
            if interrupt.asked and k > 0:
                return
            with tasks.one(k, partial(self._predictor_on_the_way, models, k, problem.scale)) as progress:
                models[k] = recipe.fit(
                    problem,
                    self.scale_,
                    warm[k],
                    tol=self.tol,
                    max_iter=self.max_iter,
                    max_time=self.max_time,
                    budget=self.budget,
                    holdout=Holdout(problem.X, problem.y[held], held) if held.size else None,
                    early_stopping=self.early_stopping,
                    certify=self.certify,
                    random_state=int(seed_of[k]),
                    callback=progress,
                )

        with listen_for_interrupt() as interrupt:
            tasks.run(fit_one, self.n_jobs)
        for problem in problems:
            matrix.ledger.add(problem.X.ledger)
        self.n_zero_rows_ = first.zero_rows
        self._publish(recipe, matrix, [model or BinaryModel.unreached(matrix.shape) for model in models])
        self._training_data = _reference(given)
        tasks.finish(lambda: self._predictor(models))
        return self

    @available_if(_learns_online)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning from more rows, one pass over them; for the online solvers.

        `C` weighs the losses of all rows so far; one that comes twice counts twice. There is no certificate, as the
        rows before are not read again. Callbacks, early stopping and `n_jobs` play no part.

        Parameters
        ----------
        X : array, np.memmap, CSR or CSC matrix of shape (n, d)
            More examples.
        y : array of shape (n,)
            Their labels.
        classes : array or None
            All classes, also those that come later. Needed in the first call, unless `fit` came before.
        sample_weight : array of shape (n,) or None
            Weights of the examples.

        Returns
        -------
        self
        """
        begins = not hasattr(self, "_learned")
        X, y = validate_data(self, X, y, **READABLE, reset=begins)
        if begins:
            if classes is None:
                raise ValueError(
                    "the first call of partial_fit needs all classes, also those that come later: classes="
                )
            self.classes_, _ = _classes(np.asarray(classes))
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} are others than in the first call, {self.classes_.tolist()}")
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" needs to know how many rows of each class will come: give a dict of weights'
            )
        strange = np.setdiff1d(y, self.classes_)
        if strange.size:
            raise ValueError(f"y holds {strange.tolist()}, but the classes are {self.classes_.tolist()}")
        label = np.searchsorted(self.classes_, y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        matrix = as_matrix(X)
        recipe = Recipe.of(self, matrix)
        class_weights = self._class_weights(self.classes_)
        of_each = [_one_against_rest(k, label, weights, class_weights) for k in self._positives]
        first = recipe.problem(matrix, *of_each[0], part=True)
        # What is looked at to find the scale need not be looked at again, and one scale serves all rows that come.
        if not begins or self.scale is not None:
            self._refuse_not_finite(matrix)
        if begins:
            self.scale_ = self._scale(first)
            self._learned: list[tuple[Learned | None, float]] = [(None, 0.0)] * len(of_each)
        first.scale = self.scale_ if isinstance(first, SlackSVM) else 1.0
        problems = [first] + [first.relabelled(*of_one) for of_one in of_each[1:]]
        seeds = check_random_state(self.random_state)
        models = []
        for problem, (learned, seen) in zip(problems, self._learned, strict=True):
            options = {"max_time": self.max_time, "budget": self.budget, "random_state": seeds.randint(2**31 - 1)}
            models.append(recipe.learn(problem, learned, seen, **options))
        self.n_zero_rows_ = None
        self._publish(recipe, matrix, models)
        self._training_data = None
        return self

    @property
    def _positives(self) -> Sequence[int]:
        """The class that each binary model tells from the others."""
        return range(self.classes_.size) if self.classes_.size > 2 else (1,)

    def _refuse_not_finite(self, X: Matrix) -> None:
        if not get_config()["assume_finite"]:
            refuse_not_finite(X)

    def _scale(self, problem: Problem) -> float:
        """The given scale, or the largest norm of a row."""
        return float(self.scale) if self.scale is not None else float(np.sqrt(problem.sq_norms().max())) or 1.0

    def _class_weights(self, y: NDArray[Any]) -> Vector:
        if self.class_weight is None:
            return np.ones(self.classes_.size)
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=y))

    def _going_on_from(
        self, before: dict[str, Any], recipe: Recipe, problems: Sequence[Problem]
    ) -> Sequence[Solution | Learned | None]:
        """Where each binary fit begins: at the model of an earlier fit, where that can be of use."""
        n, d = problems[0].X.shape
        nowhere = [None] * len(problems)
        if (
            not self.warm_start
            or "coef_" not in before
            or before["coef_"].shape[1] != d
            or not np.array_equal(before["classes_"], self.classes_)
        ):
            return nowhere
        if recipe.solver.online:
            return [learned for learned, _ in before["_learned"]] if "_learned" in before else nowhere
        enough = self.budget is None or self.budget >= problems[0].X.stored
        if not (recipe.solver.resumes and enough and "dual_coef_" in before and before["_n_rows"] == n):
            return nowhere
        # The weights of the examples grow with C, far more so than the model.
        assert recipe.C is not None
        alphas = np.zeros((len(problems), n))
        alphas[:, before["support_"]] = before["dual_coef_"] * (recipe.C / np.reshape(before["C_"], (-1, 1)))
        w = before["coef_"].toarray() if issparse(before["coef_"]) else before["coef_"]
        at = zip(w, before["intercept_"], alphas, problems, strict=True)
        return [Solution(w_k, float(b), alpha * problem.y) for w_k, b, alpha, problem in at]

    def _held_out_rows(self, label: NDArray[np.int64], seeds: np.random.RandomState) -> NDArray[np.int64]:
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

    def _predictor(self, models: Sequence[BinaryModel | None]) -> dict[str, Any]:
        """The attributes that predict; classes that have no model yet claim no example."""
        d = self.n_features_in_
        every = [model or BinaryModel.unreached((0, d)) for model in models]
        return {
            "classes_": self.classes_,
            # The coefficients of a single model are not copied: they may be as large as the data.
            "coef_": np.stack([model.coef for model in every]) if len(every) > 1 else every[0].coef.reshape(1, d),
            "intercept_": np.array([model.intercept for model in every]),
        }

    def _predictor_on_the_way(
        self, models: list[BinaryModel | None], k: int, scale: float, solution: Solution
    ) -> dict[str, Any]:
        current = BinaryModel(solution.w / scale, solution.b)
        return self._predictor([*models[:k], current, *models[k + 1 :]])

    def _publish(self, recipe: Recipe, matrix: Matrix, models: Sequence[BinaryModel]) -> None:
        """Set the fitted attributes."""
        many = len(models) > 1
        self.solver_, self.loss_ = recipe.solver.name, recipe.loss

        def each(name: str) -> Any:
            values = [getattr(m, name) for m in models]
            return values if many else values[0]

        for name, value in self._predictor(models).items():
            setattr(self, name, value)
        self.margin_, self.slack_, self.C_ = (
            np.array(each(name)) if many else each(name) for name in ("margin", "slack", "C")
        )
        self.certificate_, self.trace_, self.stopped_ = each("certificate"), each("trace"), each("stopped")
        self.promise_ = each("promise")
        self.n_iter_ = max(m.n_iter for m in models)
        self.entries_read_ = matrix.ledger.stored
        self.kernel_evaluations_ = 0
        self.reads_ = matrix.ledger.summary()
        alphas = [m.alpha for m in models if m.alpha is not None]
        # An earlier fit may have left its own.
        for name in ("support_", "dual_coef_", "_learned"):
            self.__dict__.pop(name, None)
        self._n_rows = matrix.shape[0]
        if recipe.solver.online:
            self._learned = [(model.learned, model.seen) for model in models]
        if len(alphas) == len(models):
            weights = np.stack(alphas)
            self.support_ = np.flatnonzero(weights.any(axis=0))
            self.dual_coef_ = weights[:, self.support_]

    @property
    def support_vectors_(self) -> Any:
        """The rows of `support_`, taken from the training data as long as that is alive: no copy is kept."""
        check_is_fitted(self, "support_")
        X = self._training_data() if self._training_data is not None else None
        if X is None:
            raise AttributeError("the training data is gone; the support vectors are its rows model.support_")
        return _safe_indexing(X, self.support_)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        # A reference to the caller's data means nothing in another process.
        return {**state, "_training_data": None} if "_training_data" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # A solver of separable data cannot be asked for a good score on other data.
        solver = self.solver if isinstance(self.solver, Solver) else SOLVERS.get(str(self.solver))
        tags.classifier_tags.poor_score = solver is not None and solver.separable_only
        return tags


def _one_against_rest(
    k: int, label: NDArray[np.int64], weights: Vector, class_weights: Vector
) -> tuple[Vector, Vector]:
    """Labels and weights of the examples where class k is told from the others."""
    positive = label == k
    rest = class_weights[0] if class_weights.size == 2 else 1.0
    return np.where(positive, 1.0, -1.0), weights * np.where(positive, class_weights[k], rest)


def _classes(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
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


def _reference(X: Any) -> Any:
    try:
        return weakref.ref(X)
    except TypeError:  # a list, say
        return None
