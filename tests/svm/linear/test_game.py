"""The compiled game against Algorithm 1 of either paper, line by line, on the same draws."""

import numpy as np
import pytest
import scipy.sparse as sp
from covering import every_pair
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from maxmargin.problems import SlackSVM
from maxmargin.solvers import Simba, solve
from maxmargin.svm.linear._game import Game

UNLIMITED = 2**62


class Plain:
    """Algorithm 1 of Hazan, Koren and Srebro (2011); lagged, that of Irpan and Kwan (2015). Every step is O(nd)."""

    def __init__(self, problem, horizon, lagged):
        self.X = np.array([problem.y[i] * problem.X.dot(np.eye(problem.X.shape[1]))[i] for i in range(problem.y.size)])
        self.X /= problem.scale
        self.y, self.s, self.volume, self.bias = problem.y, problem.s, problem.volume, problem.bias
        self.horizon, self.lagged, self.t, self.clipped = horizon, lagged, 0, 0
        self.u, self.log_q = np.zeros(self.X.shape[1]), np.zeros(self.y.size)
        self.w_sum, self.b_sum, self.xi_sum = np.zeros_like(self.u), 0.0, np.zeros(self.y.size)

    @property
    def p(self):
        p = self.s * np.exp(self.log_q - self.log_q.max())
        return p / p.sum()

    @property
    def w(self):
        return self.u / max(1.0, np.linalg.norm(self.u))

    def slack(self):
        """argmax over xi of p'xi such that 0 <= xi <= 2 and the sum of s_i xi_i is at most the volume: greedy by q."""
        xi, left = np.zeros(self.y.size), self.volume
        for i in np.argsort(-self.log_q, kind="stable"):
            if self.s[i] > 0 and left > 0:
                xi[i] = min(2.0, left / self.s[i])
                left -= self.s[i] * xi[i]
        return xi

    def play(self, rows, columns):
        self.t += 1
        rate = 1 / (self.horizon or self.t)
        eta = np.sqrt(np.log(np.count_nonzero(self.s)) * rate)
        row = self.X[rows].mean(axis=0) * np.sqrt(rate / 2)
        if not self.lagged:
            self.u = self.u + row
        w = self.w
        xi, b = self.slack(), np.sign(self.p @ self.y) if self.bias else 0.0
        self.estimate = np.zeros(self.y.size)
        if w.any():
            self.estimate = np.mean([self.X[:, j] * (w @ w) / w[j] for j in columns], axis=0)
        gain = log_gain(self.estimate + xi + self.y * b, eta)
        self.clipped += np.count_nonzero(eta * np.abs(self.estimate + xi + self.y * b) > 1)
        # Clipping makes ties, and xi is chosen by them: so what all of a group gets is rounded apart from the rest,
        # as in the game, to whole multiples of 2^-40.
        shared = log_gain(np.where(xi == 2, 2.0, 0.0) + self.y * b, eta)
        self.log_q += (np.rint(2**40 * shared) + np.rint(2**40 * (gain - shared))) / 2**40
        self.w_sum, self.b_sum, self.xi_sum = self.w_sum + w, self.b_sum + b, self.xi_sum + xi
        if self.lagged:
            self.u = self.u + row


def log_gain(v, eta):
    step = np.clip(eta * v, -1, 1)
    return np.log1p(step * (step - 1))


def make_problem(slack=0.0, bias=False, weighted=False, sparse=False, n=23, d=7, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if sparse:
        X[rng.random((n, d)) < 0.7] = 0
        X[3] = 0
        X[:, 2] = 0
    y = np.where(np.arange(n) < n // 3, 1.0, -1.0)
    s = rng.choice([0.0, 0.5, 1.0, 2.0], size=n) if weighted else None
    return SlackSVM(sp.csr_array(X) if sparse else X, y, slack, bias=bias, sample_weight=s)


KINDS = [
    {},
    {"slack": 0.2},
    {"slack": 0.13, "bias": True},
    {"slack": 0.37, "bias": True, "weighted": True},
    {"slack": 0.37, "weighted": True, "sparse": True},
    {"slack": 5.0, "bias": True, "sparse": True},
]
SIZES = [(1, 1), (3, 2)]  # rows and columns of a round
HORIZONS = [0, 400, 5]  # rates that adapt, constant ones, and those under which estimates are clipped


@pytest.mark.parametrize(
    ("kind", "size", "horizon", "lagged"), every_pair(KINDS, SIZES, HORIZONS, [False, True]), ids=str
)
def test_the_game_is_the_algorithm(kind, size, horizon, lagged):
    """Every pair of these options, `lagged` as in the perceptron and not as in SIMBA."""
    problem = make_problem(**kind)
    game = Game(problem, np.random.default_rng(1), *size, horizon, lagged)
    plain = Plain(problem, horizon, lagged)
    counts = np.zeros(problem.y.size)
    for _ in range(300):
        assert game.run(1, UNLIMITED) == 1
        rows, columns = game.last_draws
        assert (problem.s[rows] > 0).all()
        plain.play(rows, columns)
        np.add.at(counts, rows, 1)
        # Log weights are kept to multiples of 2^-40.
        np.testing.assert_allclose(game.probabilities(), plain.p, atol=1e-8)
    np.testing.assert_allclose(game.answer()[0], plain.w_sum / 300, atol=1e-9)
    assert game.answer()[1] == pytest.approx(plain.b_sum / 300)
    np.testing.assert_array_equal(game.dual_weights(), counts)
    np.testing.assert_allclose(game.mean_slack(), plain.xi_sum / 300, atol=1e-9)
    assert game.rounds == 300
    assert plain.clipped > 50 or horizon != 5


def test_sums_kept_up_to_date_do_not_drift():
    problem = make_problem(slack=0.2, bias=True, sparse=True)
    game, plain = Game(problem, np.random.default_rng(1), 1, 1, 0, False), Plain(problem, 0, False)
    for _ in range(5000):
        game.run(1, UNLIMITED)
        plain.play(*game.last_draws)
    np.testing.assert_allclose(game.answer()[0], plain.w_sum / 5000, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(game.probabilities(), plain.p, atol=1e-6)
    assert game.probabilities().sum() == pytest.approx(1)


def test_another_slack_half_way():
    problem = make_problem(slack=0.1, bias=True)
    game, plain = Game(problem, np.random.default_rng(1), 1, 1, 0, False), Plain(problem, 0, False)
    for t in range(200):
        if t == 100:
            game.set_slack(problem.with_slack(0.4))
            plain.volume = problem.with_slack(0.4).volume
        game.run(1, UNLIMITED)
        plain.play(*game.last_draws)
    np.testing.assert_allclose(game.probabilities(), plain.p, atol=1e-7)
    np.testing.assert_allclose(game.mean_slack(), plain.xi_sum / 200, atol=1e-9)


@pytest.mark.parametrize("lagged", [False, True])
def test_a_round_reads_its_rows_and_columns_and_nothing_else(lagged):
    problem = make_problem(slack=0.2, bias=True, sparse=True, n=200, d=100)
    X = problem.X
    game = Game(problem, np.random.default_rng(1), 2, 3, 0, lagged)
    row_size, column_size = (
        np.array([line(i)[0].size for i in range(k)]) for line, k in ((X.row, 200), (X.column, 100))
    )
    wanted = X.ledger.entries_read
    for t in range(100):
        game.run(1, UNLIMITED)
        rows, columns = game.last_draws
        wanted += row_size[rows].sum()
        if t > 0 or not lagged:  # x_1 = 0 in the survey
            wanted += column_size[columns].sum()
        assert X.ledger.entries_read == wanted
    assert set(X.ledger.purposes) == {"scale", "index"}


@pytest.mark.parametrize("lagged", [False, True])
@settings(max_examples=25, deadline=None)
@given(budgets=st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_cut_anywhere_by_the_budget_the_game_goes_on_as_if_never_cut(lagged, budgets):
    whole, cut = (
        Game(make_problem(slack=0.2, bias=True, sparse=True), np.random.default_rng(1), 2, 1, 0, lagged)
        for _ in range(2)
    )
    whole.run(100, UNLIMITED)
    played = 0
    for budget in [*budgets, UNLIMITED]:
        before = cut.X.ledger.entries_read
        played += cut.run(100 - played, budget)
        assert cut.X.ledger.entries_read - before <= budget
        assert played == cut.rounds
    assert played == 100
    np.testing.assert_array_equal(cut.answer()[0], whole.answer()[0])
    np.testing.assert_array_equal(cut.probabilities(), whole.probabilities())
    assert cut.answer()[1] == whole.answer()[1]


def test_the_mean_of_a_round_cut_short():
    """A row that was added before its columns did not fit the budget is not yet part of the mean."""
    problem = make_problem()
    game = Game(problem, np.random.default_rng(1), 1, 1, 0, False)
    assert game.run(5, 3 * (7 + 23) + 7) == 3
    three = Game(problem, np.random.default_rng(1), 1, 1, 0, False)
    three.run(3, UNLIMITED)
    np.testing.assert_allclose(game.answer()[0], three.answer()[0], rtol=1e-12)


def test_draws_have_the_chances_that_the_papers_give_them():
    """Rows fall with p_t and l2-samples are unbiased, over five seeds of 400 rounds.

    Each sum below is a martingale with known variances, so it is nearly normal: |z| > 5 has a chance of 6e-7 for each
    of the 2 * 23 sums, 3e-5 in all.
    """
    drift, variance = np.zeros((2, 23)), np.zeros((2, 23))
    for seed in range(5):
        problem = make_problem(slack=0.2)
        game, plain = Game(problem, np.random.default_rng(seed), 1, 1, 0, False), Plain(problem, 0, False)
        for _ in range(400):
            p = game.probabilities()
            game.run(1, UNLIMITED)
            rows, columns = game.last_draws
            plain.play(rows, columns)
            w = plain.w
            mean = plain.X @ w
            drift[0] += (np.arange(23) == rows[0]) - p
            variance[0] += p * (1 - p)
            drift[1] += plain.estimate - mean
            variance[1] += (w @ w) * (plain.X[:, w != 0] ** 2).sum(axis=1) - mean**2
    assert (np.abs(drift) < 5 * np.sqrt(variance)).all()


@settings(max_examples=100, deadline=None)
@given(arrays(float, (12, 4), elements=st.floats(-20, 20)), st.floats(0.01, 1))
def test_variance_multiplicative_weights(v, eta):
    """Lemma 4.2 of Hazan, Koren and Srebro (2011), Lemma 2.2 of Irpan and Kwan (2015)."""
    log_q, left, squares = np.zeros(4), 0.0, 0.0
    for v_t in v:
        p = np.exp(log_q - log_q.max())
        p /= p.sum()
        left, squares = left + p @ v_t, squares + p @ v_t**2
        log_q += np.log1p(eta * v_t * (eta * v_t - 1))
    right = np.maximum(v, -1 / eta).sum(axis=0).min() + np.log(4) / eta + eta * squares
    assert left <= right + 1e-9 * (1 + abs(right))


@given(
    arrays(float, 5, elements=st.floats(-100, 100)),
    arrays(float, 5, elements=st.floats(0.01, 1)),
    st.floats(1, 4),
)
def test_clipping_biases_little(values, weights, factor):
    """Lemma 2.1 of Irpan and Kwan (2015)."""
    p = weights / weights.sum()
    mean = p @ values
    C = max(2 * abs(mean) * factor, 1e-3)
    variance = p @ (values - mean) ** 2
    assert abs(mean - p @ np.clip(values, -C, C)) <= 2 * variance / C + 1e-9


def test_a_tolerance_costs_little_of_the_value():
    exact, loose = (
        solve(make_problem(slack=0.2), Simba(method="paper", tolerance=tolerance), max_iter=5000, random_state=0)
        for tolerance in (0.0, 0.1)
    )
    assert loose.certificate.primal == pytest.approx(exact.certificate.primal, rel=0.02)
