import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.problems import LOSSES, Hinge, RegularizedSVM, SquaredHinge
from maxmargin.svm.losses import loss_of

losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
margins = st.floats(-50, 50)


@losses
@settings(max_examples=200, deadline=None)
@given(c=margins)
def test_the_slope_is_minus_the_derivative(loss, c):
    h = 1e-6
    before, at, after = (loss.value(np.array([c + step]))[0] for step in (-h, 0.0, h))
    left, right = (before - at) / h, (at - after) / h
    slope = loss.slope(np.array([c]))[0]
    # Convex: the derivative rises. At a kink the slope is the end nearer to zero.
    assert right - 1e-5 <= slope <= left + 1e-5
    assert slope == pytest.approx(right, abs=1e-5) or slope == pytest.approx(left, abs=1e-5)
    if loss.smooth:
        assert left == pytest.approx(right, abs=1e-4)


@losses
def test_a_margin_of_one_is_enough(loss):
    enough = np.array([1.0, 1.5, 100.0])
    assert not loss.value(enough).any()
    assert not loss.slope(enough).any()


@losses
@settings(max_examples=200, deadline=None)
@given(u=st.floats(1e-3, 100), share=st.floats(0, 1))
def test_the_dual_holds_the_conjugate(loss, u, share):
    """min over c of u loss(c) + alpha c is alpha - q alpha^2 / 2 for alpha in the box: found on a fine grid."""
    upper, q = (part[0] for part in loss.dual_box(np.array([u])))
    alpha = share * min(upper, 5 * u)
    c = np.linspace(-4, 4, 200_001)
    assert (u * loss.value(c) + alpha * c).min() == pytest.approx(alpha - 0.5 * q * alpha**2, abs=1e-4 * u)


@losses
def test_outside_of_the_box_there_is_no_bound(loss):
    upper, _ = loss.dual_box(np.array([2.0]))
    c = np.array([-1e9, 1e9])
    assert (2.0 * loss.value(c) - 0.1 * c).min() < -1e6
    if np.isfinite(upper[0]):
        assert (2.0 * loss.value(c) + (upper[0] + 0.1) * c).min() < -1e6


@losses
def test_an_example_of_weight_zero_has_no_part_in_the_dual(loss):
    upper, q = loss.dual_box(np.array([0.0, 1.0]))
    assert (upper[0], q[0]) == (0, 0)
    assert upper[1] > 0


def test_by_name_and_as_an_object():
    assert loss_of("hinge") == Hinge() == loss_of(Hinge())
    assert loss_of("squared_hinge") == SquaredHinge() == loss_of(SquaredHinge())
    X, y = np.array([[1.0], [-1.0]]), [1, -1]
    assert RegularizedSVM(X, y, loss=SquaredHinge()).loss == RegularizedSVM(X, y, loss="squared_hinge").loss


@pytest.mark.parametrize("given", ["logistic", None, 2])
def test_an_unknown_loss(given):
    with pytest.raises(ValueError, match=f"loss must be one of hinge, squared_hinge; got {given!r}"):
        loss_of(given)
