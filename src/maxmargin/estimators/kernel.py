"""Kernel classifiers that follow scikit-learn's conventions."""

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
    r"""Kernel support vector classifier, as exact as LIBSVM in a fraction of its time.

    With `C`, the model minimises

    .. math::

        \tfrac12|w|^2 + C\sum_i s_i\,[1 - y_i(\langle w, \phi(x_i)\rangle + b)]_+,
        \qquad \langle\phi(x), \phi(z)\rangle = k(x, z),

    and with `slack`, it maximises the margin at a given mean slack; see :class:`maxmargin.LinearSVC`. With more than
    two classes, the default is one-vs-one as in LIBSVM: one model is fitted for each pair of classes, and the class
    with the most votes is predicted. This class is a drop-in replacement for :class:`sklearn.svm.SVC`: parameters,
    attributes and methods with the same name have the same meaning.

    Parameters
    ----------
    C : float, default=1.0
        The weight of the losses, in scikit-learn's scaling. Leave C at 1.0 if you give `slack`, or a solver for
        separable data (whose slack is 0).
    slack : float or None, default=None
        The mean slack: how far a sample may fall short of the margin on average, in units of `scale_`. Give it in place
        of `C`. The training error is at most ``slack_ / (margin_ / scale_)``. See :class:`maxmargin.LinearSVC` on what
        the slack does, and :func:`maxmargin.slack_path` or :class:`maxmargin.SVCCV` on how to choose it.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel :math:`k(x, z)`. "rbf" is :math:`\exp(-\gamma|x - z|^2)`, "linear" is :math:`\langle x, z\rangle`,
        "poly" is :math:`(\gamma\langle x, z\rangle + c_0)^g`, and "sigmoid" is
        :math:`\tanh(\gamma\langle x, z\rangle + c_0)`. With "precomputed", give the kernel matrix as X. A callable
        takes two sets of rows and returns the kernel matrix between them.
    degree : int, default=3
        The degree :math:`g` of the kernel "poly".
    gamma : {"scale", "auto"} or float, default="scale"
        The coefficient :math:`\gamma` of the kernel. "scale" means 1 / (d times the variance of all entries), and
        "auto" means 1 / d.
    coef0 : float, default=0.0
        The constant :math:`c_0` of the kernels "poly" and "sigmoid".
    solver : str or Solver, default="auto"
        "auto", the name of a solver for kernel problems, or a solver object with its own parameters. docs/solvers.md
        says what each solver is for.
    fit_intercept : bool, default=True
        Whether to fit an intercept b. It is not regularised.
    shrinking : bool, default=True
        Accepted for compatibility with scikit-learn. The solver decides by itself whether to shrink, which does not
        change the optimum.
    probability : {False}, default=False
        Accepted for compatibility with scikit-learn, which deprecates it. To get probabilities, wrap the model in
        :class:`sklearn.calibration.CalibratedClassifierCV`.
    tol : float or None, default=None
        The fit stops when the relative duality gap, a share of the objective, is at most `tol`. scikit-learn's `tol`
        bounds the violation of an optimality condition instead, so the two are not comparable. None selects the
        solver's default.
    max_iter : int or None, default=None
        The maximum number of iterations of "decomposition"; for solvers that visit samples one by one, the maximum
        number of passes over the samples. (scikit-learn counts steps on pairs of samples.) None, or -1 as in
        scikit-learn, leaves only the solver's own limit, which is 20,000 for "decomposition". A fit that stops at this
        limit before it reaches `tol` emits a ConvergenceWarning.
    max_time : float or None, default=None
        The maximum time of the fit in seconds. With more than two classes, the binary problems share it.
    budget : int or None, default=None
        The maximum number of kernel evaluations that all binary problems together may use for learning. It is never
        exceeded. Kernel evaluations for the certificate are not included; `reads_` lists them.
    early_stopping : bool, default=False
        Whether to hold out a part of the samples, stop when the error on them no longer improves, and return the model
        with the smallest error on them.
    validation_fraction : float, default=0.1
        The share of the samples to hold out for early stopping.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    multi_class : {"ovo", "ovr"}, default="ovo"
        The strategy for more than two classes: one-vs-one, with a model for each pair of classes, or one-vs-rest, with
        a model for each class.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Whether `decision_function` returns a value for each class ("ovr") or for each pair of classes ("ovo"), if there
        are more than two classes.
    break_ties : bool, default=False
        Whether `predict` breaks ties between classes with equally many votes by the values of `decision_function`. If
        False, it predicts the first of these classes.
    cache_size : float, default=2000
        The size of the cache for rows of the kernel matrix, in megabytes. As in scikit-learn (where the default is
        200), it is a total. The cache is never larger than the whole matrix.
    certify : bool or "checks", default=True
        Whether to certify the model at the end of the fit; "checks" also certifies it at each check.
    warm_start : bool, default=False
        Whether `fit` starts from the model of the previous `fit`. This helps if C or the weights have changed. It needs
        a solver that supports it (docs/solvers.md), and the same numbers of rows and features and the same classes;
        otherwise the fit starts from scratch, and a warning says why.
    n_jobs : int or None, default=None
        The maximum number of threads. None uses as many as the process may use if the work is large enough for them to
        pay off, and one inside a joblib worker; `joblib.parallel_config`, `threadpoolctl.threadpool_limits` and
        `OMP_NUM_THREADS` are respected. 1 means one thread, and -1 one thread per processor. The threads share the
        models of several classes, blocks of the kernel, and predictions; a callable `kernel` is called by one thread
        only. The result does not depend on the number of threads: it is the same to the bit.
    random_state : int, RandomState or None, default=None
        The only source of randomness. The same seed gives the same bits.
    verbose : int, default=0
        1 prints a line each time the number of iterations has doubled; larger values print a line at each check.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The class labels, sorted.
    support_ : array of shape (n_SV,)
        The indices of the support vectors, grouped by class in the order of `classes_`.
    support_vectors_ : array or CSR matrix of shape (n_SV, d)
        The support vectors; empty for a precomputed kernel.
    n_support_ : array of shape (n_classes,)
        The number of support vectors of each class.
    dual_coef_ : array or CSR matrix of shape (n_classes - 1, n_SV)
        The coefficients of the support vectors in w, signed by label, in the layout of LIBSVM: the column of a support
        vector of class i holds its coefficients against each other class, in the order of the classes. With
        `multi_class="ovr"`, the shape is (n_classes, n_SV), with one row per model. Sparse after a fit on sparse data,
        like `coef_`.
    intercept_ : array of shape (1,), (n_classes * (n_classes - 1) / 2,) or (n_classes,)
        The intercept of each binary model. One-vs-one models are in the order 0 and 1, 0 and 2, ..., 1 and 2, ...
    coef_ : array or CSR matrix of shape (1, d), (n_classes * (n_classes - 1) / 2, d) or (n_classes, d)
        The weights w of each binary model; for the linear kernel only.
    gamma_ : float
        The value of `gamma` that was used; NaN for a kernel without gamma.
    class_weight_ : array of shape (n_classes,)
        The weight of each class that follows from `class_weight`.
    shape_fit_ : tuple
        The shape of the training data X.
    fit_status_ : int
        0 if each binary problem ended by `tol`, by `early_stopping` or by itself; 1 if a limit ended one of them first.
    n_iter_ : array of shape (n_models,)
        The number of iterations or passes of each binary problem, counted as `max_iter` counts them.
    solver_, loss_ : str
        The solver and the loss that were used.
    margin_ : float
        The margin reached in the kernel's feature space: 1 / \|w\|.
    slack_, C_ : float
        The slack and the corresponding C: one of them was given, the other was computed from it.
    certificate_ : Certificate or Certificates
        The value reached, a bound on the best possible value, and the gap; `print(model.certificate_)` gives a
        sentence.
    trace_ : Trace or Traces
        The progress of the fit, one row per check: `trace_.to_pandas()`, `trace_.plot()`.
    stopped_ : str
        The stop rule that ended the fit.
    kernel_evaluations_, kernel_evaluations_saved_ : int
        The number of kernel evaluations for learning, and the number that were needed again and found in the cache.
    reads_ : dict
        The number of kernel evaluations, by purpose. Under "entries of X" it counts entries of X instead, for the
        solver that reads them.
    entries_read_ : int
        The number of entries of X that a solver read instead of evaluating the kernel; 0 except for
        `sublinear_perceptron`.
    scale_ : float
        The largest norm of a sample in the kernel's feature space.
    promise_ : dict
        What the solver's theorem promises if the solver ran to its own end.

    With more than two classes, `margin_`, `slack_` and `C_` are arrays, `certificate_` is a `Certificates`, `trace_` is
    a `Traces`, and `stopped_` and `promise_` are lists. Each holds one item per binary model.

    See Also
    --------
    sklearn.svm.SVC : The same model fitted by LIBSVM, without a certificate.

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

    For probabilities, use scikit-learn's calibration:

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
        """Compute the decision values of each row.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, d)
            The samples. For a precomputed kernel, the kernel matrix between them and the training samples, of shape
            (m, n).

        Returns
        -------
        array of shape (m,), (m, n_classes) or (m, n_classes * (n_classes - 1) / 2)
            With two classes, one value per row, positive for the second class. With more classes, the values depend on
            `decision_function_shape`. "ovr" gives each class its votes plus a term of at most 1/3 that says how clear
            they were (with `multi_class="ovr"`, the value of its model). "ovo" gives each pair of classes a value that
            is positive for the first class.
        """
        by_class = self.decision_function_shape == "ovr"
        return self._decide(X, lambda strategy, values: strategy.decision_function(values, by_class=by_class))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, d)
            The samples. For a precomputed kernel, the kernel matrix between them and the training samples, of shape
            (m, n).

        Returns
        -------
        array of shape (m,)
            The class labels.
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
        """The weights of the features; for the linear kernel only."""
        if self.kernel != "linear":
            raise AttributeError(f"coef_ is available with kernel='linear' only; got kernel={self.kernel!r}")
        check_is_fitted(self)
        coef = self._strategy.coefficients_by_model(self._dual_coef, self.n_support_) @ self.support_vectors_
        if issparse(coef):
            return _align_api_if_sparse(coef.tocsr())
        coef.flags.writeable = False  # a change would have no effect
        return coef

    @property
    def dual_coef_(self) -> Any:
        """The coefficients of the support vectors; sparse after a fit on sparse data, as in scikit-learn."""
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
            # Sparse samples that are small even when dense are made dense: both give the same model, to the bit.
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
        # A kernel matrix that the user has computed is not copied to reorder it.
        order = None if self.kernel == "precomputed" else strategy.sample_order(label, held_out)
        return self._kernel_rows(X, order), order

    def _refuse_pairs_of_one_vs_rest(self) -> None:
        """Refuse decision values for each pair of classes if there is one model per class."""
        if self.multi_class == "ovr" and self.decision_function_shape == "ovo" and self.classes_.size > 2:
            raise ValueError("decision_function_shape='ovo' needs multi_class='ovo'; got multi_class='ovr'")

    def _kernel_rows(self, X: Any, order: Indices | None) -> KernelRows:
        """Return the rows of a kernel matrix of the samples in this order (None: the order of X)."""
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
        """Whether to subtract the mean of the rows, which loses fewer digits; a free intercept compensates for it.

        Rows near zero, for which it matters little, and sparse rows are left as they are.
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
        # The coefficients grow with C, much more than the model changes.
        beta[before["support_"]] = own * (fit.recipe.C / np.ravel(before["C_"])[k])
        beta = beta if fit.order is None else beta[fit.order]
        beta = beta if problem.rows is None else beta[problem.rows]
        # The products with the rows are unknown: the rows may differ from those of the earlier fit.
        return Solution(
            Expansion.unknown(beta), float(before["intercept_"][k]) + fit.rows.shift(problem, beta), beta * problem.y
        )

    def _predictor(self, fit: Fit[Any], models: ModelTable) -> dict[str, Any]:
        """Return the support vectors, grouped by class, and their coefficients in LIBSVM's layout."""
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
        """Apply `outcome` of the multiclass strategy to the decision values of the binary models for each row.

        With `only_classes`, decision values are computed only as precisely as the strategy's `predict` needs them.
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
        """The object that computes decision values."""
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
