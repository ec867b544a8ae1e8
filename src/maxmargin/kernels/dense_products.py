"""Products of dense matrices whose entries have the same bits whatever else the block contains.

A BLAS library adds up the terms of a product in an order that depends on the place of the entry in the block: the first
and last columns, or the last rows, are computed by other loops than the rest. If samples are spread over the workers of
a cluster, blocks depend on the number of workers, and a lost kernel is recomputed in another block. So entries at the
edges of a block are computed once more, in the middle of another block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from maxmargin.core.threads import limit_blas
from maxmargin.core.types import Block, Indices

PROBED_SHAPE = 700, 97  # columns and terms of the product with which a rule is tested
PROBED_ROWS = (1, 5, 19, 24, 130)  # numbers of rows for which a rule is tested
PROBED_COLUMNS = (700, 350, 129, 30, 2, 1)  # numbers of columns for which a rule is tested


@dataclass(frozen=True)
class ProductRule:
    """The places of a block at which entries have the same bits as in the middle of any other block.

    Attributes
    ----------
    period : int
        The number of rows that are computed together; the remaining rows are computed by other loops.
    group : int
        The number of columns that are computed together; the remaining columns are computed by other loops.
    least : int
        Blocks of fewer entries are computed by other loops.
    chunk : int
        The number of columns of a chunk, at whose ends bits may differ; 0: all columns are computed in the same way.
    edge : int
        The number of columns at each end of a chunk that have other bits.
    """

    period: int
    group: int = 2
    least: int = 0
    chunk: int = 0
    edge: int = 0

    def product(self, left: Block, right: Block, out: Block) -> None:
        """out <- left @ right.T"""
        if not out.size:
            return
        whole = len(left) // self.period * self.period
        if whole * len(right) < self.least:
            whole = 0
        if whole:
            self._whole_rows(left[:whole], right, out[:whole])
        if whole < len(left):  # the remaining rows, filled up with zeros
            rest = left[whole:]
            rows = _rounded_up(max(len(rest), -(-self.least // len(right))), self.period)
            block = np.empty((rows, len(right)), out.dtype)
            self._whole_rows(_extended(rest, rows), right, block)
            out[whole:] = block[: len(rest)]

    def _whole_rows(self, left: Block, right: Block, out: Block) -> None:
        if self.edge:
            self._by_chunks(left, right, out)
        else:
            self._by_groups(left, right, out)

    def _by_groups(self, left: Block, right: Block, out: Block) -> None:
        """Compute whole groups of columns, and then the remaining columns, filled up with zeros to a group."""
        whole = len(right) // self.group * self.group
        if whole * len(left) < self.least:
            whole = 0
        if whole:
            np.matmul(left, right[:whole].T, out=out[:, :whole])
        if whole < len(right):
            rest = right[whole:]
            columns = _rounded_up(max(len(rest), -(-self.least // len(left))), self.group)
            out[:, whole:] = (left @ _extended(rest, columns).T)[:, : len(rest)]

    def _by_chunks(self, left: Block, right: Block, out: Block) -> None:
        """Compute all columns, and then once more the columns at the ends of chunks, in the middle of other chunks."""
        n = len(right)
        for start, stop in self._calls(n):
            np.matmul(left, right[start:stop].T, out=out[:, start:stop])
        off = self._off(n)
        for start in range(0, off.size, self.chunk - 2 * self.edge):
            some = off[start : start + self.chunk - 2 * self.edge]
            size = _rounded_up(some.size, self.edge) + 2 * self.edge
            middle = np.zeros((size, right.shape[1]), right.dtype)
            middle[self.edge : self.edge + some.size] = right[some]
            out[:, some] = (left @ middle.T)[:, self.edge : self.edge + some.size]

    def _calls(self, n: int) -> list[tuple[int, int]]:
        """The columns of each call: whole chunks, then the remaining columns unless they are computed again anyway."""
        whole = n // self.chunk * self.chunk
        ends = ((0, whole), (whole, n))
        return [(start, stop) for start, stop in ends if stop - start > 2 * self.edge]

    def _off(self, n: int) -> Indices:
        """The columns at the ends of chunks, including the last columns of a chunk that are no whole group."""
        column = np.arange(n)
        start = column // self.chunk * self.chunk
        size = np.minimum(n - start, self.chunk)
        place = column - start
        return np.flatnonzero((place < self.edge) | (place >= size // self.edge * self.edge - self.edge))


def _rounded_up(count: int, period: int) -> int:
    return -(-count // period) * period


def _extended(X: Block, rows: int) -> Block:
    """X with rows of zeros appended, up to `rows` rows."""
    extended = np.zeros((rows, X.shape[1]), X.dtype)
    extended[: len(X)] = X
    return extended


# Found by experiment with OpenBLAS 0.3.31, the cheapest rule first. Its kernels for AVX-512 compute small blocks, and
# columns beyond whole groups of 8, by other loops; the first two rules cost next to nothing. Its kernels for AVX2 need
# only an even number of rows in float64. In float32, blocks of 512 rows take a sixth longer with the last rule than
# without it.
RULES = (ProductRule(2), ProductRule(2, group=8, least=4096), ProductRule(12, chunk=320, edge=8))


@cache
def product_rule(dtype: np.dtype[Any]) -> ProductRule | None:
    """The cheapest rule that holds for the BLAS library of this machine; None if no known rule holds."""
    with limit_blas():
        return next((rule for rule in RULES if _holds(rule, dtype)), None)


def _holds(rule: ProductRule, dtype: np.dtype[Any]) -> bool:
    """Whether some products have the same bits at any place in a block."""
    rng = np.random.default_rng(0)
    n, terms = PROBED_SHAPE
    right = rng.normal(size=(n, terms)).astype(dtype)
    left = rng.normal(size=(max(PROBED_ROWS), terms)).astype(dtype)
    wanted = np.empty((len(left), n), dtype)
    rule.product(left, right, wanted)
    for rows, columns in product(PROBED_ROWS, PROBED_COLUMNS):
        which, some = rng.permutation(len(left))[:rows], rng.permutation(n)[:columns]
        found = np.empty((rows, columns), dtype)
        rule.product(left[which], right[some], found)
        if not np.array_equal(found, wanted[np.ix_(which, some)]):
            return False
    return True


def entry_product(left: Block, right: Block, out: Block, *, reproducible: bool) -> None:
    """out <- left @ right.T, whose entries do not depend on the block if a rule is known.

    A rule that takes time is applied only if the product must be `reproducible`; one that costs nothing always is.
    """
    rule = product_rule(right.dtype)
    if rule is None or (rule.edge and not reproducible):
        np.matmul(left, right.T, out=out)
    else:
        rule.product(left, right, out)
