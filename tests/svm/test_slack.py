import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from maxmargin.problems import Certificate, RegularizedSVM, SlackSVM
from maxmargin.solvers import Newton, solve
from maxmargin.svm.convert import reached_slack

cases = pytest.mark.parametrize("distance", [8.0, 1.0], ids=["separable", "mixed"])
biases = pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
weightings = pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])


def weights_of(weighted, n):
    return np.random.default_rng(5).choice([0.0, 0.5, 1.0, 3.0], size=n) if weighted else None


@cases
@biases
@weightings
@pytest.mark.parametrize("slack", [0.0, 0.02, 0.2])
def test_certificate_meets_at_the_exact_optimum(exact, blobs, distance, bias, weighted, slack):
    X, y = blobs(50, 4, distance)
    s = weights_of(weighted, 50)
    problem = SlackSVM(X, y, slack, bias=bias, sample_weight=s)
    kept = np.ones(50, dtype=bool) if s is None else s > 0
    best = exact.slack_form(X[kept] / problem.scale, y[kept], slack, bias, problem.s[kept])
    p = np.zeros(50)
    p[kept] = best.p

    at = problem.evaluate(best.w)
    certificate = problem.certify(best.w, p)
    assert at.value == pytest.approx(best.value, abs=1e-6)
    assert problem.bound(p) == pytest.approx(best.value, abs=1e-6)
    assert certificate.primal == pytest.approx(best.value, abs=1e-6)
    assert 0 <= certificate.gap < 1e-6
    if not bias:
        assert at.b == 0
    # The value needs no knowledge of the bias: it is attained at the best one.
    short = np.maximum(0, at.value - (at.responses + y * at.b))
    assert problem.s @ short == pytest.approx(problem.volume, abs=1e-6)


@biases
@weightings
def test_the_bias_is_the_best_for_its_direction(exact, blobs, bias, weighted):
    X, y = blobs(40, 3, 2.0)
    s = weights_of(weighted, 40)
    problem = SlackSVM(X, y, 0.1, bias=bias, sample_weight=s)
    w = np.array([0.6, 0.0, -0.8])
    at = problem.evaluate(w)
    # With one feature <w, x> and w fixed at 1, only the bias is left to choose.
    kept = problem.s > 0
    feature = X[kept] @ w / problem.scale
    levels = [
        exact_level(feature * y[kept] + y[kept] * b, problem.s[kept], problem.volume)
        for b in (np.linspace(-2, 2, 4001) if bias else [0.0])
    ]
    assert at.value == pytest.approx(max(levels), abs=1e-3)
    assert at.value >= max(levels) - 1e-6


def exact_level(c, s, volume):
    low, high = c.min(), c.max() + volume / s.sum() + 1
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if s @ np.maximum(0, middle - c) < volume else (low, middle)
    return low


@st.composite
def problems(draw):
    n, d = draw(st.integers(2, 9)), draw(st.integers(1, 5))
    X = draw(arrays(float, (n, d), elements=st.integers(-5, 5).map(float)))
    y = np.array([1.0, -1.0, *draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n - 2, max_size=n - 2))])
    s = np.array([1.0, 1.0, *draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n - 2, max_size=n - 2))])
    slack = draw(st.sampled_from([0.0, 1e-3, 0.1, 0.5, 2.0]))
    return SlackSVM(X, y, slack, bias=draw(st.booleans()), sample_weight=s)


@settings(max_examples=200, deadline=None)
@given(st.data(), problems())
def test_any_weights_bound_any_direction(data, problem):
    n, d = problem.X.shape
    w = data.draw(arrays(float, d, elements=st.floats(-1, 1, allow_subnormal=False)))
    w /= max(1.0, np.linalg.norm(w))
    p = data.draw(arrays(float, n, elements=st.floats(0, 1e6)))
    certificate = problem.certify(w, p)
    assert problem.evaluate(w).value <= problem.bound(p) + 1e-9
    assert certificate.gap >= 0
    assert certificate.dual <= problem.bound(p) + 1e-3 or not p.any()
    assert np.isfinite([certificate.primal, certificate.dual]).all()


@settings(max_examples=100, deadline=None)
@given(st.data(), problems())
def test_what_the_level_says(data, problem):
    d = problem.X.shape[1]
    w = data.draw(arrays(float, d, elements=st.integers(-3, 3).map(float)))
    w /= max(1.0, np.linalg.norm(w))
    at = problem.evaluate(w)
    c = at.responses + problem.y * at.b
    np.testing.assert_allclose(at.responses, problem.y * problem.X.dot(at.w) / problem.scale, atol=1e-12)
    assert problem.s @ np.maximum(0, at.value - c) == pytest.approx(problem.volume, abs=1e-4 * (1 + problem.volume))
    assert at.wet.sum() == pytest.approx(1)
    assert not at.wet[problem.s == 0].any()
    if problem.bias:
        assert at.wet @ problem.y == pytest.approx(0, abs=1e-12)
    # Lemma 2.1: scaled to the margin, the mean hinge loss is slack / margin.
    if at.value > 1e-6:
        hinge = np.maximum(0, 1 - c / at.value)
        assert problem.s @ hinge / problem.s.sum() <= problem.slack / at.value * (1 + 1e-4) + 1e-6


def test_a_direction_outside_of_the_ball_is_brought_back_to_it():
    problem = SlackSVM(np.array([[1.0], [-1.0]]), [1, -1], 0.0)
    assert problem.evaluate(np.array([5.0])).value == 1
    assert problem.certify(np.array([5.0])).dual == pytest.approx(1)
    # On the wrong side the margin is negative, but not more so than on the sphere.
    assert problem.evaluate(np.array([-5.0])).value == -1


@pytest.mark.parametrize("p", [np.zeros(3), np.array([0.0, 0.0, 1.0])], ids=["none", "on a row that does not count"])
@biases
def test_weights_that_weigh_nothing_still_bound(p, bias):
    problem = SlackSVM(np.array([[1.0], [-1.0], [0.5]]), [1, -1, 1], 0.0, bias=bias, sample_weight=[1, 1, 0])
    assert problem.bound(p) == pytest.approx(1)
    assert problem.certify(np.array([1.0]), p).gap == pytest.approx(0)


@biases
def test_storage_does_not_matter(blobs, storages, bias):
    X, y = blobs(30, 5, 2.0)
    X[np.abs(X) < 0.5] = 0
    w = np.full(5, 0.4)
    reference = SlackSVM(X, y, 0.05, bias=bias)
    wanted = reference.certify(w)
    for name, stored in storages(X).items():
        problem = SlackSVM(stored, y, 0.05, bias=bias)
        assert problem.scale == pytest.approx(reference.scale), name
        np.testing.assert_allclose(problem.centroid(), reference.centroid(), atol=1e-12, err_msg=name)
        found = problem.certify(w)
        assert (found.primal, found.dual) == pytest.approx((wanted.primal, wanted.dual), abs=1e-6), name
    single = SlackSVM(X.astype(np.float32), y, 0.05, bias=bias).certify(w)
    assert (single.primal, single.dual) == pytest.approx((wanted.primal, wanted.dual), rel=1e-4)


@biases
def test_weight_two_is_the_row_twice_and_weight_zero_is_no_row(blobs, bias):
    X, y = blobs(30, 4, 2.0)
    s = np.where(np.arange(30) < 6, 2.0, np.where(np.arange(30) < 12, 0.0, 1.0))
    repeats = s.astype(int)
    weighted = SlackSVM(X, y, 0.05, bias=bias, sample_weight=s)
    repeated = SlackSVM(np.repeat(X, repeats, axis=0), np.repeat(y, repeats), 0.05, bias=bias, scale=weighted.scale)
    w = np.array([0.5, -0.5, 0.5, 0.5])
    one, other = weighted.evaluate(w), repeated.evaluate(w)
    assert one.value == pytest.approx(other.value, abs=1e-6)
    np.testing.assert_allclose(np.repeat(one.wet, repeats) / np.repeat(np.maximum(s, 1), repeats), other.wet, atol=1e-9)
    assert weighted.bound(s) == pytest.approx(repeated.bound(np.ones(repeats.sum())))
    np.testing.assert_allclose(weighted.centroid(), repeated.centroid(), atol=1e-12)
    assert weighted.largest_slack() == pytest.approx(repeated.largest_slack())
    assert weighted.volume == pytest.approx(repeated.volume)


@biases
def test_flips_and_scales(blobs, bias):
    X, y = blobs(30, 4, 2.0)
    w = np.array([0.5, -0.5, 0.5, 0.5])
    at = SlackSVM(X, y, 0.05, bias=bias).evaluate(w)
    other_labels = SlackSVM(X, -y, 0.05, bias=bias).evaluate(-w)
    other_data = SlackSVM(-X, y, 0.05, bias=bias).evaluate(-w)
    both = SlackSVM(-X, -y, 0.05, bias=bias).evaluate(w)
    assert [other_labels.value, other_data.value, both.value] == pytest.approx([at.value] * 3, abs=1e-6)

    problem, larger = SlackSVM(X, y, 0.05, bias=bias), SlackSVM(10 * X, y, 0.05, bias=bias)
    assert larger.scale == pytest.approx(10 * problem.scale)
    np.testing.assert_allclose(larger.centroid(), problem.centroid())
    assert larger.evaluate(w).value == pytest.approx(at.value)


def test_with_slack_shares_everything_else(blobs):
    X, y = blobs(20, 3, 2.0)
    problem = SlackSVM(X, y, 0.05)
    other = problem.with_slack(0.1)
    assert other.slack == 0.1
    assert problem.slack == 0.05
    assert other.X is problem.X
    assert other.volume == pytest.approx(2 * problem.volume)


@biases
def test_beyond_the_largest_slack_the_best_direction_no_longer_changes(exact, blobs, bias):
    X, y = blobs(40, 3, 1.0)
    problem = SlackSVM(X, y, 0.0, bias=bias)
    largest = problem.largest_slack()
    at_largest, far = (exact.slack_form(X / problem.scale, y, k * largest, bias).w for k in (1.0, 3.0))
    np.testing.assert_allclose(at_largest, far, atol=1e-4)
    if not bias:
        np.testing.assert_allclose(far, problem.centroid(), atol=1e-4)
        just_less = exact.slack_form(X / problem.scale, y, 0.8 * largest, bias).w
        assert np.abs(just_less - far).max() > 1e-4


@biases
@weightings
def test_the_C_of_the_largest_slack(blobs, bias, weighted):
    X, y = blobs(40, 3, 1.0)
    weights = weights_of(weighted, 40)
    problem = SlackSVM(X, y, 0.0, bias=bias, sample_weight=weights)
    known = problem.slack_range()
    at_C = RegularizedSVM(X, y, known.C, bias=bias, sample_weight=weights)
    slack = reached_slack(at_C, solve(at_C, Newton(), tol=1e-9).evaluation) / problem.scale
    if bias:  # of the larger class, some samples need not be inside the margin
        assert known.largest / 3 < slack < 3 * known.largest
    else:
        assert slack == pytest.approx(known.largest, rel=1e-3)
    assert known.C_of(0.5 * known.largest) == pytest.approx(2 * known.C)
    assert known.C_of(0.0) < np.inf


def test_reads_are_booked_by_purpose(blobs):
    X, y = blobs(20, 3, 2.0)
    problem = SlackSVM(X, y, 0.05)
    assert problem.X.ledger.entries_read == 0
    assert problem.X.ledger.purposes["scale"] == (60, 60)
    problem.evaluate(np.ones(3) / 2)
    assert problem.X.ledger.entries_read == 60
    problem.largest_slack()
    assert problem.X.ledger.entries_read == 60
    assert SlackSVM(X, y, 0.05, scale=10.0).X.ledger.purposes == {}


def test_zero_rows_are_allowed_and_counted():
    problem = SlackSVM(np.array([[1.0], [0.0], [-2.0]]), [1, 1, -1], 0.0)
    assert problem.zero_rows == 1
    assert problem.scale == 2
    everything_zero = SlackSVM(np.zeros((2, 3)), [1, -1], 0.0)
    assert everything_zero.certify(np.zeros(3)).gap == pytest.approx(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((0, 3)), "y": []}, "empty.*0 rows and 3 columns"),
        ({"X": np.zeros((2, 0))}, "empty.*2 rows and 0 columns"),
        ({"y": [1, -1, 1]}, r"X has 2 rows, but y has shape \(3,\)"),
        ({"y": [1, 0]}, r"labels must be -1 and \+1"),
        ({"y": [1, 1]}, "one class"),
        ({"slack": -0.1}, "slack must be a number >= 0; got -0.1"),
        ({"slack": np.nan}, "slack must be a number >= 0; got nan"),
        ({"sample_weight": [1, -1]}, "sample_weight must be finite and >= 0; got -1"),
        ({"sample_weight": [1, np.inf]}, "sample_weight must be finite and >= 0; got inf"),
        ({"sample_weight": [0, 0]}, "sample_weight is zero for every sample"),
        ({"sample_weight": [1, 0]}, "one class, those of weight 0 left out"),
        ({"sample_weight": [1]}, r"sample_weight has shape \(1,\)"),
        ({"scale": 0.0}, "scale must be a positive number; got 0"),
        ({"scale": np.inf}, "scale must be a positive number; got inf"),
        ({"X": np.array([[1.0], [np.nan]])}, "X contains NaN at row 1, column 0"),
        ({"X": np.array([[1.0], [1e200]])}, "row 1 of X holds values so large that its squared norm is inf"),
        ({"X": [[1.0], [2.0]]}, "expected a NumPy array"),
    ],
)
def test_bad_input(change, message):
    given = {"X": np.array([[1.0], [-1.0]]), "y": [1, -1], "slack": 0.0} | change
    with pytest.raises((ValueError, TypeError), match=message):
        SlackSVM(given.pop("X"), given.pop("y"), **given)


@pytest.mark.parametrize(
    ("certificate", "sentence"),
    [
        (Certificate(0.1, 0.1008), "the margin is within 0.79 % of the best possible at this slack"),
        (Certificate(-0.1, 0.2), "the margin reached is not positive; the best possible at this slack is at most 0.2"),
        (Certificate(-0.1, -0.05), "no positive margin exists at this slack (at most -0.05): allow more slack"),
        (Certificate.missing("certify=False"), "not certified: certify=False"),
    ],
)
def test_what_a_certificate_says(certificate, sentence):
    assert str(certificate) == sentence
    assert bool(certificate) == (not sentence.startswith("not certified"))


def test_gaps():
    assert Certificate(1.0, 4.0).gap == 3
    assert Certificate(1.0, 4.0).relative_gap == 0.75
    assert Certificate(0.0, 0.0).relative_gap == 0
    assert np.isnan(Certificate.missing("").gap)
