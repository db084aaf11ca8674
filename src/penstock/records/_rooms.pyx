# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The memory of columns: it grows while rows are counted up, and is handed over without a copy.

Where large pieces come from is the caller's choice. Memory that is new to the process costs three times what decoding
into it does, one page fault after another, so columns for Arrow are made in Arrow's own pool, which keeps pages and
takes large ones (bench "consume into Arrow"). Memory moves when it grows: a pointer is good until the next `reserve`.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_CheckExact, PyByteArray_Resize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memset

from penstock.records.column_twin import BytesColumn, NumberColumn
from penstock.records.errors import TooLarge


cdef class Memory:
    """Bytes in a row, in what `allocate` gives (it has `resize`, and is writable), or in a bytearray."""

    def __cinit__(self, allocate=None):
        self.allocate = allocate

    cdef int reserve(self, Py_ssize_t wanted) except -1:
        """At least so many bytes; those that are new have any content."""
        if wanted > self.size:
            self.resize(max(wanted, 2 * self.size))
        return 0

    cdef int resize(self, Py_ssize_t size) except -1:
        cdef Py_buffer buffer
        if self.holder is None:
            self.holder = bytearray() if self.allocate is None else self.allocate(size)
        if PyByteArray_CheckExact(self.holder):
            PyByteArray_Resize(self.holder, size)
            self.data = <uint8_t*>PyByteArray_AS_STRING(self.holder)
        else:
            if len(self.holder) != size:
                self.holder.resize(size, size < self.size)
            PyObject_GetBuffer(self.holder, &buffer, PyBUF_WRITABLE)
            self.data = <uint8_t*>buffer.buf
            PyBuffer_Release(&buffer)
        self.size = size
        return 0

    cdef object take(self, Py_ssize_t used):
        """What was written, which is the caller's from now on; the next memory is new."""
        if self.holder is None or self.size != used:
            self.resize(used)
        holder, self.holder = self.holder, None
        self.data = NULL
        self.size = 0
        return holder


cdef class Bits:
    """One bit for each row; set unless somebody clears it."""

    def __cinit__(self):
        self.memory = Memory()

    cdef uint8_t* reserve(self, Py_ssize_t count) except NULL:
        cdef Py_ssize_t before = self.memory.size
        self.memory.reserve(count // 8 + 1)
        memset(self.memory.data + before, 0xFF, self.memory.size - before)
        return self.memory.data

    cdef object take(self, Py_ssize_t count):
        if count & 7:
            self.memory.data[count >> 3] &= (1 << (count & 7)) - 1
        return self.memory.take((count + 7) // 8)


cdef class Numbers:
    def __cinit__(self, allocate=None):
        self.data = Memory(allocate)
        self.bits = Bits()

    cdef int reserve(self, Py_ssize_t rows) except -1:
        """Room for so many rows, with those that are there."""
        self.data.reserve(rows * 8)
        self.room.data = <int64_t*>self.data.data
        self.room.bits = self.bits.reserve(rows)
        return 0

    cdef object take(self, Py_ssize_t rows):
        column = NumberColumn(self.data.take(rows * 8), self.bits.take(rows), self.room.null_count)
        self.room.null_count = 0
        return column


cdef class Bytes:
    def __cinit__(self, allocate=None):
        self.offsets = Memory(allocate)
        self.data = Memory(allocate)
        self.bits = Bits()

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        """Room for so many rows, with those that are there, and for `size` bytes more."""
        if self.room.used + size > INT32_MAX:
            raise TooLarge(f"a column would pass {INT32_MAX} bytes")
        self.offsets.reserve((rows + 1) * 4)
        self.data.reserve(self.room.used + size)
        self.room.offsets = <int32_t*>self.offsets.data
        self.room.offsets[0] = 0
        self.room.data = self.data.data
        self.room.bits = self.bits.reserve(rows)
        return 0

    cdef object take(self, Py_ssize_t rows):
        self.reserve(rows, 0)  # a column without rows has a first offset, too
        column = BytesColumn(
            self.offsets.take((rows + 1) * 4), self.data.take(self.room.used), self.bits.take(rows), self.room.null_count
        )
        self.room.used = self.room.null_count = 0
        return column
