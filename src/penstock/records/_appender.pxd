"""The declarations of `_appender` for the intake."""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t


cdef uint32_t murmur2_of(const uint8_t* data, Py_ssize_t size) noexcept nogil


cdef class ProducerBatch:
    cdef object buffer
    cdef uint8_t* start
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity
    cdef int32_t count
    cdef int64_t base_timestamp
    cdef int64_t max_timestamp
    cdef object sealed
    cdef int attributes
    cdef list parts
    cdef object gate
    cdef list callbacks
    cdef object record_errors
    cdef readonly object topic
    cdef readonly int32_t partition
    cdef readonly object waiting
    cdef readonly bint is_done
    cdef readonly object error
    cdef readonly int64_t base_offset
    cdef readonly int64_t append_time_ms
    cdef readonly int32_t awaited_count
    cdef public int64_t created_ms
    cdef public int64_t charged_bytes
    cdef public int32_t attempts
    cdef public int64_t producer_id
    cdef public int16_t producer_epoch
    cdef public int32_t base_sequence

    cdef int open(self, Py_ssize_t capacity, object buffer) except -1
    cdef inline Py_ssize_t record_size(
        self, int64_t timestamp, Py_ssize_t key_size, bint has_key, Py_ssize_t value_size, bint has_value,
        Py_ssize_t header_count, Py_ssize_t headers_bytes
    ) noexcept
    cdef uint8_t* begin_record(
        self, Py_ssize_t size, int64_t timestamp, const char* key, Py_ssize_t key_size, const char* value,
        Py_ssize_t value_size, Py_ssize_t limit
    ) except NULL
    cdef void end_record(self, uint8_t* at) noexcept
    cdef int put(
        self, Py_ssize_t size, int64_t timestamp, const char* key, Py_ssize_t key_size, const char* value,
        Py_ssize_t value_size, list headers, Py_ssize_t limit
    ) except -1
    cdef int finish(self) except -1
    cdef object take_buffer(self)
    cdef int open_gate(self) except -1


@cython.final
cdef class Receipt:
    cdef ProducerBatch batch
    cdef int32_t index
    cdef int64_t timestamp
    cdef bint is_awaited

    cpdef settle(self)
    cdef int mark_awaited(self) except -1
    cdef int wait(self, timeout) except -1
    cdef object failure(self)
    cdef object delivery(self)
