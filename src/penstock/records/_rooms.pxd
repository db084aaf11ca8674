"""Columns that are being written: where their next value goes, and the memory behind them.

`put_number` and `put_bytes` write without asking and without the interpreter; whoever calls them has reserved room.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy


cdef struct NumberRoom:
    int64_t* data
    uint8_t* bits  # one for each row, all set in advance: only what is null is written
    Py_ssize_t null_count


cdef struct BytesRoom:
    int32_t* offsets
    uint8_t* data
    Py_ssize_t used
    uint8_t* bits
    Py_ssize_t null_count


cdef inline void put_number(NumberRoom* room, Py_ssize_t row, int64_t value, bint is_valid) noexcept nogil:
    room.data[row] = value
    if not is_valid:
        clear_bit(room.bits, row)
        room.null_count += 1


cdef inline void put_bytes(BytesRoom* room, Py_ssize_t row, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """`data` is NULL for a null."""
    if data is not NULL:
        memcpy(room.data + room.used, data, size)
        room.used += size
    else:
        clear_bit(room.bits, row)
        room.null_count += 1
    room.offsets[row + 1] = <int32_t>room.used


cdef inline void clear_bit(uint8_t* bits, Py_ssize_t index) noexcept nogil:
    bits[index >> 3] &= <uint8_t>~(1 << (index & 7))


cdef class Memory:
    cdef object allocate
    cdef object holder
    cdef uint8_t* data
    cdef Py_ssize_t size

    cdef int reserve(self, Py_ssize_t wanted) except -1
    cdef int resize(self, Py_ssize_t size) except -1
    cdef object take(self, Py_ssize_t used)


cdef class Bits:
    cdef Memory memory

    cdef uint8_t* reserve(self, Py_ssize_t count) except NULL
    cdef object take(self, Py_ssize_t count)


cdef class Numbers:
    cdef NumberRoom room
    cdef Memory data
    cdef Bits bits

    cdef int reserve(self, Py_ssize_t rows) except -1
    cdef object take(self, Py_ssize_t rows)


cdef class Bytes:
    cdef BytesRoom room
    cdef Memory offsets
    cdef Memory data
    cdef Bits bits

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1
    cdef object take(self, Py_ssize_t rows)
