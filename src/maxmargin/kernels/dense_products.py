"""Products of dense matrices whose entries do not depend on the other entries of the block, to the last bit.

A BLAS library adds up the terms of a product in an order that depends on where the entry lies: the first and last
columns of a block, or the last rows, are computed by other loops than the rest. Where samples are spread over the
workers of a cluster, the blocks depend on the number of workers, and a kernel that is lost is computed again in another
block. So the entries at such places are computed once more, at places in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from maxmargin.core.threads import limit_blas
from maxmargin.core.types import Block, Indices

PROBED_SHAPE = 700, 97  # columns and terms of the product by which a rule is tried out
PROBED_ROWS = (1, 5, 19, 24)  # numbers of rows that it is tried out for


@dataclass(frozen=True)
class ProductRule:
    """The places of a block at which entries have the bits that they have anywhere else in the middle of a block.

    Attributes
    ----------
    period : int
        Rows are computed so many at a time, the rest of them by other loops.
    chunk : int
        Columns are computed so many at a time; 0: all in the same way.
    edge : int
        So many columns at both ends of a chunk have other bits.
    """

    period: int
    chunk: int = 0
    edge: int = 0

    def rows(self, m: int) -> int:
        """The least number of rows, not below m, that are computed in one way."""
        return -(-m // self.period) * self.period

    def product(self, left: Block, right: Block, out: Block) -> None:
        """out <- left @ right.T"""
        rows, n = self.rows(len(left)), len(right)
        if rows > len(left):
            padded = np.zeros((rows, left.shape[1]), left.dtype)
            padded[: len(left)] = left
            block = np.empty((rows, n), out.dtype)
            self.product(padded, right, block)
            out[...] = block[: len(out)]
        elif not self.edge:
            self._product(left, right, out)
        elif n:
            for start, stop in self._calls(n):
                np.matmul(left, right[start:stop].T, out=out[:, start:stop])
            off = self._off(n)
            for start in range(0, off.size, self.chunk - 2 * self.edge):
                some = off[start : start + self.chunk - 2 * self.edge]
                size = -(-some.size // self.edge) * self.edge + 2 * self.edge
                middle = np.zeros((size, right.shape[1]), right.dtype)
                middle[self.edge : self.edge + some.size] = right[some]
                out[:, some] = (left @ middle.T)[:, self.edge : self.edge + some.size]

    def _product(self, left: Block, right: Block, out: Block) -> None:
        if len(right) == 1:  # a product of a matrix with a vector would take another way
            out[...] = (left @ np.repeat(right, 2, axis=0).T)[:, :1]
        else:
            np.matmul(left, right.T, out=out)

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


# Found by experiment with OpenBLAS 0.3.31 and its kernels for Haswell, the cheapest first. In float64 it is enough that
# the number of rows is even, which costs nothing. In float32, blocks of 512 rows take a sixth longer than without.
RULES = (ProductRule(2), ProductRule(12, chunk=320, edge=8))


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
    for rows in PROBED_ROWS:
        for columns in (n, n // 2, 30, 1):
            which, some = rng.permutation(len(left))[:rows], rng.permutation(n)[:columns]
            found = np.empty((rows, columns), dtype)
            rule.product(left[which], right[some], found)
            if not np.array_equal(found, wanted[np.ix_(which, some)]):
                return False
    return True


def entry_product(left: Block, right: Block, out: Block) -> None:
    """out <- left @ right.T, whose entries do not depend on the block where a rule for that is known."""
    rule = product_rule(right.dtype)
    if rule is None:
        np.matmul(left, right.T, out=out)
    else:
        rule.product(left, right, out)
