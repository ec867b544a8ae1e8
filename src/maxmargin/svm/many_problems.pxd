# cython: language_level=3
# Why a problem ended; the same numbers as in `many_problems.py`.
cdef enum:
    TOL = 0
    MAX_ITER = 1
    EXHAUSTED = 2
    UNFINISHED = 3
