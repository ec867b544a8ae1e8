# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Dual coordinate ascent for the regularised SVM, a chunk of visits at a time.

  alpha  the dual point, 0 <= alpha_i <= U_i
  w      sum alpha_i y_i x_i, updated with every change of alpha
  b      the bias, `shift` + rho sum alpha_i y_i; rho = 0 without a bias
  order  the samples that are active in the order of this sweep, then the others

A visit to sample i maximises the dual over alpha_i alone, which costs one row:

  c = y_i (<w, x_i> + b),  alpha_i <- alpha_i + (1 - c - q_i alpha_i) / (|x_i|^2 + rho + q_i), clipped to [0, U_i].

Rows of a store that does not fit in its cache are read in batches, of blocks that do. While a batch is in memory, its
samples are visited in several rounds, of which the first alone tells which of them stay active (block minimisation: Yu,
Hsieh, Chang and Lin 2010). Once the rows of all active samples fit, copies of them are kept, and read in their place.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, fmax, fmin
from libc.stdint cimport int64_t, uint64_t

from maxmargin.core._matrix cimport Lines, Matrix
from maxmargin.core.bits cimport BitGenerator, bits_of

cdef enum:
    BETWEEN_SWEEPS, IN_SWEEP, ALL_VISITED

cdef double LEAST_VIOLATION = 1e-12  # smaller projected gradients change nothing
# Of a store that is larger than its cache, compared by passes fetched on a small copy of the data of `benchmarks/stores.py`
# with C = 1: 1, 2, 4 and 10 rounds took 166, 114, 85 and 71 passes with batches of a quarter, 4 rounds 77 with half. Rounds
# that grow, FALL and copies of half a cache together took MNIST from 112 passes to 22.
cdef int64_t ROUNDS = 4  # visits to a sample while its batch is in memory: they take about as long as to fetch the next,
cdef int64_t MOST_ROUNDS = 20  # and more, up to so many, if few of the samples that are fetched are active
cdef double FALL = 0.1  # when the violation of a round has fallen to this share of the first one's, one more is the last
cdef double BATCH_SHARE = 0.5  # of the cache that a batch takes; the other half is for the next one, which is read ahead
cdef double COPIES_SHARE = 0.5  # of the cache that copies of the active rows may take; they are made if all of them fit
cdef double SHRINK_RATIO = 1.0  # a sample at a bound becomes inactive if its gradient exceeds this many times the mean
cdef double UNSHRINK_SHARE = 0.1  # all samples become active when the gap of the active ones has fallen to this share,
cdef int64_t UNSHRINK_VISITS = 50  # or after this many visits per sample
cdef double LONGEST_STEP = 20.0  # limit of an extrapolated step, in units of its sweep and of the step before
cdef double LEAST_GAIN = 1e-9  # share of the dual value; an extrapolated step that gains less is not made


cdef class Descent:
    """The state of dual coordinate ascent.

    Parameters
    ----------
    problem : RegularizedSVM
        Data, labels and weights.
    rng : np.random.Generator
        The source of the random orders of the sweeps.
    shrink : bool
        Whether samples that seem to stay at a bound become inactive.
    extrapolate : int
        The sweep from which on sweeps are extrapolated; 0 means never.
    """

    cdef public object rng
    cdef public bint shrink
    cdef public int64_t extrapolate
    cdef public int64_t active, position, sweeps  # active samples of the sweep, the place in `order`, sweeps made
    cdef public int64_t counted  # samples of the sweep that were visited for the last time in it
    cdef public int64_t staying  # samples visited in the sweep that stay active: they stand at the front of `order`
    cdef public double b, shift, rho, imbalance, sq_w  # imbalance = sum alpha_i y_i, sq_w = |w|^2
    cdef public double gap  # the gap of the active samples in the last sweep, each term as of its visit
    cdef public object alpha_, w_  # alpha and w as NumPy arrays, which `lend` gives out and `make_own` copies
    cdef public bint lent, free_bias
    cdef public tuple dual_signature  # of the problem, to recognise the same problem in a warm start
    cdef public Matrix X
    cdef BitGenerator* bits
    cdef public double[::1] alpha, w, upper, q, sq_norms
    cdef public const double[::1] y
    cdef public int64_t[::1] order
    cdef public int64_t usable
    cdef public double gap_so_far  # the gap terms of the present sweep
    cdef public double gap_of_all  # the gap when all samples were last active; infinite while they are
    cdef public double mean_gradient, gradients_so_far  # mean and sum of the absolute projected gradients in a sweep
    cdef public double[::1] alpha_0, w_0, alpha_step, w_step  # where the sweep began, and the last extrapolated step
    cdef public double reach  # the present limit of an extrapolated step, in the units of LONGEST_STEP
    cdef public int64_t since_all  # visits since all samples were last active
    cdef public bint streams  # whether rows are read in batches
    cdef public int64_t[::1] batches  # where the batches of the sweep end in `order`
    cdef public int64_t batch, round  # of the batches, and of the visits to the samples of the batch
    cdef public int64_t rounds  # of a batch in this sweep, at most
    cdef public bint last_round
    cdef public double violation, first_violation  # absolute projected gradients, summed in this round and in the first
    cdef public int64_t first  # where the samples of the batch begin in `order`, of which those that stay come first
    cdef public int64_t[::1] copied, places  # the rows of which there are copies, and the places of all among them
    cdef public Matrix copies  # None if there are none
    cdef public int64_t stage  # where the last call ended: between two sweeps, within one, or before its extrapolation

    def __init__(self, problem, rng, bint shrink, int64_t extrapolate):
        self.rng = rng
        self.copies, self.copied, self.places, self.batches = None, None, None, None
        self.attach()
        self.alpha_0, self.w_0, self.alpha_step = None, None, None  # until a sweep is extrapolated
        self.shrink, self.extrapolate = shrink, extrapolate
        self.sweeps = 0
        self.alpha_, self.w_ = np.zeros(problem.y.size), np.zeros(problem.X.shape[1])
        self.b = self.imbalance = self.sq_w = 0.0
        self.shift = 0.0
        self.set_problem(problem)

    def attach(self):
        """Find the bits of the random generator, and the copies, after the other fields were set from a checkpoint."""
        self.bits = bits_of(self.rng)
        if self.copied is not None:
            self.copies = self.X.copies(np.asarray(self.copied), COPIES_SHARE)

    def set_problem(self, problem):
        """Continue with a problem on the same data, perhaps with another C, other weights, labels or loss."""
        self.X = problem.X  # the same rows, but their reads are counted by the ledger of this problem
        if self.dual_signature is not None and all(map(np.array_equal, self.dual_signature, problem.dual_signature)):
            return
        self.dual_signature = problem.dual_signature
        box = self.dual_signature[:2]
        sq_norms = problem.sq_norms()
        self.alpha, self.w = self.alpha_, self.w_
        self.upper, self.q = box
        self.y, self.sq_norms = problem.y, sq_norms
        mean_norm = float(np.average(sq_norms, weights=problem.s)) or 1.0
        self.free_bias = problem.free_bias
        self.rho = mean_norm if problem.free_bias else problem.bias_feature**2
        # The gradient of a zero row without a bias is constant: its best alpha is known, and it is not visited.
        fixed = sq_norms + self.rho == 0
        self.set_alpha(np.where(fixed & (problem.u > 0), np.minimum(box[0], 1 / np.maximum(box[1], 1e-300)), self.alpha_))
        used = np.flatnonzero((problem.u > 0) & ~fixed)
        self.order = used
        self.usable = used.size
        self.streams = self.X.exceeds_cache
        self.restart()

    def begin_at(self, alpha, double b):
        """Begin at alpha instead of 0: the rows with alpha_i > 0 are read."""
        fixed = np.asarray(self.sq_norms) + self.rho == 0
        self.set_alpha(np.where(fixed, self.alpha_, alpha))
        if self.free_bias:
            self.b, self.shift = b, b - self.rho * self.imbalance

    def set_alpha(self, alpha):
        """Replace alpha, clipped to the box, and update w."""
        alpha = np.clip(alpha, 0, self.upper)
        self.make_own()
        change = (alpha - self.alpha_) * np.asarray(self.y)
        if change.any():
            np.add(self.w_, self.X.dot_transposed(change), out=self.w_)
        self.alpha_[:] = alpha
        self.imbalance = float(self.alpha_ @ np.asarray(self.y))
        self.b = self.shift + self.rho * self.imbalance
        self.sq_w = float(self.w_ @ self.w_)

    def dual(self):
        """The dual value, with the terms of the bias."""
        quadratic = np.asarray(self.q) @ self.alpha_**2 + self.sq_w + self.rho * self.imbalance**2
        return float(self.alpha_.sum() - 0.5 * quadratic - self.shift * self.imbalance)

    def lend(self):
        """The present arrays alpha and w, which will not change: they are copied before the next change."""
        self.lent = True
        return self.alpha_, self.w_

    cdef int make_own(self) except -1:
        """Copy alpha and w if they were lent."""
        if self.lent:
            self.alpha_, self.w_ = self.alpha_.copy(), self.w_.copy()
            self.alpha, self.w = self.alpha_, self.w_
            self.lent = False
        return 0

    cdef int restart(self) except -1:
        """Make all samples active and begin a new sweep."""
        self.active, self.position, self.counted = self.usable, 0, 0
        self.mean_gradient = INFINITY
        self.gap = self.gap_of_all = INFINITY
        self.since_all = 0
        self.stage = BETWEEN_SWEEPS
        self.leave_copies()
        return 0

    cdef int leave_copies(self) except -1:
        """Read rows where they lie, and forget the extrapolated steps, which may lead to other rows."""
        self.copies, self.copied, self.places = None, None, None
        self.w_step = None
        self.reach = LONGEST_STEP
        return 0

    def run(self, int64_t iterations, double budget):
        """Make up to `iterations` visits that read at most `budget` entries.

        Of the visits to a sample in the rounds of a batch, the last counts: fewer than `iterations` may be counted.

        Returns
        -------
        counted : int
            How many were counted.
        within : bool
            Whether the budget was not the reason to end.
        """
        cdef int64_t done = 0, visits = 0, before
        cdef double limit = self.X.ledger.reads.spent() + budget
        self.make_own()
        while (done < iterations and visits < iterations) or self.stage == ALL_VISITED:
            if self.stage == BETWEEN_SWEEPS:
                if self.active == 0:  # no sample is active: alpha is optimal
                    self.gap = 0.0
                    return iterations, True
                self.begin_sweep()
                self.stage = IN_SWEEP
            if self.stage == IN_SWEEP:
                before = self.counted
                visits += self.visit_batch(iterations - done, iterations - visits, limit)
                done += self.counted - before
                self.since_all += self.counted - before
                if self.position < self.stop() and done < iterations and visits < iterations:
                    return done, False
                if self.position == self.stop():
                    self.end_round()
            if self.stage == ALL_VISITED:
                if not self.end_sweep(self.lines(), limit):
                    return done, done == iterations
                self.stage = BETWEEN_SWEEPS
        return done, True

    def sweep(self, double budget):
        """Make a sweep, or what is left of the present one, within the budget; return whether it came to its end."""
        cdef int64_t before = self.sweeps
        cdef bint within = True
        while within and self.sweeps == before and self.active:
            _, within = self.run(self.active - self.counted, budget)
        return self.sweeps > before or self.active == 0

    cdef int begin_sweep(self) except -1:
        """Shuffle the active samples, and store where the sweep begins if it will be extrapolated."""
        if self.streams and self.copies is None:
            self.copy_rows()
        self.shuffle(0, self.active)
        if self.copies is not None:
            places = np.asarray(self.places)[self.order[:self.active]]
            self.copies.group(places, self.active)
            np.asarray(self.order)[:self.active] = np.asarray(self.copied)[places]
        else:
            self.X.group(self.order, self.active)
        if self.streams and self.copies is None:
            self.batches = self.X.batches(np.asarray(self.order[:self.active]), BATCH_SHARE)
            self.rounds = min(ROUNDS * self.alpha.shape[0] // self.active, MOST_ROUNDS)
        else:
            self.batches = np.array([self.active])
            self.rounds = 1
        self.batch = self.first = self.staying = self.position = self.counted = 0
        self.begin_round(0)
        self.gap_so_far = 0.0
        self.gradients_so_far = 0.0
        if self.extrapolates():
            if self.w_step is None:
                self.alpha_0, self.w_0 = np.empty(self.alpha.shape[0]), np.empty(self.w.shape[0])
                self.alpha_step, self.w_step = np.zeros(self.alpha.shape[0]), np.zeros(self.w.shape[0])
            self.alpha_0[:], self.w_0[:] = self.alpha, self.w
        return 0

    cdef int copy_rows(self) except -1:
        """Have the rows of the active samples copied when they are next read, if they fit in the cache."""
        rows = np.sort(self.order[:self.active])
        copies = self.X.copies(rows, COPIES_SHARE)
        if copies is not None:
            self.leave_copies()
            self.copies, self.copied = copies, rows
            places = np.zeros(self.alpha.shape[0], dtype=np.int64)
            places[rows] = np.arange(rows.size)
            self.places = places
        return 0

    cdef Lines* lines(self) except NULL:
        """Where rows are read: their copies, if there are any."""
        return self.X.need_rows() if self.copies is None else self.copies.need_rows()

    cdef int shuffle(self, int64_t first, int64_t stop) except -1:
        """Put the samples from `first` to `stop` of the order into a random order."""
        cdef int64_t s, r
        for s in range(first, stop - 1):
            r = s + <int64_t>(self.bits.next_uint64(self.bits.state) % <uint64_t>(stop - s))
            self.order[s], self.order[r] = self.order[r], self.order[s]
        return 0

    cdef int64_t stop(self):
        """The position at which the present round of the batch ends."""
        return self.batches[self.batch] if self.round == 0 else self.staying

    cdef int64_t visit_batch(self, int64_t most_counted, int64_t most, double limit) except -1:
        """Visit samples of the batch in the present round; return how many."""
        cdef Lines* rows = self.lines()
        cdef int64_t stop = self.stop(), made
        with nogil:
            made = self.visit(rows, stop, most_counted, most, limit)
        return made

    cdef int begin_round(self, int64_t round) except -1:
        """Begin a round of visits to the samples of the batch."""
        if round == 1:
            self.first_violation = self.violation
        self.round = round
        self.last_round = round == self.rounds - 1 or (round and self.violation <= FALL * self.first_violation)
        self.violation = 0.0
        return 0

    cdef int end_round(self) except -1:
        """Begin the next round of the batch, the next batch, or what comes at the end of a sweep."""
        cdef int64_t end = self.batches[self.batch], next_end
        next_end = self.batches[min(self.batch + 1, self.batches.shape[0] - 1)]
        if not self.last_round and self.staying > self.first:
            self.begin_round(self.round + 1)
            self.position = self.first
            self.shuffle(self.first, self.staying)
            batch, next_rows = self.order[self.first:self.staying], np.asarray(self.order[end:next_end])
            self.X.group(batch, batch.shape[0], next_rows)
            return 0
        self.position = end
        if self.batch == self.batches.shape[0] - 1:
            self.stage = ALL_VISITED
            return 0
        if self.round:  # their blocks were announced as the next ones; from here on they are those at hand
            self.X.group(self.order[end:next_end], next_end - end)
        self.batch += 1
        self.first = self.staying
        return self.begin_round(0)

    cdef bint extrapolates(self):
        """Whether the present sweep is to be extrapolated."""
        return self.extrapolate > 0 and self.sweeps >= self.extrapolate

    cdef int64_t visit(
        self, Lines* rows, int64_t stop, int64_t most_counted, int64_t most, double limit
    ) noexcept nogil:
        """Visit samples up to the position `stop`, as long as no more than `limit` is spent; return how many.

        In the last round of a batch each of them is counted, in others those that become inactive.
        """
        cdef int64_t made = 0, i, row, most_of_all = self.counted + most_counted
        cdef bint opening = self.round == 0
        cdef double c, short, gradient, projected, best, a, change, curvature
        while self.position < stop and made < most and self.counted < most_of_all:
            i = self.order[self.position]
            row = self.row_of(i)
            if self.X.ledger.reads.spent() + 2 * rows.price(row) > limit:
                break
            if self.position + 1 < stop:
                rows.prefetch(self.row_of(self.order[self.position + 1]))
            made += 1
            self.position += 1
            self.counted += self.last_round
            c = rows.dot(row, &self.w[0])
            short = 1.0 - self.y[i] * (c + self.b)
            a = self.alpha[i]
            gradient = self.q[i] * a - short
            projected = gradient
            if a <= 0:
                projected = fmin(gradient, 0.0)
            elif a >= self.upper[i]:
                projected = fmax(gradient, 0.0)
            if opening:
                # The term of sample i in the gap: its loss, attained at `best`, minus its term of the dual.
                best = fmin(short / self.q[i], self.upper[i]) if self.q[i] > 0 else self.upper[i]
                best = best if short > 0 else 0.0
                self.gap_so_far += (best - a) * short - 0.5 * self.q[i] * (best * best - a * a)
                if self.shrink and fabs(gradient) > SHRINK_RATIO * self.mean_gradient and projected == 0:
                    self.counted += not self.last_round
                    continue
                self.order[self.position - 1] = self.order[self.staying]
                self.order[self.staying] = i
                self.staying += 1
                self.gradients_so_far += fabs(projected)
            self.violation += fabs(projected)
            if fabs(projected) > LEAST_VIOLATION:
                curvature = self.sq_norms[i] + self.rho + self.q[i]
                change = fmin(fmax(a - gradient / curvature, 0.0), self.upper[i]) - a
                self.alpha[i] = a + change
                change *= self.y[i]
                rows.axpy(row, change, &self.w[0])
                self.imbalance += change
                self.b += self.rho * change
                self.sq_w += 2 * change * c + change * change * self.sq_norms[i]
        return made

    cdef inline int64_t row_of(self, int64_t i) noexcept nogil:
        """The place of sample i among the rows that are read."""
        return i if self.places is None else self.places[i]

    cdef int end_sweep(self, Lines* rows, double limit) except -1:
        """Extrapolate this sweep and set the thresholds of the next one. 0 if that would spend more than `limit`."""
        cdef bint whole = self.gap_of_all == INFINITY
        if self.w_step is not None and not self.extrapolate_sweep(rows, limit):
            return 0
        self.active = self.staying
        self.sweeps += 1
        self.position = self.counted = 0
        self.gap = self.gap_so_far
        self.mean_gradient = self.gradients_so_far / max(1, self.active) or INFINITY
        if self.free_bias:
            # The method of multipliers for sum alpha_i y_i = 0: the present bias becomes the next centre.
            self.shift = self.b
            self.b += self.rho * self.imbalance
        if whole:
            self.gap_of_all = self.gap
        elif (
            self.active == 0
            or self.gap <= UNSHRINK_SHARE * self.gap_of_all
            or self.since_all > UNSHRINK_VISITS * self.usable
        ):
            self.active = self.usable
            self.gap_of_all = INFINITY
            self.since_all = 0
            if self.copies is not None:
                self.leave_copies()
        return 1

    cdef int extrapolate_sweep(self, Lines* rows, double limit) except -1:
        """Move to the best point of the plane through the start of the sweep, along the sweep and the last step.

        This makes sweeps the preconditioner of a conjugate gradient method. Where alpha_i leaves the box it is clipped,
        which reads row i. If the clipping costs more than the step gained, the step is undone, and the next one must be
        shorter. 0 if reading the rows would spend more than `limit`: then nothing has changed.
        """
        cdef int64_t i, j, n = self.alpha.shape[0], d = self.w.shape[0]
        cdef double price = 0
        cdef double by_sweep = 0, by_step = 0  # slopes of the dual along the sweep and the last step
        cdef double sweep_sweep = 0, sweep_step = 0, step_step = 0  # curvatures of the dual along both
        cdef double one, other, slope, raw, cut, t_sweep = 0, t_step = 0, determinant, r_sweep = 0, r_step = 0, too_long
        cdef double before = self.dual(), imbalance = self.imbalance, sq_w = self.sq_w, b = self.b
        with nogil:
            for j in range(d):
                one, other = self.w[j] - self.w_0[j], self.w_step[j]
                by_sweep -= self.w[j] * one
                by_step -= self.w[j] * other
                sweep_sweep += one * one
                sweep_step += one * other
                step_step += other * other
            for i in range(n):
                one, other = self.alpha[i] - self.alpha_0[i], self.alpha_step[i]
                slope = 1 - self.q[i] * self.alpha[i] - self.b * self.y[i]
                by_sweep += slope * one
                by_step += slope * other
                sweep_sweep += self.q[i] * one * one
                sweep_step += self.q[i] * one * other
                step_step += self.q[i] * other * other
                r_sweep += one * self.y[i]
                r_step += other * self.y[i]
            sweep_sweep += self.rho * r_sweep * r_sweep
            sweep_step += self.rho * r_sweep * r_step
            step_step += self.rho * r_step * r_step
            determinant = sweep_sweep * step_step - sweep_step * sweep_step
            if determinant > 1e-12 * sweep_sweep * step_step:
                t_sweep = (by_sweep * step_step - by_step * sweep_step) / determinant
                t_step = (by_step * sweep_sweep - by_sweep * sweep_step) / determinant
            elif sweep_sweep > 0:
                t_sweep = by_sweep / sweep_sweep
            # Very long steps would magnify the rounding error of w until it hides the progress of the next sweeps.
            too_long = fmax(fabs(t_sweep), fabs(t_step)) / self.reach
            if too_long > 1:
                t_sweep, t_step = t_sweep / too_long, t_step / too_long
            if not t_sweep * by_sweep + t_step * by_step > LEAST_GAIN * fabs(before):
                self.reach = fmin(2 * self.reach, LONGEST_STEP)  # the step may have been too short to gain enough
                return 1
            for i in range(n):
                raw = self.alpha[i] + t_sweep * (self.alpha[i] - self.alpha_0[i]) + t_step * self.alpha_step[i]
                if raw < 0 or raw > self.upper[i]:
                    price += 2 * rows.price(self.row_of(i))
            if self.X.ledger.reads.spent() + price > limit:
                return 0
            # From here on, alpha_0 and w_0 hold the end of the sweep, to undo the step.
            for j in range(d):
                self.w_step[j] = (1 + t_sweep) * (self.w[j] - self.w_0[j]) + t_step * self.w_step[j]
                self.w[j], self.w_0[j] = self.w_0[j] + self.w_step[j], self.w[j]
            self.imbalance = 0
            for i in range(n):
                raw = self.alpha[i] + t_sweep * (self.alpha[i] - self.alpha_0[i]) + t_step * self.alpha_step[i]
                cut = fmin(fmax(raw, 0.0), self.upper[i])
                if cut != raw:
                    rows.axpy(self.row_of(i), (cut - raw) * self.y[i], &self.w[0])
                    rows.axpy(self.row_of(i), (cut - raw) * self.y[i], &self.w_step[0])
                self.alpha_step[i] = cut - self.alpha_0[i]
                self.alpha[i], self.alpha_0[i] = cut, self.alpha[i]
                self.imbalance += cut * self.y[i]
            self.sq_w = 0
            for j in range(d):
                self.sq_w += self.w[j] * self.w[j]
        self.b = self.shift + self.rho * self.imbalance
        if self.dual() < before:
            self.alpha[:], self.w[:] = self.alpha_0, self.w_0
            self.imbalance, self.sq_w, self.b = imbalance, sq_w, b
            self.reach = 0.5 * fmax(fabs(t_sweep), fabs(t_step))
            self.alpha_step[:] = 0
            self.w_step[:] = 0
        else:
            self.reach = fmin(2 * self.reach, LONGEST_STEP)
        return 1
