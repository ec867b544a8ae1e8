"""The rows that are drawn where hardly any is below the water level."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.svm.linear._simba import lowest


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), st.data())
def test_lowest_is_the_start_of_a_stable_sort(values, data):
    responses, rows = np.array(values, dtype=float), np.random.default_rng(0).permutation(len(values))
    count = data.draw(st.integers(1, len(values)))
    np.testing.assert_array_equal(lowest(rows, responses, count), rows[np.argsort(responses, kind="stable")[:count]])
