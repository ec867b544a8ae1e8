# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""SMO for many binary problems on samples that they share, one problem after another without the GIL.

  alpha   the dual variables of the current problem, 0 <= alpha_i <= upper_i
  e       y_i - f_i, updated with every step: the residual of sample i
  ranges  the samples of a problem: up to three ranges of consecutive samples, each with one label

Samples are sorted by class, so that a class is a range, and each class is filled up with samples of weight 0 to a multiple of
`SAMPLES_PER_BLOCK`, so that loops over a range have no remainder. A step changes the pair of Fan, Chen, Lin (2005); without a
bias, the single variable with which the dual gains most. All samples of a problem stay active: the loops over them are
vectorised, and a kernel row is computed when a step first needs it. Where C is large, such steps become many: from time to time all
variables between their bounds make a step of Newton's method together, see `_free_step.pyx`.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, isnan, sqrt
from libc.stdint cimport int64_t

from maxmargin.kernels._row_sources cimport RowSource
from maxmargin.kernels.box cimport after_step, at_least, clip, room
from maxmargin.svm.kernel._free_step cimport FreeStep
from maxmargin.svm.many_problems cimport EXHAUSTED, MAX_ITER, TOL, UNFINISHED, Direction, bound_on_responses, record_margin

cdef extern from "pairs.hpp" namespace "maxmargin" nogil:
    int64_t update_and_find_largest(
        double step, const double* row_i, const double* row_j, double* e, const double* penalty, int64_t size,
        double* largest,
    )
    int64_t best_partner(
        double e_i, double K_ii, const double* row_i, const double* diagonal, const double* e, const double* penalty,
        int64_t size, double* smallest,
    )

cdef extern from "dense_rows.hpp" namespace "maxmargin" nogil:
    const int64_t block_samples

cdef extern from "rows.hpp" namespace "maxmargin" nogil:
    void wide_axpy(double a, const double* x, double* v, int64_t size)

cdef enum:
    MAX_RANGES = 3
    MOST_FREE = 2000  # variables that make a step together, at most: their kernels take 32 MB, and the step some 0.3 s

cdef double UNIT = 2.0 ** -53  # the unit roundoff of float64
cdef double SUM_ROUNDINGS = 16.0  # roundings of a sum besides one for each term, as in `engine/row_problem.py`
# The residuals lose digits with every step. Below this violation, as a share of the largest |y_i - e_i|, a smaller one may be
# rounding alone: the problem is as exact as float64 allows.
cdef double LEAST_VIOLATION = 1e-13
cdef double TIGHTER = 0.25  # each time that the gap is still too large, the violation has to fall to this share first

# Added to the diagonal of the kernels of free variables, as a share of it: samples may be equal.
cdef double LEAST_RIDGE = 1e-10

cdef double SECOND_ORDER = 1.0 + 1e-6  # covers the terms of second order of a bound on rounding


cdef class SmoRun:
    """The binary problems that one thread solves, and the state of the current one.

    Parameters
    ----------
    source : RowSource
        The kernels of all samples.
    ranges : BinaryRanges
        The samples of all problems, see `many_problems.py`.
    which : array of int
        The problems of this run, in this order.
    samples : SampleTerms
        What the dual and the bounds on rounding need of each sample.
    targets : Targets
        What is asked of each problem, see `svm/many_problems.py`. Its tolerance is also that of the violation of the
        optimality conditions.
    free_bias : bool
    max_passes : int
        Steps are at most this many times half of the samples of a problem; without a bias, times all of them.
    least_steps : int
        The limit of steps is at least this.
    beta : array of shape (rows, n)
        Where the coefficients of each problem go, and where those of the solution are that it begins at.
    table : array of shape (n_problems, RESULT_COLUMNS)
        Where the results go, see `svm/many_problems.py`.
    """

    cdef RowSource source
    cdef const int64_t[::1] which, starts, first, size, row
    cdef const double[::1] label, weight, s, diagonal_of_all, g, h
    cdef const double[::1] C, tol_of_all, slack, last_C
    cdef double[:, ::1] beta, table
    cdef bint free_bias, begun
    cdef double tol
    cdef int64_t max_passes, least_steps
    cdef double[::1] work_space
    cdef double[::1] row_buffer  # kernel rows of the current problem, where they are not in memory already
    cdef int64_t[::1] row_number  # which row of the buffer a sample has; -1: none
    cdef double *alpha
    cdef double *upper
    cdef double *y
    cdef double *e
    cdef double *rising
    cdef double *falling
    cdef double *diagonal
    cdef double *change
    cdef FreeStep free_step
    cdef int64_t[::1] free  # the variables between their bounds, when they made their last step together
    # The current problem: m samples, fillers included, in ranges that begin at `offset` among them.
    cdef int64_t m, n_samples, n_ranges, steps, most_steps, best
    cdef int64_t last_free_step, next_free_step  # how many steps were made, or will be, when all free variables make one together
    cdef int64_t range_first[MAX_RANGES]
    cdef int64_t offset[MAX_RANGES + 1]
    cdef bint consecutive  # whether the ranges follow one another among all samples
    cdef double high, low, target
    cdef int64_t rows  # of the buffer that are in use
    cdef int64_t evaluations_before  # kernels that were computed before the current problem began
    cdef readonly int64_t position  # how many problems are done
    cdef readonly int64_t evaluations  # kernels that were computed for rows

    def __init__(
        self, RowSource source, ranges, which, samples, targets, bint free_bias, int64_t max_passes, int64_t least_steps,
        beta, table,
    ):
        self.source, self.which, self.position, self.begun, self.evaluations = source, which, 0, False, 0
        self.starts, self.first, self.size, self.row = ranges.starts, ranges.first, ranges.size, ranges.row
        self.label, self.weight = ranges.label, ranges.weight
        self.s, self.diagonal_of_all, self.g, self.h = samples.s, samples.diagonal, samples.g, samples.h
        self.C, self.tol_of_all, self.slack, self.last_C = targets.C, targets.tol, targets.slack, targets.last_C
        self.free_bias, self.max_passes, self.least_steps = free_bias, max_passes, least_steps
        self.beta, self.table = beta, table
        cdef int64_t longest = 0, m, p, k
        for p in which:
            m = 0
            for k in range(self.starts[p], self.starts[p + 1]):
                m += padded(self.size[k])
            longest = max(longest, m)
        self.work_space = np.empty(8 * longest)
        self.alpha = &self.work_space[0]
        self.upper, self.y, self.e = self.alpha + longest, self.alpha + 2 * longest, self.alpha + 3 * longest
        self.rising, self.falling = self.alpha + 4 * longest, self.alpha + 5 * longest
        self.diagonal, self.change = self.alpha + 6 * longest, self.alpha + 7 * longest
        self.free_step, self.free = FreeStep(min(longest, <int64_t>MOST_FREE)), np.empty(longest, dtype=np.int64)
        self.row_number = np.empty(longest, dtype=np.int64)
        self.row_buffer = np.empty(longest * longest)  # its pages are taken as rows fill them

    @property
    def done(self) -> bool:
        """Whether all problems are solved."""
        return self.position == self.which.shape[0]

    def advance(self, int64_t max_entries) -> None:
        """Go on with the problems, by steps that update at most about `max_entries` residuals together."""
        cdef int64_t p, entries = max_entries
        with nogil:
            while self.position < self.which.shape[0] and entries > 0:
                p = self.which[self.position]
                if not self.begun:
                    self.begin(p)
                if self.ascend(p, &entries):
                    self.begun = False
                    self.position += 1

    def finish(self, int64_t passes) -> None:
        """End the problems that are left after at most so many passes of each: the fit has to stop."""
        cdef int64_t p, entries
        with nogil:
            while self.position < self.which.shape[0]:
                p = self.which[self.position]
                if not self.begun:
                    self.begin(p)
                entries = passes * self.m * self.m
                if not self.ascend(p, &entries):
                    self.recompute()
                    self.record(p, UNFINISHED)
                self.begun = False
                self.position += 1

    cdef void begin(self, int64_t p) noexcept nogil:
        """Set up problem p at alpha = 0, or where it begins at a solution for another C, at the same shares of the bounds."""
        cdef int64_t r, k, t, at = 0, start = self.starts[p]
        cdef bint warm = self.last_C[p] > 0
        cdef double share
        self.tol = max(self.tol_of_all[p], LEAST_VIOLATION)
        self.n_ranges, self.target, self.n_samples = self.starts[p + 1] - start, self.tol, 0
        self.steps = <int64_t>self.table[p, 7] if warm else 0
        self.consecutive, self.rows = True, 0
        self.evaluations_before = self.evaluations - (<int64_t>self.table[p, 11] if warm else 0)
        for r in range(self.n_ranges):
            k = start + r
            self.range_first[r], self.offset[r] = self.first[k], at
            if r > 0 and self.first[k] != self.range_first[0] + at:
                self.consecutive = False
            self.n_samples += self.size[k]
            for t in range(padded(self.size[k])):
                self.y[at], self.e[at], self.alpha[at] = self.label[k], self.label[k], 0.0
                self.upper[at] = self.weight[k] * (self.C[p] * self.s[self.first[k] + t])
                if warm and self.upper[at] > 0.0:
                    share = fabs(self.beta[self.row[k], self.first[k] + t]) / (
                        self.weight[k] * (self.last_C[p] * self.s[self.first[k] + t])
                    )
                    self.alpha[at] = self.upper[at] if share >= 1.0 else share * self.upper[at]
                self.diagonal[at] = self.diagonal_of_all[self.first[k] + t]
                self.row_number[at] = -1
                at += 1
        self.m = self.offset[self.n_ranges] = at
        self.most_steps = self.max_passes * ((self.n_samples + 1) // 2 if self.free_bias else self.n_samples)
        self.most_steps = max(self.most_steps, self.least_steps)
        self.last_free_step, self.next_free_step = self.steps, self.steps + at
        self.begun = True
        self.recompute()

    cdef inline void set_penalties(self, int64_t i) noexcept nogil:
        """Infinite penalties exclude a sample from the search for y alpha that rise, or fall, where they cannot."""
        cdef bint below_upper = self.alpha[i] < self.upper[i], above_zero = self.alpha[i] > 0
        self.rising[i] = 0.0 if (below_upper if self.y[i] > 0 else above_zero) else -INFINITY
        self.falling[i] = 0.0 if (above_zero if self.y[i] > 0 else below_upper) else INFINITY

    cdef inline const double* kernel_row(self, int64_t i) noexcept nogil:
        """The kernels of sample i of the current problem with all of its samples."""
        cdef int64_t r = 0, k, sample
        cdef const double* row
        cdef double* own
        if self.row_number[i] >= 0:
            return &self.row_buffer[self.row_number[i] * self.m]
        while i >= self.offset[r + 1]:
            r += 1
        sample = self.range_first[r] + i - self.offset[r]
        if self.consecutive:
            row = self.source.pointer(sample)
            if row != NULL:
                return row + self.range_first[0]
        own = &self.row_buffer[self.rows * self.m]
        for k in range(self.n_ranges):
            self.source.fill(sample, self.range_first[k], self.offset[k + 1] - self.offset[k], own + self.offset[k])
        self.evaluations += self.m
        self.row_number[i] = self.rows
        self.rows += 1
        return own

    # Steps

    cdef bint ascend(self, int64_t p, int64_t* entries) noexcept nogil:
        """Make steps until problem p is solved, or the entries are used up; whether it is solved. The result is recorded."""
        cdef double gap, value, violation
        cdef bint solved
        while entries[0] > 0:
            if self.steps >= self.next_free_step:
                entries[0] -= self.step_on_free()
            violation = self.step_on_pair() if self.free_bias else self.step_on_one()
            entries[0] -= self.m
            if violation > self.target and self.steps < self.most_steps:
                continue
            # No pair violates the optimality conditions by more than the target, or the steps are used up.
            gap = self.gap(&value)
            solved = gap <= self.tol * value
            if solved or self.steps >= self.most_steps or violation <= 0:
                self.recompute()
                entries[0] -= self.m
                gap = self.gap(&value)
                solved = gap <= self.tol * value
            if solved or self.steps >= self.most_steps or self.target <= LEAST_VIOLATION * self.largest_response():
                self.record(p, TOL if solved else MAX_ITER if self.steps >= self.most_steps else EXHAUSTED)
                return True
            self.target *= TIGHTER
        return False

    cdef double step_on_pair(self) noexcept nogil:
        """Step on the pair with which the dual gains most, unless its violation, which is returned, is within the target."""
        cdef int64_t i = self.best, j
        cdef double step, size
        cdef const double* row_i
        cdef const double* row_j
        if i < 0:
            self.low = INFINITY
            return 0.0
        row_i = self.kernel_row(i)
        j = best_partner(self.high, self.diagonal[i], row_i, self.diagonal, self.e, self.falling, self.m, &self.low)
        if j < 0 or self.high - self.low <= self.target or self.steps >= self.most_steps:
            return self.high - self.low if j >= 0 else 0.0
        row_j, size = self.kernel_row(j), self.diagonal[i] + self.diagonal[j]
        step = (self.high - self.e[j]) / at_least(size - 2.0 * row_i[j], size)
        step = min(step, room(self.y[i], self.alpha[i], self.upper[i]), room(-self.y[j], self.alpha[j], self.upper[j]))
        self.alpha[i] = after_step(self.y[i], self.alpha[i], self.upper[i], step)
        self.alpha[j] = after_step(-self.y[j], self.alpha[j], self.upper[j], step)
        self.set_penalties(i)
        self.set_penalties(j)
        self.best = update_and_find_largest(step, row_i, row_j, self.e, self.rising, self.m, &self.high)
        self.steps += 1
        return INFINITY

    cdef double step_on_one(self) noexcept nogil:
        """Step on the variable with which the dual gains most, unless its violation, which is returned, is within the target."""
        cdef int64_t i = -1, t
        cdef double slope, step, gain, best_gain = 0.0, best_step = 0.0, worst = 0.0
        for t in range(self.m):
            slope = self.y[t] * self.e[t]
            if (slope > 0 and self.alpha[t] < self.upper[t]) or (slope < 0 and self.alpha[t] > 0):
                worst = max(worst, fabs(slope))
                step = clip(self.alpha[t] + slope / at_least(self.diagonal[t], 0.0), self.upper[t]) - self.alpha[t]
                gain = step * (slope - 0.5 * step * self.diagonal[t])
                if gain > best_gain:
                    best_gain, i, best_step = gain, t, step
        if i < 0 or worst <= self.target or self.steps >= self.most_steps:
            return worst if i >= 0 else 0.0
        self.alpha[i] = clip(self.alpha[i] + best_step, self.upper[i])
        wide_axpy(-best_step * self.y[i], self.kernel_row(i), self.e, self.m)
        self.steps += 1
        return INFINITY

    cdef int64_t step_on_free(self) noexcept nogil:
        """Step on all variables between their bounds together, if the steps since the last time took as long as that will.

        Returns what it has cost; the unit is a residual that a step on a pair updates.
        """
        cdef int64_t n = 0, t, cost, constraints
        for t in range(self.m):
            if 0.0 < self.alpha[t] < self.upper[t]:
                self.free[n] = t
                n += 1
        cost = cost_of_free_step(n, 0, self.m)
        self.next_free_step = self.last_free_step + cost // self.m
        if n < 2 or n > MOST_FREE:
            self.next_free_step = 2 * self.steps
        if self.steps < self.next_free_step or self.steps >= self.most_steps:
            return self.m
        self.describe_free(n)
        constraints = self.free_step.maximise(self.free_bias)
        if constraints >= 0:
            self.change_free(n)
        self.steps += (n + 1) // 2 if self.free_bias else n
        cost = cost_of_free_step(n, constraints, self.m)
        self.last_free_step, self.next_free_step = self.steps, self.steps + cost // self.m
        return cost

    cdef void describe_free(self, int64_t n) noexcept nogil:
        """The dual as a function of the change of the free beta = alpha y, with a ridge that bounds the change.

        Along directions in which the kernel matrix is next to singular, its maximum is far beyond the bounds. The ridge is such that the
        largest residual moves a variable by no more than about its range; it vanishes as the residuals do.
        """
        cdef int64_t k, j, t
        cdef double ridge = 0.0, ranges = 0.0, largest = 0.0, b = self.bias()
        cdef const double* row
        cdef double* own
        self.free_step.begin(n)
        for k in range(n):
            t = self.free[k]
            self.free_step.gradient[k] = self.e[t] - b
            self.free_step.lower[k] = -room(-self.y[t], self.alpha[t], self.upper[t])
            self.free_step.upper[k] = room(self.y[t], self.alpha[t], self.upper[t])
            largest = max(largest, fabs(self.free_step.gradient[k]))
            ridge += LEAST_RIDGE * fabs(self.diagonal[t])
            ranges += self.upper[t]
        ridge = ridge / n + largest * n / ranges
        for k in range(n):
            row, own = self.kernel_row(self.free[k]), self.free_step.Q + k * self.free_step.size
            for j in range(k + 1):
                own[j] = row[self.free[j]]
            own[k] += ridge

    cdef void change_free(self, int64_t n) noexcept nogil:
        """Make the step that was found, unless the dual would lose by it: kernels that are given may be those of no inner product."""
        cdef int64_t k, t
        cdef double slope = 0.0, curvature = 0.0, step
        for t in range(self.m):
            self.change[t] = 0.0
        for k in range(n):
            wide_axpy(self.free_step.change[k], self.kernel_row(self.free[k]), self.change, self.m)
        for k in range(n):
            slope += self.free_step.change[k] * self.free_step.gradient[k]
            curvature += self.free_step.change[k] * self.change[self.free[k]]
        if not slope > 0.5 * curvature:
            return
        for k in range(n):
            t, step = self.free[k], self.free_step.change[k]
            self.alpha[t] = after_step(self.y[t] if step > 0 else -self.y[t], self.alpha[t], self.upper[t], fabs(step))
            self.set_penalties(t)
        wide_axpy(-1.0, self.change, self.e, self.m)
        self.find_ends()

    # What is known of the current problem

    cdef void find_ends(self) noexcept nogil:
        """The largest e of a sample whose y alpha can rise, and the least of one whose y alpha can fall."""
        cdef int64_t t
        self.high, self.low, self.best = -INFINITY, INFINITY, -1
        for t in range(self.m):
            if self.rising[t] == 0.0 and self.e[t] > self.high:
                self.high, self.best = self.e[t], t
            if self.falling[t] == 0.0 and self.e[t] < self.low:
                self.low = self.e[t]

    cdef void recompute(self) noexcept nogil:
        """The residuals from scratch, and what follows from them."""
        cdef int64_t t
        for t in range(self.m):
            self.e[t] = self.y[t]
        for t in range(self.m):
            if self.alpha[t] != 0.0:
                wide_axpy(-self.alpha[t] * self.y[t], self.kernel_row(t), self.e, self.m)
        for t in range(self.m):
            self.set_penalties(t)
        self.find_ends()

    cdef double bias(self) noexcept nogil:
        """The middle of where the bias may be."""
        if not self.free_bias:
            return 0.0
        if self.high == -INFINITY or self.low == INFINITY:
            return self.high if self.low == INFINITY else self.low
        return 0.5 * (self.high + self.low)

    cdef double gap(self, double* value) noexcept nogil:
        """The duality gap by the residuals as they are; `value` becomes the primal objective."""
        cdef int64_t t
        cdef double b = self.bias(), square = 0.0, losses = 0.0, total = 0.0, short
        for t in range(self.m):
            square += self.alpha[t] * (1.0 - self.y[t] * self.e[t])
            total += self.alpha[t]
            short = self.y[t] * (self.e[t] - b)
            losses += self.upper[t] * short if short > 0 else 0.0
        value[0] = 0.5 * square + losses
        return losses + square - total

    cdef double largest_response(self) noexcept nogil:
        cdef int64_t t
        cdef double largest = 1.0
        for t in range(self.m):
            largest = max(largest, fabs(self.y[t] - self.e[t]))
        return largest

    cdef void record(self, int64_t p, int64_t status) noexcept nogil:
        """Write the coefficients and the result of problem p: value, bound, and how far rounding may have moved both.

        The residuals have just been recomputed, so that each is off by at most the rounding of one sum of kernels: see
        `product_error_bound` in `kernels/rounding.py`, and `RegularizedSVM.rounding`.
        """
        cdef int64_t t, r, s, terms = 0
        cdef double b = self.bias(), value, off, decision, short, norm
        cdef double sum_g = 0.0, sum_h = 0.0, sum_norm = 0.0, total = 0.0, signed = 0.0, square = 0.0, losses = 0.0
        cdef double worse = 0.0, looser = 0.0, sums, least = INFINITY, largest = -INFINITY, biggest = 0.0, share = 0.0
        cdef Direction at
        at.margin_off = 0.0
        self.gap(&value)
        for r in range(self.n_ranges):
            for t in range(self.offset[r], self.offset[r + 1]):
                s = self.range_first[r] + t - self.offset[r]
                self.beta[self.row[self.starts[p] + r], s] = self.alpha[t] * self.y[t]
                biggest = max(biggest, self.diagonal[t])
                if self.alpha[t] != 0.0:
                    terms += 1
                    sum_g += self.alpha[t] * self.g[s]
                    sum_h += self.alpha[t] * self.h[s]
                    sum_norm += self.alpha[t] * sqrt(fabs(self.diagonal[t]))
                    total += self.alpha[t]
                    signed += self.alpha[t] * self.y[t]
                    square += self.alpha[t] * (1.0 - self.y[t] * self.e[t])
        sums = (terms + 1 + SUM_ROUNDINGS) * UNIT * SECOND_ORDER
        for r in range(self.n_ranges):
            for t in range(self.offset[r], self.offset[r + 1]):
                self.change[t] = 0.0
                if self.upper[t] <= 0.0:
                    continue
                s = self.range_first[r] + t - self.offset[r]
                norm = sqrt(fabs(self.diagonal[t]))
                off = self.g[s] * sum_g + 0.5 * (self.h[s] * total + sum_h) + sums * norm * sum_norm
                looser += 0.5 * self.alpha[t] * off
                decision = self.y[t] - self.e[t] + b
                short = 1.0 - self.y[t] * decision
                losses += self.upper[t] * short if short > 0 else 0.0
                off += 4.0 * UNIT * (fabs(self.y[t] - self.e[t]) + fabs(b))
                worse += self.upper[t] * (off + min(short, 0.0)) if short + off > 0 else 0.0
                least, largest = min(least, decision), max(largest, decision)
                share, at.margin_off = max(share, self.alpha[t] / self.upper[t]), max(at.margin_off, off)
                self.change[t] = 1.0 - short
        at.norm = at.dual_norm = sqrt(max(0.0, square))
        at.norm_off = at.dual_norm_off = sqrt(at.norm * at.norm + 2.0 * looser) - at.norm
        sums = (2 * self.m + SUM_ROUNDINGS) * UNIT * SECOND_ORDER
        worse += looser + sums * value
        looser += sums * total
        at.imbalance = fabs(signed) + self.m * UNIT * total if self.free_bias else 0.0
        # Classes that do not quite balance cost the bound their difference times the best bias, which is at most the largest
        # response, and a margin more.
        norm = sqrt(max(0.0, square + 2.0 * looser))
        off = value + worse - (total - 0.5 * square) + looser
        looser += at.imbalance * (1.0 + bound_on_responses(value, off, norm, at.imbalance, biggest))
        self.table[p, 0] = b
        self.table[p, 1] = value
        self.table[p, 2] = total - 0.5 * square
        self.table[p, 3] = worse
        self.table[p, 4] = looser
        self.table[p, 5] = square
        self.table[p, 6] = losses
        self.table[p, 7] = self.steps
        self.table[p, 8] = least
        self.table[p, 9] = largest
        self.table[p, 10] = status
        self.table[p, 11] = self.evaluations - self.evaluations_before
        self.table[p, 12] = share
        if not isnan(self.slack[p]):
            at.b, at.total, at.largest_norm, at.sum_rounding = b, total, sqrt(max(0.0, biggest)), sums
            record_margin(&self.table[p, 0], self.slack[p], self.change, self.upper, self.m, &at)


cdef inline int64_t cost_of_free_step(int64_t n, int64_t constraints, int64_t m) noexcept nogil:
    """What a step on n of m variables costs; the unit is a residual that a step on a pair updates.

    The factor of n^2 kernels takes n^3 / 6 multiply-adds, a constraint n^2, the update of residuals n m, and to gather takes n^2.
    """
    return n * (n * n // 20 + n * (1 + constraints // 2) + m // 2) + m


cdef inline int64_t padded(int64_t size) noexcept nogil:
    """The size of a range with its fillers."""
    return (size + block_samples - 1) // block_samples * block_samples
