# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rows and columns of any matrix, and the ledger of what was read. See `rows.hpp` for the reading itself."""

from contextlib import contextmanager
from copy import copy
from functools import partial
from threading import Lock

import numpy as np
import scipy.sparse as sp

from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t

from maxmargin.core.kinds cimport Index, Real
from maxmargin.core import rounding
from maxmargin.core.threads import run_parallel

cdef int64_t PARTS = 4  # parts that large products are split into, so at most this many threads read a matrix
cdef int64_t ENTRIES_PER_PART = 500_000  # entries per part below which a product is not split: threads start too slowly


cdef extern from "rows.hpp" namespace "maxmargin" nogil:
    cdef cppclass Strided[T](Lines):
        Strided(const T* data, int64_t count, int64_t width, int64_t line_stride, int64_t entry_stride, Reads* reads)

    cdef cppclass Compressed[T, I](Lines):
        Compressed(const T* data, const I* indices, const I* indptr, int64_t count, int64_t width, Reads* reads)


cdef class Ledger:
    """An exact count of the entries of a matrix that were read.

    `entries_read` counts each stored entry (a non-zero of a sparse matrix, any entry of a dense one) each time it is
    read; `dense_count` is the count of the same reads if zeros were stored too. Both count reading for learning.
    Of a kernel matrix, an entry is read when it is computed: both count kernel evaluations.
    Reading for any other purpose is counted by its name in `purposes`.
    """

    def __cinit__(self):
        self.reads.entries_read = 0
        self.reads.dense_count = 0
        self.purposes = {}

    @property
    def entries_read(self):
        return self.reads.entries_read

    @property
    def dense_count(self):
        return self.reads.dense_count

    @contextmanager
    def on(self, str purpose):
        """Count what is read inside the `with` block under `purpose`, not under learning."""
        cdef int64_t entries_read = self.reads.entries_read, dense_count = self.reads.dense_count
        try:
            yield self
        finally:
            self.book(purpose, self.reads.entries_read - entries_read, self.reads.dense_count - dense_count)
            self.reads.entries_read, self.reads.dense_count = entries_read, dense_count

    def book(self, str purpose, int64_t entries_read, int64_t dense_count):
        """Add to the count of a purpose."""
        before = self.purposes.get(purpose, (0, 0))
        self.purposes[purpose] = (before[0] + entries_read, before[1] + dense_count)

    def count(self, int64_t entries):
        """Add entries that were read other than through a Matrix."""
        self.reads.entries_read += entries
        self.reads.dense_count += entries

    def add(self, Ledger other):
        """Add the counts of another ledger."""
        self.reads.entries_read += other.reads.entries_read
        self.reads.dense_count += other.reads.dense_count
        for purpose, counts in other.purposes.items():
            self.book(purpose, *counts)

    def summary(self):
        """Entries read by purpose; for learning also by the dense count."""
        apart = {purpose: entries_read for purpose, (entries_read, _) in self.purposes.items()}
        return {"learning": self.entries_read, "learning, dense count": self.dense_count, **apart}

    def __repr__(self):
        apart = "".join(f", {name}: {entries_read:,}" for name, (entries_read, _) in self.purposes.items())
        return f"Ledger(entries read: {self.entries_read:,}, dense count: {self.dense_count:,}{apart})"


cdef Lines* strided_lines(const Real[:, :] X, Reads* reads) except NULL:
    cdef const Real* data = &X[0, 0] if X.shape[0] and X.shape[1] else NULL
    cdef int64_t line = X.strides[0] // <int64_t>sizeof(Real), entry = X.strides[1] // <int64_t>sizeof(Real)
    return new Strided[Real](data, X.shape[0], X.shape[1], line, entry, reads)


cdef Lines* compressed_lines(
    const Real[::1] data, const Index[::1] indices, const Index[::1] indptr, int64_t width, Reads* reads
) except NULL:
    cdef const Real* values = &data[0] if data.shape[0] else NULL
    cdef const Index* where = &indices[0] if indices.shape[0] else NULL
    return new Compressed[Real, Index](values, where, &indptr[0], indptr.shape[0] - 1, width, reads)


cdef Lines* lines_of(object source, int64_t width, Reads* reads) except NULL:
    """The lines of a dense array, or of the major axis of a compressed matrix."""
    if not sp.issparse(source):
        if source.dtype == np.float32:
            return strided_lines[float](source, reads)
        return strided_lines[double](source, reads)
    if source.dtype == np.float32:
        if source.indices.dtype == np.int32:
            return compressed_lines[float, int32_t](source.data, source.indices, source.indptr, width, reads)
        return compressed_lines[float, int64_t](source.data, source.indices, source.indptr, width, reads)
    if source.indices.dtype == np.int32:
        return compressed_lines[double, int32_t](source.data, source.indices, source.indptr, width, reads)
    return compressed_lines[double, int64_t](source.data, source.indices, source.indptr, width, reads)


class OtherAxis:
    """A compressed matrix along its other axis, built at the first use and shared by all forks of a Matrix."""

    def __init__(self):
        self.lock = Lock()
        self.turned = None


cdef class Matrix:
    """Uniform access to a dense or sparse matrix; make one with :func:`maxmargin.data.as_matrix`.

    The source is never copied or converted. A CSR matrix has no columns (nor CSC rows): the first time they are
    asked for, an index of them is built, and counted in the ledger under "index".
    """

    # Properties that problems ask for, and that differ for a KernelMatrix.
    sums_are_cheap = True  # a sum over many rows costs one pass over the data

    def __cinit__(self, source, int64_t threads=1, other_axis=None):
        # A shallow copy keeps the arrays alive: many methods of SciPy replace the arrays of the caller's matrix.
        self.source = copy(source) if sp.issparse(source) else source
        self.other_axis = OtherAxis() if other_axis is None else other_axis
        self.ledger = Ledger()
        self.threads = threads
        self.shape = (int(source.shape[0]), int(source.shape[1]))
        self.rows = NULL
        self.columns = NULL
        if not sp.issparse(source):
            self.n_stored = self.shape[0] * self.shape[1]
            self.rows = lines_of(source, self.shape[1], &self.ledger.reads)
            self.columns = lines_of(source.T, self.shape[0], &self.ledger.reads)
            self.by_rows = abs(source.strides[0]) >= abs(source.strides[1])
        else:
            self.n_stored = int(source.indptr[source.indptr.shape[0] - 1])
            self.by_rows = source.format == "csr"
            if self.by_rows:
                self.rows = lines_of(source, self.shape[1], &self.ledger.reads)
            else:
                self.columns = lines_of(source, self.shape[0], &self.ledger.reads)

    def __dealloc__(self):
        del self.rows
        del self.columns

    @property
    def dtype(self):
        return self.source.dtype

    @property
    def has_columns(self):
        """Whether columns can be read without building an index."""
        return self.columns != NULL

    def fork(self):
        """The same matrix with a ledger of its own, so that another thread can read it; the index is shared."""
        return Matrix(self.source, self.threads, self.other_axis)

    def side_by_side(self, tasks):
        """The results of all tasks on this matrix, in order, computed in up to `threads` threads."""
        if self.threads == 1 or len(tasks) == 1:
            return [task(self) for task in tasks]
        forks = [self.fork() for _ in tasks]
        answers = run_parallel([partial(task, fork) for task, fork in zip(tasks, forks)], self.threads)
        for fork in forks:
            self.ledger.add(fork.ledger)
        return answers

    def in_parts(self, task, int64_t count, int64_t entries):
        """The results of task(matrix, part) for parts of range(count), in order.

        The number of parts depends on the number of entries to read, never on the number of threads, so that sums over
        the parts are the same to the bit.
        """
        cdef int64_t parts = PARTS if entries >= PARTS * ENTRIES_PER_PART else 1
        return self.side_by_side(
            [partial(task, part=slice(count * k // parts, count * (k + 1) // parts)) for k in range(parts)]
        )

    cdef object turn_over(self):
        """The compressed matrix along its other axis, which reads every entry once."""
        with self.other_axis.lock:
            if self.other_axis.turned is None:
                self.other_axis.turned = self.source.tocsc() if self.by_rows else self.source.tocsr()
                self.ledger.book("index", self.n_stored, self.shape[0] * self.shape[1])
        return self.other_axis.turned

    cdef Lines* need_rows(self) except NULL:
        if self.rows == NULL:
            self.rows = lines_of(self.turn_over(), self.shape[1], &self.ledger.reads)
        return self.rows

    cdef Lines* need_columns(self) except NULL:
        if self.columns == NULL:
            self.columns = lines_of(self.turn_over(), self.shape[0], &self.ledger.reads)
        return self.columns

    # What a problem asks of any rows, see `maxmargin.core.types.Rows`

    def products_are_inner(self, *points):
        """Whether products of rows are inner products: those of numbers always are."""
        return True

    def dot_cost(self, w):
        """How many entries `dot` reads for the products of w with all rows, beyond a pass over the data."""
        return 0

    def dot_rounding(self, w, norms):
        """How far each product of a row with w can be from the exact one; norms() gives the norms of the rows."""
        return rounding.of_products(self.shape[1], w, norms())

    def square_rounding(self, p, v, norms, scale):
        """How much larger the exact square of v, the sum of p_i x_i / scale, can be than the computed one."""
        return rounding.of_square(v, float(np.abs(p) @ norms()), scale, self.shape[0])

    # One line

    def row(self, int64_t i):
        """The stored entries of row i: their columns and their values."""
        return read_line(self.need_rows(), checked(i, self.shape[0], "row"))

    def column(self, int64_t j):
        """The stored entries of column j: their rows and their values."""
        return read_line(self.need_columns(), checked(j, self.shape[1], "column"))

    def entry(self, int64_t i, int64_t j):
        """The entry at row i and column j."""
        checked(i, self.shape[0], "row")
        checked(j, self.shape[1], "column")
        if self.by_rows:
            return self.rows.entry(i, j)
        return self.columns.entry(j, i)

    def dot_row(self, int64_t i, const double[::1] w):
        """<row i, w>."""
        fits(w.shape[0], self.shape[1], "w")
        return self.need_rows().dot(checked(i, self.shape[0], "row"), at(w))

    def add_row(self, int64_t i, double factor, double[::1] w):
        """w <- w + factor * row i, in place."""
        fits(w.shape[0], self.shape[1], "w")
        self.need_rows().axpy(checked(i, self.shape[0], "row"), factor, &w[0] if w.shape[0] else NULL)

    def dot_column(self, int64_t j, const double[::1] p):
        """<column j, p>."""
        fits(p.shape[0], self.shape[0], "p")
        return self.need_columns().dot(checked(j, self.shape[1], "column"), at(p))

    def add_column(self, int64_t j, double factor, double[::1] p):
        """p <- p + factor * column j, in place."""
        fits(p.shape[0], self.shape[0], "p")
        self.need_columns().axpy(checked(j, self.shape[1], "column"), factor, &p[0] if p.shape[0] else NULL)

    # Blocks of rows

    def dot(self, w, rows=None):
        """X[rows] @ w, for a vector w or for each column of a matrix w; `rows` is a list of rows, None all of them."""
        vectors = np.asarray(w, dtype=np.float64)
        if vectors.ndim not in (1, 2):
            raise ValueError(f"w has shape {vectors.shape}; expected ({self.shape[1]},) or ({self.shape[1]}, k)")
        fits(vectors.shape[0], self.shape[1], "w")
        if vectors.ndim == 2:
            products = [self.dot(np.ascontiguousarray(column), rows) for column in vectors.T]
            return np.stack(products, axis=1) if products else np.zeros((count_of(rows, self.shape[0]), 0))
        vector, out = np.ascontiguousarray(vectors), np.zeros(count_of(rows, self.shape[0]))
        numbers = listed(rows, self.shape[0])

        def rows_of(Matrix X, part):
            product(X, vector, out[part], None if numbers is None else numbers[part], part.start)

        if numbers is None and not self.by_rows:
            return product_by_columns(self, vector, out)
        self.in_parts(rows_of, out.size, self.entries_of(out.size))
        return out

    def dot_transposed(self, p, rows=None):
        """X[rows].T @ p; `rows` is a list of rows, None all of them."""
        vector = np.ascontiguousarray(p, dtype=np.float64)
        count = count_of(rows, self.shape[0])
        if vector.ndim != 1:
            raise ValueError(f"p has shape {vector.shape}; expected ({count},)")
        fits(vector.shape[0], count, "p")
        numbers = listed(rows, self.shape[0])
        if numbers is None and not self.by_rows:
            return transposed_product_by_columns(self, vector, np.zeros(self.shape[1]))

        def rows_of(Matrix X, part):
            own = None if numbers is None else numbers[part]
            return transposed_product(X, vector[part], np.zeros(self.shape[1]), own, part.start)

        # Each part has a sum of its own, whose cost counts against splitting.
        total, *others = self.in_parts(rows_of, count, self.entries_of(count) - 32 * self.shape[1])
        for other in others:
            total += other
        return total

    def dense(self, rows):
        """X[rows] as a dense array of float64: for a few rows."""
        return dense_rows(self, listed(rows, self.shape[0]), np.zeros((len(rows), self.shape[1])))

    def row_sizes(self):
        """The number of stored entries of each row, from the structure, which the ledger does not count."""
        cdef Lines* lines = self.need_rows()
        cdef int64_t i
        cdef int64_t[::1] out = np.empty(self.shape[0], dtype=np.int64)
        for i in range(out.shape[0]):
            out[i] = lines.size(i)
        return np.asarray(out)

    def row_sq_norms(self):
        """|row i|^2 for every i."""
        out = np.zeros(self.shape[0])

        def rows_of(Matrix X, part):
            square_norms(X.rows, out[part], part.start)

        if self.by_rows:
            self.in_parts(rows_of, out.size, self.n_stored)
        else:
            add_squares(self.columns, out)
        return out

    def sq_distances(self, x):
        """|row i - x|^2 for every i; for dense rows without cancellation, however far they are from zero."""
        vector = np.ascontiguousarray(x, dtype=np.float64)
        fits(vector.shape[0], self.shape[1], "x")
        square, whole = float(vector @ vector), self.n_stored == self.shape[0] * self.shape[1]
        out = np.full(self.shape[0], 0.0 if whole else square)

        def rows_of(Matrix X, part):
            square_distances(X.rows, vector, square, out[part], part.start)

        if self.by_rows:
            self.in_parts(rows_of, out.size, self.n_stored)
        else:
            add_square_distances(self.columns, vector, whole, out)
        return out

    cdef int64_t entries_of(self, int64_t rows):
        """The mean number of stored entries of that many rows."""
        return self.n_stored * rows // max(1, self.shape[0])

    def first_not_finite(self):
        """Row and column of a NaN or infinite entry, or None."""
        cdef Lines* lines = self.rows if self.by_rows else self.columns
        cdef int64_t i, k, size
        cdef int64_t[::1] where = np.empty(longest(lines), dtype=np.int64)
        cdef double[::1] value = np.empty(where.shape[0])
        for i in range(lines.count):
            size = lines.read(i, &where[0] if where.shape[0] else NULL, &value[0] if value.shape[0] else NULL)
            for k in range(size):
                if not isfinite(value[k]):
                    return (i, where[k]) if self.by_rows else (where[k], i)
        return None


cdef const double* at(const double[::1] v) noexcept:
    return &v[0] if v.shape[0] else NULL


cdef int64_t checked(int64_t i, int64_t count, str name) except -1:
    if not 0 <= i < count:
        raise IndexError(f"{name} {i} asked for, but the matrix has {name}s 0 to {count - 1}")
    return i


cdef int64_t count_of(rows, int64_t count):
    return count if rows is None else len(rows)


cdef object listed(rows, int64_t count):
    """The indices of the rows asked for, checked; None for all rows."""
    if rows is None:
        return None
    numbers = np.ascontiguousarray(rows, dtype=np.int64)
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < count:
        raise IndexError(f"rows {numbers.min()} to {numbers.max()} asked for, but the matrix has {count} rows")
    return numbers


cdef int fits(int64_t given, int64_t expected, str name) except -1:
    if given != expected:
        raise ValueError(f"{name} has {given} entries where the matrix needs {expected}")
    return 0


cdef object read_line(Lines* lines, int64_t i):
    cdef int64_t[::1] where = np.empty(lines.size(i), dtype=np.int64)
    cdef double[::1] value = np.empty(lines.size(i))
    # An empty line is read too, as the dense count of the ledger includes its zeros.
    lines.read(i, &where[0] if where.shape[0] else NULL, &value[0] if value.shape[0] else NULL)
    return np.asarray(where), np.asarray(value)


cdef int product(Matrix X, const double[::1] w, double[::1] out, const int64_t[::1] rows, int64_t first) except -1:
    """out <- X[rows] @ w; where no rows are listed, those from `first` on."""
    cdef int64_t i
    if out.shape[0] == 0 or w.shape[0] == 0:
        return 0
    X.need_rows()
    with nogil:
        for i in range(out.shape[0]):
            out[i] = X.rows.dot(first + i if rows is None else rows[i], &w[0])
    return 0


cdef object product_by_columns(Matrix X, const double[::1] w, double[::1] out):
    cdef int64_t j
    if out.shape[0]:
        with nogil:
            for j in range(w.shape[0]):
                X.columns.axpy(j, w[j], &out[0])
    return np.asarray(out)


cdef object transposed_product(
    Matrix X, const double[::1] p, double[::1] out, const int64_t[::1] rows, int64_t first
):
    """X[rows].T @ p; where no rows are listed, those from `first` on."""
    cdef int64_t i
    if p.shape[0] and out.shape[0]:
        X.need_rows()
        with nogil:
            for i in range(p.shape[0]):
                # A row of weight zero need not be read.
                if p[i] != 0.0:
                    X.rows.axpy(first + i if rows is None else rows[i], p[i], &out[0])
    return np.asarray(out)


cdef object transposed_product_by_columns(Matrix X, const double[::1] p, double[::1] out):
    cdef int64_t j
    if p.shape[0]:
        with nogil:
            for j in range(out.shape[0]):
                out[j] = X.columns.dot(j, &p[0])
    return np.asarray(out)


cdef object dense_rows(Matrix X, const int64_t[::1] rows, double[:, ::1] out):
    cdef int64_t i
    if out.shape[0] == 0 or out.shape[1] == 0:
        return np.asarray(out)
    X.need_rows()
    with nogil:
        for i in range(rows.shape[0]):
            X.rows.axpy(rows[i], 1.0, &out[i, 0])
    return np.asarray(out)


cdef int square_norms(Lines* rows, double[::1] out, int64_t first) except -1:
    cdef int64_t i
    with nogil:
        for i in range(out.shape[0]):
            out[i] = rows.sq_norm(first + i)
    return 0


cdef int square_distances(Lines* rows, const double[::1] x, double square, double[::1] out, int64_t first) except -1:
    cdef int64_t i
    with nogil:
        for i in range(out.shape[0]):
            out[i] = rows.sq_distance(first + i, &x[0], square)
    return 0


cdef int add_square_distances(Lines* columns, const double[::1] x, bint whole, double[::1] out) except -1:
    """The squared distances from columns. If not all entries are stored, `out` begins with |x|^2 in every place."""
    cdef int64_t j, k, size
    cdef int64_t[::1] where = np.empty(max(longest(columns), 1), dtype=np.int64)
    cdef double[::1] value = np.empty(where.shape[0])
    with nogil:
        for j in range(columns.count):
            size = columns.read(j, &where[0], &value[0])
            for k in range(size):
                if whole:
                    out[where[k]] += (value[k] - x[j]) * (value[k] - x[j])
                else:
                    out[where[k]] += value[k] * (value[k] - 2.0 * x[j])
    return 0


cdef int add_squares(Lines* columns, double[::1] out) except -1:
    """The squared norms of rows from columns: each entry adds to the norm of its row."""
    cdef int64_t j, k, size
    cdef int64_t[::1] where = np.empty(max(longest(columns), 1), dtype=np.int64)
    cdef double[::1] value = np.empty(where.shape[0])
    with nogil:
        for j in range(columns.count):
            size = columns.read(j, &where[0], &value[0])
            for k in range(size):
                out[where[k]] += value[k] * value[k]
    return 0
