import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from maxmargin.problems import LOSSES, RegularizedSVM
from maxmargin.solvers import Sdca, solve
from maxmargin.svm._proof import bound_on_responses

# No bias, a free one, and two penalised ones, as what RegularizedSVM takes and as what the exact solver takes.
BIASES = {
    "no bias": ({"bias": False}, {"bias": False}),
    "free": ({}, {}),
    "penalised": ({"intercept_scaling": 1.0}, {"B": 1.0}),
    "penalised less": ({"intercept_scaling": 5.0}, {"B": 5.0}),
}
losses = pytest.mark.parametrize("loss", LOSSES)
biases = pytest.mark.parametrize("bias", BIASES)
weightings = pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])


def weights_of(weighted, n):
    return np.random.default_rng(5).choice([0.0, 0.5, 1.0, 3.0], size=n) if weighted else None


def value_of(problem, w, b):
    """The objective as it is written down."""
    c = problem.y * (problem.X.dot(w) + b)
    short = np.maximum(0, 1 - c) ** (2 if problem.loss.name == "squared_hinge" else 1)
    penalty = (b / problem.intercept_scaling) ** 2 if problem.intercept_scaling else 0.0
    return 0.5 * w @ w + 0.5 * penalty + problem.C * problem.s @ short


# Against an exact solver


@losses
@biases
@weightings
@pytest.mark.parametrize("distance", [8.0, 1.0], ids=["separable", "mixed"])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_primal_and_dual_meet_at_the_exact_optimum(exact, blobs, loss, bias, weighted, distance, C):
    X, y = blobs(50, 4, distance)
    s = weights_of(weighted, 50)
    own, theirs = BIASES[bias]
    problem = RegularizedSVM(X, y, C, loss=loss, sample_weight=s, **own)
    best = exact.C_form(X, y, C, s=s, loss=loss, **theirs)
    near = {"rel": 1e-6, "abs": 1e-9}
    assert problem.evaluate(best.w, best.b).value == pytest.approx(best.value, **near)
    assert problem.evaluate(best.w).value == pytest.approx(best.value, **near)
    assert problem.bound(best.alpha) == pytest.approx(best.value, rel=1e-5)
    certificate = problem.certify(best.w, best.alpha)
    assert certificate.primal == pytest.approx(best.value, **near)
    assert 0 <= certificate.relative_gap < 1e-5
    if bias == "no bias":
        assert problem.evaluate(best.w).b == 0


@biases
@weightings
def test_a_smooth_loss_tells_its_own_dual_point(exact, blobs, bias, weighted):
    X, y = blobs(50, 4, 1.0)
    s = weights_of(weighted, 50)
    own, theirs = BIASES[bias]
    problem = RegularizedSVM(X, y, 2.0, loss="squared_hinge", sample_weight=s, **own)
    best = exact.C_form(X, y, 2.0, s=s, loss="squared_hinge", **theirs)
    at = problem.evaluate(best.w)
    np.testing.assert_allclose(at.wet, best.alpha, atol=1e-4)
    assert problem.certify(best.w).relative_gap < 1e-6


@losses
@biases
def test_rounds_tighten_the_bound(exact, blobs, loss, bias):
    X, y = blobs(60, 4, 1.0)
    own, theirs = BIASES[bias]
    problem = RegularizedSVM(X, y, 0.3, loss=loss, **own)
    best = exact.C_form(X, y, 0.3, loss=loss, **theirs)
    w = 0.8 * best.w
    bounds = [problem.certify(w, rounds=rounds).dual for rounds in (0, 1, 5, 200)]
    assert bounds == sorted(bounds)
    assert best.value * 0.97 <= bounds[-1] <= best.value + 1e-9


# Any point


@st.composite
def problems(draw):
    n, d = draw(st.integers(2, 9)), draw(st.integers(1, 5))
    X = draw(arrays(float, (n, d), elements=st.integers(-5, 5).map(float)))
    y = np.array([1.0, -1.0, *draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n - 2, max_size=n - 2))])
    s = np.array([1.0, 1.0, *draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n - 2, max_size=n - 2))])
    C = draw(st.sampled_from([1e-3, 0.1, 1.0, 100.0]))
    own, _ = BIASES[draw(st.sampled_from(list(BIASES)))]
    return RegularizedSVM(X, y, C, loss=draw(st.sampled_from(list(LOSSES))), sample_weight=s, **own)


@settings(max_examples=300, deadline=None)
@given(st.data(), problems())
def test_any_weights_bound_any_direction(data, problem):
    n, d = problem.X.shape
    w = data.draw(arrays(float, d, elements=st.floats(-10, 10, allow_subnormal=False)))
    p = data.draw(arrays(float, n, elements=st.floats(0, 1e6)))
    at, bound = problem.evaluate(w), problem.bound(p)
    assert bound <= at.value + 1e-9 * (1 + at.value + abs(bound))
    for certificate in (problem.certify(w, p), problem.certify(w), problem.certify(w, p, rounds=3)):
        assert certificate.gap >= 0
        assert at.value <= certificate.primal <= at.value * (1 + 1e-9)
        assert np.isfinite(certificate.dual)
    # The weights given are never made worse by mixing others in.
    assert problem.certify(w, p).dual >= min(bound, at.value) - 1e-6 * (1 + abs(bound)) or not p.any()


@losses
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_bound_on_the_responses_of_the_best_direction(blobs, loss, share):
    """From any predictor and any dual point, however unbalanced its classes are."""
    X, y = blobs(60, 4, distance=1.0)
    problem = RegularizedSVM(X, y, 2.0, loss=loss)
    best = solve(problem, Sdca(), tol=1e-8, max_iter=10**6, random_state=0).solution
    largest = np.abs(X @ best.w).max()
    rng = np.random.default_rng(0)
    for _ in range(20):
        w = share * best.w + (1 - share) * rng.normal(size=X.shape[1])
        p = share * best.p + (1 - share) * rng.uniform(0, 2.0, y.size)
        value, v = problem.evaluate(w).value, X.T @ (p * y)
        gap, largest_sq_norm = value - problem._bound(p, v), (X**2).sum(axis=1).max()
        bound = bound_on_responses(value, gap, np.linalg.norm(v), abs(p @ y), largest_sq_norm)
        assert largest <= bound * (1 + 1e-6)
        assert bound <= np.sqrt(2 * value * largest_sq_norm) * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_examples_at_the_margin_do_not_loosen_the_proof(exact, seed):
    """With the hinge loss they are wet or not as rounding has it: what w alone proves jumps, what p proves does not."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(2, 9), rng.integers(1, 4)
    X = rng.integers(-3, 4, size=(n, d)).astype(float)
    y = np.array([1.0, -1.0, *rng.choice([-1.0, 1.0], size=n - 2)])
    C, B = rng.choice([0.01, 0.1, 1.0]), rng.choice([0.5, 1.0, 2.0])
    problem, best = RegularizedSVM(X, y, C, intercept_scaling=B), exact.C_form(X, y, C, B=B).value
    found = solve(problem, Sdca(), tol=1e-8, max_iter=5000 * n, random_state=0).solution
    for size in (0.0, 1e-16, 1e-15, 1e-12):
        at = problem.evaluate(found.w * (1 + size * rng.normal(size=d)))
        # Of shares of p, the smaller ones are mixed with the wet samples.
        for share in (1.0, 0.999, 0.9, 0.5, 0.0):
            certificate, (p, _) = problem.certify_evaluated(at, share * found.p)
            assert certificate.dual <= best * (1 + 1e-7)
            assert max(0.0, problem.bound(p)) == pytest.approx(certificate.dual, rel=1e-6)
            assert certificate.relative_gap <= 1e-6 or share < 1
            assert certificate.dual >= problem.bound(share * found.p) - 1e-9 * best or share == 0


@settings(max_examples=300, deadline=None)
@given(st.data(), problems())
def test_a_dual_point_is_one(data, problem):
    n, _ = problem.X.shape
    p = data.draw(arrays(float, n, elements=st.just(0.0) | st.floats(1e-100, 100)))
    alpha, v = problem.dual_point(p)
    upper, _ = problem.loss.dual_box(problem.u)
    assert (alpha >= 0).all()
    assert (alpha <= upper).all()
    if problem.free_bias:
        assert alpha @ problem.y == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(v, problem.X.dot_transposed(alpha * problem.y), atol=1e-9)
    # What is one already stays, and then its v is taken on trust.
    before = problem.X.ledger.entries_read
    again, same = problem.dual_point(alpha, v)
    np.testing.assert_array_equal(again, alpha)
    assert same is v
    assert problem.X.ledger.entries_read == before


@settings(max_examples=300, deadline=None)
@given(st.data(), problems())
def test_the_value_is_what_is_written_down_at_the_best_bias(data, problem):
    _, d = problem.X.shape
    w = data.draw(arrays(float, d, elements=st.integers(-3, 3).map(float)))
    at = problem.evaluate(w)
    np.testing.assert_allclose(at.responses, problem.y * problem.X.dot(w), atol=1e-12)
    assert at.value == pytest.approx(value_of(problem, w, at.b), rel=1e-9)
    if not problem.bias:
        assert at.b == 0
        return
    others = [0.0, data.draw(st.floats(-20, 20)), at.b - 1e-3, at.b + 1e-3, *(problem.y * (1 - at.responses))]
    for b in others:
        other = problem.evaluate(w, b)
        assert other.b == b
        assert other.value == pytest.approx(value_of(problem, w, b), rel=1e-9)
        assert at.value <= other.value * (1 + 1e-9)


@losses
def test_of_equally_good_biases_the_middle(loss):
    # Rows of weight zero would move the middle.
    X, s = np.array([[4.0], [-4.0], [9.0], [1.0]]), [1, 1, 1, 0]
    problem = RegularizedSVM(X, [1, -1, 1, -1], loss=loss, sample_weight=s)
    # Of the biases from -3 to 3 every one has both classes outside of the margin.
    assert problem.evaluate(np.array([1.0])).b == pytest.approx(0)
    assert problem.evaluate(np.array([1.0])).value == 0.5
    shifted = RegularizedSVM(X + 10, [1, -1, 1, -1], loss=loss, sample_weight=s)
    assert shifted.evaluate(np.array([1.0])).b == pytest.approx(-10)


# What must not matter


@losses
@biases
def test_weight_two_is_the_row_twice_and_weight_zero_is_no_row(blobs, loss, bias):
    X, y = blobs(30, 4, 2.0)
    s = np.where(np.arange(30) < 6, 2.0, np.where(np.arange(30) < 12, 0.0, 1.0))
    repeats = s.astype(int)
    own, _ = BIASES[bias]
    weighted = RegularizedSVM(X, y, 0.7, loss=loss, sample_weight=s, **own)
    repeated = RegularizedSVM(np.repeat(X, repeats, axis=0), np.repeat(y, repeats), 0.7, loss=loss, **own)
    w = np.array([0.5, -0.5, 0.5, 0.5])
    one, other = weighted.evaluate(w), repeated.evaluate(w)
    assert one.value == pytest.approx(other.value)
    assert one.b == pytest.approx(other.b)
    np.testing.assert_allclose(np.repeat(one.wet, repeats) / np.repeat(np.maximum(s, 1), repeats), other.wet, atol=1e-9)
    share = np.linspace(0, 0.7, 30)
    assert weighted.bound(share * s) == pytest.approx(repeated.bound(np.repeat(share, repeats)))


@losses
@biases
def test_weights_and_C_are_one_factor(blobs, loss, bias):
    X, y = blobs(30, 4, 2.0)
    own, _ = BIASES[bias]
    w, p = np.array([0.5, -0.5, 0.5, 0.5]), np.linspace(0, 1, 30)
    one = RegularizedSVM(X, y, 2.0, loss=loss, sample_weight=np.full(30, 0.5), **own)
    other = RegularizedSVM(X, y, 1.0, loss=loss, **own)
    assert one.evaluate(w).value == pytest.approx(other.evaluate(w).value)
    assert one.bound(p) == pytest.approx(other.bound(p))
    again = one.with_C(4.0)
    assert (again.C, one.C, again.X is one.X) == (4.0, 2.0, True)
    np.testing.assert_allclose(again.u, 2 * one.u)


@losses
@biases
def test_label_flip_is_sign_flip(blobs, loss, bias):
    X, y = blobs(30, 4, 2.0)
    own, _ = BIASES[bias]
    w, p = np.array([0.5, -0.5, 0.5, 0.5]), np.linspace(0, 1, 30)
    at = RegularizedSVM(X, y, 0.7, loss=loss, **own).evaluate(w)
    flipped = RegularizedSVM(X, -y, 0.7, loss=loss, **own)
    other = flipped.evaluate(-w)
    assert (other.value, other.b) == pytest.approx((at.value, -at.b))
    np.testing.assert_allclose(other.wet, at.wet, atol=1e-9)
    assert flipped.bound(p) == pytest.approx(RegularizedSVM(X, y, 0.7, loss=loss, **own).bound(p))
    mirrored = RegularizedSVM(-X, y, 0.7, loss=loss, **own).evaluate(-w)
    assert (mirrored.value, mirrored.b) == pytest.approx((at.value, at.b))


@losses
@biases
def test_storage_does_not_matter(blobs, storages, loss, bias):
    X, y = blobs(30, 5, 2.0)
    X[np.abs(X) < 0.5] = 0
    own, _ = BIASES[bias]
    w, p = np.full(5, 0.4), np.linspace(0, 1, 30)

    def figures(stored):
        problem = RegularizedSVM(stored, y, 0.7, loss=loss, **own)
        return problem.evaluate(w).value, problem.evaluate(w).b, problem.bound(p)

    wanted = figures(X)
    for name, stored in storages(X).items():
        assert figures(stored) == pytest.approx(wanted, rel=1e-9), name
    assert figures(X.astype(np.float32)) == pytest.approx(wanted, rel=1e-4)


@losses
def test_a_penalised_bias_is_the_weight_of_a_constant_feature(blobs, loss):
    X, y = blobs(30, 4, 2.0)
    problem = RegularizedSVM(X, y, 0.7, loss=loss, intercept_scaling=3.0)
    widened = RegularizedSVM(np.column_stack([X, np.full(30, 3.0)]), y, 0.7, loss=loss, bias=False)
    w, b, p = np.array([0.5, -0.5, 0.5, 0.5]), 0.6, np.linspace(0, 1, 30)
    assert problem.evaluate(w, b).value == pytest.approx(widened.evaluate(np.append(w, b / 3.0)).value)
    assert problem.bound(p) == pytest.approx(widened.bound(p))


@losses
def test_a_bias_that_is_hardly_penalised_is_free(blobs, loss):
    X, y = blobs(30, 4, 2.0)
    w = np.array([0.5, -0.5, 0.5, 0.5])
    free, hardly = (RegularizedSVM(X, y, 0.7, loss=loss, intercept_scaling=B).evaluate(w) for B in (None, 1e6))
    assert hardly.value == pytest.approx(free.value)
    if loss == "squared_hinge":  # of the equally good biases of the hinge, a penalty takes the smallest
        assert hardly.b == pytest.approx(free.b, abs=1e-6)


# Reads and messages


def test_reads(blobs):
    X, y = blobs(20, 3, 2.0)
    problem = RegularizedSVM(X, y, 1.0)
    assert (problem.X.ledger.entries_read, problem.X.ledger.purposes) == (0, {})
    at = problem.evaluate(np.ones(3))
    assert problem.X.ledger.entries_read == 60
    assert at.responses.size == 20
    assert problem.X.ledger.entries_read == 60
    problem.dual_point(np.where(y > 0, 0.5, 0.25), np.zeros(3))  # not balanced: the sum given is not that of its point
    assert problem.X.ledger.entries_read == 120


@losses
@biases
@pytest.mark.parametrize("p", [np.zeros(3), np.array([0.0, 0.0, 1.0])], ids=["none", "on a row that does not count"])
def test_weights_that_weigh_nothing_still_bound(loss, bias, p):
    own, _ = BIASES[bias]
    X = np.array([[1.0], [-1.0], [0.5]])
    problem = RegularizedSVM(X, [1, -1, 1], loss=loss, sample_weight=[1, 1, 0], **own)
    assert problem.bound(p) == 0
    assert 0 <= problem.certify(np.array([0.9]), p).gap < 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((0, 3)), "y": []}, "empty.*0 rows and 3 columns"),
        ({"y": [1, -1, 1]}, r"X has 2 rows, but y has shape \(3,\)"),
        ({"y": [1, 0]}, r"labels must be -1 and \+1"),
        ({"y": [1, 1]}, "one class"),
        ({"C": 0.0}, "C must be a positive number; got 0"),
        ({"C": np.nan}, "C must be a positive number; got nan"),
        ({"C": np.inf}, "C must be a positive number; got inf"),
        ({"C": -1}, "C must be a positive number; got -1"),
        ({"loss": "log"}, "loss must be one of hinge, squared_hinge; got 'log'"),
        ({"intercept_scaling": 0.0}, "intercept_scaling must be a positive number; got 0"),
        ({"intercept_scaling": -2.0}, "intercept_scaling must be a positive number; got -2"),
        ({"sample_weight": [1, -1]}, "sample_weight must be finite and >= 0; got -1"),
        ({"sample_weight": [1, 0]}, "one class, those of weight 0 left out"),
        ({"X": [[1.0], [2.0]]}, "expected a NumPy array"),
    ],
)
def test_bad_input(change, message):
    given = {"X": np.array([[1.0], [-1.0]]), "y": [1, -1]} | change
    with pytest.raises((ValueError, TypeError), match=message):
        RegularizedSVM(given.pop("X"), given.pop("y"), **given)
    if "C" in change:
        with pytest.raises(ValueError, match=message):
            RegularizedSVM(np.array([[1.0], [-1.0]]), [1, -1]).with_C(change["C"])
