# The kinds of numbers that data may be stored in.
from libc.stdint cimport int32_t, int64_t

ctypedef fused Real:
    float
    double

ctypedef fused Index:
    int32_t
    int64_t
