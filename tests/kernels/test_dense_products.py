"""Entries of products have the same bits wherever in a block they are computed."""

import numpy as np
import pytest

from maxmargin.core.threads import limit_blas
from maxmargin.kernels._blocks import add_rows, exp_of_negative
from maxmargin.kernels.dense_products import RULES, entry_product, product_rule

DTYPES = [np.float32, np.float64]


def product(left, right):
    out = np.empty((len(left), len(right)), left.dtype)
    with limit_blas():
        entry_product(left, right, out, reproducible=True)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("terms", [1, 54, 300])
def test_any_block_has_the_same_entries(dtype, terms):
    if product_rule(np.dtype(dtype)) is None:
        pytest.skip("no rule is known for the BLAS library of this machine")
    rng = np.random.default_rng(terms)
    left, right = (rng.normal(size=(n, terms)).astype(dtype) for n in (512, 1024))
    whole = product(left, right)
    for rows, columns in [(1, 1), (1, 1024), (512, 1), (3, 7), (37, 300), (64, 65), (511, 1023), (2, 999)]:
        i, j = rng.permutation(512)[:rows], rng.permutation(1024)[:columns]
        np.testing.assert_array_equal(product(left[i], right[j]), whole[np.ix_(i, j)])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_rule_computes_products(rule, dtype):
    rng = np.random.default_rng(0)
    for rows, columns in [(0, 3), (3, 0), (1, 1), (5, 17), (24, 700), (130, 641)]:
        left, right = (rng.normal(size=(n, 30)).astype(dtype) for n in (rows, columns))
        out = np.full((rows, columns), np.nan, dtype)
        rule.product(left, right, out)
        np.testing.assert_allclose(out, left @ right.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_and_exponentials_do_not_depend_on_the_place(dtype):
    """Compiled loops over vectors and over the rest of the entries must round alike."""
    rng = np.random.default_rng(0)
    rows, factors = -5 * rng.random((37, 700)).astype(dtype), rng.normal(size=37)
    sums, exponentials = np.zeros(700), rows.copy()
    add_rows(rows, np.arange(37), factors, sums)
    exp_of_negative(exponentials)
    np.testing.assert_allclose(sums, factors @ rows.astype(np.float64), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(exponentials, np.exp(rows), rtol=3e-7)
    for size in (1, 2, 3, 5, 8, 12, 15, 16, 17, 31, 100, 699):
        some = rng.permutation(700)[:size]
        part, found = np.ascontiguousarray(rows[:, some]), np.zeros(size)
        add_rows(part, np.arange(37), factors, found)
        np.testing.assert_array_equal(found, sums[some])
        exp_of_negative(part)
        np.testing.assert_array_equal(part, exponentials[:, some])
