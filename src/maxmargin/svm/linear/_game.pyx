# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The two-player game of SIMBA and of the sublinear perceptron, a chunk of rounds at a time.

max over |w| <= 1, xi, b of  min over p on the simplex of  sum_i p_i (y_i <w, x_i> + y_i b + xi_i).

Symbols as in Algorithm 1 of Hazan, Koren and Srebro (2011): u, w, q, p, xi, eta, i_t, j_t, v_t. Labels and scale are
applied as rows and columns are read: x_i here is y_i x_i / scale of the data.
"""

import numpy as np

from libc.math cimport log1p, sqrt
from libc.stdint cimport int64_t

from maxmargin.core._matrix cimport Lines, Matrix
from maxmargin.core._sampling cimport WeightTree, draw_index, set_weight, total_weight
from maxmargin.core._selection cimport TopWeights
from maxmargin.core.bits cimport BitGenerator, bits_of, uniform

cdef enum:
    NOTHING_DRAWN, ROWS_DRAWN, COLUMNS_DRAWN


cdef class Game:
    """The state of both players.

    Parameters
    ----------
    problem : SlackSVM
        The data and the slack.
    rng : np.random.Generator
        The source of randomness.
    rows, columns : int
        The numbers of rows and columns read per round; estimates are averaged over them.
    horizon : int
        The number of rounds T, which fixes the rates; 0: rates that fall with t.
    lagged : bool
        Whether w_t is taken before row i_t is added, as by Irpan and Kwan (2015), or after, as by Hazan, Koren and
        Srebro (2011).
    tolerance : float
        How far the logarithms of weights may be on the wrong side of the boundary of the slack step.
    """

    cdef public object rng
    cdef public Matrix X
    cdef public int64_t t
    cdef public int64_t rows, columns
    cdef public int64_t horizon
    cdef public bint lagged
    cdef public double tolerance
    cdef public double b_sum
    cdef BitGenerator* bits
    cdef public bint has_bias
    cdef public const double[::1] y
    cdef public double inverse_scale, log_n
    # Row i of X is item[i] of the weights q (-1 where its sample weight is zero), and item k is row row[k].
    cdef public int64_t[::1] item, row
    cdef public object priors
    cdef public TopWeights q
    cdef public object xi_before  # the sum of xi_t over the rounds before the slack last changed
    cdef public double[::1] u
    cdef public WeightTree squares  # u_j^2
    cdef public double norm_sum  # S, the sum of the factors w_t / u_t so far
    cdef public double[::1] unshared  # B, so that the sum of w_t is S u - B
    cdef public double[::1] estimate  # of <w_t, x_i>, valid where touched_at[i] is t
    cdef public int64_t[::1] touched, touched_at
    cdef public int64_t[::1] draws  # how often each row was drawn: their share is an unbiased estimate of the mean p_t
    cdef public int64_t[::1] where
    cdef public double[::1] value
    cdef public int64_t[::1] drawn  # the rows of a round, then its columns
    # The stage of a round that the budget cut short, and what the rest of it costs: the next call resumes it.
    cdef public int64_t stage
    cdef public double cost

    def __init__(
        self, problem, rng, int64_t rows=1, int64_t columns=1, int64_t horizon=0, bint lagged=False, double tolerance=0.0
    ):
        cdef int64_t n = problem.X.shape[0], d = problem.X.shape[1], longest = max(n, d)
        self.rng, self.X = rng, problem.X
        self.attach()
        self.rows, self.columns, self.horizon, self.lagged = rows, columns, horizon, lagged
        self.tolerance = tolerance
        self.has_bias = problem.bias
        self.y, self.inverse_scale = problem.y, 1.0 / problem.scale
        used = np.flatnonzero(problem.s > 0)
        item = np.full(n, -1, dtype=np.int64)
        item[used] = np.arange(used.size)
        self.item, self.row, self.priors = item, used, problem.s[used]
        self.log_n = np.log(used.size)
        self.u, self.unshared = np.zeros(d), np.zeros(d)
        self.squares = WeightTree(d)
        self.norm_sum = self.b_sum = 0.0
        self.t = self.stage = 0
        self.cost = 0.0
        self.estimate, self.draws = np.zeros(n), np.zeros(n, dtype=np.int64)
        self.touched, self.touched_at = np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.where, self.value = np.empty(longest, dtype=np.int64), np.empty(longest)
        self.drawn = np.empty(rows + columns, dtype=np.int64)
        self.xi_before = np.zeros(n)
        self.set_slack(problem)

    def attach(self):
        """Find the bits of the random generator, after the other fields were set from a checkpoint."""
        self.bits = bits_of(self.rng)

    def run(self, int64_t rounds, double budget):
        """Play up to `rounds` rounds that spend at most `budget`; return how many were played."""
        cdef Lines* X_rows = self.X.need_rows()
        cdef Lines* X_columns = self.X.need_columns()
        cdef int64_t played = 0
        with nogil:
            while played < rounds:
                if self.stage == NOTHING_DRAWN:
                    self.cost, self.stage = self.draw_rows(X_rows), ROWS_DRAWN
                if self.cost > budget:
                    break
                if self.stage == ROWS_DRAWN:
                    self.t += 1
                    if not self.lagged:
                        self.add_rows(X_rows)
                        budget -= self.cost
                        self.cost = 0
                    self.cost += self.draw_columns(X_columns)
                    self.stage = COLUMNS_DRAWN
                if self.cost > budget:
                    break
                self.update_weights(X_columns)
                self.average()
                if self.lagged:
                    self.add_rows(X_rows)
                budget -= self.cost
                self.stage = NOTHING_DRAWN
                played += 1
        return played

    @property
    def rounds(self):
        """The number of rounds played to their end."""
        return self.t - (self.stage == COLUMNS_DRAWN)

    def answer(self):
        """Line 15: the means of w_1, ..., w_t and of b_1, ..., b_t."""
        total, rounds = self.norm_sum * np.asarray(self.u) - np.asarray(self.unshared), max(self.rounds, 1)
        return total / rounds, self.b_sum / rounds

    def mean_slack(self):
        """Line 15: the mean of xi_1, ..., xi_t, in O(n)."""
        return self.xi_sum() / max(self.rounds, 1)

    def xi_sum(self):
        total = self.xi_before.copy()
        total[np.asarray(self.row)] += 2.0 * self.q.tallies()
        return total

    @property
    def last_draws(self):
        """The rows and the columns of the last draws; no columns are drawn while w = 0."""
        return np.array(self.drawn[:self.rows]), np.array(self.drawn[self.rows:])

    def probabilities(self):
        """The weights p of the rows, in O(n)."""
        p = np.zeros(self.X.shape[0])
        p[np.asarray(self.row)] = self.priors * np.exp(self.q.keys() - self.q.log_total)
        return p

    def dual_weights(self):
        """How often each row was drawn."""
        return np.asarray(self.draws, dtype=np.float64)

    def set_slack(self, problem):
        """Use the slack of this problem: keep the weights, and choose the top again (line 5: xi = 2 up to n nu)."""
        row = np.asarray(self.row)
        if self.t > 0:
            self.xi_before = self.xi_sum()
        keys = np.zeros(row.size) if self.t == 0 else self.q.keys() - self.q.log_total
        self.q = TopWeights(self.priors, (problem.y[row] > 0).astype(np.int64), problem.volume / 2, keys)

    cdef double rate(self) noexcept nogil:
        """1 / T, or 1 / t without a horizon."""
        return 1.0 / (self.horizon if self.horizon > 0 else self.t)

    cdef double draw_rows(self, Lines* rows) noexcept nogil:
        """Line 4: draw the rows. Returns what reading them costs."""
        cdef int64_t k
        cdef double cost = 0.0
        for k in range(self.rows):
            self.drawn[k] = self.row[self.q._draw(uniform(self.bits))]
            cost += rows.price(self.drawn[k])
        return cost

    cdef void add_rows(self, Lines* rows) noexcept nogil:
        """Line 5, first half: u <- u + x_i / sqrt(2 T)."""
        cdef int64_t k, l, i, j, size
        cdef double step = sqrt(self.rate() / 2) * self.inverse_scale / self.rows, delta
        for k in range(self.rows):
            i = self.drawn[k]
            self.draws[i] += 1
            size = rows.read(i, &self.where[0], &self.value[0])
            for l in range(size):
                j = self.where[l]
                delta = step * self.y[i] * self.value[l]
                self.u[j] += delta
                self.unshared[j] += self.norm_sum * delta
                set_weight(&self.squares.tree, j, self.u[j] * self.u[j])

    cdef double draw_columns(self, Lines* columns) noexcept nogil:
        """Line 7: draw j ~ w_j^2, unless w = 0. Returns what reading the columns costs."""
        cdef int64_t k
        cdef double cost = 0.0
        if total_weight(&self.squares.tree) <= 0.0:
            return 0.0
        for k in range(self.columns):
            self.drawn[self.rows + k] = draw_index(&self.squares.tree, uniform(self.bits))
            cost += columns.price(self.drawn[self.rows + k])
        return cost

    cdef int64_t read_columns(self, Lines* columns) noexcept nogil:
        """Line 9, first term: estimate <w, x_i>. Returns the number of rows with an estimate other than 0."""
        cdef int64_t k, l, i, j, size, count = 0
        cdef double norm2 = total_weight(&self.squares.tree), factor, ratio
        if norm2 <= 0.0:
            return 0
        factor = 1.0 / max(1.0, sqrt(norm2))
        for k in range(self.columns):
            j = self.drawn[self.rows + k]
            # |w|^2 / w_j with w = factor * u
            ratio = factor * norm2 / self.u[j] * self.inverse_scale / self.columns
            size = columns.read(j, &self.where[0], &self.value[0])
            for l in range(size):
                i = self.where[l]
                if self.touched_at[i] != self.t:
                    self.touched_at[i] = self.t
                    self.estimate[i] = 0.0
                    self.touched[count] = i
                    count += 1
                self.estimate[i] += self.y[i] * self.value[l] * ratio
        return count

    cdef void update_weights(self, Lines* columns) noexcept nogil:
        """Lines 5 (second half) and 8 to 13: q_i <- q_i (1 - eta v_i + eta^2 v_i^2)."""
        cdef int64_t count = self.read_columns(columns), k, group, item, boundary = self.q._boundary()
        cdef double eta = sqrt(self.log_n * self.rate()), b = 0.0, partial = 0.0, xi
        cdef double gain[4]
        cdef int64_t boundary_group = 0
        cdef bint boundary_touched = False
        self.q._tally()
        if self.has_bias:
            b = 1.0 if self.q._probability(1) > 0.5 else -1.0 if self.q._probability(1) < 0.5 else 0.0
            self.b_sum += b
        # The change of every row that no column touches: xi is 2 for the top, 0 for the rest.
        for group in range(4):
            gain[group] = log_gain(2.0 * (group // 2) + (b if group % 2 else -b), eta)
        if boundary >= 0:
            partial = self.q._fraction(boundary)
            boundary_group = self.q.items[boundary].group
        for k in range(count):
            item = self.item[self.touched[k]]
            if item < 0:
                continue
            group = self.q.items[item].group
            xi = 2.0 * (group // 2)
            if item == boundary:
                xi, boundary_touched = 2.0 * partial, True
            self.q._add(item, log_gain(self.estimate[self.touched[k]] + xi + (b if group % 2 else -b), eta) - gain[group])
        if boundary >= 0 and partial > 0.0 and not boundary_touched:
            self.q._add(boundary, log_gain(2.0 * partial + (b if boundary_group % 2 else -b), eta) - gain[boundary_group])
        for group in range(4):
            self.q._shift(group // 2, group % 2, gain[group])
        self.q._restore(self.tolerance)

    cdef void average(self) noexcept nogil:
        """Add w_t to the sum, kept as S u - B so that a round only changes the coordinates that it reads."""
        self.norm_sum += 1.0 / max(1.0, sqrt(total_weight(&self.squares.tree)))


cdef inline double log_gain(double v, double eta) noexcept nogil:
    """Lines 10 and 11: log(1 - eta v + eta^2 v^2) with v clipped to [-1 / eta, 1 / eta]."""
    cdef double step = eta * v
    step = max(-1.0, min(1.0, step))
    return log1p(step * (step - 1.0))
