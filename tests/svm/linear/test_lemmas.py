"""The lemmas of section 2.3 of Irpan and Kwan (2015), on the code that rests on them. Expectations are enumerated."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from maxmargin.core import l1_sample, l2_sample
from maxmargin.game.weights import Weights

vectors = arrays(float, 5, elements=st.floats(-10, 10).map(lambda x: round(x, 3)))
shares = arrays(float, 5, elements=st.floats(0, 1).map(lambda x: round(x, 3)))


def outcomes(probabilities):
    """A u for each index that can be drawn, in the middle of those that draw it, and its probability."""
    ends = np.cumsum(probabilities)
    return [(float(end - p / 2), float(p)) for end, p in zip(ends, probabilities, strict=True) if p > 1e-12]


@given(shares, vectors)
def test_l1_samples_are_unbiased(p, v):
    assume(p.sum() > 0)
    p /= p.sum()
    assert sum(chance * v[l1_sample(p, u)] for u, chance in outcomes(p)) == pytest.approx(p @ v, abs=1e-9)


@given(vectors, vectors)
def test_l2_samples_are_unbiased_and_of_little_variance(x, a):
    """E = <a, x>, and E of the square = |x|^2 times the squares of a where x is not 0: at most 1 on unit vectors."""
    assume(x.any())
    drawn = [(l2_sample(x, u), chance) for u, chance in outcomes(x**2 / (x @ x))]
    estimates = np.array([a[j] * factor for (j, factor), _ in drawn])
    chances = np.array([chance for _, chance in drawn])
    assert chances @ estimates == pytest.approx(a @ x, rel=1e-9, abs=1e-9)
    square = chances @ estimates**2
    assert square == pytest.approx((x @ x) * (a[x != 0] @ a[x != 0]), rel=1e-9, abs=1e-9)
    unit = (x @ x) * max(a @ a, 1e-300)
    assert (square - (chances @ estimates) ** 2) / unit <= 1 + 1e-9


def test_l2_sample_of_nothing():
    assert l2_sample(np.zeros(3), 0.3) == (0, 0.0)


@given(shares, st.floats(0, 1, exclude_max=True))
def test_what_weighs_nothing_is_never_drawn(p, u):
    assume(p.sum() > 0)
    assert p[l1_sample(p, u)] > 0
    assert p[l1_sample(p, np.nextafter(1.0, 0.0))] > 0


@settings(max_examples=200)
@given(vectors, shares, st.floats(0.01, 1), st.floats(0, 1))
def test_clipping_biases_little(values, p, eta, share):
    """Lemma 2.1 on discrete distributions: |E X - E clip(X, C)| <= 2 Var(X) / C, if |E X| <= C / 2.

    And as the second order allows, Var / (4 (C - |E X|)), which is less than a quarter of it.
    """
    assume(p.sum() > 0)
    p /= p.sum()
    weights = Weights(np.ones(5), eta)
    C = 1 / eta
    spread = values - p @ values
    X = spread + share * C / 2  # with a mean of share * C / 2
    bias = p @ X - p @ weights.clip(X)
    variance = p @ spread**2
    assert abs(bias) <= 2 * variance / C + 1e-9
    assert bias <= variance / (4 * (C - share * C / 2)) + 1e-9
    # Clipping brings no variance of its own.
    clipped = weights.clip(X)
    assert p @ (clipped - p @ clipped) ** 2 <= variance + 1e-9


@settings(max_examples=200)
@given(arrays(float, (12, 4), elements=st.floats(-50, 50)), st.floats(0.01, 2), st.booleans())
def test_variance_multiplicative_weights(q, eta, clipped):
    """Lemma 2.2 on arbitrary sequences."""
    weights, left, squares = Weights(np.ones(4), eta), 0.0, 0.0
    if clipped:
        q = weights.clip(q)
    for q_t in q:
        p = weights.p
        assert p.sum() == pytest.approx(1)
        left, squares = left + p @ q_t, squares + p @ q_t**2
        weights.learn(q_t)
    right = np.maximum(q, -1 / eta).sum(axis=0).min() + np.log(4) / eta + eta * squares
    assert left <= right + 1e-9 * (1 + abs(right))


@given(arrays(float, (6, 4), elements=st.floats(-3, 3)))
def test_weights_are_what_the_definition_says(q):
    weights, w = Weights(np.array([1.0, 2.0, 0.0, 1.0]), 0.3), np.array([1.0, 2.0, 0.0, 1.0])
    for q_t in q:
        weights.learn(q_t)
        w = w * (1 - 0.3 * q_t + (0.3 * q_t) ** 2)
        np.testing.assert_allclose(weights.p, w / w.sum(), rtol=1e-9)
