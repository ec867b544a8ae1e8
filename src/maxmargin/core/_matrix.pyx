# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rows and columns of any matrix, and the ledger of what was read. See `rows.hpp` for the reading itself."""

from contextlib import contextmanager, nullcontext
from copy import copy
from functools import partial
from threading import Lock, get_ident

import numpy as np
import scipy.sparse as sp

from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t

from maxmargin.core.kinds cimport Index, Real
from maxmargin.core import rounding
from maxmargin.core.block_cache import READERS, BlockCache
from maxmargin.core.selected_rows import SelectedRows, last_of_parts
from maxmargin.core.source import remembers
from maxmargin.core.threads import run_parallel

cdef int64_t PARTS = 4  # parts that large products are split into, so at most this many threads read a matrix
cdef int64_t ENTRIES_PER_PART = 500_000  # entries per part below which a product is not split: threads start too slowly
cdef int64_t BLOCKS_AHEAD = 2  # blocks of a source that are read ahead: one is being read while another waits to be used


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

    Of data that lies elsewhere, `chunks_fetched` and `bytes_fetched` count what was fetched, for whatever purpose, and
    `failure` is the error that reading met inside compiled code, where none can be raised: `raise_failure` does that.
    If entries have prices, `cost` is what was paid for them, for whatever purpose; otherwise it is `entries_read`.
    """

    def __cinit__(self):
        self.purposes = {}
        self.chunks_fetched = self.bytes_fetched = 0
        self.failure = None

    @property
    def entries_read(self):
        return self.reads.entries_read

    @property
    def dense_count(self):
        return self.reads.dense_count

    @property
    def cost(self):
        return self.reads.paid if self.reads.priced else self.reads.entries_read

    @property
    def priced(self):
        """Whether entries have prices."""
        return self.reads.priced

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

    def count_fetched(self, int64_t chunks, int64_t bytes_):
        """Add chunks of a store that were fetched, and their bytes."""
        self.chunks_fetched += chunks
        self.bytes_fetched += bytes_

    def add(self, Ledger other):
        """Add the counts of another ledger, and take over its failure."""
        self.reads.entries_read += other.reads.entries_read
        self.reads.dense_count += other.reads.dense_count
        self.reads.paid += other.reads.paid
        self.count_fetched(other.chunks_fetched, other.bytes_fetched)
        self.failure = self.failure or other.failure
        for purpose, counts in other.purposes.items():
            self.book(purpose, *counts)

    def raise_failure(self):
        """Raise the error that reading met, if it did."""
        if self.failure is not None:
            raise self.failure

    def summary(self):
        """Entries read by purpose, for learning also by the dense count; what was fetched and paid, where anything was."""
        apart = {purpose: entries_read for purpose, (entries_read, _) in self.purposes.items()}
        if self.chunks_fetched:
            apart.update({"chunks fetched": self.chunks_fetched, "bytes fetched": self.bytes_fetched})
        if self.reads.priced:
            apart["cost"] = self.cost
        return {"learning": self.entries_read, "learning, dense count": self.dense_count, **apart}

    def kept(self):
        """All counts, for a checkpoint."""
        counts = {"entries_read": self.entries_read, "dense_count": self.dense_count, "purposes": dict(self.purposes)}
        return {**counts, "paid": self.reads.paid, "fetched": (self.chunks_fetched, self.bytes_fetched)}

    def take(self, kept):
        """Set the counts of reads to those of a checkpoint, and add to what was fetched and paid since."""
        self.reads.entries_read, self.reads.dense_count = kept["entries_read"], kept["dense_count"]
        self.purposes = dict(kept["purposes"])
        self.reads.paid += kept["paid"]
        self.count_fetched(*kept["fetched"])

    def __repr__(self):
        apart = "".join(f", {name}: {count:,}" for name, count in list(self.summary().items())[2:])
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


class Shared:
    """What all forks of a Matrix share.

    Attributes
    ----------
    turned : CSR or CSC matrix or None
        A compressed matrix along its other axis, built at the first use.
    cache : BlockCache or None
        The blocks of a source that are in memory.
    """

    def __init__(self, cache=None):
        self.lock = Lock()
        self.turned = None
        self.cache = cache


cdef class BlockReader:
    """The rows, or the columns, of a source for one thread at a time, with one block at hand."""

    def __cinit__(self, blocks, int64_t width, cache, Ledger ledger, bint of_rows):
        self.blocks, self.cache, self.ledger, self.width, self.of_rows = blocks, cache, ledger, width, of_rows
        self.starts, self.sizes, self.prices = blocks.starts, blocks.sizes, blocks.prices
        self.last = -1
        ledger.reads.priced = self.prices is not None
        cdef const int64_t* sizes = NULL
        cdef const double* prices = NULL
        if self.sizes is not None:
            sizes = &self.sizes[0]
        if self.prices is not None:
            prices = &self.prices[0]
        self.all_lines = new Blocked(
            &self.starts[0], self.starts.shape[0] - 1, width, sizes, prices, fetch, <void*>self, &ledger.reads
        )

    def __dealloc__(self):
        del self.lines
        del self.all_lines

    cdef const Lines* fetch(self, int64_t block) except NULL:
        """Have a block at hand, in place of the last one of this thread."""
        cdef double before = self.price(block)
        self.release()
        thread = get_ident(), id(self.blocks)
        other = self.cache.at_hand.get(thread)
        if other is not None:
            other.release()
        try:
            self.hold = self.cache.take(self.blocks, block, self.upcoming(block))
        finally:
            self.ledger.reads.paid += before - self.price(block)
            self.ledger.count_fetched(*self.cache.take_fetched())
        self.thread, self.last = thread, block
        self.cache.at_hand[thread] = self
        if self.cache.is_new(self.blocks, block):
            self.refuse_not_finite(block)
        self.lines = lines_of(self.hold.lines, self.width, &self.ledger.reads)
        return self.lines

    cdef int refuse_not_finite(self, int64_t block) except -1:
        """Raise an error if an entry of the block at hand is NaN or infinite: data that lies elsewhere is not read twice."""
        lines = self.hold.lines
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite((lines.data if sp.issparse(lines) else lines).sum()):
                return 0
        place = Matrix(lines).first_not_finite()
        if place is not None:
            line, entry = self.starts[block] + place[0], place[1]
            raise not_finite_at(*((line, entry) if self.of_rows else (entry, line)), Matrix(lines).entry(*place))
        return 0

    cdef double price(self, int64_t block):
        """What reading the lines of a block now would cost, if they have prices."""
        if self.prices is None:
            return 0.0
        return float(np.sum(self.prices[self.starts[block] : self.starts[block + 1]]))

    cpdef object release(self):
        """Put the block at hand back, so that the cache may remove it."""
        if self.hold is not None:
            if self.cache.at_hand.get(self.thread) is self:
                del self.cache.at_hand[self.thread]
            self.all_lines.forget()
            del self.lines
            self.lines = NULL
            self.hold = None

    cdef object upcoming(self, int64_t block):
        """The blocks to read ahead: those announced, or the next ones of all, if the last ones were read in that order."""
        if self.ahead is not None and self.before.get(block, -2) in (-1, self.last):
            return self.ahead[block]
        if block != self.last + 1:
            return ()
        return range(block + 1, min(block + 1 + BLOCKS_AHEAD, self.starts.shape[0] - 1))

    cdef int group(self, int64_t[::1] order, int64_t count, next_lines=None) except -1:
        """Sort lines by their blocks, see `Matrix.group`, and announce the order of the blocks."""
        lines = np.asarray(order[:count])
        block = self.blocks_of(lines)
        blocks, first, inverse = np.unique(block, return_index=True, return_inverse=True)
        turn = np.empty(blocks.size, dtype=np.int64)
        turn[np.argsort(first)] = np.arange(blocks.size)
        lines[:] = lines[np.argsort(turn[inverse], kind="stable")]
        announced = blocks[np.argsort(first)].tolist()
        self.before = dict(zip(announced, [-1, *announced]))
        # If those at hand are in memory already, as they are read again and again, there is time to read others.
        after = announced[1:] if next_lines is None else list(dict.fromkeys(self.blocks_of(next_lines).tolist()))
        step = 1 if next_lines is None else BLOCKS_AHEAD
        self.ahead = {block: after[step * k : step * k + BLOCKS_AHEAD] for k, block in enumerate(announced)}
        return 0

    cpdef object blocks_of(self, lines):
        """The block of each line."""
        return np.searchsorted(self.starts, lines, side="right") - 1


cdef const Lines* fetch(void* reader, int64_t block) noexcept with gil:
    """Called by compiled code that runs without the GIL. After a failure nothing more is read."""
    cdef BlockReader own = <BlockReader>reader
    if own.ledger.failure is None:
        try:
            return own.fetch(block)
        except BaseException as error:
            own.ledger.failure = error
    return NULL


cdef class Matrix:
    """Uniform access to a matrix, dense or sparse, in memory or elsewhere; make one with :func:`maxmargin.data.as_matrix`.

    The source is never copied or converted. If it lies elsewhere (see `core/source.py`), it is read in blocks, of which a
    cache keeps some. A CSR matrix has no columns (nor CSC rows): the first time they are
    asked for, an index of them is built, and counted in the ledger under "index".
    """

    # Properties that problems ask for, and that differ for a KernelMatrix.
    sums_are_cheap = True  # a sum over many rows costs one pass over the data

    def __cinit__(self, source, int64_t threads=1, shared=None, ledger=None):
        # A shallow copy keeps the arrays alive: many methods of SciPy replace the arrays of the caller's matrix.
        self.source = copy(source) if sp.issparse(source) else source
        self.elsewhere = not (sp.issparse(source) or isinstance(source, np.ndarray))
        self.shared = shared or Shared(BlockCache(source.cache_size) if self.elsewhere else None)
        self.ledger = ledger or Ledger()
        self.threads = min(threads, READERS) if self.elsewhere else threads
        self.shape = (int(source.shape[0]), int(source.shape[1]))
        self.rows = NULL
        self.columns = NULL
        if self.elsewhere:
            self.n_stored, self.by_rows = source.n_stored, True
            self.row_reader = BlockReader(source.rows, self.shape[1], self.shared.cache, self.ledger, True)
            self.rows = self.row_reader.all_lines
        elif not sp.issparse(source):
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
        if not self.elsewhere:
            del self.rows
            del self.columns

    @property
    def dtype(self):
        return self.source.dtype

    @property
    def checks_entries(self):
        """Whether entries are found to be finite when they are first read, as those of data that lies elsewhere are."""
        return self.elsewhere

    @property
    def sparse(self):
        """Whether rows are stored without their zeros."""
        return sp.issparse(self.source) or (self.elsewhere and self.source.rows.sizes is not None)

    @property
    def has_columns(self):
        """Whether columns can be read without building an index."""
        return self.columns != NULL or (self.elsewhere and not self.sparse)

    def fork(self):
        """The same matrix with a ledger of its own, so that another thread can read it; index and cache are shared."""
        return Matrix(self.source, self.threads, self.shared)

    @property
    def cache_size(self):
        """The number of bytes of blocks that may be kept in memory; None where all of the matrix is there."""
        return self.shared.cache.cache_size if self.elsewhere else None

    @property
    def feature_names(self):
        """The names of the columns of a source that has some; else None."""
        return getattr(self.source, "feature_names", None) if self.elsewhere else None

    def leave_room(self, nbytes):
        """A context in which so many bytes of blocks less are kept, for arrays of another use of that memory."""
        return self.shared.cache.leave_room(nbytes) if self.elsewhere else nullcontext()

    def release(self):
        """Let the blocks of a source that this thread has read last be removed from memory."""
        for reader in (self.row_reader, self.column_reader):
            if reader is not None:
                reader.release()

    cdef int group(self, int64_t[::1] order, int64_t count, next_rows=None) except -1:
        """Sort the first `count` rows of `order` so that those in one block of a source follow each other.

        Blocks come in the order in which the first of their rows stood, and the rows of a block in their order: of rows
        in a random order, both are random. Rows in memory stay as they are. If `next_rows` are given, the blocks of
        `order` are in memory already, and while they are read, those of the next rows are read ahead.
        """
        return self.row_reader.group(order, count, next_rows) if self.elsewhere else 0

    @property
    def exceeds_cache(self):
        """Whether the rows lie in a store that does not fit in the cache, so that some are fetched again in each pass."""
        if not self.elsewhere or self.source.rows.prices is not None:
            return False
        blocks = self.source.rows
        return sum(map(blocks.nbytes, range(blocks.starts.size - 1))) > self.source.cache_size

    def batches(self, rows, double share):
        """Where the batches of rows end, of which each takes at most `share` of the cache, or is one block.

        The rows are those of a store, grouped by their blocks.
        """
        blocks = self.row_reader.blocks_of(rows)
        ends = np.append(np.flatnonzero(np.diff(blocks)) + 1, rows.size)
        sizes = [self.source.rows.nbytes(block) for block in blocks[ends - 1].tolist()]
        return ends[last_of_parts(sizes, share * self.source.cache_size)]

    def copies(self, rows, double share):
        """Some rows of a store as a matrix of its own, whose rows are copied into the cache when they are first read.

        None if they take more than `share` of the cache. Reads are counted by the ledger of this matrix.
        """
        source = SelectedRows(self.source, self.shared.cache, rows)
        if source.nbytes_of_all > share * self.source.cache_size:
            return None
        return Matrix(source, 1, self.shared, self.ledger)

    def signature(self):
        """What tells this matrix from others, see `maxmargin.engine.signature`."""
        return {"dtype": str(self.dtype), "n_stored": self.n_stored, "entries": self.source}

    def kept(self):
        """For a checkpoint, whether there is an index of the other axis, and what a source remembers."""
        remembered = self.source.kept() if remembers(self.source) else None
        return {"rows": self.rows != NULL, "columns": self.columns != NULL, "source": remembered}

    def take(self, kept):
        """Let the source remember what it did, and build the index again if there was one."""
        if kept["source"] is not None:
            self.release()
            self.shared.cache.forget()  # blocks that are read anew are paid for, as they were then
            self.source.take(kept["source"])
        if kept["rows"]:
            self.need_rows()
        if kept["columns"]:
            self.need_columns()

    def side_by_side(self, tasks):
        """The results of all tasks on this matrix, in order, computed in up to `threads` threads."""
        if self.threads == 1 or len(tasks) == 1:
            answers = [task(self) for task in tasks]
            self.ledger.raise_failure()
            return answers
        forks = [self.fork() for _ in tasks]
        answers = run_parallel([partial(run_and_release, task, fork) for task, fork in zip(tasks, forks)], self.threads)
        for fork in forks:
            self.ledger.add(fork.ledger)
        self.ledger.raise_failure()
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
        with self.shared.lock:
            if self.shared.turned is None:
                self.shared.turned = self.source.tocsc() if self.by_rows else self.source.tocsr()
                self.ledger.book("index", self.n_stored, self.shape[0] * self.shape[1])
        return self.shared.turned

    cdef Lines* need_rows(self) except NULL:
        if self.rows == NULL:
            self.rows = lines_of(self.turn_over(), self.shape[1], &self.ledger.reads)
        return self.rows

    cdef Lines* need_columns(self) except NULL:
        if self.columns == NULL and self.elsewhere:
            self.column_reader = BlockReader(self.source.columns, self.shape[0], self.shared.cache, self.ledger, False)
            self.columns = self.column_reader.all_lines
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

    cdef object read(self, answer):
        """The answer, unless reading for it failed."""
        self.ledger.raise_failure()
        return answer

    # One line

    def row(self, int64_t i):
        """The stored entries of row i: their columns and their values."""
        return self.read(read_line(self.need_rows(), checked(i, self.shape[0], "row")))

    def column(self, int64_t j):
        """The stored entries of column j: their rows and their values."""
        return self.read(read_line(self.need_columns(), checked(j, self.shape[1], "column")))

    def entry(self, int64_t i, int64_t j):
        """The entry at row i and column j."""
        checked(i, self.shape[0], "row")
        checked(j, self.shape[1], "column")
        return self.read(self.rows.entry(i, j) if self.by_rows else self.columns.entry(j, i))

    def dot_row(self, int64_t i, const double[::1] w):
        """<row i, w>."""
        fits(w.shape[0], self.shape[1], "w")
        return self.read(self.need_rows().dot(checked(i, self.shape[0], "row"), at(w)))

    def add_row(self, int64_t i, double factor, double[::1] w):
        """w <- w + factor * row i, in place."""
        fits(w.shape[0], self.shape[1], "w")
        self.need_rows().axpy(checked(i, self.shape[0], "row"), factor, &w[0] if w.shape[0] else NULL)
        self.ledger.raise_failure()

    def dot_column(self, int64_t j, const double[::1] p):
        """<column j, p>."""
        fits(p.shape[0], self.shape[0], "p")
        return self.read(self.need_columns().dot(checked(j, self.shape[1], "column"), at(p)))

    def add_column(self, int64_t j, double factor, double[::1] p):
        """p <- p + factor * column j, in place."""
        fits(p.shape[0], self.shape[0], "p")
        self.need_columns().axpy(checked(j, self.shape[1], "column"), factor, &p[0] if p.shape[0] else NULL)
        self.ledger.raise_failure()

    # Blocks of rows

    def __getitem__(self, rows):
        """Some rows in memory, a slice of them or a list, as they are stored: an array or a sparse matrix.

        Several threads may ask for rows at the same time. Entries are not counted, as they are not read here.
        """
        if not self.elsewhere:
            return self.source[rows]
        numbers = np.arange(*rows.indices(self.shape[0])) if isinstance(rows, slice) else listed(rows, self.shape[0])
        try:
            return self.shared.cache.gather(self.source.rows, numbers, self.shape[1], self.dtype)
        finally:
            self.ledger.count_fetched(*self.shared.cache.take_fetched())

    def blocks(self):
        """All rows in memory, a block at a time, as they are stored: the first row and the rows, not to be changed."""
        if not self.elsewhere:
            yield 0, self.source
            return
        rows, cache = self.source.rows, self.shared.cache
        last = rows.starts.size - 1
        for block in range(last):
            hold = cache.take(rows, block, range(block + 1, min(block + 1 + BLOCKS_AHEAD, last)))
            self.ledger.count_fetched(*cache.take_fetched())
            yield int(rows.starts[block]), hold.lines

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

    def sum_rows(self, p, rows):
        """The sum of p_i times row i over a list of rows, one after the other: its bits depend on nothing else."""
        numbers = listed(rows, self.shape[0])
        vector = np.ascontiguousarray(p, dtype=np.float64)
        fits(vector.shape[0], numbers.shape[0], "p")
        return self.read(transposed_product(self, vector, np.zeros(self.shape[1]), numbers, 0))

    def dense(self, rows):
        """X[rows] as a dense array of float64: for a few rows."""
        return self.read(dense_rows(self, listed(rows, self.shape[0]), np.zeros((len(rows), self.shape[1]))))

    def row_sizes(self, rows=None):
        """The number of stored entries of each row, or of some, from the structure, which the ledger does not count."""
        cdef Lines* lines = self.need_rows()
        cdef int64_t i
        cdef const int64_t[::1] numbers = listed(rows, self.shape[0])
        cdef int64_t[::1] out = np.empty(count_of(rows, self.shape[0]), dtype=np.int64)
        for i in range(out.shape[0]):
            out[i] = lines.size(i if numbers is None else numbers[i])
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
        return self.read(None)


def not_finite_at(row, column, value):
    """The error for an entry that is NaN or infinite."""
    what = "NaN" if np.isnan(value) else "infinity (inf)"
    return ValueError(
        f"X contains {what} at row {row}, column {column}; every entry must be finite. "
        "Remove or impute such entries first, for instance with sklearn.impute.SimpleImputer."
    )


def run_and_release(task, Matrix X):
    """The result of a task on a fork, which holds no block of a source afterwards."""
    try:
        return task(X)
    finally:
        X.release()


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
