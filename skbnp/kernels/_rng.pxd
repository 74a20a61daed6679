"""Random numbers of NumPy's bit generators."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t

from numpy.random cimport bitgen_t


cdef inline bitgen_t* borrow(object bit_generator) except NULL:
    """The generator's functions and state; hold its lock while they are in use."""
    return <bitgen_t*>PyCapsule_GetPointer(bit_generator.capsule, "BitGenerator")


cdef inline double uniform(bitgen_t* rng) noexcept nogil:
    """A number of [0, 1)."""
    return rng.next_double(rng.state)


cdef inline int64_t below(int64_t n, bitgen_t* rng) noexcept nogil:
    """An integer of [0, n), without bias: a product of 53 random bits, n < 2^31."""
    return <int64_t>(uniform(rng) * <double>n)
