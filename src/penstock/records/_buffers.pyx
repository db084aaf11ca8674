# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Growing buffers for the columns that `_columns` builds, handed over to Arrow without a copy.

The caller chooses the allocator of large buffers. A page fault on fresh memory costs three times as much as decoding
into it, so columns for Arrow come from Arrow's own memory pool, which keeps its pages (bench "consume into Arrow").

Invariant: growing may move a buffer, so a pointer into one is valid only until the next `reserve`.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_CheckExact, PyByteArray_Resize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memset

from penstock.records.arrow_layout import BytesColumn, NumberColumn
from penstock.records.errors import TooLarge


cdef class GrowingBuffer:
    """One contiguous buffer: an object of `allocate`, which is writable and has `resize`, or else a bytearray."""

    def __cinit__(self, allocate=None):
        self.allocate = allocate

    cdef int reserve(self, Py_ssize_t wanted) except -1:
        """Grow to at least `wanted` bytes. New bytes are not initialised."""
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
        """Return the first `used` bytes; the next `reserve` allocates again."""
        if self.holder is None or self.size != used:
            self.resize(used)
        holder, self.holder = self.holder, None
        self.data = NULL
        self.size = 0
        return holder


cdef class ValidityBitmap:
    """One bit per row, lowest bit first. A bit is set unless it is cleared."""

    def __cinit__(self):
        self.memory = GrowingBuffer()

    cdef uint8_t* reserve(self, Py_ssize_t count) except NULL:
        cdef Py_ssize_t before = self.memory.size
        self.memory.reserve(count // 8 + 1)
        memset(self.memory.data + before, 0xFF, self.memory.size - before)
        return self.memory.data

    cdef object take(self, Py_ssize_t count):
        if count & 7:
            self.memory.data[count >> 3] &= (1 << (count & 7)) - 1
        return self.memory.take((count + 7) // 8)


cdef class NumberBuffers:
    def __cinit__(self, allocate=None):
        self.data = GrowingBuffer(allocate)
        self.bits = ValidityBitmap()

    cdef int reserve(self, Py_ssize_t rows) except -1:
        """Make space for `rows` rows in total."""
        self.data.reserve(rows * 8)
        self.cursor.data = <int64_t*>self.data.data
        self.cursor.bits = self.bits.reserve(rows)
        return 0

    cdef object take(self, Py_ssize_t rows):
        column = NumberColumn(self.data.take(rows * 8), self.bits.take(rows), self.cursor.null_count)
        self.cursor.null_count = 0
        return column


cdef class BytesBuffers:
    def __cinit__(self, allocate=None):
        self.offsets = GrowingBuffer(allocate)
        self.data = GrowingBuffer(allocate)
        self.bits = ValidityBitmap()

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        """Make space for `rows` rows in total and for `size` more bytes of data."""
        if self.cursor.used + size > INT32_MAX:
            raise TooLarge(f"a column would pass {INT32_MAX} bytes")
        self.offsets.reserve((rows + 1) * 4)
        self.data.reserve(self.cursor.used + size)
        self.cursor.offsets = <int32_t*>self.offsets.data
        self.cursor.offsets[0] = 0
        self.cursor.data = self.data.data
        self.cursor.bits = self.bits.reserve(rows)
        return 0

    cdef object take(self, Py_ssize_t rows):
        self.reserve(rows, 0)  # a column without rows still has a first offset
        column = BytesColumn(
            self.offsets.take((rows + 1) * 4), self.data.take(self.cursor.used), self.bits.take(rows), self.cursor.null_count
        )
        self.cursor.used = self.cursor.null_count = 0
        return column
