"""The declarations of `_columns` for `_fetched`, which fills them without a Python call per batch."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from penstock.records._record cimport RawRecord
from penstock.records._buffers cimport BytesBuffers, GrowingBuffer, NumberBuffers


cdef enum:
    RECORD_BYTES_MIN = 7  # no record is shorter, so a payload bounds the count of its records


# The position in a batch, and the fields of its header.
cdef struct Walk:
    const uint8_t* at
    const uint8_t* end
    int32_t index
    int32_t count
    uint64_t base_offset
    uint64_t base_timestamp
    int64_t append_time
    bint is_append_time
    int64_t first_offset
    int64_t end_offset


cdef inline Py_ssize_t records_max(int32_t count, Py_ssize_t payload_size) noexcept nogil:
    """How many records there can be if a header declares `count`."""
    return max(min(count, payload_size // RECORD_BYTES_MIN), 0)


cdef class ColumnBuilder:
    cdef readonly int header_format
    cdef readonly Py_ssize_t row_count
    cdef Py_ssize_t header_count
    cdef NumberBuffers offset
    cdef NumberBuffers timestamp
    cdef BytesBuffers key
    cdef BytesBuffers value
    cdef BytesBuffers raw_headers
    cdef GrowingBuffer header_offsets
    cdef BytesBuffers header_name
    cdef BytesBuffers header_value
    cdef list append_time_runs

    cdef int append_at(
        self,
        object view,
        Py_buffer* buffer,
        Py_ssize_t position,
        int64_t first_offset,
        int64_t end_offset,
        object limit_bytes,
    ) except -1
    cdef int append_records(self, Walk* walk, Py_ssize_t position) except -1
    cdef int note_append_time(self, Py_ssize_t first_row) except -1
    cdef int append_plain(self, Walk* walk, bint is_long) except -1
    cdef int append_record(self, Walk* walk, RawRecord* record) except -1
    cdef int append_headers(self, RawRecord* record, const uint8_t* end) except -1
    cdef int append_text(self, const uint8_t* name, Py_ssize_t size, int32_t left, Py_ssize_t left_size) except -1
    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1
