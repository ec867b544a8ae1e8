// The loops of Newton's method over samples that are stored by feature: `columns` holds d features of `size` samples each, one
// feature after another. Symbols as in `newton.py`; the weight of a sample at the margin c is clip(h (top - c)) to [0, upper].
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "wide.hpp"

namespace maxmargin {

constexpr int64_t newton_tile = 512;  // samples at a time, so that their sums stay in the first-level cache
constexpr int64_t newton_lanes = 8;   // partial sums; `size` is a multiple of it

// What the weights a add up to, and how many of them have changed.
struct WeightSums {
    double total;    // sum of a_i
    double balance;  // sum of a_i y_i
    double curved;   // sum of q_i a_i^2
    double gap;      // what the samples add to the duality gap
    double moved;    // sum of m_i (a_i - centre_i)^2, with m_i = q_i for the squared hinge and 1 for the hinge
    int64_t changed;
};

// The objective at margins c, and how far rounding may have moved it.
struct ValueSums {
    double losses;  // sum of u_i loss(c_i)
    double worse;   // by how much it rises if each margin is off by as much as it may be
    double hinges;  // sum of u_i [1 - c_i]_+
    double least, largest;  // decision values of the samples with weight
};

// The dual at the weights p.
struct DualSums {
    double total;    // sum of p_i
    double balance;  // sum of p_i y_i, as if computed in twice the precision
    double curved;   // sum of q_i p_i^2
    double norms;    // sum of p_i |x_i|
};

static MAXMARGIN_INLINE double weight_at(double c, double top, double h, double upper) {
    double a = h * (top - c);
    a = a < upper ? a : upper;
    return a > 0.0 ? a : 0.0;
}

// out_i = y_i (<w, x_i> + b)
MAXMARGIN_WIDE static void signed_products(
    const double* columns, int64_t size, int64_t d, const double* w, double b, const double* y, double* out) {
    for (int64_t first = 0; first < size; first += newton_tile) {
        const int64_t count = size - first < newton_tile ? size - first : newton_tile;
        double* o = out + first;
        const double* x = columns + first;
        for (int64_t i = 0; i < count; ++i) o[i] = b;
        int64_t j = 0;
        for (; j + 4 <= d; j += 4) {
            const double *x0 = x + j * size, *x1 = x0 + size, *x2 = x1 + size, *x3 = x2 + size;
            const double w0 = w[j], w1 = w[j + 1], w2 = w[j + 2], w3 = w[j + 3];
#pragma omp simd
            for (int64_t i = 0; i < count; ++i) o[i] += (w0 * x0[i] + w1 * x1[i]) + (w2 * x2[i] + w3 * x3[i]);
        }
        for (; j < d; ++j) {
            const double* xj = x + j * size;
            const double wj = w[j];
#pragma omp simd
            for (int64_t i = 0; i < count; ++i) o[i] += wj * xj[i];
        }
        for (int64_t i = 0; i < count; ++i) o[i] *= y[first + i];
    }
}

// v_j = sum_i r_i x_ij
MAXMARGIN_WIDE static void sum_of_rows(const double* columns, int64_t size, int64_t d, const double* r, double* v) {
    int64_t j = 0;
    for (; j + 4 <= d; j += 4) {
        const double *x0 = columns + j * size, *x1 = x0 + size, *x2 = x1 + size, *x3 = x2 + size;
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t i = 0; i < size; ++i) {
            s0 += r[i] * x0[i];
            s1 += r[i] * x1[i];
            s2 += r[i] * x2[i];
            s3 += r[i] * x3[i];
        }
        v[j] = s0, v[j + 1] = s1, v[j + 2] = s2, v[j + 3] = s3;
    }
    for (; j < d; ++j) {
        const double* x = columns + j * size;
        double s = 0.0;
#pragma omp simd reduction(+ : s)
        for (int64_t i = 0; i < size; ++i) s += r[i] * x[i];
        v[j] = s;
    }
}

// sum_i a_i(c + t along) along_i: how hard the samples pull along a step.
MAXMARGIN_WIDE static double pull_along(
    double t, const double* c, const double* along, const double* top, const double* h, const double* upper, int64_t size) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; ++i) sum += weight_at(c[i] + t * along[i], top[i], h[i], upper[i]) * along[i];
    return sum;
}

// sum_i a_i b_i
MAXMARGIN_WIDE static double dot_of(const double* a, const double* b, int64_t size) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
    return sum;
}

// c <- c + t along and the weights a there; r_i becomes y_i times the change of a_i. If `optimal`, they are the best at c.
MAXMARGIN_WIDE static void step_along(
    double t, const double* along, const double* top, const double* h, const double* upper, const double* q,
    const double* centre, const double* y, bool smooth, bool optimal, int64_t size, double* c, double* a, double* r, WeightSums* sums) {
    double total = 0.0, balance = 0.0, curved = 0.0, gap = 0.0, moved = 0.0, changed = 0.0;
#pragma omp simd reduction(+ : total, balance, curved, moved, changed)
    for (int64_t i = 0; i < size; ++i) {
        const double at = c[i] + t * along[i], now = weight_at(at, top[i], h[i], upper[i]), change = now - a[i];
        c[i] = at;
        a[i] = now;
        r[i] = y[i] * change;
        total += now;
        balance += y[i] * now;
        curved += q[i] * now * now;
        moved += (smooth ? q[i] : 1.0) * (now - centre[i]) * (now - centre[i]);
        changed += change != 0.0 ? 1.0 : 0.0;
    }
    if (!optimal) {
#pragma omp simd reduction(+ : gap)
        for (int64_t i = 0; i < size; ++i) {
            const double raw = 1.0 - c[i], largest = q[i] > 0.0 ? raw / q[i] : smooth ? 0.0 : upper[i];
            const double best = raw > 0.0 ? largest : 0.0;
            gap += (best - a[i]) * (raw - 0.5 * q[i] * (best + a[i]));
        }
    }
    *sums = {total, balance, curved, gap, moved, static_cast<int64_t>(changed)};
}

// The least margin of a sample with weight.
MAXMARGIN_WIDE static double least_margin(const double* c, const double* u, int64_t size) {
    double least = std::numeric_limits<double>::infinity();
#pragma omp simd reduction(min : least)
    for (int64_t i = 0; i < size; ++i) {
        const double at = u[i] > 0.0 ? c[i] : std::numeric_limits<double>::infinity();
        least = at < least ? at : least;
    }
    return least;
}

// The value at margins c that are each off by at most off_factor |x_i| and 4 units of roundoff of the terms.
MAXMARGIN_WIDE static void sum_losses(
    const double* c, const double* y, const double* u, const double* norms, double off_factor, double unit, double b, bool smooth,
    int64_t size, ValueSums* sums) {
    double losses = 0.0, worse = 0.0, hinges = 0.0;
    const double infinity = std::numeric_limits<double>::infinity();
    double least = infinity, largest = -infinity;
#pragma omp simd reduction(+ : losses, worse, hinges) reduction(min : least) reduction(max : largest)
    for (int64_t i = 0; i < size; ++i) {
        const double off = off_factor * norms[i] + 4.0 * unit * (std::fabs(c[i] - y[i] * b) + std::fabs(b));
        const double raw = 1.0 - c[i], low = raw > 0.0 ? raw : 0.0, high = raw + off > 0.0 ? raw + off : 0.0;
        const double decision = y[i] * c[i], above = u[i] > 0.0 ? decision : infinity, below = u[i] > 0.0 ? decision : -infinity;
        losses += u[i] * (smooth ? low * low : low);
        worse += u[i] * (smooth ? (high - low) * (high + low) : high - low);
        hinges += u[i] * low;
        least = above < least ? above : least;
        largest = below > largest ? below : largest;
    }
    *sums = {losses, worse, hinges, least, largest};
}

// The weights p = a times the factor of their class, r = p y, and the sums of the dual.
MAXMARGIN_WIDE static void scale_classes(
    const double* a, const double* y, const double* q, const double* norms, double up, double down, int64_t size, double* p,
    double* r, DualSums* sums) {
    double total = 0.0, curved = 0.0, all_norms = 0.0;
    double s[newton_lanes] = {0.0}, lost[newton_lanes] = {0.0};
#pragma omp simd reduction(+ : total, curved, all_norms)
    for (int64_t i = 0; i < size; ++i) {
        p[i] = a[i] * (y[i] > 0.0 ? up : down);
        r[i] = p[i] * y[i];
        total += p[i];
        curved += q[i] * p[i] * p[i];
        all_norms += p[i] * norms[i];
    }
    // Each sum keeps what its additions have lost (Knuth's exact sum of two numbers).
    for (int64_t i = 0; i < size; i += newton_lanes)
        for (int k = 0; k < newton_lanes; ++k) {
            const double sum = s[k] + r[i + k], part = sum - s[k];
            lost[k] += (s[k] - (sum - part)) + (r[i + k] - part);
            s[k] = sum;
        }
    double balance = 0.0, rest = 0.0;
    for (int k = 0; k < newton_lanes; ++k) {
        const double sum = balance + s[k], part = sum - balance;
        rest += ((balance - (sum - part)) + (s[k] - part)) + lost[k];
        balance = sum;
    }
    *sums = {total, balance + rest, curved, all_norms};
}

// now_i = whether 0 < a_i < upper_i
MAXMARGIN_WIDE static void flag_between(const double* a, const double* upper, int64_t size, int8_t* now) {
    for (int64_t i = 0; i < size; ++i) now[i] = static_cast<int8_t>((a[i] > 0.0) & (a[i] < upper[i]));
}

// The samples whose flags differ, by what they become; the number of flags that are set. Eight flags at a time, as most are equal.
static void list_changes(
    const int8_t* now, const int8_t* before, int64_t size, int64_t* entering, int64_t* n_entering, int64_t* leaving,
    int64_t* n_leaving, int64_t* n_set) {
    int64_t e = 0, l = 0, set = 0;
    for (int64_t i = 0; i < size; i += newton_lanes) {
        uint64_t word, old;
        std::memcpy(&word, now + i, newton_lanes);
        std::memcpy(&old, before + i, newton_lanes);
        set += static_cast<int64_t>((word * 0x0101010101010101u) >> 56);  // the sum of its bytes
        if (word == old) continue;
        for (int64_t k = i; k < i + newton_lanes; ++k) {
            entering[e] = leaving[l] = k;
            e += now[k] & ~before[k] & 1;
            l += before[k] & ~now[k] & 1;
        }
    }
    *n_entering = e, *n_leaving = l, *n_set = set;
}

// Rows (x_i, last) of a matrix by rows, each times its root, into Z.
MAXMARGIN_WIDE static void gather_rows(
    const double* X, int64_t d, const int64_t* rows, const double* roots, int64_t count, double last, double* Z) {
    for (int64_t k = 0; k < count; ++k) {
        const double* x = X + rows[k] * d;
        const double root = roots[k];
        double* z = Z + k * (d + 1);
        for (int64_t j = 0; j < d; ++j) z[j] = root * x[j];
        z[d] = root * last;
    }
}

}  // namespace maxmargin
