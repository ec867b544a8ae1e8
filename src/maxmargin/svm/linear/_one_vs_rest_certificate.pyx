# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The certificate of a binary problem that `_one_vs_rest.pyx` solves.

Given: w and b with the margins c, and weights a with their sum v. Returned: the value at (w, b), a dual point p made of the weights
with the bound that it proves, and how far rounding may have moved both, see `RegularizedSVM.rounding`.
"""

from libc.math cimport fabs, isnan, sqrt
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from maxmargin.svm.many_problems cimport Direction, bound_on_responses, record_margin

cdef extern from "newton_loops.hpp" namespace "maxmargin" nogil:
    void sum_of_rows(const double* columns, int64_t size, int64_t d, const double* r, double* v)
    double least_margin(const double* c, const double* u, int64_t size)
    void sum_losses(
        const double* c, const double* y, const double* u, const double* norms, double off_factor, double unit, double b,
        bint smooth, int64_t size, ValueSums* sums,
    )
    void scale_classes(
        const double* a, const double* y, const double* q, const double* norms, double up, double down, int64_t size,
        double* p, double* r, DualSums* sums,
    )

cdef double UNIT = 2.0 ** -53  # the unit roundoff of float64
cdef double SUM_ROUNDINGS = 16.0  # roundings of a sum besides one for each term, as in `core/rounding.py`
cdef double BALANCED = 1e-12  # share of the weights by which rounding may have put the classes off balance, as in `margin.py`
cdef double STRETCHABLE = 0.9  # least margin from which on w may be multiplied to bring all margins to 1


cdef class LinearCertificate:
    """Value and bound of the current problem. `NewtonRun`, which owns it, sets where the numbers of the problem are."""

    cdef void evaluate(self, double b) noexcept nogil:
        """The value at (w, b)."""
        cdef int64_t j
        self.sq_norm = 0.0
        for j in range(self.d):
            self.sq_norm += self.w[j] * self.w[j]
        sum_losses(
            self.c, self.y, self.u, self.norms, relative_error(self.d + SUM_ROUNDINGS) * sqrt(self.sq_norm), UNIT, b,
            self.smooth, self.m, &self.losses,
        )
        self.value = 0.5 * self.sq_norm + self.losses.losses + 0.5 * self.stiffness * b * b
        self.value_rounding = self.losses.worse + relative_error(2 * self.n + SUM_ROUNDINGS) * self.value

    cdef double stretch_factor(self, double b) noexcept nogil:
        """A number above 1 that brings all margins to 1 when w and b are multiplied by it, or 0 where that is no better.

        On separable data a large C multiplies shortfalls that are little more than rounding.
        """
        cdef double least = least_margin(self.c, self.u, self.m), off, factor
        off = 2.0 * relative_error(self.d + 2 * SUM_ROUNDINGS) * (sqrt(self.sq_norm * self.largest_sq_norm) + fabs(b))
        if not (STRETCHABLE < least < 1.0 + off):
            return 0.0
        factor = (1.0 + off) / least
        if not (self.value - self.losses.losses) * factor * factor < self.value + self.losses.worse:
            return 0.0
        return factor

    cdef int64_t prove(self, double total, double balance) noexcept nogil:
        """The dual point and its bound, from weights with the sums of a_i and of a_i y_i; the multiply-adds that it took."""
        cdef int64_t j, operations = 0
        cdef double up, down, scale, size = 0.0, quadratic, off, gap, sums = relative_error(2 * self.n + SUM_ROUNDINGS)
        # The dual at the weights, with a free bias those of the heavier class scaled down.
        memcpy(self.dual_v, self.v, self.d * sizeof(double))
        up, down = 0.5 * (total + balance), 0.5 * (total - balance)
        if self.free_bias and fabs(balance) > BALANCED * max(up, down):
            up, down = sum_of_class(self.a, self.y, 1.0, self.m), sum_of_class(self.a, self.y, -1.0, self.m)
            scale = min(up, down)
            self.scale_weights(self.a, scale / up if up > 0 else 0.0, scale / down if down > 0 else 0.0)
            sum_of_rows(self.by_feature, self.m, self.d, self.r, self.dual_v)
            operations += self.m * self.d
        else:
            self.scale_weights(self.a, 1.0, 1.0)
        for j in range(self.d):
            size += self.dual_v[j] * self.dual_v[j]
        quadratic = self.sums.curved + size + (self.B * self.sums.balance) ** 2
        # On the ray through the weights the bound is a parabola: go to its top, as far as the box allows.
        scale = self.sums.total / quadratic if quadratic > 0 else 1.0
        if fabs(scale - 1.0) > 1e-9 and (scale < 1.0 or self.smooth):
            self.scale_weights(self.p, scale, scale)
            for j in range(self.d):
                self.dual_v[j] *= scale
            size *= scale * scale
            quadratic = self.sums.curved + size + (self.B * self.sums.balance) ** 2
        self.bound = self.sums.total - 0.5 * quadratic
        off, size = relative_error(self.n + SUM_ROUNDINGS) * self.sums.norms, sqrt(size)
        self.bound_rounding = 0.5 * (2.0 * size * off + off * off + relative_error(self.d) * size * size)
        self.bound_rounding += sums * (self.sums.total + 0.5 * self.sums.curved + (self.B * self.sums.balance) ** 2)
        if self.free_bias:
            # Classes that do not quite balance cost the bound their difference times the best bias, which is at most the
            # largest response, and a margin more.
            off = fabs(self.sums.balance) + UNIT * self.sums.total
            gap = self.value + self.value_rounding - self.bound + self.bound_rounding
            size = sqrt(size * size + 2.0 * self.bound_rounding)
            self.bound_rounding += off * (1.0 + bound_on_responses(self.value, gap, size, off, self.largest_sq_norm))
        return operations

    cdef void scale_weights(self, const double* weights, double up, double down) noexcept nogil:
        """The dual point p: weights times the factor of their class."""
        scale_classes(weights, self.y, self.q, self.norms, up, down, self.m, self.p, self.r, &self.sums)

    cdef double relative_gap(self) noexcept nogil:
        """As a certificate has it, allowances for rounding included; a bound below 0 is one of 0."""
        cdef double value = self.value + self.value_rounding, bound = max(self.bound - self.bound_rounding, 0.0)
        return (value - bound) / value if value > 0 else 0.0

    cdef void record(self, double b, double slack, double* row) noexcept nogil:
        """Write its columns of a row of the table, of the slack form if a slack is given, which is NaN if not."""
        row[0] = b
        row[1] = self.value
        row[2] = self.bound
        row[3] = self.value_rounding
        row[4] = self.bound_rounding
        row[5] = self.sq_norm
        row[6] = self.losses.hinges
        row[8] = self.losses.least
        row[9] = self.losses.largest
        row[12] = self.largest_share()
        if not isnan(slack):
            self.record_slack_form(b, slack, row)

    cdef double largest_share(self) noexcept nogil:
        """The largest dual variable as a share of its upper bound."""
        cdef int64_t i
        cdef double largest = 0.0
        for i in range(self.n):
            if self.u[i] > 0.0:
                largest = max(largest, self.p[i] / self.u[i])
        return largest

    cdef void record_slack_form(self, double b, double slack, double* row) noexcept nogil:
        """Write value and bound of the slack form, see `svm/many_problems.pxd`."""
        cdef Direction at
        cdef int64_t j
        cdef double off, square = 0.0
        at.norm, at.b = sqrt(self.sq_norm), b
        at.norm_off = relative_error(self.d) * at.norm
        at.margin_off = relative_error(self.d + SUM_ROUNDINGS) * at.norm * sqrt(self.largest_sq_norm) + 4.0 * UNIT * fabs(b)
        for j in range(self.d):
            square += self.dual_v[j] * self.dual_v[j]
        off = relative_error(self.n + SUM_ROUNDINGS) * self.sums.norms
        at.dual_norm = sqrt(square)
        at.dual_norm_off = off + relative_error(self.d) * at.dual_norm
        at.total, at.largest_norm = self.sums.total, sqrt(self.largest_sq_norm)
        at.imbalance = fabs(self.sums.balance) + UNIT * self.sums.total if self.free_bias else 0.0
        at.sum_rounding = relative_error(2 * self.n + SUM_ROUNDINGS)
        record_margin(row, slack, self.c, self.u, self.m, &at)


cdef inline double relative_error(double terms) noexcept nogil:
    """By how much a sum of so many products can be off, as a share of the sum of their sizes: see `core/rounding.py`."""
    return terms * UNIT / (1.0 - terms * UNIT)


cdef double sum_of_class(const double* a, const double* y, double sign, int64_t size) noexcept nogil:
    cdef int64_t i
    cdef double total = 0.0
    for i in range(size):
        if y[i] == sign:
            total += a[i]
    return total
