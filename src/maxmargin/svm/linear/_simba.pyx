# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""SIMBA with responses that are tracked instead of sampled, a chunk of iterations at a time.

As in Algorithm 1 of Hazan, Koren and Srebro (2011), rows move the direction and columns show which rows matter. Unlike
there, the responses that columns give are kept:

  u      the sum of the steps; row i is y_i x_i / scale of the data, in the unit ball
  w      the predictor, u / L in the unit ball, where L is the larger one of |u| and of the length that u would have if
         its steps were orthogonal
  z      an older u: z_j is the value of u_j when column j was last read
  r      the exact responses of all rows to z, r = X z, updated by reading column j when z_j changes
  wet    the rows whose r lies below the water level: the support of the best p for z

An iteration draws a row, from the wet ones as often as that pays and otherwise from all, and reads it, which gives its
exact response c = <u, x_i>; moves u by the amount that c falls short of the margin; and reads about as many entries of
the columns in which z differs most from u.

With a bias the rows are in two groups, by label, each with a level of its own. A row below its level waits for one of the
other group, and u moves by the mean of both: so p balances, and the bias, which they see with opposite signs, drops out.
Without a bias there is one group, and nothing waits.

Where the slack is too small for a margin on the unit sphere, the best w is inside the ball, and u cancels itself again
and again. There |u| stays below the second length, the square root of the sum of the squared steps, and w is the point of
dual averaging with adaptive rates, whose regret grows as the square root of the steps.

The level comes from the latest responses to u, which are few, as long as z is far from u. Once z is close, which it will
be, as steps become short compared with L, the level and the wet rows are those of r, and wet rows are drawn in rounds, once
in each. So p tends to the best one for w, and the gap to zero.
"""

import numpy as np

from libc.math cimport fabs, pow, sqrt
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from maxmargin.core import water_level, water_levels
from maxmargin.core._matrix cimport Lines, Matrix, longest
from maxmargin.core.bits cimport BitGenerator, bits_of, uniform

cdef enum:
    RECENT = 64  # latest responses of a group from which its level is estimated
    LEVEL_EVERY = 4  # iterations between two estimates of the levels
    FEWEST_WET = 10  # rows of a group that count as wet, at least: the lowest ones if fewer are below the level
    BUCKETS = 8192  # lists of columns by |u_j - z_j|, or by that over the root of the price, four per octave

COLUMN = np.dtype(
    [(name, np.float64) for name in ("u", "z", "unshared", "scatter")]
    + [(name, np.int64) for name in ("bucket", "following", "preceding", "unused")]
)

# The lack of a row is the amount by which its response falls short of the margin.
cdef double CAUTION = 2.0  # wet rows are preferred if their mean squared lack is this many times that of all rows
cdef double OPTIMISM = 5.0  # mean squared lack assumed of wet rows before any was read, in units of CAUTION
cdef double AVERAGE_RATE = 1.0 / 32  # weight of a new value in the moving averages of squared lacks
cdef double LEAST_SHARE = 0.05  # share of rows drawn from the wet ones, at least, and from all rows, at least
cdef double SHORTEST_STEP = 0.1  # step for a row below its level, at least: u must grow for its direction to converge
cdef double CLOSE = 1.0 / 4  # z is close to u if |u - z| is at most this share of L
cdef double FREE_SHARE = 1.0 / 64  # weight of a free entry in the choice of what to read; one of the mean price weighs 1


cdef struct Group:
    int64_t start, count  # its rows are order[start : start + count], in random order
    int64_t cursor  # position of the next row to draw in that order
    int64_t left  # the number of wet rows to be drawn, wet_rows[start : start + left]
    double mass, wet_mass, heaviest  # total weight of its rows, total weight of the wet ones, and largest weight of a row
    int64_t waiting, size  # the row that waits for one of the other group, or -1, and its number of entries
    double response  # of the waiting row
    double level  # the water level of this group, as a response to w
    int64_t seen  # rows read so far; for the last RECENT of them:
    double recent[RECENT]  # the response to w
    double weight[RECENT]  # the weight of the group that the row represents
    int64_t by_response[RECENT]  # their slots in the order of rising responses


# The fields of a column are adjacent in memory, so that an entry of a row takes one cache miss instead of seven.
cdef struct Column:
    double u, z
    double unshared  # B, so that the average is u - B / S
    double scatter  # zero between iterations
    int64_t bucket, following, preceding  # its bucket by |u_j - z_j|, and its neighbours in the list of that bucket
    int64_t unused  # pads the struct to a cache line


cdef class Tracker:
    """The state of SIMBA with tracked responses.

    Parameters
    ----------
    problem : SlackSVM
        The data and the slack.
    rng : np.random.Generator
        The source of randomness.
    columns : float
        Entries read in columns per entry read in rows, times the share of rows drawn from the wet ones.
    average : float
        The answer is the average of u_t with weights t^average, over the same average of L_t.
    """

    cdef public object rng
    cdef public Matrix X
    cdef public int64_t t
    cdef BitGenerator* bits
    cdef public double inverse_scale, columns, average, volume
    cdef public const double[::1] y, s
    cdef public Column[::1] column
    cdef public double[::1] r
    cdef public double u_norm2, z_norm2
    cdef public double steps2  # the sum of the squared lengths of the steps
    cdef public double distance2  # |u - z|^2
    cdef public double weight_sum  # S, the sum of t^average
    cdef public double norm2_sum  # the sum of |x_i|^2 over the rows read
    cdef public double length_sum, bias_sum  # the sums of t^average L_t, and of that times the bias for w_t
    cdef public double[::1] alpha  # u = sum_i alpha_i x_i
    cdef public Group group[2]
    cdef public int64_t groups
    cdef public int64_t[::1] order, wet_rows
    cdef public char[::1] is_wet, had_turn  # whether a row was drawn in this round of the wet rows
    cdef public double lack_of_wet, lack_of_all  # moving averages of the squared lack of rows drawn from the wet ones and from all
    cdef public double allowance  # weight of the entries that columns may still read
    cdef public bint priced  # whether entries have prices
    cdef public double mean_price  # of an entry, over all columns at the start
    cdef public int64_t column_entries  # entries read in columns since the wet rows were last found
    cdef public bint tracked  # whether wet rows were found
    cdef public bint close  # whether z was close to u then
    cdef public int64_t drawn, drawn_from  # a row that was drawn but did not fit the budget, or -1, and its group
    cdef public bint from_wet  # whether it was drawn from the wet ones
    cdef public bint columns_wait  # whether the budget ended an iteration before it had read all its columns
    cdef public bint levelled  # whether levels were estimated
    cdef public int64_t[::1] first  # the first column of the list of each bucket of |u_j - z_j|
    cdef public int64_t highest  # no bucket above this one has columns
    cdef public int64_t[:, ::1] row_where
    cdef public double[:, ::1] row_value
    cdef public int64_t[::1] column_where
    cdef public double[::1] column_value

    def __init__(self, problem, rng, double columns, double average):
        cdef int64_t n = problem.X.shape[0], d = problem.X.shape[1], k
        self.rng, self.X = rng, problem.X
        self.attach()
        self.inverse_scale, self.columns, self.average = 1.0 / problem.scale, columns, average
        self.y, self.s = problem.y, problem.s
        self.column = np.zeros(d, dtype=COLUMN)
        self.by_name("bucket")[:] = -1
        self.r, self.alpha = np.zeros(n), np.zeros(n)
        labels = problem.groups
        self.groups = len(labels)
        self.order = np.concatenate([rng.permutation(np.flatnonzero(rows)) for rows in labels])
        self.wet_rows, self.is_wet = np.empty(self.order.shape[0], dtype=np.int64), np.zeros(n, dtype=np.int8)
        self.had_turn = np.zeros(n, dtype=np.int8)
        for k in range(self.groups):
            self.group[k].start = 0 if k == 0 else self.group[0].count
            self.group[k].count = np.count_nonzero(labels[k])
            self.group[k].mass, self.group[k].heaviest = problem.s[labels[k]].sum(), problem.s[labels[k]].max()
            self.group[k].waiting = -1
        self.drawn = -1
        self.lack_of_all, self.lack_of_wet = 1.0, OPTIMISM * CAUTION
        self.first = np.full(BUCKETS, -1, dtype=np.int64)
        width = max(longest(self.X.need_rows()), 1)
        self.row_where, self.row_value = np.empty((self.groups, width), dtype=np.int64), np.empty((self.groups, width))
        width = max(longest(self.X.need_columns()), 1)
        self.column_where, self.column_value = np.empty(width, dtype=np.int64), np.empty(width)
        self.priced = self.X.ledger.reads.priced
        self.mean_price = mean_price_of(self.X.need_columns()) if self.priced else 1.0
        self.set_slack(problem)

    def attach(self):
        """Find the bits of the random generator, after the other fields were set from a checkpoint."""
        self.bits = bits_of(self.rng)

    def set_slack(self, problem):
        """Use the slack of this problem; if it has changed, the wet rows must be found again."""
        if problem.volume != self.volume:
            self.volume, self.tracked = problem.volume, False

    def run(self, int64_t iterations, double budget):
        """Make up to `iterations` iterations that spend at most `budget`; return how many were made."""
        cdef Lines* rows = self.X.need_rows()
        cdef Lines* columns = self.X.need_columns()
        cdef int64_t done = 0
        cdef double limit = self.X.ledger.reads.spent() + budget
        cdef bint fits = True
        while done < iterations and fits:
            if self.is_due():
                self.find_wet_rows()
            with nogil:
                while done < iterations:
                    fits = self.iterate(rows, columns, limit - self.X.ledger.reads.spent())
                    if not fits:
                        break
                    done += 1
                    if self.is_due():
                        break
        return done

    cdef bint is_due(self) noexcept nogil:
        """Whether to find the wet rows: in O(n), after every n entries read in columns.

        Rows that cancel each other may bring u back to zero, for which no rows are wet.
        """
        if self.columns_wait or self.z_norm2 <= 0.0 or self.u_norm2 <= 0.0:
            return False
        return not self.tracked or self.column_entries >= self.order.shape[0]

    def answer(self):
        """The average of w_t with weights t^average L_t, and its bias."""
        mean = self.by_name("u") - self.by_name("unshared") / max(self.weight_sum, 1.0)
        length = max(self.length_sum / max(self.weight_sum, 1.0), np.finfo(float).tiny)
        return mean / length, self.bias_sum / max(self.weight_sum, 1.0) / length

    def dual_weights(self):
        """The weight of each row in u."""
        return np.array(self.alpha)

    @property
    def tracking(self):
        """u, z, r, |u|^2, |z|^2 and |u - z|^2."""
        return self.by_name("u"), self.by_name("z"), np.asarray(self.r), self.u_norm2, self.z_norm2, self.distance2

    @property
    def length(self):
        """L, by which u is divided."""
        return self.length_of_u()

    def by_name(self, str name):
        """One field of all columns, such as u, as an array."""
        return np.asarray(self.column)[name]

    def find_wet_rows(self):
        """Find the rows below the water level of the tracked responses; if z is close to u, it is the level from now on."""
        cdef int64_t k
        cdef double length = self.length_of_u()
        r, s, order = np.asarray(self.r), np.asarray(self.s), np.asarray(self.order)
        is_wet, wet_rows, had_turn = np.asarray(self.is_wet), np.asarray(self.wet_rows), np.asarray(self.had_turn)
        groups = [order[self.group[k].start : self.group[k].start + self.group[k].count] for k in range(self.groups)]
        self.close = self.distance2 <= CLOSE * CLOSE * length * length
        # z is about u times |z|^2 / |u|^2, so responses to w are about those to z over this:
        unit = length * self.z_norm2 / self.u_norm2
        volume = self.volume * unit
        if self.groups == 1:
            levels = [water_level(r[groups[0]], volume, s[groups[0]])]
        else:
            levels = water_levels(r[groups[0]], r[groups[1]], volume, s[groups[0]], s[groups[1]])
        is_wet[:] = 0
        for k, (rows, level) in enumerate(zip(groups, levels, strict=True)):
            wet = rows[r[rows] <= level]
            if wet.size < min(FEWEST_WET, rows.size):
                wet = lowest(rows, r[rows], min(FEWEST_WET, rows.size))
            is_wet[wet] = 1
            turn = wet
            if self.close:
                self.group[k].level, self.levelled = level / unit, True
                if had_turn[wet].all():
                    had_turn[wet] = 0
                turn = wet[had_turn[wet] == 0]
            wet_rows[self.group[k].start : self.group[k].start + turn.size] = turn
            self.group[k].left, self.group[k].wet_mass = turn.size, s[wet].sum()
        self.tracked, self.column_entries = True, 0

    cdef bint iterate(self, Lines* rows, Lines* columns, double budget) noexcept nogil:
        """Read a row and then columns. False if the budget does not suffice: the next call resumes where it ended."""
        if not self.columns_wait and not self.read_next_row(rows, columns, &budget):
            return False
        self.columns_wait = not self.read_columns(columns, budget)
        return not self.columns_wait

    cdef bint read_next_row(self, Lines* rows, Lines* columns, double* budget) noexcept nogil:
        """Draw a row, read it and move u. False if it does not fit the budget: then it stays drawn."""
        cdef double trust = 1.0 - CAUTION * self.lack_of_all / max(self.lack_of_wet, 1e-12)
        cdef double lack, weight, price, length = self.length_of_u()
        cdef int64_t k, i
        trust = min(1.0 - LEAST_SHARE, max(LEAST_SHARE, trust))
        if self.drawn < 0:
            k = self.next_group()
            self.from_wet = self.tracked and self.group[k].left > 0 and uniform(self.bits) < trust
            self.drawn = self.draw_wet(&self.group[k]) if self.from_wet else self.draw_next(&self.group[k])
            self.drawn_from = k
        i, k = self.drawn, self.drawn_from
        price = rows.price(i)
        if price > budget[0]:
            return False
        self.drawn = -1

        self.t += 1
        weight = pow(<double>self.t, self.average)
        self.weight_sum += weight
        self.read_row(rows, k, i)
        if length > 0.0:
            self.remember(&self.group[k], length, self.weight_in_group(k, i, trust))
        lack = max(0.0, self.threshold(k, length) - self.group[k].response)
        if self.tracked and self.floor() > 0.0:
            self.compare(pow(lack / self.floor(), 2.0))
        # Before the levels are known, every row moves u. A row at its level counts as below it: with slack 0, no other does.
        if lack > 0.0 or not self.levelled or self.group[k].response / length <= self.group[k].level:
            self.group[k].waiting = i
            if self.groups == 1 or self.group[1 - k].waiting >= 0:
                self.move(columns, length)
        self.length_sum += weight * self.length_of_u()
        if self.groups == 2:
            self.bias_sum += weight * self.length_of_u() * (self.group[1].level - self.group[0].level) / 2
        self.allowance += self.columns * trust * self.weight_of(self.group[k].size, price)
        budget[0] -= price
        return True

    cdef void compare(self, double square) noexcept nogil:
        """Add the squared lack of a row, relative to the floor, to the moving average of wet rows or of all rows."""
        if self.from_wet:
            self.lack_of_wet += AVERAGE_RATE * (square - self.lack_of_wet)
        else:
            self.lack_of_all += AVERAGE_RATE * (square - self.lack_of_all)

    cdef int64_t next_group(self) noexcept nogil:
        """The group to draw from: the one that a waiting row waits for, or either at random."""
        if self.groups == 1:
            return 0
        if self.group[0].waiting >= 0:
            return 1
        if self.group[1].waiting >= 0:
            return 0
        return uniform(self.bits) < 0.5

    cdef int64_t draw_wet(self, Group* group) noexcept nogil:
        """Draw a wet row by weight, each at most once; a row that is skipped had its turn."""
        cdef int64_t k, i
        while True:
            k = group.start + <int64_t>(uniform(self.bits) * group.left)
            i = self.wet_rows[k]
            group.left -= 1
            self.had_turn[i] = 1
            self.wet_rows[k] = self.wet_rows[group.start + group.left]
            if group.left == 0 or self.keeps(group, i):
                return i

    cdef int64_t draw_next(self, Group* group) noexcept nogil:
        """Draw the next row of a random order, a new one for each pass; rows are skipped by weight."""
        cdef int64_t k, l, i
        while True:
            if group.cursor == group.count:
                group.cursor = 0
                for k in range(group.count - 1, 0, -1):
                    l = <int64_t>(uniform(self.bits) * (k + 1))
                    i = self.order[group.start + k]
                    self.order[group.start + k] = self.order[group.start + l]
                    self.order[group.start + l] = i
            i = self.order[group.start + group.cursor]
            group.cursor += 1
            if self.keeps(group, i):
                return i

    cdef bint keeps(self, Group* group, int64_t i) noexcept nogil:
        """Whether a row is not skipped: with a probability in proportion to its weight."""
        return self.s[i] == group.heaviest or uniform(self.bits) * group.heaviest < self.s[i]

    cdef void read_row(self, Lines* rows, int64_t k, int64_t i) noexcept nogil:
        """Read row i of group k, and compute its response to u."""
        cdef int64_t l
        cdef double c = 0.0, norm2 = 0.0
        self.group[k].size = rows.read(i, &self.row_where[k, 0], &self.row_value[k, 0])
        for l in range(self.group[k].size):
            self.row_value[k, l] *= self.y[i] * self.inverse_scale
            c += self.column[self.row_where[k, l]].u * self.row_value[k, l]
            norm2 += self.row_value[k, l] * self.row_value[k, l]
        self.group[k].response = c
        self.norm2_sum += norm2

    cdef double threshold(self, int64_t k, double length) noexcept nogil:
        """The response to u that a row of group k should have: its level, raised if the margin is below the floor.

        The level of r is raised by what the shortest step adds to a response: at slack 0, no row is below it.
        """
        cdef double margin = self.group[0].level, least = SHORTEST_STEP * self.floor() if self.close else 0.0
        if self.groups == 2:
            margin = (margin + self.group[1].level) / 2
        return self.group[k].level * length + max(least, self.floor() - margin * length)

    cdef double length_of_u(self) noexcept nogil:
        """L: |u|, or what it would be if all steps were orthogonal, if that is more."""
        return sqrt(max(self.u_norm2, self.steps2))

    cdef double floor(self) noexcept nogil:
        """The least margin to aim for: the mean |x_i|^2 of the rows so far, so that the first steps have length 1."""
        return self.norm2_sum / self.t

    cdef double weight_in_group(self, int64_t k, int64_t i, double trust) noexcept nogil:
        """The weight of the group that row i represents: less for rows that are drawn more often."""
        cdef double share = 1.0
        if self.tracked:
            share = 1.0 - trust + trust * self.group[k].mass / self.group[k].wet_mass * self.is_wet[i]
        return self.group[k].mass / RECENT / share

    cdef void remember(self, Group* group, double length, double weight) noexcept nogil:
        """Replace the oldest stored response, keep them sorted, and estimate the levels every few iterations."""
        cdef double response = group.response / length
        cdef int64_t slot = group.seen % RECENT, held = min(group.seen, RECENT), k = 0
        if group.seen >= RECENT:
            while group.by_response[k] != slot:
                k += 1
            held -= 1
            while k < held:
                group.by_response[k] = group.by_response[k + 1]
                k += 1
        k = held
        while k > 0 and group.recent[group.by_response[k - 1]] > response:
            group.by_response[k] = group.by_response[k - 1]
            k -= 1
        group.by_response[k], group.recent[slot], group.weight[slot] = slot, response, weight
        group.seen += 1
        if self.t % LEVEL_EVERY == 0 and not self.close:
            self.estimate_levels()

    cdef void estimate_levels(self) noexcept nogil:
        """Estimate the water levels from the recent responses.

        The water rises in the group whose wet rows have the smaller weight, up to its next response, and so on.
        """
        cdef double slope[2]
        cdef int64_t wet[2]
        cdef double left = self.volume, rise
        cdef int64_t k
        for k in range(self.groups):
            if self.group[k].seen < RECENT:
                return
        self.levelled = True
        for k in range(self.groups):
            wet[k], slope[k] = 1, self.group[k].weight[self.group[k].by_response[0]]
            self.group[k].level = self.group[k].recent[self.group[k].by_response[0]]
        while left > 0.0:
            k = 0 if self.groups == 1 or slope[0] <= slope[1] else 1
            rise = left / slope[k]
            if wet[k] < RECENT:
                rise = min(rise, self.group[k].recent[self.group[k].by_response[wet[k]]] - self.group[k].level)
            self.group[k].level += rise
            if wet[k] == RECENT or rise * slope[k] >= left:
                break
            left -= rise * slope[k]
            slope[k] += self.group[k].weight[self.group[k].by_response[wet[k]]]
            wet[k] += 1

    cdef void move(self, Lines* columns, double length) noexcept nogil:
        """u <- u + step * mean of the waiting rows; updates |u|^2, |u - z|^2, alpha and the average with it."""
        cdef double c = 0.0, norm2 = self.mean_norm2(), margin = 0.0, step, delta
        cdef double before = self.weight_sum - pow(<double>self.t, self.average)
        cdef int64_t k, l, j
        for k in range(self.groups):
            c += self.group[k].response / self.groups
            margin += self.group[k].level / self.groups
        step = min(1.0, (max(self.floor(), margin * length) - c) / norm2) if norm2 > 0.0 else 0.0
        step = max(step, SHORTEST_STEP if self.levelled else 0.0)
        for k in range(self.groups):
            self.alpha[self.group[k].waiting] += step / self.groups
            self.group[k].waiting = -1
            for l in range(self.group[k].size):
                j = self.row_where[k, l]
                delta = step * self.row_value[k, l] / self.groups
                self.distance2 += delta * (2.0 * (self.column[j].u - self.column[j].z) + delta)
                self.column[j].u += delta
                self.column[j].unshared += before * delta
                self.place_column(columns, j)
        self.u_norm2 = max(0.0, self.u_norm2 + 2.0 * step * c + step * step * norm2)
        self.steps2 += step * step * norm2

    cdef double mean_norm2(self) noexcept nogil:
        """|mean of the waiting rows|^2."""
        cdef int64_t k, l
        cdef double norm2 = 0.0, x
        for k in range(self.groups):
            for l in range(self.group[k].size):
                x = self.row_value[k, l] / self.groups
                # (a + x)^2 = a^2 + x (2 a + x), a coordinate at a time
                norm2 += x * (2.0 * self.column[self.row_where[k, l]].scatter + x)
                self.column[self.row_where[k, l]].scatter += x
        for k in range(self.groups):
            for l in range(self.group[k].size):
                self.column[self.row_where[k, l]].scatter = 0.0
        return norm2

    cdef bint read_columns(self, Lines* columns, double budget) noexcept nogil:
        """Set z to u where they differ most, as long as the allowance lasts. False if the budget ends before."""
        cdef int64_t j, i, k, size
        cdef double change, price, weight
        cdef Column* column
        while self.allowance > 0.0:
            while self.highest >= 0 and self.first[self.highest] < 0:
                self.highest -= 1
            if self.highest < 0:
                self.allowance = 0.0
                break
            j = self.first[self.highest]
            price = columns.price(j)
            weight = self.weight_of(columns.size(j), price)
            if weight > self.allowance:
                break
            if price > budget:
                return False
            column = &self.column[j]
            change = (column.u - column.z) * self.inverse_scale
            size = columns.read(j, &self.column_where[0], &self.column_value[0])
            for k in range(size):
                i = self.column_where[k]
                self.r[i] += change * self.y[i] * self.column_value[k]
            self.z_norm2 += column.u * column.u - column.z * column.z
            self.distance2 -= (column.u - column.z) * (column.u - column.z)
            column.z = column.u
            self.allowance -= weight
            self.column_entries += size
            budget -= price
            self.place_column(columns, j)
        return True

    cdef double weight_of(self, int64_t size, double price) noexcept nogil:
        """What reading a line weighs against others: the number of its entries, or of those that its price would buy.

        An entry that is paid for weighs a little, so that work is not spent without end where it costs nothing.
        """
        if not self.priced:
            return size
        return (1.0 - FREE_SHARE) * (price / self.mean_price) + FREE_SHARE * size

    cdef void place_column(self, Lines* columns, int64_t j) noexcept nogil:
        """Move column j to the bucket of what reading it brings for its weight, or to none if it brings nothing.

        It brings the share of its entries in |X u - X z|^2, which is (u_j - z_j)^2 for each of them.
        """
        cdef Column* column = &self.column[j]
        cdef double distance = column.u - column.z
        cdef int64_t now, before = column.bucket
        if self.priced and distance != 0.0:
            distance *= sqrt(columns.size(j) / self.weight_of(columns.size(j), columns.price(j)))
        now = bucket_of(distance)
        if now == before:
            return
        if before >= 0:
            if column.preceding >= 0:
                self.column[column.preceding].following = column.following
            else:
                self.first[before] = column.following
            if column.following >= 0:
                self.column[column.following].preceding = column.preceding
        column.bucket = now
        if now >= 0:
            column.preceding, column.following = -1, self.first[now]
            if self.first[now] >= 0:
                self.column[self.first[now]].preceding = j
            self.first[now] = j
            self.highest = max(self.highest, now)


cdef double mean_price_of(Lines* columns) noexcept:
    """The mean price of an entry over all columns; 1 if all are free."""
    cdef double total = 0.0
    cdef int64_t j, entries = 0
    for j in range(columns.count):
        total += columns.price(j)
        entries += columns.size(j)
    return total / entries if total > 0.0 else 1.0


cdef inline int64_t bucket_of(double distance) noexcept nogil:
    """The bucket of a distance: its exponent and the two leading bits of its mantissa; -1 for zero."""
    cdef uint64_t bits
    distance = fabs(distance)
    if distance == 0.0:
        return -1
    memcpy(&bits, &distance, sizeof(bits))
    return <int64_t>(bits >> 50)


def lowest(rows, responses, count):
    """The `count` rows with the lowest responses, lowest first, in O(n)."""
    few = np.flatnonzero(responses <= np.partition(responses, count - 1)[count - 1])
    return rows[few[np.argsort(responses[few], kind="stable")[:count]]]
