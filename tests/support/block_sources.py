"""Sources for tests: matrices in memory that are read in blocks, whose reads can be watched and made to fail."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from maxmargin.core.source import Block


class Lines:
    """The lines of an array or of a CSR matrix, in blocks of `per_block` lines."""

    prices = None
    read_ahead = True

    def __init__(self, lines, per_block, fails=()):
        self.lines, self.fails, self.reads = lines, set(fails), []
        self.starts = np.append(np.arange(0, lines.shape[0], per_block), lines.shape[0]).astype(np.int64)
        self.sizes = np.diff(lines.indptr).astype(np.int64) if sp.issparse(lines) else None

    def _part(self, block):
        return self.lines[self.starts[block] : self.starts[block + 1]]

    def nbytes(self, block):
        part = self._part(block)
        return part.data.nbytes + part.indices.nbytes + part.indptr.nbytes if sp.issparse(part) else part.nbytes

    def read(self, block):
        self.reads.append(block)
        if block in self.fails:
            raise OSError(f"block {block} cannot be read")
        part = self._part(block).copy()
        return Block(part, 1, self.nbytes(block))


class InBlocks:
    """A matrix whose rows and columns are read in blocks."""

    name = "a matrix in blocks"

    def __init__(self, X, rows=7, columns=5, cache_size=None, fails=()):
        self.shape, self.dtype = X.shape, X.dtype
        self.n_stored = X.nnz if sp.issparse(X) else X.size
        self._rows = Lines(sp.csr_array(X) if sp.issparse(X) else np.ascontiguousarray(X), rows, fails)
        turned = sp.csr_array(X.T) if sp.issparse(X) else np.ascontiguousarray(X.T)
        self._columns = Lines(turned, columns)
        largest = [max(map(axis.nbytes, range(len(axis.starts) - 1))) for axis in (self._rows, self._columns)]
        self.cache_size = 8 * max(largest) if cache_size is None else cache_size

    @property
    def rows(self):
        return self._rows

    @property
    def columns(self):
        return self._columns
