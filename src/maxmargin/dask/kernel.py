"""Kernel machines on a Dask cluster: each worker keeps its samples, and the columns of the kernel matrix for them."""

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
    """Rows of a kernel matrix on the workers: binary problems are solved one after another, each by all workers."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.parallel = False


class KernelOnCluster(OnCluster):
    """What SVC and SVCCV share."""

    kernel: Any

    def _units(self, client: Client) -> int:
        """A unit of rows for each worker; if some have more threads than others, one for so many threads."""
        threads = list(workers_of(client).values())
        return sum(threads) // math.gcd(*threads)

    def _on_workers(self, X: Any, y: Any, sample_weight: Any) -> tuple[ClusterRows, NDArray[Any], Any]:
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError(
                "kernel='precomputed' needs the whole kernel matrix in one place; fit maxmargin."
                f"{type(self).__name__} on it, or give the kernel as a function"
            )
        return super()._on_workers(X, y, sample_weight)


@with_client
class SVC(KernelOnCluster, ClassifierOnCluster, local.SVC):
    r""":class:`maxmargin.SVC` on a Dask cluster.

    Each worker keeps a block of the samples, and a cache of the entries of kernel rows that belong to them. The
    decomposition solver runs in this process, which holds the working set: it sends the samples of new rows to all
    workers, and is sent their parts of the sums. All that a worker holds beyond its data is a cache, so that a lost
    worker costs time and changes nothing.

    Parameters
    ----------
    cache_size : float, default=2000
        How many megabytes of kernel rows all workers together keep; each keeps its share of each row. Beyond, a worker
        needs memory for its data twice and about 300 megabytes. As in :class:`maxmargin.SVC`, it decides how large
        working sets are: raise it with the number of workers to use their memory.
    kernel, solver
        As in :class:`maxmargin.SVC`, without "precomputed", and with the solver "decomposition" only. A function given
        as kernel must be picklable.
    client : distributed.Client or None
        The client of the cluster; None: the current one, or that of a new cluster on this machine.
    C, slack, gamma, ...
        All others as in :class:`maxmargin.SVC`.

    Notes
    -----
    The model has the same bits for any number of workers with processors of one kind, whatever happens to them during
    the fit. They are those of :class:`maxmargin.SVC` with ``solver="decomposition"`` and the same `cache_size` for
    data in float64, and for float32 on processors with AVX-512. On others, kernels in float32 take a sixth longer to
    compute to the same bits in any block, which the local fit does not do: there the two models agree within `tol`.

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
                f"solver {solver.name!r} needs all samples in one place; on a cluster, SVC has solver='decomposition'"
            )
        if solver is None and self.slack is not None and self.budget is not None:
            raise ValueError(
                f"with slack={self.slack!r} and budget={self.budget!r} the solver would need all samples in one place; "
                "give C, or no budget, or solver='decomposition'"
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

    Cells are compared as there. Comparisons on a part of the samples are made in this process, those on all samples
    and the last fit on the cluster, see :class:`SVC`: all folds and values of C share the kernel rows that the workers
    keep.

    Parameters
    ----------
    cache_size, kernel, client
        As in :class:`SVC`.
    Cs, slacks, gammas, cv, ...
        All others as in :class:`maxmargin.SVCCV`.
    """

    def _estimator(self) -> SVC:
        return SVC(**super()._estimator().get_params(deep=False), client=self.client)

    def _gammas(self, X: ClusterRows) -> Vector:
        if isinstance(self.gammas, str):
            kernel = PartedSamples(X).kernel(self.kernel)
            return np.array(GAMMAS) * kernel.gamma if hasattr(kernel, "gamma") else np.array([np.nan])
        return super()._gammas(X)
