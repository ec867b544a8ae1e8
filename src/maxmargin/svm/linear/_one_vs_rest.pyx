# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Newton's method for many binary problems on samples that they share, one problem after another without the GIL.

The method and the symbols are those of `newton.py`: margins c, weights a = clip(h (top - c)) to [0, U] with the slopes
h = 1 / (q + softness m) and top = 1 + softness m centre, their sum v = sum a_i y_i x_i, and `products`, the sum of
(x_i, 1)(x_i, 1)^T / m_i over the samples strictly between their bounds; m is q for the squared hinge and 1 for the hinge. All
samples are in use from the first iteration on.

Samples are stored twice: by row, from where the few that enter or leave `products` are gathered, and by feature, so that loops
over samples are vectorised. Samples of weight 0 fill their number up to a multiple of `LANES`.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, isfinite, sqrt
from libc.stdint cimport int8_t, int64_t
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport dsyrk
from scipy.linalg.cython_lapack cimport dposv

from maxmargin.svm.linear._one_vs_rest_certificate cimport LinearCertificate
from maxmargin.svm.many_problems cimport EXHAUSTED, MAX_ITER, TOL, UNFINISHED

cdef extern from "newton_loops.hpp" namespace "maxmargin" nogil:
    const int64_t newton_lanes

    cdef struct WeightSums:
        double total, balance, curved, gap, moved
        int64_t changed

    void signed_products(
        const double* columns, int64_t size, int64_t d, const double* w, double b, const double* y, double* out
    )
    void sum_of_rows(const double* columns, int64_t size, int64_t d, const double* r, double* v)
    double pull_along(
        double t, const double* c, const double* along, const double* top, const double* h, const double* upper, int64_t size
    )
    double dot_of(const double* a, const double* b, int64_t size)
    void step_along(
        double t, const double* along, const double* top, const double* h, const double* upper, const double* q,
        const double* centre, const double* y, bint smooth, bint optimal, int64_t size, double* c, double* a, double* r, WeightSums* sums,
    )
    void flag_between(const double* a, const double* upper, int64_t size, int8_t* now)
    void list_changes(
        const int8_t* now, const int8_t* before, int64_t size, int64_t* entering, int64_t* n_entering, int64_t* leaving,
        int64_t* n_leaving, int64_t* n_set,
    )
    void gather_rows(
        const double* X, int64_t d, const int64_t* rows, const double* roots, int64_t count, double last, double* Z
    )

cdef extern from "rows.hpp" namespace "maxmargin" nogil:
    void wide_axpy(double a, const double* x, double* v, int64_t size)

LANES = newton_lanes

cdef double NOTHING = 1e-16  # share of the objective: a step that gains less is below rounding
cdef double LEAST_GAP = 1e-10  # relative duality gap below which a problem ends if the gap does not fall any more:
cdef int64_t MOST_STALLS = 3  # so many iterations in which it did not fall by half
cdef double SOLVED = 0.5  # a centre moves when the gradient is this small beside the move: from 0.3 to 1 fits take as long
cdef double MANY_STEPS = 12.0  # with fewer from one centre to the next, the softness is multiplied by their number over this one
cdef double FIRST_CURVATURE = 1e-2  # q + softness m of a softened loss to begin with, at least, in units of the mean |x|^2
cdef double WARM_WIDTH = 0.3  # softness of a problem that begins at the solution for another C, times the mean U: from 0.1 to 1 fits take as long
cdef double SHORT_STEP = 0.1  # share of Newton's step below which the squared hinge is softened
cdef double LEAST_SOFTNESS = 1e-9  # softness at the end, at least, in the same units: errors of weights are those of margins over it
cdef double COARSE = 1e-4  # share of the bounds U from which on the weights are taken to grow to them
cdef double FIRST_WIDTH = 1.5  # half of the width of the rounded kink of the hinge to begin with, at w = 0
cdef double FEW_CHANGES = 0.25  # share of samples up to which v is updated by those that changed, and not computed anew
cdef double STEEPNESS = 0.1  # a line search ends where the slope has fallen to this share of the slope that it began with
cdef double NEARLY = 30.0  # times the tolerance: the gap from which on the centres of the proximal point method are certified
cdef double STIFF_ENOUGH = 1e-9  # relative duality gap below which the softness stays as it is: less would only add rounding
cdef int64_t MOST_TRIALS = 50  # of a line search
cdef enum:
    BLOCK = 256  # rows that are gathered at a time: 100 KB for 50 features


cdef class NewtonRun:
    """The binary problems that one thread solves, and the state of the current one.

    Parameters
    ----------
    samples : SharedSamples
        The samples of all problems, see `one_vs_rest.py`.
    problems : OneVsRestProblems
        The positive class and the weights of each problem.
    which : array of int
        The problems of this run, in this order.
    targets : Targets
        What is asked of each problem, see `svm/many_problems.py`.
    smooth : bool
        Whether the loss is the squared hinge; else it is the hinge.
    bias : bool
    bias_feature : float
        B of a penalised bias, which is the weight of a feature of this value; 0: a bias is free.
    max_iter : int
        Iterations after which a problem ends.
    coef : array of shape (n_problems, d)
    alpha : array of shape (n_problems, n), or (0, n) where nobody asks for it
        The point of the dual that proves the bound.
    table : array of shape (n_problems, RESULT_COLUMNS)
        Where the results go; where a problem begins at a solution, these three hold it.
    """

    cdef const double[:, ::1] X, by_feature, shared_products
    cdef const double[::1] weights, norms, positive_weight, rest_weight, C_of_all, tol_of_all, slack, last_C
    cdef const int64_t[::1] label, classes, which
    cdef double[:, ::1] coef, alpha_of_all, table
    cdef bint smooth, bias, free_bias, begun, solved, fresh, stretched
    cdef double C, B, stiffness, tol, mean_sq_norm, largest_sq_norm
    cdef int64_t n, m, d, max_iter, iterations, stalls, centre_since
    cdef double[::1] work_space
    cdef int64_t[::1] row_space
    cdef int8_t[::1] flag_space
    cdef int8_t *inside  # which samples are in `products`
    cdef int8_t *now_inside
    # One number for each sample.
    cdef double *y
    cdef double *u
    cdef double *upper
    cdef double *q
    cdef double *h
    cdef double *top
    cdef double *centre
    cdef double *c
    cdef double *a
    cdef double *r
    cdef double *along
    cdef double *p
    cdef double *roots
    cdef int64_t *entering
    cdef int64_t *leaving
    # One for each feature, then of a matrix of d + 1 rows and columns.
    cdef double *w
    cdef double *kept_w
    cdef double *v
    cdef double *dual_v
    cdef double *step
    cdef double *products
    cdef double *H
    cdef double *Z
    cdef double b, softness, reserve, total_u, gap, primal, best_gap, tried_gap, kept_b
    cdef WeightSums sums
    cdef LinearCertificate certificate
    cdef int64_t operations  # multiply-adds since the last call, about
    cdef readonly int64_t position  # how many problems are done

    def __init__(
        self, samples, problems, which, targets, bint smooth, bint bias, double bias_feature, int64_t max_iter, coef, alpha,
        table,
    ):
        self.X, self.by_feature, self.shared_products = samples.X, samples.by_feature, samples.products
        self.weights, self.norms, self.label = samples.weights, samples.norms, samples.label
        self.classes, self.which = problems.classes, which
        self.positive_weight, self.rest_weight = problems.positive_weight, problems.rest_weight
        self.coef, self.alpha_of_all, self.table = coef, alpha, table
        self.C_of_all, self.tol_of_all, self.slack, self.last_C = targets.C, targets.tol, targets.slack, targets.last_C
        self.smooth, self.bias, self.max_iter = smooth, bias, max_iter
        self.B = bias_feature if bias else 0.0
        self.free_bias = bias and bias_feature == 0
        self.stiffness = 1.0 / self.B ** 2 if self.B > 0 else 0.0
        self.largest_sq_norm = samples.largest_sq_norm
        # Of rows with the feature of the bias.
        self.mean_sq_norm = samples.mean_sq_norm + (self.B ** 2 if self.B > 0 else bias)
        if self.mean_sq_norm == 0:
            self.mean_sq_norm = 1.0
        self.n, self.d, self.m = self.X.shape[0], self.X.shape[1], self.by_feature.shape[1]
        self.position, self.begun = 0, False
        cdef int64_t m = self.m, D = self.d + 1, rows = min(<int64_t>BLOCK, m)
        self.work_space = np.zeros(13 * m + 5 * D + 2 * D * D + rows * D)
        self.row_space = np.empty(2 * (m + 1), dtype=np.int64)
        self.flag_space = np.empty(2 * m, dtype=np.int8)
        cdef double* free = &self.work_space[0]
        self.y, self.u, self.upper, self.q = free, free + m, free + 2 * m, free + 3 * m
        self.h, self.top = free + 4 * m, free + 5 * m
        self.centre, self.c, self.a, self.r = free + 6 * m, free + 7 * m, free + 8 * m, free + 9 * m
        self.along, self.p, self.roots = free + 10 * m, free + 11 * m, free + 12 * m
        free += 13 * m
        self.w, self.v, self.dual_v, self.step, self.kept_w = free, free + D, free + 2 * D, free + 3 * D, free + 4 * D
        free += 5 * D
        self.products, self.H, self.Z = free, free + D * D, free + 2 * D * D
        self.entering, self.leaving = &self.row_space[0], &self.row_space[m + 1]
        self.inside, self.now_inside = &self.flag_space[0], &self.flag_space[m]
        self.certificate = self.new_certificate()

    cdef LinearCertificate new_certificate(self):
        """What proves the current problem, in the memory of this run."""
        cdef LinearCertificate certificate = LinearCertificate()
        certificate.n, certificate.m, certificate.d = self.n, self.m, self.d
        certificate.smooth, certificate.free_bias = self.smooth, self.free_bias
        certificate.B, certificate.stiffness, certificate.largest_sq_norm = self.B, self.stiffness, self.largest_sq_norm
        certificate.by_feature, certificate.norms = &self.by_feature[0, 0], &self.norms[0]
        certificate.y, certificate.u, certificate.q = self.y, self.u, self.q
        certificate.w, certificate.c, certificate.a, certificate.v = self.w, self.c, self.a, self.v
        certificate.p, certificate.r, certificate.dual_v = self.p, self.r, self.dual_v
        return certificate

    @property
    def done(self) -> bool:
        """Whether all problems have ended."""
        return self.position == self.which.shape[0]

    def advance(self, int64_t max_operations) -> None:
        """Go on with the problems, until an iteration has used up so many multiply-adds."""
        self.operations = 0
        with nogil:
            while self.position < self.which.shape[0] and self.operations < max_operations:
                if not self.begun:
                    self.begin(self.which[self.position])
                if self.iterate():
                    self.end()

    def finish(self, int64_t iterations) -> None:
        """End the problems that are left after at most so many iterations each, for a fit that has to stop."""
        cdef int64_t k
        cdef bint ended
        with nogil:
            while self.position < self.which.shape[0]:
                if not self.begun:
                    self.begin(self.which[self.position])
                ended = False
                for k in range(iterations):
                    if not ended:
                        ended = self.iterate()
                if not ended:
                    self.conclude(UNFINISHED)
                self.end()

    cdef void end(self) noexcept nogil:
        self.begun = False
        self.position += 1

    cdef void begin(self, int64_t p) noexcept nogil:
        """Set up problem p at w = 0, b = 0, where all samples are between their bounds unless their weights are uneven.

        Or at a solution for another C, with the shares that its dual variables have of their bounds as the centre.
        """
        cdef int64_t i, used = 0, D = self.d + 1
        cdef bint warm = self.last_C[p] > 0
        cdef double positive = self.positive_weight[p], rest = self.rest_weight[p], mean
        self.C, self.tol, self.total_u = self.C_of_all[p], self.tol_of_all[p], 0.0
        for i in range(self.m):
            self.c[i] = self.a[i] = self.centre[i] = self.q[i] = 0.0
            self.y[i], self.u[i] = -1.0, 0.0
            if i < self.n:
                if self.label[i] == self.classes[p]:
                    self.y[i] = 1.0
                self.u[i] = self.C * (self.weights[i] * (positive if self.y[i] > 0 else rest))
            self.total_u += self.u[i]
            used += self.u[i] > 0
        self.softness = self.reserve = 0.0
        mean = self.total_u / max(used, 1)
        if self.smooth:
            for i in range(self.m):
                self.upper[i] = INFINITY if self.u[i] > 0 else 0.0
                self.q[i] = 0.5 / self.u[i] if self.u[i] > 0 else 0.0
            # To be taken at the first short step.
            self.reserve = at_least_1(FIRST_CURVATURE * self.mean_sq_norm * 2.0 * mean)
        else:
            self.softness = max(2.0 * FIRST_WIDTH / mean if mean > 0 else 1.0, FIRST_CURVATURE * self.mean_sq_norm)
            for i in range(self.m):
                self.upper[i] = self.u[i]
                # Where C is so large that U says nothing of the weights to come, they begin at 0.
                self.centre[i] = 0.5 * self.u[i] if self.softness * mean <= 2.0 * FIRST_WIDTH * (1.0 + 1e-9) else 0.0
        memset(self.w, 0, D * sizeof(double))
        memset(self.v, 0, D * sizeof(double))
        self.b, self.iterations, self.stalls, self.solved = 0.0, 0, 0, False
        self.gap = self.best_gap = self.tried_gap = INFINITY
        self.primal = 0.0
        if warm:
            self.begin_at_solution(p)
        else:
            self.soften()
            self.reweigh(0.0)
            self.begin_products(p, positive, rest)
        self.centre_since = self.iterations
        self.begun = self.fresh = True

    cdef void begin_at_solution(self, int64_t p) noexcept nogil:
        """Begin at the solution that was recorded for problem p with another C, of the hinge."""
        cdef int64_t i
        cdef double ratio = self.C / self.last_C[p]
        memcpy(self.w, &self.coef[p, 0], self.d * sizeof(double))
        self.b, self.iterations = self.table[p, 0], <int64_t>self.table[p, 7]
        self.softness = max(WARM_WIDTH * self.n / self.total_u, LEAST_SOFTNESS * self.mean_sq_norm)
        for i in range(self.n):
            self.centre[i] = min(self.u[i], ratio * self.alpha_of_all[p, i])
        memset(self.inside, 0, self.m)
        memset(self.products, 0, (self.d + 1) * (self.d + 1) * sizeof(double))
        self.soften()
        self.refresh()

    cdef void begin_products(self, int64_t p, double positive, double rest) noexcept nogil:
        """The products over all samples with weight, from those that all problems share."""
        cdef int64_t i, D = self.d + 1, own = 0
        cdef double factor = 2.0 * self.C * rest if self.smooth else 1.0, root
        memset(self.inside, 0, self.m)
        memset(self.products, 0, D * D * sizeof(double))
        for i in range(self.n):
            own += self.y[i] > 0
        if positive <= 0 or rest <= 0 or (self.smooth and positive != rest and 2 * own > self.n):
            return
        for i in range(D * D):
            self.products[i] = factor * (&self.shared_products[0, 0])[i]
        for i in range(self.n):
            self.inside[i] = self.u[i] > 0
        if self.smooth and positive != rest:
            own, root = 0, sqrt(2.0 * self.C * fabs(positive - rest))
            for i in range(self.n):
                if self.y[i] > 0 and self.u[i] > 0:
                    self.entering[own], self.roots[own] = i, root * sqrt(self.weights[i])
                    own += 1
            self.add_products(self.entering, own, 1.0 if positive > rest else -1.0)

    cdef void soften(self) noexcept nogil:
        """Slopes and tops of the weights, after the softness or the centre has changed."""
        cdef int64_t i
        for i in range(self.m):
            self.h[i] = self.inverse_m(i) / (self.softness + self.smooth)
            self.top[i] = 1.0 + (self.softness * self.centre[i] / self.inverse_m(i) if self.centre[i] > 0 else 0.0)

    cdef double inverse_m(self, int64_t i) noexcept nogil:
        """1 / m_i, which is 2 u_i for the squared hinge and 1 for the hinge; 0 for a sample without weight."""
        return (2.0 * self.u[i] if self.smooth else 1.0) if self.u[i] > 0 else 0.0

    # An iteration

    cdef bint iterate(self) noexcept nogil:
        """One iteration; whether the problem has ended, its result recorded."""
        cdef double slope, t
        cdef int64_t j
        if self.iterations >= self.max_iter:
            return self.conclude(MAX_ITER)
        self.iterations += 1
        if self.solved:
            self.move_centre()
        slope = self.find_direction()
        if not slope < -NOTHING * self.primal:
            return self.go_on_without_step()
        signed_products(&self.by_feature[0, 0], self.m, self.d, self.step, self.step[self.d], self.y, self.along)
        self.operations += self.m * self.d
        t = self.line_search(slope)
        for j in range(self.d):
            self.w[j] += t * self.step[j]
        self.b += t * self.step[self.d]
        self.reweigh(t)
        self.fresh, self.tried_gap = False, INFINITY
        if t < SHORT_STEP and self.reserve > 0:
            self.softness, self.reserve = self.reserve, 0.0
            self.soften()
            self.reweigh(0.0)
        self.measure()
        return self.conclude_if_proved() if self.is_nearly_solved() else False

    cdef void move_centre(self) noexcept nogil:
        """The weights become the next centre of the proximal point method."""
        memcpy(self.centre, self.a, self.m * sizeof(double))
        if self.may_stiffen():
            self.softness *= min(1.0, max(1, self.iterations - self.centre_since) / MANY_STEPS)
            if self.smooth:
                self.softness = at_least_1(self.softness)
        self.centre_since = self.iterations
        self.solved = False
        self.soften()
        self.reweigh(0.0)

    cdef bint may_stiffen(self) noexcept nogil:
        """Whether less softness would help: not if rounding would decide on the weights, or the problem is nearly solved."""
        cdef double least = LEAST_SOFTNESS * self.mean_sq_norm
        if self.sums.total > COARSE * self.total_u:
            least *= 1e-3  # weights that grow to their bounds are off by little, as a share of them
        return (self.smooth or self.softness > least) and self.gap > STIFF_ENOUGH * self.primal

    cdef bint go_on_without_step(self) noexcept nogil:
        """What is left to gain is below rounding: compute all anew, or move the centre as long as the gap falls, or end."""
        if not self.fresh:
            self.refresh()
            self.measure()
            return False
        if self.softness == 0 or self.sums.moved <= 0 or not (self.gap < self.tried_gap or self.may_stiffen()):
            return self.conclude(EXHAUSTED)
        self.tried_gap = self.gap
        self.move_centre()
        self.measure()
        return self.conclude_if_proved() if self.is_nearly_solved() else False

    cdef bint is_nearly_solved(self) noexcept nogil:
        """Whether the gap is worth a proof. Margins brought to 1 may make a point good enough that is not yet."""
        return self.gap <= max(self.tol, LEAST_GAP) * (NEARLY if self.solved else 1.0) * self.primal

    cdef double find_direction(self) noexcept nogil:
        """Newton's step, from a system with the Hessian; the slope of the objective along it."""
        cdef int64_t j, d = self.d
        cdef double g_b = self.stiffness * self.b - self.sums.balance if self.bias else 0.0, slope
        self.update_products()
        if not self.solve_system(g_b):
            # The products may have lost their digits by samples that left. Else the Hessian is singular by rounding.
            memset(self.inside, 0, self.m)
            self.update_products()
            if not self.solve_system(g_b):
                for j in range(d + 1):
                    self.step[j] = -(self.w[j] - self.v[j] if j < d else g_b) / self.hessian_diagonal(j)
        slope = g_b * self.step[d]
        for j in range(d):
            slope += (self.w[j] - self.v[j]) * self.step[j]
        return slope

    cdef double hessian_diagonal(self, int64_t j) noexcept nogil:
        cdef double held = self.products[j * (self.d + 2)] / (self.softness + self.smooth)
        if j < self.d:
            return 1.0 + held
        if not self.bias:
            return 1.0
        # Where no sample is between its bounds nothing holds a free bias: let it move by one margin at most.
        return self.stiffness + ((1.0 + 1e-9) * held if held > 0 else max(self.total_u, 1e-300))

    cdef bint solve_system(self, double g_b) noexcept nogil:
        """Solve for the step; whether the Hessian was positive definite. It is stored by rows, its lower half in use."""
        cdef int64_t i, j, D = self.d + 1
        cdef double factor = 1.0 / (self.softness + self.smooth)
        cdef int size = <int>D, one = 1, info = 0
        for i in range(D):
            for j in range(i):
                self.H[i * D + j] = factor * self.products[i * D + j]
            self.H[i * D + i] = self.hessian_diagonal(i)
        for j in range(self.d):
            self.step[j] = self.v[j] - self.w[j]
        self.step[self.d] = -g_b
        dposv("U", &size, &one, self.H, &size, self.step, &size, &info)
        self.operations += D * D * (D + 12) // 6
        if info != 0:
            return False
        for j in range(D):
            if not isfinite(self.step[j]):
                return False
        return True

    cdef void update_products(self) noexcept nogil:
        """Bring the products up to date: from one step to the next, few samples come between their bounds, or leave."""
        cdef int64_t i, entering, leaving, within
        flag_between(self.a, self.upper, self.m, self.now_inside)
        list_changes(
            self.now_inside, self.inside, self.m, self.entering, &entering, self.leaving, &leaving, &within
        )
        memcpy(self.inside, self.now_inside, self.m)
        if 2 * (entering + leaving) > within:
            memset(self.products, 0, (self.d + 1) * (self.d + 1) * sizeof(double))
            entering = leaving = 0
            for i in range(self.n):
                self.entering[entering] = i
                entering += self.inside[i]
        self.root_and_add(self.entering, entering, 1.0)
        self.root_and_add(self.leaving, leaving, -1.0)

    cdef void root_and_add(self, int64_t* rows, int64_t count, double sign) noexcept nogil:
        cdef int64_t k
        for k in range(count):
            self.roots[k] = sqrt(self.inverse_m(rows[k]))
        self.add_products(rows, count, sign)

    cdef void add_products(self, int64_t* rows, int64_t count, double sign) noexcept nogil:
        """products <- products + sign sum of (x_i, 1)(x_i, 1)^T, of rows times their roots."""
        cdef int64_t first = 0
        cdef int size = <int>(self.d + 1), block
        cdef double one = 1.0
        while first < count:
            block = <int>min(<int64_t>BLOCK, count - first)
            gather_rows(&self.X[0, 0], self.d, rows + first, self.roots + first, block, 1.0 if self.bias else 0.0, self.Z)
            dsyrk("U", "N", &size, &block, &sign, self.Z, &size, &one, self.products, &size)
            first += BLOCK
        self.operations += count * size * size // 2

    cdef double line_search(self, double first) noexcept nogil:
        """How far to go: where the slope along the step, which is `first` at 0 and rises piecewise linearly, is near zero.

        Secants in brackets, as in `newton.py`.
        """
        cdef double low = 0.0, high = INFINITY, t = 1.0, last = 0.0, before = first, value, rise
        cdef double start = first + dot_of(self.a, self.along, self.m), bend = self.stiffness * self.step[self.d] ** 2
        cdef int64_t j, trial
        for j in range(self.d):
            bend += self.step[j] * self.step[j]
        for trial in range(MOST_TRIALS):
            value = start + t * bend - pull_along(t, self.c, self.along, self.top, self.h, self.upper, self.m)
            self.operations += 4 * self.m
            if fabs(value) <= STEEPNESS * fabs(first):
                break
            if value < 0:
                low = t
            else:
                high = t
            rise = (value - before) / (t - last)
            last, before = t, value
            t = t - value / rise if rise > 0 else INFINITY
            if not low < t < high:
                t = 0.5 * (low + high) if high < INFINITY else 2.0 * low
            if t == last:  # no number lies between
                break
        return t

    cdef void reweigh(self, double t) noexcept nogil:
        """Go a share t of the step: margins, weights, their sums, and v."""
        cdef int64_t i
        self.find_weights(t)
        if self.sums.changed > FEW_CHANGES * self.m:
            self.sum_anew()
            return
        for i in range(self.n):
            if self.r[i] != 0.0:
                wide_axpy(self.r[i], &self.X[i, 0], self.v, self.d)
        self.operations += self.sums.changed * self.d

    cdef void find_weights(self, double t) noexcept nogil:
        """Margins and weights at a share t of the step, and their sums."""
        step_along(
            t, self.along, self.top, self.h, self.upper, self.q, self.centre, self.y, self.smooth,
            self.smooth and self.softness == 0, self.m, self.c, self.a, self.r, &self.sums,
        )
        self.operations += 8 * self.m

    cdef void sum_anew(self) noexcept nogil:
        """v from the weights."""
        cdef int64_t i
        for i in range(self.m):
            self.r[i] = self.a[i] * self.y[i]
        sum_of_rows(&self.by_feature[0, 0], self.m, self.d, self.r, self.v)
        self.operations += self.m * self.d

    cdef void refresh(self) noexcept nogil:
        """Margins, weights and v from w and b, as what is updated loses digits with every step."""
        signed_products(&self.by_feature[0, 0], self.m, self.d, self.w, self.b, self.y, self.c)
        self.operations += self.m * self.d
        self.find_weights(0.0)
        self.sum_anew()
        self.fresh = True

    cdef void measure(self) noexcept nogil:
        """The duality gap at the weights as they are, the objective, and whether the centre is to move."""
        cdef int64_t j
        cdef double difference = 0.0, square = 0.0, balance = self.sums.balance, off
        for j in range(self.d):
            off = self.w[j] - self.v[j]
            difference += off * off
            square += self.v[j] * self.v[j]
        self.gap = self.sums.gap + 0.5 * difference
        if self.free_bias:
            self.gap += fabs(self.b * balance)
        elif self.B > 0:
            self.gap += 0.5 * (self.b / self.B - self.B * balance) ** 2
        self.primal = self.gap + self.sums.total - 0.5 * (self.sums.curved + square + (self.B * balance) ** 2)
        if self.softness > 0:
            off = difference + (balance * balance if self.free_bias else 0.0)
            self.solved = off <= SOLVED * SOLVED * self.sums.moved * self.softness

    # The result

    cdef bint conclude(self, int64_t status) noexcept nogil:
        """Record the result with this status, unless the tolerance is reached."""
        self.certify()
        self.record(TOL if self.certificate.relative_gap() <= self.tol else status)
        return True

    cdef bint conclude_if_proved(self) noexcept nogil:
        """Record the result if the tolerance is reached, or if the gap is all rounding, or so small that it does not fall."""
        cdef double gap
        self.certify()
        gap = self.certificate.value - self.certificate.bound
        self.stalls += gap > 0.5 * self.best_gap
        self.best_gap = min(gap, self.best_gap)
        if self.certificate.relative_gap() <= self.tol:
            self.record(TOL)
        elif gap <= self.certificate.value_rounding + self.certificate.bound_rounding:
            self.record(EXHAUSTED)
        elif gap <= LEAST_GAP * self.certificate.value and self.stalls > MOST_STALLS:
            self.record(EXHAUSTED)
        else:
            if self.stretched:  # a centre would never move from there
                memcpy(self.w, self.kept_w, self.d * sizeof(double))
                self.b = self.kept_b
                self.refresh()
            self.measure()
            return False
        return True

    cdef void certify(self) noexcept nogil:
        """Certify w, b and the weights; w and b multiplied so that all margins are 1, if that is better."""
        self.refresh()
        self.certificate.evaluate(self.b)
        self.stretched = not self.smooth and self.stretch()
        if self.stretched:
            self.certificate.evaluate(self.b)
        self.operations += self.certificate.prove(self.sums.total, self.sums.balance)

    cdef bint stretch(self) noexcept nogil:
        """Multiply w and b by the number that brings all margins to 1, where that is better; whether it was."""
        cdef int64_t j
        cdef double factor = self.certificate.stretch_factor(self.b)
        if factor == 0.0:
            return False
        memcpy(self.kept_w, self.w, self.d * sizeof(double))
        self.kept_b = self.b
        for j in range(self.d):
            self.w[j] *= factor
        self.b *= factor
        self.refresh()
        return True

    cdef void record(self, int64_t status) noexcept nogil:
        """Write w, b, the dual point where it is asked for, and the row of the table."""
        cdef int64_t p = self.which[self.position]
        memcpy(&self.coef[p, 0], self.w, self.d * sizeof(double))
        if self.alpha_of_all.shape[0] > 0:
            memcpy(&self.alpha_of_all[p, 0], self.p, self.n * sizeof(double))
        self.certificate.record(self.b, self.slack[p], &self.table[p, 0])
        self.table[p, 7] = self.iterations
        self.table[p, 10] = status


cdef inline double at_least_1(double softness) noexcept nogil:
    """The softness of the squared hinge: 0 below 1, where the loss itself is smoother than that."""
    return softness if softness >= 1.0 else 0.0
