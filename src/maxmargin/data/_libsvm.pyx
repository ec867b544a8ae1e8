# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A parser of LIBSVM lines, a block at a time, into arrays that are large enough.

It does not explain errors: `libsvm.py` reads a line that does not parse again, slowly, and says what is wrong with it.
"""

from libc.math cimport isfinite, ldexp
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libcpp.algorithm cimport adjacent_find, sort
from libcpp.vector cimport vector

from maxmargin.core.kinds cimport Index, Real

ctypedef const unsigned char* Text

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, void* error_if_too_large) except? -1.0

cdef enum Outcome:
    BLANK, ROW, LOW, HIGH, BAD


cdef class Progress:
    """The state of a parser between two blocks: counts of lines, rows and entries, and the largest index so far.

    `first` and `last` are the least and largest accepted index, as written in the file. `ordered` is false once the
    indices of a row were not ascending. `stopped` says why the last call of `parse` returned early: "" (it did not),
    "low" or "high" (an index below `first`; above `last`, or too large for the array), "bad" (anything else).
    """

    cdef public int64_t first, last
    cdef readonly int64_t lines, rows, entries, highest
    cdef readonly bint ordered
    cdef readonly str stopped

    def __init__(self, int64_t first, int64_t last):
        self.first, self.last = first, last
        self.highest = -1
        self.ordered = True
        self.stopped = ""

    def forget_rows(self):
        """Begin again at the start of the arrays, which were emptied."""
        self.rows = self.entries = 0


def parse(
    const unsigned char[::1] block, Py_ssize_t start, Progress progress,
    double[::1] labels, int64_t[::1] ends, Index[::1] indices, Real[::1] values,
):
    """Parse whole lines, each ending in a newline; return where the first bad line starts, or the end of the block.

    Row r goes to labels[r], and its entries end before ends[r]. The arrays must have room for all rows and entries of
    the block: a row has at least two characters, an entry at least four.
    """
    cdef Text text = &block[0], line = text + start, stop = text + block.shape[0]
    cdef Outcome outcome = BLANK
    with nogil:
        while line < stop:
            outcome = parse_line(&line, progress, &labels[0], &indices[0], &values[0])
            if outcome > ROW:
                break
            if outcome == ROW:
                ends[progress.rows] = progress.entries
                progress.rows += 1
            progress.lines += 1
    progress.stopped = {LOW: "low", HIGH: "high", BAD: "bad"}.get(outcome, "")
    return line - text


cdef inline Outcome parse_line(Text* line, Progress progress, double* labels, Index* indices, Real* values) noexcept nogil:
    """Parse one line, `label [qid:n] index:value ... [# comment]`; if it is valid, move `line` to the next one."""
    cdef Text p = skip_blanks(line[0])
    cdef Text digits
    cdef int64_t begin = progress.entries, k = begin, index, previous = -1
    cdef int64_t first = progress.first, last = progress.last, highest = progress.highest
    cdef double value
    cdef bint ordered = True
    cdef Outcome outcome = BLANK
    if Index is int32_t:
        last = min(last, <int64_t>0x7FFFFFFF)
    if p[0] != c"\n" and p[0] != c"#":
        outcome = ROW
        p = parse_number(p, &labels[progress.rows])
        if p == NULL or not ends_token(p[0]):
            return BAD
        p = skip_query(skip_blanks(p))
        while p[0] != c"\n" and p[0] != c"#":
            digits = p
            index = 0
            while is_digit(p[0]) and p - digits < 18:
                index = index * 10 + (p[0] - c"0")
                p += 1
            if p == digits or p[0] != c":":
                return BAD
            p = parse_number(p + 1, &value)
            if p == NULL or not ends_token(p[0]):
                return BAD
            if index < first:
                return LOW
            if index > last:
                return HIGH
            if index <= previous:
                ordered = False
            highest = max(highest, index)
            previous = index
            indices[k] = <Index>index
            values[k] = <Real>value
            if Real is float and not isfinite(values[k]):
                return BAD
            k += 1
            p = skip_blanks(p)
        if not ordered and has_repeats(indices + begin, k - begin):
            return BAD
        progress.entries, progress.highest = k, highest
        progress.ordered &= ordered
    while p[0] != c"\n":
        p += 1
    line[0] = p + 1
    return outcome


cdef inline Text skip_blanks(Text p) noexcept nogil:
    while p[0] == c" " or c"\t" <= p[0] <= c"\r" and p[0] != c"\n":
        p += 1
    return p


cdef inline Text skip_query(Text p) noexcept nogil:
    """The position after `qid:` and a number, if there is one here."""
    cdef Text q = p + 4
    if p[0] != c"q" or p[1] != c"i" or p[2] != c"d" or p[3] != c":" or not is_digit(q[0]):
        return p
    while is_digit(q[0]):
        q += 1
    return skip_blanks(q) if ends_token(q[0]) else p


cdef inline bint is_digit(unsigned char c) noexcept nogil:
    return c"0" <= c <= c"9"


cdef inline bint ends_token(unsigned char c) noexcept nogil:
    return c == c" " or c"\t" <= c <= c"\r" or c == c"#"


cdef bint has_repeats(const Index* indices, int64_t size) noexcept nogil:
    cdef vector[Index] ascending
    ascending.assign(indices, indices + size)
    sort(ascending.begin(), ascending.end())
    return adjacent_find(ascending.begin(), ascending.end()) != ascending.end()


# Numbers. A decimal number is m * 10^e with whole m. There are three ways to the nearest double, from fast to slow:
# if m and 10^|e| are doubles, one operation, which rounds once; m times the 128 bits of 10^e in a table, unless the
# bits beyond these could change the rounding; and Python's own conversion.

cdef enum:
    LARGEST = 80    # the table holds the powers of ten from -LARGEST to LARGEST
    EXACT = 22      # 10^22 is the last power of ten that is a double

cdef double[EXACT + 1] exact_power
cdef uint64_t[2 * LARGEST + 1] power_high
cdef uint64_t[2 * LARGEST + 1] power_low
cdef int[2 * LARGEST + 1] power_shift


def _fill_tables():
    """10^e = (power_high * 2^64 + power_low + rest) * 2^power_shift, with 0 <= rest < 1 and the top bit set."""
    for e in range(EXACT + 1):
        exact_power[e] = 10.0 ** e
    for e in range(-LARGEST, LARGEST + 1):
        shift = (10 ** e if e >= 0 else 1).bit_length() - (10 ** -e if e < 0 else 1).bit_length() - 128
        bits = scaled(e, shift)
        if bits >> 128:
            shift += 1
            bits = scaled(e, shift)
        power_high[e + LARGEST] = bits >> 64
        power_low[e + LARGEST] = bits & 0xFFFFFFFFFFFFFFFF
        power_shift[e + LARGEST] = shift


cdef scaled(e, shift):
    """floor(10^e / 2^shift)"""
    above = 10 ** max(e, 0) << max(-shift, 0)
    below = 10 ** max(-e, 0) << max(shift, 0)
    return above // below


_fill_tables()


cdef inline Text parse_number(Text start, double* value) noexcept nogil:
    """Read a finite number; return the place after it, or NULL if there is none."""
    cdef Text p = start
    cdef Text digits
    cdef uint64_t mantissa = 0
    cdef int64_t count, exponent = 0, power = 0
    cdef bint negative = p[0] == c"-", negative_power
    if p[0] == c"-" or p[0] == c"+":
        p += 1
    digits = p
    while is_digit(p[0]):
        mantissa = mantissa * 10 + (p[0] - c"0")
        p += 1
    count = p - digits
    if p[0] == c".":
        p += 1
        digits = p
        while is_digit(p[0]):
            mantissa = mantissa * 10 + (p[0] - c"0")
            p += 1
        exponent = digits - p
        count -= exponent
    if count == 0:
        return NULL
    if p[0] == c"e" or p[0] == c"E":
        p += 1
        negative_power = p[0] == c"-"
        if p[0] == c"-" or p[0] == c"+":
            p += 1
        if not is_digit(p[0]):
            return NULL
        while is_digit(p[0]):
            if power < 100000:
                power = power * 10 + (p[0] - c"0")
            p += 1
        exponent += -power if negative_power else power
    if count > 19:
        count -= leading_zeros(start)
    if count <= 19 and mantissa <= <uint64_t>1 << 53 and -EXACT <= exponent <= EXACT:
        value[0] = mantissa / exact_power[-exponent] if exponent < 0 else mantissa * exact_power[exponent]
    elif count > 19 or not from_table(mantissa, exponent, value):
        value[0] = from_python(start)
        return p if isfinite(value[0]) else NULL
    if negative:
        value[0] = -value[0]
    return p


cdef int64_t leading_zeros(Text p) noexcept nogil:
    cdef int64_t zeros = 0
    while p[0] == c"0" or p[0] == c"." or p[0] == c"-" or p[0] == c"+":
        zeros += p[0] == c"0"
        p += 1
    return zeros


cdef bint from_table(uint64_t mantissa, int64_t exponent, double* value) noexcept nogil:
    """Set value to the double nearest to mantissa * 10^exponent; return False if the table cannot decide it."""
    cdef int64_t row = exponent + LARGEST
    cdef uint64_t high, middle, low, unused, rest
    cdef int shift = 0, spare
    if mantissa == 0 or not 0 <= row <= 2 * LARGEST:
        return False
    while not mantissa >> 63:
        mantissa <<= 1
        shift += 1
    # high and low are the upper 128 of the 192 bits of mantissa * power. The exact product is larger by less than 2
    # units of low: the bits below low are less than one unit, and so is the rest of the table's power (less than 1)
    # times the mantissa (less than 2^64).
    low = multiply(mantissa, power_high[row], &high)
    unused = multiply(mantissa, power_low[row], &middle)
    low += middle
    high += low < middle
    # The upper 53 bits are the double; the rest of high, and low, say whether to round up.
    spare = 11 if high >> 63 else 10
    rest = high & ((<uint64_t>1 << spare) - 1)
    if low >= <uint64_t>-2:
        return False
    if rest == <uint64_t>1 << (spare - 1) and low == 0:
        return False
    high = (high >> spare) + (rest >> (spare - 1))
    # ldexp is exact: the table's powers, times 64 bits, stay far from the ends of the range of double.
    value[0] = ldexp(<double>high, power_shift[row] + 128 - shift + spare)
    return True


cdef inline uint64_t multiply(uint64_t a, uint64_t b, uint64_t* high) noexcept nogil:
    """The 128 bits of a * b: the upper half into `high`, the lower half returned."""
    cdef uint64_t a0 = <uint32_t>a, a1 = a >> 32, b0 = <uint32_t>b, b1 = b >> 32
    cdef uint64_t cross = (a0 * b0 >> 32) + <uint32_t>(a1 * b0) + a0 * b1
    high[0] = a1 * b1 + (a1 * b0 >> 32) + (cross >> 32)
    return a * b


cdef double from_python(Text start) noexcept with gil:
    cdef char* end = NULL
    try:
        return PyOS_string_to_double(<const char*>start, &end, NULL)
    except ValueError:
        return float("nan")
