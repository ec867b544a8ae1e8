"""Kernel classifiers on a Dask cluster: each worker keeps some samples and their columns of the kernel matrix."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from distributed import Client
from numpy.typing import NDArray

from maxmargin import estimators as local
from maxmargin.core import Matrix
from maxmargin.core.matrix import refuse_not_finite
from maxmargin.core.threads import thread_count
from maxmargin.core.types import Indices, Vector
from maxmargin.dask.client import workers_of
from maxmargin.dask.estimators import ClassifierOnCluster, OnCluster, SearchOnCluster, with_client
from maxmargin.dask.rows import ClusterRows
from maxmargin.estimators.cross_validated import GAMMAS
from maxmargin.estimators.recipe import solver_named
from maxmargin.estimators.training_rows import KernelRows, TrainingRows
from maxmargin.kernels.parted_matrix import PartedKernelMatrix
from maxmargin.kernels.parted_samples import PartedSamples
from maxmargin.problems import KernelMatrix
from maxmargin.solvers import Decomposition


class ClusterKernelRows(KernelRows):
    """Rows of a kernel matrix on the workers. Binary problems are solved one after another, each by all workers."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.parallel = False


class KernelOnCluster(OnCluster):
    """Base class of SVC and SVCCV."""

    kernel: Any

    def _units(self, client: Client) -> int:
        """Return the number of units of rows: one per worker, or more if workers have different numbers of threads."""
        threads = list(workers_of(client).values())
        return sum(threads) // math.gcd(*threads)

    def _on_workers(self, X: Any, y: Any, sample_weight: Any) -> tuple[ClusterRows, NDArray[Any], Any]:
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError(
                "kernel='precomputed' needs the whole kernel matrix in one process; use maxmargin."
                f"{type(self).__name__} for it, or give the kernel as a function"
            )
        return super()._on_workers(X, y, sample_weight)


@with_client
class SVC(KernelOnCluster, ClassifierOnCluster, local.SVC):
    r""":class:`maxmargin.SVC` on a Dask cluster.

    Each worker keeps a block of the samples, and a cache of their entries of kernel rows. The decomposition solver runs
    in this process, which holds the working set. It sends the samples of new rows to all workers and receives their
    parts of the sums. Apart from its data, a worker holds only a cache, so a lost worker costs time but does not change
    the result.

    Parameters
    ----------
    cache_size : float, default=2000
        The size of the cache for kernel rows of all workers together, in megabytes; each worker keeps its share of each
        row. In addition, a worker needs memory for two copies of its data and about 300 megabytes. As in
        :class:`maxmargin.SVC`, the cache size determines how large working sets are. Raise it with the number of
        workers to use their memory.
    kernel, solver
        As in :class:`maxmargin.SVC`, except that "precomputed" is not supported and "decomposition" is the only solver.
        A callable kernel must be picklable.
    client : distributed.Client or None, default=None
        The client of the cluster. None uses the current client, or starts a new cluster on this machine.
    C, slack, gamma, ...
        All other parameters as in :class:`maxmargin.SVC`.

    Notes
    -----
    The model is the same, to the bit, for any number of workers with processors of the same kind, even if workers are
    lost during the fit. It is also the same as that of :class:`maxmargin.SVC` with ``solver="decomposition"`` and the
    same `cache_size` for data in float64, and for data in float32 on processors with AVX-512. On other processors, it
    takes a sixth longer to compute float32 kernels to the same bits in any block. The local fit does not do this, so
    there the two models agree within `tol`.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin.dask import SVC
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
    ...     model = SVC(C=10.0, client=client).fit(da.from_array(X, chunks=(100, 2)), y)
    >>> model.to_local().score(X, y) > 0.98
    True
    """

    def _validated(self, X: Any, y: Any, sample_weight: Any) -> tuple[ClusterRows, NDArray[Any], Any]:
        solver = solver_named(self.solver, self._solvers)
        if solver is not None and not isinstance(solver, Decomposition):
            raise ValueError(
                f"solver {solver.name!r} needs all samples in one process; on a cluster, use solver='decomposition'"
            )
        if solver is None and self.slack is not None and self.budget is not None:
            raise ValueError(
                f"with slack={self.slack!r} and budget={self.budget!r}, the solver would need all samples in one "
                "process; give C, or no budget, or solver='decomposition'"
            )
        return super()._validated(X, y, sample_weight)

    def _training_rows(
        self, X: ClusterRows, label: Indices, weights: Vector, held_out: Indices, *, from_scratch: bool
    ) -> tuple[TrainingRows, Indices]:
        self._refuse_pairs_of_one_vs_rest()
        if not np.isfinite(X.row_sq_norms()).all():
            refuse_not_finite(cast("Matrix", X))
        strategy, samples = self._strategy, PartedSamples(X)
        order = strategy.sample_order(label, held_out)
        kernel = samples.kernel(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)
        K = PartedKernelMatrix(
            samples,
            kernel,
            cache_size=self.cache_size,
            threads=thread_count(self.n_jobs),
            rows=order,
            centred=self._centred(kernel, samples.sampled),
        )
        operations = kernel.operations(samples.sampled)
        return ClusterKernelRows(cast("KernelMatrix", K), operations, strategy, ahead=False), order


@with_client
class SVCCV(KernelOnCluster, SearchOnCluster, local.SVCCV):
    """:class:`maxmargin.SVCCV` on a Dask cluster.

    Comparisons on a part of the samples run in this process. Comparisons on all samples and the last fit run on the
    cluster, see :class:`SVC`; all folds and values of C share the kernel rows that the workers keep.

    Parameters
    ----------
    cache_size, kernel, client
        As in :class:`SVC`.
    Cs, slacks, gammas, cv, ...
        All other parameters as in :class:`maxmargin.SVCCV`.
    """

    def _estimator(self) -> SVC:
        return SVC(**super()._estimator().get_params(deep=False), client=self.client)

    def _gammas(self, X: ClusterRows) -> Vector:
        if isinstance(self.gammas, str):
            kernel = PartedSamples(X).kernel(self.kernel)
            return np.array(GAMMAS) * kernel.gamma if hasattr(kernel, "gamma") else np.array([np.nan])
        return super()._gammas(X)
