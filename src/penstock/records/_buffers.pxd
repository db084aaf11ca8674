"""Arrow buffers that grow: one cursor per column, and the classes that own the memory.

`put_number` and `put_bytes` check no bounds and need no interpreter lock. The caller reserves the memory first.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy


cdef struct NumberCursor:
    int64_t* data
    uint8_t* bits  # the validity bitmap; every bit starts set, and only nulls are written
    Py_ssize_t null_count


cdef struct BytesCursor:
    int32_t* offsets
    uint8_t* data
    Py_ssize_t used
    uint8_t* bits
    Py_ssize_t null_count


cdef inline void put_number(NumberCursor* cursor, Py_ssize_t row, int64_t value, bint is_valid) noexcept nogil:
    cursor.data[row] = value
    if not is_valid:
        clear_bit(cursor.bits, row)
        cursor.null_count += 1


cdef inline void put_bytes(BytesCursor* cursor, Py_ssize_t row, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """`data` is NULL for a null."""
    if data is not NULL:
        memcpy(cursor.data + cursor.used, data, size)
        cursor.used += size
    else:
        clear_bit(cursor.bits, row)
        cursor.null_count += 1
    cursor.offsets[row + 1] = <int32_t>cursor.used


cdef inline void clear_bit(uint8_t* bits, Py_ssize_t index) noexcept nogil:
    bits[index >> 3] &= <uint8_t>~(1 << (index & 7))


cdef class GrowingBuffer:
    cdef object allocate
    cdef object holder
    cdef uint8_t* data
    cdef Py_ssize_t size

    cdef int reserve(self, Py_ssize_t wanted) except -1
    cdef int resize(self, Py_ssize_t size) except -1
    cdef object take(self, Py_ssize_t used)


cdef class ValidityBitmap:
    cdef GrowingBuffer memory

    cdef uint8_t* reserve(self, Py_ssize_t count) except NULL
    cdef object take(self, Py_ssize_t count)


cdef class NumberBuffers:
    cdef NumberCursor cursor
    cdef GrowingBuffer data
    cdef ValidityBitmap bits

    cdef int reserve(self, Py_ssize_t rows) except -1
    cdef object take(self, Py_ssize_t rows)


cdef class BytesBuffers:
    cdef BytesCursor cursor
    cdef GrowingBuffer offsets
    cdef GrowingBuffer data
    cdef ValidityBitmap bits

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1
    cdef object take(self, Py_ssize_t rows)
