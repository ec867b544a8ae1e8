"""Products of dense matrices whose entries do not depend on the other entries of the block, to the last bit.

A BLAS library adds up the terms of a product in an order that depends on where the entry lies: the first and last
columns of a block, or the last rows, are computed by other loops than the rest. Where samples are spread over the
workers of a cluster, the blocks depend on the number of workers, and a kernel that is lost is computed again in another
block. So the entries at such places are computed once more, at places in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from maxmargin.core.threads import limit_blas
from maxmargin.core.types import Block, Indices

PROBED_SHAPE = 700, 97  # columns and terms of the product by which a rule is tried out
PROBED_ROWS = (1, 5, 19, 24, 130)  # numbers of rows that it is tried out for
PROBED_COLUMNS = (700, 350, 129, 30, 2, 1)  # and of columns


@dataclass(frozen=True)
class ProductRule:
    """The places of a block at which entries have the bits that they have anywhere else in the middle of a block.

    Attributes
    ----------
    period : int
        Rows are computed so many at a time, the rest of them by other loops.
    group : int
        The same of columns.
    least : int
        Blocks of fewer entries are computed by other loops.
    chunk : int
        Columns are computed so many at a time; 0: all in the same way.
    edge : int
        So many columns at both ends of a chunk have other bits.
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
        if whole < len(left):  # the rest, which zeros make whole
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
        """Whole groups of columns, and then the rest, which zeros make a group."""
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
        """All columns, and then once more those at the ends of chunks, at places in the middle of others."""
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
        """Columns that are computed by one call: whole chunks, then the rest, unless it is computed again anyway."""
        whole = n // self.chunk * self.chunk
        ends = ((0, whole), (whole, n))
        return [(start, stop) for start, stop in ends if stop - start > 2 * self.edge]

    def _off(self, n: int) -> Indices:
        """The columns at the ends of chunks; the last of a chunk also if they are no whole group of columns."""
        column = np.arange(n)
        start = column // self.chunk * self.chunk
        size = np.minimum(n - start, self.chunk)
        place = column - start
        return np.flatnonzero((place < self.edge) | (place >= size // self.edge * self.edge - self.edge))


def _rounded_up(count: int, period: int) -> int:
    return -(-count // period) * period


def _extended(X: Block, rows: int) -> Block:
    """X with rows of zeros appended, so that there are so many."""
    extended = np.zeros((rows, X.shape[1]), X.dtype)
    extended[: len(X)] = X
    return extended


# Found by experiment with OpenBLAS 0.3.31, the cheapest first. Its kernels for AVX-512 have small blocks computed by
# other loops, and columns beyond whole groups of 8; both rules cost next to nothing. Those for AVX2 need nothing but an
# even number of rows in float64; in float32, blocks of 512 rows take a sixth longer by the last rule than without.
RULES = (ProductRule(2), ProductRule(2, group=8, least=4096), ProductRule(12, chunk=320, edge=8))


@cache
def product_rule(dtype: np.dtype[Any]) -> ProductRule | None:
    """The cheapest rule that holds for the BLAS library of this machine; None if none of those known does."""
    with limit_blas():
        return next((rule for rule in RULES if _holds(rule, dtype)), None)


def _holds(rule: ProductRule, dtype: np.dtype[Any]) -> bool:
    """Whether some products have the same bits, wherever in a block they are computed."""
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
    """out <- left @ right.T, whose entries do not depend on the block where a rule for that is known.

    A rule that takes time is followed only if the product is to be `reproducible`; one that costs nothing always is.
    """
    rule = product_rule(right.dtype)
    if rule is None or (rule.edge and not reproducible):
        np.matmul(left, right.T, out=out)
    else:
        rule.product(left, right, out)
