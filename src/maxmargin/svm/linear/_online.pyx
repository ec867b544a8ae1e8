# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The perceptron and Pegasos, a chunk of iterations at a time; an iteration visits one row or a few.

Both keep w as a sum of rows, and an iteration takes time in proportion to the entries of its rows:

  a, v    w = a v, so that scaling w takes O(1); norm2 is |w|^2 (the paper's nu)
  beta    v = sum_i beta_i y_i x_i, the dual point
  S, B    the sum of t^average w_t is S v - B: S times what is added to v is added to B, so that earlier terms stay

If the bias is the weight of a constant feature, it is the last coordinate of v and B, after those of the data. Rows are
read as y_i x_i / scale. A visit counts its row in the ledger once: later products find it in the processor's cache.
"""

import numpy as np

from libc.math cimport isnan, pow, sqrt
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport qsort

from maxmargin.core._matrix cimport Lines, Matrix, Reads, longest
from maxmargin.core._sampling cimport WeightTree, draw_index
from maxmargin.core.bits cimport BitGenerator, bits_of, uniform

cdef enum:
    NORM_EVERY = 16  # |w|^2 is recomputed, in O(d), after reading this many times d entries: it drifts by rounding
    SHORTEST_SEARCH = 10  # iterations between two steps of the search for b, at least

cdef uint32_t GOLDEN = 2654435769  # 2^32 times the golden ratio less 1: its multiples modulo 2^32 are spread evenly
cdef double SMALLEST_FACTOR = 1e-100  # a smaller factor a is multiplied into v
cdef double SMALLEST_FACTOR_IN_AVERAGE = 1e-6  # the same with an average: S v - B loses as many digits
cdef double LONGER = 1.2, SHORTER = 0.5  # factors of the step of b in the search, if its sign stays and if it changes


cdef class Learner:
    """The state of an online solver: w, its average, and the order of the rows.

    Parameters
    ----------
    problem : MarginProblem
        The data.
    rng : np.random.Generator
        The source of randomness.
    order : {"permuted", "given", "iid"}
        All rows in a new random order each pass, or in the given order, or each drawn from all. A row is visited in
        proportion to its weight: in a pass, as often as the integer part of its share, and the fraction is carried over
        to the next row. Each pass starts with another carry, so that no row is always rounded down.
    batch : int
        The number of rows that an iteration visits; 0: all, each once and with its weight.
    bias_feature : float
        The value of the constant feature; 0 for none.
    average : float or None
        The answer is the average of w_t with weights t^average; None: the last w_t.
    learned : Learned or None
        The state that was learned from other rows.
    """

    cdef public object rng
    cdef public Matrix X
    cdef public int64_t t
    cdef public double a, b, norm2
    cdef public double bias_feature, inverse_scale
    cdef public bint own  # whether w is a sum of rows of this problem
    cdef BitGenerator* bits
    cdef Reads* reads
    cdef public const double[::1] y
    cdef public double[::1] v, beta, sq_norms
    cdef public bint averaging
    cdef public double average, weights, shares, b_sum  # shares: S
    cdef public double[::1] unshared, unshared_beta  # B
    cdef public int64_t d, since  # entries read since |w|^2 was computed
    # The rows with a positive weight, those of the iteration, and the mean number of visits of a row in a pass
    cdef public int64_t count
    cdef public int64_t[::1] row, drawn
    cdef public double[::1] share
    cdef public bint iid, permuted
    cdef public WeightTree tree
    cdef public int64_t cursor
    cdef public uint32_t phase
    cdef public double credit
    cdef public int64_t batch
    cdef public int64_t readings  # the number of times that an iteration reads its rows, at most
    cdef public int64_t entries  # of the rows of the iteration, each counted as often as it is read
    cdef public double cost  # of the rows that were drawn but did not fit the budget; -1: none were drawn

    def __init__(self, problem, rng, str order, int64_t batch, double bias_feature, average, learned=None):
        n, d = problem.X.shape
        self.rng, self.X, self.y, self.d = rng, problem.X, problem.y, d
        self.attach()
        self.inverse_scale, self.bias_feature = 1.0 / problem.scale, bias_feature
        self.iid, self.permuted = order == "iid", order == "permuted"
        used = np.flatnonzero(problem.s > 0)
        self.row, self.count = used, used.size
        weights = problem.s[used]
        self.share = np.zeros(n)
        np.asarray(self.share)[used] = 1.0 if np.ptp(weights) == 0 else weights * (used.size / weights.sum())
        if self.iid:
            self.tree = WeightTree(used.size)
            self.tree.fill(weights)
        self.cursor, self.cost = used.size, -1
        self.batch, self.readings = batch if 0 < batch < used.size else used.size, 1
        self.drawn = np.array(used if self.takes_all() else np.empty(batch, dtype=np.int64))
        self.averaging, self.average = average is not None, average or 0.0
        self.t, self.a, self.b, self.norm2, self.own = 0, 1.0, 0.0, 0.0, True
        self.v, self.beta, self.sq_norms = np.zeros(d + 1), np.zeros(n), np.full(n, np.nan)
        self.weights = self.shares = self.b_sum = 0.0
        self.unshared, self.unshared_beta = None, None
        if self.averaging:
            self.unshared, self.unshared_beta = np.zeros(d + 1), np.zeros(n)
        if learned is not None:
            self.take(learned, problem.scale)

    def attach(self):
        """Find the bits of the random generator and the ledger, after the other fields were set from a checkpoint."""
        self.bits, self.reads = bits_of(self.rng), &self.X.ledger.reads

    cdef object take(self, learned, double scale):
        """Continue from a state learned from other rows, which stays a part of w and of the average."""
        def of(w, b):
            """w with the weight of the constant feature, which holds the bias if there is one, and the other bias."""
            return (np.append(w, b / self.bias_feature), 0.0) if self.bias_feature else (np.append(w, 0.0), b)

        if learned.w.shape != (self.d,):
            raise ValueError(f"what was learned has {learned.w.size} weights, but the new rows have {self.d} columns")
        if learned.scale != scale:
            raise ValueError(
                f"what was learned is of rows divided by {learned.scale!r}, the new rows are divided by {scale!r}: make "
                "the problem with scale=learned.scale"
            )
        self.v, self.b = of(learned.w, learned.b)
        self.t, self.own = learned.t, False
        self.compute_norm()
        if self.averaging:
            mean, mean_b = of(learned.mean_w, learned.mean_b)
            self.unshared, self.weights, self.b_sum = -learned.weights * mean, learned.weights, learned.weights * mean_b

    def run(self, int64_t iterations, double budget):
        """Make up to `iterations` iterations that spend at most `budget`; return how many were made."""
        cdef Lines* rows = self.X.need_rows()
        cdef int64_t done = 0
        with nogil:
            while done < iterations:
                if self.cost < 0:
                    self.cost = self.draw(rows)
                if self.cost > budget:
                    break
                self.t += 1
                self.learn(rows)
                self.since += self.entries
                if self.since >= NORM_EVERY * self.d:
                    self.compute_norm()
                if self.averaging:
                    self.add_to_average()
                budget -= self.cost
                self.cost = -1
                done += 1
        return done

    def last(self):
        """w_t and b_t."""
        return self.of_v(self.a * np.asarray(self.v), self.b)

    def mean(self):
        """The averages of w_1, ..., w_t and b_1, ..., b_t, and their weight; without an average the last, of weight 0."""
        if not self.averaging:
            return *self.last(), 0.0
        total = self.shares * np.asarray(self.v) - np.asarray(self.unshared)
        weights = self.weights or 1.0
        return *self.of_v(total / weights, self.b_sum / weights), self.weights

    @property
    def last_rows(self):
        """The rows of the last iteration."""
        return np.array(self.drawn)

    def dual_weights(self):
        """alpha: the answer is the sum of alpha_i y_i x_i / scale, plus the share of other rows that were learned from."""
        if not self.averaging:
            return self.a * np.asarray(self.beta)
        return (self.shares * np.asarray(self.beta) - np.asarray(self.unshared_beta)) / (self.weights or 1.0)

    cdef object of_v(self, v, b):
        return v[: self.d].copy(), float(b + self.bias_feature * v[self.d])

    cdef bint takes_all(self) noexcept nogil:
        return self.batch == self.count

    cdef double draw(self, Lines* rows) noexcept nogil:
        """Draw the rows of the next iteration. Returns what reading them costs."""
        cdef int64_t k
        cdef double cost = 0.0
        self.entries = 0
        for k in range(self.batch):
            if not self.takes_all():
                self.drawn[k] = self.next_row()
            cost += rows.price(self.drawn[k])
            self.entries += self.readings * rows.size(self.drawn[k])
        return self.readings * cost

    cdef int64_t next_row(self) noexcept nogil:
        if self.iid:
            return self.row[draw_index(&self.tree.tree, uniform(self.bits))]
        while self.credit < 1.0:
            if self.cursor == self.count:
                self.cursor = 0
                self.phase += GOLDEN
                self.credit = self.phase / 4294967296.0
                if self.permuted:
                    self.shuffle()
            self.credit += self.share[self.row[self.cursor]]
            self.cursor += 1
        self.credit -= 1.0
        return self.row[self.cursor - 1]

    cdef void shuffle(self) noexcept nogil:
        cdef int64_t k, l, i
        for k in range(self.count - 1, 0, -1):
            l = <int64_t>(uniform(self.bits) * (k + 1))
            i = self.row[k]
            self.row[k] = self.row[l]
            self.row[l] = i
        with gil:
            self.X.group(self.row, self.count)

    cdef void learn(self, Lines* rows) noexcept nogil:
        """Iteration t, with the rows that were drawn."""
        pass

    cdef double response(self, Lines* rows, int64_t i) noexcept nogil:
        """y_i <w, x_i>, with the constant feature if there is one, but without b: this reads the row."""
        cdef double product = rows.dot(i, &self.v[0]) * self.inverse_scale + self.v[self.d] * self.bias_feature
        return self.a * self.y[i] * product

    cdef double sq_norm(self, Lines* rows, int64_t i) noexcept nogil:
        """|x_i|^2 with the constant feature, of a row that was read in this iteration."""
        cdef Reads before = self.reads[0]
        if isnan(self.sq_norms[i]):
            self.sq_norms[i] = rows.sq_norm(i) * self.inverse_scale * self.inverse_scale + self.bias_feature * self.bias_feature
            self.reads[0] = before
        return self.sq_norms[i]

    cdef void add(self, Lines* rows, int64_t i, double step) noexcept nogil:
        """w <- w + step y_i x_i, for a row that was read in this iteration. The caller updates norm2."""
        cdef Reads before = self.reads[0]
        cdef double change = step / self.a, signed = change * self.y[i]
        self.beta[i] += change
        rows.axpy(i, signed * self.inverse_scale, &self.v[0])
        self.v[self.d] += signed * self.bias_feature
        if self.averaging:
            self.unshared_beta[i] += self.shares * change
            rows.axpy(i, self.shares * signed * self.inverse_scale, &self.unshared[0])
            self.unshared[self.d] += self.shares * signed * self.bias_feature
        self.reads[0] = before

    cdef void add_to_average(self) noexcept nogil:
        cdef double weight = pow(<double>self.t, self.average)
        self.weights += weight
        self.shares += weight * self.a
        self.b_sum += weight * self.b

    cdef void absorb_factor(self) noexcept nogil:
        """Multiply a into v, and subtract S v from B, so that a = 1 and S = 0."""
        cdef int64_t k
        for k in range(self.d + 1):
            if self.averaging:
                self.unshared[k] -= self.shares * self.v[k]
            self.v[k] *= self.a
        for k in range(self.beta.shape[0]):
            if self.averaging:
                self.unshared_beta[k] -= self.shares * self.beta[k]
            self.beta[k] *= self.a
        self.a, self.shares = 1.0, 0.0

    cdef void compute_norm(self) noexcept nogil:
        cdef int64_t k
        cdef double sum = 0.0
        for k in range(self.d + 1):
            sum += self.v[k] * self.v[k]
        self.norm2, self.since = self.a * self.a * sum, 0


cdef class Mistakes(Learner):
    """The perceptron: a row that is misclassified, or on the boundary, is added."""

    cdef public int64_t mistakes

    cdef void learn(self, Lines* rows) noexcept nogil:
        cdef int64_t i = self.drawn[0]
        cdef double c = self.response(rows, i)
        if c <= 0.0:
            self.mistakes += 1
            self.add(rows, i, 1.0)
            self.norm2 += 2.0 * c + self.sq_norm(rows, i)


cdef enum Bias:
    NO_FREE_BIAS, STEP, BATCH, SEARCH

cdef packed struct Kink:
    double at  # the b at which row k of the batch has margin 1
    int64_t k

KINK = np.dtype([("at", np.float64), ("k", np.int64)])


cdef class Descent(Learner):
    """Pegasos, in the paper's symbols: lambda, t, eta_t, A_t, k.

    Parameters
    ----------
    problem, rng, order, batch, bias_feature, average, learned
        See :class:`Learner`.
    bias : {"", "step", "batch", "search"}
        How a free b is updated; "" if there is none.
    project : bool
        Whether w is projected onto the ball that contains the optimum.
    """

    cdef public double regularization, radius
    cdef public double curvature  # of a smooth mean loss: no step is longer than 1 / curvature; else 0
    cdef public bint squared, project
    cdef public Bias bias
    # A batch: responses, minus the derivatives of the losses, the sum of the rows times these, its entries, and one row
    cdef public double[::1] c, pull, total
    cdef public int64_t entries
    cdef public int64_t[::1] where
    cdef public double[::1] value
    cdef public Kink[::1] kinks
    # The search for b: length and sign of its last step, the sum of the gradients since then, and their number
    cdef public double stride, direction, gradient_sum
    cdef public int64_t gradients

    def __init__(
        self, problem, rng, str order, int64_t batch, double bias_feature, average, learned, str bias, bint project
    ):
        super().__init__(problem, rng, order, batch, bias_feature, average, learned)
        self.bias = {"": NO_FREE_BIAS, "step": STEP, "batch": BATCH, "search": SEARCH}[bias]
        self.squared, self.project = problem.loss.smooth, project
        self.readings = 2 if self.takes_all() else 1  # all of the data does not fit in the processor's cache
        self.set_C(problem)
        self.c, self.pull = np.empty(self.batch), np.empty(self.batch)
        self.kinks = np.empty(self.batch if self.bias == BATCH else 0, dtype=KINK)
        size = longest(self.X.need_rows()) if self.batch > 1 else 0
        self.where, self.value = np.empty(size + 1, dtype=np.int64), np.empty(size + 1)
        self.total = np.zeros(self.d + 1 if self.batch > 1 else 0)
        self.stride, self.direction, self.gradient_sum, self.gradients = 1.0, 0.0, 0.0, 0

    def set_C(self, problem):
        """Use the C of this problem from now on."""
        self.regularization = 1.0 / (problem.C * problem.s.sum())
        self.radius = sqrt(problem.loss.largest_pull / self.regularization)
        self.curvature = 0.0
        if self.squared:
            self.curvature = 2.0 * (problem.s @ problem.sq_norms() / problem.s.sum() + self.bias_feature**2)

    cdef void learn(self, Lines* rows) noexcept nogil:
        cdef double eta = 1.0 / (self.regularization * self.t + self.curvature)
        # The objective is not strongly convex in b: for such functions the theory has steps of 1 / sqrt(t).
        cdef double eta_b = min(eta, 1.0 / sqrt(<double>self.t)) if self.bias == STEP else 0.0
        cdef double shrink = 1.0 - self.regularization * eta, fit = 1.0, balance = 0.0, norm2
        cdef int64_t k
        for k in range(self.batch):
            self.c[k] = self.response(rows, self.drawn[k])
        if self.bias == BATCH:
            self.find_bias()
        else:
            for k in range(self.batch):
                self.pull[k] = self.slope(self.c[k] + self.y[self.drawn[k]] * self.b)
        if self.squared:
            self.limit_steps(rows, eta, eta_b)
        norm2 = shrink * shrink * self.norm2
        for k in range(self.batch):
            self.pull[k] *= self.weight(k)
            norm2 += 2.0 * eta * shrink * self.pull[k] * self.c[k]
            balance += self.pull[k] * self.y[self.drawn[k]]
        norm2 = max(0.0, norm2 + eta * eta * self.sum_up(rows))
        # The projection comes before the rows are added: afterwards, a much longer w would swamp their digits.
        if self.project and norm2 > self.radius * self.radius:
            fit = self.radius / sqrt(norm2)
        self.norm2 = fit * fit * norm2
        self.a *= fit * shrink
        if self.a < (SMALLEST_FACTOR_IN_AVERAGE if self.averaging else SMALLEST_FACTOR):
            self.absorb_factor()
        self.add_sum(rows, fit * eta)
        self.b += eta_b * balance
        if self.bias == SEARCH:
            self.search_bias(balance)

    cdef double slope(self, double margin) noexcept nogil:
        """Minus the derivative of the loss."""
        if self.squared:
            return 2.0 * max(0.0, 1.0 - margin)
        return 1.0 if margin < 1.0 else 0.0

    cdef double weight(self, int64_t k) noexcept nogil:
        """The weight of row k in the mean of the batch: rows are drawn by weight, unless the batch is all rows."""
        return (self.share[self.drawn[k]] if self.takes_all() else 1.0) / self.batch

    cdef void limit_steps(self, Lines* rows, double eta, double eta_b) noexcept nogil:
        """Limit the step of each row so that it does not overshoot margin 1, as that of a very long row would."""
        cdef int64_t k
        cdef double reach
        for k in range(self.batch):
            if self.pull[k] > 0.0:
                reach = 2.0 * (eta * self.sq_norm(rows, self.drawn[k]) + eta_b)
                self.pull[k] /= max(1.0, reach)

    cdef double sum_up(self, Lines* rows) noexcept nogil:
        """|sum_k pull_k y_k x_k|^2; for more than one row, `total` holds the sum."""
        cdef Reads before = self.reads[0]
        cdef int64_t k, i
        cdef double sq_norm = 0.0
        if self.batch == 1:
            i = self.drawn[0]
            return self.pull[0] * self.pull[0] * self.sq_norm(rows, i) if self.pull[0] > 0.0 else 0.0
        self.entries = 0
        for k in range(self.batch):
            if self.pull[k] > 0.0:
                i = self.drawn[k]
                rows.axpy(i, self.pull[k] * self.y[i] * self.inverse_scale, &self.total[0])
                self.total[self.d] += self.pull[k] * self.y[i] * self.bias_feature
                self.entries += rows.size(i)
        if self.readings == 1:
            self.reads[0] = before
        before = self.reads[0]
        if self.entries >= self.d:
            for k in range(self.d):
                sq_norm += self.total[k] * self.total[k]
        else:
            for k in range(self.batch):
                if self.pull[k] > 0.0:
                    i = self.drawn[k]
                    sq_norm += self.pull[k] * self.y[i] * self.inverse_scale * rows.dot(i, &self.total[0])
            self.reads[0] = before
        return sq_norm + self.total[self.d] * self.total[self.d]

    cdef void add_sum(self, Lines* rows, double step) noexcept nogil:
        """w <- w + step sum_k pull_k y_k x_k, in time in proportion to the entries of rows with a loss."""
        cdef Reads before = self.reads[0]
        cdef int64_t k, l, i, size
        cdef double change
        if self.batch == 1:
            if self.pull[0] > 0.0:
                self.add(rows, self.drawn[0], step * self.pull[0])
            return
        for k in range(self.batch):
            if self.pull[k] > 0.0:
                i, change = self.drawn[k], step * self.pull[k] / self.a
                self.beta[i] += change
                if self.averaging:
                    self.unshared_beta[i] += self.shares * change
                if self.entries < self.d:
                    size = rows.read(i, &self.where[0], &self.value[0])
                    for l in range(size):
                        self.move(self.where[l], step / self.a)
        if self.entries >= self.d:
            for l in range(self.d):
                self.move(l, step / self.a)
        self.move(self.d, step / self.a)
        self.reads[0] = before

    cdef void move(self, int64_t j, double factor) noexcept nogil:
        """Add coordinate j of the total to v and set it to zero, so that a second call adds nothing."""
        cdef double change = factor * self.total[j]
        self.total[j] = 0.0
        self.v[j] += change
        if self.averaging:
            self.unshared[j] += self.shares * change

    cdef void find_bias(self) noexcept nogil:
        """Find the best b for the batch, and the pulls of its rows there, whose sums over both classes are equal.

        As b grows, positive rows reach margin 1 and lose their loss, and negative rows begin to have one.
        """
        cdef int64_t k, l, place
        cdef double y, before, after = 0.0, weights = 0.0, sum = 0.0
        for k in range(self.batch):
            y = self.y[self.drawn[k]]
            self.kinks[k].at, self.kinks[k].k = y * (1.0 - self.c[k]), k
            if y > 0.0:
                weights += self.weight(k)
                sum += self.weight(k) * self.kinks[k].at
        qsort(&self.kinks[0], self.batch, sizeof(Kink), compare_kinks)
        if self.squared:
            # sum / weights is the root of the slope of the loss in b, if these are the rows with a loss.
            for place in range(self.batch):
                if weights <= 0.0 or weights * self.kinks[place].at >= sum:
                    break
                k = self.kinks[place].k
                y = self.y[self.drawn[k]]
                weights -= y * self.weight(k)
                sum -= y * self.weight(k) * self.kinks[place].at
            else:
                place = self.batch - 1
            self.b = sum / weights if weights > 0.0 else self.kinks[place].at
            for k in range(self.batch):
                self.pull[k] = self.slope(self.c[k] + self.y[self.drawn[k]] * self.b)
            return
        # The slope of the loss in b rises by the weight of each row at its kink. At the row where it becomes positive, a
        # part of the pull of that row makes it zero.
        after = -weights
        for place in range(self.batch):
            k = self.kinks[place].k
            before, after = after, after + self.weight(k)
            if after >= 0.0:
                break
        self.b = self.kinks[place].at
        for l in range(self.batch):
            y = self.y[self.drawn[self.kinks[l].k]]
            self.pull[self.kinks[l].k] = 1.0 if (l - place) * y > 0.0 else 0.0
        y = self.y[self.drawn[k]]
        self.pull[k] = max(0.0, after if y > 0.0 else -before) / self.weight(k)

    cdef void search_bias(self, double balance) noexcept nogil:
        """After each pass, move b by the sign of the summed gradients; halve the step if the sign has changed."""
        cdef double direction
        self.gradient_sum += balance
        self.gradients += 1
        if self.gradients < SHORTEST_SEARCH or self.gradients * self.batch < self.count:
            return
        direction = 1.0 if self.gradient_sum > 0.0 else -1.0 if self.gradient_sum < 0.0 else 0.0
        if direction * self.direction < 0.0:
            self.stride *= SHORTER
        elif direction * self.direction > 0.0:
            self.stride *= LONGER
        self.b += direction * self.stride
        self.direction, self.gradient_sum, self.gradients = direction, 0.0, 0


cdef int compare_kinks(const void* one, const void* other) noexcept nogil:
    cdef const Kink* left = <const Kink*>one
    cdef const Kink* right = <const Kink*>other
    if left.at != right.at:
        return -1 if left.at < right.at else 1
    return -1 if left.k < right.k else 1
