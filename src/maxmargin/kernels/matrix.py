"""The kernel matrix of a set of samples; its rows are computed when they are needed and kept in a cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.core import Ledger
from maxmargin.core.types import Block, Indices, Vector
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.kernel_products import KernelProducts
from maxmargin.kernels.mixed_rows import Samples, Selection
from maxmargin.kernels.packed_rows import PackedRows
from maxmargin.kernels.rounding import SampleSizes
from maxmargin.kernels.row_cache import BATCH, RowCache, RowLookup, RowView
from maxmargin.kernels.rows import KernelRows

MAX_CACHE_SIZE = 1e12  # megabytes; larger limits are no limits


class KernelMatrix(KernelProducts):
    r"""The kernel matrix K of the samples X. Its rows are computed in blocks when they are needed, and cached.

    You can give it to a problem in place of a matrix. The rows are then points of the kernel's feature space, and w is
    an :class:`Expansion`. The ledger counts kernel evaluations exactly.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        The samples, in float32 or float64. Kernels are computed in the same precision and kept in float32, unless that
        would lose too many digits; see `choose_precision`.
    kernel : Kernel
        The kernel function.
    cache_size : float
        The size of the cache in megabytes; at least 64 rows of K must fit.
    threads : int
        The number of threads that compute a block.
    rows : array of int or None
        The rows of X that are the samples, in this order; None: all.
    centred : bool or None
        Whether the mean of the samples is subtracted first, so that a linear kernel loses fewer digits. If the bias is
        free, this changes only the bias, by `shift`. None: only if it changes nothing except rounding, as for kernels
        of differences.
    reproducible : bool
        Whether kernels of samples in float32 have the same bits in every block in which they are computed, even on a
        processor on which that takes a sixth longer. Those of a `PartedKernelMatrix`, whose samples are spread over
        workers, always have.

    Attributes
    ----------
    shape : (n, n)
    ledger : Ledger
        Kernel evaluations by purpose.
    dtype : data type
        The precision in which rows are kept.
    cache_bytes : int
        How much memory the cache may take.
    saved : int
        Entries of rows that were requested and did not have to be computed, because the cache held them.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.problems import KernelMatrix
    >>> from maxmargin.kernels.functions import Rbf
    >>> K = KernelMatrix(np.array([[0.0], [1.0], [3.0]]), Rbf(gamma=1.0))
    >>> K.rows(np.array([0])).round(2)
    array([[1.  , 0.37, 0.  ]], dtype=float32)
    >>> K.ledger.entries_read, K.saved
    (3, 0)
    """

    def __init__(
        self,
        X: Samples,
        kernel: Kernel,
        *,
        cache_size: float = 200.0,
        threads: int = 1,
        rows: Indices | None = None,
        centred: bool | None = None,
        reproducible: bool = False,
    ) -> None:
        self.kernel, self.threads = kernel, threads
        self.cache_bytes = round(1e6 * float(min(cache_size, MAX_CACHE_SIZE)))
        self.dtype = np.dtype(np.float32)
        self._keeps_released = False
        self._pack: Callable[[], PackedRows] = lambda: PackedRows(
            X, kernel, threads, rows, centred=centred, reproducible=reproducible
        )
        self._start(self.packed.n)
        if not kernel.of_products and kernel.inner_product is None:
            self._refuse_asymmetric()

    def _start(self, n: int) -> None:
        """Begin with an empty cache and nothing counted."""
        self.shape, self.n_stored = (n, n), n * n
        self.ledger = Ledger()
        self._diagonal, self._measured = None, None
        self._cache = RowCache(n, self.cache_bytes, self.dtype, keeps_released=self._keeps_released)

    def part(self, indices: Indices) -> KernelMatrix:
        """The matrix of some samples, with its own ledger and a cache that begins with rows of this matrix."""
        other = copy(self)
        other.__dict__.pop("packed", None)  # if it is there already
        other._pack = lambda: self.packed.part(indices)
        other._start(len(indices))
        other._diagonal = None if self._diagonal is None else self._diagonal[indices]
        other._cache.take_from(self._cache, indices)
        return other

    @cached_property
    def packed(self) -> PackedRows:
        """The samples, packed for computing kernels; those of a part are packed when its first kernel is computed."""
        return self._pack()

    @property
    def source(self) -> Samples:
        """The samples as given, dense or CSR."""
        return self.packed.source

    @property
    def saved(self) -> int:
        return self._cache.saved

    @saved.setter
    def saved(self, entries: int) -> None:
        self._cache.saved = entries

    def signature(self) -> dict[str, Any]:
        """What distinguishes this matrix from others; see `maxmargin.engine.signature`."""
        return {"kernel": self.kernel, "cache_bytes": self.cache_bytes, "samples": self.source}

    def kept(self) -> dict[str, Any]:
        """For a checkpoint: the cache, and everything else that was computed and is not computed again."""
        return {**self.kept_without_cache(), "cache": self._cache.kept()}

    def kept_without_cache(self) -> dict[str, Any]:
        """What `kept` returns, except the rows in the cache."""
        return {"dtype": self.dtype, "known": self._known(), "saved": self.saved}

    def take(self, kept: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""
        if kept["dtype"] != self.dtype:
            self._change_precision(kept["dtype"])
        self.forget_rows()
        if "cache" in kept:
            self._cache.take(kept["cache"])
        self.saved = kept["saved"]
        self._take_known(kept["known"])

    # Rows, through the cache

    @property
    def cached_rows(self) -> int:
        """The number of rows that the cache can hold."""
        return self._cache.capacity

    @property
    def holds_all_rows(self) -> bool:
        """Whether the cache can hold all rows at once."""
        return self._cache.capacity == self.shape[0]

    def fetch(self, indices: Indices, width: int | None = None) -> RowView:
        """K[indices] in the cache, at most `cached_rows` rows; what the cache does not hold is computed.

        With `width`, only the first `width` entries of each row are fetched. The view is valid until the next `fetch`.
        """
        return self._cache.fetch(indices, self.shape[0] if width is None else width, self._compute)

    def peek(self, indices: Indices) -> RowView:
        """Rows that the cache holds completely; nothing is computed or counted."""
        return self._cache.peek(indices)

    def missing(self, indices: Indices, width: int | None = None) -> Indices:
        """How many entries of each row `fetch` would have to compute."""
        return self._cache.missing(indices, self.shape[0] if width is None else width)

    def release(self, indices: Indices) -> None:
        """Note that these rows are not needed soon, so that their memory is reused first."""
        self._cache.release(indices)

    def keep_released_rows(self) -> None:
        """Keep released rows as long as there is memory for others, because later problems will need them."""
        self._keeps_released = self._cache.keeps_released = True

    def forget_rows(self) -> None:
        """Empty the cache and free its memory."""
        saved = self.saved
        self._cache = RowCache(self.shape[0], self.cache_bytes, self.dtype, keeps_released=self._keeps_released)
        self.saved = saved

    def lookup(self) -> RowLookup:
        """The arrays of the cache for compiled code, which reports by `count_hits` how many whole rows it has used."""
        return self._cache.lookup()

    def count_hits(self, rows: int) -> None:
        """Count this many whole rows, which compiled code has found by `lookup`, as saved."""
        self._cache.count_hits(rows)

    def prefetch(self, indices: Indices) -> None:
        """Compute rows that compiled code has not found by `lookup`; it will find them, and count them, next time."""
        self._cache.prefetch(indices, self._compute)

    def _compute(self, rows: Indices, columns: slice, out: Block, positions: Indices) -> None:
        self.packed.block_of(rows, columns, out, positions)
        self.ledger.count(positions.size * (columns.stop - columns.start))

    # Kernels that are not kept

    def block(
        self,
        indices: Indices,
        columns: Selection | None = None,
        out: Block | None = None,
        positions: Indices | None = None,
    ) -> Block:
        """K[indices][:, columns], computed without the cache; into `out` if it is given, in its precision.

        If `positions` are given, only these rows of `out` are written.
        """
        if out is None:
            columns = slice(None) if columns is None else columns
            width = len(range(*columns.indices(self.shape[0]))) if isinstance(columns, slice) else columns.size
            out = np.empty((len(indices), width), self.dtype)
        self.packed.block_of(indices, columns, out, positions)
        self.ledger.count(len(indices) * out.shape[1])
        return out

    @property
    def sizes(self) -> SampleSizes:
        return self.packed

    def _compute_diagonal(self) -> Vector:
        return self.packed.diagonal()

    def _weighted_sum(self, beta: Vector) -> Vector:
        return self.packed.weighted_sum(beta)

    def _centred_products(self, rows: Indices, w: Vector) -> Vector:
        f = np.empty(rows.size)
        for start in range(0, rows.size, BATCH):
            f[start : start + BATCH] = self.packed.centred(rows[start : start + BATCH]) @ w
        return f

    def _add_products(self, indices: Indices, factors: Vector, columns: Selection, f: Vector, dtype: DTypeLike) -> int:
        return self.packed.add_products(indices, factors, columns, f, dtype)

    def _change_precision(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        if self.packed.dtype != self.dtype:
            self.packed = self.packed.in_precision(self.dtype)
        self.forget_rows()


if TYPE_CHECKING:
    # Here a type checker verifies that the class has all that problems and solvers require of kernel rows.
    _complete: type[KernelRows] = KernelMatrix
