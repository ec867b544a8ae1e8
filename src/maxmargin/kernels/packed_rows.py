"""Rows laid down to be asked for their kernel with others, a block of those at a time."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.core.matrix import as_matrix
from maxmargin.core.threads import limit_blas, run_tiles
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.mixed_rows import Columns, Mixed

Vector = NDArray[np.float64]
Numbers = NDArray[np.int64]
Block = NDArray[Any]  # float32 or float64

CHUNK = 512  # rows that are laid down at a time
# Between which numbers a precision computes products without losing digits to its ends, by its bytes. The ends are the
# square roots of what it can hold, and some orders of magnitude more, as products are taken and added up.
RANGES = {4: (1e-30, 1e30), 8: (1e-280, 1e280)}
TILE = 1024  # columns of a block that are computed at a time: few enough to be in the cache when they are finished


class _OutOfRange(Exception):
    """The numbers of a kernel overflow or vanish in the precision that they are computed in."""


class Rows:
    """Rows laid down to be asked for their kernel with others, a block of those at a time.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        The rows, in float32 or float64.
    kernel : Kernel
        What to compute.
    threads : int
        How many threads compute a block side by side.
    rows : array of int or None
        Which rows of X to lay down, in this order; None: all.
    dtype : data type or None
        The precision to compute in. None: that of X, or float64 where the squares of float32 data would overflow or
        vanish in float32.
    centred : bool or None
        Whether the mean of the rows is subtracted first. None: where that changes nothing but rounding.

    Attributes
    ----------
    sq_norms : array of shape (n,)
        The squared norms of the rows as they were laid down; of a kernel of products only.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels.packed_rows import Rows
    >>> from maxmargin.kernels.functions import Linear
    >>> rows, out = Rows(np.array([[1.0, 0.0], [1.0, 1.0]]), Linear()), np.empty((1, 2), dtype=np.float32)
    >>> rows.block(np.array([[3.0, 4.0]]), out)
    >>> out
    array([[3., 7.]], dtype=float32)
    """

    def __init__(
        self,
        X: Any,
        kernel: Kernel,
        threads: int = 1,
        rows: Numbers | None = None,
        *,
        dtype: Any = None,
        centred: bool | None = None,
    ) -> None:
        self.kernel, self.threads = kernel, threads if kernel.parallel else 1
        self.n, self.d = X.shape[0] if rows is None else len(rows), X.shape[1]
        self.per_evaluation = kernel.operations(X)  # multiply-adds
        self.sq_norms: Vector = np.zeros(self.n)
        self.asked: Any = None
        if kernel.of_products:
            X = self._readable(X)
            if centred and kernel.explicit and sp.issparse(X):
                raise TypeError("a linear kernel can be centred for dense data only; got a sparse matrix")
            self.columns = Columns.of(X, centred=kernel.of_differences if centred is None else centred)
            self._lay_down(X, rows, X.dtype if dtype is None else np.dtype(dtype))
        else:
            self.X = X if rows is None else kernel.part(X, rows)
            self.asked, self.d = kernel.asked(self.X), self.X.shape[1]
        self._from, self._which = X, rows

    def _lay_down(self, X: Any, rows: Numbers | None, dtype: Any) -> None:
        try:
            self.asked = Mixed.stacked(self.n, self._chunks(X, rows, dtype))
        except _OutOfRange as error:
            if dtype == np.float64:
                raise ValueError(str(error)) from None
            self._lay_down(X, rows, np.dtype(np.float64))

    def _chunks(self, X: Any, rows: Numbers | None, dtype: Any) -> Iterator[Mixed]:
        """What is laid down of some rows, a chunk at a time; rows that cannot be are refused."""
        for start in range(0, max(self.n, 1), CHUNK):
            some: Any = slice(start, start + CHUNK)
            chunk = self.columns.lay(X[some if rows is None else rows[some]].astype(dtype, copy=False))
            if not np.isfinite(chunk.sq_norms).all():
                row = start + int(np.argmin(np.isfinite(chunk.sq_norms)))
                raise ValueError(
                    f"row {row if rows is None else rows[row]} of X holds NaN, infinity or values so large that its "
                    "norm is not finite; remove or impute such entries first, or divide X by a constant"
                )
            self._check_range(chunk)
            self.sq_norms[some] = chunk.sq_norms
            yield self.kernel.asked(chunk)

    def _check_range(self, chunk: Mixed) -> None:
        """Raise `_OutOfRange` if numbers overflow, or vanish, on the way to the kernels of these rows."""
        largest = float(chunk.sq_norms.max(initial=0.0))
        least, most = RANGES[chunk.dtype.itemsize]
        vanish = largest == 0 and (chunk.common.any() or chunk.rare.data.any())
        sizes = [size for size in self.kernel.magnitudes(largest) if size != 0]
        if vanish or not all(least < size < most for size in sizes):
            raise _OutOfRange(
                f"the {self.kernel.name} kernel of X cannot be computed: a row has the squared norm {largest:.3g}, and "
                f"numbers on the way to the kernel leave the range of {least:g} to {most:g} of {chunk.dtype}. Scale X, "
                "for instance with sklearn.preprocessing.StandardScaler, or choose other parameters of the kernel"
            )

    def in_precision(self, dtype: Any) -> Rows:
        """The same rows laid down in another precision, from the data as it was given."""
        if not self.kernel.of_products:
            return self
        other = copy(self)
        other.sq_norms = np.zeros(self.n)
        other._lay_down(self._from, self._which, np.dtype(dtype))
        return other

    def centred(self, numbers: Numbers) -> Any:
        """Some rows of X in float64, less the centre where there is one: dense, or a CSR matrix."""
        rows = self.given(numbers)
        return rows if self.columns.centre is None else rows - self.columns.whole_centre

    def part(self, numbers: Numbers) -> Rows:
        """Some of the rows."""
        if not self.kernel.of_products:
            return Rows(self.X, self.kernel, self.threads, numbers)
        other = copy(self)
        other.n, other._which = len(numbers), numbers if self._which is None else self._which[numbers]
        other.asked, other.sq_norms = self.asked[numbers], self.sq_norms[numbers]
        return other

    @property
    def source(self) -> Any:
        """The rows of X as they were given, dense or CSR."""
        return self._from if self._which is None else self.kernel.part(self._from, self._which)

    @property
    def dtype(self) -> Any:
        """The precision that kernels are computed in."""
        return self.asked.dtype if self.kernel.of_products else np.dtype(np.float64)

    def _some(self, numbers: Any) -> Any:
        """Some of the rows, to ask others."""
        return self.asked[numbers].bare if self.kernel.of_products else self.X[numbers]

    def given(self, numbers: Any) -> Any:
        """Some rows of X as they were given, in float64."""
        which = numbers if self._which is None else self._which[numbers]
        return self._from[which].astype(np.float64, copy=False)

    def _precisely(self, numbers: Any) -> Mixed:
        """Some of the rows laid down anew in float64, from the data as it was given."""
        return self.columns.lay(self.given(numbers))

    def diagonal(self) -> Vector:
        """k(x, x) of each row."""
        values = self.kernel.diagonal(self._some(slice(None)))
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise ValueError(f"the kernel of row {row} with itself is not finite; divide X by a constant")
        return values

    def block_of(
        self, numbers: Numbers, columns: Numbers | slice | None, out: Block, places: Numbers | None = None
    ) -> None:
        """The kernel of some rows of this set with some others of it, or with all; into these rows of `out`, or all.

        Where `out` is of a higher precision than the rows are, all is computed in that.
        """
        if places is not None and places.size and (np.diff(places) == 1).all():
            out, places = out[places[0] : places[-1] + 1], None  # no copy is needed
        if out.dtype.itemsize > self.dtype.itemsize:
            asked = self.kernel.asked(self._precisely(slice(None) if columns is None else columns))
            asking, columns = self._precisely(numbers), None
        else:
            asking, asked = self._some(numbers), self.asked
            if isinstance(columns, slice):
                asked, columns = asked[columns], None
        self._fill(self.kernel.asking(asking), asked, columns, out, places)

    def block(self, X: Any, out: Block) -> None:
        """The kernel of each row of X, a few of any, with each row of this set."""
        if X.shape[1] != self.d:
            raise ValueError(f"rows of {self.d} entries were laid down; got rows of {X.shape[1]}")
        if self.kernel.of_products:
            X = self.columns.lay(self._readable(X.astype(self.asked.dtype, copy=False)))
        self._fill(self.kernel.asking(X), self.asked, None, out, None)

    def _readable(self, X: Any) -> Any:
        """X dense or CSR; what compiled loops could not read is refused."""
        as_matrix(X)
        return X.tocsr() if sp.issparse(X) else X

    def _fill(self, asking: Any, asked: Any, columns: Numbers | None, out: Block, places: Numbers | None) -> None:

        def fill(tiles: Iterator[slice]) -> None:
            aside = None if places is None else np.empty((places.size, TILE), dtype=out.dtype)
            for tile in tiles:  # which is finished while it is in the cache
                these = tile if columns is None else columns[tile]
                there = out[:, tile]
                block = there if aside is None else aside[:, : there.shape[1]]
                self.kernel.block(asking, asked[these], block)
                if places is not None:
                    there[places] = block

        with limit_blas():
            run_tiles(fill, out.shape[1], TILE, operations=out.size * self.per_evaluation, threads=self.threads)
