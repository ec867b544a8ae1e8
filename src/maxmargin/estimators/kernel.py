"""Classifiers with a kernel in scikit-learn's conventions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Hidden, Interval, Options, StrOptions
from sklearn.utils._sparse import _align_api_if_sparse
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.matrix import rows_at_hand
from maxmargin.core.threads import thread_count
from maxmargin.core.types import Indices, Vector
from maxmargin.data import as_matrix
from maxmargin.engine.solver import AnySolver
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.fit import Fit
from maxmargin.estimators.kernel_decisions import DecisionCache, KernelDecisions
from maxmargin.estimators.model_table import ModelTable
from maxmargin.estimators.multiclass import MulticlassStrategy, strategy_for
from maxmargin.estimators.recipe import Recipe, solver_named
from maxmargin.estimators.small_kernel import MOST_SAMPLE_BYTES, small_kernel_rows
from maxmargin.estimators.training_rows import KernelRows, TrainingRows
from maxmargin.estimators.validation import blocks_to_predict, lies_elsewhere, rows_to_predict
from maxmargin.kernels.functions import KERNELS
from maxmargin.kernels.matrix import MAX_CACHE_SIZE
from maxmargin.kernels.mixed_rows import far_from_zero
from maxmargin.kernels.packed_rows import MOST_IN_MEMORY
from maxmargin.problems import Expansion, Kernel, KernelMatrix, Solution, make_kernel
from maxmargin.solvers import KERNEL_SOLVERS

PRODUCT_KERNELS = [name for name, kernel in KERNELS.items() if kernel.of_products]


class SVC(ClassifierMixin, MarginClassifier):  # type: ignore[misc]
    r"""A support vector classifier with a kernel, as exact as LIBSVM in a fraction of its time.

    With `C` it minimises

    .. math::

        \tfrac12|w|^2 + C\sum_i s_i\,[1 - y_i(\langle w, \phi(x_i)\rangle + b)]_+,
        \qquad \langle\phi(x), \phi(z)\rangle = k(x, z),

    and with `slack` it finds the largest margin at a given mean slack; see :class:`maxmargin.LinearSVC`. With more
    than two classes it fits a model for each two of them, and the class with the most votes is predicted, as LIBSVM
    does. It takes the place of :class:`sklearn.svm.SVC`: what has the same name means the same.

    Parameters
    ----------
    C : float, default=1.0
        The weight of the losses, in scikit-learn's scaling. `slack` takes its place: with `slack`, or with a solver
        for separable data (whose slack is 0), C must be left at 1.0.
    slack : float or None, default=None
        The mean slack: how far, on average, a sample may fall short of the margin, in units of `scale_`. The training
        error is at most ``slack_ / (margin_ / scale_)``; see :class:`maxmargin.LinearSVC` on what it gives, and
        :func:`maxmargin.slack_path` or :class:`maxmargin.SVCCV` on how to choose it.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        :math:`k(x, z)`: :math:`\exp(-\gamma|x - z|^2)`, :math:`\langle x, z\rangle`,
        :math:`(\gamma\langle x, z\rangle + c_0)^g`, :math:`\tanh(\gamma\langle x, z\rangle + c_0)`; a matrix given in
        the place of X; or a function of two sets of rows that returns the matrix between them.
    degree : int, default=3
        g of the kernel "poly".
    gamma : {"scale", "auto"} or float, default="scale"
        :math:`\gamma`; "scale" means 1 / (d times the variance of all entries), "auto" 1 / d.
    coef0 : float, default=0.0
        :math:`c_0` of the kernels "poly" and "sigmoid".
    solver : str or Solver, default="auto"
        "auto", the name of a solver of kernel problems, or such a solver with parameters of its own; docs/solvers.md
        says which one is for what.
    fit_intercept : bool, default=True
        Whether there is an intercept b, which is free.
    shrinking : bool, default=True
        Accepted as in scikit-learn; the solver decides on shrinking by itself, and it changes no optimum.
    probability : {False}, default=False
        Accepted as in scikit-learn, which deprecates it; for probabilities wrap the model in
        :class:`sklearn.calibration.CalibratedClassifierCV`.
    tol : float or None, default=None
        Stop when the relative duality gap is at most this, a share of the objective; scikit-learn's `tol` is a bound
        on a violated condition, which is not comparable. None: the default of the solver.
    max_iter : int or None, default=None
        Stop after so many iterations of "decomposition", or passes over the samples of a solver that visits them one
        by one; scikit-learn counts steps on pairs of samples. None, or -1 as in scikit-learn: no limit but the solver's
        own, which for "decomposition" is 20,000. A fit that ends so before its `tol` emits a ConvergenceWarning.
    max_time : float or None, default=None
        Stop after so many seconds; with more than two classes the binary problems share them.
    budget : int or None, default=None
        The kernel evaluations allowed for learning, by all binary problems together. Never exceeded. Those of the
        certificate come on top; `reads_` lists them.
    early_stopping : bool, default=False
        Hold out a part of the samples, stop when the error on it no longer improves, and return the best model by it.
    validation_fraction : float, default=0.1
        How much to hold out.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    multi_class : {"ovo", "ovr"}, default="ovo"
        With more than two classes: a model for each two of them, or for each against the rest.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` gives for more than two classes: a value for each class, or for each two.
    break_ties : bool, default=False
        Whether, between classes with as many votes, `decision_function` decides, and not the order of the classes.
    cache_size : float, default=2000
        How many megabytes of rows of the kernel matrix to keep, in all as in scikit-learn (there 200). No more is
        taken than the whole matrix has.
    certify : bool or "checks", default=True
        Whether to certify the model, once at the end, or at each check as well.
    warm_start : bool, default=False
        Whether `fit` begins at the model of the last `fit`, where the solver can (docs/solvers.md) and the numbers of
        rows and features and the classes are the same; where it cannot, a warning says why. That pays where C or the
        weights are others.
    n_jobs : int or None, default=None
        How many threads to use, at most. None: as many as the process may use, where the work is large enough for them
        to pay, and one inside a worker of joblib; `joblib.parallel_config`, `threadpoolctl.threadpool_limits` and
        `OMP_NUM_THREADS` are respected. 1: one thread; -1: one for each processor. They share the models of
        several classes, blocks of the kernel, and predictions; a `kernel` that is a function is called by one of them.
        The result is the same to the bit, whatever the number.
    random_state : int, RandomState or None, default=None
        The one source of randomness; the same seed gives the same bits.
    verbose : int, default=0
        1: print a line whenever the iterations have doubled; more: at each check.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    support_ : array of shape (n_SV,)
        Which samples are support vectors, those of the first class first.
    support_vectors_ : array or CSR matrix of shape (n_SV, d)
        Their rows; empty for a precomputed kernel.
    n_support_ : array of shape (n_classes,)
        How many each class has.
    dual_coef_ : array or CSR matrix of shape (n_classes - 1, n_SV)
        Their coefficients in w, signed by label, in the layout of LIBSVM: a support vector of class i has those against
        each other class in the order of the classes. With `multi_class="ovr"`: of shape (n_classes, n_SV), one row a
        model. Sparse after a fit on sparse data, as `coef_` is.
    intercept_ : array of shape (1,), (n_classes * (n_classes - 1) / 2,) or (n_classes,)
        One for each binary model: that of the classes 0 and 1, 0 and 2, ..., 1 and 2, ...
    coef_ : array or CSR matrix of shape (1, d), (n_classes * (n_classes - 1) / 2, d) or (n_classes, d)
        w, for the linear kernel only.
    gamma_ : float
        What `gamma` came to; NaN for a kernel without it.
    class_weight_ : array of shape (n_classes,)
        What `class_weight` came to.
    shape_fit_ : tuple
        The shape of X.
    fit_status_ : int
        0 where each binary problem ended by `tol`, by `early_stopping` or by itself; 1 where a limit came first.
    n_iter_ : array of shape (n_models,)
        Iterations or passes of each binary problem, as `max_iter` counts them.
    solver_, loss_ : str
        What was taken.
    margin_ : float
        The margin reached in the space of the kernel, 1 / \|w\|.
    slack_, C_ : float
        The slack and its C: the one that was given, and the other one that goes with it.
    certificate_ : Certificate or Certificates
        Value reached, bound on the best possible, gap; as a sentence, `print(model.certificate_)`.
    trace_ : Trace or Traces
        One row a check: `trace_.to_pandas()`, `trace_.plot()`.
    stopped_ : str
        The stop rule that ended the fit.
    kernel_evaluations_, kernel_evaluations_saved_ : int
        Evaluations of the kernel to learn, and those that were needed again and found in the cache.
    reads_ : dict
        Kernel evaluations, by purpose; "entries of X" are such, for the solver that reads them.
    entries_read_ : int
        Entries of X that a solver read in place of evaluations; 0 but for `sublinear_perceptron`.
    scale_ : float
        The largest norm of a sample in the space of the kernel.
    promise_ : dict
        What the solver's theorem promises, where it ran to its own end.

    With more than two classes `margin_`, `slack_` and `C_` are arrays, `certificate_` is a `Certificates`, `trace_` a
    `Traces`, and `stopped_` and `promise_` are lists, of one item a binary model.

    See Also
    --------
    sklearn.svm.SVC : The same by LIBSVM, without a certificate.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = SVC(C=10.0).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    >>> model.certificate_.relative_gap <= 1e-3
    True

    Probabilities come from scikit-learn's calibration:

    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> CalibratedClassifierCV(SVC(), ensemble=False).fit(X, y).predict_proba(X[:3]).shape
    (3, 2)
    """

    _solvers: ClassVar[Mapping[str, type[AnySolver]]] = KERNEL_SOLVERS
    _dual_name: ClassVar[str] = "_dual_coef"
    _readable: ClassVar[Mapping[str, Any]] = {**MarginClassifier._readable, "accept_sparse": "csr"}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MarginClassifier._parameter_constraints,
        "max_iter": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1}), None],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "shrinking": ["boolean"],
        "probability": ["boolean", Hidden(StrOptions({"deprecated"}))],  # scikit-learn's own default
        "multi_class": [StrOptions({"ovo", "ovr"})],
        "decision_function_shape": [StrOptions({"ovo", "ovr"})],
        "break_ties": ["boolean"],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
    }

    _not_offered: ClassVar[Mapping[str, tuple[Any, str]]] = {
        **MarginClassifier._not_offered,
        "probability": (True, "use sklearn.calibration.CalibratedClassifierCV(SVC(...), ensemble=False)"),
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        slack: float | None = None,
        kernel: str | Callable[..., Any] = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool = False,
        solver: str | AnySolver = "auto",
        fit_intercept: bool = True,
        tol: float | None = None,
        max_iter: int | None = None,
        max_time: float | None = None,
        budget: int | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        class_weight: Any = None,
        multi_class: str = "ovo",
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        cache_size: float = 2000.0,
        certify: bool | str = True,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.slack = slack
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.budget = budget
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.cache_size = cache_size
        self.certify = certify
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def decision_function(self, X: Any) -> Vector:
        """How far each row lies on the side of a class.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, d)
            Rows; for a precomputed kernel, of shape (m, n): the kernel with each training sample.

        Returns
        -------
        array of shape (m,), (m, n_classes) or (m, n_classes * (n_classes - 1) / 2)
            With two classes, positive for the second. With more, by `decision_function_shape`: for each class its votes
            with a part of at most 1/3 that tells how clear they were (for `multi_class="ovr"`, the value of its model),
            or for each two classes a value that is positive for the first.
        """
        by_class = self.decision_function_shape == "ovr"
        return self._decide(X, lambda strategy, values: strategy.decision_function(values, by_class=by_class))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, d)
            Rows; for a precomputed kernel, of shape (m, n): the kernel with each training sample.

        Returns
        -------
        array of shape (m,)
        """
        if self.break_ties and self.decision_function_shape == "ovo":
            check_is_fitted(self)
            raise ValueError(
                "break_ties must be False with decision_function_shape='ovo'; the values of 'ovr' break ties"
            )
        ties = self.break_ties
        label = self._decide(X, lambda strategy, values: strategy.predict(values, ties), only_classes=not ties)
        return np.asarray(self.classes_[label])

    @property
    def coef_(self) -> Any:
        """The weights of the features, for the linear kernel only."""
        if self.kernel != "linear":
            raise AttributeError(f"coef_ is there with kernel='linear' only; got kernel={self.kernel!r}")
        check_is_fitted(self)
        coef = self._strategy.coefficients_by_model(self._dual_coef, self.n_support_) @ self.support_vectors_
        if issparse(coef):
            return _align_api_if_sparse(coef.tocsr())
        coef.flags.writeable = False  # a change would have no effect
        return coef

    @property
    def dual_coef_(self) -> Any:
        """The coefficients of the support vectors, sparse after a fit on sparse data as in scikit-learn."""
        check_is_fitted(self)
        if issparse(self.support_vectors_):
            return _align_api_if_sparse(csr_array(self._dual_coef))
        return self._dual_coef

    # Fitting

    @property
    def _strategy(self) -> MulticlassStrategy:
        return strategy_for(self.classes_, self.multi_class)

    def _training_rows(
        self, X: Any, label: Indices, weights: Vector, held_out: Indices, *, from_scratch: bool
    ) -> tuple[TrainingRows, Indices | None]:
        self._refuse_pairs_of_one_vs_rest()
        if lies_elsewhere(X):
            X = rows_at_hand(X, MOST_IN_MEMORY)
        self._refuse_not_finite(as_matrix(X))
        strategy = self._strategy
        if from_scratch and self._plain_fit:
            # Sparse samples that are as small when they are made dense give the same model, to the bit, as dense ones.
            few = self.kernel in PRODUCT_KERNELS and 8 * X.shape[0] * X.shape[1] <= MOST_SAMPLE_BYTES
            samples = X.toarray() if issparse(X) and few else X
            kernel = self._make_kernel(samples)
            if not self._centred(kernel, samples):
                cache_bytes = 1e6 * min(self.cache_size, MAX_CACHE_SIZE)
                small = small_kernel_rows(
                    samples,
                    kernel,
                    label,
                    self.C * weights,
                    strategy,
                    cache_bytes=cache_bytes,
                    n_jobs=self.n_jobs,
                    general=lambda: self._kernel_rows(X, None),
                )
                if small is not None:
                    if self.slack is not None:  # each problem is solved for several C
                        small.expect_more_fits(self.n_jobs)
                    return small, None
        # A matrix that the user has computed is not copied into another order.
        order = None if self.kernel == "precomputed" else strategy.sample_order(label, held_out)
        return self._kernel_rows(X, order), order

    def _refuse_pairs_of_one_vs_rest(self) -> None:
        """Refuse decision values for each two classes where models are one for each class."""
        if self.multi_class == "ovr" and self.decision_function_shape == "ovo" and self.classes_.size > 2:
            raise ValueError("decision_function_shape='ovo' needs multi_class='ovo'; got multi_class='ovr'")

    def _kernel_rows(self, X: Any, order: Indices | None) -> KernelRows:
        """The rows of a kernel matrix of samples in this order; None: that of X."""
        kernel = self._make_kernel(X)
        K = KernelMatrix(
            X,
            kernel,
            cache_size=self.cache_size,
            threads=thread_count(self.n_jobs),
            rows=order,
            centred=self._centred(kernel, X),
        )
        return KernelRows(K, kernel.operations(X), self._strategy, ahead=self.budget is None)

    def _make_kernel(self, X: Any) -> Kernel:
        return make_kernel(self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def _centred(self, kernel: Kernel, X: Any) -> bool | None:
        """Whether the mean of the rows is subtracted, to lose fewer digits: a free intercept makes up for that.

        Rows near zero, where it matters little, and sparse rows are left as they are.
        """
        solver = solver_named(self.solver, self._solvers)
        balanced = self.slack is None if solver is None else solver.balanced
        if not (kernel.explicit and self.fit_intercept and balanced and not issparse(X)):
            return None
        return far_from_zero(X)

    def _recipe(self, rows: TrainingRows) -> Recipe:
        return Recipe.of(self, rows.auto_solver, loss="hinge")

    def _warm_solution(self, before: dict[str, Any], fit: Fit[Any], k: int) -> Solution:
        assert fit.recipe.C is not None
        problem, beta = fit.problems[k], np.zeros(fit.label.size)
        own = fit.strategy.coefficients_of_model(before["_dual_coef"], before["n_support_"], k)
        # The coefficients grow with C, far more so than the model.
        beta[before["support_"]] = own * (fit.recipe.C / np.ravel(before["C_"])[k])
        beta = beta if fit.order is None else beta[fit.order]
        beta = beta if problem.rows is None else beta[problem.rows]
        # The products with the rows are unknown: the rows may be others than those of the earlier fit.
        return Solution(
            Expansion.unknown(beta), float(before["intercept_"][k]) + fit.rows.shift(problem, beta), beta * problem.y
        )

    def _predictor(self, fit: Fit[Any], models: ModelTable) -> dict[str, Any]:
        """Support vectors, those of the first class first, and their coefficients in LIBSVM's layout."""
        support = np.flatnonzero(models.coefficients.any(axis=0))
        positions = support if fit.order is None else fit.order[support]  # in X
        by_class = np.lexsort([positions, fit.label[support]])
        support, positions = support[by_class], positions[by_class]
        return {
            "classes_": self.classes_,
            "support_": positions.astype(np.int32),
            "support_vectors_": _align_api_if_sparse(fit.X[positions if self.kernel != "precomputed" else []]),
            "n_support_": np.bincount(fit.label[support], minlength=self.classes_.size).astype(np.int32),
            "_dual_coef": np.ascontiguousarray(models.coefficients[:, support]),
            "intercept_": models.intercept,
            "shape_fit_": fit.X.shape,
            "_kernel": fit.rows.kernel,
            "_decision_cache": DecisionCache(),
        }

    def _publish(self, fit: Fit[Any], models: ModelTable) -> None:
        super()._publish(fit, models)
        self.gamma_ = getattr(self._kernel, "gamma", np.nan)
        self.class_weight_ = fit.class_weights
        self.n_iter_ = models.n_iter.astype(np.int32)
        self.kernel_evaluations_saved_ = fit.rows.saved
        in_time = {"tol", "early_stopping", "finished"}
        self.fit_status_ = int(not in_time.issuperset(models.stopped))

    # Predicting

    def _decide(
        self,
        X: Any,
        outcome: Callable[[MulticlassStrategy, Vector], NDArray[Any]],
        *,
        only_classes: bool = False,
    ) -> NDArray[Any]:
        """What the strategy makes of the decision values of the binary models for each row.

        With `only_classes` they are computed as precisely as its `predict` needs them.
        """
        vectors = getattr(self, "support_vectors_", None)
        kind = np.float64 if vectors is None else vectors.dtype
        blocks = blocks_to_predict(self, X) if lies_elsewhere(X) else [rows_to_predict(self, X, kind)]
        decisions = self._decisions
        decide = partial(outcome, decisions.strategy)
        each = (rows.astype(kind, copy=False) for rows in blocks)
        parts = [decisions(rows, self.n_jobs, decide, only_classes=only_classes) for rows in each]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def _decisions(self) -> KernelDecisions:
        """Computes decision values."""
        cache: DecisionCache = self._decision_cache
        return cache.of(
            self.support_vectors_,
            self.support_,
            self._dual_coef,
            self.n_support_,
            self.intercept_,
            self._kernel,
            lambda: self._strategy,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.classifier_tags.poor_score = self._poor_score()
        return tags
