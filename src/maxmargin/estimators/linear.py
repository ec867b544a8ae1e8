"""Linear classifiers that follow scikit-learn's conventions."""

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
    """A method that exists only with an online solver; otherwise the AttributeError names the online solvers."""

    def _check(self, obj: Any, owner: Any) -> None:
        try:
            solver = solver_named(obj.solver, SOLVERS)
        except ValueError as error:
            raise AttributeError(str(error)) from error
        if solver is None or not solver.online:
            others = " and ".join(repr(name) for name in online_solvers() if name != "pegasos")
            raise AttributeError(
                f"{owner.__name__} has no {self.attribute_name} with solver={obj.solver!r}; use solver='pegasos' "
                f"(or {others}), which can continue with more rows"
            )


def _with_online_solver(method: Any) -> Any:
    return _WithOnlineSolver(method, None, method.__name__)


class LinearSVC(LinearClassifierMixin, SparseCoefMixin, MarginClassifier):  # type: ignore[misc]
    r"""Linear support vector classifier that proves how good it is and can learn from part of the data.

    With `C`, the model minimises

    .. math::

        \tfrac12|w|^2 + C\sum_i s_i\,\ell(y_i(\langle w, x_i\rangle + b)),

    where :math:`\ell(c)` is the squared hinge :math:`[1 - c]_+^2` (as in scikit-learn by default) or the hinge
    :math:`[1 - c]_+`. With `slack`, the model maximises the margin at a given mean slack :math:`\nu`,

    .. math::

        \max_{|w| \le 1,\ b,\ \xi \ge 0}\ \min_i\ y_i(\langle w, x_i\rangle + b) + \xi_i
        \quad\text{such that}\quad \sum_i s_i \xi_i \le \nu \sum_i s_i,

    which gives the same family of models as the hinge with C. The intercept b is not regularised unless
    `intercept_scaling` is given. More than two classes are handled one-vs-rest.

    Parameters
    ----------
    penalty : {"l2"}, default="l2"
        The norm of w that is penalised, as in scikit-learn. "l1" is not supported.
    loss : {"hinge", "squared_hinge"} or None, default=None
        The loss function. None selects the squared hinge (scikit-learn's default) for solvers of the form with C, and
        the hinge for solvers of the form with slack, which support no other loss.
    dual : {"auto", True, False}, default="auto"
        Accepted for compatibility with scikit-learn, where it chooses between two algorithms. Here `solver` chooses
        the algorithm, and both values of `dual` give the same optimum.
    tol : float or None, default=None
        The fit stops when the relative duality gap, a share of the objective, is at most `tol`. scikit-learn's `tol`
        bounds a gradient instead, so the two are not comparable. None selects the solver's default, which is 0.001 for
        "newton" and "sdca". The sublinear solvers have no default, because each measurement of the gap reads all of
        the data.
    C : float, default=1.0
        The weight of the losses, in scikit-learn's scaling. Leave C at 1.0 if you give `slack`, or a solver for
        separable data (whose slack is 0).
    slack : float or None, default=None
        The mean slack :math:`\nu`: how far a sample may fall short of the margin on average, in units of `scale_`, the
        largest row norm. Give it in place of `C`. A misclassified sample falls short by at least the whole margin, so
        the training error is at most ``slack_ / (margin_ / scale_)``. If there is more slack than errors and label
        noise need, the model gives up samples for a larger margin, in the end all samples of the rarer class. To
        choose the slack, look at :func:`maxmargin.slack_path`, or let :class:`maxmargin.LinearSVCCV` choose it.
        Without a `budget`, a solver with `C` searches for the C that corresponds to the slack and finds the optimum to
        `tol`. If the classes overlap, there is a smallest possible slack; if `slack` is below it, the model of that
        smallest slack is returned, with a warning.
    multi_class : {"ovr"}, default="ovr"
        The strategy for more than two classes. Only one-vs-rest is supported; "crammer_singer" is not.
    solver : str or Solver, default="auto"
        "auto", the name of a solver, or a solver object with its own parameters. docs/solvers.md says what each solver
        is for and which one "auto" chooses.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    intercept_scaling : float or None, default=None
        If None, the intercept is not regularised. If a number B, the intercept is penalised like the weight of an
        additional feature with the constant value B, as in LIBLINEAR; 1 corresponds to the default of scikit-learn's
        LinearSVC. This needs a solver of the form with C, and has no effect if `fit_intercept` is False.
    max_iter : int or None, default=None
        The maximum number of passes over the data, as in scikit-learn; for solvers that do not visit samples one by
        one ("newton", "sdca_newton", "hybrid", "batch_perceptron"), the maximum number of iterations. None leaves only
        the solver's own limit, which is 2000 passes for "sdca" and 1000 iterations for "newton". A fit that stops at
        this limit before it reaches `tol` emits a ConvergenceWarning.
    max_time : float or None, default=None
        The maximum time of the fit in seconds. With more than two classes, the binary problems share it.
    budget : number or None, default=None
        The maximum number of entries of X that all binary problems together may read for learning; if entries have
        prices (see :class:`maxmargin.data.OnDemand`), the maximum sum that may be paid for them. It is never exceeded.
        Entries read for validation, scaling, certification or the holdout are not included; `reads_` lists them. If
        entries have prices, none are bought for these purposes: you must give a `scale`, and there is no certificate.
    early_stopping : bool, default=False
        Whether to hold out a part of the samples, stop when the error on them no longer improves, and return the model
        with the smallest error on them.
    validation_fraction : float, default=0.1
        The share of the samples to hold out for early stopping.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    certify : bool or "checks", default=True
        Whether to certify the model on the full data at the end of the fit; "checks" also certifies it at each check.
        If False, there is no certificate and no margin, and `coef_` is not scaled to the margin.
    scale : float or None, default=None
        The unit of the slack: rows are divided by `scale` to lie in the unit ball. None uses the largest row norm,
        which takes one pass over the data.
    keep_dual : bool, default=False
        Whether the fitted model keeps the dual variables as `support_` and `dual_coef_`: one number for each support
        vector, which is often far more than the model itself. `warm_start=True` keeps them too.
    warm_start : bool, default=False
        Whether `fit` starts from the model of the previous `fit`. This helps if the data is the same and C or the
        weights have changed. Where a fit starts does not change the meaning of the stop rules, in particular of the
        gap. A warm start needs the same numbers of rows and features, the same classes, a solver that supports it
        (docs/solvers.md), a model that was certified and keeps its dual variables, and no `budget` below the size of
        the data; otherwise the fit starts from scratch, and a warning says why. An online solver continues from what
        it has learned, with any rows. Pickles and model files keep what a warm start needs.
    n_jobs : int or None, default=None
        The maximum number of threads. None uses as many as the process may use if the work is large enough for them to
        pay off, and one inside a joblib worker; `joblib.parallel_config`, `threadpoolctl.threadpool_limits` and
        `OMP_NUM_THREADS` are respected. 1 means one thread, and -1 one thread per processor. The threads share the
        models of several classes, the rows of large data, and predictions. The result does not depend on the number
        of threads: it is the same to the bit.
    random_state : int, RandomState or None, default=None
        The only source of randomness. The same seed gives the same bits.
    verbose : int, default=0
        1 prints a line each time the number of iterations has doubled; larger values print a line at each check.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The class labels, sorted.
    coef_ : array of shape (1, d) or (n_classes, d)
        The weights of the features. Samples at the margin have the decision value -1 or +1.
    intercept_ : array of shape (1,) or (n_classes,)
        The intercepts.
    solver_, loss_ : str
        The solver and the loss that were used.
    margin_ : float
        The margin reached, in the units of the data: 1 / \|coef_\|.
    slack_, C_ : float
        The slack and the corresponding C: one of them was given, the other was computed from it. With the squared
        hinge, `slack_` is how far samples fall short of the margin on average; a fit with this slack gives a different
        model.
    certificate_ : Certificate or Certificates
        The value reached, a bound on the best possible value, and the gap; `print(model.certificate_)` gives a
        sentence.
    trace_ : Trace or Traces
        The progress of the fit, one row per check: `trace_.to_pandas()`, `trace_.plot()`.
    stopped_ : str
        The stop rule that ended the fit.
    entries_read_ : int
        The number of entries of X read for learning.
    reads_ : dict
        The number of entries read, by purpose.
    kernel_evaluations_ : int
        Always 0 for this class.
    n_iter_ : int
        The number of passes over the data or iterations, counted as `max_iter` counts them; with several binary
        problems, the largest number.
    scale_ : float
        The given `scale`, or the largest norm of a row.
    n_zero_rows_ : int or None
        The number of rows whose entries are all zero; None if `scale` was given, because then no norms are computed.
    support_ : array of shape (n_support,)
        The indices of the samples with a nonzero dual variable. Available with `keep_dual=True` or `warm_start=True`,
        if the solver has dual variables or the model was certified.
    dual_coef_ : array of shape (1, n_support) or (n_classes, n_support)
        The weights of these samples in `coef_`, signed by their labels; exact at the optimum. Available whenever
        `support_` is.
    support_vectors_ : array or sparse matrix of shape (n_support, d)
        The rows `support_` of the training data; available as long as the training data is in memory.
    promise_ : dict
        What the solver's theorem promises if the solver ran to its own end: `eps` and `failure_probability`.

    With more than two classes, `margin_`, `slack_` and `C_` are arrays, `certificate_` is a `Certificates`, `trace_` is
    a `Traces`, and `stopped_` and `promise_` are lists. Each holds one item per class, in the order of `classes_`.

    See Also
    --------
    sklearn.svm.LinearSVC : The same model with a penalised intercept and without a certificate.

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
        """Continue learning with one pass over more rows. Only online solvers have this method.

        `C` weighs the losses of all rows seen so far; a row that is given twice counts twice. There is no certificate,
        because earlier rows are not read again. Callbacks, early stopping and `n_jobs` have no effect.

        Parameters
        ----------
        X : array, np.memmap, CSR or CSC matrix of shape (n, d)
            More samples.
        y : array of shape (n,)
            The labels of these samples.
        classes : array or None, default=None
            All classes, including those that appear in later calls only. Required in the first call unless `fit` was
            called before.
        sample_weight : array of shape (n,) or None, default=None
            Weights of the samples.

        Returns
        -------
        self : object
            The updated estimator.
        """
        begins = not hasattr(self, "_learned")
        X, y = training_data(self, X, y, **self._readable, reset=begins)
        if begins:
            if classes is None:
                raise ValueError(
                    "the first call of partial_fit needs all classes, including those that appear later: give classes="
                )
            self.classes_, _ = classes_of(np.asarray(classes))
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes must be the same in all calls; got {classes!r}, but the first call had "
                f"{self.classes_.tolist()}"
            )
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" is not possible with partial_fit, because the number of later rows of each '
                "class is unknown: give a dict of weights"
            )
        strange = np.setdiff1d(y, self.classes_)
        if strange.size:
            raise ValueError(f"y holds {strange.tolist()}, but the classes are {self.classes_.tolist()}")
        label = np.searchsorted(self.classes_, y)
        weights = sample_weights(sample_weight, X)
        rows = FeatureRows(X)
        recipe = self._recipe(rows)
        # All later rows use the same scale. Computing it reads all norms, which also finds entries that are not finite.
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
        """Compute the decision value of each row.

        Parameters
        ----------
        X : array, sparse matrix or Source of shape (m, d)
            The samples.
        ranges : FeatureRanges, two or three arrays of shape (d,) or numbers, or None, default=None
            The smallest and the largest value of each feature. If given, only as many features are read as the labels
            need, and the decision values are approximate, as :meth:`decide` returns them.
        budget : float or None, default=None
            The maximum cost of the features of one sample. It needs `ranges`.

        Returns
        -------
        array of shape (m,) or (m, n_classes)
            With two classes, one value per row, positive for the second class. With more, one value per class and row.
        """
        if ranges is not None or budget is not None:
            return self.decide(X, ranges=ranges, budget=np.inf if budget is None else budget).values
        if lies_elsewhere(X):
            return np.concatenate([self._scores(rows) for rows in blocks_to_predict(self, X)])
        return self._scores(rows_to_predict(self, X))

    def _scores(self, X: Any) -> Vector:
        """Compute the decision values of validated rows."""
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
        """Compute the decision values of a few rows without the intercepts, of shape (m, n_models)."""
        return np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, d)
            The samples.

        Returns
        -------
        array of shape (m,)
            The class labels.
        """
        scores = self.decision_function(X)
        return np.asarray(self.classes_[scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(np.intp)])

    def decide(self, X: Any, *, ranges: Any, budget: float = np.inf, cost: Any = None) -> Decisions:
        """Predict each label from as few features as it needs, reading the most decisive features first.

        The features of a sample are read until no values of the remaining features, within their ranges, could change
        its label, or until the budget is spent.

        Parameters
        ----------
        X : array, sparse matrix, store or Source of shape (m, d), for example an OnDemand
            The samples. Entries are read and checked only when they are needed.
        ranges : FeatureRanges, or two or three arrays of shape (d,) or numbers
            The smallest, the largest and optionally a typical value of each feature (default: the middle of the
            range). :func:`maxmargin.data.feature_ranges` computes them from data. A value outside its range is used
            as it is, with a `RangeWarning`.
        budget : float, default=inf
            The maximum cost of the features of one sample.
        cost : float, array of shape (d,), or None, default=None
            The cost of each feature. None uses the costs of an OnDemand, and otherwise 1.

        Returns
        -------
        Decisions
            The labels, the decision values, whether each label is certain, and how much was read.

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
        if self.scale is not None:  # otherwise the computation of the norms finds entries that are not finite
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
        # The dual variables grow with C, much more than the model changes.
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
        """The rows `support_` of the training data, as long as that is in memory; the model keeps no copy of them."""
        check_is_fitted(self)
        if not hasattr(self, "support_"):
            raise AttributeError("this model has no dual variables; fit it with keep_dual=True to have support vectors")
        X = self._training_data() if self._training_data is not None else None
        if X is None:
            raise AttributeError("the training data is gone; the support vectors are its rows model.support_")
        return self._some_of(X, self.support_)

    def _some_of(self, X: Any, rows: Indices) -> Any:
        """Select rows of the training data in the form in which it was given."""
        return as_matrix(X)[rows] if lies_elsewhere(X) else _safe_indexing(X, rows)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        # A reference to the caller's data is meaningless in another process.
        return {**state, "_training_data": None} if "_training_data" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.poor_score = self._poor_score()
        return tags


def weak_reference(X: Any) -> Any:
    """Return a weak reference to data, or None if the type of the data does not support one."""
    try:
        return weakref.ref(X)
    except TypeError:  # for example a list
        return None
