import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.core.line_search import least


@given(st.floats(-2, 3), st.floats(0.1, 10))
def test_the_valley_wherever_it_lies(valley, width):
    where, value = least(lambda t: ((t - valley) / width) ** 2, 0.0, 1.0, 1e-5)
    assert where == pytest.approx(min(max(valley, 0), 1), abs=1e-5)
    assert value == pytest.approx(((where - valley) / width) ** 2)


@given(st.floats(-0.5, 0.9), st.floats(0, 1))
def test_infinite_to_the_left(wall, width):
    valley = wall + width
    where, _ = least(lambda t: math.inf if t <= wall else abs(t - valley), 0.0, 1.0, 1e-5)
    assert where == pytest.approx(min(max(valley, 0), 1), abs=2e-5)


def test_infinite_everywhere():
    assert least(lambda t: math.inf, 0.0, 1.0)[1] == math.inf


def test_a_kink():
    assert least(lambda t: max(-t, 2 * t - 0.3), -1.0, 1.0, 1e-6) == pytest.approx((0.1, -0.1), abs=1e-5)
