"""Classifiers that choose C or slack, and gamma, by cross-validation."""

from __future__ import annotations

import copy
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, indexable

from maxmargin.core.threads import thread_count
from maxmargin.core.types import Vector
from maxmargin.data.matrices import as_matrix
from maxmargin.engine.snapshot import Remembers
from maxmargin.estimators.base import MarginClassifier, decisive_parameters, fit_checkpoint
from maxmargin.estimators.callbacks import SearchProgress
from maxmargin.estimators.kernel import SVC
from maxmargin.estimators.limits import Deadline
from maxmargin.estimators.linear import LinearSVC
from maxmargin.estimators.search import Grid, Search, in_words
from maxmargin.estimators.search_samples import SearchSamples
from maxmargin.estimators.validation import distinct_numbers, keep_feature_names, lies_elsewhere, validated_labels
from maxmargin.estimators.warm_fits import WarmFits
from maxmargin.kernels.functions import KERNELS, make_kernel
from maxmargin.problems import LOSSES
from maxmargin.solvers import NoModelYet

if TYPE_CHECKING:
    from maxmargin.display import ModelReport

LEAST_C, LARGEST_C = 1e-4, 1e4  # the range of C if only the number of values is given, as in scikit-learn
# Multiples of gamma="scale" tried by default; a factor of 5 changes the width of the kernel by 2.2.
GAMMAS = (1 / 25, 1 / 5, 1.0, 5.0, 25.0)
REFIT_SHARE = 0.2  # share of `max_time` reserved for the fit on all samples
READABLE = {"accept_sparse": True, "dtype": None, "ensure_all_finite": False}  # checkpoints compare data of any kind
GAMMA_KERNELS = ("rbf", "poly", "sigmoid")


class CrossValidatedClassifier(ClassifierMixin, CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of LinearSVCCV and SVCCV: a search, a fit of the best cell on all samples, and its predictions."""

    __metadata_request__fit: ClassVar[dict[str, str]] = {"checkpoint": UNUSED}
    _reads_blocks: ClassVar[bool]  # whether a fit reads samples outside memory block by block
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "slacks": ["array-like", None],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "refit": ["boolean"],
        "one_standard_error": ["boolean"],
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @abstractmethod
    def _estimator(self) -> MarginClassifier:
        """The classifier with the parameters that are not searched."""

    @abstractmethod
    def _gammas(self, X: Any) -> Vector:
        """Return the values of gamma to try; a single NaN if the kernel has no gamma."""

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, checkpoint: Any = None) -> Self:
        """Compare all cells (combinations of values) by cross-validation, and fit the best one on all samples.

        Parameters
        ----------
        X : array, sparse matrix or store of shape (n, d)
            The samples. The samples of a store are read into memory if they take at most half of its cache. Otherwise,
            LinearSVCCV reads them block by block in each fit, and SVCCV copies them to a temporary file.
        y : array of shape (n,)
            The labels, of any type.
        sample_weight : array of shape (n,) or None, default=None
            Weights of the samples in all fits. Scores are not weighted.
        groups : array of shape (n,) or None, default=None
            The group of each sample, for a `cv` that keeps groups together.
        checkpoint : str, path, Checkpoint or None, default=None
            A folder in which to save the search and the last fit, and from which to continue them: cells that have a
            score are not scored again. See :meth:`maxmargin.LinearSVC.fit`.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        began, names = self._began(X), None
        if lies_elsewhere(X):
            matrix = as_matrix(X, thread_count(self.n_jobs)).fork()
            names, X = matrix.feature_names, SearchSamples.read(matrix, blocks=self._reads_blocks)
        X, y, sample_weight, groups = indexable(X, y, sample_weight, groups)
        y = validated_labels(self, y)
        check_classification_targets(y)
        estimator = self._estimator()
        grid = Grid(*self._values(), self._gammas(X))
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        keeper = None if checkpoint is None else fit_checkpoint(checkpoint)
        if keeper is not None and isinstance(self.random_state, np.random.RandomState):
            raise ValueError(
                "a search with a checkpoint cannot repeat the random draws of its fits from a RandomState; give "
                f"random_state as a whole number or None; got {self.random_state!r}"
            )
        seeds = self.random_state if keeper is None else keeper.seeds(check_random_state(self.random_state))
        splits = [(np.asarray(train), np.asarray(test)) for train, test in self._splits(X, y, groups, seeds)]
        if not splits:
            raise ValueError(f"cv has no folds; got cv={self.cv!r}")
        if keeper is not None:
            samples = X.signature() if isinstance(X, Remembers) else check_array(X, **READABLE)
            data = {"X": samples, "y": str(y.tolist()), "sample_weight": weights, "grid": grid}
            folds = np.concatenate([np.concatenate(split) for split in splits])
            keeper.compare(estimator=type(self).__name__, **decisive_parameters(self), **data, folds=folds)
        whole, share = Deadline(self.max_time, began), 1 - REFIT_SHARE if self.refit else 1.0
        context, progress = self._init_callback_context(max_subtasks=int(self.refit)), SearchProgress()
        context.progress = progress
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        search = Search(
            estimator,
            grid,
            splits,
            check_scoring(estimator, self.scoring),
            Deadline(None if self.max_time is None else share * self.max_time, began),
            int(self.verbose),
            progress,
            None if keeper is None else keeper.run_of("search"),
        )
        search.run(X, y, weights)
        self.search_stopped_ = search.stopped
        best = search.within_one_standard_error() if self.one_standard_error else search.best()
        if not search.n_samples[best]:
            if search.stopped == "interrupted":
                raise NoModelYet("the search was interrupted before any cell had a score: there is no model to keep")
            raise ValueError(
                f"max_time={self.max_time!r} was over before any cell had a score; give more time, fewer values, or "
                "fewer folds"
            )
        self.classes_ = np.unique(y)
        self._publish_search(search, best)
        if self.refit:
            # As in the search, a slack is accepted even if it is too large to matter on this data.
            progress.stopped, progress.n_samples = search.stopped, len(y)
            progress.refit = in_words(grid.parameters(best))
            refit = context.subcontext(task_name="refit").call_on_fit_task_begin(estimator=self, X=X, y=y)
            chosen = estimator.set_params(**grid.parameters(best))
            last = WarmFits(chosen, X, y, weights, several=False, checkpoint=keeper).fit(whole)
            self.best_estimator_ = last.model()
            if names is not None:
                keep_feature_names(self.best_estimator_, names)
            last.advise()
            refit.call_on_fit_task_end(estimator=self, X=X, y=y)
            self.n_features_in_ = self.best_estimator_.n_features_in_
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _began(self, X: Any) -> float:
        """Return the time at which the fit of these samples began: now, unless they were moved elsewhere before."""
        return time.perf_counter()

    def _splits(self, X: Any, y: NDArray[Any], groups: Any, seeds: Any) -> Any:
        cv = check_cv(self.cv, y, classifier=True)
        if getattr(cv, "random_state", 0) is None and getattr(cv, "shuffle", False):
            cv = copy.copy(cv)  # it may be the caller's
            cv.random_state = check_random_state(seeds).randint(2**31 - 1)
        return cv.split(X, y, groups)

    def _values(self) -> tuple[str, Vector]:
        """Return the name of the parameter searched besides gamma ("C" or "slack") and its values, strongest first.

        The strongest regularisation has the smallest C and the largest slack.
        """
        if self.slacks is not None:
            if not (isinstance(self.Cs, Integral) and self.Cs == 10):
                raise ValueError(f"both Cs={self.Cs!r} and slacks={self.slacks!r} were given; give one")
            return "slack", distinct_numbers("slacks", self.slacks, positive=False)[::-1]
        if isinstance(self.Cs, Integral):
            return "C", np.logspace(np.log10(LEAST_C), np.log10(LARGEST_C), int(self.Cs))
        return "C", distinct_numbers("Cs", self.Cs, positive=True)

    def _publish_search(self, search: Search, best: tuple[int, int]) -> None:
        grid = search.grid
        has_gamma = not np.isnan(grid.gammas).any()
        values = grid.values[:: 1 if grid.name == "C" else -1]
        scores = search.scores[:, :: 1 if grid.name == "C" else -1]
        self.scores_ = scores if has_gamma else scores[0]
        self.best_score_ = float(search.means[best])
        self.best_params_ = grid.parameters(best)
        self.cv_results_ = search.results()
        self.best_index_ = grid.cells.index(best)
        setattr(self, f"{grid.name}s_", values)
        setattr(self, f"{grid.name}_", float(grid.values[best[1]]))
        if has_gamma:
            self.gammas_, self.gamma_ = grid.gammas, float(grid.gammas[best[0]])

    def _fitted(self) -> Any:
        check_is_fitted(self)
        if not self.refit:
            raise AttributeError(
                f"{type(self).__name__} was fitted with refit=False, so it has no model to predict with; fit one with "
                "best_params_, or set refit=True"
            )
        return self.best_estimator_

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row with the best model.

        Parameters
        ----------
        X : array, sparse matrix or store of shape (m, d)
            The samples.

        Returns
        -------
        array of shape (m,)
            The class labels.
        """
        return np.asarray(self._fitted().predict(X))

    def decision_function(self, X: Any) -> Vector:
        """Compute the decision values of each row with the best model.

        Parameters
        ----------
        X : array, sparse matrix or store of shape (m, d)
            The samples.

        Returns
        -------
        array of shape (m,) or of several columns
            See the `decision_function` of :class:`maxmargin.LinearSVC` and :class:`maxmargin.SVC`.
        """
        return np.asarray(self._fitted().decision_function(X))

    def report(self, X: Any, y: Any, *, feature_names: Sequence[str] | None = None) -> ModelReport:
        """Report on the best model, as :meth:`maxmargin.LinearSVC.report` does, and on the search.

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
            The report, as a page.
        """
        from maxmargin.display import ModelReport

        self._fitted()
        return ModelReport.from_estimator(self, X, y, feature_names=feature_names)

    @property
    def certificate_(self) -> Any:
        """The certificate of the best model."""
        return self._fitted().certificate_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearSVCCV(CrossValidatedClassifier):
    r"""Linear support vector classifier whose C or slack is chosen by cross-validation.

    The fit of each value starts from the solution of the previous one. If there are many samples, all values are first
    compared on a part of the samples, and values that are clearly worse are dropped early
    (`cv_results_["left_early"]`). Values of C so large that a smaller C is equally good after an eighth of the
    iterations are dropped early too.

    Parameters
    ----------
    Cs : int or array, default=10
        The values of C, or their number: they are then spaced evenly in logarithm between 1e-4 and 1e4.
    slacks : array or None, default=None
        The values of the mean slack, in place of `Cs`.
    cv : int, splitter, iterable or None, default=None
        The folds, as in scikit-learn. None means five stratified folds.
    scoring : str, callable or None, default=None
        The score by which values are compared, as in scikit-learn. None means the accuracy.
    refit : bool, default=True
        Whether to fit the best model on all samples. If False, there is no model to predict with.
    one_standard_error : bool, default=False
        Whether to choose the strongest regularisation whose mean score is within one standard error of the best.
    loss : {"hinge", "squared_hinge"} or None, default=None
        The loss function, as in :class:`LinearSVC`.
    fit_intercept, class_weight, tol, n_jobs, random_state
        As in :class:`LinearSVC`. If `tol` is None, it is 0.01 for the fits of the comparison, and the solver's default
        for the last fit.
    max_time : float or None, default=None
        The maximum time of the whole search and the last fit in seconds. If it ends early, the best cell found so far
        is used.
    verbose : int, default=0
        1 prints a line for each cell.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The class labels, sorted.
    C_, Cs_ : float, array
        The chosen C, and all values of C in ascending order; with `slacks`, `slack_` and `slacks_` instead.
    scores_ : array of shape (n_values, n_folds)
        The score of each value on each fold, in the order of `Cs_` or `slacks_`; NaN if there was no fit.
    best_score_, best_params_, best_index_
        The mean score of the chosen cell, its parameters, and its position in `cv_results_`. If a chosen value is the
        smallest or the largest that was tried (`Cs_`, `slacks_`), a better one may lie outside: scale the features, or
        give a wider range.
    cv_results_ : dict of arrays
        The results in the form of scikit-learn's GridSearchCV, with three more columns: `standard_error` is the
        standard error of the mean score, `n_samples` is the number of samples on which a cell was compared, and
        `left_early` says whether the cell was dropped while others were compared on more samples.
    best_estimator_ : LinearSVC
        The best model, fitted on all samples.
    search_stopped_ : str
        What ended the search early: "max_time" or "interrupted"; empty if the search is complete.

    See Also
    --------
    sklearn.linear_model.LogisticRegressionCV : The same search for logistic regression.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVCCV(Cs=5).fit(X, y)
    >>> model.best_score_ > 0.9, model.scores_.shape
    (True, (5, 5))
    """

    _reads_blocks = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CrossValidatedClassifier._parameter_constraints,
        "loss": [StrOptions(set(LOSSES)), None],
    }

    def __init__(
        self,
        *,
        Cs: Any = 10,
        slacks: Any = None,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        one_standard_error: bool = False,
        loss: str | None = None,
        fit_intercept: bool = True,
        tol: float | None = None,
        max_time: float | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.slacks = slacks
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.one_standard_error = one_standard_error
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_time = max_time
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _estimator(self) -> LinearSVC:
        return LinearSVC(
            loss=self.loss,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            class_weight=self.class_weight,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )

    def _gammas(self, X: Any) -> Vector:
        return np.array([np.nan])

    @property
    def coef_(self) -> Any:
        """The weights of the features in the best model."""
        return self._fitted().coef_

    @property
    def intercept_(self) -> Any:
        """The intercepts of the best model."""
        return self._fitted().intercept_


class SVCCV(CrossValidatedClassifier):
    r"""Kernel support vector classifier whose C or slack, and gamma, are chosen by cross-validation.

    For each gamma, all folds and values share kernel rows, and the fit of each value starts from the solution of the
    previous one. If there are many samples, all cells (pairs of a gamma and a C or slack) are first compared on a part
    of the samples, and cells that are clearly worse are dropped early (`cv_results_["left_early"]`). Values of C so
    large that a smaller C is equally good after an eighth of the iterations are dropped early too.

    Parameters
    ----------
    Cs : int or array, default=10
        The values of C, or their number: they are then spaced evenly in logarithm between 1e-4 and 1e4.
    slacks : array or None, default=None
        The values of the mean slack, in place of `Cs`.
    gammas : "auto" or array, default="auto"
        The values of gamma. "auto" means 1/25, 1/5, 1, 5 and 25 times the gamma of ``SVC(gamma="scale")``.
    kernel : str or callable, default="rbf"
        The kernel, as in :class:`SVC`. `gammas` has no effect for a kernel without gamma.
    cv, scoring, refit, one_standard_error
        As in :class:`LinearSVCCV`.
    degree, coef0, fit_intercept, class_weight, tol, cache_size, n_jobs, random_state
        As in :class:`SVC`. If `tol` is None, it is 0.01 for the fits of the comparison, and the solver's default for
        the last fit.
    max_time : float or None, default=None
        The maximum time of the whole search and the last fit in seconds. If it ends early, the best cell found so far
        is used.
    verbose : int, default=0
        1 prints a line for each cell.

    Attributes
    ----------
    C_, Cs_, gamma_, gammas_ : float, array, float, array
        The chosen values, and all values in ascending order; with `slacks`, `slack_` and `slacks_` instead of `C_` and
        `Cs_`.
    scores_ : array of shape (n_gammas, n_values, n_folds)
        The score of each cell on each fold; of shape (n_values, n_folds) for a kernel without gamma.
    classes_, best_score_, best_params_, best_index_, cv_results_, search_stopped_
        As in :class:`LinearSVCCV`; `best_params_` also has the chosen gamma, which may be the smallest or the largest
        of `gammas_`.
    best_estimator_ : SVC
        The best model, fitted on all samples.

    See Also
    --------
    sklearn.model_selection.GridSearchCV : The same search for any estimator, with a separate fit for each cell.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVCCV
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = SVCCV(Cs=[0.1, 1.0, 10.0]).fit(X, y)
    >>> model.best_score_ > 0.9, model.scores_.shape
    (True, (5, 3, 5))
    """

    _reads_blocks = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CrossValidatedClassifier._parameter_constraints,
        "gammas": [StrOptions({"auto"}), "array-like"],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        *,
        Cs: Any = 10,
        slacks: Any = None,
        gammas: Any = "auto",
        kernel: str | Callable[..., Any] = "rbf",
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        one_standard_error: bool = False,
        degree: int = 3,
        coef0: float = 0.0,
        fit_intercept: bool = True,
        tol: float | None = None,
        max_time: float | None = None,
        class_weight: Any = None,
        cache_size: float = 2000.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.slacks = slacks
        self.gammas = gammas
        self.kernel = kernel
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.one_standard_error = one_standard_error
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_time = max_time
        self.class_weight = class_weight
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _estimator(self) -> SVC:
        return SVC(
            kernel=self.kernel,
            degree=self.degree,
            coef0=self.coef0,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            class_weight=self.class_weight,
            cache_size=self.cache_size,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )

    def _gammas(self, X: Any) -> Vector:
        if self.kernel not in GAMMA_KERNELS:
            return np.array([np.nan])
        if isinstance(self.gammas, str):
            samples = check_array(X, accept_sparse="csr", dtype=(np.float64, np.float32))
            scale: float = vars(make_kernel("rbf", samples, gamma="scale"))["gamma"]
            return np.array(GAMMAS) * scale
        return distinct_numbers("gammas", self.gammas, positive=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
