"""The declarations of `_kernel` for other compiled modules: the checksum, and the reader of a batch."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from penstock.records._record cimport RawRecord


cdef const uint8_t* header_at(Py_buffer* buffer, Py_ssize_t position) except NULL
cdef int64_t whole_size(const uint8_t* at, Py_buffer* buffer, Py_ssize_t position) except -1
cdef uint32_t checksum(const uint8_t* data, Py_ssize_t size) except? 0
cdef object make_headers(RawRecord* record, const uint8_t* end)


cdef class BatchReader:
    cdef Py_buffer buffer
    cdef bint is_held
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef int32_t index
    cdef int32_t count
    cdef Py_ssize_t position
    cdef int64_t base_offset
    cdef int64_t base_timestamp
    cdef int64_t append_time
    cdef bint is_append_time
    cdef RawRecord record

    cdef int take_decompressed(self, payload) except -1
    cdef bint step(self) except -1
    cdef int64_t offset(self) noexcept
    cdef int64_t timestamp(self) noexcept
