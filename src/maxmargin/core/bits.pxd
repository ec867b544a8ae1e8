# Random numbers from a NumPy bit generator, for loops without the GIL.
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport uint32_t, uint64_t


# The layout that NumPy documents for compiled users of its generators.
cdef struct BitGenerator:
    void* state
    uint64_t (*next_uint64)(void* state) noexcept nogil
    uint32_t (*next_uint32)(void* state) noexcept nogil
    double (*next_double)(void* state) noexcept nogil
    uint64_t (*next_raw)(void* state) noexcept nogil


cdef inline BitGenerator* bits_of(rng) except NULL:
    """The bits behind a np.random.Generator, which must outlive them."""
    return <BitGenerator*>PyCapsule_GetPointer(rng.bit_generator.capsule, "BitGenerator")


cdef inline double uniform(BitGenerator* bits) noexcept nogil:
    """A number in [0, 1)."""
    return bits.next_double(bits.state)
