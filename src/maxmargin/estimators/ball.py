"""The smallest enclosing ball as an outlier detector that follows scikit-learn's conventions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.matrix import rows_at_hand
from maxmargin.core.threads import limit_blas, thread_count
from maxmargin.core.types import Rows, Vector
from maxmargin.data import as_matrix, refuse_not_finite
from maxmargin.engine.solver import AnySolver
from maxmargin.engine.stop_rules import StopRules
from maxmargin.estimators.base import MarginClassifier, decisive_parameters, fit_checkpoint
from maxmargin.estimators.callbacks import FitCallbacks
from maxmargin.estimators.kernel import SVC
from maxmargin.estimators.limits import Deadline
from maxmargin.estimators.packed_vectors import PackedVectors, by_chunks
from maxmargin.estimators.recipe import solver_named
from maxmargin.estimators.validation import blocks_to_predict, lies_elsewhere, rows_elsewhere, validated
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.functions import KERNELS
from maxmargin.kernels.packed_rows import MOST_IN_MEMORY
from maxmargin.kernels.rows import kernel_rows
from maxmargin.problems import BallEvaluation, Kernel, KernelMatrix, MinimumEnclosingBall, Solution, make_kernel
from maxmargin.solvers import OTHER_SOLVERS, CoreSet, Result, solve

BALL_SOLVERS = {
    name: solver for name, solver in OTHER_SOLVERS.items() if issubclass(solver.solves, MinimumEnclosingBall)
}
BALL_KERNELS = tuple(name for name in KERNELS if name != "precomputed")  # a row's kernel with itself must be known
# What rounding may add to a squared distance, as a share of the largest: samples on the surface count as inside.
DISTANCE_ROUNDING, KERNEL_DISTANCE_ROUNDING = 1e-12, 1e-5


class EnclosingBall(OutlierMixin, CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    r"""The smallest ball around all rows, or around all but a share `nu` of them, with a certificate of its size.

    .. math:: \min_{x, R, \xi \ge 0} R^2 + \frac{1}{\nu n} \sum_i \xi_i, \qquad |x - \phi(a_i)|^2 \le R^2 + \xi_i

    With a kernel, this is the support vector data description of Tax and Duin (2004); with the Gaussian kernel, it
    finds the same outliers as :class:`sklearn.svm.OneClassSVM` with the same `nu` and `gamma`. With `nu=0`, no row may
    lie outside: this is the minimum enclosing ball. It detects new rows that are unlike the training data (novelties),
    but no outliers in the training data, so scikit-learn's tags declare it an outlier detector for `nu > 0` only.

    Parameters
    ----------
    nu : float, default=0.0
        The share of the rows that may lie outside: at most this share does, and at least this share are support
        vectors.
    kernel : {"rbf", "linear", "poly", "sigmoid"}, callable or None, default=None
        If None, the ball lies in the space of the rows themselves; otherwise in the feature space of the kernel, see
        :class:`maxmargin.SVC`.
    degree, gamma, coef0
        Parameters of the kernel, as in :class:`maxmargin.SVC`.
    solver : str or Solver, default="auto"
        "auto" and "core_set" are exact and need a few passes over the data. "sublinear_ball" is for `nu=0` without a
        kernel and reads columns. It stops after 2000 columns, by another stop rule, or at its own ``eps``:
        ``solver=SublinearBall(eps=0.1)``. docs/ball.md says when it pays off.
    tol : float or None, default=None
        The fit stops when the radius is provably within this share of the smallest possible one. None means 0.001 for
        core_set.
    max_iter, max_time, budget : number or None, default=None
        The maximum number of iterations, time in seconds, and number of entries read for learning (with a kernel:
        number of kernel evaluations).
    cache_size : float, default=2000
        The size of the cache for rows of the kernel matrix, in megabytes.
    n_jobs : int or None, default=None
        The maximum number of threads. None uses as many as the process may use if the work is large enough for them to
        pay off, and one inside a joblib worker; `joblib.parallel_config`, `threadpoolctl.threadpool_limits` and
        `OMP_NUM_THREADS` are respected. 1 means one thread, and -1 one thread per processor. The threads share the
        rows of large data, blocks of the kernel, and predictions; a callable `kernel` is called by one thread only.
        The result does not depend on the number of threads: it is the same to the bit.
    random_state : int, RandomState or None, default=None
        The only source of randomness. core_set does not need one.
    verbose : int, default=0
        1 prints a line each time the number of iterations has doubled; larger values print a line at each check.

    Attributes
    ----------
    center_ : array of shape (d,)
        The centre x; only without a kernel.
    radius_ : float
        The radius R: the largest distance from the centre of the rows that need not lie outside.
    objective_, objective_bound_ : float
        The root of the objective above that was reached, and a lower bound that no ball can beat. With `nu=0`, the
        objective is the radius. Otherwise, it is the root mean square distance of the farthest nu n rows from the
        centre, which is at least the radius. Without a certificate (if the kernel is not an inner product), the bound
        is 0.
    offset_ : float
        What `decision_function` subtracts from `score_samples`: minus the radius, which is enlarged here by the
        possible rounding error.
    support_, support_vectors_, dual_coef_ : arrays of shape (n_SV,), (n_SV, d), (1, n_SV)
        The indices, rows and weights whose weighted mean proves `objective_bound_`. With core_set, the centre is this
        mean.
    certificate_ : Certificate
        The radius reached, a bound on the smallest possible radius, and the gap; `print(model.certificate_)` gives a
        sentence.
    trace_ : Trace
        The progress of the fit, one row per check.
    solver_, stopped_ : str
        The solver that was used, and the stop rule that ended the fit.
    n_iter_ : int
        The number of iterations.
    promise_ : dict
        What the solver's theorem promises if the solver ran to its own end.
    entries_read_, kernel_evaluations_ : int
        The number of entries of X, or of kernel evaluations, used for learning.
    reads_ : dict
        The same numbers by purpose; "scale" is the purpose of computing the norms of the rows.
    gamma_ : float
        The value of `gamma` that was used; NaN without a kernel that has gamma.

    Notes
    -----
    The distances between sparse rows are computed from inner products. Centre sparse rows first if they are far from
    zero compared with the distances between them. Kernels are computed in the precision of X, and cached in float32
    where that is precise enough.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import EnclosingBall
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> ball = EnclosingBall().fit(X)
    >>> bool(ball.objective_bound_ <= ball.radius_ <= 1.001 * ball.objective_bound_)
    True
    >>> bool((ball.predict(X) == 1).all()), ball.predict([[9.0, 9.0, 9.0]])
    (True, array([-1]))
    >>> int((EnclosingBall(nu=0.1, kernel="rbf", tol=1e-5).fit(X).predict(X) == -1).sum()) <= 20
    True
    """

    _solvers: ClassVar[Mapping[str, type[AnySolver]]] = BALL_SOLVERS
    __metadata_request__fit: ClassVar[dict[str, str]] = {"checkpoint": UNUSED}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "nu": [Interval(Real, 0, 1, closed="both")],
        "kernel": [StrOptions(set(BALL_KERNELS)), callable, None],
        **{name: SVC._parameter_constraints[name] for name in ("degree", "gamma", "coef0", "cache_size")},
        **{
            name: MarginClassifier._parameter_constraints[name]
            for name in ("solver", "tol", "max_iter", "max_time", "budget", "n_jobs", "random_state", "verbose")
        },
    }

    def __init__(
        self,
        nu: float = 0.0,
        *,
        kernel: str | Callable[..., Any] | None = None,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        solver: str | AnySolver = "auto",
        tol: float | None = None,
        max_iter: int | None = None,
        max_time: float | None = None,
        budget: int | None = None,
        cache_size: float = 2000.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.budget = budget
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @limit_blas()
    def fit(self, X: Any, y: Any = None, checkpoint: Any = None) -> Self:
        """Find the ball.

        Parameters
        ----------
        X : array, np.memmap, CSR or CSC matrix, or store of shape (n, d)
            The rows, float32 or float64. The rows of a store are read block by block. With a kernel, they are copied
            into memory, or to a temporary file if there are many.
        y : Ignored
            Accepted for compatibility with scikit-learn.
        checkpoint : str, path, Checkpoint or None, default=None
            A folder in which to save the fit, and from which to continue it; see :meth:`maxmargin.LinearSVC.fit`.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        deadline = Deadline(self.max_time)
        solver = solver_named(self.solver, BALL_SOLVERS) or CoreSet()
        X = self._validated(X)
        problem = MinimumEnclosingBall(self._matrix(X, thread_count(self.n_jobs)), nu=self.nu)
        callbacks = FitCallbacks(self, [""], {"X": X, "y": y, "metadata": {}})

        seeds, run = check_random_state(self.random_state), None
        if checkpoint is not None:
            keeper = fit_checkpoint(checkpoint)
            seeds, run = keeper.seeds(seeds), keeper.run_of(0, with_end=True)
            keeper.compare(estimator=type(self).__name__, **decisive_parameters(self), X=X)

        def predictor_so_far(solution: Solution) -> dict[str, Any]:
            with problem.ledger.on("certificate"):
                return self._predictor(X, problem, problem.evaluate(solution.w))

        result = solve(
            problem,
            solver,
            stop=StopRules(self.tol, self.max_iter, deadline.share(1, 1, threads=1), self.budget),
            callback=callbacks.listener(0, predictor_so_far),
            random_state=seeds.randint(2**31 - 1),
            checkpoint=run,
        )
        predictor = self._predictor(X, problem, cast(BallEvaluation, result.evaluation))
        self._publish(predictor, X, problem, solver, result)
        callbacks.finish(lambda: predictor)
        return self

    @limit_blas()
    def score_samples(self, X: Any) -> Vector:
        """Compute the negative distance of each row from the centre.

        Parameters
        ----------
        X : array, sparse matrix or store of shape (m, d)
            The samples.

        Returns
        -------
        array of shape (m,)
            Minus the distances.
        """
        check_is_fitted(self)
        if lies_elsewhere(X):
            kept = self.support_vectors_.dtype if self.kernel is not None else None
            blocks = blocks_to_predict(self, X)
            return np.concatenate([self._scores(rows if kept is None else rows.astype(kept)) for rows in blocks])
        sparse = "csr" if self.kernel is not None else MarginClassifier._readable["accept_sparse"]
        kind = self.support_vectors_.dtype if self.kernel is not None else MarginClassifier._readable["dtype"]
        return self._scores(validated(self, X, accept_sparse=sparse, dtype=kind, reset=False))

    def _scores(self, X: Any) -> Vector:
        """Compute minus the distances of validated rows."""
        squares = self._squares_of_rows(X) if self.kernel is None else self._squares_of_kernel(X)
        return -np.sqrt(np.maximum(0.0, squares))

    def decision_function(self, X: Any) -> Vector:
        """Compute how far inside the ball each row lies.

        Parameters
        ----------
        X : array, sparse matrix or store of shape (m, d)
            The samples.

        Returns
        -------
        array of shape (m,)
            The distance from the surface of the ball, negative outside.
        """
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Predict whether each row lies inside the ball.

        Parameters
        ----------
        X : array, sparse matrix or store of shape (m, d)
            The samples.

        Returns
        -------
        array of shape (m,)
            1 for rows inside the ball, and -1 for rows outside.
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)

    # Fitting

    def _validated(self, X: Any) -> Any:
        """Validate the rows of a fit; for a kernel, copy rows that are outside memory."""
        if lies_elsewhere(X):
            matrix = rows_elsewhere(self, X)
            return matrix if self.kernel is None else rows_at_hand(matrix, MOST_IN_MEMORY)
        sparse = "csr" if self.kernel is not None else MarginClassifier._readable["accept_sparse"]
        return validated(self, X, **{**MarginClassifier._readable, "accept_sparse": sparse})

    def _matrix(self, X: Any, threads: int) -> Rows:
        self.gamma_ = np.nan
        if self.kernel is None:
            return as_matrix(X, threads)  # the computation of the norms finds entries that are not finite
        if not get_config()["assume_finite"]:
            refuse_not_finite(as_matrix(X))
        kernel = make_kernel(self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0)
        self.gamma_ = getattr(kernel, "gamma", np.nan)
        return KernelMatrix(X, kernel, cache_size=self.cache_size, threads=threads)

    def _predictor(self, X: Any, problem: MinimumEnclosingBall, at: BallEvaluation) -> dict[str, Any]:
        """Return the attributes that predictions use, for an evaluated centre."""
        w = at.w
        rounding = (DISTANCE_ROUNDING if self.kernel is None else KERNEL_DISTANCE_ROUNDING) * problem.spread
        common = {"radius_": at.radius, "offset_": -math.sqrt(at.radius**2 + rounding), "_sq_center": float(w @ w)}
        if self.kernel is None:
            return {**common, "center_": np.asarray(w)}
        beta = Expansion.of(w).beta
        own = np.flatnonzero(beta)
        return {**common, **self._center_in_kernel(kernel_rows(problem.X).kernel, X[own], beta[own])}

    def _center_in_kernel(self, kernel: Kernel, vectors: Any, weights: Vector) -> dict[str, Any]:
        """Represent the centre as a weighted sum of vectors in the kernel's feature space."""
        return {"_kernel": kernel, "_packed_vectors": PackedVectors(), "_vectors": vectors, "_weights": weights}

    def _publish(
        self, predictor: dict[str, Any], X: Any, problem: MinimumEnclosingBall, solver: AnySolver, result: Result
    ) -> None:
        solution, certificate = result.solution, result.certificate
        for name, value in predictor.items():
            setattr(self, name, value)
        p = np.zeros(X.shape[0]) if solution.p is None else solution.p
        self.support_ = np.flatnonzero(p).astype(np.int32)
        self.support_vectors_, self.dual_coef_ = X[self.support_], p[self.support_][None]
        self.objective_, self.objective_bound_ = certificate.primal, certificate.dual if certificate else 0.0
        self.certificate_, self.trace_, self.stopped_ = certificate, result.trace, result.status
        self.n_iter_, self.promise_, self.solver_ = result.n_iter, result.promise, solver.name
        read = int(problem.ledger.entries_read)
        self.entries_read_, self.kernel_evaluations_ = (read, 0) if self.kernel is None else (0, read)
        self.reads_ = result.reads

    # Predicting

    def _squares_of_rows(self, X: Any) -> Vector:
        return as_matrix(X, thread_count(self.n_jobs)).sq_distances(self.center_)

    def _squares_of_kernel(self, X: Any) -> Vector:
        if issparse(self._vectors) and not issparse(X):
            X = csr_array(X)
        squares = np.empty(X.shape[0])
        packed = self._packed_vectors.pack(self._vectors, self._kernel)

        def measure(rows: Any, where: slice) -> None:
            products = packed.block(rows) @ self._weights
            squares[where] = self._kernel.diagonal(rows) - 2 * products + self._sq_center

        operations = self._weights.size * self._kernel.operations(X)
        by_chunks(measure, X, operations=operations, n_jobs=self.n_jobs if self._kernel.parallel else 1)
        return squares

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        if self.nu == 0:
            tags.estimator_type = None
        return tags
