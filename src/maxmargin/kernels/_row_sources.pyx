# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Where compiled solvers get rows of a kernel matrix from, without the GIL: a matrix that is there as a whole, or samples."""

from libc.math cimport tanh
from libc.stdint cimport int64_t
from libc.string cimport memcpy

cdef extern from "dense_rows.hpp" namespace "maxmargin" nogil:
    const int64_t block_samples
    void products_with_blocks(
        const double* x, const double* blocks, int64_t d, int64_t n_blocks, double factor, double shift_x,
        const double* shift, double* out,
    )

cdef extern from "exponential.hpp" namespace "maxmargin" nogil:
    void exp_of_negative(double* values, int64_t size)

SAMPLES_PER_BLOCK = block_samples


cdef class RowSource:
    """Gives parts of rows of a kernel matrix."""

    cdef const double* pointer(self, int64_t sample) noexcept nogil:
        """The row of a sample, if it lies in memory as a whole; otherwise NULL."""
        return NULL

    cdef void fill(self, int64_t sample, int64_t first, int64_t size, double* out) noexcept nogil:
        """out <- the kernels of a sample with the samples from `first` on."""


cdef class WholeMatrix(RowSource):
    """A kernel matrix that was computed as a whole.

    Parameters
    ----------
    K : array of shape (n, n)
    """

    cdef const double[:, ::1] K

    def __init__(self, K):
        self.K = K

    cdef const double* pointer(self, int64_t sample) noexcept nogil:
        return &self.K[sample, 0]

    cdef void fill(self, int64_t sample, int64_t first, int64_t size, double* out) noexcept nogil:
        memcpy(out, &self.K[sample, first], size * sizeof(double))


cdef class DenseSamples(RowSource):
    """Dense samples, from which the kernels of a row are computed: function(factor <x, z> + shift_x + shift_z).

    Parameters
    ----------
    samples : array of shape (n, d)
        Sample by sample.
    blocks : array of shape (n / SAMPLES_PER_BLOCK, d, SAMPLES_PER_BLOCK)
        The same samples in blocks, feature by feature.
    factor : float
    shift : array of shape (n,)
    function : {"exp", "identity", "power", "tanh"}
    degree : int
        The exponent of "power".
    """

    def __init__(self, samples, blocks, double factor, shift, str function, int64_t degree=1):
        self.samples, self.blocks, self.factor, self.shift = samples, blocks, factor, shift
        self.exponential, self.hyperbolic = function == "exp", function == "tanh"
        self.degree = degree if function == "power" else 1

    cdef void fill(self, int64_t sample, int64_t first, int64_t size, double* out) noexcept nogil:
        self.kernels(&self.samples[sample, 0], self.shift[sample], first, size, out)

    cdef void kernels(self, const double* x, double shift_x, int64_t first, int64_t size, double* out) noexcept nogil:
        """out <- the kernels of any sample x with the samples from `first` on."""
        cdef int64_t j, k
        cdef double value
        products_with_blocks(
            x, &self.blocks[first // block_samples, 0, 0], self.samples.shape[1], size // block_samples, self.factor,
            shift_x, &self.shift[first], out,
        )
        if self.exponential:
            exp_of_negative(out, size)
        elif self.hyperbolic:
            for j in range(size):
                out[j] = tanh(out[j])
        elif self.degree != 1:
            for j in range(size):
                value = 1.0
                for k in range(self.degree):
                    value = value * out[j]
                out[j] = value
