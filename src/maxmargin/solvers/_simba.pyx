# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""SIMBA with responses that are tracked instead of sampled, a chunk of iterations at a time.

As in the paper, rows move the direction and columns tell which rows matter. Unlike there, what columns told is kept:

  u      the direction, not normalised; row i is y_i x_i / scale of the data, in the unit ball
  z      what the columns know of u: z_j is u_j as it was when column j was last read
  r      the responses of all rows to z, exactly: r = X z, kept up by reading column j when z_j changes
  wet    the rows whose r lies below the water level: the support of the best p for z

An iteration draws a row, from the wet ones as often as that pays and else from all, which costs its entries and gives
its exact response c = <u, x_i>; moves u by what c is short of the margin; and spends about as many entries on the
columns where z is farthest from u. With a bias the rows are in two groups, by label, drawn from equally often, so that
p balances; without one they are in one group.
"""

import numpy as np

from libc.math cimport fabs, pow, sqrt
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from maxmargin.core import water_level, water_levels
from maxmargin.core._matrix cimport Lines, Matrix
from maxmargin.core.bits cimport BitGenerator, bits_of, uniform

cdef enum:
    RECENT = 64  # responses of a group from which its level is estimated
    LEVEL_EVERY = 4  # rows between two estimates of the level
    FEWEST_WET = 10
    BUCKETS = 8192  # one a quarter of an octave of |u_j - z_j|

cdef double CAUTION = 2.0  # wet rows must be short of the margin by this many times more than others to be preferred
cdef double MEMORY = 1.0 / 32  # of the moving averages that compare them
cdef double LEAST = 0.05  # of the rows come from the wet ones, however bad they were, and as many from all
cdef double FLOOR = 1.0  # a margin that rows must reach in any case: |x_i|^2 at most, so that the first steps are whole


cdef struct Group:
    int64_t start, count  # its rows stand at order[start : start + count], in random order
    int64_t cursor  # the next of them to draw
    int64_t wet, left  # how many are wet, and how many of these are not drawn yet: wet_rows[start : start + left]
    int64_t seen  # responses so far; the last RECENT of them:
    double response[RECENT]
    double weight[RECENT]  # how many rows each stands for
    int64_t by_response[RECENT]


cdef class Tracker:
    """The state of SIMBA with tracked responses.

    Parameters
    ----------
    problem : SlackSVM
        The data and the slack.
    rng : np.random.Generator
        Where the draws come from.
    columns : float
        Entries read in columns for each entry read in wet rows.
    average : float
        The answer is the average of u_t with weights t^average.
    """

    cdef readonly object rng
    cdef readonly Matrix X
    cdef readonly int64_t t
    cdef BitGenerator* bits
    cdef double inverse_scale, columns, average
    cdef const double[::1] y
    cdef double[::1] s  # sample weights, of mean 1
    cdef double volume
    cdef double[::1] u, z, r
    cdef double u_norm2, z_norm2
    cdef double weight_sum  # S, the sum of t^average
    cdef double[::1] unshared  # B, so that the average is u - B / S
    cdef double[::1] alpha  # u = sum_i alpha_i x_i
    cdef Group group[2]
    cdef int64_t groups
    cdef int64_t[::1] order, wet_rows
    cdef char[::1] is_wet
    cdef double shortfall_wet, shortfall_all
    cdef double allowance  # entries that columns may still read
    cdef int64_t column_entries  # read since the wet rows were last found
    cdef bint tracked  # whether wet rows were ever found
    cdef double margin, b  # of u / |u|, by the recent responses
    # Columns by how far z_j is from u_j: a list for each bucket
    cdef int64_t[::1] bucket, following, preceding, first
    cdef int64_t highest
    cdef int64_t[::1] where
    cdef double[::1] value

    def __init__(self, problem, rng, double columns, double average):
        cdef int64_t n = problem.X.shape[0], d = problem.X.shape[1], k
        self.rng, self.X, self.bits = rng, problem.X, bits_of(rng)
        self.inverse_scale, self.columns, self.average = 1.0 / problem.scale, columns, average
        self.y = problem.y
        used = problem.s > 0
        self.s = problem.s / problem.s[used].mean()
        self.u, self.z, self.r, self.unshared, self.alpha = (np.zeros(size) for size in (d, d, n, d, n))
        labels = [used & (problem.y > 0), used & (problem.y < 0)] if problem.bias else [used]
        self.groups = len(labels)
        self.order = np.concatenate([rng.permutation(np.flatnonzero(rows)) for rows in labels])
        self.wet_rows, self.is_wet = np.empty(self.order.shape[0], dtype=np.int64), np.zeros(n, dtype=np.int8)
        for k in range(self.groups):
            self.group[k].start = 0 if k == 0 else self.group[0].count
            self.group[k].count = np.count_nonzero(labels[k])
        self.shortfall_all, self.shortfall_wet = 1.0, CAUTION
        self.bucket = np.full(d, -1, dtype=np.int64)
        self.following, self.preceding = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
        self.first = np.full(BUCKETS, -1, dtype=np.int64)
        self.where, self.value = np.empty(max(n, d), dtype=np.int64), np.empty(max(n, d))
        self.set_slack(problem)

    def set_slack(self, problem):
        """Go on with another slack."""
        self.volume = problem.volume / problem.s[problem.s > 0].mean()
        self.tracked = False

    def run(self, int64_t iterations, int64_t budget):
        """Make up to so many iterations that read at most `budget` entries together; return how many were made."""
        cdef Lines* rows = self.X.need_rows()
        cdef Lines* columns = self.X.need_columns()
        cdef int64_t done = 0, before = self.X.ledger.reads.stored
        cdef bint fits = True
        while done < iterations and fits:
            if self.z_norm2 > 0 and (not self.tracked or self.column_entries >= self.order.shape[0]):
                self.find_wet_rows()
            with nogil:
                # Finding the wet rows costs as much as reading so many entries of columns: it pays once in so many.
                while done < iterations and not (self.z_norm2 > 0 and not self.tracked):
                    fits = self.iterate(rows, columns, before + budget - self.X.ledger.reads.stored)
                    if not fits:
                        break
                    done += 1
                    if self.column_entries >= self.order.shape[0]:
                        break
        return done

    def direction(self):
        """The weighted average of the directions so far, brought to the unit sphere."""
        mean = np.asarray(self.u) - np.asarray(self.unshared) / max(self.weight_sum, 1.0)
        return mean / max(np.linalg.norm(mean), np.finfo(float).tiny)

    def dual_weights(self):
        """The weight of each row in u."""
        return np.array(self.alpha)

    @property
    def bias(self):
        """The bias for u / |u| by the recent responses."""
        return self.b

    @property
    def tracking(self):
        """u, z, r: the direction, what the columns know of it, and the responses to that."""
        return np.asarray(self.u), np.asarray(self.z), np.asarray(self.r)

    def find_wet_rows(self):
        """The rows below the water level, by the tracked responses: O(n), after as many entries of columns."""
        r, s, order = np.asarray(self.r), np.asarray(self.s), np.asarray(self.order)
        cdef int64_t k
        groups = [order[self.group[k].start : self.group[k].start + self.group[k].count] for k in range(self.groups)]
        # z holds |z|^2 / |u|^2 of what u says, so responses to u / |u| are about |u| / |z|^2 times those to z.
        volume = self.volume * self.z_norm2 / sqrt(self.u_norm2)
        if self.groups == 1:
            levels = [water_level(r[groups[0]], volume, s[groups[0]])]
        else:
            levels = water_levels(r[groups[0]], r[groups[1]], volume, s[groups[0]], s[groups[1]])
        is_wet, wet_rows = np.asarray(self.is_wet), np.asarray(self.wet_rows)
        is_wet[:] = 0
        for k in range(self.groups):
            rows = groups[k]
            wet = rows[r[rows] <= levels[k]]
            if wet.size < min(FEWEST_WET, rows.size):
                wet = rows[np.argsort(r[rows], kind="stable")[:FEWEST_WET]]
            is_wet[wet] = 1
            wet_rows[self.group[k].start : self.group[k].start + wet.size] = wet
            self.group[k].wet = self.group[k].left = wet.size
        self.tracked, self.column_entries = True, 0

    cdef bint iterate(self, Lines* rows, Lines* columns, int64_t budget) noexcept nogil:
        """One row and its columns; whether the row fitted the budget."""
        cdef Group* group = &self.group[0]
        cdef double trust = 1.0 - CAUTION * self.shortfall_all / max(self.shortfall_wet, 1e-12)
        cdef double share, c = 0.0, norm2 = 0.0, length, theta, short, step, weight, delta
        cdef int64_t i, j, k, size
        cdef bint from_wet
        trust = min(1.0 - LEAST, max(LEAST, trust))
        if self.groups == 2 and uniform(self.bits) < 0.5:
            group = &self.group[1]
        from_wet = self.tracked and uniform(self.bits) < trust and group.left > 0
        i = self.draw_wet(group) if from_wet else self.draw_next(group)
        if rows.size(i) > budget:
            return False
        # How often this row is drawn, against a draw from all of its group
        share = 1.0 - trust + trust * group.count / group.wet * self.is_wet[i] if self.tracked else 1.0

        size = rows.read(i, &self.where[0], &self.value[0])
        budget -= size
        self.allowance += self.columns * trust * size
        self.t += 1
        weight = pow(<double>self.t, self.average)
        self.weight_sum += weight
        for k in range(size):
            self.value[k] *= self.y[i] * self.inverse_scale
            c += self.u[self.where[k]] * self.value[k]
            norm2 += self.value[k] * self.value[k]
        if norm2 > 0.0:
            length = sqrt(self.u_norm2) if self.u_norm2 > 0.0 else 1.0
            self.remember(group, c / length, self.s[i] / share)
            theta = max(FLOOR, self.margin * length)
            short = max(0.0, theta - c - self.y[i] * self.b * length)
            if self.tracked:
                if from_wet:
                    self.shortfall_wet += MEMORY * (short * short - self.shortfall_wet)
                else:
                    self.shortfall_all += MEMORY * (short * short - self.shortfall_all)
            step = min(self.s[i], short / norm2)
            if step > 0.0:
                self.alpha[i] += step
                for k in range(size):
                    j = self.where[k]
                    delta = step * self.value[k]
                    self.u[j] += delta
                    self.unshared[j] += (self.weight_sum - weight) * delta
                    self.move_column(j)
                self.u_norm2 += 2.0 * step * c + step * step * norm2
        self.read_columns(columns, budget)
        return True

    cdef int64_t draw_wet(self, Group* group) noexcept nogil:
        """A random wet row, each once."""
        cdef int64_t k = group.start + <int64_t>(uniform(self.bits) * group.left), i = self.wet_rows[k]
        group.left -= 1
        self.wet_rows[k] = self.wet_rows[group.start + group.left]
        return i

    cdef int64_t draw_next(self, Group* group) noexcept nogil:
        """The next row of a random order, a new one for each pass."""
        cdef int64_t k, l
        if group.cursor == group.count:
            group.cursor = 0
            for k in range(group.count - 1, 0, -1):
                l = <int64_t>(uniform(self.bits) * (k + 1))
                self.order[group.start + k], self.order[group.start + l] = (
                    self.order[group.start + l], self.order[group.start + k])
        group.cursor += 1
        return self.order[group.start + group.cursor - 1]

    cdef void remember(self, Group* group, double response, double weight) noexcept nogil:
        """Put a response in the place of the oldest one, keep them sorted, and estimate the level now and then."""
        cdef int64_t slot = group.seen % RECENT, held = min(group.seen, RECENT), k = 0
        if group.seen >= RECENT:
            while group.by_response[k] != slot:
                k += 1
            held -= 1
            while k < held:
                group.by_response[k] = group.by_response[k + 1]
                k += 1
        k = held
        while k > 0 and group.response[group.by_response[k - 1]] > response:
            group.by_response[k] = group.by_response[k - 1]
            k -= 1
        group.by_response[k] = slot
        group.response[slot], group.weight[slot] = response, weight
        group.seen += 1
        if group.seen % LEVEL_EVERY == 0 and self.group[0].seen >= RECENT and (
                self.groups == 1 or self.group[1].seen >= RECENT):
            self.estimate_level()

    cdef void estimate_level(self) noexcept nogil:
        """Margin and bias of u / |u|, as water levels of the recent responses.

        The water rises where it costs least: in the group whose wet rows weigh less, up to its next response.
        """
        cdef double level[2]
        cdef double slope[2]
        cdef int64_t wet[2]
        cdef double left = self.volume
        cdef int64_t k
        for k in range(self.groups):
            level[k] = self.recent(k, 0)
            wet[k], slope[k] = 1, self.recent_weight(k, 0)
        while left > 0.0:
            k = 0 if self.groups == 1 or slope[0] <= slope[1] else 1
            if wet[k] == RECENT or (self.recent(k, wet[k]) - level[k]) * slope[k] >= left:
                level[k] += left / slope[k]
                break
            left -= (self.recent(k, wet[k]) - level[k]) * slope[k]
            level[k] = self.recent(k, wet[k])
            slope[k] += self.recent_weight(k, wet[k])
            wet[k] += 1
        if self.groups == 1:
            self.margin, self.b = level[0], 0.0
        else:
            self.margin, self.b = (level[0] + level[1]) / 2, (level[1] - level[0]) / 2

    cdef inline double recent(self, int64_t k, int64_t rank) noexcept nogil:
        return self.group[k].response[self.group[k].by_response[rank]]

    cdef inline double recent_weight(self, int64_t k, int64_t rank) noexcept nogil:
        return self.group[k].weight[self.group[k].by_response[rank]] * self.group[k].count / RECENT

    cdef void read_columns(self, Lines* columns, int64_t budget) noexcept nogil:
        """Bring z nearer to u where it is farthest, as long as the allowance lasts."""
        cdef int64_t j, k, size
        cdef double change
        while self.allowance > 0.0:
            while self.highest >= 0 and self.first[self.highest] < 0:
                self.highest -= 1
            if self.highest < 0:
                self.allowance = 0.0
                break
            j = self.first[self.highest]
            if columns.size(j) > self.allowance or columns.size(j) > budget:
                break
            change = self.u[j] - self.z[j]
            size = columns.read(j, &self.where[0], &self.value[0])
            for k in range(size):
                self.r[self.where[k]] += change * self.y[self.where[k]] * self.inverse_scale * self.value[k]
            self.z_norm2 += self.u[j] * self.u[j] - self.z[j] * self.z[j]
            self.z[j] = self.u[j]
            self.allowance -= size
            self.column_entries += size
            budget -= size
            self.move_column(j)

    cdef void move_column(self, int64_t j) noexcept nogil:
        """Put column j into the bucket of |u_j - z_j|, or into none where they are equal."""
        cdef int64_t now = bucket_of(self.u[j] - self.z[j]), before = self.bucket[j]
        if now == before:
            return
        if before >= 0:
            if self.preceding[j] >= 0:
                self.following[self.preceding[j]] = self.following[j]
            else:
                self.first[before] = self.following[j]
            if self.following[j] >= 0:
                self.preceding[self.following[j]] = self.preceding[j]
        self.bucket[j] = now
        if now >= 0:
            self.preceding[j], self.following[j] = -1, self.first[now]
            if self.first[now] >= 0:
                self.preceding[self.first[now]] = j
            self.first[now] = j
            self.highest = max(self.highest, now)


cdef inline int64_t bucket_of(double distance) noexcept nogil:
    """Exponent and the two leading bits of the mantissa, as they stand in the number; -1 for zero."""
    cdef uint64_t bits
    distance = fabs(distance)
    if distance == 0.0:
        return -1
    memcpy(&bits, &distance, sizeof(bits))
    return <int64_t>(bits >> 50)
