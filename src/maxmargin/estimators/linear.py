"""Linear classifiers in scikit-learn's conventions."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import _fit_context
from sklearn.linear_model._base import LinearClassifierMixin, SparseCoefMixin
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils._available_if import _AvailableIfDescriptor
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.threads import BLAS_THREADS_FROM, LEAST_WORK, limit_blas, thread_count
from maxmargin.core.types import Indices, Vector
from maxmargin.data import as_matrix
from maxmargin.engine.registry import online_solvers
from maxmargin.engine.solver import AnySolver
from maxmargin.engine.stop_rules import StopRules
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.by_need import Decisions, decide_by_need
from maxmargin.estimators.fit import Fit
from maxmargin.estimators.model_table import ModelTable
from maxmargin.estimators.multiclass import OneVsRest, one_vs_rest
from maxmargin.estimators.packed_vectors import by_chunks
from maxmargin.estimators.recipe import Recipe, solver_named
from maxmargin.estimators.small_linear import small_feature_rows
from maxmargin.estimators.training_rows import FeatureRows, TrainingRows
from maxmargin.estimators.validation import (
    blocks_to_predict,
    classes_of,
    lies_elsewhere,
    rows_to_predict,
    sample_weights,
    training_data,
)
from maxmargin.problems import LOSSES, Solution
from maxmargin.solvers import SOLVERS, Learned


class _WithOnlineSolver(_AvailableIfDescriptor):  # type: ignore[misc]
    """A method that is there with an online solver only; the AttributeError without one names those."""

    def _check(self, obj: Any, owner: Any) -> None:
        try:
            solver = solver_named(obj.solver, SOLVERS)
        except ValueError as error:
            raise AttributeError(str(error)) from error
        if solver is None or not solver.online:
            others = " and ".join(repr(name) for name in online_solvers() if name != "pegasos")
            raise AttributeError(
                f"{owner.__name__} has no {self.attribute_name} with solver={obj.solver!r}; it has with "
                f"solver='pegasos' (and with {others}), which can go on with more rows"
            )


def _with_online_solver(method: Any) -> Any:
    return _WithOnlineSolver(method, None, method.__name__)


class LinearSVC(LinearClassifierMixin, SparseCoefMixin, MarginClassifier):  # type: ignore[misc]
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
    penalty : {"l2"}, default="l2"
        The norm of w that is penalised, as in scikit-learn. "l1" is not offered.
    loss : {"hinge", "squared_hinge"} or None, default=None
        The loss of a sample. None: the squared hinge (scikit-learn's default) with a solver of the form with C, the
        hinge with a solver of the form with slack, which has no other.
    dual : {"auto", True, False}, default="auto"
        Accepted as in scikit-learn, where it chooses between two algorithms; here `solver` does, and both values
        reach the same optimum.
    tol : float or None, default=None
        Stop when the relative duality gap is at most this, a share of the objective; scikit-learn's `tol` is a bound
        on a gradient, which is not comparable. None: the default of the solver, 0.001 for "newton" and "sdca"; the
        sublinear solvers have none, because each measurement of the gap reads all of the data.
    C : float, default=1.0
        The weight of the losses, in scikit-learn's scaling. `slack` takes its place: with `slack`, or with a solver
        for separable data (whose slack is 0), C must be left at 1.0.
    slack : float or None, default=None
        The mean slack :math:`\nu`: how far, on average, a sample may fall short of the margin, in units of `scale_`,
        the largest row norm. A misclassified sample falls short by at least the whole margin, so that the training
        error is at most ``slack_ / (margin_ / scale_)``. Slack beyond what errors and label noise need is spent on
        giving up samples for a larger margin, in the end all of the rarer class. To choose it, look at
        :func:`maxmargin.slack_path`, or let :class:`maxmargin.LinearSVCCV` choose. Without a `budget` the optimum is
        found to `tol`, by a solver with `C` that searches the C of the slack. Where the classes overlap, no model has
        less than a least slack: below it that model is returned, with a warning.
    multi_class : {"ovr"}, default="ovr"
        With more than two classes, one model for each class against the rest. "crammer_singer" is not offered.
    solver : str or Solver, default="auto"
        "auto", the name of a solver, or a solver object with parameters of its own; docs/solvers.md says which one is
        for what, and what "auto" takes.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    intercept_scaling : float or None, default=None
        None: the intercept is not regularised. A number B: it is penalised as the weight of one more feature of the
        value B, as in LIBLINEAR; 1 gives what scikit-learn's LinearSVC gives by default. It needs a solver of the form
        with C and plays no part with `fit_intercept=False`.
    max_iter : int or None, default=None
        Stop after so many passes over the data, as in scikit-learn, or so many iterations of a solver that does not
        visit samples one by one ("newton", "sdca_newton", "hybrid", "batch_perceptron"). None: no limit but the
        solver's own, which for "sdca" is 2000 passes and for "newton" 1000 iterations. A fit that ends so before its
        `tol` emits a ConvergenceWarning.
    max_time : float or None, default=None
        Stop after so many seconds; with more than two classes the binary problems share them.
    budget : number or None, default=None
        The entries of X that may be read for learning, by all binary problems together; where entries have prices, see
        :class:`maxmargin.data.OnDemand`, what may be paid for them. Never exceeded. What is read to validate, to scale,
        to certify or on the holdout comes on top; `reads_` lists it. Where entries have prices nothing is bought
        for that: give a `scale`, and there is no certificate.
    early_stopping : bool, default=False
        Hold out a part of the samples, stop when the error on it no longer improves, and return the best model by it.
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
    keep_dual : bool, default=False
        Whether the fitted model keeps the dual variables, `support_` and `dual_coef_`, one number for each support
        vector: often far more than the model itself. `warm_start=True` keeps them as well.
    warm_start : bool, default=False
        Whether `fit` begins at the model of the last `fit`. That pays where the data is the same and C or the weights
        are others: the stop rules, the gap above all, mean the same wherever a fit begins. It needs the same numbers of
        rows and features, the same classes, a solver that can (docs/solvers.md), a model that was certified and keeps
        its dual variables, and no `budget` below the size of the data; otherwise the fit begins anew, and a warning
        says why. An online solver goes on from what it has learned, whatever the rows. Pickles and model files keep
        what is needed.
    n_jobs : int or None, default=None
        How many threads to use, at most. None: as many as the process may use, where the work is large enough for them
        to pay, and one inside a worker of joblib; `joblib.parallel_config`, `threadpoolctl.threadpool_limits` and
        `OMP_NUM_THREADS` are respected. 1: one thread; -1: one for each processor. They share the models of
        several classes, the rows of large data, and predictions.
        The result is the same to the bit, whatever the number.
    random_state : int, RandomState or None, default=None
        The one source of randomness; the same seed gives the same bits.
    verbose : int, default=0
        1: print a line whenever the iterations have doubled; more: at each check.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (1, d) or (n_classes, d)
        The weights of the features. Samples at the margin have decision -1 or +1.
    intercept_ : array of shape (1,) or (n_classes,)
    solver_, loss_ : str
        What was taken.
    margin_ : float
        The margin reached, in the units of the data: 1 / \|coef_\|.
    slack_, C_ : float
        The slack and its C: the one that was given, and the other one that goes with it. With the squared hinge
        `slack_` tells how far samples fall short of the margin on average; a fit with this slack is another model.
    certificate_ : Certificate or Certificates
        Value reached, bound on the best possible, gap; as a sentence, `print(model.certificate_)`.
    trace_ : Trace or Traces
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
        Passes over the data or iterations, as `max_iter` counts them; the most of any binary problem.
    scale_ : float
        The given scale, or the largest norm of a row.
    n_zero_rows_ : int or None
        How many rows are all zero; None where `scale` was given and no norm was read.
    support_ : array of shape (n_support,)
        The samples with a weight in the dual, with `keep_dual=True` or `warm_start=True`, where the solver has such
        weights or the model was certified.
    dual_coef_ : array of shape (1, n_support) or (n_classes, n_support)
        Their weights in `coef_`, signed by their labels: exact at the optimum. There where `support_` is.
    support_vectors_ : array or sparse matrix of shape (n_support, d)
        The rows of `support_`, taken from the training data as long as that is alive.
    promise_ : dict
        What the solver's theorem promises, where it ran to its own end: `eps` and `failure_probability`.

    With more than two classes `margin_`, `slack_` and `C_` are arrays, `certificate_` is a `Certificates`, `trace_` a
    `Traces`, and `stopped_` and `promise_` are lists, of one item a class in the order of `classes_`.

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

    _solvers: ClassVar[Mapping[str, type[AnySolver]]] = SOLVERS
    _dual_name: ClassVar[str] = "dual_coef_"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MarginClassifier._parameter_constraints,
        "penalty": [StrOptions({"l2"})],
        "loss": [StrOptions(set(LOSSES)), None],
        "dual": ["boolean", StrOptions({"auto"})],
        "multi_class": [StrOptions({"ovr"})],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither"), None],
        "scale": [Interval(Real, 0, None, closed="neither"), None],
        "keep_dual": ["boolean"],
    }
    _not_offered: ClassVar[Mapping[str, tuple[Any, str]]] = {
        **MarginClassifier._not_offered,
        "penalty": ("l1", "use penalty='l2', or sklearn.svm.LinearSVC(penalty='l1', dual=False) for sparse models"),
        "multi_class": ("crammer_singer", "use multi_class='ovr', or sklearn.svm.LinearSVC for that formulation"),
    }

    def __init__(
        self,
        penalty: str = "l2",
        loss: str | None = None,
        *,
        dual: bool | str = "auto",
        tol: float | None = None,
        C: float = 1.0,
        slack: float | None = None,
        multi_class: str = "ovr",
        solver: str | AnySolver = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        max_iter: int | None = None,
        max_time: float | None = None,
        budget: float | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        class_weight: Any = None,
        certify: bool | str = True,
        scale: float | None = None,
        keep_dual: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.slack = slack
        self.multi_class = multi_class
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.max_iter = max_iter
        self.max_time = max_time
        self.budget = budget
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.certify = certify
        self.scale = scale
        self.keep_dual = keep_dual
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_with_online_solver
    @_fit_context(prefer_skip_nested_validation=True)
    @limit_blas()
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning from more rows, one pass over them; for the online solvers.

        `C` weighs the losses of all rows so far; one that comes twice counts twice. There is no certificate, as the
        rows before are not read again. Callbacks, early stopping and `n_jobs` play no part.

        Parameters
        ----------
        X : array, np.memmap, CSR or CSC matrix of shape (n, d)
            More samples.
        y : array of shape (n,)
            Their labels.
        classes : array or None
            All classes, also those that come later. Needed in the first call, unless `fit` came before.
        sample_weight : array of shape (n,) or None
            Weights of the samples.

        Returns
        -------
        self
        """
        begins = not hasattr(self, "_learned")
        X, y = training_data(self, X, y, **self._readable, reset=begins)
        if begins:
            if classes is None:
                raise ValueError(
                    "the first call of partial_fit needs all classes, also those that come later: classes="
                )
            self.classes_, _ = classes_of(np.asarray(classes))
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
        weights = sample_weights(sample_weight, X)
        rows = FeatureRows(X)
        recipe = self._recipe(rows)
        # One scale serves all rows that come later. The norms that are read to find it tell what is not finite.
        scale: float | None = self.scale if begins else self.scale_
        if scale is not None:
            self._refuse_not_finite(rows.matrix)
        scale = rows.largest_norm() if scale is None else scale
        strategy, class_weights = self._strategy, self._class_weights(self.classes_)
        problems = strategy.problems(label, weights, class_weights, np.zeros(0, dtype=np.int64))
        if begins:
            self._learned: list[tuple[Learned | None, float]] = [(None, 0.0)] * len(problems)
        seeds = check_random_state(self.random_state)
        stop = StopRules(max_time=self.max_time, budget=self.budget)
        models = []
        for samples, (learned, seen) in zip(problems, self._learned, strict=True):
            problem = rows.problem(recipe, samples, scale, part=True)
            seed = seeds.randint(2**31 - 1)
            models.append(recipe.learn(problem, learned, seen, stop=stop, random_state=seed))
            rows.add_reads(problem.X)
        no_one, everyone = np.zeros(0, dtype=np.int64), np.arange(label.size)
        fit = Fit(None, X, None, label, weights, class_weights, strategy, recipe, rows, scale, no_one, everyone)
        self._publish(fit, fit.table(models))
        self.n_zero_rows_: int | None = None
        return self

    def decision_function(self, X: Any, *, ranges: Any = None, budget: float | None = None) -> Vector:
        """How far each row lies on the side of a class.

        Parameters
        ----------
        X : array, sparse matrix or Source of shape (m, d)
        ranges : FeatureRanges, two or three arrays of shape (d,) or numbers, or None
            The least and the largest value of each feature. With them, only as many features are asked for as the
            labels need, and decision values are approximate: those of :meth:`decide`.
        budget : float or None
            The cost of the features of a sample, at most; it goes with `ranges`.

        Returns
        -------
        array of shape (m,) or (m, n_classes)
            With two classes, positive for the second. With more, the value of the model of each class.
        """
        if ranges is not None or budget is not None:
            return self.decide(X, ranges=ranges, budget=np.inf if budget is None else budget).values
        if lies_elsewhere(X):
            return np.concatenate([self._scores(rows) for rows in blocks_to_predict(self, X)])
        return self._scores(rows_to_predict(self, X))

    def _scores(self, X: Any) -> Vector:
        """The decision values of validated rows."""
        n, models = X.shape[0], self.intercept_.size
        operations = models * (X.nnz / n if issparse(X) else X.shape[1])
        if n * operations < BLAS_THREADS_FROM:
            scores: Vector = self._products(X) + self.intercept_
        else:
            scores = np.empty((n, models))

            def score(rows: Any, where: slice) -> None:
                np.add(self._products(rows), self.intercept_, out=scores[where])

            size = int(LEAST_WORK / max(1, operations)) + 1
            with limit_blas():
                by_chunks(score, X, operations=operations, n_jobs=self.n_jobs, size=size)
        return scores[:, 0] if models == 1 else scores

    def _products(self, X: Any) -> Vector:
        """The decision values of a few rows without the intercepts, of shape (m, n_models)."""
        return np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, d)

        Returns
        -------
        array of shape (m,)
        """
        scores = self.decision_function(X)
        return np.asarray(self.classes_[scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(np.intp)])

    def decide(self, X: Any, *, ranges: Any, budget: float = np.inf, cost: Any = None) -> Decisions:
        """Decide each sample by as few of its features as its label needs, the most decisive ones first.

        The features of a sample are asked for until no values of the others, within their ranges, could change its
        label, or until the budget ends.

        Parameters
        ----------
        X : array, sparse matrix, store or Source of shape (m, d), an OnDemand for instance
            Entries are read, and checked, when they are asked for.
        ranges : FeatureRanges, or two or three arrays of shape (d,) or numbers
            The least and the largest value of each feature, and one that is typical (the middle, if none is given);
            :func:`maxmargin.data.feature_ranges` finds them from data. A value that lies outside is used as it is, with
            a `RangeWarning`.
        budget : float, default=inf
            The cost of the features of a sample, at most.
        cost : float, array of shape (d,), or None
            What each feature costs. None: 1, or what an OnDemand says.

        Returns
        -------
        Decisions
            Labels, decision values, whether each label is certain, and what was asked for.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import make_classification
        >>> from maxmargin import LinearSVC
        >>> from maxmargin.data import feature_ranges
        >>> X, y = make_classification(500, 30, n_informative=5, random_state=0)
        >>> model = LinearSVC().fit(X, y)
        >>> decisions = model.decide(X, ranges=feature_ranges(X))
        >>> bool(np.array_equal(decisions.labels, model.predict(X)))
        True
        >>> bool(decisions.entries.mean() < 25)
        True
        """
        return decide_by_need(self, X, ranges, budget, cost)

    @property
    def _strategy(self) -> OneVsRest:
        return one_vs_rest(self.classes_)

    def _training_rows(
        self, X: Any, label: Indices, weights: Vector, held_out: Indices, *, from_scratch: bool
    ) -> tuple[TrainingRows, None]:
        rows = FeatureRows(X, thread_count(self.n_jobs))
        if self.scale is not None:  # otherwise the norms of the rows tell
            self._refuse_not_finite(rows.matrix)
        if from_scratch and self._plain_fit:
            keep_alpha = self.keep_dual or self.warm_start
            smooth = self.slack is None and (self.loss is None or LOSSES[self.loss].smooth)
            C = self.C if self.slack is None else None
            small = small_feature_rows(rows, label, weights, self._strategy, C=C, smooth=smooth, keep_alpha=keep_alpha)
            if small is not None:
                return small, None
        return rows, None

    def _recipe(self, rows: TrainingRows) -> Recipe:
        return Recipe.of(
            self, rows.auto_solver, loss=self.loss, intercept_scaling=self.intercept_scaling, scale=self.scale
        )

    def _warm_solution(self, before: dict[str, Any], fit: Fit[Any], k: int) -> Solution:
        w, alpha = before["coef_"][[k]], np.zeros(fit.label.size)
        # The dual variables grow with C, far more so than the model.
        assert fit.recipe.C is not None
        alpha[before["support_"]] = before["dual_coef_"][k] * (fit.recipe.C / np.ravel(before["C_"])[k])
        w = (w.toarray() if issparse(w) else w)[0]
        return Solution(w, float(before["intercept_"][k]), alpha * fit.problems[k].y)

    def _predictor(self, fit: Fit[Any], models: ModelTable) -> dict[str, Any]:
        return {"classes_": self.classes_, "coef_": models.coefficients, "intercept_": models.intercept}

    def _publish(self, fit: Fit[Any], models: ModelTable) -> None:
        super()._publish(fit, models)
        self.n_zero_rows_ = fit.rows.zero_rows
        self._training_data = weak_reference(fit.given)
        # An earlier fit may have set these.
        for name in ("support_", "dual_coef_", "_learned"):
            self.__dict__.pop(name, None)
        if fit.recipe.solver.online:
            self._learned = list(models.learned)
        if (self.keep_dual or self.warm_start) and models.alpha is not None:
            self.support_ = np.flatnonzero(models.alpha.any(axis=0))
            self.dual_coef_ = models.alpha[:, self.support_]

    @property
    def support_vectors_(self) -> Any:
        """The rows of `support_`, taken from the training data as long as that is alive: no copy is kept."""
        check_is_fitted(self)
        if not hasattr(self, "support_"):
            raise AttributeError("this model has no dual variables; fit it with keep_dual=True to have support vectors")
        X = self._training_data() if self._training_data is not None else None
        if X is None:
            raise AttributeError("the training data is gone; the support vectors are its rows model.support_")
        return self._some_of(X, self.support_)

    def _some_of(self, X: Any, rows: Indices) -> Any:
        """Some rows of the training data, as it was given."""
        return as_matrix(X)[rows] if lies_elsewhere(X) else _safe_indexing(X, rows)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        # A reference to the caller's data means nothing in another process.
        return {**state, "_training_data": None} if "_training_data" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.poor_score = self._poor_score()
        return tags


def weak_reference(X: Any) -> Any:
    """A reference to data that does not keep it alive; None if there cannot be one."""
    try:
        return weakref.ref(X)
    except TypeError:  # a list, say
        return None
