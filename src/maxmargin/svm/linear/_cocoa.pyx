# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The visits of CoCoA+ to the samples of one unit. Symbols as in `cocoa.py`.

A visit to sample i maximises the unit's own subproblem over alpha_i alone, which costs one row. With w and b those of the
unit, which its own changes move sigma times as far as those of the driver,

  c = y_i (<w, x_i> + b),
  alpha_i <- alpha_i + (1 - c - q_i alpha_i) / (sigma (|x_i|^2 + rho) + q_i), clipped to [0, U_i].

With sigma = 1, this is the visit of `_sdca.pyx`.
"""

from libc.math cimport fabs, fmax, fmin
from libc.stdint cimport int64_t

from maxmargin.core._matrix cimport Lines, Matrix

cdef double LEAST_VIOLATION = 1e-12  # smaller projected gradients change nothing


cdef inline double gap_term(double short, double a, double upper, double q) noexcept nogil:
    """The term of a sample in the gap: its loss, attained at `best`, minus its term of the dual."""
    cdef double best = fmin(short / q, upper) if q > 0 else upper
    best = best if short > 0 else 0.0
    return (best - a) * (short - 0.5 * q * (best + a))


def visit(
    Matrix X,
    int64_t first,
    int64_t[::1] order,
    const double[::1] y,
    const double[::1] upper,
    const double[::1] q,
    const double[::1] sq_norms,
    double[::1] alpha,
    double[::1] w,
    double b,
    double rho,
    double sigma,
    double clearly_out,
    const double[::1] primal_w,
    double primal_b,
):
    """Visit the rows `order` of X, of which row `first` is that of sample 0; change alpha and w.

    A sample at a bound whose gradient points out of the box, and is larger than `clearly_out`, becomes inactive. The gap
    is that of `primal_w` and `primal_b`; it is not computed if `primal_w` is None.

    Returns
    -------
    active : int
        How many samples stay active: their rows stand at the front of `order`.
    b : float
        The bias of the unit after its own changes.
    gap : float
        The sum of the terms of the samples in the gap, with each dual variable as it was before its visit.
    violation : float
        The sum of the absolute projected gradients of the samples that stay active.
    """
    cdef Lines* rows = X.need_rows()
    cdef int64_t position, row, i, active = 0, count = order.shape[0]
    cdef double short, gradient, projected, a, change, gap = 0, violation = 0
    X.group(order, count)
    with nogil:
        for position in range(count):
            row = order[position]
            if position + 1 < count:
                rows.prefetch(order[position + 1])
            i = row - first
            short = 1.0 - y[i] * (rows.dot(row, &w[0]) + b)
            a = alpha[i]
            gradient = q[i] * a - short
            projected = gradient
            if a <= 0:
                projected = fmin(gradient, 0.0)
            elif a >= upper[i]:
                projected = fmax(gradient, 0.0)
            if primal_w is not None:
                gap += gap_term(1.0 - y[i] * (rows.dot(row, &primal_w[0]) + primal_b), a, upper[i], q[i])
            if projected == 0 and fabs(gradient) > clearly_out:
                continue
            order[position] = order[active]
            order[active] = row
            active += 1
            violation += fabs(projected)
            if fabs(projected) > LEAST_VIOLATION:
                change = sigma * (sq_norms[i] + rho) + q[i]
                change = fmin(fmax(a - gradient / change, 0.0), upper[i]) - a
                alpha[i] = a + change
                change *= y[i]
                rows.axpy(row, sigma * change, &w[0])
                b += sigma * rho * change
    return active, b, gap, violation
